//! Where the planes of masks come from.

use feedline_pixels::{ImageRef, PixelLayout, PolygonFiller, Size};

use crate::error::Result;
use crate::field::ImageEncoding;
use crate::render::{Labels, Outline, plane, read_outlines};
use crate::sample::{DType, SampleBuffer, Value};

/// One mask per object: planes of an array, or outlines.
pub(super) enum Stack<'a> {
    Planes { dtype: DType, shape: [u64; 3], bytes: &'a [u8] },
    Outlines(Vec<Outline>),
}

impl<'a> Stack<'a> {
    pub(super) fn of(buffer: &'a SampleBuffer, field: usize) -> Result<Self, String> {
        match buffer.value(field) {
            Value::Array { dtype, dimensions: 3, shape, bytes } => {
                let shape = [shape[0], shape[1], shape[2]];
                Ok(Stack::Planes { dtype: *dtype, shape, bytes: buffer.bytes(bytes) })
            }
            Value::Bytes(bytes) => read_outlines(buffer.bytes(bytes)).map(Stack::Outlines),
            _ => Err("a stack of masks has three dimensions: masks, rows, columns".to_owned()),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Stack::Planes { shape, .. } => shape[0] as usize,
            Stack::Outlines(outlines) => outlines.len(),
        }
    }

    pub(super) fn plane<'b>(
        &'b self,
        number: usize,
        image: Size,
        polygons: &mut PolygonFiller,
        scratch: &'b mut Vec<u8>,
    ) -> Result<Labels<'b>, String> {
        match self {
            Stack::Planes { dtype, shape: [_, rows, columns], bytes } => {
                let each = (rows * columns) as usize * dtype.size();
                plane(*dtype, &bytes[number * each..(number + 1) * each], (*rows, *columns), scratch)
            }
            Stack::Outlines(outlines) => {
                outlines[number].draw(polygons, image, scratch)?;
                let drawn = ImageRef::new(scratch, image, image.width as usize, PixelLayout::Grey8);
                drawn.map(Labels::Plane).map_err(|error| error.to_string())
            }
        }
    }
}

/// A mask's numbers, or its file.
pub(super) fn plane_of<'a>(
    buffer: &'a SampleBuffer,
    field: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<Labels<'a>, String> {
    match buffer.value(field) {
        Value::Image { bytes, meta, .. } => match meta.encoding {
            ImageEncoding::File | ImageEncoding::Jpeg => Ok(Labels::File(buffer.bytes(bytes))),
            other => {
                Err(format!("stored as {}, which holds colours; pack masks with image='as-is'", other.name()))
            }
        },
        Value::Bytes(bytes) => Ok(Labels::File(buffer.bytes(bytes))),
        Value::Array { dtype, dimensions, shape, bytes } => {
            let shape = &shape[..*dimensions as usize];
            let &([rows, columns] | [rows, columns, 1] | [1, rows, columns]) = shape else {
                return Err(format!("a mask has shape [rows, columns], not {shape:?}"));
            };
            plane(*dtype, buffer.bytes(bytes), (rows, columns), scratch)
        }
        _ => Err("neither an image nor an array".to_owned()),
    }
}
