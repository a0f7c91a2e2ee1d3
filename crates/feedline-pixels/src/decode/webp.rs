//! WebP, with libwebp, which Pillow uses too. The only unsafe code among the codecs: calls of its C functions.

use std::mem::MaybeUninit;

use libwebp_sys::{
    VP8StatusCode, WEBP_CSP_MODE, WebPBitstreamFeatures, WebPDecode, WebPDecodeRGBAInto, WebPDecoderConfig,
    WebPGetFeatures,
};

use super::{Codec, ImageHeader, Scratch};
use crate::exif;
use crate::{Orientation, PixelLayout, Region, Result, Size, fit};

const CODEC: Codec = Codec::WebP;

/// Offset of the first chunk.
const CHUNKS: usize = 12;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let features = features(bytes)?;
    let size = canvas(bytes).unwrap_or(Size::new(features.width as u32, features.height as u32));
    let channels = if features.has_alpha == 0 { 3 } else { 4 };
    Ok(ImageHeader { codec: CODEC, size, channels, bits: 8, orientation: orientation(bytes) })
}

fn features(bytes: &[u8]) -> Result<WebPBitstreamFeatures> {
    let mut features = MaybeUninit::<WebPBitstreamFeatures>::zeroed();
    // SAFETY: pointer and length are those of a slice; the struct is plain integers, for which zero is valid.
    let (status, features) = unsafe {
        let status = WebPGetFeatures(bytes.as_ptr(), bytes.len(), features.as_mut_ptr());
        (status, features.assume_init())
    };
    match status {
        VP8StatusCode::VP8_STATUS_OK => Ok(features),
        VP8StatusCode::VP8_STATUS_NOT_ENOUGH_DATA => Err(CODEC.truncated("the header is not complete")),
        other => Err(CODEC.corrupt(CHUNKS, format!("bad header ({other:?})"))),
    }
}

/// The canvas declared by an extended file; simple files have none.
fn canvas(bytes: &[u8]) -> Option<Size> {
    let (name, data) = Chunks { bytes, at: CHUNKS }.next()?;
    if name != b"VP8X" {
        return None;
    }
    let [_, _, _, _, w0, w1, w2, h0, h1, h2] = *data.first_chunk::<10>()?;
    Some(Size::new(1 + u32::from_le_bytes([w0, w1, w2, 0]), 1 + u32::from_le_bytes([h0, h1, h2, 0])))
}

fn orientation(bytes: &[u8]) -> Orientation {
    let mut packet = None;
    for (name, data) in (Chunks { bytes, at: CHUNKS }) {
        match name {
            b"EXIF" => {
                if let Some(found) = exif::orientation(data) {
                    return found;
                }
            }
            b"XMP " => packet = exif::xmp_orientation(data),
            _ => {}
        }
    }
    packet.unwrap_or_default()
}

/// Iterates over RIFF chunks: name, length, data, padding to even.
struct Chunks<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (&'a [u8; 4], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.bytes.get(self.at..)?.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let data = rest.get(..length)?;
        self.at += 8 + length.next_multiple_of(2);
        Some((name, data))
    }
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    check_complete(bytes)?;
    let stride = header.size.width as usize * 4;
    let length = stride * header.size.height as usize;
    let mut start = 0;
    let mut image = bytes;
    if features(bytes)?.has_animation != 0 {
        let frame = first_frame(bytes, header.size)?;
        // If the first frame is smaller than the canvas, the pixels around it are transparent black.
        scratch.pixels.clear();
        start = frame.y * stride + frame.x * 4;
        image = frame.bytes;
    }
    fit(&mut scratch.pixels, length, 0)?;
    decode_into(image, &mut scratch.pixels[start..], stride)?;
    Ok(PixelLayout::Rgbx)
}

/// Decodes what `part` needs of a still image; `None` for animations. Returns the box that was decoded.
pub(super) fn decode_part(
    bytes: &[u8],
    header: &ImageHeader,
    part: Region,
    scratch: &mut Scratch,
) -> Result<Option<(PixelLayout, Region)>> {
    if features(bytes)?.has_animation != 0 {
        return Ok(None);
    }
    check_complete(bytes)?;
    let part = widened(part, header.size);
    let stride = part.width as usize * 4;
    fit(&mut scratch.pixels, stride * part.height as usize, 0)?;
    decode_box(bytes, part, &mut scratch.pixels, stride)?;
    Ok(Some((PixelLayout::Rgbx, part)))
}

/// The box with the pixels that chroma is interpolated from, beginning at even places, as the decoder asks.
fn widened(part: Region, size: Size) -> Region {
    const MARGIN: u32 = 2;
    let (x, y) = (part.x.saturating_sub(MARGIN) & !1, part.y.saturating_sub(MARGIN) & !1);
    let right = (part.x + part.width + MARGIN).min(size.width);
    let bottom = (part.y + part.height + MARGIN).min(size.height);
    Region::new(x, y, right - x, bottom - y)
}

/// Decodes a box to RGBA.
fn decode_box(bytes: &[u8], part: Region, pixels: &mut [u8], stride: usize) -> Result<()> {
    let row = i32::try_from(stride).map_err(|_| CODEC.unsupported("rows of more than 2 GiB"))?;
    let mut config = WebPDecoderConfig::new().map_err(|()| CODEC.unsupported("this version of libwebp"))?;
    let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
    config.options.use_cropping = 1;
    (config.options.crop_left, config.options.crop_top) = (side(part.x), side(part.y));
    (config.options.crop_width, config.options.crop_height) = (side(part.width), side(part.height));
    config.output.colorspace = WEBP_CSP_MODE::MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA =
        libwebp_sys::WebPRGBABuffer { rgba: pixels.as_mut_ptr(), stride: row, size: pixels.len() };
    // SAFETY: pointers and lengths are those of slices; libwebp refuses a box that is outside the image, and memory
    // that is too short for it.
    match unsafe { WebPDecode(bytes.as_ptr(), bytes.len(), &raw mut config) } {
        VP8StatusCode::VP8_STATUS_OK => Ok(()),
        _ => Err(CODEC.corrupt(CHUNKS, "the image data is damaged or ends early")),
    }
}

/// The fewest bytes that an image of this size can take. A lossy one needs at least a bit for the modes of each block
/// of 16 × 16 pixels; a lossless one of a single colour needs none.
pub(super) fn fewest_bytes(bytes: &[u8], size: Size) -> u64 {
    let chunks = || Chunks { bytes, at: CHUNKS };
    let lossy = chunks().any(|(name, _)| name == b"VP8 ");
    let other = chunks().any(|(name, _)| matches!(name, b"VP8L" | b"ANMF"));
    if lossy && !other { size.area() / 256 / 8 } else { 0 }
}

/// RIFF gives the file's length; libwebp would decode an animation's first frame even if the file is cut after it.
fn check_complete(bytes: &[u8]) -> Result<()> {
    let declared = bytes[4..].first_chunk().map_or(0, |length| u64::from(u32::from_le_bytes(*length)));
    if bytes.len() as u64 >= declared + 8 {
        return Ok(());
    }
    Err(CODEC.truncated(format!("{} of {} bytes", bytes.len(), declared + 8)))
}

/// An animation's frame: a bitstream, and its position on the canvas.
struct Frame<'a> {
    bytes: &'a [u8],
    x: usize,
    y: usize,
}

fn first_frame(bytes: &[u8], canvas: Size) -> Result<Frame<'_>> {
    let mut chunks = Chunks { bytes, at: CHUNKS };
    let (_, data) = chunks
        .find(|(name, _)| *name == b"ANMF")
        .ok_or_else(|| CODEC.truncated("an animation without frames"))?;
    let (head, frame) = data.split_at_checked(16).ok_or_else(|| CODEC.truncated("a frame without header"))?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], 0]);
    let (x, y) = (2 * number(0), 2 * number(3));
    let (width, height) = (1 + number(6), 1 + number(9));
    let actual = features(frame)?;
    let declared = (actual.width as u32, actual.height as u32) == (width, height);
    if !declared || x + width > canvas.width || y + height > canvas.height {
        return Err(CODEC.corrupt(chunks.at, "the first frame does not fit the canvas"));
    }
    Ok(Frame { bytes: frame, x: x as usize, y: y as usize })
}

/// Decodes a file or bare bitstream to RGBA.
fn decode_into(bytes: &[u8], pixels: &mut [u8], stride: usize) -> Result<()> {
    let row = i32::try_from(stride).map_err(|_| CODEC.unsupported("rows of more than 2 GiB"))?;
    // SAFETY: pointers and lengths are those of slices; libwebp refuses to write an image that does not fit the length.
    let result =
        unsafe { WebPDecodeRGBAInto(bytes.as_ptr(), bytes.len(), pixels.as_mut_ptr(), pixels.len(), row) };
    if result.is_null() {
        return Err(CODEC.corrupt(CHUNKS, "the image data is damaged or ends early"));
    }
    Ok(())
}
