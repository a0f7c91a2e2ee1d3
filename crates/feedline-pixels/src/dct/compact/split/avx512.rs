//! One instruction for each plane: 64 bytes are tested for a bit at once.

use std::arch::x86_64::*;

use super::{BITS, Split, TOO_LARGE};
use crate::jpeg::idct::Block;

/// # Safety
/// The CPU must have AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn split(blocks: &[Block], out: &mut [Split]) -> Option<()> {
    for (block, out) in blocks.iter().zip(out) {
        let [front, back] = load(block);
        let magnitudes = [_mm512_abs_epi16(front), _mm512_abs_epi16(back)];
        let any = _mm512_or_si512(magnitudes[0], magnitudes[1]);
        if _mm512_test_epi16_mask(any, _mm512_set1_epi16(!(TOO_LARGE - 1))) != 0 {
            return None;
        }
        out.sign = both(_mm512_movepi16_mask(front), _mm512_movepi16_mask(back));
        let narrow = magnitudes.map(|v| _mm512_cvtepi16_epi8(v));
        let low = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(narrow[0]), narrow[1]);
        out.planes = [0; BITS];
        for (bit, plane) in out.planes[..8].iter_mut().enumerate() {
            *plane = _mm512_test_epi8_mask(low, _mm512_set1_epi8((1u8 << bit) as i8));
        }
        if _mm512_test_epi16_mask(any, _mm512_set1_epi16(!0xFF)) != 0 {
            for (bit, plane) in out.planes.iter_mut().enumerate().skip(8) {
                let wanted = _mm512_set1_epi16(1 << bit);
                let [front, back] = magnitudes.map(|v| _mm512_test_epi16_mask(v, wanted));
                *plane = both(front, back);
            }
        }
    }
    Some(())
}

/// The coefficients, with a DC coefficient of zero.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load(block: &Block) -> [__m512i; 2] {
    let [front, back] = block.as_chunks::<32>().0 else { return [_mm512_setzero_si512(); 2] };
    // SAFETY: 32 coefficients are 64 readable bytes; the loads need no alignment.
    unsafe { [_mm512_maskz_loadu_epi16(!1, front.as_ptr()), _mm512_loadu_si512(back.as_ptr().cast())] }
}

#[target_feature(enable = "avx512f")]
fn both(front: u32, back: u32) -> u64 {
    u64::from(front) | u64::from(back) << 32
}
