//! The reference; inlined into `avx2`.

use crate::colour::truncated;

#[inline(always)]
pub(super) fn begin(sums: &mut [f32], pixels: &[u8], weight: f32) {
    sums.iter_mut().zip(pixels).for_each(|(sum, value)| *sum = weight * f32::from(*value));
}

#[inline(always)]
pub(super) fn add(sums: &mut [f32], pixels: &[u8], weight: f32) {
    sums.iter_mut().zip(pixels).for_each(|(sum, value)| *sum += weight * f32::from(*value));
}

/// Adds what is in `pixels` and writes the sum there.
#[inline(always)]
pub(super) fn finish(sums: &[f32], weight: f32, pixels: &mut [u8]) {
    pixels.iter_mut().zip(sums).for_each(|(value, sum)| *value = truncated(sum + weight * f32::from(*value)));
}
