//! The reference: lists of the places that have another bit.

use super::{BITS, Cursor, FULL, Row, TRIANGLES};
use crate::jpeg::idct::Block;

/// Puts the low bits of the second index where the first index has ones.
static SPREAD: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut bits = 0;
        while bits < 256 {
            let (mut place, mut next, mut out) = (0, 0, 0);
            while place < 8 {
                if mask >> place & 1 == 1 {
                    out |= (bits >> next & 1) << place;
                    next += 1;
                }
                place += 1;
            }
            table[mask][bits] = out as u8;
            bits += 1;
        }
        mask += 1;
    }
    table
};

fn deposit(mut bits: u64, mask: u64) -> u64 {
    let mut out = [0; 8];
    for (byte, mask) in out.iter_mut().zip(mask.to_le_bytes()) {
        *byte = SPREAD[usize::from(mask)][(bits & 255) as usize];
        bits >>= mask.count_ones();
    }
    u64::from_le_bytes(out)
}

pub(super) fn expand(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    let mut cursor = row.cursor(first)?;
    for block in blocks {
        *block = [0; 64];
        let kind = row.kind(cursor.block);
        cursor.block += 1;
        let full = FULL[kind >> 4];
        let triangle = TRIANGLES[kind & 15] & !full;
        let mask = deposit(row.bits(cursor.a), triangle) | full;
        cursor.a += triangle.count_ones() as usize;
        magnitudes(row, &mut cursor, mask, block);
    }
    Some(())
}

/// Fills the block's coefficients, whose places are the ones in `mask`.
#[inline(always)]
fn magnitudes(row: &Row<'_>, cursor: &mut Cursor, mask: u64, block: &mut Block) {
    let mut places = [0u8; 64];
    let mut count = 0;
    let mut rest = mask;
    while rest != 0 {
        places[count] = rest.trailing_zeros() as u8;
        count += 1;
        rest &= rest - 1;
    }
    let signs = row.bits(cursor.e[0]);
    let (all, first) = (places, count);
    for t in 0..BITS {
        if count == 0 {
            break;
        }
        let (mut longer, mut extra) = (row.bits(cursor.x[t]), if t == 0 { 0 } else { row.bits(cursor.e[t]) });
        cursor.x[t] += count;
        cursor.e[t] += count;
        let mut kept = 0;
        for at in 0..count {
            let place = places[at & 63];
            // Those with exactly t + 1 bits have their highest one here; `extra` is the bit before, already passed.
            let bit = ((extra & 1) << t >> 1) | (!longer & 1) << t;
            block[usize::from(place & 63)] |= bit as i16;
            places[kept & 63] = place;
            kept += (longer & 1) as usize;
            longer >>= 1;
            extra >>= 1;
        }
        count = kept;
    }
    for (at, &place) in all[..first].iter().enumerate() {
        let value = &mut block[usize::from(place & 63)];
        let negative = -((signs >> at & 1) as i16);
        *value = (*value ^ negative) - negative;
    }
}
