//! PNG, with the `png` crate: every colour type and depth, interlaced or not.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::ErrorKind;

use png::{ColorType, DecodeOptions, DecodingError, Transformations};

use super::tracked::Tracked;
use super::{Codec, ImageHeader, Scratch, Stored, expand_grey};
use crate::exif;
use crate::{Error, Number, Orientation, PixelLayout, Region, Result, Size, fit, room};

const CODEC: Codec = Codec::Png;
const SIGNATURE: usize = 8;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
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
    Ok(ImageHeader {
        codec: CODEC,
        size: Size::new(u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3])),
        channels,
        bits,
        orientation: orientation(bytes),
    })
}

/// Orientation from the `eXIf` chunk, else from a text chunk: `Raw profile type exif` or XMP, as ImageMagick, GIMP and
/// others write.
fn orientation(bytes: &[u8]) -> Orientation {
    const XMP: &[u8] = b"XML:com.adobe.xmp\0\0\0";
    let (mut packet, mut profile) = (None, None);
    for (name, data) in (Chunks { bytes, at: SIGNATURE }) {
        match name {
            b"eXIf" => {
                if let Some(found) = exif::orientation(data) {
                    return found;
                }
            }
            b"iTXt" if data.starts_with(XMP) => packet = exif::xmp_orientation(data).or(packet),
            b"tEXt" | b"zTXt" => match raw_profile(name == b"zTXt", data) {
                Some((b"exif" | b"APP1", block)) => profile = exif::orientation(&block).or(profile),
                Some((b"xmp", block)) => packet = exif::xmp_orientation(&block).or(packet),
                _ => {}
            },
            _ => {}
        }
    }
    profile.or(packet).unwrap_or_default()
}

/// A profile stored as hexadecimal digits in a text chunk, after its name and length; `zTXt` compresses the text.
fn raw_profile(is_compressed: bool, data: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    const KEYWORD: &[u8] = b"Raw profile type ";
    // No real orientation is in a longer one, and a decompression bomb must not be unpacked.
    const LONGEST: usize = 1 << 18;
    let rest = data.strip_prefix(KEYWORD)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (kind, text) = (&rest[..end], &rest[end + 1..]);
    let mut inflated = Vec::new();
    let text = if is_compressed {
        let mut inflate = flate2::Decompress::new(true);
        inflated.try_reserve(LONGEST).ok()?;
        inflate.decompress_vec(text.get(1..)?, &mut inflated, flate2::FlushDecompress::Finish).ok()?;
        &inflated[..]
    } else {
        text
    };
    let digits = text.split(|byte| *byte == b'\n').skip(3).flatten();
    let nibbles: Option<Vec<u8>> = digits
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| char::from(*byte).to_digit(16).map(|digit| digit as u8))
        .collect();
    let bytes = nibbles?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    Some((kind, bytes))
}

/// Iterates over chunks by their lengths; the decoder verifies checksums.
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

/// Reads everything before the pixels.
pub(super) fn begin<'a>(
    still: &'a [u8],
    at: &'a Cell<usize>,
    header: &ImageHeader,
    transformations: Transformations,
) -> Result<png::Reader<Tracked<'a>>> {
    let mut options = DecodeOptions::default();
    // Pillow refuses files whose text or profile is damaged; so do we.
    options.set_skip_ancillary_crc_failures(false);
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut decoder = png::Decoder::new_with_options(Tracked::new(still, at), options);
    decoder.set_transformations(transformations);
    // Besides our buffer, the decoder keeps two rows and the chunks it reads; none is longer than the file.
    let rows = header.size.width as usize * 8 * 4;
    decoder.set_limits(png::Limits { bytes: rows + still.len() + (16 << 20) });
    decoder.read_info().map_err(|e| convert(e, at))
}

/// The stored numbers: palette indices, greys and colours of 8 and 16 bits. Greys of 2 and 4 bits are scaled
/// to 0…255, as in Pillow.
pub(super) fn stored(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<Stored> {
    let (still, allow_truncated) = (without_animation(bytes)?, scratch.allow_truncated);
    let at = Cell::new(0);
    let mut reader = begin(&still, &at, header, Transformations::IDENTITY)?;
    let length = reader.output_buffer_size().ok_or_else(|| CODEC.unsupported("size does not fit memory"))?;
    let (color, depth) = reader.output_color_type();
    let is_packed = header.bits < 8;
    let target = if is_packed { &mut scratch.pixels } else { &mut scratch.samples };
    fit(target, length, 0)?;
    read_pixels(&mut reader, &at, allow_truncated, target)?;
    if is_packed {
        let spread =
            if color == ColorType::Indexed { 1 } else { [0, 1, 85, 0, 17][usize::from(header.bits)] };
        unpack(header, spread, scratch)?;
    }
    let info = reader.info();
    if color == ColorType::Indexed {
        let colours =
            info.palette.as_deref().ok_or_else(|| CODEC.corrupt(0, "palette image without palette"))?;
        return Ok(Stored::indexed(palette(colours, info.trns.as_deref().unwrap_or_default())));
    }
    let number = if depth == png::BitDepth::Sixteen { Number::U16 } else { Number::U8 };
    if number == Number::U16 {
        scratch
            .samples
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .for_each(|two| *two = u16::from_be_bytes(*two).to_ne_bytes());
    }
    let key = info.trns.as_deref().and_then(|key| transparent(key, header.bits));
    let black_and_white = header.bits == 1;
    Ok(Stored { black_and_white, key, ..Stored::plain(color.samples(), number) })
}

/// Fills `target`. If allowed, rows that are missing in the file stay black.
fn read_pixels(
    reader: &mut png::Reader<Tracked<'_>>,
    at: &Cell<usize>,
    allow_truncated: bool,
    target: &mut [u8],
) -> Result<()> {
    let lenient = allow_truncated && !reader.info().interlaced;
    if lenient {
        target.fill(0);
    }
    let read = reader.next_frame(target).map(drop).and_then(|()| reader.finish());
    match read.map_err(|e| convert(e, at)) {
        Err(Error::Truncated { .. }) if lenient => Ok(()),
        read => read,
    }
}

/// Unpacks samples of less than a byte to one byte each.
fn unpack(header: &ImageHeader, spread: u8, scratch: &mut Scratch) -> Result<()> {
    let (width, bits) = (header.size.width as usize, usize::from(header.bits));
    let Scratch { pixels, samples, .. } = scratch;
    samples.clear();
    room::reserve(samples, header.size.area() as usize)?;
    let mask = (1u16 << bits) as u8 - 1;
    for row in pixels.chunks_exact((width * bits).div_ceil(8)) {
        let value = |x: usize| row[x * bits / 8] >> (8 - bits - x * bits % 8) & mask;
        samples.extend((0..width).map(|x| value(x) * spread));
    }
    Ok(())
}

fn palette(colours: &[u8], alphas: &[u8]) -> Vec<[u8; 4]> {
    let alpha = |at: usize| alphas.get(at).copied().unwrap_or(255);
    let (colours, _) = colours.as_chunks::<3>();
    colours.iter().enumerate().map(|(at, [r, g, b])| [*r, *g, *b, alpha(at)]).collect()
}

/// The colour that marks transparent pixels.
fn transparent(key: &[u8], bits: u8) -> Option<[u16; 3]> {
    let number = |two: &[u8; 2]| match (u16::from_be_bytes(*two), bits) {
        (value, 1) => value * 255,
        (value, 2) => value * 85,
        (value, 4) => value * 17,
        (value, _) => value,
    };
    match key.as_chunks::<2>().0 {
        [grey] => Some([number(grey); 3]),
        [red, green, blue] => Some([number(red), number(green), number(blue)]),
        _ => None,
    }
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let (still, allow_truncated) = (without_animation(bytes)?, scratch.allow_truncated);
    let at = Cell::new(0);
    let mut reader = begin(&still, &at, header, Transformations::EXPAND | Transformations::STRIP_16)?;
    let (color, _) = reader.output_color_type();
    let length = reader.output_buffer_size().ok_or_else(|| CODEC.unsupported("size does not fit memory"))?;
    debug_assert_eq!(length as u64, header.size.area() * color.samples() as u64);
    let is_colour = matches!(color, ColorType::Rgb | ColorType::Rgba);
    let target = if is_colour { &mut scratch.pixels } else { &mut scratch.samples };
    fit(target, length, 0)?;
    read_pixels(&mut reader, &at, allow_truncated, target)?;
    match color {
        ColorType::Rgb => return Ok(PixelLayout::Rgb),
        ColorType::Rgba => {}
        ColorType::Grayscale => expand_grey(&scratch.samples, 1, &mut scratch.pixels)?,
        ColorType::GrayscaleAlpha => expand_grey(&scratch.samples, 2, &mut scratch.pixels)?,
        ColorType::Indexed => return Err(CODEC.corrupt(0, "palette image without palette")),
    }
    Ok(PixelLayout::Rgbx)
}

/// Decodes the rows of `part`; `None` for interlaced images and for those that may end early. What follows the last row is
/// not decompressed, but its checksums are verified. Returns the box that was decoded.
pub(super) fn decode_part(
    bytes: &[u8],
    header: &ImageHeader,
    part: Region,
    scratch: &mut Scratch,
) -> Result<Option<(PixelLayout, Region)>> {
    let still = without_animation(bytes)?;
    let at = Cell::new(0);
    let mut reader = begin(&still, &at, header, Transformations::EXPAND | Transformations::STRIP_16)?;
    if scratch.allow_truncated || reader.info().interlaced {
        return Ok(None);
    }
    let (color, _) = reader.output_color_type();
    let stride = header.size.width as usize * color.samples();
    let is_colour = matches!(color, ColorType::Rgb | ColorType::Rgba);
    let target = if is_colour { &mut scratch.pixels } else { &mut scratch.samples };
    fit(target, stride * part.height as usize, 0)?;
    for y in 0..part.y + part.height {
        // Rows above are read into the first row, and overwritten.
        let place = y.saturating_sub(part.y) as usize * stride;
        let row = reader.read_row(&mut target[place..place + stride]).map_err(|e| convert(e, &at))?;
        row.ok_or_else(|| CODEC.truncated(format!("the pixels end at row {y}")))?;
    }
    check_chunks(&still)?;
    let layout = match color {
        ColorType::Rgb => PixelLayout::Rgb,
        ColorType::Rgba => PixelLayout::Rgbx,
        ColorType::Grayscale => {
            expand_grey(&scratch.samples, 1, &mut scratch.pixels).map(|()| PixelLayout::Rgbx)?
        }
        ColorType::GrayscaleAlpha => {
            expand_grey(&scratch.samples, 2, &mut scratch.pixels).map(|()| PixelLayout::Rgbx)?
        }
        ColorType::Indexed => return Err(CODEC.corrupt(0, "palette image without palette")),
    };
    Ok(Some((layout, Region::new(0, part.y, header.size.width, part.height))))
}

/// Verifies that every chunk up to the last is there and undamaged.
fn check_chunks(bytes: &[u8]) -> Result<()> {
    let mut chunks = Chunks { bytes, at: SIGNATURE };
    let mut start = SIGNATURE;
    while let Some((name, data)) = chunks.next() {
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(data);
        match bytes.get(start + 8 + data.len()..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(stored) if u32::from_be_bytes(*stored) == sum.sum() => {}
            Some(_) => return Err(CODEC.corrupt(start, "the checksum of a chunk does not match")),
            None => break,
        }
        if name == b"IEND" {
            return Ok(());
        }
        start = chunks.at;
    }
    Err(CODEC.truncated(format!("the file ends at byte {}, before the image does", bytes.len())))
}

/// The file without its animation chunks: errors in them must not affect the still image.
pub(super) fn without_animation(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    let animates = |name: &[u8; 4]| matches!(name, b"acTL" | b"fcTL" | b"fdAT");
    if !(Chunks { bytes, at: SIGNATURE }).any(|(name, _)| animates(name)) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut still = Vec::new();
    room::reserve(&mut still, bytes.len())?;
    still.extend_from_slice(&bytes[..SIGNATURE]);
    let mut chunks = Chunks { bytes, at: SIGNATURE };
    let mut start = SIGNATURE;
    while let Some((name, _)) = chunks.next() {
        let end = chunks.at.min(bytes.len());
        if !animates(name) {
            still.extend_from_slice(&bytes[start..end]);
        }
        start = end;
    }
    still.extend_from_slice(&bytes[start..]);
    Ok(Cow::Owned(still))
}

pub(super) fn convert(error: DecodingError, at: &Cell<usize>) -> Error {
    match error {
        DecodingError::IoError(cause) if cause.kind() == ErrorKind::UnexpectedEof => {
            CODEC.truncated(format!("the file ends at byte {}, before the image does", at.get()))
        }
        DecodingError::IoError(cause) => CODEC.corrupt(at.get(), cause),
        DecodingError::Format(cause) => CODEC.corrupt(at.get(), in_words(&cause.to_string())),
        DecodingError::LimitsExceeded => CODEC.unsupported("it needs more memory than its size suggests"),
        DecodingError::Parameter(_) => CODEC.unsupported("the decoder does not support this request"),
    }
}

/// The library's message if it is plain text; some messages show internal types.
fn in_words(text: &str) -> &str {
    if text.starts_with("CRC error") {
        return "the checksum of a chunk does not match";
    }
    if text.contains("deflate") || text.contains("Deflate") {
        return "the compressed pixels are damaged";
    }
    if text.contains(['{', '(', ':']) { "a chunk breaks the rules of the format" } else { text }
}
