//! Byte shuffles for x86-64 with AVX2.

use std::arch::x86_64::*;

use super::scalar;

/// Four pixels of three bytes from byte 0 of each half, as four of four bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn spreading() -> __m256i {
    let half = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    _mm256_broadcastsi128_si256(half)
}

/// Eight pixels of three bytes as eight of four. Reads 28 bytes.
///
/// # Safety
///
/// Needs AVX2 and 28 readable bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn eight(source: *const u8) -> __m256i {
    // SAFETY: 16 bytes from 0 and from 12.
    let halves =
        unsafe { _mm256_set_m128i(_mm_loadu_si128(source.add(12).cast()), _mm_loadu_si128(source.cast())) };
    _mm256_or_si256(_mm256_shuffle_epi8(halves, spreading()), _mm256_set1_epi32(0xFF << 24))
}

/// # Safety
///
/// Needs AVX2; as many pixels in `source` as in `pixels`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn spread(source: &[u8], pixels: &mut [u8]) {
    let count = pixels.len() / 4;
    let mut x = 0;
    while x + 8 <= count && 3 * x + 28 <= source.len() {
        // SAFETY: 28 bytes are readable, 8 pixels writable.
        unsafe {
            let made = eight(source.as_ptr().add(3 * x));
            _mm256_storeu_si256(pixels.as_mut_ptr().add(4 * x).cast(), made);
        }
        x += 8;
    }
    scalar::spread(&source[3 * x..], &mut pixels[4 * x..]);
}

/// # Safety
///
/// Needs AVX2; as many pixels in `source` as in `pixels`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn spread_mirrored(source: &[u8], pixels: &mut [u8]) {
    let count = pixels.len() / 4;
    let backwards = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    let mut x = 0;
    while x + 8 <= count && 3 * x + 28 <= source.len() {
        // SAFETY: 28 bytes are readable, the 8 pixels that end `x` before the end writable.
        unsafe {
            let made = _mm256_permutevar8x32_epi32(eight(source.as_ptr().add(3 * x)), backwards);
            _mm256_storeu_si256(pixels.as_mut_ptr().add(4 * (count - x - 8)).cast(), made);
        }
        x += 8;
    }
    scalar::spread_mirrored(&source[3 * x..], &mut pixels[..4 * (count - x)]);
}

/// # Safety
///
/// Needs AVX2; as many pixels in `source` as in `pixels`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn mirror(source: &[u8], pixels: &mut [u8]) {
    scalar::mirror(source, pixels);
}

/// Five pixels per step: 15 of 16 bytes, and one that the next step overwrites.
///
/// # Safety
///
/// Needs AVX2; `source` and `pixels` of the same length.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn mirror_rgb(source: &[u8], pixels: &mut [u8]) {
    let mut end = source.len();
    let mut at = 0;
    // Goes backwards through the source: the byte before the five pixels is read, the byte after them written.
    let turned = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, -1);
    while end >= 16 && at + 16 <= pixels.len() {
        // SAFETY: 16 bytes before `end` are readable, 16 from `at` writable.
        unsafe {
            let five = _mm_loadu_si128(source.as_ptr().add(end - 16).cast());
            _mm_storeu_si128(pixels.as_mut_ptr().add(at).cast(), _mm_shuffle_epi8(five, turned));
        }
        end -= 15;
        at += 15;
    }
    scalar::mirror_rgb(&source[..end], &mut pixels[at..]);
}
