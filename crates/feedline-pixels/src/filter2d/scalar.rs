//! The reference.

use crate::colour::truncated;

/// Bytes as floats.
#[inline(always)]
pub(super) fn floats(bytes: &[u8], values: &mut [f32]) {
    for (value, byte) in values.iter_mut().zip(bytes) {
        *value = f32::from(*byte);
    }
}

/// A row of results: for each byte the sum, over all taps, of a value times its weight; half to even, clamped.
pub(super) fn sum(rows: &[f32], taps: &[(usize, f32)], out: &mut [u8]) {
    for (x, byte) in out.iter_mut().enumerate() {
        let sum = taps.iter().fold(0.0, |sum, (at, weight)| sum + weight * rows[at + x]);
        *byte = truncated(f32::round_ties_even(sum));
    }
}
