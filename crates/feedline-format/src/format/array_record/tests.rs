use std::path::{Path, PathBuf};

use super::*;
use crate::source::LocalSource;

fn recorded() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../testdata/formats/array_record"].iter().collect()
}

/// A recorded file. Padding is nearly all of its 128 KiB and is not in the repository.
fn unpack(name: &str, folder: &Path) -> String {
    let packed = std::fs::read(recorded().join(format!("{name}.zst"))).unwrap();
    std::fs::write(folder.join(name), zstd::decode_all(&packed[..]).unwrap()).unwrap();
    name.to_owned()
}

fn open_files(folder: &Path, names: Vec<String>) -> Result<Arc<dyn Format>> {
    let target = Target::Objects(Arc::new(LocalSource::new(folder.to_path_buf())), names);
    open(&target, &ReadingOptions::default())
}

fn record(format: &dyn Format, sample: u64) -> Result<Vec<u8>> {
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(format.schema().fields.len()), &mut buffer)?;
    let (Value::Bytes(range) | Value::Image { bytes: range, .. }) = buffer.value(0) else {
        panic!("bytes expected")
    };
    Ok(buffer.bytes(range).to_vec())
}

fn expected(sample: usize) -> Vec<u8> {
    let padding = if sample == 3 { 70_000 } else { 20 * sample };
    [format!("record {sample} ").as_bytes(), &vec![b'x'; padding]].concat()
}

const PLAIN: [&str; 5] = ["single", "group", "brotli", "snappy", "blocks"];

#[test]
fn every_compression_and_group_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for name in PLAIN {
        let name = unpack(&format!("{name}.array_record"), folder.path());
        let format = open_files(folder.path(), vec![name.clone()]).unwrap();
        assert_eq!((format.len(), format.schema().fields[0].name.as_str()), (7, "data"), "{name}");
        for sample in [6, 0, 3, 1, 2, 5, 4] {
            assert_eq!(record(&*format, sample).unwrap(), expected(sample as usize), "{name} {sample}");
        }
        assert!(record(&*format, 7).is_err());
        names.push(name);
    }
    let target = Target::Folder(Arc::new(LocalSource::new(folder.path().to_path_buf())));
    assert_eq!(recognises(&target).unwrap().as_deref(), Some("5 ArrayRecord files"));
    let all = open_files(folder.path(), names).unwrap();
    assert_eq!((all.len(), record(&*all, 9).unwrap()), (35, expected(2)));
    let mut extents = Vec::new();
    all.extents(9, &FieldSet::all(1), &mut extents);
    assert_eq!(extents[0].object, 1);
}

#[test]
fn examples_become_fields() {
    let folder = tempfile::tempdir().unwrap();
    let name = unpack("examples.array_record", folder.path());
    let format = open_files(folder.path(), vec![name]).unwrap();
    let names: Vec<&str> = format.schema().fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!((names, format.len()), (vec!["label", "text"], 3));
    let mut buffer = SampleBuffer::new();
    format.read(2, &FieldSet::all(2), &mut buffer).unwrap();
    assert_eq!(*buffer.value(0), Value::Int(2));
    let Value::Bytes(text) = buffer.value(1) else { panic!("a text expected") };
    assert_eq!(buffer.bytes(text), b"sample 2");
}

#[test]
fn transposed_records_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = unpack("transposed.array_record", folder.path());
    let message = open_files(folder.path(), vec![name]).unwrap_err().to_string();
    assert!(message.contains("transposed") && message.contains("transpose:false"), "{message}");
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let name = unpack("group.array_record", folder.path());
    let path = folder.path().join(&name);
    let content = std::fs::read(&path).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap();
    // The padding between the footer and the last block is not checked.
    let parts = (24..1200).chain(content.len() - BLOCK_OF_POSTSCRIPT..used);
    for at in parts {
        let mut damaged = content.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &damaged).unwrap();
        let Ok(format) = open_files(folder.path(), vec![name.clone()]) else { continue };
        for sample in 0..7 {
            if let Ok(found) = record(&*format, sample) {
                assert_eq!(found, expected(sample as usize), "byte {at}");
            }
        }
    }
    for length in (0..content.len()).step_by(4001) {
        std::fs::write(&path, &content[..length]).unwrap();
        let message = open_files(folder.path(), vec![name.clone()]).unwrap_err().to_string();
        assert!(message.contains("not closed"), "{message}");
    }
}

const BLOCK_OF_POSTSCRIPT: usize = 1 << 16;

#[test]
fn another_layout_of_the_files_is_other_data() {
    let folder = tempfile::tempdir().unwrap();
    let prints: Vec<Fingerprint> = ["single", "group"]
        .iter()
        .map(|name| {
            let name = unpack(&format!("{name}.array_record"), folder.path());
            let file = std::fs::File::options().write(true).open(folder.path().join(&name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
            open_files(folder.path(), vec![name]).unwrap().fingerprint()
        })
        .collect();
    assert_ne!(prints[0], prints[1]);
}
