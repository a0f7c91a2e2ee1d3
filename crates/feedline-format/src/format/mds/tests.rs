//! Folders by Mosaic's own writers, the conformance suite, and corrupt indexes.

use std::fs;
use std::path::{Path, PathBuf};

use super::write::ShardBuilder;
use super::*;
use crate::format::{ConvertOptions, conformance, convert};
use crate::sample::{DType, ImageEncoding, Value};
use crate::source::{LocalSource, MemorySource};

/// Written by `testdata/formats/mds/make.py`.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/mds").join(name)
}

fn target(name: &str) -> Target {
    Target::Folder(Arc::new(LocalSource::new(folder(name))))
}

fn opened(name: &str, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    open(&target(name), options)
}

fn recorded(name: &str) -> Arc<dyn Format> {
    assert!(recognises(&target(name)).unwrap().is_some(), "{name}");
    let verify = ReadingOptions { verify_hashes: true, ..ReadingOptions::default() };
    opened(name, &verify).unwrap()
}

struct Read(SampleBuffer, Schema);

impl Read {
    fn new(format: &dyn Format, sample: u64) -> Self {
        let mut buffer = SampleBuffer::new();
        format.read(sample, &FieldSet::all(format.schema().fields.len()), &mut buffer).unwrap();
        Read(buffer, format.schema().clone())
    }

    fn value(&self, name: &str) -> &Value {
        self.0.value(self.1.position(name).unwrap())
    }

    fn bytes(&self, name: &str) -> &[u8] {
        match self.value(name) {
            Value::Bytes(range) | Value::Image { bytes: range, .. } | Value::Array { bytes: range, .. } => {
                self.0.bytes(range)
            }
            other => panic!("{name} is {other:?}"),
        }
    }

    fn array(&self, name: &str) -> (DType, &[u64], &[u8]) {
        let Value::Array { dtype, dimensions, shape, .. } = self.value(name) else { panic!("an array") };
        (*dtype, &shape[..usize::from(*dimensions)], self.bytes(name))
    }
}

fn check_every_encoding(format: &dyn Format) {
    assert_eq!(format.len(), 3);
    let kind = |name: &str| format.schema().fields[format.schema().position(name).unwrap()].kind;
    assert_eq!([kind("jpeg"), kind("png"), kind("pil")], [Kind::Image; 3]);
    assert_eq!([kind("bytes"), kind("ja"), kind("pkl")], [Kind::Bytes; 3]);
    assert!(format.schema().fields.iter().all(|f| f.pickled == (f.name == "pkl") && !f.optional));
    for sample in 0..3 {
        let read = Read::new(format, sample);
        assert_eq!(read.bytes("bytes"), b"ab".repeat(sample as usize));
        assert_eq!(read.bytes("str"), "héllo".as_bytes());
        assert_eq!(*read.value("int"), Value::Int(sample as i64 - 5));
        assert_eq!(*read.value("u8"), Value::Int(7));
        assert_eq!(*read.value("i16"), Value::Int(-3));
        assert_eq!(*read.value("f64"), Value::Float(1.5));
        assert_eq!(*read.value("f16"), Value::Float(0.5));
        assert_eq!(*read.value("sf"), Value::Float(1.25));
        assert_eq!((read.bytes("si"), read.bytes("sd")), (&b"-123456789012345678901"[..], &b"1.10"[..]));
        let numbers = |range: Range<i32>| range.flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(read.array("nd"), (DType::I32, &[2, 3][..], &numbers(0..6)[..]));
        assert_eq!(read.array("ndt"), (DType::I16, &[4][..], &[0, 0, 1, 0, 2, 0, 3, 0][..]));
        assert_eq!(read.array("nds"), (DType::F32, &[2, 3][..], &1f32.to_le_bytes().repeat(6)[..]));
        let pixels: Vec<u8> = (0..8 * 6 * 3).map(|n| (n % 255) as u8).collect();
        assert_eq!(read.bytes("pil"), pixels);
        let Value::Image { meta, .. } = read.value("pil") else { panic!("an image") };
        assert_eq!((meta.width, meta.height, meta.encoding), (8, 6, ImageEncoding::Rgb));
        assert!(read.bytes("jpeg").starts_with(&[0xff, 0xd8]) && read.bytes("jpeg").ends_with(&[0xff, 0xd9]));
        assert!(read.bytes("png").starts_with(b"\x89PNG") && read.bytes("png").ends_with(b"IEND\xaeB`\x82"));
        let json: serde_json::Value = serde_json::from_slice(read.bytes("json")).unwrap();
        assert_eq!(json, serde_json::json!({"k": [1, 2]}));
        assert!(read.bytes("pkl").starts_with(&[0x80]) && read.bytes("pkl").ends_with(b"."));
        let two = [&[0, 0, 0, 0, 2, 0, 0, 0][..], &(read.bytes("jpeg").len() as u32).to_le_bytes()].concat();
        assert!(read.bytes("ja").starts_with(&two), "kept as it is");
    }
}

#[test]
fn reads_every_encoding_that_mosaic_writes() {
    for name in ["all", "zstd", "small"] {
        check_every_encoding(&*recorded(name));
    }
}

#[test]
fn reads_every_compression_and_text_format() {
    for name in ["br", "bz2", "gz", "snappy", "hashes", "json", "json-gz", "csv", "tsv", "xsv", "merged"] {
        let format = recorded(name);
        let parts = if name == "merged" { 2 } else { 1 };
        assert_eq!(format.len(), 3 * parts);
        for sample in 0..format.len() {
            let read = Read::new(&*format, sample);
            let i = sample % 3;
            assert_eq!(read.bytes("text"), format!("sample {i}").as_bytes(), "{name}");
            assert_eq!(*read.value("n"), Value::Int(i as i64 * 1000 - 1000), "{name}");
            if format.schema().position("x").is_some() {
                assert_eq!(*read.value("x"), Value::Float(i as f64 / 4.0), "{name}");
            }
        }
    }
}

#[test]
fn splits_are_sub_folders() {
    assert_eq!(recognises(&target("splits")).unwrap().unwrap(), "MDS shards in train, val");
    let message = opened("splits", &ReadingOptions::default()).unwrap_err().to_string();
    assert!(message.contains("train, val") && message.contains("split="), "{message}");
    let split = |name: &str| ReadingOptions { split: Some(name.to_owned()), ..ReadingOptions::default() };
    assert_eq!(opened("splits", &split("val")).unwrap().len(), 3);
    assert!(opened("splits", &split("test")).is_err());
    let source = Arc::new(LocalSource::new(folder("splits")));
    let index = Target::Objects(source, vec!["train/index.json".to_owned()]);
    assert!(recognises(&index).unwrap().is_some());
    assert_eq!(open(&index, &ReadingOptions::default()).unwrap().len(), 3);
}

/// The folder's files in memory, one of them changed.
fn changed(name: &str, file: &str, change: impl Fn(&mut Vec<u8>)) -> Target {
    let files = fs::read_dir(folder(name)).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let own = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut bytes = fs::read(&path).unwrap();
        if own == file {
            change(&mut bytes);
        }
        (own, bytes)
    });
    Target::Folder(Arc::new(MemorySource::new(files)))
}

#[test]
fn hashes_are_compared_on_request() {
    let verify = ReadingOptions { verify_hashes: true, ..ReadingOptions::default() };
    let flip = |bytes: &mut Vec<u8>| *bytes.last_mut().unwrap() ^= 1;
    let text = fs::read_to_string(folder("zstd/index.json")).unwrap();
    let zip_hash = "xxh64";
    assert!(text.contains(zip_hash));
    let damaged = changed("zstd", "shard.00000.mds.zstd", flip);
    let message = open(&damaged, &verify).unwrap_err().to_string();
    assert!(message.contains("sha1") && message.contains("shard.00000"), "{message}");
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| *bytes = String::from_utf8_lossy(bytes).replace(from, to).into_bytes()
    };
    // Every hash is compared, also that of the raw file.
    let wrong = changed("zstd", "index.json", replace("bf3bec94fa693168", "0f3bec94fa693168"));
    assert!(open(&wrong, &verify).unwrap_err().to_string().contains("xxh64"));
    assert!(open(&wrong, &ReadingOptions::default()).is_ok());
    let unknown = changed("zstd", "index.json", replace("xxh64", "crc99"));
    assert!(open(&unknown, &verify).unwrap_err().to_string().contains("crc99"));
    assert!(open(&unknown, &ReadingOptions::default()).is_ok());
}

#[test]
fn a_decompressed_shard_has_the_announced_length() {
    for (from, to) in [("7741", "7740"), ("7741", "7742"), ("7741", "18446744073709551615")] {
        let liar = changed("zstd", "index.json", |bytes| {
            *bytes = String::from_utf8_lossy(bytes).replace(from, to).into_bytes();
        });
        let message = open(&liar, &ReadingOptions::default()).unwrap_err().to_string();
        assert!(message.contains("inside"), "{message}");
    }
}

/// The shard has the length in the index, but a compression ratio above the limit.
#[test]
fn a_shard_that_is_a_decompression_bomb_is_refused() {
    let length = 200u64 << 20;
    let frame = zstd::stream::encode_all(&vec![0; length as usize][..], 3).unwrap();
    let mut index: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder("zstd/index.json")).unwrap()).unwrap();
    index["shards"][0]["raw_data"]["bytes"] = length.into();
    index["shards"][0]["zip_data"]["bytes"] = frame.len().into();
    let files = [("index.json", index.to_string().into_bytes()), ("shard.00000.mds.zstd", frame)];
    let liar = Target::Folder(Arc::new(MemorySource::new(files)));
    let message = open(&liar, &ReadingOptions::default()).unwrap_err().to_string();
    assert!(message.contains("shard.00000") && message.contains("expected"), "{message}");
}

/// Impossible numbers: refused at opening or at reading, never more memory than the files.
#[test]
fn impossible_numbers_are_refused() {
    for samples in ["2", "4", "4294967295", "18446744073709551615"] {
        let liar = changed("all", "index.json", |bytes| {
            let text =
                String::from_utf8_lossy(bytes).replace("\"samples\": 3", &format!("\"samples\": {samples}"));
            *bytes = text.into_bytes();
        });
        assert!(open(&liar, &ReadingOptions::default()).is_err(), "{samples}");
    }
    for at in 0..5 {
        for value in [u32::MAX, 1 << 30] {
            let liar = changed("all", "shard.00000.mds", |bytes| {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&value.to_le_bytes());
            });
            let read = open(&liar, &ReadingOptions::default()).and_then(|format| {
                let all = FieldSet::all(format.schema().fields.len());
                (0..3).try_for_each(|sample| format.read(sample, &all, &mut SampleBuffer::new()))
            });
            assert!(read.is_err(), "word {at} = {value}");
        }
    }
}

#[test]
fn lengths_are_known_if_one_column_varies() {
    let format = recorded("merged");
    let text = format.schema().position("text").unwrap();
    assert_eq!(format.byte_length(4, text), Some(8));
    let mut room = [0; 8];
    format.read_bytes(4, text, &mut room).unwrap();
    assert_eq!(&room, b"sample 1");
    let mut extents = Vec::new();
    format.extents(4, &FieldSet::all(2), &mut extents);
    assert_eq!(extents.len(), 1);
    assert_eq!(format.object(extents[0].object).unwrap().1, "1/shard.00000.mds");
    let all = recorded("all");
    assert_eq!(all.byte_length(0, all.schema().position("str").unwrap()), None, "several vary");
}

/// Compresses a shard, and changes its entry in the index.
#[derive(Clone, Copy)]
enum Packing {
    Raw,
    Zstd,
}

struct Subject(Packing);

impl conformance::Subject for Subject {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let columns = vec![("image".to_owned(), "jpeg", None), ("label".to_owned(), "int", Some(8))];
        let mut shards = Vec::new();
        for (number, images) in images.chunks(3).enumerate() {
            let mut builder = ShardBuilder::new(columns.clone());
            for (_, bytes) in images {
                builder.add(&[bytes, &3i64.to_le_bytes()]).unwrap();
            }
            let mut shard = Vec::new();
            let mut entry = builder.finish(&mut shard).unwrap();
            let name = format!("shard.{number:05}.mds");
            entry["samples"] = images.len().into();
            entry["raw_data"] = serde_json::json!({"basename": name, "bytes": shard.len(), "hashes": {}});
            match self.0 {
                Packing::Raw => fs::write(folder.join(name), shard).unwrap(),
                Packing::Zstd => {
                    let packed = zstd::stream::encode_all(&shard[..], 1).unwrap();
                    let name = format!("{name}.zstd");
                    entry["compression"] = "zstd".into();
                    entry["zip_data"] =
                        serde_json::json!({"basename": name, "bytes": packed.len(), "hashes": {}});
                    fs::write(folder.join(name), packed).unwrap();
                }
            }
            shards.push(entry);
        }
        let index = serde_json::json!({"version": 2, "shards": shards});
        fs::write(folder.join(INDEX_NAME), index.to_string()).unwrap();
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
    conformance::check(&Subject(Packing::Raw));
    conformance::check(&Subject(Packing::Zstd));
}

fn converted(source: &dyn Format, shard_bytes: u64) -> Result<(tempfile::TempDir, Arc<dyn Format>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = ConvertOptions { to: "mds".to_owned(), shard_bytes: Some(shard_bytes), workers: 2 };
    convert(source, folder.path().join("out"), &options, &())?;
    let source = Arc::new(LocalSource::new(folder.path().join("out")));
    let again = open(&Target::Folder(source), &ReadingOptions::default())?;
    Ok((folder, again))
}

/// Every value of every encoding is preserved; only narrow numbers become wide ones.
#[test]
fn written_files_are_read_back() {
    for shard_bytes in [1, 4000, 1 << 20] {
        let source = recorded("all");
        let (_folder, again) = converted(&*source, shard_bytes).unwrap();
        assert_eq!((again.len(), again.schema()), (3, source.schema()));
        for sample in 0..3 {
            let (old, new) = (Read::new(&*source, sample), Read::new(&*again, sample));
            for field in &source.schema().fields {
                match (old.value(&field.name), new.value(&field.name)) {
                    (Value::Int(a), Value::Int(b)) => assert_eq!(a, b),
                    (Value::Float(a), Value::Float(b)) => assert_eq!(a, b),
                    (Value::Array { .. }, Value::Array { .. }) => {
                        assert_eq!(old.array(&field.name), new.array(&field.name));
                    }
                    _ => assert_eq!(old.bytes(&field.name), new.bytes(&field.name), "{}", field.name),
                }
            }
        }
    }
}

#[test]
fn fields_mds_cannot_store_are_refused_by_name() {
    #[derive(Debug)]
    struct One(Schema, DType, [u64; 8]);
    impl Format for One {
        fn name(&self) -> &'static str {
            "one"
        }

        fn len(&self) -> u64 {
            1
        }

        fn schema(&self) -> &Schema {
            &self.0
        }

        fn fingerprint(&self) -> Fingerprint {
            Fingerprint([0; 16])
        }

        fn read(&self, _: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
            into.reset(1);
            let bytes = into.append(&[1; 4]);
            into.set(0, Value::Array { dtype: self.1, dimensions: 2, shape: self.2, bytes });
            Ok(())
        }

        fn locate(&self, sample: u64) -> Location {
            Location::new("one").with_sample(sample)
        }
    }

    impl crate::format::Index for One {}

    impl crate::format::Extents for One {}
    let array = |optional: bool, dtype: DType, shape: [u64; 2]| {
        let fields = vec![FieldSpec::new("odd", Kind::Array).optional(optional)];
        One(Schema { fields, classes: None }, dtype, [shape[0], shape[1], 0, 0, 0, 0, 0, 0])
    };
    for (one, word) in [
        (array(false, DType::Bool, [2, 2]), "bool"),
        (array(false, DType::BF16, [2, 1]), "bfloat16"),
        (array(false, DType::U8, [0, 2]), "[0, 2]"),
    ] {
        let message = converted(&one, 1000).unwrap_err().to_string();
        assert!(message.contains("odd") && message.contains(word), "{message}");
    }
    let (_folder, again) = converted(&array(true, DType::U8, [2, 2]), 1000).unwrap();
    assert_eq!(Read::new(&*again, 0).array("odd"), (DType::U8, &[2, 2][..], &[1; 4][..]));
}
