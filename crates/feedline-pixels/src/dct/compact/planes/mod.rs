//! The AC coefficients of an MCU row as nested bit planes.
//!
//! A row is one string of bits, lowest bit of a byte first, padded to a byte with zeros. Streams follow each other
//! without gaps; each has bits for every block of the row, in MCU order:
//!
//! | stream | per block |
//! |---|---|
//! | D | 4 bits: the diagonal (row + column) of the last coefficient that is not zero |
//! | F | 2 bits, only if the header says so: diagonals up to 0 (none), 1, 2 or 4 have no zero |
//! | A | which coefficients are not zero, for those in D's triangle and outside F's |
//! | Xt (X1, X2, …) | of those that have at least t bits: whether they have more |
//! | Et (E1, E2, …) | of those that have at least t bits: their sign (E1), or magnitude bit t − 2 |
//!
//! The order is X1, E1, X2, E2, …
//!
//! The DC coefficient counts as zero here. There are streams as long as a coefficient has at least t bits, at most 11.
//!
//! A stream has as many bits as the one before has ones. So neither lengths nor an index are stored: counting ones
//! gives the start of each stream, its position at any block, and whether all of them fill the row exactly. That one
//! check per row makes every read of the kernels safe.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod shuffle;

use std::ops::Range;

use super::SLACK;
use crate::CpuLevel;
#[cfg(target_arch = "x86_64")]
pub(super) use crate::cpu::has_fast_pdep;
use crate::jpeg::idct::Block;

/// Largest number of bits in the magnitude of an AC coefficient.
pub(super) const BITS: usize = 11;

/// Coefficients, as bits in natural order, whose diagonal is at most the index; without DC.
pub(super) const TRIANGLES: [u64; 16] = {
    let mut table = [0; 16];
    let mut place = 1;
    while place < 64 {
        let mut last = place / 8 + place % 8;
        while last < 16 {
            table[last] |= 1 << place;
            last += 1;
        }
        place += 1;
    }
    table
};

/// The triangles that F can select.
pub(super) const FULL: [u64; 4] = [0, TRIANGLES[1], TRIANGLES[2], TRIANGLES[4]];

/// Number of bits of A for a block, indexed by D plus 16 times F.
static A_BITS: [u8; 64] = {
    let mut table = [0; 64];
    let mut at = 0;
    while at < 64 {
        table[at] = (TRIANGLES[at & 15] & !FULL[at >> 4]).count_ones() as u8;
        at += 1;
    }
    table
};

/// One MCU row: bytes starting at the row (those after its end are readable), and the row's own length.
pub(super) struct Row<'a> {
    bytes: &'a [u8],
    length: usize,
    blocks: usize,
    has_full: bool,
}

/// Position of each stream, in bits from the row's start.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor {
    block: usize,
    a: usize,
    /// Indexed by t − 1. Streams that the row does not have stay at 0.
    x: [usize; BITS],
    e: [usize; BITS],
}

impl<'a> Row<'a> {
    /// Opens the row at `at` of `data`; there must be readable bytes after the last row.
    pub(super) fn open(data: &'a [u8], at: Range<usize>, blocks: usize, has_full: bool) -> Option<Self> {
        let length = at.end.checked_sub(at.start)?;
        let bytes = data.get(at.start..)?;
        (length.checked_add(SLACK)? <= bytes.len()).then_some(Row { bytes, length, blocks, has_full })
    }

    /// Writes the AC coefficients of `blocks`, which start at block number `first`; their DC becomes zero.
    pub(super) fn expand(&self, level: CpuLevel, first: usize, blocks: &mut [Block]) -> Option<()> {
        if first + blocks.len() > self.blocks {
            return None;
        }
        // SAFETY: the level was detected, and the blocks are in the row.
        unsafe { kernel(level)(self, first, blocks) }
    }

    /// D and F of a block: D is in the low four bits.
    #[inline(always)]
    fn kind(&self, block: usize) -> usize {
        let d = self.bytes[block / 2] >> (4 * (block % 2)) & 15;
        usize::from(d) | if self.has_full { self.full(block) << 4 } else { 0 }
    }

    #[inline(always)]
    fn full(&self, block: usize) -> usize {
        let at = 4 * self.blocks + 2 * block;
        usize::from(self.bytes[at / 8] >> (at % 8) & 3)
    }

    /// Number of bits of A, and of ones that F adds, in these blocks.
    #[inline(always)]
    fn masks(&self, blocks: Range<usize>) -> (usize, usize) {
        let (mut a, mut full) = (0, 0);
        for block in blocks {
            let kind = self.kind(block);
            a += usize::from(A_BITS[kind]);
            full += FULL_ONES[kind >> 4];
        }
        (a, full)
    }

    /// Positions of the streams at block `first`; `None` unless all of them fill the row exactly. Part of each kernel, because
    /// counting ones takes twelve instructions where the compiler may not use `popcnt`.
    #[inline(always)]
    fn cursor(&self, first: usize) -> Option<Cursor> {
        let bits = self.length.checked_mul(8)?;
        let heads = if self.has_full { 6 } else { 4 } * self.blocks;
        if heads > bits {
            return None;
        }
        let (a_before, full_before) = self.masks(0..first);
        let (a_after, full_after) = self.masks(first..self.blocks);
        let mut cursor = Cursor { block: first, a: heads + a_before, x: [0; BITS], e: [0; BITS] };
        let mut at = heads + a_before + a_after;
        if at > bits {
            return None;
        }
        let mut before = self.ones(heads, a_before) + full_before;
        let mut after = self.ones(cursor.a, a_after) + full_after;
        for t in 0..BITS {
            let count = before + after;
            if count == 0 {
                break;
            }
            if at + 2 * count > bits {
                return None;
            }
            (cursor.x[t], cursor.e[t]) = (at + before, at + count + before);
            (before, after) = (self.ones(at, before), self.ones(at + before, after));
            at += 2 * count;
        }
        (before + after == 0 && at.div_ceil(8) == self.length).then_some(cursor)
    }

    /// Number of ones among `count` bits starting at `at`.
    #[inline(always)]
    fn ones(&self, at: usize, count: usize) -> usize {
        let (mut at, mut left, mut ones) = (at, count, 0);
        // Up to a byte boundary, then words.
        let head = left.min(at.wrapping_neg() % 8);
        ones += (self.bits(at) & ((1 << head) - 1)).count_ones();
        (at, left) = (at + head, left - head);
        let words = left / 64;
        let bytes = &self.bytes[at / 8..];
        for word in bytes.chunks_exact(8).take(words) {
            ones += word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word).count_ones());
        }
        (at, left) = (at + 64 * words, left % 64);
        ones += (self.bits(at) & ((1u64 << left) - 1)).count_ones();
        ones as usize
    }

    /// At least `count` bits starting at `at`, without a check.
    ///
    /// # Safety
    /// `at` must be in the row or at its end.
    #[inline(always)]
    unsafe fn word(&self, at: usize, count: usize) -> u64 {
        debug_assert!(at / 8 <= self.length, "streams are in the row");
        let shift = at as u32 % 8;
        // SAFETY: `Row::open` checked that SLACK bytes follow the row; nine are read.
        unsafe {
            let from = self.bytes.as_ptr().add(at / 8);
            let low = u64::from_le(from.cast::<u64>().read_unaligned());
            // Hardly any block has so many, so the branch is always predicted.
            if count > 57 {
                return low >> shift | (u64::from(*from.add(8)) << 1) << (63 - shift);
            }
            low >> shift
        }
    }

    /// 64 bits starting at `at`, which is in the row or at its end.
    #[inline(always)]
    fn bits(&self, at: usize) -> u64 {
        let bytes: &[u8; 9] = self.bytes[at / 8..].first_chunk().unwrap_or(&[0; 9]);
        let low = u64::from_le_bytes([
            bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
        ]);
        let shift = at % 8;
        low >> shift | (u64::from(bytes[8]) << 1) << (63 - shift)
    }
}

/// Writes the coefficients of blocks, from the row's block of this number on; `None` if the row is damaged. The CPU must
/// have the kernel's instructions, and all of the blocks must be in the row.
type Kernel = unsafe fn(&Row<'_>, usize, &mut [Block]) -> Option<()>;

fn kernel(level: CpuLevel) -> Kernel {
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx512 if has_fast_pdep() => avx512::expand,
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 if has_fast_pdep() => avx2::expand,
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => shuffle::ssse3::expand,
        #[cfg(target_arch = "aarch64")]
        CpuLevel::Neon => shuffle::neon::expand,
        CpuLevel::Scalar => scalar::expand,
    }
}

const FULL_ONES: [usize; 4] = {
    let mut ones = [0; 4];
    let mut f = 0;
    while f < 4 {
        ones[f] = FULL[f].count_ones() as usize;
        f += 1;
    }
    ones
};

/// The loop over blocks, for kernels with `pdep`; `$narrow` and `$wide` turn bit planes into coefficients.
#[cfg(target_arch = "x86_64")]
macro_rules! expand_blocks {
    ($row:expr, $cursor:expr, $blocks:expr, $narrow:path, $wide:path) => {{
        use std::arch::x86_64::_pdep_u64;
        let (row, mut cursor): (&Row<'_>, Cursor) = ($row, $cursor);
        // SAFETY: cursors are in the row or at its end.
        let bits = |at: usize, count: usize| unsafe { row.word(at, count) };
        for block in $blocks {
            let kind = row.kind(cursor.block);
            cursor.block += 1;
            let full = FULL[kind >> 4];
            let triangle = TRIANGLES[kind & 15] & !full;
            // `masks[t]`: at least t + 1 bits.
            let mut masks = [0u64; BITS + 2];
            let count = triangle.count_ones() as usize;
            masks[0] = _pdep_u64(bits(cursor.a, count), triangle) | full;
            cursor.a += count;
            let mut planes = [0u64; BITS];
            let count = masks[0].count_ones() as usize;
            let sign = _pdep_u64(bits(cursor.e[0], count), masks[0]);
            masks[1] = _pdep_u64(bits(cursor.x[0], count), masks[0]);
            cursor.x[0] += count;
            cursor.e[0] += count;
            macro_rules! level {
                ($t:expr) => {
                    let mask = masks[$t];
                    let count = mask.count_ones() as usize;
                    planes[$t - 1] = (masks[$t - 1] ^ mask) | _pdep_u64(bits(cursor.e[$t], count), mask);
                    masks[$t + 1] = _pdep_u64(bits(cursor.x[$t], count), mask);
                    cursor.x[$t] += count;
                    cursor.e[$t] += count;
                };
            }
            // Four planes without a branch: few blocks have no coefficient of two bits, and a misprediction costs more.
            level!(1);
            level!(2);
            level!(3);
            level!(4);
            if masks[4] != 0 {
                level!(5);
                level!(6);
                level!(7);
                if masks[7] != 0 {
                    level!(8);
                    level!(9);
                    level!(10);
                    planes[10] = masks[10];
                    $wide(&planes, sign, block);
                    continue;
                }
            }
            $narrow(&planes, sign, block);
        }
    }};
}
#[cfg(target_arch = "x86_64")]
use expand_blocks;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dct::compact::encode::append_row;
    use proptest::prelude::*;

    fn blocks() -> impl Strategy<Value = Vec<Block>> {
        let value = prop_oneof![6 => Just(0i16), 4 => -3i16..=3, 2 => -40i16..=40, 1 => -1023i16..=1023, 1 => -2047i16..=2047];
        let block = (prop::collection::vec(value, 64), 0usize..=64).prop_map(|(values, last)| {
            let mut block = [0; 64];
            block[1..last.max(1)].copy_from_slice(&values[1..last.max(1)]);
            block
        });
        prop::collection::vec(block, 1..40)
    }

    /// All kernels that this machine can run.
    fn kernels() -> Vec<Kernel> {
        let mut all: Vec<Kernel> = CpuLevel::available().into_iter().map(kernel).collect();
        #[cfg(target_arch = "x86_64")]
        if CpuLevel::available().contains(&CpuLevel::Avx2) {
            all.push(shuffle::ssse3::expand);
        }
        all
    }

    proptest! {
        #[test]
        fn rows_come_back_at_every_level(blocks in blocks(), from in 0usize..40, has_full in any::<bool>()) {
            let mut data = Vec::new();
            append_row(CpuLevel::Scalar, &mut data, &blocks, has_full).unwrap();
            for level in CpuLevel::available() {
                let mut same = Vec::new();
                append_row(level, &mut same, &blocks, has_full).unwrap();
                prop_assert_eq!(&same, &data);
            }
            let length = data.len();
            data.extend_from_slice(&[0; SLACK]);
            let row = Row::open(&data, 0..length, blocks.len(), has_full).unwrap();
            let from = from.min(blocks.len() - 1);
            for kernel in kernels() {
                let mut back = vec![[7; 64]; blocks.len() - from];
                // SAFETY: the CPU has the kernel's instructions, and the blocks are in the row.
                unsafe { kernel(&row, from, &mut back) }.unwrap();
                prop_assert_eq!(&back[..], &blocks[from..]);
            }
        }

        /// For any bytes: all kernels refuse or expand them alike, and never read outside (the address sanitizer
        /// checks).
        #[test]
        fn damaged_rows_are_refused_or_read_alike(
            blocks in blocks(), has_full in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut data = Vec::new();
            append_row(CpuLevel::Scalar, &mut data, &blocks, has_full).unwrap();
            let length = data.len();
            for (at, byte) in changes {
                data[at.index(length)] = byte;
            }
            data.extend_from_slice(&[0; SLACK]);
            let row = Row::open(&data, 0..length, blocks.len(), has_full).unwrap();
            let outcome = |kernel: Kernel| {
                let mut back = vec![[7; 64]; blocks.len()];
                // SAFETY: as above.
                unsafe { kernel(&row, 0, &mut back) }.map(|()| back)
            };
            let expected = outcome(scalar::expand);
            for kernel in kernels() {
                prop_assert_eq!(&outcome(kernel), &expected);
            }
        }
    }

    #[test]
    fn ones_are_counted_at_any_bit() {
        let data: Vec<u8> = (0..64u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect();
        let row = Row::open(&data, 0..data.len() - SLACK, 1, false).unwrap();
        let bit = |at: usize| usize::from(data[at / 8] >> (at % 8) & 1);
        for at in 0..80 {
            for count in 0..(8 * (data.len() - SLACK) - at) {
                assert_eq!(row.ones(at, count), (at..at + count).map(bit).sum::<usize>());
            }
        }
    }
}
