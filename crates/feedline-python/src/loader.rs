//! The loader and its epochs, for Python.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use feedline::loader::{Next, Stats, Substitutes};
use feedline::order::State;
use feedline::{Batch, Epoch, Loader, LoaderOptions, Sampler};
use feedline_view::{Live, Server, Site};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::dataset::{PyDataset, eights};
use crate::error::{OrRaise, describe, raise};
use crate::handoff::{Buffer, MappedFiles};
use crate::pinned::PythonMemory;
use crate::wait::{LISTEN_EVERY, interruptible};

/// How long closing waits for threads that are making a sample: see `feedline::Loader::close`.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// The same for a loader that is dropped without being closed.
const DROP_WITHIN: Duration = Duration::from_secs(1);

/// Epoch, samples, and a mixture's weights in this epoch and in the following ones.
type Place = (u64, u64, Option<Vec<f64>>, Option<Vec<f64>>);

/// Number of cores this process may use.
#[pyfunction]
pub(crate) fn usable_cores() -> usize {
    feedline::loader::usable_cores()
}

/// Statistics of several ranks, as JSON each, as one.
#[pyfunction]
pub(crate) fn merge_stats(ranks: Vec<String>) -> PyResult<String> {
    let wrong = |e: serde_json::Error| feedline::Error::option("stats", e.to_string());
    let ranks: Result<Vec<Stats>, _> = ranks.iter().map(|text| serde_json::from_str(text)).collect();
    let merged = Stats::merge(&ranks.map_err(wrong).or_raise()?);
    serde_json::to_string(&merged).map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// `feedline::Loader`.
#[pyclass(name = "Loader", module = "feedline._feedline", frozen)]
pub(crate) struct PyLoader {
    loader: Loader,
    page: Mutex<Option<Server>>,
    /// Whether Python allocates the batches.
    asks: bool,
    process: u32,
}

impl Drop for PyLoader {
    fn drop(&mut self) {
        // Threads that are just asking Python for memory need its lock to end, and whoever drops this holds it.
        if self.asks && self.process == std::process::id() {
            Python::try_attach(|py| py.detach(|| self.loader.close_within(DROP_WITHIN)));
        }
    }
}

#[pymethods]
impl PyLoader {
    /// `numbers` are the sampler's weights or indices, 8 bytes each: millions of them as JSON would take seconds.
    /// `memory` gives the memory of batches, if it is not the engine's own: number of bytes → a tensor of bytes.
    #[new]
    #[pyo3(signature = (dataset, options, numbers=None, memory=None))]
    fn new(
        py: Python<'_>,
        dataset: &PyDataset,
        options: &str,
        numbers: Option<&[u8]>,
        memory: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut options = LoaderOptions::from_json(options).or_raise()?;
        match (&mut options.sampler, numbers) {
            (Some(Sampler::Weighted { weights, .. }), Some(numbers)) => {
                *weights = eights(numbers).map(f64::from_le_bytes).collect();
            }
            (Some(Sampler::Packed { lengths, .. }), Some(numbers)) => {
                *lengths = eights(numbers).map(u64::from_le_bytes).collect();
            }
            (Some(Sampler::Indices { indices }), Some(numbers)) => {
                *indices = eights(numbers).map(u64::from_le_bytes).collect();
            }
            _ => {}
        }
        let dataset = dataset.dataset().clone();
        let asks = memory.is_some();
        let memory = memory.map(PythonMemory::shared);
        let loader = interruptible(py, move || Loader::with_memory(dataset, options, memory))?;
        Ok(PyLoader { loader, page: Mutex::default(), asks, process: std::process::id() })
    }

    fn __len__(&self) -> usize {
        self.loader.len() as usize
    }

    /// Number of batches in an epoch.
    fn length(&self, py: Python<'_>, epoch: u64) -> usize {
        py.detach(|| self.loader.len_of(epoch)) as usize
    }

    /// The state after `samples` samples of `epoch`, as JSON; `weights` are those of a mixture in that epoch.
    #[pyo3(signature = (epoch, samples, weights=None))]
    fn state(&self, epoch: u64, samples: u64, weights: Option<Vec<f64>>) -> PyResult<String> {
        let mut identity = self.loader.identity();
        if weights.is_some() && identity.weights.is_some() {
            identity.weights = weights;
        }
        let state = State::new(identity, epoch, samples)
            .with_next_weights(self.loader.chosen_weights())
            .with_bad(self.loader.bad_samples());
        serde_json::to_string(&state).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Epoch and samples of a saved state, and a mixture's weights in that epoch and in the following ones. The state's
    /// bad samples count from now on. With `strict`, an error if the state does not match.
    fn check_state(&self, state: &str, strict: bool) -> PyResult<Place> {
        let state = State::from_json(state).or_raise()?;
        if strict {
            state.check(&self.loader.identity_for(&state)).or_raise()?;
        }
        self.loader.restore_bad_samples(&state.bad);
        let here = self.loader.identity().weights.map_or(0, |weights| weights.len());
        let fitting = |weights: Option<Vec<f64>>| weights.filter(|w| w.len() == here);
        Ok((state.epoch, state.samples, fitting(state.identity.weights), fitting(state.next_weights)))
    }

    /// Sets new weights for a mixture, from the next epoch on.
    fn set_weights(&self, weights: Vec<f64>) -> PyResult<()> {
        self.loader.set_weights(&weights).or_raise()
    }

    /// Column names, in order.
    fn columns(&self) -> Vec<String> {
        self.loader.columns().iter().map(|c| c.name.clone()).collect()
    }

    /// Starts epoch `number` at global position `first`. `order` is its order, 8 bytes per sample, if the sampler gives
    /// one for every epoch; `weights` overrides a mixture's weights in this epoch.
    #[pyo3(signature = (number, first, order=None, weights=None))]
    fn epoch(
        &self,
        py: Python<'_>,
        number: u64,
        first: u64,
        order: Option<&[u8]>,
        weights: Option<Vec<f64>>,
    ) -> PyResult<PyEpoch> {
        let epoch = match (order, weights) {
            (None, None) => py.detach(|| self.loader.epoch_from(number, first)),
            (None, Some(weights)) => py.detach(|| self.loader.epoch_weighted(number, first, &weights)),
            (Some(order), _) => {
                let list = eights(order).map(u64::from_le_bytes).collect();
                py.detach(|| self.loader.epoch_in_order(number, first, list))
            }
        };
        let epoch = epoch.or_raise()?;
        let timeout = self.loader.options().timeout_duration();
        let spare = epoch.spare();
        Ok(PyEpoch { epoch: Mutex::new(epoch), spare, timeout })
    }

    /// Statistics so far, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let stats = py.detach(|| self.loader.stats());
        serde_json::to_string(&stats).map_err(|e| PyRuntimeError::new_err(e.to_string()))
    }

    /// Starts a page about this loader, the one of rank `rank`; gives its address.
    fn serve(&self, rank: u64, port: u16) -> PyResult<String> {
        let live = Live::of(rank, self.loader.watcher());
        let site = Site { sets: vec![self.loader.dataset().clone()], live };
        let place = || feedline::error::Location::new(format!("port {port}"));
        let server = Server::start(site, port)
            .map_err(|e| feedline::Error::storage("listening on", place(), e))
            .or_raise()?;
        let url = server.url();
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(url)
    }

    /// Ends the page.
    fn stop_serving(&self, py: Python<'_>) {
        let page = self.page.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(page));
    }

    /// Samples that failed and requests that were made again so far.
    fn failures_and_retries(&self) -> (u64, u64) {
        self.loader.failures_and_retries()
    }

    /// Keeps everything for a trace from now on.
    fn record_trace(&self) {
        self.loader.record_trace();
    }

    /// Writes a trace to a file.
    fn write_trace(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        let write = || {
            let mut out = std::io::BufWriter::new(std::fs::File::create(&path)?);
            self.loader.write_trace(&mut out)?;
            std::io::Write::flush(&mut out)
        };
        let place = || feedline::error::Location::new(path.display().to_string());
        py.detach(write).map_err(|e| feedline::Error::storage("writing", place(), e)).or_raise()
    }

    /// Bad samples so far.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let errors = self.loader.errors();
        let dicts: PyResult<Vec<Bound<'py, PyDict>>> = errors.iter().map(|e| describe(py, e)).collect();
        PyList::new(py, dicts?)
    }

    /// Stops all threads; returns how many were stuck and abandoned. Ctrl-C abandons them at once.
    fn close(&self, py: Python<'_>) -> PyResult<usize> {
        let begun = Instant::now();
        loop {
            let left = py.detach(|| self.loader.close_within(LISTEN_EVERY));
            if left == 0 || begun.elapsed() >= CLOSE_WITHIN {
                return Ok(left);
            }
            py.check_signals()?;
        }
    }
}

/// `feedline::Epoch`.
#[pyclass(name = "Epoch", module = "feedline._feedline", frozen)]
pub(crate) struct PyEpoch {
    epoch: Mutex<Epoch>,
    spare: Substitutes,
    timeout: Option<Duration>,
}

#[pymethods]
impl PyEpoch {
    fn __len__(&self) -> usize {
        self.lock().len() as usize
    }

    /// The next batch as (rows, [(name, meaning, elements, offsets, shapes)]), or `None` at the end. Of views, `elements` are
    /// file, start and length of each row, and `offsets` are the files.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let begun = Instant::now();
        loop {
            let timeout =
                self.timeout.map_or(LISTEN_EVERY, |t| t.saturating_sub(begun.elapsed()).min(LISTEN_EVERY));
            let (next, ready) = py.detach(|| (self.lock().next_within(timeout), Instant::now()));
            self.lock().add_lock_wait(ready.elapsed());
            match next.or_raise()? {
                Next::Batch(batch) => return hand_over(py, &batch).map(Some),
                Next::End => return Ok(None),
                Next::NotYet => py.check_signals()?,
            }
            if self.timeout.is_some_and(|t| begun.elapsed() >= t) {
                return Err(raise(&self.lock().timed_out()));
            }
        }
    }

    /// A batch of one row, like those of `next`: the substitute for bad sample `sample` at try `tries`, from 1.
    fn substitute<'py>(&self, py: Python<'py>, sample: u64, tries: u64) -> PyResult<Bound<'py, PyTuple>> {
        let batch = py.detach(|| self.spare.substitute(sample, tries)).or_raise()?;
        hand_over(py, &batch)
    }

    /// Records samples that a function found bad in a batch of `rows` rows: (row, sample, field, reason) of each, and
    /// the rows that contain a sample all the same. Raises if the batch is lost.
    fn record(
        &self,
        rows: usize,
        kept: Vec<usize>,
        failures: Vec<(usize, u64, Option<String>, String)>,
    ) -> PyResult<()> {
        let error = |(row, sample, field, reason): (usize, u64, Option<String>, String)| {
            (row, self.spare.error(sample, field.as_deref(), &reason))
        };
        self.spare.record(rows, kept, failures.into_iter().map(error).collect()).or_raise()
    }

    /// Stops this epoch's work.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.lock().close());
    }
}

impl PyEpoch {
    fn lock(&self) -> std::sync::MutexGuard<'_, Epoch> {
        self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hand_over<'py>(py: Python<'py>, batch: &Batch) -> PyResult<Bound<'py, PyTuple>> {
    let columns = PyList::empty(py);
    for column in batch.columns() {
        let meaning = column.meaning.name();
        if let Some(files) = column.view_files() {
            let (places, files) = (Buffer::of_column(column), MappedFiles(files.clone()));
            let (places, files) = (Bound::new(py, places)?, Bound::new(py, files)?);
            columns.append((&column.name, "views", places, files, py.None()))?;
            continue;
        }
        let offsets = column.offsets().map(|o| Bound::new(py, Buffer::of_offsets(o))).transpose()?;
        let shapes = shapes(py, batch.rows(), column)?;
        columns.append((
            &column.name,
            meaning,
            Bound::new(py, Buffer::of_column(column))?,
            offsets,
            shapes,
        ))?;
    }
    (batch.rows(), columns).into_pyobject(py)
}

fn shapes<'py>(
    py: Python<'py>,
    rows: usize,
    column: &feedline::Column,
) -> PyResult<Option<Bound<'py, PyList>>> {
    if rows == 0 || column.row_shape(0).is_none() {
        return Ok(None);
    }
    let rows = (0..rows).map(|row| PyTuple::new(py, column.row_shape(row).unwrap_or_default()));
    PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?).map(Some)
}
