//! Makes the value of a field from a feature of a record; bytes are used in place where possible.

use std::ops::Range;

use super::example::{Feature, ListKind};
use super::schema::Column;
use crate::sample::{DType, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// The feature as a value of its column; `record` is the record's range in the buffer, `numbers` is scratch.
pub(super) fn value(
    column: &Column,
    feature: &Feature,
    record: &Range<usize>,
    numbers: &mut Vec<u8>,
    into: &mut SampleBuffer,
) -> Result<Value, String> {
    if feature.kind != column.list() {
        return Err(format!(
            "a {:?} list, but {:?} lists in the inspected records",
            feature.kind,
            column.list()
        ));
    }
    numbers.clear();
    match (column.spec.kind, feature.kind) {
        (Kind::Int, _) => integer(feature, into.bytes(record)),
        (kind, ListKind::Float) => floats(kind, feature, record, numbers, into),
        (Kind::Array, _) => {
            feature.integers(into.bytes(record), |i| numbers.extend_from_slice(&i.to_le_bytes()))?;
            Ok(list(DType::I64, numbers.len() / 8, into.append(numbers)))
        }
        (Kind::Json, _) => {
            let (bytes, mut strings) = (into.bytes(record), Vec::new());
            feature.byte_strings(bytes, |range| strings.push(json_of(&bytes[range])))?;
            let text = serde_json::Value::Array(strings).to_string();
            Ok(Value::Bytes(into.append(text.as_bytes())))
        }
        (kind, _) => byte_string(kind, feature, record, into),
    }
}

fn several(count: usize) -> String {
    format!("{count} values, but one in each of the inspected records")
}

fn integer(feature: &Feature, record: &[u8]) -> Result<Value, String> {
    let (mut first, mut count) = (None, 0);
    feature.integers(record, |i| {
        first.get_or_insert(i);
        count += 1;
    })?;
    if count > 1 { Err(several(count)) } else { Ok(first.map_or(Value::Missing, Value::Int)) }
}

fn floats(
    kind: Kind,
    feature: &Feature,
    record: &Range<usize>,
    numbers: &mut Vec<u8>,
    into: &mut SampleBuffer,
) -> Result<Value, String> {
    let bytes = into.bytes(record);
    let (mut runs, mut only) = (0, 0..0);
    feature.float_runs(bytes, |run| {
        runs += 1;
        numbers.extend_from_slice(&bytes[run.clone()]);
        only = record.start + run.start..record.start + run.end;
    })?;
    match (kind, numbers.len() / 4) {
        (Kind::Float, 0) => Ok(Value::Missing),
        (Kind::Float, 1) => {
            let float = f32::from_le_bytes(numbers[..4].try_into().expect("four bytes"));
            Ok(Value::Float(f64::from(float)))
        }
        (Kind::Float, count) => Err(several(count)),
        (_, count) if runs == 1 => Ok(list(DType::F32, count, only)),
        (_, count) => Ok(list(DType::F32, count, into.append(numbers))),
    }
}

fn byte_string(
    kind: Kind,
    feature: &Feature,
    record: &Range<usize>,
    into: &SampleBuffer,
) -> Result<Value, String> {
    let (mut only, mut count) = (None, 0);
    feature.byte_strings(into.bytes(record), |range| {
        only = Some(record.start + range.start..record.start + range.end);
        count += 1;
    })?;
    let Some(range) = only else { return Ok(Value::Missing) };
    if count > 1 {
        return Err(several(count));
    }
    if kind == Kind::Text && std::str::from_utf8(into.bytes(&range)).is_err() {
        return Err("not UTF-8, but text in the inspected records".to_owned());
    }
    Ok(match kind {
        Kind::Image => Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN },
        _ => Value::Bytes(range),
    })
}

fn list(dtype: DType, count: usize, bytes: Range<usize>) -> Value {
    let mut shape = [0; MAX_DIMENSIONS];
    shape[0] = count as u64;
    Value::Array { dtype, dimensions: 1, shape, bytes }
}

/// Text as a string, other bytes as `{"base64": "..."}`.
fn json_of(bytes: &[u8]) -> serde_json::Value {
    use base64::Engine as _;
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => serde_json::json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)}),
    }
}
