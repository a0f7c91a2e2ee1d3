//! Two blocks at a time: each 128-bit half of a register belongs to one block, so no shuffle crosses the halves until
//! the finished samples are stored.

use std::arch::x86_64::*;
use std::arch::x86_64::{
    __m256i as Register, _mm256_add_epi16 as add_epi16, _mm256_add_epi32 as add_epi32,
    _mm256_adds_epi16 as adds_epi16, _mm256_madd_epi16 as madd_epi16, _mm256_packs_epi16 as packs_epi16,
    _mm256_packs_epi32 as packs_epi32, _mm256_set1_epi8 as set1_epi8, _mm256_set1_epi16 as set1_epi16,
    _mm256_set1_epi32 as set1_epi32, _mm256_setzero_si256 as setzero, _mm256_shuffle_epi8 as shuffle_epi8,
    _mm256_srai_epi16 as srai_epi16, _mm256_srai_epi32 as srai_epi32, _mm256_sub_epi16 as sub_epi16,
    _mm256_sub_epi32 as sub_epi32, _mm256_unpackhi_epi8 as unpackhi_epi8,
    _mm256_unpackhi_epi16 as unpackhi_epi16, _mm256_unpackhi_epi32 as unpackhi_epi32,
    _mm256_unpackhi_epi64 as unpackhi_epi64, _mm256_unpacklo_epi8 as unpacklo_epi8,
    _mm256_unpacklo_epi16 as unpacklo_epi16, _mm256_unpacklo_epi32 as unpacklo_epi32,
    _mm256_unpacklo_epi64 as unpacklo_epi64, _mm256_xor_si256 as xor,
};

use super::x86::{PASS1_BITS, SHIFT_1, SHIFT_2, arithmetic};
use super::{Block, Quant, Run};

/// Transforms `run` into 8 rows of samples.
///
/// # Safety
/// The CPU must have AVX2, and `out` must have 8 rows of `run.count * 8` bytes, `stride` apart.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn full(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    // SAFETY: `out` has a column of 8 samples in each of 8 rows for every block.
    unsafe { rest(&mut run.iter(), &load_table(quant), out.as_mut_ptr(), stride) };
}

/// Transforms all remaining blocks.
///
/// # Safety
/// The CPU must have AVX2, and `to` must be valid for writes of 8 bytes for each block in each of 8 rows, `stride` apart.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn rest<'a>(
    blocks: &mut impl Iterator<Item = &'a Block>,
    table: &Rows,
    to: *mut u8,
    stride: usize,
) {
    let mut column = 0;
    while let Some(a) = blocks.next() {
        let Some(b) = blocks.next() else {
            let samples = pair(a, a, table);
            // SAFETY: this block is one of those, so its 8 columns are inside each of the 8 rows.
            unsafe { store_one(samples, to.add(column), stride) };
            break;
        };
        let samples = pair(a, b, table);
        // SAFETY: both blocks are among those, so their 16 columns are inside each of the 8 rows.
        unsafe { store_two(samples, to.add(column), stride) };
        column += 16;
    }
}

#[target_feature(enable = "avx2")]
fn load_row(values: &[i16; 64], y: usize) -> __m128i {
    let row = &values[y * 8..y * 8 + 8];
    // SAFETY: a slice of 8 i16 is 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(row.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
pub(super) fn load_table(quant: &Quant) -> Rows {
    std::array::from_fn(|y| {
        let row = load_row(quant, y);
        _mm256_set_m128i(row, row)
    })
}

/// The coefficients of two blocks, `a` in the lower halves.
#[target_feature(enable = "avx2")]
pub(super) fn load_pair(a: &Block, b: &Block) -> Rows {
    std::array::from_fn(|y| _mm256_set_m128i(load_row(b, y), load_row(a, y)))
}

/// Samples of two blocks: register i contains rows 2i and 2i + 1 of the first block in its lower half, of the second
/// block in its upper half.
#[target_feature(enable = "avx2")]
fn pair(a: &Block, b: &Block, table: &Rows) -> [__m256i; 4] {
    let raw = load_pair(a, b);
    let below = _mm256_or_si256(
        _mm256_or_si256(_mm256_or_si256(raw[1], raw[2]), _mm256_or_si256(raw[3], raw[4])),
        _mm256_or_si256(_mm256_or_si256(raw[5], raw[6]), raw[7]),
    );
    let zero = _mm256_movemask_epi8(_mm256_cmpeq_epi16(below, _mm256_setzero_si256())) as u32;
    let first = _mm256_mullo_epi16(raw[0], table[0]);
    let flat = _mm256_slli_epi16::<PASS1_BITS>(first);
    let between = if zero == u32::MAX {
        let ac = _mm256_and_si256(raw[0], _mm256_set_epi64x(!0, !0xFFFF, !0, !0xFFFF));
        if _mm256_testz_si256(ac, ac) != 0 {
            return constant(flat);
        }
        [flat; 8]
    } else {
        let mut rows = [first; 8];
        for y in 1..8 {
            rows[y] = _mm256_mullo_epi16(raw[y], table[y]);
        }
        let mut between = pass::<SHIFT_1>(rows);
        if zero & 0xFFFF == 0xFFFF || zero >> 16 == 0xFFFF {
            between = keep_flat(between, flat, zero);
        }
        between
    };
    to_samples(pass::<SHIFT_2>(transpose(between)))
}

/// In the half whose rows 1 to 7 are zero, the first pass is row 0 shifted, which differs from the computed one when it
/// overflows.
#[target_feature(enable = "avx2")]
fn keep_flat(between: Rows, flat: __m256i, zero: u32) -> Rows {
    let low = if zero & 0xFFFF == 0xFFFF { -1 } else { 0 };
    let high = if zero >> 16 == 0xFFFF { -1 } else { 0 };
    let mask = _mm256_set_epi64x(high, high, low, low);
    let mut rows = between;
    for row in &mut rows {
        *row = _mm256_blendv_epi8(*row, flat, mask);
    }
    rows
}

arithmetic!("avx2", i32);

/// # Safety
/// `to` must be valid for writes of 16 bytes in each of 8 rows, `stride` apart.
#[target_feature(enable = "avx2")]
unsafe fn store_two(samples: [__m256i; 4], to: *mut u8, stride: usize) {
    for (i, rows) in samples.into_iter().enumerate() {
        // Halves (a0 a1 | b0 b1) to (a0 b0 | a1 b1): each half is then one row of both blocks.
        let rows = _mm256_permute4x64_epi64::<0b11_01_10_00>(rows);
        // SAFETY: the caller guarantees 8 rows, and rows 2i and 2i + 1 are among them.
        unsafe {
            _mm_storeu_si128(to.add(2 * i * stride).cast(), _mm256_castsi256_si128(rows));
            _mm_storeu_si128(to.add((2 * i + 1) * stride).cast(), _mm256_extracti128_si256::<1>(rows));
        }
    }
}

/// # Safety
/// `to` must be valid for writes of 8 bytes in each of 8 rows, `stride` apart.
#[target_feature(enable = "avx2")]
unsafe fn store_one(samples: [__m256i; 4], to: *mut u8, stride: usize) {
    for (i, rows) in samples.into_iter().enumerate() {
        let rows = _mm256_castsi256_si128(rows);
        // SAFETY: the caller guarantees 8 rows, and rows 2i and 2i + 1 are among them.
        unsafe {
            _mm_storel_epi64(to.add(2 * i * stride).cast(), rows);
            _mm_storel_epi64(to.add((2 * i + 1) * stride).cast(), _mm_unpackhi_epi64(rows, rows));
        }
    }
}
