//! The same for 64-bit Arm: the sums of 64 values stay in registers until all weights are done.

use std::arch::aarch64::*;

use super::{HALF_LEVEL, LEVEL_BITS, scalar};

/// Half of the padding of lines.
const BLOCK: usize = super::BLOCK / 2;

/// Sums of a block.
type Sums = [int16x8_t; BLOCK / 8];

/// # Safety
///
/// Needs NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn widen(row: &[u8], line: &mut [i16]) {
    scalar::widen(row, line);
}

/// # Safety
///
/// Needs NEON.
#[target_feature(enable = "neon")]
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
                vst1q_s16(line_start.add(x + 8 * at), *sum);
            }
        }
    }
}

/// # Safety
///
/// Needs NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn along(line: &[i16], step: usize, weights: &[i16], out: &mut [u8]) {
    let radius = weights.len() - 1;
    assert!(line.len() >= out.len().next_multiple_of(BLOCK) + 2 * radius * step);
    let line = line.as_ptr();
    let (half, one) = (vdupq_n_s16(HALF_LEVEL - 1), vdupq_n_s16(1));
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
        let mut block = [0; BLOCK];
        for (eight, sum) in block.chunks_exact_mut(8).zip(sums) {
            // Half to even.
            let odd = vandq_s16(vshrq_n_s16::<{ LEVEL_BITS as i32 }>(sum), one);
            let whole = vshrq_n_s16::<{ LEVEL_BITS as i32 }>(vqaddq_s16(sum, vaddq_s16(odd, half)));
            let level = vqmovn_s16(whole);
            // SAFETY: eight bytes.
            unsafe { vst1_u8(eight.as_mut_ptr(), veor_u8(vreinterpret_u8_s8(level), vdup_n_u8(0x80))) };
        }
        let length = out.len();
        out.copy_from_slice(&block[..length]);
    }
}

/// # Safety
///
/// Needs NEON and a readable block.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn first_sums(values: *const i16, weight: i16) -> Sums {
    // SAFETY: the caller guarantees a block.
    std::array::from_fn(|at| unsafe { vqrdmulhq_n_s16(vld1q_s16(values.add(8 * at)), weight) })
}

/// # Safety
///
/// Needs NEON and readable blocks.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn add_pair(sums: &mut Sums, one: *const i16, other: *const i16, weight: i16) {
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller guarantees blocks.
        let (one, other) = unsafe { (vld1q_s16(one.add(8 * at)), vld1q_s16(other.add(8 * at))) };
        *sum = vqaddq_s16(*sum, vqrdmulhq_n_s16(vqaddq_s16(one, other), weight));
    }
}
