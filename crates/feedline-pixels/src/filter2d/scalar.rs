//! The reference.

use super::{Tap, mirrored};
use crate::{ImageMut, ImageRef};

pub(super) fn filter(taps: &[Tap], radius: i32, from: ImageRef<'_>, to: &mut ImageMut<'_>) {
    let (width, height) = (from.size.width, from.size.height);
    for y in 0..height {
        let row = to.row_mut(y);
        for x in 0..width {
            let inner = x as i32 >= radius && x as i32 + radius < width as i32;
            let mut sums = [0.0f32; 3];
            for tap in taps {
                let source = from.row(mirrored(i64::from(y) + i64::from(tap.dy), height));
                let column = i64::from(x) + i64::from(tap.dx);
                let column = if inner { column as u32 } else { mirrored(column, width) };
                let pixel = &source[column as usize * 4..][..3];
                sums.iter_mut().zip(pixel).for_each(|(sum, v)| *sum += tap.weight * f32::from(*v));
            }
            let pixel = &mut row[x as usize * 4..][..4];
            for (out, sum) in pixel.iter_mut().zip(sums) {
                *out = sum.round_ties_even().clamp(0.0, 255.0) as u8;
            }
            pixel[3] = 255;
        }
    }
}
