//! Mosaic's streaming data sets: `index.json` and shards, binary (MDS), JSON lines or separated values.
//!
//! Opening reads only the index, and the first sample if a column's kind depends on it. A shard's offsets are read on
//! first use; after that a sample is one read. Compressed shards are inflated whole, and the last few are kept: read
//! them in an order that stays in a shard for a while (`shuffle="block"`).

mod compressed;
mod encoding;
mod hashes;
mod index;
mod write;
mod xsv;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use self::compressed::ObjectReader;
use self::encoding::Encoding;
use self::hashes::Mismatch;
use self::index::{Column, FileEntry, INDEX_NAME, Present, ShardEntry, Style};
use super::lru_cache::LruCache;
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions, bounds};
use crate::error::{Error, Location, Result};
use crate::format::stream::unread;
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, Kind, MAX_FIELDS, SampleBuffer, Schema};
use crate::source::{HeldBytes, Object, Source, Target, to_usize};

pub(super) use self::write::MdsExporter;

/// How to detect and open Mosaic's data sets.
pub(super) const PROBE: Probe = Probe { name: "mds", recognises, open };

/// Maximum size of the inflated shards that are kept: eight of the size that Mosaic's writer makes.
const MOST_INFLATED: usize = 512 << 20;

/// Usual folders of the splits of a data set without an index of its own.
const SPLITS: [&str; 7] = ["train", "val", "valid", "validation", "test", "dev", "eval"];

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, folder) = match target {
        Target::Folder(source) => (source, String::new()),
        Target::Objects(source, names) => match names.as_slice() {
            [name] if name == INDEX_NAME || name.ends_with("/index.json") => (source, folder_of(name)),
            _ => return Ok(None),
        },
    };
    if source.exists(&format!("{folder}{INDEX_NAME}"))? {
        let shards = index::shard_count(&read_index(&**source, &folder)?);
        return Ok(shards.map(|count| format!("an index of {count} MDS shards")));
    }
    let splits = splits(&**source)?;
    Ok((!splits.is_empty()).then(|| format!("MDS shards in {}", splits.join(", "))))
}

fn folder_of(name: &str) -> String {
    name[..name.len() - INDEX_NAME.len()].to_owned()
}

/// Sub-folders with an index.
fn splits(source: &dyn Source) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for child in source.children("")? {
        let Some(name) = child.strip_suffix('/').filter(|name| SPLITS.contains(name)) else { continue };
        if source.exists(&format!("{child}{INDEX_NAME}"))?
            && index::shard_count(&read_index(source, &child)?).is_some()
        {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

fn read_index(source: &dyn Source, folder: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.read_whole(&format!("{folder}{INDEX_NAME}"), &mut bytes)?;
    Ok(bytes)
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, mut folder) = match target {
        Target::Folder(source) => (source.clone(), String::new()),
        Target::Objects(source, names) => match names.as_slice() {
            [name] if name.ends_with(INDEX_NAME) => (source.clone(), folder_of(name)),
            _ => {
                return Err(Error::data(Location::new(source.uri()), "not an index.json")
                    .with_hint("open the folder that holds the index.json, not a shard"));
            }
        },
    };
    if let Some(split) = &options.split {
        folder = format!("{folder}{}/", split.trim_matches('/'));
    } else if !source.exists(&format!("{folder}{INDEX_NAME}"))? {
        let found = splits(&*source)?;
        if !found.is_empty() {
            let reason = format!("it has no index.json, but its splits {} do", found.join(", "));
            return Err(
                Error::data(Location::new(source.uri()), reason).with_hint("choose one with split=\"...\"")
            );
        }
    }
    Ok(Arc::new(Mds::open(source, &folder, options.verify_hashes)?))
}

/// An open data set.
#[derive(Debug)]
pub(crate) struct Mds {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    shards: Vec<Shard>,
    /// First sample of each shard, and the number of samples.
    firsts: Vec<u64>,
    groups: Vec<Group>,
    files: Vec<FileEntry>,
    open_objects: OpenObjects,
    offsets: Vec<OnceLock<HeldBytes>>,
    inflated: LruCache<usize, Vec<u8>>,
    /// For each file the result of comparing its hashes; empty if that was not requested.
    verified: Vec<OnceLock<Result<()>>>,
}

/// Files are indices into the list of all files.
#[derive(Debug)]
struct Shard {
    group: usize,
    data: usize,
    /// The file of the offsets.
    meta: usize,
}

/// A column, its field, and its kind.
type ColumnField = (Column, usize, Kind);

/// Shards with the same columns.
#[derive(Debug)]
struct Group {
    style: Style,
    columns: Vec<ColumnField>,
    /// Columns with a length word in each sample.
    variable: usize,
}

impl Mds {
    /// Opens the shards in the index of `folder` (a prefix that ends in `/`, or empty).
    pub(crate) fn open(source: Arc<dyn Source>, folder: &str, verify: bool) -> Result<Self> {
        let uri = source.uri().to_owned();
        let bad = |reason: String| {
            Error::data(Location::new(&uri).with_shard(format!("{folder}{INDEX_NAME}")), reason)
        };
        let text = read_index(&*source, folder)?;
        let present = Present::list(&*source, folder);
        let entries = index::parse(&text, folder, &present).map_err(bad)?;
        let mut parts = Parts::default();
        entries.into_iter().try_for_each(|entry| parts.add(entry)).map_err(bad)?;
        parts.check_files(&present, verify).map_err(bad)?;
        let fingerprint = parts.fingerprint(&text, &present);
        let version = |name: &str| present.find(name).map_or(0, |(_, version)| version);
        let objects = parts.files.iter().map(|f| (f.name.clone(), f.bytes, version(&f.name))).collect();
        let mut mds = Mds {
            uri: uri.clone(),
            schema: Schema::default(),
            fingerprint,
            offsets: parts.shards.iter().map(|_| OnceLock::new()).collect(),
            verified: if verify { parts.files.iter().map(|_| OnceLock::new()).collect() } else { Vec::new() },
            shards: parts.shards,
            firsts: parts.firsts,
            groups: parts.groups,
            files: parts.files,
            open_objects: OpenObjects::with_versions(source, objects),
            inflated: LruCache::new(MOST_INFLATED),
        };
        mds.look_at_first_samples()?;
        mds.schema = mds.make_schema().map_err(bad)?;
        Ok(mds)
    }

    /// Finds the kinds that depend on a value.
    fn look_at_first_samples(&mut self) -> Result<()> {
        for number in 0..self.groups.len() {
            if !self.groups[number].columns.iter().any(|(c, _, _)| c.encoding.depends_on_value()) {
                continue;
            }
            let filled = |n: &usize| self.shards[*n].group == number && self.firsts[*n] < self.firsts[*n + 1];
            let Some(shard) = (0..self.shards.len()).find(filled) else { continue };
            let values = self.first_values(shard)?;
            for ((column, _, kind), value) in self.groups[number].columns.iter_mut().zip(values) {
                *kind = column.encoding.kind(value.as_deref());
            }
        }
        Ok(())
    }

    fn first_values(&self, shard: usize) -> Result<Vec<Option<Vec<u8>>>> {
        let group = self.group(shard);
        let mut buffer = SampleBuffer::new();
        let range = self.read_sample(shard, 0, &mut buffer)?;
        if group.style != Style::Mds {
            let columns: Vec<Column> = group.columns.iter().map(|(c, _, _)| c.clone()).collect();
            return Ok(xsv::first_values(&group.style, buffer.bytes(&range), &columns));
        }
        let (bytes, mut cursor, mut values) = (buffer.bytes(&range), Cursor::new(group), Vec::new());
        let bad = |reason| Error::data(self.locate(self.firsts[shard]), reason);
        while let Some((_, span)) = cursor.next(bytes).map_err(bad)? {
            values.push(Some(bytes[span].to_vec()));
        }
        Ok(values)
    }

    /// All columns of all shards. A column that some shards lack is optional; a column must have the same kind
    /// everywhere.
    fn make_schema(&mut self) -> Result<Schema, String> {
        let mut fields: Vec<(FieldSpec, usize)> = Vec::new();
        for group in &mut self.groups {
            for (column, field, kind) in &mut group.columns {
                let pickled = column.encoding == Encoding::Pickle;
                let at = fields.iter().position(|(f, _)| f.name == column.name).unwrap_or_else(|| {
                    let spec = FieldSpec { pickled, ..FieldSpec::new(&column.name, *kind) };
                    fields.push((spec, 0));
                    fields.len() - 1
                });
                if fields[at].0.kind != *kind || fields[at].0.pickled != pickled {
                    let (first, now) = (fields[at].0.kind, *kind);
                    return Err(format!(
                        "column '{}' is {first:?} in one shard and {now:?} in another",
                        column.name
                    ));
                }
                if fields.len() > MAX_FIELDS {
                    return Err(format!("more than {MAX_FIELDS} columns"));
                }
                fields[at].1 += 1;
                *field = at;
            }
        }
        let groups = self.groups.len();
        let fields = fields.into_iter().map(|(spec, seen)| spec.optional(seen < groups)).collect();
        Ok(Schema { fields, classes: None })
    }

    fn group(&self, shard: usize) -> &Group {
        &self.groups[self.shards[shard].group]
    }

    /// The shard of a sample, and its index there.
    fn place(&self, sample: u64) -> Result<(usize, u64)> {
        if sample >= self.len() {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the data set has {} samples", self.len())));
        }
        let shard = self.firsts.partition_point(|first| *first <= sample) - 1;
        Ok((shard, sample - self.firsts[shard]))
    }

    fn bad_file(&self, file: usize, reason: impl Into<String>) -> Error {
        Error::data(Location::new(&self.uri).with_shard(&self.files[file].name), reason)
    }

    /// Fills `into` from byte `offset` of the file, inflated if necessary.
    fn fetch(&self, file: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.files[file].packed.is_none() {
            self.verify(file)?;
            return self.open_objects.with(file, |object| object.read_at(offset, into))?;
        }
        let whole = self.inflate(file)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = whole.get(start..start.saturating_add(into.len()));
        into.copy_from_slice(found.ok_or_else(|| self.bad_file(file, "the sample reaches past the end"))?);
        Ok(())
    }

    fn inflate(&self, file: usize) -> Result<Arc<Vec<u8>>> {
        let entry = &self.files[file];
        let packed = entry.packed.as_ref().expect("asked for compressed files alone");
        self.inflated.get(file, || {
            self.verify(file)?;
            let length = self.open_objects.length(file);
            let most = packed.bytes.min(bounds::most_unpacked(length));
            let inflate = |object: &dyn Object| packed.codec.inflate(ObjectReader::new(object), most);
            let bytes = self.open_objects.with(file, inflate)?;
            let bad = |e| self.bad_file(file, format!("cannot be inflated: {e}"));
            let bytes = bytes.map_err(|e| unread(&e).unwrap_or_else(|| bad(e)))?;
            bounds::check_announced(length, packed.bytes).map_err(|reason| self.bad_file(file, reason))?;
            if !self.verified.is_empty() {
                self.compare(file, hashes::compare(&bytes[..], &packed.hashes))?;
            }
            Ok(bytes)
        })
    }

    /// Compares the file with the hashes in the index, once, if requested.
    fn verify(&self, file: usize) -> Result<()> {
        let Some(slot) = self.verified.get(file) else { return Ok(()) };
        let once = || {
            let compare =
                |object: &dyn Object| hashes::compare(ObjectReader::new(object), &self.files[file].hashes);
            self.compare(file, self.open_objects.with(file, compare)?)
        };
        let verify = || match once() {
            // A remote file that fails is fetched a second time; that result is final.
            Err(Error::Data { .. }) if self.open_objects.source().is_remote() => {
                self.open_objects.source().forget(self.open_objects.name(file), &(0..u64::MAX));
                once()
            }
            verdict => verdict,
        };
        slot.get_or_init(verify).clone()
    }

    fn compare(&self, file: usize, found: Result<(), Mismatch>) -> Result<()> {
        let place = || Location::new(&self.uri).with_shard(&self.files[file].name);
        found.map_err(|mismatch| match mismatch {
            Mismatch::Reading(error) => Error::storage("reading", place(), error),
            Mismatch::Different(reason) => Error::data(place(), reason).with_hint("fetch the shard again"),
        })
    }

    /// The offsets of a shard: a count, and one word more than there are samples.
    fn offsets(&self, shard: usize) -> Result<&HeldBytes> {
        if let Some(held) = self.offsets[shard].get() {
            return Ok(held);
        }
        let file = self.shards[shard].meta;
        let samples = self.firsts[shard + 1] - self.firsts[shard];
        // The range was checked at opening to be inside the file.
        let length = table_length(samples).expect("checked at opening");
        let held = if self.files[file].packed.is_some() {
            let whole = self.inflate(file)?;
            let table = whole.get(..to_usize(length, &self.uri, &self.files[file].name)?);
            let table = table.ok_or_else(|| self.bad_file(file, "its offsets are truncated"))?;
            HeldBytes::Owned(table.to_vec().into())
        } else {
            self.verify(file)?;
            self.open_objects.with(file, |object| object.hold(0..length))??
        };
        let count = word(&held, 0);
        if count != samples {
            return Err(self.bad_file(file, format!("it has {count} samples, the index says {samples}")));
        }
        Ok(self.offsets[shard].get_or_init(|| held))
    }

    /// Range of sample `row` of the shard in its data file.
    fn span(&self, shard: usize, row: u64) -> Result<Range<u64>> {
        let table = self.offsets(shard)?;
        let (start, end) = (word(table, row as usize + 1), word(table, row as usize + 2));
        let file = self.shards[shard].data;
        if start <= end && end <= self.files[file].raw_bytes() {
            return Ok(start..end);
        }
        let place = Location::new(&self.uri).with_shard(&self.files[file].name);
        let reason = format!("its offsets are {start}..{end}, which is not possible");
        Err(Error::data(place.with_sample(self.firsts[shard] + row), reason))
    }

    fn read_sample(&self, shard: usize, row: u64, into: &mut SampleBuffer) -> Result<Range<usize>> {
        let span = self.span(shard, row)?;
        let (range, room) = into.reserve((span.end - span.start) as usize);
        self.fetch(self.shards[shard].data, span.start, room)?;
        Ok(range)
    }

    /// The only column without a fixed length, if there is exactly one: its length is the rest of the sample.
    fn only_variable_column(&self, sample: u64, field: usize) -> Option<(usize, Range<u64>)> {
        let (shard, row) = self.place(sample).ok()?;
        let group = self.group(shard);
        let at = group.columns.iter().position(|(_, f, _)| *f == field)?;
        let (column, _, kind) = &group.columns[at];
        let alone =
            group.style == Style::Mds && group.variable == 1 && column.encoding.fixed_size().is_none();
        if !alone || !column.encoding.is_verbatim(*kind) {
            return None;
        }
        let fixed = |columns: &[ColumnField]| -> Option<u64> {
            columns.iter().filter_map(|(c, _, _)| c.encoding.fixed_size()).try_fold(0, u64::checked_add)
        };
        let span = self.span(shard, row).ok()?;
        let start = span.start.checked_add(4)?.checked_add(fixed(&group.columns[..at])?)?;
        let end = span.end.checked_sub(fixed(&group.columns[at..])?)?;
        (start <= end).then_some((shard, start..end))
    }
}

/// The content of an index, while it is collected.
#[derive(Default)]
struct Parts {
    shards: Vec<Shard>,
    firsts: Vec<u64>,
    groups: Vec<Group>,
    known: HashMap<(Style, Vec<Column>), usize>,
    files: Vec<FileEntry>,
}

impl Parts {
    fn add(&mut self, entry: ShardEntry) -> Result<(), String> {
        let name = entry.data.name.clone();
        let table = entry.meta.as_ref().unwrap_or(&entry.data).raw_bytes();
        if table_length(entry.samples).is_none_or(|length| length > table) {
            return Err(format!("'{name}' of {table} bytes cannot hold {} samples", entry.samples));
        }
        let total = self.firsts.last().copied().unwrap_or(0).checked_add(entry.samples);
        if self.firsts.is_empty() {
            self.firsts.push(0);
        }
        self.firsts.push(total.ok_or("more samples than can be counted")?);
        let data = self.files.len();
        self.files.push(entry.data);
        let meta = entry.meta.map_or(data, |meta| {
            self.files.push(meta);
            data + 1
        });
        let key = (entry.style, entry.columns);
        let group = match self.known.get(&key) {
            Some(group) => *group,
            None => self.new_group(key),
        };
        self.shards.push(Shard { group, data, meta });
        Ok(())
    }

    fn new_group(&mut self, key: (Style, Vec<Column>)) -> usize {
        let columns = key.1.iter().map(|c| (c.clone(), 0, c.encoding.kind(None))).collect();
        let variable = key.1.iter().filter(|c| c.encoding.fixed_size().is_none()).count();
        self.groups.push(Group { style: key.0.clone(), columns, variable });
        self.known.insert(key, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Checks lengths against the listing, and that all hashes are known if they are to be compared.
    fn check_files(&mut self, present: &Present, verify: bool) -> Result<(), String> {
        for file in &self.files {
            if let Some((length, _)) = present.find(&file.name)
                && length != file.bytes
            {
                return Err(format!("'{}' has {length} bytes, {} are expected", file.name, file.bytes));
            }
            let packed = file.packed.iter().flat_map(|packed| &packed.hashes);
            let unknown = file.hashes.iter().chain(packed).find(|(name, _)| hashes::start(name).is_none());
            if let Some((name, _)) = unknown.filter(|_| verify) {
                return Err(format!("'{}' has a hash '{name}', which cannot be compared", file.name));
            }
        }
        if self.firsts.is_empty() {
            self.firsts.push(0);
        }
        Ok(())
    }

    fn fingerprint(&self, index: &[u8], present: &Present) -> Fingerprint {
        let mut hasher = blake3::Hasher::new();
        for file in &self.files {
            hasher.update(file.name.as_bytes());
            hasher.update(&present.find(&file.name).map_or(0, |(_, version)| version).to_le_bytes());
        }
        Fingerprint::of([&b"mds"[..], index, &hasher.finalize().as_bytes()[..]])
    }
}

/// Walks the columns of a sample.
struct Cursor<'a> {
    group: &'a Group,
    column: usize,
    word: usize,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(group: &'a Group) -> Self {
        Cursor { group, column: 0, word: 0, at: group.variable * 4 }
    }

    /// The next column and its bytes in `sample`; an error if the columns do not add up to the sample.
    fn next(&mut self, sample: &[u8]) -> Result<Option<(&'a ColumnField, Range<usize>)>, String> {
        let Some(entry) = self.group.columns.get(self.column) else {
            let whole = self.at == sample.len();
            let reason = || format!("the columns are {} bytes, the sample is {}", self.at, sample.len());
            return whole.then_some(None).ok_or_else(reason);
        };
        self.column += 1;
        let length = if let Some(length) = entry.0.encoding.fixed_size() {
            length
        } else {
            let bytes = sample.get(self.word..self.word + 4).ok_or("the sample is too short")?;
            self.word += 4;
            word(bytes, 0)
        };
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let end = end.filter(|end| *end <= sample.len());
        let end = end.ok_or_else(|| format!("column '{}' reaches past the sample", entry.0.name))?;
        Ok(Some((entry, std::mem::replace(&mut self.at, end)..end)))
    }
}

/// Length of a count and the offsets of this many samples.
fn table_length(samples: u64) -> Option<u64> {
    samples.checked_add(2)?.checked_mul(4)
}

/// Word `number` of a table.
fn word(table: &[u8], number: usize) -> u64 {
    let bytes = table[number * 4..number * 4 + 4].try_into().expect("four bytes");
    u64::from(u32::from_le_bytes(bytes))
}

impl Format for Mds {
    fn name(&self) -> &'static str {
        "mds"
    }

    fn len(&self) -> u64 {
        *self.firsts.last().expect("never empty")
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let (shard, row) = self.place(sample)?;
        let group = self.group(shard);
        let range = self.read_sample(shard, row, into)?;
        let bad = |reason: String| Error::data(self.locate(sample), reason);
        if group.style != Style::Mds {
            let line = into.bytes(&range).to_vec();
            return xsv::read_line(&group.style, &line, &group.columns, fields, into).map_err(bad);
        }
        let mut cursor = Cursor::new(group);
        while let Some(((column, field, kind), span)) = cursor.next(into.bytes(&range)).map_err(bad)? {
            if fields.has(*field) {
                let span = range.start + span.start..range.start + span.end;
                let value = column.encoding.decode(*kind, span, into);
                let value = value
                    .map_err(|reason| Error::data(self.locate(sample).with_field(&column.name), reason))?;
                into.set(*field, value);
            }
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let Ok((shard, row)) = self.place(sample) else { return place };
        let place = place.with_shard(&self.files[self.shards[shard].data].name);
        match self.span(shard, row) {
            Ok(span) => place.with_offset(span.start),
            Err(_) => place,
        }
    }
}

impl crate::format::Index for Mds {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.only_variable_column(sample, field).map(|(_, range)| range.end - range.start)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        match self.only_variable_column(sample, field) {
            Some((shard, range)) if range.end - range.start == into.len() as u64 => {
                self.fetch(self.shards[shard].data, range.start, into)
            }
            _ => Err(Error::data(self.locate(sample), "the field has another length")),
        }
    }
}

impl crate::format::Extents for Mds {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        let file = self.files.get(number as usize)?;
        Some((self.open_objects.source(), file.name.as_str().into()))
    }

    fn extents(&self, sample: u64, _: &FieldSet, out: &mut Vec<Extent>) {
        let Ok((shard, row)) = self.place(sample) else { return };
        let file = self.shards[shard].data;
        if self.files[file].packed.is_some() {
            out.push(Extent { object: file as u32, range: 0..self.files[file].bytes });
        } else if let Ok(range) = self.span(shard, row) {
            out.push(Extent { object: file as u32, range });
        }
    }
}

#[cfg(test)]
mod tests;
