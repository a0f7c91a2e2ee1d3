//! Lookup tables whose entries contain the decoded coefficient wherever it fits.
//!
//! The first [`LOOKUP_BITS`] bits select an entry. In the common case they contain the whole code and its magnitude
//! bits, and the entry contains the number of bits to consume, the advance in zig-zag order, and the value to write.
//! Ten bits were best of 9, 10 and 12: longer tables save slow lookups but do not fit in the first-level cache.

use std::cell::OnceCell;

use super::super::parse::{HuffmanSpec, NotCovered};

const LOOKUP_BITS: u32 = 10;
const LOOKUP: usize = 1 << LOOKUP_BITS;

/// Largest number of bits of an AC coefficient: a code of 16 and a magnitude of 10. Two of them fit in a refill.
#[cfg(test)]
pub(super) const MAX_AC_BITS: u32 = 26;

/// Largest magnitude in 8-bit images: larger ones are refused, which bounds the number of bits per refill.
const MAX_AC_SIZE: u8 = 10;
const MAX_DC_SIZE: u8 = 11;

/// Entry layout: length in bits 0 to 5, advance in bits 8 to 15, value in bits 16 to 31. An advance of zero marks an
/// entry without its value: then bits 16 to 23 are the length of the code (zero: longer than the lookup) and
/// bits 24 to 31 the symbol.
///
/// If a second coefficient fits after the first, the upper half of an AC entry has the same form for it, and the
/// length in the lower half covers both. Otherwise the upper half has length and advance zero and repeats the value:
/// writing it again to the same place is harmless, and saves a branch that would often be mispredicted.
#[cfg(test)]
const LENGTH: u32 = 63;

/// Advance of an end-of-block: past every real index, without the overrun bit. In progressive files its low bits are
/// the number of bits that follow, which say for how many blocks it holds.
pub(crate) const END_OF_BLOCK: u32 = 128;
/// Advance that always sets the overrun bit.
const BAD: u32 = 64;

#[inline(always)]
pub(crate) fn advance(entry: u32) -> u32 {
    (entry >> 8) & 0xFF
}

#[inline(always)]
pub(crate) fn value(entry: u32) -> i16 {
    (entry >> 16) as i16
}

const fn complete(length: u32, advance: u32, value: i32) -> u32 {
    length | (advance << 8) | ((value as u32) << 16)
}

/// The value of `size` magnitude bits at the top of `bits`.
#[inline(always)]
fn extend(bits: u64, size: u32) -> i32 {
    // Shifting in two steps makes a size of zero give zero.
    let magnitude = ((bits >> 1) >> (63 - size)) as i32;
    // A leading zero means negative, in ones' complement.
    let negative = !(bits as i64 >> 63) as i32;
    magnitude + (negative & ((-1 << size) + 1))
}

/// Codes by length, for those longer than the lookup.
struct Canonical {
    /// One past the largest code of each length, aligned to 16 bits; lengths without codes repeat the one before.
    limits: [u32; 17],
    /// Offset from a code of each length to its symbol.
    offsets: [i32; 17],
    symbols: [u8; 256],
}

impl Canonical {
    /// Refuses sets of codes that form no tree.
    fn new(spec: &HuffmanSpec) -> Result<Self, NotCovered> {
        let mut table = Canonical { limits: [0; 17], offsets: [0; 17], symbols: spec.symbols };
        let (mut code, mut index) = (0u32, 0);
        for length in 1..=16 {
            let count = u32::from(spec.counts[length - 1]);
            table.offsets[length] = index - code as i32;
            code += count;
            index += count as i32;
            // The code of all ones must stay free; libjpeg requires it, too.
            if code > (1 << length) {
                return Err(NotCovered);
            }
            table.limits[length] = code << (16 - length);
            code <<= 1;
        }
        Ok(table)
    }

    /// The code at the top of `bits`: its length and symbol.
    fn decode(&self, bits: u64) -> Option<(u32, u8)> {
        let top = (bits >> 48) as u32;
        let length = (1..=16).find(|&length| top < self.limits[length])?;
        let index = (top >> (16 - length)) as i32 + self.offsets[length];
        Some((length as u32, *self.symbols.get(index as usize)?))
    }
}

/// Fills a lookup table: `complete_entry` gives the entry of a code with its magnitude if it can be complete.
fn fill(fast: &mut [u32; LOOKUP], codes: &Canonical, complete_entry: impl Fn(u32, u8, u64) -> Option<u32>) {
    // Codes in order cover the table from its start; entries without a short code stay zero.
    let (mut at, mut index) = (0, 0);
    for length in 1..=LOOKUP_BITS {
        let end = (codes.limits[length as usize] >> (16 - LOOKUP_BITS)) as usize;
        while at < end {
            let symbol = codes.symbols[index];
            index += 1;
            let span = 1 << (LOOKUP_BITS - length);
            for (i, entry) in fast[at..at + span].iter_mut().enumerate() {
                let rest = (i as u64).checked_shl(64 - LOOKUP_BITS + length).unwrap_or(0);
                *entry = complete_entry(length, symbol, rest)
                    .unwrap_or((length << 16) | (u32::from(symbol) << 24));
            }
            at += span;
        }
    }
}

/// A table for AC coefficients; with `RUNS`, for the first scans of progressive files, where an end-of-block can hold
/// for many blocks.
pub(crate) struct AcTable<const RUNS: bool = false> {
    fast: [u64; LOOKUP],
    codes: Canonical,
    /// Made when blocks are first skipped: with a seek index, that never happens.
    skip: OnceCell<Box<SkipTable>>,
}

/// Bits of a lookup that skips coefficients.
const SKIP_BITS: u32 = 12;
const SKIPS: usize = 1 << SKIP_BITS;
/// Number of such lookups for which the bits of a refill suffice.
pub(super) const SKIPS_IN_REFILL: usize = 2;
const _: () = assert!((SKIP_BITS + MAX_AC_SIZE as u32) * SKIPS_IN_REFILL as u32 <= 56);

/// As many coefficients as fit in a lookup, without their values.
///
/// An entry has its length in the low byte and its advance in the high byte, [`END_OF_BLOCK`] included. Only codes must
/// be within the lookup: the magnitude bits of the last coefficient may lie behind it. If not even one code fits, it is
/// [`NOTHING`].
pub(super) struct SkipTable([u16; SKIPS]);

/// An entry of no length whose advance is past every end of a block.
const NOTHING: u16 = 0xFF00;

/// Fills the entries of a lookup of `known` bits. `shorter` has those of lookups of fewer bits, the entries for n bits
/// from index 2^n on.
fn fill_skips(codes: &Canonical, known: u32, shorter: &[u16], entries: &mut [u16]) {
    // Codes in order cover the table from its start; entries without a short code stay zero.
    let (mut at, mut index) = (0, 0);
    for length in 1..=known {
        let end = (codes.limits[length as usize] >> (16 - known)) as usize;
        while at < end {
            let first = ac_entry::<false>(length, codes.symbols[index], 0);
            index += 1;
            let span = 1 << (known - length);
            fill_span(first, known, shorter, &mut entries[at..at + span]);
            at += span;
        }
    }
}

/// Fills the entries that begin with the coefficient `first`. What follows it depends on the bits after its magnitude, so
/// these entries are those of a shorter lookup, as often as there are magnitudes. (Most files have tables of their own:
/// following the codes of each entry took 7 % of the time of an index.)
fn fill_span(first: u32, known: u32, shorter: &[u16], entries: &mut [u16]) {
    let (bits, far) = (first & 63, advance(first));
    let alone = (bits | far << 8) as u16;
    if far == BAD {
        return;
    }
    if far >= END_OF_BLOCK || bits >= known {
        return entries.fill(alone);
    }
    let count = 1 << (known - bits);
    for part in entries.chunks_exact_mut(count) {
        for (entry, &rest) in part.iter_mut().zip(&shorter[count..]) {
            // Coefficients stay below 64 together, so that only an end-of-block leads to 128 and more.
            let fits = (rest >> 8 & 127) + (far as u16) < BAD as u16;
            *entry = if fits { alone + rest } else { alone };
        }
    }
}

impl SkipTable {
    fn new(codes: &Canonical) -> Box<Self> {
        let mut all = [0; 2 * SKIPS];
        for known in 1..=SKIP_BITS {
            let (shorter, longer) = all.split_at_mut(1 << known);
            fill_skips(codes, known, shorter, &mut longer[..1 << known]);
        }
        let mut entries = Box::new(SkipTable([NOTHING; SKIPS]));
        for (entry, &found) in entries.0.iter_mut().zip(&all[SKIPS..]) {
            *entry = if found == 0 { NOTHING } else { found };
        }
        entries
    }

    /// The entry for the coefficients at the top of `bits`.
    #[inline(always)]
    pub(super) fn lookup(&self, bits: u64) -> u32 {
        u32::from(self.0[(bits >> (64 - SKIP_BITS)) as usize])
    }

    /// Whether a block that was at an index below 63 ends with an entry that leads to `index`: at its last coefficient,
    /// or by an end-of-block before it.
    #[inline(always)]
    pub(super) fn ends(index: u32) -> bool {
        index == 63 || index.wrapping_sub(END_OF_BLOCK) < 63
    }
}

impl AcTable {
    /// The table for skipping coefficients.
    pub(super) fn skipping(&self) -> &SkipTable {
        self.skip.get_or_init(|| SkipTable::new(&self.codes))
    }
}

impl<const RUNS: bool> AcTable<RUNS> {
    /// Refuses impossible code lengths.
    pub(crate) fn new(spec: &HuffmanSpec) -> Result<Self, NotCovered> {
        let codes = Canonical::new(spec)?;
        let mut single = [0; LOOKUP];
        fill(&mut single, &codes, |length, symbol, rest| {
            let size = u32::from(symbol & 15);
            (length + size <= LOOKUP_BITS).then(|| ac_entry::<RUNS>(length, symbol, rest))
        });
        let fast = std::array::from_fn(|i| with_second(&single, i));
        Ok(AcTable { fast, codes, skip: OnceCell::new() })
    }

    /// The complete entry for the one or two coefficients at the top of `bits`.
    #[inline(always)]
    pub(crate) fn lookup(&self, bits: u64) -> u64 {
        let entry = self.fast[(bits >> (64 - LOOKUP_BITS)) as usize];
        if entry & 0xFF00 != 0 { entry } else { self.finish(entry as u32, bits) }
    }

    #[inline(always)]
    fn finish(&self, entry: u32, bits: u64) -> u64 {
        let length = (entry >> 16) & 0xFF;
        if length == 0 {
            return alone(self.long(bits));
        }
        alone(ac_entry::<RUNS>(length, (entry >> 24) as u8, bits << length))
    }

    #[cold]
    #[inline(never)]
    fn long(&self, bits: u64) -> u32 {
        match self.codes.decode(bits) {
            Some((length, symbol)) => ac_entry::<RUNS>(length, symbol, bits << length),
            None => complete(1, BAD, 0),
        }
    }
}

/// An AC entry without a second coefficient.
#[inline(always)]
fn alone(entry: u32) -> u64 {
    u64::from(entry) | (u64::from(entry >> 16) << 48)
}

/// The entry at `i` of a table, together with the next coefficient if that fits too.
fn with_second(single: &[u32; LOOKUP], i: usize) -> u64 {
    let first = single[i];
    let length = first & 63;
    if advance(first) == 0 {
        return u64::from(first);
    }
    let second = single[(i << length) & (LOOKUP - 1)];
    let fits = advance(first) < BAD && advance(second) != 0 && advance(second) != BAD;
    if !fits || length + (second & 63) > LOOKUP_BITS {
        return alone(first);
    }
    u64::from(first + (second & 63)) | (u64::from(second) << 32)
}

/// The complete entry of a code of `length` bits with its magnitude at the top of `rest`.
#[inline(always)]
fn ac_entry<const RUNS: bool>(length: u32, symbol: u8, rest: u64) -> u32 {
    let (run, size) = (u32::from(symbol >> 4), symbol & 15);
    if size == 0 {
        let end = if RUNS { END_OF_BLOCK | run } else { END_OF_BLOCK };
        return complete(length, if run == 15 { 16 } else { end }, 0);
    }
    if size > MAX_AC_SIZE {
        return complete(length, BAD, 0);
    }
    let size = u32::from(size);
    complete(length + size, run + 1, extend(rest, size))
}

/// A table for scans that refine AC coefficients: entries give the advance over coefficients that are still zero and a
/// new one of 1 or -1. The bits that refine others lie between codes, so there are no second coefficients.
pub(crate) struct RefineTable {
    fast: [u32; LOOKUP],
    codes: Canonical,
}

impl RefineTable {
    /// Refuses impossible code lengths.
    pub(crate) fn new(spec: &HuffmanSpec) -> Result<Self, NotCovered> {
        let codes = Canonical::new(spec)?;
        let mut fast = [0; LOOKUP];
        fill(&mut fast, &codes, |length, symbol, rest| {
            (length < LOOKUP_BITS).then(|| refine_entry(length, symbol, rest))
        });
        Ok(RefineTable { fast, codes })
    }

    /// The complete entry for the code at the top of `bits`.
    #[inline(always)]
    pub(crate) fn lookup(&self, bits: u64) -> u32 {
        let entry = self.fast[(bits >> (64 - LOOKUP_BITS)) as usize];
        if advance(entry) != 0 { entry } else { self.long(bits) }
    }

    #[cold]
    #[inline(never)]
    fn long(&self, bits: u64) -> u32 {
        match self.codes.decode(bits) {
            Some((length, symbol)) => refine_entry(length, symbol, bits << length),
            None => complete(1, BAD, 0),
        }
    }
}

#[inline(always)]
fn refine_entry(length: u32, symbol: u8, rest: u64) -> u32 {
    // A new coefficient has one bit.
    if symbol & 15 > 1 { complete(length, BAD, 0) } else { ac_entry::<true>(length, symbol, rest) }
}

/// Whether the codes form a tree, as they must even in scans that are not needed.
pub(crate) fn is_tree(spec: &HuffmanSpec) -> bool {
    Canonical::new(spec).is_ok()
}

/// A table for differences of DC coefficients.
pub(crate) struct DcTable {
    fast: [u32; LOOKUP],
    codes: Canonical,
}

impl DcTable {
    /// Refuses impossible code lengths and, as libjpeg does, symbols over 15.
    pub(crate) fn new(spec: &HuffmanSpec) -> Result<Self, NotCovered> {
        let codes = Canonical::new(spec)?;
        let total: usize = spec.counts.iter().map(|&n| usize::from(n)).sum();
        if spec.symbols[..total].iter().any(|&symbol| symbol > 15) {
            return Err(NotCovered);
        }
        let mut fast = [0; LOOKUP];
        fill(&mut fast, &codes, |length, size, _| Some(dc_entry(length, size)));
        Ok(DcTable { fast, codes })
    }

    /// The entry for the difference at the top of `bits`: the number of bits to consume in bits 0 to 5, that of the code
    /// in bits 8 to 15, that of the magnitude in bits 16 to 31; more than [`MAX_DC_SIZE`] if there is no such code.
    ///
    /// Entries have no values. Large differences are so frequent that a branch between entries with and without their
    /// value would be mispredicted at every third block; computing every value is cheaper. The next code does not wait
    /// for it, only for the number of bits.
    #[inline(always)]
    pub(super) fn lookup(&self, bits: u64) -> u32 {
        let entry = self.fast[(bits >> (64 - LOOKUP_BITS)) as usize];
        if entry != 0 { entry } else { self.long(bits) }
    }

    #[cold]
    #[inline(never)]
    fn long(&self, bits: u64) -> u32 {
        self.codes.decode(bits).map_or(dc_entry(1, u8::MAX), |(length, size)| dc_entry(length, size))
    }

    /// The difference at the top of `bits`, whose entry this is; `None` if there is none.
    #[inline(always)]
    pub(super) fn value(entry: u32, bits: u64) -> Option<i32> {
        let (length, size) = (entry >> 8 & 0xFF, entry >> 16);
        (size <= u32::from(MAX_DC_SIZE)).then(|| extend(bits << length, size))
    }
}

fn dc_entry(length: u32, size: u8) -> u32 {
    let more = if size > MAX_DC_SIZE { 0 } else { u32::from(size) };
    (length + more) | length << 8 | u32::from(size) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(counts: &[u8], symbols: &[u8]) -> HuffmanSpec {
        let mut spec = HuffmanSpec { counts: [0; 16], symbols: [0; 256] };
        spec.counts[..counts.len()].copy_from_slice(counts);
        spec.symbols[..symbols.len()].copy_from_slice(symbols);
        spec
    }

    #[test]
    fn decodes_short_long_and_bad_codes() {
        // 0: end of block; 10: run 0, size 3; 110: run 2, size 10; 1110 and 12 more ones before the last: size 1.
        let mut counts = [0; 16];
        (counts[0], counts[1], counts[2], counts[15]) = (1, 1, 1, 1);
        let table = <AcTable>::new(&spec(&counts, &[0x00, 0x03, 0x2A, 0x01])).unwrap();
        let at = |bits: u64, count: u32| table.lookup(bits << (64 - count)) as u32;
        assert_eq!(at(0b0, 1), complete(1, END_OF_BLOCK, 0));
        // These are followed by zeros, that is, an end of block.
        assert_eq!(at(0b10_101, 5), complete(6, 1, 5));
        assert_eq!(at(0b10_010, 5), complete(6, 1, -5));
        assert_eq!((table.lookup(0b10_101 << 59) >> 32) as u32, complete(1, END_OF_BLOCK, 0));
        assert_eq!(at(0b110_0000000001, 13), complete(13, 3, -1022));
        assert_eq!(at(0b1_1100_0000_0000_0001, 17), complete(17, 1, 1));
        assert_eq!(advance(at(u64::MAX, 64)), BAD);
        assert!(at(u64::MAX, 64) & LENGTH <= MAX_AC_BITS);
    }

    #[test]
    fn skips_have_as_many_codes_as_fit() {
        // As above, and 1110: sixteen zeros.
        let mut counts = [0; 16];
        (counts[0], counts[1], counts[2], counts[3], counts[15]) = (1, 1, 1, 1, 1);
        let table = <AcTable>::new(&spec(&counts, &[0x00, 0x03, 0x2A, 0xF0, 0x01])).unwrap();
        let at = |bits: u64, count: u32| table.skipping().lookup(bits << (64 - count));
        let entry = |length: u32, far: u32| length | far << 8;
        assert_eq!(at(0b0, 1), entry(1, END_OF_BLOCK));
        assert_eq!(at(0b101010, 6), entry(6, 1 + END_OF_BLOCK));
        // 10 101 10 010 10: the third magnitude lies behind the lookup.
        assert_eq!(at(0b1010_1100_1010, 12), entry(15, 3));
        // 10 101 110 1111: so do six bits of the second.
        assert_eq!(at(0b1010_1110_1111, 12), entry(18, 4));
        assert_eq!(at(0b1110_1110_1110, 12), entry(12, 48));
        // A code that is longer than the lookup.
        assert_eq!(at(0b1111_0000_0000_0000, 16), u32::from(NOTHING));
        assert!(!SkipTable::ends(62 + advance(u32::from(NOTHING))));
    }

    /// Advances of 64 and more together would pass for an overrun, and are not put together.
    #[test]
    fn skips_stay_below_the_end() {
        // 0: sixteen zeros.
        let table = <AcTable>::new(&spec(&[1, 1], &[0xF0, 0x00])).unwrap();
        let entry = table.skipping().lookup(0);
        assert_eq!((entry & 63, advance(entry)), (3, 48));
        let entry = table.skipping().lookup(0b0001_0000 << 56);
        assert_eq!((entry & 63, advance(entry)), (5, 48 + END_OF_BLOCK));
    }

    #[test]
    fn progressive_tables_tell_runs_of_blocks() {
        // 0: new coefficient after one zero; 10: end of 4 to 7 blocks; 110: two bits, which no refinement has.
        let spec = spec(&[1, 1, 1], &[0x11, 0x20, 0x02]);
        let (first, refine) = (AcTable::<true>::new(&spec).unwrap(), RefineTable::new(&spec).unwrap());
        let end = complete(2, END_OF_BLOCK | 2, 0);
        assert_eq!((first.lookup(0b10 << 62) as u32, refine.lookup(0b10 << 62)), (end, end));
        assert_eq!(refine.lookup(0b01 << 62), complete(2, 2, 1));
        assert_eq!(refine.lookup(0), complete(2, 2, -1));
        assert_eq!(advance(refine.lookup(0b110 << 61)), BAD);
        assert_eq!(advance(refine.lookup(u64::MAX)), BAD);
    }

    #[test]
    fn refuses_too_many_codes() {
        assert!(<AcTable>::new(&spec(&[3], &[0, 1, 2])).is_err());
        assert!(DcTable::new(&spec(&[0, 1], &[16])).is_err());
    }
}
