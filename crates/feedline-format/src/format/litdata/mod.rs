//! LitData: `index.json` and chunk files, in all layouts that litdata's versions write.
//!
//! Opening reads only `index.json`, the folder's listing and the first chunk. The tables of other chunks are read on
//! first use and kept. A sample of a plain chunk is then one read. Chunks and frames that are compressed or encrypted
//! as a whole are inflated once and kept within a limit.

mod arrow;
mod batch;
mod chunk;
mod column;
mod fernet;
mod index;
mod inflate;
mod item;
mod json_leaf;
mod leaf;
mod opening;
mod rows;
mod spec;
mod temporal;
#[cfg(test)]
mod tests;
mod tokens;
mod write;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use self::batch::Batch;
use self::chunk::{Bytes, Frame, Layout, Wrong};
use self::fernet::Fernet;
use self::index::{Index, IndexPreview, Level};
use self::inflate::{ZSTD_MAGIC, inflate, inflate_up_to};
use self::item::{ItemReader, Sizes, is_worth_parting, leaf_places};
use self::leaf::Leaf;
use self::opening::{INDEX, cipher, find_chunks, fingerprint, read_index, starts, unmerged};
pub(super) use self::write::LitDataExporter;
use super::lru_cache::LruCache;
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, Kind, MAX_FIELDS, SampleBuffer, Schema,
};
use crate::source::{Source, Target, changed, to_usize};

/// How to detect and open LitData folders.
pub(super) const PROBE: Probe = Probe { name: "litdata", recognises, open };

/// Maximum size of inflated chunks and frames that are kept: four chunks of litdata's default size.
const KEPT_BYTES: usize = 256 << 20;

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Folder(source) = target else { return Ok(None) };
    if source.exists(INDEX)? {
        let mut bytes = Vec::new();
        source.read_whole(INDEX, &mut bytes)?;
        return Ok(IndexPreview::is_litdata(&bytes).then(|| "index.json of LitData chunks".to_owned()));
    }
    let unmerged = unmerged(&**source)?;
    Ok(unmerged.map(|name| format!("{name} of an unfinished LitData set")))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    match target {
        Target::Folder(source) => Ok(Arc::new(LitData::open(source.clone(), options)?)),
        Target::Objects(source, _) => {
            let error =
                Error::data(Location::new(source.uri()), "a LitData set is a folder with an index.json");
            Err(error.with_hint("give the folder, not the files in it"))
        }
    }
}

/// An open LitData folder.
#[derive(Debug)]
pub(crate) struct LitData {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    index: Index,
    open_objects: OpenObjects,
    sizes: Vec<u64>,
    versions: Vec<u64>,
    /// First sample of each chunk, and the number of samples.
    starts: Vec<u64>,
    chunks: Vec<OnceLock<Chunk>>,
    items: ItemReader,
    cipher: Option<Fernet>,
    inflated: LruCache<(u32, u32), Vec<u8>>,
    batches: LruCache<(u32, u32), Batch>,
    /// The field of each leaf; differs from 0, 1, 2, … only if Arrow tables have more fields.
    leaf_fields: Vec<usize>,
}

/// A chunk whose tables have been read.
#[derive(Debug)]
struct Chunk {
    /// Whether it is compressed or encrypted as a whole.
    whole: bool,
    layout: Layout,
}

/// The key of a whole chunk in the cache of frames.
const WHOLE: u32 = u32::MAX;

thread_local! {
    /// A compressed or encrypted item, and its inflated content.
    static SCRATCH: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl LitData {
    pub(crate) fn open(source: Arc<dyn Source>, options: &ReadingOptions) -> Result<Self> {
        let uri = source.uri().to_owned();
        let bytes = read_index(&*source)?;
        let in_index = || Location::new(&uri).with_shard(INDEX);
        let index =
            Index::parse(&bytes).map_err(|(reason, hint)| Error::data(in_index(), reason).with_hint(hint))?;
        let objects = find_chunks(&*source, &index)?;
        let fingerprint = fingerprint(&bytes, &objects);
        let starts = starts(&index).map_err(|reason| Error::data(in_index(), reason))?;
        let items = ItemReader::new(&index).map_err(|reason| Error::data(in_index(), reason))?;
        let cipher = index.encryption.map(|_| cipher(&*source, options)).transpose()?;
        let sizes = objects.iter().map(|(_, size, _)| *size).collect();
        let versions = objects.iter().map(|(_, _, version)| *version).collect();
        let open_objects =
            OpenObjects::new(source, objects.into_iter().map(|(name, size, _)| (name, size)).collect());
        let mut open = LitData {
            uri,
            schema: Schema::default(),
            fingerprint,
            chunks: index.chunks.iter().map(|_| OnceLock::new()).collect(),
            index,
            open_objects,
            sizes,
            versions,
            starts,
            items,
            cipher,
            inflated: LruCache::new(KEPT_BYTES),
            batches: LruCache::new(KEPT_BYTES),
            leaf_fields: Vec::new(),
        };
        open.look_at_first_sample()?;
        open.schema = open.describe()?;
        open.leaf_fields =
            open.index.names.iter().map(|n| open.schema.position(n).unwrap_or(usize::MAX)).collect();
        open.agree_on_images();
        Ok(open)
    }

    /// Finds the kinds of bytes from the first sample, and the layout from the first chunk.
    fn look_at_first_sample(&mut self) -> Result<()> {
        if self.len() == 0 {
            return Ok(());
        }
        let (number, item) = self.place(0)?;
        let chunk = self.chunk(number)?;
        if !matches!(self.items, ItemReader::Leaves(_)) || matches!(chunk.layout, Layout::Rows(_)) {
            return Ok(());
        }
        let mut buffer = SampleBuffer::new();
        let range = self.fetch(number, chunk, item, &mut buffer)?;
        let stored = buffer.bytes(&range);
        let ItemReader::Leaves(leaves) = &self.items else { return Ok(()) };
        let mut sniffed = leaves.clone();
        let places = leaf_places(stored, leaves.len()).map_err(|reason| self.bad_item(0, reason))?;
        for (number, place) in places.into_iter().enumerate() {
            if !self.index.ours.kinds.contains_key(&self.index.names[number]) {
                let leaf = leaves[number].clone();
                sniffed[number] = leaf.sniffed(&self.index.serializers[number], &stored[place]);
            }
        }
        self.items = ItemReader::Leaves(sniffed);
        Ok(())
    }

    /// Makes bytes images everywhere if they are images in the Arrow tables of a mixed set.
    fn agree_on_images(&mut self) {
        let ItemReader::Leaves(leaves) = &mut self.items else { return };
        for (leaf, field) in leaves.iter_mut().zip(&self.leaf_fields) {
            let kind = self.schema.fields.get(*field).map(|f| f.kind);
            if *leaf == Leaf::Bytes && kind == Some(Kind::Image) {
                *leaf = Leaf::Image;
            }
        }
    }

    fn describe(&self) -> Result<Schema> {
        let mut fields: Vec<FieldSpec> = match &self.items {
            ItemReader::Leaves(leaves) => {
                let field = |(name, leaf): (&String, &Leaf)| {
                    let mut field = FieldSpec::new(name, leaf.kind());
                    field.pickled = *leaf == Leaf::Pickle;
                    field
                };
                self.index.names.iter().zip(leaves).map(field).collect()
            }
            ItemReader::Tokens(_) => vec![FieldSpec::new(&self.index.names[0], Kind::Array)],
            ItemReader::Temporal(temporal) => {
                temporal.names.iter().map(|n| FieldSpec::new(n, Kind::Array)).collect()
            }
        };
        if matches!(self.items, ItemReader::Leaves(_)) && self.may_have_rows() {
            fields = self.describe_rows(&fields)?;
        }
        if fields.len() > MAX_FIELDS {
            let reason = format!("{} fields; at most {MAX_FIELDS} are supported", fields.len());
            return Err(Error::data(Location::new(&self.uri).with_shard(INDEX), reason));
        }
        Ok(Schema { fields, classes: self.index.ours.classes.clone() })
    }

    /// The chunk of a sample, and the item in it.
    fn place(&self, sample: u64) -> Result<(usize, usize)> {
        if sample >= self.len() {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the chunks hold {} samples", self.len())));
        }
        let number = self.starts.partition_point(|start| *start <= sample) - 1;
        Ok((number, (sample - self.starts[number]) as usize))
    }

    fn chunk(&self, number: usize) -> Result<&Chunk> {
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

    fn bad_chunk(&self, number: usize, wrong: Wrong) -> Error {
        match wrong {
            Wrong::At(offset, reason) => Error::data(self.in_chunk(number).with_offset(offset), reason),
            Wrong::Reading(error) => error,
        }
    }

    fn in_chunk(&self, number: usize) -> Location {
        Location::new(&self.uri).with_shard(self.open_objects.name(number))
    }

    fn bad_item(&self, sample: u64, reason: impl Into<String>) -> Error {
        Error::data(self.locate(sample), reason)
    }

    fn file(&self, number: usize) -> Bytes<'_> {
        Bytes::File { open_objects: &self.open_objects, number, size: self.sizes[number] }
    }

    /// A chunk's bytes, to which the offsets in its tables refer.
    fn bytes(&self, number: usize, whole: bool) -> Result<Bytes<'_>> {
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

    fn inflate_frame(&self, number: usize, bytes: &Bytes<'_>, frame: Frame) -> Result<Arc<Vec<u8>>> {
        self.inflated.get((number as u32, frame.number), || {
            let stored = bytes.copy(frame.offset..frame.offset + u64::from(frame.length))?;
            let place = || self.in_chunk(number).with_offset(frame.offset);
            inflate(&stored, u64::from(frame.inflated)).map_err(|reason| Error::data(place(), reason))
        })
    }

    /// Whether items are stored plain, not each compressed or encrypted.
    fn plain_items(&self) -> bool {
        !self.index.zstd_items && self.index.encryption != Some(Level::Item)
    }

    /// Reads an item's bytes into the buffer.
    fn fetch(
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

    fn read_item(
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

    fn sizes(&self, sample: u64, bytes: &Bytes<'_>, place: &Range<u64>, leaves: usize) -> Result<Sizes> {
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
    fn read_leaf_bytes(
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
    fn varying_leaf(&self) -> Option<(usize, u64)> {
        let ItemReader::Leaves(leaves) = &self.items else { return None };
        let mut varying = leaves.iter().enumerate().filter(|(_, leaf)| leaf.fixed_size().is_none());
        let (only, leaf) = varying.next()?;
        let fixed: u64 = leaves.iter().filter_map(Leaf::fixed_size).sum();
        (varying.next().is_none() && leaf.is_verbatim()).then_some((only, fixed + 4 * leaves.len() as u64))
    }
}

impl Format for LitData {
    fn name(&self) -> &'static str {
        "litdata"
    }

    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let place = self.place(sample)?;
        let chunk = self.chunk(place.0)?;
        match &chunk.layout {
            Layout::Rows(rows) => self.read_row(sample, place, chunk, rows, fields, into),
            _ => self.read_item(sample, place, chunk, fields, into),
        }
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let Ok((number, item)) = self.place(sample) else { return place };
        let place = place.with_shard(self.open_objects.name(number));
        match self.chunks[number].get() {
            Some(Chunk { whole: false, layout: Layout::Items(items) }) => match items.range(item) {
                Some(range) => place.with_offset(range.start),
                None => place,
            },
            _ => place,
        }
    }
}

impl crate::format::Index for LitData {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let (number, item) = self.place(sample).ok()?;
        let length = match &self.chunk(number).ok()?.layout {
            Layout::Items(items) => items.range(item).map(|r| r.end - r.start)?,
            Layout::Frames(frames) => frames.place(item).map(|(_, r)| r.end - r.start)?,
            Layout::Rows(_) => return self.row_byte_length(sample, field),
        };
        let (only, fixed) = self.varying_leaf().filter(|_| self.plain_items())?;
        if self.leaf_fields[only] == field { length.checked_sub(fixed) } else { None }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let (number, item) = self.place(sample)?;
        let chunk = self.chunk(number)?;
        if matches!(chunk.layout, Layout::Rows(_)) {
            return self.read_row_bytes(sample, field, into);
        }
        self.read_leaf_bytes(sample, (number, item), chunk, field, into)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.row_integer(sample, field)
    }

    fn array_length(&self, sample: u64, _field: usize) -> Option<(DType, u64)> {
        let (dtype, _, range) = self.tokens(sample)?;
        Some((dtype, (range.end - range.start) / dtype.size() as u64))
    }

    fn read_elements(&self, sample: u64, _field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        self.read_tokens(sample, first, into)
    }
}

impl crate::format::Extents for LitData {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    /// Items of plain chunks. Compressed chunks and frames serve many samples from one read, so they are not planned.
    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Ok((number, item)) = self.place(sample) else { return };
        match self.chunk(number) {
            Ok(Chunk { whole: false, layout: Layout::Items(items) }) => {
                out.extend(items.range(item).map(|range| Extent { object: number as u32, range }));
            }
            Ok(Chunk { whole: false, layout: Layout::Rows(_) }) => self.row_extents(sample, fields, out),
            _ => {}
        }
    }

    fn element_extents(&self, sample: u64, _field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        let plain = self
            .token_range(sample, &elements)
            .filter(|(number, _)| self.chunk(*number).is_ok_and(|chunk| !chunk.whole));
        out.extend(plain.map(|(number, range)| Extent { object: number as u32, range }));
    }
}
