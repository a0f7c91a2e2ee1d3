//! slipstream's cache ("slipcache"), for users who migrate from it: a folder with `manifest.json` and, for each
//! field, its payloads end to end in a `.bin` with a table of offsets beside it, or its numbers in an `.npy`.
//!
//! Not read: `NAME_index.npy`, which are pickles, and the `_yuv420` copies of images, which slipstream made from the
//! originals beside them (its planes are padded to even sides, and its chroma was truncated, not rounded).

use crate::format::Index as _;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use super::npy::Table;
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{
    Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, MAX_FIELDS, SampleBuffer, Schema, Value,
};
use crate::source::{HeldBytes, Source, Target, to_usize};

/// How to detect and open a slipcache.
pub(super) const PROBE: Probe = Probe { name: "slipcache", recognises, open };

const MANIFEST: &str = "manifest.json";
/// Offset, length, height and width of a payload.
const PAYLOADS: &str = "[('data_ptr','<u8'),('data_size','<u8'),('height','<u4'),('width','<u4')]";

#[derive(Deserialize)]
struct Manifest {
    version: u64,
    num_samples: u64,
    fields: BTreeMap<String, FieldText>,
    #[serde(default)]
    file_sizes: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct FieldText {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    image_format: Option<String>,
}

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Folder(source) = target else { return Ok(None) };
    if !source.exists(MANIFEST)? {
        return Ok(None);
    }
    let mut text = Vec::new();
    source.read_whole(MANIFEST, &mut text)?;
    let manifest: Option<Manifest> = serde_json::from_slice(&text).ok();
    Ok(manifest.map(|m| format!("a slipstream cache of {} samples", m.num_samples)))
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    match target {
        Target::Folder(source) => Ok(Arc::new(Slipcache::open(source.clone())?)),
        Target::Objects(source, _) => {
            Err(Error::data(Location::new(source.uri()), "a slipcache is a folder"))
        }
    }
}

/// An open cache.
#[derive(Debug)]
pub(crate) struct Slipcache {
    uri: String,
    schema: Schema,
    fingerprint: Fingerprint,
    samples: u64,
    columns: Vec<Column>,
    open_objects: OpenObjects,
}

/// Where a field's values are stored.
#[derive(Debug)]
enum Column {
    /// In the table itself, eight bytes each.
    Numbers(HeldBytes),
    /// In object `file`; the table has `row` bytes for each, offset and length first.
    Payloads { table: HeldBytes, row: usize, file: usize },
}

impl Slipcache {
    /// Opens the cache at the root of `source`.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self> {
        let uri = source.uri().to_owned();
        let bad = |reason: String| Error::data(Location::new(&uri).with_shard(MANIFEST), reason);
        let mut text = Vec::new();
        source.read_whole(MANIFEST, &mut text)?;
        let manifest: Manifest =
            serde_json::from_slice(&text).map_err(|e| bad(format!("not a slipstream manifest: {e}")))?;
        if manifest.version != 1 || manifest.fields.len() > MAX_FIELDS {
            return Err(bad(format!("version {} is unknown, only 1 is", manifest.version)));
        }
        let mut builder =
            Builder { source: &*source, manifest: &manifest, objects: Vec::new(), versions: Vec::new() };
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, field) in &manifest.fields {
            if field.image_format.as_deref() == Some("yuv420") || name.ends_with("_yuv420") {
                continue;
            }
            let (kind, column) = builder.column(name, &field.kind)?;
            fields.push(FieldSpec::new(name, kind));
            columns.push(column);
        }
        let fingerprint = Fingerprint::of([&b"slipcache"[..], &text, &builder.versions]);
        let objects = builder.objects;
        let open_objects = OpenObjects::with_versions(source.clone(), objects);
        let schema = Schema { fields, classes: None };
        Ok(Slipcache { uri, schema, fingerprint, samples: manifest.num_samples, columns, open_objects })
    }

    fn check(&self, sample: u64) -> Result<()> {
        if sample < self.samples {
            return Ok(());
        }
        let place = Location::new(&self.uri).with_sample(sample);
        Err(Error::data(place, format!("the cache has {} samples", self.samples)))
    }

    /// Object and byte range of a payload; `None` for numbers.
    fn span(&self, sample: u64, field: usize) -> Result<Option<(usize, Range<u64>)>> {
        self.check(sample)?;
        let Column::Payloads { table, row, file } = &self.columns[field] else { return Ok(None) };
        let at = sample as usize * row;
        let (start, length) = (long(table, at), long(table, at + 8));
        match start.checked_add(length) {
            Some(end) if end <= self.open_objects.length(*file) => Ok(Some((*file, start..end))),
            _ => {
                let place =
                    Location::new(&self.uri).with_shard(self.open_objects.name(*file)).with_sample(sample);
                Err(Error::data(
                    place.with_offset(start),
                    format!("{length} bytes from there on reach past the end"),
                ))
            }
        }
    }
}

/// Opens the files of fields.
struct Builder<'a> {
    source: &'a dyn Source,
    manifest: &'a Manifest,
    objects: Vec<(String, u64, u64)>,
    versions: Vec<u8>,
}

impl Builder<'_> {
    fn bad(&self, file: &str, reason: impl Into<String>) -> Error {
        Error::data(Location::new(self.source.uri()).with_shard(file), reason)
    }

    fn column(&mut self, name: &str, kind: &str) -> Result<(Kind, Column)> {
        if name.is_empty() || name.contains(['/', '\\', '\0']) {
            return Err(self.bad(MANIFEST, format!("the field name '{name}' is not allowed")));
        }
        let kind = match kind {
            "ImageBytes" | "HFImageDict" => Kind::Image,
            "bytes" => Kind::Bytes,
            "str" => Kind::Text,
            "int" => Kind::Int,
            "float" => Kind::Float,
            other => {
                return Err(self.bad(MANIFEST, format!("field '{name}' is of the unknown type '{other}'")));
            }
        };
        let column = match kind {
            Kind::Int => Column::Numbers(self.table(&format!("{name}.npy"), "'<i8'", 8)?),
            Kind::Float => Column::Numbers(self.table(&format!("{name}.npy"), "'<f8'", 8)?),
            Kind::Text => self.payloads(name, &format!("{name}.offsets.npy"), "'<u8'", 16)?,
            _ => self.payloads(name, &format!("{name}.meta.npy"), PAYLOADS, 24)?,
        };
        Ok((kind, column))
    }

    fn payloads(&mut self, name: &str, table: &str, descr: &str, row: usize) -> Result<Column> {
        let table = self.table(table, descr, row)?;
        let name = format!("{name}.bin");
        let object = self.source.open(&name)?;
        self.check_size(&name, object.size())?;
        self.versions.extend_from_slice(&object.version().to_le_bytes());
        self.objects.push((name, object.size(), object.version()));
        Ok(Column::Payloads { table, row, file: self.objects.len() - 1 })
    }

    /// The rows of an `.npy` table, one for each sample.
    fn table(&mut self, name: &str, descr: &str, row: usize) -> Result<HeldBytes> {
        let object = self.source.open(name)?;
        self.check_size(name, object.size())?;
        self.versions.extend_from_slice(&object.version().to_le_bytes());
        let whole = object.hold(0..object.size())?;
        let table = Table::parse(&whole).map_err(|reason| self.bad(name, reason))?;
        let samples = self.manifest.num_samples;
        let fits = table.descr == descr && table.shape.first() == Some(&samples) && table.shape.len() <= 2;
        let length = samples.checked_mul(row as u64);
        if !fits || length != Some((whole.len() - table.data) as u64) {
            let reason = format!(
                "a table of {samples} rows of {descr} is expected, not {} of shape {:?}",
                table.descr, table.shape
            );
            return Err(self.bad(name, reason));
        }
        object.hold(table.data as u64..object.size())
    }

    /// slipstream writes the manifest before the files are synced: its sizes show whether they are complete.
    fn check_size(&self, name: &str, size: u64) -> Result<()> {
        match self.manifest.file_sizes.get(name) {
            Some(expected) if *expected != size => {
                Err(self.bad(name, format!("{size} bytes long, the manifest says {expected}")))
            }
            _ => Ok(()),
        }
    }
}

fn long(table: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(table[at..at + 8].try_into().expect("eight bytes"))
}

impl Format for Slipcache {
    fn name(&self) -> &'static str {
        "slipcache"
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
        into.reset(self.columns.len());
        self.check(sample)?;
        for field in fields.iter() {
            let kind = self.schema.fields[field].kind;
            let value = match (&self.columns[field], self.span(sample, field)?) {
                (Column::Numbers(table), _) => {
                    let word = long(table, sample as usize * 8);
                    if kind == Kind::Int {
                        Value::Int(word as i64)
                    } else {
                        Value::Float(f64::from_bits(word))
                    }
                }
                (_, Some((file, span))) => {
                    let length = to_usize(span.end - span.start, &self.uri, self.open_objects.name(file))?;
                    let (bytes, room) = into.reserve(length);
                    self.open_objects.with(file, |object| object.read_at(span.start, room))??;
                    match (kind, self.image_meta(sample, field)) {
                        (Kind::Image, Some(meta)) => {
                            Value::Image { index: bytes.end..bytes.end, bytes, meta }
                        }
                        _ => Value::Bytes(bytes),
                    }
                }
                (_, None) => Value::Missing,
            };
            into.set(field, value);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        let first = (0..self.columns.len()).find_map(|field| self.span(sample, field).ok().flatten());
        match first {
            Some((file, span)) => place.with_shard(self.open_objects.name(file)).with_offset(span.start),
            None => place.with_shard(MANIFEST),
        }
    }
}

impl crate::format::Index for Slipcache {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.span(sample, field).ok()?.map(|(_, span)| span.end - span.start)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        match self.span(sample, field)? {
            Some((file, span)) if span.end - span.start == into.len() as u64 => {
                self.open_objects.with(file, |object| object.read_at(span.start, into))?
            }
            _ => Err(Error::data(self.locate(sample), "the field has another length")),
        }
    }

    /// Width and height are as stored; the table does not say whether EXIF rotates the image.
    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.check(sample).ok()?;
        let Column::Payloads { table, row: 24, .. } = &self.columns[field] else { return None };
        let sides = long(table, sample as usize * 24 + 16);
        let (height, width) = (sides as u32, (sides >> 32) as u32);
        (self.schema.fields[field].kind == Kind::Image).then_some(ImageMeta {
            width,
            height,
            ..ImageMeta::UNKNOWN
        })
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.check(sample).ok()?;
        match &self.columns[field] {
            Column::Numbers(table) if self.schema.fields[field].kind == Kind::Int => {
                Some(long(table, sample as usize * 8) as i64)
            }
            _ => None,
        }
    }
}

impl crate::format::Extents for Slipcache {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        for field in fields.iter() {
            if let Ok(Some((file, range))) = self.span(sample, field) {
                out.push(Extent { object: file as u32, range });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::format::conformance;
    use crate::source::{LocalSource, MemorySource};

    /// The bytes that `numpy.save` writes.
    fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
        let head = [&b"\x93NUMPY\x01\x00"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
        [&head[..], data].concat()
    }

    const META: &str = "[('data_ptr', '<u8'), ('data_size', '<u8'), ('height', '<u4'), ('width', '<u4')]";

    /// A cache made by hand from the description of its layout: no released package writes one.
    fn files(images: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
        let (mut data, mut meta) = (Vec::new(), Vec::new());
        let (mut texts, mut offsets, mut labels, mut weights) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, (name, bytes)) in images.iter().enumerate() {
            for word in [data.len() as u64, bytes.len() as u64, 0x28 | 0x3c << 32] {
                meta.extend_from_slice(&word.to_le_bytes());
            }
            data.extend_from_slice(bytes);
            for word in [texts.len() as u64, name.len() as u64] {
                offsets.extend_from_slice(&word.to_le_bytes());
            }
            texts.extend_from_slice(name.as_bytes());
            labels.extend_from_slice(&(number as i64 - 1).to_le_bytes());
            weights.extend_from_slice(&(number as f64 / 2.0).to_le_bytes());
        }
        let count = images.len();
        let manifest = serde_json::json!({
            "version": 1, "num_samples": count,
            "fields": {
                "image": {"type": "ImageBytes", "num_samples": count, "max_size": 9, "image_format": "jpeg"},
                "image_yuv420": {"type": "ImageBytes", "num_samples": count, "max_size": 9, "image_format": "yuv420"},
                "label": {"type": "int", "num_samples": count},
                "name": {"type": "str", "num_samples": count},
                "weight": {"type": "float", "num_samples": count},
            },
            "file_sizes": {"image.bin": data.len()},
        });
        [
            ("manifest.json", manifest.to_string().into_bytes()),
            ("image.meta.npy", npy(META, &format!("({count},)"), &meta)),
            ("image.bin", data),
            ("name.offsets.npy", npy("'<u8'", &format!("({count}, 2)"), &offsets)),
            ("name.bin", texts),
            ("label.npy", npy("'<i8'", &format!("({count},)"), &labels)),
            ("weight.npy", npy("'<f8'", &format!("({count},)"), &weights)),
        ]
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .into()
    }

    struct Subject;

    impl conformance::Subject for Subject {
        fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
            for (name, bytes) in files(images) {
                fs::write(folder.join(name), bytes).unwrap();
            }
        }

        fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
            open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
        }

        fn protection(&self) -> conformance::Protection {
            conformance::Protection::Structure
        }
    }

    #[test]
    fn conforms() {
        conformance::check(&Subject);
    }

    #[test]
    fn every_kind_of_field_has_its_values() {
        let images = [("é".to_owned(), vec![1, 2]), ("b".to_owned(), vec![3])];
        let source: Arc<dyn Source> = Arc::new(MemorySource::new(files(&images)));
        let seen = recognises(&Target::Folder(source.clone())).unwrap().unwrap();
        assert!(seen.contains("2 samples"), "{seen}");
        let cache = Slipcache::open(source).unwrap();
        let names: Vec<_> = cache.schema().fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["image", "label", "name", "weight"]);
        let mut buffer = SampleBuffer::new();
        cache.read(0, &FieldSet::all(4), &mut buffer).unwrap();
        assert_eq!((buffer.value(1), buffer.value(3)), (&Value::Int(-1), &Value::Float(0.0)));
        assert_eq!((cache.int_value(1, 1), cache.byte_length(0, 2)), (Some(0), Some(2)));
        let Value::Bytes(name) = buffer.value(2) else { panic!("text") };
        assert_eq!(buffer.bytes(name), "é".as_bytes());
        let meta = cache.image_meta(1, 0).unwrap();
        assert_eq!((meta.height, meta.width, meta.orientation), (40, 60, 0));
    }

    #[test]
    fn inconsistent_tables_are_refused() {
        let images = [("a".to_owned(), vec![1, 2]), ("b".to_owned(), vec![3])];
        let good = files(&images);
        let with = |name: &str, bytes: Vec<u8>| {
            let mut files = good.clone();
            files.iter_mut().find(|(n, _)| n == name).unwrap().1 = bytes;
            Slipcache::open(Arc::new(MemorySource::new(files)))
                .and_then(|cache| cache.read(1, &FieldSet::all(4), &mut SampleBuffer::new()))
        };
        assert!(with("label.npy", npy("'<i8'", "(2,)", &[0; 16])).is_ok());
        for (name, bytes) in [
            ("label.npy", npy("'|O'", "(2,)", &[0; 16])),
            ("label.npy", npy("'<i8'", "(3,)", &[0; 24])),
            ("label.npy", npy("'<i8'", "(2,)", &[0; 15])),
            ("label.npy", b"\x80\x04 a pickle".to_vec()),
            ("image.meta.npy", npy(META, "(2,)", &[255; 48])),
            ("image.bin", vec![1, 2]),
            ("name.bin", vec![]),
        ] {
            assert!(with(name, bytes).is_err(), "{name}");
        }
    }
}
