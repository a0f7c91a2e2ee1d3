//! 256-bit kernels for x86-64 with AVX2, FMA and F16C: eight pixels per step.

use std::arch::x86_64::*;

use super::scalar::write_element;
use super::{Affine, Dtype};

/// Number of pixels per step.
const STEP: usize = 8;

/// # Safety
///
/// Needs AVX2, FMA and F16C; planes have one element per pixel.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn write_planes(pixels: &[u8], dtype: Dtype, affine: &Affine, planes: [&mut [u8]; 3]) {
    let count = pixels.len() / 4;
    assert!(planes.iter().all(|plane| plane.len() == count * dtype.bytes()));
    let whole = count / STEP * STEP;
    let mut planes = planes;
    let starts = planes.each_mut().map(|plane| plane.as_mut_ptr());
    // SAFETY: `whole` pixels are readable, and as many elements writable in each plane.
    unsafe {
        match dtype {
            Dtype::F32 => float_planes::<Single>(pixels.as_ptr(), whole, affine, starts),
            Dtype::F16 => float_planes::<Half>(pixels.as_ptr(), whole, affine, starts),
            Dtype::BF16 => float_planes::<Brain>(pixels.as_ptr(), whole, affine, starts),
            Dtype::U8 => byte_planes(pixels.as_ptr(), whole, starts),
        }
    }
    let step = dtype.bytes();
    for (channel, plane) in planes.into_iter().enumerate() {
        for x in whole..count {
            write_element(pixels[4 * x + channel], dtype, affine, channel, &mut plane[x * step..][..step]);
        }
    }
}

/// # Safety
///
/// Needs AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn write_grey(pixels: &[u8], dtype: Dtype, affine: &Affine, row: &mut [u8]) {
    super::scalar::write_grey(pixels, dtype, affine, row);
}

/// How eight floats are stored.
trait Store {
    const BYTES: usize;
    /// # Safety
    ///
    /// Needs AVX2 and F16C, and eight writable elements.
    unsafe fn store(values: __m256, out: *mut u8);
}

struct Single;
struct Half;
struct Brain;

// Not streamed past the caches, although a batch is larger than they are: `_mm256_stream_ps` slowed the resize and
// normalise of a 224 × 224 image from 95 to 140 µs (Zen 3, three planes at once).
impl Store for Single {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn store(values: __m256, out: *mut u8) {
        // SAFETY: the caller guarantees eight elements.
        unsafe { _mm256_storeu_ps(out.cast(), values) };
    }
}

impl Store for Half {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn store(values: __m256, out: *mut u8) {
        // SAFETY: the caller guarantees F16C and eight elements.
        unsafe { _mm_storeu_si128(out.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)) };
    }
}

impl Store for Brain {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn store(values: __m256, out: *mut u8) {
        // SAFETY: the caller guarantees AVX2 and eight elements.
        unsafe {
            let bits = _mm256_castps_si256(values);
            let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounding = _mm256_add_epi32(even, _mm256_set1_epi32(0x7FFF));
            let upper = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, rounding));
            let packed = _mm256_permute4x64_epi64::<0b00_00_10_00>(_mm256_packus_epi32(upper, upper));
            _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(packed));
        }
    }
}

/// # Safety
///
/// Needs AVX2, FMA and F16C; `count` (a multiple of 8) pixels and elements.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn float_planes<S: Store>(pixels: *const u8, count: usize, affine: &Affine, planes: [*mut u8; 3]) {
    let multiply = affine.multiply.map(|value| _mm256_set1_ps(value));
    let add = affine.add.map(|value| _mm256_set1_ps(value));
    let byte = _mm256_set1_epi32(0xFF);
    for x in (0..count).step_by(STEP) {
        // SAFETY: the caller guarantees `count` pixels and elements.
        unsafe {
            let four = _mm256_loadu_si256(pixels.add(4 * x).cast());
            let channels = [
                _mm256_and_si256(four, byte),
                _mm256_and_si256(_mm256_srli_epi32::<8>(four), byte),
                _mm256_and_si256(_mm256_srli_epi32::<16>(four), byte),
            ];
            for channel in 0..3 {
                let value =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(channels[channel]), multiply[channel], add[channel]);
                S::store(value, planes[channel].add(S::BYTES * x));
            }
        }
    }
}

/// # Safety
///
/// Needs AVX2; `count` (a multiple of 8) pixels and elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn byte_planes(pixels: *const u8, count: usize, planes: [*mut u8; 3]) {
    // In each half: r0-3 g0-3 b0-3 x0-3; then the fours of both halves side by side.
    let gather =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    let join = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for x in (0..count).step_by(STEP) {
        // SAFETY: the caller guarantees `count` pixels and elements.
        unsafe {
            let four = _mm256_shuffle_epi8(_mm256_loadu_si256(pixels.add(4 * x).cast()), gather);
            let joined = _mm256_permutevar8x32_epi32(four, join);
            let (red_green, blue) = (_mm256_castsi256_si128(joined), _mm256_extracti128_si256::<1>(joined));
            _mm_storel_epi64(planes[0].add(x).cast(), red_green);
            _mm_storel_epi64(planes[1].add(x).cast(), _mm_unpackhi_epi64(red_green, red_green));
            _mm_storel_epi64(planes[2].add(x).cast(), blue);
        }
    }
}

/// # Safety
///
/// Needs AVX2, FMA and F16C; the row has three elements per pixel.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn write_packed(pixels: &[u8], dtype: Dtype, affine: &Affine, row: &mut [u8]) {
    let count = pixels.len() / 4;
    assert!(row.len() == 3 * count * dtype.bytes());
    let whole = count / STEP * STEP;
    // SAFETY: `whole` pixels are readable, and three times as many elements writable.
    let done = unsafe {
        match dtype {
            Dtype::F32 => float_packed::<Single>(pixels.as_ptr(), whole, affine, row.as_mut_ptr()),
            Dtype::F16 => float_packed::<Half>(pixels.as_ptr(), whole, affine, row.as_mut_ptr()),
            Dtype::BF16 => float_packed::<Brain>(pixels.as_ptr(), whole, affine, row.as_mut_ptr()),
            Dtype::U8 => byte_packed(pixels, row),
        }
    };
    let step = dtype.bytes();
    for index in 3 * done..3 * count {
        let channel = index % 3;
        let byte = pixels[index / 3 * 4 + channel];
        write_element(byte, dtype, affine, channel, &mut row[index * step..][..step]);
    }
}

/// Eight pixels are 24 elements, three vectors; each takes its bytes from the 16 that contain them.
///
/// # Safety
///
/// Needs AVX2, FMA and F16C; `count` (a multiple of 8) pixels and three times as many elements.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn float_packed<S: Store>(pixels: *const u8, count: usize, affine: &Affine, row: *mut u8) -> usize {
    /// First of the 16 bytes that contain the elements of each vector.
    const FROM: [usize; 3] = [0, 8, 16];
    let mut spread = [_mm256_setzero_si256(); 3];
    let mut multiply = [_mm256_setzero_ps(); 3];
    let mut add = [_mm256_setzero_ps(); 3];
    for vector in 0..3 {
        let mut bytes = [0x80u8; 32];
        let mut factors = [[0f32; 8]; 2];
        for lane in 0..8 {
            let element = vector * 8 + lane;
            bytes[lane * 4] = (element / 3 * 4 + element % 3 - FROM[vector]) as u8;
            factors[0][lane] = affine.multiply[element % 3];
            factors[1][lane] = affine.add[element % 3];
        }
        // SAFETY: arrays of 32 bytes.
        unsafe {
            spread[vector] = _mm256_loadu_si256(bytes.as_ptr().cast());
            multiply[vector] = _mm256_loadu_ps(factors[0].as_ptr());
            add[vector] = _mm256_loadu_ps(factors[1].as_ptr());
        }
    }
    for x in (0..count).step_by(STEP) {
        for vector in 0..3 {
            // SAFETY: 16 bytes from 0, 8 or 16 are inside eight pixels; the caller guarantees the elements.
            unsafe {
                let four = _mm_loadu_si128(pixels.add(4 * x + FROM[vector]).cast());
                let lanes = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(four), spread[vector]);
                let value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(lanes), multiply[vector], add[vector]);
                S::store(value, row.add(S::BYTES * (3 * x + 8 * vector)));
            }
        }
    }
    count
}

/// Drops every fourth byte; returns the number of pixels done. Stores are 16 bytes of which 12 count, so the last few
/// pixels are left to the caller.
#[target_feature(enable = "avx2")]
#[inline]
fn byte_packed(pixels: &[u8], row: &mut [u8]) -> usize {
    let squeeze = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    let mut done = 0;
    while 3 * done + 16 <= row.len() {
        // SAFETY: 16 bytes of output are left, so at least five pixels of input are.
        unsafe {
            let four = _mm_loadu_si128(pixels.as_ptr().add(4 * done).cast());
            _mm_storeu_si128(row.as_mut_ptr().add(3 * done).cast(), _mm_shuffle_epi8(four, squeeze));
        }
        done += 4;
    }
    done
}
