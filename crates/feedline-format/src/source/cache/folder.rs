//! Lists, checks and clears a cache folder.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::block::{self, Description};
use super::disk::{self, Disk};
use super::failed;
use crate::error::Result;

/// What a cache contains of one object.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CachedEntry {
    /// Root of the source.
    pub uri: String,
    /// Name of the object.
    pub name: String,
    /// Length of the object.
    pub size: u64,
    /// Number of cached bytes.
    pub cached: u64,
    /// Number of cached blocks.
    pub blocks: u64,
}

/// Result of a check of every block.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheReport {
    /// Number of undamaged blocks.
    pub blocks: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// Damaged files; they are removed when they are next read.
    pub damaged: Vec<String>,
}

/// A cache folder, for listing, checking and clearing it.
#[derive(Debug)]
pub struct DiskCache {
    pub(super) disk: Disk,
    folder: PathBuf,
}

impl DiskCache {
    /// Opens an existing cache folder.
    pub fn open(folder: &Path) -> Result<Self> {
        if !folder.join("blocks").is_dir() {
            let missing = io::Error::new(io::ErrorKind::NotFound, "this is not a cache folder");
            return Err(failed("opening the cache", folder, missing));
        }
        let disk = Disk::open(folder, None, disk::LOCK_TIMEOUT)
            .map_err(|e| failed("opening the cache", folder, e))?;
        Ok(DiskCache { disk, folder: folder.to_owned() })
    }

    /// Lists the content by object, sorted by uri and name.
    pub fn entries(&self) -> Result<Vec<CachedEntry>> {
        let mut found: HashMap<(String, String, u64, u64), CachedEntry> = HashMap::new();
        for file in self.disk.files().map_err(|e| failed("reading the cache", &self.folder, e))? {
            let Ok((description, _)) = File::open(&file.path).and_then(|open| block::describe(&open)) else {
                continue;
            };
            let Description { uri, name, version, size, .. } = description.clone();
            let entry = found.entry((uri.clone(), name.clone(), version, size));
            let entry = entry.or_insert(CachedEntry { uri, name, size, cached: 0, blocks: 0 });
            entry.cached += description.length();
            entry.blocks += 1;
        }
        let mut entries: Vec<CachedEntry> = found.into_values().collect();
        entries.sort_by(|a, b| (&a.uri, &a.name).cmp(&(&b.uri, &b.name)));
        Ok(entries)
    }

    /// Reads every block and compares it with its checksum.
    pub fn verify(&self) -> Result<CacheReport> {
        let mut report = CacheReport::default();
        for file in self.disk.files().map_err(|e| failed("reading the cache", &self.folder, e))? {
            let Ok(open) = File::open(&file.path) else { continue };
            match block::check(&open) {
                Ok(description) if file.path.ends_with(description.file_name()) => {
                    report.blocks += 1;
                    report.bytes += description.length();
                }
                _ => report.damaged.push(file.path.display().to_string()),
            }
        }
        Ok(report)
    }

    /// Removes everything; returns the number of blocks and bytes that were removed.
    pub fn clear(&self) -> Result<(u64, u64)> {
        self.disk.clear().map_err(|e| failed("clearing the cache", &self.folder, e))
    }
}
