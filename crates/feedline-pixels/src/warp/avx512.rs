//! The same for x86-64 with AVX-512: eight places in one vector of doubles.

use std::arch::x86_64::*;

use super::avx2::is_reachable;
use super::scalar;
use crate::ImageRef;

/// # Safety
///
/// Needs AVX-512 F and VL, and AVX2; `from` has four bytes per pixel.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
pub(super) unsafe fn bilinear_affine(
    from: ImageRef<'_>,
    map: &[f64; 6],
    y: u32,
    fill: [u8; 4],
    row: &mut [u8],
) {
    if !is_reachable(from) {
        return scalar::bilinear_affine(from, map, y, fill, row);
    }
    let y = f64::from(y) + 0.5;
    let (across, down) = (RowTerm::new(map[0], map[1], map[2], y), RowTerm::new(map[3], map[4], map[5], y));
    // SAFETY: the caller guarantees the instructions, and the image is reachable.
    unsafe { bilinear(from, fill, row, |x| [across.at(x), down.at(x)]) };
}

/// # Safety
///
/// Needs AVX-512 F and VL, and AVX2; `from` has four bytes per pixel.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
pub(super) unsafe fn bilinear_perspective(
    from: ImageRef<'_>,
    map: &[f64; 8],
    y: u32,
    fill: [u8; 4],
    row: &mut [u8],
) {
    if !is_reachable(from) {
        return scalar::bilinear_perspective(from, map, y, fill, row);
    }
    let y = f64::from(y) + 0.5;
    let divisor = RowTerm::new(map[6], map[7], 1.0, y);
    let (across, down) = (RowTerm::new(map[0], map[1], map[2], y), RowTerm::new(map[3], map[4], map[5], y));
    let places = |x| {
        let divisor = divisor.at(x);
        [_mm512_div_pd(across.at(x), divisor), _mm512_div_pd(down.at(x), divisor)]
    };
    // SAFETY: the caller guarantees the instructions, and the image is reachable.
    unsafe { bilinear(from, fill, row, places) };
}

/// `a·x + b·y + c` along a row.
#[derive(Clone, Copy)]
struct RowTerm {
    a: __m512d,
    by: __m512d,
    c: __m512d,
}

impl RowTerm {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(a: f64, b: f64, c: f64, y: f64) -> Self {
        RowTerm { a: _mm512_set1_pd(a), by: _mm512_set1_pd(b * y), c: _mm512_set1_pd(c) }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn at(&self, x: __m512d) -> __m512d {
        _mm512_add_pd(_mm512_add_pd(_mm512_mul_pd(self.a, x), self.by), self.c)
    }
}

/// A row of pixels whose source places come from `places`.
///
/// # Safety
///
/// Needs AVX-512 F and VL, AVX2, and an image that [`is_reachable`].
#[target_feature(enable = "avx512f,avx512vl,avx2")]
#[inline]
unsafe fn bilinear(
    from: ImageRef<'_>,
    fill: [u8; 4],
    row: &mut [u8],
    places: impl Fn(__m512d) -> [__m512d; 2],
) {
    let filled = _mm256_set1_epi32(i32::from_le_bytes(fill));
    let mut x = _mm512_setr_pd(0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
    for pixels in row.chunks_mut(32) {
        let [across, down] = places(x);
        x = _mm512_add_pd(x, _mm512_set1_pd(8.0));
        let inside = within(across, from.size.width) & within(down, from.size.height);
        let mut made = filled;
        if inside != 0 {
            let columns = Neighbours::new(across, inside, from.size.width);
            let rows = Neighbours::new(down, inside, from.size.height);
            // SAFETY: the caller guarantees that the image is reachable; places outside are replaced by 0.
            let blended = unsafe { eight(from, &columns, &rows) };
            made = _mm256_mask_mov_epi32(filled, inside, blended);
        }
        let there = u8::MAX >> (8 - pixels.len() / 4);
        // SAFETY: the mask has a bit for each existing pixel.
        unsafe { _mm256_mask_storeu_epi32(pixels.as_mut_ptr().cast(), there, made) };
    }
}

/// Which places are in [0, `length`); a NaN is not.
#[target_feature(enable = "avx512f")]
#[inline]
fn within(places: __m512d, length: u32) -> u8 {
    let above = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(places, _mm512_setzero_pd());
    _mm512_mask_cmp_pd_mask::<_CMP_LT_OQ>(above, places, _mm512_set1_pd(f64::from(length)))
}

/// Two neighbours along one axis, and the position between them, for eight places.
struct Neighbours {
    first: __m256i,
    second: __m256i,
    share: __m512d,
}

impl Neighbours {
    /// Places outside (`inside` is not set) are replaced by 0.
    #[target_feature(enable = "avx512f,avx512vl,avx2")]
    #[inline]
    fn new(places: __m512d, inside: u8, length: u32) -> Self {
        let places = _mm512_sub_pd(_mm512_maskz_mov_pd(inside, places), _mm512_set1_pd(0.5));
        let floor = _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(places);
        let whole = _mm512_cvttpd_epi32(floor);
        let last = _mm256_set1_epi32(length as i32 - 1);
        Neighbours {
            first: _mm256_max_epi32(whole, _mm256_setzero_si256()),
            second: _mm256_min_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(1)), last),
            share: _mm512_sub_pd(places, floor),
        }
    }
}

/// Eight blended pixels.
///
/// # Safety
///
/// Needs AVX-512 F, AVX2, an image that [`is_reachable`], and places inside it.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
#[inline]
unsafe fn eight(from: ImageRef<'_>, columns: &Neighbours, rows: &Neighbours) -> __m256i {
    let stride = _mm256_set1_epi32(from.stride as i32);
    let (left, right) = (_mm256_slli_epi32::<2>(columns.first), _mm256_slli_epi32::<2>(columns.second));
    let (upper, lower) = (_mm256_mullo_epi32(rows.first, stride), _mm256_mullo_epi32(rows.second, stride));
    let pixels = from.bytes.as_ptr().cast();
    // SAFETY: the caller guarantees places inside the image.
    let four = unsafe {
        [
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(upper, left)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(upper, right)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(lower, left)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(lower, right)),
        ]
    };
    let red = channel::<0>(four, columns.share, rows.share);
    let green = channel::<8>(four, columns.share, rows.share);
    let blue = channel::<16>(four, columns.share, rows.share);
    let upper = _mm256_or_si256(_mm256_slli_epi32::<16>(blue), _mm256_set1_epi32(0xFF << 24));
    _mm256_or_si256(_mm256_or_si256(red, _mm256_slli_epi32::<8>(green)), upper)
}

/// The channel at bit `SHIFT`, blended horizontally, then vertically.
#[target_feature(enable = "avx512f,avx2")]
#[inline]
fn channel<const SHIFT: i32>(four: [__m256i; 4], across: __m512d, down: __m512d) -> __m256i {
    let byte = _mm256_set1_epi32(255);
    let value =
        |pixels: __m256i| _mm512_cvtepi32_pd(_mm256_and_si256(_mm256_srli_epi32::<SHIFT>(pixels), byte));
    let upper = lerp(value(four[0]), value(four[1]), across);
    let lower = lerp(value(four[2]), value(four[3]), across);
    _mm512_cvttpd_epi32(lerp(upper, lower, down))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn lerp(a: __m512d, b: __m512d, share: __m512d) -> __m512d {
    _mm512_add_pd(a, _mm512_mul_pd(_mm512_sub_pd(b, a), share))
}
