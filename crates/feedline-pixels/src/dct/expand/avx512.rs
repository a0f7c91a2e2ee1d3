//! Expands a half block with one instruction: the 32 mask bits put the packed bytes in place.

use std::arch::x86_64::*;

use super::window;
use crate::jpeg::idct::Block;

/// # Safety
/// The CPU must have AVX-512 F, BW, VL and VBMI2, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn rows(data: &[u8], first_row: usize, blocks: &mut [Block]) -> Option<()> {
    let mut start = 0;
    for block in blocks {
        let window = window(data, start)?;
        let presence = u32::from(window[0] & 15);
        // A byte of ones for each row that is present: its mask goes there.
        let places = _pdep_u32(presence, 0x0101_0101) * 0xFF;
        let mask = _pdep_u32(u32::from_le_bytes(*window[1..5].first_chunk()?), places);
        let at = 1 + presence.count_ones() as usize;
        let values: &[u8; 32] = window[at..at + 32].first_chunk()?;
        let out: &mut [i16; 32] = block[first_row * 8..].first_chunk_mut()?;
        // SAFETY: 32 readable bytes and 32 writable coefficients; neither access needs alignment.
        unsafe {
            let packed = _mm256_loadu_si256(values.as_ptr().cast());
            let spread = _mm512_cvtepi8_epi16(_mm256_maskz_expand_epi8(mask, packed));
            _mm512_storeu_si512(out.as_mut_ptr().cast(), spread);
        }
        start += at + mask.count_ones() as usize;
    }
    Some(())
}
