//! Mapped file ranges, for indexes that many processes share through the page cache.
//!
//! Sample bytes are *not* mapped: `pread` into a worker's scratch costs about 2 % of decoding the sample, leaves the
//! bytes warm in cache, and cannot raise SIGBUS when somebody truncates the file under a running training. An index is
//! small, touched at random, and written once under a temporary name, so mapping it is worth the remaining risk.

#![expect(
    unsafe_code,
    reason = "memory-mapping a file is unsafe by nature; this is the only place that does it"
)]

use std::fs::File;
use std::ops::{Deref, Range};

/// A read-only mapping of a range of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: memmap2::Mmap,
}

impl Mapping {
    /// Maps `range` of `file`, which must lie inside it.
    ///
    /// # Safety
    /// The file must not be truncated or written in place while the mapping lives. feedline writes files under a
    /// temporary name, renames them, and never writes them again; replacing a file by rename is safe.
    pub(crate) unsafe fn new(file: &File, range: Range<u64>) -> std::io::Result<Self> {
        let length = usize::try_from(range.end - range.start).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        // SAFETY: the caller vouches that the file is not changed in place (see above).
        let map = unsafe { memmap2::MmapOptions::new().offset(range.start).len(length).map(file)? };
        Ok(Mapping { map })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
