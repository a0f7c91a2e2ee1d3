//! GIF, with the `gif` crate: the first frame on its canvas.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::ErrorKind;

use gif::{ColorOutput, DecodeOptions, DecodingError, MemoryLimit};

use super::tracked::Tracked;
use super::{Codec, ImageHeader, Scratch, Stored, expand_grey, expand_palette};
use crate::{Error, Number, Orientation, PixelLayout, Result, Size, fit, room};

const CODEC: Codec = Codec::Gif;

type Palette = Vec<[u8; 3]>;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let (bytes, at) = (with_palette(bytes)?, Cell::new(0));
    let mut decoder = options().read_info(Tracked::new(&bytes, &at)).map_err(|e| convert(e, &at))?;
    let screen = Size::new(u32::from(decoder.width()), u32::from(decoder.height()));
    let frame =
        decoder.next_frame_info().map_err(|e| convert(e, &at))?.ok_or_else(|| CODEC.truncated("no frame"))?;
    // As in Pillow, the canvas grows to contain a first frame that extends beyond it.
    let right = u32::from(frame.left) + u32::from(frame.width);
    let bottom = u32::from(frame.top) + u32::from(frame.height);
    let size = Size::new(screen.width.max(right), screen.height.max(bottom));
    Ok(ImageHeader { codec: CODEC, size, channels: 1, bits: 8, orientation: Orientation::Upright })
}

fn options() -> DecodeOptions {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // Pillow, too, skips unknown blocks.
    options.allow_unknown_blocks(true);
    // Frames are read into our buffer, whose size has been checked.
    options.set_memory_limit(MemoryLimit::Unlimited);
    options
}

/// The first frame's indices.
pub(super) fn stored(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<Stored> {
    let (palette, transparent) = indices(bytes, header, scratch)?;
    let Some(palette) = palette else { return Ok(Stored::plain(1, Number::U8)) };
    let mut colours: Vec<[u8; 4]> = palette.iter().map(|[r, g, b]| [*r, *g, *b, 255]).collect();
    if let Some(entry) = transparent.and_then(|at| colours.get_mut(usize::from(at))) {
        entry[3] = 0;
    }
    Ok(Stored::indexed(colours))
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    match indices(bytes, header, scratch)?.0 {
        Some(palette) => expand_palette(&scratch.samples, &palette, &mut scratch.pixels)?,
        // Without any palette, indices are greys.
        None => expand_grey(&scratch.samples, 1, &mut scratch.pixels)?,
    }
    Ok(PixelLayout::Rgbx)
}

/// Puts the first frame's indices on the canvas. Returns the palette, if there is one, and the transparent index.
fn indices(
    bytes: &[u8],
    header: &ImageHeader,
    scratch: &mut Scratch,
) -> Result<(Option<Palette>, Option<u8>)> {
    let (bytes, at) = (with_palette(bytes)?, Cell::new(0));
    let mut decoder = options().read_info(Tracked::new(&bytes, &at)).map_err(|e| convert(e, &at))?;
    let frame =
        decoder.next_frame_info().map_err(|e| convert(e, &at))?.ok_or_else(|| CODEC.truncated("no frame"))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (width, height) = (usize::from(frame.width), usize::from(frame.height));
    let transparent = frame.transparent;
    let mut indices = Vec::new();
    fit(&mut indices, width * height, 0)?;
    decoder.read_into_buffer(&mut indices).map_err(|e| convert(e, &at))?;
    scratch.samples.clear();
    fit(&mut scratch.samples, header.size.area() as usize, transparent.unwrap_or(0))?;
    let stride = header.size.width as usize;
    if width > 0 {
        for (row, source) in indices.chunks_exact(width).enumerate() {
            let at = (top + row) * stride + left;
            scratch.samples[at..at + width].copy_from_slice(source);
        }
    }
    let palette = decoder.palette().ok().map(|colours| colours.as_chunks().0.to_vec());
    Ok((palette, transparent))
}

/// Adds a grey palette to a file without a global one: Pillow treats indices without a palette as greys.
fn with_palette(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    const SCREEN: usize = 13;
    let Some((head, rest)) = bytes.split_at_checked(SCREEN) else {
        return Err(CODEC.truncated("the header is not complete"));
    };
    if head[10] & 0x80 != 0 {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut file = Vec::new();
    room::reserve(&mut file, bytes.len() + 768)?;
    file.extend_from_slice(head);
    file[10] |= 0x87;
    file.extend((0..=255u8).flat_map(|grey| [grey; 3]));
    file.extend_from_slice(rest);
    Ok(Cow::Owned(file))
}

fn convert(error: DecodingError, at: &Cell<usize>) -> Error {
    match error {
        DecodingError::Io(cause) if cause.kind() == ErrorKind::UnexpectedEof => {
            CODEC.truncated(format!("the file ends at byte {}, before the image does", at.get()))
        }
        other => CODEC.corrupt(at.get(), other),
    }
}
