//! Writes an MCU row: the streams that `planes` describes, gathered one beside the other, then joined.

use super::encode::Head;
use super::planes::{BITS, FULL, TRIANGLES};
use super::split::Split;
use crate::CpuLevel;
use crate::cpu::{dispatch, level_with_pdep};

/// `N` strings of bits of equal lengths, lowest bit first, in memory for as many as they can have.
struct Bits<const N: usize = 1> {
    words: Vec<[u64; N]>,
    /// Whole words, and the bits after them.
    at: usize,
    last: [u64; N],
    /// Number of bits in `last`, less than 64.
    count: u32,
}

impl<const N: usize> Bits<N> {
    fn with_room(bits: usize) -> Self {
        Bits { words: vec![[0; N]; bits / 64 + 1], at: 0, last: [0; N], count: 0 }
    }

    fn clear(&mut self) {
        (self.at, self.last, self.count) = (0, [0; N], 0);
    }

    /// Appends the low `count` (at most 64) bits to each; the bits above must be zero. No branch depends on them.
    #[inline(always)]
    fn push(&mut self, bits: [u64; N], count: u32) {
        let total = self.count + count;
        let full = total >= 64;
        for ((word, last), bits) in self.words[self.at].iter_mut().zip(&mut self.last).zip(bits) {
            *word = *last | bits << self.count;
            // What does not fit into the word.
            let over = (bits >> 1) >> (63 - self.count);
            *last = if full { over } else { *word };
        }
        self.at += usize::from(full);
        self.count = total & 63;
    }
}

impl Bits {
    /// Appends string `n` of `other`.
    fn append<const N: usize>(&mut self, other: &Bits<N>, n: usize) {
        for words in &other.words[..other.at] {
            self.push([words[n]], 64);
        }
        self.push([other.last[n]], other.count);
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        let length = out.len() + 8 * self.at + self.count.div_ceil(8) as usize;
        self.words[self.at] = self.last;
        out.reserve(8 * self.at + 8);
        for [word] in &self.words[..=self.at] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.truncate(length);
    }
}

/// Memory for a row's streams.
pub(super) struct RowWriter {
    level: CpuLevel,
    whole: Bits,
    full: Bits,
    a: Bits,
    /// X and E, by their number of bits less one.
    levels: [Bits<2>; BITS],
}

impl RowWriter {
    /// For rows of `blocks` blocks.
    pub(super) fn new(level: CpuLevel, blocks: usize) -> Self {
        // A block has at most 63 bits in each stream, and six in D and F.
        let bits = 64 * blocks;
        RowWriter {
            level,
            whole: Bits::with_room((2 * BITS + 2) * bits),
            full: Bits::with_room(bits),
            a: Bits::with_room(bits),
            levels: std::array::from_fn(|_| Bits::with_room(bits)),
        }
    }

    /// Appends a row. All of its blocks have an entry in `blocks` and `heads`.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, blocks: &[Split], heads: &[Head], has_full: bool) {
        dispatch!(level_with_pdep(self.level), gather(self, blocks, heads, has_full));
        let RowWriter { whole, full, a, levels, .. } = self;
        if has_full {
            whole.append(full, 0);
        }
        whole.append(a, 0);
        for stream in levels.iter().filter(|stream| stream.at > 0 || stream.count > 0) {
            whole.append(stream, 0);
            whole.append(stream, 1);
        }
        whole.write(out);
    }

    #[inline(always)]
    fn gather(
        &mut self,
        blocks: &[Split],
        heads: &[Head],
        has_full: bool,
        extract: impl Fn(u64, u64) -> u64,
    ) {
        let RowWriter { whole, full, a, levels, .. } = self;
        [&mut *whole, &mut *full, &mut *a].into_iter().for_each(Bits::clear);
        levels.iter_mut().for_each(Bits::clear);
        for (block, head) in blocks.iter().zip(heads) {
            whole.push([u64::from(head.last)], 4);
            let dense = if has_full { FULL[usize::from(head.full)] } else { 0 };
            full.push([u64::from(head.full)], 2);
            let triangle = TRIANGLES[usize::from(head.last)] & !dense;
            a.push([extract(head.mask, triangle)], triangle.count_ones());
            let mut longer = [0; BITS + 1];
            for bits in (0..BITS).rev() {
                longer[bits] = longer[bits + 1] | block.planes[bits];
            }
            let mut extra = block.sign;
            for (bits, stream) in levels.iter_mut().enumerate() {
                // `longer[i]`: more than i bits.
                let mask = longer[bits];
                if mask == 0 {
                    break;
                }
                stream.push([extract(longer[bits + 1], mask), extract(extra, mask)], mask.count_ones());
                extra = block.planes[bits];
            }
        }
    }
}

mod scalar {
    use super::{Head, RowWriter, Split};

    pub(super) fn gather(writer: &mut RowWriter, blocks: &[Split], heads: &[Head], has_full: bool) {
        writer.gather(blocks, heads, has_full, extract);
    }

    /// Moves the bits of `value` that are set in `mask` together.
    fn extract(value: u64, mut mask: u64) -> u64 {
        let (mut out, mut next) = (0, 0);
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            out |= u64::from(value & lowest != 0) << next;
            next += 1;
            mask ^= lowest;
        }
        out
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Head, RowWriter, Split};

    #[target_feature(enable = "avx2,bmi2,popcnt")]
    pub(super) fn gather(writer: &mut RowWriter, blocks: &[Split], heads: &[Head], has_full: bool) {
        writer.gather(blocks, heads, has_full, |value, mask| std::arch::x86_64::_pext_u64(value, mask));
    }
}
