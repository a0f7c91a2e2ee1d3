//! A file's bytes by range, wherever they are.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result, malformed};

/// A file of which parts are read.
pub trait FileBytes {
    /// Length of the file.
    fn size(&self) -> u64;

    /// These bytes, which are inside the file.
    fn read(&mut self, range: Range<u64>) -> Result<Cow<'_, [u8]>>;
}

impl FileBytes for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&mut self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let found = self.get(range.start as usize..range.end as usize);
        found.map(Cow::Borrowed).ok_or_else(|| malformed("the file ends early"))
    }
}

/// Bytes that are read at once where only a few are asked for: neighbouring headers are then there too.
const BLOCK: u64 = 64 << 10;

/// Reads a file in blocks by a function that fills memory.
pub struct BlockReader<F> {
    size: u64,
    fill: F,
    /// The last block and its place.
    block: (u64, Vec<u8>),
}

impl<F> std::fmt::Debug for BlockReader<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReader").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<F: FnMut(u64, &mut [u8]) -> Result<()>> BlockReader<F> {
    /// `fill` fills memory with the bytes from an offset on.
    pub fn new(size: u64, fill: F) -> Self {
        BlockReader { size, fill, block: (0, Vec::new()) }
    }
}

impl<F: FnMut(u64, &mut [u8]) -> Result<()>> FileBytes for BlockReader<F> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&mut self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if range.end > self.size || range.start > range.end {
            return Err(malformed("the file ends early"));
        }
        let held = self.block.0..self.block.0 + self.block.1.len() as u64;
        if !(held.contains(&range.start) && range.end <= held.end) {
            let end = range.end.max((range.start + BLOCK).min(self.size));
            let length = end - range.start;
            let (at, block) = &mut self.block;
            block.clear();
            let wanted = usize::try_from(length).map_err(|_| Error::OutOfMemory { bytes: length })?;
            block.try_reserve_exact(wanted).map_err(|_| Error::OutOfMemory { bytes: length })?;
            block.resize(wanted, 0);
            *at = range.start;
            if let Err(error) = (self.fill)(range.start, block) {
                block.clear();
                return Err(error);
            }
        }
        let start = (range.start - self.block.0) as usize;
        Ok(Cow::Borrowed(&self.block.1[start..start + (range.end - range.start) as usize]))
    }
}

/// Parts of a file in memory.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Place and bytes, ascending and without overlap.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Pieces {
    /// Forgets all; memory is kept for the next file.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Adds a part that lies behind all others.
    pub fn push(&mut self, offset: u64, bytes: Vec<u8>) {
        debug_assert!(self.pieces.last().is_none_or(|(at, held)| at + held.len() as u64 <= offset));
        self.pieces.push((offset, bytes));
    }
}

/// Where the decoder finds packets.
pub trait Packets {
    /// These bytes of the file; `None` if they are not in memory.
    fn packet(&self, offset: u64, size: u32) -> Option<&[u8]>;
}

/// A whole file in memory.
#[derive(Clone, Copy, Debug)]
pub struct WholeFile<'a>(pub &'a [u8]);

impl Packets for WholeFile<'_> {
    fn packet(&self, offset: u64, size: u32) -> Option<&[u8]> {
        within(self.0, offset, size)
    }
}

fn within(bytes: &[u8], offset: u64, size: u32) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(size as usize)?)
}

impl Packets for Pieces {
    fn packet(&self, offset: u64, size: u32) -> Option<&[u8]> {
        let after = self.pieces.partition_point(|(at, _)| *at <= offset);
        let (at, bytes) = self.pieces.get(after.checked_sub(1)?)?;
        within(bytes, offset - at, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_once_and_bounds_are_kept() {
        let file: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        let mut reads = Vec::new();
        let mut reader = BlockReader::new(file.len() as u64, |at, into: &mut [u8]| {
            reads.push((at, into.len()));
            into.copy_from_slice(&file[at as usize..at as usize + into.len()]);
            Ok(())
        });
        assert_eq!(&*reader.read(0..8).unwrap(), &file[..8]);
        assert_eq!(&*reader.read(1000..1016).unwrap(), &file[1000..1016]);
        assert_eq!(&*reader.read(199_990..200_000).unwrap(), &file[199_990..]);
        assert!(reader.read(199_990..200_001).is_err());
        assert_eq!(&*reader.read(10..150_000).unwrap(), &file[10..150_000]);
        assert_eq!(reads, [(0, 65536), (199_990, 10), (10, 149_990)]);
    }

    #[test]
    fn pieces_give_what_they_hold_and_nothing_else() {
        let mut pieces = Pieces::default();
        pieces.push(10, vec![1, 2, 3]);
        pieces.push(20, vec![4, 5]);
        assert_eq!(pieces.packet(11, 2), Some(&[2, 3][..]));
        assert_eq!(pieces.packet(20, 2), Some(&[4, 5][..]));
        for (offset, size) in [(9, 1), (12, 2), (21, 2), (30, 1), (u64::MAX, 1)] {
            assert_eq!(pieces.packet(offset, size), None, "{offset} {size}");
        }
    }
}
