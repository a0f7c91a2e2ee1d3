//! Drops single files from the page cache, so that a first epoch is cold.

use std::fs::File;
use std::path::PathBuf;

/// Result of dropping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DropResult {
    /// Number of files that the system was asked to drop.
    pub(crate) files: u64,
    /// Number of files for which that was not possible.
    pub(crate) refused: u64,
}

/// Asks the system to drop these files. Pages that some process has mapped stay, so call it before opening.
///
/// The advice may be ignored (tmpfs has no other place for the pages);
/// [`storage_read`](crate::machine::storage_read) shows how much really came from storage afterwards.
pub(crate) fn drop_files(files: &[(PathBuf, u64)]) -> DropResult {
    let mut dropped = DropResult { files: 0, refused: 0 };
    for (path, _) in files {
        match File::open(path).map_err(|_| ()).and_then(|file| forget(&file)) {
            Ok(()) => dropped.files += 1,
            Err(()) => dropped.refused += 1,
        }
    }
    dropped
}

#[cfg(target_os = "linux")]
fn forget(file: &File) -> Result<(), ()> {
    // Unwritten pages cannot be dropped.
    let _ = file.sync_data();
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).map_err(|_| ())
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &File) -> Result<(), ()> {
    Err(())
}
