//! Token streams: files of whole numbers without a header (nanoGPT), with llm.c's header, one-dimensional `.npy`
//! files, and Megatron's `.bin` with its `.idx`. A sample is a document: one of the index, or a whole file.
//!
//! Opening reads a kilobyte of each file, and indexes. Tokens are read when they are needed, by range.

mod idx;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use self::idx::{Documents, MAGIC};
use super::npy::RowHeader;
use super::open_objects::OpenObjects;
use super::sniff::has_ending;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, Kind, MAX_DIMENSIONS, SampleBuffer, Schema, Value,
};
use crate::source::{Object, Seen, Source, Target, to_usize};

/// How to detect and open token files.
pub(super) const PROBE: Probe = Probe { name: "tokens", recognises, open };

/// The only field.
const FIELD: &str = "tokens";

/// llm.c's header: 256 numbers of 32 bits, of which the first three are this, the version, and the number of tokens.
const LLM_C: (u32, u64) = (20_240_520, 1024);

/// Element types of tokens.
const DTYPES: [DType; 8] =
    [DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32, DType::I64];

/// Only Megatron's pairs of files tell what they are. Numbers without a header are opened by name.
fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Objects(source, names) = target else { return Ok(None) };
    let (Some(name), true) = (names.first(), names.iter().all(|name| is_pair(name))) else { return Ok(None) };
    let index = with_ending(name, "idx");
    if !source.exists(&index)? {
        return Ok(None);
    }
    let object = source.open(&index)?;
    let mut magic = [0; MAGIC.len()];
    let read = object.size() >= magic.len() as u64 && object.read_at(0, &mut magic).is_ok();
    Ok((read && &magic == MAGIC).then(|| "Megatron's .bin and .idx".to_owned()))
}

fn is_pair(name: &str) -> bool {
    has_ending(name, ".bin") || has_ending(name, ".idx")
}

/// The name with another ending of three letters.
fn with_ending(name: &str, ending: &str) -> String {
    format!("{}{ending}", &name[..name.len() - 3])
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    if let Some(dtype) = options.dtype.filter(|dtype| !DTYPES.contains(dtype)) {
        let known = DTYPES.map(DType::name).join(", ");
        return Err(Error::option("dtype", format!("tokens are {known}, not {}", dtype.name())));
    }
    let source = target.source().clone();
    let names = match target {
        Target::Objects(_, names) => without_indexes(names.clone()),
        Target::Folder(_) => {
            let mut names = source.children("")?;
            names.retain(|name| has_ending(name, ".bin"));
            names.sort();
            names
        }
    };
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "there is no .bin file of tokens"));
    }
    Ok(Arc::new(Tokens::open(source, &names, options.dtype)?))
}

/// The `.bin` of every `.idx` that was given, once.
fn without_indexes(names: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for name in names {
        let name = if has_ending(&name, ".idx") { with_ending(&name, "bin") } else { name };
        if seen.insert(name.clone()) {
            kept.push(name);
        }
    }
    kept
}

/// One file.
#[derive(Debug)]
struct Shard {
    /// Offset of the first token.
    data: u64,
    documents: Parts,
}

/// The documents of a file: (first token, number of tokens) of each.
#[derive(Debug)]
enum Parts {
    Whole(u64),
    Listed(Vec<(u64, u64)>),
}

impl Parts {
    fn len(&self) -> u64 {
        match self {
            Parts::Whole(_) => 1,
            Parts::Listed(ranges) => ranges.len() as u64,
        }
    }

    fn get(&self, number: u64) -> (u64, u64) {
        match self {
            Parts::Whole(tokens) => (0, *tokens),
            Parts::Listed(ranges) => ranges[number as usize],
        }
    }
}

/// Open token files.
#[derive(Debug)]
struct Tokens {
    uri: String,
    objects: OpenObjects,
    seen: Vec<Seen>,
    shards: Vec<Shard>,
    /// Number of documents up to and including each file.
    ends: Vec<u64>,
    dtype: DType,
    schema: Schema,
    fingerprint: Fingerprint,
}

/// What the beginning of a file says.
struct Opened {
    seen: Seen,
    dtype: DType,
    shard: Shard,
}

impl Tokens {
    fn open(source: Arc<dyn Source>, names: &[String], asked: Option<DType>) -> Result<Self> {
        let mut opened = Vec::new();
        for name in names {
            opened.push(open_shard(&source, name, asked)?);
        }
        let dtype = opened[0].dtype;
        if let Some(at) = opened.iter().position(|file| file.dtype != dtype) {
            let (first, other) = (dtype.name(), opened[at].dtype.name());
            let reason = format!("{other}, but {} is {first}: all files must have one type", names[0]);
            return Err(Error::data(Location::new(source.uri()).with_shard(&names[at]), reason));
        }
        let fingerprint = fingerprint(names, &opened);
        let listed = names.iter().zip(&opened);
        let objects = listed.map(|(name, file)| (name.clone(), file.seen.size, file.seen.version)).collect();
        let mut ends = Vec::with_capacity(opened.len());
        for file in &opened {
            ends.push(ends.last().copied().unwrap_or(0) + file.shard.documents.len());
        }
        Ok(Tokens {
            uri: source.uri().to_owned(),
            objects: OpenObjects::with_versions(source, objects),
            seen: opened.iter().map(|file| file.seen).collect(),
            shards: opened.into_iter().map(|file| file.shard).collect(),
            ends,
            dtype,
            schema: Schema { fields: vec![FieldSpec::new(FIELD, Kind::Array)], classes: None },
            fingerprint,
        })
    }

    /// The file of a document, and the document's number in it.
    fn place(&self, sample: u64) -> Result<(usize, u64)> {
        let file = self.ends.partition_point(|end| *end <= sample);
        if file == self.ends.len() {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("there are {} documents", self.len())));
        }
        let before = if file == 0 { 0 } else { self.ends[file - 1] };
        Ok((file, sample - before))
    }

    /// The file and the bytes of some tokens of a document.
    fn bytes(&self, sample: u64, elements: Range<u64>) -> Result<(usize, Range<u64>)> {
        let (file, number) = self.place(sample)?;
        let shard = &self.shards[file];
        let (first, tokens) = shard.documents.get(number);
        if elements.start > elements.end || elements.end > tokens {
            let reason = format!("tokens {elements:?} of a document with {tokens}");
            return Err(Error::data(self.locate(sample), reason));
        }
        let each = self.dtype.size() as u64;
        let at = |token: u64| shard.data + (first + token) * each;
        Ok((file, at(elements.start)..at(elements.end)))
    }

    fn length(&self, sample: u64) -> Result<u64> {
        let (file, number) = self.place(sample)?;
        Ok(self.shards[file].documents.get(number).1)
    }
}

/// Finds out what a file contains.
fn open_shard(source: &Arc<dyn Source>, name: &str, asked: Option<DType>) -> Result<Opened> {
    let object = source.open(name)?;
    let seen = Seen { size: object.size(), version: object.version() };
    let wrong = |reason: String| Error::data(Location::new(source.uri()).with_shard(name), reason);
    let index = has_ending(name, ".bin").then(|| with_ending(name, "idx"));
    if let Some(index) = index.filter(|index| source.exists(index).unwrap_or(false)) {
        let documents = documents(source, &index, seen.size)?;
        let shard = Shard { data: 0, documents: Parts::Listed(documents.ranges) };
        return Ok(Opened { seen, dtype: agreed(documents.dtype, asked, &index)?, shard });
    }
    let (data, dtype) = header(&*object, asked, name).map_err(wrong)??;
    let (bytes, each) = (seen.size - data, dtype.size() as u64);
    if !bytes.is_multiple_of(each) {
        let reason =
            format!("{bytes} bytes are not a whole number of {}: truncated, or another type?", dtype.name());
        return Err(wrong(reason));
    }
    let shard = Shard { data, documents: Parts::Whole(bytes / each) };
    Ok(Opened { seen, dtype, shard })
}

fn documents(source: &Arc<dyn Source>, index: &str, bin_bytes: u64) -> Result<Documents> {
    let object = source.open(index)?;
    to_usize(object.size(), source.uri(), index)?;
    let bytes = object.hold(0..object.size())?;
    let place = || Location::new(source.uri()).with_shard(index);
    Documents::parse(&bytes, bin_bytes).map_err(|reason| Error::data(place(), reason))
}

/// Offset of the first token and element type. The inner error is of the user's `dtype`.
fn header(object: &dyn Object, asked: Option<DType>, name: &str) -> Result<Result<(u64, DType)>, String> {
    let size = object.size();
    let mut head = vec![0; size.min(4096) as usize];
    object.read_at(0, &mut head).map_err(|error| error.to_string())?;
    if head.starts_with(b"\x93NUMPY") {
        let header = RowHeader::parse(&head)?;
        let whole = header.data.checked_add(header.rows.saturating_mul(header.dtype.size() as u64));
        if !header.sides().is_empty() || header.is_big_endian() || !DTYPES.contains(&header.dtype) {
            return Err(
                "tokens in .npy files are one-dimensional arrays of little-endian whole numbers".to_owned()
            );
        }
        if whole != Some(size) {
            return Err(format!("{} numbers do not fit in {size} bytes: truncated?", header.rows));
        }
        return Ok(agreed(header.dtype, asked, name).map(|dtype| (header.data, dtype)));
    }
    let word =
        |at: usize| head.get(4 * at..4 * at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("four")));
    let llm_c = match (word(0), word(1)) {
        (Some(magic), Some(1)) if magic == LLM_C.0 => Some(DType::U16),
        (Some(magic), Some(7)) if magic == LLM_C.0 => Some(DType::U32),
        _ => None,
    };
    let tokens = u64::from(word(2).unwrap_or(0));
    if let Some(dtype) = llm_c.filter(|dtype| LLM_C.1 + tokens * dtype.size() as u64 == size) {
        return Ok(agreed(dtype, asked, name).map(|dtype| (LLM_C.1, dtype)));
    }
    Ok(asked.map(|dtype| (0, dtype)).ok_or_else(|| {
        let reason =
            format!("{name} does not say what its numbers are; give uint8, uint16, uint32 or uint64");
        Error::option("dtype", reason)
    }))
}

/// The type in a file, unless the user says another.
fn agreed(stored: DType, asked: Option<DType>, name: &str) -> Result<DType> {
    match asked.filter(|dtype| *dtype != stored) {
        None => Ok(stored),
        Some(other) => {
            let reason = format!("{}, but {name} has {}; leave dtype out", other.name(), stored.name());
            Err(Error::option("dtype", reason))
        }
    }
}

fn fingerprint(names: &[String], opened: &[Opened]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    for (name, file) in names.iter().zip(opened) {
        let counts = [file.seen.size, file.seen.version, file.shard.data, file.shard.documents.len()];
        hasher.update(name.rsplit('/').next().unwrap_or(name).as_bytes());
        for count in counts {
            hasher.update(&count.to_le_bytes());
        }
        if let Parts::Listed(ranges) = &file.shard.documents {
            for (first, tokens) in ranges {
                hasher.update(&first.to_le_bytes()).update(&tokens.to_le_bytes());
            }
        }
    }
    Fingerprint::of([&b"tokens"[..], opened[0].dtype.name().as_bytes(), hasher.finalize().as_bytes()])
}

impl Format for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(1);
        let length = self.length(sample)?;
        if !fields.has(0) {
            return Ok(());
        }
        let (file, range) = self.bytes(sample, 0..length)?;
        let size = to_usize(range.end - range.start, &self.uri, self.objects.name(file))?;
        let (bytes, room) = into.reserve(size);
        self.objects.with(file, |object| object.read_at(range.start, room))??;
        let mut shape = [0; MAX_DIMENSIONS];
        shape[0] = length;
        into.set(0, Value::Array { dtype: self.dtype, dimensions: 1, shape, bytes });
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        match self.place(sample) {
            Ok((file, _)) => place.with_shard(self.objects.name(file)),
            Err(_) => place,
        }
    }
}

impl crate::format::Index for Tokens {
    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        (field == 0).then(|| self.length(sample).ok())?.map(|length| (self.dtype, length))
    }

    fn read_elements(&self, sample: u64, _field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        let count = (into.len() / self.dtype.size()) as u64;
        let (file, range) = self.bytes(sample, first..first.saturating_add(count))?;
        self.objects.with(file, |object| object.read_at(range.start, into))?
    }
}

impl crate::format::Extents for Tokens {
    fn object_count(&self) -> u32 {
        self.objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        let number = number as usize;
        (number < self.objects.len()).then(|| (self.objects.source(), self.objects.name(number).into()))
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        self.seen.get(number as usize).copied()
    }

    fn is_remote(&self) -> bool {
        self.objects.source().is_remote()
    }

    fn extents(&self, sample: u64, _fields: &FieldSet, out: &mut Vec<Extent>) {
        if let Ok(length) = self.length(sample) {
            self.element_extents(sample, 0, 0..length, out);
        }
    }

    fn element_extents(&self, sample: u64, _field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        if let Ok((object, range)) = self.bytes(sample, elements) {
            out.push(Extent { object: object as u32, range });
        }
    }
}
