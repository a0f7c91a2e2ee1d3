//! Decodes images of any format, with the pixels of Pillow's `Image.open(...).convert("RGB")`.
//!
//! [`sniff`] looks at the first bytes, [`probe`] reads headers (size, orientation) without decoding, [`Decoder`]
//! decodes whole images into its own scratch memory. Of animations, the first frame is decoded. Alpha is dropped, not
//! blended: pixels keep their colour. Sixteen-bit samples keep their upper eight bits. Pillow instead clips 16-bit
//! greys at 255, which destroys most such images, so this differs on purpose. There are two smaller differences in
//! TIFF: unsigned samples of 32 bits are clipped at 255 (Pillow treats them as signed), and Lab may differ by some
//! levels.
//!
//! JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF, JPEG XL, JPEG 2000, the portable maps and QOI are decoded ([`Codec`]). HEIC and
//! others are refused by name.
//!
//! Against hostile input: sizes are checked against [`Decoder::max_pixels`](Decoder::with_max_pixels) and against what
//! the bytes can contain ([`check_amount`]) before memory is allocated. Files that end early are errors, every length
//! is compared with the bytes before it is used, and a failed allocation is an error.

#[cfg(not(feature = "full"))]
mod absent;
mod amount;
#[cfg(feature = "avif")]
mod avif;
mod bmp;
#[cfg(feature = "gif")]
mod gif;
#[cfg(feature = "jpeg-2000")]
mod jp2;
#[cfg(feature = "jpeg-xl")]
mod jxl;
mod labels;
mod png;
mod pnm;
mod qoi;
mod refused;
#[cfg(feature = "tiff")]
mod tiff;
mod tracked;
mod values;
#[cfg(feature = "webp")]
mod webp;

pub use amount::check_amount;
pub use values::Mode;

#[cfg(not(feature = "avif"))]
use absent as avif;
#[cfg(not(feature = "gif"))]
use absent as gif;
#[cfg(not(feature = "webp"))]
use absent as webp;
#[cfg(not(feature = "tiff"))]
use absent::tiff;
use values::Stored;

use crate::{Error, ImageMut, ImageRef, Orientation, PixelLayout, Region, Result, Size, fit, jpeg, room};

/// Image formats, recognised by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// JPEG, decoded by `crate::jpeg`.
    Jpeg,
    /// PNG and APNG.
    Png,
    /// WebP: lossy, lossless, animated.
    WebP,
    /// GIF.
    Gif,
    /// Windows and OS/2 bitmaps.
    Bmp,
    /// TIFF: strips, tiles and planes; no compression, PackBits, LZW, deflate, fax, JPEG, zstd and xz.
    Tiff,
    /// The portable maps: PBM, PGM, PPM, PAM, PFM.
    Pnm,
    /// QOI.
    Qoi,
    /// AVIF.
    Avif,
    /// JPEG XL.
    #[cfg(feature = "jpeg-xl")]
    JpegXl,
    /// JPEG 2000: files and bare code streams.
    #[cfg(feature = "jpeg-2000")]
    Jpeg2000,
}

impl Codec {
    /// Short name, used in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Jpeg => "jpeg",
            Codec::Png => "png",
            Codec::WebP => "webp",
            Codec::Gif => "gif",
            Codec::Bmp => "bmp",
            Codec::Tiff => "tiff",
            Codec::Pnm => "pnm",
            Codec::Qoi => "qoi",
            Codec::Avif => "AVIF",
            #[cfg(feature = "jpeg-xl")]
            Codec::JpegXl => "JPEG XL",
            #[cfg(feature = "jpeg-2000")]
            Codec::Jpeg2000 => "JPEG 2000",
        }
    }

    /// Whether this build has the decoder.
    pub const fn is_built_in(self) -> bool {
        match self {
            Codec::Avif => cfg!(feature = "avif"),
            Codec::Gif => cfg!(feature = "gif"),
            Codec::Tiff => cfg!(feature = "tiff"),
            Codec::WebP => cfg!(feature = "webp"),
            _ => true,
        }
    }

    fn corrupt(self, offset: usize, reason: impl std::fmt::Display) -> Error {
        Error::Corrupt { codec: self.name(), offset: offset as u64, reason: reason.to_string() }
    }

    fn truncated(self, reason: impl std::fmt::Display) -> Error {
        Error::Truncated { codec: self.name(), reason: reason.to_string() }
    }

    fn unsupported(self, reason: impl std::fmt::Display) -> Error {
        Error::Unsupported { codec: self.name(), reason: reason.to_string() }
    }
}

/// The format of these bytes, judged by the first bytes only.
pub fn sniff(bytes: &[u8]) -> Option<Codec> {
    let codec = match bytes {
        [0xFF, 0xD8, 0xFF, ..] => Codec::Jpeg,
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Codec::Png,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Codec::WebP,
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Codec::Gif,
        [b'B', b'M', ..] => Codec::Bmp,
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Codec::Tiff,
        [b'P', b'1'..=b'6', space, ..] if space.is_ascii_whitespace() || matches!(space, 0x0B | b'#') => {
            Codec::Pnm
        }
        [b'P', b'7' | b'f' | b'F', b'\n', ..] => Codec::Pnm,
        [b'q', b'o', b'i', b'f', ..] => Codec::Qoi,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] if refused::is_avif(bytes) => Codec::Avif,
        #[cfg(feature = "jpeg-xl")]
        [0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => Codec::JpegXl,
        #[cfg(feature = "jpeg-2000")]
        [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xFF, 0x4F, 0xFF, 0x51, ..] => Codec::Jpeg2000,
        _ => return None,
    };
    Some(codec)
}

/// An image's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// Format of the file.
    pub codec: Codec,
    /// Width and height as stored, before orientation.
    pub size: Size,
    /// Channels of the file's pixels: 1 grey or palette index, 2 grey and alpha, 3 colour, 4 colour and alpha.
    pub channels: u8,
    /// Bits per sample.
    pub bits: u8,
    /// How pixels must be rotated to be upright.
    pub orientation: Orientation,
}

impl ImageHeader {
    /// Width and height after orientation; transforms are drawn for this size.
    pub const fn upright_size(&self) -> Size {
        self.orientation.turn_size(self.size)
    }
}

/// Reads headers only. It is cheap, and the memory used does not depend on the declared sizes.
pub fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let codec = sniff(bytes).ok_or_else(|| unknown(bytes))?;
    if !codec.is_built_in() {
        return Err(
            codec.unsupported("this build of feedline has no decoder for it (a Cargo feature was left out)")
        );
    }
    let header = match codec {
        Codec::Jpeg => jpeg_header(bytes),
        Codec::Png => png::probe(bytes),
        Codec::WebP => webp::probe(bytes),
        Codec::Gif => gif::probe(bytes),
        Codec::Bmp => bmp::probe(bytes),
        Codec::Tiff => tiff::probe(bytes),
        Codec::Pnm => pnm::probe(bytes),
        Codec::Qoi => qoi::probe(bytes),
        Codec::Avif => avif::probe(bytes),
        #[cfg(feature = "jpeg-xl")]
        Codec::JpegXl => jxl::probe(bytes),
        #[cfg(feature = "jpeg-2000")]
        Codec::Jpeg2000 => jp2::probe(bytes),
    }?;
    if header.size.area() == 0 {
        return Err(codec.corrupt(0, format!("size {}x{}", header.size.width, header.size.height)));
    }
    Ok(header)
}

/// Copies an image file to `out` so that decoding it gives `page`, counted from 0. Only TIFF has several pages.
pub fn select_page(bytes: &[u8], page: usize, out: &mut Vec<u8>) -> Result<()> {
    match sniff(bytes) {
        Some(Codec::Tiff) => tiff::select_page(bytes, page, out),
        Some(codec) => Err(codec.unsupported(format!("page {page}: such a file has one page"))),
        None => Err(unknown(bytes)),
    }
}

fn jpeg_header(bytes: &[u8]) -> Result<ImageHeader> {
    let header = jpeg::probe(bytes)?;
    Ok(ImageHeader {
        codec: Codec::Jpeg,
        size: header.size,
        channels: header.components,
        bits: header.precision,
        orientation: Orientation::from_exif(u32::from(header.orientation)),
    })
}

fn unknown(bytes: &[u8]) -> Error {
    if bytes.is_empty() {
        return Error::UnknownFormat("no bytes".into());
    }
    if let Some((codec, reason)) = refused::known(bytes) {
        return Error::Unsupported { codec, reason };
    }
    let start = bytes[..bytes.len().min(8)].escape_ascii();
    Error::UnknownFormat(format!("{} bytes beginning with \"{start}\"", bytes.len()))
}

/// Buffers that decoders fill and reuse.
#[derive(Debug, Default)]
struct Scratch {
    /// The result.
    pixels: Vec<u8>,
    /// Samples before conversion to colours.
    samples: Vec<u8>,
    /// Whether rows that are missing in a file are left black.
    allow_truncated: bool,
}

/// Decodes whole images; owns scratch memory, so keep one per thread.
#[derive(Debug)]
pub struct Decoder {
    scratch: Scratch,
    upright: Vec<u8>,
    /// Size and layout of the last upright image, and whether it had to be rotated.
    last: Option<(Size, PixelLayout, bool)>,
    jpeg: jpeg::Decoder,
    max_pixels: u64,
    /// Whether images are rotated as their EXIF says.
    upright_wanted: bool,
    /// The colour behind transparent pixels.
    background: Option<[u8; 3]>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Default limit: Pillow's, beyond which it refuses to decode.
    pub const DEFAULT_MAX_PIXELS: u64 = 178_956_970;

    /// Creates a decoder with the default limit.
    pub fn new() -> Self {
        Self::with_max_pixels(Self::DEFAULT_MAX_PIXELS)
    }

    /// Creates a decoder that refuses images of more pixels than this before it allocates memory for them.
    pub fn with_max_pixels(max_pixels: u64) -> Self {
        let jpeg = jpeg::Decoder::new().with_pixel_limit(max_pixels);
        Decoder {
            scratch: Scratch::default(),
            upright: Vec::new(),
            last: None,
            jpeg,
            max_pixels,
            upright_wanted: true,
            background: None,
        }
    }

    /// Sets whether images are rotated as their EXIF says; the default is true. TIFF's own orientation is always
    /// applied, as in Pillow.
    pub fn set_upright(&mut self, upright: bool) {
        self.upright_wanted = upright;
    }

    /// Sets the colour behind transparent pixels; without one, opacity is dropped.
    pub fn set_background(&mut self, background: Option<[u8; 3]>) {
        self.background = background;
    }

    /// Sets whether a PNG that ends early is decoded as far as it goes, with black rows after that. For JPEGs, the
    /// caller adds an end marker, and they decode.
    pub fn set_allow_truncated(&mut self, allow: bool) {
        self.scratch.allow_truncated = allow;
    }

    /// Decodes the whole image as stored; the caller may rotate it by the header's orientation.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(ImageHeader, ImageRef<'_>)> {
        self.last = None;
        let (header, layout) = self.fill(bytes)?;
        Ok((header, view(&self.scratch.pixels, header.size, layout)?))
    }

    /// Decodes the whole image and rotates it upright.
    pub fn decode_upright(&mut self, bytes: &[u8]) -> Result<(ImageHeader, ImageRef<'_>)> {
        self.last = None;
        let (header, layout) = self.fill(bytes)?;
        let image = self.turned(&header, layout)?;
        Ok((header, image))
    }

    /// Decodes at least the pixels of `part`, a box of the upright image, if the codec can leave out others; else the
    /// whole image. Returns the box that was decoded, and its pixels. Damage outside of it may be overlooked, but not
    /// that the file ends early.
    pub fn decode_part(&mut self, bytes: &[u8], part: Region) -> Result<(Region, ImageRef<'_>)> {
        self.last = None;
        let header = self.checked_header(bytes)?;
        let size = header.upright_size();
        let is_part = part != Region::whole(size) && part.check_inside(size).is_ok();
        if is_part && header.orientation == Orientation::Upright && self.background.is_none() {
            let scratch = &mut self.scratch;
            let decoded = match header.codec {
                Codec::Png => png::decode_part(bytes, &header, part, scratch)?,
                Codec::WebP => webp::decode_part(bytes, &header, part, scratch)?,
                Codec::Tiff => tiff::decode_part(bytes, &header, part, scratch)?,
                _ => None,
            };
            if let Some((layout, decoded)) = decoded {
                self.last = Some((decoded.size(), layout, false));
                return Ok((decoded, view(&self.scratch.pixels, decoded.size(), layout)?));
            }
        }
        let (_, image) = self.decode_upright(bytes)?;
        Ok((Region::whole(image.size), image))
    }

    /// The pixels in scratch memory, rotated as the header says.
    fn turned(&mut self, header: &ImageHeader, layout: PixelLayout) -> Result<ImageRef<'_>> {
        let stored = view(&self.scratch.pixels, header.size, layout)?;
        let orientation = if self.upright_wanted { header.orientation } else { Orientation::Upright };
        let image = orientation.apply(stored, &mut self.upright)?;
        self.last = Some((image.size, image.layout, orientation != Orientation::Upright));
        Ok(image)
    }

    /// Decodes the whole image in mode `mode`, upright. The layout of the result tells its number type:
    /// `Index8`, `Grey16` or one 32-bit number for [`Mode::Index`]; any for [`Mode::Unchanged`].
    pub fn decode_as(&mut self, bytes: &[u8], mode: Mode) -> Result<(ImageHeader, ImageRef<'_>)> {
        if mode == Mode::Rgb {
            return self.decode_upright(bytes);
        }
        self.last = None;
        let header = self.checked_header(bytes)?;
        let stored = self.stored(bytes, &header)?;
        let layout = stored.convert(header.codec, mode, &mut self.scratch)?;
        let image = self.turned(&header, layout)?;
        Ok((header, image))
    }

    /// Decodes the stored values into `scratch.samples`.
    fn stored(&mut self, bytes: &[u8], header: &ImageHeader) -> Result<Stored> {
        let scratch = &mut self.scratch;
        let numbers = match header.codec {
            Codec::Png => return png::stored(bytes, header, scratch),
            Codec::Gif => return gif::stored(bytes, header, scratch),
            Codec::Bmp => bmp::stored(bytes, scratch)?,
            Codec::Tiff => tiff::stored(bytes, scratch)?,
            Codec::Pnm => pnm::stored(bytes, scratch)?,
            #[cfg(feature = "jpeg-2000")]
            Codec::Jpeg2000 => jp2::stored(bytes, scratch)?,
            _ => None,
        };
        if let Some(numbers) = numbers {
            return Ok(numbers);
        }
        let layout = self.decode_whole(bytes, header)?;
        let channels = match header.codec {
            // CMYK has been converted to red, green and blue.
            Codec::Jpeg if header.channels == 4 => 3,
            Codec::Tiff => 3,
            _ => header.channels,
        };
        Stored::of_pixels(layout, channels, &mut self.scratch)
    }

    /// The last image of [`decode_upright`](Self::decode_upright), [`decode_as`](Self::decode_as) or
    /// [`decode_part`](Self::decode_part).
    pub fn last(&self) -> Option<ImageRef<'_>> {
        let (size, layout, turned) = self.last?;
        view(if turned { &self.upright } else { &self.scratch.pixels }, size, layout).ok()
    }

    fn fill(&mut self, bytes: &[u8]) -> Result<(ImageHeader, PixelLayout)> {
        let header = self.checked_header(bytes)?;
        if let Some(background) = self.background
            && header.codec != Codec::Jpeg
        {
            let stored = self.stored(bytes, &header)?;
            stored.convert(header.codec, Mode::Rgba, &mut self.scratch)?;
            values::compose(background, &mut self.scratch.pixels);
            return Ok((header, PixelLayout::Rgbx));
        }
        let layout = self.decode_whole(bytes, &header)?;
        Ok((header, layout))
    }

    /// Reads the header and checks it against the limit and against the length of the bytes.
    fn checked_header(&self, bytes: &[u8]) -> Result<ImageHeader> {
        let header = probe(bytes)?;
        self.check_size(header.size)?;
        amount::check_header(bytes, &header)?;
        Ok(header)
    }

    fn decode_whole(&mut self, bytes: &[u8], header: &ImageHeader) -> Result<PixelLayout> {
        let scratch = &mut self.scratch;
        match header.codec {
            Codec::Jpeg => decode_jpeg(&mut self.jpeg, bytes, header, scratch),
            Codec::Png => png::decode(bytes, header, scratch),
            Codec::WebP => webp::decode(bytes, header, scratch),
            Codec::Gif => gif::decode(bytes, header, scratch),
            Codec::Bmp => bmp::decode(bytes, header, scratch),
            Codec::Tiff => tiff::decode(bytes, header, scratch),
            Codec::Pnm => pnm::decode(bytes, header, scratch),
            Codec::Qoi => qoi::decode(bytes, header, scratch),
            Codec::Avif => avif::decode(bytes, header, scratch),
            #[cfg(feature = "jpeg-xl")]
            Codec::JpegXl => jxl::decode(bytes, header, scratch),
            #[cfg(feature = "jpeg-2000")]
            Codec::Jpeg2000 => jp2::decode(bytes, header, scratch),
        }
    }

    fn check_size(&self, size: Size) -> Result<()> {
        // Pixels must also be addressable with four bytes each on 32-bit machines.
        let limit = self.max_pixels.min(isize::MAX as u64 / 4);
        if size.area() <= limit {
            return Ok(());
        }
        Err(Error::TooLarge { width: size.width, height: size.height, limit })
    }
}

fn decode_jpeg(
    decoder: &mut jpeg::Decoder,
    bytes: &[u8],
    header: &ImageHeader,
    scratch: &mut Scratch,
) -> Result<PixelLayout> {
    let stride = header.size.width as usize * 4;
    fit(&mut scratch.pixels, stride * header.size.height as usize, 0)?;
    let mut out = ImageMut::new(&mut scratch.pixels, header.size, stride, PixelLayout::Rgbx)?;
    decoder.decode_into(bytes, None, Region::whole(header.size), jpeg::Scale::Full, &mut out)?;
    Ok(PixelLayout::Rgbx)
}

fn view(pixels: &[u8], size: Size, layout: PixelLayout) -> Result<ImageRef<'_>> {
    ImageRef::new(pixels, size, size.width as usize * layout.bytes(), layout)
}

/// Converts grey samples to pixels; `step` is the distance from one grey to the next.
fn expand_grey(samples: &[u8], step: usize, pixels: &mut Vec<u8>) -> Result<()> {
    pixels.clear();
    room::reserve(pixels, samples.len() / step * 4)?;
    pixels.extend(samples.chunks_exact(step).flat_map(|grey| [grey[0], grey[0], grey[0], 255]));
    Ok(())
}

/// Converts bytes of 1 to 4 channels in `samples`, opacity last, to pixels.
#[cfg(any(feature = "jpeg-xl", feature = "jpeg-2000"))]
fn expand_channels(channels: usize, scratch: &mut Scratch) -> Result<PixelLayout> {
    match channels {
        1 => expand_grey(&scratch.samples, 1, &mut scratch.pixels)?,
        2 => {
            let Scratch { pixels, samples, .. } = scratch;
            pixels.clear();
            room::reserve(pixels, samples.len() * 2)?;
            pixels.extend(
                samples.as_chunks::<2>().0.iter().flat_map(|[grey, alpha]| [*grey, *grey, *grey, *alpha]),
            );
        }
        3 => {
            std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
            return Ok(PixelLayout::Rgb);
        }
        _ => std::mem::swap(&mut scratch.pixels, &mut scratch.samples),
    }
    Ok(PixelLayout::Rgbx)
}

/// Converts palette indices to pixels; indices past the palette's end are black, as in Pillow.
fn expand_palette(indices: &[u8], palette: &[[u8; 3]], pixels: &mut Vec<u8>) -> Result<()> {
    let mut table = [[0, 0, 0, 255]; 256];
    for (entry, [red, green, blue]) in table.iter_mut().zip(palette) {
        *entry = [*red, *green, *blue, 255];
    }
    pixels.clear();
    room::reserve(pixels, indices.len() * 4)?;
    pixels.extend(indices.iter().flat_map(|index| table[*index as usize]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_recognised_by_their_first_bytes() {
        assert_eq!(sniff(b"\xFF\xD8\xFF\xE0"), Some(Codec::Jpeg));
        assert_eq!(sniff(b"RIFF\0\0\0\0WEBPVP8 "), Some(Codec::WebP));
        assert_eq!(sniff(b"MM\0*"), Some(Codec::Tiff));
        assert_eq!(sniff(b"<html>"), None);
        assert_eq!(sniff(b""), None);
    }

    #[test]
    fn unsupported_formats_are_named() {
        assert_eq!(probe(b"").unwrap_err().to_string(), "not an image: no bytes");
        let error = probe(b"<html>\n<body>").unwrap_err().to_string();
        assert_eq!(error, r#"not an image: 13 bytes beginning with "<html>\n<""#);
    }
}
