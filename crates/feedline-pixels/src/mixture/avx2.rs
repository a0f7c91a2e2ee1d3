//! The same for x86-64 with AVX2: the compiler makes the vectors.

use super::scalar;

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn begin(sums: &mut [f32], pixels: &[u8], weight: f32) {
    scalar::begin(sums, pixels, weight);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn add(sums: &mut [f32], pixels: &[u8], weight: f32) {
    scalar::add(sums, pixels, weight);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn finish(sums: &[f32], weight: f32, pixels: &mut [u8]) {
    scalar::finish(sums, weight, pixels);
}
