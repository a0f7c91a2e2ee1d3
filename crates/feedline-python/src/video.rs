//! Single videos: `ds.decoded()[i]["video"]`.

use std::sync::{Mutex, PoisonError};

use feedline::DType;
use feedline::error::Location;
use feedline::video::{Decoder, Index, WholeFile};
use pyo3::prelude::*;

use crate::dataset::array;
use crate::error::OrRaise;

/// `feedline_video::Index` with its file and a decoder.
#[pyclass(name = "Video", module = "feedline._feedline", frozen)]
pub(crate) struct PyVideo {
    file: Vec<u8>,
    index: Index,
    decoder: Mutex<Decoder>,
}

fn raised<T>(result: feedline::video::Result<T>) -> PyResult<T> {
    result.map_err(|error| feedline::Error::data(Location::new("video"), error.to_string())).or_raise()
}

/// Memory for `count` frames. It comes fresh from the system, so zeros cost nothing before frames are written there.
fn zeros(count: usize, each: usize) -> feedline::video::Result<Vec<u8>> {
    let bytes = count.saturating_mul(each);
    let none = |_| feedline::video::Error::OutOfMemory { bytes: bytes as u64 };
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(none)?;
    Ok(vec![0; bytes])
}

#[pymethods]
impl PyVideo {
    #[new]
    fn new(file: Vec<u8>) -> PyResult<Self> {
        let index = raised(Index::read(&file))?;
        Ok(PyVideo { file, index, decoder: Mutex::default() })
    }

    fn __len__(&self) -> usize {
        self.index.len()
    }

    /// Frames per second, on average.
    #[getter]
    fn fps(&self) -> f64 {
        self.index.fps()
    }

    /// Length in seconds.
    #[getter]
    fn duration(&self) -> f64 {
        self.index.duration
    }

    /// Name of the codec.
    #[getter]
    fn codec(&self) -> &'static str {
        self.index.codec.name()
    }

    /// When each frame is shown, in seconds.
    #[getter]
    fn times(&self) -> Vec<f64> {
        (0..self.index.len()).map(|frame| self.index.time(frame)).collect()
    }

    /// These frames, as uint8 of shape (frames, height, width, 3).
    fn frames<'py>(&self, py: Python<'py>, indices: Vec<usize>) -> PyResult<Bound<'py, PyAny>> {
        let (mut pixels, mut size) = (Vec::new(), (0, 0));
        let decoded = py.detach(|| {
            let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
            decoder.frames(&WholeFile(&self.file), &self.index, &indices, &mut |place, frame| {
                size = (frame.height, frame.width);
                if pixels.is_empty() {
                    pixels = zeros(indices.len(), frame.rgb.len())?;
                }
                pixels[place * frame.rgb.len()..(place + 1) * frame.rgb.len()].copy_from_slice(&frame.rgb);
                Ok(())
            })
        });
        raised(decoded)?;
        array(py, DType::U8, &[indices.len() as u64, size.0 as u64, size.1 as u64, 3], pixels)
    }

    fn __repr__(&self) -> String {
        let (seconds, fps) = (self.index.duration, self.index.fps());
        format!(
            "Video({}, {} frames, {seconds:.2} s, {fps:.2} fps)",
            self.index.codec.name(),
            self.index.len()
        )
    }
}
