//! Reads a pack: the manifest at opening, each part's index on first use, each sample with one read.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use feedline_pixels::checksum;

use super::layout::{FieldColumns, HEADER_LENGTH, Index, PartHeader, TRAILER_LENGTH, Trailer, at};
use super::manifest::{MANIFEST_NAME, Manifest, PartEntry, part_name};
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::format::Format;
use crate::format::open_objects::OpenObjects;
use crate::sample::{
    DType, Extent, FieldSet, Fingerprint, ImageEncoding, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer,
    Schema, Value,
};
use crate::source::{HeldBytes, Object, Seen, Source, cancel_flag, with_flag};

/// Number of indexes of remote parts that are read at once.
const INDEXES_AT_ONCE: usize = 32;

/// Wanted fields further apart than this are read one by one; for smaller gaps, the bytes between cost less than a
/// request.
const MAX_GAP: u64 = 64 * 1024;

/// Fits in every core's second-level cache and is large enough that the cost of the system call does not matter.
const CHECKSUM_BLOCK: usize = 256 * 1024;

/// An open pack.
#[derive(Debug)]
pub(crate) struct Pack {
    uri: String,
    manifest: Manifest,
    kinds: Vec<Kind>,
    /// First sample of each part, and the number of samples.
    firsts: Vec<u64>,
    open_objects: OpenObjects,
    parts: Vec<Part>,
}

/// A part's index, once it was needed.
#[derive(Debug, Default)]
struct Part {
    index: OnceLock<Box<PartIndex>>,
    /// Held by the thread that reads the index. After a failure it tells the waiting threads when and how the read
    /// failed.
    reading: Mutex<Option<(Instant, Error)>>,
}

/// A part's index, checked and parsed.
#[derive(Debug)]
pub(super) struct PartIndex {
    pub(super) bytes: HeldBytes,
    pub(super) index: Index,
    /// Range of the part in which samples are stored.
    data: Range<u64>,
}

/// A sample's place: part, row in it, and the part's index.
struct Place<'a> {
    part: usize,
    row: usize,
    index: &'a PartIndex,
}

impl Pack {
    /// Opens the pack at the root of `source`.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self> {
        let uri = source.uri().to_owned();
        let manifest = read_manifest(&*source)?;
        let kinds: Vec<Kind> = manifest.schema.fields.iter().map(|f| f.kind).collect();
        let mut firsts = vec![0];
        let mut total = 0;
        for part in &manifest.parts {
            total += part.samples;
            firsts.push(total);
        }
        let parts = manifest.parts.iter().map(|_| Part::default()).collect();
        let objects =
            manifest.parts.iter().enumerate().map(|(n, p)| (part_name(n as u64), p.bytes)).collect();
        let open_objects = OpenObjects::new(source, objects);
        Ok(Pack { uri, manifest, kinds, firsts, open_objects, parts })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn place(&self, sample: u64) -> Result<Place<'_>> {
        let part = self.part_of(sample)?;
        let index = self.part(part)?;
        Ok(Place { part, row: (sample - self.firsts[part]) as usize, index })
    }

    fn part_of(&self, sample: u64) -> Result<usize> {
        if sample >= self.manifest.samples {
            let reason = format!("the pack has {} samples", self.manifest.samples);
            return Err(Error::data(Location::new(&self.uri).with_sample(sample), reason));
        }
        Ok(self.firsts.partition_point(|first| *first <= sample) - 1)
    }

    /// The index of part `part`; read and checked on first use.
    pub(super) fn part(&self, part: usize) -> Result<&PartIndex> {
        let slot = &self.parts[part];
        if let Some(index) = slot.index.get() {
            return Ok(index);
        }
        let asked = Instant::now();
        let mut failed = slot.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = slot.index.get() {
            return Ok(index);
        }
        // A network may have been tried for minutes, so threads that waited meanwhile share the failure. Later ones
        // try again.
        if let Some((when, error)) = &*failed
            && *when >= asked
        {
            return Err(error.clone());
        }
        match self.read_index_with_retry(part) {
            Ok(index) => Ok(slot.index.get_or_init(|| Box::new(index))),
            Err(error) => {
                // A cancelled read says nothing about the part.
                *failed = (!matches!(error, Error::Closed(_))).then(|| (Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Like [`read_index`](Self::read_index); a remote index that arrives damaged is fetched once more.
    fn read_index_with_retry(&self, part: usize) -> Result<PartIndex> {
        match self.read_index(part) {
            Err(Error::Data { .. }) if self.open_objects.source().is_remote() => {
                self.open_objects.source().forget(&part_name(part as u64), &(0..u64::MAX));
                self.read_index(part)
            }
            read => read,
        }
    }

    /// Reads, checks and parses the index that the manifest describes.
    fn read_index(&self, part: usize) -> Result<PartIndex> {
        let entry = &self.manifest.parts[part];
        let bytes = self.open_objects.with(part, |object| object.hold(entry.index_range()))??;
        PartIndex::parse(bytes, &entry.trailer(), &self.kinds).map_err(|reason| self.broken(part, reason))
    }

    fn broken(&self, part: usize, reason: String) -> Error {
        Error::data(self.part_location(part), reason)
            .with_hint("the part is damaged or was replaced; 'feedline verify' lists what is broken")
    }

    pub(super) fn part_location(&self, part: usize) -> Location {
        Location::new(&self.uri).with_shard(part_name(part as u64))
    }

    fn location(&self, place: &Place<'_>, field: usize, offset: u64) -> Location {
        self.part_location(place.part)
            .with_sample(self.firsts[place.part] + place.row as u64)
            .with_field(&self.manifest.schema.fields[field].name)
            .with_offset(offset)
    }

    /// Reads `range` of the part into `into`.
    fn fetch(&self, part: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.open_objects.with(part, |object| object.read_at(offset, into))?
    }

    /// Gives `into` this length.
    fn fit(&self, place: &Place<'_>, length: u64, into: &mut Vec<u8>) -> Result<()> {
        into.clear();
        if usize::try_from(length).map_or(true, |count| into.try_reserve(count).is_err()) {
            let reading = format!("reading {}", self.part_location(place.part));
            return Err(Error::out_of_memory(length, reading));
        }
        into.resize(length as usize, 0);
        Ok(())
    }

    fn check(&self, place: &Place<'_>, field: usize, span: &FieldSpan, bytes: &[u8]) -> Result<()> {
        let (main, seek) = bytes.split_at((span.main.end - span.main.start) as usize);
        let pieces = [(main, at::CRC, "bytes"), (seek, at::SEEK_CRC, "seek index")];
        for (piece, column, name) in pieces {
            if !piece.is_empty() {
                self.compare_crc(place, field, checksum::crc32c(piece), column, name, span.main.start)?;
            }
        }
        Ok(())
    }

    fn compare_crc(
        &self,
        place: &Place<'_>,
        field: usize,
        found: u32,
        column: usize,
        name: &str,
        offset: u64,
    ) -> Result<()> {
        let stored = place.index.get(field, column, place.row);
        if u64::from(found) == stored {
            return Ok(());
        }
        let reason = format!("the checksum of its {name} is {found:08x}, stored is {stored:08x}");
        Err(Error::data(self.location(place, field, offset), reason)
            .with_hint("the part is damaged or was replaced; 'feedline verify' lists what is broken"))
    }

    /// Reads the wanted fields from `field` on that are close to each other with one read. Returns the next field to
    /// look at.
    fn read_run(
        &self,
        place: &Place<'_>,
        wanted: &FieldSet,
        field: usize,
        into: &mut SampleBuffer,
    ) -> Result<usize> {
        let (span, next) = self.run(place, wanted, field)?;
        let length = usize::try_from(span.end - span.start)
            .map_err(|_| Error::data(self.location(place, field, span.start), "too long for memory"))?;
        let (arena, room) = into.reserve(length);
        self.fetch(place.part, span.start, room)?;
        let mut cursor = FieldSpan::walk(place, &self.kinds, self.start(place)?);
        while let Some((number, at)) = cursor.next().transpose().map_err(|e| self.outside(place, e))? {
            if number >= next {
                break;
            }
            if number < field || !wanted.has(number) || !self.kinds[number].carrier().has_bytes() {
                continue;
            }
            let shift = |offset: u64| arena.start + (offset - span.start) as usize;
            let whole = shift(at.main.start)..shift(at.seek.end);
            self.check(place, number, &at, into.bytes(&whole))?;
            let value = self.value(place, number, shift(at.main.start)..shift(at.main.end), whole.end)?;
            into.set(number, value);
        }
        Ok(next)
    }

    /// The bytes of the wanted fields from `field` on, up to the first large gap; and the field after them.
    fn run(&self, place: &Place<'_>, wanted: &FieldSet, field: usize) -> Result<(Range<u64>, usize)> {
        let mut span: Option<Range<u64>> = None;
        for step in FieldSpan::walk(place, &self.kinds, self.start(place)?) {
            let (number, at) = step.map_err(|e| self.outside(place, e))?;
            if number < field || !wanted.has(number) || !self.kinds[number].carrier().has_bytes() {
                continue;
            }
            match &mut span {
                None => span = Some(at.main.start..at.seek.end),
                Some(span) if at.main.start - span.end <= MAX_GAP => span.end = at.seek.end,
                Some(span) => return Ok((span.clone(), number)),
            }
        }
        Ok((span.unwrap_or(0..0), self.kinds.len()))
    }

    fn start(&self, place: &Place<'_>) -> Result<u64> {
        let start = place.index.index.starts.get(&place.index.bytes, place.row);
        if place.index.data.contains(&start) || start == place.index.data.end {
            return Ok(start);
        }
        Err(self.outside(place, 0))
    }

    fn outside(&self, place: &Place<'_>, field: usize) -> Error {
        let start = place.index.index.starts.get(&place.index.bytes, place.row);
        Error::data(self.location(place, field, start), "the sample reaches past the part's data")
    }

    fn value(&self, place: &Place<'_>, field: usize, bytes: Range<usize>, end: usize) -> Result<Value> {
        let index = place.index;
        let unknown = |reason: String| Error::data(self.location(place, field, 0), reason);
        if index.get(field, at::MISSING, place.row) == 1 {
            return Ok(Value::Missing);
        }
        Ok(match self.kinds[field].carrier() {
            Carrier::Int => Value::Int(index.get(field, at::VALUE, place.row) as i64),
            Carrier::Float => Value::Float(f64::from_bits(index.get(field, at::VALUE, place.row))),
            Carrier::Bytes => Value::Bytes(bytes),
            Carrier::Image => {
                let meta = index.meta(field, place.row).map_err(unknown)?;
                Value::Image { index: bytes.end..end, bytes, meta }
            }
            Carrier::Array => index.array(field, place.row, bytes).map_err(unknown)?,
        })
    }

    /// The byte ranges of one field.
    fn field_span(&self, place: &Place<'_>, field: usize) -> Result<FieldSpan> {
        let mut walk = FieldSpan::walk(place, &self.kinds, self.start(place)?);
        let found = walk.nth(field).expect("callers ask for fields of the schema");
        found.map(|(_, span)| span).map_err(|e| self.outside(place, e))
    }
}

/// Reads and parses the manifest.
pub(super) fn read_manifest(source: &dyn Source) -> Result<Manifest> {
    let mut bytes = Vec::new();
    source.read_whole(MANIFEST_NAME, &mut bytes)?;
    Manifest::parse(&bytes)
        .map_err(|reason| Error::data(Location::new(source.uri()).with_shard(MANIFEST_NAME), reason))
}

impl PartIndex {
    pub(super) fn parse(bytes: HeldBytes, trailer: &Trailer, kinds: &[Kind]) -> Result<Self, String> {
        if checksum::crc32c(&bytes) != trailer.index_crc {
            return Err("the index's checksum does not match".to_owned());
        }
        let index = Index::parse(&bytes, kinds)
            .map_err(|f| format!("{} (byte {})", f.reason, trailer.index_offset.saturating_add(f.offset)))?;
        if index.samples != trailer.samples {
            return Err(format!("the index has {} samples, {} are promised", index.samples, trailer.samples));
        }
        let data = HEADER_LENGTH..trailer.index_offset;
        index.check_values(&bytes, kinds, data.end - data.start)?;
        Ok(PartIndex { bytes, index, data })
    }

    /// Column `column` of field `field` for row `row`.
    #[inline]
    pub(super) fn get(&self, field: usize, column: usize, row: usize) -> u64 {
        self.columns(field).get(&self.bytes, column, row)
    }

    #[inline]
    fn columns(&self, field: usize) -> &FieldColumns {
        &self.index.fields[field]
    }

    fn meta(&self, field: usize, row: usize) -> Result<ImageMeta, String> {
        let small = |column: usize, name: &str| {
            let value = self.get(field, column, row);
            u32::try_from(value).map_err(|_| format!("{name} of {value} is not possible"))
        };
        let code = self.get(field, at::ENCODING, row);
        let encoding = ImageEncoding::from_code(code)
            .ok_or_else(|| format!("image encoding {code} is unknown to this version"))?;
        Ok(ImageMeta {
            encoding,
            width: small(at::WIDTH, "a width")?,
            height: small(at::HEIGHT, "a height")?,
            channels: small(at::CHANNELS, "a number of channels")?.min(255) as u8,
            orientation: small(at::ORIENTATION, "an orientation")?.min(8) as u8,
        })
    }

    fn array(&self, field: usize, row: usize, bytes: Range<usize>) -> Result<Value, String> {
        let code = self.get(field, at::DTYPE, row);
        let dtype = DType::from_code(code)
            .ok_or_else(|| format!("element type {code} is unknown to this version"))?;
        let dimensions = self.get(field, at::DIMENSIONS, row);
        if dimensions > MAX_DIMENSIONS as u64 {
            return Err(format!("{dimensions} dimensions"));
        }
        let mut shape = [0; MAX_DIMENSIONS];
        for (side, length) in shape.iter_mut().enumerate().take(dimensions as usize) {
            *length = self.get(field, at::SHAPE + side, row);
        }
        let length =
            shape[..dimensions as usize].iter().try_fold(dtype.size() as u64, |n, s| n.checked_mul(*s));
        if length != Some(bytes.len() as u64) {
            return Err(format!("{} bytes are not an array of the stored shape", bytes.len()));
        }
        Ok(Value::Array { dtype, dimensions: dimensions as u8, shape, bytes })
    }
}

/// Byte ranges of one field of one sample in the part: its bytes and, right behind them, its seek index.
struct FieldSpan {
    main: Range<u64>,
    seek: Range<u64>,
}

impl FieldSpan {
    /// The spans of all fields of a sample, in order, checked to be inside the part's data; `Err` names the field
    /// that is not.
    fn walk<'a>(
        place: &'a Place<'_>,
        kinds: &'a [Kind],
        start: u64,
    ) -> impl Iterator<Item = Result<(usize, FieldSpan), usize>> + 'a {
        let mut position = start;
        kinds.iter().enumerate().map(move |(field, kind)| {
            let begin = position;
            if kind.carrier().has_bytes() {
                let length = |column| place.index.get(field, column, place.row);
                let seek = if *kind == Kind::Image { length(at::SEEK_LENGTH) } else { 0 };
                let middle = begin.checked_add(length(at::LENGTH)).ok_or(field)?;
                position =
                    middle.checked_add(seek).filter(|end| *end <= place.index.data.end).ok_or(field)?;
                return Ok((field, FieldSpan { main: begin..middle, seek: middle..position }));
            }
            Ok((field, FieldSpan { main: begin..begin, seek: begin..begin }))
        })
    }
}

impl Format for Pack {
    fn name(&self) -> &'static str {
        "pack"
    }

    fn len(&self) -> u64 {
        self.manifest.samples
    }

    fn schema(&self) -> &Schema {
        &self.manifest.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint(self.manifest.fingerprint)
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.kinds.len());
        let place = self.place(sample)?;
        let mut next = 0;
        for field in fields.iter() {
            if !self.kinds[field].carrier().has_bytes() {
                into.set(field, self.value(&place, field, 0..0, 0)?);
            } else if field >= next {
                next = self.read_run(&place, fields, field, into)?;
            }
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let Ok(part) = self.part_of(sample) else { return Location::new(&self.uri).with_sample(sample) };
        let location = self.part_location(part).with_sample(sample);
        match self.parts[part].index.get() {
            Some(index) => {
                let row = (sample - self.firsts[part]) as usize;
                location.with_offset(index.index.starts.get(&index.bytes, row))
            }
            None => location,
        }
    }
}

impl crate::format::Index for Pack {
    /// Does not look at an index, which may take a round trip.
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.kinds[field].carrier().has_bytes() && self.kinds[field] != Kind::Array
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let place = self.place(sample).ok()?;
        let here = self.knows_byte_lengths(field) && place.index.get(field, at::MISSING, place.row) == 0;
        // Checked to be inside the part's data, because memory is allocated by it before anything is read.
        let span = here.then(|| self.field_span(&place, field).ok()).flatten()?;
        Some(span.main.end - span.main.start)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let place = self.place(sample)?;
        let span = self.field_span(&place, field)?;
        if span.main.end - span.main.start != into.len() as u64 {
            let reason = format!("room for {} bytes given", into.len());
            return Err(Error::data(self.location(&place, field, span.main.start), reason));
        }
        let mut found = 0;
        let mut offset = span.main.start;
        // In small pieces, so that the bytes are still in the core's cache for the checksum.
        for bite in into.chunks_mut(CHECKSUM_BLOCK) {
            self.fetch(place.part, offset, bite)?;
            found = checksum::append(found, bite);
            offset += bite.len() as u64;
        }
        self.compare_crc(&place, field, found, at::CRC, "bytes", span.main.start)
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        if !self.knows_byte_lengths(field) {
            return Ok(None);
        }
        let place = self.place(sample)?;
        let mut range = self.field_span(&place, field)?.main;
        if place.index.get(field, at::MISSING, place.row) == 1 {
            range.end = range.start;
        }
        Ok(Some(Extent { object: place.part as u32, range }))
    }

    fn stored_index(&self, sample: u64, field: usize) -> Result<Option<Vec<u8>>> {
        if self.kinds[field] != Kind::Video {
            return Ok(None);
        }
        let place = self.place(sample)?;
        let length = |field: usize| match self.kinds[field] {
            Kind::Video => place.index.get(field, at::VIDEO_INDEX_LENGTH, place.row),
            _ => 0,
        };
        if length(field) == 0 {
            // Only the checksum of the whole video covers its bytes.
            return Ok(Some(Vec::new()));
        }
        let last = self.field_span(&place, self.kinds.len() - 1)?.seek.end;
        let start = (0..field).try_fold(last, |start, before| start.checked_add(length(before)));
        let end = start.and_then(|start| start.checked_add(length(field)));
        let (Some(start), Some(_)) = (start, end.filter(|end| *end <= place.index.data.end)) else {
            return Err(self.outside(&place, field));
        };
        let mut index = Vec::new();
        self.fit(&place, length(field), &mut index)?;
        self.fetch(place.part, start, &mut index)?;
        let found = crc32c::crc32c(&index);
        self.compare_crc(&place, field, found, at::VIDEO_INDEX_CRC, "index", start)?;
        Ok(Some(index))
    }

    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        if self.kinds[field] != Kind::Image {
            return Ok(None);
        }
        let place = self.place(sample)?;
        let get = |column| place.index.get(field, column, place.row);
        // The seek index of a file is not a table of pieces.
        let is_file = ImageEncoding::from_code(get(at::ENCODING)).is_none_or(ImageEncoding::is_file);
        if is_file || get(at::SEEK_LENGTH) == 0 {
            return Ok(None);
        }
        let span = self.field_span(&place, field)?;
        self.fit(&place, span.seek.end - span.seek.start, into)?;
        self.fetch(place.part, span.seek.start, into)?;
        let found = checksum::crc32c(into);
        self.compare_crc(&place, field, found, at::SEEK_CRC, "seek index", span.seek.start)?;
        Ok(Some(span.main.end - span.main.start))
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let place = self.place(sample)?;
        let main = self.field_span(&place, field)?.main;
        let start = main.start.checked_add(offset);
        let inside =
            start.and_then(|start| start.checked_add(into.len() as u64)).is_some_and(|end| end <= main.end);
        let Some(start) = start.filter(|_| inside) else {
            let reason = format!("the image has no {} bytes at {offset}", into.len());
            return Err(Error::data(self.location(&place, field, main.start), reason));
        };
        self.fetch(place.part, start, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let place = self.place(sample).ok()?;
        let here = self.kinds[field] == Kind::Image && place.index.get(field, at::MISSING, place.row) == 0;
        here.then(|| place.index.meta(field, place.row).ok()).flatten()
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let place = self.place(sample).ok()?;
        let here = self.kinds[field] == Kind::Int && place.index.get(field, at::MISSING, place.row) == 0;
        here.then(|| place.index.get(field, at::VALUE, place.row) as i64)
    }
}

impl crate::format::Extents for Pack {
    fn prepare(&self, samples: &[u64]) {
        let mut parts: Vec<usize> = samples.iter().filter_map(|sample| self.part_of(*sample).ok()).collect();
        parts.sort_unstable();
        parts.dedup();
        parts.retain(|part| self.parts[*part].index.get().is_none());
        let flag = cancel_flag();
        std::thread::scope(|scope| {
            for some in parts.chunks(parts.len().div_ceil(INDEXES_AT_ONCE).max(1)) {
                // A failure here happens again when a sample is read, and is reported then. If a thread cannot be
                // started, its parts are read at that moment too.
                let flag = flag.clone();
                let read = move || with_flag(flag, || some.iter().for_each(|part| drop(self.part(*part))));
                let _ = std::thread::Builder::new().spawn_scoped(scope, read);
            }
        });
    }

    fn object_count(&self) -> u32 {
        self.parts.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), part_name(u64::from(number)).into()))
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        // The manifest knows lengths, not versions.
        Some(Seen { size: self.open_objects.length(number as usize), version: 0 })
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Ok(place) = self.place(sample) else { return };
        let mut next = 0;
        for field in fields.iter() {
            if field < next || !self.kinds[field].carrier().has_bytes() {
                continue;
            }
            let Ok((range, after)) = self.run(&place, fields, field) else { return };
            next = after;
            out.push(Extent { object: place.part as u32, range });
        }
    }
}

/// The entry and index of the part in `object`, if it is a finished part of this plan.
pub(super) fn read_part(
    object: &dyn Object,
    expected: PartHeader,
    kinds: &[Kind],
) -> Result<(PartEntry, PartIndex), String> {
    let size = object.size();
    if size < HEADER_LENGTH + TRAILER_LENGTH {
        return Err(format!("{size} bytes are too few for a part"));
    }
    let (mut header, mut trailer) = ([0; HEADER_LENGTH as usize], [0; TRAILER_LENGTH as usize]);
    object.read_at(0, &mut header).map_err(|e| e.to_string())?;
    object.read_at(size - TRAILER_LENGTH, &mut trailer).map_err(|e| e.to_string())?;
    let header = PartHeader::parse(&header).map_err(|f| format!("{} (byte {})", f.reason, f.offset))?;
    let at_end =
        |f: super::layout::Fault| format!("{} (byte {})", f.reason, size - TRAILER_LENGTH + f.offset);
    let trailer = Trailer::parse(&trailer, size).map_err(at_end)?;
    if header != expected {
        return Err("the part belongs to another pack or place".to_owned());
    }
    let entry = PartEntry::new(&trailer, size);
    let bytes = object.hold(entry.index_range()).map_err(|e| e.to_string())?;
    let index = PartIndex::parse(bytes, &entry.trailer(), kinds)?;
    Ok((entry, index))
}

#[cfg(test)]
mod tests {
    use super::super::layout::{IndexBuilder, MAX_COLUMNS};
    use super::*;
    use crate::sample::FieldSpec;
    use crate::source::MemorySource;

    /// A billion samples: opening costs only what the manifest costs.
    #[test]
    fn opening_time_does_not_depend_on_the_number_of_samples() {
        let entry = PartEntry {
            samples: 1 << 17,
            bytes: (12 << 30) + 64,
            index_offset: 12 << 30,
            index_length: 0,
            index_crc32c: 0,
            digest: [1; 16],
            written_as: None,
        };
        let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
        let manifest = Manifest::new([0; 16], "as-is", &schema, vec![entry; 8192]);
        let start = Instant::now();
        let pack = Pack::open(Arc::new(MemorySource::new([(MANIFEST_NAME, manifest.to_bytes())]))).unwrap();
        assert_eq!(pack.len(), 1 << 30);
        assert_eq!(pack.locate((1 << 30) - 1).shard.as_deref(), Some("part-008191.fl"));
        assert!(start.elapsed().as_secs_f64() < 2.0, "{:?}", start.elapsed());
    }

    #[test]
    fn more_samples_than_a_part_can_hold_are_refused() {
        let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
        let entry = |samples: u64| PartEntry {
            samples,
            bytes: 4096 + 64,
            index_offset: 4096,
            index_length: 0,
            index_crc32c: 0,
            digest: [1; 16],
            written_as: None,
        };
        for parts in [vec![entry(1 << 40)], vec![entry(1 << 30)], vec![entry(1 << 28); 4096]] {
            let manifest = Manifest::new([0; 16], "as-is", &schema, parts);
            let source = MemorySource::new([(MANIFEST_NAME, manifest.to_bytes())]);
            let error = Pack::open(Arc::new(source)).unwrap_err().to_string();
            assert!(error.contains("do not fit in its parts"), "{error}");
        }
    }

    /// Indexes with correct checksums and wrong content.
    #[test]
    fn impossible_lengths_and_sizes_are_refused_at_opening() {
        let kinds = [Kind::Image];
        let refused = |column: usize, value: u64| {
            let mut builder = IndexBuilder::new(kinds);
            for row in 0..5 {
                let mut values = [0; MAX_COLUMNS];
                (values[at::LENGTH], values[at::WIDTH], values[at::HEIGHT]) = (10, 8, 8);
                if row == 3 {
                    values[column] = value;
                }
                builder.push(64 + 16 * row, &[values]);
            }
            let bytes = builder.finish(b"[]", b"");
            let trailer = Trailer {
                index_offset: 4096,
                index_length: bytes.len() as u64,
                samples: 5,
                digest: [0; 16],
                index_crc: checksum::crc32c(&bytes),
            };
            PartIndex::parse(HeldBytes::Owned(bytes.into()), &trailer, &kinds).map(drop)
        };
        assert_eq!(refused(at::LENGTH, 4000), Ok(()));
        assert_eq!(refused(at::WIDTH, 60_000), Ok(()));
        let impossible =
            [(at::LENGTH, 1 << 47), (at::SEEK_LENGTH, 5000), (at::WIDTH, 1 << 31), (at::HEIGHT, 1 << 40)];
        for (column, value) in impossible {
            let error = refused(column, value).unwrap_err();
            assert!(error.contains(&format!("of {value} in row 3 is not possible")), "{error}");
        }
    }

    #[test]
    fn an_inconsistent_manifest_is_refused() {
        let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
        let mut manifest = Manifest::new([0; 16], "as-is", &schema, Vec::new());
        manifest.samples = 5;
        let error =
            Pack::open(Arc::new(MemorySource::new([(MANIFEST_NAME, manifest.to_bytes())]))).unwrap_err();
        assert!(error.to_string().contains("add up"), "{error}");
        manifest.samples = 0;
        let text = String::from_utf8(manifest.to_bytes()).unwrap().replace("[1,0]", "[2,0]");
        let error =
            Pack::open(Arc::new(MemorySource::new([(MANIFEST_NAME, text.into_bytes())]))).unwrap_err();
        assert!(error.to_string().contains("version 2"), "{error}");
        let text = String::from_utf8(manifest.to_bytes()).unwrap().replace("[1,0]", "[1,7]");
        assert!(Pack::open(Arc::new(MemorySource::new([(MANIFEST_NAME, text.into_bytes())]))).is_ok());
    }
}
