//! The bit planes of a block's coefficients: what the writer's streams are cut from.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use super::planes::BITS;
use crate::CpuLevel;
use crate::cpu::dispatch;
use crate::jpeg::idct::Block;

/// Magnitudes below this have at most [`BITS`] bits.
const TOO_LARGE: i16 = 1 << BITS;

/// A block without its DC coefficient. Bits are coefficients in natural order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    /// Those that are negative.
    pub(super) sign: u64,
    /// Those whose magnitude has bit `i`.
    pub(super) planes: [u64; BITS],
}

impl Split {
    /// Those that are not zero.
    pub(super) fn nonzero(&self) -> u64 {
        self.planes.iter().fold(0, |all, plane| all | plane)
    }
}

/// Splits each of `blocks`. `None` if a magnitude has more than [`BITS`] bits.
pub(super) fn split(level: CpuLevel, blocks: &[Block], out: &mut [Split]) -> Option<()> {
    dispatch!(avx512: level, split(blocks, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(largest: i16) -> impl Strategy<Value = Vec<Block>> {
        let value = prop_oneof![6 => Just(0i16), 4 => -3i16..=3, 2 => -255i16..=255, 1 => -largest..=largest];
        let block = prop::collection::vec(value, 64).prop_map(|values| std::array::from_fn(|i| values[i]));
        prop::collection::vec(block, 1..5)
    }

    proptest! {
        #[test]
        fn every_level_equals_scalar(small in blocks(2047), large in blocks(i16::MAX), lowest in 0usize..64) {
            let mut extreme = small.clone();
            extreme[0][lowest] = i16::MIN;
            for blocks in [small, large, extreme] {
                let outcome = |level| {
                    let mut out = vec![Split::default(); blocks.len()];
                    split(level, &blocks, &mut out).map(|()| out)
                };
                let expected = outcome(CpuLevel::Scalar);
                for level in CpuLevel::available() {
                    prop_assert_eq!(&outcome(level), &expected);
                }
            }
        }
    }

    #[test]
    fn planes_are_the_bits_of_magnitudes() {
        let mut block = [0; 64];
        (block[0], block[1], block[9], block[63]) = (-5, -2047, 3, 256);
        let mut out = [Split::default()];
        split(CpuLevel::Scalar, &[block], &mut out).unwrap();
        assert_eq!(out[0].sign, 1 << 1);
        assert_eq!(out[0].planes[0], 1 << 1 | 1 << 9);
        assert_eq!(out[0].planes[8], 1 << 1 | 1 << 63);
        assert_eq!(out[0].nonzero(), 1 << 1 | 1 << 9 | 1 << 63);
        block[3] = -2048;
        assert!(split(CpuLevel::Scalar, &[block], &mut out).is_none());
    }
}
