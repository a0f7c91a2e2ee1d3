//! The same for x86-64 with AVX2: gathers the four pixels around each of eight places and blends them channel by
//! channel.

use std::arch::x86_64::*;

use super::scalar::{self, Fixed};
use crate::ImageRef;

/// # Safety
///
/// Needs AVX2; `from` has four bytes per pixel.
#[target_feature(enable = "avx2")]
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
    // SAFETY: the caller guarantees AVX2, and the image is reachable.
    unsafe { bilinear(from, fill, row, |x| [across.at(x), down.at(x)]) };
}

/// `a·x + b·y + c` along a row.
#[derive(Clone, Copy)]
struct RowTerm {
    a: __m256d,
    by: __m256d,
    c: __m256d,
}

impl RowTerm {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(a: f64, b: f64, c: f64, y: f64) -> Self {
        RowTerm { a: _mm256_set1_pd(a), by: _mm256_set1_pd(b * y), c: _mm256_set1_pd(c) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn at(&self, x: __m256d) -> __m256d {
        _mm256_add_pd(_mm256_add_pd(_mm256_mul_pd(self.a, x), self.by), self.c)
    }
}

/// # Safety
///
/// Needs AVX2; `from` has four bytes per pixel.
#[target_feature(enable = "avx2")]
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
        [_mm256_div_pd(across.at(x), divisor), _mm256_div_pd(down.at(x), divisor)]
    };
    // SAFETY: the caller guarantees AVX2, and the image is reachable.
    unsafe { bilinear(from, fill, row, places) };
}

/// A row of pixels whose source places come from `places`.
///
/// # Safety
///
/// Needs AVX2, and an image that [`is_reachable`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn bilinear(
    from: ImageRef<'_>,
    fill: [u8; 4],
    row: &mut [u8],
    places: impl Fn(__m256d) -> [__m256d; 2],
) {
    let filled = _mm256_set1_epi32(i32::from_le_bytes(fill));
    let mut x = [_mm256_setr_pd(0.5, 1.5, 2.5, 3.5), _mm256_setr_pd(4.5, 5.5, 6.5, 7.5)];
    for pixels in row.chunks_mut(32) {
        let ([low_across, low_down], [high_across, high_down]) = (places(x[0]), places(x[1]));
        for x in &mut x {
            *x = _mm256_add_pd(*x, _mm256_set1_pd(8.0));
        }
        let size = from.size;
        let low = _mm256_and_pd(within(low_across, size.width), within(low_down, size.height));
        let high = _mm256_and_pd(within(high_across, size.width), within(high_down, size.height));
        let mut made = filled;
        if _mm256_movemask_pd(_mm256_or_pd(low, high)) != 0 {
            let columns = Neighbours::new([low_across, high_across], [low, high], size.width);
            let rows = Neighbours::new([low_down, high_down], [low, high], size.height);
            // SAFETY: the caller guarantees that the image is reachable; places outside are replaced by 0.
            let blended = unsafe { eight(from, &columns, &rows) };
            made = _mm256_blendv_epi8(filled, blended, _mm256_set_m128i(narrow(high), narrow(low)));
        }
        if pixels.len() == 32 {
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(pixels.as_mut_ptr().cast(), made) };
            continue;
        }
        let mut bytes = [0; 32];
        // SAFETY: 32 bytes.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), made) };
        let length = pixels.len();
        pixels.copy_from_slice(&bytes[..length]);
    }
}

/// Which places are in [0, `length`); a NaN is not.
#[target_feature(enable = "avx2")]
#[inline]
fn within(places: __m256d, length: u32) -> __m256d {
    let above = _mm256_cmp_pd::<_CMP_GE_OQ>(places, _mm256_setzero_pd());
    let below = _mm256_cmp_pd::<_CMP_LT_OQ>(places, _mm256_set1_pd(f64::from(length)));
    _mm256_and_pd(above, below)
}

/// Converts masks of 64 bits to masks of 32.
#[target_feature(enable = "avx2")]
#[inline]
fn narrow(mask: __m256d) -> __m128i {
    let even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_castpd_si256(mask), even))
}

/// Two neighbours along one axis, and the position between them, for eight places.
struct Neighbours {
    first: __m256i,
    second: __m256i,
    share: [__m256d; 2],
}

impl Neighbours {
    /// Places outside (`inside` is not set) are replaced by 0.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(places: [__m256d; 2], inside: [__m256d; 2], length: u32) -> Self {
        let (low, low_share) = floor(_mm256_and_pd(places[0], inside[0]));
        let (high, high_share) = floor(_mm256_and_pd(places[1], inside[1]));
        let floor = _mm256_set_m128i(high, low);
        let last = _mm256_set1_epi32(length as i32 - 1);
        Neighbours {
            first: _mm256_max_epi32(floor, _mm256_setzero_si256()),
            second: _mm256_min_epi32(_mm256_add_epi32(floor, _mm256_set1_epi32(1)), last),
            share: [low_share, high_share],
        }
    }
}

/// The pixel whose centre is before a place, and the distance to it.
#[target_feature(enable = "avx2")]
#[inline]
fn floor(places: __m256d) -> (__m128i, __m256d) {
    let places = _mm256_sub_pd(places, _mm256_set1_pd(0.5));
    let floor = _mm256_floor_pd(places);
    (_mm256_cvttpd_epi32(floor), _mm256_sub_pd(places, floor))
}

/// Eight blended pixels.
///
/// # Safety
///
/// Needs AVX2, an image that [`is_reachable`], and places inside it.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn eight(from: ImageRef<'_>, columns: &Neighbours, rows: &Neighbours) -> __m256i {
    let stride = _mm256_set1_epi32(from.stride as i32);
    let (left, right) = (_mm256_slli_epi32::<2>(columns.first), _mm256_slli_epi32::<2>(columns.second));
    let (upper, lower) = (_mm256_mullo_epi32(rows.first, stride), _mm256_mullo_epi32(rows.second, stride));
    let pixels = from.bytes.as_ptr().cast();
    // SAFETY: the caller guarantees places inside the image.
    let [a, b, c, d] = unsafe {
        [
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(upper, left)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(upper, right)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(lower, left)),
            _mm256_i32gather_epi32::<1>(pixels, _mm256_add_epi32(lower, right)),
        ]
    };
    let red = channel::<0>([a, b, c, d], columns, rows);
    let green = channel::<8>([a, b, c, d], columns, rows);
    let blue = channel::<16>([a, b, c, d], columns, rows);
    let upper = _mm256_or_si256(_mm256_slli_epi32::<16>(blue), _mm256_set1_epi32(0xFF << 24));
    _mm256_or_si256(_mm256_or_si256(red, _mm256_slli_epi32::<8>(green)), upper)
}

/// The channel at bit `SHIFT`, blended horizontally, then vertically.
#[target_feature(enable = "avx2")]
#[inline]
fn channel<const SHIFT: i32>(four: [__m256i; 4], columns: &Neighbours, rows: &Neighbours) -> __m256i {
    let byte = _mm256_set1_epi32(255);
    let value = |pixels: __m256i| _mm256_and_si256(_mm256_srli_epi32::<SHIFT>(pixels), byte);
    let [a, b, c, d] = [value(four[0]), value(four[1]), value(four[2]), value(four[3])];
    let low = |values: __m256i| _mm256_cvtepi32_pd(_mm256_castsi256_si128(values));
    let high = |values: __m256i| _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(values));
    let lower_half = blended([low(a), low(b), low(c), low(d)], columns.share[0], rows.share[0]);
    let upper_half = blended([high(a), high(b), high(c), high(d)], columns.share[1], rows.share[1]);
    _mm256_set_m128i(upper_half, lower_half)
}

#[target_feature(enable = "avx2")]
#[inline]
fn blended([a, b, c, d]: [__m256d; 4], across: __m256d, down: __m256d) -> __m128i {
    let upper = lerp(a, b, across);
    let lower = lerp(c, d, across);
    _mm256_cvttpd_epi32(lerp(upper, lower, down))
}

#[target_feature(enable = "avx2")]
#[inline]
fn lerp(a: __m256d, b: __m256d, share: __m256d) -> __m256d {
    _mm256_add_pd(a, _mm256_mul_pd(_mm256_sub_pd(b, a), share))
}

/// Whether offsets into an image of four bytes per pixel fit in signed 32 bits, and all its bytes exist.
pub(super) fn is_reachable(from: ImageRef<'_>) -> bool {
    let reach = (from.size.height as usize).saturating_sub(1) * from.stride + from.size.width as usize * 4;
    i32::try_from(reach).is_ok() && reach <= from.bytes.len()
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn nearest_fixed(
    fixed: &Fixed,
    from: ImageRef<'_>,
    start: (i32, i32),
    fill: [u8; 4],
    row: &mut [u8],
) {
    if !is_reachable(from) {
        return scalar::nearest_fixed(fixed, from, start, fill, row);
    }
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let along = |start: i32, step: i32| {
        _mm256_add_epi32(_mm256_set1_epi32(start), _mm256_mullo_epi32(_mm256_set1_epi32(step), lanes))
    };
    let (mut x, mut y) = (along(start.0, fixed.step.0), along(start.1, fixed.step.1));
    let eight = |step: i32| _mm256_set1_epi32(step.wrapping_mul(8));
    let filled = _mm256_set1_epi32(i32::from_le_bytes(fill));
    let last = |length: u32| _mm256_set1_epi32(length as i32 - 1);
    let within = |at: __m256i, length: u32| _mm256_cmpeq_epi32(_mm256_min_epu32(at, last(length)), at);
    let mut blocks = row.chunks_exact_mut(32);
    let mut done = 0;
    for block in &mut blocks {
        let (column, line) = (_mm256_srai_epi32::<16>(x), _mm256_srai_epi32::<16>(y));
        let inside = _mm256_and_si256(within(column, from.size.width), within(line, from.size.height));
        let offset = _mm256_add_epi32(
            _mm256_mullo_epi32(line, _mm256_set1_epi32(from.stride as i32)),
            _mm256_slli_epi32::<2>(column),
        );
        // SAFETY: lanes whose pixel is not inside the image are not read; the others are reachable.
        unsafe {
            let made = _mm256_mask_i32gather_epi32::<1>(filled, from.bytes.as_ptr().cast(), offset, inside);
            _mm256_storeu_si256(block.as_mut_ptr().cast(), made);
        }
        x = _mm256_add_epi32(x, eight(fixed.step.0));
        y = _mm256_add_epi32(y, eight(fixed.step.1));
        done += 8;
    }
    let after = |start: i32, step: i32| start.wrapping_add(step.wrapping_mul(done));
    let start = (after(start.0, fixed.step.0), after(start.1, fixed.step.1));
    scalar::nearest_fixed(fixed, from, start, fill, blocks.into_remainder());
}
