//! Core errors → Python exceptions, which are defined in `feedline.errors` so that they can be typed and documented
//! there.

use feedline::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Turns a core error into its Python exception, with the location as attributes.
pub(crate) fn raise(error: &Error) -> PyErr {
    Python::attach(|py| match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        // Only if the package itself cannot be imported; even then the message must be shown.
        Err(_) => PyRuntimeError::new_err(error.to_string()),
    })
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let exception = exception_without_place(py, error)?;
    let Some(place) = error.location() else { return Ok(exception) };
    exception.setattr("uri", &place.uri)?;
    exception.setattr("shard", place.shard.as_deref())?;
    exception.setattr("sample", place.sample)?;
    exception.setattr("source_sample", place.source_sample.or(place.sample))?;
    exception.setattr("field", place.field.as_deref())?;
    exception.setattr("offset", place.offset)?;
    if let Error::Sample { stage, reason, .. } = error {
        exception.setattr("stage", stage.to_string())?;
        exception.setattr("reason", reason)?;
    }
    Ok(exception)
}

fn exception_without_place<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("feedline.errors")?.getattr(class_name(error))?;
    if let Error::Storage { source, .. } = error {
        // OSError sets `errno` and `strerror` from two arguments; its text is then made by our class.
        return class.call1((source.raw_os_error().unwrap_or(0), error.to_string()));
    }
    class.call1((error.to_string(),))
}

fn class_name(error: &Error) -> &'static str {
    match error {
        Error::Storage { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => "NotFoundError",
            std::io::ErrorKind::PermissionDenied => "AccessError",
            _ => "StorageError",
        },
        Error::Data { .. } => "DataError",
        Error::Sample { .. } => "SampleError",
        Error::TooManyBadSamples { .. } => "TooManyBadSamplesError",
        Error::Option { .. } => "OptionError",
        Error::OutOfMemory { .. } => "OutOfMemoryError",
        Error::State(_) => "StateError",
        Error::Timeout { .. } => "LoaderTimeoutError",
        Error::Closed(_) => "ClosedError",
        _ => "Error",
    }
}

/// An error as a plain dict, for `loader.errors()`.
pub(crate) fn describe<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let place = error.location().cloned().unwrap_or_default();
    dict.set_item("uri", place.uri)?;
    dict.set_item("shard", place.shard)?;
    dict.set_item("index", place.sample)?;
    dict.set_item("source_index", place.source_sample.or(place.sample))?;
    dict.set_item("field", place.field)?;
    dict.set_item("offset", place.offset)?;
    let (stage, reason) = match error {
        Error::Sample { stage, reason, .. } => (Some(stage.to_string()), reason.clone()),
        other => (None, other.to_string()),
    };
    dict.set_item("stage", stage)?;
    dict.set_item("reason", reason)?;
    dict.set_item("message", error.to_string())?;
    Ok(dict)
}

/// `?` for core results.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for feedline::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|e| raise(&e))
    }
}
