//! Compares what a format reads with what `testdata/formats/arrow/make.py` wrote.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value as Json, json};

use crate::format::Format;
use crate::sample::{DType, FieldSet, Kind, SampleBuffer, Value};

pub(in crate::format) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(name)
}

/// All rows of the fixture.
pub(in crate::format) fn rows() -> Vec<serde_json::Map<String, Json>> {
    let text = std::fs::read_to_string(testdata("arrow/expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn base64(bytes: &[u8]) -> Json {
    json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)})
}

fn number(dtype: DType, bytes: &[u8]) -> Json {
    match dtype {
        DType::Bool => json!(bytes[0] == 1),
        DType::F64 => json!(f64::from_le_bytes(bytes.try_into().unwrap())),
        DType::I32 => json!(i32::from_le_bytes(bytes.try_into().unwrap())),
        other => panic!("{other:?}"),
    }
}

pub(in crate::format) fn json_of(kind: Kind, value: &Value, buffer: &SampleBuffer) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Int(i) => json!(i),
        Value::Float(f) => json!(f),
        Value::Image { bytes, .. } => base64(buffer.bytes(bytes)),
        Value::Bytes(range) => match kind {
            Kind::Text => json!(std::str::from_utf8(buffer.bytes(range)).unwrap()),
            Kind::Json => serde_json::from_slice(buffer.bytes(range)).unwrap(),
            _ => base64(buffer.bytes(range)),
        },
        Value::Array { dtype, dimensions, shape, bytes } => {
            let numbers = buffer.bytes(bytes).chunks(dtype.size()).map(|b| number(*dtype, b));
            json!({"dtype": dtype.name(), "shape": shape[..usize::from(*dimensions)], "values": numbers.collect::<Vec<_>>()})
        }
    }
}

/// Compares every field of every row, forwards and then in another order.
pub(in crate::format) fn compare(format: &dyn Format, what: &str) {
    let rows = rows();
    let fields = &format.schema().fields;
    assert_eq!(format.len(), rows.len() as u64, "{what}");
    let mut buffer = SampleBuffer::new();
    for step in 0..rows.len() * 3 {
        let sample = if step < rows.len() { step } else { step * 5 % rows.len() };
        format.read(sample as u64, &FieldSet::all(fields.len()), &mut buffer).unwrap();
        for (number, field) in fields.iter().enumerate() {
            let found = json_of(field.kind, buffer.value(number), &buffer);
            let expected = &rows[sample][&field.name];
            let close = |a: &Json, b: &Json| a.is_f64() && a.as_f64() == b.as_f64();
            assert!(
                found == *expected || close(&found, expected),
                "{what} {sample} {}: {found} {expected}",
                field.name
            );
            assert!(field.optional || *buffer.value(number) != Value::Missing, "{what} {}", field.name);
            if let (Some(value), Value::Int(i)) =
                (format.int_value(sample as u64, number), buffer.value(number))
            {
                assert_eq!(value, *i, "{what} {}", field.name);
            }
            check_bytes(format, sample as u64, number, &buffer);
        }
    }
    kinds(format);
}

fn check_bytes(format: &dyn Format, sample: u64, number: usize, buffer: &SampleBuffer) {
    let (Value::Bytes(range) | Value::Image { bytes: range, .. }) = buffer.value(number) else { return };
    if let Some(length) = format.byte_length(sample, number) {
        let mut room = vec![0; length as usize];
        format.read_bytes(sample, number, &mut room).unwrap();
        assert_eq!(room, buffer.bytes(range));
    }
}

fn kinds(format: &dyn Format) {
    let schema = format.schema();
    let kind =
        |name: &str| schema.position(name).map(|at| (schema.fields[at].kind, schema.fields[at].optional));
    for (name, expected, optional) in [
        ("i8", Kind::Int, false),
        ("flag", Kind::Int, false),
        ("f32", Kind::Float, false),
        ("text", Kind::Text, false),
        ("bin", Kind::Bytes, false),
        ("pic", Kind::Image, false),
        ("when", Kind::Int, false),
        ("price", Kind::Text, false),
        ("vec", Kind::Array, false),
        ("box", Kind::Array, false),
        ("words", Kind::Json, false),
        ("meta", Kind::Json, false),
        ("cat", Kind::Text, false),
        ("maybe", Kind::Int, true),
        ("none", Kind::Json, true),
    ] {
        let found = kind(name);
        // Parquet's statistics do not distinguish an empty list from a missing one.
        let unknown = format.name() == "parquet" && matches!(expected, Kind::Array | Kind::Json);
        let optional = if unknown { found.is_some_and(|f| f.1) } else { optional };
        assert_eq!(found, Some((expected, optional)), "{name}");
    }
}

/// The data set that `make.py` made with `datasets`: images and classes of these samples.
pub(in crate::format) fn compare_images(format: &dyn Format, expected: &[usize]) {
    let names = ["rgb.png", "l.png", "p.png"];
    let path = |n: usize| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images").join(names[n]);
    let schema = format.schema();
    assert_eq!(schema.classes.as_deref().unwrap(), ["cat", "dog", "owl"]);
    let kinds: Vec<_> = schema.fields.iter().map(|f| (f.name.as_str(), f.kind, f.optional)).collect();
    assert_eq!(kinds, [("image", Kind::Image, false), ("label", Kind::Int, false)]);
    assert_eq!(format.len(), expected.len() as u64);
    let mut buffer = SampleBuffer::new();
    for (sample, origin) in expected.iter().enumerate() {
        format.read(sample as u64, &FieldSet::all(2), &mut buffer).unwrap();
        let Value::Image { bytes, .. } = buffer.value(0) else { panic!() };
        assert_eq!(buffer.bytes(bytes), std::fs::read(path(origin % 3)).unwrap());
        assert_eq!(*buffer.value(1), Value::Int((*origin % 3) as i64));
    }
}
