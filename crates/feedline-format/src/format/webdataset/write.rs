//! Writes WebDataset shards: ustar members `key.suffix`, the same bytes every time, and a `wids.json` that lists the
//! shards and keeps what suffixes cannot express (names of fields, floats, classes).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use super::super::export::{Exporter, Samples, Shard, unwritten};
use super::super::npy;
use super::super::whole_file::write_file;
use super::names::{Content, is_meta, split_name};
use super::wids::{INDEX_NAME, KIND, Layout, LayoutField, ListedShard};
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::sample::{FieldSpec, ImageEncoding, Kind, SampleBuffer, Schema, Value};

const BLOCK: usize = 512;
/// webdataset's authors recommend shards of about a gigabyte.
const SHARD_BYTES: u64 = 1_000_000_000;
/// Suffixes of images, found from their first bytes. An unknown image gets the first one.
const IMAGE_SUFFIXES: [&str; 9] = ["jpg", "png", "webp", "gif", "bmp", "tif", "avif", "ppm", "pgm"];

/// Writes tar shards.
#[derive(Debug)]
pub(in crate::format) struct WebDatasetExporter {
    shard_bytes: u64,
}

impl WebDatasetExporter {
    pub(crate) fn new(shard_bytes: Option<u64>) -> Self {
        WebDatasetExporter { shard_bytes: shard_bytes.unwrap_or(SHARD_BYTES) }
    }
}

impl Exporter for WebDatasetExporter {
    fn name(&self) -> &'static str {
        "webdataset"
    }

    fn settings(&self) -> String {
        format!("shard_bytes={}", self.shard_bytes)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        Naming::new(schema).map(drop)
    }

    fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    fn shard_name(&self, number: usize, _: usize) -> String {
        format!("shard-{number:06}.tar")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<serde_json::Value> {
        let schema = samples.schema();
        let naming = Naming::new(schema)?;
        let mut used = vec![BTreeSet::new(); schema.fields.len()];
        let mut writer = Writer { out, naming, last_key: None, members: Vec::new(), scratch: Vec::new() };
        while let Some((sample, values)) = samples.next()? {
            writer.add(schema, sample, values, &mut used)?;
        }
        writer.out.write_all(&[0; 2 * BLOCK]).map_err(unwritten)?;
        Ok(serde_json::to_value(used).expect("sets of texts are JSON"))
    }

    fn finish(&self, folder: &Path, schema: &Schema, shards: &[Shard]) -> Result<()> {
        let mut used: Vec<BTreeSet<String>> = vec![BTreeSet::new(); schema.fields.len()];
        for shard in shards {
            let noted: Vec<BTreeSet<String>> = serde_json::from_value(shard.note.clone()).unwrap_or_default();
            used.iter_mut().zip(noted).for_each(|(all, new)| all.extend(new));
        }
        let key = Naming::key_field(schema);
        let fields = schema.fields.iter().zip(used).enumerate().filter(|(n, _)| Some(*n) != key);
        let fields = fields.map(|(_, (spec, suffixes))| LayoutField {
            spec: spec.clone(),
            suffixes: suffixes.into_iter().collect(),
        });
        let layout = Layout { fields: fields.collect(), classes: schema.classes.clone() };
        let listed = |shard: &Shard| ListedShard {
            url: shard.name.clone(),
            nsamples: Some(shard.samples.end - shard.samples.start),
            filesize: Some(shard.bytes),
            md5sum: None,
        };
        let index = serde_json::json!({
            "__kind__": KIND,
            "wids_version": 1,
            "shardlist": shards.iter().map(listed).collect::<Vec<_>>(),
            "feedline": layout,
        });
        let text = serde_json::to_vec_pretty(&index).expect("plain data are JSON");
        write_file(&folder.join(INDEX_NAME), &text)
    }
}

/// The suffix of each field's members.
#[derive(Debug)]
struct Naming {
    key: Option<usize>,
    /// For each field: the suffix, or for images the part before the suffix of the image's own format.
    suffixes: Vec<Option<Suffix>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Suffix {
    Fixed(String),
    Image(String),
}

impl Naming {
    fn new(schema: &Schema) -> Result<Self> {
        let key = Naming::key_field(schema);
        let mut suffixes = Vec::with_capacity(schema.fields.len());
        let mut taken: Vec<(String, &str)> = Vec::new();
        for (number, field) in schema.fields.iter().enumerate() {
            if Some(number) == key {
                suffixes.push(None);
                continue;
            }
            let refuse =
                |reason: String| Err(Error::option("to", format!("field '{}': {reason}", field.name)));
            if field.name.contains(['/', '\0', '\n']) {
                return refuse("its name cannot be part of a file name in a tar".to_owned());
            }
            let suffix = suffix_of(field, schema);
            for written in suffix.possible() {
                if let Some((_, other)) = taken.iter().find(|(known, _)| *known == written) {
                    return refuse(format!(
                        "its members would be called '.{written}' like those of '{other}'"
                    ));
                }
                taken.push((written, &field.name));
            }
            suffixes.push(Some(suffix));
        }
        if taken.is_empty() {
            return Err(Error::option("to", "there is no field to write besides the key"));
        }
        Ok(Naming { key, suffixes })
    }

    /// The text field `key` is not a member: it is the common part of the names of a sample's members.
    fn key_field(schema: &Schema) -> Option<usize> {
        schema.position("key").filter(|at| schema.fields[*at].kind == Kind::Text)
    }
}

impl Suffix {
    fn possible(&self) -> Vec<String> {
        match self {
            Suffix::Fixed(suffix) => vec![suffix.clone()],
            Suffix::Image(before) => IMAGE_SUFFIXES.iter().map(|after| format!("{before}{after}")).collect(),
        }
    }
}

/// The inverse of reading: when read, the only image is called `image` and the only class `label`, so they become
/// `jpg` and `cls` again. A name that already has a fitting extension stays. All others get one.
fn suffix_of(field: &FieldSpec, schema: &Schema) -> Suffix {
    let only = |kind: Kind| schema.fields.iter().filter(|f| f.kind == kind).count() == 1;
    let lower = field.name.to_lowercase();
    if field.kind == Kind::Image && field.name == "image" && only(Kind::Image) {
        return Suffix::Image(String::new());
    }
    if field.kind == Kind::Int && field.name == "label" && only(Kind::Int) {
        return Suffix::Fixed("cls".to_owned());
    }
    if field.name == ".key" && field.kind == Kind::Bytes && !field.pickled {
        return Suffix::Fixed("key".to_owned());
    }
    let (content, gzipped) = Content::of(&lower);
    let pickled = content == Content::Pickle;
    let says_it = content.kind() == field.kind
        && pickled == field.pickled
        && !matches!(content, Content::Tenbin | Content::Nifti);
    if says_it && !gzipped && lower != "key" {
        return Suffix::Fixed(lower);
    }
    if field.kind.carrier() == Carrier::Image {
        return Suffix::Image(format!("{lower}."));
    }
    let ending = if field.pickled { "pyd" } else { field.kind.tar() };
    Suffix::Fixed(format!("{lower}.{ending}"))
}

fn image_suffix(bytes: &[u8]) -> &'static str {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..offset + magic.len()) == Some(magic);
    match bytes {
        _ if at(0, b"\x89PNG") => "png",
        _ if at(0, b"RIFF") && at(8, b"WEBP") => "webp",
        _ if at(0, b"GIF8") => "gif",
        _ if at(0, b"BM") => "bmp",
        _ if at(0, b"II*\0") || at(0, b"MM\0*") => "tif",
        _ if at(4, b"ftypavi") => "avif",
        _ if at(0, b"P6") || at(0, b"P3") => "ppm",
        _ if at(0, b"P5") || at(0, b"P2") => "pgm",
        _ => IMAGE_SUFFIXES[0],
    }
}

/// Writes one shard.
struct Writer<'a> {
    out: &'a mut dyn Write,
    naming: Naming,
    last_key: Option<String>,
    /// Suffix, field, and range of the bytes in `scratch` (numbers and headers); the sample's own bytes follow.
    members: Vec<(String, usize, std::ops::Range<usize>)>,
    scratch: Vec<u8>,
}

impl Writer<'_> {
    fn add(
        &mut self,
        schema: &Schema,
        sample: u64,
        values: &SampleBuffer,
        used: &mut [BTreeSet<String>],
    ) -> Result<()> {
        let place = || Location::default().with_sample(sample);
        let key = self.key(sample, values).map_err(|r| Error::data(place().with_field("key"), r))?;
        self.members.clear();
        self.scratch.clear();
        for (number, field) in schema.fields.iter().enumerate() {
            let Some(suffix) = &self.naming.suffixes[number] else { continue };
            let start = self.scratch.len();
            let bytes = text_of(values.value(number), &mut self.scratch)
                .map_err(|reason| Error::data(place().with_field(&field.name), reason))?;
            let Some(bytes) = bytes else { continue };
            let suffix = match suffix {
                Suffix::Fixed(suffix) => suffix.clone(),
                Suffix::Image(before) => format!("{before}{}", image_suffix(values.bytes(&bytes))),
            };
            self.members.push((suffix, number, start..self.scratch.len()));
        }
        if self.members.is_empty() {
            let reason = "the sample has no value at all; in a tar it would not exist";
            return Err(Error::data(place(), reason));
        }
        self.members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (suffix, number, head) in &self.members {
            let stored = stored_bytes(values, *number);
            let head = &self.scratch[head.clone()];
            let name = format!("{key}.{suffix}");
            write_member(self.out, &name, head, stored).map_err(unwritten)?;
            if !used[*number].contains(suffix) {
                used[*number].insert(suffix.clone());
            }
        }
        self.last_key = Some(key);
        Ok(())
    }

    fn key(&self, sample: u64, values: &SampleBuffer) -> Result<String, String> {
        let Some(field) = self.naming.key else { return Ok(format!("{sample:09}")) };
        let Value::Bytes(range) = values.value(field) else { return Err("the sample has no key".to_owned()) };
        let key = std::str::from_utf8(values.bytes(range)).map_err(|_| "the key is not UTF-8")?;
        let name = format!("{key}.x");
        if split_name(&name) != Some((key, "x")) || is_meta(&name) || key.contains('\0') {
            return Err(format!("'{key}' cannot be a key: the file name '{key}.x' would mean another one"));
        }
        if self.last_key.as_deref() == Some(key) {
            return Err(format!("'{key}' is also the key of the sample before: they would become one"));
        }
        Ok(key.to_owned())
    }
}

/// The sample's own bytes that are written for a field.
fn stored_bytes(values: &SampleBuffer, field: usize) -> &[u8] {
    match values.value(field) {
        Value::Bytes(range) | Value::Image { bytes: range, .. } | Value::Array { bytes: range, .. } => {
            values.bytes(range)
        }
        _ => &[],
    }
}

/// Appends to `scratch` what is written before the sample's own bytes: numbers as text, an array's header. `None` for
/// a missing value, otherwise the range of the sample's own bytes.
fn text_of(value: &Value, scratch: &mut Vec<u8>) -> Result<Option<std::ops::Range<usize>>, String> {
    let room = "memory has room";
    Ok(Some(match value {
        Value::Missing => return Ok(None),
        Value::Int(number) => {
            write!(scratch, "{number}").expect(room);
            0..0
        }
        Value::Float(number) => {
            match number {
                n if n.is_nan() => write!(scratch, "NaN"),
                n if n.is_infinite() => write!(scratch, "{}Infinity", if *n < 0.0 { "-" } else { "" }),
                // Rust's shortest text that reads back as the same number; with a point, so that Python reads a
                // float.
                n => write!(scratch, "{n:?}"),
            }
            .expect(room);
            0..0
        }
        Value::Bytes(range) => range.clone(),
        Value::Image { bytes, meta, .. } => {
            if !matches!(meta.encoding, ImageEncoding::File | ImageEncoding::Jpeg) {
                return Err("the image is stored as pixels or coefficients, not as an image file".to_owned());
            }
            bytes.clone()
        }
        Value::Array { dtype, dimensions, shape, bytes } => {
            npy::write_header(*dtype, &shape[..usize::from(*dimensions)], scratch)?;
            bytes.clone()
        }
    }))
}

fn write_member(out: &mut dyn Write, name: &str, head: &[u8], rest: &[u8]) -> io::Result<()> {
    let length = (head.len() + rest.len()) as u64;
    let parts = divide(name);
    if parts.is_none() {
        let record = pax_record("path", name);
        write_header(out, "", "././@PaxHeader", record.len() as u64, b'x')?;
        out.write_all(record.as_bytes())?;
        pad(out, record.len() as u64)?;
    }
    // Readers without PAX support see a short name.
    let (folder, base) = parts.unwrap_or(("", "long"));
    write_header(out, folder, base, length, b'0')?;
    out.write_all(head)?;
    out.write_all(rest)?;
    pad(out, length)
}

/// A name as ustar's prefix and name; `None` if it does not fit.
fn divide(name: &str) -> Option<(&str, &str)> {
    if !name.is_ascii() {
        return None;
    }
    if name.len() <= 100 {
        return Some(("", name));
    }
    let fits = |at: &usize| *at <= 155 && name.len() - at - 1 <= 100 && *at > 0 && at + 1 < name.len();
    let slash = name.match_indices('/').map(|(at, _)| at).find(fits)?;
    Some((&name[..slash], &name[slash + 1..]))
}

/// `length key=value
/// `; the length includes its own digits.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length.to_string().len() + rest != length {
        length = length.to_string().len() + rest;
    }
    format!("{length} {key}={value}\n")
}

fn write_header(out: &mut dyn Write, folder: &str, name: &str, size: u64, kind: u8) -> io::Result<()> {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000444\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    if size < 1 << 33 {
        put(124, format!("{size:011o}\0").as_bytes());
    } else {
        // Eleven octal digits end at 8 GiB. Beyond, the number is binary, as in GNU tar; every reader knows that.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(265, b"bigdata");
    put(297, b"bigdata");
    put(345, folder.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&block)
}

fn pad(out: &mut dyn Write, length: u64) -> io::Result<()> {
    let over = (length % BLOCK as u64) as usize;
    out.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::super::convert::{ConvertOptions, convert};
    use super::super::super::{Format, ReadingOptions};
    use super::*;
    use crate::owned::{OwnedValue, Sample};
    use crate::sample::{DType, FieldSet, Fingerprint};
    use crate::source::{LocalSource, Target};

    /// Samples in memory.
    #[derive(Debug)]
    struct Memory {
        schema: Schema,
        samples: Vec<Sample>,
    }

    impl Format for Memory {
        fn name(&self) -> &'static str {
            "memory"
        }

        fn len(&self) -> u64 {
            self.samples.len() as u64
        }

        fn schema(&self) -> &Schema {
            &self.schema
        }

        fn fingerprint(&self) -> Fingerprint {
            Fingerprint::of([&b"memory"[..]])
        }

        fn read(&self, sample: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
            self.samples[sample as usize]
                .to_buffer(&self.schema, into)
                .map_err(|r| Error::data(Location::default(), r))
        }

        fn locate(&self, _: u64) -> Location {
            Location::default()
        }
    }

    impl crate::format::Index for Memory {}

    impl crate::format::Extents for Memory {}

    fn text(text: &str) -> OwnedValue {
        OwnedValue::Text(text.to_owned())
    }

    fn everything() -> Memory {
        let field = |name: &str, kind| FieldSpec::new(name, kind).optional(true);
        let mut pickled = field("thing", Kind::Bytes);
        pickled.pickled = true;
        let fields = vec![
            FieldSpec::new("key", Kind::Text),
            field("image", Kind::Image),
            FieldSpec::new("label", Kind::Int),
            field("score", Kind::Float),
            field("Caption", Kind::Text),
            field("txt", Kind::Text),
            field("about", Kind::Json),
            field("points", Kind::Array),
            field("audio.mp3", Kind::Bytes),
            pickled,
        ];
        let array = |dtype, shape: &[u64], bytes: &[u8]| OwnedValue::Array {
            dtype,
            shape: shape.to_vec(),
            bytes: bytes.to_vec(),
        };
        let long = format!("deep/{}/{}", "f".repeat(150), "n".repeat(120));
        let samples = vec![
            Sample::new([
                ("key", text("a/b")),
                ("image", OwnedValue::image(*b"\xff\xd8\xff jpeg")),
                ("label", OwnedValue::Int(-3)),
                ("score", OwnedValue::Float(0.1)),
                ("Caption", text("h\u{e9}llo")),
                ("txt", text("")),
                ("about", OwnedValue::Json(r#"{"a": [1, 2.50]}"#.to_owned())),
                ("points", array(DType::I16, &[2, 1], &[1, 0, 2, 0])),
                ("audio.mp3", OwnedValue::Bytes(vec![0; 1000])),
                ("thing", OwnedValue::Bytes(b"N.".to_vec())),
            ]),
            Sample::new([
                ("key", text(&long)),
                ("image", OwnedValue::image(*b"\x89PNG and so on")),
                ("label", OwnedValue::Int(i64::MAX)),
                ("score", OwnedValue::Float(f64::NEG_INFINITY)),
                ("points", array(DType::F64, &[], &1.5f64.to_le_bytes())),
            ]),
            Sample::new([
                ("key", text("\u{fc}n\u{ef}")),
                ("label", OwnedValue::Int(0)),
                ("score", OwnedValue::Float(3.0)),
            ]),
        ];
        Memory { schema: Schema { fields, classes: Some(vec!["cat".to_owned()]) }, samples }
    }

    fn read_all(format: &dyn Format) -> Vec<BTreeMap<String, OwnedValue>> {
        let mut buffer = SampleBuffer::new();
        let fields = FieldSet::all(format.schema().fields.len());
        let mut all = Vec::new();
        for sample in 0..format.len() {
            format.read(sample, &fields, &mut buffer).unwrap();
            let owned = Sample::from_buffer(format.schema(), &buffer, || format.locate(sample)).unwrap();
            all.push(owned.fields.into_iter().collect());
        }
        all
    }

    fn write(source: &Memory, folder: &Path, shard_bytes: u64) -> Result<()> {
        let options = ConvertOptions { shard_bytes: Some(shard_bytes), ..ConvertOptions::default() };
        convert(source, folder, &options, &()).map(drop)
    }

    #[test]
    fn every_field_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let source = everything();
        write(&source, &folder.path().join("out"), 1000).unwrap();
        let target = Target::Folder(Arc::new(LocalSource::new(folder.path().join("out"))));
        let back = super::super::open(&target, &ReadingOptions::default()).unwrap();
        assert_eq!(back.schema(), source.schema());
        assert_eq!(read_all(&*back), read_all(&source));
        assert!(back.problems().is_empty() && back.object_count() > 1);
    }

    #[test]
    fn values_a_tar_cannot_store_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |change: &dyn Fn(&mut Memory)| {
            let mut source = everything();
            change(&mut source);
            let place = tempfile::tempdir_in(folder.path()).unwrap();
            write(&source, &place.path().join("out"), 1 << 20).unwrap_err().to_string()
        };
        let key = |text_: &'static str| refused(&move |s| s.samples[1].fields[0].1 = text(text_));
        assert!(key("a.b").contains("another"), "{}", key("a.b"));
        assert!(key("a/b").contains("sample before"), "{}", key("a/b"));
        assert!(key("").contains("cannot be a key"));
        let slash = refused(&|s| {
            s.schema.fields[3].name = "a/b".to_owned();
            s.samples.iter_mut().for_each(|sample| sample.fields.retain(|(name, _)| name != "score"));
        });
        assert!(slash.contains("'a/b'"), "{slash}");
        let twice = refused(&|s| {
            s.schema.fields[5].name = "caption".to_owned();
            s.samples.iter_mut().for_each(|sample| sample.fields.retain(|(name, _)| name != "txt"));
        });
        assert!(twice.contains("'caption'") && twice.contains("'Caption'"), "{twice}");
        let bf16 = refused(&|s| {
            s.samples[1].fields[4].1 =
                OwnedValue::Array { dtype: DType::BF16, shape: vec![], bytes: vec![0; 2] };
        });
        assert!(bf16.contains("bfloat16") && bf16.contains("points"), "{bf16}");
    }

    #[test]
    fn the_length_of_a_pax_record_includes_itself() {
        for length in [1, 88, 89, 90, 91, 986, 987, 988] {
            let record = pax_record("path", &"x".repeat(length));
            assert!(record.starts_with(&format!("{} path=", record.len())), "{record}");
        }
    }
}
