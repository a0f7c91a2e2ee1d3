use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use crate::format::conformance;
use crate::sample::{FieldSet, SampleBuffer, Value};
use crate::source::{LocalSource, MemorySource};

/// How a test's zip is written.
#[derive(Clone, Copy, Default)]
struct Writing {
    deflate: bool,
    wide: bool,
    flags: u16,
    method: Option<u16>,
}

/// A zip file of these members.
fn zip(members: &[(&str, &[u8])], how: Writing) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let packed = if how.deflate {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        } else {
            bytes.to_vec()
        };
        let method = how.method.unwrap_or(if how.deflate { 8 } else { 0 });
        let header = file.len() as u64;
        let mut shared = Vec::new();
        for half in [20u16, how.flags | 0x800, method, 0, 0] {
            shared.extend(half.to_le_bytes());
        }
        shared.extend(crc32fast::hash(bytes).to_le_bytes());
        let short = |number: u64| if how.wide { u32::MAX } else { number as u32 };
        shared.extend(short(packed.len() as u64).to_le_bytes());
        shared.extend(short(bytes.len() as u64).to_le_bytes());
        shared.extend((name.len() as u16).to_le_bytes());
        file.extend(b"PK\x03\x04");
        file.extend(&shared);
        file.extend(3u16.to_le_bytes());
        file.extend(name.as_bytes());
        file.extend([0xAA; 3]);
        file.extend(&packed);
        let wide: Vec<u8> = [bytes.len() as u64, packed.len() as u64, header]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let extra: Vec<u8> = if how.wide { [&[1, 0, 24, 0][..], &wide].concat() } else { Vec::new() };
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&shared);
        list.extend((extra.len() as u16).to_le_bytes());
        list.extend([0; 10]);
        list.extend(short(header).to_le_bytes());
        list.extend(name.as_bytes());
        list.extend(&extra);
    }
    let (start, length, count) = (file.len() as u64, list.len() as u64, members.len() as u64);
    file.extend(&list);
    if how.wide {
        let at = file.len() as u64;
        file.extend(b"PK\x06\x06");
        file.extend(44u64.to_le_bytes());
        file.extend([0; 12]);
        for number in [count, count, length, start] {
            file.extend(number.to_le_bytes());
        }
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend(at.to_le_bytes());
        file.extend(1u32.to_le_bytes());
    }
    let narrow = |number: u64| if how.wide { u32::MAX } else { number as u32 };
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([narrow(count) as u16, narrow(count) as u16].map(u16::to_le_bytes).concat());
    file.extend(narrow(length).to_le_bytes());
    file.extend(narrow(start).to_le_bytes());
    file.extend(2u16.to_le_bytes());
    file.extend(b"hi");
    file
}

struct Zip(Writing);

impl conformance::Subject for Zip {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let names: Vec<String> = images.iter().map(|(name, _)| format!("class/{name}.jpg")).collect();
        let members: Vec<(&str, &[u8])> =
            names.iter().zip(images).map(|(name, (_, bytes))| (name.as_str(), &bytes[..])).collect();
        fs::write(folder.join("images.zip"), zip(&members, self.0)).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let source: Arc<dyn Source> = Arc::new(LocalSource::new(folder));
        open(&Target::Objects(source, vec!["images.zip".to_owned()]), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn stored_conforms() {
    conformance::check(&Zip(Writing::default()));
}

#[test]
fn deflated_conforms() {
    conformance::check(&Zip(Writing { deflate: true, ..Writing::default() }));
}

#[test]
fn the_64_bit_form_conforms() {
    conformance::check(&Zip(Writing { wide: true, deflate: true, ..Writing::default() }));
}

fn opened(bytes: Vec<u8>) -> Result<Arc<dyn Format>> {
    let source: Arc<dyn Source> = Arc::new(MemorySource::new([("x.zip", bytes)]));
    open(&Target::Objects(source, vec!["x.zip".to_owned()]), &ReadingOptions::default())
}

fn paths(format: &dyn Format) -> Vec<String> {
    let field = format.schema().position("path").unwrap();
    let mut buffer = SampleBuffer::new();
    let mut path = |sample| {
        format.read(sample, &FieldSet::all(format.schema().fields.len()), &mut buffer).unwrap();
        let Value::Bytes(range) = buffer.value(field) else { panic!("a path expected") };
        String::from_utf8(buffer.bytes(range).to_vec()).unwrap()
    };
    (0..format.len()).map(&mut path).collect()
}

#[test]
fn a_folder_around_everything_is_not_a_class() {
    let members: [(&str, &[u8]); 5] = [
        ("data/", b""),
        ("data/dog/1.jpg", b"1"),
        ("data/cat/2.jpg", b"2"),
        ("__MACOSX/data/cat/._2.jpg", b"x"),
        ("data/cat/._2.jpg", b"x"),
    ];
    let format = opened(zip(&members, Writing::default())).unwrap();
    assert_eq!(format.schema().classes.as_deref().unwrap(), ["cat", "dog"]);
    assert_eq!(paths(&*format), ["cat/2.jpg", "dog/1.jpg"]);
    assert_eq!(format.name(), "zip");
    // Without folders inside, it is like a flat folder.
    let flat = opened(zip(&[("cat/1.jpg", b"1")], Writing::default())).unwrap();
    assert_eq!(flat.schema().classes.as_deref().unwrap(), ["cat"]);
}

#[test]
fn bytes_before_the_zip_are_skipped() {
    let file = [&b"#!/bin/sh\n"[..], &zip(&[("a.jpg", b"1")], Writing::default())].concat();
    assert_eq!(paths(&*opened(file).unwrap()), ["a.jpg"]);
}

#[test]
fn encrypted_and_unsupported_members_are_refused_by_name() {
    let secret = Writing { flags: 1, ..Writing::default() };
    let message = opened(zip(&[("a/b.jpg", b"1")], secret)).unwrap_err().to_string();
    assert!(message.contains("'a/b.jpg' is encrypted") && message.contains("hint:"), "{message}");
    let strange = Writing { method: Some(14), ..Writing::default() };
    let message = opened(zip(&[("a/b.jpg", b"1")], strange)).unwrap_err().to_string();
    assert!(message.contains("'a/b.jpg'") && message.contains("method 14"), "{message}");
    // A plain member is accepted.
    assert!(opened(zip(&[("a.jpg", b"1")], Writing::default())).is_ok());
}

#[test]
fn a_member_too_large_for_its_bytes_is_refused() {
    let mut bomb = zip(&[("a.jpg", b"1")], Writing { deflate: true, ..Writing::default() });
    let at = bomb.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
    bomb[at + 24..at + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let message = opened(bomb).unwrap_err().to_string();
    assert!(message.contains("cannot have 2147483647 bytes"), "{message}");
}
