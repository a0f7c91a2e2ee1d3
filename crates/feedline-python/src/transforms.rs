//! Transforms on one image.

use feedline::apply::{Applied, DrawFrom, ImageOps, MixFrom, Moved};
use feedline::field::MemoryFormat;
use feedline::transform::{BatchTransform, Boxes};
use feedline::{DType, Transform};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;

/// Elements and dimensions.
type Made<'py> = (Bound<'py, PyBytes>, Vec<u64>);

/// Applies a list of transforms (JSON) to an image of red, green, blue bytes; also returns what was drawn. `origin` is
/// seed, epoch and sample.
#[pyfunction]
#[pyo3(signature = (transforms, pixels, size, origin, dtype, memory_format, boxes=None))]
#[expect(clippy::too_many_arguments, reason = "one call, of everything that Python says")]
pub(crate) fn apply<'py>(
    py: Python<'py>,
    transforms: &str,
    pixels: &[u8],
    size: (u32, u32),
    origin: (u64, u64, u64),
    dtype: &str,
    memory_format: &str,
    boxes: Option<(Vec<[f64; 4]>, String)>,
) -> PyResult<(Made<'py>, String)> {
    let transforms: Vec<Transform> = serde_json::from_str(transforms)
        .map_err(|e| feedline::Error::option("transforms", e.to_string()))
        .or_raise()?;
    let (dtype, format) = form(dtype, memory_format)?;
    let (seed, epoch, sample) = origin;
    let ops = ImageOps::new("apply", &transforms, (0, 0), dtype, format).or_raise()?;
    let from = DrawFrom { seed, epoch, sample };
    let boxes = boxes.map(|(boxes, rules)| Ok::<_, PyErr>((box_rules(&rules)?, boxes))).transpose()?;
    let among = boxes.as_ref().map(|(rules, boxes)| (rules, &boxes[..]));
    let (applied, params) = py.detach(|| ops.apply_among(pixels, size, from, among)).or_raise()?;
    Ok((made(py, &applied), params))
}

/// The parameters drawn for images of one size, as JSON, one text per sample. `origin` is seed and epoch.
#[pyfunction]
#[pyo3(signature = (transforms, size, origin, samples, view=0))]
pub(crate) fn draw_params(
    py: Python<'_>,
    transforms: &str,
    size: (u32, u32),
    origin: (u64, u64),
    samples: Vec<u64>,
    view: u64,
) -> PyResult<Vec<String>> {
    let transforms: Vec<Transform> = serde_json::from_str(transforms)
        .map_err(|e| feedline::Error::option("transforms", e.to_string()))
        .or_raise()?;
    let (dtype, format) = (DType::F32, MemoryFormat::ChannelsFirst);
    let ops = ImageOps::new("Augment", &transforms, (view, 0), dtype, format).or_raise()?;
    let (seed, epoch) = origin;
    let drawn = |sample: &u64| ops.drawn_params(size, DrawFrom { seed, epoch, sample: *sample });
    py.detach(|| samples.iter().map(drawn).collect::<feedline::Result<Vec<String>>>()).or_raise()
}

/// Dimensions of the result for an image of this size: channels, rows, columns.
#[pyfunction]
pub(crate) fn drawn_shape(transforms: &str, size: (u32, u32)) -> PyResult<Vec<u64>> {
    let transforms: Vec<Transform> = serde_json::from_str(transforms)
        .map_err(|e| feedline::Error::option("transforms", e.to_string()))
        .or_raise()?;
    let (dtype, format) = (DType::F32, MemoryFormat::ChannelsFirst);
    let ops = ImageOps::new("Augment", &transforms, (0, 0), dtype, format).or_raise()?;
    Ok(ops.draw(size.0, size.1, DrawFrom::default()).or_raise()?.shape())
}

/// Offsets of an elastic field along x, then along y: little-endian floats.
#[pyfunction]
pub(crate) fn elastic_field(
    py: Python<'_>,
    size: (u32, u32),
    alpha: (f32, f32),
    sigma: (f32, f32),
    seed: u64,
) -> PyResult<Bound<'_, PyBytes>> {
    let (x, y) = py.detach(|| feedline::apply::elastic_field(size, alpha, sigma, seed)).or_raise()?;
    let bytes: Vec<u8> = x.iter().chain(&y).flat_map(|offset| offset.to_le_bytes()).collect();
    Ok(PyBytes::new(py, &bytes))
}

/// What the operation at `place` of a list of batch transforms does to samples at these positions: the share of the
/// sample itself, and the box (left, top, width, height) of its partner. `origin` is seed and epoch.
#[pyfunction]
pub(crate) fn draw_mixed(
    op: &str,
    place: u64,
    size: (u32, u32),
    origin: (u64, u64),
    global_batch: u64,
    positions: Vec<u64>,
) -> PyResult<Vec<(f64, Option<[u32; 4]>)>> {
    let op: BatchTransform = serde_json::from_str(op)
        .map_err(|e| feedline::Error::option("batch_transforms", e.to_string()))
        .or_raise()?;
    let from = MixFrom { seed: origin.0, epoch: origin.1, global_batch, positions };
    let mixed = feedline::apply::draw_mixed(&op, place, &from, size).or_raise()?;
    Ok(mixed.into_iter().map(|mixed| (mixed.own, mixed.cut)).collect())
}

/// Repeats what an earlier run drew (JSON) on an image of the same size.
#[pyfunction]
pub(crate) fn replay<'py>(
    py: Python<'py>,
    params: &str,
    pixels: &[u8],
    size: (u32, u32),
    dtype: &str,
    memory_format: &str,
) -> PyResult<Made<'py>> {
    let (dtype, format) = form(dtype, memory_format)?;
    let applied = py.detach(|| feedline::apply::replay(params, pixels, size, dtype, format)).or_raise()?;
    Ok(made(py, &applied))
}

/// Applies what was drawn (JSON) for an image to its mask: numbers of `dtype`, row by row, become numbers of type `to`.
#[pyfunction]
pub(crate) fn move_mask<'py>(
    py: Python<'py>,
    params: &str,
    mask: &[u8],
    size: (u32, u32),
    dtypes: (&str, &str),
    fill: i64,
) -> PyResult<Made<'py>> {
    let named = |name: &str| serde_json::from_value::<DType>(name.into());
    let (Ok(from), Ok(to)) = (named(dtypes.0), named(dtypes.1)) else {
        return Err(feedline::Error::option("mask", format!("no mask of {}", dtypes.0))).or_raise();
    };
    let moved = Moved::new(params, size).or_raise()?;
    let applied = py.detach(|| moved.mask(mask, from, fill, to)).or_raise()?;
    Ok(made(py, &applied))
}

/// Applies what was drawn (JSON) for an image to its boxes; `rules` is JSON. Returns the remaining boxes and their
/// indices.
#[pyfunction]
pub(crate) fn move_boxes(
    params: &str,
    boxes: Vec<[f64; 4]>,
    size: (u32, u32),
    rules: &str,
) -> PyResult<(Vec<[f64; 4]>, Vec<usize>)> {
    let rules = box_rules(rules)?;
    Moved::new(params, size).and_then(|moved| moved.boxes(&rules, &boxes)).or_raise()
}

/// Applies what was drawn (JSON) for an image to points of `each` numbers.
#[pyfunction]
pub(crate) fn move_keypoints(
    params: &str,
    mut values: Vec<f64>,
    each: usize,
    size: (u32, u32),
) -> PyResult<Vec<f64>> {
    Moved::new(params, size).and_then(|moved| moved.keypoints(each, &mut values)).or_raise()?;
    Ok(values)
}

/// Red, green and blue bytes as a JPEG.
#[pyfunction]
pub(crate) fn encode_jpeg<'py>(
    py: Python<'py>,
    pixels: &[u8],
    height: u32,
    width: u32,
) -> PyResult<Bound<'py, PyBytes>> {
    let made = py.detach(|| feedline_view::jpeg(pixels, height, width)).or_raise()?;
    Ok(PyBytes::new(py, &made))
}

/// All transforms of the engine.
#[pyfunction]
pub(crate) fn transform_names() -> Vec<&'static str> {
    Transform::NAMES.to_vec()
}

fn box_rules(rules: &str) -> PyResult<Boxes> {
    serde_json::from_str(rules).map_err(|e| feedline::Error::option("boxes", e.to_string())).or_raise()
}

fn form(dtype: &str, memory_format: &str) -> PyResult<(DType, MemoryFormat)> {
    let named = serde_json::json!({"dtype": dtype, "memory_format": memory_format}).to_string();
    let options = feedline::LoaderOptions::from_json(&named).or_raise()?;
    Ok((options.dtype, options.memory_format))
}

fn made<'py>(py: Python<'py>, Applied { bytes, shape }: &Applied) -> Made<'py> {
    (PyBytes::new(py, bytes), shape.clone())
}
