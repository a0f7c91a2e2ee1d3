//! The same for x86-64 with AVX-512: the sums of 128 values stay in registers until all weights are done.

use std::arch::x86_64::*;

use super::{BLOCK, HALF_LEVEL, LEVEL_BITS};

/// Sums of a block.
type Sums = [__m512i; BLOCK / 32];

/// # Safety
///
/// Needs AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn down(rows: &[i16], pairs: &[[usize; 2]], weights: &[i16], line: &mut [i16]) {
    let last = pairs.as_flattened().iter().max().copied().unwrap_or(0);
    assert!(
        line.len().is_multiple_of(BLOCK) && last + line.len() <= rows.len() && pairs.len() == weights.len()
    );
    let (rows, line_start) = (rows.as_ptr(), line.as_mut_ptr());
    for x in (0..line.len()).step_by(BLOCK) {
        // SAFETY: a block from `x` on is inside the line and, as asserted, inside every row.
        unsafe {
            let mut sums = first_sums(rows.add(pairs[0][0] + x), weights[0]);
            for ([above, below], weight) in pairs.iter().zip(weights).skip(1) {
                add_pair(&mut sums, rows.add(above + x), rows.add(below + x), *weight);
            }
            for (at, sum) in sums.iter().enumerate() {
                _mm512_storeu_si512(line_start.add(x + 32 * at).cast(), *sum);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn along(line: &[i16], step: usize, weights: &[i16], out: &mut [u8]) {
    let radius = weights.len() - 1;
    assert!(line.len() >= out.len().next_multiple_of(BLOCK) + 2 * radius * step);
    let line = line.as_ptr();
    let (half, one) = (_mm512_set1_epi16(HALF_LEVEL - 1), _mm512_set1_epi16(1));
    for (x, out) in out.chunks_mut(BLOCK).enumerate() {
        let at = radius * step + x * BLOCK;
        // SAFETY: a block is readable `radius` pixels to both sides, as asserted.
        let sums = unsafe {
            let mut sums = first_sums(line.add(at), weights[0]);
            for (distance, weight) in weights.iter().enumerate().skip(1) {
                let aside = distance * step;
                add_pair(&mut sums, line.add(at - aside), line.add(at + aside), *weight);
            }
            sums
        };
        let mask = u128::MAX >> (BLOCK - out.len());
        for (at, sum) in sums.iter().enumerate() {
            // Half to even.
            let odd = _mm512_and_si512(_mm512_srai_epi16::<{ LEVEL_BITS }>(*sum), one);
            let share = _mm512_add_epi16(odd, half);
            let level = _mm512_srai_epi16::<{ LEVEL_BITS }>(_mm512_adds_epi16(*sum, share));
            let bytes = _mm256_xor_si256(_mm512_cvtsepi16_epi8(level), _mm256_set1_epi8(-128));
            // SAFETY: the mask has a bit for each existing byte.
            unsafe {
                let to = out.as_mut_ptr().wrapping_add(32 * at);
                _mm256_mask_storeu_epi8(to.cast(), (mask >> (32 * at)) as u32, bytes);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX-512 F and BW and a readable block.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn first_sums(values: *const i16, weight: i16) -> Sums {
    let weight = _mm512_set1_epi16(weight);
    // SAFETY: the caller guarantees a block.
    std::array::from_fn(|at| unsafe {
        _mm512_mulhrs_epi16(_mm512_loadu_si512(values.add(32 * at).cast()), weight)
    })
}

/// # Safety
///
/// Needs AVX-512 F and BW and readable blocks.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn add_pair(sums: &mut Sums, one: *const i16, other: *const i16, weight: i16) {
    let weight = _mm512_set1_epi16(weight);
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller guarantees blocks.
        let (one, other) = unsafe {
            (_mm512_loadu_si512(one.add(32 * at).cast()), _mm512_loadu_si512(other.add(32 * at).cast()))
        };
        *sum = _mm512_adds_epi16(*sum, _mm512_mulhrs_epi16(_mm512_adds_epi16(one, other), weight));
    }
}
