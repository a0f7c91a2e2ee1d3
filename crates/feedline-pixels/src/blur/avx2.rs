//! The same for x86-64 with AVX2: the sums of 32 values stay in registers until all weights are done.

use std::arch::x86_64::*;

use super::scalar;

/// Half of what lines are padded to: as many sums as there are registers for.
const BLOCK: usize = super::BLOCK / 2;

/// Sums of a block.
type Sums = [__m256; BLOCK / 8];

/// # Safety
///
/// Needs AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn widen(row: &[u8], line: &mut [f32]) {
    scalar::widen(row, line);
}

/// # Safety
///
/// Needs AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn down(rows: &[f32], pairs: &[[usize; 2]], weights: &[f32], line: &mut [f32]) {
    let last = pairs.as_flattened().iter().max().copied().unwrap_or(0);
    assert!(
        line.len().is_multiple_of(BLOCK) && last + line.len() <= rows.len() && pairs.len() == weights.len()
    );
    let (rows, line_start) = (rows.as_ptr(), line.as_mut_ptr());
    for x in (0..line.len()).step_by(BLOCK) {
        // SAFETY: a block from `x` on lies inside the line and, as asserted, inside every row.
        unsafe {
            let mut sums = begun(rows.add(pairs[0][0] + x), weights[0]);
            for ([above, below], weight) in pairs.iter().zip(weights).skip(1) {
                add_pair(&mut sums, rows.add(above + x), rows.add(below + x), *weight);
            }
            for (at, sum) in sums.iter().enumerate() {
                _mm256_storeu_ps(line_start.add(x + 8 * at), *sum);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn along(line: &[f32], weights: &[f32], _: &mut [f32], out: &mut [u8]) {
    let radius = weights.len() - 1;
    assert!(line.len() >= out.len().next_multiple_of(BLOCK) + 2 * radius * 4);
    let line = line.as_ptr();
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (x, out) in out.chunks_mut(BLOCK).enumerate() {
        let at = radius * 4 + x * BLOCK;
        // SAFETY: a block lies `radius` pixels to both sides of here, as asserted.
        let sums = unsafe {
            let mut sums = begun(line.add(at), weights[0]);
            for (distance, weight) in weights.iter().enumerate().skip(1) {
                add_pair(&mut sums, line.add(at - distance * 4), line.add(at + distance * 4), *weight);
            }
            sums
        };
        // Rounded half to even, then saturated.
        let [a, b, c, d] = sums.map(|sum| _mm256_cvtps_epi32(sum));
        let packed = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        let packed = _mm256_permutevar8x32_epi32(packed, order);
        if out.len() == BLOCK {
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), packed) };
        } else {
            let mut bytes = [0; BLOCK];
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), packed) };
            let length = out.len();
            out.copy_from_slice(&bytes[..length]);
        }
    }
}

/// # Safety
///
/// Needs AVX2 and FMA and a readable block.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn begun(values: *const f32, weight: f32) -> Sums {
    let weight = _mm256_set1_ps(weight);
    // SAFETY: the caller promises a block.
    std::array::from_fn(|at| unsafe { _mm256_mul_ps(_mm256_loadu_ps(values.add(8 * at)), weight) })
}

/// # Safety
///
/// Needs AVX2 and FMA and readable blocks.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add_pair(sums: &mut Sums, one: *const f32, other: *const f32, weight: f32) {
    let weight = _mm256_set1_ps(weight);
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises blocks.
        let pair =
            unsafe { _mm256_add_ps(_mm256_loadu_ps(one.add(8 * at)), _mm256_loadu_ps(other.add(8 * at))) };
        *sum = _mm256_fmadd_ps(pair, weight, *sum);
    }
}
