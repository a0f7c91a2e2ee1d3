//! Mapped files, for saved indexes that many processes share through the page cache.
//!
//! Without being asked, only feedline's own files are mapped: it writes an index under a temporary name, renames it and never writes it
//! again. Other files, including indexes of other libraries, are read. If somebody truncates a mapped file during
//! training, SIGBUS ends the process; a read just returns an error. `pread` into a worker's buffer costs about 2 % of
//! decoding a sample. Views of packs ([`MappedFile`]) are for users who ask for them.

#![expect(
    unsafe_code,
    reason = "memory-mapping a file is unsafe by nature; this is the only place that does"
)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::HeldBytes;

/// Below this, reading costs less than the page faults of a mapping.
const MAP_AT_LEAST: u64 = 64 << 10;

/// A read-only mapping of a range of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: memmap2::Mmap,
}

/// A whole file, mapped because a user asked for views of it.
///
/// The mapping is private: what is written into it by mistake changes neither the file nor other mappings.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::MmapMut,
}

impl MappedFile {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the user accepted that the bytes change if the file does, and that the process ends if it is truncated.
        let map = unsafe { memmap2::MmapOptions::new().no_reserve_swap().map_copy(file)? };
        Ok(MappedFile { map })
    }

    /// Where the mapping begins.
    pub fn address(&self) -> *const u8 {
        self.map.as_ptr()
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// Maps or reads `range` of a file that feedline itself renamed into place and never writes again.
pub(crate) fn hold_own(file: &File, range: Range<u64>) -> io::Result<HeldBytes> {
    let length = range.end.checked_sub(range.start).ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    if length as u64 >= MAP_AT_LEAST {
        // SAFETY: the caller guarantees that the file is not changed in place; replacing or removing it is safe.
        let map = unsafe { memmap2::MmapOptions::new().offset(range.start).len(length).map(file) };
        // Some file systems cannot map; reading always works.
        if let Ok(map) = map {
            return Ok(HeldBytes::Mapped(Arc::new(Mapping { map })));
        }
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(HeldBytes::Owned(bytes.into()))
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
