//! Expands half blocks (four rows of eight coefficients) from their packed form.
//!
//! A half block is one byte whose low four bits say which rows have coefficients, one mask byte for each such row, then
//! the coefficients as signed bytes. No branch depends on any of it: a table turns a row's mask into a
//! shuffle that puts its bytes in place.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use crate::CpuLevel;
use crate::cpu::dispatch;
use crate::jpeg::idct::Block;

/// Size of the largest half block: presence byte, four masks, 32 values.
pub(super) const LARGEST: usize = 1 + 4 + 32;

/// Number of bytes that must exist from the start of any half block, because values are read eight at a time.
pub(super) const SLACK: usize = 48;

/// Expands half blocks from `data` into rows `first_row..first_row + 4` of each of `blocks`. `None` if data end early.
pub(super) fn rows(level: CpuLevel, data: &[u8], first_row: usize, blocks: &mut [Block]) -> Option<()> {
    assert!(first_row == 0 || first_row == 4, "half blocks start at row 0 or 4");
    dispatch!(all: level, rows(data, first_row, blocks))
}

/// The half block at `at`: a view of fixed length, so that reads inside it need no checks.
#[inline(always)]
fn window(data: &[u8], at: usize) -> Option<&[u8; SLACK]> {
    data.get(at..)?.first_chunk()
}

/// The masks of four rows, zero for absent ones, and the number of bytes of presence and masks.
#[inline(always)]
fn masks(window: &[u8; SLACK]) -> ([u8; 4], usize) {
    let presence = window[0] & 15;
    let mut masks = [0; 4];
    let mut at = 1;
    for (row, mask) in masks.iter_mut().enumerate() {
        let present = (presence >> row) & 1;
        *mask = window[at & 7] & present.wrapping_neg();
        at += usize::from(present);
    }
    (masks, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_level_equals_scalar(data in prop::collection::vec(any::<u8>(), 0..400), high in any::<bool>()) {
            let outcome = |level| {
                let mut blocks = vec![[7; 64]; 4];
                let done = rows(level, &data, if high { 4 } else { 0 }, &mut blocks);
                done.map(|()| blocks)
            };
            let expected = outcome(CpuLevel::Scalar);
            for level in CpuLevel::available() {
                prop_assert_eq!(&outcome(level), &expected);
            }
        }
    }
}
