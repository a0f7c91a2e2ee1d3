//! Zarr arrays, version 2 and 3: a sample is a row along the first dimension of the arrays in a folder. Arrays in
//! groups are fields named `group/name`; if the folder itself is an array, the field is `array`.
//!
//! Opening lists the folder, so that every chunk's size and version is known: a chunk that is replaced later is
//! detected, and one that was never written has the fill value. Decompressed chunks are kept for a while, because
//! they contain many rows.

mod blosc;
mod chunks;
mod codec;
mod metadata;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::lru_cache::LruCache;
use super::npy::RowHeader;
use super::open_objects::OpenObjects;
use super::rows::{RowValue, common_length, is_part, without_part};
use super::{Extents, Format, Index, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_FIELDS, SampleBuffer, Schema, Value,
};
use crate::source::{Entry, Source, Target};
use chunks::{ChunkCache, Chunks};
use metadata::{Array, Element};

/// How to detect and open Zarr arrays.
pub(super) const PROBE: Probe = Probe { name: "zarr", recognises, open };

/// The only field if the folder itself is an array.
const ONLY: &str = "array";
/// Maximum size of the decompressed chunks that are kept.
const CACHE_BYTES: usize = 256 << 20;
/// Metadata have hundreds of bytes, with attributes thousands.
const LARGEST_METADATA: u64 = 64 << 20;
const SIGHTS: [&str; 4] = ["zarr.json", ".zarray", ".zgroup", ".zmetadata"];

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Folder(source) = target else { return Ok(None) };
    let names = source.children("")?;
    let found = SIGHTS.iter().find(|sight| names.iter().any(|name| name == *sight));
    Ok(found.map(|sight| format!("{sight} of Zarr")))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let Target::Folder(source) = target else {
        return Err(Error::data(Location::new(target.uri()), "a Zarr array or group is a folder"));
    };
    Ok(Arc::new(Zarr::open(source.clone(), options)?))
}

/// One array as a field.
#[derive(Debug)]
struct Column {
    name: String,
    chunks: Chunks,
    stored: Stored,
}

#[derive(Debug)]
enum Stored {
    Numbers(RowHeader, RowValue),
    Varying(Kind),
}

impl Column {
    fn kind(&self) -> Kind {
        match &self.stored {
            Stored::Numbers(_, becomes) => becomes.kind(),
            Stored::Varying(kind) => *kind,
        }
    }

    fn rows(&self) -> u64 {
        self.chunks.array.shape[0]
    }
}

/// Open arrays.
#[derive(Debug)]
struct Zarr {
    uri: String,
    open_objects: OpenObjects,
    cache: ChunkCache,
    schema: Schema,
    columns: Vec<Column>,
    rows: u64,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
}

impl Zarr {
    fn open(source: Arc<dyn Source>, options: &ReadingOptions) -> Result<Self> {
        let uri = source.uri().to_owned();
        let mut listing = source.list("")?;
        listing.entries.sort_by(|one, other| one.name.cmp(&other.name));
        let mut problems = std::mem::take(&mut listing.problems);
        let mut columns = Vec::new();
        let metadata = listing.entries.iter().filter(|entry| is_metadata(&entry.name));
        for entry in metadata.take(MAX_FIELDS + 1) {
            if let Some(column) = column(&*source, entry, options, &mut problems)? {
                columns.push(column);
            }
        }
        if columns.len() > MAX_FIELDS {
            let reason = format!("more than {MAX_FIELDS} arrays cannot be fields");
            return Err(Error::data(Location::new(uri), reason));
        }
        let place = Location::new(&uri);
        let named = columns.iter().map(|(_, column)| (column.name.as_str(), column.rows()));
        let rows = common_length(named, &problems, &place)?;
        let (columns, objects) = with_objects(columns, &listing.entries);
        let field = |column: &Column| FieldSpec::new(&column.name, column.kind());
        let schema = Schema { fields: columns.iter().map(field).collect(), classes: None };
        let fingerprint = fingerprint(&columns, &objects);
        let (open_objects, cache) = (OpenObjects::with_versions(source, objects), LruCache::new(CACHE_BYTES));
        Ok(Zarr { uri, open_objects, cache, schema, columns, rows, fingerprint, problems })
    }
}

fn is_metadata(name: &str) -> bool {
    matches!(name.rsplit('/').next(), Some("zarr.json" | ".zarray"))
}

/// The array that `entry` describes, with its folder; `None` for groups and for arrays that are not wanted or not
/// supported.
fn column(
    source: &dyn Source,
    entry: &Entry,
    options: &ReadingOptions,
    problems: &mut Vec<Error>,
) -> Result<Option<(String, Column)>> {
    let place = || Location::new(source.uri()).with_shard(&entry.name);
    if entry.size > LARGEST_METADATA {
        return Err(Error::data(place(), format!("{} bytes are not a description of an array", entry.size)));
    }
    let (folder, file) = entry.name.rsplit_once('/').unwrap_or(("", &entry.name));
    let mut name = if folder.is_empty() { ONLY.to_owned() } else { folder.to_owned() };
    let mut text = Vec::new();
    source.read_whole(&entry.name, &mut text)?;
    let array = if file == ".zarray" { Array::parse_2(&text).map(Some) } else { Array::parse(&text) };
    if let Some(split) = &options.split {
        if !is_part(&name, split) {
            return Ok(None);
        }
        name = without_part(&name, split);
    }
    let kind = options.schema.get(&name).copied();
    let made = array.and_then(|array| {
        let Some(array) = array else { return Ok(None) };
        let stored = stored(&array, kind)?;
        let chunks = Chunks { number: 0, array, objects: HashMap::new() };
        Ok(Some((folder.to_owned(), Column { name: name.clone(), chunks, stored })))
    });
    match made {
        Ok(made) => Ok(made),
        Err(reason) => {
            let error = Error::data(place().with_field(name), reason);
            if kind.is_some() {
                return Err(error);
            }
            problems.push(error);
            Ok(None)
        }
    }
}

fn stored(array: &Array, kind: Option<Kind>) -> Result<Stored, String> {
    match (array.element, kind) {
        (Element::Number { dtype, big_endian }, kind) => {
            let header = RowHeader::new(dtype, big_endian, array.shape[0], &array.shape[1..])?;
            Ok(Stored::Numbers(header, RowValue::new(&header, kind)?))
        }
        (Element::Varying { text: true }, None) => Ok(Stored::Varying(Kind::Text)),
        (Element::Varying { text: false }, None) => Ok(Stored::Varying(Kind::Bytes)),
        (_, Some(kind @ (Kind::Text | Kind::Json | Kind::Bytes | Kind::Image))) => Ok(Stored::Varying(kind)),
        (_, Some(kind)) => Err(format!("texts and bytes are not {kind:?}")),
    }
}

/// Assigns the objects to their arrays, by their names below the array's folder.
fn with_objects(columns: Vec<(String, Column)>, entries: &[Entry]) -> (Vec<Column>, Vec<(String, u64, u64)>) {
    let mut objects = Vec::new();
    let mut done = Vec::new();
    for (number, (folder, mut column)) in columns.into_iter().enumerate() {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let first = entries.partition_point(|entry| entry.name.as_str() < prefix.as_str());
        for entry in entries[first..].iter().take_while(|entry| entry.name.starts_with(&prefix)) {
            if let Some(chunk) = column.chunks.object_number(&entry.name[prefix.len()..]) {
                column.chunks.objects.insert(chunk, objects.len() as u32);
                objects.push((entry.name.clone(), entry.size, entry.version));
            }
        }
        column.chunks.number = number as u32;
        done.push(column);
    }
    (done, objects)
}

fn fingerprint(columns: &[Column], objects: &[(String, u64, u64)]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    for column in columns {
        hasher.update(format!("{} {:?} {:?}\n", column.name, column.chunks.array, column.stored).as_bytes());
    }
    for (name, size, version) in objects {
        hasher.update(name.as_bytes());
        hasher.update(&size.to_le_bytes());
        hasher.update(&version.to_le_bytes());
    }
    Fingerprint::of([&b"zarr"[..], hasher.finalize().as_bytes()])
}

impl Format for Zarr {
    fn name(&self) -> &'static str {
        "zarr"
    }

    fn len(&self) -> u64 {
        self.rows
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

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.columns.len());
        if sample >= self.rows {
            return Err(Error::data(self.locate(sample), format!("the arrays have {} rows", self.rows)));
        }
        for field in fields.iter() {
            let column = &self.columns[field];
            let value = match &column.stored {
                Stored::Numbers(header, becomes) => {
                    let (range, room) = into.reserve(header.row_bytes);
                    column.chunks.read_row(&self.open_objects, &self.cache, sample, room)?;
                    let value = becomes.value(header, range, into);
                    value
                        .map_err(|reason| Error::data(self.locate(sample).with_field(&column.name), reason))?
                }
                Stored::Varying(kind) => {
                    let range = column.chunks.read_varying(&self.open_objects, &self.cache, sample, into)?;
                    self.payload(sample, column, *kind, range, into)?
                }
            };
            into.set(field, value);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let mut extents = Vec::new();
        if let (true, Some(column)) = (sample < self.rows, self.columns.first()) {
            column.chunks.extents(&self.open_objects, &self.cache, sample, &mut extents);
        }
        match extents.first() {
            Some(extent) => place.with_shard(self.open_objects.name(extent.object as usize)),
            None => place,
        }
    }
}

impl Index for Zarr {
    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        match &self.columns.get(field)?.stored {
            Stored::Numbers(_, becomes) if sample < self.rows => becomes.image_meta(),
            _ => None,
        }
    }
}

impl Extents for Zarr {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if sample < self.rows {
            for field in fields.iter() {
                self.columns[field].chunks.extents(&self.open_objects, &self.cache, sample, out);
            }
        }
    }
}

impl Zarr {
    fn payload(
        &self,
        sample: u64,
        column: &Column,
        kind: Kind,
        range: std::ops::Range<usize>,
        into: &SampleBuffer,
    ) -> Result<Value> {
        if matches!(kind, Kind::Text | Kind::Json) && std::str::from_utf8(into.bytes(&range)).is_err() {
            return Err(Error::data(self.locate(sample).with_field(&column.name), "the text is not UTF-8"));
        }
        Ok(match kind {
            Kind::Image => {
                Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
            }
            _ => Value::Bytes(range),
        })
    }
}
