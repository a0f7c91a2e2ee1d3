//! Indexes that are costly to make (every tar header of a thousand shards), kept on disk between runs.
//!
//! A saved index is found by a key that covers all it was made from (names, sizes, versions of the objects), or holds
//! sizes and versions itself for its owner to compare, so that changed data never meet an old index. A missing, damaged or unreadable one is made anew; a folder that cannot
//! be written costs the next opening its speed, nothing else. Files are complete under their final name or not there.

use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use super::ReadingOptions;
use crate::source::{Held, LocalSource, Source, cache_root};

/// First bytes of every saved index; the last one is the version of this frame.
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
    /// The index of this `kind` (a format's name and its index version, such as `webdataset-1`) made from what `key`
    /// stands for.
    pub(super) fn new(options: &ReadingOptions, kind: &str, key: &blake3::Hash) -> Self {
        let folder = options.index_dir.clone().or_else(|| Some(cache_root()?.join("index")));
        SavedIndex { folder, name: format!("{kind}-{}.index", &key.to_hex()[..32]) }
    }

    /// Whether an object of this version may be told by it later. Modification times tick slowly: a file written just
    /// now may change once more without its time changing. (Versions that are no times pass.)
    pub(super) fn settled(version: u64) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let (margin, ahead) = (2_000_000_000, 3_600_000_000_000);
        version != 0 && !(now.saturating_sub(margin)..now.saturating_add(ahead)).contains(&version)
    }

    /// What was saved, if it is there and intact.
    pub(super) fn load(&self) -> Option<Held> {
        let source = LocalSource::new(self.folder.as_ref()?);
        let object = source.open(&self.name).ok()?;
        let size = object.size();
        if size < HEADER as u64 {
            return None;
        }
        let mut header = [0; HEADER];
        object.read_at(0, &mut header).ok()?;
        let payload = object.hold(HEADER as u64..size).ok()?;
        let intact = header[..16] == *MAGIC && header[16..48] == *blake3::hash(&payload).as_bytes();
        intact.then_some(payload)
    }

    /// Keeps `payload` for later. Best effort: a data set can be read without.
    pub(super) fn save(&self, payload: &[u8]) {
        let _ = self.try_save(payload);
    }

    /// Removes what was saved: it turned out not to be so.
    pub(super) fn forget(&self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_file(folder.join(&self.name));
        }
    }

    fn try_save(&self, payload: &[u8]) -> std::io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::create_dir_all(folder)?;
        // The process id alone would not do: two threads may open the same data set.
        let unique = format!("{}.{}.{:?}.tmp", self.name, std::process::id(), std::thread::current().id());
        let temporary = folder.join(unique);
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..48].copy_from_slice(blake3::hash(payload).as_bytes());
        let written = std::fs::File::create(&temporary).and_then(|mut file| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_found_again_unless_damaged() {
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
}
