//! Writing packs, and the command line, for Python.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use feedline::{
    DType, Destination, FieldSpec, Kind, OwnedValue, PackOptions, PackWriter, Progress, Sample, Schema,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

use crate::dataset::PyDataset;
use crate::error::OrRaise;
use crate::wait::interruptible;

/// Progress as numbers that Python's bar can read, and a way to stop.
#[pyclass(name = "PackProgress", module = "feedline._feedline", frozen)]
#[derive(Default)]
pub(crate) struct PackProgress {
    samples: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

impl Progress for PackProgress {
    fn update(&self, samples: u64, bytes: u64, _total: u64) -> ControlFlow<()> {
        self.samples.store(samples, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[pymethods]
impl PackProgress {
    #[new]
    fn new() -> Self {
        PackProgress::default()
    }

    /// Samples and bytes done so far.
    fn done(&self) -> (u64, u64) {
        (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Settings that both ways of packing take.
fn options(settings: &str) -> PyResult<PackOptions> {
    let settings: feedline::PackSettings =
        serde_json::from_str(settings).map_err(|e| PyValueError::new_err(e.to_string()))?;
    settings.options().or_raise()
}

/// Where to write.
fn place(destination: &str, storage: &str) -> PyResult<Destination> {
    let storage = serde_json::from_str(storage).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Destination::new(destination, &storage).or_raise()
}

/// Packs a data set; Ctrl-C stops it cleanly, to be resumed by the same call.
#[pyfunction]
pub(crate) fn pack(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    storage: &str,
    settings: &str,
    progress: &PackProgress,
) -> PyResult<()> {
    let options = options(settings)?;
    let destination = place(destination, storage)?;
    let source = dataset.dataset().format().clone();
    let stop = || progress.stop.store(true, Ordering::Relaxed);
    let work = || feedline::pack_into(&*source, &destination, &options, progress);
    interruptible(py, work, stop)?.or_raise().map(drop)
}

/// Writes a data set as another system's files; Ctrl-C stops it cleanly, to be resumed by the same call.
#[pyfunction]
pub(crate) fn convert(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    storage: &str,
    settings: &str,
    progress: &PackProgress,
) -> PyResult<()> {
    let destination = place(destination, storage)?;
    let options: feedline::ConvertOptions =
        serde_json::from_str(settings).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let source = dataset.dataset().format().clone();
    let stop = || progress.stop.store(true, Ordering::Relaxed);
    let work = || feedline::convert_into(&*source, &destination, &options, progress);
    interruptible(py, work, stop)?.or_raise().map(drop)
}

/// The systems that `convert` writes for.
#[pyfunction]
pub(crate) fn convert_targets() -> Vec<&'static str> {
    feedline::convert_targets()
}

/// Packs samples that a Python iterable gives.
#[pyclass(name = "PackWriter", module = "feedline._feedline", frozen)]
pub(crate) struct PyPackWriter {
    writer: Mutex<Option<PackWriter>>,
    schema: Schema,
}

#[pymethods]
impl PyPackWriter {
    /// `schema` is a list of (name, kind).
    #[new]
    fn new(destination: &str, schema: Vec<(String, String)>, settings: &str) -> PyResult<Self> {
        let fields = schema.into_iter().map(|(name, kind)| {
            let kind = kind_from_name(&kind).ok_or_else(|| {
                PyValueError::new_err(format!("schema: {name} is {kind}, which is no kind of field"))
            })?;
            Ok(FieldSpec::new(name, kind).optional(true))
        });
        let schema = Schema { fields: fields.collect::<PyResult<Vec<_>>>()?, classes: None };
        let writer = PackWriter::create(destination, schema.clone(), options(settings)?).or_raise()?;
        Ok(PyPackWriter { writer: Mutex::new(Some(writer)), schema })
    }

    /// Adds one sample.
    fn push(&self, py: Python<'_>, sample: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut fields = Vec::with_capacity(self.schema.fields.len());
        for spec in &self.schema.fields {
            let value = match sample.get_item(&spec.name)? {
                None => OwnedValue::Missing,
                Some(value) => to_owned(&value, spec.kind)
                    .map_err(|e| PyTypeError::new_err(format!("field '{}': {e}", spec.name)))?,
            };
            fields.push((spec.name.clone(), value));
        }
        let sample = Sample { fields };
        py.detach(|| self.with(|writer| writer.push(&sample)).or_raise())
    }

    /// Completes the pack.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let writer = writer.ok_or_else(|| PyValueError::new_err("already finished"))?;
        py.detach(|| writer.finish()).or_raise().map(drop)
    }
}

impl PyPackWriter {
    fn with<T>(&self, use_it: impl FnOnce(&mut PackWriter) -> feedline::Result<T>) -> feedline::Result<T> {
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match writer.as_mut() {
            Some(writer) => use_it(writer),
            None => Err(feedline::Error::Closed("the pack is already finished".to_owned())),
        }
    }
}

fn kind_from_name(name: &str) -> Option<Kind> {
    Some(match name {
        "image" => Kind::Image,
        "int" => Kind::Int,
        "float" => Kind::Float,
        "text" => Kind::Text,
        "json" => Kind::Json,
        "bytes" => Kind::Bytes,
        "array" => Kind::Array,
        _ => return None,
    })
}

fn to_owned(value: &Bound<'_, PyAny>, kind: Kind) -> PyResult<OwnedValue> {
    if value.is_none() {
        return Ok(OwnedValue::Missing);
    }
    match kind {
        Kind::Int => Ok(OwnedValue::Int(value.extract()?)),
        Kind::Float => Ok(OwnedValue::Float(value.extract()?)),
        Kind::Text => Ok(OwnedValue::Text(value.cast::<PyString>()?.to_string())),
        Kind::Json => {
            let text = value.py().import("json")?.getattr("dumps")?.call1((value,))?;
            Ok(OwnedValue::Json(text.extract()?))
        }
        Kind::Image => Ok(OwnedValue::image(value.extract::<Vec<u8>>()?)),
        Kind::Array => to_array(value),
        _ => Ok(OwnedValue::Bytes(value.extract()?)),
    }
}

fn to_array(value: &Bound<'_, PyAny>) -> PyResult<OwnedValue> {
    let numpy = value.py().import("numpy")?;
    let array = numpy.getattr("ascontiguousarray")?.call1((value,))?;
    let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let dtype = DType::from_name(&name)
        .ok_or_else(|| PyTypeError::new_err(format!("arrays of {name} cannot be stored")))?;
    // `ascontiguousarray` makes at least one dimension of a scalar; keep the shape the caller had.
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
        return Some(if feedline::is_image(bytes.as_bytes()) { "image" } else { "bytes" });
    }
    if value.hasattr("__array_interface__").unwrap_or(false) {
        return Some("array");
    }
    let json = value.is_instance_of::<PyDict>() || value.is_instance_of::<pyo3::types::PyList>();
    json.then_some("json")
}

/// Runs the command line with these arguments (the program's name first) and gives its exit code.
#[pyfunction]
pub(crate) fn run_cli(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| feedline_cli::run(arguments).code())
}
