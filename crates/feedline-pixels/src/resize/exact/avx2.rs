//! The same for x86-64 with AVX2: the compiler makes the vectors.

use super::{Taps, scalar};

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn down(runs: [(&[u8], &[i32]); 2], length: usize, out: &mut [u8]) {
    scalar::down(runs, length, out);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn across(taps: &Taps, row: &[u8], out: &mut [u8]) {
    scalar::across(taps, row, out);
}
