//! The same for x86-64 with AVX2. Places are found in blocks, of which the compiler makes vectors; eight pixels blend
//! together where all their neighbours are there, the others one by one.

use std::arch::x86_64::*;

use super::{Field, Outside, Sample, scalar};
use crate::{ImageRef, WarpFilter};

/// Pixels whose places are found together.
const BLOCK: usize = 64;

/// Pixels that blend together.
const LANES: usize = 8;

/// # Safety
///
/// Needs AVX2; `from` has four bytes per pixel.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn row(sample: &Sample, field: &Field, from: ImageRef<'_>, y: u32, row: &mut [u8]) {
    let blends = sample.filter != WarpFilter::Nearest && from.size.width > 1 && from.size.height > 1;
    if !blends || !is_reachable(from) {
        return scalar::row(sample, field, from, y, row);
    }
    let offsets = field.row(y);
    let (mut across, mut down) = ([0.0; BLOCK], [0.0; BLOCK]);
    for (block, pixels) in row.chunks_mut(BLOCK * 4).enumerate() {
        let count = pixels.len() / 4;
        let places = (&mut across[..count], &mut down[..count]);
        scalar::places(sample, offsets, (block * BLOCK) as u32, y, places);
        let (across, down) = (across[..count].chunks(LANES), down[..count].chunks(LANES));
        for ((pixels, across), down) in pixels.chunks_mut(LANES * 4).zip(across).zip(down) {
            // SAFETY: the caller promises AVX2, and the image is reachable.
            unsafe { eight(from, sample.outside, across, down, pixels) };
        }
    }
}

/// Up to eight pixels.
///
/// # Safety
///
/// Needs AVX2, and an image of at least two columns and rows that [`is_reachable`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn eight(from: ImageRef<'_>, outside: Outside, across: &[f64], down: &[f64], pixels: &mut [u8]) {
    if let (Ok(across), Ok(down)) = (across.try_into(), down.try_into()) {
        let (columns, rows) = (
            Neighbours::new(across, from.size.width, outside),
            Neighbours::new(down, from.size.height, outside),
        );
        if let (Some(columns), Some(rows)) = (columns, rows) {
            // SAFETY: both lie inside; 32 bytes.
            return unsafe { blend(from, &columns, &rows, pixels.as_mut_ptr()) };
        }
    }
    for ((pixel, x), y) in pixels.chunks_exact_mut(4).zip(across).zip(down) {
        pixel.copy_from_slice(&scalar::bilinear(from, (*x, *y), outside));
    }
}

/// The first of two neighbours along an axis, and how far eight places lie from it towards the second.
struct Neighbours {
    first: __m256i,
    share: __m256,
}

impl Neighbours {
    /// `None` unless both neighbours of all eight are there.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(places: &[f64; LANES], length: u32, outside: Outside) -> Option<Self> {
        // SAFETY: eight numbers.
        let halves =
            unsafe { [_mm256_loadu_pd(places.as_ptr()), _mm256_loadu_pd(places.as_ptr().add(LANES / 2))] };
        let half = _mm256_set1_pd(0.5);
        let last = _mm256_set1_pd(f64::from(length - 1));
        let mut there = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
        let halves = halves.map(|place| {
            let at = _mm256_sub_pd(place, half);
            match outside {
                Outside::Fill(_) => at,
                // Numbers alone are ordered: what is none is left to the reference.
                Outside::Edge => {
                    there = _mm256_and_pd(there, _mm256_cmp_pd::<_CMP_ORD_Q>(at, at));
                    _mm256_min_pd(_mm256_max_pd(at, _mm256_setzero_pd()), last)
                }
                // The same sums as in the reference, which folds what is further out.
                Outside::Reflect => {
                    let folded = _mm256_add_pd(at, half);
                    let length = _mm256_set1_pd(f64::from(length));
                    let above = _mm256_cmp_pd::<_CMP_GE_OQ>(folded, _mm256_setzero_pd());
                    let below = _mm256_cmp_pd::<_CMP_LE_OQ>(folded, length);
                    there = _mm256_and_pd(there, _mm256_and_pd(above, below));
                    let at = _mm256_sub_pd(folded, half);
                    _mm256_min_pd(_mm256_max_pd(at, _mm256_setzero_pd()), last)
                }
            }
        });
        // A place on the last pixel lies a whole step from the one before.
        let first = |at: __m256d| {
            let floor = _mm256_floor_pd(at);
            let inner = _mm256_min_pd(floor, _mm256_sub_pd(last, _mm256_set1_pd(1.0)));
            if matches!(outside, Outside::Fill(_)) { floor } else { inner }
        };
        let floors = halves.map(first);
        for floor in floors {
            let above = _mm256_cmp_pd::<_CMP_GE_OQ>(floor, _mm256_setzero_pd());
            let below = _mm256_cmp_pd::<_CMP_LT_OQ>(floor, last);
            there = _mm256_and_pd(there, _mm256_and_pd(above, below));
        }
        let share = |at: usize| _mm256_cvtpd_ps(_mm256_sub_pd(halves[at], floors[at]));
        (_mm256_movemask_pd(there) == 15).then(|| Neighbours {
            first: _mm256_set_m128i(_mm256_cvttpd_epi32(floors[1]), _mm256_cvttpd_epi32(floors[0])),
            share: _mm256_set_m128(share(1), share(0)),
        })
    }
}

/// Eight pixels whose neighbours are all there.
///
/// # Safety
///
/// Needs AVX2, places inside an image that [`is_reachable`], and 32 writable bytes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn blend(from: ImageRef<'_>, columns: &Neighbours, rows: &Neighbours, to: *mut u8) {
    let one = _mm256_set1_ps(1.0);
    let (dx, dy) = (columns.share, rows.share);
    let (ex, ey) = (_mm256_sub_ps(one, dx), _mm256_sub_ps(one, dy));
    let weights =
        [_mm256_mul_ps(ex, ey), _mm256_mul_ps(dx, ey), _mm256_mul_ps(ex, dy), _mm256_mul_ps(dx, dy)];
    let upper = _mm256_mullo_epi32(rows.first, _mm256_set1_epi32(from.stride as i32));
    let mut offsets = [0i32; LANES];
    // SAFETY: eight numbers of 32 bits.
    unsafe {
        _mm256_storeu_si256(
            offsets.as_mut_ptr().cast(),
            _mm256_add_epi32(upper, _mm256_slli_epi32::<2>(columns.first)),
        );
    }
    let pixels = from.bytes.as_ptr();
    let two = |pair: usize| {
        let spread =
            _mm256_add_epi32(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_set1_epi32(2 * pair as i32));
        // SAFETY: the caller promises that the pixels at these offsets, the next ones and those below are there.
        unsafe {
            let (one, other) =
                (pixels.add(offsets[2 * pair] as usize), pixels.add(offsets[2 * pair + 1] as usize));
            let [a, b] = neighbours(one, other);
            let [c, d] = neighbours(one.add(from.stride), other.add(from.stride));
            let mut sum = _mm256_setzero_ps();
            for (values, weight) in [a, b, c, d].into_iter().zip(weights) {
                let weight = _mm256_permutevar8x32_ps(weight, spread);
                sum = _mm256_add_ps(sum, _mm256_mul_ps(values, weight));
            }
            _mm256_cvtps_epi32(sum)
        }
    };
    // Packing works within halves: pixels 0 2 4 6 and 1 3 5 7.
    let low = _mm256_packs_epi32(two(0), two(1));
    let high = _mm256_packs_epi32(two(2), two(3));
    let mixed = _mm256_packus_epi16(low, high);
    let ordered = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    let made = _mm256_or_si256(ordered, _mm256_set1_epi32(0xFF << 24));
    // SAFETY: the caller promises 32 bytes.
    unsafe { _mm256_storeu_si256(to.cast(), made) };
}

/// Two pixels side by side, and the two to the right of them, as floats.
///
/// # Safety
///
/// Needs AVX2 and eight readable bytes at each.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn neighbours(one: *const u8, other: *const u8) -> [__m256; 2] {
    // SAFETY: the caller promises them.
    let four = unsafe { _mm_unpacklo_epi32(_mm_loadl_epi64(one.cast()), _mm_loadl_epi64(other.cast())) };
    let float = |bytes: __m128i| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    [float(four), float(_mm_srli_si128::<8>(four))]
}

/// Whether offsets into an image of four bytes per pixel fit 32 bits with a sign, and all of it is there.
fn is_reachable(from: ImageRef<'_>) -> bool {
    let reach = (from.size.height as usize).saturating_sub(1) * from.stride + from.size.width as usize * 4;
    i32::try_from(reach).is_ok() && reach <= from.bytes.len()
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn scaled(values: &[f32], weight: f32, out: &mut [f32]) {
    scalar::scaled(values, weight, out);
}

/// # Safety
///
/// Needs AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn add_pair(one: &[f32], other: &[f32], weight: f32, out: &mut [f32]) {
    scalar::add_pair(one, other, weight, out);
}
