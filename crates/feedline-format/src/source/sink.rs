//! Where data sets are written: a path on this machine, or a place behind a network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::memory::{self, SharedMemory};
use super::{RemoteSource, Source, Storage, cache_root};
use crate::error::{Error, Result};

/// The writing side of a [`Source`]: objects are put whole, under their final name, or not at all. Putting a name again
/// replaces the object.
pub trait Sink: Source {
    /// Puts the content of a local file as object `name`.
    fn put(&self, name: &str, file: &Path) -> Result<()>;

    /// Removes object `name`; none there is no error.
    fn remove(&self, name: &str) -> Result<()>;
}

/// Where a data set is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// On this machine.
    Local(PathBuf),
    /// Behind a network: written here part by part, each sent as soon as it is whole.
    Remote {
        /// The prefix, or for single files the object.
        uri: String,
        /// How to reach it.
        storage: Storage,
    },
}

impl Destination {
    /// Tells by the scheme.
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

/// Settings that could have no effect are a mistake.
fn refuse_options(uri: &str, storage: &Storage) -> Result<()> {
    let Some(name) = storage.options.keys().next() else { return Ok(()) };
    let reason = format!("{uri} is on this machine, where '{name}' means nothing");
    Err(Error::option("storage_options", reason))
}

/// Opens a place behind a network for writing.
pub(crate) fn open_sink(uri: &str, storage: &Storage) -> Result<Arc<dyn Sink>> {
    match memory::key(uri) {
        Some(key) => {
            refuse_options(uri, storage)?;
            Ok(Arc::new(SharedMemory::new(key)))
        }
        None => Ok(Arc::new(RemoteSource::open_uri(uri, storage)?)),
    }
}

/// Where what is on its way to `uri` lies until it has arrived. The same for each run: an interrupted one is gone on
/// with.
pub(crate) fn staging_folder(uri: &str) -> Result<PathBuf> {
    let root = cache_root().ok_or_else(|| {
        Error::option("destination", "no folder for files on their way: set FEEDLINE_CACHE_DIR")
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
