//! Expands eight coefficients at a time with a table lookup. Every 64-bit Arm has NEON, so nothing here needs detection.

use std::arch::aarch64::*;

use super::{masks, window};
use crate::dct::shuffles::SHUFFLES;
use crate::jpeg::idct::Block;

#[target_feature(enable = "neon")]
pub(super) fn rows(data: &[u8], first_row: usize, blocks: &mut [Block]) -> Option<()> {
    let mut start = 0;
    for block in blocks {
        let window = window(data, start)?;
        let (masks, mut at) = masks(window);
        for (row, mask) in masks.into_iter().enumerate() {
            let values: &[u8; 8] = window[at..at + 8].first_chunk()?;
            let out: &mut [i16] = &mut block[(first_row + row) * 8..][..8];
            // SAFETY: eight readable bytes, a table row of eight bytes, and eight writable coefficients.
            unsafe {
                let packed = vld1_u8(values.as_ptr());
                let spread = vtbl1_u8(packed, vld1_u8(SHUFFLES[usize::from(mask)].as_ptr()));
                vst1q_s16(out.as_mut_ptr(), vmovl_s8(vreinterpret_s8_u8(spread)));
            }
            at += mask.count_ones() as usize;
        }
        start += at;
    }
    Some(())
}
