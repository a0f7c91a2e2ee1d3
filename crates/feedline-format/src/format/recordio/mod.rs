//! MXNet's RecordIO (`.rec`, with or without `.idx` beside it): images with a header of labels, as `im2rec` packs them.
//!
//! Opening finds the records from the index beside the file, or by following the lengths. A sample is one read.

mod index;
mod record;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions, parallel, splits};
use crate::error::{Error, Location, Result};
use crate::sample::{
    DType, Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Schema,
    Value,
};
use crate::source::{Source, Target, to_usize};
use index::{RecordFile, find_records};
use record::{ImageRecordHeader, MAGIC, content};

/// How to detect and open RecordIO files.
pub(super) const PROBE: Probe = Probe { name: "recordio", recognises, open };

/// Number of records inspected to find their content.
const SURVEYED: u64 = 64;
/// The image (or the record's bytes) is field 0, then come the labels and the number.
const CONTENT: usize = 0;
const LABEL: usize = 1;
const ID: usize = 2;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = candidates(target)?;
    let Some(first) = names.first() else { return Ok(None) };
    let object = source.open(first)?;
    let mut magic = [0; 4];
    if object.size() >= 8 {
        object.read_at(0, &mut magic)?;
    }
    Ok((magic == MAGIC).then(|| format!("{} RecordIO files", names.len())))
}

fn has_ending(name: &str, ending: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, found)| found.eq_ignore_ascii_case(ending))
}

/// The named files, or a folder's `.rec` files.
fn candidates(target: &Target) -> Result<(&Arc<dyn Source>, Vec<String>)> {
    match target {
        Target::Objects(source, names) => {
            Ok((source, names.iter().filter(|name| !has_ending(name, "idx")).cloned().collect()))
        }
        Target::Folder(source) => {
            let mut names = source.children("")?;
            names.retain(|name| has_ending(name, "rec"));
            names.sort();
            Ok((source, names))
        }
    }
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names) = candidates(target)?;
    let listed = matches!(target, Target::Objects(..));
    let names = splits::choose(source.uri(), names, options.split.as_deref(), listed)?;
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no .rec file in this folder"));
    }
    Ok(Arc::new(RecordIo::open(source.clone(), names)?))
}

/// Open RecordIO files.
#[derive(Debug)]
pub(crate) struct RecordIo {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    open_objects: OpenObjects,
    files: Vec<RecordFile>,
    /// First sample of each file, and the number of samples.
    starts: Vec<u64>,
    /// Whether records begin with a header of labels.
    headed: bool,
}

impl RecordIo {
    fn open(source: Arc<dyn Source>, names: Vec<String>) -> Result<Self> {
        let uri = source.uri().to_owned();
        let found = parallel::collect(names.len(), |n| find_records(&*source, &names[n]))?;
        let (mut starts, mut hasher, mut objects) = (vec![0], blake3::Hasher::new(), Vec::new());
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for (name, file) in names.into_iter().zip(found) {
            for number in [file.size, file.version, file.len()] {
                hasher.update(&number.to_le_bytes());
            }
            starts.push(starts.last().copied().unwrap_or(0) + file.len());
            problems.extend(file.problems.iter().cloned());
            objects.push((name, file.size, file.version));
            files.push(file);
        }
        let open_objects = OpenObjects::with_versions(source, objects);
        let hash = hasher.finalize();
        let fingerprint = Fingerprint::of([&b"recordio"[..], &hash.as_bytes()[..]]);
        let schema = Schema::default();
        let mut open =
            RecordIo { uri, schema, fingerprint, problems, open_objects, files, starts, headed: true };
        open.find_fields()?;
        Ok(open)
    }

    /// Finds the content of the records from some of them spread over the set. Damaged ones are ignored here; reading
    /// them gives the error.
    fn find_fields(&mut self) -> Result<()> {
        let count = self.len();
        let surveyed = count.min(SURVEYED);
        let (mut buffer, mut heads, mut broken) = (SampleBuffer::new(), Vec::new(), None);
        for number in 0..surveyed {
            let sample = (u128::from(number) * u128::from(count) / u128::from(surveyed)) as u64;
            buffer.reset(0);
            match self.read_record(sample, &mut buffer) {
                Ok(range) => heads.push(ImageRecordHeader::parse(buffer.bytes(&range))),
                Err(error) if matches!(error, Error::Data { .. }) => broken = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(error)) = (heads.is_empty(), broken) {
            return Err(error);
        }
        self.headed = heads.iter().all(Option::is_some);
        if !self.headed {
            self.schema = Schema { fields: vec![FieldSpec::new("data", Kind::Bytes)], classes: None };
            return Ok(());
        }
        let mut labels = heads.iter().flatten();
        let label = if labels.clone().any(|head| head.several.is_some()) {
            Kind::Array
        } else if labels.all(ImageRecordHeader::is_whole) {
            Kind::Int
        } else {
            Kind::Float
        };
        let fields = [("image", Kind::Image), ("label", label), ("id", Kind::Int)];
        let fields = fields.into_iter().map(|(name, kind)| FieldSpec::new(name, kind)).collect();
        self.schema = Schema { fields, classes: None };
        Ok(())
    }

    fn place(&self, sample: u64) -> Result<(usize, Range<u64>)> {
        if sample >= self.len() {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the files hold {} records", self.len())));
        }
        let file = self.starts.partition_point(|start| *start <= sample) - 1;
        Ok((file, self.files[file].range(sample - self.starts[file])))
    }

    /// Reads a record and returns the range of its content in the buffer.
    fn read_record(&self, sample: u64, into: &mut SampleBuffer) -> Result<Range<usize>> {
        let (file, range) = self.place(sample)?;
        let length = to_usize(range.end - range.start, &self.uri, self.open_objects.name(file))?;
        let (stored, room) = into.reserve(length);
        self.open_objects.with(file, |object| object.read_at(range.start, room))??;
        content(stored, into).map_err(|reason| Error::data(self.locate(sample), reason))
    }

    fn label(&self, head: &ImageRecordHeader, record: &Range<usize>, sample: u64) -> Result<Value> {
        let wrong = |reason: &str| {
            Error::data(self.locate(sample).with_field("label"), format!("{reason} in the inspected records"))
        };
        match (self.schema.fields[LABEL].kind, &head.several) {
            (Kind::Array, several) => {
                // A single label is in the header itself.
                let bytes = several.clone().unwrap_or(4..8);
                let bytes = record.start + bytes.start..record.start + bytes.end;
                let mut shape = [0; MAX_DIMENSIONS];
                shape[0] = (bytes.len() / 4) as u64;
                Ok(Value::Array { dtype: DType::F32, dimensions: 1, shape, bytes })
            }
            (_, Some(_)) => Err(wrong("several labels, but one")),
            (Kind::Int, None) if !head.is_whole() => Err(wrong("a label with a fraction, but none")),
            (Kind::Int, None) => Ok(Value::Int(head.label as i64)),
            (_, None) => Ok(Value::Float(f64::from(head.label))),
        }
    }
}

impl Format for RecordIo {
    fn name(&self) -> &'static str {
        "recordio"
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

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let record = self.read_record(sample, into)?;
        if !self.headed {
            if fields.has(CONTENT) {
                into.set(CONTENT, Value::Bytes(record));
            }
            return Ok(());
        }
        let head = ImageRecordHeader::parse(into.bytes(&record)).ok_or_else(|| {
            Error::data(self.locate(sample), "no header of labels, unlike the inspected records")
        })?;
        if fields.has(LABEL) {
            let value = self.label(&head, &record, sample)?;
            into.set(LABEL, value);
        }
        if fields.has(ID) {
            into.set(ID, Value::Int(head.id.cast_signed()));
        }
        if fields.has(CONTENT) {
            let bytes = record.start + head.length..record.end;
            let index = bytes.end..bytes.end;
            into.set(CONTENT, Value::Image { bytes, index, meta: ImageMeta::UNKNOWN });
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        match self.place(sample) {
            Ok((file, range)) => place.with_shard(self.open_objects.name(file)).with_offset(range.start),
            Err(_) => place,
        }
    }
}

impl crate::format::Index for RecordIo {}

impl crate::format::Extents for RecordIo {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, _: &FieldSet, out: &mut Vec<Extent>) {
        if let Ok((file, range)) = self.place(sample) {
            out.push(Extent { object: file as u32, range });
        }
    }
}

#[cfg(test)]
mod tests;
