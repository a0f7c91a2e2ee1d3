//! PACK WHILE TRAINING: a remote data set, and the local pack that is written while the data set is read.
//!
//! A thread packs the data set, in its own order. Loaders read from the source until the pack is complete, and from the
//! pack afterwards. The change is invisible: numbers, values, schema and fingerprint stay those of the source. If the
//! source has a disk cache, both share it, so each byte is fetched once. The pack is stored under the source's
//! fingerprint, so changed data never use an old pack. After an interruption, the same call resumes. If several
//! processes share the folder, one packs and the others wait; if it dies, another one takes over.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::{Dataset, DatasetSpec, OpenOptions};
use crate::encode::PackSettings;
use crate::error::{DataCause, Error, Location, Result};
use crate::field::ImageEncoding;
use crate::format::{
    Copied, EncodedImage, Format, ImageEncoder, ImageInput, LocalCopy, PackOptions, Progress, pack,
};
use crate::sample::ImageMeta;
use crate::source::{is_own, start_thread};

/// How often a process checks whether another process has finished the pack.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Progress of the local pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStatus {
    /// Folder of the pack, which may not exist yet.
    pub folder: PathBuf,
    /// Number of samples packed by this process.
    pub samples: u64,
    /// Total number of samples.
    pub total: u64,
    /// Whether samples are read from the pack now.
    pub complete: bool,
    /// Why packing ended early; samples are still read from the source.
    pub failure: Option<String>,
}

impl Dataset {
    /// The same data set, packed below `folder` while it is read. See the module documentation.
    pub fn cached(&self, folder: &Path, image: ImageEncoding) -> Result<Dataset> {
        if !matches!(image, ImageEncoding::Jpeg | ImageEncoding::File) {
            let reason = format!(
                "'{}' changes an image's bytes, so a sample would differ before and after the pack is there; \
                 use jpeg or as-is, or pack beforehand",
                image.name()
            );
            return Err(Error::option("image", reason));
        }
        let source = self.with_cache_dir(folder)?;
        let target = folder.join("packs").join(format!("{}-{}", source.fingerprint().to_hex(), image.name()));
        let settings = PackSettings { image, workers: 1, ..PackSettings::default() };
        let job = Arc::new(CopyJob::new(target, source.len()));
        let mut options = settings.options()?;
        options.image = Arc::new(EncodeOrKeep(options.image));
        start(&job, source.format.clone(), options)?;
        let spec = self.spec().map(|of| {
            let (folder, image) = (folder.to_path_buf(), image);
            Arc::new(DatasetSpec::Cached { of: Box::new(of.clone()), folder, image })
        });
        let maker = Arc::new(StopOnDrop(job.clone()));
        let format = Arc::new(Copied::new(source.format.clone(), job.local.clone(), maker));
        Ok(Dataset { format, spec, copy: Some(job), ..self.clone() })
    }

    /// The same data set, with bytes from the network cached below `folder`. Local data are not affected.
    pub fn with_cache_dir(&self, folder: &Path) -> Result<Dataset> {
        match self.spec() {
            Some(spec) if spec.is_remote() => spec.with_cache_dir(folder).open(),
            _ => Ok(self.clone()),
        }
    }

    /// Progress of the local pack; `None` for a data set without one.
    pub fn copy_status(&self) -> Option<CopyStatus> {
        self.copy.as_ref().map(|job| job.status())
    }
}

impl DatasetSpec {
    /// Whether the bytes come over a network.
    fn is_remote(&self) -> bool {
        match self {
            DatasetSpec::Open { uris, reading, .. } => {
                uris.iter().chain(&reading.root).any(|u| u.contains("://") && !u.starts_with("file://"))
            }
            DatasetSpec::Rows { reading, .. } => {
                reading.root.as_ref().is_some_and(|u| u.contains("://") && !u.starts_with("file://"))
            }
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => of.is_remote(),
            DatasetSpec::Concat { pieces, .. } => pieces.iter().any(DatasetSpec::is_remote),
        }
    }

    /// The same with a disk cache, if it has none yet. Local pieces get none.
    fn with_cache_dir(&self, folder: &Path) -> DatasetSpec {
        let mut spec = self.clone();
        if !self.is_remote() {
            return spec;
        }
        match &mut spec {
            DatasetSpec::Open { storage, .. } | DatasetSpec::Rows { storage, .. } => {
                storage.cache_dir.get_or_insert_with(|| folder.to_path_buf());
            }
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => {
                **of = of.with_cache_dir(folder);
            }
            DatasetSpec::Concat { pieces, .. } => {
                for piece in pieces {
                    *piece = piece.with_cache_dir(folder);
                }
            }
        }
        spec
    }
}

/// State of the packing thread.
#[derive(Debug)]
pub(super) struct CopyJob {
    folder: PathBuf,
    total: u64,
    samples: AtomicU64,
    stop: AtomicBool,
    local: LocalCopy,
    failure: Mutex<Option<String>>,
}

impl CopyJob {
    fn new(folder: PathBuf, total: u64) -> Self {
        CopyJob {
            folder,
            total,
            samples: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            local: LocalCopy::default(),
            failure: Mutex::new(None),
        }
    }

    fn status(&self) -> CopyStatus {
        let complete = self.local.get().is_some();
        CopyStatus {
            folder: self.folder.clone(),
            samples: if complete { self.total } else { self.samples.load(Ordering::Relaxed) },
            total: self.total,
            complete,
            failure: self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn fail(&self, error: &Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}

/// The thread holds the job weakly: when its last data set is dropped, it stops at the next sample.
fn start(job: &Arc<CopyJob>, source: Arc<dyn Format>, options: PackOptions) -> Result<()> {
    if let Some(local) = finished(&job.folder, &*source) {
        let _ = job.local.set(local);
        return Ok(());
    }
    let folder = job.folder.clone();
    let watched = Arc::downgrade(job);
    let run = move || {
        // Training comes first. (On Linux, the value applies to this thread and the threads it starts.) Nice 10 would
        // still take a tenth of a core from training; 19 takes one part in 70.
        let _ = rustix::process::nice(19);
        let result = pack_or_wait(&watched, &*source, &folder, &options);
        let Some(job) = watched.upgrade() else { return };
        match result.and_then(|()| open_pack(&folder, &*source)) {
            Ok(local) => drop(job.local.set(local)),
            Err(error) => job.fail(&error),
        }
    };
    let thread = std::thread::Builder::new().name("feedline-packing".to_owned());
    start_thread(|| thread.spawn(run))
        .map(drop)
        .map_err(|e| Error::option("cached", format!("the system refused a thread to pack with: {e}")))
}

/// Packs, or waits for another process to finish; takes over if that process is gone.
fn pack_or_wait(
    job: &Weak<CopyJob>,
    source: &dyn Format,
    folder: &Path,
    options: &PackOptions,
) -> Result<()> {
    loop {
        match pack(source, folder, options, &JobProgress(job.clone())) {
            Ok(_) => return Ok(()),
            Err(error) if error.cause() == Some(DataCause::Busy) && alive(job) => {
                std::thread::sleep(CHECK_EVERY);
            }
            Err(error) => return Err(error),
        }
    }
}

fn alive(job: &Weak<CopyJob>) -> bool {
    job.upgrade().is_some_and(|job| !job.stop.load(Ordering::Relaxed))
}

/// Counts samples for the job, and stops when the pack is no longer wanted.
struct JobProgress(Weak<CopyJob>);

impl Progress for JobProgress {
    fn update(&self, samples: u64, _: u64, _: u64) -> ControlFlow<()> {
        let Some(job) = self.0.upgrade() else { return ControlFlow::Break(()) };
        job.samples.store(samples, Ordering::Relaxed);
        if job.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The pack, if it is complete and valid.
fn finished(folder: &Path, source: &dyn Format) -> Option<Arc<dyn Format>> {
    folder.is_dir().then(|| open_pack(folder, source).ok()).flatten()
}

/// In a folder shared by several users, anybody could have put a pack of other data there.
fn check_own(folder: &Path) -> Result<()> {
    let place = || Location::new(folder.display().to_string());
    let failed = |error: std::io::Error| Error::storage("listing", place(), error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.metadata().is_ok_and(|found| found.is_dir() || is_own(&found)) {
            let reason = format!("'{}' belongs to another user", entry.file_name().display());
            return Err(Error::data(place(), reason).with_hint("use a cache folder of your own"));
        }
    }
    Ok(())
}

fn open_pack(folder: &Path, source: &dyn Format) -> Result<Arc<dyn Format>> {
    check_own(folder)?;
    let options = OpenOptions { format: "pack".to_owned(), ..OpenOptions::default() };
    let local = Dataset::open_all(&[folder.display().to_string()], &options)?;
    if local.len() != source.len() || local.schema().fields.len() != source.schema().fields.len() {
        let reason = "the local pack does not have the samples or fields of its source";
        return Err(Error::data(Location::new(local.uri()), reason).with_hint("remove the folder"));
    }
    Ok(local.format)
}

/// Stores images that it cannot encode unchanged: a bad image must be the same bad sample in the pack and in the
/// source.
#[derive(Debug)]
struct EncodeOrKeep(Arc<dyn ImageEncoder>);

impl ImageEncoder for EncodeOrKeep {
    fn name(&self) -> String {
        format!("{} or as-is", self.0.name())
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        if self.0.encode(input, out).is_err() {
            out.bytes = None;
            out.index.clear();
            out.meta = ImageMeta { width: 0, height: 0, orientation: 0, ..input.meta };
        }
        Ok(())
    }

    fn growth(&self) -> f64 {
        self.0.growth()
    }

    fn met(&self) -> Vec<(&'static str, u64)> {
        self.0.met()
    }
}

/// Stops packing when nobody reads the data set any more.
#[derive(Debug)]
struct StopOnDrop(Arc<CopyJob>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
