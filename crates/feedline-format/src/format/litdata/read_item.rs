//! Reads items of chunks: all leaves, or only those that are wanted.

use std::cell::RefCell;
use std::ops::Range;

use super::chunk::{Bytes, Layout};
use super::index::Level;
use super::inflate::inflate_up_to;
use super::item::{ItemReader, Sizes, is_worth_parting, leaf_places};
use super::leaf::Leaf;
use super::{Chunk, LitData};
use crate::error::{Error, Result};
use crate::format::Format as _;
use crate::sample::{FieldSet, MAX_FIELDS, SampleBuffer};

thread_local! {
    /// A compressed or encrypted item, and its inflated content.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl LitData {
    /// Whether items are stored plain, not each compressed or encrypted.
    pub(super) fn plain_items(&self) -> bool {
        !self.index.zstd_items && self.index.encryption != Some(Level::Item)
    }

    /// Reads an item's bytes into the buffer.
    pub(super) fn fetch(
        &self,
        number: usize,
        chunk: &Chunk,
        item: usize,
        into: &mut SampleBuffer,
    ) -> Result<Range<usize>> {
        let sample = self.starts[number] + item as u64;
        let changed = || self.bad_item(sample, "the chunk's table changed since it was opened");
        let bytes = self.bytes(number, chunk.whole)?;
        match &chunk.layout {
            Layout::Items(items) => {
                let place = items.range(item).filter(|r| r.end <= bytes.size()).ok_or_else(changed)?;
                if !self.plain_items() {
                    return self.fetch_wrapped(sample, &bytes, place, into);
                }
                let (range, room) = into.reserve((place.end - place.start) as usize);
                bytes.read_at(place.start, room)?;
                Ok(range)
            }
            Layout::Frames(frames) => {
                let (frame, place) = frames.place(item).ok_or_else(changed)?;
                let inflated = self.inflate_frame(number, &bytes, frame)?;
                let stored = inflated.get(place.start as usize..place.end as usize).ok_or_else(changed)?;
                self.unwrap_into(sample, stored, into)
            }
            Layout::Rows(_) => Err(changed()),
        }
    }

    /// Reads an item that is compressed or encrypted by itself.
    fn fetch_wrapped(
        &self,
        sample: u64,
        bytes: &Bytes<'_>,
        place: Range<u64>,
        into: &mut SampleBuffer,
    ) -> Result<Range<usize>> {
        SCRATCH.with_borrow_mut(|(stored, inflated)| {
            stored.resize((place.end - place.start) as usize, 0);
            bytes.read_at(place.start, stored)?;
            if !self.index.zstd_items {
                return self.unwrap_into(sample, stored, into);
            }
            inflated.clear();
            inflate_up_to(stored, u64::from(u32::MAX), inflated)
                .map_err(|reason| self.bad_item(sample, reason))?;
            self.unwrap_into(sample, inflated, into)
        })
    }

    /// Decrypts an item if it is encrypted, and copies it into the buffer.
    fn unwrap_into(&self, sample: u64, stored: &[u8], into: &mut SampleBuffer) -> Result<Range<usize>> {
        match (&self.cipher, self.index.encryption) {
            (Some(cipher), Some(Level::Item)) => {
                let opened = cipher.open(stored).map_err(|reason| self.bad_item(sample, reason))?;
                Ok(into.append(&opened))
            }
            _ => Ok(into.append(stored)),
        }
    }

    pub(super) fn read_item(
        &self,
        sample: u64,
        (number, item): (usize, usize),
        chunk: &Chunk,
        fields: &FieldSet,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        if let (ItemReader::Leaves(leaves), Layout::Items(items)) = (&self.items, &chunk.layout)
            && self.plain_items()
            && let Some(place) = items.range(item)
            && is_worth_parting(place.end - place.start, leaves, |leaf| fields.has(self.leaf_fields[leaf]))
        {
            return self.read_parts(sample, number, chunk, &place, fields, into);
        }
        let range = self.fetch(number, chunk, item, into)?;
        match &self.items {
            ItemReader::Leaves(leaves) => self.read_leaves(sample, leaves, &range, fields, into),
            ItemReader::Tokens(leaf) if fields.has(0) => self.set_leaf(sample, 0, leaf, range, into),
            ItemReader::Tokens(_) => Ok(()),
            ItemReader::Temporal(temporal) => {
                temporal.read(&range, fields, into).map_err(|(_, reason)| self.bad_item(sample, reason))
            }
        }
    }

    fn read_leaves(
        &self,
        sample: u64,
        leaves: &[Leaf],
        range: &Range<usize>,
        fields: &FieldSet,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let mut sizes = Sizes::default();
        sizes
            .parse(into.bytes(range), leaves.len(), range.len() as u64)
            .map_err(|r| self.bad_item(sample, r))?;
        for (number, leaf) in leaves.iter().enumerate() {
            let field = self.leaf_fields[number];
            if !fields.has(field) {
                continue;
            }
            let place = sizes.range(number);
            let stored = range.start + place.start as usize..range.start + place.end as usize;
            self.set_leaf(sample, field, leaf, stored, into)?;
        }
        Ok(())
    }

    fn set_leaf(
        &self,
        sample: u64,
        field: usize,
        leaf: &Leaf,
        stored: Range<usize>,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let value = leaf.value(stored, into).map_err(|reason| {
            Error::data(self.locate(sample).with_field(&self.schema.fields[field].name), reason)
        })?;
        into.set(field, value);
        Ok(())
    }

    /// Reads the sizes first, then only the wanted leaves.
    fn read_parts(
        &self,
        sample: u64,
        number: usize,
        chunk: &Chunk,
        place: &Range<u64>,
        fields: &FieldSet,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let ItemReader::Leaves(leaves) = &self.items else { return Ok(()) };
        let bytes = self.bytes(number, chunk.whole)?;
        let sizes = self.sizes(sample, &bytes, place, leaves.len())?;
        for (number, leaf) in leaves.iter().enumerate() {
            let field = self.leaf_fields[number];
            if !fields.has(field) {
                continue;
            }
            let part = sizes.range(number);
            let (range, room) = into.reserve((part.end - part.start) as usize);
            bytes.read_at(place.start + part.start, room)?;
            self.set_leaf(sample, field, leaf, range, into)?;
        }
        Ok(())
    }

    pub(super) fn sizes(
        &self,
        sample: u64,
        bytes: &Bytes<'_>,
        place: &Range<u64>,
        leaves: usize,
    ) -> Result<Sizes> {
        let mut head = [0; 4 * MAX_FIELDS];
        let head = &mut head[..(4 * leaves).min((place.end - place.start) as usize)];
        if place.end > bytes.size() {
            return Err(self.bad_item(sample, "the chunk's table changed since it was opened"));
        }
        bytes.read_at(place.start, head)?;
        let mut sizes = Sizes::default();
        sizes.parse(head, leaves, place.end - place.start).map_err(|r| self.bad_item(sample, r))?;
        Ok(sizes)
    }

    /// Fills `into` with a leaf's bytes, without the buffer in between.
    pub(super) fn read_leaf_bytes(
        &self,
        sample: u64,
        (number, item): (usize, usize),
        chunk: &Chunk,
        field: usize,
        into: &mut [u8],
    ) -> Result<()> {
        let wrong = || self.bad_item(sample, "the field is not as long as the item's length says");
        let ItemReader::Leaves(leaves) = &self.items else { return Err(wrong()) };
        let leaf = self.leaf_fields.iter().position(|f| *f == field).ok_or_else(wrong)?;
        let bytes = self.bytes(number, chunk.whole)?;
        match &chunk.layout {
            Layout::Items(items) => {
                let place = items.range(item).ok_or_else(wrong)?;
                let part = self.sizes(sample, &bytes, &place, leaves.len())?.range(leaf);
                if part.end - part.start != into.len() as u64 {
                    return Err(wrong());
                }
                bytes.read_at(place.start + part.start, into)
            }
            Layout::Frames(frames) => {
                let (frame, place) = frames.place(item).ok_or_else(wrong)?;
                let inflated = self.inflate_frame(number, &bytes, frame)?;
                let stored = inflated.get(place.start as usize..place.end as usize).ok_or_else(wrong)?;
                let parts = leaf_places(stored, leaves.len()).map_err(|r| self.bad_item(sample, r))?;
                let part = stored.get(parts[leaf].clone()).filter(|p| p.len() == into.len());
                into.copy_from_slice(part.ok_or_else(wrong)?);
                Ok(())
            }
            Layout::Rows(_) => Err(wrong()),
        }
    }

    /// The only leaf with a varying length, if there is exactly one: its length then follows from the item's.
    pub(super) fn varying_leaf(&self) -> Option<(usize, u64)> {
        let ItemReader::Leaves(leaves) = &self.items else { return None };
        let mut varying = leaves.iter().enumerate().filter(|(_, leaf)| leaf.fixed_size().is_none());
        let (only, leaf) = varying.next()?;
        let fixed: u64 = leaves.iter().filter_map(Leaf::fixed_size).sum();
        (varying.next().is_none() && leaf.is_verbatim()).then_some((only, fixed + 4 * leaves.len() as u64))
    }
}
