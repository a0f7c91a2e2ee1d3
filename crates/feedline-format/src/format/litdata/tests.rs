//! Files that litdata itself wrote (`testdata/formats/litdata`, made by `make.py` there), compared with the written
//! values.

mod damaged;

use crate::format::{Extents as _, Index as _};
use std::path::{Path, PathBuf};

use super::*;
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};

use crate::format::conformance;
use crate::owned::{OwnedValue, Sample};
use crate::sample::{DType, ImageEncoding, ImageMeta};
use crate::source::{LocalSource, MemorySource};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/litdata").join(name)
}

fn fixture(name: &str) -> LitData {
    LitData::open(Arc::new(LocalSource::new(folder(name))), &ReadingOptions::default()).unwrap()
}

fn jpeg() -> Vec<u8> {
    std::fs::read(folder("a.jpg")).unwrap()
}

/// One sample by `read`, checked against the other ways to its bytes and numbers.
fn sample(set: &LitData, number: u64) -> Sample {
    let count = set.schema().fields.len();
    let mut buffer = SampleBuffer::new();
    set.read(number, &FieldSet::all(count), &mut buffer).unwrap();
    let whole = Sample::from_buffer(set.schema(), &buffer, || set.locate(number)).unwrap();
    for (field, (_, value)) in whole.fields.iter().enumerate() {
        set.read(number, &FieldSet::only(count, [field]), &mut buffer).unwrap();
        let alone = Sample::from_buffer(set.schema(), &buffer, || set.locate(number)).unwrap();
        assert_eq!(alone.fields[field].1, *value);
        if let Some(length) = set.byte_length(number, field) {
            let mut room = vec![0; length as usize];
            set.read_bytes(number, field, &mut room).unwrap();
            assert_eq!(Some(room), bytes_of(value));
        }
        if let Some(known) = set.int_value(number, field) {
            assert_eq!(*value, OwnedValue::Int(known));
        }
    }
    whole
}

fn bytes_of(value: &OwnedValue) -> Option<Vec<u8>> {
    match value {
        OwnedValue::Text(text) | OwnedValue::Json(text) => Some(text.clone().into_bytes()),
        OwnedValue::Bytes(bytes) | OwnedValue::Image { bytes, .. } => Some(bytes.clone()),
        _ => None,
    }
}

fn names(set: &LitData) -> Vec<&str> {
    set.schema().fields.iter().map(|f| f.name.as_str()).collect()
}

fn values(set: &LitData, number: u64) -> Vec<OwnedValue> {
    sample(set, number).fields.into_iter().map(|(_, value)| value).collect()
}

fn text(text: impl Into<String>) -> OwnedValue {
    OwnedValue::Text(text.into())
}

fn array<const N: usize>(
    dtype: DType,
    shape: &[u64],
    elements: impl IntoIterator<Item = [u8; N]>,
) -> OwnedValue {
    OwnedValue::Array { dtype, shape: shape.to_vec(), bytes: elements.into_iter().flatten().collect() }
}

/// The pixels of the image that `make.py` draws.
fn pixels() -> OwnedValue {
    let bytes = (0..8 * 6 * 3u32).map(|n| (n % 255) as u8).collect();
    let meta = ImageMeta { encoding: ImageEncoding::Rgb, width: 8, height: 6, channels: 3, orientation: 1 };
    OwnedValue::Image { bytes, index: Vec::new(), meta }
}

#[test]
fn classic_chunks_with_every_common_leaf() {
    for name in ["classic", "zstd-chunk-0.2.45"] {
        let set = fixture(name);
        assert_eq!(set.len(), 3);
        let expected = [
            "image", "label", "name", "f", "b", "raw", "t", "t1", "n", "n1", "pil", "list.0", "list.1.0",
            "list.1.1",
        ];
        assert_eq!(names(&set), expected);
        for number in 0..3 {
            let found = values(&set, number);
            let expected = [
                OwnedValue::image(jpeg()),
                OwnedValue::Int(number as i64),
                text(format!("s{number}")),
                OwnedValue::Float(0.5 * number as f64),
                OwnedValue::Int(number as i64 % 2),
                OwnedValue::Bytes(b"abc".repeat(number as usize)),
                array(DType::I32, &[2, 3], (0..6i32).map(i32::to_le_bytes)),
                array(DType::I64, &[4], (0..4i64).map(i64::to_le_bytes)),
                array(DType::F32, &[3, 2], (0..6u8).map(|n| f32::from(n).to_le_bytes())),
                array(DType::U16, &[3], (0..3u16).map(u16::to_le_bytes)),
                pixels(),
                OwnedValue::Int(1),
                OwnedValue::Int(2),
                text("x"),
            ];
            assert_eq!(found, expected);
        }
    }
}

/// Until 0.2.39 the index's lengths did not include a chunk's header, and before 0.2.12 numpy's types had other
/// numbers.
#[test]
fn data_sets_of_older_releases() {
    for version in ["0.2.6", "0.2.20", "0.2.39", "0.2.40"] {
        for name in ["plain", "zstd"] {
            let set = fixture(&format!("old-{version}/{name}"));
            assert_eq!(names(&set), ["image", "label", "name", "raw", "t", "n1", "mask"], "{version}");
            for number in 0..3 {
                let expected = [
                    OwnedValue::image(jpeg()),
                    OwnedValue::Int(number as i64),
                    text(format!("s{number}")),
                    OwnedValue::Bytes(b"abc".repeat(number as usize)),
                    array(DType::I32, &[2, 3], (0..6i32).map(i32::to_le_bytes)),
                    array(DType::U16, &[3], (0..3u16).map(u16::to_le_bytes)),
                    array(DType::Bool, &[2, 2], [[1], [0], [0], [u8::from(number == 1)]]),
                ];
                assert_eq!(values(&set, number), expected, "{version} {name}");
            }
        }
        let tokens = fixture(&format!("old-{version}/tokens"));
        let run = |n: i32| array(DType::I32, &[7], (10 * n..10 * n + 7).map(i32::to_le_bytes));
        assert_eq!((0..3).map(|n| values(&tokens, n)).collect::<Vec<_>>(), [0, 1, 2].map(|n| vec![run(n)]));
    }
    for name in ["old-0.2.20/fernet-sample", "old-0.2.39/fernet-chunk", "old-0.2.40/fernet-sample"] {
        let options = ReadingOptions { password: Some("x".to_owned()), ..ReadingOptions::default() };
        let set = LitData::open(Arc::new(LocalSource::new(folder(name))), &options).unwrap();
        assert_eq!(values(&set, 2), [OwnedValue::Int(3), text("hello 2")], "{name}");
    }
}

/// Both lengths are accepted for a whole chunk, but not for a truncated one.
#[test]
fn a_chunk_without_its_head_is_refused() {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder("old-0.2.40/plain")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let chunk = copy.path().join("chunk-0-0.bin");
    let bytes = std::fs::read(&chunk).unwrap();
    for length in [bytes.len() - 16, bytes.len() + 16] {
        let mut other = bytes.clone();
        other.resize(length, 0);
        std::fs::write(&chunk, &other).unwrap();
        let source = Arc::new(LocalSource::new(copy.path()));
        let opened = LitData::open(source, &ReadingOptions::default());
        let read = opened.and_then(|set| set.read(0, &FieldSet::all(7), &mut SampleBuffer::new()));
        assert!(read.is_err(), "{length}");
    }
}

#[test]
fn images_with_labels_in_every_layout() {
    for (name, count) in
        [("classic-0.2.76", 5), ("frames", 5), ("zstd-sample", 5), ("zstd-chunk", 5), ("arrow", 5)]
    {
        let set = fixture(name);
        assert_eq!((set.len(), &names(&set)[..2]), (count, &["image", "label"][..]), "{name}");
        assert_eq!(set.schema().fields[0].kind, Kind::Image, "{name}");
        // Backwards, so that the test does not depend on the order in which chunks are opened.
        for number in (0..count).rev() {
            let found = values(&set, number);
            assert_eq!(found[..2], [OwnedValue::image(jpeg()), OwnedValue::Int(number as i64)], "{name}");
        }
    }
    let tuple = fixture("tuple");
    assert_eq!(names(&tuple), ["0", "1"]);
    assert_eq!(values(&tuple, 4), [OwnedValue::image(jpeg()), OwnedValue::Int(4)]);
}

#[test]
fn rows_of_arrow_tables_lists_and_structs() {
    let set = fixture("arrow-nested");
    assert_eq!(names(&set), ["text", "tags", "m.x", "m.y"]);
    let optional: Vec<bool> = set.schema().fields.iter().map(|f| f.optional).collect();
    assert_eq!(optional, [false, false, false, true]);
    for number in 0..5 {
        let tags = vec![r#""a","b""#; number as usize].join(",");
        let expected = [
            text(format!("hello {number}")),
            OwnedValue::Json(format!("[{tags}]")),
            OwnedValue::Int(number),
            OwnedValue::Missing,
        ];
        assert_eq!(values(&set, number as u64), expected);
    }
}

#[test]
fn rows_of_many_kinds_with_nulls_and_missing_keys() {
    for name in ["arrow-kinds", "arrow-stream", "arrow-lz4"] {
        let set = fixture(name);
        let expected =
            ["picture.bytes", "picture.path", "flag", "score", "text", "boxes", "raw", "sometimes"];
        assert_eq!((set.len(), names(&set)), (7, expected.to_vec()), "{name}");
        let kinds: Vec<Kind> = set.schema().fields.iter().map(|f| f.kind).collect();
        let expected =
            [Kind::Image, Kind::Text, Kind::Int, Kind::Float, Kind::Text, Kind::Json, Kind::Bytes, Kind::Int];
        assert_eq!(kinds, expected, "{name}");
        let optional: Vec<bool> = set.schema().fields.iter().map(|f| f.optional).collect();
        assert_eq!(optional, [true, true, false, false, true, false, false, true], "{name}");
        for n in 0..7i64 {
            let only_if = |there: bool, value: OwnedValue| if there { value } else { OwnedValue::Missing };
            let boxed = format!(r#"{{"at":[{n},{}],"name":"b","ok":true}}"#, -n);
            let expected = [
                only_if(n != 4, OwnedValue::image(jpeg())),
                only_if(n != 4, text(format!("ü{n}.jpg"))),
                OwnedValue::Int(i64::from(n % 2 == 0)),
                OwnedValue::Float(n as f64 / 4.0),
                only_if(n != 3, text(format!("日本 {n}"))),
                OwnedValue::Json(format!("[{}]", vec![boxed; n as usize % 3].join(","))),
                OwnedValue::Bytes(vec![n as u8; n as usize]),
                only_if(n % 2 == 1, OwnedValue::Int(n)),
            ];
            assert_eq!(values(&set, n as u64), expected, "{name}");
        }
    }
}

/// litdata falls back to its own layout for a chunk whose rows do not fit a table.
#[test]
fn tables_and_items_in_one_set() {
    let set = fixture("arrow-and-classic");
    assert!(matches!(set.chunk(0).unwrap().layout, Layout::Rows(_)));
    assert!(matches!(set.chunk(1).unwrap().layout, Layout::Items(_)));
    assert_eq!((set.len(), names(&set)), (4, vec!["a", "n"]));
    for (n, json) in ["[1,2]", "[3]", "[]", r#"[1,"x"]"#].iter().enumerate() {
        assert_eq!(values(&set, n as u64), [OwnedValue::Json((*json).to_owned()), OwnedValue::Int(n as i64)]);
    }
}

#[test]
fn rows_in_compressed_record_batches() {
    let set = fixture("arrow-zstd");
    assert_eq!((set.len(), names(&set)), (600, vec!["text", "y"]));
    for number in [599, 0, 255, 256, 300] {
        let expected = [text("x".repeat(2000) + &number.to_string()), OwnedValue::Int(number)];
        assert_eq!(values(&set, number as u64), expected);
    }
}

#[test]
fn roots_that_are_not_dictionaries() {
    assert_eq!(sample(&fixture("scalar"), 0), Sample::new([("value", OwnedValue::Int(7))]));
    let list = [("0", 1), ("1", 2), ("2", 3)].map(|(name, n)| (name, OwnedValue::Int(n)));
    assert_eq!(sample(&fixture("list"), 0), Sample::new(list));
    let set = fixture("text");
    assert_eq!((set.len(), sample(&set, 3)), (4, Sample::new([("value", text("plain 3"))])));
}

#[test]
fn pickles_are_marked_and_stay_bytes() {
    let set = fixture("pickled");
    let pickled: Vec<bool> = set.schema().fields.iter().map(|f| f.pickled).collect();
    assert_eq!(pickled, [true, true, false, true]);
    let OwnedValue::Bytes(none) = &values(&set, 0)[3] else { panic!("bytes expected") };
    assert!(none.starts_with(b"\x80") && none.ends_with(b"N."));
}

#[test]
fn json_leaves_and_tensors_of_the_newer_writer() {
    let set = fixture("json");
    assert_eq!(names(&set), ["t", "n", "b", "f", "l", "j.a"]);
    let expected = [
        array(DType::I64, &[2, 3], (0..6i64).map(i64::to_le_bytes)),
        array(DType::U16, &[3], (0..3u16).map(u16::to_le_bytes)),
        OwnedValue::Int(1),
        OwnedValue::Float(0.5),
        OwnedValue::Json("[1,2,3]".to_owned()),
        OwnedValue::Json(r#"[1,{"b":null}]"#.to_owned()),
    ];
    assert_eq!(values(&set, 3), expected);
}

#[test]
fn a_sample_of_tokens_is_an_item() {
    for name in ["tokens-0.2.45", "tokens"] {
        let set = fixture(name);
        assert_eq!(set.len(), 3);
        let expected = array(DType::I32, &[7], (20..27i32).map(i32::to_le_bytes));
        assert_eq!(sample(&set, 2), Sample::new([("value", expected)]));
    }
}

#[test]
fn temporal_records_become_arrays_over_time() {
    let set = fixture("temporal");
    assert_eq!(names(&set), ["features", "score", "valid"]);
    for (number, frames) in [(0, 10u64), (1, 6)] {
        let floats = |count: u64| (0..count).map(|n| (n as f32).to_le_bytes());
        let expected = [
            array(DType::F32, &[frames, 2], floats(2 * frames)),
            array(DType::F32, &[frames], floats(frames)),
            array(DType::Bool, &[frames], (0..frames).map(|_| [1])),
        ];
        assert_eq!(values(&set, number), expected);
    }
}

#[test]
fn encrypted_data_sets_open_only_with_their_password() {
    for name in ["fernet-sample", "fernet-chunk"] {
        let open = |password: Option<&str>| {
            let options =
                ReadingOptions { password: password.map(str::to_owned), ..ReadingOptions::default() };
            LitData::open(Arc::new(LocalSource::new(folder(name))), &options)
        };
        let set = open(Some("x")).unwrap();
        assert_eq!(set.len(), 3);
        for number in 0..3 {
            let expected = [OwnedValue::Int(number as i64 + 1), text(format!("hello {number}"))];
            assert_eq!(values(&set, number), expected);
        }
        let refused = open(None).unwrap_err().to_string();
        assert!(refused.contains("encrypted") && refused.contains("password="), "{refused}");
        let wrong = open(Some("y")).unwrap_err().to_string();
        assert!(wrong.contains("HMAC"), "{wrong}");
    }
}

#[test]
fn an_encrypted_data_set_without_its_salt_is_an_error() {
    let index = std::fs::read(folder("fernet-chunk/index.json")).unwrap();
    let chunks = ["chunk-0-0.bin", "chunk-0-1.bin"]
        .map(|n| (n, std::fs::read(folder("fernet-chunk").join(n)).unwrap()));
    let source = MemorySource::new([("index.json", index)].into_iter().chain(chunks));
    let options = ReadingOptions { password: Some("x".to_owned()), ..ReadingOptions::default() };
    let message = LitData::open(Arc::new(source), &options).unwrap_err().to_string();
    assert!(message.contains("salt"), "{message}");
}

#[test]
fn unfinished_data_sets_are_reported() {
    let source: Arc<dyn Source> = Arc::new(MemorySource::new([("0.index.json", *b"{}")]));
    let target = Target::Folder(source);
    assert!(recognises(&target).unwrap().unwrap().contains("unfinished"));
    let message = open(&target, &ReadingOptions::default()).unwrap_err().to_string();
    assert!(message.contains("not merged") && message.contains("0.index.json"), "{message}");
}

#[test]
fn other_folders_are_not_recognised() {
    for index in [&br#"{"shards": [], "version": 2}"#[..], b"[]", b"{\"chunks\": []}"] {
        let target = Target::Folder(Arc::new(MemorySource::new([("index.json", index.to_vec())])));
        assert_eq!(recognises(&target).unwrap(), None);
    }
    let found = recognises(&Target::Folder(Arc::new(LocalSource::new(folder("classic"))))).unwrap();
    assert_eq!(found.as_deref(), Some("index.json of LitData chunks"));
}

const DICT: &str = r#"[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"image\\\", \\\"label\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]"#;

fn index_json(chunks: &[(String, usize, usize)], compression: &str) -> String {
    let entry = |(name, bytes, items): &(String, usize, usize)| {
        format!(r#"{{"chunk_bytes": {bytes}, "chunk_size": {items}, "dim": null, "filename": "{name}"}}"#)
    };
    let chunks = chunks.iter().map(entry).collect::<Vec<_>>().join(", ");
    format!(
        r#"{{"chunks": [{chunks}], "config": {{{compression} "data_format": ["jpeg", "int"], "data_spec": "{DICT}", "encryption": null, "item_loader": "PyTreeLoader"}}, "updated_at": "0"}}"#
    )
}

fn words(numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
    numbers.into_iter().flat_map(|n| (n as u32).to_le_bytes()).collect()
}

fn items(images: &[(String, Vec<u8>)]) -> Vec<Vec<u8>> {
    let item = |(number, (_, bytes)): (usize, &(String, Vec<u8>))| {
        [&words([bytes.len(), 8])[..], bytes, &(number as i64).to_le_bytes()].concat()
    };
    images.iter().enumerate().map(item).collect()
}

fn classic(items: &[Vec<u8>]) -> Vec<u8> {
    let mut offsets = vec![4 * (items.len() + 2)];
    for item in items {
        offsets.push(offsets[offsets.len() - 1] + item.len());
    }
    [words([items.len()]), words(offsets), items.concat()].concat()
}

fn framed(items: &[Vec<u8>]) -> Vec<u8> {
    let frames: Vec<&[Vec<u8>]> = items.chunks(2).collect();
    let mut offsets = vec![0];
    for item in items {
        offsets.push(offsets[offsets.len() - 1] + item.len());
    }
    let mut end = 24 + 4 * offsets.len() + 24 * frames.len();
    let (mut table, mut body) = (Vec::new(), Vec::new());
    for (number, frame) in frames.iter().enumerate() {
        let frame_bytes = frame.concat();
        let stored = zstd::encode_all(&frame_bytes[..], 1).unwrap();
        table.extend(words([2 * number, frame.len(), end, 0, stored.len(), frame_bytes.len()]));
        end += stored.len();
        body.extend(stored);
    }
    let head = [&b"LDFZ01\0\0"[..], &words([1, items.len(), 2, frames.len()]), &words(offsets)].concat();
    [head, table, body].concat()
}

/// A chunk that is an Arrow table.
fn table(first: usize, images: &[(String, Vec<u8>)], compressed: bool) -> Vec<u8> {
    let pictures = BinaryArray::from_iter_values(images.iter().map(|(_, bytes)| &bytes[..]));
    let labels = Int64Array::from_iter_values((0..images.len()).map(|n| (first + n) as i64));
    let columns: [(&str, ArrayRef); 2] = [("image", Arc::new(pictures)), ("label", Arc::new(labels))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let codec = compressed.then_some(arrow_ipc::CompressionType::LZ4_FRAME);
    let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    for start in (0..batch.num_rows()).step_by(3) {
        writer.write(&batch.slice(start, 3.min(batch.num_rows() - start))).unwrap();
    }
    let ipc = writer.into_inner().unwrap();
    let head = words([images.len()].into_iter().chain(vec![4 * (images.len() + 2); images.len() + 1]));
    [&head[..], &ipc, &words([ipc.len()]), b"LDARW01\0"].concat()
}

/// One of the layouts, written by hand.
struct Written(&'static str);

impl conformance::Subject for Written {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let mut chunks = Vec::new();
        for (number, some) in items(images).chunks(4).enumerate() {
            let plain = classic(some);
            let (name, length, stored) = match self.0 {
                "frames" => (format!("chunk-0-{number}.bin"), None, framed(some)),
                "arrow" | "arrow-lz4" => {
                    let rows = &images[number * 4..number * 4 + some.len()];
                    (format!("chunk-0-{number}.bin"), None, table(number * 4, rows, self.0 == "arrow-lz4"))
                }
                "zstd" => {
                    let stored = zstd::encode_all(&plain[..], 1).unwrap();
                    (format!("chunk-0-{number}.zstd.bin"), Some(plain.len()), stored)
                }
                "zstd items" => {
                    let small: Vec<_> = some.iter().map(|i| zstd::encode_all(&i[..], 1).unwrap()).collect();
                    (format!("chunk-0-{number}.bin"), None, classic(&small))
                }
                _ => (format!("chunk-0-{number}.bin"), None, plain),
            };
            chunks.push((name.clone(), length.unwrap_or(stored.len()), some.len()));
            std::fs::write(folder.join(name), stored).unwrap();
        }
        let compression = match self.0 {
            "frames" => r#""compression": "zstd", "compression_level": "batch","#,
            "zstd" => r#""compression": "zstd","#,
            "zstd items" => r#""compression": "zstd", "compression_level": "sample","#,
            "arrow" | "arrow-lz4" => r#""types": {"image": "bytes", "label": "int"},"#,
            _ => r#""compression": null,"#,
        };
        let mut index = index_json(&chunks, compression);
        if self.0.starts_with("arrow") {
            index = index.replace("\"jpeg\"", "\"bytes\"");
        }
        std::fs::write(folder.join("index.json"), index).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let mut set = LitData::open(Arc::new(LocalSource::new(folder)), &ReadingOptions::default())?;
        // The suite's images are not real images; in a column of bytes they are not detected.
        if let Some(field) =
            set.schema.fields.first_mut().filter(|f| self.0.starts_with("arrow") && f.kind == Kind::Bytes)
        {
            field.kind = Kind::Image;
        }
        // One flipped bit in the index can turn "jpeg" into a custom serializer: bytes, and no image for the suite.
        let known = set.schema.fields.iter().any(|f| f.kind == Kind::Image);
        if known {
            Ok(Arc::new(set))
        } else {
            Err(Error::data(Location::new("index.json"), "no image field any more"))
        }
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn classic_conforms() {
    conformance::check(&Written("classic"));
}

#[test]
fn frames_conform() {
    conformance::check(&Written("frames"));
}

#[test]
fn compressed_chunks_conform() {
    conformance::check(&Written("zstd"));
}

#[test]
fn compressed_items_conform() {
    conformance::check(&Written("zstd items"));
}

#[test]
fn tables_conform() {
    conformance::check(&Written("arrow"));
}

#[test]
fn compressed_tables_conform() {
    conformance::check(&Written("arrow-lz4"));
}
