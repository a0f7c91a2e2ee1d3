//! The seek index: the position of every few MCUs in the entropy-coded data, and their DC predictors.
//!
//! Layout (little-endian):
//!
//! | bytes | what |
//! |---|---|
//! | 0 | `J` |
//! | 1 | version: 1, or 2 for an index of the first rows only |
//! | 2 | spacing: MCUs between checkpoints of a row; each row starts with one |
//! | 3 | bits of a position |
//! | 4–6 | bits of each component's predictor |
//! | 7 | zero |
//! | 8–11 | length of the JPEG in bytes |
//! | 12–19 | fingerprint of the JPEG's frame, tables and scan header |
//! | 20–25 | smallest predictor of each component |
//! | 26–27 | version 2 only: number of MCU rows that are indexed, from the top |
//! | then | checkpoints, then the end of the indexed rows in the same form: position, predictors, packed from the low bit up |
//!
//! A position counts bits from the start of the entropy-coded data, stuffing included. Fields have the width that the
//! file needs, the same for all checkpoints, so that each can be read without the others: about six bytes each.
//!
//! Packs store dense indexes (see [`Density`]), always whole and in version 1. Version 2 is for indexes that are
//! collected while images are decoded, and that end where the decoding ended.
//!
//! An index is only a hint. It identifies its file; nothing else in it is trusted. A wrong index makes
//! the data look irregular or, at worst, gives wrong pixels, as a flipped bit in the JPEG would; it cannot make the
//! decoder read or write outside its buffers.

use super::frame::Frame;
use super::huffman::Predictors;

/// A whole index, as packs have it.
const WHOLE: u8 = 1;
/// An index of the first rows.
const PARTIAL: u8 = 2;
const HEADER: usize = 26;
/// What version 2 has in addition.
const MORE: usize = 2;

/// How many checkpoints an index has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Density {
    /// For packs: every six MCUs, or 256 bytes if that is more: at most 3 % of the file. In every row, a region wastes
    /// half of the spacing on average at its left edge.
    Dense,
    /// For indexes that are kept beside data which are not ours: one checkpoint in 512 bytes, at least one a row.
    /// About 1.2 % of an ImageNet file. With one in a kilobyte, the entropy decoding of crops took 13 % longer than from a
    /// dense one.
    Sparse,
}

/// Largest spacing: it is stored in a byte.
const MOST: usize = 255;

impl Density {
    /// Number of MCUs between checkpoints of a scan of `length` bytes.
    pub(crate) fn spacing(self, frame: &Frame, length: usize) -> usize {
        let (least, bytes) = match self {
            Density::Dense => (6, 256),
            Density::Sparse => (6, 512),
        };
        let across = frame.mcus_across;
        let wanted = (bytes * frame.mcus()).div_ceil(length.max(1));
        if wanted <= least {
            return least;
        }
        // As many as fit into a row, evenly.
        across.div_ceil((across / wanted).max(1)).min(MOST)
    }
}

/// State of the entropy decoder before an MCU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Bits from the start of the entropy-coded data, stuffing included.
    pub(crate) position: u64,
    pub(crate) predictors: Predictors,
}

/// The file that an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) length: u32,
    pub(crate) fingerprint: u64,
}

/// Checkpoints that were collected from the top of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Number of MCUs between checkpoints of a row.
    pub(crate) spacing: usize,
    /// Number of indexed MCU rows.
    pub(crate) rows: usize,
    /// Those of whole rows, and the end of the last row.
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// Writes an index. `None` if a value is out of range for any valid file.
pub(crate) fn write(identity: Identity, frame: &Frame, collected: &Collected) -> Option<Vec<u8>> {
    let Collected { spacing, rows, checkpoints } = collected;
    let end = checkpoints.last()?.position;
    let position_bits = 64 - end.leading_zeros();
    let mut low = [0i16; 3];
    let mut widths = [0; 3];
    for component in 0..frame.components.len() {
        let values = checkpoints.iter().map(|c| c.predictors[component]);
        let (min, max) = (values.clone().min()?, values.max()?);
        low[component] = i16::try_from(min).ok()?;
        i16::try_from(max).ok()?;
        widths[component] = 32 - ((max - min) as u32).leading_zeros();
    }
    if position_bits > 32 {
        return None;
    }
    let entry = position_bits + widths.iter().sum::<u32>();
    let mut out = Vec::with_capacity(HEADER + MORE + (checkpoints.len() * entry as usize).div_ceil(8));
    let version = if *rows == frame.mcus_down { WHOLE } else { PARTIAL };
    out.extend_from_slice(&[b'J', version, u8::try_from(*spacing).ok()?, position_bits as u8]);
    out.extend_from_slice(&[widths[0] as u8, widths[1] as u8, widths[2] as u8, 0]);
    out.extend_from_slice(&identity.length.to_le_bytes());
    out.extend_from_slice(&identity.fingerprint.to_le_bytes());
    for value in low {
        out.extend_from_slice(&value.to_le_bytes());
    }
    if version == PARTIAL {
        out.extend_from_slice(&u16::try_from(*rows).ok()?.to_le_bytes());
    }
    let mut packer = Packer { out, bits: 0, count: 0 };
    for checkpoint in checkpoints {
        packer.push(checkpoint.position, position_bits);
        for ((&value, &low), &width) in checkpoint.predictors.iter().zip(&low).zip(&widths) {
            packer.push((value - i32::from(low)) as u64, width);
        }
    }
    Some(packer.finish())
}

/// Whether an index has all rows of its image.
pub(crate) fn is_whole(index: &[u8]) -> bool {
    index.get(1) == Some(&WHOLE)
}

struct Packer {
    out: Vec<u8>,
    bits: u64,
    count: u32,
}

impl Packer {
    fn push(&mut self, value: u64, width: u32) {
        if width == 0 {
            return;
        }
        self.bits |= value << self.count;
        self.count += width;
        while self.count >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.out.push(self.bits as u8);
        }
        self.out
    }
}

/// A read-only view of an index whose header matches the current file.
#[derive(Clone, Copy)]
pub(crate) struct Index<'a> {
    entries: &'a [u8],
    spacing: usize,
    per_row: usize,
    rows: usize,
    count: usize,
    position_bits: u32,
    widths: [u32; 3],
    low: [i16; 3],
}

impl<'a> Index<'a> {
    /// Checks that `bytes` is an index for this frame of this file.
    pub(crate) fn read(bytes: &'a [u8], identity: Identity, frame: &Frame) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let mut entries = &bytes[HEADER..];
        let (spacing, mut rows) = (usize::from(header[2]), frame.mcus_down);
        let known = match header[1] {
            WHOLE => true,
            PARTIAL => {
                let (more, rest) = entries.split_first_chunk::<MORE>()?;
                entries = rest;
                rows = usize::from(u16::from_le_bytes(*more));
                (1..frame.mcus_down).contains(&rows)
            }
            _ => false,
        };
        let known = known && header[0] == b'J' && header[7] == 0;
        let position_bits = u32::from(header[3]);
        let widths = [4, 5, 6].map(|i| u32::from(header[i]));
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let fingerprint = u64::from_le_bytes(header[12..20].try_into().ok()?);
        let sane = spacing > 0 && position_bits <= 32 && widths.iter().all(|&w| w <= 16);
        if !known || !sane || (Identity { length, fingerprint }) != identity {
            return None;
        }
        let per_row = frame.mcus_across.div_ceil(spacing);
        let count = per_row.checked_mul(rows)?.checked_add(1)?;
        let entry = (position_bits + widths.iter().sum::<u32>()) as usize;
        let low = [20, 22, 24].map(|i| i16::from_le_bytes([header[i], header[i + 1]]));
        (entries.len() == count.checked_mul(entry)?.div_ceil(8)).then_some(Index {
            entries,
            spacing,
            per_row,
            rows,
            count,
            position_bits,
            widths,
            low,
        })
    }

    /// Number of MCU rows that are indexed, from the top.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Its checkpoints without the end of the last row.
    pub(crate) fn checkpoints(&self) -> Vec<Checkpoint> {
        let at = |number: usize| self.checkpoint(number / self.per_row, number % self.per_row * self.spacing);
        (0..self.count - 1).map(at).collect()
    }

    /// Number of MCUs between checkpoints of a row.
    pub(crate) fn spacing(&self) -> usize {
        self.spacing
    }

    /// The checkpoint at MCU `column` of `row`; a column past the row's end is the start of the next row.
    pub(crate) fn checkpoint(&self, row: usize, column: usize) -> Checkpoint {
        let number = row * self.per_row + (column / self.spacing).min(self.per_row);
        let entry = (self.position_bits + self.widths.iter().sum::<u32>()) as usize;
        let mut at = number.min(self.count - 1) * entry;
        let position = self.field(at, self.position_bits);
        at += self.position_bits as usize;
        let mut predictors = [0; 3];
        for ((value, &low), &width) in predictors.iter_mut().zip(&self.low).zip(&self.widths) {
            *value = i32::from(low) + self.field(at, width) as i32;
            at += width as usize;
        }
        Checkpoint { position, predictors }
    }

    /// `width` (at most 32) bits from bit `at` on.
    fn field(&self, at: usize, width: u32) -> u64 {
        let mut bytes = [0; 8];
        let rest = self.entries.get(at / 8..).unwrap_or(&[]);
        let length = rest.len().min(8);
        bytes[..length].copy_from_slice(&rest[..length]);
        (u64::from_le_bytes(bytes) >> (at % 8)) & ((1 << width) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::jpeg::frame::Colors;

    fn frame() -> Frame {
        let sampling = [(2, 2, [1; 64]), (1, 1, [1; 64]), (1, 1, [1; 64])];
        Frame::from_sampling(Size::new(400, 48), Colors::Ycc, &sampling).unwrap()
    }

    const IDENTITY: Identity = Identity { length: 12345, fingerprint: 99 };

    const SPACING: usize = 6;

    fn sample(rows: usize) -> (Vec<Checkpoint>, Vec<u8>) {
        let frame = frame();
        let count = frame.mcus_across.div_ceil(SPACING) * rows + 1;
        let checkpoints: Vec<_> = (0..count)
            .map(|i| Checkpoint {
                position: i as u64 * 777 + 3,
                predictors: [i as i32 * 5 - 40, -1000 + i as i32, 7],
            })
            .collect();
        let collected = Collected { spacing: SPACING, rows, checkpoints };
        let bytes = write(IDENTITY, &frame, &collected).unwrap();
        (collected.checkpoints, bytes)
    }

    #[test]
    fn reads_what_it_wrote() {
        for rows in [frame().mcus_down, 2, 1] {
            let (checkpoints, bytes) = sample(rows);
            let index = Index::read(&bytes, IDENTITY, &frame()).unwrap();
            assert_eq!((index.rows(), index.spacing()), (rows, SPACING));
            let per_row = frame().mcus_across.div_ceil(SPACING);
            for (i, expected) in checkpoints.iter().enumerate() {
                let (row, column) = (i / per_row, i % per_row * SPACING);
                assert_eq!(index.checkpoint(row, column), *expected);
            }
            assert_eq!(index.checkpoint(0, 1000), checkpoints[per_row]);
            assert_eq!(index.checkpoints(), checkpoints[..checkpoints.len() - 1]);
        }
    }

    #[test]
    fn refuses_other_files_lengths_and_versions() {
        for (rows, bytes) in [(frame().mcus_down, 26), (2, 28)] {
            let (_, index) = sample(rows);
            let other = Identity { length: 12346, ..IDENTITY };
            assert!(Index::read(&index, other, &frame()).is_none());
            for cut in 0..index.len() {
                assert!(Index::read(&index[..cut], IDENTITY, &frame()).is_none());
            }
            for at in [0, 1, 2, 3, 4, 7].into_iter().chain(26..bytes) {
                let mut wrong = index.clone();
                wrong[at] ^= 0x41;
                assert!(Index::read(&wrong, IDENTITY, &frame()).is_none(), "byte {at}");
            }
        }
    }

    #[test]
    fn the_spacing_follows_the_bytes() {
        let frame = frame(); // 25 x 3 MCUs
        assert_eq!(Density::Dense.spacing(&frame, 75 * 100), 6);
        // 16 bytes an MCU: 256 bytes are 16 MCUs, so one checkpoint a row.
        assert_eq!(Density::Dense.spacing(&frame, 75 * 16), 25);
        // 32 bytes an MCU: three a row.
        assert_eq!(Density::Dense.spacing(&frame, 75 * 32), 9);
        assert_eq!(Density::Dense.spacing(&frame, 0), 25);
        assert_eq!(Density::Sparse.spacing(&frame, 75 * 50), 13);
        assert_eq!(Density::Sparse.spacing(&frame, 75 * 1000), 6);
        let wide = [(1, 1, [1; 64])];
        let wide = Frame::from_sampling(Size::new(4000, 8), Colors::Grey, &wide).unwrap();
        assert_eq!(Density::Dense.spacing(&wide, 100), 255);
        assert_eq!(Density::Sparse.spacing(&wide, 100), 255);
    }
}
