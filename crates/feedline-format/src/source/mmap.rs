//! Mapped files, for saved indexes that many processes share through the page cache; and advice about large buffers.
//!
//! Only feedline's own files are mapped: it writes an index under a temporary name, renames it and never writes it
//! again. Other files, including indexes of other libraries, are read. If somebody truncates a mapped file during
//! training, SIGBUS ends the process; a read just returns an error. `pread` into a worker's buffer costs about 2 % of
//! decoding a sample.

#![expect(
    unsafe_code,
    reason = "memory-mapping a file is unsafe by nature, advice about memory in name; this is the only place for both"
)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Held;

/// Below this, reading costs less than the page faults of a mapping.
const MAP_AT_LEAST: u64 = 64 << 10;

/// A read-only mapping of a range of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: memmap2::Mmap,
}

/// Maps or reads `range` of a file that feedline itself renamed into place and never writes again.
pub(crate) fn hold_own(file: &File, range: Range<u64>) -> io::Result<Held> {
    let length = range.end.checked_sub(range.start).ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    if length as u64 >= MAP_AT_LEAST {
        // SAFETY: the caller guarantees that the file is not changed in place; replacing or removing it is safe.
        let map = unsafe { memmap2::MmapOptions::new().offset(range.start).len(length).map(file) };
        // Some file systems cannot map; reading always works.
        if let Ok(map) = map {
            return Ok(Held::Mapped(Arc::new(Mapping { map })));
        }
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(Held::Owned(bytes.into()))
}

/// Asks for pages of 2 MiB where `memory` has room for some. Receiving bytes into new memory otherwise costs a page
/// fault for every 4 KiB, a tenth of the whole work if the server is fast.
#[cfg(target_os = "linux")]
pub(crate) fn advise_huge(memory: &mut [std::mem::MaybeUninit<u8>]) {
    const PAGE: usize = 4096;
    const HUGE_FROM: usize = 4 << 20;
    if memory.len() < HUGE_FROM {
        return;
    }
    let before = memory.as_ptr().addr().next_multiple_of(PAGE) - memory.as_ptr().addr();
    let inside = &mut memory[before..];
    let length = inside.len() / PAGE * PAGE;
    // SAFETY: these are whole pages inside memory that only we hold, and this advice does not change their content.
    // Without huge pages everything works, a little slower.
    let _ =
        unsafe { rustix::mm::madvise(inside.as_mut_ptr().cast(), length, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn advise_huge(_memory: &mut [std::mem::MaybeUninit<u8>]) {}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
