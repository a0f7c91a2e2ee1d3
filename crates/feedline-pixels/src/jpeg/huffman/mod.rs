//! Huffman decoding of blocks: tables with one lookup per coefficient, a bit reader that never reads single
//! bytes, and lanes that decode several independent pieces of a scan in one loop.
//!
//! All of it is safe Rust. Bounds checks vanish where an index is masked or comes out of a shift; the one that stays is
//! the reader's (one predictable comparison per eight bytes loaded).

mod lanes;
mod level;
mod reader;
mod table;

pub(crate) use lanes::Job;
pub(crate) use level::{decode_jobs, decode_mcus, decode_mcus_and_compare, skip_mcus};
pub(crate) use reader::{REACH, Reader};
pub(crate) use table::{AcTable, DcTable, END_OF_BLOCK, RefineTable, advance, is_tree, value};

use self::table::{SKIPS_IN_REFILL, SkipTable};
use super::idct::Block;
use super::parse::ZIGZAG;

/// The entropy-coded data are not a regular scan. libjpeg handles such data in its own ways, so the caller
/// must pass the file to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Irregular;

/// Tables of each block of an MCU, in order.
pub(crate) struct ScanTables<'a> {
    pub(crate) slots: Vec<Slot<'a>>,
}

/// Tables of one block of an MCU.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) component: usize,
    pub(crate) dc: &'a DcTable,
    pub(crate) ac: &'a AcTable,
}

/// DC predictors of up to three components.
pub(crate) type Predictors = [i32; 3];

/// Natural position by zig-zag index. Longer than a block: an end-of-block moves the index past 127 and writes its zero
/// to a place that is still zero; a run that is too long moves it to between 64 and 127, which is detected.
const NATURAL: [u8; 256] = {
    let mut table = [63; 256];
    let mut i = 0;
    while i < 64 {
        table[i] = ZIGZAG[i];
        i += 1;
    }
    table
};

/// Bit that is set in the zig-zag index of a finished block if it overran.
const OVERRUN: u32 = 64;

/// The last zig-zag index: at or past it a block is finished.
const LAST: u32 = 63;

/// Decodes one or two coefficients; `write` puts them into the block. Returns true if they were its last. Needs
/// [`table::MAX_AC_BITS`] bits in the reader.
#[inline(always)]
fn coefficients(
    reader: &mut Reader<'_>,
    ac: &AcTable,
    index: &mut u32,
    mut write: impl FnMut(u32, i16),
) -> Result<bool, Irregular> {
    let entry = ac.lookup(reader.bits());
    let (first, second) = (entry as u32, (entry >> 32) as u32);
    reader.consume(first);
    let at = *index + advance(first);
    write(at, value(first));
    *index = at + advance(second);
    write(*index, value(second));
    if *index < LAST {
        return Ok(false);
    }
    if at == LAST && *index != LAST {
        // The first was already the block's last: the second belongs to the next block.
        *reader = reader.clone().unread(second)?;
        *index = LAST;
        write(LAST, value(first));
    }
    Ok(true)
}

#[inline(always)]
fn natural(index: u32) -> usize {
    usize::from(NATURAL[(index & 255) as usize] & 63)
}

/// Decodes the difference of a DC coefficient. Needs [`table::MAX_DC_BITS`] bits in the reader.
#[inline(always)]
pub(crate) fn difference(reader: &mut Reader<'_>, dc: &DcTable) -> Result<i32, Irregular> {
    let bits = reader.bits();
    let entry = dc.lookup(bits);
    reader.consume(entry);
    DcTable::value(entry, bits).ok_or(Irregular)
}

/// Decodes one block. It is cleared here, just before it is written, rather than with all others beforehand. Returns
/// the index at its end.
#[inline(always)]
fn block(
    reader: &mut Reader<'_>,
    slot: &Slot<'_>,
    predictors: &mut Predictors,
    block: &mut Block,
) -> Result<u32, Irregular> {
    reader.begin_block()?;
    reader.refill();
    *block = [0; 64];
    let predictor = &mut predictors[slot.component];
    *predictor = predictor.wrapping_add(difference(reader, slot.dc)?);
    block[0] = *predictor as i16;
    ac_coefficients(reader, slot.ac, |index, value| block[natural(index)] = value)
}

/// Whether a decoded block has no codes that could be left out: the last code before its end, at `index`, gave a
/// coefficient. A run of sixteen zeros would have left a zero there.
#[inline(always)]
fn is_shortest(block: &Block, index: u32) -> bool {
    let last = index & LAST;
    last == 0 || block[natural(last)] != 0
}

/// Skips one block, keeping only what later ones depend on.
#[inline(always)]
fn skip_block(
    reader: &mut Reader<'_>,
    slot: &Slot<'_>,
    skip: &SkipTable,
    predictors: &mut Predictors,
) -> Result<(), Irregular> {
    reader.begin_block()?;
    reader.refill();
    let predictor = &mut predictors[slot.component];
    *predictor = predictor.wrapping_add(difference(reader, slot.dc)?);
    skip_coefficients(reader, slot.ac, skip)
}

/// Skips the rest of a block after its DC coefficient.
#[inline(always)]
fn skip_coefficients(reader: &mut Reader<'_>, ac: &AcTable, skip: &SkipTable) -> Result<(), Irregular> {
    let mut index = 0;
    loop {
        reader.refill();
        for _ in 0..SKIPS_IN_REFILL {
            let entry = skip.lookup(reader.bits());
            let next = index + advance(entry);
            if next < LAST {
                reader.consume(entry);
                index = next;
                continue;
            }
            if SkipTable::ends(next) {
                reader.consume(entry);
                return Ok(());
            }
            // A long code, or coefficients of which the first end the block.
            reader.refill();
            if coefficients(reader, ac, &mut index, |_, _| {})? {
                return if index & OVERRUN == 0 { Ok(()) } else { Err(Irregular) };
            }
            break;
        }
    }
}

/// The rest of a block after its DC coefficient. Returns the index at its end.
#[inline(always)]
fn ac_coefficients(
    reader: &mut Reader<'_>,
    ac: &AcTable,
    mut write: impl FnMut(u32, i16),
) -> Result<u32, Irregular> {
    let mut index = 0;
    // The refill before the DC difference left enough for one lookup; each one after that is enough for two.
    while !coefficients(reader, ac, &mut index, &mut write)? {
        reader.refill();
        if coefficients(reader, ac, &mut index, &mut write)? {
            break;
        }
    }
    if index & OVERRUN == 0 { Ok(index) } else { Err(Irregular) }
}
