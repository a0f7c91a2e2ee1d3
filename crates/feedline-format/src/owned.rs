//! A sample that owns its values, for looking at single samples and for writing packs from a program. Loading uses
//! [`SampleBuffer`], which is reused and allocates nothing.

use crate::error::{Error, Location, Result};
use crate::sample::{DType, FieldSpec, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Schema, Value};

/// One field's value, owned.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum OwnedValue {
    /// The sample lacks this field.
    #[default]
    Missing,
    /// [`Kind::Int`].
    Int(i64),
    /// [`Kind::Float`].
    Float(f64),
    /// [`Kind::Text`].
    Text(String),
    /// [`Kind::Json`]: the value's text.
    Json(String),
    /// [`Kind::Bytes`].
    Bytes(Vec<u8>),
    /// [`Kind::Image`].
    Image {
        /// The encoded image.
        bytes: Vec<u8>,
        /// Its seek index, empty if there is none.
        index: Vec<u8>,
        /// What is known about it.
        meta: ImageMeta,
    },
    /// [`Kind::Array`].
    Array {
        /// Element type.
        dtype: DType,
        /// Length of each dimension.
        shape: Vec<u64>,
        /// The elements, row-major, little-endian.
        bytes: Vec<u8>,
    },
}

impl OwnedValue {
    /// An image of which only the bytes are known.
    pub fn image(bytes: impl Into<Vec<u8>>) -> Self {
        OwnedValue::Image { bytes: bytes.into(), index: Vec::new(), meta: ImageMeta::UNKNOWN }
    }

    /// The kind of field this value belongs in; `None` for a missing one, which fits anywhere.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self {
            OwnedValue::Missing => return None,
            OwnedValue::Int(_) => Kind::Int,
            OwnedValue::Float(_) => Kind::Float,
            OwnedValue::Text(_) => Kind::Text,
            OwnedValue::Json(_) => Kind::Json,
            OwnedValue::Bytes(_) => Kind::Bytes,
            OwnedValue::Image { .. } => Kind::Image,
            OwnedValue::Array { .. } => Kind::Array,
        })
    }
}

/// One sample: field names and values, in the data set's order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sample {
    /// Name and value of each field.
    pub fields: Vec<(String, OwnedValue)>,
}

impl Sample {
    /// A sample of these fields.
    pub fn new<N: Into<String>>(fields: impl IntoIterator<Item = (N, OwnedValue)>) -> Self {
        Sample { fields: fields.into_iter().map(|(name, value)| (name.into(), value)).collect() }
    }

    /// The value of the field with this name.
    pub fn get(&self, name: &str) -> Option<&OwnedValue> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The schema of a data set whose first sample this is: the sample's fields, none optional.
    pub fn schema(&self) -> Result<Schema> {
        let spec = |(name, value): &(String, OwnedValue)| match value.kind() {
            Some(kind) => Ok(FieldSpec::new(name, kind)),
            None => Err(Error::option(
                "schema",
                format!("the first sample lacks '{name}', so its kind is unknown; give a schema"),
            )),
        };
        Ok(Schema { fields: self.fields.iter().map(spec).collect::<Result<_>>()?, classes: None })
    }

    /// Copies a read sample out of its buffer. `location` is named if a text is not UTF-8.
    pub fn from_buffer(
        schema: &Schema,
        buffer: &SampleBuffer,
        location: impl Fn() -> Location,
    ) -> Result<Self> {
        let mut fields = Vec::with_capacity(schema.fields.len());
        for (field, value) in schema.fields.iter().zip(buffer.values()) {
            let owned = own(field.kind, value, buffer)
                .map_err(|reason| Error::data(location().with_field(&field.name), reason))?;
            fields.push((field.name.clone(), owned));
        }
        Ok(Sample { fields })
    }

    /// Copies the values into `buffer` in the order of `schema`. The error names the field that does not fit.
    pub(crate) fn to_buffer(&self, schema: &Schema, buffer: &mut SampleBuffer) -> Result<(), String> {
        buffer.reset(schema.fields.len());
        for (name, value) in &self.fields {
            let position =
                schema.position(name).ok_or_else(|| format!("field '{name}' is not in the schema"))?;
            let wanted = schema.fields[position].kind;
            if let Some(found) = value.kind().filter(|found| !wanted.takes(*found)) {
                return Err(format!("field '{name}' is {found:?} here but {wanted:?} in the schema"));
            }
            let value = lend(value, buffer).map_err(|reason| format!("field '{name}': {reason}"))?;
            buffer.set(position, value);
        }
        Ok(())
    }
}

fn own(kind: Kind, value: &Value, buffer: &SampleBuffer) -> Result<OwnedValue, String> {
    let text = |range| {
        String::from_utf8(buffer.bytes(range).to_vec()).map_err(|e| format!("the text is not UTF-8: {e}"))
    };
    Ok(match (kind, value) {
        (_, Value::Missing) => OwnedValue::Missing,
        (_, Value::Int(value)) => OwnedValue::Int(*value),
        (_, Value::Float(value)) => OwnedValue::Float(*value),
        (Kind::Text, Value::Bytes(range)) => OwnedValue::Text(text(range)?),
        (Kind::Json, Value::Bytes(range)) => OwnedValue::Json(text(range)?),
        (_, Value::Bytes(range)) => OwnedValue::Bytes(buffer.bytes(range).to_vec()),
        (_, Value::Image { bytes, index, meta }) => OwnedValue::Image {
            bytes: buffer.bytes(bytes).to_vec(),
            index: buffer.bytes(index).to_vec(),
            meta: *meta,
        },
        (_, Value::Array { dtype, dimensions, shape, bytes }) => OwnedValue::Array {
            dtype: *dtype,
            shape: shape[..usize::from(*dimensions)].to_vec(),
            bytes: buffer.bytes(bytes).to_vec(),
        },
    })
}

fn lend(value: &OwnedValue, buffer: &mut SampleBuffer) -> Result<Value, String> {
    Ok(match value {
        OwnedValue::Missing => Value::Missing,
        OwnedValue::Int(value) => Value::Int(*value),
        OwnedValue::Float(value) => Value::Float(*value),
        OwnedValue::Text(text) | OwnedValue::Json(text) => Value::Bytes(buffer.append(text.as_bytes())),
        OwnedValue::Bytes(bytes) => Value::Bytes(buffer.append(bytes)),
        OwnedValue::Image { bytes, index, meta } => {
            Value::Image { bytes: buffer.append(bytes), index: buffer.append(index), meta: *meta }
        }
        OwnedValue::Array { dtype, shape, bytes } => {
            if shape.len() > MAX_DIMENSIONS {
                return Err(format!("{} dimensions; at most {MAX_DIMENSIONS} can be stored", shape.len()));
            }
            let length = shape.iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side));
            if length != Some(bytes.len() as u64) {
                let name = dtype.name();
                return Err(format!("{} bytes are not an array of {name} of shape {shape:?}", bytes.len()));
            }
            let mut sides = [0; MAX_DIMENSIONS];
            sides[..shape.len()].copy_from_slice(shape);
            let bytes = buffer.append(bytes);
            Value::Array { dtype: *dtype, dimensions: shape.len() as u8, shape: sides, bytes }
        }
    })
}
