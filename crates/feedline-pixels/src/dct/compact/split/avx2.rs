//! Magnitudes as bytes: shifting a plane's bit to the top of each byte gives the plane as a mask.

use std::arch::x86_64::*;

use super::{BITS, Split, TOO_LARGE};
use crate::jpeg::idct::Block;

/// 64 values of 16 bits.
type Values = [__m256i; 4];
/// 64 bytes, in order.
type Bytes = [__m256i; 2];

/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn split(blocks: &[Block], out: &mut [Split]) -> Option<()> {
    for (block, out) in blocks.iter().zip(out) {
        let values = load(block);
        let magnitudes = values.map(|v| _mm256_abs_epi16(v));
        let any = _mm256_or_si256(
            _mm256_or_si256(magnitudes[0], magnitudes[1]),
            _mm256_or_si256(magnitudes[2], magnitudes[3]),
        );
        let too_large = _mm256_set1_epi16(!(TOO_LARGE - 1));
        if _mm256_testz_si256(any, too_large) == 0 {
            return None;
        }
        out.sign = mask(narrow_signs(values));
        let low_byte = _mm256_set1_epi16(0xFF);
        out.planes = [0; BITS];
        let mut low = narrow(magnitudes.map(|v| _mm256_and_si256(v, low_byte)));
        for plane in out.planes[..8].iter_mut().rev() {
            *plane = mask(low);
            low = low.map(|v| _mm256_add_epi8(v, v));
        }
        if _mm256_testz_si256(any, _mm256_set1_epi16(!0xFF)) == 0 {
            let mut high = narrow(magnitudes.map(|v| _mm256_srli_epi16::<8>(v)));
            high = high.map(|v| _mm256_slli_epi16::<5>(v));
            for plane in out.planes[8..].iter_mut().rev() {
                *plane = mask(high);
                high = high.map(|v| _mm256_add_epi8(v, v));
            }
        }
    }
    Some(())
}

/// The coefficients, with a DC coefficient of zero.
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> Values {
    let mut values = [_mm256_setzero_si256(); 4];
    for (value, part) in values.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: 16 coefficients are 32 readable bytes; the load needs no alignment.
        *value = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
    }
    values[0] = _mm256_insert_epi16::<0>(values[0], 0);
    values
}

/// Values of at most 255 as bytes.
#[target_feature(enable = "avx2")]
fn narrow(values: Values) -> Bytes {
    let [a, b, c, d] = values;
    [in_order(_mm256_packus_epi16(a, b)), in_order(_mm256_packus_epi16(c, d))]
}

/// Values of all ones or zeros as bytes.
#[target_feature(enable = "avx2")]
fn narrow_signs(values: Values) -> Bytes {
    let [a, b, c, d] = values.map(|v| _mm256_srai_epi16::<15>(v));
    [in_order(_mm256_packs_epi16(a, b)), in_order(_mm256_packs_epi16(c, d))]
}

/// Packing works in halves of a register; this puts their quarters in order.
#[target_feature(enable = "avx2")]
fn in_order(packed: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
}

/// The top bit of each byte.
#[target_feature(enable = "avx2")]
fn mask(bytes: Bytes) -> u64 {
    let [low, high] = bytes.map(|v| _mm256_movemask_epi8(v) as u32);
    u64::from(low) | u64::from(high) << 32
}
