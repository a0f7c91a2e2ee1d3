//! The same for x86-64 with AVX2: sixteen pixels at a time.

use std::arch::x86_64::*;

use super::{Conversion, FRACTION, Row, scalar};

/// Pixels that are converted together.
const STEP: usize = 16;

pub(super) fn row<const BYTES: usize, const ACROSS: usize>(by: &Conversion, row: Row<'_>, out: &mut [u8]) {
    let steps = out.len() / (3 * STEP);
    let (bright, u, v) = (row.bright.len() / BYTES, row.u.len() / BYTES, row.v.len() / BYTES);
    assert!(steps * STEP <= bright && (steps * STEP) >> ACROSS <= u.min(v), "rows as long as the pixels");
    // SAFETY: this function is only called after AVX2 was detected; the assertion keeps all reads inside the rows, and
    // `steps` was computed from the length of `out`.
    unsafe { many::<BYTES, ACROSS>(by, row, out, steps) };
    let done = steps * STEP;
    let rest = Row {
        bright: &row.bright[done * BYTES..],
        u: &row.u[(done >> ACROSS) * BYTES..],
        v: &row.v[(done >> ACROSS) * BYTES..],
    };
    scalar::row::<BYTES, ACROSS>(by, rest, &mut out[3 * done..]);
}

/// # Safety
/// The rows have values for `steps` times sixteen pixels, and `out` has room for them.
#[target_feature(enable = "avx2")]
unsafe fn many<const BYTES: usize, const ACROSS: usize>(
    by: &Conversion,
    row: Row<'_>,
    out: &mut [u8],
    steps: usize,
) {
    let sums = Sums::new(by);
    let (zero, middle) = (_mm256_set1_epi16(by.zero as i16), _mm256_set1_epi16(by.middle as i16));
    for step in 0..steps {
        let at = step * STEP * BYTES;
        // SAFETY: sixteen values from each of `steps` places are inside the row (the caller's promise); colour has as
        // many or half as many. 48 bytes are written for each step.
        unsafe {
            let bright = _mm256_sub_epi16(values::<BYTES>(row.bright.as_ptr().add(at)), zero);
            let u = colours::<BYTES, ACROSS>(row.u.as_ptr().add(at >> ACROSS));
            let v = colours::<BYTES, ACROSS>(row.v.as_ptr().add(at >> ACROSS));
            let levels = sums.levels(bright, _mm256_sub_epi16(u, middle), _mm256_sub_epi16(v, middle));
            store(levels, out.as_mut_ptr().add(3 * STEP * step));
        }
    }
}

/// # Safety
/// Sixteen values can be read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn values<const BYTES: usize>(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        match BYTES {
            1 => _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast())),
            _ => _mm256_loadu_si256(from.cast()),
        }
    }
}

/// Colour of sixteen pixels: sixteen values, or eight that are each used twice.
///
/// # Safety
/// So many values can be read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn colours<const BYTES: usize, const ACROSS: usize>(from: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if ACROSS == 0 {
            return values::<BYTES>(from);
        }
        let eight = match BYTES {
            1 => _mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast())),
            _ => _mm_loadu_si128(from.cast()),
        };
        _mm256_set_m128i(_mm_unpackhi_epi16(eight, eight), _mm_unpacklo_epi16(eight, eight))
    }
}

/// Pairs of weights for `madd`, which adds two products of 16 bits. A second pair holds what does not fit: a unit of
/// blue's weight, which is above 2, and a half to round with.
struct Sums {
    red: __m256i,
    green: [__m256i; 2],
    blue: [__m256i; 2],
    half: __m256i,
    shift: __m128i,
}

impl Sums {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(by: &Conversion) -> Self {
        let one = 1 << FRACTION;
        Sums {
            red: pair(by.bright, by.red),
            green: [pair(by.bright, by.green.0), pair(by.green.1, 0)],
            blue: [pair(by.bright, by.blue - one), pair(one, 0)],
            half: _mm256_set1_epi32(1 << (by.shift - 1)),
            shift: _mm_cvtsi32_si128(by.shift as i32),
        }
    }

    /// Red, green and blue of sixteen pixels, in bytes.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn levels(&self, bright: __m256i, u: __m256i, v: __m256i) -> [__m128i; 3] {
        let nothing = _mm256_setzero_si256();
        let red = [madd::<0>(bright, v, self.red), madd::<1>(bright, v, self.red)];
        let green = [
            _mm256_add_epi32(madd::<0>(bright, u, self.green[0]), madd::<0>(v, nothing, self.green[1])),
            _mm256_add_epi32(madd::<1>(bright, u, self.green[0]), madd::<1>(v, nothing, self.green[1])),
        ];
        let blue = [
            _mm256_add_epi32(madd::<0>(bright, u, self.blue[0]), madd::<0>(u, nothing, self.blue[1])),
            _mm256_add_epi32(madd::<1>(bright, u, self.blue[0]), madd::<1>(u, nothing, self.blue[1])),
        ];
        [self.bytes(red), self.bytes(green), self.bytes(blue)]
    }

    /// Sums of two groups of eight pixels, as `unpack` groups them, to bytes in order.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn bytes(&self, sums: [__m256i; 2]) -> __m128i {
        let [low, high] = sums.map(|sum| _mm256_sra_epi32(_mm256_add_epi32(sum, self.half), self.shift));
        let words = _mm256_packs_epi32(low, high);
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn pair(first: i32, second: i32) -> __m256i {
    _mm256_set1_epi32((first & 0xFFFF) | second << 16)
}

/// `a` and `b` times a pair of weights, added; the lower or upper half of each group of eight.
#[target_feature(enable = "avx2")]
#[inline]
fn madd<const HIGH: usize>(a: __m256i, b: __m256i, weights: __m256i) -> __m256i {
    let pairs = if HIGH == 0 { _mm256_unpacklo_epi16(a, b) } else { _mm256_unpackhi_epi16(a, b) };
    _mm256_madd_epi16(pairs, weights)
}

/// Writes sixteen pixels of three bytes.
///
/// # Safety
/// There is room for 48 bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store(levels: [__m128i; 3], to: *mut u8) {
    for (part, places) in PLACES.iter().enumerate() {
        let mut bytes = _mm_setzero_si128();
        for (level, place) in levels.iter().zip(places) {
            // SAFETY: a table of sixteen bytes is read.
            let place = unsafe { _mm_loadu_si128(place.as_ptr().cast()) };
            bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(*level, place));
        }
        // SAFETY: the caller's promise: three times sixteen bytes.
        unsafe { _mm_storeu_si128(to.add(STEP * part).cast(), bytes) };
    }
}

/// Which pixel each byte of a third of the output comes from, for red, green and blue; 128 where it is another's.
const PLACES: [[[u8; 16]; 3]; 3] = {
    let mut places = [[[128; 16]; 3]; 3];
    let mut byte = 0;
    while byte < 48 {
        places[byte / 16][byte % 3][byte % 16] = (byte / 3) as u8;
        byte += 1;
    }
    places
};
