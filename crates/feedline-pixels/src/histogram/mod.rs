//! Operations that need all pixels before they can change one: contrast (the mean grey), equalise and autocontrast
//! (the histogram). They then apply a table per channel.

use crate::colour::{self, RowOp, Table, blend};
use crate::{CpuLevel, ImageMut, point};

/// How often each byte occurs in each of the first three channels.
struct Histogram([[u32; 256]; 3]);

impl Histogram {
    fn of(image: &mut ImageMut<'_>) -> Self {
        // Two tables in alternation: neighbours are often equal, and reading a count that was just written would stall.
        let mut counts = [[[0u32; 256]; 3]; 2];
        for y in 0..image.size.height {
            let (pairs, rest) = image.row_mut(y).as_chunks::<8>();
            for pair in pairs {
                for (counts, pixel) in counts.iter_mut().zip(pair.as_chunks::<4>().0) {
                    for (count, byte) in counts.iter_mut().zip(pixel) {
                        count[*byte as usize] += 1;
                    }
                }
            }
            for (count, byte) in counts[0].iter_mut().zip(rest) {
                count[*byte as usize] += 1;
            }
        }
        let [mut counts, others] = counts;
        for (count, other) in counts.as_flattened_mut().iter_mut().zip(others.as_flattened()) {
            *count += other;
        }
        Histogram(counts)
    }
}

/// Blends with the image's mean grey, which Pillow rounds to an integer first.
pub(crate) fn contrast(level: CpuLevel, image: &mut ImageMut<'_>, factor: f32) {
    let pixels = image.size.area().max(1) as f64;
    let sum: u64 = (0..image.size.height).map(|y| colour::grey_sum(level, image.row_mut(y))).sum();
    let mean = (sum as f64 / pixels + 0.5) as i32;
    let table = RowOp::Table(Table::of(|x| blend(mean, i32::from(x), factor)));
    for y in 0..image.size.height {
        table.apply(level, image.row_mut(y));
    }
}

/// Contrast as torchvision computes it on tensors: the mean of truncated greys stays a float.
pub(crate) fn tensor_contrast(level: CpuLevel, image: &mut ImageMut<'_>, factor: f32) {
    let pixels = image.size.area().max(1) as f64;
    let sum: u64 = (0..image.size.height).map(|y| point::grey_sum(level, image.row_mut(y))).sum();
    let (mean, rest) = ((sum as f64 / pixels) as f32, (1.0 - f64::from(factor)) as f32);
    // One rounding, as torch adds a multiple.
    let table = RowOp::Table(Table::of(|x| colour::truncated(mean.mul_add(rest, f32::from(x) * factor))));
    for y in 0..image.size.height {
        table.apply(level, image.row_mut(y));
    }
}

/// Autocontrast as torchvision computes it on tensors: single precision.
pub(crate) fn tensor_autocontrast(level: CpuLevel, image: &mut ImageMut<'_>) {
    let table = |[low, high]: [u8; 2]| {
        if high <= low {
            return Table::of(|x| x);
        }
        let (low, high) = (f32::from(low), f32::from(high));
        let scale = (high - low) * (1.0 / 255.0);
        Table::of(|x| colour::truncated((f32::from(x) - low) / scale))
    };
    let found = extremes(level, image);
    apply(level, image, &found.map(table));
}

fn extremes(level: CpuLevel, image: &mut ImageMut<'_>) -> [[u8; 2]; 3] {
    let mut found = [[255, 0]; 3];
    for y in 0..image.size.height {
        colour::extremes(level, image.row_mut(y), &mut found);
    }
    found
}

/// Changes each channel's values so that their histogram becomes flat, like `PIL.ImageOps.equalize`.
pub(crate) fn equalize(level: CpuLevel, image: &mut ImageMut<'_>) {
    let histogram = Histogram::of(image);
    apply(level, image, &histogram.0.map(|counts| equal_table(&counts)));
}

fn equal_table(counts: &[u32; 256]) -> Table {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let last = counts.iter().rev().find(|count| **count > 0).map_or(0, |count| u64::from(*count));
    let step = (total - last) / 255;
    if step == 0 {
        return Table::of(|x| x);
    }
    let mut below = step / 2;
    Table::new(counts.map(|count| {
        let level = (below / step).min(255) as u8;
        below += u64::from(count);
        level
    }))
}

/// Stretches each channel to the whole range, like `PIL.ImageOps.autocontrast`.
pub(crate) fn autocontrast(level: CpuLevel, image: &mut ImageMut<'_>) {
    let found = extremes(level, image);
    apply(level, image, &found.map(stretched_table));
}

fn stretched_table([low, high]: [u8; 2]) -> Table {
    if high <= low {
        return Table::of(|x| x);
    }
    let scale = 255.0 / f64::from(high - low);
    let offset = -f64::from(low) * scale;
    Table::of(|x| (f64::from(x) * scale + offset).clamp(0.0, 255.0) as u8)
}

fn apply(level: CpuLevel, image: &mut ImageMut<'_>, tables: &[Table; 3]) {
    for y in 0..image.size.height {
        colour::look_up_channels(level, image.row_mut(y), tables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Size};

    #[test]
    fn cpu_levels_agree_and_every_pixel_counts() {
        let size = Size::new(37, 5);
        let bytes: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| 40 + (i.wrapping_mul(2654435761) >> 25) as u8).collect();
        let made = |level| {
            [0, 1, 2, 3, 4].map(|op| {
                let mut out = bytes.clone();
                let mut image = ImageMut::new(&mut out, size, 37 * 4, PixelLayout::Rgbx).unwrap();
                match op {
                    0 => equalize(level, &mut image),
                    1 => autocontrast(level, &mut image),
                    2 => tensor_contrast(level, &mut image, 0.6),
                    3 => tensor_autocontrast(level, &mut image),
                    _ => contrast(level, &mut image, 1.7),
                }
                out
            })
        };
        let expected = made(CpuLevel::Scalar);
        for level in CpuLevel::available() {
            assert!(made(level) == expected, "{level:?}");
        }
        let mut copy = bytes.clone();
        let counts = Histogram::of(&mut ImageMut::new(&mut copy, size, 37 * 4, PixelLayout::Rgbx).unwrap());
        assert!(counts.0.iter().all(|counts| counts.iter().sum::<u32>() == 37 * 5));
    }

    #[test]
    fn constant_channels_are_unchanged() {
        let mut counts = [0; 256];
        counts[77] = 1000;
        assert_eq!(equal_table(&counts).0[77], 77);
        assert_eq!(stretched_table([77, 77]).0[77], 77);
    }

    #[test]
    fn the_darkest_and_lightest_become_black_and_white() {
        let table = stretched_table([50, 150]);
        assert_eq!([table.0[50], table.0[60], table.0[150]], [0, 25, 255]);
    }
}
