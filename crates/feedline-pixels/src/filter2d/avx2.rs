//! The same for x86-64 with AVX2: the sums of 64 values stay in registers until all weights are done.

use std::arch::x86_64::*;

use super::{BLOCK, scalar};

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn floats(bytes: &[u8], values: &mut [f32]) {
    scalar::floats(bytes, values);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sum(rows: &[f32], taps: &[(usize, f32)], out: &mut [u8]) {
    let last = taps.iter().map(|(at, _)| *at).max().unwrap_or(0);
    assert!(last + out.len().next_multiple_of(BLOCK) <= rows.len(), "rows are padded");
    for (block, out) in out.chunks_mut(BLOCK).enumerate() {
        let mut sums = [_mm256_setzero_ps(); BLOCK / 8];
        for (at, weight) in taps {
            let weight = _mm256_set1_ps(*weight);
            for (lane, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a block lies behind every tap, as asserted.
                let values = unsafe { _mm256_loadu_ps(rows.as_ptr().add(at + block * BLOCK + lane * 8)) };
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(weight, values));
            }
        }
        let [a, b, c, d, e, f, g, h] = sums;
        let bytes = [rounded([a, b, c, d]), rounded([e, f, g, h])];
        let mut made = [0; BLOCK];
        // SAFETY: two vectors of 32 bytes.
        unsafe {
            _mm256_storeu_si256(made.as_mut_ptr().cast(), bytes[0]);
            _mm256_storeu_si256(made.as_mut_ptr().add(32).cast(), bytes[1]);
        }
        let length = out.len();
        out.copy_from_slice(&made[..length]);
    }
}

/// 32 sums as bytes: half to even, clamped; what is no number becomes 0.
#[target_feature(enable = "avx2")]
#[inline]
fn rounded(sums: [__m256; 4]) -> __m256i {
    let [a, b, c, d] = sums.map(|sum| {
        let clamped = _mm256_min_ps(_mm256_max_ps(sum, _mm256_setzero_ps()), _mm256_set1_ps(255.0));
        _mm256_cvtps_epi32(clamped)
    });
    let packed = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
