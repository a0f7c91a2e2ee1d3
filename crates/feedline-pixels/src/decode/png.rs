//! PNG, by the `png` crate: every colour type and depth, interlaced or not.

use std::io::{Cursor, ErrorKind};

use png::{ColorType, DecodeOptions, DecodingError, Transformations};

use super::{Codec, Header, Scratch, exif, expand_grey};
use crate::{Error, Orientation, PixelLayout, Result, Size};

const CODEC: Codec = Codec::Png;
const SIGNATURE: usize = 8;

pub(super) fn probe(bytes: &[u8]) -> Result<Header> {
    let Some((b"IHDR", data)) = Chunks { bytes, at: SIGNATURE }.next() else {
        return Err(CODEC.truncated("no image header"));
    };
    let [w0, w1, w2, w3, h0, h1, h2, h3, bits, color, ..] = *data else {
        return Err(CODEC.corrupt(SIGNATURE, "image header is too short"));
    };
    let channels = match color {
        0 | 3 => 1,
        4 => 2,
        2 => 3,
        6 => 4,
        _ => return Err(CODEC.corrupt(SIGNATURE + 17, format!("colour type {color}"))),
    };
    Ok(Header {
        codec: CODEC,
        size: Size::new(u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3])),
        channels,
        bits,
        orientation: orientation(bytes),
    })
}

/// From the `eXIf` chunk, else from an XMP text chunk.
fn orientation(bytes: &[u8]) -> Orientation {
    const XMP: &[u8] = b"XML:com.adobe.xmp\0\0\0";
    let mut packet = None;
    for (name, data) in (Chunks { bytes, at: SIGNATURE }) {
        match name {
            b"eXIf" => {
                if let Some(found) = exif::orientation(data) {
                    return found;
                }
            }
            b"iTXt" if data.starts_with(XMP) => packet = exif::xmp_orientation(data).or(packet),
            _ => {}
        }
    }
    packet.unwrap_or_default()
}

/// Goes from chunk to chunk by their lengths; checksums are the decoder's business.
struct Chunks<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (&'a [u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.bytes.get(self.at..)?.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let data = rest.get(..length)?;
        self.at += 12 + length;
        Some((name, data))
    }
}

pub(super) fn decode(bytes: &[u8], header: &Header, scratch: &mut Scratch) -> Result<PixelLayout> {
    let mut options = DecodeOptions::default();
    // Pillow refuses files whose text or profile is damaged; so does this.
    options.set_skip_ancillary_crc_failures(false);
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut decoder = png::Decoder::new_with_options(Cursor::new(bytes), options);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_limits(png::Limits { bytes: usize::MAX });
    let mut reader = decoder.read_info().map_err(convert)?;
    let (color, _) = reader.output_color_type();
    let length = reader.output_buffer_size().ok_or_else(|| CODEC.unsupported("size does not fit memory"))?;
    debug_assert_eq!(length as u64, header.size.area() * color.samples() as u64);
    let is_colour = matches!(color, ColorType::Rgb | ColorType::Rgba);
    let target = if is_colour { &mut scratch.pixels } else { &mut scratch.samples };
    target.resize(length, 0);
    reader.next_frame(target).map_err(convert)?;
    reader.finish().map_err(convert)?;
    match color {
        ColorType::Rgb => return Ok(PixelLayout::Rgb),
        ColorType::Rgba => {}
        ColorType::Grayscale => expand_grey(&scratch.samples, 1, &mut scratch.pixels),
        ColorType::GrayscaleAlpha => expand_grey(&scratch.samples, 2, &mut scratch.pixels),
        ColorType::Indexed => return Err(CODEC.corrupt(0, "palette image without palette")),
    }
    Ok(PixelLayout::Rgbx)
}

fn convert(error: DecodingError) -> Error {
    match error {
        DecodingError::IoError(cause) if cause.kind() == ErrorKind::UnexpectedEof => CODEC.truncated(cause),
        DecodingError::IoError(cause) => CODEC.corrupt(0, cause),
        DecodingError::Format(cause) => CODEC.corrupt(0, cause),
        other => CODEC.unsupported(other),
    }
}
