use super::*;
use crate::field::ImageEncoding;
use crate::format::columns::expected::{compare, testdata};
use crate::format::{Format, ReadingOptions};
use crate::sample::{DType, FieldSet, ImageMeta, MAX_DIMENSIONS};
use crate::source::{LocalSource, MemorySource, Target};

fn export(source: &dyn Format) -> Result<(Vec<u8>, Json)> {
    let mut bytes = Vec::new();
    let exporter = ParquetExporter::make(None);
    exporter.check(source.schema())?;
    let note = exporter.write_shard(&mut Samples::new(source, 0..source.len(), &|_| Ok(())), &mut bytes)?;
    Ok((bytes, note))
}

fn open(bytes: Vec<u8>) -> Arc<dyn Format> {
    let source = Arc::new(MemorySource::new([("t.parquet", bytes)]));
    let target = Target::Objects(source, vec!["t.parquet".to_owned()]);
    crate::format::open(&target, "auto", &ReadingOptions::default()).unwrap()
}

#[test]
fn every_field_round_trips() {
    let source: Arc<dyn crate::source::Source> = Arc::new(LocalSource::new(testdata("arrow")));
    let target = Target::Objects(source.clone(), vec!["types.arrows".to_owned()]);
    let original = crate::format::open(&target, "arrow", &ReadingOptions::default()).unwrap();
    let (bytes, _) = export(&*original).unwrap();
    assert_eq!(export(&*original).unwrap().0, bytes, "the same bytes each time");
    let again = open(bytes);
    assert_eq!(again.schema(), original.schema());
    compare(&*again, "exported");
    let target = Target::Folder(Arc::new(LocalSource::new(testdata("arrow/saved"))));
    let pictures = crate::format::open(&target, "arrow", &ReadingOptions::default()).unwrap();
    crate::format::columns::expected::compare_images(
        &*open(export(&*pictures).unwrap().0),
        &[0, 1, 2, 3, 4, 5],
    );
}

/// Samples made of these values, all of the first field's kind.
#[derive(Debug)]
struct Made {
    schema: Schema,
    values: Vec<(Value, Vec<u8>)>,
}

impl Format for Made {
    fn name(&self) -> &'static str {
        "made"
    }

    fn len(&self) -> u64 {
        self.values.len() as u64
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> crate::sample::Fingerprint {
        crate::sample::Fingerprint::of([])
    }

    fn read(&self, sample: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(1);
        let (value, bytes) = &self.values[sample as usize];
        let place = into.append(bytes);
        let value = match value.clone() {
            Value::Array { dtype, dimensions, shape, .. } => {
                Value::Array { dtype, dimensions, shape, bytes: place }
            }
            Value::Image { index, meta, .. } => Value::Image { bytes: place, index, meta },
            other => other,
        };
        into.set(0, value);
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("made").with_sample(sample)
    }
}

impl crate::format::Index for Made {}

impl crate::format::Extents for Made {}

fn array(dtype: DType, sides: &[u64]) -> (Value, Vec<u8>) {
    let mut shape = [0; MAX_DIMENSIONS];
    shape[..sides.len()].copy_from_slice(sides);
    let bytes = sides.iter().product::<u64>() * dtype.size() as u64;
    let bytes: Vec<u8> = (0..bytes)
        .map(|i| {
            u8::from(dtype == DType::Bool) * (i % 2) as u8 + u8::from(dtype != DType::Bool) * (i % 60) as u8
        })
        .collect();
    (Value::Array { dtype, dimensions: sides.len() as u8, shape, bytes: 0..0 }, bytes)
}

fn made(kind: Kind, values: Vec<(Value, Vec<u8>)>) -> Made {
    let optional = values.iter().any(|(value, _)| *value == Value::Missing);
    let field = FieldSpec::new("x", kind).optional(optional);
    Made { schema: Schema { fields: vec![field], classes: None }, values }
}

#[test]
fn arrays_of_every_type_and_shape_round_trip() {
    for dtype in DType::ALL {
        for shapes in [
            &[&[3][..], &[0], &[5]][..],
            &[&[2, 3], &[0, 3], &[4, 3]],
            &[&[], &[]],
            &[&[2, 0, 4], &[1, 0, 4]],
            &[&[1, 2, 3, 4]],
        ] {
            let mut values = vec![(Value::Missing, Vec::new())];
            values.extend(shapes.iter().map(|shape| array(dtype, shape)));
            values.push((Value::Missing, Vec::new()));
            let source = made(Kind::Array, values);
            let again = open(export(&source).unwrap().0);
            assert_eq!(again.schema(), source.schema());
            let mut buffer = SampleBuffer::new();
            for (sample, (value, bytes)) in source.values.iter().enumerate() {
                again.read(sample as u64, &FieldSet::all(1), &mut buffer).unwrap();
                match (buffer.value(0), value) {
                    (Value::Missing, Value::Missing) => {}
                    (
                        Value::Array { dtype: found, dimensions, shape, bytes: range },
                        Value::Array { dimensions: expected, shape: sides, .. },
                    ) => {
                        assert_eq!(
                            (*found, dimensions, shape),
                            (dtype, expected, sides),
                            "{shapes:?} {sample}"
                        );
                        assert_eq!(buffer.bytes(range), bytes);
                    }
                    other => panic!("{dtype:?} {shapes:?} {other:?}"),
                }
            }
        }
    }
}

#[test]
fn values_that_do_not_fit_are_refused_with_their_sample() {
    let mixed = made(Kind::Array, vec![array(DType::F32, &[2]), array(DType::F32, &[2, 2])]);
    let message = export(&mixed).unwrap_err().to_string();
    assert!(message.contains("sample 1") && message.contains("dimensions"), "{message}");
    let meta = ImageMeta { encoding: ImageEncoding::Rgb, ..ImageMeta::UNKNOWN };
    let raw = made(Kind::Image, vec![(Value::Image { bytes: 0..0, index: 0..0, meta }, vec![0; 3])]);
    assert!(export(&raw).unwrap_err().to_string().contains("rgb"));
    let empty = made(Kind::Image, Vec::new());
    assert_eq!(open(export(&empty).unwrap().0).len(), 0);
}

#[test]
fn files_must_have_the_same_types() {
    let shard = |note: &str| Shard { name: "a".to_owned(), bytes: 0, samples: 0..1, note: json!(note) };
    let exporter = ParquetExporter::make(None);
    assert!(exporter.finish(Path::new("."), &Schema::default(), &[shard("x"), shard("x")]).is_ok());
    assert!(exporter.finish(Path::new("."), &Schema::default(), &[shard("x"), shard("y")]).is_err());
    assert_eq!(exporter.shard_name(3, 12), "data/train-00003-of-00012.parquet");
}

/// Releases of `datasets` before 2.15 refuse a file with a column that is not among the features.
#[test]
fn every_column_is_listed_in_the_features_in_order() {
    let source: Arc<dyn crate::source::Source> = Arc::new(LocalSource::new(testdata("arrow")));
    let target = Target::Objects(source, vec!["types.arrows".to_owned()]);
    let original = crate::format::open(&target, "arrow", &ReadingOptions::default()).unwrap();
    let (bytes, _) = export(&*original).unwrap();
    let footer = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::from(bytes))
        .unwrap();
    let noted = footer.file_metadata().key_value_metadata().unwrap();
    let text = noted.iter().find(|entry| entry.key == "huggingface").unwrap().value.as_ref().unwrap();
    let features: Json = serde_json::from_str(text).unwrap();
    let features = features["info"]["features"].as_object().unwrap();
    let mut last = 0;
    for field in &original.schema().fields {
        assert!(features.contains_key(&field.name), "{}", field.name);
        let at = text.find(&format!("{}: ", json!(field.name))).unwrap();
        assert!(at > last, "{} comes in its order", field.name);
        last = at;
    }
    assert_eq!(features.len(), original.schema().fields.len());
}
