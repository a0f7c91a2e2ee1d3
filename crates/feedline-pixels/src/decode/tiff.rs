//! TIFF, by the `tiff` crate: grey, palette, RGB, RGBA and CMYK of 8 or 16 bits (grey and palette of fewer as well).
//!
//! Orientation is applied here: Pillow, too, turns TIFF while loading, before and apart from EXIF transposition.

use std::io::{Cursor, ErrorKind};

use tiff::decoder::{Decoder, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use super::{Codec, Header, Scratch, expand_grey, expand_palette, view};
use crate::{Error, Orientation, PixelLayout, Result};

const CODEC: Codec = Codec::Tiff;

type Reader<'a> = Decoder<Cursor<&'a [u8]>>;

pub(super) fn probe(bytes: &[u8]) -> Result<Header> {
    let mut reader = open(bytes)?;
    let color = reader.colortype().map_err(convert)?;
    let size = orientation(&mut reader).turn_size(stored_size(&mut reader)?);
    let channels = color.num_samples().min(4) as u8;
    Ok(Header { codec: CODEC, size, channels, bits: color.bit_depth(), orientation: Orientation::Upright })
}

fn open(bytes: &[u8]) -> Result<Reader<'_>> {
    Decoder::new(Cursor::new(bytes)).map_err(convert)
}

fn stored_size(reader: &mut Reader<'_>) -> Result<crate::Size> {
    let (width, height) = reader.dimensions().map_err(convert)?;
    Ok(crate::Size::new(width, height))
}

fn orientation(reader: &mut Reader<'_>) -> Orientation {
    let number = reader.find_tag_unsigned::<u32>(Tag::Orientation).ok().flatten();
    number.map_or(Orientation::Upright, Orientation::from_exif)
}

pub(super) fn decode(bytes: &[u8], _: &Header, scratch: &mut Scratch) -> Result<PixelLayout> {
    // The pixel count has been checked; what limits would otherwise refuse are honest large images.
    let mut reader = open(bytes)?.with_limits(Limits::unlimited());
    let color = reader.colortype().map_err(convert)?;
    let size = stored_size(&mut reader)?;
    let orientation = orientation(&mut reader);
    let layout = reader.image_buffer_layout().map_err(convert)?;
    if layout.planes > 1 {
        return Err(CODEC.unsupported("channels in separate planes"));
    }
    check_strips(bytes, &mut reader)?;
    scratch.samples.resize(layout.complete_len, 0);
    reader.read_image_bytes(&mut scratch.samples).map_err(convert)?;
    let pixels = to_pixels(color, size.width as usize, &mut reader, scratch)?;
    if orientation != Orientation::Upright {
        let stored = view(&scratch.pixels, size, pixels)?;
        orientation.apply(stored, &mut scratch.samples);
        std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
    }
    Ok(pixels)
}

/// A declared size that the data could never fill is refused before memory is taken: even the best compression of the
/// supported kinds stays below 1 : 1100 (deflate 1032, LZW 1365 bits per 12-bit code, both rounded).
fn check_strips(bytes: &[u8], reader: &mut Reader<'_>) -> Result<()> {
    const BEST_RATIO: usize = 1400;
    let needed = reader.image_buffer_layout().map_err(convert)?.complete_len;
    if needed / BEST_RATIO <= bytes.len() {
        return Ok(());
    }
    Err(CODEC.truncated(format!("{} bytes cannot hold {needed} bytes of pixels", bytes.len())))
}

fn to_pixels(
    color: ColorType,
    width: usize,
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
) -> Result<PixelLayout> {
    let bits = color.bit_depth();
    match bits {
        8 => {}
        16 => keep_upper_bytes(&mut scratch.samples),
        1 | 2 | 4 => unpack_bits(&mut scratch.samples, bits, width),
        _ => return Err(CODEC.unsupported(format!("{bits} bits per sample"))),
    }
    let Scratch { pixels, samples } = scratch;
    match color {
        ColorType::Gray(_) => {
            let top = if bits < 8 { 255 / ((1u16 << bits) - 1) as u8 } else { 1 };
            for grey in samples.iter_mut() {
                *grey *= top;
            }
            expand_grey(samples, 1, pixels);
        }
        ColorType::GrayA(_) => expand_grey(samples, 2, pixels),
        ColorType::Palette(_) => expand_palette(samples, &palette(reader)?, pixels),
        ColorType::RGB(_) => {
            std::mem::swap(pixels, samples);
            return Ok(PixelLayout::Rgb);
        }
        ColorType::RGBA(_) => std::mem::swap(pixels, samples),
        ColorType::CMYK(_) => expand_cmyk(samples, pixels),
        other => return Err(CODEC.unsupported(format!("colour type {other:?}"))),
    }
    Ok(PixelLayout::Rgbx)
}

fn keep_upper_bytes(samples: &mut Vec<u8>) {
    let count = samples.len() / 2;
    for index in 0..count {
        samples[index] = (u16::from_ne_bytes([samples[2 * index], samples[2 * index + 1]]) >> 8) as u8;
    }
    samples.truncate(count);
}

/// Rows of packed bits (each row begins a byte) to one byte per sample.
fn unpack_bits(samples: &mut Vec<u8>, bits: u8, width: usize) {
    let per_byte = 8 / usize::from(bits);
    let packed = std::mem::take(samples);
    let mask = (1u16 << bits) as u8 - 1;
    for row in packed.chunks_exact(width.div_ceil(per_byte)) {
        samples.extend((0..width).map(|x| {
            let shift = 8 - usize::from(bits) * (x % per_byte + 1);
            row[x / per_byte] >> shift & mask
        }));
    }
}

/// The colour map holds all reds, then all greens, then all blues, 16 bits each.
fn palette(reader: &mut Reader<'_>) -> Result<Vec<[u8; 3]>> {
    let map = reader.get_tag_u16_vec(Tag::ColorMap).map_err(convert)?;
    let count = map.len() / 3;
    let upper = |index: usize| (map[index] >> 8) as u8;
    Ok((0..count).map(|index| [upper(index), upper(count + index), upper(2 * count + index)]).collect())
}

/// Pillow's simple conversion: ink scales down what black leaves.
fn expand_cmyk(samples: &[u8], pixels: &mut Vec<u8>) {
    let scale = |ink: u8, left: u8| {
        let product = u32::from(ink) * u32::from(left) + 128;
        left - ((product + (product >> 8)) >> 8) as u8
    };
    pixels.clear();
    for ink in samples.as_chunks::<4>().0 {
        let left = 255 - ink[3];
        pixels.extend([scale(ink[0], left), scale(ink[1], left), scale(ink[2], left), 255]);
    }
}

fn convert(error: TiffError) -> Error {
    match error {
        TiffError::IoError(cause) if cause.kind() == ErrorKind::UnexpectedEof => CODEC.truncated(cause),
        TiffError::UnsupportedError(cause) => CODEC.unsupported(cause),
        other => CODEC.corrupt(0, other),
    }
}
