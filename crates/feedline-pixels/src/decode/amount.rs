//! Whether the bytes at hand can hold as many pixels as their header declares: asked before memory is taken for them.
//!
//! Each bound is what the codec can reach at best on an empty image, so no file that decodes is refused.

use super::{Codec, Header, bmp, probe, qoi, sniff, tiff, webp};
use crate::{Error, Result, Size, jpeg};

/// Images of up to this many pixels are not looked at more closely: what they take (40 MB at most, with a float result)
/// is no attack.
const SMALL: u64 = 2 << 20;

/// Nor are those with at least a byte for this many pixels: photographs have one for two to twenty.
const ORDINARY: u64 = 128;

/// Deflate's best: 258 bytes for 2 bits.
const DEFLATE: u64 = 1032;

/// LZW's best: a string of 4096 bytes for a code of 12 bits.
pub(super) const LZW: u64 = 2731;

/// Pixels that a byte stands for at most, in codecs that have no bound of their own.
#[cfg(any(feature = "jpeg-xl", feature = "jpeg-2000"))]
const EVEN: u64 = 1 << 14;

/// An error if `bytes`, said to be an image of `size` as stored, cannot hold that many pixels. Costs next to nothing unless
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

/// The same for an image whose header has been read.
pub(super) fn check_header(bytes: &[u8], header: &Header) -> Result<()> {
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
        // Plain numbers take more.
        Codec::Pnm => raw_bytes(header),
        Codec::Qoi => header.size.area() / qoi::LONGEST_RUN as u64,
        // An even area takes next to nothing in these; what is larger than this is no photo.
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

/// Bytes of the pixels as the file has them before compression, rounded down.
fn raw_bytes(header: &Header) -> u64 {
    let bits = u64::from(header.channels) * u64::from(header.bits);
    (u128::from(header.size.area()) * u128::from(bits) / 8).min(u128::from(u64::MAX)) as u64
}
