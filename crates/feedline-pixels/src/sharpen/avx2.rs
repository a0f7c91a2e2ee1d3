//! The same for x86-64 with AVX2, vectorised by the compiler.

use super::scalar;

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend_row(around: [&[u8]; 3], factor: f32, out: &mut [u8]) {
    scalar::blend_row(around, factor, out);
}
