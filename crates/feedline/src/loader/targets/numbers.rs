//! Numbers of arrays and JSON lists.

use crate::error::Result;
use crate::render::array_numbers;
use crate::sample::{SampleBuffer, Value};

/// An array's numbers, converted from any type, with their shape.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) shape: Vec<u64>,
    pub(super) values: Vec<f64>,
}

impl Numbers {
    /// Number of values per row.
    pub(super) fn width(&self) -> usize {
        self.shape.get(1..).unwrap_or(&[]).iter().product::<u64>() as usize
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        if self.values.is_empty() { 0 } else { self.shape[0] as usize }
    }
}

pub(super) fn numbers(buffer: &SampleBuffer, field: usize) -> Result<Numbers, String> {
    match buffer.value(field) {
        Value::Array { dtype, dimensions, shape, bytes } => {
            let values = array_numbers(*dtype, buffer.bytes(bytes))?;
            Ok(Numbers { shape: shape[..*dimensions as usize].to_vec(), values })
        }
        Value::Bytes(bytes) => {
            let json = serde_json::from_slice(buffer.bytes(bytes)).map_err(|e| format!("not JSON: {e}"))?;
            let mut found = Numbers::default();
            flatten(&json, 0, &mut found)?;
            Ok(found)
        }
        _ => Ok(Numbers::default()),
    }
}

fn flatten(json: &serde_json::Value, depth: usize, into: &mut Numbers) -> Result<(), String> {
    match json {
        serde_json::Value::Array(list) => {
            if into.shape.len() == depth {
                into.shape.push(list.len() as u64);
            }
            if into.shape[depth] != list.len() as u64 {
                return Err("lists of different lengths where one shape is needed".to_owned());
            }
            list.iter().try_for_each(|each| flatten(each, depth + 1, into))
        }
        serde_json::Value::Number(number) if depth == into.shape.len() => {
            into.values.push(number.as_f64().unwrap_or(f64::NAN));
            Ok(())
        }
        other => Err(format!("{other} where a number was expected")),
    }
}
