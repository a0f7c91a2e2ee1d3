//! 256-bit kernels for x86-64 with AVX2.

use std::arch::x86_64::*;

use super::{COLUMN_MULTIPLE, Columns, ROWS, Rows, Woven};

/// Bytes of a row per step: one vector of bytes, two of 16-bit sums.
const STEP: usize = 32;

/// # Safety
///
/// Needs AVX2, and the lengths that `super::blend_rows` checks.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend_rows(rows: Rows<'_>, weights: &[i16], begin: bool, line: &mut [i16]) {
    let last = weights.len().saturating_sub(1) * rows.stride;
    // Whole vectors may be read if the buffer continues after the row; only the end of the buffer needs care.
    let readable = rows.bytes.len() - last;
    let whole = if readable >= rows.width.next_multiple_of(STEP) {
        rows.width.next_multiple_of(STEP)
    } else {
        rows.width / STEP * STEP
    };
    // SAFETY: `whole` bytes are readable in the last row and so in all; the line is padded to 64.
    unsafe {
        match *weights {
            [a] => blend_whole(rows, [a], begin, whole, line),
            [a, b] => blend_whole(rows, [a, b], begin, whole, line),
            [a, b, c] => blend_whole(rows, [a, b, c], begin, whole, line),
            [a, b, c, d] => blend_whole(rows, [a, b, c, d], begin, whole, line),
            _ => blend_whole(rows, weights, begin, whole, line),
        }
    }
    let x = whole;
    if x < rows.width {
        // SAFETY: the tail copies exactly the bytes that are left.
        unsafe { blend_tail(rows, weights, begin, x, line) };
    }
}

/// Blends the whole vectors of all rows. `Weights` is an array if there are few: then the loop over rows unrolls and
/// weights stay in registers.
///
/// # Safety
///
/// Needs AVX2; every row readable for `whole` (a multiple of 32) bytes, the line writable for as many elements.
#[target_feature(enable = "avx2")]
unsafe fn blend_whole<Weights: AsRef<[i16]> + Copy>(
    rows: Rows<'_>,
    weights: Weights,
    begin: bool,
    whole: usize,
    line: &mut [i16],
) {
    let mut x = 0;
    while x + 2 * STEP <= whole {
        // SAFETY: `x + 64 <= whole`.
        unsafe { blend_block::<2>(rows, weights.as_ref(), begin, x, line) };
        x += 2 * STEP;
    }
    if x < whole {
        // SAFETY: `x + 32 <= whole`.
        unsafe { blend_block::<1>(rows, weights.as_ref(), begin, x, line) };
    }
}

/// `VECTORS` · 32 bytes at `x` of all rows. The sums stay in registers: lower and upper halves of each vector's bytes,
/// in unpack order (bytes 0-7 and 16-23, then 8-15 and 24-31), put in order on the way to memory.
///
/// # Safety
///
/// Needs AVX2; every row readable and the line writable for `VECTORS` · 32 elements from `x`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn blend_block<const VECTORS: usize>(
    rows: Rows<'_>,
    weights: &[i16],
    begin: bool,
    x: usize,
    line: &mut [i16],
) {
    let mut sums = [[_mm256_setzero_si256(); 2]; VECTORS];
    for (index, sum) in sums.iter_mut().enumerate() {
        if !begin {
            // SAFETY: the caller guarantees the line's length.
            *sum = unsafe { load_sums(line.as_ptr().add(x + index * STEP)) };
        }
    }
    // SAFETY: `x` is inside the first row.
    let mut row = unsafe { rows.bytes.as_ptr().add(x) };
    for weight in weights {
        let weight = _mm256_set1_epi16(*weight);
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that each row is readable here.
            let bytes = unsafe { _mm256_loadu_si256(row.add(index * STEP).cast()) };
            *sum = add_products(*sum, bytes, weight);
        }
        // One stride past the last row is never read; wrapping keeps that pointer valid.
        row = row.wrapping_add(rows.stride);
    }
    for (index, sum) in sums.iter().enumerate() {
        // SAFETY: the caller guarantees the line's length.
        unsafe { store_sums(line.as_mut_ptr().add(x + index * STEP), *sum) };
    }
}

/// The last, partial vector of rows that end with their buffer.
///
/// # Safety
///
/// Needs AVX2; the line writable for 32 elements from `x`.
#[target_feature(enable = "avx2")]
unsafe fn blend_tail(rows: Rows<'_>, weights: &[i16], begin: bool, x: usize, line: &mut [i16]) {
    let mut sum = [_mm256_setzero_si256(); 2];
    if !begin {
        // SAFETY: the caller guarantees the line's length.
        sum = unsafe { load_sums(line.as_ptr().add(x)) };
    }
    let mut copy = [0u8; STEP];
    for (index, weight) in weights.iter().enumerate() {
        let start = index * rows.stride;
        let tail = &rows.bytes[start + x..start + rows.width];
        copy[..tail.len()].copy_from_slice(tail);
        // SAFETY: the copy is 32 bytes long.
        let bytes = unsafe { _mm256_loadu_si256(copy.as_ptr().cast()) };
        sum = add_products(sum, bytes, _mm256_set1_epi16(*weight));
    }
    // SAFETY: the caller guarantees the line's length.
    unsafe { store_sums(line.as_mut_ptr().add(x), sum) };
}

/// Bytes to centred 16-bit numbers (unpacking below a zero puts them in the upper half), times weight, plus sum.
#[target_feature(enable = "avx2")]
#[inline]
fn add_products(sum: [__m256i; 2], bytes: __m256i, weight: __m256i) -> [__m256i; 2] {
    let zero = _mm256_setzero_si256();
    let bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
    let low = _mm256_mulhrs_epi16(_mm256_unpacklo_epi8(zero, bytes), weight);
    let high = _mm256_mulhrs_epi16(_mm256_unpackhi_epi8(zero, bytes), weight);
    [_mm256_adds_epi16(sum[0], low), _mm256_adds_epi16(sum[1], high)]
}

/// # Safety
///
/// Needs AVX2 and 32 readable elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load_sums(line: *const i16) -> [__m256i; 2] {
    // SAFETY: two vectors of 16 elements.
    let (first, second) =
        unsafe { (_mm256_loadu_si256(line.cast()), _mm256_loadu_si256(line.add(16).cast())) };
    [_mm256_permute2x128_si256::<0x20>(first, second), _mm256_permute2x128_si256::<0x31>(first, second)]
}

/// # Safety
///
/// Needs AVX2 and 32 writable elements.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_sums(line: *mut i16, sum: [__m256i; 2]) {
    let first = _mm256_permute2x128_si256::<0x20>(sum[0], sum[1]);
    let second = _mm256_permute2x128_si256::<0x31>(sum[0], sum[1]);
    // SAFETY: two vectors of 16 elements.
    unsafe {
        _mm256_storeu_si256(line.cast(), first);
        _mm256_storeu_si256(line.add(16).cast(), second);
    }
}

/// # Safety
///
/// Needs AVX2, and the lengths that `super::weave` checks.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn weave<const CHANNELS: usize, const HALVED: bool>(
    lines: [&[i16]; ROWS],
    woven: &mut [Woven],
) {
    let lines = lines.map(<[i16]>::as_ptr);
    let mut x = 0;
    if CHANNELS == 4 {
        while x + 4 <= woven.len() {
            // SAFETY: four columns of four numbers are inside each line, four columns inside `woven`.
            unsafe { weave_four::<HALVED>(lines.map(|line| line.add(4 * x)), woven.as_mut_ptr().add(x)) };
            x += 4;
        }
    }
    for (x, column) in woven.iter_mut().enumerate().skip(x) {
        // SAFETY: lines are padded past the last column's four numbers.
        let four = unsafe { lines.map(|line| _mm_loadl_epi64(line.add(CHANNELS * x).cast())) };
        let upper = _mm_unpacklo_epi64(four[0], four[1]);
        let lower = _mm_unpacklo_epi64(four[2], four[3]);
        let whole = whole_levels::<HALVED>(_mm256_set_m128i(lower, upper));
        // SAFETY: a `Woven` is 32 aligned bytes.
        unsafe { _mm256_store_si256(column.0.as_mut_ptr().cast(), whole) };
    }
}

/// Converts sums to whole levels in the upper bytes: adds half a level and truncates. The addition saturates, so
/// overshoot stays at the ends of the range; that holds for the doubling of halved sums as well.
#[target_feature(enable = "avx2")]
#[inline]
fn whole_levels<const HALVED: bool>(sums: __m256i) -> __m256i {
    let sums = if HALVED {
        let rounded = _mm256_adds_epi16(sums, _mm256_set1_epi16(1 << 6));
        _mm256_adds_epi16(rounded, rounded)
    } else {
        _mm256_adds_epi16(sums, _mm256_set1_epi16(1 << 7))
    };
    _mm256_and_si256(sums, _mm256_set1_epi16(!0xFF))
}

/// A transposition of 4 × 4 groups of 64 bits.
///
/// # Safety
///
/// Needs AVX2; 16 readable elements at each line, four writable columns.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn weave_four<const HALVED: bool>(lines: [*const i16; ROWS], woven: *mut Woven) {
    // SAFETY: the caller guarantees 16 elements.
    let rows = unsafe { lines.map(|line| whole_levels::<HALVED>(_mm256_loadu_si256(line.cast()))) };
    let even_upper = _mm256_unpacklo_epi64(rows[0], rows[1]);
    let odd_upper = _mm256_unpackhi_epi64(rows[0], rows[1]);
    let even_lower = _mm256_unpacklo_epi64(rows[2], rows[3]);
    let odd_lower = _mm256_unpackhi_epi64(rows[2], rows[3]);
    let out: *mut __m256i = woven.cast();
    // SAFETY: the caller guarantees four columns, each one aligned vector.
    unsafe {
        _mm256_store_si256(out, _mm256_permute2x128_si256::<0x20>(even_upper, even_lower));
        _mm256_store_si256(out.add(1), _mm256_permute2x128_si256::<0x20>(odd_upper, odd_lower));
        _mm256_store_si256(out.add(2), _mm256_permute2x128_si256::<0x31>(even_upper, even_lower));
        _mm256_store_si256(out.add(3), _mm256_permute2x128_si256::<0x31>(odd_upper, odd_lower));
    }
}

/// # Safety
///
/// Needs AVX2, and the lengths that `super::blend_columns` checks.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn blend_columns(columns: &Columns, woven: &[Woven], pixels: &mut [u8], stride: usize) {
    // Counts that recipes use (ratios up to 3 for bilinear) are fixed at compile time: the loop unrolls, and the
    // branch at its end cannot be mispredicted.
    // SAFETY: passed on from the caller.
    unsafe {
        match columns.taps {
            1 => blend_columns_by::<1>(columns, woven, pixels, stride),
            2 => blend_columns_by::<2>(columns, woven, pixels, stride),
            3 => blend_columns_by::<3>(columns, woven, pixels, stride),
            4 => blend_columns_by::<4>(columns, woven, pixels, stride),
            5 => blend_columns_by::<5>(columns, woven, pixels, stride),
            6 => blend_columns_by::<6>(columns, woven, pixels, stride),
            _ => blend_columns_by::<0>(columns, woven, pixels, stride),
        }
    }
}

/// # Safety
///
/// As `blend_columns`; `TAPS` is the tables' or 0.
#[target_feature(enable = "avx2")]
unsafe fn blend_columns_by<const TAPS: usize>(
    columns: &Columns,
    woven: &[Woven],
    pixels: &mut [u8],
    stride: usize,
) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let half = _mm256_set1_epi16(1 << (columns.fraction - 1));
    let shift = _mm_cvtsi32_si128(columns.fraction as i32);
    let mut weights = columns.weights.as_ptr();
    for (block, starts) in columns.starts.chunks_exact(COLUMN_MULTIPLE).enumerate() {
        let mut sums = [_mm256_setzero_si256(); COLUMN_MULTIPLE];
        for (sum, start) in sums.iter_mut().zip(starts) {
            // SAFETY: the caller checked that `start + taps` columns exist and that there are `taps` weights each.
            unsafe {
                *sum = blend_one(woven.as_ptr().add(*start as usize), weights, taps);
                weights = weights.add(taps);
            }
            *sum = _mm256_sra_epi16(_mm256_adds_epi16(*sum, half), shift);
        }
        // SAFETY: four rows are long enough for all columns.
        unsafe { store_pixels(sums, pixels.as_mut_ptr().add(block * COLUMN_MULTIPLE * 4), stride) };
    }
}

/// # Safety
///
/// Needs AVX2 and `taps` readable columns and weights.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn blend_one(column: *const Woven, weights: *const [i16; 2], taps: usize) -> __m256i {
    let column: *const __m256i = column.cast();
    let mut sum = _mm256_setzero_si256();
    for tap in 0..taps {
        // SAFETY: `tap` is below the count that the caller guarantees.
        let (value, weight) = unsafe {
            (
                _mm256_load_si256(column.add(tap)),
                _mm256_set1_epi32(weights.add(tap).cast::<i32>().read_unaligned()),
            )
        };
        sum = _mm256_adds_epi16(sum, _mm256_mulhrs_epi16(value, weight));
    }
    sum
}

/// Four columns of four rows to four rows of four pixels:
///
/// ```text
/// pack    x0r0 x0r1 x1r0 x1r1 | x0r2 x0r3 x1r2 x1r3     x2r0 x2r1 x3r0 x3r1 | x2r2 x2r3 x3r2 x3r3
/// shuffle x0r0 x1r0 x2r0 x3r0 | x0r2 x1r2 x2r2 x3r2     x0r1 x1r1 x2r1 x3r1 | x0r3 x1r3 x2r3 x3r3
/// ```
///
/// # Safety
///
/// Needs AVX2; 16 writable bytes at each of four rows.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_pixels(columns: [__m256i; COLUMN_MULTIPLE], pixels: *mut u8, stride: usize) {
    let middle = _mm256_set1_epi8(-128);
    let left = _mm256_castsi256_ps(_mm256_xor_si256(_mm256_packs_epi16(columns[0], columns[1]), middle));
    let right = _mm256_castsi256_ps(_mm256_xor_si256(_mm256_packs_epi16(columns[2], columns[3]), middle));
    let even = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(left, right));
    let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(left, right));
    // SAFETY: the caller guarantees 16 bytes in each row.
    unsafe {
        _mm_storeu_si128(pixels.cast(), _mm256_castsi256_si128(even));
        _mm_storeu_si128(pixels.add(stride).cast(), _mm256_castsi256_si128(odd));
        _mm_storeu_si128(pixels.add(2 * stride).cast(), _mm256_extracti128_si256::<1>(even));
        _mm_storeu_si128(pixels.add(3 * stride).cast(), _mm256_extracti128_si256::<1>(odd));
    }
}

/// # Safety
///
/// Needs AVX2, and as many bytes as the line has elements.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn round_line(line: &[i16], fraction: u32, bytes: &mut [u8]) {
    let half = _mm256_set1_epi16(1 << (fraction - 1));
    let shift = _mm_cvtsi32_si128(fraction as i32);
    let whole = line.len() / STEP * STEP;
    for x in (0..whole).step_by(STEP) {
        // SAFETY: 32 elements and bytes from `x` on.
        unsafe {
            let first = _mm256_loadu_si256(line.as_ptr().add(x).cast());
            let second = _mm256_loadu_si256(line.as_ptr().add(x + 16).cast());
            let first = _mm256_sra_epi16(_mm256_adds_epi16(first, half), shift);
            let second = _mm256_sra_epi16(_mm256_adds_epi16(second, half), shift);
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(first, second));
            let centred = _mm256_xor_si256(packed, _mm256_set1_epi8(-128));
            _mm256_storeu_si256(bytes.as_mut_ptr().add(x).cast(), centred);
        }
    }
    super::scalar::round_line(&line[whole..], fraction, &mut bytes[whole..]);
}
