//! Folds 256 bytes at a time: bytes are a polynomial over bits, and multiplying a register's by a power of x moves them over
//! those that follow, without changing the remainder. Sixteen bytes are left for the usual way.

use std::arch::x86_64::*;

/// Fewer bytes are summed faster without.
pub(super) const LEAST: usize = 1024;

const BLOCK: usize = 256;

/// The polynomial without its highest power, highest power first.
const POLYNOMIAL: u32 = 0x1EDC_6F41;

/// The remainder of x to the power of `n`, in the order of bits that CRCs have in memory.
const fn power(n: u32) -> i64 {
    let (mut remainder, mut i) = (1u32, 0);
    while i < n {
        let over = remainder >> 31;
        remainder = (remainder << 1) ^ (POLYNOMIAL * over);
        i += 1;
    }
    (remainder.reverse_bits() as i64) << 1
}

/// Factors that move the lower and the upper half of 16 bytes by `bits` bits.
const fn factors(bits: u32) -> [i64; 2] {
    [power(bits + 32), power(bits - 32)]
}

const BY_BLOCK: [i64; 2] = factors(8 * BLOCK as u32);
const BY_REGISTER: [i64; 2] = factors(512);
const BY_QUARTER: [i64; 2] = factors(128);

/// # Safety
/// The CPU must have AVX-512 F and VPCLMULQDQ.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq")]
pub(super) unsafe fn append(before: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let Some((first, blocks)) = blocks.split_first() else { return super::scalar::append(before, bytes) };
    let mut sums = load(first);
    let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!before as i32));
    sums[0] = _mm512_xor_si512(sums[0], start);
    let factors = spread(BY_BLOCK);
    for block in blocks {
        let more = load(block);
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum = fold(*sum, factors, more);
        }
    }
    let factors = spread(BY_REGISTER);
    let [a, b, c, d] = sums;
    let all = fold(fold(fold(a, factors, b), factors, c), factors, d);
    // Sixteen bytes with the same remainder as all before: the usual way continues with them, from zero.
    let left = quarters(all);
    super::scalar::append(super::scalar::append(!0, &left), rest)
}

#[target_feature(enable = "avx512f")]
fn load(block: &[u8; BLOCK]) -> [__m512i; 4] {
    let mut registers = [_mm512_setzero_si512(); 4];
    for (register, part) in registers.iter_mut().zip(block.as_chunks::<64>().0) {
        // SAFETY: 64 readable bytes; the load needs no alignment.
        *register = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
    }
    registers
}

#[target_feature(enable = "avx512f")]
fn spread(factors: [i64; 2]) -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(factors[1], factors[0]))
}

/// Moves `sum` over `more`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(sum: __m512i, factors: __m512i, more: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, factors);
    _mm512_ternarylogic_epi64::<0x96>(low, high, more)
}

/// Folds the four quarters of a register.
#[target_feature(enable = "avx512f,pclmulqdq")]
fn quarters(all: __m512i) -> [u8; 16] {
    let factors = _mm_set_epi64x(BY_QUARTER[1], BY_QUARTER[0]);
    let parts = [
        _mm512_extracti32x4_epi32::<1>(all),
        _mm512_extracti32x4_epi32::<2>(all),
        _mm512_extracti32x4_epi32::<3>(all),
    ];
    let mut sum = _mm512_castsi512_si128(all);
    for part in parts {
        let low = _mm_clmulepi64_si128::<0x00>(sum, factors);
        let high = _mm_clmulepi64_si128::<0x11>(sum, factors);
        sum = _mm_xor_si128(_mm_xor_si128(low, high), part);
    }
    let mut bytes = [0; 16];
    // SAFETY: 16 writable bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), sum) };
    bytes
}
