//! Python's values → the engine's, and tables of them in memory.

use std::sync::Mutex;

use feedline::field::{Carrier, FieldSpec, Schema};
use feedline::format::Rows;
use feedline::owned::OwnedValue;
use feedline::{DType, Kind, Sample};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

/// Samples made in Python, kept in memory.
#[pyclass(name = "Rows", module = "feedline._feedline", frozen)]
pub(crate) struct PyRows {
    rows: Mutex<Rows>,
    schema: Schema,
}

#[pymethods]
impl PyRows {
    /// `schema` is a list of (name, kind).
    #[new]
    fn new(fields: Vec<(String, String)>, classes: Option<Vec<String>>) -> PyResult<Self> {
        let schema = schema(fields, classes)?;
        Ok(PyRows { rows: Mutex::new(Rows::new(&schema)), schema })
    }

    /// Adds one sample.
    fn push(&self, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let values = sample(values, &self.schema)?;
        let mut rows = self.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rows.push(&values).map_err(PyValueError::new_err)
    }
}

impl PyRows {
    pub(crate) fn rows(&self) -> Rows {
        self.rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// Makes a schema from names and kinds; every field may be missing.
pub(crate) fn schema(fields: Vec<(String, String)>, classes: Option<Vec<String>>) -> PyResult<Schema> {
    let field = |(name, kind): (String, String)| {
        let kind = Kind::from_name(&kind).ok_or_else(|| {
            PyValueError::new_err(format!("schema: {name} is {kind}, which is not a kind of field"))
        })?;
        Ok(FieldSpec::new(name, kind).optional(true))
    };
    Ok(Schema { fields: fields.into_iter().map(field).collect::<PyResult<Vec<_>>>()?, classes })
}

/// One sample's values, in the schema's order.
pub(crate) fn sample(values: &Bound<'_, PyDict>, schema: &Schema) -> PyResult<Sample> {
    let mut fields = Vec::with_capacity(schema.fields.len());
    for spec in &schema.fields {
        let value = match values.get_item(&spec.name)? {
            None => OwnedValue::Missing,
            Some(value) => to_owned(&value, spec.kind).map_err(|e| {
                PyTypeError::new_err(format!("field '{}': {}", spec.name, e.value(value.py())))
            })?,
        };
        fields.push((spec.name.clone(), value));
    }
    Ok(Sample { fields })
}

fn to_owned(value: &Bound<'_, PyAny>, kind: Kind) -> PyResult<OwnedValue> {
    if value.is_none() {
        return Ok(OwnedValue::Missing);
    }
    match kind.carrier() {
        Carrier::Int => Ok(OwnedValue::Int(value.extract()?)),
        Carrier::Float => Ok(OwnedValue::Float(value.extract()?)),
        Carrier::Image => Ok(OwnedValue::image(value.extract::<Vec<u8>>()?)),
        Carrier::Array => to_array(value),
        Carrier::Bytes if kind == Kind::Json => {
            let text = value.py().import("json")?.getattr("dumps")?.call1((value,))?;
            Ok(OwnedValue::Json(text.extract()?))
        }
        Carrier::Bytes if kind == Kind::Text => to_text(value).map(OwnedValue::Text),
        Carrier::Bytes => Ok(OwnedValue::Bytes(value.extract()?)),
    }
}

/// A text that UTF-8 can store: a Python string may contain half of a surrogate pair.
fn to_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>()?;
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let at: String =
                error.value(value.py()).getattr("start").map_or("?".to_owned(), |at| at.to_string());
            let reason = format!(
                "the text has a lone surrogate at {at}, which UTF-8 cannot store; \
                 store it as bytes, or decode it with errors='replace'"
            );
            Err(PyValueError::new_err(reason))
        }
    }
}

fn to_array(value: &Bound<'_, PyAny>) -> PyResult<OwnedValue> {
    let numpy = value.py().import("numpy")?;
    let array = numpy.getattr("ascontiguousarray")?.call1((value,))?;
    // Packs contain little-endian elements; NumPy swaps the bytes of big-endian arrays.
    let little = array.getattr("dtype")?.call_method1("newbyteorder", ("<",))?;
    let array = array.call_method1("astype", (little,))?;
    let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let dtype = DType::from_name(&name)
        .ok_or_else(|| PyTypeError::new_err(format!("arrays of {name} cannot be stored")))?;
    // `ascontiguousarray` gives a scalar one dimension; keep the caller's shape.
    let shape: Vec<u64> = value
        .getattr("shape")
        .and_then(|s| s.extract())
        .or_else(|_| array.getattr("shape").and_then(|s| s.extract()))?;
    let bytes: Vec<u8> = array.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes().to_vec();
    Ok(OwnedValue::Array { dtype, shape, bytes })
}

/// The kind of field a Python value belongs in, by name; `None` if no kind fits.
#[pyfunction]
pub(crate) fn kind_of(value: &Bound<'_, PyAny>) -> Option<&'static str> {
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyInt>() {
        return Some("int");
    }
    if value.is_instance_of::<PyFloat>() {
        return Some("float");
    }
    if value.is_instance_of::<PyString>() {
        return Some("text");
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Some(if feedline::encode::is_image(bytes.as_bytes()) { "image" } else { "bytes" });
    }
    if value.hasattr("__array_interface__").unwrap_or(false) {
        return Some("array");
    }
    let json = value.is_instance_of::<PyDict>() || value.is_instance_of::<pyo3::types::PyList>();
    json.then_some("json")
}
