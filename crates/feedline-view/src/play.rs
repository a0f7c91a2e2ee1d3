//! What augmentation does to one sample: n draws, side by side, with what was drawn.

use feedline::apply::{DrawFrom, ImageOps, Moved};
use feedline::field::MemoryFormat;
use feedline::owned::OwnedValue;
use feedline::transform::Transform;
use feedline::transform::ops::Resize;
use feedline::{DType, Dataset, Kind};
use serde_json::{Value, json};

use crate::query::{Query, Wrong};
use crate::{images, pipeline, sheet};

/// Images of more pixels are made smaller before they are augmented: a page shows no more.
const MOST_SIDE: u32 = 1600;

/// Larger results are not made.
const MOST_BYTES: usize = 3 * 4096 * 4096;

/// Draws of one question.
const MOST_DRAWS: u64 = 64;

/// One draw of one image.
#[derive(Debug)]
pub(crate) struct DrawnImage {
    pub(crate) jpeg: Vec<u8>,
}

struct PlayRequest {
    sample: u64,
    seed: u64,
    draw: u64,
    view: u64,
    ops: Vec<Transform>,
}

impl PlayRequest {
    fn new(query: &Query) -> Result<Self, Wrong> {
        let ops = pipeline::from_text(query.get("ops").unwrap_or(""))?;
        Ok(PlayRequest {
            sample: query.number("index", 0)?,
            seed: query.number("seed", 0)?,
            draw: query.number("draw", 0)?,
            view: query.number("view", 0)?,
            ops,
        })
    }

    /// A draw is what an epoch of that number would do to the sample.
    fn from(&self) -> DrawFrom {
        DrawFrom { seed: self.seed, epoch: self.draw, sample: self.sample }
    }

    fn checked(&self) -> Result<ImageOps, Wrong> {
        // Numbers around 0 are nothing to look at: the page shows pixels before they are normalised.
        let shown: Vec<Transform> = self.ops.iter().filter(|op| op.name() != "Normalize").cloned().collect();
        let (dtype, format) = (DType::U8, MemoryFormat::ChannelsLast);
        ImageOps::new("image", &shown, (self.view, 0), dtype, format).map_err(|e| e.to_string())
    }
}

/// The image of one draw.
pub(crate) fn play(dataset: &Dataset, query: &Query) -> Result<DrawnImage, Wrong> {
    let asked = PlayRequest::new(query)?;
    let ops = asked.checked()?;
    let image = source(dataset, asked.sample)?;
    let drawn = ops.draw(image.height, image.width, asked.from()).map_err(|e| e.to_string())?;
    let shape = drawn.shape();
    if drawn.bytes() > MOST_BYTES {
        return Err(format!("a result of {shape:?} is too large to be shown"));
    }
    let mut bytes = vec![0; drawn.bytes()];
    drawn.write(&image.bytes, &mut bytes).map_err(|e| e.to_string())?;
    let (height, width, pixels) = tiled(&shape, bytes)?;
    let jpeg = images::jpeg(&pixels, height, width).map_err(|e| e.to_string())?;
    Ok(DrawnImage { jpeg })
}

fn source(dataset: &Dataset, sample: u64) -> Result<images::Pixels, Wrong> {
    let field = sheet::image_field(dataset).ok_or("the data set has no image field")?;
    images::scaled(dataset, sample, field, MOST_SIDE).map_err(|e| e.to_string())
}

/// Several crops of one image below each other.
fn tiled(shape: &[u64], bytes: Vec<u8>) -> Result<(u32, u32, Vec<u8>), Wrong> {
    match *shape {
        [height, width, 3] => Ok((height as u32, width as u32, bytes)),
        [count, height, width, 3] => Ok(((count * height) as u32, width as u32, bytes)),
        [height, width, 1] => {
            Ok((height as u32, width as u32, bytes.iter().flat_map(|grey| [*grey; 3]).collect()))
        }
        _ => Err(format!("a result of {shape:?} cannot be shown")),
    }
}

/// What was drawn, and the list in Python's words.
pub(crate) fn drawn(dataset: &Dataset, query: &Query) -> Result<Value, Wrong> {
    let asked = PlayRequest::new(query)?;
    let ops = asked.checked()?;
    let image = source(dataset, asked.sample)?;
    let draws = query.number("draws", 1)?.min(MOST_DRAWS);
    let mut all = Vec::new();
    for draw in 0..draws {
        let from = DrawFrom { epoch: draw, ..asked.from() };
        let params = ops.drawn_params((image.height, image.width), from).map_err(|e| e.to_string())?;
        all.push(serde_json::from_str::<Value>(&params).unwrap_or(Value::Null));
    }
    let without = asked.ops.iter().any(|op| op.name() == "Normalize");
    let note = without.then_some("shown before Normalize");
    let boxes = moved_boxes(dataset, &asked, &image, &all);
    let points = moved_points(dataset, &asked, &image, &all);
    let json: Vec<Value> = asked.ops.iter().map(pipeline::spec).collect();
    Ok(json!({"params": all, "python": pipeline::to_python(&asked.ops), "json": json, "note": note,
        "size": [image.height, image.width], "boxes": boxes, "points": points, "masks": masks_of(dataset)}))
}

/// Mask fields that can be laid over a draw.
fn masks_of(dataset: &Dataset) -> Vec<usize> {
    let fields = &dataset.schema().fields;
    let is_file = |n: &usize| fields[*n].kind == Kind::Image && sheet::is_mask(dataset, *n);
    (0..fields.len()).filter(is_file).collect()
}

/// The mask in `field`, as a draw moves it, as a PNG.
pub(crate) fn mask(dataset: &Dataset, query: &Query) -> Result<Vec<u8>, Wrong> {
    let asked = PlayRequest::new(query)?;
    let field = query.number("field", 0)? as usize;
    if !masks_of(dataset).contains(&field) {
        return Err(format!("field: there is no mask in field {field}"));
    }
    let image = source(dataset, asked.sample)?;
    let size = (image.height, image.width);
    let params = asked.checked()?.drawn_params(size, asked.from()).map_err(|e| e.to_string())?;
    let stored = images::class_indices(dataset, asked.sample, field, |_| {
        vec![Resize { size: Some(size), ..Resize::default() }.into()]
    })?;
    let moved =
        Moved::new(&params, size).and_then(|moved| moved.mask(&stored.bytes, DType::I64, 0, DType::I64));
    let moved = moved.map_err(|e| e.to_string())?;
    let [height, width] = moved.shape[..] else { return Err("several crops have no one mask".to_owned()) };
    if height.saturating_mul(width) > MOST_BYTES as u64 {
        return Err(format!("a result of {height} x {width} is too large to be shown"));
    }
    Ok(images::mask(&images::class_bytes(&moved.bytes), height as u32, width as u32))
}

/// Boxes (`x1, y1, x2, y2`) of the sample as each draw moves them.
fn moved_boxes(dataset: &Dataset, asked: &PlayRequest, image: &images::Pixels, drawn: &[Value]) -> Value {
    let Some(boxes) = rows_of(dataset, asked.sample, &["box"], &[4]) else { return Value::Null };
    let rules = feedline::transform::Boxes::default();
    let Some(scale) = scale(dataset, asked.sample, image) else { return Value::Null };
    let boxes = boxes.1;
    let scaled: Vec<[f64; 4]> = boxes
        .chunks_exact(4)
        .map(|four| [four[0] * scale[0], four[1] * scale[1], four[2] * scale[0], four[3] * scale[1]])
        .collect();
    let moved = |params: &Value| {
        let moved = Moved::new(&params.to_string(), (image.height, image.width)).ok()?;
        Some(moved.boxes(&rules, &scaled).ok()?.0)
    };
    json!(drawn.iter().map(moved).collect::<Vec<_>>())
}

/// Keypoints (`x, y` and perhaps whether they are visible) as each draw moves them.
fn moved_points(dataset: &Dataset, asked: &PlayRequest, image: &images::Pixels, drawn: &[Value]) -> Value {
    let names = ["point", "landmark", "joint"];
    let Some((each, points)) = rows_of(dataset, asked.sample, &names, &[2, 3]) else { return Value::Null };
    let Some(scale) = scale(dataset, asked.sample, image) else { return Value::Null };
    let mut scaled = points;
    for point in scaled.chunks_exact_mut(each) {
        point[0] *= scale[0];
        point[1] *= scale[1];
    }
    let moved = |params: &Value| {
        let moved = Moved::new(&params.to_string(), (image.height, image.width)).ok()?;
        let mut points = scaled.clone();
        moved.keypoints(each, &mut points).ok()?;
        Some(points.chunks_exact(each).map(<[f64]>::to_vec).collect::<Vec<_>>())
    };
    json!(drawn.iter().map(moved).collect::<Vec<_>>())
}

/// From the sample's own pixels to those of the image that is augmented.
fn scale(dataset: &Dataset, sample: u64, image: &images::Pixels) -> Option<[f64; 2]> {
    let (height, width) = sheet::size(dataset, sample)?;
    let ratio = |now: u32, own: u32| f64::from(now) / f64::from(own.max(1));
    Some([ratio(image.width, width), ratio(image.height, height)])
}

/// The rows of the first field with one of these words in its name, and the numbers of a row, which must be one of
/// `each`.
fn rows_of(dataset: &Dataset, sample: u64, words: &[&str], each: &[usize]) -> Option<(usize, Vec<f64>)> {
    let is_named = |name: &str| words.iter().any(|word| name.contains(word));
    let field = dataset.schema().fields.iter().position(|field| is_named(&field.name))?;
    let OwnedValue::Array { dtype, shape, bytes } = dataset.get_field(sample, field).ok()? else {
        return None;
    };
    let [_, numbers] = shape[..] else { return None };
    let numbers = usize::try_from(numbers).ok().filter(|numbers| each.contains(numbers))?;
    Some((numbers, feedline::apply::numbers(dtype, &bytes).ok()?))
}

/// Transforms that a click adds: name, and its fields with their defaults.
pub(crate) fn menu() -> Value {
    let known = Transform::NAMES.iter().filter_map(|name| {
        let fields = pipeline::defaults(name)?;
        Some(json!({"op": name, "fields": fields}))
    });
    json!(known.collect::<Vec<_>>())
}
