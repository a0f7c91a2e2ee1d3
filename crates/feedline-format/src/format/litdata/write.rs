//! Writes LitData: classic chunks, which every version of litdata reads, and `index.json`.

use std::io::Write;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::leaf::DTypes;
use super::opening::INDEX;
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::format::export::{Exporter, Samples, Shard, only_ours, unwritten};
use crate::format::plain::{PlainSystem, encode};
use crate::format::whole_file::write_file;
use crate::sample::{DType, FieldSpec, ImageEncoding, ImageMeta, SampleBuffer, Schema};

/// litdata's own default.
const CHUNK_BYTES: u64 = 1 << 26;

/// Writes litdata's data sets.
#[derive(Debug)]
pub(in crate::format) struct LitDataExporter {
    chunk_bytes: u64,
}

impl LitDataExporter {
    /// Chunks of about this size, or litdata's usual one.
    pub(in crate::format) fn make(shard_bytes: Option<u64>) -> Box<dyn Exporter> {
        Box::new(LitDataExporter { chunk_bytes: shard_bytes.unwrap_or(CHUNK_BYTES) })
    }
}

/// The serializer of a field. For images it depends on how they are stored: files, or raw pixels.
fn serializer(field: &FieldSpec, raw_pixels: bool) -> &'static str {
    match field.kind.carrier() {
        Carrier::Image if raw_pixels => "pil",
        Carrier::Bytes if field.pickled => "pickle",
        _ => field.kind.litdata(),
    }
}

/// How the images of a field are stored.
#[derive(Debug, Clone, Copy, Default)]
struct ImageForms {
    files: bool,
    raw: bool,
}

impl PlainSystem for ImageForms {
    const NAME: &'static str = "LitData";

    fn see(&mut self, bytes: &[u8], meta: ImageMeta) -> Result<(), String> {
        match meta.encoding {
            ImageEncoding::Rgb => self.raw = true,
            ImageEncoding::Jpeg => self.files = true,
            ImageEncoding::File => {
                if let Some(name) = unreadable(bytes) {
                    return Err(format!(
                        "litdata 0.2.76 cannot decode {name}; pack the data set as JPEG or rgb first"
                    ));
                }
                self.files = true;
            }
            other => return Err(only_ours(other)),
        }
        self.check()
    }

    fn array_head(dtype: DType, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
        array_head(dtype, shape, out)
    }
}

impl ImageForms {
    fn check(self) -> Result<(), String> {
        if self.files && self.raw {
            return Err("raw pixels among image files: litdata stores a field in one way".to_owned());
        }
        Ok(())
    }
}

/// The image formats that litdata passes to a decoder that does not know them.
fn unreadable(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some("TIFF"),
        [b'B', b'M', ..] => Some("BMP"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("AVIF"),
        _ => None,
    }
}

fn array_head(dtype: DType, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
    let number = DTypes::Numpy.number(dtype);
    let number = number.ok_or_else(|| format!("LitData has no numpy arrays of {}", dtype.name()))?;
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(shape.len() as u32).to_le_bytes());
    for side in shape {
        let side = u32::try_from(*side).map_err(|_| format!("a side of {side} is too long for LitData"))?;
        out.extend_from_slice(&side.to_le_bytes());
    }
    Ok(())
}

/// The items of one chunk: their offsets come before them in the file.
struct ChunkBuilder {
    items: Vec<u8>,
    /// End of each item in `items`.
    ends: Vec<usize>,
}

impl ChunkBuilder {
    /// Adds an item: sizes, then leaves.
    fn add(
        &mut self,
        buffer: &SampleBuffer,
        fields: &[FieldSpec],
        forms: &mut [ImageForms],
    ) -> Result<(), (usize, String)> {
        let sizes = self.items.len();
        self.items.resize(sizes + 4 * fields.len(), 0);
        for (number, seen) in forms.iter_mut().enumerate() {
            let start = self.items.len();
            encode(buffer.value(number), buffer, seen, &mut self.items).map_err(|reason| (number, reason))?;
            let size = u32::try_from(self.items.len() - start);
            let size =
                size.map_err(|_| (number, "longer than the 4 GiB that LitData can count".to_owned()))?;
            self.items[sizes + 4 * number..][..4].copy_from_slice(&size.to_le_bytes());
        }
        self.ends.push(self.items.len());
        Ok(())
    }

    /// Writes the chunk and returns a hash of its bytes.
    fn finish(&self, out: &mut dyn Write) -> Result<blake3::Hash> {
        let start = 4 * (self.ends.len() + 2);
        let mut head = Vec::with_capacity(start);
        for number in [self.ends.len(), start].into_iter().chain(self.ends.iter().map(|end| start + end)) {
            let number = u32::try_from(number).map_err(|_| {
                Error::data(Location::default(), "a chunk is longer than the 4 GiB that LitData can count")
            })?;
            head.extend_from_slice(&number.to_le_bytes());
        }
        out.write_all(&head).map_err(unwritten)?;
        out.write_all(&self.items).map_err(unwritten)?;
        Ok(blake3::Hasher::new().update(&head).update(&self.items).finalize())
    }
}

impl Exporter for LitDataExporter {
    fn name(&self) -> &'static str {
        "litdata"
    }

    fn settings(&self) -> String {
        format!("litdata 1 {}", self.chunk_bytes)
    }

    fn shard_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    fn shard_name(&self, number: usize, _: usize) -> String {
        format!("chunk-0-{number}.bin")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<Json> {
        let fields = &samples.schema().fields;
        let mut forms = vec![ImageForms::default(); fields.len()];
        let mut chunk = ChunkBuilder { items: Vec::new(), ends: Vec::new() };
        while let Some((sample, buffer)) = samples.next()? {
            chunk.add(buffer, fields, &mut forms).map_err(|(field, reason)| {
                Error::data(Location::default().with_sample(sample).with_field(&fields[field].name), reason)
            })?;
        }
        let hash = chunk.finish(out)?.to_hex();
        let which = |wanted: fn(&ImageForms) -> bool| -> Vec<usize> {
            forms.iter().enumerate().filter(|(_, p)| wanted(p)).map(|(n, _)| n).collect()
        };
        Ok(json!({"hash": hash.as_str(), "raw": which(|p| p.raw), "files": which(|p| p.files)}))
    }

    fn finish(&self, folder: &Path, schema: &Schema, shards: &[Shard]) -> Result<()> {
        let index = index(self.chunk_bytes, schema, shards)?;
        write_file(&folder.join(INDEX), index.to_string().as_bytes())
    }
}

fn index(chunk_bytes: u64, schema: &Schema, shards: &[Shard]) -> Result<Json> {
    let has = |key: &str, field: usize| {
        shards.iter().any(|s| s.note[key].as_array().is_some_and(|list| list.contains(&field.into())))
    };
    let mut data_format = Vec::new();
    for (number, field) in schema.fields.iter().enumerate() {
        let forms = ImageForms { files: has("files", number), raw: has("raw", number) };
        forms.check().map_err(|reason| Error::data(Location::default().with_field(&field.name), reason))?;
        data_format.push(serializer(field, forms.raw));
    }
    let chunk = |shard: &Shard| {
        let count = shard.samples.end - shard.samples.start;
        json!({"chunk_bytes": shard.bytes, "chunk_size": count, "dim": null, "filename": shard.name})
    };
    let kinds: serde_json::Map<String, Json> =
        schema.fields.iter().map(|f| (f.name.clone(), json!(f.kind))).collect();
    Ok(json!({
        "chunks": shards.iter().map(chunk).collect::<Vec<_>>(),
        "config": {
            "chunk_bytes": chunk_bytes,
            "chunk_size": null,
            "compression": null,
            "data_format": data_format,
            "data_spec": data_spec(schema).to_string(),
            "encryption": null,
            "item_loader": "PyTreeLoader",
        },
        // What serializers cannot express. litdata ignores it.
        "feedline": {"kinds": kinds, "classes": schema.classes},
        "updated_at": stamp(schema, shards),
    }))
}

/// litdata caches downloaded chunks under this text and trusts them as long as it stays the same: it must change with
/// the content, and with nothing else.
fn stamp(schema: &Schema, shards: &[Shard]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(json!(schema).to_string().as_bytes());
    for shard in shards {
        hasher.update(shard.note["hash"].as_str().unwrap_or_default().as_bytes());
    }
    let bytes: [u8; 8] = hasher.finalize().as_bytes()[..8].try_into().expect("eight bytes");
    // Like the time that litdata writes: digits only, never "0".
    (u64::from_le_bytes(bytes) | 1 << 63).to_string()
}

fn data_spec(schema: &Schema) -> Json {
    let names: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
    let leaf = json!({"type": null, "context": null, "children_spec": []});
    json!([1, {
        "type": "builtins.dict",
        "context": json!(names).to_string(),
        "children_spec": vec![leaf; names.len()],
    }])
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::*;
    use crate::format::convert::{ConvertOptions, convert};
    use crate::format::{Format, ReadingOptions};
    use crate::owned::{OwnedValue, Sample};
    use crate::sample::{FieldSet, Fingerprint};
    use crate::source::LocalSource;

    use super::super::LitData;
    use crate::format::Extents as _;
    use crate::sample::{Kind, Value};

    #[derive(Debug)]
    struct Silent;

    impl crate::format::Progress for Silent {
        fn update(&self, _: u64, _: u64, _: u64) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
    }

    /// The same sample several times, under different numbers.
    #[derive(Debug)]
    struct Repeated {
        schema: Schema,
        values: Vec<OwnedValue>,
        count: u64,
    }

    impl Format for Repeated {
        fn name(&self) -> &'static str {
            "repeated"
        }

        fn len(&self) -> u64 {
            self.count
        }

        fn schema(&self) -> &Schema {
            &self.schema
        }

        fn fingerprint(&self) -> Fingerprint {
            Fingerprint([0; 16])
        }

        fn read(&self, sample: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
            into.reset(self.values.len());
            for (field, value) in self.values.iter().enumerate() {
                let value = match value {
                    OwnedValue::Int(number) => Value::Int(*number + sample as i64),
                    OwnedValue::Float(number) => Value::Float(*number),
                    OwnedValue::Text(text) | OwnedValue::Json(text) => {
                        Value::Bytes(into.append(text.as_bytes()))
                    }
                    OwnedValue::Bytes(bytes) => Value::Bytes(into.append(bytes)),
                    OwnedValue::Image { bytes, meta, .. } => {
                        let bytes = into.append(bytes);
                        Value::Image { index: bytes.end..bytes.end, bytes, meta: *meta }
                    }
                    OwnedValue::Array { dtype, shape, bytes } => {
                        let mut sides = [0; crate::sample::MAX_DIMENSIONS];
                        sides[..shape.len()].copy_from_slice(shape);
                        let bytes = into.append(bytes);
                        Value::Array { dtype: *dtype, dimensions: shape.len() as u8, shape: sides, bytes }
                    }
                    OwnedValue::Missing => Value::Missing,
                };
                into.set(field, value);
            }
            Ok(())
        }

        fn locate(&self, sample: u64) -> Location {
            Location::new("repeated").with_sample(sample)
        }
    }

    impl crate::format::Index for Repeated {}

    impl crate::format::Extents for Repeated {}

    fn repeated(fields: Vec<(&str, OwnedValue)>, count: u64) -> Repeated {
        let spec =
            |(name, value): &(&str, OwnedValue)| FieldSpec::new(*name, value.kind().unwrap_or(Kind::Int));
        let schema =
            Schema { fields: fields.iter().map(spec).collect(), classes: Some(vec!["cat".to_owned()]) };
        Repeated { schema, values: fields.into_iter().map(|(_, value)| value).collect(), count }
    }

    fn every_kind() -> Repeated {
        let meta =
            ImageMeta { encoding: ImageEncoding::Rgb, width: 2, height: 1, channels: 3, orientation: 1 };
        let pixels = OwnedValue::Image { bytes: vec![1, 2, 3, 4, 5, 6], index: Vec::new(), meta };
        let array = |dtype: DType, shape: &[u64], bytes: &[u8]| OwnedValue::Array {
            dtype,
            shape: shape.to_vec(),
            bytes: bytes.to_vec(),
        };
        repeated(
            vec![
                ("image", OwnedValue::image(b"\xff\xd8\xff a picture".to_vec())),
                ("label", OwnedValue::Int(-3)),
                ("a.b", OwnedValue::Float(0.25)),
                ("text", OwnedValue::Text("日本 \"ü\"".to_owned())),
                ("json", OwnedValue::Json(" {\"k\": [1, null]}".to_owned())),
                ("raw", OwnedValue::Bytes(b"\xff\xd8\xff but bytes".to_vec())),
                ("pixels", pixels),
                ("matrix", array(DType::U16, &[1, 2], &[1, 0, 2, 0])),
                ("row", array(DType::F32, &[2], &[0; 8])),
                ("none", array(DType::I64, &[0, 3], &[])),
            ],
            9,
        )
    }

    fn export(source: &dyn Format, folder: &Path) -> Result<LitData> {
        let options = ConvertOptions { to: "litdata".to_owned(), shard_bytes: Some(600), workers: 2 };
        convert(source, folder, &options, &Silent)?;
        LitData::open(Arc::new(LocalSource::new(folder)), &ReadingOptions::default())
    }

    fn read(set: &dyn Format, sample: u64) -> Sample {
        let mut buffer = SampleBuffer::new();
        set.read(sample, &FieldSet::all(set.schema().fields.len()), &mut buffer).unwrap();
        Sample::from_buffer(set.schema(), &buffer, || set.locate(sample)).unwrap()
    }

    #[test]
    fn every_kind_round_trips() {
        let source = every_kind();
        let folder = tempfile::tempdir().unwrap();
        let set = export(&source, &folder.path().join("out")).unwrap();
        assert_eq!(set.schema(), &source.schema);
        assert!(set.object_count() > 1, "several chunks");
        for sample in 0..source.len() {
            assert_eq!(read(&set, sample), read(&source, sample));
        }
    }

    #[test]
    fn the_stamp_depends_on_the_data_alone() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = |name: &str, source: &dyn Format| {
            export(source, &folder.path().join(name)).unwrap();
            let index = std::fs::read(folder.path().join(name).join(INDEX)).unwrap();
            serde_json::from_slice::<Json>(&index).unwrap()["updated_at"].clone()
        };
        let (one, same) = (stamp("one", &every_kind()), stamp("same", &every_kind()));
        assert_eq!(one, same);
        let mut other = every_kind();
        other.values[3] = OwnedValue::Text("日本 \"ö\"".to_owned());
        assert_ne!(stamp("other", &other), one);
    }

    #[test]
    fn values_litdata_cannot_store_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let refuse = |name: &str, value: OwnedValue, optional: bool| {
            let mut source = repeated(vec![("x", value)], 2);
            source.schema.fields[0].optional = optional;
            export(&source, &folder.path().join(name)).unwrap_err().to_string()
        };
        let bf16 = OwnedValue::Array { dtype: DType::BF16, shape: vec![1], bytes: vec![0; 2] };
        assert!(refuse("bf16", bf16, false).contains("bfloat16"));
        assert!(refuse("missing", OwnedValue::Missing, true).contains("no missing values"));
        assert!(refuse("tiff", OwnedValue::image(b"II*\0".to_vec()), false).contains("TIFF"));
        let meta = ImageMeta { encoding: ImageEncoding::Dct, ..ImageMeta::UNKNOWN };
        let dct = OwnedValue::Image { bytes: vec![1], index: Vec::new(), meta };
        assert!(refuse("dct", dct, false).contains("dct"));
        assert!(export(&repeated(Vec::new(), 1), &folder.path().join("empty")).is_err());
    }

    #[test]
    fn an_empty_data_set_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let set = export(&repeated(vec![("x", OwnedValue::Int(1))], 0), &folder.path().join("out")).unwrap();
        assert_eq!((set.len(), set.schema().fields.len()), (0, 1));
    }
}
