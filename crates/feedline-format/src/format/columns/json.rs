//! One row of any array as a JSON value: structs are objects, lists are lists, bytes are `{"base64": "..."}`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, MapArray};
use arrow_schema::DataType;
use serde_json::{Value as Json, json};

use super::values::{decimal, float, integer, string_bytes};

/// Maximum depth of nesting.
const MAX_DEPTH: usize = 32;

pub(super) fn json(array: &dyn Array, row: usize, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Json::Null);
    }
    if let Some(list) = elements(array, row) {
        return (0..list.len())
            .map(|n| json(&*list, n, depth + 1))
            .collect::<Result<Vec<_>, _>>()
            .map(Json::from);
    }
    if let Some(map) = array.as_map_opt() {
        return object_of_map(map, row, depth);
    }
    if let Some(fields) = array.as_struct_opt() {
        let names = fields.column_names().into_iter().zip(fields.columns());
        let pairs = names.map(|(name, column)| Ok((name.to_owned(), json(&**column, row, depth + 1)?)));
        return pairs.collect::<Result<serde_json::Map<_, _>, String>>().map(Json::from);
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let key = dictionary.normalized_keys().get(row).copied().unwrap_or(usize::MAX);
        let values = dictionary.values();
        return if key < values.len() { json(&**values, key, depth + 1) } else { Ok(Json::Null) };
    }
    scalar(array, row)
}

fn scalar(array: &dyn Array, row: usize) -> Result<Json, String> {
    if let Some(truth) = array.as_boolean_opt() {
        return Ok(truth.value(row).into());
    }
    if let Some(digits) = decimal(array, row) {
        return Ok(digits.into());
    }
    if let Some(bytes) = string_bytes(array, row) {
        use base64::Engine as _;
        let text = matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        return Ok(match std::str::from_utf8(bytes) {
            Ok(string) if text => string.into(),
            _ => json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)}),
        });
    }
    if let Some(number) = float(array, row) {
        // JSON has no NaN and no infinities: they become strings.
        return Ok(
            serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Json::Number)
        );
    }
    if *array.data_type() == DataType::UInt64 {
        return Ok(array.as_primitive::<arrow_array::types::UInt64Type>().value(row).into());
    }
    integer(array, row)
        .ok_or_else(|| format!("a {} cannot be converted to JSON", array.data_type()))?
        .map(Json::from)
}

/// The elements of one row of any kind of list.
pub(super) fn elements(array: &dyn Array, row: usize) -> Option<arrow_array::ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().value(row)),
        _ => None,
    }
}

/// Text keys make an object, others a list of pairs.
fn object_of_map(map: &MapArray, row: usize, depth: usize) -> Result<Json, String> {
    let entries = map.value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    let pair = |n: usize| Ok::<_, String>((json(&**keys, n, depth + 1)?, json(&**values, n, depth + 1)?));
    let pairs = (0..entries.len()).map(pair).collect::<Result<Vec<_>, _>>()?;
    if pairs.iter().all(|(key, _)| key.is_string()) {
        let name = |key: Json| key.as_str().unwrap_or_default().to_owned();
        return Ok(Json::Object(pairs.into_iter().map(|(key, value)| (name(key), value)).collect()));
    }
    Ok(pairs.into_iter().map(|(key, value)| json!([key, value])).collect::<Vec<_>>().into())
}
