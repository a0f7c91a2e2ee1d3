//! Arrays whose rows along the first dimension are samples: which value a row becomes. For NumPy's files, HDF5 and
//! Zarr.

use std::ops::Range;

use super::npy::RowHeader;
use crate::error::{Error, Location, Result};
use crate::sample::{DType, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// The value that a row becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowValue {
    Int,
    Float,
    Array,
    /// Raw pixels; grey ones are repeated three times.
    Image {
        height: u32,
        width: u32,
        grey: bool,
    },
}

impl RowValue {
    /// The value for rows with this header, or for `kind` if it is given.
    pub(super) fn new(header: &RowHeader, kind: Option<Kind>) -> Result<Self, String> {
        let whole = !matches!(header.dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        let single = header.sides().is_empty();
        let real = matches!(header.dtype, DType::F32 | DType::F64);
        match kind {
            None | Some(Kind::Int) if single && whole => Ok(RowValue::Int),
            None | Some(Kind::Float) if single && real => Ok(RowValue::Float),
            None | Some(Kind::Array) => Ok(RowValue::Array),
            Some(Kind::Image) => as_image(header),
            Some(kind) => {
                Err(format!("rows of {} of shape {:?} are not {kind:?}", header.dtype.name(), header.sides()))
            }
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            RowValue::Int => Kind::Int,
            RowValue::Float => Kind::Float,
            RowValue::Array => Kind::Array,
            RowValue::Image { .. } => Kind::Image,
        }
    }

    pub(super) fn image_meta(self) -> Option<ImageMeta> {
        let RowValue::Image { height, width, .. } = self else { return None };
        Some(ImageMeta { encoding: ImageEncoding::Rgb, width, height, channels: 3, orientation: 1 })
    }

    /// The value of a row whose bytes are at `range` of the buffer.
    pub(super) fn value(
        self,
        header: &RowHeader,
        range: Range<usize>,
        into: &mut SampleBuffer,
    ) -> Result<Value, String> {
        Ok(match self {
            RowValue::Int => Value::Int(header.int(into.bytes(&range))?),
            RowValue::Float => Value::Float(header.float(into.bytes_mut(&range))),
            RowValue::Array => {
                header.to_little_endian(into.bytes_mut(&range));
                let mut shape = [0; MAX_DIMENSIONS];
                let sides = header.sides();
                shape[..sides.len()].copy_from_slice(sides);
                let dimensions = sides.len() as u8;
                Value::Array { dtype: header.dtype, dimensions, shape, bytes: range }
            }
            RowValue::Image { grey, .. } => {
                let bytes = if grey { grey_to_rgb(range, into) } else { range };
                let meta = self.image_meta().unwrap_or(ImageMeta::UNKNOWN);
                Value::Image { index: bytes.end..bytes.end, bytes, meta }
            }
        })
    }
}

/// Grey pixels as red, green and blue.
fn grey_to_rgb(grey: Range<usize>, into: &mut SampleBuffer) -> Range<usize> {
    let pixels = into.bytes(&grey).to_vec();
    let (range, room) = into.reserve(pixels.len() * 3);
    for (three, pixel) in room.chunks_exact_mut(3).zip(pixels) {
        three.fill(pixel);
    }
    range
}

fn as_image(header: &RowHeader) -> Result<RowValue, String> {
    let side = |side: u64| u32::try_from(side).ok().filter(|side| *side > 0);
    let (sides, grey) = match *header.sides() {
        [height, width, 3] => ((side(height), side(width)), false),
        [height, width] | [height, width, 1] => ((side(height), side(width)), true),
        _ => ((None, None), false),
    };
    match sides {
        (Some(height), Some(width)) if header.dtype == DType::U8 => {
            Ok(RowValue::Image { height, width, grey })
        }
        _ => Err(format!(
            "an image is uint8 of shape (height, width, 3) or (height, width), not {} of shape {:?}",
            header.dtype.name(),
            header.sides()
        )),
    }
}

/// Whether an array's name contains the split: `x_train`, `train_x`, `train`, `train/x`.
pub(super) fn is_part(array: &str, split: &str) -> bool {
    array.split(['_', '/']).any(|word| word == split)
}

/// The name without the split: `x_train` of `train` is `x`.
pub(super) fn without_part(array: &str, split: &str) -> String {
    let found = ["_", "/"].iter().fold(array.to_owned(), |name, mark| {
        name.replace(&format!("{mark}{split}"), "").replace(&format!("{split}{mark}"), "")
    });
    if found.is_empty() { array.to_owned() } else { found }
}

/// The number of rows that all arrays have.
pub(super) fn common_length<'a>(
    arrays: impl Iterator<Item = (&'a str, u64)> + Clone,
    problems: &[Error],
    place: &Location,
) -> Result<u64> {
    let Some((_, first)) = arrays.clone().next() else {
        let reason = match problems.first() {
            Some(problem) => format!("no array that can be read; {problem}"),
            None => "there is no array in it".to_owned(),
        };
        return Err(Error::data(place.clone(), reason));
    };
    if arrays.clone().all(|(_, rows)| rows == first) {
        return Ok(first);
    }
    let lengths: Vec<String> = arrays.map(|(name, rows)| format!("{name} ({rows})")).collect();
    let reason = format!("the arrays have different numbers of rows: {}", lengths.join(", "));
    let hint = "use split=\"train\" to take those with 'train' in their names";
    Err(Error::data(place.clone(), reason).with_hint(hint))
}
