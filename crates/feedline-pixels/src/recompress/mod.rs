//! JPEG compression and decompression: the artefacts of a low quality.

use crate::jpeg::{Decoder, Scale};
use crate::turbo::{self, Encoding};
use crate::{Error, ImageMut, ImageRef, PixelLayout, Region, Result, fit};

/// Longest side of a JPEG.
const LONGEST: u32 = 65_500;

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Recompressor {
    packed: Vec<u8>,
    decoder: Decoder,
}

/// Writes `from` after compression with this quality and decompression; 4:2:0, as Pillow writes.
pub(crate) fn recompress(
    scratch: &mut Recompressor,
    quality: u8,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    if from.size.width.max(from.size.height) > LONGEST {
        return Err(Error::Misuse(format!("a JPEG's sides have at most {LONGEST} pixels")));
    }
    let Recompressor { packed, decoder } = scratch;
    let row = from.size.width as usize * 3;
    let pixels = if from.layout == PixelLayout::Rgb && from.stride == row {
        from.bytes
    } else {
        fit(packed, row * from.size.height as usize, 0)?;
        for (y, out) in (0..from.size.height).zip(packed.chunks_exact_mut(row)) {
            for (out, pixel) in out.chunks_exact_mut(3).zip(from.row(y).chunks_exact(from.layout.bytes())) {
                out.copy_from_slice(&pixel[..3]);
            }
        }
        packed
    };
    let bytes = turbo::encode(pixels, &Encoding::baseline(from.size, 3, quality.clamp(1, 100), (2, 2)))?;
    // The same pixels as libjpeg-turbo's, sooner.
    decoder.decode_into(&bytes, None, Region::whole(from.size), Scale::Full, to)?;
    Ok(())
}
