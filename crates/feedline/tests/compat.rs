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

/// Images in every encoding that has a table of pieces, with the tables of version 1.3.
mod version_1_3 {
    use feedline_pixels::pieces::{Form, PieceTable, table};
    use feedline_pixels::{ImageRef, PixelLayout, Size, dct, turbo, yuv};

    use super::*;

    const SIZE: Size = Size::new(160, 140);

    fn folder() -> PathBuf {
        fixture().with_file_name("pack-v1.3")
    }

    fn images() -> [(Form, ImageEncoding, Vec<u8>); 4] {
        let pixels: Vec<u8> =
            (0..SIZE.area() * 3).map(|i| (i * i / 900 + i / 7 + i % 3 * 40) as u8).collect();
        let image = ImageRef::new(&pixels, SIZE, SIZE.width as usize * 3, PixelLayout::Rgb).unwrap();
        let file = turbo::encode(&pixels, &turbo::Encoding::baseline(SIZE, 3, 98, (2, 2))).unwrap();
        let (yuv, dct) = (yuv::encode(image), dct::encode(&file, 1 << 20).unwrap());
        let compact = dct::compact::encode(&file, 1 << 20).unwrap();
        [
            (Form::Rgb, ImageEncoding::Rgb, pixels),
            (Form::Yuv420, ImageEncoding::Yuv420, yuv),
            (Form::Dct, ImageEncoding::Dct, dct),
            (Form::Compact, ImageEncoding::Compact, compact),
        ]
    }

    #[derive(Debug)]
    struct Named;

    impl ImageEncoder for Named {
        fn name(&self) -> String {
            "rgb yuv420 dct compact".to_owned()
        }

        fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
            Keep.encode(input, out)
        }
    }

    /// `cargo test -p feedline --test all -- --ignored version_1_3::write_fixture` writes it where there is none.
    #[test]
    #[ignore = "the fixture is written once"]
    fn write_fixture() {
        let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
        let options = PackOptions { image: std::sync::Arc::new(Named), ..PackOptions::default() };
        let mut writer = PackWriter::create(folder(), schema, options).unwrap();
        for (form, encoding, bytes) in images() {
            let (width, height) = (SIZE.width, SIZE.height);
            let meta = ImageMeta { encoding, width, height, channels: 3, orientation: 1 };
            let index = table(form, SIZE, &bytes);
            writer.push(&Sample::new([("image", OwnedValue::Image { bytes, index, meta })])).unwrap();
        }
        writer.finish().unwrap();
    }

    #[test]
    fn reads_as_it_was_written() {
        assert!(verify(folder(), 1, &()).unwrap().is_intact());
        let manifest = std::fs::read_to_string(folder().join("feedline.json")).unwrap();
        assert!(manifest.starts_with(r#"{"feedline_pack":[1,3],"#), "{manifest}");
        let dataset = Dataset::open(folder().display().to_string()).unwrap();
        for (number, (form, encoding, expected)) in (0..).zip(images()) {
            let sample = dataset.get(number).unwrap();
            let Some(OwnedValue::Image { bytes, index, meta }) = sample.get("image") else { panic!() };
            assert_eq!((meta.encoding, meta.width, meta.height), (encoding, SIZE.width, SIZE.height));
            assert!(PieceTable::parse(index, bytes.len() as u64).unwrap().count() > 8);
            // How headers are deflated may change, and only that.
            let rows = |bytes: &[u8]| if form == Form::Compact { bytes.len() - 2000 } else { bytes.len() };
            let rows = rows(bytes).min(rows(&expected));
            assert!(bytes[36..rows] == expected[36..rows], "{form:?}");
            assert_eq!(table(form, SIZE, bytes), *index, "{form:?}");
        }
        assert_eq!(dataset.len(), 4);
    }

    #[test]
    fn crops_are_read_in_pieces() {
        let dataset = Dataset::open(folder().display().to_string()).unwrap();
        let options = feedline::LoaderOptions::from_json(
            r#"{"transforms": {"image": [{"op": "CenterCrop", "size": [32, 160]}]}, "batch_size": 4, "num_workers": 1,
                "dtype": "uint8", "memory_format": "channels_last"}"#,
        );
        let loader = feedline::Loader::new(dataset, options.unwrap()).unwrap();
        let batch = loader.epoch(0).unwrap().next_batch().unwrap().unwrap();
        let column = batch.columns().iter().find(|column| column.name == "image").unwrap();
        let pixels = &images()[0].2;
        let row = SIZE.width as usize * 3;
        assert!(column.row(0) == &pixels[54 * row..86 * row], "rgb");
        assert!(column.row(2) == column.row(3), "dct and compact are the same JPEG");
        let read = loader.stats().bytes_read;
        let stored: u64 = images().iter().map(|image| image.2.len() as u64).sum();
        assert!(read * 2 < stored, "{read} of {stored} bytes");
    }
}
