//! Tests of the whole format.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::*;
use crate::format::conformance;
use crate::sample::{FieldSet, Kind, SampleBuffer, Value};
use crate::source::{LocalSource, MemorySource};

/// A ustar header like those of Python's tarfile.
fn header(name: &str, size: usize) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = b'0';
    block[257..263].copy_from_slice(b"ustar\0");
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn add(tar: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    tar.extend_from_slice(&header(name, bytes.len()));
    tar.extend_from_slice(bytes);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, bytes) in members {
        add(&mut tar, name, bytes);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn pack(packing: Option<Packing>, tar: &[u8]) -> Vec<u8> {
    match packing {
        None => tar.to_vec(),
        Some(Packing::Gzip) => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(tar).unwrap();
            encoder.finish().unwrap()
        }
        Some(Packing::Zstd) => zstd::stream::encode_all(tar, 1).unwrap(),
        Some(Packing::Bzip2) => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(tar).unwrap();
            encoder.finish().unwrap()
        }
        Some(Packing::Xz) => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
            encoder.write_all(tar).unwrap();
            encoder.finish().unwrap()
        }
    }
}

struct Tar(Option<Packing>);

impl conformance::Subject for Tar {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let mut tar = Vec::new();
        for (name, bytes) in images {
            add(&mut tar, &format!("{name}.jpg"), bytes);
            add(&mut tar, &format!("{name}.cls"), b"3");
        }
        tar.resize(tar.len() + 1024, 0);
        let name = if self.0.is_some() { "a.tar.gz" } else { "a.tar" };
        fs::write(folder.join(name), pack(self.0, &tar)).unwrap();
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
    conformance::check(&Tar(None));
}

#[test]
fn gzip_conforms() {
    conformance::check(&Tar(Some(Packing::Gzip)));
}

#[test]
fn zstd_conforms() {
    conformance::check(&Tar(Some(Packing::Zstd)));
}

#[test]
fn bzip2_conforms() {
    conformance::check(&Tar(Some(Packing::Bzip2)));
}

#[test]
fn xz_conforms() {
    conformance::check(&Tar(Some(Packing::Xz)));
}

fn open_memory(objects: Vec<(&str, Vec<u8>)>) -> Result<Arc<dyn Format>> {
    open(&Target::Folder(Arc::new(MemorySource::new(objects))), &ReadingOptions::default())
}

fn open_bytes(tar: Vec<u8>) -> Result<Arc<dyn Format>> {
    open_memory(vec![("a.tar", tar)])
}

fn read(format: &dyn Format, sample: u64, name: &str) -> Result<(Value, Vec<u8>)> {
    let field = format.schema().position(name).unwrap();
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::only(format.schema().fields.len(), [field]), &mut buffer)?;
    let value = buffer.value(field).clone();
    let bytes = match &value {
        Value::Bytes(range) | Value::Image { bytes: range, .. } | Value::Array { bytes: range, .. } => {
            buffer.bytes(range).to_vec()
        }
        _ => Vec::new(),
    };
    Ok((value, bytes))
}

#[test]
fn a_missing_end_is_a_warning_and_a_truncated_member_an_error() {
    let mut tar = Vec::new();
    add(&mut tar, "a.jpg", b"x");
    let open = open_bytes(tar.clone()).unwrap();
    assert_eq!((open.len(), open.problems().len()), (1, 1));
    let message = open_bytes(tar[..512].to_vec()).unwrap_err().to_string();
    assert!(message.contains("a.tar") && message.contains("truncated"), "{message}");
    let mut bad = tar.clone();
    add(&mut bad, "b.jpg", b"y");
    bad[1024] ^= 1;
    let message = open_bytes(bad).unwrap_err().to_string();
    assert!(message.contains("byte 1024"), "{message}");
}

#[test]
fn the_same_suffix_twice_is_refused() {
    assert!(
        open_bytes(tar_of(&[("a.jpg", b"x"), ("a.JPG", b"y")])).unwrap_err().to_string().contains("twice")
    );
}

#[test]
fn base_256_sizes_are_read() {
    let mut tar = tar_of(&[("a.jpg", b"xyz")]);
    tar[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    tar[148..156].copy_from_slice(b"        ");
    let sum: u32 = tar[..512].iter().map(|b| u32::from(*b)).sum();
    tar[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    assert_eq!(open_bytes(tar).unwrap().byte_length(0, 1), Some(3));
}

#[test]
fn labels_are_known_without_reading() {
    let tar = tar_of(&[("a.cls", b" 7\n"), ("b.cls", b"cat"), ("c.cls", b"-1")]);
    for packing in [None, Some(Packing::Gzip)] {
        let set = open_bytes(pack(packing, &tar)).unwrap();
        assert_eq!([0, 1, 2].map(|sample| set.int_value(sample, 1)), [Some(7), None, Some(-1)]);
        assert_eq!(read(&*set, 2, "cls").unwrap().0, Value::Int(-1));
        let message = read(&*set, 1, "cls").unwrap_err().to_string();
        assert!(message.contains("sample 1") && message.contains("'cat'"), "{message}");
        let mut extents = Vec::new();
        for sample in 0..3 {
            set.extents(sample, &FieldSet::all(2), &mut extents);
        }
        assert_eq!(extents.len(), usize::from(packing.is_none()));
    }
}

#[test]
fn gzipped_members_are_unpacked_and_pickles_marked() {
    let text = pack(Some(Packing::Gzip), "héllo".as_bytes());
    let set = open_bytes(tar_of(&[("a.txt.gz", &text), ("a.pyd", b"(."), ("b.txt.gz", b"no gzip")])).unwrap();
    let field = |name: &str| &set.schema().fields[set.schema().position(name).unwrap()];
    assert_eq!((field("txt.gz").kind, field("pyd").kind), (Kind::Text, Kind::Bytes));
    assert_eq!((field("txt.gz").pickled, field("pyd").pickled, field("pyd").optional), (false, true, true));
    assert_eq!(read(&*set, 0, "txt.gz").unwrap().1, "héllo".as_bytes());
    assert_eq!(set.byte_length(0, set.schema().position("txt.gz").unwrap()), None);
    assert!(read(&*set, 1, "txt.gz").unwrap_err().to_string().contains("gzip"));
}

#[test]
fn a_bomb_is_refused() {
    // zstd compresses zeros 30,000 to 1; the tar is one member of 2 GiB.
    let mut packed = pack(Some(Packing::Zstd), &header("a.bin", 2 << 30));
    let zeros = pack(Some(Packing::Zstd), &vec![0; 64 << 20]);
    (0..33).for_each(|_| packed.extend_from_slice(&zeros));
    let message = open_memory(vec![("a.tar.zst", packed)]).unwrap_err().to_string();
    assert!(message.contains("refused"), "{message}");
}

/// Several frames, so that there are restarts; random reads must give the same bytes.
#[test]
fn compressed_shards_have_random_access() {
    let image =
        |n: usize| (0..400_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 ^ n as u8).collect();
    let images: Vec<Vec<u8>> = (0..20).map(image).collect();
    let mut tar = Vec::new();
    for (n, bytes) in images.iter().enumerate() {
        add(&mut tar, &format!("{n:03}.jpg"), bytes);
    }
    tar.resize(tar.len() + 1024, 0);
    for packing in [Packing::Gzip, Packing::Zstd, Packing::Bzip2, Packing::Xz] {
        let frames: Vec<u8> = tar.chunks(1_500_000).flat_map(|part| pack(Some(packing), part)).collect();
        let set = open_memory(vec![("a.tar", frames)]).unwrap();
        assert_eq!(set.problems().len(), 1);
        for step in 0..60 {
            let sample = step * 7 % images.len();
            assert!(read(&*set, sample as u64, "jpg").unwrap().1 == images[sample], "{packing:?} {sample}");
        }
    }
}

fn options(folder: &Path) -> ReadingOptions {
    ReadingOptions { index_dir: Some(folder.join("index")), ..ReadingOptions::default() }
}

fn write_old(path: &Path, bytes: &[u8], age: u64) {
    fs::write(path, bytes).unwrap();
    let time = SystemTime::now() - Duration::from_secs(age);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// 200 samples whose members' bytes are `salt`.
fn shard(salt: u8) -> Vec<u8> {
    let names: Vec<String> = (0..200).map(|n| format!("{n:04}.txt")).collect();
    tar_of(&names.iter().map(|n| (n.as_str(), std::slice::from_ref(&salt))).collect::<Vec<_>>())
}

#[test]
fn a_saved_index_is_used_and_changed_shards_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    write_old(&data.join("a.tar"), &shard(b'a'), 100);
    write_old(&data.join("b.tar"), &shard(b'b'), 100);
    let open = || open(&Target::Folder(Arc::new(LocalSource::new(&data))), &options(folder.path()));
    let first = open().unwrap().fingerprint();
    assert_eq!(fs::read_dir(folder.path().join("index")).unwrap().count(), 1);
    // Damage that only a scan would notice: the file keeps its length and time, so the saved index is used.
    let time = fs::metadata(data.join("a.tar")).unwrap().modified().unwrap();
    let mut broken = shard(b'a');
    broken[148] ^= 1;
    fs::write(data.join("a.tar"), &broken).unwrap();
    fs::File::options().write(true).open(data.join("a.tar")).unwrap().set_modified(time).unwrap();
    assert_eq!(open().unwrap().fingerprint(), first);
    // The other shard changes: only that one is scanned.
    write_old(&data.join("b.tar"), &shard(b'B'), 50);
    let after = open().unwrap();
    assert_ne!(after.fingerprint(), first);
    assert_eq!(read(&*after, 300, "txt").unwrap().1, b"B");
    write_old(&data.join("a.tar"), &broken, 50);
    assert!(open().is_err());
}

#[test]
fn indexes_of_recently_written_shards_are_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    write_old(&data.join("a.tar"), &shard(b'a'), 100);
    fs::write(data.join("b.tar"), shard(b'b')).unwrap();
    open(&Target::Folder(Arc::new(LocalSource::new(&data))), &options(folder.path())).unwrap();
    assert!(!folder.path().join("index").exists());
}

#[test]
fn dalis_index_is_used_if_it_matches() {
    let tar = tar_of(&[("a.cls", b"1"), ("a.jpg", b"xyz"), ("b.cls", b"2"), ("b.jpg", b"longer")]);
    let good = "v1.2 2\ncls 512 1 a.cls jpg 1536 3 a.jpg\ncls 2560 1 b.cls jpg 3584 6 b.jpg\n";
    let scanned = open_memory(vec![("s.tar", tar.clone())]).unwrap();
    let with = |index: &str| open_memory(vec![("s.tar", tar.clone()), ("s.idx", index.as_bytes().to_vec())]);
    let indexed = with(good).unwrap();
    assert_eq!((indexed.len(), indexed.problems().len()), (2, 0));
    assert_eq!(indexed.fingerprint(), scanned.fingerprint());
    // Only a scan reads labels: that they are unknown shows that there was no scan.
    assert_eq!((indexed.int_value(1, 1), scanned.int_value(1, 1)), (None, Some(2)));
    assert_eq!(read(&*indexed, 1, "cls").unwrap().0, Value::Int(2));
    for bad in [
        good.replace("v1.2 2", "v1.2 3"),
        good.replace("3584 6", "3584 7"),
        good.replace("3584 6", "3584 5"),
        good.replace("a.jpg\n", "c.jpg\n"),
        good.replace("jpg 1536", "jpg 1024"),
        good.replace("3584 6", "9999999999999999999 6"),
        "v1.2 1\ncls 512 1 a.cls jpg 1536 3 a.jpg\n".to_owned(),
        "v1.2 1\ncls 2560 1 b.cls jpg 3584 6 b.jpg\n".to_owned(),
        "v1.2 x\n".to_owned(),
    ] {
        let set = with(&bad).unwrap();
        assert_eq!(set.fingerprint(), scanned.fingerprint(), "{bad}");
        assert!(set.problems()[0].to_string().contains("s.idx"), "{bad}");
    }
    let nameless = with("v1.1 2\ncls 512 1 jpg 1536 3\ncls 2560 1 jpg 3584 6\n").unwrap();
    assert_eq!((nameless.int_value(1, 1), nameless.problems().len()), (Some(2), 0));
}

#[test]
fn a_wids_index_opens_its_shards_in_its_order() {
    let one = tar_of(&[("a.txt", b"1")]);
    let two = tar_of(&[("b.txt", b"2"), ("c.txt", b"3")]);
    let md5 = {
        use md5::Digest;
        format!("{:032x}", u128::from_be_bytes(md5::Md5::digest(&two).into()))
    };
    let index = |samples: u64, bytes: usize, hash: &str| {
        format!(
            r#"{{"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": [
            {{"url": "./deep/two.tar", "nsamples": {samples}, "filesize": {bytes}, "md5sum": "{hash}"}},
            {{"url": "one.tar", "nsamples": 1}}]}}"#
        )
    };
    let with = |index: String, options: &ReadingOptions| {
        let objects = [
            ("x/index.json", index.into_bytes()),
            ("x/one.tar", one.clone()),
            ("x/deep/two.tar", two.clone()),
        ];
        let target = Target::Objects(Arc::new(MemorySource::new(objects)), vec!["x/index.json".to_owned()]);
        assert_eq!(recognises(&target).unwrap().as_deref(), Some("a wids index"));
        open(&target, options)
    };
    let plain = ReadingOptions::default();
    let set = with(index(2, two.len(), "?"), &plain).unwrap();
    let texts: Vec<Vec<u8>> = (0..3).map(|sample| read(&*set, sample, "txt").unwrap().1).collect();
    assert_eq!(texts, [b"2", b"3", b"1"]);
    assert!(with(index(3, two.len(), "?"), &plain).unwrap_err().to_string().contains("2 samples"));
    assert!(with(index(2, 7, "?"), &plain).unwrap_err().to_string().contains("bytes"));
    let verify = ReadingOptions { verify_hashes: true, ..ReadingOptions::default() };
    assert!(with(index(2, two.len(), "?"), &verify).unwrap_err().to_string().contains("md5"));
    assert_eq!(with(index(2, two.len(), &md5), &verify).unwrap().len(), 3);
}

#[test]
fn tars_in_sub_folders_are_a_split() {
    let objects = || vec![("train/a.tar", shard(b'a')), ("val/b.tar", shard(b'b'))];
    let target = Target::Folder(Arc::new(MemorySource::new(objects())));
    assert_eq!(recognises(&target).unwrap().as_deref(), Some("tar files in train/ and val/"));
    let message = open_memory(objects()).unwrap_err().to_string();
    assert!(message.contains("train/, val/") && message.contains("split=\"train\""), "{message}");
    let with = |split: &str| {
        open(&target, &ReadingOptions { split: Some(split.to_owned()), ..ReadingOptions::default() })
    };
    assert_eq!(read(&*with("val").unwrap(), 0, "txt").unwrap().1, b"b");
    assert!(with("test").unwrap_err().to_string().contains("train, val"));
}

#[test]
fn compressed_tars_are_recognised_by_content() {
    let tar = shard(b'a');
    for packing in [None, Some(Packing::Gzip), Some(Packing::Zstd), Some(Packing::Bzip2), Some(Packing::Xz)] {
        let source = MemorySource::new([("shard", pack(packing, &tar)), ("other", pack(packing, b"text"))]);
        let source: Arc<dyn Source> = Arc::new(source);
        let look = |name: &str| recognises(&Target::Objects(source.clone(), vec![name.to_owned()])).unwrap();
        assert!(look("shard").is_some() && look("other").is_none(), "{packing:?}");
    }
    let xz = open_memory(vec![("a.tar.xz", b"\xfd7zXZ\0 and so on".to_vec())]).unwrap_err().to_string();
    assert!(xz.contains("the xz stream is damaged"), "{xz}");
}

#[test]
fn mixed_folders_are_refused_with_what_was_found() {
    let seen = |objects: Vec<(&str, Vec<u8>)>| {
        let target = Target::Folder(Arc::new(MemorySource::new(objects)));
        crate::format::open(&target, "auto", &ReadingOptions::default())
    };
    for image in ["x.jpg", "cats/deep/x.png"] {
        let message = seen(vec![("a.tar", shard(b'a')), (image, vec![0])]).unwrap_err().to_string();
        let both = message.contains("webdataset (1 tar files)") && message.contains("folder (1 images");
        assert!(both && message.contains("format="), "{message}");
    }
    assert_eq!(seen(vec![("a.tar", shard(b'a')), ("logs/x.txt", vec![0])]).unwrap().name(), "webdataset");
    assert_eq!(seen(vec![("cats/x.jpg", vec![0]), ("notes.txt", vec![0])]).unwrap().name(), "folder");
}

/// `testdata/webdataset/kinds.py` wrote the shard with webdataset, then gzipped it.
#[test]
fn every_kind_that_webdataset_writes_is_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/webdataset");
    let target = Target::Objects(Arc::new(LocalSource::new(folder)), vec!["kinds.tar.gz".to_owned()]);
    assert!(recognises(&target).unwrap().is_some());
    let set = open(&target, &ReadingOptions::default()).unwrap();
    let kinds: Vec<(&str, Kind, bool)> =
        set.schema().fields.iter().map(|f| (f.name.as_str(), f.kind, f.optional)).collect();
    assert_eq!(
        kinds,
        [
            ("key", Kind::Text, false),
            ("bin", Kind::Bytes, false),
            ("cls", Kind::Int, false),
            ("json", Kind::Json, true),
            ("npy", Kind::Array, false),
            ("pyd", Kind::Bytes, false),
            ("txt", Kind::Text, false),
            ("txt.gz", Kind::Text, false),
            ("x.ten", Kind::Array, false),
        ]
    );
    assert!(set.schema().fields[5].pickled);
    for sample in 0..4u8 {
        let read = |name: &str| read(&*set, u64::from(sample), name).unwrap();
        assert_eq!(read("key").1, format!("d/{sample:05}").into_bytes());
        assert_eq!(read("bin").1, (0..sample).collect::<Vec<u8>>());
        assert_eq!(read("cls").0, Value::Int(i64::from(sample % 3)));
        assert_eq!(read("txt").1, format!("h\u{e9}llo {sample}").into_bytes());
        assert_eq!(read("txt.gz").1, format!("zipped {sample}").into_bytes());
        assert_eq!(read("json").0 == Value::Missing, sample % 2 == 1);
        let floats: Vec<u8> =
            (0..6u8).flat_map(|n| (f32::from(n) + f32::from(sample) / 2.0).to_le_bytes()).collect();
        assert_eq!(read("npy").1, floats);
        let Value::Array { dimensions: 2, shape, .. } = read("x.ten").0 else {
            panic!("an array of two sides")
        };
        assert_eq!(shape[..2], [3, 2]);
        assert_eq!(
            read("x.ten").1,
            (0..6i32).flat_map(|n| (n * i32::from(sample)).to_le_bytes()).collect::<Vec<u8>>()
        );
    }
}

fn texts(set: &dyn Format, name: &str) -> Vec<String> {
    (0..set.len()).map(|n| String::from_utf8(read(set, n, name).unwrap().1).unwrap()).collect()
}

fn warned(set: &dyn Format, word: &str) -> bool {
    let is_told = |list: &[Error]| list.iter().any(|w| w.to_string().contains(word));
    is_told(set.warnings()) && is_told(set.problems())
}

#[test]
fn concatenated_tars_are_read_to_the_end() {
    let one = tar_of(&[("a.txt", b"1"), ("b.txt", b"2")]);
    let mut padded = one.clone();
    padded.resize(padded.len() + 90 * 1024, 0);
    // The second tar begins with the last key of the first.
    let two = tar_of(&[("b.txt", b"3"), ("c.txt", b"4")]);
    for first in [one, padded] {
        for packing in [None, Some(Packing::Gzip), Some(Packing::Xz)] {
            let set = open_memory(vec![("x.tar", pack(packing, &[&first[..], &two].concat()))]).unwrap();
            assert_eq!(texts(&*set, "txt"), ["1", "2", "3", "4"], "{packing:?}");
            assert!(warned(&*set, "1 more tars follow"), "{:?}", set.warnings());
        }
    }
}

#[test]
fn bytes_after_the_end_mark_are_reported() {
    let tar = [&tar_of(&[("a.txt", b"1")])[..], &[7; 700]].concat();
    let set = open_bytes(tar).unwrap();
    assert_eq!(set.len(), 1);
    assert!(warned(&*set, "byte 2048: what follows the end mark is not a tar"), "{:?}", set.warnings());
    assert!(open_bytes(tar_of(&[("a.txt", b"1")])).unwrap().warnings().is_empty());
}

/// The order of a folder in `tar cf x.tar .`: unsorted.
#[test]
fn members_of_one_key_are_joined_even_if_apart() {
    let tar = tar_of(&[
        ("./a.txt", b"1"),
        ("./b.cls", b"8"),
        ("./a.cls", b"7"),
        ("./c.txt", b"3"),
        ("./b.txt", b"2"),
        ("./c.cls", b"9"),
    ]);
    let set = open_bytes(tar.clone()).unwrap();
    assert_eq!(texts(&*set, "txt"), ["1", "2", "3"]);
    assert_eq!(texts(&*set, "key"), ["./a", "./b", "./c"]);
    let classes = set.schema().position("cls").unwrap();
    assert_eq!([0, 1, 2].map(|n| set.int_value(n, classes)), [Some(7), Some(8), Some(9)]);
    assert!(!set.schema().fields[classes].optional);
    assert!(warned(&*set, "3 parts of samples"), "{:?}", set.warnings());
    // An index that counts the runs as samples takes precedence.
    let index = |samples: u64| {
        let json = format!(
            r#"{{"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": [{{"url": "a.tar", "nsamples": {samples}}}]}}"#
        );
        open_memory(vec![("a.tar", tar.clone()), ("wids.json", json.into_bytes())])
    };
    assert_eq!((index(6).unwrap().len(), index(3).unwrap().len()), (6, 3));
    assert!(index(5).is_err());
}

#[test]
fn a_repeated_key_and_suffix_is_a_new_sample() {
    let tar = tar_of(&[("a.txt", b"1"), ("b.txt", b"2"), ("a.txt", b"3"), ("c.txt", b"5"), ("a.cls", b"4")]);
    let set = open_bytes(tar).unwrap();
    assert_eq!(texts(&*set, "txt"), ["1", "2", "3", "5"]);
    let classes = set.schema().position("cls").unwrap();
    assert_eq!([0, 1, 2].map(|n| set.int_value(n, classes)), [None, None, Some(4)]);
    assert!(warned(&*set, "1 samples have the key") && warned(&*set, "1 parts of samples"));
}

fn add_link(tar: &mut Vec<u8>, kind: u8, name: &str, target: &str) {
    let mut block = header(name, 0);
    block[156] = kind;
    block[157..157 + target.len()].copy_from_slice(target.as_bytes());
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    tar.extend_from_slice(&block);
}

#[test]
fn hard_links_give_the_linked_member() {
    let mut tar = Vec::new();
    add(&mut tar, "a.txt", b"same");
    add(&mut tar, "a.cls", b"5");
    add_link(&mut tar, b'1', "b.txt", "a.txt");
    add_link(&mut tar, b'1', "b.cls", "a.cls");
    add_link(&mut tar, b'1', "c.txt", "b.txt");
    add_link(&mut tar, b'1', "c.cls", "gone.cls");
    add_link(&mut tar, b'2', "d.txt", "a.txt");
    tar.resize(tar.len() + 1024, 0);
    for packing in [None, Some(Packing::Gzip)] {
        let set = open_memory(vec![("x.tar", pack(packing, &tar))]).unwrap();
        assert_eq!(texts(&*set, "txt"), ["same"; 3], "{packing:?}");
        let classes = set.schema().position("cls").unwrap();
        assert_eq!([0, 1, 2].map(|n| set.int_value(n, classes)), [Some(5), Some(5), None]);
        assert!(
            warned(&*set, "1 hard links do not refer to an earlier member")
                && warned(&*set, "1 symbolic links")
        );
    }
}

#[test]
fn names_without_an_extension_are_reported() {
    let set = open_bytes(tar_of(&[("cats/1", b"x"), ("cats/2", b"y"), ("a.txt", b"1")])).unwrap();
    assert_eq!(set.len(), 1);
    assert!(warned(&*set, "2 members are in no sample") && warned(&*set, "'cats/1' is the first"));
}

#[test]
fn a_gzipped_member_that_is_a_bomb_is_refused_with_its_sample() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![0; 200 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    let set = open_bytes(tar_of(&[("a.txt.gz", &bomb)])).unwrap();
    let message = read(&*set, 0, "txt.gz").unwrap_err().to_string();
    assert!(message.contains("sample 0") && message.contains("refused"), "{message}");
}
