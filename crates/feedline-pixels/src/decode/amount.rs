//! Checks whether the bytes can contain as many pixels as their header declares, before memory is allocated for them.
//!
//! Each bound is the codec's best possible compression of an empty image, so no file that decodes is refused.

use super::{Codec, ImageHeader, bmp, probe, qoi, sniff, tiff, webp};
use crate::{Error, Result, Size, jpeg};

/// Images of up to this many pixels are not checked: the memory they take (40 MB at most, with a float result) is
/// no attack.
const SMALL: u64 = 2 << 20;

/// Images with at least a byte for this many pixels are not checked: photographs have one for two to twenty.
const ORDINARY: u64 = 128;

/// Deflate's best ratio: 258 bytes for 2 bits.
const DEFLATE: u64 = 1032;

/// LZW's best ratio: a string of 4096 bytes for a code of 12 bits.
pub(super) const LZW: u64 = 2731;

/// Largest number of pixels per byte, for codecs without a bound of their own.
const EVEN: u64 = 1 << 14;

/// Returns an error if `bytes` cannot contain an image of `size` as stored. Costs almost nothing unless
/// the image is both large and improbable.
pub fn check_amount(bytes: &[u8], size: Size) -> Result<()> {
    if size.area() <= SMALL {
        return Ok(());
    }
    if sniff(bytes) == Some(Codec::Jpeg) {
        jpeg::check_end(bytes)?;
    }
    if size.area() <= bytes.len() as u64 * ORDINARY {
        return Ok(());
    }
    let header = probe(bytes)?;
    if header.size != size {
        let Size { width, height } = header.size;
        let reason =
            format!("an image of {width}x{height} is stored as one of {}x{}", size.width, size.height);
        return Err(header.codec.corrupt(0, reason));
    }
    check_header(bytes, &header)
}

/// The same check for an image whose header has been read.
pub(super) fn check_header(bytes: &[u8], header: &ImageHeader) -> Result<()> {
    let length = bytes.len() as u64;
    if header.size.area() <= SMALL.max(length * ORDINARY) {
        return Ok(());
    }
    let needed = match header.codec {
        Codec::Jpeg => jpeg::fewest_bytes(bytes),
        Codec::Png => raw_bytes(header) / DEFLATE,
        // The canvas may be larger than the frame, but not by this much.
        Codec::Gif => raw_bytes(header) / LZW,
        Codec::WebP => webp::fewest_bytes(bytes, header.size),
        Codec::Bmp => bmp::fewest_bytes(bytes)?,
        Codec::Tiff => tiff::fewest_bytes(bytes)?,
        // Plain text numbers take more.
        Codec::Pnm => raw_bytes(header),
        Codec::Qoi => header.size.area() / qoi::LONGEST_RUN as u64,
        // A flat area takes almost no bytes in these codecs; no photo is larger than this.
        Codec::Avif => header.size.area() / EVEN,
        #[cfg(feature = "jpeg-xl")]
        Codec::JpegXl => header.size.area() / EVEN,
        #[cfg(feature = "jpeg-2000")]
        Codec::Jpeg2000 => header.size.area() / EVEN,
    };
    if needed <= length {
        return Ok(());
    }
    let Size { width, height } = header.size;
    let reason = format!("{length} bytes cannot hold {width}x{height} pixels, which take {needed} at least");
    Err(Error::Truncated { codec: header.codec.name(), reason })
}

/// Bytes of the pixels in the file before compression, rounded down.
fn raw_bytes(header: &ImageHeader) -> u64 {
    let bits = u64::from(header.channels) * u64::from(header.bits);
    (u128::from(header.size.area()) * u128::from(bits) / 8).min(u128::from(u64::MAX)) as u64
}
