use std::path::PathBuf;

use super::*;
use crate::sample::DType;
use crate::source::{LocalSource, Target};

fn recorded(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../testdata/formats/zarr", name].iter().collect()
}

fn open_with(path: PathBuf, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let target = Target::Folder(Arc::new(LocalSource::new(path)));
    assert!(recognises(&target).unwrap().is_some());
    open(&target, options)
}

fn read(format: &dyn Format, sample: u64, buffer: &mut SampleBuffer) -> Result<()> {
    format.read(sample, &FieldSet::all(format.schema().fields.len()), buffer)
}

/// A field's numbers, of any type.
fn numbers(buffer: &SampleBuffer, field: usize) -> Vec<f64> {
    match buffer.value(field) {
        Value::Int(number) => vec![*number as f64],
        Value::Array { dtype, bytes, .. } => {
            let number = |bytes: &[u8]| match dtype {
                DType::F32 => f64::from(f32::from_le_bytes(bytes.try_into().unwrap())),
                DType::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
                DType::F16 => f64::from(u16::from_le_bytes(bytes.try_into().unwrap())),
                _ => bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) as f64,
            };
            buffer.bytes(bytes).chunks_exact(dtype.size()).map(number).collect()
        }
        other => panic!("numbers expected, not {other:?}"),
    }
}

/// Every array of `name` that has rows of `sides`, compared with `arange`.
fn check_numbers(name: &str, rows: u64, row: usize) -> (Arc<dyn Format>, Vec<String>) {
    let format = open_with(recorded(name), &ReadingOptions::default()).unwrap();
    assert_eq!(format.len(), rows);
    let mut buffer = SampleBuffer::new();
    let mut checked = Vec::new();
    for sample in (0..rows).rev() {
        read(&*format, sample, &mut buffer).unwrap();
        for (field, spec) in format.schema().fields.iter().enumerate() {
            if ["half", "text", "label"].contains(&spec.name.as_str()) {
                continue;
            }
            let wrap = if ["deep/dots", "slashes"].contains(&spec.name.as_str()) { 256 } else { 1 << 32 };
            let expected = (0..row).map(|n| ((sample as usize * row + n) % wrap) as f64);
            assert_eq!(numbers(&buffer, field), expected.collect::<Vec<_>>(), "{} {sample}", spec.name);
            checked.push(spec.name.clone());
        }
    }
    (format, checked)
}

#[test]
fn version_3_with_every_codec() {
    let (format, mut checked) = check_numbers("v3", 7, 30);
    checked.sort();
    checked.dedup();
    let names = ["big", "blosc", "deep/dots", "plain", "shards", "start", "sum", "turned", "zstd"];
    assert_eq!(checked, names);
    assert!(format.problems().is_empty(), "{:?}", format.problems());
    let field = |name: &str| format.schema().position(name).unwrap();
    let mut buffer = SampleBuffer::new();
    for sample in 0..7 {
        read(&*format, sample, &mut buffer).unwrap();
        assert_eq!(*buffer.value(field("label")), Value::Int(sample as i64 * 3));
        let Value::Bytes(text) = buffer.value(field("text")) else { panic!("a text expected") };
        assert_eq!(buffer.bytes(text), "é".repeat(sample as usize).as_bytes());
        // 1.5 where nothing was written, 2 in rows 2 and 3.
        let half = if (2..4).contains(&sample) { 0x4000 } else { 0x3e00 };
        assert_eq!(numbers(&buffer, field("half")), [f64::from(half); 4], "{sample}");
    }
    assert!(read(&*format, 7, &mut buffer).is_err());
}

#[test]
fn version_2_with_every_codec() {
    let (format, mut checked) = check_numbers("v2", 7, 30);
    checked.sort();
    checked.dedup();
    assert_eq!(checked, ["blosc", "bz2", "gzip", "lz4", "plain", "slashes", "turned", "usual", "zlib"]);
    let problem = format.problems()[0].to_string();
    assert!(problem.contains("delta-is-not-read") && problem.contains("delta"), "{problem}");
}

#[test]
fn every_kind_of_blosc() {
    let (_, mut checked) = check_numbers("large", 16, 33 * 7);
    checked.dedup();
    assert_eq!(checked.len(), 15 * 16);
}

#[test]
fn a_single_array_may_hold_images() {
    let schema = [("array".to_owned(), Kind::Image)].into_iter().collect();
    let format = open_with(recorded("one"), &ReadingOptions { schema, ..ReadingOptions::default() }).unwrap();
    assert_eq!((format.len(), format.image_meta(0, 0).unwrap().width), (3, 2));
    let mut buffer = SampleBuffer::new();
    read(&*format, 1, &mut buffer).unwrap();
    let Value::Image { bytes, .. } = buffer.value(0) else { panic!("an image expected") };
    assert_eq!(buffer.bytes(bytes), (12..24).collect::<Vec<u8>>());
    assert_eq!(format.locate(1).shard.as_deref(), Some("c/1/0/0/0"));
    let mut extents = Vec::new();
    format.extents(2, &FieldSet::all(1), &mut extents);
    assert_eq!(format.object(extents[0].object).unwrap().1, "c/2/0/0/0");
}

fn copy_of(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut todo = vec![PathBuf::new()];
    while let Some(below) = todo.pop() {
        std::fs::create_dir_all(folder.path().join(&below)).unwrap();
        for entry in std::fs::read_dir(recorded(name).join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                todo.push(path);
            } else {
                std::fs::copy(entry.path(), folder.path().join(path)).unwrap();
            }
        }
    }
    folder
}

fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let source = LocalSource::new(folder.to_path_buf());
    source.list("").unwrap().entries.into_iter().map(|entry| folder.join(entry.name)).collect()
}

#[test]
fn damage_is_refused_by_checksums_and_never_panics() {
    let folder = copy_of("v3");
    let mut buffer = SampleBuffer::new();
    // One chunk, and the description, of every array.
    let first = |path: &PathBuf| path.ends_with("zarr.json") || path.to_string_lossy().ends_with('0');
    for path in files(folder.path()).into_iter().filter(first) {
        let content = std::fs::read(&path).unwrap();
        let text = path.ends_with("zarr.json");
        for at in (0..content.len()).step_by(if text { 29 } else { 7 }) {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(&path, &damaged).unwrap();
            let Ok(format) = open_with(folder.path().to_path_buf(), &ReadingOptions::default()) else {
                continue;
            };
            let read = (0..format.len().min(7)).try_for_each(|sample| read(&*format, sample, &mut buffer));
            let checked = path.components().any(|part| part.as_os_str() == "sum");
            assert!(!checked || text || read.is_err(), "{} byte {at}", path.display());
        }
        for length in (0..content.len()).step_by(53) {
            std::fs::write(&path, &content[..length]).unwrap();
            if let Ok(format) = open_with(folder.path().to_path_buf(), &ReadingOptions::default()) {
                let _ = (0..format.len().min(7)).try_for_each(|sample| read(&*format, sample, &mut buffer));
            }
        }
        std::fs::write(&path, &content).unwrap();
    }
}

#[test]
fn changes_are_noticed_and_unsupported_arrays_named() {
    let folder = copy_of("one");
    let before = open_with(folder.path().to_path_buf(), &ReadingOptions::default()).unwrap();
    let chunk = folder.path().join("c/0/0/0/0");
    let content = std::fs::read(&chunk).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::write(&chunk, &content).unwrap();
    std::fs::File::options().write(true).open(&chunk).unwrap().set_modified(later).unwrap();
    let message = read(&*before, 0, &mut SampleBuffer::new()).unwrap_err().to_string();
    assert!(message.contains("changed since"), "{message}");
    let after = open_with(folder.path().to_path_buf(), &ReadingOptions::default()).unwrap();
    assert_ne!(after.fingerprint(), before.fingerprint());
    let text = std::fs::read_to_string(folder.path().join("zarr.json")).unwrap();
    for (old, new, reason) in [("uint8", "complex64", "complex64"), ("\"zstd\"", "\"pcodec\"", "pcodec")] {
        std::fs::write(folder.path().join("zarr.json"), text.replace(old, new)).unwrap();
        let message =
            open_with(folder.path().to_path_buf(), &ReadingOptions::default()).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
}
