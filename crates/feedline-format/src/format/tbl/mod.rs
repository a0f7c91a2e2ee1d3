//! TurboLoader's `.tbl`, version 2, for users who migrate from it: one file with an index of fixed-size entries,
//! payloads (images as files, or raw pixels; LZ4 where that is smaller) and, behind them, metadata with the labels.

mod crc;
mod metadata;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use self::metadata::Metadata;
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageEncoding, ImageMeta, Kind, SampleBuffer, Schema, Value,
};
use crate::source::{HeldBytes, Source, Target};

/// How to detect and open a `.tbl`.
pub(super) const PROBE: Probe = Probe { name: "tbl", recognises, open };

const MAGIC: &[u8; 4] = b"TBL\x02";
const HEADER: usize = 64;
const ENTRY: usize = 24;

/// The whole file has checksums.
const CHECKSUMS: u32 = 4;
/// A sample is compressed.
const COMPRESSED: u8 = 1;

/// A sample's content is raw RGB pixels.
const RAW: u8 = 8;
/// The last content type that is an image file; those between are videos.
const LAST_IMAGE: u8 = 5;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = candidates(target)?;
    let [name] = names.as_slice() else { return Ok(None) };
    let object = source.open(name)?;
    let mut magic = [0; 4];
    if object.size() < HEADER as u64 {
        return Ok(None);
    }
    object.read_at(0, &mut magic)?;
    Ok((&magic == MAGIC).then(|| "a .tbl file".to_owned()))
}

/// The named files, or a folder's `.tbl` files.
fn candidates(target: &Target) -> Result<(&Arc<dyn Source>, Vec<String>)> {
    match target {
        Target::Objects(source, names) => Ok((source, names.clone())),
        Target::Folder(source) => {
            let mut names = source.children("")?;
            names.retain(|n| n.len() > 4 && n.as_bytes()[n.len() - 4..].eq_ignore_ascii_case(b".tbl"));
            Ok((source, names))
        }
    }
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names) = candidates(target)?;
    let [name] = names.as_slice() else {
        let reason = format!("{} .tbl files; one is a data set", names.len());
        return Err(Error::data(Location::new(source.uri()), reason)
            .with_hint("name one of them, or open each and join them with concat"));
    };
    Ok(Arc::new(Tbl::open(source.clone(), name)?))
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Tbl {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    entries: HeldBytes,
    checksums: bool,
    metadata: Metadata,
    open_objects: OpenObjects,
    metadata_field: Option<usize>,
    label_field: Option<usize>,
}

/// The payload is field 0.
const CONTENT: usize = 0;

/// One entry of the index.
#[derive(Clone, Copy)]
struct Entry {
    offset: u64,
    stored: u32,
    original: u32,
    width: u16,
    height: u16,
    content: u8,
    flags: u8,
    crc: u16,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        Entry {
            offset: u64::from(word(0)) | u64::from(word(4)) << 32,
            stored: word(8),
            original: word(12),
            width: half(16),
            height: half(18),
            content: bytes[20],
            flags: bytes[21],
            crc: half(22),
        }
    }

    fn compressed(&self) -> bool {
        self.flags & COMPRESSED != 0
    }

    /// Length of the uncompressed payload. Some writers leave it out if nothing is compressed.
    fn length(&self) -> usize {
        if self.compressed() { self.original as usize } else { self.stored as usize }
    }

    fn check(&self) -> Result<(), String> {
        // LZ4 makes at most 255 bytes of one.
        if self.compressed() && u64::from(self.original) > u64::from(self.stored) * 255 + 64 {
            return Err(format!("{} bytes cannot be made of {} compressed ones", self.original, self.stored));
        }
        let needed = usize::from(self.width) * usize::from(self.height) * 3;
        if self.content == RAW && self.length() != needed {
            let (width, height) = (self.width, self.height);
            return Err(format!("{} bytes are not {width}x{height} raw pixels", self.length()));
        }
        Ok(())
    }

    /// Files may have an EXIF rotation, which is not in the index.
    fn meta(&self) -> ImageMeta {
        let (width, height) = (u32::from(self.width), u32::from(self.height));
        if self.content == RAW {
            return ImageMeta { encoding: ImageEncoding::Rgb, width, height, channels: 3, orientation: 1 };
        }
        ImageMeta { width, height, ..ImageMeta::UNKNOWN }
    }
}

/// Content of the header.
struct TblHeader {
    samples: u64,
    entries_end: u64,
    metadata: (u64, u64),
    flags: u32,
}

impl TblHeader {
    fn parse(bytes: &[u8; HEADER], size: u64) -> Result<Self, String> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if &bytes[..4] != MAGIC || word(4) != 2 {
            return Err("not a .tbl of version 2".to_owned());
        }
        let mut copy = *bytes;
        copy[44..48].fill(0);
        let found = crc32fast::hash(&copy);
        if found != word(44) {
            return Err(format!("the header's checksum is {found:08x}, stored is {:08x}", word(44)));
        }
        let samples = long(8);
        let entries_end = samples.checked_mul(ENTRY as u64).and_then(|n| n.checked_add(HEADER as u64));
        let entries_end = entries_end.filter(|end| *end <= size && *end == u64::from(word(16)));
        let entries_end = entries_end.ok_or_else(|| format!("an index of {samples} samples does not fit"))?;
        let metadata = (long(24), long(32));
        let inside = metadata.0.checked_add(metadata.1).is_some_and(|end| end <= size);
        if !inside {
            return Err("the metadata reach past the end of the file: it is truncated".to_owned());
        }
        Ok(TblHeader { samples, entries_end, metadata, flags: word(40) })
    }
}

impl Tbl {
    /// Opens the file `name`.
    pub(crate) fn open(source: Arc<dyn Source>, name: &str) -> Result<Self> {
        let object = source.open(name)?;
        let (uri, size) = (source.uri().to_owned(), object.size());
        let bad = |reason: String| Error::data(Location::new(&uri).with_shard(name), reason);
        if size < HEADER as u64 {
            return Err(bad(format!("{size} bytes are too few for a .tbl")));
        }
        let mut bytes = [0; HEADER];
        object.read_at(0, &mut bytes)?;
        let header = TblHeader::parse(&bytes, size).map_err(bad)?;
        let entries = object.hold(HEADER as u64..header.entries_end)?;
        let (start, length) = header.metadata;
        let held = if start == 0 { object.hold(0..0)? } else { object.hold(start..start + length)? };
        let version = object.version();
        let fingerprint = Fingerprint::of([&b"tbl"[..], &bytes, &entries, &held, &version.to_le_bytes()]);
        let metadata = Metadata::parse(held, header.samples).map_err(bad)?;
        let mut tbl = Tbl {
            schema: Schema::default(),
            fingerprint,
            entries,
            checksums: header.flags & CHECKSUMS != 0,
            metadata,
            open_objects: OpenObjects::with_versions(source.clone(), vec![(name.to_owned(), size, version)]),
            metadata_field: None,
            label_field: None,
            uri,
        };
        tbl.make_schema();
        Ok(tbl)
    }

    fn make_schema(&mut self) {
        let samples = self.len();
        let is_image = |entry: &[u8]| entry[20] <= LAST_IMAGE || entry[20] == RAW;
        let all_images = self.entries.chunks_exact(ENTRY).all(is_image);
        let content = if all_images { ("image", Kind::Image) } else { ("data", Kind::Bytes) };
        let mut fields = vec![FieldSpec::new(content.0, content.1)];
        if self.metadata.len() > 0 {
            let kind = if self.metadata.json { Kind::Json } else { Kind::Bytes };
            self.metadata_field = Some(fields.len());
            fields.push(FieldSpec::new("metadata", kind).optional((self.metadata.len() as u64) < samples));
        }
        if let Some(labelled) = self.metadata.labelled() {
            self.label_field = Some(fields.len());
            fields.push(FieldSpec::new("label", Kind::Int).optional((labelled as u64) < samples));
        }
        self.schema = Schema { fields, classes: None };
    }

    fn entry(&self, sample: u64) -> Result<Entry> {
        let place = || Location::new(&self.uri).with_sample(sample);
        if sample >= self.len() {
            return Err(Error::data(place(), format!("the file has {} samples", self.len())));
        }
        let entry = Entry::parse(&self.entries[sample as usize * ENTRY..][..ENTRY]);
        let end = entry.offset.checked_add(u64::from(entry.stored));
        let size = self.open_objects.length(0);
        let place = || place().with_shard(self.open_objects.name(0)).with_offset(entry.offset);
        if end.is_none_or(|end| end > size) {
            return Err(Error::data(place(), "the sample reaches past the end of the file"));
        }
        entry.check().map_err(|reason| Error::data(place(), reason))?;
        Ok(entry)
    }

    fn fetch(&self, entry: &Entry, into: &mut [u8]) -> Result<()> {
        self.open_objects.with(0, |object| object.read_at(entry.offset, into))?
    }

    /// Fills `into` with the payload, using `room` for the compressed bytes if there are any.
    fn payload(&self, sample: u64, entry: &Entry, room: &mut [u8], into: &mut [u8]) -> Result<()> {
        let bad = |reason: String| Error::data(self.locate(sample), reason);
        if entry.compressed() {
            self.fetch(entry, room)?;
            let made = lz4_flex::block::decompress_into(room, into);
            let made = made.map_err(|e| bad(format!("cannot be decompressed: {e}")))?;
            if made != into.len() {
                return Err(bad(format!("{made} bytes inside, {} expected", into.len())));
            }
        } else {
            self.fetch(entry, into)?;
        }
        if !self.checksums {
            return Ok(());
        }
        let found = crc::crc16(into);
        let same = found == entry.crc;
        same.then_some(())
            .ok_or_else(|| bad(format!("its checksum is {found:04x}, stored is {:04x}", entry.crc)))
    }
}

impl Format for Tbl {
    fn name(&self) -> &'static str {
        "tbl"
    }

    fn len(&self) -> u64 {
        (self.entries.len() / ENTRY) as u64
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let entry = self.entry(sample)?;
        if fields.has(CONTENT) {
            let packed = if entry.compressed() { entry.stored as usize } else { 0 };
            let (range, room) = into.reserve(packed + entry.length());
            let (packed_room, payload) = room.split_at_mut(packed);
            self.payload(sample, &entry, packed_room, payload)?;
            let bytes = range.start + packed..range.end;
            into.set(
                CONTENT,
                match self.schema.fields[CONTENT].kind {
                    Kind::Image => Value::Image { index: bytes.end..bytes.end, bytes, meta: entry.meta() },
                    _ => Value::Bytes(bytes),
                },
            );
        }
        if let Some(field) = self.metadata_field.filter(|field| fields.has(*field))
            && let Some(block) = self.metadata.block(sample)
        {
            let range = into.append(block);
            into.set(field, Value::Bytes(range));
        }
        if let Some(field) = self.label_field.filter(|field| fields.has(*field))
            && let Some(label) = self.metadata.label(sample)
        {
            into.set(field, Value::Int(label));
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_shard(self.open_objects.name(0)).with_sample(sample);
        match self.entries.chunks_exact(ENTRY).nth(usize::try_from(sample).unwrap_or(usize::MAX)) {
            Some(entry) => place.with_offset(Entry::parse(entry).offset),
            None => place,
        }
    }
}

impl crate::format::Index for Tbl {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let entry = self.entry(sample).ok()?;
        if Some(field) == self.metadata_field {
            return self.metadata.block(sample).map(|block| block.len() as u64);
        }
        (field == CONTENT).then(|| entry.length() as u64)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        thread_local! {
            static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let entry = self.entry(sample)?;
        if Some(field) == self.metadata_field
            && let Some(block) = self.metadata.block(sample)
        {
            into.copy_from_slice(block);
            return Ok(());
        }
        if field != CONTENT || into.len() != entry.length() {
            return Err(Error::data(self.locate(sample), "the field has another length"));
        }
        PACKED.with_borrow_mut(|packed| {
            packed.resize(if entry.compressed() { entry.stored as usize } else { 0 }, 0);
            self.payload(sample, &entry, packed, into)
        })
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let image = field == CONTENT && self.schema.fields[field].kind == Kind::Image;
        self.entry(sample).ok().filter(|_| image).map(|entry| entry.meta())
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.metadata.label(sample).filter(|_| Some(field) == self.label_field)
    }
}

impl crate::format::Extents for Tbl {
    fn object_count(&self) -> u32 {
        1
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        (number == 0).then(|| (self.open_objects.source(), self.open_objects.name(0).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if let (Ok(entry), true) = (self.entry(sample), fields.has(CONTENT)) {
            out.push(Extent { object: 0, range: entry.offset..entry.offset + u64::from(entry.stored) });
        }
    }
}

#[cfg(test)]
mod tests;
