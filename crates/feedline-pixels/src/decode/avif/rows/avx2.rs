//! The same text, compiled for AVX2.

use super::{Factors, scalar};

#[target_feature(enable = "avx2")]
pub(super) fn convert(factors: Factors, bits: u32, planes: [&[u16]; 3], row: &mut [u8]) {
    scalar::convert(factors, bits, planes, row);
}

#[target_feature(enable = "avx2")]
pub(super) fn widen(from: &[u16], to: &mut [u16]) {
    scalar::widen(from, to);
}

#[target_feature(enable = "avx2")]
pub(super) fn widen_two(near: &[u16], far: &[u16], to: &mut [u16]) {
    scalar::widen_two(near, far, to);
}
