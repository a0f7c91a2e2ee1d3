//! Convolution with any small kernel: motion blur, defocus. Edges are mirrored without repeating the outermost pixel,
//! like OpenCV's `filter2D` for bytes.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::cpu::dispatch;
use crate::{CpuLevel, Error, ImageMut, ImageRef, Result, fit};

/// Weights of the pixels around each pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Number of columns; odd.
    pub width: u32,
    /// Number of rows; odd.
    pub height: u32,
    /// Weights, row by row.
    pub weights: Vec<f32>,
}

/// Scratch rows of a filter.
#[derive(Debug, Default)]
pub(crate) struct Wide {
    /// The last rows as floats with mirrored margins; as many as the kernel's height.
    rows: Vec<f32>,
    /// Where the values of each weight that is not zero begin among `rows`.
    taps: Vec<(usize, f32)>,
}

/// Sums that are kept in registers; rows are padded by as many.
const BLOCK: usize = 64;

/// Writes `from`, filtered, to `to`; both are of the same layout and size.
pub(crate) fn filter(
    level: CpuLevel,
    wide: &mut Wide,
    kernel: &Kernel,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    let Kernel { width, height, weights } = kernel;
    if width % 2 == 0 || height % 2 == 0 || weights.len() as u64 != u64::from(*width) * u64::from(*height) {
        return Err(Error::Misuse(format!("{} weights are not a kernel of {width}x{height}", weights.len())));
    }
    let (radius, kept) = (i64::from(height / 2), *height as usize);
    let step = from.layout.bytes();
    let line = (from.size.width as usize + *width as usize - 1) * step;
    let padded = line + BLOCK;
    let Wide { rows, taps } = wide;
    fit(rows, kept * padded, 0.0)?;
    let place = |row: i64| row.rem_euclid(kept as i64) as usize * padded;
    // Each row is converted once, into the slot of its number; rows above and below the image are mirrored.
    for row in -radius..radius {
        widen(level, from, row, width / 2, &mut rows[place(row)..][..line]);
    }
    for y in 0..from.size.height {
        let newest = i64::from(y) + radius;
        widen(level, from, newest, width / 2, &mut rows[place(newest)..][..line]);
        taps.clear();
        taps.extend(weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0).map(|(at, weight)| {
            let row = place(i64::from(y) + (at as i64 / i64::from(*width)) - radius);
            (row + at % *width as usize * step, *weight)
        }));
        dispatch!(level, sum(rows, taps, to.row_mut(y)));
    }
    Ok(())
}

/// Row number `row` (mirrored outside the image) as floats, with `margin` mirrored pixels on both sides.
fn widen(level: CpuLevel, from: ImageRef<'_>, row: i64, margin: u32, line: &mut [f32]) {
    let source = from.row(mirrored(row, from.size.height));
    let step = from.layout.bytes();
    let (first, count) = (margin as usize * step, source.len());
    dispatch!(level, floats(source, &mut line[first..first + count]));
    for x in (0..margin).chain(margin + from.size.width..2 * margin + from.size.width) {
        let column = mirrored(i64::from(x) - i64::from(margin), from.size.width) as usize * step;
        for (value, byte) in line[x as usize * step..][..step].iter_mut().zip(&source[column..]) {
            *value = f32::from(*byte);
        }
    }
}

/// The row or column for position `at`, mirrored as often as needed.
pub(crate) fn mirrored(at: i64, length: u32) -> u32 {
    let period = (2 * (i64::from(length) - 1)).max(1);
    let at = at.rem_euclid(period);
    at.min(period - at).min(i64::from(length) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Size};

    #[test]
    fn cpu_levels_agree_and_sums_equal_the_definition() {
        let size = Size::new(9, 4);
        let bytes: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        let from = ImageRef::new(&bytes, size, 36, PixelLayout::Rgbx).unwrap();
        // Taller than the image: rows are mirrored more than once.
        let weights: Vec<f32> = (0..33).map(|i| (i % 5) as f32 / 66.0).collect();
        let kernel = Kernel { width: 3, height: 11, weights };
        for level in CpuLevel::available() {
            let mut out = vec![0; bytes.len()];
            let mut to = ImageMut::new(&mut out, size, 36, PixelLayout::Rgbx).unwrap();
            filter(level, &mut Wide::default(), &kernel, from, &mut to).unwrap();
            for (at, found) in out.iter().enumerate().filter(|(at, _)| at % 4 < 3) {
                let (x, y) = ((at / 4 % 9) as i64, (at / 36) as i64);
                let mut sum = 0.0f32;
                for (tap, weight) in kernel.weights.iter().enumerate() {
                    let column = mirrored(x + tap as i64 % 3 - 1, 9) as usize;
                    let row = mirrored(y + tap as i64 / 3 - 5, 4) as usize;
                    sum += weight * f32::from(bytes[row * 36 + column * 4 + at % 4]);
                }
                assert_eq!(*found, sum.round_ties_even() as u8, "{level:?} {at}");
            }
        }
    }

    #[test]
    fn three_and_four_bytes_per_pixel_give_the_same_result() {
        let size = Size::new(70, 9);
        let bytes: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        let packed: Vec<u8> = bytes.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
        let kernel =
            Kernel { width: 5, height: 3, weights: (0..15).map(|i| (i % 4) as f32 / 21.0).collect() };
        for level in CpuLevel::available() {
            let made = |bytes: &[u8], step: usize, layout| {
                let from = ImageRef::new(bytes, size, 70 * step, layout).unwrap();
                let mut out = vec![0; bytes.len()];
                let mut to = ImageMut::new(&mut out, size, 70 * step, layout).unwrap();
                filter(level, &mut Wide::default(), &kernel, from, &mut to).unwrap();
                out
            };
            let four = made(&bytes, 4, PixelLayout::Rgbx);
            let expected: Vec<u8> = four.chunks_exact(4).flat_map(|pixel| pixel[..3].to_vec()).collect();
            assert!(made(&packed, 3, PixelLayout::Rgb) == expected, "{level:?}");
        }
    }

    #[test]
    fn a_shifted_point_moves_the_image_and_mirrors_edges() {
        let bytes: Vec<u8> = (0..5u8).flat_map(|x| [x * 10; 4]).collect();
        let size = Size::new(5, 1);
        let from = ImageRef::new(&bytes, size, 20, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; 20];
        let mut to = ImageMut::new(&mut out, size, 20, PixelLayout::Rgbx).unwrap();
        let kernel = Kernel { width: 3, height: 1, weights: vec![0.0, 0.0, 1.0] };
        filter(CpuLevel::detect(), &mut Wide::default(), &kernel, from, &mut to).unwrap();
        let reds: Vec<u8> = out.chunks_exact(4).map(|p| p[0]).collect();
        assert_eq!(reds, [10, 20, 30, 40, 30]);
    }
}
