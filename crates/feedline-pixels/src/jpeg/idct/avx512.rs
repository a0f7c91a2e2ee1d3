//! Four blocks at a time: each 128-bit quarter of a register belongs to one block. Up to three remaining blocks take the
//! kernel for two.

#![expect(clippy::large_types_passed_by_value, reason = "registers of inlined functions, never memory")]

use std::arch::x86_64::*;
use std::arch::x86_64::{
    __m512i as Register, _mm512_add_epi16 as add_epi16, _mm512_add_epi32 as add_epi32,
    _mm512_adds_epi16 as adds_epi16, _mm512_madd_epi16 as madd_epi16, _mm512_packs_epi16 as packs_epi16,
    _mm512_packs_epi32 as packs_epi32, _mm512_set1_epi8 as set1_epi8, _mm512_set1_epi16 as set1_epi16,
    _mm512_set1_epi32 as set1_epi32, _mm512_setzero_si512 as setzero, _mm512_shuffle_epi8 as shuffle_epi8,
    _mm512_srai_epi16 as srai_epi16, _mm512_srai_epi32 as srai_epi32, _mm512_sub_epi16 as sub_epi16,
    _mm512_sub_epi32 as sub_epi32, _mm512_unpackhi_epi8 as unpackhi_epi8,
    _mm512_unpackhi_epi16 as unpackhi_epi16, _mm512_unpackhi_epi32 as unpackhi_epi32,
    _mm512_unpackhi_epi64 as unpackhi_epi64, _mm512_unpacklo_epi8 as unpacklo_epi8,
    _mm512_unpacklo_epi16 as unpacklo_epi16, _mm512_unpacklo_epi32 as unpacklo_epi32,
    _mm512_unpacklo_epi64 as unpacklo_epi64, _mm512_xor_si512 as xor,
};

use super::avx2;
use super::x86::{PASS1_BITS, SHIFT_1, SHIFT_2, arithmetic};
use super::{Block, Quant, Run};

/// Transforms `run` into 8 rows of samples.
///
/// # Safety
/// The CPU must have AVX-512 F, BW and VL, and `out` must have 8 rows of `run.count * 8` bytes, `stride` apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
pub(super) unsafe fn full(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    let to = out.as_mut_ptr();
    let table = load_table(quant);
    let mut blocks = run.iter();
    let mut column = 0;
    while column + 32 <= run.count * 8 {
        let (Some(a), Some(b), Some(c), Some(d)) =
            (blocks.next(), blocks.next(), blocks.next(), blocks.next())
        else {
            break;
        };
        let samples = four(a, b, c, d, &table);
        // SAFETY: the four blocks are among the `count`, so their 32 columns are inside each of the 8 rows.
        unsafe { store_four(samples, to.add(column), stride) };
        column += 32;
    }
    if column < run.count * 8 {
        // SAFETY: the rest of the blocks have the columns from `column` on.
        unsafe { avx2::rest(&mut blocks, &avx2::load_table(quant), to.add(column), stride) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_table(quant: &Quant) -> Rows {
    std::array::from_fn(|y| {
        let row = &quant[y * 8..y * 8 + 8];
        // SAFETY: a slice of 8 i16 is 16 readable bytes; the load needs no alignment.
        _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(row.as_ptr().cast()) })
    })
}

/// Half a block: four rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_half(block: &Block, half: usize) -> __m512i {
    let rows = &block[half * 32..half * 32 + 32];
    // SAFETY: a slice of 32 i16 is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) }
}

/// Rows of four blocks, the first block in the lowest quarters.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn load_four(blocks: [&Block; 4]) -> Rows {
    let mut rows = [_mm512_setzero_si512(); 8];
    for half in 0..2 {
        let [a, b, c, d] = blocks.map(|block| load_half(block, half));
        let (ab_low, ab_high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xEE>(a, b));
        let (cd_low, cd_high) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xEE>(c, d));
        rows[half * 4] = _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low);
        rows[half * 4 + 1] = _mm512_shuffle_i32x4::<0xDD>(ab_low, cd_low);
        rows[half * 4 + 2] = _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high);
        rows[half * 4 + 3] = _mm512_shuffle_i32x4::<0xDD>(ab_high, cd_high);
    }
    rows
}

/// Samples of four blocks: register i contains rows 2i and 2i + 1 of each block in that block's quarter.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn four(a: &Block, b: &Block, c: &Block, d: &Block, table: &Rows) -> [__m512i; 4] {
    let raw = load_four([a, b, c, d]);
    let or3 = |x, y, z| _mm512_ternarylogic_epi32::<0xFE>(x, y, z);
    let below = or3(or3(raw[1], raw[2], raw[3]), or3(raw[4], raw[5], raw[6]), raw[7]);
    let zero = _mm512_cmpeq_epi16_mask(below, _mm512_setzero_si512());
    let first = _mm512_mullo_epi16(raw[0], table[0]);
    let flat = _mm512_slli_epi16::<{ PASS1_BITS as u32 }>(first);
    let between = if zero == u32::MAX {
        if _mm512_test_epi16_mask(raw[0], raw[0]) & 0xFEFE_FEFE == 0 {
            return constant(flat);
        }
        [flat; 8]
    } else {
        let mut rows = [first; 8];
        for y in 1..8 {
            rows[y] = _mm512_mullo_epi16(raw[y], table[y]);
        }
        keep_flat(pass::<{ SHIFT_1 as u32 }>(rows), flat, zero)
    };
    to_samples(pass::<{ SHIFT_2 as u32 }>(transpose(between)))
}

/// In a quarter whose rows 1 to 7 are zero, the first pass is row 0 shifted, which differs from the computed one when it
/// overflows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn keep_flat(between: Rows, flat: __m512i, zero: u32) -> Rows {
    // One bit for each quarter of eight set bits, spread over the quarter again.
    let all = zero & (zero >> 4) & 0x0F0F_0F0F;
    let all = all & (all >> 2);
    let quarters = (all & (all >> 1) & 0x0101_0101).wrapping_mul(0xFF);
    if quarters == 0 {
        return between;
    }
    between.map(|row| _mm512_mask_blend_epi16(quarters, row, flat))
}

arithmetic!("avx512f,avx512bw,avx512vl", u32);

/// # Safety
/// `to` must be valid for writes of 32 bytes in each of 8 rows, `stride` apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn store_four(samples: [__m512i; 4], to: *mut u8, stride: usize) {
    // Quarters (a0 a1 | b0 b1 | ...) to halves (a0 b0 c0 d0 | a1 b1 c1 d1): each half is then one row of all blocks.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    for (i, rows) in samples.into_iter().enumerate() {
        let rows = _mm512_permutexvar_epi64(order, rows);
        // SAFETY: the caller guarantees 8 rows, and rows 2i and 2i + 1 are among them.
        unsafe {
            _mm256_storeu_si256(to.add(2 * i * stride).cast(), _mm512_castsi512_si256(rows));
            _mm256_storeu_si256(to.add((2 * i + 1) * stride).cast(), _mm512_extracti64x4_epi64::<1>(rows));
        }
    }
}
