//! Four blocks at a time: each 128-bit quarter of a register belongs to one block. Up to three remaining blocks take the
//! kernel for two.

#![expect(clippy::large_types_passed_by_value, reason = "registers of inlined functions, never memory")]

use std::arch::x86_64::*;

use super::avx2;
use super::{Block, Quant, Run};

const CONST_BITS: i32 = 13;
const PASS1_BITS: i32 = 2;
const SHIFT_1: u32 = (CONST_BITS - PASS1_BITS) as u32;
const SHIFT_2: u32 = (CONST_BITS + PASS1_BITS + 3) as u32;

type Rows = [__m512i; 8];

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
        keep_flat(pass::<SHIFT_1>(rows), flat, zero)
    };
    to_samples(pass::<SHIFT_2>(transpose(between)))
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

/// Blocks with only a DC coefficient: one value everywhere.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn constant(flat: __m512i) -> [__m512i; 4] {
    let spread = _mm512_shuffle_epi8(flat, _mm512_set1_epi16(0x0100));
    let rounded = _mm512_srai_epi16::<5>(_mm512_adds_epi16(spread, _mm512_set1_epi16(16)));
    let bytes = _mm512_xor_si512(_mm512_packs_epi16(rounded, rounded), _mm512_set1_epi8(-128));
    [bytes; 4]
}

/// Two 16-bit factors for `madd`, the first for the even lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn factors(even: i32, odd: i32) -> __m512i {
    _mm512_set1_epi32((odd << 16) | (even & 0xFFFF))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn interleave(a: __m512i, b: __m512i) -> [__m512i; 2] {
    [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn madd(pairs: [__m512i; 2], factors: __m512i) -> [__m512i; 2] {
    pairs.map(|pair| _mm512_madd_epi16(pair, factors))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn add(a: [__m512i; 2], b: [__m512i; 2]) -> [__m512i; 2] {
    [_mm512_add_epi32(a[0], b[0]), _mm512_add_epi32(a[1], b[1])]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn sub(a: [__m512i; 2], b: [__m512i; 2]) -> [__m512i; 2] {
    [_mm512_sub_epi32(a[0], b[0]), _mm512_sub_epi32(a[1], b[1])]
}

/// `v << CONST_BITS` in 32 bits, plus the rounding of the final shift (every output contains this term exactly once).
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn widen<const SHIFT: u32>(v: __m512i) -> [__m512i; 2] {
    let half = _mm512_set1_epi32(1 << (SHIFT - 1));
    interleave(_mm512_setzero_si512(), v).map(|wide| _mm512_add_epi32(_mm512_srai_epi32::<3>(wide), half))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn descale<const SHIFT: u32>(v: [__m512i; 2]) -> __m512i {
    _mm512_packs_epi32(_mm512_srai_epi32::<SHIFT>(v[0]), _mm512_srai_epi32::<SHIFT>(v[1]))
}

/// One 8-point pass down the columns; the scalar kernel's `eight`, 32 columns at once.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pass<const SHIFT: u32>(v: Rows) -> Rows {
    let sum = widen::<SHIFT>(_mm512_add_epi16(v[0], v[4]));
    let difference = widen::<SHIFT>(_mm512_sub_epi16(v[0], v[4]));
    let v26 = interleave(v[2], v[6]);
    let tmp3 = madd(v26, factors(4433 + 6270, 4433));
    let tmp2 = madd(v26, factors(4433, 4433 - 15137));
    let (t10, t13) = (add(sum, tmp3), sub(sum, tmp3));
    let (t11, t12) = (add(difference, tmp2), sub(difference, tmp2));

    let z34 = interleave(_mm512_add_epi16(v[7], v[3]), _mm512_add_epi16(v[5], v[1]));
    let y3 = madd(z34, factors(9633 - 16069, 9633));
    let y4 = madd(z34, factors(9633, 9633 - 3196));
    let v71 = interleave(v[7], v[1]);
    let v53 = interleave(v[5], v[3]);
    let o0 = add(madd(v71, factors(2446 - 7373, -7373)), y3);
    let o1 = add(madd(v53, factors(16819 - 20995, -20995)), y4);
    let o2 = add(madd(v53, factors(-20995, 25172 - 20995)), y3);
    let o3 = add(madd(v71, factors(-7373, 12299 - 7373)), y4);
    [
        descale::<SHIFT>(add(t10, o3)),
        descale::<SHIFT>(add(t11, o2)),
        descale::<SHIFT>(add(t12, o1)),
        descale::<SHIFT>(add(t13, o0)),
        descale::<SHIFT>(sub(t13, o0)),
        descale::<SHIFT>(sub(t12, o1)),
        descale::<SHIFT>(sub(t11, o2)),
        descale::<SHIFT>(sub(t10, o3)),
    ]
}

/// Transposes each quarter: pairs of rows, then of pairs, then of fours.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn transpose(v: Rows) -> Rows {
    let [a0, a1] = interleave(v[0], v[1]);
    let [a2, a3] = interleave(v[2], v[3]);
    let [a4, a5] = interleave(v[4], v[5]);
    let [a6, a7] = interleave(v[6], v[7]);
    let by_two = |a, b| [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
    let ([b0, b1], [b2, b3]) = (by_two(a0, a2), by_two(a1, a3));
    let ([b4, b5], [b6, b7]) = (by_two(a4, a6), by_two(a5, a7));
    [
        _mm512_unpacklo_epi64(b0, b4),
        _mm512_unpackhi_epi64(b0, b4),
        _mm512_unpacklo_epi64(b1, b5),
        _mm512_unpackhi_epi64(b1, b5),
        _mm512_unpacklo_epi64(b2, b6),
        _mm512_unpackhi_epi64(b2, b6),
        _mm512_unpacklo_epi64(b3, b7),
        _mm512_unpackhi_epi64(b3, b7),
    ]
}

/// Columns of 16-bit values to rows of samples: narrowed first, so that the transposition moves bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn to_samples(c: Rows) -> [__m512i; 4] {
    let p04 = _mm512_packs_epi16(c[0], c[4]);
    let p26 = _mm512_packs_epi16(c[2], c[6]);
    let p15 = _mm512_packs_epi16(c[1], c[5]);
    let p37 = _mm512_packs_epi16(c[3], c[7]);
    let t02 = _mm512_unpacklo_epi8(p04, p26); // columns 0 and 2, rows 0 to 7
    let t46 = _mm512_unpackhi_epi8(p04, p26);
    let t13 = _mm512_unpacklo_epi8(p15, p37);
    let t57 = _mm512_unpackhi_epi8(p15, p37);
    let left_upper = _mm512_unpacklo_epi8(t02, t13); // columns 0 to 3 of rows 0 to 3
    let left_lower = _mm512_unpackhi_epi8(t02, t13);
    let right_upper = _mm512_unpacklo_epi8(t46, t57);
    let right_lower = _mm512_unpackhi_epi8(t46, t57);
    [
        _mm512_unpacklo_epi32(left_upper, right_upper),
        _mm512_unpackhi_epi32(left_upper, right_upper),
        _mm512_unpacklo_epi32(left_lower, right_lower),
        _mm512_unpackhi_epi32(left_lower, right_lower),
    ]
    .map(|rows| _mm512_xor_si512(rows, _mm512_set1_epi8(-128)))
}

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
