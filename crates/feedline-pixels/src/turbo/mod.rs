//! Safe interface to libjpeg-turbo: the decoder for every JPEG that [`crate::jpeg`] does not cover, the reference for
//! those it does, a lossless transcoder from progressive to baseline, and the encoder for tests.
//!
//! The pixels are those of the accurate path (ISLOW DCT, fancy upsampling, no merged upsampling). Truncated entropy
//! data is an error, as in Pillow; for other damage that libjpeg only warns about, its pixels are returned.

use std::ffi::{CStr, c_char, c_int};

use crate::{Error, ImageMut, Region, Result, Size};

// The crate that builds and links the library; the C shim calls it, Rust does not.
use turbojpeg_sys as _;

const CODEC: &str = "jpeg";
const MESSAGE_BYTES: usize = 200;

/// Header of a JPEG as libjpeg-turbo reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurboHeader {
    /// Width and height in pixels.
    pub size: Size,
    /// Colour components: 1 grey, 3 colour, 4 CMYK or YCCK.
    pub components: u8,
    /// Bits per sample.
    pub precision: u8,
    /// Progressive rather than sequential.
    pub progressive: bool,
    /// Arithmetic rather than Huffman coding.
    pub arithmetic: bool,
    /// MCUs between restart markers, 0 for none.
    pub restart_interval: u32,
}

/// Settings of the test encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Width and height in pixels.
    pub size: Size,
    /// 1 grey, 3 RGB, 4 CMYK.
    pub channels: u8,
    /// 1 to 100.
    pub quality: u8,
    /// Luma sampling factors, horizontal and vertical: (2, 2) is 4:2:0.
    pub sampling: (u8, u8),
    /// MCUs between restart markers, 0 for none.
    pub restart_interval: u32,
    /// Compute Huffman tables for the image.
    pub optimize: bool,
    /// Progressive scans.
    pub progressive: bool,
    /// Arithmetic coding.
    pub arithmetic: bool,
    /// Store RGB as it is, without the YCbCr transform.
    pub rgb_colors: bool,
}

impl Encoding {
    /// A baseline file with standard tables.
    pub fn baseline(size: Size, channels: u8, quality: u8, sampling: (u8, u8)) -> Self {
        Encoding {
            size,
            channels,
            quality,
            sampling,
            restart_interval: 0,
            optimize: false,
            progressive: false,
            arithmetic: false,
            rgb_colors: false,
        }
    }
}

/// A scan of a file for [`encode_scans`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Components, by number.
    pub components: Vec<u8>,
    /// First and last coefficient in zig-zag order.
    pub band: (u8, u8),
    /// Number of low bits that are missing before the scan (0: all bits are) and after it.
    pub bits: (u8, u8),
}

/// The size of an image decoded at `scale`/8.
pub fn scaled_size(size: Size, scale: u8) -> Size {
    let scaled = |n: u32| (u64::from(n) * u64::from(scale)).div_ceil(8) as u32;
    Size::new(scaled(size.width), scaled(size.height))
}

/// The version of libjpeg-turbo that was compiled in, such as `3.1.0`.
pub fn version() -> String {
    // SAFETY: the function has no argument and only returns a constant.
    let number = unsafe { ffi::feedline_turbo_version() };
    format!("{}.{}.{}", number / 1_000_000, number / 1000 % 1000, number % 1000)
}

/// Reads the header.
pub fn header(bytes: &[u8]) -> Result<TurboHeader> {
    let mut raw = ffi::RawHeader::default();
    let mut message = [0; MESSAGE_BYTES];
    // SAFETY: the pointer and length are those of a live slice, which the shim only reads; the other two point to live
    // values of the types and sizes that it expects.
    let code = unsafe {
        ffi::feedline_turbo_header(bytes.as_ptr(), bytes.len(), &raw mut raw, message.as_mut_ptr())
    };
    check(code, &message)?;
    Ok(TurboHeader {
        size: Size::new(raw.width, raw.height),
        components: raw.components as u8,
        precision: raw.precision as u8,
        progressive: raw.progressive != 0,
        arithmetic: raw.arithmetic != 0,
        restart_interval: raw.restart_interval,
    })
}

/// Decodes the box `region` of the image at `scale`/8 (the box in scaled pixels) into `out`, which has the box's size.
///
/// Reads every row from the top to the box's last one; the box is cut from complete rows, so its edges are exact.
/// Images of more than `max_pixels` are refused before any memory is allocated.
pub fn decode_region(
    bytes: &[u8],
    region: Region,
    scale: u8,
    max_pixels: u64,
    out: &mut ImageMut<'_>,
) -> Result<()> {
    decode(bytes, region, scale, max_pixels, DecodeMode::Whole, out)
}

/// Like [`decode_region`], but with libjpeg-turbo's own skipping of rows and cropping of columns, the best it offers.
pub fn decode_region_partial(
    bytes: &[u8],
    region: Region,
    scale: u8,
    max_pixels: u64,
    out: &mut ImageMut<'_>,
) -> Result<()> {
    decode(bytes, region, scale, max_pixels, DecodeMode::Partial, out)
}

/// Decodes the upper left corner of an image without converting colours: YCbCr, chroma repeated instead of interpolated.
/// Greys and RGB are as with [`decode_region`].
#[cfg(feature = "tiff")]
pub(crate) fn decode_stored(bytes: &[u8], max_pixels: u64, out: &mut ImageMut<'_>) -> Result<()> {
    decode(bytes, Region::whole(out.size), 8, max_pixels, DecodeMode::StoredColours, out)
}

/// How much libjpeg-turbo does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeMode {
    Whole,
    Partial,
    #[cfg_attr(not(feature = "tiff"), allow(dead_code))]
    StoredColours,
}

fn decode(
    bytes: &[u8],
    region: Region,
    scale: u8,
    max_pixels: u64,
    mode: DecodeMode,
    out: &mut ImageMut<'_>,
) -> Result<()> {
    if !matches!(scale, 1..=8) {
        return Err(Error::Misuse(format!("scale {scale}/8 is not between 1/8 and 8/8")));
    }
    if out.size != region.size() || region.width == 0 || region.height == 0 {
        return Err(Error::Misuse("the output does not have the size of the region, or is empty".into()));
    }
    let request = ffi::Request {
        x: region.x,
        y: region.y,
        width: region.width,
        height: region.height,
        scale: u32::from(scale),
        pixel_bytes: out.layout.bytes() as u32,
        partial: u32::from(mode == DecodeMode::Partial),
        stored_colors: u32::from(mode == DecodeMode::StoredColours),
        max_pixels,
    };
    // The fields of `ImageMut` are public, so they are checked again before its pointer is passed on.
    ImageMut::new(out.bytes, out.size, out.stride, out.layout)?;
    let mut warnings = 0;
    let mut message = [0; MESSAGE_BYTES];
    // SAFETY: `bytes` is a live slice that is only read; the shim writes `height` rows of `width * pixel_bytes` bytes,
    // `stride` apart, which was just checked to lie inside `out.bytes`; the rest are live values of the right types.
    let code = unsafe {
        ffi::feedline_turbo_decode(
            bytes.as_ptr(),
            bytes.len(),
            &raw const request,
            out.bytes.as_mut_ptr(),
            out.stride,
            &raw mut warnings,
            message.as_mut_ptr(),
        )
    };
    check(code, &message)
}

/// Rewrites the same coefficients as a baseline file with optimised tables: same pixels, but a file that can be
/// indexed. EXIF and ICC segments are kept. Damaged files, and progressive ones with missing scans, are refused.
pub fn to_baseline(bytes: &[u8], max_pixels: u64) -> Result<Vec<u8>> {
    let mut made = CBuffer::default();
    let mut message = [0; MESSAGE_BYTES];
    // SAFETY: `bytes` is a live slice that is only read; `made` receives a malloc'ed buffer and its length, or nothing.
    let code = unsafe {
        ffi::feedline_turbo_to_baseline(
            bytes.as_ptr(),
            bytes.len(),
            max_pixels,
            &raw mut made.bytes,
            &raw mut made.length,
            message.as_mut_ptr(),
        )
    };
    check(code, &message)?;
    Ok(made.to_vec())
}

/// Writes `pixels` (rows without gaps) as a JPEG. For tests, benches and fuzz seeds.
pub fn encode(pixels: &[u8], encoding: &Encoding) -> Result<Vec<u8>> {
    encode_scans(pixels, encoding, &[])
}

/// Like [`encode`], with these scans (at most 200); none for those that the encoding has by itself.
pub fn encode_scans(pixels: &[u8], encoding: &Encoding, scans: &[Scan]) -> Result<Vec<u8>> {
    if scans.len() > 200 || scans.iter().any(|scan| scan.components.len() > 4) {
        return Err(Error::Misuse("at most 200 scans of at most 4 components".into()));
    }
    let scans: Vec<ffi::Scan> = scans.iter().map(ffi::Scan::of).collect();
    let needed = encoding.size.area() * u64::from(encoding.channels);
    if (pixels.len() as u64) < needed || encoding.size.area() == 0 {
        return Err(Error::Misuse(format!("{} bytes of pixels, {needed} needed", pixels.len())));
    }
    let raw = ffi::Encoding {
        width: encoding.size.width,
        height: encoding.size.height,
        channels: u32::from(encoding.channels),
        quality: u32::from(encoding.quality),
        h: u32::from(encoding.sampling.0),
        v: u32::from(encoding.sampling.1),
        restart_interval: encoding.restart_interval,
        optimize: u32::from(encoding.optimize),
        progressive: u32::from(encoding.progressive),
        arithmetic: u32::from(encoding.arithmetic),
        rgb_colors: u32::from(encoding.rgb_colors),
    };
    let mut made = CBuffer::default();
    let mut message = [0; MESSAGE_BYTES];
    // SAFETY: `pixels` was just checked to hold width * height * channels bytes and is only read, as are `scans` of this
    // length; `made` receives a malloc'ed buffer and its length, or nothing.
    let code = unsafe {
        ffi::feedline_turbo_encode(
            pixels.as_ptr(),
            &raw const raw,
            scans.as_ptr(),
            scans.len(),
            &raw mut made.bytes,
            &raw mut made.length,
            message.as_mut_ptr(),
        )
    };
    check(code, &message)?;
    Ok(made.to_vec())
}

/// A buffer that the shim allocated, freed by the same C library on drop.
struct CBuffer {
    bytes: *mut u8,
    length: usize,
}

impl Default for CBuffer {
    fn default() -> Self {
        CBuffer { bytes: std::ptr::null_mut(), length: 0 }
    }
}

impl CBuffer {
    fn to_vec(&self) -> Vec<u8> {
        if self.bytes.is_null() {
            return Vec::new();
        }
        // SAFETY: the shim set both fields together: `bytes` points to at least `length` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.bytes, self.length) }.to_vec()
    }
}

impl Drop for CBuffer {
    fn drop(&mut self) {
        // SAFETY: null or a malloc'ed pointer that nobody else frees.
        unsafe { ffi::feedline_turbo_free(self.bytes) }
    }
}

fn check(code: c_int, message: &[c_char; MESSAGE_BYTES]) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the shim leaves a NUL inside the array: it was zeroed here and the shim writes its last byte as NUL.
    let text = unsafe { CStr::from_ptr(message.as_ptr()) }.to_string_lossy().into_owned();
    Err(match code {
        1 => Error::Truncated { codec: CODEC, reason: "the data ends before the image does".into() },
        3 => Error::Unsupported { codec: CODEC, reason: text },
        4 => Error::Misuse(text),
        // libjpeg does not say how much; it allocates a row of blocks or the coefficients at once.
        5 => Error::OutOfMemory { bytes: 0 },
        _ => Error::Corrupt { codec: CODEC, offset: 0, reason: text },
    })
}

mod ffi {
    use super::{c_char, c_int};

    #[derive(Default)]
    #[repr(C)]
    pub(super) struct RawHeader {
        pub(super) width: u32,
        pub(super) height: u32,
        pub(super) components: u32,
        pub(super) precision: u32,
        pub(super) color_space: u32,
        pub(super) progressive: u32,
        pub(super) arithmetic: u32,
        pub(super) lossless: u32,
        pub(super) restart_interval: u32,
        pub(super) h: [u32; 4],
        pub(super) v: [u32; 4],
    }

    #[repr(C)]
    pub(super) struct Request {
        pub(super) x: u32,
        pub(super) y: u32,
        pub(super) width: u32,
        pub(super) height: u32,
        pub(super) scale: u32,
        pub(super) pixel_bytes: u32,
        pub(super) partial: u32,
        pub(super) stored_colors: u32,
        pub(super) max_pixels: u64,
    }

    #[repr(C)]
    pub(super) struct Encoding {
        pub(super) width: u32,
        pub(super) height: u32,
        pub(super) channels: u32,
        pub(super) quality: u32,
        pub(super) h: u32,
        pub(super) v: u32,
        pub(super) restart_interval: u32,
        pub(super) optimize: u32,
        pub(super) progressive: u32,
        pub(super) arithmetic: u32,
        pub(super) rgb_colors: u32,
    }

    #[repr(C)]
    pub(super) struct Scan {
        count: u32,
        components: [u32; 4],
        first: u32,
        last: u32,
        high: u32,
        low: u32,
    }

    impl Scan {
        pub(super) fn of(scan: &super::Scan) -> Self {
            let mut components = [0; 4];
            for (to, &from) in components.iter_mut().zip(&scan.components) {
                *to = u32::from(from);
            }
            let number = u32::from;
            Scan {
                count: scan.components.len() as u32,
                components,
                first: number(scan.band.0),
                last: number(scan.band.1),
                high: number(scan.bits.0),
                low: number(scan.bits.1),
            }
        }
    }

    unsafe extern "C" {
        pub(super) fn feedline_turbo_header(
            bytes: *const u8,
            length: usize,
            out: *mut RawHeader,
            message: *mut c_char,
        ) -> c_int;
        pub(super) fn feedline_turbo_decode(
            bytes: *const u8,
            length: usize,
            request: *const Request,
            out: *mut u8,
            stride: usize,
            warnings: *mut u32,
            message: *mut c_char,
        ) -> c_int;
        pub(super) fn feedline_turbo_to_baseline(
            bytes: *const u8,
            length: usize,
            max_pixels: u64,
            out: *mut *mut u8,
            out_length: *mut usize,
            message: *mut c_char,
        ) -> c_int;
        pub(super) fn feedline_turbo_encode(
            pixels: *const u8,
            encoding: *const Encoding,
            scans: *const Scan,
            scan_count: usize,
            out: *mut *mut u8,
            out_length: *mut usize,
            message: *mut c_char,
        ) -> c_int;
        pub(super) fn feedline_turbo_version() -> c_int;
        pub(super) fn feedline_turbo_free(bytes: *mut u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    fn picture(size: Size, channels: u8) -> Vec<u8> {
        (0..size.area() * u64::from(channels)).map(|i| (i * 7 % 251) as u8).collect()
    }

    #[test]
    fn images_are_encoded_decoded_and_transcoded() {
        let size = Size::new(37, 23);
        let mut encoding = Encoding::baseline(size, 3, 85, (2, 2));
        encoding.progressive = true;
        let bytes = encode(&picture(size, 3), &encoding).unwrap();
        let read = header(&bytes).unwrap();
        assert_eq!((read.size, read.components, read.progressive), (size, 3, true));
        let baseline = to_baseline(&bytes, 1 << 20).unwrap();
        assert!(!header(&baseline).unwrap().progressive);
        let decode = |bytes: &[u8]| {
            let mut pixels = vec![0; 37 * 23 * 3];
            let mut out = ImageMut::new(&mut pixels, size, 37 * 3, PixelLayout::Rgb).unwrap();
            decode_region(bytes, Region::whole(size), 8, 1 << 20, &mut out).unwrap();
            pixels
        };
        assert_eq!(decode(&bytes), decode(&baseline));
    }

    #[test]
    fn truncation_and_size_limit_are_errors() {
        let size = Size::new(64, 64);
        let bytes = encode(&picture(size, 3), &Encoding::baseline(size, 3, 85, (2, 2))).unwrap();
        let mut pixels = vec![0; 64 * 64 * 3];
        let mut out = ImageMut::new(&mut pixels, size, 64 * 3, PixelLayout::Rgb).unwrap();
        let half = decode_region(&bytes[..bytes.len() / 2], Region::whole(size), 8, 1 << 20, &mut out);
        assert!(matches!(half, Err(Error::Truncated { .. })), "{half:?}");
        assert!(decode_region(&bytes, Region::whole(size), 8, 100, &mut out).is_err());
    }
}
