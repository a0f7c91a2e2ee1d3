//! The reference; inlined into `avx2`.

/// `sums += values · weight`.
#[inline(always)]
pub(super) fn add(values: &[f32], weight: f32, sums: &mut [f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += weight * value;
    }
}

/// Converts sums to bytes: half to even, clamped.
#[inline(always)]
pub(super) fn round(sums: &[f32], bytes: &mut [u8]) {
    for (byte, sum) in bytes.iter_mut().zip(sums) {
        *byte = crate::colour::truncated(sum.round_ties_even());
    }
}
