//! Indexes that are slow to make (every tar header of a thousand shards), stored on disk between runs.
//!
//! A saved index is found by a key of everything it was made from (names, sizes, versions of the objects). Or it
//! contains sizes and versions, and its owner compares them. So changed data never use an old index. If the index is
//! missing, damaged or unreadable, it is made again. If the folder cannot be written, the next opening is slower, and
//! nothing else. A file is complete under its final name or does not exist.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::ReadingOptions;
use crate::source::{HeldBytes, cache_root, hold_own, private};

/// First bytes of every saved index; the last byte is the version of this header.
const MAGIC: &[u8; 16] = b"feedline-index\0\x01";
/// The payload starts on a cache line: magic, blake3 of the payload, padding.
const HEADER: usize = 64;

/// A place for one saved index.
#[derive(Debug)]
pub(super) struct SavedIndex {
    folder: Option<PathBuf>,
    name: String,
}

impl SavedIndex {
    /// The index of this `kind` (a format's name and its index version, such as `webdataset-1`) for the data with
    /// this `key`.
    pub(super) fn new(options: &ReadingOptions, kind: &str, key: &blake3::Hash) -> Self {
        let folder = options.index_dir.clone().or_else(|| Some(cache_root()?.join("index")));
        SavedIndex { folder, name: format!("{kind}-{}.index", &key.to_hex()[..32]) }
    }

    /// Whether this version will identify the object's content later. Modification times are coarse: a file written
    /// just now may change once more without its time changing. (Versions that are not times pass.)
    pub(super) fn is_old_enough(version: u64) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let (margin, ahead) = (2_000_000_000, 3_600_000_000_000);
        version != 0 && !(now.saturating_sub(margin)..now.saturating_add(ahead)).contains(&version)
    }

    /// The saved payload, if it exists and is intact.
    pub(super) fn load(&self) -> Option<HeldBytes> {
        let path = self.folder.as_ref()?.join(&self.name);
        if !is_own(&path) {
            return None;
        }
        let file = File::open(path).ok()?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).ok()?;
        // Renamed into place and never written again, so that all processes can share one mapping.
        let payload = hold_own(&file, HEADER as u64..file.metadata().ok()?.len()).ok()?;
        let intact = header[..16] == *MAGIC && header[16..48] == *blake3::hash(&payload).as_bytes();
        intact.then_some(payload)
    }

    /// Saves `payload`. Best effort: the data set can be read without it.
    pub(super) fn save(&self, payload: &[u8]) {
        let _ = self.try_save(payload);
    }

    /// Removes a saved index that turned out to be wrong.
    pub(super) fn forget(&self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_file(folder.join(&self.name));
        }
    }

    fn try_save(&self, payload: &[u8]) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        private::make_folder(folder)?;
        // The process id alone is not unique: two threads may open the same data set.
        let unique = format!("{}.{}.{:?}.tmp", self.name, std::process::id(), std::thread::current().id());
        let temporary = folder.join(unique);
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..48].copy_from_slice(blake3::hash(payload).as_bytes());
        let written = private::new_file().truncate(true).open(&temporary).and_then(|mut file| {
            file.write_all(&header)?;
            file.write_all(payload)?;
            std::fs::rename(&temporary, folder.join(&self.name))
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }
}

/// Whether the file belongs to this user. In a shared folder, somebody else could write an index with wrong places of
/// samples, and a link could lead anywhere.
fn is_own(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| private::is_own(&found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_values_are_found_again_unless_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            ReadingOptions { index_dir: Some(folder.path().join("deep/er")), ..ReadingOptions::default() };
        let key = blake3::hash(b"the shards");
        let saved = SavedIndex::new(&options, "test-1", &key);
        assert!(saved.load().is_none());
        saved.save(b"payload");
        assert_eq!(&*saved.load().unwrap(), b"payload");
        assert!(SavedIndex::new(&options, "test-2", &key).load().is_none());
        let file = std::fs::read_dir(folder.path().join("deep/er")).unwrap().next().unwrap().unwrap().path();
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert!(saved.load().is_none());
        std::fs::write(&file, &bytes[..10]).unwrap();
        assert!(saved.load().is_none());
    }
    #[test]
    fn an_index_of_another_user_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            ReadingOptions { index_dir: Some(folder.path().to_path_buf()), ..ReadingOptions::default() };
        let saved = SavedIndex::new(&options, "test-1", &blake3::hash(b"x"));
        saved.save(b"payload");
        let path = folder.path().join(&saved.name);
        assert!(saved.load().is_some() && is_own(&path));
        // Only root can change a file's owner.
        if std::os::unix::fs::chown(&path, Some(54321), None).is_ok() {
            assert!(!is_own(&path) && saved.load().is_none());
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert!(!is_own(&link));
    }
}
