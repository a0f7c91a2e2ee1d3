//! A column of a table in memory: values of one kind, one after the other.

use serde::{Deserialize, Serialize};

use super::super::npy;
use crate::field::Carrier;
use crate::owned::OwnedValue;
use crate::sample::{ImageMeta, Kind, SampleBuffer, Value};

/// One column. Plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) rows: u64,
    /// Rows without a value, ascending.
    missing: Vec<u64>,
    /// End offset of each value; unused for numbers, which have eight bytes each.
    ends: Vec<u64>,
    #[serde(with = "as_text")]
    bytes: Vec<u8>,
}

impl Column {
    pub(super) fn new(name: impl Into<String>, kind: Kind) -> Self {
        let (missing, ends, bytes) = (Vec::new(), Vec::new(), Vec::new());
        Column { name: name.into(), kind, rows: 0, missing, ends, bytes }
    }

    fn is_number(&self) -> bool {
        !self.kind.carrier().has_bytes()
    }

    fn end_value(&mut self) {
        if !self.is_number() {
            self.ends.push(self.bytes.len() as u64);
        }
        self.rows += 1;
    }

    pub(super) fn push_missing(&mut self) {
        self.missing.push(self.rows);
        if self.is_number() {
            self.bytes.extend_from_slice(&[0; 8]);
        }
        self.end_value();
    }

    pub(super) fn push_int(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.end_value();
    }

    pub(super) fn push_float(&mut self, value: f64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.end_value();
    }

    pub(super) fn push_bytes(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end_value();
    }

    /// Adds a value of this column's kind.
    pub(super) fn push(&mut self, value: &OwnedValue) -> Result<(), String> {
        if let Some(kind) = value.kind().filter(|kind| *kind != self.kind) {
            return Err(format!("a value of kind {kind:?} among values of kind {:?}", self.kind));
        }
        match value {
            OwnedValue::Missing => self.push_missing(),
            OwnedValue::Int(value) => self.push_int(*value),
            OwnedValue::Float(value) => self.push_float(*value),
            OwnedValue::Text(text) | OwnedValue::Json(text) => self.push_bytes(text.as_bytes()),
            OwnedValue::Bytes(bytes) | OwnedValue::Image { bytes, .. } => self.push_bytes(bytes),
            OwnedValue::Array { dtype, shape, bytes } => {
                npy::write_header(*dtype, shape, &mut self.bytes)?;
                self.push_bytes(bytes);
            }
        }
        Ok(())
    }

    pub(super) fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    pub(super) fn is_missing(&self, row: u64) -> bool {
        self.missing.binary_search(&row).is_ok()
    }

    /// The stored bytes of a value.
    pub(super) fn bytes(&self, row: u64) -> &[u8] {
        let row = row as usize;
        if self.is_number() {
            return &self.bytes[row * 8..row * 8 + 8];
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start as usize..self.ends[row] as usize]
    }

    /// A text, checked when it was added; empty for a missing one.
    pub(super) fn text(&self, row: u64) -> &str {
        std::str::from_utf8(self.bytes(row)).unwrap_or_default()
    }

    /// All texts that are not missing.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        (0..self.rows).filter(|row| !self.is_missing(*row)).map(|row| self.text(row))
    }

    pub(super) fn int(&self, row: u64) -> Option<i64> {
        let there = self.kind == Kind::Int && row < self.rows && !self.is_missing(row);
        there.then(|| i64::from_le_bytes(self.bytes(row).try_into().expect("eight bytes")))
    }

    /// The value in a sample.
    pub(super) fn value(&self, row: u64, into: &mut SampleBuffer) -> Result<Value, String> {
        if self.is_missing(row) {
            return Ok(Value::Missing);
        }
        let bytes = self.bytes(row);
        Ok(match self.kind.carrier() {
            Carrier::Int => Value::Int(i64::from_le_bytes(bytes.try_into().expect("eight bytes"))),
            Carrier::Float => Value::Float(f64::from_le_bytes(bytes.try_into().expect("eight bytes"))),
            Carrier::Image => {
                let bytes = into.append(bytes);
                Value::Image { index: bytes.end..bytes.end, bytes, meta: ImageMeta::UNKNOWN }
            }
            Carrier::Array => {
                let range = into.append(bytes);
                npy::parse(range, into)?
            }
            Carrier::Bytes => Value::Bytes(into.append(bytes)),
        })
    }

    /// Whether a deserialised column is consistent.
    pub(super) fn is_sound(&self) -> bool {
        let length = self.bytes.len() as u64;
        let ordered = self.ends.windows(2).all(|two| two[0] <= two[1]);
        let whole = if self.is_number() {
            self.rows.checked_mul(8) == Some(length)
        } else {
            self.ends.len() as u64 == self.rows && self.ends.last().is_none_or(|end| *end == length)
        };
        let missing = self.missing.windows(2).all(|two| two[0] < two[1]);
        ordered && whole && missing && self.missing.last().is_none_or(|row| *row < self.rows)
    }

    /// Hashes the whole content, for a fingerprint.
    pub(super) fn hash(&self, hasher: &mut blake3::Hasher) {
        let numbers = |hasher: &mut blake3::Hasher, numbers: &[u64]| {
            hasher.update(&(numbers.len() as u64).to_le_bytes());
            for number in numbers {
                hasher.update(&number.to_le_bytes());
            }
        };
        hasher.update(format!("{} {:?}\0", self.name, self.kind).as_bytes());
        numbers(hasher, &[self.rows]);
        numbers(hasher, &self.missing);
        numbers(hasher, &self.ends);
        hasher.update(&self.bytes);
    }

    /// Replaces names by numbers: each text's position in `names`. The error names the text that is not there.
    pub(super) fn numbered(&self, names: &[String]) -> Result<Column, String> {
        let places: std::collections::HashMap<&str, i64> =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number as i64)).collect();
        let mut column = Column::new(&self.name, Kind::Int);
        for row in 0..self.rows {
            if self.is_missing(row) {
                column.push_missing();
                continue;
            }
            let text = self.text(row);
            let number =
                places.get(text).ok_or_else(|| format!("row {row}: '{text}' is not one of the classes"))?;
            column.push_int(*number);
        }
        Ok(column)
    }
}

/// Serialises bytes inside JSON.
mod as_text {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}
