//! Parses `tf.train.Example` in place. Only the part of protobuf that it uses: nothing is built, unknown fields are
//! skipped, every length is checked against the bytes left, and nesting is limited to the levels of the message.

use std::ops::Range;

/// The type of a feature's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ListKind {
    Bytes,
    Float,
    Int,
}

/// One feature of a record: its type, and the bytes of its message from the first list of that type on. All ranges
/// are relative to the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) kind: ListKind,
    lists: Range<usize>,
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

/// Fields of one message, as (number, wire type, payload range or value).
struct Fields<'a> {
    record: &'a [u8],
    at: usize,
    end: usize,
}

struct Field {
    number: u64,
    wire: u8,
    /// Range of the payload: the varint itself, the fixed bytes, or the content.
    range: Range<usize>,
}

impl<'a> Fields<'a> {
    fn new(record: &'a [u8], range: Range<usize>) -> Self {
        Fields { record, at: range.start, end: range.end }
    }

    fn next(&mut self) -> Result<Option<Field>, String> {
        if self.at >= self.end {
            return Ok(None);
        }
        let key = self.varint()?;
        let (number, wire) = (key >> 3, (key & 7) as u8);
        if number == 0 {
            return Err(format!("field number 0 at byte {} of the record", self.at));
        }
        let start = self.at;
        let length = match wire {
            VARINT => {
                self.varint()?;
                return Ok(Some(Field { number, wire, range: start..self.at }));
            }
            FIXED64 => 8,
            FIXED32 => 4,
            LENGTH => self.varint()?,
            other => return Err(format!("wire type {other} at byte {start} of the record")),
        };
        let start = self.at;
        let end = usize::try_from(length).ok().and_then(|n| start.checked_add(n));
        let end = end.filter(|end| *end <= self.end).ok_or_else(|| {
            format!(
                "{length} bytes announced at byte {start} of the record, but {} are left",
                self.end - start
            )
        })?;
        self.at = end;
        Ok(Some(Field { number, wire, range: start..end }))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let (value, length) = varint(&self.record[self.at..self.end])
            .ok_or_else(|| format!("a broken number at byte {} of the record", self.at))?;
        self.at += length;
        Ok(value)
    }
}

/// A varint and its number of bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (count, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 127) << (7 * count).min(63);
        if byte & 128 == 0 {
            return Some((value, count + 1));
        }
    }
    None
}

/// Why a record is refused.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    /// Not a valid message.
    Broken(String),
    /// A `tf.train.SequenceExample`, whose steps have no counterpart in one sample's fields.
    Sequence,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Refusal::Broken(reason)
    }
}

/// Calls `visit` with each feature's name and content, in the order they are written. A repeated name is visited
/// again; the later one counts.
pub(super) fn visit_features(
    record: &[u8],
    mut visit: impl FnMut(&[u8], Feature) -> Result<(), String>,
) -> Result<(), Refusal> {
    let mut example = Fields::new(record, 0..record.len());
    while let Some(field) = example.next()? {
        match (field.number, field.wire) {
            (1, LENGTH) => {
                let mut entries = Fields::new(record, field.range);
                while let Some(entry) = entries.next()? {
                    if (entry.number, entry.wire) == (1, LENGTH) {
                        visit_entry(record, entry.range, &mut visit)?;
                    }
                }
            }
            (2, LENGTH) => return Err(Refusal::Sequence),
            _ => {}
        }
    }
    Ok(())
}

fn visit_entry(
    record: &[u8],
    range: Range<usize>,
    visit: &mut impl FnMut(&[u8], Feature) -> Result<(), String>,
) -> Result<(), String> {
    let mut parts = Fields::new(record, range);
    let (mut key, mut value) = (0..0, None);
    while let Some(part) = parts.next()? {
        match (part.number, part.wire) {
            (1, LENGTH) => key = part.range,
            (2, LENGTH) => value = Some(part.range),
            _ => {}
        }
    }
    let Some(feature) = value.map(|v| feature(record, v)).transpose()?.flatten() else { return Ok(()) };
    visit(&record[key], feature)
}

/// The last type of list in the message counts; consecutive lists of the same type are one.
fn feature(record: &[u8], range: Range<usize>) -> Result<Option<Feature>, String> {
    let mut fields = Fields::new(record, range.clone());
    let mut found: Option<Feature> = None;
    loop {
        let start = fields.at;
        let Some(field) = fields.next()? else { return Ok(found) };
        let kind = match (field.number, field.wire) {
            (1, LENGTH) => ListKind::Bytes,
            (2, LENGTH) => ListKind::Float,
            (3, LENGTH) => ListKind::Int,
            _ => continue,
        };
        if found.as_ref().is_none_or(|f| f.kind != kind) {
            found = Some(Feature { kind, lists: start..range.end });
        }
    }
}

impl Feature {
    /// Calls `visit` with each field 1 of the lists.
    fn values(
        &self,
        record: &[u8],
        mut visit: impl FnMut(u8, Range<usize>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut lists = Fields::new(record, self.lists.clone());
        while let Some(list) = lists.next()? {
            if list.wire != LENGTH || list.number > 3 {
                continue;
            }
            let mut values = Fields::new(record, list.range);
            while let Some(value) = values.next()? {
                if value.number == 1 {
                    visit(value.wire, value.range)?;
                }
            }
        }
        Ok(())
    }

    /// Range of each byte string in the record.
    pub(super) fn byte_strings(
        &self,
        record: &[u8],
        mut visit: impl FnMut(Range<usize>),
    ) -> Result<(), String> {
        self.values(record, |wire, range| {
            if wire == LENGTH {
                visit(range);
            }
            Ok(())
        })
    }

    /// Each integer.
    pub(super) fn integers(&self, record: &[u8], mut visit: impl FnMut(i64)) -> Result<(), String> {
        self.values(record, |wire, range| {
            let mut rest = if matches!(wire, LENGTH | VARINT) { &record[range.clone()] } else { &[][..] };
            while !rest.is_empty() {
                let (value, length) = varint(rest)
                    .ok_or_else(|| format!("a broken number in bytes {range:?} of the record"))?;
                visit(value.cast_signed());
                rest = &rest[length..];
            }
            Ok(())
        })
    }

    /// Ranges of little-endian 32-bit floats in the record: one for a packed list, one per value otherwise.
    pub(super) fn float_runs(
        &self,
        record: &[u8],
        mut visit: impl FnMut(Range<usize>),
    ) -> Result<(), String> {
        self.values(record, |wire, range| {
            if matches!(wire, LENGTH | FIXED32) {
                if range.len() % 4 != 0 {
                    return Err(format!("{} bytes of floats, which have 4 each", range.len()));
                }
                visit(range);
            }
            Ok(())
        })
    }

    /// Number of values.
    pub(super) fn count(&self, record: &[u8]) -> Result<usize, String> {
        let mut count = 0;
        match self.kind {
            ListKind::Bytes => self.byte_strings(record, |_| count += 1)?,
            ListKind::Int => self.integers(record, |_| count += 1)?,
            ListKind::Float => self.float_runs(record, |run| count += run.len() / 4)?,
        }
        Ok(count)
    }
}

#[cfg(test)]
pub(super) mod write {
    //! A writer of Examples, for tests.

    fn number(mut value: u64, out: &mut Vec<u8>) {
        while value > 127 {
            out.push(value as u8 | 128);
            value >>= 7;
        }
        out.push(value as u8);
    }

    pub(crate) fn field(number_: u64, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        number(number_ << 3 | 2, &mut out);
        number(content.len() as u64, &mut out);
        out.extend_from_slice(content);
        out
    }

    pub(crate) fn bytes(values: &[&[u8]]) -> Vec<u8> {
        field(1, &values.iter().flat_map(|v| field(1, v)).collect::<Vec<u8>>())
    }

    pub(crate) fn ints(values: &[i64], packed: bool) -> Vec<u8> {
        let mut list = Vec::new();
        for value in values {
            if !packed {
                list.push(8);
            }
            number(value.cast_unsigned(), &mut list);
        }
        field(3, &if packed { field(1, &list) } else { list })
    }

    pub(crate) fn floats(values: &[f32], packed: bool) -> Vec<u8> {
        let mut list = Vec::new();
        for value in values {
            if !packed {
                list.push(13);
            }
            list.extend_from_slice(&value.to_le_bytes());
        }
        field(2, &if packed { field(1, &list) } else { list })
    }

    pub(crate) fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let entry = |(key, feature): &(&str, Vec<u8>)| {
            field(1, &[field(1, key.as_bytes()), field(2, feature)].concat())
        };
        field(1, &features.iter().flat_map(entry).collect::<Vec<u8>>())
    }

    /// Frames a record as in a TFRecord file.
    pub(crate) fn frame(record: &[u8]) -> Vec<u8> {
        let length = (record.len() as u64).to_le_bytes();
        let crc = |bytes: &[u8]| super::super::index::masked_crc(bytes).to_le_bytes();
        [&length[..], &crc(&length), record, &crc(record)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::write::*;
    use super::*;

    fn features(record: &[u8]) -> Result<Vec<(String, Feature)>, Refusal> {
        let mut found = Vec::new();
        visit_features(record, |name, feature| {
            found.push((String::from_utf8_lossy(name).into_owned(), feature));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn packed_and_unpacked_lists_are_read() {
        for packed in [true, false] {
            let record = example(&[
                ("i", ints(&[1, -2, i64::MIN], packed)),
                ("f", floats(&[0.5, -1.0], packed)),
                ("b", bytes(&[b"x", b"yz"])),
            ]);
            let found = features(&record).unwrap();
            let mut integers = Vec::new();
            found[0].1.integers(&record, |i| integers.push(i)).unwrap();
            assert_eq!(integers, [1, -2, i64::MIN]);
            let mut floats = Vec::new();
            found[1].1.float_runs(&record, |run| floats.extend_from_slice(&record[run])).unwrap();
            assert_eq!(floats, [0.5f32.to_le_bytes(), (-1.0f32).to_le_bytes()].concat());
            let mut strings = Vec::new();
            found[2].1.byte_strings(&record, |run| strings.push(record[run].to_vec())).unwrap();
            assert_eq!(strings, [b"x".to_vec(), b"yz".to_vec()]);
            assert_eq!(found.iter().map(|f| f.1.count(&record).unwrap()).collect::<Vec<_>>(), [3, 2, 2]);
        }
    }

    #[test]
    fn the_last_kind_counts_and_lists_of_one_kind_are_joined() {
        let mixed = [ints(&[1], true), bytes(&[b"a"]), bytes(&[b"b"])].concat();
        let record = example(&[("x", mixed), ("none", Vec::new())]);
        let found = features(&record).unwrap();
        assert_eq!((found.len(), found[0].1.kind, found[0].1.count(&record)), (1, ListKind::Bytes, Ok(2)));
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let record =
            [&[0x28, 5, 0x31, 0, 0, 0, 0, 0, 0, 0, 0][..], &example(&[("a", ints(&[4], true))])].concat();
        assert_eq!(features(&record).unwrap().len(), 1);
    }

    #[test]
    fn sequence_examples_are_recognised() {
        let record = [field(1, b""), field(2, &field(1, b""))].concat();
        assert_eq!(features(&record), Err(Refusal::Sequence));
    }

    #[test]
    fn damaged_records_are_read_or_refused() {
        let record =
            example(&[("i", ints(&[1, 300], true)), ("b", bytes(&[b"xyz"])), ("f", floats(&[1.0], false))]);
        let all = |record: &[u8]| {
            if let Ok(found) = features(record) {
                let _ = found.iter().map(|(_, f)| f.count(record).unwrap_or(0)).sum::<usize>();
            }
        };
        for length in 0..record.len() {
            all(&record[..length]);
        }
        let mut damaged = record.clone();
        for at in 0..record.len() {
            for byte in 0..=255 {
                damaged[at] = byte;
                all(&damaged);
            }
            damaged[at] = record[at];
        }
        assert!(features(&record[..record.len() - 1]).is_err());
    }
}
