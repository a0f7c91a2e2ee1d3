//! Entropy decoding of the four kinds of scans. All loops are safe code, compiled once for every CPU and once with BMI2.

use std::ops::Range;

use super::super::huffman::{
    AcTable, DcTable, END_OF_BLOCK, Irregular, Reader, RefineTable, advance, difference, value,
};
use super::super::idct::Block;
use super::super::parse::{Scan, ZIGZAG};
use super::bits::{Portable, Spread};
use super::store::{Place, block_of};
use crate::CpuLevel;
use crate::cpu::{dispatch, level_with_pdep};

/// Bit of the first coefficient in [`Place::present`].
const TOP: u64 = 1 << 63;

/// The coefficients of a scan.
pub(super) struct Band {
    start: u32,
    end: u32,
    low: u32,
    /// Their bits in [`Place::present`].
    mask: u64,
    /// Natural position by zig-zag index. What lies past the band goes to position 0: DC is kept elsewhere.
    natural: [u8; 256],
}

impl Band {
    pub(super) fn new(scan: &Scan) -> Self {
        let (start, end) = (u32::from(scan.band.0.min(63)), u32::from(scan.band.1.min(63)));
        let mask = (u64::MAX >> start) & (u64::MAX << (63 - end));
        let mut natural = [0; 256];
        natural[..=end as usize].copy_from_slice(&ZIGZAG[..=end as usize]);
        Band { start, end, low: u32::from(scan.low), mask, natural }
    }

    #[inline(always)]
    fn place(&self, index: u32) -> usize {
        usize::from(self.natural[(index & 255) as usize] & 63)
    }
}

/// State of the decoder inside a restart interval.
pub(super) struct State<'a> {
    reader: Reader<'a>,
    predictors: [i32; 3],
    /// Number of blocks to come that have nothing new in this scan.
    run: u32,
}

/// Predictors that no regular file has; far from where they would overflow.
const MAX_PREDICTOR: u32 = 1 << 24;

impl<'a> State<'a> {
    /// Starts at the first bit of `data`, which ends in padding.
    pub(super) fn new(data: &'a [u8]) -> Result<Self, Irregular> {
        Ok(State { reader: Reader::new(data, 0)?, predictors: [0; 3], run: 0 })
    }

    /// An error if more was read than `length` bytes: the data ended early.
    pub(super) fn check(&self, length: usize) -> Result<(), Irregular> {
        if self.reader.position() > length * 8 { Err(Irregular) } else { Ok(()) }
    }
}

/// The blocks of one place in an MCU: those of column `x` are at `first + x * step`.
pub(super) struct DcSlot<'t> {
    pub(super) predictor: usize,
    /// `None` in a scan that refines.
    pub(super) table: Option<&'t DcTable>,
    pub(super) first: usize,
    pub(super) step: usize,
}

/// Decodes the upper bits of DC coefficients, of the MCUs `columns` of a row.
pub(super) fn dc_first(
    level: CpuLevel,
    state: &mut State<'_>,
    slots: &[DcSlot<'_>],
    low: u8,
    columns: Range<usize>,
    places: &mut [Place],
) -> Result<(), Irregular> {
    dispatch!(level, dc_first(state, slots, low, columns, places))
}

/// Decodes one more bit of DC coefficients, of the MCUs `columns` of a row.
pub(super) fn dc_refine(
    state: &mut State<'_>,
    slots: &[DcSlot<'_>],
    low: u8,
    columns: Range<usize>,
    places: &mut [Place],
) -> Result<(), Irregular> {
    for column in columns {
        state.reader.begin_block()?;
        state.reader.refill();
        // At most ten bits.
        for slot in slots {
            let place = places.get_mut(slot.first + column * slot.step).ok_or(Irregular)?;
            place.dc |= (state.reader.take(1) as i16) << low;
        }
    }
    Ok(())
}

/// Decodes the upper bits of AC coefficients.
pub(super) fn ac_first(
    level: CpuLevel,
    state: &mut State<'_>,
    table: &AcTable<true>,
    band: &Band,
    places: &mut [Place],
    blocks: &mut Vec<Block>,
) -> Result<(), Irregular> {
    dispatch!(level, ac_first(state, table, band, places, blocks))
}

/// Decodes one more bit of AC coefficients.
pub(super) fn ac_refine(
    level: CpuLevel,
    state: &mut State<'_>,
    table: &RefineTable,
    band: &Band,
    places: &mut [Place],
    blocks: &mut Vec<Block>,
) -> Result<(), Irregular> {
    dispatch!(level_with_pdep(level), ac_refine(state, table, band, places, blocks))
}

#[inline(always)]
fn dc_first_here(
    state: &mut State<'_>,
    slots: &[DcSlot<'_>],
    low: u8,
    columns: Range<usize>,
    places: &mut [Place],
) -> Result<(), Irregular> {
    let mut reader = state.reader.clone();
    for column in columns {
        for slot in slots {
            reader.begin_block()?;
            reader.refill();
            let difference = difference(&mut reader, slot.table.ok_or(Irregular)?)?;
            let predictor = &mut state.predictors[slot.predictor];
            *predictor = predictor.wrapping_add(difference);
            let place = places.get_mut(slot.first + column * slot.step).ok_or(Irregular)?;
            place.dc = (*predictor << low) as i16;
        }
    }
    state.reader = reader;
    // A row cannot move them so far that they overflow.
    let regular = state.predictors.iter().all(|p| p.unsigned_abs() < MAX_PREDICTOR);
    if regular { Ok(()) } else { Err(Irregular) }
}

#[inline(always)]
fn ac_first_here(
    state: &mut State<'_>,
    table: &AcTable<true>,
    band: &Band,
    places: &mut [Place],
    blocks: &mut Vec<Block>,
) -> Result<(), Irregular> {
    // A copy, so that it can stay in registers.
    let mut reader = state.reader.clone();
    let mut at = state.run as usize;
    while let Some(place) = places.get_mut(at) {
        at += 1;
        reader.begin_block()?;
        reader.refill();
        let entry = table.lookup(reader.bits());
        let mut end = advance(entry as u32);
        if end < END_OF_BLOCK {
            let mut block = FirstBlock::new(band, block_of(place, blocks)?);
            end = block.decode(&mut reader, table, entry)?;
            place.present |= block.present & band.mask;
        } else {
            // Nothing but an end of block: the block's memory is not touched.
            reader.consume(entry as u32);
        }
        at += run_of_blocks(&mut reader, end) as usize;
    }
    state.reader = reader;
    state.run = (at - places.len()) as u32;
    Ok(())
}

/// A block with at least one coefficient in a first scan.
struct FirstBlock<'a> {
    band: &'a Band,
    block: &'a mut Block,
    index: u32,
    present: u64,
}

impl<'a> FirstBlock<'a> {
    #[inline(always)]
    fn new(band: &'a Band, block: &'a mut Block) -> Self {
        FirstBlock { band, block, index: band.start - 1, present: 0 }
    }

    /// Decodes the coefficients from `entry` on. Returns the advance of the end-of-block, or zero if there is none.
    #[inline(always)]
    fn decode(
        &mut self,
        reader: &mut Reader<'_>,
        table: &AcTable<true>,
        entry: u64,
    ) -> Result<u32, Irregular> {
        let mut entry = entry;
        // Each refill is enough for two entries.
        loop {
            if let Some(end) = self.take(reader, entry)? {
                return Ok(end);
            }
            if let Some(end) = self.take(reader, table.lookup(reader.bits()))? {
                return Ok(end);
            }
            reader.refill();
            entry = table.lookup(reader.bits());
        }
    }

    /// Takes one or two coefficients; at the block's end the advance of its end-of-block.
    #[inline(always)]
    fn take(&mut self, reader: &mut Reader<'_>, entry: u64) -> Result<Option<u32>, Irregular> {
        let before = reader.here();
        let (first, second) = (entry as u32, (entry >> 32) as u32);
        reader.consume(first);
        let at = self.index + advance(first);
        self.write(at, value(first));
        let present = self.present;
        self.index = at + advance(second);
        self.write(self.index, value(second));
        let last = self.band.end;
        if self.index < last {
            return Ok(None);
        }
        if at == last && self.index != last {
            // The first was already the block's last: the second belongs to the next block.
            self.present = present;
            reader.back_to(before);
            reader.consume((first & 63) - (second & 63));
            return Ok(Some(0));
        }
        if at >= END_OF_BLOCK {
            return Ok(Some(advance(first)));
        }
        if self.index >= END_OF_BLOCK && at < last {
            return Ok(Some(advance(second)));
        }
        if self.index == last { Ok(Some(0)) } else { Err(Irregular) }
    }

    #[inline(always)]
    fn write(&mut self, index: u32, value: i16) {
        self.block[self.band.place(index)] = value << self.band.low;
        // An end of block and a run of 16 zeros have the value zero.
        self.present |= (u64::from(value != 0) << 63) >> (index & 63);
    }
}

/// Reads for how many more blocks an end-of-block holds. `step` is its advance, or zero if there was none.
#[inline(always)]
fn run_of_blocks(reader: &mut Reader<'_>, step: u32) -> u32 {
    let size = step & 15;
    if size == 0 {
        return 0;
    }
    reader.refill();
    (1 << size) - 1 + reader.take(size) as u32
}

#[inline(always)]
fn ac_refine_here<S: Spread>(
    state: &mut State<'_>,
    table: &RefineTable,
    band: &Band,
    places: &mut [Place],
    blocks: &mut Vec<Block>,
) -> Result<(), Irregular> {
    let mut reader = state.reader.clone();
    let mut run = state.run;
    for place in places {
        let known = place.present & band.mask;
        if run > 0 {
            run -= 1;
            if known != 0 {
                reader.begin_block()?;
                let fixes = corrections::<S>(&mut reader, known);
                correct(block_of(place, blocks)?, fixes, band);
            }
            continue;
        }
        reader.begin_block()?;
        reader.refill();
        let entry = table.lookup(reader.bits());
        if known == 0 && advance(entry) >= END_OF_BLOCK {
            reader.consume(entry);
            run = run_of_blocks(&mut reader, advance(entry));
            continue;
        }
        let block = block_of(place, blocks)?;
        let (present, end) = refine_block::<S>(&mut reader, table, band, known, block)?;
        place.present |= present;
        run = end;
    }
    (state.reader, state.run) = (reader, run);
    Ok(())
}

/// Refines one block whose coefficients `known` are not zero. Returns the bits of the new ones, and for how many more
/// blocks its end holds.
#[inline(always)]
fn refine_block<S: Spread>(
    reader: &mut Reader<'_>,
    table: &RefineTable,
    band: &Band,
    known: u64,
    block: &mut Block,
) -> Result<(u64, u32), Irregular> {
    let (mut rest, mut fixes, mut new, mut run) = (band.mask, 0, 0, 0);
    while rest != 0 {
        reader.refill();
        let entry = table.lookup(reader.bits());
        reader.consume(entry);
        let step = advance(entry);
        if step >= END_OF_BLOCK {
            run = run_of_blocks(reader, step);
            fixes |= corrections::<S>(reader, rest & known);
            break;
        }
        // The place is the `step`-th of those that are still zero; those known on the way are refined.
        let zeros = rest & !known;
        let count = zeros.count_ones();
        if step > count {
            return Err(Irregular);
        }
        let place = S::select(zeros, count - step);
        fixes |= corrections::<S>(reader, rest & known & !(place - 1));
        block[band.place(place.leading_zeros())] = value(entry) << band.low;
        new |= if value(entry) == 0 { 0 } else { place };
        rest &= place - 1;
    }
    correct(block, fixes, band);
    Ok((new, run))
}

/// Reads one bit for each of the coefficients in `mask`; returns those whose bit is set.
#[inline(always)]
fn corrections<S: Spread>(reader: &mut Reader<'_>, mask: u64) -> u64 {
    let count = mask.count_ones();
    reader.refill();
    if count > 32 {
        return many_corrections::<S>(reader, mask);
    }
    S::deposit(reader.take(count), mask)
}

#[inline(always)]
fn many_corrections<S: Spread>(reader: &mut Reader<'_>, mask: u64) -> u64 {
    let first = reader.take(mask.count_ones() - 32);
    reader.refill();
    S::deposit((first << 32) | reader.take(32), mask)
}

/// Sets the scan's bit in the magnitude of the coefficients in `fixes`.
#[inline(always)]
fn correct(block: &mut Block, mut fixes: u64, band: &Band) {
    while fixes != 0 {
        let index = fixes.leading_zeros();
        fixes ^= TOP >> index;
        let coefficient = &mut block[band.place(index)];
        let sign = *coefficient >> 15;
        *coefficient = coefficient.wrapping_add(((1 << band.low) ^ sign) - sign);
    }
}

/// The loops, compiled with the given features; `$spread` is how these CPUs spread bits over a mask.
macro_rules! compiled {
    ($spread:ty $(, #[$features:meta])?) => {
        use super::*;

        $(#[$features])?
        pub(super) fn dc_first(
            state: &mut State<'_>,
            slots: &[DcSlot<'_>],
            low: u8,
            columns: Range<usize>,
            places: &mut [Place],
        ) -> Result<(), Irregular> {
            dc_first_here(state, slots, low, columns, places)
        }

        $(#[$features])?
        pub(super) fn ac_first(
            state: &mut State<'_>,
            table: &AcTable<true>,
            band: &Band,
            places: &mut [Place],
            blocks: &mut Vec<Block>,
        ) -> Result<(), Irregular> {
            ac_first_here(state, table, band, places, blocks)
        }

        $(#[$features])?
        pub(super) fn ac_refine(
            state: &mut State<'_>,
            table: &RefineTable,
            band: &Band,
            places: &mut [Place],
            blocks: &mut Vec<Block>,
        ) -> Result<(), Irregular> {
            ac_refine_here::<$spread>(state, table, band, places, blocks)
        }
    };
}

mod scalar {
    compiled!(Portable);
}

/// The same, compiled for CPUs with BMI2.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::bits::Pdep;

    compiled!(Pdep, #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]);
}
