//! The reference.

use crate::colour::truncated;

pub(super) fn add(sums: &mut [f32], pixels: &[u8], weight: f32) {
    sums.iter_mut().zip(pixels).for_each(|(sum, value)| *sum += weight * f32::from(*value));
}

pub(super) fn finish(sums: &[f32], pixels: &mut [u8]) {
    pixels.iter_mut().zip(sums).for_each(|(value, sum)| *value = truncated(*sum));
}
