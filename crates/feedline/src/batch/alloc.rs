//! Raw memory for batches: aligned, zeroed once, on huge pages where the system grants them.

#![expect(unsafe_code, reason = "owning raw memory; see batch/README.md")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment for cache lines and AVX-512; torch and XLA prefer it too.
const ALIGNMENT: usize = 64;
/// Alignment of the largest element type.
const ELEMENT: usize = 8;

/// From this size on, memory is aligned to 2 MiB and advised to use huge pages: a batch of 64 float images is 38 MB,
/// which is 9,400 page faults on 4 KiB pages when it is first written.
const HUGE_FROM: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// Where the memory of batches comes from, if not from the system's allocator: for memory that a device reads directly
/// (page-locked), so that no batch is copied on its way there.
///
/// Every batch asks for its own and gives its blocks back when its last holder drops them; nothing is reused behind the
/// allocator's back, since only the allocator knows whether a device still reads a block.
pub trait BatchMemory: Send + Sync + std::fmt::Debug {
    /// A block of at least `length` bytes, aligned for every element type; the error is the reason.
    fn allocate(&self, length: usize) -> Result<Box<dyn MemoryBlock>, String>;
}

/// One block of memory, given back when it is dropped.
///
/// # Safety
/// Until the block is dropped, `address` is the same, and `length` bytes from there are initialised, may be read and
/// written from any thread, and are touched by nobody else.
pub unsafe trait MemoryBlock: Send + Sync + std::fmt::Debug {
    /// The first byte.
    fn address(&self) -> NonNull<u8>;
    /// Length in bytes.
    fn length(&self) -> usize;
    /// The block itself, for those who know what it is.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// One allocation: the system's, or a block of a [`BatchMemory`].
#[derive(Debug)]
pub(crate) enum Allocation {
    System(SystemMemory),
    Block(Box<dyn MemoryBlock>),
}

impl Allocation {
    /// Allocates at least `length` zeroed bytes; `None` if there is no memory.
    pub(crate) fn new(length: usize) -> Option<Self> {
        SystemMemory::new(length).map(Allocation::System)
    }

    /// Takes a block of at least `length` bytes from `memory`; the error is the reason why there is none.
    pub(crate) fn of(memory: &dyn BatchMemory, length: usize) -> Result<Self, String> {
        let block = memory.allocate(length.max(1))?;
        let aligned = block.address().as_ptr().addr().is_multiple_of(ELEMENT);
        if block.length() < length || !aligned {
            return Err(format!("a block of {} bytes at {:?}", block.length(), block.address()));
        }
        Ok(Allocation::Block(block))
    }

    /// Pointer to the first byte.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        match self {
            Allocation::System(memory) => memory.pointer,
            Allocation::Block(block) => block.address(),
        }
    }

    /// Length in bytes.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Allocation::System(memory) => memory.layout.size(),
            Allocation::Block(block) => block.length(),
        }
    }

    /// The block, if it is not the system's.
    pub(crate) fn block(&self) -> Option<&dyn MemoryBlock> {
        match self {
            Allocation::System(_) => None,
            Allocation::Block(block) => Some(&**block),
        }
    }
}

/// Memory of the system. The pointer is the owner: there is no `Box` whose moves could invalidate it.
#[derive(Debug)]
pub(crate) struct SystemMemory {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: an allocation is plain memory without thread affinity; access is governed by whoever holds it.
unsafe impl Send for SystemMemory {}
// SAFETY: sharing it shares only its address; every read or write through it is unsafe code elsewhere.
unsafe impl Sync for SystemMemory {}

impl SystemMemory {
    fn new(length: usize) -> Option<Self> {
        let alignment = if length >= HUGE_FROM { HUGE_PAGE } else { ALIGNMENT };
        let layout = Layout::from_size_align(length.max(1), alignment).ok()?;
        // SAFETY: the layout's size is at least 1.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        if length >= HUGE_FROM {
            advise_huge(pointer, layout.size());
        }
        Some(SystemMemory { pointer, layout })
    }
}

impl Drop for SystemMemory {
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
