//! One record batch: its buffers, and single values of its rows.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;

use base64::Engine;

use super::arrow::{BatchPlace, Node};
use super::chunk::{Bytes, Wrong};
use super::column::{Column, Flat, Shape};
use super::inflate::inflate;
use super::json_leaf::{separate, string, write_boolean, write_float, write_integer};
use crate::error::Result;
use crate::format::lru_cache::ByteSize;

/// Maximum length of a value's JSON text: a hostile file can contain any number of nulls.
const MOST_TEXT: usize = 256 << 20;

/// How buffers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Zstd,
    Lz4,
}

#[derive(Debug)]
enum Buffer {
    Memory(Vec<u8>),
    /// In the chunk: values that are read when they are needed.
    File(Range<u64>),
}

impl Buffer {
    fn length(&self) -> u64 {
        match self {
            Buffer::Memory(bytes) => bytes.len() as u64,
            Buffer::File(range) => range.end - range.start,
        }
    }
}

/// The parts of a record batch that are in memory.
#[derive(Debug)]
pub(super) struct Batch {
    nodes: Vec<Node>,
    buffers: Vec<Buffer>,
}

impl ByteSize for Batch {
    fn weight(&self) -> usize {
        let memory = |buffer: &Buffer| match buffer {
            Buffer::Memory(bytes) => bytes.capacity(),
            Buffer::File(_) => 0,
        };
        size_of::<Batch>() + self.buffers.iter().map(|b| size_of::<Buffer>() + memory(b)).sum::<usize>()
    }
}

/// One value of a row.
#[derive(Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Float(f64),
    /// This range of this buffer.
    Bytes(usize, Range<u64>),
    /// A list or a map, which is returned as text.
    Nested,
}

/// Where a value's bytes are stored.
pub(super) enum Stored<'a> {
    Memory(&'a [u8]),
    /// In the chunk.
    File(Range<u64>),
}

impl Batch {
    pub(super) fn load(bytes: &Bytes<'_>, place: &BatchPlace, in_file: &[bool]) -> Result<Batch, Wrong> {
        let mut buffers = Vec::with_capacity(place.buffers.len());
        for (range, stays) in place.buffers.iter().zip(in_file) {
            if *stays {
                buffers.push(Buffer::File(range.clone()));
                continue;
            }
            let stored = bytes.copy(range.clone())?;
            let plain = match place.codec {
                Some(codec) if !stored.is_empty() => {
                    expand(codec, &stored).map_err(|reason| Wrong::At(range.start, reason))?
                }
                _ => stored,
            };
            buffers.push(Buffer::Memory(plain));
        }
        Ok(Batch { nodes: place.nodes.clone(), buffers })
    }

    /// The value of a column's row.
    pub(super) fn cell(&self, flat: &Flat, row: u64) -> Result<Cell, String> {
        for (node, buffer) in &flat.parents {
            if !self.valid(*node, *buffer, row)? {
                return Ok(Cell::Null);
            }
        }
        self.value(&flat.column, row)
    }

    fn value(&self, column: &Column, row: u64) -> Result<Cell, String> {
        if column.shape == Shape::Null || !self.valid(column.node, column.buffer, row)? {
            return Ok(Cell::Null);
        }
        let data = column.buffer + 1;
        Ok(match &column.shape {
            Shape::Bool => Cell::Int(i64::from(self.bit(data, row)?)),
            Shape::Int { bytes, signed } => Cell::Int(self.integer(data, row, *bytes, *signed)?),
            Shape::Float { bytes } => Cell::Float(self.float(data, row, *bytes)?),
            Shape::Variable { wide, .. } => {
                let range = self.offsets(data, row, *wide)?;
                if range.end > self.buffers[data + 1].length() {
                    return Err("a value reaches past the end of its column".to_owned());
                }
                Cell::Bytes(data + 1, range)
            }
            Shape::Fixed { bytes } => {
                let start = row.checked_mul(*bytes as u64).ok_or("a row past the end")?;
                self.memory(data, start, *bytes)?;
                Cell::Bytes(data, start..start + *bytes as u64)
            }
            _ => Cell::Nested,
        })
    }

    /// Where the bytes of a [`Cell::Bytes`] are.
    pub(super) fn stored(&self, buffer: usize, range: &Range<u64>) -> Stored<'_> {
        match &self.buffers[buffer] {
            Buffer::Memory(bytes) => Stored::Memory(&bytes[range.start as usize..range.end as usize]),
            Buffer::File(place) => Stored::File(place.start + range.start..place.start + range.end),
        }
    }

    fn memory(&self, buffer: usize, start: u64, length: usize) -> Result<&[u8], String> {
        let Buffer::Memory(bytes) = &self.buffers[buffer] else {
            return Err("numbers in the wrong place".to_owned());
        };
        let start = usize::try_from(start).ok();
        let found = start.and_then(|s| bytes.get(s..s.checked_add(length)?));
        found.ok_or_else(|| "a column is shorter than its number of rows".to_owned())
    }

    fn bit(&self, buffer: usize, row: u64) -> Result<bool, String> {
        Ok(self.memory(buffer, row / 8, 1)?[0] >> (row % 8) & 1 == 1)
    }

    fn valid(&self, node: usize, buffer: usize, row: u64) -> Result<bool, String> {
        let node = self.nodes[node];
        if row >= node.length {
            return Err("a column is shorter than its number of rows".to_owned());
        }
        // A column without nulls may lack the validity buffer.
        if !node.has_nulls || self.buffers[buffer].length() == 0 {
            return Ok(true);
        }
        self.bit(buffer, row)
    }

    fn integer(&self, buffer: usize, row: u64, bytes: usize, signed: bool) -> Result<i64, String> {
        let stored = self.memory(buffer, row.saturating_mul(bytes as u64), bytes)?;
        let negative = signed && stored[bytes - 1] >= 0x80;
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..bytes].copy_from_slice(stored);
        let number = i64::from_le_bytes(wide);
        if !signed && number < 0 {
            return Err(format!("{} is too large for a signed 64-bit integer", u64::from_le_bytes(wide)));
        }
        Ok(number)
    }

    fn float(&self, buffer: usize, row: u64, bytes: usize) -> Result<f64, String> {
        let stored = self.memory(buffer, row.saturating_mul(bytes as u64), bytes)?;
        Ok(match *stored {
            [a, b] => half(u16::from_le_bytes([a, b])),
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            _ => f64::from_le_bytes(stored.try_into().map_err(|_| "a float of unknown size")?),
        })
    }

    fn offsets(&self, buffer: usize, row: u64, wide: bool) -> Result<Range<u64>, String> {
        let bytes = if wide { 8 } else { 4 };
        let one = |row: u64| self.integer(buffer, row, bytes, true);
        let (start, end) = (one(row)?, one(row + 1)?);
        match (u64::try_from(start), u64::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end => Ok(start..end),
            _ => Err(format!("offsets {start} and {end} are not a range")),
        }
    }

    /// Appends a column's value at `row` as JSON.
    pub(super) fn write_json(
        &self,
        bytes: &Bytes<'_>,
        column: &Column,
        row: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let wrong = |reason: String| Wrong::At(0, reason);
        if out.len() > MOST_TEXT {
            return Err(wrong(format!("the value's text is longer than {MOST_TEXT} bytes")));
        }
        match self.value(column, row).map_err(wrong)? {
            Cell::Null => out.extend_from_slice(b"null"),
            Cell::Int(number) if column.shape == Shape::Bool => write_boolean(number != 0, out),
            Cell::Int(number) => write_integer(number, out),
            Cell::Float(number) => write_float(number, out),
            Cell::Bytes(buffer, range) => {
                let stored = self.bring(bytes, buffer, &range)?;
                write_bytes(&column.shape, &stored, out).map_err(wrong)?;
            }
            Cell::Nested => self.write_nested(bytes, column, row, out)?,
        }
        Ok(())
    }

    fn bring(&self, bytes: &Bytes<'_>, buffer: usize, range: &Range<u64>) -> Result<Cow<'_, [u8]>, Wrong> {
        Ok(match self.stored(buffer, range) {
            Stored::Memory(stored) => Cow::Borrowed(stored),
            Stored::File(place) => Cow::Owned(bytes.copy(place)?),
        })
    }

    fn write_nested(
        &self,
        bytes: &Bytes<'_>,
        column: &Column,
        row: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let wrong = |reason: String| Wrong::At(0, reason);
        let list = column.buffer + 1;
        match &column.shape {
            Shape::List { wide, element } => {
                let range = self.offsets(list, row, *wide).map_err(wrong)?;
                self.write_list(bytes, element, range, out)
            }
            Shape::FixedList { length, element } => {
                let start = row.saturating_mul(*length as u64);
                self.write_list(bytes, element, start..start.saturating_add(*length as u64), out)
            }
            Shape::Map { entries } => {
                let range = self.offsets(list, row, false).map_err(wrong)?;
                self.write_map(bytes, entries, range, out)
            }
            Shape::Struct(children) => {
                out.push(b'{');
                for (number, child) in children.iter().enumerate() {
                    separate(number, out);
                    string(&child.name, out);
                    out.push(b':');
                    self.write_json(bytes, child, row, out)?;
                }
                out.push(b'}');
                Ok(())
            }
            _ => Err(wrong("not a nested value".to_owned())),
        }
    }

    fn write_list(
        &self,
        bytes: &Bytes<'_>,
        element: &Column,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        out.push(b'[');
        for (number, row) in range.enumerate() {
            separate(number, out);
            self.write_json(bytes, element, row, out)?;
        }
        out.push(b']');
        Ok(())
    }

    /// Text keys make an object; other or null keys make a list of entries.
    fn write_map(
        &self,
        bytes: &Bytes<'_>,
        entries: &Column,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), Wrong> {
        let Shape::Struct(pair) = &entries.shape else {
            return Err(Wrong::At(0, "a map without entries".to_owned()));
        };
        let [key, value] = &pair[..] else {
            return Err(Wrong::At(0, "a map's entries are not pairs".to_owned()));
        };
        if !matches!(key.shape, Shape::Variable { text: true, .. }) {
            return self.write_list(bytes, entries, range, out);
        }
        out.push(b'{');
        for (number, row) in range.enumerate() {
            separate(number, out);
            self.write_json(bytes, key, row, out)?;
            out.push(b':');
            self.write_json(bytes, value, row, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Text is written as it is; bytes, which JSON lacks, as base64.
fn write_bytes(shape: &Shape, stored: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if let Shape::Variable { text: true, .. } = shape {
        string(std::str::from_utf8(stored).map_err(|_| "a text is not UTF-8")?, out);
        return Ok(());
    }
    out.push(b'"');
    out.extend_from_slice(base64::engine::general_purpose::STANDARD.encode(stored).as_bytes());
    out.push(b'"');
    Ok(())
}

/// A compressed buffer: its length, or -1 if it is not compressed, then the bytes.
fn expand(codec: Codec, stored: &[u8]) -> Result<Vec<u8>, String> {
    let (length, rest) = stored.split_first_chunk().ok_or("a compressed buffer is cut off")?;
    let length = match i64::from_le_bytes(*length) {
        -1 => return Ok(rest.to_vec()),
        length => u32::try_from(length).map_err(|_| format!("a buffer of {length} bytes"))?,
    };
    match codec {
        Codec::Zstd => inflate(rest, u64::from(length)),
        Codec::Lz4 => {
            let mut out = Vec::new();
            let decoder = lz4_flex::frame::FrameDecoder::new(rest);
            decoder.take(u64::from(length) + 1).read_to_end(&mut out).map_err(|e| format!("lz4: {e}"))?;
            if out.len() as u64 != u64::from(length) {
                return Err(format!("a buffer inflates to {} bytes, not {length}", out.len()));
            }
            Ok(out)
        }
    }
}

/// A half-precision number.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_numbers_follow_ieee() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x0001, 2f64.powi(-24)),
            (0x7bff, 65504.0),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan() && half(0x8000).is_sign_negative());
    }

    #[test]
    fn compressed_buffers_have_the_announced_length() {
        let zstd = zstd::encode_all(&b"hello"[..], 1).unwrap();
        let with = |length: i64, rest: &[u8]| [&length.to_le_bytes()[..], rest].concat();
        assert_eq!(expand(Codec::Zstd, &with(5, &zstd)).unwrap(), b"hello");
        assert_eq!(expand(Codec::Lz4, &with(-1, b"plain")).unwrap(), b"plain");
        for length in [4, 6, -2, i64::MAX] {
            assert!(expand(Codec::Zstd, &with(length, &zstd)).is_err(), "{length}");
        }
        assert!(expand(Codec::Lz4, &with(5, b"nonsense")).is_err());
        assert!(expand(Codec::Zstd, b"short").is_err());
    }
}
