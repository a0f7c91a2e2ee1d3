//! Expands eight coefficients at a time with a byte shuffle.

use std::arch::x86_64::*;

use super::{masks, window};
use crate::dct::shuffles::SHUFFLES;
use crate::jpeg::idct::Block;

/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn rows(data: &[u8], first_row: usize, blocks: &mut [Block]) -> Option<()> {
    let mut start = 0;
    for block in blocks {
        let window = window(data, start)?;
        let (masks, mut at) = masks(window);
        for (row, mask) in masks.into_iter().enumerate() {
            let values: &[u8; 8] = window[at..at + 8].first_chunk()?;
            let out: &mut [i16] = &mut block[(first_row + row) * 8..][..8];
            // SAFETY: eight readable bytes, a table row of eight bytes, and eight writable coefficients; none of these
            // accesses needs alignment.
            unsafe {
                let packed = _mm_loadl_epi64(values.as_ptr().cast());
                let shuffle = _mm_loadl_epi64(SHUFFLES[usize::from(mask)].as_ptr().cast());
                let spread = _mm_cvtepi8_epi16(_mm_shuffle_epi8(packed, shuffle));
                _mm_storeu_si128(out.as_mut_ptr().cast(), spread);
            }
            at += mask.count_ones() as usize;
        }
        start += at;
    }
    Some(())
}
