use std::collections::HashMap;
use std::fs;
use std::path::Path;

use arrow_array::{BinaryArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::format::columns::expected::{compare, compare_pictures, testdata};
use crate::format::conformance;
use crate::source::{LocalSource, MemorySource};

const FEATURES: &str = r#"{"info":{"features":{"image":{"_type":"Image"}}}}"#;

fn schema() -> Arc<ArrowSchema> {
    let stored = Fields::from(vec![
        Field::new("bytes", DataType::Binary, true),
        Field::new("path", DataType::Utf8, true),
    ]);
    let fields =
        vec![Field::new("image", DataType::Struct(stored), true), Field::new("label", DataType::Int64, true)];
    let metadata = HashMap::from([("huggingface".to_owned(), FEATURES.to_owned())]);
    Arc::new(ArrowSchema::new_with_metadata(fields, metadata))
}

/// A batch of pictures: bytes, or a path to them.
fn batch(images: &[(Option<&[u8]>, Option<&str>)]) -> RecordBatch {
    let DataType::Struct(stored) = schema().field(0).data_type().clone() else { panic!() };
    let bytes: BinaryArray = images.iter().map(|(bytes, _)| *bytes).collect();
    let paths: StringArray = images.iter().map(|(_, path)| *path).collect();
    let image = StructArray::new(stored, vec![Arc::new(bytes), Arc::new(paths)], None);
    let label: Int64Array = (0..images.len() as i64).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(image), Arc::new(label)]).unwrap()
}

fn properties(compression: Compression) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(3))
        .set_data_page_row_count_limit(2)
        .set_write_batch_size(1)
        .build()
}

fn file(batches: &[RecordBatch], properties: WriterProperties) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
    bytes
}

struct Written(Compression);

impl conformance::Subject for Written {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let rows: Vec<(Option<&[u8]>, Option<&str>)> =
            images.iter().map(|(_, b)| (Some(&b[..]), None)).collect();
        fs::write(folder.join("a.parquet"), file(&[batch(&rows)], properties(self.0))).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn uncompressed_files_conform() {
    conformance::check(&Written(Compression::UNCOMPRESSED));
}

#[test]
fn snappy_files_conform() {
    conformance::check(&Written(Compression::SNAPPY));
}

fn open_bytes(bytes: Vec<u8>) -> Result<Arc<dyn Format>> {
    let source = Arc::new(MemorySource::new([("t.parquet", bytes)]));
    open(&Target::Objects(source, vec!["t.parquet".to_owned()]), &ReadingOptions::default())
}

const FIXTURES: [&str; 8] = ["plain", "dictionary", "snappy", "gzip", "zstd", "lz4", "brotli", "delta"];

#[test]
fn every_type_and_codec_that_pyarrow_wrote_is_read() {
    for name in FIXTURES {
        let path = testdata("parquet").join(format!("types-{name}.parquet"));
        compare(&*open_bytes(fs::read(path).unwrap()).unwrap(), name);
    }
}

#[test]
fn the_hubs_folders_are_read_by_split() {
    let target = Target::Folder(Arc::new(LocalSource::new(testdata("parquet/hub"))));
    assert!(recognises(&target).unwrap().unwrap().contains("2 Parquet"));
    let split = |name: &str| ReadingOptions { split: Some(name.to_owned()), ..ReadingOptions::default() };
    compare_pictures(&*open(&target, &split("train")).unwrap(), &[0, 1, 2, 3]);
    compare_pictures(&*open(&target, &split("test")).unwrap(), &[4, 5]);
    let several = open(&target, &ReadingOptions::default()).unwrap_err().to_string();
    assert!(several.contains("test, train"), "{several}");
}

#[test]
fn large_values_are_reached_inside_their_page() {
    let noise = |n: u64, seed: u64| -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        (0..n).map(|_| next()).collect()
    };
    let mut images: Vec<Vec<u8>> = (1..12).map(|i| noise(i * 20_011, i)).collect();
    images.extend([Vec::new(), vec![5; 300_000], noise(65_536, 99), b"x".to_vec()]);
    let rows: Vec<(Option<&[u8]>, Option<&str>)> = images.iter().map(|b| (Some(&b[..]), None)).collect();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(parquet::basic::ZstdLevel::default()),
    ] {
        for dictionary in [true, false] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_data_page_size_limit(8 << 20)
                .set_dictionary_enabled(dictionary)
                .build();
            let format = open_bytes(file(&[batch(&rows)], properties)).unwrap();
            let mut buffer = SampleBuffer::new();
            for step in 0..images.len() * 3 {
                let sample = step * 7 % images.len();
                format.read(sample as u64, &FieldSet::only(2, [0]), &mut buffer).unwrap();
                let Value::Image { bytes, .. } = buffer.value(0) else { panic!() };
                assert!(buffer.bytes(bytes) == images[sample], "{compression:?} {dictionary} {sample}");
            }
        }
    }
}

#[test]
fn pictures_elsewhere_are_read_if_they_belong_to_the_data_set() {
    let rows = [
        (Some(&b"here"[..]), Some("x.png")),
        (None, Some("pics/a.png")),
        (None, Some("/etc/passwd")),
        (None, None),
    ];
    let table = file(&[batch(&rows)], properties(Compression::SNAPPY));
    let source = MemorySource::new([("d/t.parquet", table), ("d/pics/a.png", b"there".to_vec())]);
    let target = Target::Objects(Arc::new(source), vec!["d/t.parquet".to_owned()]);
    let format = open(&target, &ReadingOptions::default()).unwrap();
    let mut buffer = SampleBuffer::new();
    for (sample, expected) in [(0, &b"here"[..]), (1, b"there")] {
        format.read(sample, &FieldSet::only(2, [0]), &mut buffer).unwrap();
        let Value::Image { bytes, .. } = buffer.value(0) else { panic!() };
        assert_eq!(buffer.bytes(bytes), expected);
    }
    let message = format.read(2, &FieldSet::all(2), &mut buffer).unwrap_err().to_string();
    assert!(message.contains("outside the data set"), "{message}");
    format.read(3, &FieldSet::all(2), &mut buffer).unwrap();
    assert_eq!(*buffer.value(0), Value::Missing);
}

#[test]
fn damaged_fixtures_are_read_or_refused() {
    for (number, name) in FIXTURES.iter().enumerate() {
        let whole = fs::read(testdata("parquet").join(format!("types-{name}.parquet"))).unwrap();
        let mut damaged = whole.clone();
        // Every byte takes minutes; the files have much in common, and each gets others.
        for at in (number..whole.len()).step_by(97) {
            damaged[at] ^= 1 << (at % 8) | 0x80;
            read_everything(&damaged);
            damaged[at] = whole[at];
        }
        for length in (number..whole.len()).step_by(997) {
            read_everything(&whole[..length]);
        }
    }
}

fn read_everything(bytes: &[u8]) {
    let Ok(format) = open_bytes(bytes.to_vec()) else { return };
    let fields = format.schema().fields.len();
    let mut buffer = SampleBuffer::new();
    for sample in 0..format.len().min(8) {
        for field in 0..fields {
            let _ = format.read(sample, &FieldSet::only(fields, [field]), &mut buffer);
        }
    }
}
