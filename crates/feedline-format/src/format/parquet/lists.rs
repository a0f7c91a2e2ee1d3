//! Arrays of any number of dimensions as lists of lists, collected for one row group.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, ListArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use crate::format::columns::SCALAR;
use crate::sample::{DType, SampleBuffer, Value};

/// A column of arrays. All must have the same element type and number of dimensions; shapes may differ.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Element type and number of dimensions, once there was an array.
    form: Option<(DType, usize)>,
    /// Length of each dimension, `None` where arrays differ.
    shape: Vec<Option<u64>>,
    elements: Vec<u8>,
    /// For each level, the end of each list.
    ends: Vec<Vec<i32>>,
    present: Vec<bool>,
}

impl Lists {
    /// Adds an array; returns its number of bytes.
    pub(super) fn push(&mut self, value: &Value, buffer: &SampleBuffer) -> Result<usize, String> {
        let Value::Array { dtype, dimensions, shape, bytes } = value else {
            self.present.push(false);
            let end = self.ends.first().and_then(|ends| ends.last()).copied().unwrap_or(0);
            if let Some(first) = self.ends.first_mut() {
                first.push(end);
            }
            return Ok(8);
        };
        let shape = &shape[..usize::from(*dimensions)];
        let (known, depth) = *self.form.get_or_insert((*dtype, shape.len()));
        if (known, depth) != (*dtype, shape.len()) {
            return Err(format!(
                "an array of {} with {} dimensions among arrays of {} with {depth}: one Parquet column has one type",
                dtype.name(),
                shape.len(),
                known.name()
            ));
        }
        if self.ends.is_empty() {
            // Rows before the first array are missing.
            self.ends = vec![Vec::new(); depth.max(1)];
            self.ends[0] = vec![0; self.present.len()];
        }
        self.merge(shape);
        self.present.push(true);
        let sides: &[u64] = if shape.is_empty() { &[1] } else { shape };
        let mut lists = 1u64;
        for (ends, side) in self.ends.iter_mut().zip(sides) {
            let mut end = i64::from(ends.last().copied().unwrap_or(0));
            for _ in 0..lists {
                end = end.checked_add_unsigned(*side).ok_or("an array too large for a row group")?;
                ends.push(i32::try_from(end).map_err(|_| "arrays too large for a row group".to_owned())?);
            }
            lists = lists.checked_mul(*side).ok_or("an array too large for a row group")?;
        }
        self.elements.extend_from_slice(buffer.bytes(bytes));
        Ok(bytes.len())
    }

    fn merge(&mut self, shape: &[u64]) {
        if self.shape.len() == shape.len() && !shape.is_empty() {
            for (known, side) in self.shape.iter_mut().zip(shape) {
                *known = known.filter(|known| known == side);
            }
        } else if shape.is_empty() {
            self.shape = vec![Some(SCALAR)];
        } else {
            self.shape = shape.iter().map(|side| Some(*side)).collect();
        }
    }

    fn item_type(&self) -> (DataType, usize) {
        let (dtype, depth) = self.form.unwrap_or((DType::F64, 1));
        (dtype.arrow(), depth.max(1))
    }

    pub(super) fn data_type(&self) -> DataType {
        let (mut data_type, depth) = self.item_type();
        for _ in 0..depth {
            data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
        }
        data_type
    }

    /// What the types do not express: an element type that Arrow lacks, and the shape.
    pub(super) fn note(&self) -> (Option<DType>, Option<Vec<Option<u64>>>) {
        let dtype = self.form.map(|(dtype, _)| dtype).filter(|dtype| *dtype == DType::BF16);
        (dtype, self.form.map(|_| self.shape.clone()))
    }

    /// The rows so far, as an array; the next row group begins empty.
    pub(super) fn take(&mut self) -> Result<ArrayRef, String> {
        let (item, depth) = self.item_type();
        let elements = std::mem::take(&mut self.elements);
        let mut array: ArrayRef = if item == DataType::Boolean {
            Arc::new(elements.iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>())
        } else {
            let width = item.primitive_width().unwrap_or(1);
            let data = ArrayData::builder(item)
                .len(elements.len() / width)
                .add_buffer(Buffer::from_slice_ref(&elements));
            make_array(data.build().map_err(|e| e.to_string())?)
        };
        let present = std::mem::take(&mut self.present);
        let mut levels = std::mem::replace(&mut self.ends, vec![Vec::new(); depth]);
        if levels.is_empty() {
            levels = vec![vec![0; present.len()]];
        }
        for (level, ends) in levels.into_iter().enumerate().rev() {
            let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
            let field = Arc::new(Field::new("item", array.data_type().clone(), true));
            let nulls = (level == 0).then(|| NullBuffer::from(present.clone()));
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            array = Arc::new(ListArray::try_new(field, offsets, array, nulls).map_err(|e| e.to_string())?);
        }
        Ok(array)
    }
}
