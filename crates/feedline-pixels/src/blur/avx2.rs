//! The same for x86-64 with AVX2: the sums of 64 values stay in registers until all weights are done.

use std::arch::x86_64::*;

use super::{HALF_LEVEL, LEVEL_BITS, scalar};

/// Half of the padding of lines: as many sums as there are registers for.
const BLOCK: usize = super::BLOCK / 2;

/// Sums of a block.
type Sums = [__m256i; BLOCK / 16];

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn widen(row: &[u8], line: &mut [i16]) {
    scalar::widen(row, line);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
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
                _mm256_storeu_si256(line_start.add(x + 16 * at).cast(), *sum);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn along(line: &[i16], step: usize, weights: &[i16], out: &mut [u8]) {
    let radius = weights.len() - 1;
    assert!(line.len() >= out.len().next_multiple_of(BLOCK) + 2 * radius * step);
    let line = line.as_ptr();
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
        let [a, b, c, d] = sums;
        let bytes = [rounded(a, b), rounded(c, d)];
        if out.len() == BLOCK {
            // SAFETY: two vectors of 32 bytes.
            unsafe {
                _mm256_storeu_si256(out.as_mut_ptr().cast(), bytes[0]);
                _mm256_storeu_si256(out.as_mut_ptr().add(32).cast(), bytes[1]);
            }
        } else {
            let mut block = [0; BLOCK];
            // SAFETY: two vectors of 32 bytes.
            unsafe {
                _mm256_storeu_si256(block.as_mut_ptr().cast(), bytes[0]);
                _mm256_storeu_si256(block.as_mut_ptr().add(32).cast(), bytes[1]);
            }
            let length = out.len();
            out.copy_from_slice(&block[..length]);
        }
    }
}

/// Converts sums to bytes: half to even, saturated.
#[target_feature(enable = "avx2")]
#[inline]
fn rounded(first: __m256i, second: __m256i) -> __m256i {
    let packed = _mm256_packs_epi16(level(first), level(second));
    let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    _mm256_xor_si256(ordered, _mm256_set1_epi8(-128))
}

#[target_feature(enable = "avx2")]
#[inline]
fn level(sum: __m256i) -> __m256i {
    let odd = _mm256_and_si256(_mm256_srai_epi16::<{ LEVEL_BITS as i32 }>(sum), _mm256_set1_epi16(1));
    let share = _mm256_add_epi16(odd, _mm256_set1_epi16(HALF_LEVEL - 1));
    _mm256_srai_epi16::<{ LEVEL_BITS as i32 }>(_mm256_adds_epi16(sum, share))
}

/// # Safety
///
/// Needs AVX2 and a readable block.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn first_sums(values: *const i16, weight: i16) -> Sums {
    let weight = _mm256_set1_epi16(weight);
    // SAFETY: the caller guarantees a block.
    std::array::from_fn(|at| unsafe {
        _mm256_mulhrs_epi16(_mm256_loadu_si256(values.add(16 * at).cast()), weight)
    })
}

/// # Safety
///
/// Needs AVX2 and readable blocks.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn add_pair(sums: &mut Sums, one: *const i16, other: *const i16, weight: i16) {
    let weight = _mm256_set1_epi16(weight);
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller guarantees blocks.
        let (one, other) = unsafe {
            (_mm256_loadu_si256(one.add(16 * at).cast()), _mm256_loadu_si256(other.add(16 * at).cast()))
        };
        *sum = _mm256_adds_epi16(*sum, _mm256_mulhrs_epi16(_mm256_adds_epi16(one, other), weight));
    }
}
