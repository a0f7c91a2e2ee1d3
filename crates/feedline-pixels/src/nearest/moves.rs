//! What whole-image operations do to pixels that must not be blended: places found by torch's rule, pieces in another
//! order. And the way back: where a point of the source goes.

use super::{Nearest, check_fill, make_room};
use crate::patches::{self, Patches};
use crate::sample::{self, Sample};
use crate::{ImageMut, ImageRef, Result, Size, fit};

impl Nearest {
    /// Every pixel from the place that `sample` names, whatever its own filter is for images. Outside is `fill`, unless
    /// edges or mirrors show there.
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

    /// Square pieces in another order.
    pub fn shuffle(&mut self, patches: &Patches, from: ImageRef<'_>, out: &mut Vec<u8>) -> Result<Size> {
        let stride = from.size.width as usize * from.layout.bytes();
        fit(out, stride * from.size.height as usize, 0)?;
        patches::shuffle(patches, from, &mut ImageMut::new(out, from.size, stride, from.layout)?)?;
        Ok(from.size)
    }

    /// Moves points, in pixels from the source's upper left corner, to where `op` shows them.
    pub fn move_points(&mut self, op: &Sample, points: &mut [(f64, f64)]) -> Result<()> {
        self.field.prepare(op)?;
        for point in points {
            *point = sample::shown_at(op, &self.field, *point);
        }
        Ok(())
    }
}
