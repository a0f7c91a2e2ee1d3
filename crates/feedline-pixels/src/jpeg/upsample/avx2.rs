//! 16 samples at a time in 16-bit lanes. The left and the right result of a sample share one 16-bit lane of the output,
//! so interleaving them is a shift and an or.

use std::arch::x86_64::*;

use super::GROUP;

/// # Safety
/// `row + 16` bytes must be readable at `at`.
#[target_feature(enable = "avx2")]
unsafe fn load(row: *const u8) -> __m256i {
    // SAFETY: the caller guarantees 16 readable bytes.
    _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(row.cast()) })
}

#[target_feature(enable = "avx2")]
fn three_and_one(near: __m256i, far: __m256i) -> __m256i {
    _mm256_add_epi16(_mm256_add_epi16(near, _mm256_slli_epi16::<1>(near)), far)
}

/// # Safety
/// The CPU must have AVX2; `count` is a multiple of 16, `input` has `count + 2` bytes and `out` `2 * count`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn double(input: &[u8], count: usize, out: &mut [u8]) {
    for i in (0..count).step_by(GROUP) {
        // SAFETY: i + 16 <= count, so bytes up to i + 18 of the input and 2i + 32 of the output exist.
        unsafe {
            let from = input.as_ptr().add(i);
            let (left, middle, right) = (load(from), load(from.add(1)), load(from.add(2)));
            let even = _mm256_add_epi16(three_and_one(middle, left), _mm256_set1_epi16(1));
            let odd = _mm256_add_epi16(three_and_one(middle, right), _mm256_set1_epi16(2));
            let both = _mm256_or_si256(
                _mm256_srli_epi16::<2>(even),
                _mm256_slli_epi16::<8>(_mm256_srli_epi16::<2>(odd)),
            );
            _mm256_storeu_si256(out.as_mut_ptr().add(2 * i).cast(), both);
        }
    }
}

/// # Safety
/// The CPU must have AVX2; `count` is a multiple of 16 and all slices have `count` bytes.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend(near: &[u8], far: &[u8], count: usize, bias: u8, out: &mut [u8]) {
    let bias = _mm256_set1_epi16(i16::from(bias));
    for i in (0..count).step_by(GROUP) {
        // SAFETY: i + 16 <= count, so 16 bytes from i on exist in each slice.
        unsafe {
            let sum = three_and_one(load(near.as_ptr().add(i)), load(far.as_ptr().add(i)));
            let value = _mm256_srli_epi16::<2>(_mm256_add_epi16(sum, bias));
            let packed = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packus_epi16(value, value));
            _mm_storeu_si128(out.as_mut_ptr().add(i).cast(), _mm256_castsi256_si128(packed));
        }
    }
}

/// # Safety
/// The CPU must have AVX2; `count` is a multiple of 16, `near` and `far` have `count + 2` bytes and `out` `2 * count`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn double_blend(near: &[u8], far: &[u8], count: usize, out: &mut [u8]) {
    for i in (0..count).step_by(GROUP) {
        // SAFETY: i + 16 <= count, so bytes up to i + 18 of the inputs and 2i + 32 of the output exist.
        unsafe {
            let (near, far) = (near.as_ptr().add(i), far.as_ptr().add(i));
            let left = three_and_one(load(near), load(far));
            let middle = three_and_one(load(near.add(1)), load(far.add(1)));
            let right = three_and_one(load(near.add(2)), load(far.add(2)));
            let even = _mm256_add_epi16(three_and_one(middle, left), _mm256_set1_epi16(8));
            let odd = _mm256_add_epi16(three_and_one(middle, right), _mm256_set1_epi16(7));
            let both = _mm256_or_si256(
                _mm256_srli_epi16::<4>(even),
                _mm256_slli_epi16::<8>(_mm256_srli_epi16::<4>(odd)),
            );
            _mm256_storeu_si256(out.as_mut_ptr().add(2 * i).cast(), both);
        }
    }
}
