use std::collections::HashMap;
use std::fs;
use std::path::Path;

use arrow_array::{BinaryArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};

use super::*;
use crate::format::columns::expected::{compare, compare_images, testdata};
use crate::format::conformance;
use crate::source::{LocalSource, MemorySource};

const FEATURES: &str =
    r#"{"info":{"features":{"image":{"_type":"Image"},"label":{"names":["a","b"],"_type":"ClassLabel"}}}}"#;

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
    let nulls = images.iter().map(|(bytes, path)| bytes.is_some() || path.is_some()).collect::<Vec<_>>();
    let image = StructArray::new(stored, vec![Arc::new(bytes), Arc::new(paths)], Some(nulls.into()));
    let label: Int64Array = (0..images.len() as i64).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(image), Arc::new(label)]).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn batches_of(images: &[(String, Vec<u8>)]) -> Vec<RecordBatch> {
    let rows: Vec<(Option<&[u8]>, Option<&str>)> = images.iter().map(|(_, b)| (Some(&b[..]), None)).collect();
    rows.chunks(2).map(batch).collect()
}

struct Stream;
struct File;

impl conformance::Subject for Stream {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        fs::write(folder.join("a.arrow"), stream(&batches_of(images))).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

impl conformance::Subject for File {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let mut writer = FileWriter::try_new(Vec::new(), &schema()).unwrap();
        for batch in batches_of(images) {
            writer.write(&batch).unwrap();
        }
        fs::write(folder.join("a.arrow"), writer.into_inner().unwrap()).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        Stream.open(folder)
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn streams_conform() {
    conformance::check(&Stream);
}

#[test]
fn files_conform() {
    conformance::check(&File);
}

fn open_fixture(name: &str, split: Option<&str>) -> Result<Arc<dyn Format>> {
    let path = testdata("arrow").join(name);
    let options = ReadingOptions { split: split.map(str::to_owned), ..ReadingOptions::default() };
    let target = if path.is_dir() {
        Target::Folder(Arc::new(LocalSource::new(path)))
    } else {
        Target::Objects(Arc::new(LocalSource::new(testdata("arrow"))), vec![name.to_owned()])
    };
    assert!(recognises(&target)?.is_some(), "{name}");
    open(&target, &options)
}

#[test]
fn every_type_that_pyarrow_wrote_is_read() {
    for name in ["types.arrows", "types-zstd.arrows", "types-lz4.arrows", "types.arrow", "types.feather"] {
        compare(&*open_fixture(name, None).unwrap(), name);
    }
}

#[test]
fn files_of_hugging_face_datasets_are_read() {
    compare_images(&*open_fixture("saved", None).unwrap(), &[0, 1, 2, 3, 4, 5]);
    compare_images(&*open_fixture("split", Some("train")).unwrap(), &[0, 1, 2, 3]);
    compare_images(&*open_fixture("split", Some("test")).unwrap(), &[4, 5]);
    compare_images(&*open_fixture("shuffled", None).unwrap(), &[5, 0, 3]);
    let several = open_fixture("split", None).unwrap_err().to_string();
    assert!(several.contains("train, test") && several.contains("split="), "{several}");
    assert!(open_fixture("split", Some("dev")).unwrap_err().to_string().contains("no split 'dev'"));
    assert!(open_fixture("saved", Some("dev")).unwrap_err().to_string().contains("without splits"));
}

#[test]
fn linked_images_are_read_if_they_belong_to_the_data_set() {
    let table = stream(&[batch(&[
        (Some(b"here"), Some("ignored.png")),
        (None, Some("pics/a.png")),
        (None, Some("../secret.png")),
        (None, None),
    ])]);
    let source = MemorySource::new([
        ("data/t.arrow", table),
        ("data/pics/a.png", b"there".to_vec()),
        ("secret.png", b"inside the source".to_vec()),
    ]);
    let target = Target::Objects(Arc::new(source), vec!["data/t.arrow".to_owned()]);
    let format = open(&target, &ReadingOptions::default()).unwrap();
    assert!(format.schema().fields[0].optional);
    let mut buffer = SampleBuffer::new();
    for (sample, expected) in [(0, &b"here"[..]), (1, b"there"), (2, b"inside the source")] {
        format.read(sample, &FieldSet::only(2, [0]), &mut buffer).unwrap();
        let Value::Image { bytes, .. } = buffer.value(0) else { panic!() };
        assert_eq!(buffer.bytes(bytes), expected);
    }
    format.read(3, &FieldSet::only(2, [0]), &mut buffer).unwrap();
    assert_eq!(*buffer.value(0), Value::Missing);
    let outside = stream(&[batch(&[(None, Some("/etc/passwd"))])]);
    let target =
        Target::Objects(Arc::new(MemorySource::new([("t.arrow", outside)])), vec!["t.arrow".to_owned()]);
    let format = open(&target, &ReadingOptions::default()).unwrap();
    let message = format.read(0, &FieldSet::all(2), &mut buffer).unwrap_err().to_string();
    assert!(message.contains("outside the data set") && message.contains("sample 0"), "{message}");
}

#[test]
fn a_table_may_start_anywhere_in_an_object() {
    let table = stream(&[batch(&[(Some(b"x"), None), (Some(b"yz"), None)])]);
    let bytes = [&b"before"[..], &table, b"after"].concat();
    let object = MemorySource::new([("a", bytes)]).open("a").unwrap();
    let range = 6..6 + table.len() as u64;
    let table = IpcTable::open(&*object, range, Location::new("a"), Arc::new(Pieces::new()), 0).unwrap();
    let (columns, left_out) = columns::columns(table.schema(), &Features::from_metadata(FEATURES));
    assert_eq!((table.rows(), columns.len(), left_out.len()), (2, 2, 0));
    let mut buffer = SampleBuffer::new();
    buffer.reset(0);
    let Value::Image { bytes, .. } = table.read_value(&*object, 1, &columns[0], &mut buffer).unwrap() else {
        panic!()
    };
    assert_eq!(buffer.bytes(&bytes), b"yz");
    assert_eq!(
        table.place_of(&*object, 1, &columns[0]).unwrap().map(|(range, own)| (range.end - range.start, own)),
        Some((2, true))
    );
}

#[test]
fn a_stream_without_an_end_mark_is_reported() {
    let whole = stream(&[batch(&[(Some(b"x"), None)])]);
    let open_bytes = |bytes: &[u8]| {
        let source = Arc::new(MemorySource::new([("t.arrow", bytes.to_vec())]));
        open(&Target::Objects(source, vec!["t.arrow".to_owned()]), &ReadingOptions::default())
    };
    assert!(open_bytes(&whole).unwrap().problems().is_empty());
    assert_eq!(open_bytes(&whole[..whole.len() - 8]).unwrap().problems().len(), 1);
}

#[test]
fn damaged_fixtures_are_read_or_refused() {
    for name in ["types.arrows", "types-zstd.arrows", "types-lz4.arrows", "types.arrow"] {
        let whole = fs::read(testdata("arrow").join(name)).unwrap();
        let mut damaged = whole.clone();
        // Testing every byte takes a minute; the four files are similar, and different bytes are changed in each.
        for at in (name.len() % 11..whole.len()).step_by(11) {
            damaged[at] ^= 1 << (at % 8) | 0x80;
            read_everything(&damaged);
            damaged[at] = whole[at];
        }
    }
}

fn read_everything(bytes: &[u8]) {
    let source = Arc::new(MemorySource::new([("t.arrow", bytes.to_vec())]));
    let Ok(format) = open(&Target::Objects(source, vec!["t.arrow".to_owned()]), &ReadingOptions::default())
    else {
        return;
    };
    let fields = format.schema().fields.len();
    let mut buffer = SampleBuffer::new();
    for sample in 0..format.len().min(10) {
        for field in 0..fields {
            let _ = format.read(sample, &FieldSet::only(fields, [field]), &mut buffer);
            let _ = format.byte_length(sample, field);
        }
    }
}
