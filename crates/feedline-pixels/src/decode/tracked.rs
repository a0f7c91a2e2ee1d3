//! A reader over bytes that records its position, so that errors can give an offset.

use std::cell::Cell;
use std::io::{BufRead, Error, ErrorKind, Read, Result, Seek, SeekFrom};

/// Most bytes of one `read`.
const STEP: usize = 256;

/// Bytes, and a shared cell with the position.
#[derive(Debug)]
pub(super) struct Tracked<'a> {
    bytes: &'a [u8],
    at: &'a Cell<usize>,
}

impl<'a> Tracked<'a> {
    pub(super) fn new(bytes: &'a [u8], at: &'a Cell<usize>) -> Self {
        Tracked { bytes, at }
    }
}

impl Read for Tracked<'_> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let rest = self.fill_buf()?;
        // A decoder with a buffer of its own reads ahead by this much at most, so that the position is nearly right.
        let length = rest.len().min(into.len()).min(STEP);
        into[..length].copy_from_slice(&rest[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Tracked<'_> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        Ok(self.bytes.get(self.at.get()..).unwrap_or_default())
    }

    fn consume(&mut self, length: usize) {
        self.at.set(self.at.get() + length);
    }
}

impl Seek for Tracked<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let (base, by) = match to {
            SeekFrom::Start(at) => (0, i64::try_from(at).unwrap_or(i64::MAX)),
            SeekFrom::Current(by) => (self.at.get(), by),
            SeekFrom::End(by) => (self.bytes.len(), by),
        };
        let at = i64::try_from(base).ok().and_then(|base| base.checked_add(by));
        let at = at.and_then(|at| usize::try_from(at).ok());
        let at = at.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "before the beginning"))?;
        self.at.set(at);
        Ok(at as u64)
    }
}
