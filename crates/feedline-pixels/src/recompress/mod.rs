//! Through JPEG and back: the blocks and rings of a low quality.

use crate::turbo::{self, Encoding};
use crate::{Error, ImageMut, ImageRef, Region, Result, reserve};

/// JPEG knows no longer side.
const LONGEST: u32 = 65_500;

/// Writes what is left of `from` after compression with this quality, 4:2:0 as Pillow writes.
pub(crate) fn recompress(
    packed: &mut Vec<u8>,
    quality: u8,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    if from.size.width.max(from.size.height) > LONGEST {
        return Err(Error::Misuse(format!("JPEG has no sides of more than {LONGEST} pixels")));
    }
    packed.clear();
    reserve(packed, from.size.area() as usize * 3)?;
    for y in 0..from.size.height {
        packed.extend(from.row(y).chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
    }
    let bytes = turbo::encode(packed, &Encoding::baseline(from.size, 3, quality.clamp(1, 100), (2, 2)))?;
    turbo::decode_region(&bytes, Region::whole(from.size), 8, from.size.area(), to)
}
