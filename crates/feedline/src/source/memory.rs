//! Objects in memory, for tests and for data that never touch a disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Entry, Held, Listing, Object, Source, past_end};
use crate::error::{Error, Location, Result};

/// Named byte strings.
#[derive(Debug, Default, Clone)]
pub struct MemorySource {
    objects: BTreeMap<String, Arc<[u8]>>,
}

impl MemorySource {
    /// A source of these objects.
    pub fn new<N: Into<String>, B: Into<Arc<[u8]>>>(objects: impl IntoIterator<Item = (N, B)>) -> Self {
        MemorySource { objects: objects.into_iter().map(|(n, b)| (n.into(), b.into())).collect() }
    }
}

impl Source for MemorySource {
    fn uri(&self) -> &'static str {
        "memory:"
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
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let place = || Location::new("memory:").with_shard(name);
        let bytes = self.objects.get(name).ok_or_else(|| Error::storage("opening", place(), missing()))?;
        Ok(Arc::new(MemoryObject { name: name.to_owned(), bytes: bytes.clone() }))
    }
}

#[derive(Debug)]
struct MemoryObject {
    name: String,
    bytes: Arc<[u8]>,
}

impl MemoryObject {
    fn slice(&self, range: &Range<u64>) -> Result<&[u8]> {
        let whole = &self.bytes;
        let inside = range.start <= range.end && range.end <= whole.len() as u64;
        if !inside {
            return Err(past_end(Location::new("memory:").with_shard(&self.name), range, whole.len() as u64));
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

    fn hold(&self, range: Range<u64>) -> Result<Held> {
        Ok(Held::Owned(self.slice(&range)?.into()))
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
}
