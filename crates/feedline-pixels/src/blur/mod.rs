//! Gaussian blur as in torchvision: weights at whole pixels that sum to one, edges mirrored without repeating the
//! outermost pixel, rounded to the nearest level. Computed as columns and rows in 16-bit numbers: a byte is
//! `(v - 128) · 128`, a weight of one is 2^15, and a product is rounded to a 128th of a level. The error of two passes
//! with a dozen weights is a hundredth of a level, so about one value in a hundred differs by one level from
//! torchvision's.
//!
//! Weights are symmetric, so pixels at equal distance are added first, as integers: half the products, and a
//! mirrored image blurs to the mirrored result.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use crate::cpu::dispatch;
use crate::{CpuLevel, Error, ImageMut, ImageRef, Result, fit};

/// Weights by distance from the centre, along x and along y; one is 2^15.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaussian {
    horizontal: Vec<i16>,
    vertical: Vec<i16>,
}

impl Gaussian {
    /// The weights of odd kernel sizes (width, height) with one standard deviation per axis.
    pub fn new(kernel: (u32, u32), sigma: (f64, f64)) -> Self {
        Gaussian { horizontal: half(kernel.0, sigma.0), vertical: half(kernel.1, sigma.1) }
    }
}

/// Rounds sums from the outermost weight inwards rather than weights, so that their total is exactly one. Large kernels
/// with small deviations end with weights of zero, which are left out.
fn half(kernel: u32, sigma: f64) -> Vec<i16> {
    let weight = |distance: u32| (-0.5 * (f64::from(distance) / sigma).powi(2)).exp();
    let radius = kernel / 2;
    let total = weight(0) + 2.0 * (1..=radius).map(weight).sum::<f64>();
    let mut weights = Vec::new();
    let (mut sum, mut before) = (0.0, 0);
    for distance in (1..=radius).rev() {
        sum += weight(distance) / total;
        let after = (sum * f64::from(ONE)).round() as i32;
        if after > 0 {
            weights.push((after - before) as i16);
        }
        before = after;
    }
    // A weight of one is one more than fits; no level changes because of that.
    weights.push((ONE - 2 * before).min(i32::from(i16::MAX)) as i16);
    weights.reverse();
    weights
}

/// A weight of one.
const ONE: i32 = 1 << 15;

/// Number of fraction bits. Numbers at equal distance are added in 16 bits, so one bit less than there are.
const LEVEL_BITS: u32 = 7;

/// Half a level.
const HALF_LEVEL: i16 = 1 << (LEVEL_BITS - 1);

/// Scratch lines of a blur.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The last rows as numbers; as many as the kernel's height.
    rows: Vec<i16>,
    /// One line, blurred along columns, with mirrored margins.
    line: Vec<i16>,
    /// Offsets of the two rows of each distance in `rows`.
    pairs: Vec<[usize; 2]>,
}

/// Number of sums that are kept in registers; lines are padded to a multiple of it.
const BLOCK: usize = 128;

/// Writes `from`, blurred, to `to`; both have the same layout and size.
pub(crate) fn blur(
    level: CpuLevel,
    lines: &mut Lines,
    weights: &Gaussian,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    let (width, height) = (from.size.width as usize, from.size.height as usize);
    let (rx, ry) = (weights.horizontal.len() - 1, weights.vertical.len() - 1);
    if rx >= width || ry >= height {
        return Err(Error::Misuse(format!(
            "a blur over {}x{} pixels does not fit an image of {width}x{height}",
            2 * rx + 1,
            2 * ry + 1
        )));
    }
    let step = from.layout.bytes();
    let Lines { rows, line, pairs } = lines;
    let padded = (width * step).next_multiple_of(BLOCK);
    let (kept, margin) = (2 * ry + 1, rx * step);
    fit(rows, kept * padded, 0)?;
    fit(line, padded + 2 * margin, 0)?;
    let place = |y: usize| y % kept * padded;
    for y in 0..height + ry {
        if y < height {
            dispatch!(neon: level, widen(from.row(y as u32), &mut rows[place(y)..][..width * step]));
        }
        let Some(y) = y.checked_sub(ry) else { continue };
        pairs.clear();
        pairs.extend((0..=ry).map(|distance| {
            let above = mirrored(y as isize - distance as isize, height);
            let below = mirrored((y + distance) as isize, height);
            [above, below].map(|row| place(row as usize))
        }));
        dispatch!(all: level, down(rows, pairs, &weights.vertical, &mut line[margin..margin + padded]));
        mirror_margins(line, step, rx, width);
        dispatch!(all: level, along(line, step, &weights.horizontal, to.row_mut(y as u32)));
    }
    Ok(())
}

/// The row or column for position `at`, which may be less than a whole image outside.
fn mirrored(at: isize, length: usize) -> u32 {
    let last = length as isize - 1;
    let inside = if at < 0 { -at } else { at };
    (if inside > last { 2 * last - inside } else { inside }) as u32
}

fn mirror_margins(line: &mut [i16], step: usize, radius: usize, width: usize) {
    for distance in 1..=radius {
        let left = (radius + distance) * step;
        line.copy_within(left..left + step, (radius - distance) * step);
        let right = (radius + width - 1 - distance) * step;
        line.copy_within(right..right + step, (radius + width - 1 + distance) * step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Size};

    fn blurred(level: CpuLevel, bytes: &[u8], size: Size, weights: &Gaussian) -> Vec<u8> {
        let stride = size.width as usize * 4;
        let from = ImageRef::new(bytes, size, stride, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; bytes.len()];
        let mut to = ImageMut::new(&mut out, size, stride, PixelLayout::Rgbx).unwrap();
        blur(level, &mut Lines::default(), weights, from, &mut to).unwrap();
        out
    }

    #[test]
    fn cpu_levels_agree_and_flat_images_are_unchanged() {
        let size = Size::new(29, 13);
        let noise: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 20) as u8).collect();
        let flat = vec![200; noise.len()];
        for kernel in [(9, 5), (1, 25), (57, 1), (3, 3)] {
            let weights = Gaussian::new(kernel, (1.3, 0.7));
            let expected = blurred(CpuLevel::Scalar, &noise, size, &weights);
            for level in CpuLevel::available() {
                assert!(blurred(level, &noise, size, &weights) == expected, "{level:?}");
                assert!(blurred(level, &flat, size, &weights) == flat, "{level:?}");
            }
        }
    }

    /// The definition: every pixel is a sum over its neighbours, mirrored at the edges.
    #[test]
    fn sums_equal_the_definition() {
        let size = Size::new(13, 11);
        let noise: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 20) as u8).collect();
        let weights = Gaussian::new((7, 5), (1.3, 0.9));
        let found = blurred(CpuLevel::detect(), &noise, size, &weights);
        for (at, found) in found.iter().enumerate() {
            let (x, y, channel) = ((at / 4 % 13) as isize, (at / 52) as isize, at % 4);
            let (mut sum, mut total) = (0.0, 0.0);
            for dy in -2..=2isize {
                for dx in -3..=3isize {
                    let (column, row) = (mirrored(x + dx, 13) as usize, mirrored(y + dy, 11) as usize);
                    let distances = (dx as f64 / 1.3).powi(2) + (dy as f64 / 0.9).powi(2);
                    let weight = (-0.5 * distances).exp();
                    total += weight;
                    sum += weight * f64::from(noise[(row * 13 + column) * 4 + channel]);
                }
            }
            let exact = sum / total;
            assert!((exact - f64::from(*found)).abs() < 0.53, "{at}: {exact} {found}");
        }
    }

    #[test]
    fn weights_too_small_to_matter_are_left_out() {
        let lengths = |kernel, sigma| Gaussian::new((kernel, kernel), (sigma, sigma)).horizontal.len();
        assert_eq!([lengths(23, 0.1), lengths(23, 1.5), lengths(23, 2.0), lengths(9, 1.7)], [1, 7, 9, 5]);
        let sum = |weights: Vec<i16>| {
            i32::from(weights[0]) + 2 * weights[1..].iter().map(|w| i32::from(*w)).sum::<i32>()
        };
        for (kernel, sigma) in [(3, 0.8), (9, 1.7), (23, 1.5), (57, 20.0)] {
            assert_eq!(sum(half(kernel, sigma)), ONE);
        }
    }

    #[test]
    fn kernels_wider_than_the_image_are_refused() {
        let bytes = [0; 16];
        let from = ImageRef::new(&bytes, Size::new(2, 2), 8, PixelLayout::Rgbx).unwrap();
        let mut out = [0; 16];
        let mut to = ImageMut::new(&mut out, Size::new(2, 2), 8, PixelLayout::Rgbx).unwrap();
        let weights = Gaussian::new((5, 1), (1.0, 1.0));
        assert!(blur(CpuLevel::Scalar, &mut Lines::default(), &weights, from, &mut to).is_err());
    }
}
