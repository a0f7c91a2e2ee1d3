use std::collections::HashMap;
use std::fs;
use std::path::Path;

use arrow_array::{BinaryArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::*;
use crate::format::columns::expected::{compare, compare_images, testdata};
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

/// A batch of images: bytes, or a path to them.
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
fn folders_of_the_hugging_face_hub_are_read_by_split() {
    let target = Target::Folder(Arc::new(LocalSource::new(testdata("parquet/hub"))));
    assert!(recognises(&target).unwrap().unwrap().contains("2 Parquet"));
    let split = |name: &str| ReadingOptions { split: Some(name.to_owned()), ..ReadingOptions::default() };
    compare_images(&*open(&target, &split("train")).unwrap(), &[0, 1, 2, 3]);
    compare_images(&*open(&target, &split("test")).unwrap(), &[4, 5]);
    let several = open(&target, &ReadingOptions::default()).unwrap_err().to_string();
    assert!(several.contains("test, train"), "{several}");
}

#[test]
fn large_values_are_read_from_inside_their_page() {
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
fn linked_images_are_read_if_they_belong_to_the_data_set() {
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
        // Testing every byte takes minutes; the files are similar, and different bytes are changed in each.
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

fn table(columns: Vec<(&str, arrow_array::ArrayRef)>) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn open_file(bytes: Vec<u8>) -> Arc<dyn Format> {
    let source = Arc::new(MemorySource::new([("a.parquet", bytes)]));
    open(&Target::Objects(source, vec!["a.parquet".to_owned()]), &ReadingOptions::default()).unwrap()
}

fn row(set: &dyn Format, sample: u64) -> Vec<crate::owned::OwnedValue> {
    let mut buffer = SampleBuffer::new();
    set.read(sample, &FieldSet::all(set.schema().fields.len()), &mut buffer).unwrap();
    let sample = crate::owned::Sample::from_buffer(set.schema(), &buffer, || set.locate(sample)).unwrap();
    sample.fields.into_iter().map(|(_, value)| value).collect()
}

/// pyarrow wrote `testdata/formats/parquet/times.parquet`; it has to store seconds as milliseconds.
#[test]
fn times_keep_their_units() {
    use crate::owned::OwnedValue::Int;
    let source = Arc::new(LocalSource::new(testdata("parquet")));
    let target = Target::Objects(source, vec!["times.parquet".to_owned()]);
    let set = open(&target, &ReadingOptions::default()).unwrap();
    let units: Vec<_> = set.schema().fields.iter().map(|f| f.unit.as_deref().unwrap_or("-")).collect();
    let expected = [
        "timestamp[s]",
        "timestamp[ms]",
        "timestamp[us, tz=UTC]",
        "timestamp[ns]",
        "time32[s]",
        "date32[day]",
        "duration[s]",
        "-",
    ];
    assert_eq!(units, expected);
    assert_eq!(row(&*set, 0), [1_700_000_000, 1_700_000_000_123, 5, 6, 3601, 19_000, 8, 9].map(Int));
    assert_eq!(row(&*set, 1), [-1, -1, -5, -6, 1, -1, -8, -9].map(Int));
}

#[test]
fn lists_with_nulls_have_nan_there() {
    use arrow_array::types::{Float32Type, Int64Type};
    let integers = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(4)])];
    let floats = vec![Some(vec![Some(0.5), None]), Some(vec![None]), None, Some(vec![Some(1.5)])];
    let plain = vec![Some(vec![Some(1i64)]), None, Some(vec![]), Some(vec![Some(2)])];
    let set = open_file(table(vec![
        ("i", Arc::new(arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>(integers))),
        ("f", Arc::new(arrow_array::ListArray::from_iter_primitive::<Float32Type, _, _>(floats))),
        ("p", Arc::new(arrow_array::ListArray::from_iter_primitive::<Int64Type, _, _>(plain))),
    ]));
    let numbers = |value: &crate::owned::OwnedValue| match value {
        crate::owned::OwnedValue::Array { dtype: DType::F64, bytes, .. } => {
            bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect::<Vec<f64>>()
        }
        crate::owned::OwnedValue::Array { dtype: DType::F32, bytes, .. } => {
            bytes.chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect()
        }
        other => panic!("{other:?}"),
    };
    let first = row(&*set, 0);
    assert!(numbers(&first[0])[0] == 1.0 && numbers(&first[0])[1].is_nan());
    assert!(numbers(&first[1])[0] == 0.5 && numbers(&first[1])[1].is_nan());
    assert_eq!((numbers(&row(&*set, 3)[0]), numbers(&row(&*set, 3)[1])), (vec![4.0], vec![1.5]));
    // Numbers without nulls among them keep their type.
    let plain = |n: u64| row(&*set, n).swap_remove(2);
    assert!(matches!(plain(0), crate::owned::OwnedValue::Array { dtype: DType::I64, .. }));
    assert_eq!(plain(1), crate::owned::OwnedValue::Missing);
}

/// dict-page-offset-zero of apache/parquet-testing: a 0 for a dictionary that does not exist.
#[test]
fn a_dictionary_offset_of_zero_means_no_dictionary() {
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
    let numbers: Int64Array = (0..100i64).map(|n| n % 7).collect();
    for dictionary in [false, true] {
        let batch =
            RecordBatch::try_from_iter([("n", Arc::new(numbers.clone()) as arrow_array::ArrayRef)]).unwrap();
        let properties = WriterProperties::builder().set_dictionary_enabled(dictionary).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let footer =
            ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(bytes.clone())).unwrap();
        let group = footer.row_group(0).clone();
        let chunk = group.column(0).clone();
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let chunk = chunk.into_builder().set_dictionary_page_offset(Some(0)).set_data_page_offset(start);
        let group = group.into_builder().set_column_metadata(vec![chunk.build().unwrap()]).build().unwrap();
        let footer = footer.into_builder().set_row_groups(vec![group]).build();
        let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
        bytes.truncate(bytes.len() - 8 - length);
        ParquetMetaDataWriter::new(&mut bytes, &footer).finish().unwrap();
        let set = open_file(bytes);
        for sample in 0..100 {
            assert_eq!(
                row(&*set, sample),
                [crate::owned::OwnedValue::Int(sample as i64 % 7)],
                "{dictionary}"
            );
        }
    }
}

/// repeated_no_annotation of apache/parquet-testing: a repeated group that is not marked as a list.
#[test]
fn repeated_groups_without_a_mark_are_lists() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::writer::SerializedFileWriter;
    let message = "message user { required int32 id; optional group phoneNumbers { repeated group phone { \
                   required int64 number; optional binary kind (UTF8); } } }";
    let schema = Arc::new(parquet::schema::parser::parse_message_type(message).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int32Type>().write_batch(&[1, 2, 3], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let (levels, repeats) = ([0, 1, 2, 2], [0, 0, 0, 1]);
    column.typed::<Int64Type>().write_batch(&[555, 666], Some(&levels), Some(&repeats)).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let home = [ByteArray::from("home")];
    column.typed::<ByteArrayType>().write_batch(&home, Some(&[0, 1, 2, 3]), Some(&repeats)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let set = open_file(bytes);
    use crate::owned::OwnedValue::{Int, Json, Missing};
    assert_eq!(row(&*set, 0), [Int(1), Missing]);
    assert_eq!(row(&*set, 1), [Int(2), Json(r#"{"phone":[]}"#.to_owned())]);
    let phones = r#"{"phone":[{"kind":null,"number":555},{"kind":"home","number":666}]}"#;
    assert_eq!(row(&*set, 2), [Int(3), Json(phones.to_owned())]);
}

#[test]
fn links_out_of_the_folder_need_permission() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret.jpg"), b"far").unwrap();
    fs::write(inside.path().join("own.jpg"), b"near").unwrap();
    std::os::unix::fs::symlink(outside.path(), inside.path().join("away")).unwrap();
    std::os::unix::fs::symlink("own.jpg", inside.path().join("alias.jpg")).unwrap();
    let rows = [(None, Some("away/secret.jpg")), (None, Some("alias.jpg"))];
    fs::write(inside.path().join("a.parquet"), file(&[batch(&rows)], properties(Compression::SNAPPY)))
        .unwrap();
    let target = || Target::Objects(Arc::new(LocalSource::new(inside.path())), vec!["a.parquet".to_owned()]);
    let picture = |follow_links: bool, sample: u64| -> Result<Vec<u8>> {
        let options = ReadingOptions { follow_links, ..ReadingOptions::default() };
        let (set, mut buffer) = (open(&target(), &options)?, SampleBuffer::new());
        set.read(sample, &FieldSet::only(2, [0]), &mut buffer)?;
        let Value::Image { bytes, .. } = buffer.value(0) else { panic!("an image") };
        Ok(buffer.bytes(bytes).to_vec())
    };
    let message = picture(false, 0).unwrap_err().to_string();
    assert!(message.contains("follow_links") && message.contains("sample 0"), "{message}");
    assert_eq!((picture(true, 0).unwrap(), picture(false, 1).unwrap()), (b"far".to_vec(), b"near".to_vec()));
}
