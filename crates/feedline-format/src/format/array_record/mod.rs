//! ArrayRecord files of TensorFlow Datasets and Grain: records of `tf.train.Example`, whose features become fields,
//! or of other bytes (`data`, or `image` if they are one).
//!
//! Every file has a footer with the offsets of its chunks: opening reads nothing else. A sample is one read of its
//! chunk, whose checksums are verified; chunks of several records are kept for a while.

mod chunk;
mod footer;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::lru_cache::{ByteSize, LruCache};
use super::open_objects::OpenObjects;
use super::tfrecord::{Examples, Refused};
use super::{Extents, Format, Index, Probe, ReadingOptions, parallel, sniff, splits};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, SampleBuffer, Schema, Value};
use crate::source::{Source, Target, room_for};
use chunk::Records;
use footer::{Footer, postscript};

/// How to detect and open ArrayRecord files.
pub(super) const PROBE: Probe = Probe { name: "arrayrecord", recognises, open };

/// Maximum size of the inflated chunks that are kept.
const KEPT_BYTES: usize = 64 << 20;
/// Number of records inspected to find their content.
const SURVEYED: u64 = 64;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = candidates(target)?;
    let Some(first) = names.first() else { return Ok(None) };
    let found = postscript(&*source.open(first)?)?;
    Ok(found.map(|_| format!("{} ArrayRecord files", names.len())))
}

fn candidates(target: &Target) -> Result<(&Arc<dyn Source>, Vec<String>)> {
    let (source, mut names) = match target {
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(source) => (source, source.children("")?),
    };
    names.retain(|name| name.rsplit('/').next().is_some_and(|file| file.contains(".array")));
    if matches!(target, Target::Folder(_)) {
        names.sort();
    }
    Ok((source, names))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names, listed) = match target {
        Target::Objects(source, names) => (source, names.clone(), true),
        Target::Folder(_) => {
            let (source, names) = candidates(target)?;
            (source, names, false)
        }
    };
    let names = splits::choose(source.uri(), names, options.split.as_deref(), listed)?;
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no ArrayRecord file in this folder"));
    }
    Ok(Arc::new(ArrayRecord::open(source.clone(), names)?))
}

impl ByteSize for Records {
    fn weight(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 8
    }
}

/// Type of the records.
#[derive(Debug)]
enum Content {
    Examples(Examples),
    Plain(Kind),
}

/// Open ArrayRecord files.
#[derive(Debug)]
struct ArrayRecord {
    open_objects: OpenObjects,
    footers: Vec<Footer>,
    /// First sample of each file, and the number of samples.
    starts: Vec<u64>,
    schema: Schema,
    content: Content,
    kept: LruCache<(u32, u64), Records>,
    fingerprint: Fingerprint,
}

/// Where a record is stored.
struct Place {
    file: usize,
    chunk: u64,
    range: Range<u64>,
    /// Its index among its chunk's records.
    number: usize,
}

impl ArrayRecord {
    fn open(source: Arc<dyn Source>, names: Vec<String>) -> Result<Self> {
        let found = parallel::collect(names.len(), |number| {
            let object = source.open(&names[number])?;
            let place = Location::new(source.uri()).with_shard(&names[number]);
            Ok(((names[number].clone(), object.size(), object.version()), Footer::read(&*object, &place)?))
        })?;
        let (objects, footers): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut starts, mut hasher) = (vec![0], blake3::Hasher::new());
        for (footer, (_, size, version)) in footers.iter().zip(&objects) {
            starts.push(starts.last().copied().unwrap_or(0) + footer.records);
            // Size and version do not suffice: files are padded to one size and may be written in the same clock
            // tick.
            let chunks = footer.chunks.iter().flat_map(|chunk| [chunk.offset, chunk.first]);
            for number in [*size, *version, footer.records].into_iter().chain(chunks) {
                hasher.update(&number.to_le_bytes());
            }
        }
        let fingerprint = Fingerprint::of([&b"arrayrecord"[..], hasher.finalize().as_bytes()]);
        let open_objects = OpenObjects::with_versions(source, objects);
        let content = Content::Plain(Kind::Bytes);
        let kept = LruCache::new(KEPT_BYTES);
        let mut open = ArrayRecord {
            open_objects,
            footers,
            starts,
            schema: Schema::default(),
            content,
            kept,
            fingerprint,
        };
        open.find_fields()?;
        // The inspected chunks are rarely the ones that are wanted first.
        open.kept = LruCache::new(KEPT_BYTES);
        Ok(open)
    }

    /// Finds what the records are from some of them spread over the set. Damaged ones are ignored here; reading them
    /// gives the error.
    fn find_fields(&mut self) -> Result<()> {
        let count = self.len();
        let (mut buffer, mut seen, mut broken) = (SampleBuffer::new(), Vec::new(), None);
        for number in 0..count.min(SURVEYED) {
            let sample = (u128::from(number) * u128::from(count) / u128::from(count.min(SURVEYED))) as u64;
            buffer.reset(0);
            match self.read_record(sample, &mut buffer) {
                Ok(range) => seen.push(buffer.bytes(&range).to_vec()),
                Err(error) if matches!(error, Error::Data { .. }) => broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(error)) = (seen.is_empty(), broken) {
            return Err(error);
        }
        if let Some(examples) = Examples::survey(seen.iter().map(Vec::as_slice)) {
            self.schema = Schema { fields: examples.fields(), classes: None };
            self.content = Content::Examples(examples);
            return Ok(());
        }
        let images = !seen.is_empty() && seen.iter().all(|record| sniff::is_image(record));
        let (name, kind) = if images { ("image", Kind::Image) } else { ("data", Kind::Bytes) };
        self.schema = Schema { fields: vec![FieldSpec::new(name, kind)], classes: None };
        self.content = Content::Plain(kind);
        Ok(())
    }

    fn place(&self, sample: u64) -> Result<Place> {
        if sample >= self.len() {
            let place = Location::new(self.open_objects.source().uri()).with_sample(sample);
            return Err(Error::data(place, format!("the files hold {} records", self.len())));
        }
        let file = self.starts.partition_point(|start| *start <= sample) - 1;
        let (footer, record) = (&self.footers[file], sample - self.starts[file]);
        let chunk = footer.chunks.partition_point(|chunk| chunk.first <= record) - 1;
        let start = footer.chunks[chunk].offset;
        let end = footer.chunks.get(chunk + 1).map_or(footer.end, |next| next.offset);
        let number = (record - footer.chunks[chunk].first) as usize;
        Ok(Place { file, chunk: chunk as u64, range: start..end, number })
    }

    /// Reads a record and returns the range of its bytes in the buffer.
    fn read_record(&self, sample: u64, into: &mut SampleBuffer) -> Result<Range<usize>> {
        let Place { file, chunk, range, number } = self.place(sample)?;
        let records = self.kept.get((file as u32, chunk), || {
            let (uri, name) = (self.open_objects.source().uri(), self.open_objects.name(file));
            let mut stored = room_for(range.end - range.start, uri, name)?;
            self.open_objects.with(file, |object| object.read_at(range.start, &mut stored))??;
            Records::parse(&stored, range.start).map_err(|reason| Error::data(self.locate(sample), reason))
        })?;
        let record = records.get(number);
        let record = record.ok_or_else(|| Error::data(self.locate(sample), "its chunk has fewer records"))?;
        Ok(into.append(record))
    }
}

impl Format for ArrayRecord {
    fn name(&self) -> &'static str {
        "arrayrecord"
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
        let range = self.read_record(sample, into)?;
        match &self.content {
            Content::Examples(examples) => {
                examples.read(&range, fields, into).map_err(|refused| match refused {
                    Refused::Record(refusal) => refusal.at(self.locate(sample)),
                    Refused::Field(field, reason) => {
                        Error::data(self.locate(sample).with_field(&self.schema.fields[field].name), reason)
                    }
                })
            }
            Content::Plain(_) if !fields.has(0) => Ok(()),
            Content::Plain(Kind::Image) => {
                let index = range.end..range.end;
                into.set(0, Value::Image { bytes: range, index, meta: ImageMeta::UNKNOWN });
                Ok(())
            }
            Content::Plain(_) => {
                into.set(0, Value::Bytes(range));
                Ok(())
            }
        }
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(self.open_objects.source().uri()).with_sample(sample);
        match self.place(sample) {
            Ok(Place { file, range, .. }) => {
                place.with_shard(self.open_objects.name(file)).with_offset(range.start)
            }
            Err(_) => place,
        }
    }
}

impl Index for ArrayRecord {}

impl Extents for ArrayRecord {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, _: &FieldSet, out: &mut Vec<Extent>) {
        if let Ok(Place { file, range, .. }) = self.place(sample) {
            out.push(Extent { object: file as u32, range });
        }
    }
}
