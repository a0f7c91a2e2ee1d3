//! Packs written by released versions stay readable. `testdata/compat/pack-v1` was written by [`write_fixture`]; it is
//! never written again: a change that cannot read it is a change of the major version.

use std::path::PathBuf;

use feedline::field::{FieldSpec, ImageEncoding, ImageMeta, Schema};
use feedline::format::{
    EncodedImage, ImageEncoder, ImageInput, OnPackError, PackOptions, PackWriter, verify,
};
use feedline::owned::OwnedValue;
use feedline::{DType, Dataset, Kind, Sample};

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/compat/pack-v1")
}

/// Stores every encoding: the sample's own meta says which, and odd images get a seek index.
#[derive(Debug)]
struct Keep;

impl ImageEncoder for Keep {
    fn name(&self) -> String {
        "fixture".to_owned()
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        if input.bytes.is_empty() {
            return Err("no bytes".to_owned());
        }
        out.bytes = None;
        out.index = input.index.to_vec();
        out.meta = input.meta;
        Ok(())
    }
}

fn schema() -> Schema {
    let kinds = [
        ("image", Kind::Image),
        ("label", Kind::Int),
        ("score", Kind::Float),
        ("caption", Kind::Text),
        ("extra", Kind::Json),
        ("raw", Kind::Bytes),
        ("boxes", Kind::Array),
    ];
    let mut fields: Vec<_> = kinds.into_iter().map(|(name, kind)| FieldSpec::new(name, kind)).collect();
    for field in &mut fields[3..] {
        field.optional = true;
    }
    Schema { fields, classes: Some(vec!["cat".to_owned(), "dög".to_owned()]) }
}

fn sample(number: u64) -> Sample {
    let encodings = [
        ImageEncoding::File,
        ImageEncoding::Jpeg,
        ImageEncoding::Rgb,
        ImageEncoding::Yuv420,
        ImageEncoding::Dct,
    ];
    let n = number as u8;
    let meta = ImageMeta {
        encoding: encodings[number as usize % 5],
        width: 2 + number as u32 * 1000,
        height: 70_000 + number as u32,
        channels: [1, 3, 4][number as usize % 3],
        orientation: n % 9,
    };
    let index = if number % 2 == 1 { vec![1, n, n] } else { Vec::new() };
    let image = OwnedValue::Image { bytes: vec![n; 3 + number as usize], index, meta };
    let labels = [0, 1, -1, i64::MAX, i64::MIN];
    let scores = [0.0, -0.5, f64::MAX, f64::INFINITY, 1e-300];
    let present = |value: OwnedValue| if number % 4 == 3 { OwnedValue::Missing } else { value };
    let array = if number.is_multiple_of(2) {
        let bytes = [1.5f32, -2.0, 0.25, 8.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        OwnedValue::Array { dtype: DType::F32, shape: vec![1, 4], bytes }
    } else {
        OwnedValue::Array { dtype: DType::I16, shape: vec![0, 4, 9], bytes: Vec::new() }
    };
    Sample::new([
        ("image", image),
        ("label", OwnedValue::Int(labels[number as usize % 5])),
        ("score", OwnedValue::Float(scores[number as usize % 5])),
        ("caption", present(OwnedValue::Text(format!("sample {number} – ☃")))),
        ("extra", present(OwnedValue::Json(format!("{{\"n\":{number}}}")))),
        ("raw", present(OwnedValue::Bytes(vec![255 - n; number as usize % 3]))),
        ("boxes", present(array)),
    ])
}

const SAMPLES: u64 = 12;

fn write(path: &std::path::Path) {
    let options = PackOptions {
        image: std::sync::Arc::new(Keep),
        part_bytes: Some(400),
        on_error: OnPackError::Skip,
        ..PackOptions::default()
    };
    let mut writer = PackWriter::create(path, schema(), options).unwrap();
    for number in 0..SAMPLES {
        writer.push(&sample(number)).unwrap();
    }
    let empty = Sample::new([("image", OwnedValue::image(Vec::new()))]);
    writer.push(&empty).unwrap();
    writer.finish().unwrap();
}

/// `cargo test -p feedline --test all -- --ignored compat::write_fixture` writes the fixture where there is none.
#[test]
#[ignore = "the fixture is written once per major version"]
fn write_fixture() {
    write(&fixture());
}

#[test]
fn version_1_reads_as_it_was_written() {
    let dataset = Dataset::open(fixture().display().to_string()).unwrap();
    assert_eq!(dataset.format_name(), "pack");
    assert_eq!(dataset.schema(), &schema());
    assert_eq!(dataset.len(), SAMPLES);
    assert_eq!(dataset.classes().unwrap(), ["cat", "dög"]);
    assert_eq!(dataset.fingerprint().to_hex(), FINGERPRINT);
    for number in 0..SAMPLES {
        assert_eq!(dataset.get(number).unwrap(), sample(number), "sample {number}");
    }
}

const FINGERPRINT: &str = "87fa6e1880e703c4edc8298ee3231581";

#[test]
fn version_1_verifies() {
    let report = verify(fixture(), 1, &()).unwrap();
    assert!(report.is_intact(), "{:?}", report.damage);
    assert_eq!(report.samples, SAMPLES);
}

/// As long as the minor version stands, the writer gives the same bytes.
#[test]
fn the_writer_still_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let names = |path: &std::path::Path| {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(folder.path()), names(&fixture()));
    for name in names(folder.path()) {
        let (new, old) = (folder.path().join(&name), fixture().join(&name));
        assert!(std::fs::read(new).unwrap() == std::fs::read(old).unwrap(), "{} differs", name.display());
    }
}
