//! TIFF, by the `tiff` crate: grey, palette, RGB, RGBA and CMYK of 8 or 16 bits (grey and palette of fewer as well).
//!
//! Orientation is applied here: Pillow, too, turns TIFF while loading, before and apart from EXIF transposition.

use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};

use tiff::decoder::{Decoder, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use super::{Codec, Header, Scratch, exif, expand_grey, expand_palette, view};
use crate::{Error, Orientation, PixelLayout, Result};

const CODEC: Codec = Codec::Tiff;

type Reader<'a> = Decoder<Cursor<Cow<'a, [u8]>>>;

pub(super) fn probe(bytes: &[u8]) -> Result<Header> {
    let mut reader = open(bytes)?;
    let color = reader.colortype().map_err(convert)?;
    let size = orientation(&mut reader).turn_size(stored_size(&mut reader)?);
    let channels = color.num_samples().min(4) as u8;
    Ok(Header { codec: CODEC, size, channels, bits: color.bit_depth(), orientation: Orientation::Upright })
}

fn open(bytes: &[u8]) -> Result<Reader<'_>> {
    Decoder::new(Cursor::new(without_palette(bytes))).map_err(convert)
}

/// The crate refuses palettes. It is told that indices are greys, in a copy; colours are looked up here.
fn without_palette(bytes: &[u8]) -> Cow<'_, [u8]> {
    const GREY: u8 = 1;
    let Some(at) = palette_flag(bytes) else { return Cow::Borrowed(bytes) };
    let mut copy = bytes.to_vec();
    copy[at] = GREY;
    Cow::Owned(copy)
}

/// Where the file says that its pixels are indices, if it does.
fn palette_flag(bytes: &[u8]) -> Option<usize> {
    const PHOTOMETRIC_INTERPRETATION: u16 = 262;
    const PALETTE: u16 = 3;
    let reader = exif::Reader::new(bytes)?;
    let value = reader.find(PHOTOMETRIC_INTERPRETATION)? + 8;
    (reader.u16(value)? == PALETTE).then(|| reader.low_byte(value))
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
    let mut reader = open(bytes)?;
    let color = reader.colortype().map_err(convert)?;
    let size = stored_size(&mut reader)?;
    let orientation = orientation(&mut reader);
    let layout = reader.image_buffer_layout().map_err(convert)?;
    if layout.planes > 1 {
        return Err(CODEC.unsupported("channels in separate planes"));
    }
    check_strips(bytes, &mut reader)?;
    // The pixel count has been checked, so the image itself may be as large as it is; a strip or tile, compressed or
    // not, is never much larger than image or file. The megabyte is for tags, which count as well.
    let mut limits = Limits::default();
    limits.decoding_buffer_size = layout.complete_len + (1 << 20);
    limits.intermediate_buffer_size = layout.complete_len.max(bytes.len()) + (1 << 20);
    reader = reader.with_limits(limits);
    scratch.samples.resize(layout.complete_len, 0);
    reader.read_image_bytes(&mut scratch.samples).map_err(convert)?;
    let pixels = if palette_flag(bytes).is_some() {
        indices_to_pixels(color, size.width as usize, &mut reader, scratch)?
    } else {
        to_pixels(color, size.width as usize, &mut reader, scratch)?
    };
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
    to_bytes(bits, width, &mut scratch.samples)?;
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
        // Grey with an alpha of unstated kind.
        ColorType::Multiband { num_samples: 2, .. } if bits >= 8 && is_grey(reader) => {
            expand_grey(samples, 2, pixels);
        }
        ColorType::RGB(_) => {
            std::mem::swap(pixels, samples);
            return Ok(PixelLayout::Rgb);
        }
        ColorType::RGBA(_) => {
            std::mem::swap(pixels, samples);
            if alpha_is_associated(reader) {
                divide_by_alpha(pixels);
            }
        }
        ColorType::CMYK(_) => expand_cmyk(samples, pixels),
        other => return Err(CODEC.unsupported(format!("colour type {other:?}"))),
    }
    Ok(PixelLayout::Rgbx)
}

fn indices_to_pixels(
    color: ColorType,
    width: usize,
    reader: &mut Reader<'_>,
    scratch: &mut Scratch,
) -> Result<PixelLayout> {
    let ColorType::Gray(bits @ 1..=8) = color else {
        return Err(CODEC.unsupported(format!("palette with {color:?}")));
    };
    to_bytes(bits, width, &mut scratch.samples)?;
    expand_palette(&scratch.samples, &palette(reader)?, &mut scratch.pixels);
    Ok(PixelLayout::Rgbx)
}

/// One byte per sample, whatever the bits.
fn to_bytes(bits: u8, width: usize, samples: &mut Vec<u8>) -> Result<()> {
    match bits {
        8 => {}
        16 => keep_upper_bytes(samples),
        1 | 2 | 4 => unpack_bits(samples, bits, width),
        _ => return Err(CODEC.unsupported(format!("{bits} bits per sample"))),
    }
    Ok(())
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

fn is_grey(reader: &mut Reader<'_>) -> bool {
    const BLACK_IS_ZERO: u32 = 1;
    matches!(reader.find_tag_unsigned(Tag::PhotometricInterpretation), Ok(Some(BLACK_IS_ZERO)))
}

/// Whether colours are stored multiplied by alpha.
fn alpha_is_associated(reader: &mut Reader<'_>) -> bool {
    let kinds = reader.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).ok().flatten();
    kinds.is_some_and(|kinds| kinds.first() == Some(&1))
}

/// As Pillow does: rounded down, and no colour where there is no alpha.
fn divide_by_alpha(pixels: &mut [u8]) {
    for [red, green, blue, alpha] in pixels.as_chunks_mut::<4>().0 {
        for colour in [red, green, blue] {
            let scaled = (u32::from(*colour) * 255).checked_div(u32::from(*alpha));
            *colour = scaled.unwrap_or(0).min(255) as u8;
        }
    }
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
