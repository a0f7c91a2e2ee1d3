//! 512-bit kernels for x86-64 with AVX-512 VBMI: a table of 256 bytes fits in four registers, and two instructions look
//! up 64 bytes. That is 8 times as fast as 16 shuffles. Hue is twice as fast as with 256 bits.

use std::arch::x86_64::*;

use super::{Table, avx2};

/// A table in registers.
#[derive(Clone, Copy)]
struct Registers {
    lower: [__m512i; 2],
    upper: [__m512i; 2],
}

impl Registers {
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(table: &[u8; 256]) -> Self {
        // SAFETY: 64 bytes are readable from each quarter's start.
        let quarter = |at: usize| unsafe { _mm512_loadu_si512(table.as_ptr().add(64 * at).cast()) };
        Registers { lower: [quarter(0), quarter(1)], upper: [quarter(2), quarter(3)] }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    fn look_up(&self, index: __m512i) -> __m512i {
        let lower = _mm512_permutex2var_epi8(self.lower[0], index, self.lower[1]);
        let upper = _mm512_permutex2var_epi8(self.upper[0], index, self.upper[1]);
        _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(index), upper)
    }
}

/// # Safety
///
/// Needs AVX-512 F, BW and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn table(pixels: &mut [u8], table: &[u8; 256]) {
    let registers = Registers::new(table);
    each_block(pixels, |index| registers.look_up(index));
}

/// # Safety
///
/// Needs AVX-512 F, BW and VBMI.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn tables(pixels: &mut [u8], [red, green, blue]: &[Table; 3]) {
    let [red, green, blue] = [red, green, blue].map(|table| Registers::new(&table.0));
    let channel = |at: u32| 0x1111_1111_1111_1111u64 << at;
    each_block(pixels, |index| {
        let found = _mm512_mask_mov_epi8(index, channel(0), red.look_up(index));
        let found = _mm512_mask_mov_epi8(found, channel(1), green.look_up(index));
        _mm512_mask_mov_epi8(found, channel(2), blue.look_up(index))
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn each_block(pixels: &mut [u8], function: impl Fn(__m512i) -> __m512i) {
    for block in pixels.chunks_mut(64) {
        let mask = u64::MAX >> (64 - block.len());
        // SAFETY: the mask has a bit for each byte of the block, and no more are touched.
        unsafe {
            let found = function(_mm512_maskz_loadu_epi8(mask, block.as_ptr().cast()));
            _mm512_mask_storeu_epi8(block.as_mut_ptr().cast(), mask, found);
        }
    }
}

/// Like the AVX2 kernel, sixteen pixels at a time.
///
/// # Safety
///
/// Needs AVX-512 F and BW, and the instructions of the AVX2 kernel.
#[target_feature(enable = "avx512f,avx512bw,avx2,fma")]
pub(super) unsafe fn hue(pixels: &mut [u8], shift: u8) {
    let mut blocks = pixels.chunks_exact_mut(64);
    for block in &mut blocks {
        // SAFETY: the block has 64 bytes.
        let before = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
        let (angle, saturation, value) = to_hsv(before);
        let turned = _mm512_add_epi32(angle, _mm512_set1_epi32(i32::from(shift)));
        let turned = _mm512_and_si512(turned, _mm512_set1_epi32(255));
        let after = to_rgb(turned, saturation, value);
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(block.as_mut_ptr().cast(), after) };
    }
    // SAFETY: the caller guarantees the instructions of the AVX2 kernel.
    unsafe { avx2::hue(blocks.into_remainder(), shift) };
}

/// Angle, saturation and value, a byte each in 32 bits.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn to_hsv(pixels: __m512i) -> (__m512i, __m512i, __m512i) {
    let (zero, byte) = (_mm512_setzero_si512(), _mm512_set1_epi32(255));
    let red = _mm512_and_si512(pixels, byte);
    let green = _mm512_and_si512(_mm512_srli_epi32::<8>(pixels), byte);
    let blue = _mm512_and_si512(_mm512_srli_epi32::<16>(pixels), byte);
    let most = _mm512_max_epi32(_mm512_max_epi32(red, green), blue);
    let least = _mm512_min_epi32(_mm512_min_epi32(red, green), blue);
    let range = _mm512_sub_epi32(most, least);
    let coloured = _mm512_cmpgt_epi32_mask(range, zero);
    let (is_red, is_green) = (_mm512_cmpeq_epi32_mask(red, most), _mm512_cmpeq_epi32_mask(green, most));
    let pick = |for_red, for_green, for_blue| {
        _mm512_mask_mov_epi32(_mm512_mask_mov_epi32(for_blue, is_green, for_green), is_red, for_red)
    };
    let (first, second) = (pick(blue, red, green), pick(green, blue, red));
    let apart = _mm512_sub_epi32(second, first);
    let twice = pick(zero, _mm512_set1_epi32(2), _mm512_set1_epi32(4));
    let range_float = _mm512_cvtepi32_ps(range);
    let other = _mm512_cvtepi32_ps(_mm512_sub_epi32(range, _mm512_abs_epi32(apart)));
    let distance = _mm512_div_ps(other, range_float);
    let first_is_least = _mm512_cmpgt_epi32_mask(apart, zero);
    let one = _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), first_is_least, _mm512_set1_epi32(1));
    let base = _mm512_cvtepi32_ps(_mm512_add_epi32(twice, one));
    let sum = _mm512_add_ps(base, distance);
    let sixths = _mm512_mask_sub_ps(sum, first_is_least, base, distance);
    let turns = _mm512_div_ps(sixths, _mm512_set1_ps(6.0));
    let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(sixths, _mm512_setzero_ps());
    let turns = _mm512_mask_add_ps(turns, below, turns, _mm512_set1_ps(1.0));
    let scale = _mm512_set1_ps(255.0);
    let whole =
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(turns, scale));
    let too_high =
        _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_fmsub_ps(turns, scale, whole), _mm512_setzero_ps());
    let angle = _mm512_cvttps_epi32(whole);
    let angle = _mm512_mask_sub_epi32(angle, too_high, angle, _mm512_set1_epi32(1));
    let share = _mm512_div_ps(range_float, _mm512_cvtepi32_ps(most));
    let saturation = _mm512_cvttps_epi32(_mm512_mul_ps(share, scale));
    (_mm512_maskz_mov_epi32(coloured, angle), _mm512_maskz_mov_epi32(coloured, saturation), most)
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn to_rgb(angle: __m512i, saturation: __m512i, value: __m512i) -> __m512i {
    let scale = _mm512_set1_ps(255.0);
    let six = _mm512_mullo_epi16(angle, _mm512_set1_epi32(6));
    let sum = _mm512_add_epi32(_mm512_add_epi32(six, _mm512_set1_epi32(1)), _mm512_srli_epi32::<8>(six));
    let sector = _mm512_srli_epi32::<8>(sum);
    let rest = _mm512_sub_epi32(six, _mm512_mullo_epi16(sector, _mm512_set1_epi32(255)));
    let fraction = _mm512_div_ps(_mm512_cvtepi32_ps(rest), scale);
    let saturation = _mm512_div_ps(_mm512_cvtepi32_ps(saturation), scale);
    let share = _mm512_sub_ps(_mm512_set1_ps(1.0), saturation);
    let low = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(value), share), _mm512_set1_ps(0.5));
    let low = _mm512_cvttps_epi32(low);
    let odd = _mm512_test_epi32_mask(sector, _mm512_set1_epi32(1));
    let falling = _mm512_mul_ps(saturation, fraction);
    let lower = [lower_half(saturation), lower_half(fraction), lower_half(falling)];
    let upper = [upper_half(saturation), upper_half(fraction), upper_half(falling)];
    let lower = between(lower, _mm512_castsi512_si256(value), odd as u8);
    let upper = between(upper, _mm512_extracti64x4_epi64::<1>(value), (odd >> 8) as u8);
    let between = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lower), upper);
    let three = _mm512_or_si512(_mm512_slli_epi32::<8>(between), _mm512_slli_epi32::<16>(low));
    let three = _mm512_or_si512(value, three);
    let order = |bytes: [u8; 3]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0x80]);
    let orders = _mm256_setr_epi32(
        order([0, 1, 2]),
        order([1, 0, 2]),
        order([2, 0, 1]),
        order([2, 1, 0]),
        order([1, 2, 0]),
        order([0, 2, 1]),
        order([0, 1, 2]),
        0,
    );
    let places = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C));
    let shuffle = _mm512_permutexvar_epi32(sector, _mm512_castsi256_si512(orders));
    let shuffle = _mm512_add_epi8(shuffle, places);
    _mm512_or_si512(_mm512_shuffle_epi8(three, shuffle), _mm512_set1_epi32(0xFF << 24))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn lower_half(values: __m512) -> __m256 {
    _mm512_castps512_ps256(values)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn upper_half(values: __m512) -> __m256 {
    _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(values)))
}

/// The channel between the highest and the lowest: rising in even sectors, falling in odd ones. In double precision.
#[target_feature(enable = "avx512f")]
#[inline]
fn between([saturation, fraction, falling]: [__m256; 3], value: __m256i, odd: u8) -> __m256i {
    let one = _mm512_set1_pd(1.0);
    let rising = _mm512_mul_pd(_mm512_cvtps_pd(saturation), _mm512_sub_pd(one, _mm512_cvtps_pd(fraction)));
    let share = _mm512_mask_mov_pd(rising, odd, _mm512_cvtps_pd(falling));
    let scaled = _mm512_mul_pd(_mm512_cvtepi32_pd(value), _mm512_sub_pd(one, share));
    _mm512_cvttpd_epi32(_mm512_add_pd(scaled, _mm512_set1_pd(0.5)))
}
