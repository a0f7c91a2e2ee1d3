//! Items of `TemporalArrayLoader`: a number of frames, then for each group of fields that many rows of an aligned C
//! struct. A field becomes an array whose first dimension is time.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::sample::{DType, FieldSet, MAX_DIMENSIONS, SampleBuffer, Value};

/// The layout of a record's fields.
#[derive(Debug)]
pub(super) struct Temporal {
    pub(super) names: Vec<String>,
    fields: Vec<Field>,
    /// Bytes of one row of each group.
    rows: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Field {
    group: usize,
    /// Offset in the group's row.
    offset: u64,
    /// Length of one frame.
    length: u64,
    dtype: DType,
    big_endian: bool,
    /// Shape without the time dimension.
    shape: Vec<u64>,
}

#[derive(Deserialize)]
struct Schema {
    version: u32,
    field_order: Vec<String>,
    fields: serde_json::Map<String, Json>,
    groups: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct RawField {
    dtype: String,
    shape: Vec<u64>,
}

impl Temporal {
    pub(super) fn parse(schema: &Json) -> Result<Self, String> {
        let schema = Schema::deserialize(schema).map_err(|e| format!("temporal_schema: {e}"))?;
        if schema.version != 1 {
            return Err(format!("temporal_schema: version {} is unknown", schema.version));
        }
        let mut places = std::collections::HashMap::new();
        let mut rows = Vec::new();
        for (group, names) in schema.groups.iter().enumerate() {
            rows.push(lay_out(group, names, &schema, &mut places)?);
        }
        let once = schema.groups.iter().map(Vec::len).sum::<usize>();
        if places.len() != schema.field_order.len() || places.len() != once || places.is_empty() {
            return Err("temporal_schema: the groups do not hold every field once".to_owned());
        }
        let find = |name: &String| {
            places.get(name).cloned().ok_or(format!("temporal_schema: no group has '{name}'"))
        };
        let fields = schema.field_order.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        Ok(Temporal { names: schema.field_order, fields, rows })
    }

    /// Sets the wanted fields from the record at `range` of the buffer.
    pub(super) fn read(
        &self,
        range: &Range<usize>,
        wanted: &FieldSet,
        buffer: &mut SampleBuffer,
    ) -> Result<(), (usize, String)> {
        let frames = self.frames(buffer.bytes(range)).map_err(|reason| (0, reason))?;
        for (number, field) in self.fields.iter().enumerate().filter(|(n, _)| wanted.has(*n)) {
            let before: u64 = self.rows[..field.group].iter().sum();
            let start = range.start + 4 + (before * frames + field.offset) as usize;
            let row = self.rows[field.group] as usize;
            let (length, frames) = (field.length as usize, frames as usize);
            let swap = field.big_endian && field.dtype.size() > 1;
            let bytes = gather(buffer, start, row, length, frames, swap.then(|| field.dtype.size()));
            let mut shape = [0; MAX_DIMENSIONS];
            shape[0] = frames as u64;
            shape[1..=field.shape.len()].copy_from_slice(&field.shape);
            let dimensions = 1 + field.shape.len() as u8;
            buffer.set(number, Value::Array { dtype: field.dtype, dimensions, shape, bytes });
        }
        Ok(())
    }

    /// The number of frames, which must agree with the record's length.
    fn frames(&self, record: &[u8]) -> Result<u64, String> {
        let head = record.first_chunk().ok_or("the record is cut off")?;
        let frames = u64::from(u32::from_le_bytes(*head));
        let row: u64 = self.rows.iter().sum();
        if row.checked_mul(frames).and_then(|n| n.checked_add(4)) != Some(record.len() as u64) {
            return Err(format!("{} bytes are not {frames} frames of {row} bytes", record.len()));
        }
        Ok(frames)
    }
}

/// Copies `length` bytes of every row and reverses the byte order of elements of `swap` bytes.
fn gather(
    buffer: &mut SampleBuffer,
    start: usize,
    row: usize,
    length: usize,
    frames: usize,
    swap: Option<usize>,
) -> Range<usize> {
    if row == length && swap.is_none() {
        return start..start + frames * length;
    }
    super::leaf::with_text(buffer, |buffer, out| {
        for frame in 0..frames {
            let at = start + frame * row;
            out.extend_from_slice(buffer.bytes(&(at..at + length)));
        }
        if let Some(size) = swap {
            out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(())
    })
    .expect("nothing in it fails")
}

/// Lays a group's fields out like C (each at a multiple of its element's size, the row at one of the largest), and
/// returns the row's length.
fn lay_out(
    group: usize,
    names: &[String],
    schema: &Schema,
    places: &mut std::collections::HashMap<String, Field>,
) -> Result<u64, String> {
    let (mut end, mut alignment) = (0u64, 1u64);
    for name in names {
        let bad = |reason: String| format!("temporal_schema: field '{name}': {reason}");
        let raw = schema.fields.get(name).ok_or_else(|| bad("not described".to_owned()))?;
        let raw = RawField::deserialize(raw).map_err(|e| bad(e.to_string()))?;
        let (dtype, big_endian) = element(&raw.dtype).map_err(bad)?;
        if raw.shape.len() + 1 > MAX_DIMENSIONS {
            return Err(bad(format!("more than {MAX_DIMENSIONS} dimensions")));
        }
        let size = dtype.size() as u64;
        let length = raw.shape.iter().try_fold(size, |n, side| n.checked_mul(*side));
        let offset = end.checked_next_multiple_of(size);
        let (Some(length), Some(offset)) = (length.filter(|n| u32::try_from(*n).is_ok()), offset) else {
            return Err(bad("larger than a chunk can be".to_owned()));
        };
        end = offset + length;
        alignment = alignment.max(size);
        places.insert(name.clone(), Field { group, offset, length, dtype, big_endian, shape: raw.shape });
    }
    Ok(end.next_multiple_of(alignment))
}

/// numpy's type string: byte order, kind, size.
fn element(text: &str) -> Result<(DType, bool), String> {
    let unsupported = || format!("elements of type '{text}' are not supported");
    let (order, kind) = text.split_at_checked(1).ok_or_else(unsupported)?;
    Ok((DType::from_numpy(kind).ok_or_else(unsupported)?, order == ">"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporal(fields: &str, order: &str, groups: &str) -> Result<Temporal, String> {
        let text =
            format!(r#"{{"version": 1, "fields": {fields}, "field_order": {order}, "groups": {groups}}}"#);
        Temporal::parse(&serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn rows_are_aligned_and_fields_collected() {
        let fields = r#"{"a": {"dtype": "|u1", "shape": []}, "b": {"dtype": ">u2", "shape": [2]}, "c": {"dtype": "<u4", "shape": []}}"#;
        let temporal = temporal(fields, r#"["a", "b", "c"]"#, r#"[["c"], ["a", "b"]]"#).unwrap();
        assert_eq!(temporal.rows, [4, 6]);
        let record =
            [&2u32.to_le_bytes()[..], &[1, 0, 0, 0, 2, 0, 0, 0], &[7, 0, 0, 1, 0, 2, 8, 0, 0, 3, 0, 4]];
        let record = record.concat();
        let mut buffer = SampleBuffer::new();
        buffer.reset(3);
        let range = buffer.append(&record);
        temporal.read(&range, &FieldSet::all(3), &mut buffer).unwrap();
        let found: Vec<(Vec<u64>, Vec<u8>)> = (0..3)
            .map(|n| match buffer.value(n) {
                Value::Array { dimensions, shape, bytes, .. } => {
                    (shape[..usize::from(*dimensions)].to_vec(), buffer.bytes(bytes).to_vec())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found[0], (vec![2], vec![7, 8]));
        assert_eq!(found[1], (vec![2, 2], vec![1, 0, 2, 0, 3, 0, 4, 0]));
        assert_eq!(found[2], (vec![2], vec![1, 0, 0, 0, 2, 0, 0, 0]));
        for length in 0..record.len() {
            let range = buffer.append(&record[..length]);
            assert!(temporal.read(&range, &FieldSet::all(3), &mut buffer).is_err());
        }
    }

    #[test]
    fn malformed_schemas_are_refused() {
        let one = r#"{"a": {"dtype": "<f4", "shape": []}}"#;
        assert!(temporal(one, r#"["a"]"#, r#"[["a"], ["a"]]"#).is_err());
        assert!(temporal(one, r#"["a", "b"]"#, r#"[["a"]]"#).is_err());
        assert!(temporal(one, r#"["a"]"#, r#"[["b"]]"#).is_err());
        assert!(temporal(r#"{"a": {"dtype": "<c8", "shape": []}}"#, r#"["a"]"#, r#"[["a"]]"#).is_err());
        let huge = r#"{"a": {"dtype": "<f4", "shape": [4294967295, 4294967295]}}"#;
        assert!(temporal(huge, r#"["a"]"#, r#"[["a"]]"#).is_err());
    }
}
