//! Sources of coefficients: a walk through the scan from its start, or jumps with a seek index.

use std::ops::Range;

use super::frame::Frame;
use super::huffman::{self, Irregular, Job, Predictors, Reader, ScanTables};
use super::idct::Block;
use super::index::{Checkpoint, Collected, Index};
use super::scan::{PADDING, unstuff};
use crate::CpuLevel;

/// MCUs of one row whose coefficients are needed, and their place in the caller's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    pub(crate) row: usize,
    pub(crate) mcus: Range<usize>,
    /// Index of the first block.
    pub(crate) offset: usize,
}

/// Decodes the coefficients of MCUs.
pub(crate) trait Source {
    /// Spans start at multiples of this, which is cheapest.
    fn alignment(&self) -> usize {
        1
    }

    /// Fills `blocks` with the coefficients of `spans`, which are in scan order and never overlap earlier ones.
    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular>;
}

/// Scratch memory that sources keep between images.
#[derive(Default)]
pub(crate) struct SourceScratch {
    /// Entropy-coded bytes without stuffing.
    bytes: Vec<u8>,
    /// Pieces of `bytes`, padding excluded.
    pieces: Vec<Range<usize>>,
    /// DC predictors of each piece.
    predictors: Vec<Predictors>,
    /// Positions of `FF` bytes in `bytes` that were followed by stuffing.
    stuffed: Vec<u32>,
}

/// The end of a scan's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Number of bytes, stuffing included.
    pub(crate) length: usize,
    /// Whether the last byte is padded with ones; else with zeros.
    pub(crate) ones: bool,
}

/// Checkpoints so far.
struct Recorded {
    spacing: usize,
    checkpoints: Vec<Checkpoint>,
}

/// Reads the scan from start to end.
pub(crate) struct Walk<'a> {
    level: CpuLevel,
    tables: &'a ScanTables<'a>,
    mcus_across: usize,
    restart_interval: usize,
    bytes: &'a [u8],
    pieces: &'a [Range<usize>],
    /// Remaining stuffing bytes, and the number already passed.
    stuffed: &'a [u32],
    stuffing: usize,
    /// Bits of the scan before `bytes`.
    base: usize,
    recorded: Option<Recorded>,
    reader: Reader<'a>,
    predictors: Predictors,
    /// The next MCU, and its piece.
    mcu: usize,
    piece: usize,
}

impl<'a> Walk<'a> {
    /// Unstuffs `data` (starting at the scan's first byte) and starts at its first MCU.
    pub(crate) fn new(
        level: CpuLevel,
        frame: &Frame,
        restart_interval: usize,
        tables: &'a ScanTables<'a>,
        data: &[u8],
        scratch: &'a mut SourceScratch,
    ) -> Result<Self, Irregular> {
        scratch.bytes.clear();
        scratch.pieces.clear();
        scratch.stuffed.clear();
        let wanted = if restart_interval == 0 { 1 } else { frame.mcus().div_ceil(restart_interval) };
        let mut at = 0;
        for number in 0..wanted {
            let start = scratch.bytes.len();
            let stuffed = &mut scratch.stuffed;
            at += unstuff(&data[at..], &mut scratch.bytes, |position| stuffed.push(position as u32));
            scratch.pieces.push(start..scratch.bytes.len() - PADDING);
            if number + 1 == wanted {
                break;
            }
            let expected = 0xD0 + (number % 8) as u8;
            if data.get(at..at + 2) != Some(&[0xFF, expected]) {
                break;
            }
            at += 2;
        }
        let scratch: &'a SourceScratch = scratch;
        Ok(Walk {
            level,
            tables,
            mcus_across: frame.mcus_across,
            restart_interval,
            bytes: &scratch.bytes,
            pieces: &scratch.pieces,
            stuffed: &scratch.stuffed,
            stuffing: 0,
            base: 0,
            recorded: None,
            reader: Reader::new(&scratch.bytes, 0)?,
            predictors: [0; 3],
            mcu: 0,
            piece: 0,
        })
    }

    /// Starts where the rows of an index end. The scan has no restart intervals.
    pub(crate) fn after(
        level: CpuLevel,
        frame: &Frame,
        tables: &'a ScanTables<'a>,
        index: &Index<'_>,
        data: &[u8],
        scratch: &'a mut SourceScratch,
    ) -> Result<Self, Irregular> {
        let start = index.checkpoint(index.rows(), 0);
        let from = start.position as usize / 8;
        let rest = data.get(from..).ok_or(Irregular)?;
        let mut walk = Walk::new(level, frame, 0, tables, rest, scratch)?;
        walk.reader = Reader::new(walk.bytes, (start.position % 8) as u32)?;
        walk.base = from * 8;
        walk.predictors = start.predictors;
        walk.mcu = index.rows() * frame.mcus_across;
        Ok(walk)
    }

    /// Moves to the start of a restart interval.
    fn enter(&mut self, piece: usize) -> Result<(), Irregular> {
        let range = self.pieces.get(piece).ok_or(Irregular)?;
        self.reader = Reader::new(&self.bytes[range.start..range.end + PADDING], 0)?;
        self.predictors = [0; 3];
        self.piece = piece;
        self.mcu = piece * self.restart_interval;
        Ok(())
    }

    /// An error if more bits were consumed than the piece has: the data ended early and padding was read.
    fn check(&self) -> Result<(), Irregular> {
        let piece = self.pieces.get(self.piece).ok_or(Irregular)?;
        if self.reader.position() > piece.len() * 8 { Err(Irregular) } else { Ok(()) }
    }

    /// The MCU where the current piece ends, at most `end`.
    fn stretch(&mut self, end: usize) -> Result<usize, Irregular> {
        if self.restart_interval == 0 {
            return Ok(self.note(end));
        }
        if self.mcu / self.restart_interval != self.piece {
            self.check()?;
            self.enter(self.mcu / self.restart_interval)?;
        }
        Ok(end.min((self.piece + 1) * self.restart_interval))
    }

    /// Skips MCUs up to `end`.
    fn skip_to(&mut self, end: usize) -> Result<(), Irregular> {
        if self.restart_interval != 0 && end / self.restart_interval > self.piece {
            self.check()?;
            self.enter(end / self.restart_interval)?;
        }
        while self.mcu < end {
            let stop = self.stretch(end)?;
            let count = stop - self.mcu;
            huffman::skip_mcus(self.level, self.tables, &mut self.reader, &mut self.predictors, count)?;
            self.mcu = stop;
        }
        Ok(())
    }

    /// Records checkpoints from here on; only at the scan's start, and for scans without restart intervals.
    pub(crate) fn recording(mut self, spacing: usize) -> Self {
        if self.mcu == 0 && self.restart_interval == 0 {
            self.recorded = Some(Recorded { spacing, checkpoints: Vec::new() });
        }
        self
    }

    /// The same for a walk that continues after an index.
    pub(crate) fn continuing(mut self, index: &Index<'_>) -> Self {
        self.recorded = Some(Recorded { spacing: index.spacing(), checkpoints: index.checkpoints() });
        self
    }

    /// Walks to the end of the current MCU row, or of the scan if `whole` or if little of it is left, and returns the
    /// recorded checkpoints.
    pub(crate) fn finish(mut self, frame: &Frame, whole: bool) -> Result<Collected, Irregular> {
        let here = self.mcu.div_ceil(self.mcus_across);
        let rest = frame.mcus_down - here;
        let rows = if whole || rest <= frame.mcus_down / 4 { frame.mcus_down } else { here };
        self.skip_to(rows * self.mcus_across)?;
        self.check()?;
        let end = self.checkpoint();
        let Recorded { spacing, mut checkpoints } = self.recorded.take().ok_or(Irregular)?;
        checkpoints.push(end);
        Ok(Collected { spacing, rows, checkpoints })
    }

    /// Fills `blocks` with all coefficients of the scan, which starts here. Returns the position of its end if the blocks
    /// determine its bits (see [`huffman::decode_mcus_and_compare`]).
    pub(crate) fn fill_all(mut self, blocks: &mut [Block]) -> Result<Option<ScanEnd>, Irregular> {
        let per_mcu = self.tables.slots.len();
        let end = blocks.len() / per_mcu;
        let mut determined = self.restart_interval == 0;
        let mut rest = blocks;
        while self.mcu < end {
            let stop = self.stretch(end)?;
            let (now, later) = rest.split_at_mut((stop - self.mcu) * per_mcu);
            let (reader, predictors) = (&mut self.reader, &mut self.predictors);
            determined &= huffman::decode_mcus_and_compare(self.level, self.tables, reader, predictors, now)?;
            self.mcu = stop;
            rest = later;
        }
        self.check()?;
        Ok(if determined { self.end() } else { None })
    }

    /// Where the scan ends and how it is padded; `None` if neither with ones nor with zeros.
    fn end(&self) -> Option<ScanEnd> {
        let bits = self.reader.position();
        let bytes = bits.div_ceil(8);
        let padding = (1u16 << (bytes * 8 - bits)) - 1;
        let last = *self.bytes.get(bytes.checked_sub(1)?)?;
        let ones = match u16::from(last) & padding {
            padded if padded == padding => true,
            0 => false,
            _ => return None,
        };
        let stuffed = self.stuffed.iter().filter(|&&at| (at as usize) < bytes).count();
        // A last byte of ones that is not followed by a zero.
        let cut = last == 0xFF && !self.stuffed.contains(&(bytes as u32 - 1));
        (!cut).then_some(ScanEnd { length: bytes + stuffed, ones })
    }

    /// The current state.
    fn checkpoint(&mut self) -> Checkpoint {
        let position = self.reader.position();
        // Count the stuffing bytes before the reader's position, which only grows.
        while self.stuffed.first().is_some_and(|&at| (at as usize) < position / 8) {
            self.stuffed = &self.stuffed[1..];
            self.stuffing += 1;
        }
        let position = (self.base + position + 8 * self.stuffing) as u64;
        Checkpoint { position, predictors: self.predictors }
    }

    /// Records a checkpoint if one is due here; returns how far to go until the next, at most `end`.
    fn note(&mut self, end: usize) -> usize {
        let Some(spacing) = self.recorded.as_ref().map(|recorded| recorded.spacing) else { return end };
        let column = self.mcu % self.mcus_across;
        if column.is_multiple_of(spacing) {
            let checkpoint = self.checkpoint();
            if let Some(recorded) = &mut self.recorded {
                recorded.checkpoints.push(checkpoint);
            }
        }
        let next = (column / spacing + 1) * spacing;
        end.min(self.mcu - column + next.min(self.mcus_across))
    }
}

impl Source for Walk<'_> {
    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        for span in spans {
            let first = span.row * self.mcus_across + span.mcus.start;
            let end = first + span.mcus.len();
            self.skip_to(first)?;
            let mut blocks = &mut blocks[span.offset..];
            while self.mcu < end {
                let stop = self.stretch(end)?;
                let (now, later) = blocks.split_at_mut((stop - self.mcu) * self.tables.slots.len());
                huffman::decode_mcus(self.level, self.tables, &mut self.reader, &mut self.predictors, now)?;
                self.mcu = stop;
                blocks = later;
            }
        }
        self.check()
    }
}

/// Jumps into the scan with a seek index.
pub(crate) struct Jumps<'a> {
    level: CpuLevel,
    tables: &'a ScanTables<'a>,
    index: Index<'a>,
    /// Entropy-coded data, starting at the scan's first byte.
    data: &'a [u8],
    scratch: &'a mut SourceScratch,
}

impl<'a> Jumps<'a> {
    /// Has no position: each span is found by itself.
    pub(crate) fn new(
        level: CpuLevel,
        tables: &'a ScanTables<'a>,
        index: Index<'a>,
        data: &'a [u8],
        scratch: &'a mut SourceScratch,
    ) -> Self {
        Jumps { level, tables, index, data, scratch }
    }
}

impl Source for Jumps<'_> {
    fn alignment(&self) -> usize {
        self.index.spacing()
    }

    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        let scratch = &mut *self.scratch;
        scratch.bytes.clear();
        scratch.pieces.clear();
        scratch.predictors.clear();
        for span in spans {
            let checkpoint = self.index.checkpoint(span.row, span.mcus.start);
            let from = checkpoint.position as usize;
            let to = self.index.checkpoint(span.row, span.mcus.end.next_multiple_of(self.index.spacing()));
            let bytes = self.data.get(from / 8..(to.position as usize).div_ceil(8)).ok_or(Irregular)?;
            let start = scratch.bytes.len();
            unstuff(bytes, &mut scratch.bytes, |_| {});
            scratch.pieces.push(start..scratch.bytes.len() - PADDING);
            scratch.predictors.push(checkpoint.predictors);
        }
        let (index, slots) = (&self.index, self.tables.slots.len());
        let mut rest = blocks;
        let mut taken = 0;
        let pieces = scratch.pieces.iter().zip(&mut scratch.predictors);
        let jobs = spans.iter().zip(pieces).map(|(span, (piece, predictors))| {
            let checkpoint = index.checkpoint(span.row, span.mcus.start);
            let (_, from) = std::mem::take(&mut rest).split_at_mut(span.offset - taken);
            let (blocks, later) = from.split_at_mut(span.mcus.len() * slots);
            taken = span.offset + blocks.len();
            rest = later;
            Job {
                data: &scratch.bytes[piece.start..piece.end + PADDING],
                skip: (checkpoint.position % 8) as u32,
                limit: piece.len() * 8,
                predictors,
                blocks,
            }
        });
        huffman::decode_jobs(self.level, self.tables, jobs)
    }
}

/// Jumps as far as an index reaches, and walks from there.
pub(crate) struct JumpsThenWalk<'a> {
    pub(crate) jumps: Jumps<'a>,
    pub(crate) walk: Walk<'a>,
    /// Number of rows that are indexed.
    pub(crate) rows: usize,
}

impl Source for JumpsThenWalk<'_> {
    fn alignment(&self) -> usize {
        self.jumps.alignment()
    }

    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        let (indexed, rest) = spans.split_at(spans.partition_point(|span| span.row < self.rows));
        self.jumps.fill(indexed, blocks)?;
        self.walk.fill(rest, blocks)
    }
}
