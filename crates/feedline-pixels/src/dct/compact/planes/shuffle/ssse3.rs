//! The shuffle of SSSE3, for AMD's processors before Zen 3: they have AVX2, but take up to 300 cycles for a `pdep`.

use std::arch::x86_64::*;

use super::{Block, Lanes, Row};

/// # Safety
/// The CPU must have AVX2, and all of the blocks must be in the row.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) unsafe fn expand(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    // SAFETY: as above; AVX2 includes SSSE3 and SSE4.1.
    unsafe { super::expand::<Sixteen>(row, first, blocks) }
}

/// Only made inside `expand`, so the CPU has the instructions.
#[derive(Clone, Copy)]
struct Sixteen(__m128i);

impl Lanes for Sixteen {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller guarantees sixteen readable bytes; the load needs no alignment.
        Sixteen(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; 16]) {
        // SAFETY: sixteen writable bytes; the store needs no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), self.0) };
    }

    #[inline(always)]
    fn splat(value: u8) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_set1_epi8(value as i8) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_add_epi8(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_sub_epi8(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_and_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    fn ones(bits: u16) -> Self {
        // SAFETY: the CPU has SSSE3 where this type is used.
        unsafe {
            let each = _mm_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let halves = _mm_set_epi64x(0x0101_0101_0101_0101, 0);
            let spread = _mm_shuffle_epi8(_mm_set1_epi16(bits as i16), halves);
            Sixteen(_mm_cmpeq_epi8(_mm_and_si128(spread, each), each))
        }
    }

    #[inline(always)]
    fn join(low: [u8; 8], high: [u8; 8], offset: u8) -> Self {
        let offsets = u64::from(offset) * 0x0101_0101_0101_0101;
        // Indices and offset are too small for a carry from one byte to the next.
        let high = u64::from_le_bytes(high).wrapping_add(offsets);
        // SAFETY: every x86-64 CPU has SSE2.
        Sixteen(unsafe { _mm_set_epi64x(high as i64, i64::from_le_bytes(low)) })
    }

    #[inline(always)]
    fn pick(self, indices: Self) -> Self {
        // SAFETY: the CPU has SSSE3 where this type is used.
        Sixteen(unsafe { _mm_shuffle_epi8(self.0, indices.0) })
    }

    #[inline(always)]
    fn widen(self, to: &mut [i16; 16]) {
        // SAFETY: the CPU has SSE4.1 where this type is used; sixteen writable numbers; the stores need no alignment.
        unsafe {
            let to: *mut __m128i = to.as_mut_ptr().cast();
            _mm_storeu_si128(to, _mm_cvtepi8_epi16(self.0));
            _mm_storeu_si128(to.add(1), _mm_cvtepi8_epi16(_mm_srli_si128::<8>(self.0)));
        }
    }

    #[inline(always)]
    fn pair(self, upper: Self, sign: Self, to: &mut [i16; 16]) {
        // SAFETY: every x86-64 CPU has SSE2; sixteen writable numbers; the stores need no alignment.
        unsafe {
            let to: *mut __m128i = to.as_mut_ptr().cast();
            let low = (_mm_unpacklo_epi8(self.0, upper.0), _mm_unpacklo_epi8(sign.0, sign.0));
            let high = (_mm_unpackhi_epi8(self.0, upper.0), _mm_unpackhi_epi8(sign.0, sign.0));
            _mm_storeu_si128(to, _mm_sub_epi16(_mm_xor_si128(low.0, low.1), low.1));
            _mm_storeu_si128(to.add(1), _mm_sub_epi16(_mm_xor_si128(high.0, high.1), high.1));
        }
    }
}
