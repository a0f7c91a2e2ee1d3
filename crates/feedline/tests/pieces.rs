//! Images that a pack stores with tables of pieces: batches are those of whole reads, only what a crop needs is read and
//! checked, and packs without tables (of versions before 1.3) give the same batches.

use std::path::Path;
use std::sync::Arc;

use feedline::field::{FieldSpec, ImageEncoding, ImageMeta, Schema};
use feedline::format::{EncodedImage, ImageEncoder, ImageInput, PackOptions, PackWriter, verify};
use feedline::owned::OwnedValue;
use feedline::{Dataset, Kind, Loader, LoaderOptions, PackSettings, Sample};
use feedline_pixels::pieces::{Form, PieceTable};
use feedline_pixels::{Size, turbo};

const WAYS: [ImageEncoding; 4] =
    [ImageEncoding::Rgb, ImageEncoding::Yuv420, ImageEncoding::Dct, ImageEncoding::Compact];

const TRAIN: &str =
    r#""image": [{"op": "RandomResizedCrop", "size": [32, 40]}, {"op": "RandomHorizontalFlip"}]"#;

fn photo(number: u32) -> Vec<u8> {
    let size = Size::new(230 + 7 * number, 260 - 5 * number);
    let mut state = u64::from(number) + 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 57) as u8
    };
    let pixels: Vec<u8> = (0..size.area() * 3).map(|i| ((i / 700) as u8).wrapping_add(noise())).collect();
    turbo::encode(&pixels, &turbo::Encoding::baseline(size, 3, 93, (2, 2))).unwrap()
}

/// A pack of six photos stored in this way.
fn packed(folder: &Path, image: ImageEncoding) -> Dataset {
    let (photos, pack) = (folder.join("photos"), folder.join(image.name()));
    std::fs::create_dir_all(&photos).unwrap();
    for number in 0..6 {
        std::fs::write(photos.join(format!("{number}.jpg")), photo(number)).unwrap();
    }
    let source = Dataset::open(photos.display().to_string()).unwrap();
    let settings = PackSettings { image, workers: 1, ..PackSettings::default() };
    feedline::pack(&**source.format(), &pack, &settings.options().unwrap(), &()).unwrap();
    Dataset::open(pack.display().to_string()).unwrap()
}

/// Stores images as they are given, with their indexes.
#[derive(Debug)]
struct Keep;

impl ImageEncoder for Keep {
    fn name(&self) -> String {
        "kept".to_owned()
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        (out.bytes, out.index, out.meta) = (None, input.index.to_vec(), input.meta);
        Ok(())
    }
}

type StoredImage = (Vec<u8>, Vec<u8>, ImageMeta);

fn stored(dataset: &Dataset, sample: u64) -> StoredImage {
    match dataset.get(sample).unwrap().get("image") {
        Some(OwnedValue::Image { bytes, index, meta }) => (bytes.clone(), index.clone(), *meta),
        other => panic!("{other:?}"),
    }
}

/// A pack of these images, as older or other writers may have written it.
fn rewritten(folder: &Path, images: impl IntoIterator<Item = StoredImage>) -> Dataset {
    let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
    let options = PackOptions { image: Arc::new(Keep), ..PackOptions::default() };
    let mut writer = PackWriter::create(folder, schema, options).unwrap();
    for (bytes, index, meta) in images {
        writer.push(&Sample::new([("image", OwnedValue::Image { bytes, index, meta })])).unwrap();
    }
    writer.finish().unwrap();
    Dataset::open(folder.display().to_string()).unwrap()
}

/// All image bytes of two epochs, and how many stored bytes were read.
fn epochs(dataset: &Dataset, transforms: &str, more: &str) -> feedline::Result<(Vec<u8>, u64)> {
    let options = format!(
        r#"{{"transforms": {{{transforms}}}, "dtype": "uint8", "seed": 3, "batch_size": 4, "num_workers": 1,
            "fields": ["image"]{more}}}"#
    );
    let loader = Loader::new(dataset.clone(), LoaderOptions::from_json(&options).unwrap())?;
    let mut bytes = Vec::new();
    for epoch in 0..2 {
        let mut batches = loader.epoch(epoch)?;
        while let Some(batch) = batches.next_batch()? {
            for column in batch.columns().iter().filter(|column| column.name.starts_with("image")) {
                (0..batch.rows()).for_each(|row| bytes.extend_from_slice(column.row(row)));
            }
        }
    }
    Ok((bytes, loader.stats().bytes_read))
}

#[test]
fn batches_are_those_of_packs_without_tables_and_less_is_read() {
    let views = r#""image": {"a": [{"op": "RandomResizedCrop", "size": [20, 20], "scale": [0.1, 0.3]}],
        "b": [{"op": "CenterCrop", "size": [50, 60]}]}"#;
    let whole = r#""image": []"#;
    let beside = r#""image": [{"op": "RandomCrop", "size": [30, 30], "padding": [40, 40, 40, 40]}]"#;
    for image in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let dataset = packed(folder.path(), image);
        let without = (0..dataset.len()).map(|n| (stored(&dataset, n).0, Vec::new(), stored(&dataset, n).2));
        let older = rewritten(&folder.path().join("older"), without);
        for (transforms, more, most) in [
            (TRAIN, "", 0.85),
            (TRAIN, r#", "decode": "fast""#, 0.85),
            (views, "", 0.7),
            (beside, "", 0.7),
            (whole, "", 1.01),
        ] {
            let (pixels, read) = epochs(&dataset, transforms, more).unwrap();
            let (expected, all) = epochs(&older, transforms, more).unwrap();
            assert!(pixels == expected && !pixels.is_empty(), "{image:?} {transforms} {more}");
            let share = read as f64 / all as f64;
            assert!(share < most, "{image:?} {transforms} {more}: {read} of {all} bytes");
        }
    }
}

#[test]
fn rotated_pixels_are_read_in_pieces_too() {
    let folder = tempfile::tempdir().unwrap();
    for image in WAYS {
        let dataset = packed(folder.path(), image);
        let turned = |keep: bool| {
            let images =
                (0..6).map(|n| stored(&dataset, n)).enumerate().map(move |(n, (bytes, index, meta))| {
                    let meta = ImageMeta { orientation: 3 + n as u8, ..meta };
                    (bytes, if keep { index } else { Vec::new() }, meta)
                });
            rewritten(&folder.path().join(format!("{}-{keep}", image.name())), images)
        };
        let ((pixels, read), (expected, all)) =
            (epochs(&turned(true), TRAIN, "").unwrap(), epochs(&turned(false), TRAIN, "").unwrap());
        assert!(pixels == expected && read < all, "{image:?}: {read} of {all}");
    }
}

/// Flips one byte of every piece, in turn.
#[test]
fn damage_is_noticed_where_it_is_read_and_only_there() {
    let crop = r#""image": [{"op": "CenterCrop", "size": [40, 60]}]"#;
    for image in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let dataset = packed(folder.path(), image);
        let (bytes, index, meta) = stored(&dataset, 0);
        let one = folder.path().join("one");
        let good = rewritten(&one, [(bytes.clone(), index.clone(), meta)]);
        let expected = epochs(&good, crop, "").unwrap();
        let part = one.join("part-000000.fl");
        let file = std::fs::read(&part).unwrap();
        let table = PieceTable::parse(&index, bytes.len() as u64).unwrap();
        let form = match image {
            ImageEncoding::Rgb => Form::Rgb,
            ImageEncoding::Yuv420 => Form::Yuv420,
            ImageEncoding::Dct => Form::Dct,
            _ => Form::Compact,
        };
        let size = Size::new(meta.width, meta.height);
        let top = (size.height - 40) / 2;
        let needed = table.needed(form, size, top..top + 40, feedline_pixels::jpeg::Scale::Full).unwrap();
        let needed: Vec<usize> = needed.into_iter().flatten().collect();
        assert!(needed.len() < table.count() && !needed.is_empty());
        for number in 0..table.count() {
            let piece = table.piece(number);
            let at = 64
                + (piece.start + (piece.end - piece.start) * number as u64 / table.count() as u64) as usize;
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&part, &damaged).unwrap();
            let found = epochs(&good, crop, "");
            if needed.contains(&number) {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("checksum of its bytes"), "{image:?}, piece {number}: {error}");
            } else {
                assert_eq!(found.unwrap(), expected, "{image:?}, piece {number}");
            }
            let report = verify(&one, 1, &()).unwrap();
            assert!(report.damage.iter().any(|d| d.sample == Some(0)), "{image:?}, piece {number}");
        }
        // The table itself has a checksum, too.
        let mut damaged = file.clone();
        damaged[64 + bytes.len() + 20] ^= 1;
        std::fs::write(&part, &damaged).unwrap();
        let error = epochs(&good, crop, "").unwrap_err().to_string();
        assert!(error.contains("seek index"), "{error}");
        assert!(!verify(&one, 1, &()).unwrap().is_intact());
    }
}

#[test]
fn other_tables_are_not_used_and_wrong_ones_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = packed(folder.path(), ImageEncoding::Rgb);
    let (bytes, index, meta) = stored(&dataset, 1);
    let (expected, all) =
        epochs(&rewritten(&folder.path().join("none"), [(bytes.clone(), Vec::new(), meta)]), TRAIN, "")
            .unwrap();
    let later = [&b"PT\x02\0"[..], &index[4..]].concat();
    let shorter = index[..index.len() - 8].to_vec();
    for (number, other) in [later, shorter, vec![1, 2, 3]].into_iter().enumerate() {
        let pack = folder.path().join(format!("other-{number}"));
        let found = epochs(&rewritten(&pack, [(bytes.clone(), other, meta)]), TRAIN, "").unwrap();
        assert_eq!(found.0, expected);
        assert!(found.1 >= all, "read whole");
        assert!(verify(&pack, 1, &()).unwrap().is_intact());
    }
    // A table of another image of this length: its checksum is right, those in it are not.
    let mut wrong = index.clone();
    wrong[12 + 8 * 14 + 4] ^= 1;
    let pack = folder.path().join("wrong");
    let dataset = rewritten(&pack, [(bytes, wrong, meta)]);
    let whole = epochs(&dataset, r#""image": []"#, "").unwrap_err().to_string();
    assert!(whole.contains("checksum of its bytes"), "{whole}");
    let damage = verify(&pack, 1, &()).unwrap().damage;
    assert!(damage.len() == 1 && damage[0].reason.contains("table of pieces"), "{damage:?}");
}
