//! Dequantisation and inverse DCT, bit for bit what libjpeg-turbo's accurate integer transform (ISLOW) gives.
//!
//! libjpeg-turbo's SIMD code works in 16 bits between its passes: products wrap, sums saturate. Valid files never come
//! near those limits, but damaged ones do, and their pixels must not depend on the decoder. So every kernel here,
//! including the scalar one, has exactly that SIMD code's arithmetic, including overflow:
//!
//! - `coefficient * quantiser` wraps to 16 bits;
//! - when rows 1 to 7 of a block are all zero, the first pass is row 0 shifted left by 2, wrapping;
//! - otherwise sums inside the first pass wrap to 16 bits where noted, and its result saturates to 16 bits;
//! - the second pass saturates to 16 bits, then to 8.
//!
//! Reduced sizes (4, 2 and 1 samples across) follow `jidctred` the same way.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_reduced;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::CpuLevel;

/// Quantised coefficients of one block in natural (row by row) order.
pub(crate) type Block = [i16; 64];

/// A quantisation table in natural order. 16-bit tables wrap as they do in libjpeg-turbo.
pub(crate) type Quant = [i16; 64];

/// Neighbouring blocks of one component in the image, selected from a run of MCUs.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Coefficients, starting with the first selected block.
    pub(crate) blocks: &'a [Block],
    /// Number of blocks of all components in one MCU.
    pub(crate) per_mcu: usize,
    /// Number of blocks of this component side by side in one MCU.
    pub(crate) across: usize,
    /// Number of blocks to transform.
    pub(crate) count: usize,
}

impl<'a> Run<'a> {
    /// The blocks from left to right.
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = &'a Block> + use<'a> {
        let (blocks, per_mcu, across) = (self.blocks, self.per_mcu, self.across);
        // Counted instead of divided: a division takes longer than a tenth of a transform.
        let (mut first, mut within) = (0, 0);
        (0..self.count).map(move |_| {
            let block = &blocks[first + within];
            within += 1;
            if within == across {
                within = 0;
                first += per_mcu;
            }
            block
        })
    }
}

/// Transforms `run` into `size` rows of `run.count * size` samples, `stride` bytes apart.
///
/// # Panics
/// If `out` is too short or `size` is not 8, 4, 2 or 1, which is a bug of the caller.
pub(crate) fn transform(
    level: CpuLevel,
    size: usize,
    run: &Run<'_>,
    quant: &Quant,
    out: &mut [u8],
    stride: usize,
) {
    assert!(matches!(size, 1 | 2 | 4 | 8) && stride >= run.count * size, "geometry of an inverse DCT");
    assert!(out.len() >= (size - 1) * stride + run.count * size, "room for an inverse DCT");
    match (level, size) {
        #[cfg(target_arch = "x86_64")]
        (CpuLevel::Avx512, 8) => {
            // SAFETY: the level says that this CPU has AVX-512, and the length was just checked.
            unsafe { avx512::full(run, quant, out, stride) }
        }
        #[cfg(target_arch = "x86_64")]
        (CpuLevel::Avx2, 8) => {
            // SAFETY: the level says that this CPU has AVX2, and the length was just checked.
            unsafe { avx2::full(run, quant, out, stride) }
        }
        #[cfg(target_arch = "x86_64")]
        (CpuLevel::Avx2 | CpuLevel::Avx512, 4) => {
            // SAFETY: the level says that this CPU has AVX2, and the length was just checked.
            unsafe { avx2_reduced::half(run, quant, out, stride) }
        }
        #[cfg(target_arch = "x86_64")]
        (CpuLevel::Avx2 | CpuLevel::Avx512, 2) => {
            // SAFETY: the level says that this CPU has AVX2.
            unsafe { avx2_reduced::quarter(run, quant, out, stride) }
        }
        #[cfg(target_arch = "aarch64")]
        (CpuLevel::Neon, 8) => {
            // SAFETY: the level says that this CPU has NEON.
            unsafe { neon::full(run, quant, out, stride) }
        }
        (_, 8) => scalar::full(run, quant, out, stride),
        (_, 4) => scalar::half(run, quant, out, stride),
        (_, 2) => scalar::quarter(run, quant, out, stride),
        _ => scalar::eighth(run, quant, out, stride),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(limit: i16, density: u32) -> impl Strategy<Value = Block> {
        prop::collection::vec((-limit..=limit, 0..8u32), 64).prop_map(move |values| {
            let mut block = [0; 64];
            for (slot, (value, keep)) in block.iter_mut().zip(values) {
                *slot = if keep < density { value } else { 0 };
            }
            block
        })
    }

    fn outcome(level: CpuLevel, blocks: &[Block], quant: &Quant) -> Vec<u8> {
        let run = Run { blocks, per_mcu: 1, across: 1, count: blocks.len() };
        let stride = blocks.len() * 8 + 3;
        let mut out = vec![0; stride * 32];
        for (room, size) in out.chunks_exact_mut(stride * 8).zip([8, 4, 2, 1]) {
            transform(level, size, &run, quant, room, stride);
        }
        out
    }

    proptest! {
        #[test]
        fn every_level_equals_scalar(
            blocks in prop::collection::vec(prop_oneof![
                block(40, 8), block(1023, 2), block(32767, 8), block(32767, 1), block(2000, 0)
            ], 1..11),
            quant in prop::collection::vec(prop_oneof![1..=255i16, any::<i16>()], 64),
            row_only in any::<u16>(),
        ) {
            let quant: Quant = quant.try_into().unwrap();
            let mut blocks = blocks;
            for (number, block) in blocks.iter_mut().enumerate() {
                if row_only >> number & 1 == 1 {
                    block[8..].fill(0);
                }
            }
            let expected = outcome(CpuLevel::Scalar, &blocks, &quant);
            for level in CpuLevel::available() {
                prop_assert_eq!(&outcome(level, &blocks, &quant), &expected);
            }
        }
    }

    #[test]
    fn a_block_of_nothing_is_mid_grey() {
        for (level, size) in CpuLevel::available().into_iter().zip([8, 4, 2, 1].into_iter().cycle()) {
            let run = Run { blocks: &[[0; 64]], per_mcu: 1, across: 1, count: 1 };
            let mut out = [0; 64];
            transform(level, size, &run, &[1; 64], &mut out, 8);
            assert_eq!(out[0], 128);
        }
    }
}
