//! Sharpness as in Pillow: a blend of the image and its 3 × 3 mean, whose centre has weight five. The outermost rows
//! and columns have no complete neighbourhood and are not changed.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::cpu::dispatch;
use crate::{CpuLevel, ImageMut, ImageRef};

/// Writes `from`, sharpened (`factor` above 1) or smoothed (below), to `to`, which also has four bytes per pixel and
/// the same size.
pub(crate) fn sharpen(level: CpuLevel, from: ImageRef<'_>, to: &mut ImageMut<'_>, factor: f32) {
    let (width, height) = (from.size.width as usize, from.size.height);
    for y in 0..height {
        let row = from.row(y);
        to.row_mut(y).copy_from_slice(row);
        if y > 0 && y + 1 < height && width > 2 {
            let around = [from.row(y - 1), row, from.row(y + 1)];
            let inner = &mut to.row_mut(y)[4..(width - 1) * 4];
            dispatch!(level, blend_row(around, factor, inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Size};

    #[test]
    fn cpu_levels_agree_and_borders_are_unchanged() {
        for (width, height) in [(1, 1), (2, 5), (3, 3), (37, 9)] {
            let size = Size::new(width, height);
            let bytes: Vec<u8> =
                (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 22) as u8).collect();
            let stride = width as usize * 4;
            let from = ImageRef::new(&bytes, size, stride, PixelLayout::Rgbx).unwrap();
            for factor in [0.0, 0.5, 1.9] {
                let made = |level| {
                    let mut out = vec![0; bytes.len()];
                    let mut to = ImageMut::new(&mut out, size, stride, PixelLayout::Rgbx).unwrap();
                    sharpen(level, from, &mut to, factor);
                    out
                };
                let expected = made(CpuLevel::Scalar);
                assert_eq!(expected[..stride], bytes[..stride]);
                for level in CpuLevel::available() {
                    assert!(made(level) == expected, "{level:?} {size:?} {factor}");
                }
            }
        }
    }
}
