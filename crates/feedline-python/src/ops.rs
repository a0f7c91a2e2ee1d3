//! Transforms on decoded pixels, for Python.

use feedline::apply::{DrawFrom, ImageOps};
use feedline::field::MemoryFormat;
use feedline::{DType, Error, Transform};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyTuple};

use crate::error::{OrRaise, raise};

/// `feedline::apply::ImageOps`.
#[pyclass(name = "ImageOps", module = "feedline._feedline", frozen)]
pub(crate) struct PyImageOps {
    ops: ImageOps,
}

#[pymethods]
impl PyImageOps {
    /// `spec` is the list of transforms, as JSON.
    #[new]
    fn new(
        name: &str,
        spec: &str,
        view: u64,
        place: u64,
        dtype: &str,
        memory_format: &str,
    ) -> PyResult<Self> {
        let transforms: Vec<Transform> = serde_json::from_str(spec).map_err(|e| bad("transforms", &e))?;
        let dtype: DType = serde_json::from_value(dtype.into()).map_err(|e| bad("dtype", &e))?;
        let format: MemoryFormat =
            serde_json::from_value(memory_format.into()).map_err(|e| bad("memory_format", &e))?;
        let ops = ImageOps::new(name, &transforms, (view, place), dtype, format).or_raise()?;
        Ok(PyImageOps { ops })
    }

    /// Applies the list to red, green and blue bytes; returns the shape and elements of the result. `out`, a bytearray
    /// of the result's length, receives the elements; without it a new one is created.
    #[expect(unsafe_code, reason = "a bytearray's memory is written in place, under the interpreter's lock")]
    #[pyo3(signature = (pixels, size, origin, out = None))]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        pixels: &[u8],
        size: (u32, u32),
        origin: (u64, u64, u64),
        out: Option<Bound<'py, PyByteArray>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (seed, epoch, sample) = origin;
        let from = DrawFrom { seed, epoch, sample };
        let drawn = self.ops.draw(size.0, size.1, from).or_raise()?;
        let shape = PyTuple::new(py, drawn.shape())?;
        let Some(out) = out.filter(|out| out.len() == drawn.bytes()) else {
            // The pixels are written directly into the returned object.
            let elements = PyByteArray::new_with(py, drawn.bytes(), |out| {
                py.detach(|| drawn.write(pixels, out)).or_raise()
            })?;
            return (shape, elements).into_pyobject(py);
        };
        // SAFETY: the interpreter's lock is held until the elements are written, so nothing else reads or resizes them;
        // `pixels` is an immutable `bytes` object.
        drawn.write(pixels, unsafe { out.as_bytes_mut() }).or_raise()?;
        (shape, out).into_pyobject(py)
    }
}

fn bad(knob: &str, error: &serde_json::Error) -> PyErr {
    raise(&Error::option(knob, error.to_string()))
}
