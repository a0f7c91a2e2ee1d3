//! Bit planes to coefficients: AVX-512 uses a plane's 64 bits as the mask of an addition.

use std::arch::x86_64::*;

use super::{BITS, Cursor, FULL, Row, TRIANGLES, expand_blocks};
use crate::jpeg::idct::Block;

/// # Safety
/// The CPU must have AVX-512 F, BW and VL, and BMI2, and all of the blocks must be in the row.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi2,popcnt")]
pub(super) unsafe fn expand(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    let cursor = row.cursor(first)?;
    expand_blocks!(row, cursor, blocks, narrow, wide);
    Some(())
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn low_bits(planes: &[u64; BITS]) -> __m512i {
    let mut value = _mm512_maskz_set1_epi8(planes[0], 1);
    value = _mm512_mask_add_epi8(value, planes[1], value, _mm512_set1_epi8(2));
    value = _mm512_mask_add_epi8(value, planes[2], value, _mm512_set1_epi8(4));
    value = _mm512_mask_add_epi8(value, planes[3], value, _mm512_set1_epi8(8));
    if planes[4] | planes[5] | planes[6] != 0 {
        value = _mm512_mask_add_epi8(value, planes[4], value, _mm512_set1_epi8(16));
        value = _mm512_mask_add_epi8(value, planes[5], value, _mm512_set1_epi8(32));
        value = _mm512_mask_add_epi8(value, planes[6], value, _mm512_set1_epi8(64));
    }
    value
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn store(block: &mut Block, low: __m512i, high: __m512i) {
    // SAFETY: 64 coefficients are 128 bytes; these stores need no alignment.
    unsafe {
        _mm512_storeu_si512(block.as_mut_ptr().cast(), low);
        _mm512_storeu_si512(block.as_mut_ptr().add(32).cast(), high);
    }
}

/// For magnitudes of at most seven bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn narrow(planes: &[u64; BITS], sign: u64, block: &mut Block) {
    let value = low_bits(planes);
    let value = _mm512_mask_sub_epi8(value, sign, _mm512_setzero_si512(), value);
    let low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(value));
    let high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(value));
    store(block, low, high);
}

/// For magnitudes of up to eleven bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
fn wide(planes: &[u64; BITS], sign: u64, block: &mut Block) {
    let value = low_bits(planes);
    let mut halves = [
        _mm512_cvtepu8_epi16(_mm512_castsi512_si256(value)),
        _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(value)),
    ];
    for (half, value) in halves.iter_mut().enumerate() {
        let part = |mask: u64| (mask >> (32 * half)) as u32;
        for (j, &plane) in planes.iter().enumerate().skip(7) {
            *value = _mm512_mask_add_epi16(*value, part(plane), *value, _mm512_set1_epi16(1 << j));
        }
        *value = _mm512_mask_sub_epi16(*value, part(sign), _mm512_setzero_si512(), *value);
    }
    store(block, halves[0], halves[1]);
}
