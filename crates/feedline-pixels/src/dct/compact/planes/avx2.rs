//! Bit planes to coefficients, 32 bytes at a time: a plane's bits become a mask of bytes by a shuffle and a comparison.

use std::arch::x86_64::*;

use super::{BITS, Cursor, FULL, Row, TRIANGLES, expand_blocks};
use crate::jpeg::idct::Block;

/// # Safety
/// The CPU must have AVX2 and BMI2, and all of the blocks must be in the row.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(super) unsafe fn expand(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    let cursor = row.cursor(first)?;
    expand_blocks!(row, cursor, blocks, narrow, wide);
    Some(())
}

/// Expands 32 bits to 32 bytes of all ones or zeros.
#[target_feature(enable = "avx2")]
#[inline]
fn bytes(bits: u32) -> __m256i {
    let places = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), places);
    _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own)
}

/// The low seven bits of the magnitudes of half a block, as bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn low_bits(planes: &[u64; BITS], half: usize) -> __m256i {
    let part = |plane: u64| (plane >> (32 * half)) as u32;
    let mut value = _mm256_and_si256(bytes(part(planes[0])), _mm256_set1_epi8(1));
    for (j, &plane) in planes.iter().enumerate().take(4).skip(1) {
        value = _mm256_or_si256(value, _mm256_and_si256(bytes(part(plane)), _mm256_set1_epi8(1 << j)));
    }
    if planes[4] | planes[5] | planes[6] != 0 {
        for (j, &plane) in planes.iter().enumerate().take(7).skip(4) {
            value = _mm256_or_si256(value, _mm256_and_si256(bytes(part(plane)), _mm256_set1_epi8(1 << j)));
        }
    }
    value
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(out: &mut [i16; 32], low: __m256i, high: __m256i) {
    // SAFETY: 32 coefficients are 64 bytes; these stores need no alignment.
    unsafe {
        _mm256_storeu_si256(out.as_mut_ptr().cast(), low);
        _mm256_storeu_si256(out.as_mut_ptr().add(16).cast(), high);
    }
}

/// For magnitudes of at most seven bits.
#[target_feature(enable = "avx2")]
#[inline]
fn narrow(planes: &[u64; BITS], sign: u64, block: &mut Block) {
    for (half, out) in block.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let value = low_bits(planes, half);
        let sign = bytes((sign >> (32 * half)) as u32);
        let value = _mm256_sub_epi8(_mm256_xor_si256(value, sign), sign);
        let low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(value));
        let high = _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(value));
        store(out, low, high);
    }
}

/// For magnitudes of up to eleven bits: the high bits are separate bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn wide(planes: &[u64; BITS], sign: u64, block: &mut Block) {
    for (half, out) in block.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = low_bits(planes, half);
        let mut high = _mm256_setzero_si256();
        for (j, &plane) in planes.iter().enumerate().skip(7) {
            let mask = bytes((plane >> (32 * half)) as u32);
            high = _mm256_or_si256(high, _mm256_and_si256(mask, _mm256_set1_epi8(1 << (j - 7))));
        }
        let sign = bytes((sign >> (32 * half)) as u32);
        let join = |low: __m128i, high: __m128i, sign: __m128i| {
            let sign = _mm256_cvtepi8_epi16(sign);
            let high = _mm256_slli_epi16::<7>(_mm256_cvtepu8_epi16(high));
            let value = _mm256_or_si256(_mm256_cvtepu8_epi16(low), high);
            _mm256_sub_epi16(_mm256_xor_si256(value, sign), sign)
        };
        let front = |v: __m256i| _mm256_castsi256_si128(v);
        let back = |v: __m256i| _mm256_extracti128_si256::<1>(v);
        store(out, join(front(low), front(high), front(sign)), join(back(low), back(high), back(sign)));
    }
}
