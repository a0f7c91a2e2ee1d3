//! The same for x86-64 with AVX2, vectorised by the compiler.

use super::scalar;

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn add(values: &[f32], weight: f32, sums: &mut [f32]) {
    scalar::add(values, weight, sums);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn round(sums: &[f32], bytes: &mut [u8]) {
    scalar::round(sums, bytes);
}
