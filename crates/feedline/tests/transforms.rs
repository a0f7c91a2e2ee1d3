//! What recipes give, to the bit: digests of every recipe, element type, layout and decode mode in
//! `testdata/transforms/golden.txt`. A change of any of them changes what people train on, so it is a decision and
//! not a side effect. `FEEDLINE_WRITE_GOLDEN=1` writes the file again.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use feedline::error::Location;
use feedline::field::{FieldSpec, ImageEncoding, ImageMeta, Schema};
use feedline::format::Format;
use feedline::sample::{FieldSet, Fingerprint, SampleBuffer, Value};
use feedline::{Dataset, Kind, Loader, LoaderOptions, Result};

/// Lists of transforms, as JSON; an object is several views.
const RECIPES: &[(&str, &str)] = &[
    ("none", "[]"),
    ("train", r#"[{"op": "RandomResizedCrop", "size": [32, 40]}, {"op": "RandomHorizontalFlip"}]"#),
    (
        "train-direct-bicubic",
        r#"[{"op": "RandomResizedCrop", "size": [24, 24], "method": "direct", "interpolation": "bicubic"}]"#,
    ),
    (
        "train-nearest",
        r#"[{"op": "RandomResizedCrop", "size": [24, 24], "scale": [0.3, 0.9], "interpolation": "nearest"},
            {"op": "RandomVerticalFlip", "p": 0.3}]"#,
    ),
    ("validation", r#"[{"op": "Resize", "shorter": 40}, {"op": "CenterCrop", "size": [32, 32]}]"#),
    ("resize-max", r#"[{"op": "Resize", "shorter": 40, "max_size": 60}]"#),
    ("resize-exact", r#"[{"op": "Resize", "size": [20, 30]}]"#),
    ("ffcv", r#"[{"op": "ResizedCenterCrop", "size": [24, 24], "ratio": 0.875}]"#),
    ("center-padded", r#"[{"op": "CenterCrop", "size": [100, 100]}]"#),
    (
        "cifar",
        r#"[{"op": "RandomCrop", "size": [64, 48], "padding": [4, 4, 4, 4], "pad_if_needed": true, "fill": [1, 2, 3]},
            {"op": "RandomHorizontalFlip"}]"#,
    ),
    (
        "pad",
        r#"[{"op": "Pad", "padding": [1, 2, 3, 4], "fill": [9, 8, 7]}, {"op": "Resize", "shorter": 20}]"#,
    ),
    ("buckets", r#"[{"op": "BucketResize", "sizes": [[24, 32], [32, 24], [16, 64]]}]"#),
    (
        "three-steps",
        r#"[{"op": "RandomHorizontalFlip", "p": 0.5}, {"op": "Resize", "shorter": 50},
            {"op": "RandomCrop", "size": [40, 40]}, {"op": "Resize", "size": [30, 20]},
            {"op": "RandomVerticalFlip", "p": 0.5}, {"op": "Pad", "padding": [2, 2, 2, 2], "fill": [5, 5, 5]}]"#,
    ),
    (
        "views",
        r#"{"a": [{"op": "RandomResizedCrop", "size": [16, 16]}], "b": [{"op": "RandomResizedCrop", "size": [16, 16]}],
            "whole": [{"op": "Resize", "size": [12, 12]}]}"#,
    ),
];

const NORMALIZE: &str = r#"{"op": "Normalize", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}"#;

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/transforms").join(name)
}

/// JPEGs (one turned), a PNG, and raw pixels.
#[derive(Debug)]
struct Images(Vec<(Vec<u8>, ImageMeta)>, Schema);

impl Format for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn schema(&self) -> &Schema {
        &self.1
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([1; 16])
    }

    fn read(&self, sample: u64, _fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        let (bytes, meta) = &self.0[sample as usize];
        into.reset(1);
        let range = into.append(bytes);
        into.set(0, Value::Image { bytes: range, index: 0..0, meta: *meta });
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("images").with_sample(sample)
    }
}

impl feedline::format::Index for Images {}

impl feedline::format::Extents for Images {}

fn images() -> Dataset {
    let read = |name| (std::fs::read(testdata(name)).unwrap(), ImageMeta::UNKNOWN);
    let mut all: Vec<_> = ["a.jpg", "b.jpg", "c.png", "d.jpg"].map(read).into();
    let raw = (0..70u32 * 55 * 3).map(|i| ((i * i) >> 7) as u8 ^ i as u8).collect();
    let meta = ImageMeta { encoding: ImageEncoding::Rgb, width: 70, height: 55, channels: 3, orientation: 1 };
    all.push((raw, meta));
    let schema = Schema { fields: vec![FieldSpec::new("image", Kind::Image)], classes: None };
    Dataset::from_format(Arc::new(Images(all, schema)), "images")
}

fn digest(recipe: &str, dtype: &str, layout: &str, decode: &str) -> String {
    let recipe = match dtype {
        "uint8" => recipe.to_owned(),
        _ => recipe.replace("}]", &format!("}}, {NORMALIZE}]")),
    };
    let options = format!(
        r#"{{"transforms": {{"image": {recipe}}}, "dtype": "{dtype}", "memory_format": "{layout}",
            "decode": "{decode}", "seed": 7, "batch_size": 5, "num_workers": 1}}"#
    );
    let loader = Loader::new(images(), LoaderOptions::from_json(&options).unwrap()).unwrap();
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for epoch in 0..3 {
        let mut batches = loader.epoch(epoch).unwrap();
        while let Some(batch) = batches.next_batch().unwrap() {
            for column in batch.columns().iter().filter(|column| column.name.starts_with("image")) {
                for row in 0..batch.rows() {
                    pieces.push(format!("{:?}", column.row_shape(row)).into_bytes());
                    pieces.push(column.row(row).to_vec());
                }
            }
        }
    }
    Fingerprint::of(pieces.iter().map(Vec::as_slice)).to_hex()[..16].to_owned()
}

fn all_digests() -> String {
    let mut text = String::new();
    for (name, recipe) in RECIPES {
        for dtype in ["float32", "float16", "bfloat16", "uint8"] {
            for layout in ["channels_first", "channels_last"] {
                for decode in ["exact", "fast"] {
                    let digest = digest(recipe, dtype, layout, decode);
                    writeln!(text, "{name} {dtype} {layout} {decode} {digest}").unwrap();
                }
            }
        }
    }
    text
}

#[test]
fn recipes_give_the_recorded_values() {
    let found = all_digests();
    if std::env::var_os("FEEDLINE_WRITE_GOLDEN").is_some() {
        std::fs::write(testdata("golden.txt"), &found).unwrap();
    }
    let expected = std::fs::read_to_string(testdata("golden.txt")).unwrap();
    let wrong: Vec<_> = expected.lines().zip(found.lines()).filter(|(a, b)| a != b).collect();
    assert!(wrong.is_empty() && expected.lines().count() == found.lines().count(), "{wrong:#?}");
}
