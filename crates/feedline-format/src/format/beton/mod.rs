//! FFCV's `.beton`, version 2: one file with a table of fixed-size records, pages of data, and a list of allocations.
//!
//! Opening maps the record table and sorts the allocations by offset, because the length of a JPEG is stored nowhere
//! else; it reads no sample. After that a sample is one read: FFCV stores all of a sample in one page, in field
//! order.

mod export;
mod header;
mod write;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use self::header::{ALLOCATION_LENGTH, BetonHeader, FieldType, HEADER_LENGTH, Layout, u64_at};
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageEncoding, ImageMeta, SampleBuffer, Schema, Value,
};
use crate::source::{HeldBytes, Object, Source, Target, to_usize};

pub(super) use self::export::BetonExporter;

/// How to detect and open a `.beton`.
pub(super) const PROBE: Probe = Probe { name: "beton", recognises, open };

/// Wanted fields further apart than this are read one by one; for smaller gaps, the bytes between cost less than a
/// request.
const MAX_GAP: u64 = 64 * 1024;

/// FFCV's image modes.
const MODE_JPEG: u8 = 0;
const MODE_RAW: u8 = 1;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = candidates(target)?;
    let Some(name) = names.first() else { return Ok(None) };
    let object = source.open(name)?;
    if object.size() < HEADER_LENGTH as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_LENGTH];
    object.read_at(0, &mut bytes)?;
    let header = BetonHeader::parse(&bytes);
    // The magic is only a small number: without the file extension, the rest of the header must fit the file as well.
    let whole = header.check(object.size()).is_ok() && header.allocations >= header.records_start();
    let sure = whole || (is_beton_name(name) && header.version == header::VERSION);
    Ok(sure.then(|| {
        if names.len() == 1 { "a .beton file".to_owned() } else { "several .beton files".to_owned() }
    }))
}

fn is_beton_name(name: &str) -> bool {
    name.len() > 6 && name.as_bytes()[name.len() - 6..].eq_ignore_ascii_case(b".beton")
}

/// The named files, or those of a folder with the usual extension.
fn candidates(target: &Target) -> Result<(Arc<dyn Source>, Vec<String>)> {
    match target {
        Target::Objects(source, names) => Ok((source.clone(), names.clone())),
        Target::Folder(source) => {
            let mut names = source.children("")?;
            names.retain(|n| is_beton_name(n));
            names.sort();
            Ok((source.clone(), names))
        }
    }
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, mut names) = candidates(target)?;
    if names.len() > 1 {
        let reason = format!("{} .beton files, and each is a data set of its own", names.len());
        return Err(Error::data(Location::new(source.uri()), reason)
            .with_hint("name one of them, or open each and join them with concat"));
    }
    let Some(name) = names.pop() else {
        return Err(Error::data(Location::new(source.uri()), "no .beton file in this folder"));
    };
    Ok(Arc::new(Beton::open(source, name)?))
}

/// An open file.
#[derive(Debug)]
pub(crate) struct Beton {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    layout: Layout,
    samples: u64,
    records: HeldBytes,
    allocations: Allocations,
    /// Range in which payloads are stored.
    data: Range<u64>,
    open_objects: OpenObjects,
}

impl Beton {
    /// Opens the file `name`.
    pub(crate) fn open(source: Arc<dyn Source>, name: String) -> Result<Self> {
        let object = source.open(&name)?;
        let uri = source.uri().to_owned();
        let bad = |reason: String| Error::data(Location::new(&uri).with_shard(&name), reason);
        let size = object.size();
        let (header, front) = read_front(&*object).map_err(|e| e.or_data(bad))?;
        let layout = Layout::parse(&front[HEADER_LENGTH..]).map_err(bad)?;
        let table =
            records_range(&header, &layout).filter(|t| t.end <= header.allocations).ok_or_else(|| {
                bad(format!("{} samples do not fit before byte {}", header.samples, header.allocations))
            })?;
        let records = object.hold(table.clone())?;
        let list = object.hold(header.allocations..size)?;
        let data = table.end..header.allocations;
        let allocations = Allocations::parse(&list, &data).map_err(bad)?;
        let version = object.version().to_le_bytes();
        let fingerprint = Fingerprint::of([&b"beton"[..], &front, &version, &records, &list]);
        let fields = layout.fields.iter().map(|f| FieldSpec::new(&f.name, f.is.kind())).collect();
        let schema = Schema { fields, classes: None };
        let open_objects =
            OpenObjects::with_versions(source.clone(), vec![(name.clone(), size, object.version())]);
        let samples = header.samples;
        Ok(Beton { uri, schema, fingerprint, layout, samples, records, allocations, data, open_objects })
    }

    fn record(&self, sample: u64) -> Result<&[u8]> {
        if sample >= self.samples {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the file has {} samples", self.samples)));
        }
        let start = sample as usize * self.layout.record;
        Ok(&self.records[start..start + self.layout.record])
    }

    fn place(&self, sample: u64, field: usize) -> Location {
        Location::new(&self.uri)
            .with_shard(self.open_objects.name(0))
            .with_sample(sample)
            .with_field(&self.schema.fields[field].name)
    }

    /// Byte range of a field; `None` for fields whose value is in the record.
    fn span(&self, record: &[u8], sample: u64, field: usize) -> Result<Option<Range<u64>>> {
        let (start, length) = match self.payload(record, field) {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => found,
            Err(reason) => return Err(Error::data(self.place(sample, field), reason)),
        };
        if length == 0 {
            return Ok(Some(self.data.start..self.data.start));
        }
        match start.checked_add(length) {
            Some(end) if self.data.start <= start && end <= self.data.end => Ok(Some(start..end)),
            _ => {
                let reason = format!("{length} bytes from byte {start} on are not in the file's data");
                Err(Error::data(self.place(sample, field).with_offset(start), reason))
            }
        }
    }

    /// Pointer and length of a field's bytes.
    fn payload(&self, record: &[u8], field: usize) -> Result<Option<(u64, u64)>, String> {
        let field = &self.layout.fields[field];
        let entry = &record[field.at..];
        Ok(match &field.is {
            FieldType::Int | FieldType::Float => None,
            FieldType::Array { length, .. } => Some((u64_at(entry, 0), *length)),
            FieldType::Bytes => Some((u64_at(entry, 0), u64_at(entry, 8))),
            // The text ends in a NUL that is not part of it.
            FieldType::Json => Some((u64_at(entry, 0), u64_at(entry, 8).saturating_sub(1))),
            FieldType::Image => {
                let image = ImageEntry::parse(entry);
                let stored = self.allocations.length(image.pointer);
                let stored =
                    stored.ok_or_else(|| format!("no allocation begins at byte {}", image.pointer))?;
                image.check(stored)?;
                Some((image.pointer, stored))
            }
        })
    }

    /// Reads `run`, which contains the wanted fields `fields`, and sets their values.
    fn read_run(
        &self,
        place: (u64, &[u8]),
        wanted: &FieldSet,
        run: &Run,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let (sample, record) = place;
        let length = to_usize(run.bytes.end - run.bytes.start, &self.uri, self.open_objects.name(0))?;
        let (arena, room) = into.reserve(length);
        self.open_objects.with(0, |object| object.read_at(run.bytes.start, room))??;
        for field in run.fields.clone().filter(|f| wanted.has(*f)) {
            let Some(span) = self.span(record, sample, field)? else { continue };
            let shift = |at: u64| arena.start + at.saturating_sub(run.bytes.start) as usize;
            let bytes =
                if span.is_empty() { arena.start..arena.start } else { shift(span.start)..shift(span.end) };
            into.set(field, self.value(record, field, bytes));
        }
        Ok(())
    }

    fn value(&self, record: &[u8], field: usize, bytes: Range<usize>) -> Value {
        match &self.layout.fields[field].is {
            FieldType::Image => {
                let meta = ImageEntry::parse(&record[self.layout.fields[field].at..]).meta();
                Value::Image { index: bytes.end..bytes.end, bytes, meta }
            }
            FieldType::Array { dtype, shape, dimensions, .. } => {
                Value::Array { dtype: *dtype, dimensions: *dimensions, shape: *shape, bytes }
            }
            _ => Value::Bytes(bytes),
        }
    }

    /// Calls `take` with each run of neighbouring bytes that the wanted fields need.
    fn runs(&self, sample: u64, wanted: &FieldSet, take: &mut dyn FnMut(Run) -> Result<()>) -> Result<()> {
        let record = self.record(sample)?;
        let mut run: Option<Run> = None;
        for field in wanted.iter() {
            let Some(span) = self.span(record, sample, field)? else { continue };
            run = Some(match run.take() {
                None => Run { bytes: span, fields: field..field + 1 },
                Some(before) => match before.joined(&span, field) {
                    Ok(joined) => joined,
                    Err(before) => {
                        take(before)?;
                        Run { bytes: span, fields: field..field + 1 }
                    }
                },
            });
        }
        run.map_or(Ok(()), take)
    }
}

/// Neighbouring bytes, and the fields (wanted or not) that they are for.
struct Run {
    bytes: Range<u64>,
    fields: Range<usize>,
}

impl Run {
    /// Adds another field's bytes at the end, if they are close.
    fn joined(mut self, span: &Range<u64>, field: usize) -> Result<Run, Run> {
        if !span.is_empty() && !self.bytes.is_empty() {
            let nearby = span.start >= self.bytes.end && span.start - self.bytes.end <= MAX_GAP;
            if !nearby {
                return Err(self);
            }
            self.bytes.end = span.end;
        } else if self.bytes.is_empty() {
            self.bytes = span.clone();
        }
        self.fields.end = field + 1;
        Ok(self)
    }
}

/// An image's entry in the record.
struct ImageEntry {
    mode: u8,
    width: u16,
    height: u16,
    pointer: u64,
}

impl ImageEntry {
    fn parse(entry: &[u8]) -> Self {
        ImageEntry {
            mode: entry[0],
            width: u16::from_le_bytes([entry[1], entry[2]]),
            height: u16::from_le_bytes([entry[3], entry[4]]),
            pointer: u64_at(entry, 5),
        }
    }

    /// Checks that `stored` bytes can be this image.
    fn check(&self, stored: u64) -> Result<(), String> {
        let needed = u64::from(self.width) * u64::from(self.height) * 3;
        match self.mode {
            MODE_JPEG => Ok(()),
            MODE_RAW if stored == needed => Ok(()),
            MODE_RAW => Err(format!(
                "{stored} bytes are stored, {needed} are needed for {}x{} raw pixels",
                self.width, self.height
            )),
            other => Err(format!("image mode {other} is unknown")),
        }
    }

    /// FFCV writes JPEGs itself and ignores EXIF: stored images are upright.
    fn meta(&self) -> ImageMeta {
        let encoding = if self.mode == MODE_RAW { ImageEncoding::Rgb } else { ImageEncoding::Jpeg };
        let (width, height) = (u32::from(self.width), u32::from(self.height));
        ImageMeta { encoding, width, height, channels: 3, orientation: 1 }
    }
}

/// Pointers and lengths, sorted.
#[derive(Debug)]
struct Allocations(Vec<(u64, u64)>);

impl Allocations {
    fn parse(list: &[u8], data: &Range<u64>) -> Result<Self, String> {
        let mut sorted = Vec::with_capacity(list.len() / ALLOCATION_LENGTH);
        for entry in list.chunks_exact(ALLOCATION_LENGTH) {
            let (pointer, length) = (u64_at(entry, 8), u64_at(entry, 16));
            let inside = pointer.checked_add(length).is_some_and(|end| end <= data.end);
            if !inside || (length > 0 && pointer < data.start) {
                return Err(format!(
                    "the allocation of {length} bytes at byte {pointer} is outside the data"
                ));
            }
            sorted.push((pointer, length));
        }
        // The pages of one worker are already in order, those of several workers in runs.
        if !sorted.is_sorted() {
            sorted.sort_unstable();
        }
        Ok(Allocations(sorted))
    }

    /// Number of bytes at `pointer`. An empty allocation has the same pointer as the next one; the longest counts.
    fn length(&self, pointer: u64) -> Option<u64> {
        let after = self.0.partition_point(|(start, _)| *start <= pointer);
        let (start, length) = *self.0.get(after.checked_sub(1)?)?;
        (start == pointer).then_some(length)
    }
}

/// Why the header could not be read.
enum FrontError {
    Source(Error),
    Reason(String, &'static str),
}

impl FrontError {
    fn or_data(self, bad: impl Fn(String) -> Error) -> Error {
        match self {
            FrontError::Source(error) => error,
            FrontError::Reason(reason, hint) => bad(reason).with_hint(hint),
        }
    }
}

/// The checked header, with its bytes and those of the descriptors.
fn read_front(object: &dyn Object) -> Result<(BetonHeader, Vec<u8>), FrontError> {
    let size = object.size();
    if size < HEADER_LENGTH as u64 {
        return Err(FrontError::Reason(format!("{size} bytes are too few for a .beton"), ""));
    }
    let mut bytes = [0; HEADER_LENGTH];
    object.read_at(0, &mut bytes).map_err(FrontError::Source)?;
    let header = BetonHeader::parse(&bytes);
    header.check(size).map_err(|reason| FrontError::Reason(reason, ""))?;
    if header.allocations == 0 {
        let reason = "the write was interrupted: the allocation table is missing".to_owned();
        return Err(FrontError::Reason(reason, "write the file again; FFCV writes this table last"));
    }
    // At most a thousand descriptors, checked to be inside the file.
    let mut front = vec![0; header.records_start() as usize];
    object.read_at(0, &mut front).map_err(FrontError::Source)?;
    Ok((header, front))
}

fn records_range(header: &BetonHeader, layout: &Layout) -> Option<Range<u64>> {
    let start = header.records_start();
    let length = header.samples.checked_mul(layout.record as u64)?;
    Some(start..start.checked_add(length)?)
}

impl Format for Beton {
    fn name(&self) -> &'static str {
        "beton"
    }

    fn len(&self) -> u64 {
        self.samples
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.layout.fields.len());
        let record = self.record(sample)?;
        for field in fields.iter() {
            let entry = &record[self.layout.fields[field].at..];
            match &self.layout.fields[field].is {
                FieldType::Int => into.set(field, Value::Int(u64_at(entry, 0) as i64)),
                FieldType::Float => into.set(field, Value::Float(f64::from_bits(u64_at(entry, 0)))),
                _ => {}
            }
        }
        self.runs(sample, fields, &mut |run| self.read_run((sample, record), fields, &run, into))
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_shard(self.open_objects.name(0)).with_sample(sample);
        let Ok(record) = self.record(sample) else { return place };
        let first = (0..self.layout.fields.len()).find_map(|f| self.payload(record, f).ok().flatten());
        match first {
            Some((pointer, _)) => place.with_offset(pointer),
            None => place,
        }
    }
}

impl crate::format::Index for Beton {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        if matches!(self.layout.fields[field].is, FieldType::Array { .. }) {
            return None;
        }
        let span = self.span(self.record(sample).ok()?, sample, field).ok()??;
        Some(span.end - span.start)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        match self.span(self.record(sample)?, sample, field)? {
            Some(span) if span.end - span.start == into.len() as u64 => {
                self.open_objects.with(0, |object| object.read_at(span.start, into))?
            }
            _ => Err(Error::data(self.place(sample, field), "the field has another length")),
        }
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let field = &self.layout.fields[field];
        let record = self.record(sample).ok()?;
        (field.is == FieldType::Image).then(|| ImageEntry::parse(&record[field.at..]).meta())
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let field = &self.layout.fields[field];
        let record = self.record(sample).ok()?;
        (field.is == FieldType::Int).then(|| u64_at(record, field.at) as i64)
    }
}

impl crate::format::Extents for Beton {
    fn object_count(&self) -> u32 {
        1
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        (number == 0).then(|| (self.open_objects.source(), self.open_objects.name(0).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let _ = self.runs(sample, fields, &mut |run| {
            out.push(Extent { object: 0, range: run.bytes });
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests;
