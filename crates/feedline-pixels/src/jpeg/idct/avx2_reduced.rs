//! Reduced sizes. Half: 4 × 4 samples from a block, two blocks at a time. The scalar kernel's `four` in both
//! directions.

use std::arch::x86_64::*;

use super::avx2::{Rows, add, factors, interleave, load_pair, load_table, madd, sub};
use super::{Block, Quant, Run, scalar};

const SHIFT_1: i32 = 13 - 2 + 1;
const SHIFT_2: i32 = 13 + 2 + 3 + 1;

/// Transforms `run` into 4 rows of samples.
///
/// # Safety
/// The CPU must have AVX2, and `out` must have 4 rows of `run.count * 4` bytes, `stride` apart.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn half(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    let to = out.as_mut_ptr();
    let table = load_table(quant);
    let mut blocks = run.iter();
    let mut column = 0;
    while let Some(a) = blocks.next() {
        let b = blocks.next();
        let samples = pair(a, b.unwrap_or(a), &table);
        let (a, b_rows) = (_mm256_castsi256_si128(samples), _mm256_extracti128_si256::<1>(samples));
        // Rows of both blocks side by side: eight bytes each.
        let upper = _mm_unpacklo_epi32(a, b_rows);
        let lower = _mm_unpackhi_epi32(a, b_rows);
        let rows = [upper, _mm_unpackhi_epi64(upper, upper), lower, _mm_unpackhi_epi64(lower, lower)];
        for (y, row) in rows.into_iter().enumerate() {
            // SAFETY: the first block, and the second if there is one, are among the `count`, so their 4 or 8 columns
            // are inside each of the 4 rows.
            unsafe {
                let at = to.add(y * stride + column);
                if b.is_some() {
                    _mm_storel_epi64(at.cast(), row);
                } else {
                    at.cast::<[u8; 4]>().write(_mm_cvtsi128_si32(row).to_le_bytes());
                }
            }
        }
        column += 8;
    }
}

/// Quarter size: the scalar kernel, vectorised by the compiler with AVX2.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn quarter(run: &Run<'_>, quant: &Quant, out: &mut [u8], stride: usize) {
    scalar::quarter(run, quant, out, stride);
}

/// Samples of two blocks, one in each half of the register, row after row.
#[target_feature(enable = "avx2")]
fn pair(a: &Block, b: &Block, table: &Rows) -> __m256i {
    let raw = load_pair(a, b);
    // The fifth row does not contribute to the result.
    let below = _mm256_or_si256(
        _mm256_or_si256(_mm256_or_si256(raw[1], raw[2]), _mm256_or_si256(raw[3], raw[5])),
        _mm256_or_si256(raw[6], raw[7]),
    );
    let zero = _mm256_movemask_epi8(_mm256_cmpeq_epi16(below, _mm256_setzero_si256())) as u32;
    let first = _mm256_mullo_epi16(raw[0], table[0]);
    let flat = _mm256_slli_epi16::<2>(first);
    if zero == u32::MAX {
        return across([flat; 4]);
    }
    let row = |y: usize| _mm256_mullo_epi16(raw[y], table[y]);
    let mut rows = down([first, row(1), row(2), row(3), row(5), row(6), row(7)]);
    let low = if zero & 0xFFFF == 0xFFFF { -1 } else { 0 };
    let high = if zero >> 16 == 0xFFFF { -1 } else { 0 };
    if low | high != 0 {
        let mask = _mm256_set_epi64x(high, high, low, low);
        for row in &mut rows {
            *row = _mm256_blendv_epi8(*row, flat, mask);
        }
    }
    across(rows)
}

#[target_feature(enable = "avx2")]
fn descale(v: [__m256i; 2]) -> __m256i {
    _mm256_packs_epi32(_mm256_srai_epi32::<SHIFT_1>(v[0]), _mm256_srai_epi32::<SHIFT_1>(v[1]))
}

/// The pass down the columns, from rows 0, 1, 2, 3, 5, 6 and 7 to four.
#[target_feature(enable = "avx2")]
fn down(v: [__m256i; 7]) -> [__m256i; 4] {
    let [v0, v1, v2, v3, v5, v6, v7] = v;
    let half = _mm256_set1_epi32(1 << (SHIFT_1 - 1));
    let wide = interleave(_mm256_setzero_si256(), v0);
    let even = add([_mm256_srai_epi32::<2>(wide[0]), _mm256_srai_epi32::<2>(wide[1])], [half, half]);
    let tmp2 = madd(interleave(v2, v6), factors(15137, -6270));
    let (t10, t12) = (add(even, tmp2), sub(even, tmp2));
    let (v13, v57) = (interleave(v1, v3), interleave(v5, v7));
    let o0 = add(madd(v13, factors(8697, -17799)), madd(v57, factors(11893, -1730)));
    let o2 = add(madd(v13, factors(20995, 7373)), madd(v57, factors(-4926, -4176)));
    [descale(add(t10, o2)), descale(add(t12, o0)), descale(sub(t12, o0)), descale(sub(t10, o2))]
}

/// The pass along the rows, and narrowing to samples.
#[target_feature(enable = "avx2")]
fn across(r: [__m256i; 4]) -> __m256i {
    let a = interleave(r[0], r[1]);
    let b = interleave(r[2], r[3]);
    let c01 = _mm256_unpacklo_epi32(a[0], b[0]); // column 0 of four rows, then column 1
    let c23 = _mm256_unpackhi_epi32(a[0], b[0]);
    let c45 = _mm256_unpacklo_epi32(a[1], b[1]);
    let c67 = _mm256_unpackhi_epi32(a[1], b[1]);
    let half = _mm256_set1_epi32(1 << (SHIFT_2 - 1));
    let wide = _mm256_unpacklo_epi16(_mm256_setzero_si256(), c01);
    let even = _mm256_add_epi32(_mm256_srai_epi32::<2>(wide), half);
    let one = |pairs: __m256i, x: i32, y: i32| _mm256_madd_epi16(pairs, factors(x, y));
    let tmp2 = one(_mm256_unpacklo_epi16(c23, c67), 15137, -6270);
    let (t10, t12) = (_mm256_add_epi32(even, tmp2), _mm256_sub_epi32(even, tmp2));
    let c13 = _mm256_unpackhi_epi16(c01, c23);
    let c57 = _mm256_unpackhi_epi16(c45, c67);
    let o0 = _mm256_add_epi32(one(c13, 8697, -17799), one(c57, 11893, -1730));
    let o2 = _mm256_add_epi32(one(c13, 20995, 7373), one(c57, -4926, -4176));
    let shift = |v: __m256i| _mm256_srai_epi32::<SHIFT_2>(v);
    let d0 = shift(_mm256_add_epi32(t10, o2));
    let d1 = shift(_mm256_add_epi32(t12, o0));
    let d2 = shift(_mm256_sub_epi32(t12, o0));
    let d3 = shift(_mm256_sub_epi32(t10, o2));
    let d02 = _mm256_packs_epi32(d0, d2);
    let d13 = _mm256_packs_epi32(d1, d3);
    let d01 = _mm256_unpacklo_epi16(d02, d13);
    let d23 = _mm256_unpackhi_epi16(d02, d13);
    let samples = _mm256_packs_epi16(_mm256_unpacklo_epi32(d01, d23), _mm256_unpackhi_epi32(d01, d23));
    _mm256_xor_si256(samples, _mm256_set1_epi8(-128))
}
