//! Two blocks at a time: each 128-bit half of a register belongs to one block, so no shuffle crosses the halves until
//! the finished samples are stored.

use std::arch::x86_64::*;

use super::{Block, Quant, Run};

const CONST_BITS: i32 = 13;
const PASS1_BITS: i32 = 2;
const SHIFT_1: i32 = CONST_BITS - PASS1_BITS;
const SHIFT_2: i32 = CONST_BITS + PASS1_BITS + 3;

pub(super) type Rows = [__m256i; 8];

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

/// Blocks with only a DC coefficient: one value everywhere.
#[target_feature(enable = "avx2")]
fn constant(flat: __m256i) -> [__m256i; 4] {
    let spread = _mm256_shuffle_epi8(flat, _mm256_set1_epi16(0x0100));
    let rounded = _mm256_srai_epi16::<5>(_mm256_adds_epi16(spread, _mm256_set1_epi16(16)));
    let bytes = _mm256_xor_si256(_mm256_packs_epi16(rounded, rounded), _mm256_set1_epi8(-128));
    [bytes; 4]
}

/// Two 16-bit factors for `madd`, the first for the even lanes.
#[target_feature(enable = "avx2")]
pub(super) fn factors(even: i32, odd: i32) -> __m256i {
    _mm256_set1_epi32((odd << 16) | (even & 0xFFFF))
}

#[target_feature(enable = "avx2")]
pub(super) fn interleave(a: __m256i, b: __m256i) -> [__m256i; 2] {
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

#[target_feature(enable = "avx2")]
pub(super) fn madd(pairs: [__m256i; 2], factors: __m256i) -> [__m256i; 2] {
    [_mm256_madd_epi16(pairs[0], factors), _mm256_madd_epi16(pairs[1], factors)]
}

#[target_feature(enable = "avx2")]
pub(super) fn add(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
    [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])]
}

#[target_feature(enable = "avx2")]
pub(super) fn sub(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
    [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])]
}

/// `v << CONST_BITS` in 32 bits, plus the rounding of the final shift (every output contains this term exactly once).
#[target_feature(enable = "avx2")]
fn widen<const SHIFT: i32>(v: __m256i) -> [__m256i; 2] {
    let zero = _mm256_setzero_si256();
    let half = _mm256_set1_epi32(1 << (SHIFT - 1));
    let wide = interleave(zero, v);
    [
        _mm256_add_epi32(_mm256_srai_epi32::<3>(wide[0]), half),
        _mm256_add_epi32(_mm256_srai_epi32::<3>(wide[1]), half),
    ]
}

#[target_feature(enable = "avx2")]
fn descale<const SHIFT: i32>(v: [__m256i; 2]) -> __m256i {
    _mm256_packs_epi32(_mm256_srai_epi32::<SHIFT>(v[0]), _mm256_srai_epi32::<SHIFT>(v[1]))
}

/// One 8-point pass down the columns; the scalar kernel's `eight`, 16 columns at once.
#[target_feature(enable = "avx2")]
fn pass<const SHIFT: i32>(v: Rows) -> Rows {
    let sum = widen::<SHIFT>(_mm256_add_epi16(v[0], v[4]));
    let difference = widen::<SHIFT>(_mm256_sub_epi16(v[0], v[4]));
    let v26 = interleave(v[2], v[6]);
    let tmp3 = madd(v26, factors(4433 + 6270, 4433));
    let tmp2 = madd(v26, factors(4433, 4433 - 15137));
    let (t10, t13) = (add(sum, tmp3), sub(sum, tmp3));
    let (t11, t12) = (add(difference, tmp2), sub(difference, tmp2));

    let z34 = interleave(_mm256_add_epi16(v[7], v[3]), _mm256_add_epi16(v[5], v[1]));
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

#[target_feature(enable = "avx2")]
fn transpose(v: Rows) -> Rows {
    // Pairs of rows, then of pairs, then of fours; the digits in the comments are row and column.
    let a0 = _mm256_unpacklo_epi16(v[0], v[1]); // 00 10 01 11 02 12 03 13
    let a1 = _mm256_unpackhi_epi16(v[0], v[1]); // 04 14 05 15 06 16 07 17
    let a2 = _mm256_unpacklo_epi16(v[2], v[3]);
    let a3 = _mm256_unpackhi_epi16(v[2], v[3]);
    let a4 = _mm256_unpacklo_epi16(v[4], v[5]);
    let a5 = _mm256_unpackhi_epi16(v[4], v[5]);
    let a6 = _mm256_unpacklo_epi16(v[6], v[7]);
    let a7 = _mm256_unpackhi_epi16(v[6], v[7]);
    let b0 = _mm256_unpacklo_epi32(a0, a2); // 00 10 20 30 01 11 21 31
    let b1 = _mm256_unpackhi_epi32(a0, a2); // 02 12 22 32 03 13 23 33
    let b2 = _mm256_unpacklo_epi32(a1, a3);
    let b3 = _mm256_unpackhi_epi32(a1, a3);
    let b4 = _mm256_unpacklo_epi32(a4, a6);
    let b5 = _mm256_unpackhi_epi32(a4, a6);
    let b6 = _mm256_unpacklo_epi32(a5, a7);
    let b7 = _mm256_unpackhi_epi32(a5, a7);
    [
        _mm256_unpacklo_epi64(b0, b4),
        _mm256_unpackhi_epi64(b0, b4),
        _mm256_unpacklo_epi64(b1, b5),
        _mm256_unpackhi_epi64(b1, b5),
        _mm256_unpacklo_epi64(b2, b6),
        _mm256_unpackhi_epi64(b2, b6),
        _mm256_unpacklo_epi64(b3, b7),
        _mm256_unpackhi_epi64(b3, b7),
    ]
}

/// Columns of 16-bit values to rows of samples: narrowed first, so that the transposition moves bytes.
#[target_feature(enable = "avx2")]
fn to_samples(c: Rows) -> [__m256i; 4] {
    let p04 = _mm256_packs_epi16(c[0], c[4]);
    let p26 = _mm256_packs_epi16(c[2], c[6]);
    let p15 = _mm256_packs_epi16(c[1], c[5]);
    let p37 = _mm256_packs_epi16(c[3], c[7]);
    let t02 = _mm256_unpacklo_epi8(p04, p26); // columns 0 and 2, rows 0 to 7
    let t46 = _mm256_unpackhi_epi8(p04, p26);
    let t13 = _mm256_unpacklo_epi8(p15, p37);
    let t57 = _mm256_unpackhi_epi8(p15, p37);
    let left_upper = _mm256_unpacklo_epi8(t02, t13); // columns 0 to 3 of rows 0 to 3
    let left_lower = _mm256_unpackhi_epi8(t02, t13);
    let right_upper = _mm256_unpacklo_epi8(t46, t57);
    let right_lower = _mm256_unpackhi_epi8(t46, t57);
    let center = _mm256_set1_epi8(-128);
    [
        _mm256_xor_si256(_mm256_unpacklo_epi32(left_upper, right_upper), center),
        _mm256_xor_si256(_mm256_unpackhi_epi32(left_upper, right_upper), center),
        _mm256_xor_si256(_mm256_unpacklo_epi32(left_lower, right_lower), center),
        _mm256_xor_si256(_mm256_unpackhi_epi32(left_lower, right_lower), center),
    ]
}

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
