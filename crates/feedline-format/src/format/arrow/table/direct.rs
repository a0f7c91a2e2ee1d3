//! Values read directly from the file: bytes, numbers, and lists of numbers.

use std::ops::Range;

use arrow_schema::DataType;

use super::super::layout::Node;
use super::{Column, IpcTable, NumberedBatch};
use crate::error::Result;
use crate::format::columns::{Shape, placed};
use crate::sample::{DType, Kind, MAX_DIMENSIONS, SampleBuffer, Value};
use crate::source::Object;

impl IpcTable {
    /// The value, if the column needs no Arrow array.
    pub(super) fn direct(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        column: &Column,
        row: usize,
        into: &mut SampleBuffer,
    ) -> Result<Option<Value>> {
        let plain = match column.shape {
            Shape::Bytes => has_offsets(&node.data_type),
            Shape::Stored { .. } | Shape::Array { .. } => true,
            Shape::Integer | Shape::Float => width(&node.data_type).is_some(),
            Shape::Decimal | Shape::Json => false,
        };
        if !plain {
            return Ok(None);
        }
        if self.is_null(object, inside, node, row)? {
            return Ok(Some(Value::Missing));
        }
        match column.shape {
            Shape::Stored { bytes, .. } => {
                let child = &node.children[bytes];
                if self.is_null(object, inside, child, row)? {
                    return Ok(Some(Value::Missing));
                }
                self.bytes(object, inside, child, column.spec.kind, row, into).map(Some)
            }
            Shape::Bytes => self.bytes(object, inside, node, column.spec.kind, row, into).map(Some),
            Shape::Array { dtype, .. } => self.list(object, inside, node, column, dtype, row, into).map(Some),
            _ => self.number(object, inside, node, row).map(Some),
        }
    }

    pub(super) fn is_null(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        row: usize,
    ) -> Result<bool> {
        if !node.has_nulls(inside.batch) || node.data_type == DataType::Null {
            return Ok(node.data_type == DataType::Null);
        }
        let bits = self.piece(object, inside, node.buffer(inside.batch, 0))?;
        let byte =
            bits.get(row / 8).ok_or_else(|| self.bad("nulls are counted, but not listed for all rows"))?;
        Ok(byte >> (row % 8) & 1 == 0)
    }

    /// Range of the row's bytes in the buffer of all bytes.
    pub(super) fn byte_range(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        row: usize,
    ) -> Result<Range<u64>> {
        let large =
            matches!(node.data_type, DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_));
        let offsets = self.piece(object, inside, node.buffer(inside.batch, 1))?;
        let at = |row: usize| offset(&offsets, row, large);
        let range = at(row).zip(row.checked_add(1).and_then(at)).map(|(start, end)| start..end);
        range.filter(|range| range.start <= range.end).ok_or_else(|| self.bad("damaged offsets"))
    }

    fn bytes(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        kind: Kind,
        row: usize,
        into: &mut SampleBuffer,
    ) -> Result<Value> {
        let range = self.byte_range(object, inside, node, row)?;
        let buffer = node.buffer(inside.batch, 2);
        // Checked before memory is allocated.
        if inside.batch.codec.is_none() {
            self.absolute(inside, buffer, &range)?;
        } else if range.end > self.piece(object, inside, buffer)?.len() as u64 {
            return Err(self.bad("a value reaches past its buffer"));
        }
        let (place, room) = into.reserve((range.end - range.start) as usize);
        self.read_range(object, inside, buffer, range, room)?;
        if matches!(kind, Kind::Text | Kind::Json) && std::str::from_utf8(into.bytes(&place)).is_err() {
            return Err(self.bad("text that is not UTF-8"));
        }
        Ok(placed(kind, place))
    }

    fn number(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        row: usize,
    ) -> Result<Value> {
        let numbers = self.piece(object, inside, node.buffer(inside.batch, 1))?;
        let short = || self.bad("a column shorter than its batch");
        if node.data_type == DataType::Boolean {
            let byte = numbers.get(row / 8).ok_or_else(short)?;
            return Ok(Value::Int(i64::from(byte >> (row % 8) & 1)));
        }
        let width = width(&node.data_type).unwrap_or(8);
        let bytes = numbers.get(row * width..(row + 1) * width).ok_or_else(short)?;
        parse(&node.data_type, bytes).map_err(|reason| self.bad(reason))
    }

    #[expect(clippy::too_many_arguments, reason = "where, which and what: none of them can be left out")]
    fn list(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        column: &Column,
        dtype: DType,
        row: usize,
        into: &mut SampleBuffer,
    ) -> Result<Value> {
        let mut shape = [0; MAX_DIMENSIONS];
        let mut range = self.elements(object, inside, node, row..row + 1)?.0;
        shape[0] = (range.end - range.start) as u64;
        let (mut dimensions, mut level) = (1, &node.children[0]);
        while !level.children.is_empty() {
            let count = range.len();
            if level.has_nulls(inside.batch) {
                return Err(self.bad("a null among the lists"));
            }
            let (inner, each) = self.elements(object, inside, level, range)?;
            shape[dimensions] = match (count, each) {
                (0, _) => column.noted.get(dimensions).copied().flatten().unwrap_or(0),
                (_, Some(each)) => each as u64,
                _ => return Err(self.bad("nested lists of different lengths do not make an array")),
            };
            range = inner;
            dimensions += 1;
            level = &level.children[0];
        }
        if level.has_nulls(inside.batch) {
            for element in range.clone() {
                if self.is_null(object, inside, level, element)? {
                    return Err(self.bad("a null among the numbers"));
                }
            }
        }
        let bytes = self.numbers(object, inside, level, range, into)?;
        if column.noted.first() == Some(&Some(crate::format::columns::SCALAR)) && dimensions == 1 {
            return Ok(Value::Array { dtype, dimensions: 0, shape: [0; MAX_DIMENSIONS], bytes });
        }
        Ok(Value::Array { dtype, dimensions: dimensions as u8, shape, bytes })
    }

    /// The elements of these rows of a list, and the length of each row if all are equal.
    fn elements(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        node: &Node,
        rows: Range<usize>,
    ) -> Result<(Range<usize>, Option<usize>)> {
        if let DataType::FixedSizeList(_, each) = &node.data_type {
            let each = usize::try_from(*each).map_err(|_| self.bad("a list of negative length"))?;
            let scaled = rows.start.checked_mul(each).zip(rows.end.checked_mul(each));
            let (start, end) = scaled.ok_or_else(|| self.bad("a list that does not fit in memory"))?;
            return Ok((start..end, Some(each)));
        }
        if rows.is_empty() {
            return Ok((0..0, None));
        }
        let first = self.byte_range(object, inside, node, rows.start)?;
        let (mut end, each) = (first.end, first.end - first.start);
        let mut equal = true;
        for row in rows.start + 1..rows.end {
            let range = self.byte_range(object, inside, node, row)?;
            equal &= range.end - range.start == each;
            end = range.end;
        }
        let (start, end) = (first.start as usize, end as usize);
        if start > end {
            return Err(self.bad("damaged offsets"));
        }
        Ok((start..end, equal.then_some(each as usize)))
    }

    fn numbers(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        level: &Node,
        range: Range<usize>,
        into: &mut SampleBuffer,
    ) -> Result<Range<usize>> {
        let buffer = level.buffer(inside.batch, 1);
        if range.end as u64 > inside.batch.nodes[level.number].0 {
            return Err(self.bad("a list reaches past its elements"));
        }
        if level.data_type == DataType::Boolean {
            let bits = self.piece(object, inside, buffer)?;
            if range.end.div_ceil(8) > bits.len() {
                return Err(self.bad("a list reaches past its elements"));
            }
            let (place, room) = into.reserve(range.len());
            room.iter_mut().zip(range).for_each(|(byte, n)| *byte = bits[n / 8] >> (n % 8) & 1);
            return Ok(place);
        }
        let width = DType::from_arrow(&level.data_type).map_or(1, DType::size);
        let scaled = range.start.checked_mul(width).zip(range.end.checked_mul(width));
        let (start, end) = scaled.ok_or_else(|| self.bad("a list that does not fit in memory"))?;
        let bytes = start as u64..end as u64;
        if inside.batch.codec.is_none() {
            self.absolute(inside, buffer, &bytes)?;
        } else if end > self.piece(object, inside, buffer)?.len() {
            return Err(self.bad("a list reaches past its elements"));
        }
        let (place, room) = into.reserve(end - start);
        self.read_range(object, inside, buffer, bytes, room)?;
        Ok(place)
    }

    /// Range of the bytes of a row's binary or text, and whether these are the object's own bytes; `None` for nulls
    /// and other columns. Reads only offsets.
    pub(in crate::format) fn place_of(
        &self,
        object: &dyn Object,
        row: u64,
        column: &Column,
    ) -> Result<Option<(Range<u64>, bool)>> {
        let Some((inside, row)) = self.find(row) else { return Ok(None) };
        let mut node = &self.layout.columns[column.root];
        match column.shape {
            Shape::Stored { bytes, .. } if !self.is_null(object, inside, node, row)? => {
                node = &node.children[bytes];
            }
            Shape::Bytes if has_offsets(&node.data_type) => {}
            _ => return Ok(None),
        }
        if self.is_null(object, inside, node, row)? {
            return Ok(None);
        }
        let range = self.byte_range(object, inside, node, row)?;
        if inside.batch.codec.is_some() {
            return Ok(Some((range, false)));
        }
        Ok(Some((self.absolute(inside, node.buffer(inside.batch, 2), &range)?, true)))
    }

    /// A row's integer, without making arrays.
    pub(in crate::format) fn int_value(&self, object: &dyn Object, row: u64, column: &Column) -> Option<i64> {
        let (inside, row) = self.find(row)?;
        let node = &self.layout.columns[column.root];
        let plain = column.shape == Shape::Integer && width(&node.data_type).is_some();
        if !plain || self.is_null(object, inside, node, row).ok()? {
            return None;
        }
        match self.number(object, inside, node, row).ok()? {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }
}

fn has_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
}

fn offset(offsets: &[u8], row: usize, large: bool) -> Option<u64> {
    if large {
        let bytes = offsets.get(row.checked_mul(8)?..)?.get(..8)?;
        u64::try_from(i64::from_le_bytes(bytes.try_into().ok()?)).ok()
    } else {
        let bytes = offsets.get(row.checked_mul(4)?..)?.get(..4)?;
        u64::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok()
    }
}

/// Bytes of a number of this type; a boolean has one bit.
fn width(data_type: &DataType) -> Option<usize> {
    use DataType as T;
    Some(match data_type {
        T::Boolean | T::Int8 | T::UInt8 => 1,
        T::Int16 | T::UInt16 | T::Float16 => 2,
        T::Int32 | T::UInt32 | T::Float32 | T::Date32 | T::Time32(_) => 4,
        T::Int64 | T::UInt64 | T::Float64 | T::Date64 | T::Time64(_) | T::Timestamp(..) | T::Duration(_) => 8,
        _ => return None,
    })
}

fn parse(data_type: &DataType, bytes: &[u8]) -> Result<Value, String> {
    use DataType as T;
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let signed = || {
        let shift = 64 - 8 * bytes.len();
        (unsigned << shift).cast_signed() >> shift
    };
    Ok(match data_type {
        T::Float16 => Value::Float(half(unsigned as u16)),
        T::Float32 => Value::Float(f32::from_bits(unsigned as u32).into()),
        T::Float64 => Value::Float(f64::from_bits(unsigned)),
        T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => Value::Int(
            i64::try_from(unsigned)
                .map_err(|_| format!("{unsigned} does not fit in a signed 64-bit integer"))?,
        ),
        _ => Value::Int(signed()),
    })
}

/// A 16-bit float, widened.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_widened_exactly() {
        let known = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x0001, 2f64.powi(-24)),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_953_125),
        ];
        for (bits, value) in known {
            assert_eq!(half(bits).to_bits(), f64::to_bits(value));
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
    }
}
