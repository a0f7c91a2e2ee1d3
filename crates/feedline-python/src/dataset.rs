//! Data sets and single samples, for Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use feedline::dataset::DatasetSpec;
use feedline::owned::OwnedValue;
use feedline::{DType, Dataset, Kind, OpenOptions};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{OrRaise, describe};
use crate::handoff::Buffer;
use crate::rows::PyRows;
use crate::wait::interruptible;

/// `feedline::Dataset`.
#[pyclass(name = "Dataset", module = "feedline._feedline", frozen)]
pub(crate) struct PyDataset {
    dataset: Dataset,
    process: u32,
}

impl Drop for PyDataset {
    fn drop(&mut self) {
        // After a fork, nothing that the parent's threads may have locked can be touched, so it is leaked.
        if self.process != std::process::id() {
            std::mem::forget(self.dataset.clone());
        }
    }
}

impl PyDataset {
    pub(crate) fn new(dataset: Dataset) -> Self {
        PyDataset { dataset, process: std::process::id() }
    }

    pub(crate) fn dataset(&self) -> &Dataset {
        &self.dataset
    }
}

/// Options to open data, whatever the format. `reading` and `storage` are JSON.
fn open_options(
    fields: Option<Vec<(String, String)>>,
    reading: &str,
    storage: &str,
) -> PyResult<OpenOptions> {
    let wrong = |e: serde_json::Error| PyValueError::new_err(e.to_string());
    Ok(OpenOptions {
        fields: fields.map(|f| f.into_iter().collect::<BTreeMap<_, _>>()),
        reading: serde_json::from_str(reading).map_err(wrong)?,
        storage: serde_json::from_str(storage).map_err(wrong)?,
        ..OpenOptions::default()
    })
}

#[pymethods]
impl PyDataset {
    /// Opens one or several uris.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        uris: Vec<String>,
        format: String,
        fields: Option<Vec<(String, String)>>,
        reading: &str,
        storage: &str,
    ) -> PyResult<Self> {
        let options = OpenOptions { format, ..open_options(fields, reading, storage)? };
        interruptible(py, move || Dataset::open_all(&uris, &options)).map(PyDataset::new)
    }

    /// Opens samples made in Python.
    #[staticmethod]
    fn open_rows(
        py: Python<'_>,
        rows: &PyRows,
        fields: Option<Vec<(String, String)>>,
        reading: &str,
        storage: &str,
    ) -> PyResult<Self> {
        let options = open_options(fields, reading, storage)?;
        let rows = rows.rows();
        py.detach(|| Dataset::open_rows(rows, &options)).or_raise().map(PyDataset::new)
    }

    /// Opens the data set that [`spec`](Self::spec) described.
    #[staticmethod]
    fn from_spec(py: Python<'_>, spec: &str) -> PyResult<Self> {
        let spec: DatasetSpec =
            serde_json::from_str(spec).map_err(|e| PyValueError::new_err(e.to_string()))?;
        interruptible(py, move || spec.open()).map(PyDataset::new)
    }

    /// Concatenates data sets.
    #[staticmethod]
    fn concat(py: Python<'_>, pieces: Vec<PyRef<'_, PyDataset>>) -> PyResult<Self> {
        let pieces: Vec<Dataset> = pieces.iter().map(|piece| piece.dataset.clone()).collect();
        interruptible(py, move || Dataset::concat(&pieces)).map(PyDataset::new)
    }

    fn __len__(&self) -> usize {
        self.dataset.len() as usize
    }

    /// One sample as a dict; images of the fields with a mode are arrays, of this page of their files.
    fn get<'py>(
        &self,
        py: Python<'py>,
        sample: u64,
        modes: Option<BTreeMap<String, String>>,
        page: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let dataset = self.dataset.clone();
        let values = interruptible(py, move || dataset.get(sample))?;
        let dict = PyDict::new(py);
        for (name, value) in values.fields {
            let shown = match value {
                OwnedValue::Image { ref bytes, ref index, meta }
                    if let Some(mode) = modes.as_ref().and_then(|modes| modes.get(&name)) =>
                {
                    let place = self.dataset.format().locate(sample).seen_as(sample).with_field(&name);
                    let made = py
                        .detach(|| feedline::encode::decode_values(bytes, index, meta, mode, page as usize));
                    let bad = |e| feedline::Error::sample(place, feedline::error::Stage::Decode, e);
                    let made = made.map_err(bad).or_raise()?;
                    array(py, made.dtype, &made.shape, made.bytes)?
                }
                OwnedValue::Json(text) => self.parsed(py, sample, &name, &text)?,
                OwnedValue::Image { bytes, meta, .. } => {
                    let file = feedline::format::original_file(&bytes, meta).transpose();
                    let place = || self.dataset.format().locate(sample).seen_as(sample).with_field(&name);
                    let bad =
                        |reason| feedline::Error::sample(place(), feedline::error::Stage::Decode, reason);
                    let file = file.map_err(bad).or_raise()?;
                    PyBytes::new(py, &file.unwrap_or(bytes)).into_any()
                }
                other => to_python(py, other)?,
            };
            dict.set_item(name, shown)?;
        }
        Ok(dict)
    }

    /// One field of every sample: an array of numbers, or a list for other kinds or if some are missing.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let field = self.dataset.schema().position(name);
        let field = field.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let dataset = self.dataset.clone();
        let read = move |sample: u64| match dataset.format().int_value(sample, field) {
            Some(value) => Ok(OwnedValue::Int(value)),
            None => dataset.get_field(sample, field),
        };
        let samples = self.dataset.len();
        let values = interruptible(py, move || (0..samples).map(read).collect::<feedline::Result<Vec<_>>>())?;
        numbers(py, self.dataset.schema().fields[field].kind, &values).unwrap_or_else(|| {
            let values: PyResult<Vec<_>> = values.into_iter().map(|value| to_python(py, value)).collect();
            Ok(PyList::new(py, values?)?.into_any())
        })
    }

    /// An image field of a sample as a JPEG whose longer side is at most `side`.
    fn thumbnail<'py>(
        &self,
        py: Python<'py>,
        sample: u64,
        field: usize,
        side: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let dataset = self.dataset.clone();
        let made = interruptible(py, move || feedline_view::thumbnail(&dataset, sample, field, side))?;
        Ok(PyBytes::new(py, &made))
    }

    /// Names of the fields whose bytes are pickles.
    fn pickled(&self) -> Vec<String> {
        let fields = &self.dataset.schema().fields;
        fields.iter().filter(|f| f.pickled).map(|f| f.name.clone()).collect()
    }

    /// Field names and kinds.
    fn schema(&self) -> Vec<(String, &'static str)> {
        self.dataset.schema().fields.iter().map(|f| (f.name.clone(), f.kind.name())).collect()
    }

    /// Units of date and time fields.
    fn units(&self) -> Vec<(String, String)> {
        let fields = self.dataset.schema().fields.iter();
        fields.filter_map(|f| Some((f.name.clone(), f.unit.clone()?))).collect()
    }

    fn format(&self) -> &'static str {
        self.dataset.format_name()
    }

    fn uri(&self) -> &str {
        self.dataset.uri()
    }

    fn classes(&self) -> Option<Vec<String>> {
        self.dataset.classes().map(<[String]>::to_vec)
    }

    fn fingerprint(&self) -> String {
        self.dataset.fingerprint().to_hex()
    }

    /// Data that were found but are not part of the data set.
    fn problems<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let dicts: PyResult<Vec<_>> = self.dataset.problems().iter().map(|e| describe(py, e)).collect();
        PyList::new(py, dicts?)
    }

    /// The problems that a user should see at once.
    fn warnings(&self) -> Vec<String> {
        self.dataset.warnings().iter().map(ToString::to_string).collect()
    }

    /// Selects these samples. The numbers are eight bytes each, so that millions of them need no Python objects.
    fn select(&self, py: Python<'_>, indices: &[u8]) -> PyResult<Self> {
        let indices: Vec<u64> = eights(indices).map(u64::from_le_bytes).collect();
        let dataset = self.dataset.clone();
        interruptible(py, move || dataset.select(&indices)).map(PyDataset::new)
    }

    /// The same data set, packed below `folder` while it is read.
    fn cached(&self, py: Python<'_>, folder: &str, image: &str) -> PyResult<Self> {
        let image = serde_json::from_value(image.into())
            .map_err(|_| PyValueError::new_err(format!("image: {image:?} is not one of jpeg, as-is")))?;
        let (dataset, folder) = (self.dataset.clone(), PathBuf::from(folder));
        interruptible(py, move || dataset.cached(&folder, image)).map(PyDataset::new)
    }

    /// The same data set, with bytes from the network cached below `folder`.
    fn with_cache_dir(&self, py: Python<'_>, folder: &str) -> PyResult<Self> {
        let (dataset, folder) = (self.dataset.clone(), PathBuf::from(folder));
        interruptible(py, move || dataset.with_cache_dir(&folder)).map(PyDataset::new)
    }

    /// Progress of the local pack, or `None` for a data set without one.
    fn copy_status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(status) = self.dataset.copy_status() else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("folder", status.folder)?;
        dict.set_item("samples", status.samples)?;
        dict.set_item("total", status.total)?;
        dict.set_item("complete", status.complete)?;
        dict.set_item("failure", status.failure)?;
        Ok(Some(dict))
    }

    /// Description for opening the data set again, as JSON.
    fn spec(&self) -> PyResult<String> {
        let spec =
            self.dataset.spec().ok_or_else(|| PyValueError::new_err("this data set cannot be pickled"))?;
        serde_json::to_string(spec).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }
}

impl PyDataset {
    /// Parses JSON with Python. A value that Python refuses (nesting, numbers of thousands of digits) makes the sample
    /// bad.
    fn parsed<'py>(
        &self,
        py: Python<'py>,
        sample: u64,
        name: &str,
        text: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = py.import("json")?.getattr("loads")?.call1((text,));
        read.or_else(|error| {
            let place = self.dataset.format().locate(sample).with_field(name);
            let reason = format!("not readable as JSON: {}", error.value(py));
            Err(feedline::Error::data(place, reason)).or_raise()
        })
    }
}

/// Numbers as one array; `None` if they are not numbers, or some are missing.
fn numbers<'py>(py: Python<'py>, kind: Kind, values: &[OwnedValue]) -> Option<PyResult<Bound<'py, PyAny>>> {
    let bytes = |value: &OwnedValue| match value {
        OwnedValue::Int(value) => Some(value.to_le_bytes()),
        OwnedValue::Float(value) => Some(value.to_le_bytes()),
        _ => None,
    };
    let dtype = kind.carrier().number()?;
    let all: Vec<u8> = values.iter().map(bytes).collect::<Option<Vec<_>>>()?.concat();
    Some(array(py, dtype, &[values.len() as u64], all))
}

/// Splits Python's bytes into numbers of eight bytes.
pub(crate) fn eights(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> + '_ {
    bytes.chunks_exact(8).map(|eight| eight.try_into().expect("chunks of eight"))
}

fn to_python(py: Python<'_>, value: OwnedValue) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        OwnedValue::Missing => py.None().into_bound(py),
        OwnedValue::Int(value) => value.into_pyobject(py)?.into_any(),
        OwnedValue::Float(value) => value.into_pyobject(py)?.into_any(),
        OwnedValue::Text(value) => value.into_pyobject(py)?.into_any(),
        OwnedValue::Json(text) => py.import("json")?.getattr("loads")?.call1((text,))?,
        OwnedValue::Bytes(bytes) | OwnedValue::Image { bytes, .. } => PyBytes::new(py, &bytes).into_any(),
        OwnedValue::Array { dtype, shape, bytes } => array(py, dtype, &shape, bytes)?,
    })
}

/// A NumPy array of these elements. Their memory becomes the array's, unless the array would not be aligned.
fn array<'py>(py: Python<'py>, dtype: DType, shape: &[u64], bytes: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    // NumPy believes the shape: one that reaches past the memory must not get there.
    let needed = shape.iter().try_fold(dtype.size() as u64, |bytes, side| bytes.checked_mul(*side));
    if needed != Some(bytes.len() as u64) {
        let reason = format!("{} bytes for an array of shape {shape:?} of {}", bytes.len(), dtype.name());
        return Err(PyValueError::new_err(reason));
    }
    let aligned = bytes.as_ptr().addr().is_multiple_of(dtype.size().max(1)) && !bytes.is_empty();
    let seen = numpy.getattr("asarray")?.call1((Buffer::of_bytes(bytes, dtype, shape),))?;
    if aligned { Ok(seen) } else { seen.call_method0("copy") }
}
