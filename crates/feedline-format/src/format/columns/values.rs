//! Makes one value of one row of an array.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, downcast_primitive_array, types as t};
use arrow_schema::DataType;

use super::json::{elements, json};
use super::{Column, Shape};
use crate::sample::{DType, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// The value of row `row` (below the array's length), with its bytes in `into`. A null is `Missing`. For files stored
/// elsewhere, the caller checks the path first.
pub(in crate::format) fn value(
    column: &Column,
    array: &dyn Array,
    row: usize,
    into: &mut SampleBuffer,
) -> Result<Value, String> {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Value::Missing);
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let key = dictionary.normalized_keys()[row];
        let values = dictionary.values();
        return if key < values.len() { value(column, &**values, key, into) } else { Ok(Value::Missing) };
    }
    let wrong = || format!("a {} where {:?} was expected", array.data_type(), column.shape);
    match column.shape {
        Shape::Integer => {
            integer(array, row).ok_or_else(wrong)?.map(|n| Value::Int(n.div_euclid(column.per)))
        }
        Shape::Float => Ok(Value::Float(float(array, row).ok_or_else(wrong)?)),
        Shape::Decimal => {
            let digits = decimal(array, row).ok_or_else(wrong)?;
            Ok(Value::Bytes(into.append(digits.as_bytes())))
        }
        Shape::Bytes => Ok(of_bytes(column.spec.kind, string_bytes(array, row).ok_or_else(wrong)?, into)),
        Shape::Stored { bytes, .. } => {
            let child = array.as_struct_opt().ok_or_else(wrong)?.column(bytes);
            if child.is_null(row) {
                return Ok(Value::Missing);
            }
            Ok(of_bytes(column.spec.kind, string_bytes(&**child, row).ok_or_else(wrong)?, into))
        }
        Shape::Array { dtype, depth } => list(array, row, dtype, usize::from(depth), &column.noted, into),
        Shape::Json => {
            let text = json(array, row, 0)?.to_string();
            Ok(Value::Bytes(into.append(text.as_bytes())))
        }
    }
}

/// Bytes as a value of this kind.
fn of_bytes(kind: Kind, bytes: &[u8], into: &mut SampleBuffer) -> Value {
    let range = into.append(bytes);
    placed(kind, range)
}

/// Bytes that are already in the buffer, as a value of this kind.
pub(in crate::format) fn placed(kind: Kind, range: std::ops::Range<usize>) -> Value {
    match kind {
        Kind::Image => Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN },
        _ => Value::Bytes(range),
    }
}

/// The bytes of a binary or text row.
pub(super) fn string_bytes(array: &dyn Array, row: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => return None,
    })
}

/// An integer, boolean, date or time; an error if it does not fit in `i64`.
pub(super) fn integer(array: &dyn Array, row: usize) -> Option<Result<i64, String>> {
    use arrow_schema::TimeUnit as U;
    Some(Ok(match array.data_type() {
        DataType::Boolean => i64::from(array.as_boolean().value(row)),
        DataType::Int8 => array.as_primitive::<t::Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<t::Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<t::Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<t::Int64Type>().value(row),
        DataType::UInt8 => array.as_primitive::<t::UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<t::UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<t::UInt32Type>().value(row).into(),
        DataType::UInt64 => {
            let value = array.as_primitive::<t::UInt64Type>().value(row);
            return Some(
                i64::try_from(value).map_err(|_| format!("{value} does not fit in a signed 64-bit integer")),
            );
        }
        DataType::Timestamp(U::Second, _) => array.as_primitive::<t::TimestampSecondType>().value(row),
        DataType::Timestamp(U::Millisecond, _) => {
            array.as_primitive::<t::TimestampMillisecondType>().value(row)
        }
        DataType::Timestamp(U::Microsecond, _) => {
            array.as_primitive::<t::TimestampMicrosecondType>().value(row)
        }
        DataType::Timestamp(U::Nanosecond, _) => {
            array.as_primitive::<t::TimestampNanosecondType>().value(row)
        }
        DataType::Date32 => array.as_primitive::<t::Date32Type>().value(row).into(),
        DataType::Date64 => array.as_primitive::<t::Date64Type>().value(row),
        DataType::Time32(U::Second) => array.as_primitive::<t::Time32SecondType>().value(row).into(),
        DataType::Time32(_) => array.as_primitive::<t::Time32MillisecondType>().value(row).into(),
        DataType::Time64(U::Microsecond) => array.as_primitive::<t::Time64MicrosecondType>().value(row),
        DataType::Time64(_) => array.as_primitive::<t::Time64NanosecondType>().value(row),
        DataType::Duration(U::Second) => array.as_primitive::<t::DurationSecondType>().value(row),
        DataType::Duration(U::Millisecond) => array.as_primitive::<t::DurationMillisecondType>().value(row),
        DataType::Duration(U::Microsecond) => array.as_primitive::<t::DurationMicrosecondType>().value(row),
        DataType::Duration(U::Nanosecond) => array.as_primitive::<t::DurationNanosecondType>().value(row),
        _ => return None,
    }))
}

pub(super) fn float(array: &dyn Array, row: usize) -> Option<f64> {
    Some(match array.data_type() {
        DataType::Float16 => array.as_primitive::<t::Float16Type>().value(row).to_f64(),
        DataType::Float32 => array.as_primitive::<t::Float32Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<t::Float64Type>().value(row),
        _ => return None,
    })
}

pub(super) fn decimal(array: &dyn Array, row: usize) -> Option<String> {
    Some(match array.data_type() {
        DataType::Decimal32(..) => array.as_primitive::<t::Decimal32Type>().value_as_string(row),
        DataType::Decimal64(..) => array.as_primitive::<t::Decimal64Type>().value_as_string(row),
        DataType::Decimal128(..) => array.as_primitive::<t::Decimal128Type>().value_as_string(row),
        DataType::Decimal256(..) => array.as_primitive::<t::Decimal256Type>().value_as_string(row),
        _ => return None,
    })
}

/// Lists of numbers as an array. All lists of a level must have the same length.
fn list(
    array: &dyn Array,
    row: usize,
    dtype: DType,
    depth: usize,
    noted: &[Option<u64>],
    into: &mut SampleBuffer,
) -> Result<Value, String> {
    let mut shape = [0; MAX_DIMENSIONS];
    let mut level: ArrayRef = elements(array, row).ok_or("not a list")?;
    shape[0] = level.len() as u64;
    for (dimension, side) in shape.iter_mut().enumerate().take(depth).skip(1) {
        let count = level.len();
        let inner = flatten(&level)?;
        *side = match count {
            0 => noted.get(dimension).copied().flatten().unwrap_or(0),
            _ if inner.len() % count == 0 && regular(&level, inner.len() / count) => {
                (inner.len() / count) as u64
            }
            _ => return Err("nested lists of different lengths do not make an array".to_owned()),
        };
        level = inner;
    }
    let bytes = match DType::from_arrow(level.data_type()) {
        Some(stored) if !widened(stored, dtype) && level.null_count() == 0 => append_numbers(&level, into)?,
        _ => append_floats(&level, dtype, into)?,
    };
    // A scalar is stored as a list of one element; only a note distinguishes the two.
    let dimensions = if noted.is_empty() || depth > 1 || noted[0] != Some(SCALAR) { depth as u8 } else { 0 };
    if dimensions == 0 {
        shape = [0; MAX_DIMENSIONS];
    }
    Ok(Value::Array { dtype, dimensions, shape, bytes })
}

/// In a note: the array has no dimensions.
pub(in crate::format) const SCALAR: u64 = u64::MAX;

/// All elements of all rows of a list array, one after the other.
fn flatten(lists: &ArrayRef) -> Result<ArrayRef, String> {
    if lists.null_count() > 0 {
        return Err("a null among the lists".to_owned());
    }
    Ok(match lists.data_type() {
        DataType::List(_) => {
            let list = lists.as_list::<i32>();
            let offsets = list.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[list.len()] as usize);
            list.values().slice(start, end - start)
        }
        DataType::LargeList(_) => {
            let list = lists.as_list::<i64>();
            let offsets = list.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[list.len()] as usize);
            list.values().slice(start, end - start)
        }
        DataType::FixedSizeList(..) => {
            let list = lists.as_fixed_size_list();
            let length = list.value_length() as usize;
            list.values().slice(list.value_offset_at(0), length * list.len())
        }
        other => return Err(format!("a {other} is not a list")),
    })
}

/// Whether every list has this length.
fn regular(lists: &ArrayRef, length: usize) -> bool {
    match lists.data_type() {
        DataType::List(_) => {
            lists.as_list::<i32>().value_offsets().windows(2).all(|w| (w[1] - w[0]) as usize == length)
        }
        DataType::LargeList(_) => {
            lists.as_list::<i64>().value_offsets().windows(2).all(|w| (w[1] - w[0]) as usize == length)
        }
        _ => true,
    }
}

/// Whether this column of integers is returned as floats because some row has a null among them.
fn widened(stored: DType, dtype: DType) -> bool {
    dtype == DType::F64 && stored != DType::F64
}

/// Appends numbers as floats, with NaN for null.
fn append_floats(
    level: &ArrayRef,
    dtype: DType,
    into: &mut SampleBuffer,
) -> Result<std::ops::Range<usize>, String> {
    let number = |row: usize| -> Result<f64, String> {
        if level.is_null(row) {
            return Ok(f64::NAN);
        }
        match float(&**level, row) {
            Some(number) => Ok(number),
            None => integer(&**level, row).ok_or("not a number")?.map(|number| number as f64),
        }
    };
    let mut bytes = Vec::with_capacity(level.len() * dtype.size());
    for row in 0..level.len() {
        match dtype {
            DType::F64 => bytes.extend_from_slice(&number(row)?.to_le_bytes()),
            DType::F32 => bytes.extend_from_slice(&(number(row)? as f32).to_le_bytes()),
            DType::F16 => bytes.extend_from_slice(
                &<t::Float16Type as ArrowPrimitiveType>::Native::from_f64(number(row)?).to_le_bytes(),
            ),
            _ => {
                return Err(format!(
                    "a null among numbers of {}, although the inspected rows had none",
                    dtype.name()
                ));
            }
        }
    }
    Ok(into.append(&bytes))
}

/// Whether the innermost lists of some row contain a null.
pub(in crate::format) fn has_null_elements(lists: &dyn Array, depth: u8) -> bool {
    if depth == 0 {
        return lists.logical_null_count() > 0;
    }
    let inside: &ArrayRef = match lists.data_type() {
        DataType::List(_) => lists.as_list::<i32>().values(),
        DataType::LargeList(_) => lists.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => lists.as_fixed_size_list().values(),
        _ => return false,
    };
    has_null_elements(&**inside, depth - 1)
}

fn append_numbers(level: &ArrayRef, into: &mut SampleBuffer) -> Result<std::ops::Range<usize>, String> {
    if let Some(truths) = level.as_boolean_opt() {
        let (range, room) = into.reserve(truths.len());
        room.iter_mut().enumerate().for_each(|(n, byte)| *byte = u8::from(truths.value(n)));
        return Ok(range);
    }
    let numbers: &dyn Array = &**level;
    downcast_primitive_array!(
        numbers => Ok(into.append(numbers.values().inner().as_slice())),
        other => Err(format!("a {other} is not a number"))
    )
}
