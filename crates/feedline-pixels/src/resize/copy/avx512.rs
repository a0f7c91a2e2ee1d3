//! Byte shuffles for x86-64 with AVX-512.

use std::arch::x86_64::*;

use super::avx2;

/// Pixels of three bytes that one vector holds; a byte is left over.
const PIXELS: usize = 21;

/// Which byte of the 64 that end with the last pixel each byte of the result is.
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
    // SAFETY: what is left of both is of the same length.
    unsafe { avx2::mirror_rgb(&source[..end], &mut pixels[at..]) };
}
