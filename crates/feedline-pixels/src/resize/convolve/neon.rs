//! 128-bit kernels for 64-bit Arm. `sqrdmulh` is the reference's product, `sqadd` its sum.

use std::arch::aarch64::*;

use super::{Columns, ROWS, Rows, Woven};

/// Bytes of a row per step: one vector of bytes, two of 16-bit sums.
const STEP: usize = 16;

/// # Safety
///
/// Needs NEON, and the lengths that `super::blend_rows` checks.
#[target_feature(enable = "neon")]
pub(super) unsafe fn blend_rows(rows: Rows<'_>, weights: &[i16], begin: bool, line: &mut [i16]) {
    let whole = rows.width / STEP * STEP;
    for x in (0..whole).step_by(STEP) {
        // SAFETY: `x + 16 <= width`, readable in every row; the line is padded.
        unsafe { blend_block(rows, weights, begin, x, line) };
    }
    if whole < rows.width {
        let tail = Rows { bytes: &rows.bytes[whole..], width: rows.width - whole, ..rows };
        super::scalar::blend_rows(tail, weights, begin, &mut line[whole..]);
    }
}

/// # Safety
///
/// Needs NEON; every row readable and the line writable for 16 elements from `x`.
#[target_feature(enable = "neon")]
#[inline]
unsafe fn blend_block(rows: Rows<'_>, weights: &[i16], begin: bool, x: usize, line: &mut [i16]) {
    // SAFETY: `x` is inside the line and the first row.
    let (out, mut row) = unsafe { (line.as_mut_ptr().add(x), rows.bytes.as_ptr().add(x)) };
    let mut low = vdupq_n_s16(0);
    let mut high = vdupq_n_s16(0);
    if !begin {
        // SAFETY: the caller guarantees 16 elements of the line.
        (low, high) = unsafe { (vld1q_s16(out), vld1q_s16(out.add(8))) };
    }
    for weight in weights {
        let weight = vdupq_n_s16(*weight);
        // SAFETY: the caller guarantees 16 readable bytes in each row.
        let bytes = unsafe { vreinterpretq_s8_u8(veorq_u8(vld1q_u8(row), vdupq_n_u8(0x80))) };
        let first = vshlq_n_s16::<8>(vmovl_s8(vget_low_s8(bytes)));
        let second = vshlq_n_s16::<8>(vmovl_high_s8(bytes));
        low = vqaddq_s16(low, vqrdmulhq_s16(first, weight));
        high = vqaddq_s16(high, vqrdmulhq_s16(second, weight));
        // One stride past the last row is never read; wrapping keeps that pointer valid.
        row = row.wrapping_add(rows.stride);
    }
    // SAFETY: the caller guarantees 16 elements of the line.
    unsafe {
        vst1q_s16(out, low);
        vst1q_s16(out.add(8), high);
    }
}

/// # Safety
///
/// Needs NEON, and the lengths that `super::weave` checks.
#[target_feature(enable = "neon")]
pub(super) unsafe fn weave<const CHANNELS: usize, const HALVED: bool>(
    lines: [&[i16]; ROWS],
    woven: &mut [Woven],
) {
    for (x, column) in woven.iter_mut().enumerate() {
        for (row, line) in lines.iter().enumerate() {
            // SAFETY: lines are padded past the last column's four numbers; a `Woven` has four rows of four.
            unsafe {
                let four = vld1_s16(line.as_ptr().add(CHANNELS * x));
                vst1_s16(column.0.as_mut_ptr().add(4 * row), whole_levels::<HALVED>(four));
            }
        }
    }
}

/// Converts sums to whole levels in the upper bytes: adds half a level, with saturation, and truncates.
#[target_feature(enable = "neon")]
#[inline]
fn whole_levels<const HALVED: bool>(sums: int16x4_t) -> int16x4_t {
    let sums = if HALVED {
        let rounded = vqadd_s16(sums, vdup_n_s16(1 << 6));
        vqadd_s16(rounded, rounded)
    } else {
        vqadd_s16(sums, vdup_n_s16(1 << 7))
    };
    vand_s16(sums, vdup_n_s16(!0xFF))
}

/// # Safety
///
/// Needs NEON, and the lengths that `super::blend_columns` checks.
#[target_feature(enable = "neon")]
pub(super) unsafe fn blend_columns(columns: &Columns, woven: &[Woven], pixels: &mut [u8], stride: usize) {
    let half = vdupq_n_s16(1 << (columns.fraction - 1));
    let shift = vdupq_n_s16(-(columns.fraction as i16));
    for (x, start) in columns.starts.iter().enumerate() {
        let mut upper = vdupq_n_s16(0);
        let mut lower = vdupq_n_s16(0);
        let weights = &columns.weights[x * columns.taps..(x + 1) * columns.taps];
        for (column, weight) in woven[*start as usize..].iter().zip(weights) {
            let weight = vdupq_n_s16(weight[0]);
            // SAFETY: a `Woven` is two vectors of eight numbers.
            let (first, second) =
                unsafe { (vld1q_s16(column.0.as_ptr()), vld1q_s16(column.0.as_ptr().add(8))) };
            upper = vqaddq_s16(upper, vqrdmulhq_s16(first, weight));
            lower = vqaddq_s16(lower, vqrdmulhq_s16(second, weight));
        }
        let upper = vqmovn_s16(vshlq_s16(vqaddq_s16(upper, half), shift));
        let lower = vqmovn_s16(vshlq_s16(vqaddq_s16(lower, half), shift));
        let bytes = veorq_u8(vreinterpretq_u8_s8(vcombine_s8(upper, lower)), vdupq_n_u8(0x80));
        let mut four = [0u8; 16];
        // SAFETY: the array is one vector.
        unsafe { vst1q_u8(four.as_mut_ptr(), bytes) };
        for (row, pixel) in four.chunks_exact(4).enumerate() {
            pixels[row * stride + 4 * x..][..4].copy_from_slice(pixel);
        }
    }
}
