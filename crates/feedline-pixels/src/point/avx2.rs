//! The same for x86-64 with AVX2: eight pixels at a time, channel by channel.

use std::arch::x86_64::*;

use super::scalar;

/// Red, green and blue of eight pixels as floats.
#[target_feature(enable = "avx2")]
#[inline]
fn split(pixels: __m256i) -> [__m256; 3] {
    let byte = _mm256_set1_epi32(255);
    [
        _mm256_cvtepi32_ps(_mm256_and_si256(pixels, byte)),
        _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32::<8>(pixels), byte)),
        _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32::<16>(pixels), byte)),
    ]
}

/// The opposite: clamped and truncated. What is no number becomes 0, as `max` gives its second argument.
#[target_feature(enable = "avx2")]
#[inline]
fn join(channels: [__m256; 3]) -> __m256i {
    let [red, green, blue] = channels.map(|value| {
        let clamped = _mm256_min_ps(_mm256_max_ps(value, _mm256_setzero_ps()), _mm256_set1_ps(255.0));
        _mm256_cvttps_epi32(clamped)
    });
    let upper = _mm256_or_si256(_mm256_slli_epi32::<16>(blue), _mm256_set1_epi32(0xFF << 24));
    _mm256_or_si256(_mm256_or_si256(red, _mm256_slli_epi32::<8>(green)), upper)
}

/// `a · x + b · y + c · z`, in that order.
#[target_feature(enable = "avx2")]
#[inline]
fn weighed([x, y, z]: [__m256; 3], [a, b, c]: [f32; 3]) -> __m256 {
    let [a, b, c] = [
        _mm256_mul_ps(x, _mm256_set1_ps(a)),
        _mm256_mul_ps(y, _mm256_set1_ps(b)),
        _mm256_mul_ps(z, _mm256_set1_ps(c)),
    ];
    _mm256_add_ps(_mm256_add_ps(a, b), c)
}

#[target_feature(enable = "avx2")]
#[inline]
fn grey(channels: [__m256; 3]) -> __m256 {
    weighed(channels, scalar::GREY)
}

/// Changes whole blocks of eight pixels; gives the rest.
///
/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn each(pixels: &mut [u8], change: impl Fn([__m256; 3]) -> [__m256; 3]) -> &mut [u8] {
    let mut blocks = pixels.chunks_exact_mut(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        unsafe {
            let made = join(change(split(_mm256_loadu_si256(block.as_ptr().cast()))));
            _mm256_storeu_si256(block.as_mut_ptr().cast(), made);
        }
    }
    blocks.into_remainder()
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn matrix(pixels: &mut [u8], rows: &[[f32; 3]; 3], add: &[f32; 3]) {
    let change = |colour: [__m256; 3]| {
        let half = _mm256_set1_ps(0.5);
        let channel = |at: usize| {
            _mm256_add_ps(_mm256_add_ps(weighed(colour, rows[at]), _mm256_set1_ps(add[at])), half)
        };
        [channel(0), channel(1), channel(2)]
    };
    // SAFETY: the caller promises AVX2.
    let rest = unsafe { each(pixels, change) };
    scalar::matrix(rest, rows, add);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn greys(pixels: &mut [u8]) {
    // SAFETY: the caller promises AVX2.
    let rest = unsafe { each(pixels, |colour| [grey(colour); 3]) };
    scalar::greys(rest);
}

/// # Safety
///
/// Needs AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn saturation(pixels: &mut [u8], factor: f32) {
    let (share, other) = (_mm256_set1_ps(factor), _mm256_set1_ps(scalar::rest(factor)));
    let change = |colour: [__m256; 3]| {
        let grey = _mm256_floor_ps(grey(colour));
        colour.map(|level| _mm256_fmadd_ps(grey, other, _mm256_mul_ps(level, share)))
    };
    // SAFETY: the caller promises AVX2.
    let rest = unsafe { each(pixels, change) };
    scalar::saturation(rest, factor);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn grey_sum(pixels: &[u8]) -> u32 {
    let mut sums = _mm256_setzero_si256();
    let mut blocks = pixels.chunks_exact(32);
    for block in &mut blocks {
        // SAFETY: the block has 32 bytes.
        let colours = split(unsafe { _mm256_loadu_si256(block.as_ptr().cast()) });
        sums = _mm256_add_epi32(sums, _mm256_cvttps_epi32(grey(colours)));
    }
    let mut parts = [0u32; 8];
    // SAFETY: eight numbers of 32 bits.
    unsafe { _mm256_storeu_si256(parts.as_mut_ptr().cast(), sums) };
    parts.iter().sum::<u32>() + scalar::grey_sum(blocks.remainder())
}
