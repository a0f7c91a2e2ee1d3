//! The same for x86-64 with AVX-512: the sums of 64 values stay in registers until all weights are done.

use std::arch::x86_64::*;

use super::BLOCK;

/// Sums of a block.
type Sums = [__m512; BLOCK / 16];

/// # Safety
///
/// Needs AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
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
                _mm512_storeu_ps(line_start.add(x + 16 * at), *sum);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn along(line: &[f32], weights: &[f32], _: &mut [f32], out: &mut [u8]) {
    let radius = weights.len() - 1;
    assert!(line.len() >= out.len().next_multiple_of(BLOCK) + 2 * radius * 4);
    let line = line.as_ptr();
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
        let mask = u64::MAX >> (BLOCK - out.len());
        for (at, sum) in sums.iter().enumerate() {
            // Rounded half to even, then saturated.
            let whole = _mm512_cvtps_epi32(*sum);
            // SAFETY: the mask has a bit for each byte that is there.
            unsafe {
                let to = out.as_mut_ptr().wrapping_add(16 * at);
                _mm512_mask_cvtusepi32_storeu_epi8(to.cast(), (mask >> (16 * at)) as u16, whole);
            }
        }
    }
}

/// # Safety
///
/// Needs AVX-512 F and BW and a readable block.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn begun(values: *const f32, weight: f32) -> Sums {
    let weight = _mm512_set1_ps(weight);
    // SAFETY: the caller promises a block.
    std::array::from_fn(|at| unsafe { _mm512_mul_ps(_mm512_loadu_ps(values.add(16 * at)), weight) })
}

/// # Safety
///
/// Needs AVX-512 F and BW and readable blocks.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
unsafe fn add_pair(sums: &mut Sums, one: *const f32, other: *const f32, weight: f32) {
    let weight = _mm512_set1_ps(weight);
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises blocks.
        let pair =
            unsafe { _mm512_add_ps(_mm512_loadu_ps(one.add(16 * at)), _mm512_loadu_ps(other.add(16 * at))) };
        *sum = _mm512_fmadd_ps(pair, weight, *sum);
    }
}
