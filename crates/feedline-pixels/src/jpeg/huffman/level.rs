//! The decoding loops, compiled once for every CPU and once for those with BMI2, whose three-operand shifts save a
//! fifth of the time. The source is the same and safe; only the instruction set differs.

use super::{Irregular, Job, Predictors, Reader, ScanTables, block, lanes, skip_block};
use crate::CpuLevel;
use crate::jpeg::idct::Block;

/// Decodes whole MCUs into `blocks`.
pub(crate) fn decode_mcus(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    blocks: &mut [Block],
) -> Result<(), Irregular> {
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2 and BMI2.
            unsafe { bmi2::decode_mcus(tables, reader, predictors, blocks) }
        }
        _ => decode_mcus_here(tables, reader, predictors, blocks),
    }
}

/// Skips `count` MCUs.
pub(crate) fn skip_mcus(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    count: usize,
) -> Result<(), Irregular> {
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2 and BMI2.
            unsafe { bmi2::skip_mcus(tables, reader, predictors, count) }
        }
        _ => skip_mcus_here(tables, reader, predictors, count),
    }
}

/// Decodes all jobs, several at a time.
pub(crate) fn decode_jobs<'a>(
    level: CpuLevel,
    tables: &ScanTables<'_>,
    jobs: impl Iterator<Item = Job<'a>>,
) -> Result<(), Irregular> {
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2 and BMI2.
            unsafe { bmi2::decode_jobs(tables, jobs) }
        }
        _ => lanes::decode_jobs(tables, jobs),
    }
}

#[inline(always)]
fn decode_mcus_here(
    tables: &ScanTables<'_>,
    reader: &mut Reader<'_>,
    predictors: &mut Predictors,
    blocks: &mut [Block],
) -> Result<(), Irregular> {
    // Copies, so that they can stay in registers.
    let (mut bits, mut dc) = (reader.clone(), *predictors);
    for mcu in blocks.chunks_exact_mut(tables.slots.len()) {
        for (slot, coefficients) in tables.slots.iter().zip(mcu) {
            block(&mut bits, slot, &mut dc, coefficients)?;
        }
    }
    (*reader, *predictors) = (bits, dc);
    Ok(())
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

#[cfg(target_arch = "x86_64")]
mod bmi2 {
    use super::*;

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn decode_mcus(
        tables: &ScanTables<'_>,
        reader: &mut Reader<'_>,
        predictors: &mut Predictors,
        blocks: &mut [Block],
    ) -> Result<(), Irregular> {
        decode_mcus_here(tables, reader, predictors, blocks)
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn skip_mcus(
        tables: &ScanTables<'_>,
        reader: &mut Reader<'_>,
        predictors: &mut Predictors,
        count: usize,
    ) -> Result<(), Irregular> {
        skip_mcus_here(tables, reader, predictors, count)
    }

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn decode_jobs<'a>(
        tables: &ScanTables<'_>,
        jobs: impl Iterator<Item = Job<'a>>,
    ) -> Result<(), Irregular> {
        lanes::decode_jobs(tables, jobs)
    }
}
