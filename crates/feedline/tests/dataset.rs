//! Opening: detection, names, selections, descriptions; and WebDataset against webdataset's own reading.

use std::collections::BTreeMap;
use std::path::PathBuf;

use feedline::dataset::DatasetSpec;
use feedline::format::PackOptions;
use feedline::owned::OwnedValue;
use feedline::sample::{FieldSet, SampleBuffer, Value};
use feedline::{DType, Dataset, Kind, OpenOptions, pack};

fn testdata(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name).display().to_string()
}

fn open_with(uri: &str, fields: &[(&str, &str)]) -> feedline::Result<Dataset> {
    let fields = fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let options = OpenOptions { fields: Some(fields), ..OpenOptions::default() };
    Dataset::open_all(&[uri.to_owned()], &options)
}

/// `expected.json` holds what webdataset 1.0.2 yields: for each sample its key and, by suffix, a length (or, for one
/// decoded field, a value we do not need).
/// webdataset's samples, with those that it tears apart (one key, no suffix in common) put together again.
fn joined(samples: Vec<BTreeMap<String, serde_json::Value>>) -> Vec<BTreeMap<String, serde_json::Value>> {
    let mut whole: Vec<BTreeMap<String, serde_json::Value>> = Vec::new();
    for sample in samples {
        let fits = |other: &&mut BTreeMap<String, serde_json::Value>| {
            let shared = |name: &&String| !name.starts_with("__") && other.contains_key(*name);
            other["__key__"] == sample["__key__"] && !sample.keys().any(|name| shared(&name))
        };
        match whole.iter_mut().find(fits) {
            Some(first) => first.extend(sample),
            None => whole.push(sample),
        }
    }
    whole
}

#[test]
fn webdataset_groups_as_webdataset_does() {
    let text = std::fs::read_to_string(testdata("webdataset/expected.json")).unwrap();
    let expected: BTreeMap<String, Vec<BTreeMap<String, serde_json::Value>>> =
        serde_json::from_str(&text).unwrap();
    for (name, samples) in expected {
        let samples = joined(samples);
        let dataset = Dataset::open(testdata(&format!("webdataset/{name}"))).unwrap();
        assert_eq!((dataset.format_name(), dataset.len()), ("webdataset", samples.len() as u64), "{name}");
        // Under the original names: renaming is checked elsewhere.
        let format = dataset.format();
        for (number, sample) in samples.iter().enumerate() {
            let mut buffer = SampleBuffer::new();
            let (mut found, mut wanted) = (BTreeMap::new(), BTreeMap::new());
            for (suffix, length) in sample.iter().filter(|(k, _)| !k.starts_with("__")) {
                wanted.insert(suffix.clone(), length.as_u64().unwrap());
            }
            for (field, spec) in format.schema().fields.iter().enumerate() {
                let original = match spec.name.as_str() {
                    "label" => "cls",
                    "image" => sample.keys().find(|k| k.ends_with("jpg")).map_or("jpg", String::as_str),
                    name => name,
                };
                if spec.name == "key" {
                    format
                        .read(
                            number as u64,
                            &FieldSet::only(format.schema().fields.len(), [field]),
                            &mut buffer,
                        )
                        .unwrap();
                    let Value::Bytes(range) = buffer.value(field) else { panic!("a key") };
                    assert_eq!(buffer.bytes(range), sample["__key__"].as_str().unwrap().as_bytes());
                } else if let Some(length) = format.byte_length(number as u64, field) {
                    found.insert(original.to_owned(), length);
                } else if spec.kind != Kind::Bytes && sample.contains_key(original) {
                    // Decoded kinds have no stored length to tell.
                    wanted.remove(original);
                }
            }
            assert_eq!(found, wanted, "{name} sample {number}");
        }
    }
}

#[test]
fn webdataset_values_are_decoded() {
    let dataset = Dataset::open(testdata("webdataset/a-000000.tar")).unwrap();
    for number in 0..3u64 {
        let sample = dataset.get(number).unwrap();
        assert_eq!(sample.get("key"), Some(&OwnedValue::Text(format!("sub/{number:06}"))));
        assert_eq!(sample.get("label"), Some(&OwnedValue::Int(number as i64)));
        assert_eq!(sample.get("txt"), Some(&OwnedValue::Text("héllo".to_owned())));
        let Some(OwnedValue::Json(text)) = sample.get("json") else { panic!("json") };
        assert_eq!(serde_json::from_str::<serde_json::Value>(text).unwrap()["i"], number);
        let Some(OwnedValue::Array { dtype, shape, bytes }) = sample.get("npy") else { panic!("an array") };
        let expected: Vec<u8> = (0..4).flat_map(|i: i64| (i + number as i64).to_le_bytes()).collect();
        assert_eq!((*dtype, shape.as_slice(), bytes), (DType::I64, &[4u64][..], &expected));
        // Two image fields: neither is called `image`.
        assert!(
            sample.get("image").is_none() && sample.get("jpg").is_some() && sample.get("seg.png").is_some()
        );
    }
}

#[test]
fn fields_rename_and_pick() {
    let uri = testdata("webdataset/a-000000.tar");
    let dataset =
        open_with(&uri, &[("image", "jpg;jpeg;png"), ("label", "cls"), ("mask", "seg.png")]).unwrap();
    let names: Vec<_> = dataset.schema().fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names.len(), 3);
    assert!(["image", "label", "mask"].iter().all(|n| names.contains(n)));
    assert_eq!(dataset.get(2).unwrap().get("label"), Some(&OwnedValue::Int(2)));
    let message = open_with(&uri, &[("image", "gif")]).unwrap_err().to_string();
    assert!(message.contains("'gif'") && message.contains("seg.png"), "{message}");
    let message = open_with(&uri, &[("image", "jpg;cls")]).unwrap_err().to_string();
    assert!(message.contains("mixes kinds"), "{message}");
}

#[test]
fn alternative_fields_use_the_one_a_sample_has() {
    let dataset = open_with(&testdata("webdataset/odd.tar"), &[("image", "jpg;d.jpg;x.jpg;.jpg")]).unwrap();
    let lengths: Vec<_> = (0..dataset.len()).map(|i| dataset.format().byte_length(i, 0)).collect();
    // `k1.cls` comes after `k2.jpg`, and belongs to `k1.jpg` all the same.
    let expected = [11, 8, 6, 9, 6, 6, 159, 13].map(Some);
    assert_eq!(lengths, expected);
    let again = dataset.warnings().iter().any(|w| w.to_string().contains("joined"));
    assert!(again, "{:?}", dataset.warnings());
    let dataset = open_with(&testdata("webdataset/odd.tar"), &[("image", "jpg;d.jpg")]).unwrap();
    assert!(dataset.get(1).unwrap().get("image") == Some(&OwnedValue::Missing));
}

#[test]
fn select_and_concat() {
    let dataset = Dataset::open(testdata("webdataset/a-000000.tar")).unwrap();
    let picked = dataset.select(&[2, 0, 2]).unwrap();
    assert_eq!(picked.len(), 3);
    assert_eq!(picked.get(0).unwrap(), dataset.get(2).unwrap());
    assert_ne!(picked.fingerprint(), dataset.fingerprint());
    assert!(dataset.select(&[3]).unwrap_err().to_string().contains("out of range"));
    let other = Dataset::open(testdata("webdataset/gnu.tar")).unwrap();
    let joined = Dataset::concat(&[picked.clone(), other.clone(), dataset.clone()]).unwrap();
    assert_eq!(joined.len(), 7);
    // What they share: the key (one has `jpg`, the other calls its only image `image`; one's `cls` is a label, the
    // other's is no number).
    assert_eq!(joined.schema().fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["key"]);
    assert_eq!(joined.get(4).unwrap().get("key"), dataset.get(0).unwrap().get("key"));
    assert!(joined.get(7).is_err());
}

#[test]
fn descriptions_open_the_same_data_or_report_a_change() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1.jpg"), b"one").unwrap();
    std::fs::write(folder.path().join("2.jpg"), b"two").unwrap();
    let dataset = Dataset::open(folder.path().display().to_string()).unwrap().select(&[1]).unwrap();
    let text = serde_json::to_string(dataset.spec().unwrap()).unwrap();
    let spec: DatasetSpec = serde_json::from_str(&text).unwrap();
    let again = spec.open().unwrap();
    assert_eq!(again.get(0).unwrap(), dataset.get(0).unwrap());
    assert_eq!(again.fingerprint(), dataset.fingerprint());
    std::fs::write(folder.path().join("3.jpg"), b"three").unwrap();
    assert!(spec.open().unwrap_err().to_string().contains("changed"));
}

#[test]
fn missing_and_unknown_data_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let uri = folder.path().display().to_string();
    assert!(Dataset::open("/no/such/place").unwrap_err().to_string().contains("/no/such/place"));
    std::fs::write(folder.path().join("notes.txt"), b"x").unwrap();
    let message = Dataset::open(&uri).unwrap_err().to_string();
    assert!(message.contains("notes.txt") && message.contains("webdataset"), "{message}");
    let options = OpenOptions { format: "rar".to_owned(), ..OpenOptions::default() };
    let message = Dataset::open_all(&[uri], &options).unwrap_err().to_string();
    assert!(message.contains("'rar'") && message.contains("folder"), "{message}");
}

#[test]
fn webdataset_to_pack_keeps_every_value() {
    let folder = tempfile::tempdir().unwrap();
    let uris = ["a-000000.tar", "odd.tar", "gnu.tar"].map(|n| testdata(&format!("webdataset/{n}")));
    // In odd.tar the `cls` members are not numbers; as bytes they would do, as class they are refused by name.
    let error = Dataset::open_all(&uris, &OpenOptions::default()).unwrap();
    let message = (0..error.len()).find_map(|i| error.get(i).err()).unwrap().to_string();
    assert!(message.contains("odd.tar") && message.contains("not an integer"), "{message}");
    let fields = [
        ("key", "key"),
        ("image", "jpg;d.jpg;x.jpg;.jpg"),
        ("mask", "seg.png"),
        ("array", "npy"),
        ("text", "txt"),
    ];
    let fields = fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let options = OpenOptions { fields: Some(fields), ..OpenOptions::default() };
    let source = Dataset::open_all(&uris, &options).unwrap();
    pack(&**source.format(), folder.path().join("p"), &PackOptions::default(), &()).unwrap();
    let packed = Dataset::open(folder.path().join("p").display().to_string()).unwrap();
    assert_eq!(packed.len(), 12);
    let plain = |mut sample: feedline::Sample| {
        for (_, value) in &mut sample.fields {
            if let OwnedValue::Image { meta, .. } = value {
                *meta = feedline::field::ImageMeta::UNKNOWN;
            }
        }
        sample
    };
    assert_eq!(packed.schema(), source.schema());
    for sample in 0..source.len() {
        assert_eq!(plain(packed.get(sample).unwrap()), plain(source.get(sample).unwrap()));
    }
}

#[test]
fn data_sets_are_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let dataset = feedline::open(testdata("webdataset/a-000000.tar")).unwrap();
    shared(&dataset);
    let other = dataset.clone();
    let sample = std::thread::spawn(move || other.get(1).unwrap()).join().unwrap();
    assert_eq!(sample, dataset.get(1).unwrap());
}

#[test]
fn class_members_that_are_no_numbers_are_bytes() {
    let dataset = Dataset::open(testdata("webdataset/gnu.tar")).unwrap();
    let OwnedValue::Bytes(bytes) = dataset.get(0).unwrap().get("cls").unwrap().clone() else {
        panic!("bytes")
    };
    assert!(bytes.starts_with(b"g/mmm"));
}
