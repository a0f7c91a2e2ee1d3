//! Single videos: `ds.decoded()[i]["video"]`.

use std::sync::{Mutex, PoisonError};

use feedline::batch::{Slab, SlabPool};
use feedline::error::Location;
use feedline::video::{Decoder, Index, WholeFile};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::handoff::Buffer;

/// `feedline_video::Index` with its file and a decoder.
#[pyclass(name = "Video", module = "feedline._feedline", frozen)]
pub(crate) struct PyVideo {
    file: Vec<u8>,
    index: Index,
    decoder: Mutex<Decoder>,
    memory: SlabPool,
}

impl PyVideo {
    /// Memory for frames; the last clip's, if nobody holds it any more.
    fn room(&self, bytes: usize) -> feedline::video::Result<Slab> {
        self.memory.lend(bytes).map_err(|_| feedline::video::Error::OutOfMemory { bytes: bytes as u64 })
    }
}

fn raised<T>(result: feedline::video::Result<T>) -> PyResult<T> {
    result.map_err(|error| feedline::Error::data(Location::new("video"), error.to_string())).or_raise()
}

#[pymethods]
impl PyVideo {
    #[new]
    fn new(file: Vec<u8>) -> PyResult<Self> {
        let index = raised(Index::read(&file))?;
        Ok(PyVideo { file, index, decoder: Mutex::default(), memory: SlabPool::default() })
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
        let (mut pixels, mut size) = (None, (0, 0));
        let decoded = py.detach(|| {
            let mut decoder = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
            decoder.frames(&WholeFile(&self.file), &self.index, &indices, &mut |place, frame| {
                let each = frame.rgb.len();
                // All frames of an array have one size.
                if pixels.is_some() && size != (frame.height, frame.width) {
                    let (height, width) = size;
                    let reason = format!(
                        "a frame of {}x{} after frames of {width}x{height}",
                        frame.width, frame.height
                    );
                    return Err(feedline::video::Error::Malformed(reason));
                }
                size = (frame.height, frame.width);
                let pixels = match &mut pixels {
                    Some(pixels) => pixels,
                    none => none.insert(self.room(indices.len().saturating_mul(each))?),
                };
                pixels.bytes_mut()[place * each..][..each].copy_from_slice(&frame.rgb);
                Ok(())
            })
        });
        raised(decoded)?;
        let pixels = pixels.map_or_else(|| self.memory.lend(0), Ok).or_raise()?;
        let frames = Buffer::of_slab(pixels, &[indices.len(), size.0, size.1, 3]);
        py.import("numpy")?.getattr("asarray")?.call1((frames,))
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
