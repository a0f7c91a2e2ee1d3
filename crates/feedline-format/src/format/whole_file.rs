//! Files that are complete under their final name or do not exist, even after a crash.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Location, Result};

/// Temporary files end in this; see [`temporary_path`].
pub(crate) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Writes a small file that is either complete or does not exist.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = Temporary(temporary_path(path));
    let mut file = File::create(&temporary.0).map_err(|e| failed("creating", path, e))?;
    file.write_all(bytes).map_err(|e| failed("writing", path, e))?;
    put_in_place(&file, temporary, path)
}

/// A temporary file that is removed unless it is renamed.
#[derive(Debug)]
pub(crate) struct Temporary(pub(super) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It was renamed, or nothing more can be done.
        let _ = fs::remove_file(&self.0);
    }
}

/// A name beside `path` that no other writer, in this process or another, uses. Hidden, so that globs skip it.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    // Machines that share a disk may have processes with the same id.
    static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().display().to_string();
    let writer = format!("{}-{:016x}", std::process::id(), *RUN);
    path.with_file_name(format!(".{name}.{writer}-{number}{TEMPORARY_SUFFIX}"))
}

/// Syncs a finished temporary file and renames it to `path`: after this call `path` is complete even after a crash.
pub(crate) fn put_in_place(file: &File, temporary: Temporary, path: &Path) -> Result<()> {
    file.sync_all().map_err(|e| failed("syncing", path, e))?;
    fs::rename(&temporary.0, path).map_err(|e| failed("renaming", path, e))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes renames in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder).and_then(|f| f.sync_all()) {
        // Some file systems cannot sync a folder; a rename is then as durable as they make it.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => Err(failed("syncing", folder, e)),
        _ => Ok(()),
    }
}

/// A failed write, with a hint if the disk is full.
pub(crate) fn failed(action: &'static str, path: &Path, error: io::Error) -> Error {
    let error = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => io::Error::new(
            error.kind(),
            format!("{error}; finished files are kept: free some space and run the same again to resume"),
        ),
        _ => error,
    };
    Error::storage(action, Location::new(path.display().to_string()), error)
}
