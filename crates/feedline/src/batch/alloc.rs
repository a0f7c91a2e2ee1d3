//! Raw memory for batches: aligned, zeroed once, on huge pages where the system grants them.

#![expect(unsafe_code, reason = "owning raw memory; see batch/README.md")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment for cache lines and AVX-512; torch and XLA prefer it too.
const ALIGNMENT: usize = 64;

/// From this size on, memory is aligned to 2 MiB and advised to use huge pages: a batch of 64 float images is 38 MB,
/// which is 9,400 page faults on 4 KiB pages when it is first written.
const HUGE_FROM: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// One allocation. The pointer is the owner: there is no `Box` whose moves could invalidate it.
#[derive(Debug)]
pub(crate) struct Allocation {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: an allocation is plain memory without thread affinity; access is governed by whoever holds it.
unsafe impl Send for Allocation {}
// SAFETY: sharing an `Allocation` shares only its address; every read or write through it is unsafe code elsewhere.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Allocates at least `length` zeroed bytes; `None` if there is no memory.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let alignment = if length >= HUGE_FROM { HUGE_PAGE } else { ALIGNMENT };
        let layout = Layout::from_size_align(length.max(1), alignment).ok()?;
        // SAFETY: the layout's size is at least 1.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        if length >= HUGE_FROM {
            advise_huge(pointer, layout.size());
        }
        Some(Allocation { pointer, layout })
    }

    /// Pointer to the first byte.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Length in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: `pointer` came from `alloc_zeroed` with this very layout and is freed once, here.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(pointer: NonNull<u8>, length: usize) {
    // Advice only: without huge pages everything works, a little slower.
    // SAFETY: the range is exactly our own fresh allocation, and this advice does not change its content.
    let _ =
        unsafe { rustix::mm::madvise(pointer.as_ptr().cast(), length, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_pointer: NonNull<u8>, _length: usize) {}
