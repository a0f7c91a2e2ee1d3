//! The same for x86-64 with AVX2, vectorised by the compiler.

use super::{Field, Sample, scalar};
use crate::ImageRef;

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn row(sample: &Sample, field: &Field, from: ImageRef<'_>, y: u32, row: &mut [u8]) {
    scalar::row(sample, field, from, y, row);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn scaled(values: &[f32], weight: f32, out: &mut [f32]) {
    scalar::scaled(values, weight, out);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn add_pair(one: &[f32], other: &[f32], weight: f32, out: &mut [f32]) {
    scalar::add_pair(one, other, weight, out);
}
