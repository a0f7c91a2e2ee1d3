use std::path::{Path, PathBuf};

use super::*;
use crate::sample::{DType, Kind, Value};
use crate::source::LocalSource;

const ROWS: u64 = 5;

fn recorded() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../testdata/formats/hdf5"].iter().collect()
}

fn open_files(folder: &Path, names: &[&str], options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let source = Arc::new(LocalSource::new(folder.to_path_buf()));
    let target = Target::Objects(source, names.iter().map(|name| (*name).to_owned()).collect());
    assert!(recognises(&target)?.is_some() || !folder.starts_with(recorded()));
    open(&target, options)
}

fn read(format: &dyn Format, sample: u64, buffer: &mut SampleBuffer) -> Result<()> {
    format.read(sample, &FieldSet::all(format.schema().fields.len()), buffer)
}

fn bytes<'a>(format: &dyn Format, buffer: &'a SampleBuffer, name: &str) -> &'a [u8] {
    match buffer.value(format.schema().position(name).unwrap()) {
        Value::Bytes(range) | Value::Array { bytes: range, .. } | Value::Image { bytes: range, .. } => {
            buffer.bytes(range)
        }
        other => panic!("{name} is {other:?}"),
    }
}

fn check_row(format: &dyn Format, sample: u64) {
    let mut buffer = SampleBuffer::new();
    read(format, sample, &mut buffer).unwrap();
    let row = sample % ROWS;
    let value = |name: &str| buffer.value(format.schema().position(name).unwrap()).clone();
    let pixels: Vec<u8> = (0..72).map(|n| (row * 72 + n) as u8).collect();
    assert_eq!(bytes(format, &buffer, "pixels"), pixels);
    let floats: Vec<u8> = pixels.iter().flat_map(|pixel| f32::from(*pixel).to_le_bytes()).collect();
    assert_eq!(bytes(format, &buffer, "packed"), floats);
    assert_eq!(value("label"), Value::Int(row as i64 * 3 - 4));
    assert_eq!(value("weight"), Value::Float(row as f64 / 4.0));
    assert_eq!(value("flag"), Value::Int(row as i64 % 2));
    assert_eq!(value("unsigned"), Value::Int((1 << 62) + row as i64));
    assert_eq!(value("grown"), Value::Int(row as i64));
    assert_eq!(value("group/inner"), Value::Int(row as i64 * 2));
    let big: Vec<u8> = (0..3).flat_map(|n| (row as i16 * 1000 + n).to_le_bytes()).collect();
    assert_eq!(bytes(format, &buffer, "big"), big);
    assert_eq!(bytes(format, &buffer, "empty"), [1.5f32.to_le_bytes(); 2].concat());
    assert_eq!(bytes(format, &buffer, "text"), format!("{}{row}", "é".repeat(row as usize)).as_bytes());
    assert_eq!(bytes(format, &buffer, "fixed"), format!("f{row}").as_bytes());
    assert_eq!(bytes(format, &buffer, "file"), std::fs::read(recorded().join("../litdata/a.jpg")).unwrap());
    let list: Vec<u8> = (0..row as i16).flat_map(|n| (n - 1).to_le_bytes()).collect();
    assert_eq!(bytes(format, &buffer, "list"), list);
    assert!(matches!(value("half"), Value::Array { dtype: DType::F16, .. }));
}

#[test]
fn every_kind_that_h5py_wrote_is_read() {
    for name in ["all.h5", "latest.h5"] {
        let format = open_files(&recorded(), &[name], &ReadingOptions::default()).unwrap();
        assert_eq!(format.len(), ROWS);
        for sample in [4, 0, 2, 1, 3] {
            check_row(&*format, sample);
        }
        let label = format.schema().position("label").unwrap();
        assert_eq!(format.int_value(3, label), Some(5));
        let kind = |name: &str| format.schema().fields[format.schema().position(name).unwrap()].kind;
        assert_eq!((kind("file"), kind("text"), kind("flag")), (Kind::Image, Kind::Text, Kind::Int));
        let found: Vec<String> = format.problems().iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|t| t.contains("record") && t.contains("compound")), "{found:?}");
        assert!(found.iter().any(|t| t.contains("single")), "{found:?}");
        assert!(found.iter().any(|t| t.contains("lzf-is-not-read") && t.contains("32000")), "{found:?}");
        assert!(read(&*format, ROWS, &mut SampleBuffer::new()).is_err());
    }
}

#[test]
fn files_are_concatenated_and_threads_read_in_parallel() {
    let format = open_files(&recorded(), &["all.h5", "latest.h5"], &ReadingOptions::default()).unwrap();
    assert_eq!(format.len(), 2 * ROWS);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let format = &format;
            scope.spawn(move || (0..20).for_each(|n| check_row(&**format, (thread + n * 3) % 10)));
        }
    });
    assert_eq!(format.locate(7).shard.as_deref(), Some("latest.h5"));
    let message = open_files(&recorded(), &["all.h5", "split.h5"], &ReadingOptions::default()).unwrap_err();
    assert!(message.to_string().contains("rows"), "{message}");
}

#[test]
fn parts_are_chosen_and_the_schema_makes_images() {
    let plain = ReadingOptions::default();
    let message = open_files(&recorded(), &["split.h5"], &plain).unwrap_err().to_string();
    assert!(message.contains("train/x (4)") && message.contains("test/x (2)"), "{message}");
    let schema = [("x".to_owned(), Kind::Image)].into_iter().collect();
    let options = ReadingOptions { split: Some("train".to_owned()), schema, ..plain };
    let format = open_files(&recorded(), &["split.h5"], &options).unwrap();
    assert_eq!(format.len(), 4);
    let names: Vec<&str> = format.schema().fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(format.image_meta(0, 0).map(|meta| (meta.width, meta.height)), Some((6, 4)));
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.h5");
    let mut buffer = SampleBuffer::new();
    for name in ["all.h5", "latest.h5"] {
        let content = std::fs::read(recorded().join(name)).unwrap();
        let mut look = |bytes: &[u8]| {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, bytes).unwrap();
            if let Ok(format) = open_files(folder.path(), &["x.h5"], &ReadingOptions::default()) {
                for sample in 0..format.len().min(ROWS) {
                    let _ = read(&*format, sample, &mut buffer);
                }
            }
        };
        for at in (0..content.len()).step_by(41) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            look(&damaged);
        }
        for length in (0..content.len()).step_by(997) {
            look(&content[..length]);
        }
        for at in (0..content.len().saturating_sub(8)).step_by(328) {
            let mut damaged = content.clone();
            damaged[at..at + 8].fill(0xff);
            look(&damaged);
        }
    }
}
