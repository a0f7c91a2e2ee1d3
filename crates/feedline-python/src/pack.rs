//! Writing packs, and the command line, for Python.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use feedline::field::Schema;
use feedline::format::{PackOptions, PackWriter, Progress};
use feedline::source::Destination;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::PyDataset;
use crate::error::OrRaise;
use crate::rows;
use crate::wait::{interruptible, stoppable};

/// Progress as numbers for Python's progress bar, and a way to stop.
#[pyclass(name = "PackProgress", module = "feedline._feedline", frozen)]
#[derive(Default)]
pub(crate) struct PackProgress {
    counts: Arc<Counts>,
}

/// Shared with the working thread, which may outlive the call.
#[derive(Default)]
struct Counts {
    samples: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
}

impl Progress for Counts {
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
        (self.counts.samples.load(Ordering::Relaxed), self.counts.bytes.load(Ordering::Relaxed))
    }
}

impl PackProgress {
    /// Runs work that counts here and that Ctrl-C stops.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dyn Progress) -> feedline::Result<T> + Send + 'static,
    ) -> PyResult<()> {
        let counts = self.counts.clone();
        let stop = || self.counts.stop.store(true, Ordering::Relaxed);
        stoppable(py, stop, move || work(&*counts)).map(drop)
    }
}

/// Settings of both ways of packing.
fn options(settings: &str) -> PyResult<PackOptions> {
    let settings: feedline::PackSettings =
        serde_json::from_str(settings).map_err(|e| PyValueError::new_err(e.to_string()))?;
    settings.options().or_raise()
}

/// The destination to write to.
fn place(destination: &str, storage: &str) -> PyResult<Destination> {
    let storage = serde_json::from_str(storage).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Destination::new(destination, &storage).or_raise()
}

/// Packs a data set; Ctrl-C stops it cleanly, and the same call resumes it.
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
    progress.run(py, move |counts| feedline::format::pack_into(&*source, &destination, &options, counts))
}

/// Writes a data set as another system's files; Ctrl-C stops it cleanly, and the same call resumes it.
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
    let options: feedline::format::ConvertOptions =
        serde_json::from_str(settings).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let source = dataset.dataset().format().clone();
    progress.run(py, move |counts| feedline::format::convert_into(&*source, &destination, &options, counts))
}

fn plan_of(text: &str) -> PyResult<feedline::format::PackPlan> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Plans the parts of a pack and announces them at the destination. Returns the plan as JSON, its parts and samples.
#[pyfunction]
pub(crate) fn plan_pack(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    storage: &str,
    settings: &str,
) -> PyResult<(String, u64, u64)> {
    let options = options(settings)?;
    let destination = place(destination, storage)?;
    let source = dataset.dataset().format().clone();
    let plan = interruptible(py, move || {
        let plan = feedline::format::plan_pack(&*source, &options)?;
        feedline::format::begin_pack(&plan, &*source, &options, &destination)?;
        Ok(plan)
    })?;
    let text = serde_json::to_string(&plan).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((text, plan.parts(), plan.samples()))
}

/// Writes one part of a plan.
#[pyfunction]
#[pyo3(signature = (dataset, destination, storage, settings, plan, part))]
pub(crate) fn write_part(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    storage: &str,
    settings: &str,
    plan: &str,
    part: u64,
) -> PyResult<()> {
    let options = options(settings)?;
    let (destination, plan) = (place(destination, storage)?, plan_of(plan)?);
    let source = dataset.dataset().format().clone();
    let counts = Arc::new(Counts::default());
    let (watched, working) = (counts.clone(), counts);
    let stop = move || watched.stop.store(true, Ordering::Relaxed);
    stoppable(py, stop, move || {
        feedline::format::write_part_into(&plan, &*source, &options, part, &destination, &*working)
    })
}

/// Parts of a plan that are not yet at the destination.
#[pyfunction]
pub(crate) fn missing_parts(
    py: Python<'_>,
    destination: &str,
    storage: &str,
    plan: &str,
) -> PyResult<Vec<u64>> {
    let (destination, plan) = (place(destination, storage)?, plan_of(plan)?);
    interruptible(py, move || feedline::format::missing_parts(&plan, &destination))
}

/// Completes a pack whose parts are all written.
#[pyfunction]
pub(crate) fn commit_pack(py: Python<'_>, destination: &str, storage: &str, plan: &str) -> PyResult<()> {
    let (destination, plan) = (place(destination, storage)?, plan_of(plan)?);
    interruptible(py, move || feedline::format::commit_pack_into(&plan, &destination)).map(drop)
}

/// Adds samples to a finished pack.
#[pyfunction]
pub(crate) fn append_pack(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    settings: &str,
    progress: &PackProgress,
) -> PyResult<()> {
    let options = options(settings)?;
    let (source, folder) = (dataset.dataset().format().clone(), PathBuf::from(destination));
    progress.run(py, move |counts| feedline::format::append_pack(&*source, &folder, &options, counts))
}

/// Joins finished packs.
#[pyfunction]
pub(crate) fn merge_packs(
    py: Python<'_>,
    packs: Vec<PathBuf>,
    destination: PathBuf,
    overwrite: bool,
) -> PyResult<()> {
    let options = PackOptions { overwrite, ..PackOptions::default() };
    interruptible(py, move || feedline::format::merge_packs(&packs, &destination, &options, &())).map(drop)
}

/// Runs one task's share of a conversion, or without a task its last step.
#[pyfunction]
#[pyo3(signature = (dataset, destination, storage, settings, task))]
pub(crate) fn convert_task(
    py: Python<'_>,
    dataset: &PyDataset,
    destination: &str,
    storage: &str,
    settings: &str,
    task: Option<(u64, u64)>,
) -> PyResult<()> {
    let destination = place(destination, storage)?;
    let options: feedline::format::ConvertOptions =
        serde_json::from_str(settings).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let task =
        task.map(|(number, count)| feedline::format::Task::new(number, count)).transpose().or_raise()?;
    let source = dataset.dataset().format().clone();
    let counts = Arc::new(Counts::default());
    let (watched, working) = (counts.clone(), counts);
    let stop = move || watched.stop.store(true, Ordering::Relaxed);
    let work = move || match task {
        Some(task) => feedline::format::convert_task_into(&*source, &destination, &options, task, &*working),
        None => feedline::format::commit_convert_into(&*source, &destination, &options),
    };
    stoppable(py, stop, work).map(drop)
}

/// Names of the systems that `convert` can write for.
#[pyfunction]
pub(crate) fn convert_targets() -> Vec<&'static str> {
    feedline::format::convert_targets()
}

/// Packs samples from a Python iterable.
#[pyclass(name = "PackWriter", module = "feedline._feedline", frozen)]
pub(crate) struct PyPackWriter {
    writer: Mutex<Option<PackWriter>>,
    schema: Schema,
}

#[pymethods]
impl PyPackWriter {
    /// `schema` is a list of (name, kind).
    #[new]
    fn new(
        destination: &str,
        schema: Vec<(String, String)>,
        classes: Option<Vec<String>>,
        settings: &str,
    ) -> PyResult<Self> {
        let schema = rows::schema(schema, classes)?;
        let writer = PackWriter::create(destination, schema.clone(), options(settings)?).or_raise()?;
        Ok(PyPackWriter { writer: Mutex::new(Some(writer)), schema })
    }

    /// Adds one sample.
    fn push(&self, py: Python<'_>, sample: &Bound<'_, PyDict>) -> PyResult<()> {
        let sample = rows::sample(sample, &self.schema)?;
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

/// Runs the command line with these arguments (the program's name first) and returns its exit code. `locate` finds the
/// addresses of `hf://` uris.
#[pyfunction]
#[pyo3(signature = (arguments, locate=None))]
pub(crate) fn run_cli(py: Python<'_>, arguments: Vec<String>, locate: Option<Py<PyAny>>) -> u8 {
    if let Some(locate) = locate {
        feedline_cli::locate_with(Box::new(move |uris, options, split| {
            Python::attach(|py| {
                let found =
                    locate.call1(py, (uris, options.clone(), split)).and_then(|found| found.extract(py));
                found.map_err(|error| as_cli_error(py, &uris[0], &error))
            })
        }));
    }
    py.detach(|| feedline_cli::run(arguments).code())
}

/// Turns a Python exception into an error for the command line.
fn as_cli_error(py: Python<'_>, uri: &str, error: &PyErr) -> feedline::Error {
    let whole = error.value(py).to_string();
    if error.is_instance_of::<PyValueError>(py) {
        return feedline::Error::option("uri", whole.strip_prefix("uri: ").unwrap_or(&whole));
    }
    // `[Errno 2] hf://…: reason`: number and uri are already shown.
    let text = whole
        .strip_prefix("[Errno ")
        .and_then(|rest| rest.split_once("] "))
        .map_or(&*whole, |(_, text)| text);
    let text = text.strip_prefix(uri).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(text);
    let reason = std::io::Error::new(std::io::Error::from(error.clone_ref(py)).kind(), text.to_owned());
    feedline::Error::storage("opening", feedline::error::Location::new(uri), reason)
}
