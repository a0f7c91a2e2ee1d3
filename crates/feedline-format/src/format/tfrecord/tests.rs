use std::fs;
use std::io::Write;
use std::path::Path;

use super::example::write::{bytes, example, field, floats, frame, ints};
use super::*;
use crate::format::conformance;
use crate::sample::{DType, Kind, Value};
use crate::source::{LocalSource, MemorySource};

struct Records;

impl conformance::Subject for Records {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let record = |(name, image): &(String, Vec<u8>)| {
            frame(&example(&[
                ("image/encoded", bytes(&[image])),
                ("image/class/label", ints(&[3], true)),
                ("image/filename", bytes(&[name.as_bytes()])),
            ]))
        };
        fs::write(folder.join("a.tfrecord"), images.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let index = tempfile::tempdir().unwrap();
        open(&Target::Folder(Arc::new(LocalSource::new(folder))), &saved_in(index.path()))
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Everything
    }
}

fn saved_in(folder: &Path) -> ReadingOptions {
    ReadingOptions { index_dir: Some(folder.to_path_buf()), ..ReadingOptions::default() }
}

#[test]
fn conforms() {
    conformance::check(&Records);
}

fn open_files(files: &[(&str, Vec<u8>)]) -> Result<TfRecord> {
    let index = tempfile::tempdir().unwrap();
    let names = files.iter().map(|(name, _)| (*name).to_owned()).collect();
    TfRecord::open(Arc::new(MemorySource::new(files.to_vec())), names, &saved_in(index.path()))
}

fn read(format: &TfRecord, sample: u64) -> (SampleBuffer, Vec<Value>) {
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(format.schema.fields.len()), &mut buffer).unwrap();
    let values = buffer.values().to_vec();
    (buffer, values)
}

#[test]
fn features_become_fields_by_their_content() {
    let png = b"\x89PNG\r\n\x1a\n....";
    let one = example(&[
        ("z", ints(&[5], true)),
        ("box", floats(&[1.0, 2.0], true)),
        ("half", floats(&[0.5], false)),
        ("many", ints(&[1, 2, 3], false)),
        ("names", bytes(&["a".as_bytes(), b"\xff"])),
        ("pic", bytes(&[png])),
        ("raw", bytes(&[b"\0\x01"])),
        ("text", bytes(&["gr\u{fc}n".as_bytes()])),
        ("sometimes", ints(&[9], true)),
    ]);
    let two = example(&[
        ("z", ints(&[-6], true)),
        ("box", floats(&[], true)),
        ("half", floats(&[0.25], true)),
        ("many", ints(&[4], true)),
        ("names", bytes(&[])),
        ("pic", bytes(&[png])),
        ("raw", bytes(&[b"x"])),
        ("text", bytes(&[b"b"])),
        // The later one counts.
        ("text", bytes(&[b"c"])),
    ]);
    let format = open_files(&[("a", frame(&one)), ("b", frame(&two))]).unwrap();
    let kinds: Vec<_> = format.schema.fields.iter().map(|f| (f.name.as_str(), f.kind, f.optional)).collect();
    let expected = [
        ("box", Kind::Array, false),
        ("half", Kind::Float, false),
        ("many", Kind::Array, false),
        ("names", Kind::Json, true),
        ("pic", Kind::Image, false),
        ("raw", Kind::Bytes, false),
        ("sometimes", Kind::Int, true),
        ("text", Kind::Text, false),
        ("z", Kind::Int, false),
    ];
    assert_eq!(kinds, expected);
    let (buffer, values) = read(&format, 0);
    let content = |n: usize| match &values[n] {
        Value::Bytes(range) | Value::Array { bytes: range, .. } | Value::Image { bytes: range, .. } => {
            buffer.bytes(range)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(content(0), [1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat());
    assert_eq!(values[1], Value::Float(0.5));
    assert_eq!(content(2), [1i64, 2, 3].map(i64::to_le_bytes).concat());
    assert_eq!(content(3), br#"["a",{"base64":"/w=="}]"#);
    assert_eq!((content(4), content(5), content(7)), (&png[..], &b"\0\x01"[..], "gr\u{fc}n".as_bytes()));
    assert_eq!((&values[6], &values[8]), (&Value::Int(9), &Value::Int(5)));
    let (buffer, values) = read(&format, 1);
    assert!(matches!(&values[0], Value::Array { dtype: DType::F32, shape: [0, ..], .. }));
    assert!(matches!(&values[2], Value::Array { dtype: DType::I64, shape: [1, ..], .. }));
    assert_eq!((&values[6], &values[8]), (&Value::Missing, &Value::Int(-6)));
    let Value::Bytes(range) = &values[7] else { panic!() };
    assert_eq!(buffer.bytes(range), b"c");
}

#[test]
fn compressed_files_are_read_and_bombs_refused() {
    let records: Vec<u8> = (0..50).flat_map(|i| frame(&example(&[("i", ints(&[i], true))]))).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&records).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&records).unwrap();
    let format = open_files(&[("a", gzip.clone()), ("b", zlib.finish().unwrap())]).unwrap();
    assert_eq!(format.len(), 100);
    for sample in [99, 0, 49, 50] {
        assert_eq!(read(&format, sample).1, [Value::Int(sample as i64 % 50)]);
    }
    for length in 20..gzip.len() {
        assert!(open_files(&[("a", gzip[..length].to_vec())]).is_err(), "{length}");
    }
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let length = (1u64 << 40).to_le_bytes();
    bomb.write_all(&[&length[..], &index::masked_crc(&length).to_le_bytes()].concat()).unwrap();
    bomb.write_all(&vec![0; 1 << 20]).unwrap();
    let message = open_files(&[("a", bomb.finish().unwrap())]).unwrap_err().to_string();
    assert!(message.contains("MiB") && message.contains("gunzip"), "{message}");
}

#[test]
fn a_saved_index_is_used_until_a_file_changes() {
    let (data, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let records =
        |n: i64| (0..n).flat_map(|i| frame(&example(&[("i", ints(&[i], true))]))).collect::<Vec<u8>>();
    let path = data.path().join("a.tfrecord");
    fs::write(&path, records(5)).unwrap();
    let opened = || {
        let source = Arc::new(LocalSource::new(data.path()));
        TfRecord::open(source, vec!["a.tfrecord".to_owned()], &saved_in(index.path())).unwrap()
    };
    let (first, again) = (opened(), opened());
    assert_eq!(fs::read_dir(index.path()).unwrap().count(), 1);
    assert!(again.starts.from > 0, "the second comes from the saved index");
    assert_eq!((first.schema(), first.fingerprint(), again.len()), (again.schema(), again.fingerprint(), 5));
    assert_eq!(read(&again, 4).1, [Value::Int(4)]);
    fs::write(&path, records(6)).unwrap();
    let changed = opened();
    assert_eq!((changed.len(), changed.starts.from), (6, 0));
    assert_ne!(changed.fingerprint(), first.fingerprint());
}

#[test]
fn other_records_are_refused_with_the_reason() {
    let sequence = [field(1, b""), field(2, &field(1, b""))].concat();
    let message = open_files(&[("a", frame(&sequence))]).unwrap_err().to_string();
    assert!(message.contains("SequenceExample"), "{message}");
    let message = open_files(&[("a", frame(b"hello, world"))]).unwrap_err().to_string();
    assert!(message.contains("tf.train.Example"), "{message}");
    let message = open_files(&[("a", b"this is no record".to_vec())]).unwrap_err().to_string();
    assert!(message.contains("not a TFRecord"), "{message}");
}

#[test]
fn folders_are_recognised_by_content_and_split_by_name() {
    let record = |i| frame(&example(&[("i", ints(&[i], true))]));
    let source = MemorySource::new([
        ("mnist-test.tfrecord-00000-of-00001", record(1)),
        ("mnist-train.tfrecord-00000-of-00001", record(2)),
        ("dataset_info.json", b"{}".to_vec()),
    ]);
    let target = Target::Folder(Arc::new(source));
    assert!(recognises(&target).unwrap().unwrap().contains("2 TFRecord"));
    let index = tempfile::tempdir().unwrap();
    let error = open(&target, &saved_in(index.path())).unwrap_err().to_string();
    assert!(error.contains("test, train"), "{error}");
    let options = ReadingOptions { split: Some("train".to_owned()), ..saved_in(index.path()) };
    assert_eq!(open(&target, &options).unwrap().len(), 1);
    let other = Target::Folder(Arc::new(MemorySource::new([("a.bin", b"hello hello hello".to_vec())])));
    assert_eq!(recognises(&other).unwrap(), None);
}

/// The bytes of a value, one per Latin-1 character, as in `expected.json`.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

fn as_expected(column: &Column, value: &Value, buffer: &SampleBuffer) -> serde_json::Value {
    match value {
        Value::Int(i) => serde_json::json!([i]),
        Value::Float(f) => serde_json::json!([f]),
        Value::Array { dtype: DType::F32, bytes, .. } => {
            let floats = buffer.bytes(bytes).chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap()));
            serde_json::json!(floats.collect::<Vec<_>>())
        }
        Value::Array { bytes, .. } => {
            let ints = buffer.bytes(bytes).chunks(8).map(|c| i64::from_le_bytes(c.try_into().unwrap()));
            serde_json::json!(ints.collect::<Vec<_>>())
        }
        Value::Bytes(range) if column.spec.kind == Kind::Json => {
            let strings: Vec<String> = serde_json::from_slice(buffer.bytes(range)).unwrap();
            serde_json::json!(strings.iter().map(|s| latin1(s.as_bytes())).collect::<Vec<_>>())
        }
        Value::Bytes(range) | Value::Image { bytes: range, .. } => {
            serde_json::json!([latin1(buffer.bytes(range))])
        }
        Value::Missing => serde_json::Value::Null,
    }
}

/// `testdata/formats/tfrecord/make.py` wrote these with TensorFlow.
#[test]
fn files_written_by_tensorflow_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/tfrecord");
    let expected = fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&expected).unwrap();
    let index = tempfile::tempdir().unwrap();
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(&folder));
    for name in ["plain.tfrecord", "gzip.tfrecord", "zlib.tfrecord"] {
        let format = TfRecord::open(source.clone(), vec![name.to_owned()], &saved_in(index.path())).unwrap();
        assert_eq!(format.len(), expected.len() as u64);
        for (sample, expected) in expected.iter().enumerate() {
            let (buffer, values) = read(&format, sample as u64);
            for (column, value) in format.examples.columns.iter().zip(&values) {
                let expected = expected.get(&column.spec.name).cloned().unwrap_or_default();
                assert_eq!(
                    as_expected(column, value, &buffer),
                    expected,
                    "{name} {sample} {}",
                    column.spec.name
                );
            }
        }
        let kind = |name: &str| format.schema.fields[format.schema.position(name).unwrap()].kind;
        assert_eq!((kind("image/encoded"), kind("image/filename")), (Kind::Image, Kind::Text));
    }
    let sequence = TfRecord::open(source, vec!["sequence.tfrecord".to_owned()], &saved_in(index.path()));
    assert!(sequence.unwrap_err().to_string().contains("SequenceExample"));
}

#[test]
fn lists_that_are_always_empty_are_not_images() {
    let record = || frame(&example(&[("mask", bytes(&[])), ("i", ints(&[1], true))]));
    let format = open_files(&[("a", [record(), record()].concat())]).unwrap();
    let mask = &format.schema.fields[format.schema.position("mask").unwrap()];
    assert_eq!((mask.kind, mask.optional), (Kind::Bytes, true));
    assert_eq!(read(&format, 0).1, [Value::Int(1), Value::Missing]);
}

#[test]
fn fields_of_small_files_beside_a_large_one_are_found() {
    let many: Vec<u8> = (0..5000).flat_map(|i| frame(&example(&[("i", ints(&[i], true))]))).collect();
    let one = frame(&example(&[("i", ints(&[7], true)), ("rare", bytes(&[b"x"]))]));
    let mut files = vec![("a", many.clone())];
    files.extend([("b", one.clone()), ("c", many), ("d", one)]);
    let format = open_files(&files).unwrap();
    let names: Vec<&str> = format.schema.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["i", "rare"]);
    assert!(format.surveyed().len() as u64 <= SURVEYED);
}

#[test]
fn sequence_examples_are_refused_by_name() {
    let context = example(&[("length", ints(&[2], true))]);
    let steps = field(2, &field(1, &[field(1, b"frames"), field(2, &field(1, &ints(&[1], true)))].concat()));
    let sequence = frame(&[context, steps].concat());
    let message = open_files(&[("a", sequence.clone())]).unwrap_err().to_string();
    assert!(message.contains("SequenceExample"), "{message}");
    // Among other records, it is an error when it is read.
    let plain = frame(&example(&[("length", ints(&[2], true))]));
    let format = open_files(&[("a", [plain, sequence].concat())]).unwrap();
    let error = format.read(1, &FieldSet::all(1), &mut SampleBuffer::new()).unwrap_err().to_string();
    assert!(error.contains("SequenceExample") && error.contains("sample 1"), "{error}");
}
