//! 256-bit kernels for x86-64 with AVX2.

use std::arch::x86_64::*;

use super::{Table, scalar};

/// A table of 256 bytes as sixteen of 16. Each is looked up by a byte shuffle that gives 0 for bytes of other tables.
///
/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn table(pixels: &mut [u8], table: &[u8; 256]) {
    let sixteenths: [__m256i; 16] = std::array::from_fn(|i| {
        // SAFETY: 16 bytes are readable from every multiple of 16 below 256.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(16 * i).cast())) }
    });
    let (sixteen, past) = (_mm256_set1_epi8(16), _mm256_set1_epi8(0x70));
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        unsafe {
            let mut index = _mm256_loadu_si256(block.as_ptr().cast());
            let mut found = _mm256_setzero_si256();
            for entries in &sixteenths {
                // 0..=15 become 0x70..=0x7F; anything else gets its high bit set, for which the shuffle gives 0.
                let inside = _mm256_adds_epu8(index, past);
                found = _mm256_or_si256(found, _mm256_shuffle_epi8(*entries, inside));
                index = _mm256_sub_epi8(index, sixteen);
            }
            _mm256_storeu_si256(block.as_mut_ptr().cast(), found);
        }
    }
    scalar::table(blocks.into_remainder(), table);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn saturation(pixels: &mut [u8], factor: f32) {
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        unsafe {
            let made = saturated(_mm256_loadu_si256(block.as_ptr().cast()), factor);
            _mm256_storeu_si256(block.as_mut_ptr().cast(), made);
        }
    }
    scalar::saturation(blocks.into_remainder(), factor);
}

/// Eight pixels of four bytes, blended with their grey.
#[target_feature(enable = "avx2")]
#[inline]
fn saturated(pixels: __m256i, factor: f32) -> __m256i {
    let channels = split(pixels);
    let grey = greys_of(channels);
    let from = _mm256_cvtepi32_ps(grey);
    join(channels.map(|channel| {
        let apart = _mm256_cvtepi32_ps(_mm256_sub_epi32(channel, grey));
        let blended = _mm256_add_ps(from, _mm256_mul_ps(_mm256_set1_ps(factor), apart));
        // A NaN becomes 0, as in the reference: `max` gives its second argument.
        let clamped = _mm256_min_ps(_mm256_max_ps(blended, _mm256_setzero_ps()), _mm256_set1_ps(255.0));
        _mm256_cvttps_epi32(clamped)
    }))
}

/// Red, green and blue of eight pixels, 32 bits each.
#[target_feature(enable = "avx2")]
#[inline]
fn split(pixels: __m256i) -> [__m256i; 3] {
    let byte = _mm256_set1_epi32(255);
    [
        _mm256_and_si256(pixels, byte),
        _mm256_and_si256(_mm256_srli_epi32::<8>(pixels), byte),
        _mm256_and_si256(_mm256_srli_epi32::<16>(pixels), byte),
    ]
}

/// The reverse of `split`.
#[target_feature(enable = "avx2")]
#[inline]
fn join([red, green, blue]: [__m256i; 3]) -> __m256i {
    let upper = _mm256_or_si256(_mm256_slli_epi32::<16>(blue), _mm256_set1_epi32(0xFF << 24));
    _mm256_or_si256(_mm256_or_si256(red, _mm256_slli_epi32::<8>(green)), upper)
}

#[target_feature(enable = "avx2")]
#[inline]
fn greys_of([red, green, blue]: [__m256i; 3]) -> __m256i {
    let weighed = |channel: __m256i, weight: i32| _mm256_mullo_epi32(channel, _mm256_set1_epi32(weight));
    let warm = _mm256_add_epi32(weighed(red, 19595), weighed(green, 38470));
    let cold = _mm256_add_epi32(weighed(blue, 7471), _mm256_set1_epi32(0x8000));
    _mm256_srli_epi32::<16>(_mm256_add_epi32(warm, cold))
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn greys(pixels: &mut [u8]) {
    let thrice = _mm256_setr_epi8(
        0, 0, 0, -1, 4, 4, 4, -1, 8, 8, 8, -1, 12, 12, 12, -1, 0, 0, 0, -1, 4, 4, 4, -1, 8, 8, 8, -1, 12, 12,
        12, -1,
    );
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        unsafe {
            let grey = greys_of(split(_mm256_loadu_si256(block.as_ptr().cast())));
            let made = _mm256_or_si256(_mm256_shuffle_epi8(grey, thrice), _mm256_set1_epi32(0xFF << 24));
            _mm256_storeu_si256(block.as_mut_ptr().cast(), made);
        }
    }
    scalar::greys(blocks.into_remainder());
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn bits_into(source: &[u8], keep: u8, flip: u8, out: &mut [u8]) {
    scalar::bits_into(source, keep, flip, out);
}

/// # Safety
///
/// Needs AVX2; `source` and `out` of the same length.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn greys_packed(source: &[u8], out: &mut [u8]) {
    let thrice =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 4, 4, 4, 8, 8, 8, 12, 12, 12, -1, -1, -1, -1));
    let mut at = 0;
    while at + EIGHT <= source.len() {
        // SAFETY: `EIGHT` bytes are readable and writable.
        unsafe {
            let grey = greys_of(split(spread(source.as_ptr().add(at))));
            store_twelves(_mm256_shuffle_epi8(grey, thrice), out.as_mut_ptr().add(at));
        }
        at += 24;
    }
    scalar::greys_packed(&source[at..], &mut out[at..]);
}

/// # Safety
///
/// Needs AVX2; `source` and `out` of the same length.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn saturation_packed(source: &[u8], factor: f32, out: &mut [u8]) {
    let squeeze =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    let mut at = 0;
    while at + EIGHT <= source.len() {
        // SAFETY: `EIGHT` bytes are readable and writable.
        unsafe {
            let made = saturated(spread(source.as_ptr().add(at)), factor);
            store_twelves(_mm256_shuffle_epi8(made, squeeze), out.as_mut_ptr().add(at));
        }
        at += 24;
    }
    scalar::saturation_packed(&source[at..], factor, &mut out[at..]);
}

/// Bytes read and written for eight pixels of three bytes: the last four belong to the next step.
const EIGHT: usize = 28;

/// Eight pixels of three bytes as eight of four.
///
/// # Safety
///
/// Needs AVX2 and `EIGHT` readable bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn spread(from: *const u8) -> __m256i {
    let order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    // SAFETY: 16 bytes from 0 and from 12.
    let halves =
        unsafe { _mm256_set_m128i(_mm_loadu_si128(from.add(12).cast()), _mm_loadu_si128(from.cast())) };
    _mm256_shuffle_epi8(halves, order)
}

/// Stores the first twelve bytes of each half side by side.
///
/// # Safety
///
/// Needs AVX2 and `EIGHT` writable bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_twelves(halves: __m256i, to: *mut u8) {
    // SAFETY: 16 bytes from 0 and from 12.
    unsafe {
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(halves));
        _mm_storeu_si128(to.add(12).cast(), _mm256_extracti128_si256::<1>(halves));
    }
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn permute(pixels: &mut [u8], order: [u8; 3]) {
    let [red, green, blue] = order.map(|channel| channel.min(3));
    let one = i32::from_le_bytes([red, green, blue, 0x80]);
    let places =
        _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404, 0x08080808, 0x0C0C0C0C);
    let shuffle = _mm256_add_epi8(_mm256_set1_epi32(one), places);
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        unsafe {
            let made = _mm256_shuffle_epi8(_mm256_loadu_si256(block.as_ptr().cast()), shuffle);
            let made = _mm256_or_si256(made, _mm256_set1_epi32(0xFF << 24));
            _mm256_storeu_si256(block.as_mut_ptr().cast(), made);
        }
    }
    scalar::permute(blocks.into_remainder(), order);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn bits(bytes: &mut [u8], keep: u8, flip: u8) {
    scalar::bits(bytes, keep, flip);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn solarise(bytes: &mut [u8], from: u8) {
    scalar::solarise(bytes, from);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn tables(pixels: &mut [u8], tables: &[Table; 3]) {
    scalar::tables(pixels, tables);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn grey_sum(pixels: &[u8]) -> u64 {
    let mut sum = _mm256_setzero_si256();
    let mut blocks = pixels.chunks_exact(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        let greys = greys_of(split(unsafe { _mm256_loadu_si256(block.as_ptr().cast()) }));
        // Eight greys are summed into four numbers of 64 bits.
        sum = _mm256_add_epi64(sum, _mm256_sad_epu8(greys, _mm256_setzero_si256()));
    }
    let mut parts = [0u64; 4];
    // SAFETY: four numbers of 64 bits.
    unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), sum) };
    parts.iter().sum::<u64>() + scalar::grey_sum(blocks.remainder())
}

/// Eight pixels at a time. Single-precision division and addition round like Pillow's doubles, since one of the two
/// distances from the largest channel is exactly one; if a product is close to an integer, the remainder decides.
///
/// # Safety
///
/// Needs AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn hue(pixels: &mut [u8], shift: u8) {
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        let before = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        let (angle, saturation, value) = to_hsv(before);
        let turned = _mm256_and_si256(
            _mm256_add_epi32(angle, _mm256_set1_epi32(i32::from(shift))),
            _mm256_set1_epi32(255),
        );
        let after = to_rgb(turned, saturation, value);
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(block.as_mut_ptr().cast(), after) };
    }
    scalar::hue(blocks.into_remainder(), shift);
}

/// Angle, saturation and value, a byte each in 32 bits.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn to_hsv(pixels: __m256i) -> (__m256i, __m256i, __m256i) {
    let [red, green, blue] = split(pixels);
    let most = _mm256_max_epi32(_mm256_max_epi32(red, green), blue);
    let least = _mm256_min_epi32(_mm256_min_epi32(red, green), blue);
    let range = _mm256_sub_epi32(most, least);
    let coloured = _mm256_cmpgt_epi32(range, _mm256_setzero_si256());
    let (is_red, is_green) = (_mm256_cmpeq_epi32(red, most), _mm256_cmpeq_epi32(green, most));
    let pick = |for_red, for_green, for_blue| {
        _mm256_blendv_epi8(_mm256_blendv_epi8(for_blue, for_green, is_green), for_red, is_red)
    };
    // The angle is 2k + distance(first) - distance(second); the smaller channel of the two has distance one.
    let (first, second) = (pick(blue, red, green), pick(green, blue, red));
    let apart = _mm256_sub_epi32(second, first);
    let twice = pick(_mm256_setzero_si256(), _mm256_set1_epi32(2), _mm256_set1_epi32(4));
    let range_float = _mm256_cvtepi32_ps(range);
    let other = _mm256_cvtepi32_ps(_mm256_sub_epi32(range, _mm256_abs_epi32(apart)));
    let distance = _mm256_div_ps(other, range_float);
    let first_is_least = _mm256_cmpgt_epi32(apart, _mm256_setzero_si256());
    // 2k + 1 - distance where the first is the smaller, 2k - 1 + distance else.
    let one = _mm256_or_si256(_mm256_xor_si256(first_is_least, _mm256_set1_epi32(-1)), _mm256_set1_epi32(1));
    let base = _mm256_cvtepi32_ps(_mm256_add_epi32(twice, one));
    let sign = _mm256_and_si256(first_is_least, _mm256_set1_epi32(i32::MIN));
    let signed = _mm256_xor_ps(distance, _mm256_castsi256_ps(sign));
    let sixths = _mm256_add_ps(base, signed);
    let turns = _mm256_div_ps(sixths, _mm256_set1_ps(6.0));
    let below = _mm256_cmp_ps::<_CMP_LT_OQ>(sixths, _mm256_setzero_ps());
    let turns = _mm256_add_ps(turns, _mm256_and_ps(below, _mm256_set1_ps(1.0)));
    let scale = _mm256_set1_ps(255.0);
    let whole = _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(turns, scale));
    let too_high = _mm256_cmp_ps::<_CMP_LT_OQ>(_mm256_fmsub_ps(turns, scale, whole), _mm256_setzero_ps());
    let angle = _mm256_add_epi32(_mm256_cvttps_epi32(whole), _mm256_castps_si256(too_high));
    let share = _mm256_div_ps(range_float, _mm256_cvtepi32_ps(most));
    let saturation = _mm256_cvttps_epi32(_mm256_mul_ps(share, scale));
    (_mm256_and_si256(angle, coloured), _mm256_and_si256(saturation, coloured), most)
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn to_rgb(angle: __m256i, saturation: __m256i, value: __m256i) -> __m256i {
    let scale = _mm256_set1_ps(255.0);
    let six = _mm256_mullo_epi16(angle, _mm256_set1_epi32(6));
    // Divided by 255, exactly.
    let one = _mm256_set1_epi32(1);
    let sector =
        _mm256_srli_epi32::<8>(_mm256_add_epi32(_mm256_add_epi32(six, one), _mm256_srli_epi32::<8>(six)));
    let rest = _mm256_sub_epi32(six, _mm256_mullo_epi16(sector, _mm256_set1_epi32(255)));
    let fraction = _mm256_div_ps(_mm256_cvtepi32_ps(rest), scale);
    let saturation = _mm256_div_ps(_mm256_cvtepi32_ps(saturation), scale);
    let low = {
        let share = _mm256_sub_ps(_mm256_set1_ps(1.0), saturation);
        let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(value), share);
        _mm256_cvttps_epi32(_mm256_add_ps(scaled, _mm256_set1_ps(0.5)))
    };
    let odd = _mm256_slli_epi32::<31>(sector);
    let falling = _mm256_mul_ps(saturation, fraction);
    let half = |upper: bool| {
        let part = |v: __m256| if upper { _mm256_extractf128_ps::<1>(v) } else { _mm256_castps256_ps128(v) };
        let values = if upper { _mm256_extracti128_si256::<1>(value) } else { _mm256_castsi256_si128(value) };
        let one = _mm256_set1_pd(1.0);
        let rising = _mm256_mul_pd(
            _mm256_cvtps_pd(part(saturation)),
            _mm256_sub_pd(one, _mm256_cvtps_pd(part(fraction))),
        );
        let odd = _mm256_cvtepi32_epi64(_mm_castps_si128(part(_mm256_castsi256_ps(odd))));
        let share = _mm256_blendv_pd(rising, _mm256_cvtps_pd(part(falling)), _mm256_castsi256_pd(odd));
        let scaled = _mm256_mul_pd(_mm256_cvtepi32_pd(values), _mm256_sub_pd(one, share));
        _mm256_cvttpd_epi32(_mm256_add_pd(scaled, _mm256_set1_pd(0.5)))
    };
    let between = _mm256_set_m128i(half(true), half(false));
    // Byte 0 is the highest channel, 1 the middle, 2 the lowest; each sector has its own order, sector 6 is sector 0.
    let three = _mm256_or_si256(
        value,
        _mm256_or_si256(_mm256_slli_epi32::<8>(between), _mm256_slli_epi32::<16>(low)),
    );
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
    let places =
        _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0, 0x04040404, 0x08080808, 0x0C0C0C0C);
    let shuffle = _mm256_add_epi8(_mm256_permutevar8x32_epi32(orders, sector), places);
    _mm256_or_si256(_mm256_shuffle_epi8(three, shuffle), _mm256_set1_epi32(0xFF << 24))
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn extremes(pixels: &[u8]) -> [[u8; 32]; 2] {
    scalar::extremes(pixels)
}
