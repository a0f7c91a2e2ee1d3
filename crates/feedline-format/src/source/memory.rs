//! Objects in memory, for tests and for data that never touch a disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Entry, HeldBytes, Listing, Object, Sink, Source, past_end};
use crate::error::{Error, Location, Result};

/// Named byte strings.
#[derive(Debug, Clone)]
pub struct MemorySource {
    uri: String,
    objects: BTreeMap<String, Arc<[u8]>>,
}

impl MemorySource {
    /// A source of these objects.
    pub fn new<N: Into<String>, B: Into<Arc<[u8]>>>(objects: impl IntoIterator<Item = (N, B)>) -> Self {
        let objects = objects.into_iter().map(|(n, b)| (n.into(), b.into())).collect();
        MemorySource { uri: "memory:".to_owned(), objects }
    }
}

impl Source for MemorySource {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        let folder = prefix.trim_end_matches('/');
        let below =
            |name: &str| folder.is_empty() || name.strip_prefix(folder).is_some_and(|r| r.starts_with('/'));
        let entries = self.objects.iter().filter(|(name, _)| below(name));
        let entry = |(name, bytes): (&String, &Arc<[u8]>)| Entry {
            name: name.clone(),
            size: bytes.len() as u64,
            version: u64::from(crc32c::crc32c(bytes)),
        };
        Ok(Listing { entries: entries.map(entry).collect(), problems: Vec::new() })
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.objects.contains_key(name))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        open(&self.uri, name, self.objects.get(name))
    }
}

fn open(uri: &str, name: &str, bytes: Option<&Arc<[u8]>>) -> Result<Arc<dyn Object>> {
    let place = Location::new(uri).with_shard(name);
    let Some(bytes) = bytes else {
        return Err(Error::storage("opening", place, std::io::ErrorKind::NotFound.into()));
    };
    Ok(Arc::new(MemoryObject { place, bytes: bytes.clone() }))
}

/// Objects of `memory://` addresses. All code in one process shares them, and they disappear with the process. For
/// tests, and for data that are made and used in one run.
static SHARED: Mutex<BTreeMap<String, Arc<[u8]>>> = Mutex::new(BTreeMap::new());

/// Blocks all other access to the objects while it lives.
pub(super) type Guard = MutexGuard<'static, BTreeMap<String, Arc<[u8]>>>;

pub(super) fn hold() -> Guard {
    SharedMemory::shared()
}

/// The objects below one `memory://` address.
#[derive(Debug, Clone)]
pub(crate) struct SharedMemory {
    uri: String,
    /// Ends with a slash, unless it is empty.
    prefix: String,
}

/// The part after `memory://`; `None` for other uris.
pub(crate) fn key(uri: &str) -> Option<&str> {
    uri.strip_prefix("memory://").map(|key| key.trim_matches('/'))
}

impl SharedMemory {
    pub(crate) fn new(key: &str) -> Self {
        let prefix = if key.is_empty() { String::new() } else { format!("{key}/") };
        SharedMemory { uri: format!("memory://{key}"), prefix }
    }

    fn shared() -> Guard {
        SHARED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.trim_matches('/'))
    }
}

impl Source for SharedMemory {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        let shared = SharedMemory::shared();
        let below = |(key, bytes): (&String, &Arc<[u8]>)| {
            Some((key.strip_prefix(&self.prefix)?.to_owned(), bytes.clone()))
        };
        let objects: BTreeMap<String, Arc<[u8]>> = shared.iter().filter_map(below).collect();
        drop(shared);
        let listing = MemorySource { uri: self.uri.clone(), objects }.list(prefix)?;
        if listing.entries.is_empty() {
            let reason = "there is nothing below this name; memory:// contains only what this process wrote";
            let error = std::io::Error::new(std::io::ErrorKind::NotFound, reason);
            return Err(Error::storage("listing", Location::new(&self.uri), error));
        }
        Ok(listing)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(SharedMemory::shared().contains_key(&self.key(name)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        open(&self.uri, name, SharedMemory::shared().get(&self.key(name)))
    }
}

impl Sink for SharedMemory {
    fn put(&self, name: &str, file: &Path) -> Result<()> {
        let failed = |e| Error::storage("reading", Location::new(file.display().to_string()), e);
        let bytes = std::fs::read(file).map_err(failed)?;
        SharedMemory::shared().insert(self.key(name), bytes.into());
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        SharedMemory::shared().remove(&self.key(name));
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryObject {
    place: Location,
    bytes: Arc<[u8]>,
}

impl MemoryObject {
    fn slice(&self, range: &Range<u64>) -> Result<&[u8]> {
        let whole = &self.bytes;
        let inside = range.start <= range.end && range.end <= whole.len() as u64;
        if !inside {
            return Err(past_end(self.place.clone(), range, whole.len() as u64));
        }
        Ok(&whole[range.start as usize..range.end as usize])
    }
}

impl Object for MemoryObject {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn version(&self) -> u64 {
        u64::from(crc32c::crc32c(&self.bytes))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(self.slice(&(offset..offset.saturating_add(into.len() as u64)))?);
        Ok(())
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        Ok(HeldBytes::Owned(self.slice(&range)?.to_vec().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        super::super::conformance::check(|objects| {
            Arc::new(MemorySource::new(objects.iter().map(|(n, b)| (*n, b.clone()))))
        });
    }

    #[test]
    fn shared_memory_conforms() {
        super::super::conformance::check(|objects| {
            let (folder, memory) = (tempfile::tempdir().unwrap(), SharedMemory::new("conforms/deep"));
            SharedMemory::new("conforms").put("beside", &std::env::current_exe().unwrap()).unwrap();
            for (name, bytes) in objects {
                let file = folder.path().join("file");
                std::fs::write(&file, bytes).unwrap();
                memory.put(name, &file).unwrap();
            }
            Arc::new(memory)
        });
    }
}
