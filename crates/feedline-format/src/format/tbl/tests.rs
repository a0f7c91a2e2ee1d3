//! Files by TurboLoader's own writer, the conformance suite, and corrupt files.

use crate::format::Index as _;
use std::fs;
use std::path::Path;

use super::*;
use crate::format::conformance;
use crate::source::{LocalSource, MemorySource};

fn open_bytes(bytes: Vec<u8>) -> Result<Tbl> {
    Tbl::open(Arc::new(MemorySource::new([("a.tbl", bytes)])), "a.tbl")
}

/// Written by `testdata/formats/tbl/make.py`.
fn recorded(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/tbl").join(name)).unwrap()
}

#[test]
fn reads_what_turboloader_wrote() {
    let (plain, packed) =
        (open_bytes(recorded("plain.tbl")).unwrap(), open_bytes(recorded("lz4.tbl")).unwrap());
    let fields = [
        FieldSpec::new("image", Kind::Image),
        FieldSpec::new("metadata", Kind::Json).optional(true),
        FieldSpec::new("label", Kind::Int).optional(true),
    ];
    assert_eq!((plain.schema(), &plain.schema().fields[..], plain.len()), (packed.schema(), &fields[..], 4));
    let (mut one, mut other) = (SampleBuffer::new(), SampleBuffer::new());
    for sample in 0..4u32 {
        plain.read(u64::from(sample), &FieldSet::all(3), &mut one).unwrap();
        packed.read(u64::from(sample), &FieldSet::all(3), &mut other).unwrap();
        let Value::Image { bytes, meta, .. } = one.value(0) else { panic!("an image") };
        let Value::Image { bytes: again, .. } = other.value(0) else { panic!("an image") };
        assert_eq!(one.bytes(bytes), other.bytes(again));
        if sample == 3 {
            assert_eq!((one.bytes(bytes), meta.encoding, meta.width), (&[0; 60][..], ImageEncoding::Rgb, 5));
            assert_eq!(one.values()[1..], [Value::Missing, Value::Missing]);
            continue;
        }
        assert!(one.bytes(bytes).starts_with(&[0xff, 0xd8]) && one.bytes(bytes).ends_with(&[0xff, 0xd9]));
        assert_eq!((meta.width, meta.height, meta.orientation), (60 + sample, 40 + sample, 0));
        assert_eq!(*one.value(2), Value::Int(i64::from(sample)));
        assert_eq!(packed.int_value(u64::from(sample), 2), Some(i64::from(sample)));
        let Value::Bytes(text) = one.value(1) else { panic!("metadata") };
        assert_eq!(one.bytes(text), format!("{{\"label\": {sample}}}").as_bytes());
        let mut room = vec![0; packed.byte_length(u64::from(sample), 0).unwrap() as usize];
        packed.read_bytes(u64::from(sample), 0, &mut room).unwrap();
        assert_eq!(room, one.bytes(bytes));
    }
}

#[test]
fn damaged_payloads_are_noticed() {
    for (name, at) in [("plain.tbl", 500), ("lz4.tbl", 300)] {
        let mut bytes = recorded(name);
        bytes[at] ^= 4;
        let read = open_bytes(bytes).unwrap().read(0, &FieldSet::all(3), &mut SampleBuffer::new());
        let message = read.unwrap_err().to_string();
        assert!(message.contains("sample 0") && message.contains("a.tbl"), "{message}");
    }
}

/// A file like those of TurboLoader.
fn file(images: &[(String, Vec<u8>)], compress: bool) -> Vec<u8> {
    let (mut entries, mut data, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
    let start = HEADER + ENTRY * images.len();
    for (sample, (_, bytes)) in images.iter().enumerate() {
        let packed = lz4_flex::block::compress(bytes);
        let smaller = compress && packed.len() < bytes.len();
        let stored = if smaller { &packed } else { bytes };
        entries.extend_from_slice(&((start + data.len()) as u64).to_le_bytes());
        entries.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        entries.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        entries.extend_from_slice(&[3, 0, 2, 0, 1, 2 | u8::from(smaller)]);
        entries.extend_from_slice(&crc::crc16(bytes).to_le_bytes());
        data.extend_from_slice(stored);
        let text = format!("{{\"label\": {sample}}}");
        metadata.extend_from_slice(&(sample as u64).to_le_bytes());
        metadata.extend_from_slice(&(text.len() as u32).to_le_bytes());
        metadata.extend_from_slice(&[1, 0, 0, 0]);
        metadata.extend_from_slice(text.as_bytes());
    }
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(MAGIC);
    header[4] = 2;
    header[8..16].copy_from_slice(&(images.len() as u64).to_le_bytes());
    header[16..20].copy_from_slice(&(start as u32).to_le_bytes());
    header[24..32].copy_from_slice(&((start + data.len()) as u64).to_le_bytes());
    header[32..40].copy_from_slice(&(metadata.len() as u64).to_le_bytes());
    header[40] = 7;
    seal(&mut header);
    [&header[..], &entries, &data, &metadata].concat()
}

fn seal(file: &mut [u8]) {
    file[44..48].fill(0);
    let crc = crc32fast::hash(&file[..HEADER]);
    file[44..48].copy_from_slice(&crc.to_le_bytes());
}

struct Subject;

impl conformance::Subject for Subject {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        fs::write(folder.join("a.tbl"), file(images, true)).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let target = Target::Folder(Arc::new(LocalSource::new(folder)));
        open(&target, &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn conforms() {
    conformance::check(&Subject);
}

#[test]
fn is_recognised_by_its_first_bytes() {
    let seen = |bytes: &[u8]| {
        let source = MemorySource::new([("data", bytes)]);
        recognises(&Target::Objects(Arc::new(source), vec!["data".to_owned()])).unwrap().is_some()
    };
    assert!(seen(&recorded("plain.tbl")) && !seen(b"TBL\x02") && !seen(&[0; 100]));
}

/// Impossible numbers with a right checksum are refused, and never take more memory than the file justifies.
#[test]
fn impossible_numbers_are_refused() {
    let good = file(&[("a".to_owned(), vec![5; 400])], true);
    for (at, width) in [
        (8, 8),
        (16, 4),
        (24, 8),
        (32, 8),
        (64, 8),
        (72, 4),
        (76, 4),
        (good.len() - 28, 8),
        (good.len() - 20, 4),
    ] {
        for value in [u64::MAX, 1 << 31, good.len() as u64 + 1] {
            let mut bytes = good.clone();
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            seal(&mut bytes);
            let read = open_bytes(bytes).and_then(|t| t.read(0, &FieldSet::all(3), &mut SampleBuffer::new()));
            assert!(read.is_err(), "byte {at} = {value}");
        }
    }
    let mut bytes = good;
    bytes[40] = 6;
    let message = open_bytes(bytes).unwrap_err().to_string();
    assert!(message.contains("checksum"), "{message}");
}

#[test]
fn videos_are_bytes_and_the_last_metadata_count() {
    let mut bytes = file(&[("a".to_owned(), vec![5; 9]), ("b".to_owned(), vec![6; 9])], false);
    bytes[HEADER + 20] = 6;
    let second = bytes.len() - 28;
    bytes[second..second + 8].fill(0);
    let tbl = open_bytes(bytes).unwrap();
    assert_eq!((tbl.schema().fields[0].name.as_str(), tbl.schema().fields[0].kind), ("data", Kind::Bytes));
    assert_eq!((tbl.int_value(0, 2), tbl.int_value(1, 2)), (Some(1), None));
}
