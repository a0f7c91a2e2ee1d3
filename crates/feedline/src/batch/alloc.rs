//! Raw memory for batches: aligned, and zero without having been written.

#![expect(unsafe_code, reason = "owning raw memory; see batch/README.md")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment for cache lines and AVX-512; torch and XLA prefer it too.
const ALIGNMENT: usize = 64;
/// Alignment of the largest element type.
const ELEMENT: usize = 8;

/// From this size on, memory is mapped: the system's pages are zero when they are first written. The allocator would clear
/// aligned memory itself, so that all of it was written twice (training recipe from a `dct` pack, every batch kept: 360 us an
/// image instead of 338). Huge pages brought nothing more, and undecoded bytes took 23 us instead of 19.
const MAPPED_FROM: usize = 1 << 20;

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
            Allocation::System(memory) => memory.length,
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
    length: usize,
    is_mapped: bool,
}

// SAFETY: an allocation is plain memory without thread affinity; access is governed by whoever holds it.
unsafe impl Send for SystemMemory {}
// SAFETY: sharing it shares only its address; every read or write through it is unsafe code elsewhere.
unsafe impl Sync for SystemMemory {}

impl SystemMemory {
    fn new(length: usize) -> Option<Self> {
        if length >= MAPPED_FROM
            && let Some(pointer) = map(length)
        {
            return Some(SystemMemory { pointer, length, is_mapped: true });
        }
        let layout = layout(length)?;
        // SAFETY: the layout's size is at least 1.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(SystemMemory { pointer, length: layout.size(), is_mapped: false })
    }
}

fn layout(length: usize) -> Option<Layout> {
    Layout::from_size_align(length.max(1), ALIGNMENT).ok()
}

impl Drop for SystemMemory {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: `map` made this range with this length; it is given back once, here.
            return unsafe { unmap(self.pointer, self.length) };
        }
        if let Some(layout) = layout(self.length) {
            // SAFETY: `pointer` came from `alloc_zeroed` with this very layout and is freed once, here.
            unsafe { dealloc(self.pointer.as_ptr(), layout) }
        }
    }
}

/// Zeroed memory that starts on a page; `None` if there is none, or if the system has no such memory.
#[cfg(unix)]
fn map(length: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a new private range, at a place that the system chooses.
    let mapped = unsafe {
        mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    NonNull::new(mapped.ok()?.cast())
}

#[cfg(not(unix))]
fn map(_length: usize) -> Option<NonNull<u8>> {
    None
}

/// # Safety
/// [`map`] must have returned `pointer` for this length, and nobody may use the range any more.
#[cfg(unix)]
unsafe fn unmap(pointer: NonNull<u8>, length: usize) {
    // SAFETY: as above. It only fails for ranges that were never mapped.
    let _ = unsafe { rustix::mm::munmap(pointer.as_ptr().cast(), length) };
}

#[cfg(not(unix))]
unsafe fn unmap(_pointer: NonNull<u8>, _length: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_aligned_on_both_sides_of_the_limit() {
        for length in [0, 1, MAPPED_FROM - 1, MAPPED_FROM, 3 * MAPPED_FROM + 5] {
            let memory = Allocation::new(length).unwrap();
            let pointer = memory.pointer().as_ptr();
            assert!(pointer.addr().is_multiple_of(ALIGNMENT) && memory.capacity() >= length);
            // SAFETY: the allocation is ours, and has `capacity` initialised bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, memory.capacity()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
        }
    }

    #[test]
    fn what_does_not_exist_is_not_allocated() {
        for length in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert!(Allocation::new(length).is_none());
        }
    }
}
