//! Opens chunks, and inflates and decrypts those that are stored as a whole.

use std::sync::Arc;

use super::chunk::{Bytes, Frame, Layout, Wrong};
use super::index::Level;
use super::inflate::{ZSTD_MAGIC, inflate, inflate_up_to};
use super::{Chunk, LitData};
use crate::error::{Error, Result};
use crate::source::{changed, to_usize};

/// The key of a whole chunk in the cache of frames.
const WHOLE: u32 = u32::MAX;

impl LitData {
    pub(super) fn chunk(&self, number: usize) -> Result<&Chunk> {
        if let Some(chunk) = self.chunks[number].get() {
            return Ok(chunk);
        }
        let opened = self.open_chunk(number)?;
        Ok(self.chunks[number].get_or_init(|| opened))
    }

    fn open_chunk(&self, number: usize) -> Result<Chunk> {
        let entry = &self.index.chunks[number];
        self.check_version(number)?;
        let mut first = [0; 4];
        if self.sizes[number] >= 4 {
            self.file(number).read_at(0, &mut first)?;
        }
        let compressed = first == ZSTD_MAGIC;
        if !compressed && !entry.is_length(self.sizes[number]) {
            let reason = format!(
                "{} bytes long, index.json says {}: cut off or replaced",
                self.sizes[number],
                entry.listed_bytes()
            );
            return Err(Error::data(self.in_chunk(number), reason));
        }
        let whole = compressed || self.index.encryption == Some(Level::Chunk);
        let bytes = self.bytes(number, whole)?;
        let layout = Layout::read(&bytes, entry.chunk_size).map_err(|wrong| self.bad_chunk(number, wrong))?;
        if matches!(layout, Layout::Rows(_)) && !self.may_have_rows() {
            let reason = "an Arrow table, which does not fit the data_format in index.json";
            return Err(Error::data(self.in_chunk(number), reason));
        }
        Ok(Chunk { whole, layout })
    }

    /// A chunk that is opened long after the data set may have been rewritten meanwhile, with the same length.
    fn check_version(&self, number: usize) -> Result<()> {
        let found = self.open_objects.with(number, |object| object.version())?;
        if found == 0 || found == self.versions[number] {
            return Ok(());
        }
        Err(changed(self.in_chunk(number), self.sizes[number], self.sizes[number]))
    }

    pub(super) fn bad_chunk(&self, number: usize, wrong: Wrong) -> Error {
        match wrong {
            Wrong::At(offset, reason) => Error::data(self.in_chunk(number).with_offset(offset), reason),
            Wrong::Reading(error) => error,
        }
    }

    pub(super) fn file(&self, number: usize) -> Bytes<'_> {
        Bytes::File { open_objects: &self.open_objects, number, size: self.sizes[number] }
    }

    /// A chunk's bytes, to which the offsets in its tables refer.
    pub(super) fn bytes(&self, number: usize, whole: bool) -> Result<Bytes<'_>> {
        if !whole {
            return Ok(self.file(number));
        }
        let kept = self.inflated.get((number as u32, WHOLE), || self.inflate_chunk(number))?;
        Ok(Bytes::Memory(kept))
    }

    fn inflate_chunk(&self, number: usize) -> Result<Vec<u8>> {
        let bad = |reason: String| Error::data(self.in_chunk(number), reason);
        to_usize(self.sizes[number], &self.uri, self.open_objects.name(number))?;
        let mut bytes = self.file(number).copy(0..self.sizes[number])?;
        if bytes.starts_with(&ZSTD_MAGIC) {
            bytes = self.inflate_whole(number, &bytes).map_err(bad)?;
        }
        match (&self.cipher, self.index.encryption) {
            (Some(cipher), Some(Level::Chunk)) => cipher.open(&bytes).map_err(bad),
            _ => Ok(bytes),
        }
    }

    fn inflate_whole(&self, number: usize, frame: &[u8]) -> Result<Vec<u8>, String> {
        let entry = &self.index.chunks[number];
        let mut bytes = Vec::new();
        inflate_up_to(frame, entry.most_bytes(), &mut bytes)?;
        if entry.is_length(bytes.len() as u64) {
            return Ok(bytes);
        }
        Err(format!("inflates to {} bytes, index.json says {}", bytes.len(), entry.listed_bytes()))
    }

    pub(super) fn inflate_frame(
        &self,
        number: usize,
        bytes: &Bytes<'_>,
        frame: Frame,
    ) -> Result<Arc<Vec<u8>>> {
        self.inflated.get((number as u32, frame.number), || {
            let stored = bytes.copy(frame.offset..frame.offset + u64::from(frame.length))?;
            let place = || self.in_chunk(number).with_offset(frame.offset);
            inflate(&stored, u64::from(frame.inflated)).map_err(|reason| Error::data(place(), reason))
        })
    }
}
