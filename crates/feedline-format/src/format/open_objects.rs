//! Keeps a format's objects open, but only as many as the process may: ten thousand shards must not exceed the limit
//! on open files. Objects above the limit are opened for each read, which costs microseconds on a local disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::source::{Object, Seen, Source};

/// The objects of a data set, with the lengths they had when it was opened.
#[derive(Debug)]
pub(crate) struct OpenObjects {
    source: Arc<dyn Source>,
    objects: Vec<(String, u64, u64)>,
    open: Vec<OnceLock<Arc<dyn Object>>>,
    kept: AtomicUsize,
    most: usize,
}

impl OpenObjects {
    /// These names and lengths; nothing is opened yet.
    pub(crate) fn new(source: Arc<dyn Source>, objects: Vec<(String, u64)>) -> Self {
        OpenObjects::with_versions(
            source,
            objects.into_iter().map(|(name, length)| (name, length, 0)).collect(),
        )
    }

    /// The same for objects that must also have these versions; 0 is any version.
    pub(crate) fn with_versions(source: Arc<dyn Source>, objects: Vec<(String, u64, u64)>) -> Self {
        let open = objects.iter().map(|_| OnceLock::new()).collect();
        OpenObjects { source, objects, open, kept: AtomicUsize::new(0), most: most_open() }
    }

    /// Name of object `number`.
    pub(crate) fn name(&self, number: usize) -> &str {
        &self.objects[number].0
    }

    /// Length of object `number`.
    pub(crate) fn length(&self, number: usize) -> u64 {
        self.objects[number].1
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The source of the objects.
    pub(crate) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Calls `f` with object `number`, opening it if needed. Fails if it no longer has its length.
    pub(crate) fn with<T>(&self, number: usize, f: impl FnOnce(&dyn Object) -> T) -> Result<T> {
        self.with_shared(number, |object| f(&**object))
    }

    /// The same with the `Arc`, for callers that keep the object.
    pub(crate) fn with_shared<T>(&self, number: usize, f: impl FnOnce(&Arc<dyn Object>) -> T) -> Result<T> {
        if let Some(object) = self.open[number].get() {
            return Ok(f(object));
        }
        let (name, length, version) = &self.objects[number];
        let object = self.source.open_seen(name, Seen { size: *length, version: *version })?;
        if self.kept.fetch_add(1, Ordering::Relaxed) < self.most {
            return Ok(f(self.open[number].get_or_init(|| object)));
        }
        self.kept.fetch_sub(1, Ordering::Relaxed);
        Ok(f(&object))
    }
}

/// Half of the files that the process may open: the other half is for the user.
fn most_open() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(1 << 16, |soft| (soft / 2) as usize).max(16)
}
