//! The same for x86-64 with AVX2, vectorised by the compiler.

use super::scalar::{self, Rows, Weights};

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn along(weights: &Weights, from: &[u8], to: &mut [u8]) {
    scalar::along(weights, from, to);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn down(weights: &Weights, rows: &Rows<'_>, sums: &mut [u32], to: &mut [u8]) {
    scalar::down(weights, rows, sums, to);
}
