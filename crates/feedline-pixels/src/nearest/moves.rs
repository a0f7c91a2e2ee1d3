//! Whole-image operations on pixels that must not be blended: sampling by torch's rule, patches in another
//! order. Also the reverse: the new place of a point of the source.

use super::{Nearest, check_fill, make_room};
use crate::patches::{self, Patches};
use crate::sample::{self, Sample};
use crate::{ImageMut, ImageRef, Result, Size, fit};

impl Nearest {
    /// Takes every pixel from the place that `sample` gives, whatever its filter is for images. Outside is `fill`,
    /// unless the border mode repeats or mirrors the image.
    pub fn sample(
        &mut self,
        op: &Sample,
        from: ImageRef<'_>,
        fill: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Size> {
        let bytes = check_fill(from, fill)?;
        make_room(out, op.output, bytes)?;
        self.field.prepare(op)?;
        let width = op.output.width as usize;
        for (at, pixel) in out.chunks_exact_mut(bytes).enumerate() {
            let place = sample::place(op, &self.field, (at % width) as u32, (at / width) as u32);
            let found = sample::nearest_place(from.size, place, op.outside);
            pixel.copy_from_slice(match found {
                Some((x, y)) => &from.row(y)[x as usize * bytes..][..bytes],
                None => fill,
            });
        }
        Ok(op.output)
    }

    /// Moves square patches.
    pub fn shuffle(&mut self, patches: &Patches, from: ImageRef<'_>, out: &mut Vec<u8>) -> Result<Size> {
        let stride = from.size.width as usize * from.layout.bytes();
        fit(out, stride * from.size.height as usize, 0)?;
        patches::shuffle(patches, from, &mut ImageMut::new(out, from.size, stride, from.layout)?)?;
        Ok(from.size)
    }

    /// Moves points, in pixels from the source's upper left corner, to their place after `op`.
    pub fn move_points(&mut self, op: &Sample, points: &mut [(f64, f64)]) -> Result<()> {
        self.field.prepare(op)?;
        for point in points {
            *point = sample::shown_at(op, &self.field, *point);
        }
        Ok(())
    }
}
