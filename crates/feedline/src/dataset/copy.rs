//! PACK WHILE TRAINING: a data set that is far away, and the pack that is made of it here while it is being read.
//!
//! A thread packs the data set, in its own order, while loaders read from wherever is nearest: from the source until
//! the pack is complete, from the pack afterwards, sample by sample and without a seam: numbers, values, schema and
//! fingerprint stay those of the source. Where the source has a disk cache, what the one fetched the other finds there,
//! so each byte comes once. The pack lies under the source's fingerprint: changed data never meet an old pack.
//! Interrupted, the same call goes on where it stopped. Of several processes one packs and the others wait for it; if
//! it dies, another takes over.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::{Dataset, DatasetSpec, OpenOptions};
use crate::encode::{PackSettings, StoredImage};
use crate::error::{Error, Location, Result};
use crate::format::{EncodedImage, Format, ImageEncoder, ImageInput, PackOptions, Progress, pack};
use crate::sample::{Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Seen, Source};

/// How often a process that waits for another's pack looks whether it is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How far the local pack is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStatus {
    /// Where it is, or will be.
    pub folder: PathBuf,
    /// Samples packed by this process.
    pub samples: u64,
    /// Samples in all.
    pub total: u64,
    /// Whether samples come from the pack by now.
    pub complete: bool,
    /// Why packing ended early; samples keep coming from the source.
    pub failure: Option<String>,
}

impl Dataset {
    /// The same data set, packed below `folder` while it is read. See the module's contract.
    pub fn cached(&self, folder: &Path, image: StoredImage) -> Result<Dataset> {
        if !matches!(image, StoredImage::Jpeg | StoredImage::AsIs) {
            let reason = format!(
                "'{}' changes an image's bytes, so a sample would differ before and after the pack is there; \
                 use jpeg or as-is, or pack beforehand",
                image.name()
            );
            return Err(Error::option("image", reason));
        }
        let far = self.with_cache_dir(folder)?;
        let target = folder.join("packs").join(format!("{}-{}", far.fingerprint().to_hex(), image.name()));
        let settings = PackSettings { image, workers: 1, ..PackSettings::default() };
        let job = Arc::new(Job::new(target, far.len()));
        let mut options = settings.options()?;
        options.image = Arc::new(Forgiving(options.image));
        start(&job, far.format.clone(), options)?;
        let spec = self.spec().map(|of| {
            let (folder, image) = (folder.to_path_buf(), image);
            Arc::new(DatasetSpec::Cached { of: Box::new(of.clone()), folder, image })
        });
        let twin = Arc::new(Twin { far: far.format.clone(), job: job.clone() });
        Ok(Dataset { format: twin, uri: self.uri.clone(), spec, copy: Some(job) })
    }

    /// The same data set, with what comes over a network kept below `folder`. Local data are as they were.
    pub fn with_cache_dir(&self, folder: &Path) -> Result<Dataset> {
        match self.spec() {
            Some(spec) if spec.is_remote() => spec.with_cache_dir(folder).open(),
            _ => Ok(self.clone()),
        }
    }

    /// How far the local pack is; `None` for a data set that has none.
    pub fn copy_status(&self) -> Option<CopyStatus> {
        self.copy.as_ref().map(|job| job.status())
    }
}

impl DatasetSpec {
    /// Whether its bytes come over a network.
    fn is_remote(&self) -> bool {
        match self {
            DatasetSpec::Open { uris, .. } => {
                uris.iter().any(|u| u.contains("://") && !u.starts_with("file://"))
            }
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => of.is_remote(),
            DatasetSpec::Concat { pieces } => pieces.iter().any(DatasetSpec::is_remote),
        }
    }

    /// The same with a disk cache, where it has none yet. Local pieces stay without.
    fn with_cache_dir(&self, folder: &Path) -> DatasetSpec {
        let mut spec = self.clone();
        if !self.is_remote() {
            return spec;
        }
        match &mut spec {
            DatasetSpec::Open { storage, .. } => {
                storage.cache_dir.get_or_insert_with(|| folder.to_path_buf());
            }
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => {
                **of = of.with_cache_dir(folder);
            }
            DatasetSpec::Concat { pieces } => {
                for piece in pieces {
                    *piece = piece.with_cache_dir(folder);
                }
            }
        }
        spec
    }
}

/// The packing thread's account.
#[derive(Debug)]
pub(super) struct Job {
    folder: PathBuf,
    total: u64,
    samples: AtomicU64,
    stop: AtomicBool,
    near: OnceLock<Arc<dyn Format>>,
    failure: Mutex<Option<String>>,
}

impl Job {
    fn new(folder: PathBuf, total: u64) -> Self {
        Job {
            folder,
            total,
            samples: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            near: OnceLock::new(),
            failure: Mutex::new(None),
        }
    }

    fn status(&self) -> CopyStatus {
        let complete = self.near.get().is_some();
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

/// The thread holds the job weakly: when the last data set over it is gone, it stops at the next sample.
fn start(job: &Arc<Job>, far: Arc<dyn Format>, options: PackOptions) -> Result<()> {
    if let Some(near) = finished(&job.folder, &*far) {
        let _ = job.near.set(near);
        return Ok(());
    }
    let folder = job.folder.clone();
    let watched = Arc::downgrade(job);
    let run = move || {
        // Training comes first. (On Linux this is the thread's own, and its helpers'.)
        let _ = rustix::process::nice(10);
        let result = pack_or_wait(&watched, &*far, &folder, &options);
        let Some(job) = watched.upgrade() else { return };
        match result.and_then(|()| open_pack(&folder, &*far)) {
            Ok(near) => drop(job.near.set(near)),
            Err(error) => job.fail(&error),
        }
    };
    let thread = std::thread::Builder::new().name("feedline-packing".to_owned());
    thread
        .spawn(run)
        .map(drop)
        .map_err(|e| Error::option("cached", format!("the system refused a thread to pack with: {e}")))
}

/// Packs, or waits until another process has; taking over when that one is gone.
fn pack_or_wait(job: &Weak<Job>, far: &dyn Format, folder: &Path, options: &PackOptions) -> Result<()> {
    loop {
        match pack(far, folder, options, &Watched(job.clone())) {
            Ok(_) => return Ok(()),
            Err(error) if is_busy(&error) && alive(job) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(error),
        }
    }
}

fn alive(job: &Weak<Job>) -> bool {
    job.upgrade().is_some_and(|job| !job.stop.load(Ordering::Relaxed))
}

fn is_busy(error: &Error) -> bool {
    matches!(error, Error::Data { reason, .. } if reason.contains("another process is writing"))
}

/// Counts for the job, and stops when nobody wants the pack any more.
struct Watched(Weak<Job>);

impl Progress for Watched {
    fn update(&self, samples: u64, _: u64, _: u64) -> ControlFlow<()> {
        let Some(job) = self.0.upgrade() else { return ControlFlow::Break(()) };
        job.samples.store(samples, Ordering::Relaxed);
        if job.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The pack, if it is complete and whole.
fn finished(folder: &Path, far: &dyn Format) -> Option<Arc<dyn Format>> {
    folder.is_dir().then(|| open_pack(folder, far).ok()).flatten()
}

fn open_pack(folder: &Path, far: &dyn Format) -> Result<Arc<dyn Format>> {
    let options = OpenOptions { format: "pack".to_owned(), ..OpenOptions::default() };
    let near = Dataset::open_all(&[folder.display().to_string()], &options)?;
    if near.len() != far.len() || near.schema().fields.len() != far.schema().fields.len() {
        let reason = "the local pack does not have the samples or fields of its source";
        return Err(Error::data(Location::new(near.uri()), reason).with_hint("remove the folder"));
    }
    Ok(near.format)
}

/// Keeps what it cannot encode as it is: a bad picture must be the same bad sample from the pack as from the source.
#[derive(Debug)]
struct Forgiving(Arc<dyn ImageEncoder>);

impl ImageEncoder for Forgiving {
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
}

/// Reads from the pack once it is there, from the source until then.
#[derive(Debug)]
struct Twin {
    far: Arc<dyn Format>,
    job: Arc<Job>,
}

impl Twin {
    fn nearest(&self) -> &dyn Format {
        &**self.job.near.get().unwrap_or(&self.far)
    }
}

impl Format for Twin {
    fn name(&self) -> &'static str {
        self.far.name()
    }

    fn len(&self) -> u64 {
        self.far.len()
    }

    fn schema(&self) -> &Schema {
        self.far.schema()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.far.fingerprint()
    }

    fn problems(&self) -> &[Error] {
        self.far.problems()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.nearest().read(sample, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.far.locate(sample)
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.far.byte_length(sample, field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let near = self.job.near.get().filter(|n| n.byte_length(sample, field) == Some(into.len() as u64));
        near.unwrap_or(&self.far).read_bytes(sample, field, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.nearest().image_meta(sample, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.nearest().int_value(sample, field)
    }

    fn object_count(&self) -> u32 {
        self.far.object_count() + self.job.near.get().map_or(0, |near| near.object_count())
    }

    // The pack's objects are numbered after the source's: an extent planned before the change means the same after it.
    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        match number.checked_sub(self.far.object_count()) {
            None => self.far.object(number),
            Some(number) => self.job.near.get()?.object(number),
        }
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        if number < self.far.object_count() { self.far.seen(number) } else { None }
    }

    fn is_remote(&self) -> bool {
        self.nearest().is_remote()
    }

    fn prepare(&self, samples: &[u64]) {
        self.nearest().prepare(samples);
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Some(near) = self.job.near.get() else { return self.far.extents(sample, fields, out) };
        let before = out.len();
        near.extents(sample, fields, out);
        for extent in &mut out[before..] {
            extent.object += self.far.object_count();
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        self.job.stop.store(true, Ordering::Relaxed);
    }
}
