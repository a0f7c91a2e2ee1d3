//! Where data sets are written: a local path or a remote store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::memory::{self, SharedMemory};
use super::{Source, Storage, cache_root, remote};
use crate::error::{Error, Result};

/// The writing side of a [`Source`]: an object is stored whole, under its final name, or not at all. Storing a name
/// again replaces the object.
pub trait Sink: Source {
    /// Stores the content of a local file as object `name`.
    fn put(&self, name: &str, file: &Path) -> Result<()>;

    /// Removes object `name`. A missing object is not an error.
    fn remove(&self, name: &str) -> Result<()>;
}

/// Destination of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// On this machine.
    Local(PathBuf),
    /// In a remote store. The data set is written locally in parts, and each part is uploaded when it is complete.
    Remote {
        /// The prefix, or the object for a single file.
        uri: String,
        /// How to reach it.
        storage: Storage,
    },
}

impl Destination {
    /// Decides by the scheme of the uri.
    pub fn new(uri: &str, storage: &Storage) -> Result<Self> {
        let path = match uri.split_once("://") {
            None => uri,
            Some(("file", path)) => path,
            Some(_) => return Ok(Destination::Remote { uri: uri.to_owned(), storage: storage.clone() }),
        };
        refuse_options(uri, storage)?;
        Ok(Destination::Local(PathBuf::from(path)))
    }
}

/// Refuses options that would have no effect.
fn refuse_options(uri: &str, storage: &Storage) -> Result<()> {
    let Some(name) = storage.options.keys().next() else { return Ok(()) };
    let reason = format!("{uri} is a local path, for which '{name}' has no effect");
    Err(Error::option("storage_options", reason))
}

/// Opens a remote store for writing.
pub(crate) fn open_sink(uri: &str, storage: &Storage) -> Result<Arc<dyn Sink>> {
    match memory::key(uri) {
        Some(key) => {
            refuse_options(uri, storage)?;
            Ok(Arc::new(SharedMemory::new(key)))
        }
        None => remote::sink_at(uri, storage),
    }
}

/// Local folder for files that have not been uploaded to `uri` yet. Each run uses the same folder, so that an
/// interrupted run can be resumed.
pub(crate) fn staging_folder(uri: &str) -> Result<PathBuf> {
    let root = cache_root().ok_or_else(|| {
        Error::option("destination", "no folder for files that are to be uploaded: set FEEDLINE_CACHE_DIR")
    })?;
    Ok(root.join("uploads").join(&blake3::hash(uri.as_bytes()).to_hex()[..32]))
}

/// A folder as a sink, to test uploads without a network.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct FolderSink(super::LocalSource, PathBuf);

#[cfg(test)]
impl FolderSink {
    pub(crate) fn new(root: &Path) -> Self {
        FolderSink(super::LocalSource::new(root), root.to_path_buf())
    }
}

#[cfg(test)]
impl Source for FolderSink {
    fn uri(&self) -> &str {
        self.0.uri()
    }

    fn list(&self, prefix: &str) -> Result<super::Listing> {
        self.0.list(prefix)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn super::Object>> {
        self.0.open(name)
    }
}

#[cfg(test)]
impl Sink for FolderSink {
    fn put(&self, name: &str, file: &Path) -> Result<()> {
        let target = self.1.join(name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(file, target).unwrap();
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let _ = std::fs::remove_file(self.1.join(name));
        Ok(())
    }
}
