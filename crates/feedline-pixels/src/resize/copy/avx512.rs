//! Byte shuffles for x86-64 with AVX-512.

use std::arch::x86_64::*;

use super::avx2;

/// Number of pixels of three bytes in one vector; one byte is left over.
const PIXELS: usize = 21;

/// For each byte of the result, its index among the 64 bytes that end with the last pixel.
const BACKWARDS: [u8; 64] = {
    let mut order = [0; 64];
    let mut at = 0;
    while at < 3 * PIXELS {
        order[at] = (61 - 3 * (at / 3) + at % 3) as u8;
        at += 1;
    }
    order
};

/// # Safety
///
/// Needs AVX2, AVX-512 F and VBMI; `source` and `pixels` of the same length.
#[target_feature(enable = "avx2,avx512f,avx512vbmi")]
pub(super) unsafe fn mirror_rgb(source: &[u8], pixels: &mut [u8]) {
    // SAFETY: 64 bytes.
    let order = unsafe { _mm512_loadu_si512(BACKWARDS.as_ptr().cast()) };
    let mut end = source.len();
    let mut at = 0;
    // Goes backwards through the source: the byte before the pixels is read, the byte after them written.
    while end >= 64 && at + 64 <= pixels.len() {
        // SAFETY: 64 bytes before `end` are readable, 64 from `at` writable.
        unsafe {
            let some = _mm512_loadu_si512(source.as_ptr().add(end - 64).cast());
            _mm512_storeu_si512(pixels.as_mut_ptr().add(at).cast(), _mm512_permutexvar_epi8(order, some));
        }
        end -= 3 * PIXELS;
        at += 3 * PIXELS;
    }
    // SAFETY: the rests of both have the same length.
    unsafe { avx2::mirror_rgb(&source[..end], &mut pixels[at..]) };
}
