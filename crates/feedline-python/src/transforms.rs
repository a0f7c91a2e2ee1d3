//! Transforms on one image.

use feedline::apply::{Applied, DrawFrom, ImageOps};
use feedline::field::MemoryFormat;
use feedline::{DType, Transform};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::OrRaise;

/// Elements and dimensions.
type Made<'py> = (Bound<'py, PyBytes>, Vec<u64>);

/// Does a list of transforms (JSON) to an image of red, green, blue bytes, and says what was drawn. `origin` is seed, epoch
/// and sample.
#[pyfunction]
pub(crate) fn apply<'py>(
    py: Python<'py>,
    transforms: &str,
    pixels: &[u8],
    size: (u32, u32),
    origin: (u64, u64, u64),
    dtype: &str,
    memory_format: &str,
) -> PyResult<(Made<'py>, String)> {
    let transforms: Vec<Transform> = serde_json::from_str(transforms)
        .map_err(|e| feedline::Error::option("transforms", e.to_string()))
        .or_raise()?;
    let (dtype, format) = form(dtype, memory_format)?;
    let (seed, epoch, sample) = origin;
    let ops = ImageOps::new("apply", &transforms, (0, 0), dtype, format).or_raise()?;
    let from = DrawFrom { seed, epoch, sample };
    let (applied, params) = py.detach(|| ops.apply_recorded(pixels, size.0, size.1, from)).or_raise()?;
    Ok((made(py, &applied), params))
}

/// Does what an earlier run drew (JSON) to an image of the same size.
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

/// Every transform the engine knows.
#[pyfunction]
pub(crate) fn transform_names() -> Vec<&'static str> {
    Transform::NAMES.to_vec()
}

fn form(dtype: &str, memory_format: &str) -> PyResult<(DType, MemoryFormat)> {
    let named = serde_json::json!({"dtype": dtype, "memory_format": memory_format}).to_string();
    let options = feedline::LoaderOptions::from_json(&named).or_raise()?;
    Ok((options.dtype, options.memory_format))
}

fn made<'py>(py: Python<'py>, Applied { bytes, shape }: &Applied) -> Made<'py> {
    (PyBytes::new(py, bytes), shape.clone())
}
