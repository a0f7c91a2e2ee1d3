//! LitData: `index.json` and chunk files, in all layouts that litdata's versions write.
//!
//! Opening reads only `index.json`, the folder's listing and the first chunk. The tables of other chunks are read on
//! first use and kept. A sample of a plain chunk is then one read. Chunks and frames that are compressed or encrypted
//! as a whole are inflated once and kept within a limit.

mod arrow;
mod batch;
mod chunk;
mod chunk_bytes;
mod column;
mod fernet;
mod index;
mod inflate;
mod item;
mod json_leaf;
mod leaf;
mod opening;
mod read_item;
mod rows;
mod spec;
mod temporal;
#[cfg(test)]
mod tests;
mod tokens;
mod write;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use self::batch::Batch;
use self::chunk::Layout;
use self::fernet::Fernet;
use self::index::{Index, IndexPreview};
use self::item::{ItemReader, leaf_places};
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
use crate::source::{Source, Target};

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
        open.examine_first_sample()?;
        open.schema = open.describe()?;
        open.leaf_fields =
            open.index.names.iter().map(|n| open.schema.position(n).unwrap_or(usize::MAX)).collect();
        open.agree_on_images();
        Ok(open)
    }

    /// Finds the kinds of bytes from the first sample, and the layout from the first chunk.
    fn examine_first_sample(&mut self) -> Result<()> {
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

    fn in_chunk(&self, number: usize) -> Location {
        Location::new(&self.uri).with_shard(self.open_objects.name(number))
    }

    fn bad_item(&self, sample: u64, reason: impl Into<String>) -> Error {
        Error::data(self.locate(sample), reason)
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
