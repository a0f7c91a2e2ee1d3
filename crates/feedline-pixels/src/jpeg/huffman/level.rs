//! The decoding loops, compiled once for every CPU and once for those with BMI2, whose three-operand shifts save a
//! fifth of the time. The source is the same and safe; only the instruction set differs.

use super::{Irregular, Job, Predictors, Reader, ScanTables, block, is_shortest, lanes, skip_block};
use crate::CpuLevel;
use crate::cpu::dispatch;
use crate::jpeg::idct::Block;

/// Decodes whole MCUs into `blocks`.
pub(crate) fn decode_mcus(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    blocks: &mut [Block],
) -> Result<(), Irregular> {
    dispatch!(level, decode_mcus(tables, reader, predictors, blocks))
}

/// The same; returns whether the blocks determine the codes: encoding them again with the same tables gives the same bits,
/// if no two codes of a table mean the same.
pub(crate) fn decode_mcus_and_compare(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    blocks: &mut [Block],
) -> Result<bool, Irregular> {
    dispatch!(level, decode_mcus_and_compare(tables, reader, predictors, blocks))
}

/// Skips `count` MCUs.
pub(crate) fn skip_mcus(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    count: usize,
) -> Result<(), Irregular> {
    dispatch!(level, skip_mcus(tables, reader, predictors, count))
}

/// Decodes all jobs, several at a time.
pub(crate) fn decode_jobs<'a>(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    jobs: impl Iterator<Item = Job<'a>>,
) -> Result<(), Irregular> {
    dispatch!(level, decode_jobs(tables, jobs))
}

#[inline(always)]
fn decode_mcus_here<const COMPARE: bool>(
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    blocks: &mut [Block],
) -> Result<bool, Irregular> {
    // Copies, so that they can stay in registers.
    let (mut bits, mut dc) = (reader.clone(), *predictors);
    let mut determined = true;
    for mcu in blocks.chunks_exact_mut(tables.slots.len()) {
        for (slot, coefficients) in tables.slots.iter().zip(mcu) {
            let index = block(&mut bits, slot, &mut dc, coefficients)?;
            if COMPARE {
                let kept = i32::from(coefficients[0]) == dc[slot.component];
                determined &= kept & is_shortest(coefficients, index);
            }
        }
    }
    (*reader, *predictors) = (bits, dc);
    Ok(determined)
}

#[inline(always)]
fn skip_mcus_here(
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    count: usize,
) -> Result<(), Irregular> {
    let (mut bits, mut dc) = (reader.clone(), *predictors);
    // An MCU has at most ten blocks.
    let mut skips = [tables.slots[0].ac.skipping(); 10];
    for (skip, slot) in skips.iter_mut().zip(&tables.slots) {
        *skip = slot.ac.skipping();
    }
    for _ in 0..count {
        for (slot, skip) in tables.slots.iter().zip(skips) {
            skip_block(&mut bits, slot, skip, &mut dc)?;
        }
    }
    (*reader, *predictors) = (bits, dc);
    Ok(())
}

/// The loops, compiled with the given features.
macro_rules! compiled {
    ($(#[$features:meta])?) => {
        use super::*;

        $(#[$features])?
        pub(super) fn decode_mcus(
            tables: &ScanTables<'_>,
            reader: &mut Reader<'_>,
            predictors: &mut Predictors,
            blocks: &mut [Block],
        ) -> Result<(), Irregular> {
            decode_mcus_here::<false>(tables, reader, predictors, blocks).map(|_| ())
        }

        $(#[$features])?
        pub(super) fn decode_mcus_and_compare(
            tables: &ScanTables<'_>,
            reader: &mut Reader<'_>,
            predictors: &mut Predictors,
            blocks: &mut [Block],
        ) -> Result<bool, Irregular> {
            decode_mcus_here::<true>(tables, reader, predictors, blocks)
        }

        $(#[$features])?
        pub(super) fn skip_mcus(
            tables: &ScanTables<'_>,
            reader: &mut Reader<'_>,
            predictors: &mut Predictors,
            count: usize,
        ) -> Result<(), Irregular> {
            skip_mcus_here(tables, reader, predictors, count)
        }

        $(#[$features])?
        pub(super) fn decode_jobs<'a>(
            tables: &ScanTables<'_>,
            jobs: impl Iterator<Item = Job<'a>>,
        ) -> Result<(), Irregular> {
            lanes::decode_jobs(tables, jobs)
        }
    };
}

mod scalar {
    compiled!();
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    compiled!(#[target_feature(enable = "avx2,bmi2")]);
}
