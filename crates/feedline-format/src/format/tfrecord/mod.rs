//! TFRecord files of `tf.train.Example`.
//!
//! Opening finds the records by their lengths (each with a checksum), all files in parallel, and saves the offsets
//! for the next time. A sample is one read; its checksum is verified and its features are parsed in place, without
//! copying.

mod example;
mod examples;
mod index;
mod inflate;
mod schema;
mod values;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lru_cache::LruCache;
use super::open_objects::OpenObjects;
use super::saved_index::SavedIndex;
use super::{Format, Probe, ReadingOptions, folder, parallel, splits};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, Fingerprint, MAX_FIELDS, SampleBuffer, Schema};
use crate::source::{HeldBytes, Object, Source, Target, to_usize};
pub(super) use examples::{Examples, Refused};
use inflate::Storage;
use schema::{Column, Survey};

/// How to detect and open TFRecord files.
pub(super) const PROBE: Probe = Probe { name: "tfrecord", recognises, open };

/// Number of records inspected to find the fields.
const SURVEYED: u64 = 64;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = match target {
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(source) => (source, candidates(&**source)?),
    };
    let Some(first) = names.iter().find(|name| !is_index(name)) else { return Ok(None) };
    let object = source.open(first)?;
    let known = Storage::of(&object)?.is_some() || (object.size() == 0 && has_usual_name(first));
    Ok(known.then(|| format!("{} TFRecord files", names.len())))
}

/// Files of a folder that could be TFRecord files.
fn candidates(source: &dyn Source) -> Result<Vec<String>> {
    let mut names = source.children("")?;
    names.retain(|name| !name.ends_with('/') && !folder::is_image_name(name) && !is_side_file(name));
    names.sort();
    Ok(names)
}

/// Whether this is a file that TensorFlow Datasets, DALI or people put beside the records, or a file of another
/// format: looking into it would waste a round trip.
fn is_side_file(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let beside = ["idx", "json", "txt", "md", "csv"];
    let others = ["tar", "parquet", "arrow", "fl", "mds", "beton", "tbl"];
    name.starts_with('.') || beside.contains(&extension) || others.contains(&extension)
}

fn has_usual_name(name: &str) -> bool {
    name.contains(".tfrec")
}

fn is_index(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension == "idx")
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names, listed) = match target {
        Target::Objects(source, names) => (source.clone(), names.clone(), true),
        Target::Folder(source) => (source.clone(), candidates(&**source)?, false),
    };
    let names = names.into_iter().filter(|n| !is_index(n)).collect();
    let names = splits::choose(source.uri(), names, options.split.as_deref(), listed)?;
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no TFRecord file in this folder"));
    }
    Ok(Arc::new(TfRecord::open(source, names, options)?))
}

/// Open TFRecord files.
#[derive(Debug)]
pub(crate) struct TfRecord {
    schema: Schema,
    examples: Examples,
    fingerprint: Fingerprint,
    open_objects: OpenObjects,
    files: Vec<File>,
    starts: Starts,
    inflated: LruCache<usize, Vec<u8>>,
}

/// One file: its first sample, how it is stored, and the total length of its records.
#[derive(Clone, Copy, Debug)]
struct File {
    first: u64,
    storage: Storage,
    bytes: u64,
}

/// Offsets of the records of all files, 8 bytes each, in a saved index or in memory.
#[derive(Debug)]
struct Starts {
    bytes: HeldBytes,
    from: usize,
    count: u64,
}

impl Starts {
    fn get(&self, sample: u64) -> u64 {
        let at = self.from + sample as usize * 8;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// What a saved index contains besides the offsets.
#[derive(Serialize, Deserialize)]
struct Saved {
    files: Vec<SavedFile>,
    columns: Option<Vec<Column>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct SavedFile {
    records: u64,
    storage: Storage,
    bytes: u64,
}

impl TfRecord {
    /// Finds the records of the named files, or loads them from a saved index.
    pub(crate) fn open(
        source: Arc<dyn Source>,
        names: Vec<String>,
        options: &ReadingOptions,
    ) -> Result<Self> {
        let sizes =
            parallel::collect(names.len(), |n| source.open(&names[n]).map(|o| (o.size(), o.version())))?;
        let key = key_of(source.uri(), &names, &sizes);
        let place = SavedIndex::new(options, "tfrecord-2", &key);
        let (saved, starts) = match place.load().and_then(|held| parse_saved(held, names.len())) {
            Some(found) => found,
            None => scan_all(&*source, &names)?,
        };
        let objects = names.into_iter().zip(&sizes).map(|(name, (size, version))| (name, *size, *version));
        let open_objects = OpenObjects::with_versions(source, objects.collect());
        let mut files = Vec::with_capacity(saved.files.len());
        let mut first = 0;
        for file in &saved.files {
            files.push(File { first, storage: file.storage, bytes: file.bytes });
            first += file.records;
        }
        let mut open = TfRecord {
            schema: Schema::default(),
            examples: Examples::default(),
            fingerprint: Fingerprint::of([]),
            open_objects,
            files,
            starts,
            inflated: LruCache::new(inflate::MAX_BYTES as usize),
        };
        let known = saved.columns.is_some();
        let columns = saved.columns.map_or_else(|| open.survey(), Ok)?;
        if !known {
            place.save(&open.payload(&Saved { files: saved.files.clone(), columns: Some(columns.clone()) }));
        }
        open.set_columns(columns, &sizes, &saved.files);
        Ok(open)
    }

    fn set_columns(&mut self, columns: Vec<Column>, sizes: &[(u64, u64)], files: &[SavedFile]) {
        let mut hasher = blake3::Hasher::new();
        for ((size, version), file) in sizes.iter().zip(files) {
            for number in [*size, *version, file.records] {
                hasher.update(&number.to_le_bytes());
            }
        }
        let fields: Vec<_> = columns.iter().map(|c| c.spec.clone()).collect();
        let names = fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("\0");
        let hash = hasher.finalize();
        self.fingerprint = Fingerprint::of([&b"tfrecord"[..], names.as_bytes(), &hash.as_bytes()[..]]);
        self.schema = Schema { fields, classes: None };
        self.examples = Examples::new(columns);
    }

    fn payload(&self, saved: &Saved) -> Vec<u8> {
        let head = serde_json::to_vec(saved).expect("plain data");
        let mut payload = (head.len() as u64).to_le_bytes().to_vec();
        payload.extend_from_slice(&head);
        payload.extend_from_slice(&self.starts.bytes[self.starts.from..]);
        payload
    }

    /// The records from which the fields are found: the first and last of files spread evenly over the set, since
    /// files may come from different writers, then records spread evenly over it.
    fn surveyed(&self) -> BTreeSet<u64> {
        let spread = |count: u64, of: u64| {
            let count = count.min(of);
            (0..count).map(move |n| (u128::from(n) * u128::from(of) / u128::from(count)) as u64)
        };
        let mut chosen = BTreeSet::new();
        for file in spread(SURVEYED / 4, self.files.len() as u64) {
            let first = self.files[file as usize].first;
            let next = self.files.get(file as usize + 1).map_or(self.len(), |f| f.first);
            if first < next {
                chosen.extend([first, next - 1]);
            }
        }
        let rest = SURVEYED - chosen.len() as u64;
        chosen.extend(spread(rest, self.len()));
        chosen
    }

    /// Finds the fields from some records. Damaged ones are ignored here; reading them gives the error.
    fn survey(&self) -> Result<Vec<Column>> {
        let (count, mut survey, mut broken) = (self.len(), Survey::default(), None);
        let mut buffer = SampleBuffer::new();
        for sample in self.surveyed() {
            let seen = self.survey_record(sample, &mut survey, &mut buffer);
            match seen {
                Err(error) if matches!(error, Error::Data { .. }) => broken = Some(error),
                other => other?,
            }
        }
        let columns = survey.finish().map_err(|reason| Error::data(self.locate(0), reason))?;
        if let (true, Some(error)) = (columns.is_empty(), broken) {
            return Err(error);
        }
        if columns.is_empty() && count > 0 {
            return Err(Error::data(
                self.locate(0),
                "no features in these records: they are not tf.train.Example",
            ));
        }
        if columns.len() > MAX_FIELDS {
            let reason = format!("{} different features; at most {MAX_FIELDS} are supported", columns.len());
            return Err(Error::data(Location::new(self.open_objects.source().uri()), reason));
        }
        Ok(columns)
    }

    fn survey_record(&self, sample: u64, survey: &mut Survey, buffer: &mut SampleBuffer) -> Result<()> {
        buffer.reset(0);
        let range = self.read_record(sample, buffer)?;
        let record = buffer.bytes(&range);
        examples::survey_record(record, survey).map_err(|refusal| refusal.at(self.locate(sample)))
    }

    /// File number and range of a record with header and footer.
    fn frame(&self, sample: u64) -> Result<(usize, Range<u64>)> {
        if sample >= self.len() {
            let place = Location::new(self.open_objects.source().uri()).with_sample(sample);
            return Err(Error::data(place, format!("the files hold {} records", self.len())));
        }
        let file = self.files.partition_point(|f| f.first <= sample) - 1;
        let next = self.files.get(file + 1).map_or(self.starts.count, |f| f.first);
        let end = if sample + 1 < next { self.starts.get(sample + 1) } else { self.files[file].bytes };
        let start = self.starts.get(sample);
        if start.checked_add(index::HEADER + index::FOOTER).is_none_or(|least| least > end) {
            return Err(Error::data(self.at(file, sample, start), "the saved index does not fit the file"));
        }
        Ok((file, start..end))
    }

    fn at(&self, file: usize, sample: u64, offset: u64) -> Location {
        let place = Location::new(self.open_objects.source().uri()).with_shard(self.open_objects.name(file));
        place.with_sample(sample).with_offset(offset)
    }

    /// Reads and checks a record; returns the range of its content in the buffer.
    fn read_record(&self, sample: u64, into: &mut SampleBuffer) -> Result<Range<usize>> {
        let (file, frame) = self.frame(sample)?;
        let length = to_usize(
            frame.end - frame.start,
            self.open_objects.source().uri(),
            self.open_objects.name(file),
        )?;
        let content = match self.files[file].storage {
            Storage::Plain => {
                let (range, room) = into.reserve(length);
                self.open_objects.with(file, |object| object.read_at(frame.start, room))??;
                range
            }
            _ => into.append(&self.inflated(file)?[frame.start as usize..frame.end as usize]),
        };
        let bad = |what: &str| {
            Error::data(self.at(file, sample, frame.start), format!("{what}: the file is damaged"))
        };
        let (header, rest) = into.bytes(&content).split_at(index::HEADER as usize);
        let (record, crc) = rest.split_at(rest.len() - index::FOOTER as usize);
        if index::record_length(header.try_into().expect("twelve bytes")) != Some(record.len() as u64) {
            return Err(bad("the record's length is not what it was, or fails its checksum"));
        }
        if index::masked_crc(record).to_le_bytes() != crc {
            return Err(bad("the record fails its checksum"));
        }
        Ok(content.start + index::HEADER as usize..content.end - index::FOOTER as usize)
    }

    /// A compressed file's content.
    fn inflated(&self, file: usize) -> Result<Arc<Vec<u8>>> {
        let File { storage, bytes, .. } = self.files[file];
        let name = self.open_objects.name(file);
        let place = Location::new(self.open_objects.source().uri()).with_shard(name);
        self.inflated.get(file, || {
            let object = self.open_objects.source().open(name)?;
            storage.inflate(&object, bytes, &place)
        })
    }
}

fn key_of(uri: &str, names: &[String], sizes: &[(u64, u64)]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(uri.as_bytes());
    for (name, (size, version)) in names.iter().zip(sizes) {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&size.to_le_bytes());
        hasher.update(&version.to_le_bytes());
    }
    hasher.finalize()
}

/// Parses a saved index, if it is one for this many files.
fn parse_saved(held: HeldBytes, files: usize) -> Option<(Saved, Starts)> {
    let length = usize::try_from(u64::from_le_bytes(held.get(..8)?.try_into().ok()?)).ok()?;
    let from = length.checked_add(8)?;
    let saved: Saved = serde_json::from_slice(held.get(8..from)?).ok()?;
    let count = saved.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.records))?;
    let fits = saved.files.len() == files && count.checked_mul(8) == Some((held.len() - from) as u64);
    fits.then(|| (saved, Starts { bytes: held, from, count }))
}

fn scan_all(source: &dyn Source, names: &[String]) -> Result<(Saved, Starts)> {
    let scanned = parallel::collect(names.len(), |n| scan(source, &names[n]))?;
    let (mut files, mut bytes) = (Vec::new(), Vec::new());
    let mut count = 0;
    for (file, starts) in scanned {
        count += file.records;
        files.push(file);
        bytes.extend(starts.iter().flat_map(|start| start.to_le_bytes()));
    }
    Ok((Saved { files, columns: None }, Starts { bytes: HeldBytes::Owned(bytes.into()), from: 0, count }))
}

fn scan(source: &dyn Source, name: &str) -> Result<(SavedFile, Vec<u64>)> {
    let object: Arc<dyn Object> = source.open(name)?;
    let place = Location::new(source.uri()).with_shard(name);
    // For an unknown file, a scan that fails at offset 0 gives the message.
    let storage = Storage::of(&object)?.unwrap_or(Storage::Plain);
    let (starts, bytes) = match storage {
        Storage::Plain => (index::of_file(source, name, &object)?, object.size()),
        _ => storage.scan(&object, &place)?,
    };
    Ok((SavedFile { records: starts.len() as u64, storage, bytes }, starts))
}

impl Format for TfRecord {
    fn name(&self) -> &'static str {
        "tfrecord"
    }

    fn len(&self) -> u64 {
        self.starts.count
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
        self.examples.read(&range, fields, into).map_err(|refused| match refused {
            Refused::Record(refusal) => refusal.at(self.locate(sample)),
            Refused::Field(field, reason) => {
                Error::data(self.locate(sample).with_field(&self.schema.fields[field].name), reason)
            }
        })
    }

    fn locate(&self, sample: u64) -> Location {
        match self.frame(sample) {
            Ok((file, range)) => self.at(file, sample, range.start),
            Err(_) => Location::new(self.open_objects.source().uri()).with_sample(sample),
        }
    }
}

impl crate::format::Index for TfRecord {}

impl crate::format::Extents for TfRecord {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, _: &FieldSet, out: &mut Vec<Extent>) {
        let Ok((file, range)) = self.frame(sample) else { return };
        if self.files[file].storage == Storage::Plain {
            out.push(Extent { object: file as u32, range });
        }
    }
}

#[cfg(test)]
mod tests;
