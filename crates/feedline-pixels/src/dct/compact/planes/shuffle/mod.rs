//! Bit planes to coefficients for CPUs without a fast `pdep`.
//!
//! A stream lists coefficients without gaps, so what it says of them is kept in an array without gaps as well, one byte
//! each. A table of shuffles spreads such an array over the coefficients of the stream before, from the largest
//! magnitudes down, and in the end over the block. A magnitude of L bits is 1, plus (1 + its bit in Et) << (t − 2) for
//! each t from 2 to L. Where some are larger than a byte, a second array has what is above it: 1 from nine bits on, plus
//! (1 + its bit in Et) << (t − 10) for each t from 10 on.
//!
//! Levels are counted from 0 here: level t is of Xt+1 and Et+1.

#[cfg(target_arch = "aarch64")]
pub(super) mod neon;
#[cfg(target_arch = "x86_64")]
pub(super) mod ssse3;

use super::{BITS, Cursor, FULL, Row, TRIANGLES};
use crate::dct::shuffles::SHUFFLES;
use crate::jpeg::idct::Block;

/// Levels that fit into signed bytes: magnitudes of at most seven bits.
const NARROW: usize = 7;
/// Levels that add to the lower byte of a magnitude.
const LOWER: usize = 9;

/// Sixteen bytes in a register.
trait Lanes: Copy {
    /// # Safety
    /// Sixteen bytes must be readable.
    unsafe fn load(from: *const u8) -> Self;
    fn store(self, to: &mut [u8; 16]);
    fn splat(value: u8) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// All ones where a bit is set.
    fn ones(bits: u16) -> Self;
    /// Two rows of a table, and `offset` added to the second.
    fn join(low: [u8; 8], high: [u8; 8], offset: u8) -> Self;
    /// The bytes at `indices`; zero where the index is 128 or more. Those from 16 to 127 must not occur.
    fn pick(self, indices: Self) -> Self;
    /// Writes the bytes as signed numbers of 16 bits.
    fn widen(self, to: &mut [i16; 16]);
    /// Writes numbers of 16 bits, of which these are the lower bytes; negative where `sign` is all ones.
    fn pair(self, upper: Self, sign: Self, to: &mut [i16; 16]);
}

/// Where bit `i` of the result comes from, if it is set in `mask`: the bit's rank.
#[inline(always)]
fn ranks<L: Lanes>(mask: u16) -> L {
    let [low, high] = mask.to_le_bytes().map(usize::from);
    L::join(SHUFFLES[low], SHUFFLES[high], low.count_ones() as u8)
}

/// By D plus 16 times F: how far the bits of A for each row of the block are shifted to their place. A row's places in
/// D's triangle and outside F's are neighbours.
static SHIFTS: [[u8; 8]; 64] = {
    let mut table = [[0; 8]; 64];
    let mut kind = 0;
    while kind < 64 {
        let triangle = TRIANGLES[kind & 15] & !FULL[kind >> 4];
        let (mut row, mut before) = (0, 0);
        while row < 8 {
            let places = triangle >> (8 * row) & 255;
            if places != 0 {
                table[kind][row] = (8 * row + places.trailing_zeros() as usize - before) as u8;
                before += places.count_ones() as usize;
            }
            row += 1;
        }
        kind += 1;
    }
    table
};

/// The coefficients that are not zero, from a block's bits of A.
#[inline(always)]
fn first_mask(a: u64, kind: usize) -> u64 {
    let full = FULL[kind >> 4];
    let mut mask = 0;
    for (row, shift) in SHIFTS[kind].into_iter().enumerate() {
        mask |= a << (shift & 63) & 0xFF << (8 * row);
    }
    mask & TRIANGLES[kind & 15] & !full | full
}

/// The streams' bits of a block, and how many coefficients each lists.
struct Words {
    x: [u64; BITS],
    e: [u64; BITS],
    counts: [usize; BITS],
}

/// Sums of what the levels from some level on add to magnitudes, without gaps.
type Sums = [u8; 80];

/// # Safety
/// The CPU must have what `L` needs, and all of the blocks must be in the row.
#[inline(always)]
unsafe fn expand<L: Lanes>(row: &Row<'_>, first: usize, blocks: &mut [Block]) -> Option<()> {
    let mut cursor = row.cursor(first)?;
    let mut values: Sums = [0; 80];
    let mut words = Words { x: [0; BITS], e: [0; BITS], counts: [0; BITS] };
    for block in blocks {
        let kind = row.kind(cursor.block);
        cursor.block += 1;
        let count = (TRIANGLES[kind & 15] & !FULL[kind >> 4]).count_ones() as usize;
        // SAFETY: `Row::cursor` checked that all streams are within the row.
        let mask = first_mask(unsafe { row.word(cursor.a, count) }, kind);
        cursor.a += count;
        // SAFETY: as above.
        let levels = unsafe { read(row, &mut cursor, mask.count_ones() as usize, &mut words) };
        if levels <= NARROW {
            signed_values::<L>(&words, levels, &mut values);
            place::<L>(mask, &values, block);
        } else {
            large::<L>(mask, &words, block);
        }
    }
    Some(())
}

/// Reads the streams of a block with `count` coefficients: four levels, seven or all. Returns how many.
///
/// # Safety
/// `cursor` must be in the row.
#[inline(always)]
unsafe fn read(row: &Row<'_>, cursor: &mut Cursor, count: usize, words: &mut Words) -> usize {
    let mut count = count;
    let mut level = |t: usize| {
        // SAFETY: the caller guarantees that the cursor is in the row.
        let (x, e) = unsafe { (row.word(cursor.x[t], count), row.word(cursor.e[t], count)) };
        cursor.x[t] += count;
        cursor.e[t] += count;
        words.counts[t] = count;
        (words.x[t], words.e[t]) = (x & ((1 << count) - 1), e);
        count = words.x[t].count_ones() as usize;
        count
    };
    // Four levels without a branch, as in the kernels with `pdep`.
    level(0);
    level(1);
    level(2);
    if level(3) == 0 {
        return 4;
    }
    level(4);
    level(5);
    if level(6) == 0 {
        return NARROW;
    }
    for t in NARROW..BITS {
        level(t);
    }
    BITS
}

/// Signed values of all coefficients of a block, in the order of X1.
#[inline(always)]
fn signed_values<L: Lanes>(words: &Words, levels: usize, values: &mut Sums) {
    let sixteen = words.counts[1] <= 16;
    let mut long: Sums = [0; 80];
    let mut sums = L::splat(0);
    if sixteen {
        sums = short_sums(words, levels);
    } else {
        long_sums(words, levels, &mut long, own::<L>);
    }
    let mut before = 0;
    // Two steps without a branch.
    for step in 0..4 {
        if step == 2 && words.counts[0] <= 32 {
            break;
        }
        let bits = (words.x[0] >> (16 * step)) as u16;
        let picked = if sixteen {
            // The sums of all steps are in one register.
            sums.pick(ranks::<L>(bits).add(L::splat(before as u8)))
        } else {
            spread::<L>(&long, before, bits)
        };
        before += bits.count_ones() as usize;
        let sign = L::ones((words.e[0] >> (16 * step)) as u16);
        let value = picked.add(L::splat(1)).xor(sign).sub(sign);
        let to = &mut values[16 * step..];
        if let Some(to) = to.first_chunk_mut() {
            value.store(to);
        }
    }
}

/// What level `t` adds to magnitudes that have it, before what later levels add.
#[inline(always)]
fn own<L: Lanes>(e: u16, t: usize) -> L {
    let unit = L::splat(1 << (t - 1));
    unit.add(L::ones(e).and(unit))
}

/// The sums from the second level on, which lists at most sixteen coefficients.
#[inline(always)]
fn short_sums<L: Lanes>(words: &Words, levels: usize) -> L {
    let mut sums = L::splat(0);
    let mut level = |t: usize| {
        sums = sums.pick(ranks(words.x[t] as u16)).add(own(words.e[t] as u16, t));
    };
    if levels > 4 {
        level(6);
        level(5);
        level(4);
    }
    level(3);
    level(2);
    level(1);
    sums
}

/// The same for any number of coefficients; `own` says what a level adds.
#[inline(always)]
fn long_sums<L: Lanes>(words: &Words, levels: usize, sums: &mut Sums, own: impl Fn(u16, usize) -> L) {
    let mut next: Sums = [0; 80];
    for t in (1..levels).rev() {
        let mut before = 0;
        for step in 0..words.counts[t].div_ceil(16) {
            let bits = (words.x[t] >> (16 * step)) as u16;
            let picked = spread::<L>(sums, before, bits);
            before += bits.count_ones() as usize;
            let sum = picked.add(own((words.e[t] >> (16 * step)) as u16, t));
            if let Some(to) = next[16 * step..].first_chunk_mut() {
                sum.store(to);
            }
        }
        std::mem::swap(sums, &mut next);
    }
}

/// A block with magnitudes of more than seven bits, in two bytes and a sign each.
#[inline(always)]
fn large<L: Lanes>(mask: u64, words: &Words, block: &mut Block) {
    let mut bytes: [Sums; 3] = [[0; 80]; 3];
    let [lower, upper, signs] = &mut bytes;
    // What leaves the lower byte at the top is in the upper one, so it is dropped here.
    long_sums(words, BITS, lower, |e, t| if t < LOWER { own::<L>(e, t) } else { L::splat(0) });
    long_sums(words, BITS, upper, |e, t| match t {
        ..8 => L::splat(0),
        8 => L::splat(1),
        _ => own::<L>(e, t - 8),
    });
    let (old_lower, old_upper) = (*lower, *upper);
    let mut before = 0;
    for step in 0..4 {
        let part = |bits: u64| (bits >> (16 * step)) as u16;
        let to = 16 * step..16 * step + 16;
        let values = [
            spread::<L>(&old_lower, before, part(words.x[0])).add(L::splat(1)),
            spread::<L>(&old_upper, before, part(words.x[0])),
            L::ones(part(words.e[0])),
        ];
        for (value, array) in values.into_iter().zip([&mut *lower, &mut *upper, &mut *signs]) {
            if let Some(to) = array[to.clone()].first_chunk_mut() {
                value.store(to);
            }
        }
        before += part(words.x[0]).count_ones() as usize;
    }
    let mut before = 0;
    for (pair, rows) in block.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let bits = (mask >> (16 * pair)) as u16;
        let [lower, upper, sign] = bytes.each_ref().map(|array| spread::<L>(array, before, bits));
        lower.pair(upper, sign, rows);
        before += bits.count_ones() as usize;
    }
}

/// The bytes of `packed` from `at` on, spread over the ones in `mask`.
#[inline(always)]
fn spread<L: Lanes>(packed: &Sums, at: usize, mask: u16) -> L {
    debug_assert!(at <= 64, "masks have at most 64 ones");
    // SAFETY: sixteen bytes from a place of at most 64 are within the eighty.
    let source = unsafe { L::load(packed.as_ptr().add(at.min(64))) };
    source.pick(ranks(mask))
}

/// Spreads the values over the block, two of its rows at a time.
#[inline(always)]
fn place<L: Lanes>(mask: u64, values: &Sums, block: &mut Block) {
    let mut before = 0;
    for (pair, rows) in block.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let bits = (mask >> (16 * pair)) as u16;
        spread::<L>(values, before, bits).widen(rows);
        before += bits.count_ones() as usize;
    }
}
