//! Pillow's Gaussian blur: three box blurs, whose width need not be an integer, along rows and then along columns,
//! rounded to bytes after each. Self-supervised recipes written for PIL images use this blur.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use scalar::{Rows, Weights, first_box};

use crate::cpu::dispatch;
use crate::{CpuLevel, ImageMut, ImageRef, PixelLayout, Result, fit};

/// Number of box blurs that approximate a Gaussian in Pillow.
const PASSES: u8 = 3;

/// Scratch memory of a blur.
#[derive(Debug, Default)]
pub(crate) struct BoxLines {
    line: Vec<u8>,
    next: Vec<u8>,
    /// The image between two passes along its columns.
    between: Vec<u8>,
    sums: Vec<u32>,
}

/// Writes `from`, blurred with standard deviation `radius`, to `to`.
pub(crate) fn blur(
    level: CpuLevel,
    lines: &mut BoxLines,
    radius: f32,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    let Some(weights) = Weights::new(box_radius(radius)) else {
        for y in 0..from.size.height {
            to.row_mut(y).copy_from_slice(from.row(y));
        }
        return Ok(());
    };
    let row = from.size.width as usize * 4;
    let BoxLines { line, next, between, sums } = lines;
    fit(line, row, 0)?;
    fit(next, row, 0)?;
    fit(between, row * from.size.height as usize, 0)?;
    fit(sums, row, 0)?;
    for (y, out) in (0..from.size.height).zip(between.chunks_exact_mut(row)) {
        dispatch!(level, along(&weights, from.row(y), line));
        dispatch!(level, along(&weights, line, next));
        dispatch!(level, along(&weights, next, out));
    }
    let mut between = ImageMut::new(between, from.size, row, PixelLayout::Rgbx)?;
    down(level, &weights, between.as_ref(), sums, to);
    down(level, &weights, to.as_ref(), sums, &mut between);
    down(level, &weights, between.as_ref(), sums, to);
    Ok(())
}

/// One box blur along all columns; the outermost rows are repeated beyond the edges.
fn down(level: CpuLevel, weights: &Weights, from: ImageRef<'_>, sums: &mut [u32], to: &mut ImageMut<'_>) {
    let (radius, last) = (weights.radius as i64, i64::from(from.size.height) - 1);
    let row = |at: i64| from.row(at.clamp(0, last) as u32);
    sums.fill(0);
    for (at, times) in first_box(weights.radius, from.size.height as usize) {
        sums.iter_mut().zip(row(at as i64)).for_each(|(sum, value)| *sum += u32::from(*value) * times);
    }
    for y in 0..=last {
        let rows =
            Rows { before: row(y - radius - 1), leaving: row(y - radius), entering: row(y + radius + 1) };
        dispatch!(level, down(weights, &rows, sums, to.row_mut(y as u32)));
    }
}

/// Radius of a box blur whose threefold application approximates a Gaussian. Single precision where Pillow uses it.
fn box_radius(radius: f32) -> f32 {
    let variance = radius * radius / f32::from(PASSES);
    let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
    let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
    let above = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    whole + above / (6.0 * (variance - (whole + 1.0) * (whole + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    #[test]
    fn cpu_levels_agree_and_flat_images_are_unchanged() {
        let cases = [
            (Size::new(29, 13), 1.5),
            (Size::new(1, 5), 3.0),
            (Size::new(7, 1), 0.4),
            (Size::new(7, 3), 5e6),
        ];
        for (size, radius) in cases {
            let stride = size.width as usize * 4;
            let noise: Vec<u8> =
                (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 20) as u8).collect();
            let blurred = |level, bytes: &[u8]| {
                let mut out = vec![0; bytes.len()];
                let from = ImageRef::new(bytes, size, stride, PixelLayout::Rgbx).unwrap();
                let mut to = ImageMut::new(&mut out, size, stride, PixelLayout::Rgbx).unwrap();
                blur(level, &mut BoxLines::default(), radius, from, &mut to).unwrap();
                out
            };
            let flat = vec![77; noise.len()];
            for level in CpuLevel::available() {
                assert!(blurred(level, &noise) == blurred(CpuLevel::Scalar, &noise), "{level:?} {size:?}");
                assert!(blurred(level, &flat) == flat, "{level:?} {size:?}");
            }
        }
    }
}
