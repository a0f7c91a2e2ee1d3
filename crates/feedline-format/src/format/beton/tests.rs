//! Files by FFCV's own writer, the conformance suite, and corrupt files.

use crate::format::{Extents as _, Index as _};
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use sha2::Digest;

use super::write::{Cell, Part, PartWriter, Summary, join};
use super::*;
use crate::format::{ConvertOptions, conformance, convert};
use crate::sample::DType;
use crate::source::{LocalSource, MemorySource};

struct MemoryPart(Vec<u8>, Summary);

impl Part for MemoryPart {
    fn summary(&self) -> Summary {
        self.1
    }

    fn read_from(&self, offset: u64) -> std::io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(Cursor::new(&self.0[offset as usize..])))
    }
}

fn part(layout: &Layout, samples: &[Vec<Cell<'_>>]) -> MemoryPart {
    let mut bytes = Vec::new();
    let mut writer = PartWriter::new(layout.clone(), &mut bytes);
    for cells in samples {
        writer.add(cells).unwrap();
    }
    let summary = writer.finish().unwrap();
    MemoryPart(bytes, summary)
}

/// A file of these parts with pages of the smallest size.
fn file(layout: &Layout, parts: &[Vec<Vec<Cell<'_>>>]) -> Vec<u8> {
    let parts: Vec<MemoryPart> = parts.iter().map(|samples| part(layout, samples)).collect();
    let parts: Vec<&dyn Part> = parts.iter().map(|p| p as &dyn Part).collect();
    let mut bytes = Vec::new();
    join(layout, &parts, 1, &mut bytes).unwrap();
    bytes
}

fn image_and_label() -> Layout {
    Layout::of([("image".to_owned(), FieldType::Image), ("label".to_owned(), FieldType::Int)])
}

fn jpeg(bytes: &[u8]) -> Cell<'_> {
    Cell::Image { mode: MODE_JPEG, width: 3, height: 2, bytes }
}

struct Subject;

impl conformance::Subject for Subject {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let samples = images.iter().map(|(_, bytes)| vec![jpeg(bytes), Cell::Int(3)]).collect();
        fs::write(folder.join("a.beton"), file(&image_and_label(), &[samples])).unwrap();
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
    conformance::check(&Subject);
}

fn open_bytes(bytes: Vec<u8>) -> Result<Beton> {
    Beton::open(Arc::new(MemorySource::new([("a.beton", bytes)])), "a.beton".to_owned())
}

/// Files by FFCV 1.0.2 (`testdata/formats/beton/make.py`), whose pages are nearly all zeros.
fn recorded(name: &str) -> Beton {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/beton");
    let packed = fs::read(folder.join(format!("{name}.beton.zst"))).unwrap();
    open_bytes(zstd::stream::decode_all(&packed[..]).unwrap()).unwrap()
}

#[test]
fn reads_what_ffcv_wrote() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/beton");
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    for mode in ["raw", "jpg", "proportion", "smart"] {
        let beton = recorded(mode);
        assert_eq!(beton.len(), 5);
        let kinds: Vec<_> = beton.schema().fields.iter().map(|f| (f.name.as_str(), f.kind)).collect();
        use crate::sample::Kind::*;
        assert_eq!(
            kinds,
            [
                ("img", Image),
                ("lab", Int),
                ("flt", Float),
                ("by", Bytes),
                ("nd", Array),
                ("js", Json),
                ("tt", Array)
            ]
        );
        for (sample, values) in expected[mode].as_array().unwrap().iter().enumerate() {
            check_sample(&beton, sample as u64, values);
        }
    }
}

fn check_sample(beton: &Beton, sample: u64, expected: &serde_json::Value) {
    let mut buffer = SampleBuffer::new();
    beton.read(sample, &FieldSet::all(7), &mut buffer).unwrap();
    let i = sample as i64;
    let Value::Image { bytes, meta, .. } = buffer.value(0) else { panic!("an image") };
    assert_eq!(
        (meta.width, meta.height, meta.channels, meta.orientation),
        (30 + 2 * sample as u32, 20 + sample as u32, 3, 1)
    );
    let raw = expected["raw"].as_bool().unwrap();
    assert_eq!(meta.encoding, if raw { ImageEncoding::Rgb } else { ImageEncoding::Jpeg });
    let hash = sha2::Sha256::digest(buffer.bytes(bytes));
    let hash = hash.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!(hash, expected["sha256"].as_str().unwrap());
    assert_eq!(beton.image_meta(sample, 0), Some(*meta));
    assert_eq!(*buffer.value(1), Value::Int(3 * i - 4));
    assert_eq!(beton.int_value(sample, 1), Some(3 * i - 4));
    assert_eq!(*buffer.value(2), Value::Float(i as f64 / 4.0));
    let Value::Bytes(bytes) = buffer.value(3) else { panic!("bytes") };
    assert_eq!(buffer.bytes(bytes), b"xyz".repeat(sample as usize + 1));
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(4) else { panic!("an array") };
    assert_eq!((*dtype, *dimensions, &shape[..2]), (DType::F32, 2, &[2, 3][..]));
    let numbers: Vec<u8> = (0..6).flat_map(|n| (n as f32 + i as f32).to_le_bytes()).collect();
    assert_eq!(buffer.bytes(bytes), numbers);
    let Value::Bytes(bytes) = buffer.value(5) else { panic!("json") };
    let json: serde_json::Value = serde_json::from_slice(buffer.bytes(bytes)).unwrap();
    assert_eq!(json, serde_json::json!({"k": i, "s": "e"}));
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(6) else { panic!("an array") };
    assert_eq!((*dtype, *dimensions, shape[0]), (DType::I64, 1, 4));
    assert_eq!(buffer.bytes(bytes), (0..4).flat_map(|n| (n + i).to_le_bytes()).collect::<Vec<u8>>());
}

#[test]
fn a_sample_is_one_read_and_its_extents_say_so() {
    let beton = recorded("jpg");
    let mut extents = Vec::new();
    beton.extents(2, &FieldSet::all(7), &mut extents);
    assert_eq!(extents.len(), 1);
    extents.clear();
    beton.extents(2, &FieldSet::only(7, [1, 2]), &mut extents);
    assert!(extents.is_empty(), "scalars are in the record");
    let length = beton.byte_length(2, 0).unwrap();
    let mut room = vec![0; length as usize];
    beton.read_bytes(2, 0, &mut room).unwrap();
    assert_eq!(&room[..2], [0xff, 0xd8]);
    assert!(beton.read_bytes(2, 0, &mut room[1..]).is_err());
    assert_eq!(beton.byte_length(2, 4), None, "arrays are not laid out by their bytes");
}

fn detected(name: &str, bytes: &[u8]) -> bool {
    let source = MemorySource::new([(name, bytes)]);
    recognises(&Target::Objects(Arc::new(source), vec![name.to_owned()])).unwrap().is_some()
}

#[test]
fn is_recognised_by_content() {
    let bytes = file(&image_and_label(), &[vec![vec![jpeg(b"abc"), Cell::Int(1)]]]);
    assert!(detected("data.bin", &bytes) && detected("a.beton", &bytes));
    assert!(!detected("data.bin", &bytes[..bytes.len() - 1]));
    assert!(detected("a.beton", &bytes[..bytes.len() - 1]), "so that the error says what is wrong");
    assert!(!detected("a.beton", b"something else that is not one at all"));
    assert!(!detected("a.beton", b""));
}

#[test]
fn an_interrupted_write_is_reported_as_such() {
    let mut bytes = file(&image_and_label(), &[vec![vec![jpeg(b"abc"), Cell::Int(1)]]]);
    bytes[16..24].fill(0);
    let message = open_bytes(bytes).unwrap_err().to_string();
    assert!(message.contains("interrupted") && message.contains("a.beton"), "{message}");
}

#[test]
fn several_files_must_be_named_one_by_one() {
    let bytes = file(&image_and_label(), &[]);
    let source = Arc::new(MemorySource::new([("a.beton", bytes.clone()), ("b.beton", bytes)]));
    let message = open(&Target::Folder(source), &ReadingOptions::default()).unwrap_err().to_string();
    assert!(message.contains("concat"), "{message}");
}

#[test]
fn samples_do_not_cross_pages_and_empty_payloads_fit() {
    let layout = Layout::of([
        ("a".to_owned(), FieldType::Bytes),
        ("i".to_owned(), FieldType::Image),
        ("j".to_owned(), FieldType::Json),
    ]);
    let raw = [7; 18];
    let image = || Cell::Image { mode: MODE_RAW, width: 3, height: 2, bytes: &raw };
    let samples = |from: usize| {
        (from..from + 4).map(|n| vec![Cell::Bytes(&raw[..n % 3]), image(), Cell::Json(b"{}")]).collect()
    };
    let bytes = file(&layout, &[samples(0), samples(4)]);
    let page = u64::from(u32::from_le_bytes(bytes[4..8].try_into().unwrap()));
    let beton = open_bytes(bytes).unwrap();
    let mut buffer = SampleBuffer::new();
    for sample in 0..8 {
        let mut extents = Vec::new();
        beton.extents(sample, &FieldSet::all(3), &mut extents);
        assert_eq!(extents.len(), 1);
        assert_eq!(extents[0].range.start / page, (extents[0].range.end - 1) / page);
        beton.read(sample, &FieldSet::all(3), &mut buffer).unwrap();
        let Value::Bytes(bytes) = buffer.value(0) else { panic!("bytes") };
        assert_eq!(bytes.len() as u64, sample % 3);
        let Value::Image { bytes, .. } = buffer.value(1) else { panic!("an image") };
        assert_eq!(buffer.bytes(bytes), raw);
        let Value::Bytes(bytes) = buffer.value(2) else { panic!("json") };
        assert_eq!(buffer.bytes(bytes), b"{}");
    }
}

/// Impossible numbers, one at a time: refused at opening or at reading, never more memory than the file.
#[test]
fn impossible_numbers_are_refused() {
    let good = file(&image_and_label(), &[vec![vec![jpeg(b"abc"), Cell::Int(1)]]]);
    let record = HEADER_LENGTH + 2 * header::DESCRIPTOR_LENGTH;
    let table = good.len() - ALLOCATION_LENGTH;
    for (at, name) in [
        (8, "samples"),
        (16, "table"),
        (record + 5, "image pointer"),
        (table + 8, "allocation pointer"),
        (table + 16, "allocation length"),
    ] {
        for value in [u64::MAX, 1 << 40, good.len() as u64 + 1] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let read = open_bytes(bytes).and_then(|b| b.read(0, &FieldSet::all(2), &mut SampleBuffer::new()));
            assert!(read.is_err(), "{name} = {value}");
        }
    }
    let mut bytes = good.clone();
    bytes[record] = 7;
    let error = open_bytes(bytes).unwrap().read(0, &FieldSet::all(2), &mut SampleBuffer::new()).unwrap_err();
    assert!(error.to_string().contains("image mode 7"), "{error}");
}

fn converted(source: &dyn Format, shard_bytes: u64) -> Result<(tempfile::TempDir, Beton)> {
    let folder = tempfile::tempdir().unwrap();
    let options = ConvertOptions { to: "beton".to_owned(), shard_bytes: Some(shard_bytes), workers: 2 };
    convert(source, folder.path().join("out.beton"), &options, &())?;
    let beton = Beton::open(Arc::new(LocalSource::new(folder.path())), "out.beton".to_owned())?;
    Ok((folder, beton))
}

/// Every field type of FFCV, in one part and in many: values and bytes are the same, image by image raw or JPEG.
#[test]
fn written_files_are_read_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/beton");
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    for shard_bytes in [1, 5000, 1 << 30] {
        let (_folder, beton) = converted(&recorded("proportion"), shard_bytes).unwrap();
        assert_eq!(beton.len(), 5);
        for (sample, values) in expected["proportion"].as_array().unwrap().iter().enumerate() {
            check_sample(&beton, sample as u64, values);
        }
    }
}

/// One image as a data set.
#[derive(Debug)]
struct OneImage(Schema, Vec<u8>, ImageMeta);

impl OneImage {
    fn new(name: &str, bytes: Vec<u8>) -> Self {
        let fields = vec![FieldSpec::new(name, crate::sample::Kind::Image)];
        OneImage(Schema { fields, classes: None }, bytes, ImageMeta::UNKNOWN)
    }
}

impl Format for OneImage {
    fn name(&self) -> &'static str {
        "picture"
    }

    fn len(&self) -> u64 {
        1
    }

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([0; 16])
    }

    fn read(&self, _: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(1);
        let bytes = into.append(&self.1);
        into.set(0, Value::Image { index: 0..0, bytes, meta: self.2 });
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("picture").with_sample(sample)
    }
}

impl crate::format::Index for OneImage {}

impl crate::format::Extents for OneImage {}

fn test_image(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images").join(name)).unwrap()
}

/// FFCV has JPEG and raw pixels: everything else, and JPEGs that must be rotated, become pixels.
#[test]
fn other_images_become_upright_pixels() {
    for (name, size) in [("rgb.png", None), ("lossy.webp", None), ("turned-6.png", Some(()))] {
        let bytes = test_image(name);
        let header = feedline_pixels::probe(&bytes).unwrap();
        let upright = header.orientation.turn_size(header.size);
        assert_eq!(size.is_some(), upright != header.size);
        let (_folder, beton) = converted(&OneImage::new("image", bytes.clone()), 1000).unwrap();
        let meta = beton.image_meta(0, 0).unwrap();
        assert_eq!(
            (meta.width, meta.height, meta.encoding),
            (upright.width, upright.height, ImageEncoding::Rgb)
        );
        let mut decoder = feedline_pixels::Decoder::new();
        let (_, image) = decoder.decode_upright(&bytes).unwrap();
        let step = image.layout.bytes();
        let rows = (0..upright.height).flat_map(|y| image.row(y).chunks_exact(step));
        let pixels: Vec<u8> = rows.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        let mut room = vec![0; beton.byte_length(0, 0).unwrap() as usize];
        beton.read_bytes(0, 0, &mut room).unwrap();
        assert_eq!(room, pixels, "{name}");
    }
}

#[test]
fn fields_a_beton_cannot_store_are_refused_by_name() {
    let long = converted(&OneImage::new("seventeen-letters", test_image("rgb.png")), 1000).unwrap_err();
    assert!(long.to_string().contains("seventeen-letters"), "{long}");
    let broken = converted(&OneImage::new("image", b"no picture".to_vec()), 1000).unwrap_err();
    assert!(broken.to_string().contains("'image'"), "{broken}");
    let mut optional = OneImage::new("image", test_image("rgb.png"));
    optional.0.fields[0].optional = true;
    converted(&optional, 1000).unwrap();
    let mut packed = OneImage::new("image", vec![0; 6]);
    packed.2 =
        ImageMeta { encoding: ImageEncoding::Yuv420, width: 2, height: 2, channels: 3, orientation: 1 };
    assert!(converted(&packed, 1000).unwrap_err().to_string().contains("yuv420"));
}
