//! The memory pool and the slabs that it lends.
//!
//! Invariants, on which all `unsafe` here rests:
//! 1. A [`Slab`] is the only owner of its allocation. The pool keeps only allocations that no slab owns.
//! 2. While a batch is being filled, rows are written through [`Slab::part_mut`] by the one worker that claimed the
//!    row; rows do not overlap. After sealing, nobody in this crate writes.
//! 3. A slab's memory returns to the pool when the slab drops, on any thread: this takes one short lock, no GIL, and
//!    never blocks on a consumer.

#![expect(unsafe_code, reason = "handing out disjoint parts of one allocation; see batch/README.md")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::alloc::{Allocation, BatchMemory, MemoryBlock};
use crate::error::{Error, Result};

/// Lends memory and takes it back. Clones share the same memory.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    state: Arc<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    /// Idle allocations, the most recently used last: it is the most likely to be still in the CPU cache.
    idle: Mutex<Vec<Allocation>>,
    /// Largest number of idle allocations; further ones are freed.
    keep: usize,
    /// Idle allocations are freed if lent and idle memory together would exceed this.
    most_bytes: u64,
    fresh: AtomicU64,
    reused: AtomicU64,
    lent_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    process: u32,
    /// Where memory comes from, if not from the system.
    memory: Option<Arc<dyn BatchMemory>>,
}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Number of allocations made.
    pub fresh: u64,
    /// Number of loans served from returned memory.
    pub reused: u64,
    /// Bytes lent out now.
    pub lent_bytes: u64,
    /// Largest number of bytes lent out at once.
    pub peak_bytes: u64,
}

impl Pool {
    /// Creates a pool of the system's memory.
    #[cfg(test)]
    pub(crate) fn new(keep: usize, most_bytes: u64) -> Self {
        Pool::with_memory(keep, most_bytes, None)
    }

    /// Creates a pool that keeps at most `keep` idle allocations, and at most `most_bytes` of lent and idle memory. Memory
    /// of another kind is never kept idle: its allocator does that.
    pub(crate) fn with_memory(keep: usize, most_bytes: u64, memory: Option<Arc<dyn BatchMemory>>) -> Self {
        let keep = if memory.is_some() { 0 } else { keep };
        Pool {
            state: Arc::new(PoolState {
                idle: Mutex::new(Vec::new()),
                keep,
                most_bytes,
                fresh: AtomicU64::new(0),
                reused: AtomicU64::new(0),
                lent_bytes: AtomicU64::new(0),
                peak_bytes: AtomicU64::new(0),
                process: std::process::id(),
                memory,
            }),
        }
    }

    /// Lends `length` bytes of unspecified content. Never waits: if everything is lent out, it allocates.
    pub(crate) fn lend(&self, length: usize) -> Result<Slab> {
        let found = self.state.take_idle(length);
        let counter = if found.is_some() { &self.state.reused } else { &self.state.fresh };
        counter.fetch_add(1, Ordering::Relaxed);
        let allocation = found.map_or_else(|| self.state.allocate(length), Ok);
        let starved = |purpose: String| Error::out_of_memory(length as u64, purpose);
        let allocation = allocation.map_err(starved)?;
        let lent = self.state.lent_bytes.fetch_add(allocation.capacity() as u64, Ordering::Relaxed);
        self.state.peak_bytes.fetch_max(lent + allocation.capacity() as u64, Ordering::Relaxed);
        Ok(Slab { allocation: Some(allocation), length, state: self.state.clone() })
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = &self.state;
        PoolStats {
            fresh: load(&state.fresh),
            reused: load(&state.reused),
            lent_bytes: load(&state.lent_bytes),
            peak_bytes: load(&state.peak_bytes),
        }
    }
}

impl PoolState {
    fn take_idle(&self, length: usize) -> Option<Allocation> {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The tightest fit that wastes at most half: batches differ in size, and a small loan must not use up a big
        // slab.
        let fits = |a: &Allocation| a.capacity() >= length && a.capacity() / 2 <= length.max(4096);
        let best = idle.iter().enumerate().rev().filter(|(_, a)| fits(a)).min_by_key(|(_, a)| a.capacity());
        let at = best.map(|(at, _)| at)?;
        Some(idle.remove(at))
    }

    /// Allocates memory; frees idle memory first if the bytes are limited or the system has no more.
    fn allocate(&self, length: usize) -> Result<Allocation, String> {
        if let Some(memory) = &self.memory {
            return Allocation::of(&**memory, length).map_err(|reason| format!("a batch ({reason})"));
        }
        drop(self.surplus(length as u64));
        let found = Allocation::new(length).or_else(|| {
            let idle =
                std::mem::take(&mut *self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
            drop(idle);
            Allocation::new(length)
        });
        found.ok_or_else(|| "a batch".to_owned())
    }

    fn take_back(&self, allocation: Allocation) {
        if self.process != std::process::id() {
            // In a forked child, a thread that exists only in the parent may hold the lock. The memory is simply freed.
            return;
        }
        self.lent_bytes.fetch_sub(allocation.capacity() as u64, Ordering::Relaxed);
        if self.memory.is_some() {
            // Dropped without the lock: giving a block back may take any time.
            return;
        }
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(allocation);
        drop(self.surplus(0));
    }

    /// Removes idle allocations beyond the limits when `more` bytes are about to be lent. The caller frees them without
    /// the lock, because freeing may unmap megabytes.
    fn surplus(&self, more: u64) -> Vec<Allocation> {
        let mut idle = self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lent = self.lent_bytes.load(Ordering::Relaxed);
        let mut bytes =
            idle.iter().map(|a| a.capacity() as u64).sum::<u64>().saturating_add(lent.saturating_add(more));
        let mut out = 0;
        while out < idle.len() && (idle.len() - out > self.keep || bytes > self.most_bytes) {
            bytes -= idle[out].capacity() as u64;
            out += 1;
        }
        idle.drain(..out).collect()
    }
}

/// Memory for one kind of result, which is used again for the next: at most one slab is kept.
#[derive(Debug)]
pub struct SlabPool(Pool);

impl Default for SlabPool {
    fn default() -> Self {
        SlabPool(Pool::with_memory(1, u64::MAX, None))
    }
}

impl SlabPool {
    /// Lends `length` bytes of unspecified content.
    pub fn lend(&self, length: usize) -> Result<Slab> {
        self.0.lend(length)
    }
}

/// Lent memory. Returns to the pool when dropped.
#[derive(Debug)]
pub struct Slab {
    allocation: Option<Allocation>,
    length: usize,
    state: Arc<PoolState>,
}

impl Slab {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the slab is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Address of the first byte, for passing the memory to Python.
    pub fn address(&self) -> *mut u8 {
        self.allocation().pointer().as_ptr()
    }

    /// The block of the loader's [`BatchMemory`] that this is, if it has one.
    pub fn block(&self) -> Option<&dyn MemoryBlock> {
        self.allocation().block()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: at least `length` bytes, all initialised (zeroed when they were made, or as `MemoryBlock` promises).
        // Parts are written only before sealing (invariant 2), when no caller holds a sealed slab yet.
        unsafe { std::slice::from_raw_parts(self.address(), self.length) }
    }

    /// The bytes, writable: the borrow proves that there is no other reference.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.length) }
    }

    /// A part of the bytes, writable through a shared slab.
    ///
    /// # Safety
    /// No other reference to any byte of `range` may exist while the result lives (invariant 2).
    #[expect(clippy::mut_from_ref, reason = "that is what the safety contract is about")]
    pub(crate) unsafe fn part_mut(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.length, "part inside the slab");
        // SAFETY: in bounds by the assertion, initialised (as in `bytes`), unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.address().add(range.start), range.len()) }
    }

    fn allocation(&self) -> &Allocation {
        self.allocation.as_ref().expect("present until drop")
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.state.take_back(allocation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_fork_memory_is_freed_without_the_lock() {
        let mut pool = Pool::new(4, u64::MAX);
        Arc::get_mut(&mut pool.state).expect("not shared yet").process = 0;
        let slab = pool.lend(100).unwrap();
        // A lock that a worker thread of the parent held when it forked.
        let held = pool.state.idle.lock().unwrap();
        drop(slab);
        assert!(held.is_empty());
    }

    #[test]
    fn returned_memory_is_reused() {
        let pool = Pool::new(4, u64::MAX);
        let first = pool.lend(10_000).unwrap();
        let address = first.address() as usize;
        drop(first);
        let second = pool.lend(9_000).unwrap();
        assert_eq!(second.address() as usize, address);
        assert_eq!(second.len(), 9_000);
        assert_eq!((pool.stats().fresh, pool.stats().reused), (1, 1));
    }

    #[test]
    fn held_memory_is_never_lent_twice() {
        let pool = Pool::new(2, u64::MAX);
        let mut held: Vec<Slab> = (0..50).map(|_| pool.lend(5000).unwrap()).collect();
        for (i, slab) in held.iter_mut().enumerate() {
            slab.bytes_mut().fill(i as u8);
        }
        for (i, slab) in held.iter().enumerate() {
            assert!(slab.bytes().iter().all(|b| *b == i as u8));
        }
        drop(held);
        assert_eq!(pool.stats().lent_bytes, 0);
        assert_eq!(pool.state.idle.lock().unwrap().len(), 2);
    }

    #[test]
    fn small_requests_do_not_use_large_allocations() {
        let pool = Pool::new(4, u64::MAX);
        drop(pool.lend(10 << 20).unwrap());
        drop(pool.lend(16).unwrap());
        assert_eq!(pool.stats().fresh, 2);
    }

    #[test]
    fn idle_memory_is_freed_to_stay_within_the_limit() {
        let pool = Pool::new(8, 30_000);
        drop([pool.lend(10_000).unwrap(), pool.lend(10_000).unwrap()]);
        assert_eq!(pool.state.idle.lock().unwrap().len(), 2);
        let big = pool.lend(25_000).unwrap();
        assert_eq!(pool.state.idle.lock().unwrap().len(), 0);
        let small = pool.lend(10_000).unwrap();
        drop(small);
        assert_eq!(pool.state.idle.lock().unwrap().len(), 0, "25,000 and 10,000 are more than the limit");
        drop(big);
        assert_eq!(pool.state.idle.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_failed_allocation_is_an_error() {
        for length in [usize::MAX, isize::MAX as usize, 1 << 60] {
            let error = Pool::new(1, u64::MAX).lend(length).unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        }
    }

    /// A stand-in for page-locked memory: notes what is given out and comes back.
    #[derive(Debug, Default)]
    struct Marked {
        given: AtomicU64,
        back: Arc<AtomicU64>,
        refuses: bool,
    }

    #[derive(Debug)]
    struct MarkedBlock {
        memory: Allocation,
        back: Arc<AtomicU64>,
    }

    // SAFETY: the system's own memory, owned by the block.
    unsafe impl MemoryBlock for MarkedBlock {
        fn address(&self) -> std::ptr::NonNull<u8> {
            self.memory.pointer()
        }

        fn length(&self) -> usize {
            self.memory.capacity()
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    impl Drop for MarkedBlock {
        fn drop(&mut self) {
            self.back.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl BatchMemory for Marked {
        fn allocate(&self, length: usize) -> Result<Box<dyn MemoryBlock>, String> {
            if self.refuses {
                return Err("no more pages can be locked".to_owned());
            }
            self.given.fetch_add(1, Ordering::Relaxed);
            let memory = Allocation::new(length).ok_or("no memory")?;
            Ok(Box::new(MarkedBlock { memory, back: self.back.clone() }))
        }
    }

    #[test]
    fn memory_returns_to_the_allocator_it_came_from() {
        let memory = Arc::new(Marked::default());
        let pool = Pool::with_memory(4, u64::MAX, Some(memory.clone()));
        let mut slab = pool.lend(5000).unwrap();
        slab.bytes_mut().fill(7);
        assert!(slab.block().is_some_and(|block| block.as_any().is::<MarkedBlock>()));
        assert!(Pool::new(1, u64::MAX).lend(1).unwrap().block().is_none());
        assert_eq!((pool.lend(0).unwrap().len(), memory.given.load(Ordering::Relaxed)), (0, 2));
        drop(slab);
        assert_eq!(memory.back.load(Ordering::Relaxed), 2, "nothing is kept");
        drop(pool.lend(5000).unwrap());
        assert_eq!((memory.given.load(Ordering::Relaxed), pool.stats().lent_bytes), (3, 0));
        let refusing =
            Pool::with_memory(4, u64::MAX, Some(Arc::new(Marked { refuses: true, ..Marked::default() })));
        let error = refusing.lend(10).unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { .. }) && error.to_string().contains("locked"),
            "{error}"
        );
    }

    #[test]
    fn slabs_outlive_their_pool() {
        let slab = Pool::new(1, u64::MAX).lend(100).unwrap();
        assert_eq!(slab.bytes(), [0; 100]);
    }
}
