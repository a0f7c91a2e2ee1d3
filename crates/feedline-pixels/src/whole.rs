//! Operations that need the whole image at once: for a mean, a histogram, neighbours, or another position. They work on
//! dense buffers of four bytes per pixel, which their caller keeps.

use crate::blur::{self, Gaussian, Lines};
use crate::colour::RowOp;
use crate::effect::{Effect, Effects};
use crate::warp::{self, Warp};
use crate::{CpuLevel, ImageMut, ImageRef, PixelLayout, Region, Result, Size, fit, histogram, sharpen};

/// How pixels outside an image are filled when it is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Border {
    /// The outermost pixel.
    Edge,
    /// Mirrored, without repeating the outermost pixel.
    Reflect,
    /// Mirrored, the outermost pixel included.
    Symmetric,
}

/// One operation on a whole image.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WholeOp {
    /// Blended with the mean grey.
    Contrast(f32),
    /// Histogram equalisation, channel by channel.
    Equalize,
    /// Stretched to black and white, channel by channel.
    Autocontrast,
    /// Blended with a smoothed copy.
    Sharpness(f32),
    /// Gaussian blur.
    Blur(Gaussian),
    /// Pixels added on the left, top, right and bottom.
    Pad([u32; 4], Border),
    /// A box filled with one colour.
    Erase(Region, [u8; 3]),
    /// One of the less common effects.
    Effect(Box<Effect>),
}

impl WholeOp {
    /// Size of the result for an image of this size.
    pub fn output(&self, before: Size) -> Size {
        match self {
            WholeOp::Pad(sides, _) => padded(before, *sides),
            WholeOp::Effect(effect) => effect.output(before),
            _ => before,
        }
    }
}

pub(crate) fn padded(size: Size, [left, top, right, bottom]: [u32; 4]) -> Size {
    let longer = |side: u32, one: u32, other: u32| side.saturating_add(one).saturating_add(other);
    Size::new(longer(size.width, left, right), longer(size.height, top, bottom))
}

/// Runs operations on whole images; owns the scratch memory.
#[derive(Debug)]
pub struct WholeRunner {
    level: CpuLevel,
    lines: Lines,
    effects: Effects,
    spare: Vec<u8>,
}

impl Default for WholeRunner {
    fn default() -> Self {
        Self::with_level(CpuLevel::detect())
    }
}

impl WholeRunner {
    /// Creates a runner with the kernels of this level, or the reference if this machine cannot run them.
    pub fn with_level(level: CpuLevel) -> Self {
        let level = if CpuLevel::available().contains(&level) { level } else { CpuLevel::Scalar };
        WholeRunner { level, lines: Lines::default(), effects: Effects::default(), spare: Vec::new() }
    }

    /// Applies `op` to a dense image of four bytes per pixel; returns its new size.
    pub fn run(&mut self, op: &WholeOp, pixels: &mut Vec<u8>, size: Size) -> Result<Size> {
        let level = self.level;
        match op {
            WholeOp::Contrast(factor) => histogram::contrast(level, &mut view_mut(pixels, size)?, *factor),
            WholeOp::Equalize => histogram::equalize(level, &mut view_mut(pixels, size)?),
            WholeOp::Autocontrast => histogram::autocontrast(level, &mut view_mut(pixels, size)?),
            WholeOp::Erase(region, colour) => erase(&mut view_mut(pixels, size)?, *region, *colour)?,
            WholeOp::Sharpness(factor) => {
                fit(&mut self.spare, pixels.len(), 0)?;
                sharpen::sharpen(level, view(pixels, size)?, &mut view_mut(&mut self.spare, size)?, *factor);
                std::mem::swap(pixels, &mut self.spare);
            }
            WholeOp::Blur(weights) => {
                let WholeRunner { lines, spare, .. } = self;
                fit(spare, pixels.len(), 0)?;
                blur::blur(level, lines, weights, view(pixels, size)?, &mut view_mut(spare, size)?)?;
                std::mem::swap(pixels, spare);
            }
            WholeOp::Pad(sides, border) => return self.pad(pixels, size, *sides, *border),
            WholeOp::Effect(effect) => {
                let WholeRunner { effects, spare, .. } = self;
                let output = effect.output(size);
                fit(spare, output.area() as usize * 4, 0)?;
                effects.run(level, effect, view(pixels, size)?, &mut view_mut(spare, output)?)?;
                std::mem::swap(pixels, spare);
                return Ok(output);
            }
        }
        Ok(size)
    }

    /// Applies `op` directly to red, green and blue bytes, if the operation treats all channels alike. `to` has the
    /// output's size.
    pub fn run_packed(
        &mut self,
        op: &WholeOp,
        from: ImageRef<'_>,
        to: &mut ImageMut<'_>,
    ) -> Option<Result<()>> {
        match op {
            WholeOp::Blur(weights) => Some(blur::blur(self.level, &mut self.lines, weights, from, to)),
            WholeOp::Pad(sides, border) => {
                pad(from, *sides, *border, to);
                Some(Ok(()))
            }
            WholeOp::Erase(region, colour) => {
                for y in 0..from.size.height {
                    to.row_mut(y).copy_from_slice(from.row(y));
                }
                Some(erase(to, *region, *colour))
            }
            WholeOp::Effect(effect) => self.effects.run_packed(self.level, effect, from, to),
            _ => None,
        }
    }

    /// Applies operations on single pixels to a dense image of four bytes per pixel, row by row.
    pub fn rows(&self, ops: &[RowOp], pixels: &mut [u8], size: Size) {
        for row in pixels.chunks_exact_mut(size.width as usize * 4) {
            for op in ops {
                op.apply(self.level, row);
            }
        }
    }

    /// Warps a dense image of four bytes per pixel.
    pub fn warp(&mut self, warp: &Warp, pixels: &mut Vec<u8>, size: Size) -> Result<()> {
        fit(&mut self.spare, warp.output.area() as usize * 4, 0)?;
        let mut to = view_mut(&mut self.spare, warp.output)?;
        warp::warp(self.level, warp, view(pixels, size)?, &mut to);
        std::mem::swap(pixels, &mut self.spare);
        Ok(())
    }

    fn pad(&mut self, pixels: &mut Vec<u8>, size: Size, sides: [u32; 4], border: Border) -> Result<Size> {
        let output = padded(size, sides);
        fit(&mut self.spare, output.area() as usize * 4, 0)?;
        pad(view(pixels, size)?, sides, border, &mut view_mut(&mut self.spare, output)?);
        std::mem::swap(pixels, &mut self.spare);
        Ok(output)
    }
}

/// Writes `from` with pixels added to its sides; `to` has the same layout and the padded size.
fn pad(from: ImageRef<'_>, [left, top, ..]: [u32; 4], border: Border, to: &mut ImageMut<'_>) {
    let (size, output, bytes) = (from.size, to.size, from.layout.bytes());
    let (first, row) = (left as usize * bytes, output.width as usize * bytes);
    let last = first + size.width as usize * bytes;
    for y in 0..size.height {
        let row = to.row_mut(top + y);
        row[first..last].copy_from_slice(from.row(y));
    }
    // Column by column, so that each source column is computed once.
    for x in (0..left).chain(left + size.width..output.width) {
        let column =
            (left + source_place(i64::from(x) - i64::from(left), size.width, border)) as usize * bytes;
        let (stride, x) = (to.stride, x as usize * bytes);
        let inner = to.bytes.chunks_mut(stride).skip(top as usize).take(size.height as usize);
        if bytes == 3 {
            inner.for_each(|row| row.copy_within(column..column + 3, x));
        } else {
            inner.for_each(|row| row.copy_within(column..column + 4, x));
        }
    }
    for y in (0..top).chain(top + size.height..output.height) {
        let source = top + source_place(i64::from(y) - i64::from(top), size.height, border);
        let begin = source as usize * to.stride;
        to.bytes.copy_within(begin..begin + row, y as usize * to.stride);
    }
}

/// Which of `length` rows or columns is repeated at `at`.
pub(crate) fn source_place(at: i64, length: u32, border: Border) -> u32 {
    let length = i64::from(length);
    let folded = match border {
        Border::Edge => at.clamp(0, length - 1),
        Border::Symmetric => {
            let at = at.rem_euclid(2 * length);
            at.min(2 * length - 1 - at)
        }
        Border::Reflect => {
            let period = (2 * (length - 1)).max(1);
            let at = at.rem_euclid(period);
            at.min(period - at).min(length - 1)
        }
    };
    folded as u32
}

fn erase(image: &mut ImageMut<'_>, region: Region, [red, green, blue]: [u8; 3]) -> Result<()> {
    region.check_inside(image.size)?;
    let bytes = image.layout.bytes();
    for y in region.y..region.bottom() {
        let row = &mut image.row_mut(y)[region.x as usize * bytes..region.right() as usize * bytes];
        if bytes == 4 {
            row.as_chunks_mut::<4>().0.fill([red, green, blue, 255]);
        } else {
            row.as_chunks_mut::<3>().0.fill([red, green, blue]);
        }
    }
    Ok(())
}

fn view(bytes: &[u8], size: Size) -> Result<ImageRef<'_>> {
    ImageRef::new(bytes, size, size.width as usize * 4, PixelLayout::Rgbx)
}

fn view_mut(bytes: &mut [u8], size: Size) -> Result<ImageMut<'_>> {
    ImageMut::new(bytes, size, size.width as usize * 4, PixelLayout::Rgbx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_equal_numpy_pad() {
        let row = |border| (-4..7).map(|at| source_place(at, 3, border)).collect::<Vec<_>>();
        assert_eq!(row(Border::Edge), [0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]);
        assert_eq!(row(Border::Reflect), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(row(Border::Symmetric), [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]);
        assert_eq!((-2..3).map(|at| source_place(at, 1, Border::Reflect)).collect::<Vec<_>>(), [0; 5]);
    }
}
