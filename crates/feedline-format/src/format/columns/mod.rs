//! Maps columns of Arrow's types to fields. Shared by Parquet and Arrow files: the kind of a column, class names and
//! image columns in the notation of Hugging Face's `datasets`, and the value of one row of an array.

#[cfg(test)]
pub(super) mod expected;
mod files;
mod first_rows;
mod huggingface;
mod json;
pub(super) mod linked;
pub(super) mod units;
mod values;

use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use serde::{Deserialize, Serialize};

use super::sniff::is_image;
use crate::error::{Error, Location, Result};
use crate::sample::{DType, FieldSpec, Kind, SampleBuffer, Value};

pub(super) use files::{TableFiles, check_alike, fingerprint};
pub(super) use first_rows::FirstRows;
pub(super) use huggingface::{Feature, Features};
pub(super) use values::{SCALAR, has_null_elements, placed, value};

/// The key under which our own writer stores what Arrow's types cannot express.
pub(super) const NOTE_KEY: &str = "feedline";

/// One column that is a field.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Number of the column in its file's schema.
    pub(super) root: usize,
    /// Name and kind.
    pub(super) spec: FieldSpec,
    /// How to make a value of a row.
    pub(super) shape: Shape,
    /// Lengths that an empty list does not show, outermost first; `None` where they vary.
    pub(super) noted: Vec<Option<u64>>,
    /// Whether values may be missing, where our own writer noted it.
    pub(super) noted_optional: Option<bool>,
    /// Whether the kind is detected from values: bytes may be images.
    pub(super) unsettled: bool,
    /// Factor by which stored integers were multiplied when they were written (Parquet stores seconds only as
    /// milliseconds).
    pub(super) per: i64,
}

/// How to make a value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A struct of `bytes` and `path`, as `datasets` store images and audio; numbers of the two children.
    Stored { bytes: usize, path: Option<usize> },
    /// Binary or text.
    Bytes,
    /// An integer, or what is stored as one (dates, times).
    Integer,
    /// A float.
    Float,
    /// A decimal number, kept as its digits.
    Decimal,
    /// Nested lists of numbers, `depth` levels deep.
    Array { dtype: DType, depth: u8 },
    /// Anything else.
    Json,
}

/// Our writer's note about a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) name: String,
    pub(super) kind: Option<Kind>,
    /// Element type, if Arrow lacks it (`bfloat16`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<DType>,
    /// Length of each dimension, `None` where samples differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<Vec<Option<u64>>>,
    #[serde(default)]
    pub(super) optional: bool,
    /// Unit of a date or time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<String>,
}

/// All columns of a schema, and the reasons why some of them cannot be fields.
pub(super) fn columns(schema: &ArrowSchema, features: &Features) -> (Vec<Column>, Vec<String>) {
    let notes: Vec<Note> =
        schema.metadata.get(NOTE_KEY).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let (mut columns, mut left_out) = (Vec::new(), Vec::new());
    for (root, field) in schema.fields().iter().enumerate() {
        let note = notes.iter().find(|note| note.name == *field.name());
        match column(root, field, features.of(field.name()), note) {
            Ok(column) => columns.push(column),
            Err(reason) => left_out.push(format!("column '{}' is left out: {reason}", field.name())),
        }
    }
    (columns, left_out)
}

fn column(root: usize, field: &Field, feature: &Feature, note: Option<&Note>) -> Result<Column, String> {
    let (mut kind, mut shape, mut unsettled) = plain(field.data_type())?;
    match feature {
        Feature::Image if matches!(shape, Shape::Stored { .. } | Shape::Bytes) => {
            (kind, unsettled) = (Kind::Image, false);
        }
        Feature::Media if matches!(shape, Shape::Stored { .. } | Shape::Bytes) => {
            (kind, unsettled) = (Kind::Bytes, false);
        }
        _ => {}
    }
    let mut noted = fixed_lengths(field.data_type());
    if let Some(note) = note {
        if let Some(noted) = note.kind.filter(|noted| may_be(shape, *noted)) {
            (kind, unsettled) = (noted, false);
        }
        if let (Shape::Array { dtype, .. }, Some(other)) = (&mut shape, note.dtype)
            && dtype.size() == other.size()
        {
            *dtype = other;
        }
        noted = note.shape.clone().unwrap_or(noted);
    }
    let optional = field.is_nullable();
    let mut spec = FieldSpec::new(field.name(), kind).optional(optional);
    spec.unit = units::unit(field.data_type()).or_else(|| note.and_then(|note| note.unit.clone()));
    let noted_optional = note.map(|note| note.optional);
    Ok(Column { root, spec, shape, noted, noted_optional, unsettled, per: 1 })
}

/// Whether a value of this shape can be returned as that kind.
fn may_be(shape: Shape, kind: Kind) -> bool {
    match shape {
        Shape::Stored { .. } | Shape::Bytes => {
            matches!(kind, Kind::Image | Kind::Bytes | Kind::Text | Kind::Json)
        }
        _ => false,
    }
}

/// Kind and shape by the type alone, and whether values must be inspected.
fn plain(data_type: &DataType) -> Result<(Kind, Shape, bool), String> {
    use DataType as T;
    Ok(match data_type {
        T::Boolean
        | T::Int8
        | T::Int16
        | T::Int32
        | T::Int64
        | T::UInt8
        | T::UInt16
        | T::UInt32
        | T::UInt64
        | T::Timestamp(..)
        | T::Date32
        | T::Date64
        | T::Time32(_)
        | T::Time64(_)
        | T::Duration(_) => (Kind::Int, Shape::Integer, false),
        T::Float16 | T::Float32 | T::Float64 => (Kind::Float, Shape::Float, false),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => (Kind::Text, Shape::Bytes, false),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            (Kind::Bytes, Shape::Bytes, true)
        }
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
            (Kind::Text, Shape::Decimal, false)
        }
        T::Dictionary(_, values) => plain(values)?,
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) => match numbers(data_type, 0) {
            Some((dtype, depth)) => (Kind::Array, Shape::Array { dtype, depth }, false),
            None => (Kind::Json, Shape::Json, false),
        },
        T::Struct(fields) => match stored(fields) {
            Some((bytes, path)) => (Kind::Bytes, Shape::Stored { bytes, path }, true),
            None => (Kind::Json, Shape::Json, false),
        },
        T::Map(..) | T::Null => (Kind::Json, Shape::Json, false),
        other => return Err(format!("values of type {other} are not supported")),
    })
}

/// The children `bytes` and `path` of a struct that has no others.
fn stored(fields: &arrow_schema::Fields) -> Option<(usize, Option<usize>)> {
    let find = |name: &str| fields.iter().position(|f| f.name() == name);
    let bytes = find("bytes")?;
    let binary = matches!(fields[bytes].data_type(), DataType::Binary | DataType::LargeBinary);
    let path = find("path");
    let text = path.is_none_or(|p| matches!(fields[p].data_type(), DataType::Utf8 | DataType::LargeUtf8));
    (binary && text && fields.len() == 1 + usize::from(path.is_some())).then_some((bytes, path))
}

/// Element type and depth of lists of numbers.
fn numbers(data_type: &DataType, depth: u8) -> Option<(DType, u8)> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if usize::from(depth) < crate::sample::MAX_DIMENSIONS =>
        {
            numbers(item.data_type(), depth + 1)
        }
        other => DType::from_arrow(other).filter(|_| depth > 0).map(|dtype| (dtype, depth)),
    }
}

/// The length of each level of lists, if the type fixes it.
fn fixed_lengths(data_type: &DataType) -> Vec<Option<u64>> {
    let (mut lengths, mut level) = (Vec::new(), data_type);
    loop {
        level = match level {
            DataType::List(item) | DataType::LargeList(item) => {
                lengths.push(None);
                item.data_type()
            }
            DataType::FixedSizeList(item, length) => {
                lengths.push(u64::try_from(*length).ok());
                item.data_type()
            }
            _ => return lengths,
        };
    }
}

/// Number of samples inspected to see whether a column of bytes contains images.
const EXAMINED: u64 = 8;

/// Whether all inspected values, spread over `count` samples, are images.
pub(super) fn holds_images(count: u64, read: impl Fn(u64, &mut SampleBuffer) -> Result<Value>) -> bool {
    let (mut buffer, mut seen) = (SampleBuffer::new(), false);
    for number in 0..count.min(EXAMINED) {
        buffer.reset(0);
        let sample = (u128::from(number) * u128::from(count) / u128::from(count.min(EXAMINED))) as u64;
        match read(sample, &mut buffer) {
            Ok(Value::Bytes(range)) if is_image(buffer.bytes(&range)) => seen = true,
            Ok(Value::Missing) => {}
            _ => return false,
        }
    }
    seen
}

/// The error for a sample number that is too large.
pub(super) fn past_end(uri: &str, sample: u64, count: u64) -> Error {
    Error::data(Location::new(uri).with_sample(sample), format!("the data set has {count} samples"))
}

/// Adds the sample and field to the error.
pub(super) fn in_sample(error: Error, sample: u64, column: &Column) -> Error {
    match error {
        Error::Data { mut location, reason, hint, cause } => {
            location.sample = location.sample.or(Some(sample));
            location.field = location.field.or_else(|| Some(column.spec.name.clone()));
            Error::Data { location, reason, hint, cause }
        }
        other => other,
    }
}
