//! 32 pixels at a time, even and odd ones in separate registers of 16-bit lanes.
//!
//! The factors of the standard exceed 16 bits, so each is split into a whole number and a rest that `mulhi` takes:
//! 1.402 = 1 + 0.402, 1.772 = 2 - 0.228, 0.71414 = 1 - 0.28586.

use std::arch::x86_64::*;

use crate::PixelLayout;

const STEP: usize = 32;

/// # Safety
/// The CPU must have AVX2. Each row contains as many samples as `out` has pixels.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn ycc(rows: [&[u8]; 3], layout: PixelLayout, out: &mut [u8]) {
    let size = layout.bytes();
    let count = out.len() / size;
    let whole = count / STEP * STEP;
    for i in (0..whole).step_by(STEP) {
        let pixels = convert(rows.map(|row| load(&row[i..i + STEP])));
        let to = &mut out[i * size..(i + STEP) * size];
        match layout {
            PixelLayout::Rgb => store_rgb(pixels, to),
            _ => store_rgbx(pixels, to),
        }
    }
    if whole < count {
        let rest = rows.map(|row| {
            let mut padded = [0; STEP];
            padded[..count - whole].copy_from_slice(&row[whole..count]);
            padded
        });
        let pixels = convert([load(&rest[0]), load(&rest[1]), load(&rest[2])]);
        let mut bytes = [0; STEP * 4];
        match layout {
            PixelLayout::Rgb => store_rgb(pixels, &mut bytes[..STEP * 3]),
            _ => store_rgbx(pixels, &mut bytes),
        }
        let tail = &mut out[whole * size..];
        let length = tail.len();
        tail.copy_from_slice(&bytes[..length]);
    }
}

#[target_feature(enable = "avx2")]
fn load(samples: &[u8]) -> __m256i {
    let samples = &samples[..STEP];
    // SAFETY: 32 readable bytes; the load has no alignment demand.
    unsafe { _mm256_loadu_si256(samples.as_ptr().cast()) }
}

/// Red, green and blue minus luma, for one register of centred chroma.
#[target_feature(enable = "avx2")]
fn differences(cb: __m256i, cr: __m256i) -> [__m256i; 3] {
    let one = _mm256_set1_epi16(1);
    let scaled = |v: __m256i, factor: i16| {
        // mulhi drops 16 bits: double first, round, and halve.
        let high = _mm256_mulhi_epi16(_mm256_add_epi16(v, v), _mm256_set1_epi16(factor));
        _mm256_srai_epi16::<1>(_mm256_add_epi16(high, one))
    };
    let red = _mm256_add_epi16(scaled(cr, 26345), cr);
    let blue = _mm256_add_epi16(scaled(cb, -14942), _mm256_add_epi16(cb, cb));
    // Pairs of 16-bit factors: -0.34414 for blue, 0.28586 for red.
    let factors = _mm256_set1_epi32((18734 << 16) + (65536 - 22554));
    let half = _mm256_set1_epi32(1 << 15);
    let sum = |pairs| _mm256_srai_epi32::<16>(_mm256_add_epi32(_mm256_madd_epi16(pairs, factors), half));
    let low = sum(_mm256_unpacklo_epi16(cb, cr));
    let high = sum(_mm256_unpackhi_epi16(cb, cr));
    let green = _mm256_sub_epi16(_mm256_packs_epi32(low, high), cr);
    [red, green, blue]
}

/// 32 pixels as RGBX, 8 in each register, in order.
#[target_feature(enable = "avx2")]
fn convert([y, cb, cr]: [__m256i; 3]) -> [__m256i; 4] {
    let byte = _mm256_set1_epi16(0xFF);
    let center = _mm256_set1_epi16(128);
    let even = |v| _mm256_and_si256(v, byte);
    let odd = |v| _mm256_srli_epi16::<8>(v);
    let d_even = differences(_mm256_sub_epi16(even(cb), center), _mm256_sub_epi16(even(cr), center));
    let d_odd = differences(_mm256_sub_epi16(odd(cb), center), _mm256_sub_epi16(odd(cr), center));
    let (y_even, y_odd) = (even(y), odd(y));
    // Per half: 8 even pixels, then 8 odd ones.
    let channel = |i: usize| {
        _mm256_packus_epi16(_mm256_add_epi16(d_even[i], y_even), _mm256_add_epi16(d_odd[i], y_odd))
    };
    let (red, green, blue) = (channel(0), channel(1), channel(2));
    let full = _mm256_set1_epi8(-1);
    let rg_even = _mm256_unpacklo_epi8(red, green);
    let rg_odd = _mm256_unpackhi_epi8(red, green);
    let bx_even = _mm256_unpacklo_epi8(blue, full);
    let bx_odd = _mm256_unpackhi_epi8(blue, full);
    let even_low = _mm256_unpacklo_epi16(rg_even, bx_even); // pixels 0 2 4 6 of each half
    let even_high = _mm256_unpackhi_epi16(rg_even, bx_even);
    let odd_low = _mm256_unpacklo_epi16(rg_odd, bx_odd); // pixels 1 3 5 7
    let odd_high = _mm256_unpackhi_epi16(rg_odd, bx_odd);
    let p0 = _mm256_unpacklo_epi32(even_low, odd_low); // 0 1 2 3 | 16 17 18 19
    let p1 = _mm256_unpackhi_epi32(even_low, odd_low);
    let p2 = _mm256_unpacklo_epi32(even_high, odd_high);
    let p3 = _mm256_unpackhi_epi32(even_high, odd_high);
    [
        _mm256_permute2x128_si256::<0x20>(p0, p1),
        _mm256_permute2x128_si256::<0x20>(p2, p3),
        _mm256_permute2x128_si256::<0x31>(p0, p1),
        _mm256_permute2x128_si256::<0x31>(p2, p3),
    ]
}

#[target_feature(enable = "avx2")]
fn store_rgbx(pixels: [__m256i; 4], out: &mut [u8]) {
    for (to, value) in out[..STEP * 4].chunks_exact_mut(32).zip(pixels) {
        // SAFETY: the chunk is 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) };
    }
}

#[target_feature(enable = "avx2")]
fn store_rgb(pixels: [__m256i; 4], out: &mut [u8]) {
    let out = &mut out[..STEP * 3];
    // Drop every fourth byte of each half, then close the gap between the halves: 24 bytes, then 8 unused ones.
    let drop = _mm256_setr_epi8(
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1,
        -1, -1, -1,
    );
    let close = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
    for (i, value) in pixels.into_iter().enumerate() {
        let bytes = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(value, drop), close);
        let to = &mut out[i * 24..];
        if i < 3 {
            let to = &mut to[..32];
            // SAFETY: 32 writable bytes; the last 8 are written again by the next step.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bytes) };
        } else {
            let to = &mut to[..24];
            // SAFETY: 16 + 8 = 24 writable bytes.
            unsafe {
                _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_castsi256_si128(bytes));
                _mm_storel_epi64(to.as_mut_ptr().add(16).cast(), _mm256_extracti128_si256::<1>(bytes));
            }
        }
    }
}
