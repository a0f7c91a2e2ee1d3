//! GIF, by the `gif` crate: the first frame on its canvas.

use std::io::ErrorKind;

use gif::{ColorOutput, DecodeOptions, DecodingError, MemoryLimit};

use super::{Codec, Header, Scratch, expand_grey, expand_palette};
use crate::{Error, Orientation, PixelLayout, Result, Size, fit};

const CODEC: Codec = Codec::Gif;

pub(super) fn probe(bytes: &[u8]) -> Result<Header> {
    let mut decoder = options().read_info(bytes).map_err(convert)?;
    let screen = Size::new(u32::from(decoder.width()), u32::from(decoder.height()));
    let frame = decoder.next_frame_info().map_err(convert)?.ok_or_else(|| CODEC.truncated("no frame"))?;
    // As Pillow does, the canvas grows to hold a first frame that sticks out.
    let right = u32::from(frame.left) + u32::from(frame.width);
    let bottom = u32::from(frame.top) + u32::from(frame.height);
    let size = Size::new(screen.width.max(right), screen.height.max(bottom));
    Ok(Header { codec: CODEC, size, channels: 1, bits: 8, orientation: Orientation::Upright })
}

fn options() -> DecodeOptions {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // Pillow, too, goes over blocks that it does not know.
    options.allow_unknown_blocks(true);
    // Frames are read into our buffer, whose size has been checked.
    options.set_memory_limit(MemoryLimit::Unlimited);
    options
}

pub(super) fn decode(bytes: &[u8], header: &Header, scratch: &mut Scratch) -> Result<PixelLayout> {
    let mut decoder = options().read_info(bytes).map_err(convert)?;
    let frame = decoder.next_frame_info().map_err(convert)?.ok_or_else(|| CODEC.truncated("no frame"))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (width, height) = (usize::from(frame.width), usize::from(frame.height));
    let background = frame.transparent.unwrap_or(0);
    let mut indices = Vec::new();
    fit(&mut indices, width * height, 0)?;
    decoder.read_into_buffer(&mut indices).map_err(convert)?;
    scratch.samples.clear();
    fit(&mut scratch.samples, header.size.area() as usize, background)?;
    let stride = header.size.width as usize;
    if width > 0 {
        for (row, source) in indices.chunks_exact(width).enumerate() {
            let at = (top + row) * stride + left;
            scratch.samples[at..at + width].copy_from_slice(source);
        }
    }
    match decoder.palette() {
        Ok(palette) => expand_palette(&scratch.samples, palette.as_chunks().0, &mut scratch.pixels)?,
        // Without any palette, indices are greys.
        Err(_) => expand_grey(&scratch.samples, 1, &mut scratch.pixels)?,
    }
    Ok(PixelLayout::Rgbx)
}

fn convert(error: DecodingError) -> Error {
    match error {
        DecodingError::Io(cause) if cause.kind() == ErrorKind::UnexpectedEof => CODEC.truncated(cause),
        other => CODEC.corrupt(0, other),
    }
}
