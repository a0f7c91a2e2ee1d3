//! Columns of Arrow's types → fields. What Parquet files and Arrow files share: which kind a column is, class names and
//! picture columns as Hugging Face's `datasets` note them, and making a value of one row of an array.

#[cfg(test)]
pub(super) mod expected;
mod huggingface;
mod json;
pub(super) mod linked;
mod values;

use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::sample::{DType, FieldSpec, Kind};

pub(super) use huggingface::{Feature, Features};
pub(super) use values::{SCALAR, placed, value};

/// The key under which our own writer notes what Arrow's types cannot say.
pub(super) const NOTE_KEY: &str = "feedline";

/// One column that is a field.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Number of the column in its file's schema.
    pub(super) root: usize,
    /// Name and kind.
    pub(super) spec: FieldSpec,
    /// How a row becomes a value.
    pub(super) shape: Shape,
    /// Lengths that an empty list cannot tell, outermost first; `None` where they vary.
    pub(super) noted: Vec<Option<u64>>,
    /// Whether values may be missing, where our own writer noted it.
    pub(super) noted_optional: Option<bool>,
    /// Whether the kind is to be settled by looking at values: bytes may be images.
    pub(super) unsettled: bool,
}

/// How a row becomes a value.
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
    /// Lists of numbers, this many deep.
    Array { dtype: DType, depth: u8 },
    /// Anything else.
    Json,
}

/// What our writer notes of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) name: String,
    pub(super) kind: Option<Kind>,
    /// Element type, where Arrow has none (`bfloat16`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dtype: Option<DType>,
    /// Length of each dimension, `None` where samples differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<Vec<Option<u64>>>,
    #[serde(default)]
    pub(super) optional: bool,
}

/// All columns of a schema, and which of them cannot be fields (with the reason).
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
    let spec = FieldSpec::new(field.name(), kind).optional(optional);
    let noted_optional = note.map(|note| note.optional);
    Ok(Column { root, spec, shape, noted, noted_optional, unsettled })
}

/// Whether a value of this shape can be given as that kind.
fn may_be(shape: Shape, kind: Kind) -> bool {
    match shape {
        Shape::Stored { .. } | Shape::Bytes => {
            matches!(kind, Kind::Image | Kind::Bytes | Kind::Text | Kind::Json)
        }
        _ => false,
    }
}

/// Kind and shape by the type alone, and whether values must be looked at.
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
        other => element(other).filter(|_| depth > 0).map(|dtype| (dtype, depth)),
    }
}

/// The length of each level of lists, where the type fixes it.
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

/// The element type of an array whose numbers Arrow stores so.
pub(super) fn element(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Boolean => DType::Bool,
        DataType::UInt8 => DType::U8,
        DataType::UInt16 => DType::U16,
        DataType::UInt32 => DType::U32,
        DataType::UInt64 => DType::U64,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int32 => DType::I32,
        DataType::Int64 => DType::I64,
        DataType::Float16 => DType::F16,
        DataType::Float32 => DType::F32,
        DataType::Float64 => DType::F64,
        _ => return None,
    })
}

/// The error with the sample and field it concerns.
pub(super) fn in_sample(error: Error, sample: u64, column: &Column) -> Error {
    match error {
        Error::Data { mut location, reason, hint } => {
            location.sample = location.sample.or(Some(sample));
            location.field = location.field.or_else(|| Some(column.spec.name.clone()));
            Error::Data { location, reason, hint }
        }
        other => other,
    }
}
