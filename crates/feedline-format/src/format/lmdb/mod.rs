//! LMDB environments (`data.mdb`) of Caffe, LSUN and many PyTorch data sets: values by key, sorted by key. Read-only
//! and without a memory map: pages are read with checked offsets, so a file that changes or shrinks is an error, not
//! a crash.
//!
//! Opening walks the tree of keys once. A sample is one read.

mod datum;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions, sniff};
use crate::error::{Error, Location, Result};
use crate::sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Schema,
    Value,
};
use crate::source::{Source, Target, to_usize};
use datum::Datum;
use tree::{Entry, Keys};

/// How to detect and open an LMDB environment.
pub(super) const PROBE: Probe = Probe { name: "lmdb", recognises, open };

/// The file in an environment's folder.
const DATA: &str = "data.mdb";
/// Number of values inspected to find their content.
const SURVEYED: u64 = 64;
const KEY: usize = 0;
const CONTENT: usize = 1;
const LABEL: usize = 2;

fn recognises(target: &Target) -> Result<Option<String>> {
    let Some((source, name)) = data_file(target)? else { return Ok(None) };
    let object = source.open(&name)?;
    Ok(tree::is_lmdb(&*object)?.then(|| "an LMDB environment".to_owned()))
}

/// The file with all pages.
fn data_file(target: &Target) -> Result<Option<(&Arc<dyn Source>, String)>> {
    match target {
        Target::Folder(source) => Ok(source.exists(DATA)?.then(|| (source, DATA.to_owned()))),
        Target::Objects(source, names) => match names.as_slice() {
            [only] => Ok(Some((source, only.clone()))),
            _ => Ok(None),
        },
    }
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let Some((source, name)) = data_file(target)? else {
        return Err(Error::data(Location::new(target.uri()), "no data.mdb in this folder"));
    };
    Ok(Arc::new(Lmdb::open(source.clone(), &name)?))
}

/// Type of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Image files.
    Images,
    /// Caffe's message with an image file.
    Encoded,
    /// Caffe's message with pixels, channel by channel.
    Pixels,
    Bytes,
}

/// An open environment.
#[derive(Debug)]
pub(crate) struct Lmdb {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    open_objects: OpenObjects,
    keys: Keys,
    content: Content,
}

impl Lmdb {
    fn open(source: Arc<dyn Source>, name: &str) -> Result<Self> {
        let object = source.open(name)?;
        let (uri, size, version) = (source.uri().to_owned(), object.size(), object.version());
        let place = Location::new(&uri).with_shard(name);
        let keys = tree::walk(&*object, &place)?;
        let numbers = [size, version, keys.transaction, keys.len()].map(u64::to_le_bytes).concat();
        let fingerprint = Fingerprint::of([&b"lmdb"[..], &numbers]);
        let problems = problems(&place, &keys);
        let open_objects = OpenObjects::with_versions(source, vec![(name.to_owned(), size, version)]);
        let (schema, content) = (Schema::default(), Content::Bytes);
        let mut open = Lmdb { uri, schema, fingerprint, problems, open_objects, keys, content };
        open.find_fields()?;
        Ok(open)
    }

    /// Finds what values are from some of them spread over all keys.
    fn find_fields(&mut self) -> Result<()> {
        let count = self.len();
        let surveyed = count.min(SURVEYED);
        let mut buffer = SampleBuffer::new();
        let (mut images, mut encoded, mut pixels) = (true, true, true);
        for number in 0..surveyed {
            let sample = (u128::from(number) * u128::from(count) / u128::from(surveyed)) as u64;
            buffer.reset(0);
            let range = self.read_value(sample, &mut buffer)?;
            let value = buffer.bytes(&range);
            let datum = Datum::parse(value);
            images &= sniff::is_image(value);
            encoded &= datum.as_ref().is_some_and(|datum| datum.encoded);
            pixels &= datum.is_some_and(|datum| !datum.encoded && datum.shape().is_some());
        }
        self.content = match (images, encoded, pixels) {
            _ if surveyed == 0 => Content::Bytes,
            (true, ..) => Content::Images,
            (_, true, _) => Content::Encoded,
            (.., true) => Content::Pixels,
            _ => Content::Bytes,
        };
        let content = match self.content {
            Content::Images | Content::Encoded => FieldSpec::new("image", Kind::Image),
            Content::Pixels => FieldSpec::new("pixels", Kind::Array),
            Content::Bytes => FieldSpec::new("value", Kind::Bytes),
        };
        let key = if self.keys.are_text() { Kind::Text } else { Kind::Bytes };
        let mut fields = vec![FieldSpec::new("key", key), content];
        if matches!(self.content, Content::Encoded | Content::Pixels) {
            fields.push(FieldSpec::new("label", Kind::Int));
        }
        self.schema = Schema { fields, classes: None };
        Ok(())
    }

    fn entry(&self, sample: u64) -> Result<Entry> {
        self.keys.entry(sample).ok_or_else(|| {
            let place = Location::new(&self.uri).with_sample(sample);
            Error::data(place, format!("the environment has {} values", self.len()))
        })
    }

    fn read_value(&self, sample: u64, into: &mut SampleBuffer) -> Result<std::ops::Range<usize>> {
        let entry = self.entry(sample)?;
        let length = to_usize(entry.length, &self.uri, self.open_objects.name(0))?;
        let (range, room) = into.reserve(length);
        self.open_objects.with(0, |object| object.read_at(entry.offset, room))??;
        Ok(range)
    }

    fn read_datum(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        let range = self.read_value(sample, into)?;
        let bad = |reason: &str| Error::data(self.locate(sample), reason);
        let datum = Datum::parse(into.bytes(&range)).ok_or_else(|| bad("not a Datum as Caffe writes it"))?;
        let data = range.start + datum.data.start..range.start + datum.data.end;
        if fields.has(LABEL) {
            into.set(LABEL, Value::Int(datum.label));
        }
        if !fields.has(CONTENT) {
            return Ok(());
        }
        let value = match (self.content, datum.encoded) {
            (Content::Encoded, true) => {
                Value::Image { index: data.end..data.end, bytes: data, meta: ImageMeta::UNKNOWN }
            }
            (Content::Pixels, false) => {
                let sides = datum.shape().ok_or_else(|| bad("pixels that do not fit their sizes"))?;
                let mut shape = [0; MAX_DIMENSIONS];
                shape[..3].copy_from_slice(&sides);
                Value::Array { dtype: DType::U8, dimensions: 3, shape, bytes: data }
            }
            _ => return Err(bad("files and raw pixels in one environment")),
        };
        into.set(CONTENT, value);
        Ok(())
    }
}

fn problems(place: &Location, keys: &Keys) -> Vec<Error> {
    let mut problems = Vec::new();
    if let Some(first) = &keys.first_meta {
        let reason = format!("{} keys such as '{first}' are notes of the writer, not samples", keys.metas);
        problems.push(Error::data(place.clone(), reason));
    }
    if keys.nested > 0 {
        let reason =
            format!("{} keys hold databases of their own or several values; they are left out", keys.nested);
        problems.push(Error::data(place.clone(), reason));
    }
    problems
}

impl Format for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn len(&self) -> u64 {
        self.keys.len()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn warnings(&self) -> &[Error] {
        // The writer's own keys are normal and need no warning.
        if self.keys.nested > 0 { &self.problems[self.problems.len() - 1..] } else { &[] }
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let entry = self.entry(sample)?;
        if fields.has(KEY) {
            let range = into.append(self.keys.key(&entry));
            into.set(KEY, Value::Bytes(range));
        }
        match self.content {
            Content::Encoded | Content::Pixels if fields.has(CONTENT) || fields.has(LABEL) => {
                self.read_datum(sample, fields, into)
            }
            Content::Images | Content::Bytes if fields.has(CONTENT) => {
                let bytes = self.read_value(sample, into)?;
                let value = if self.content == Content::Images {
                    Value::Image { index: bytes.end..bytes.end, bytes, meta: ImageMeta::UNKNOWN }
                } else {
                    Value::Bytes(bytes)
                };
                into.set(CONTENT, value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_shard(self.open_objects.name(0)).with_sample(sample);
        match self.keys.entry(sample) {
            Some(entry) => place.with_offset(entry.offset),
            None => place,
        }
    }
}

impl crate::format::Index for Lmdb {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let entry = self.keys.entry(sample)?;
        match (field, self.content) {
            (KEY, _) => Some(self.keys.key(&entry).len() as u64),
            (CONTENT, Content::Images | Content::Bytes) => Some(entry.length),
            _ => None,
        }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let entry = self.entry(sample)?;
        if field == KEY {
            into.copy_from_slice(self.keys.key(&entry));
            return Ok(());
        }
        self.open_objects.with(0, |object| object.read_at(entry.offset, into))?
    }
}

impl crate::format::Extents for Lmdb {
    fn object_count(&self) -> u32 {
        1
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if let Some(entry) = self.keys.entry(sample)
            && (fields.has(CONTENT) || fields.has(LABEL))
        {
            out.push(Extent { object: 0, range: entry.offset..entry.offset + entry.length });
        }
    }
}

#[cfg(test)]
mod tests;
