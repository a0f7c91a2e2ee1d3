//! The protocol between workers and the consumer: who fills which row, who seals a batch, who takes it.
//!
//! ```text
//!  ticket ──► (batch, rows)          one fetch_add per group of rows (nearly always of one), no lock
//!  row 0's worker opens the batch:   waits for room, makes the payload, publishes it
//!  the others enter it:              one acquire load; they wait only if it is not open yet
//!  each finishes its rows:           one fetch_sub; whoever brings it to zero seals the batch
//!  the consumer takes batches in order, which makes room for a later one
//! ```
//!
//! Batch `b` lives in cell `b % depth`. The payload in a cell is touched by: its opener before `opened` is stored
//! (Release); workers between loading `opened` (Acquire) and their `fetch_sub`; the last worker after its `fetch_sub`
//! (Acquire: it sees all rows) until it stores `sealed` under the gate; the consumer after that. Batch `b + depth` is
//! opened only after `b` was taken. So accesses never overlap, except workers' shared ones. Locks and condition
//! variables are used per batch, never per sample.
//!
//! No deadlock: a worker that waits for batch `b` to open waits for another worker, which waits for batch `b - depth`
//! to be taken; all rows of that batch were claimed earlier, by workers that wait for nothing later.
//!
//! A group is claimed as a whole: one worker makes all samples that are mixed with each other, so nobody waits for a
//! partner. The size of every batch but perhaps the last is a multiple of the group.
//!
//! Checked with loom in `crates/feedline/loom`, which compiles this same file.

use std::time::{Duration, Instant};

use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, UnsafeCell};

/// Alone in its cache lines (processors fetch them in pairs): what all threads write must not slow down what they only read.
#[repr(align(128))]
struct CachePadded<T>(T);

/// Cells for batches in flight. `T` is a batch while it is filled.
pub(crate) struct Ring<T> {
    cells: Box<[Cell<T>]>,
    /// The next unclaimed group, counted over all batches.
    next: CachePadded<AtomicU64>,
    rows_per_batch: u64,
    total_rows: u64,
    /// Rows that are claimed together.
    group: u64,
    gate: Mutex<Gate>,
    /// Signals workers: a batch was opened or taken, or the ring was closed.
    for_workers: Condvar,
    /// Signals the consumer: a batch was sealed, or the ring was closed.
    for_consumer: Condvar,
}

/// Aligned so that no two batches in flight share a cache line.
#[repr(align(128))]
struct Cell<T> {
    /// Number of the open batch plus one; 0 if none is open.
    opened: AtomicU64,
    /// Groups not yet finished.
    remaining: AtomicU64,
    /// Number of the sealed batch plus one. Written under the gate.
    sealed: AtomicU64,
    payload: UnsafeCell<Option<T>>,
}

struct Gate {
    taken: u64,
    closed: bool,
}

// SAFETY: `payload` is shared between threads only as `&T` (hence `T: Sync`) or handed from one to another (hence
// `T: Send`), in the order the module doc gives.
#[expect(unsafe_code, reason = "the protocol of the module doc, checked with loom")]
unsafe impl<T: Send + Sync> Sync for Ring<T> {}

/// The right to fill one group of rows, held by exactly one worker.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Number of the batch, counted from the ring's first.
    pub(crate) batch: u64,
    /// First row.
    pub(crate) row: u64,
    /// Number of rows.
    pub(crate) rows: u64,
}

/// Result of [`Ring::take`].
#[derive(Debug)]
pub(crate) enum Take<T> {
    /// The next batch.
    Batch(T),
    /// The batch is not ready, and the time is up.
    NotYet,
    /// All batches were taken, or the ring was closed.
    End,
}

impl<T> Ring<T> {
    /// Creates a ring of `depth` cells for `total_rows` rows, `rows_per_batch` in each batch but perhaps the last. Rows
    /// are claimed in groups of `group`, which must divide `rows_per_batch`.
    pub(crate) fn new(depth: usize, rows_per_batch: u64, total_rows: u64, group: u64) -> Self {
        assert!(depth > 0 && rows_per_batch > 0, "checked when the loader is planned");
        assert!(group > 0 && rows_per_batch.is_multiple_of(group), "checked when the loader is planned");
        let cell = || Cell {
            opened: AtomicU64::new(0),
            remaining: AtomicU64::new(0),
            sealed: AtomicU64::new(0),
            payload: UnsafeCell::new(None),
        };
        Ring {
            cells: (0..depth).map(|_| cell()).collect(),
            next: CachePadded(AtomicU64::new(0)),
            rows_per_batch,
            total_rows,
            group,
            gate: Mutex::new(Gate { taken: 0, closed: false }),
            for_workers: Condvar::new(),
            for_consumer: Condvar::new(),
        }
    }

    /// Number of batches.
    pub(crate) fn batches(&self) -> u64 {
        self.total_rows.div_ceil(self.rows_per_batch)
    }

    /// Number of rows in batch `batch`.
    pub(crate) fn rows(&self, batch: u64) -> u64 {
        self.rows_per_batch.min(self.total_rows - batch * self.rows_per_batch)
    }

    /// Number of groups in batch `batch`.
    fn groups(&self, batch: u64) -> u64 {
        self.rows(batch).div_ceil(self.group)
    }

    /// Claims the next group, or returns `None` when all are claimed.
    pub(crate) fn claim(&self) -> Option<Claim> {
        // Relaxed: the ticket orders nothing; the payload is published through `opened`.
        let first = self.next.0.fetch_add(1, Ordering::Relaxed).saturating_mul(self.group);
        if first >= self.total_rows {
            return None;
        }
        let (batch, row) = (first / self.rows_per_batch, first % self.rows_per_batch);
        Some(Claim { batch, row, rows: self.group.min(self.rows(batch) - row) })
    }

    /// Waits until the claimed rows' batch is open, runs `fill` on it and marks the rows as finished; the last worker
    /// of the batch also runs `seal`. `open` creates the batch; the worker of row 0 calls it. Returns false if the ring
    /// was closed meanwhile: the worker should stop.
    ///
    /// None of the three closures may unwind: a panic would leave the row unfinished and the consumer waiting. The
    /// caller catches panics inside them.
    pub(crate) fn work(
        &self,
        claim: Claim,
        open: impl FnOnce(u64) -> T,
        fill: impl FnOnce(&T, &Claim),
        seal: impl FnOnce(&mut T),
    ) -> bool {
        let cell = self.cell(claim.batch);
        let ready = if claim.row == 0 { self.open(cell, &claim, open) } else { self.enter(cell, &claim) };
        if !ready {
            return false;
        }
        Self::with_payload(cell, |payload| fill(payload, &claim));
        // AcqRel: releases this row's writes to the last worker, and makes the last worker acquire all others'.
        if cell.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.seal(cell, claim.batch, seal);
        }
        true
    }

    /// Takes the next batch in order; waits at most `timeout` for it (without limit if `None`).
    pub(crate) fn take(&self, timeout: Option<Duration>) -> Take<T> {
        // A deadline too far away for the clock means no limit.
        let deadline = timeout.and_then(|p| Instant::now().checked_add(p));
        let mut gate = self.lock();
        loop {
            let number = gate.taken;
            if gate.closed || number >= self.batches() {
                return Take::End;
            }
            let cell = self.cell(number);
            if cell.sealed.load(Ordering::Acquire) == number + 1 {
                let payload = Self::remove_payload(cell);
                gate.taken += 1;
                self.for_workers.notify_all();
                return Take::Batch(payload);
            }
            let Some(deadline) = deadline else {
                gate = self.for_consumer.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Take::NotYet;
            }
            let waited = self.for_consumer.wait_timeout(gate, left);
            gate = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Closes the ring: workers stop at their next claim or wait, the consumer gets `End`.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.for_workers.notify_all();
        self.for_consumer.notify_all();
    }

    /// Number of sealed batches that wait for the consumer, and the number of cells.
    pub(crate) fn occupancy(&self) -> (u64, u64) {
        let taken = self.lock().taken;
        let waiting = (taken..self.batches().min(taken + self.cells.len() as u64))
            .filter(|b| self.cell(*b).sealed.load(Ordering::Relaxed) == b + 1);
        (waiting.count() as u64, self.cells.len() as u64)
    }

    /// Whether every batch was taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.lock().taken >= self.batches()
    }

    fn cell(&self, batch: u64) -> &Cell<T> {
        &self.cells[(batch % self.cells.len() as u64) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        // Nothing in this file panics while it holds the gate, so a poisoned gate is still consistent.
        self.gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn open(&self, cell: &Cell<T>, claim: &Claim, make: impl FnOnce(u64) -> T) -> bool {
        let depth = self.cells.len() as u64;
        let mut gate = self.lock();
        while !gate.closed && claim.batch >= gate.taken + depth {
            gate = self.for_workers.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if gate.closed {
            return false;
        }
        drop(gate);
        Self::put_payload(cell, make(claim.batch));
        cell.remaining.store(self.groups(claim.batch), Ordering::Relaxed);
        cell.opened.store(claim.batch + 1, Ordering::Release);
        // The lock makes sure that a worker which found the batch closed is already waiting when we notify.
        drop(self.lock());
        self.for_workers.notify_all();
        true
    }

    fn enter(&self, cell: &Cell<T>, claim: &Claim) -> bool {
        if cell.opened.load(Ordering::Acquire) == claim.batch + 1 {
            return true;
        }
        let mut gate = self.lock();
        while cell.opened.load(Ordering::Acquire) != claim.batch + 1 {
            if gate.closed {
                return false;
            }
            gate = self.for_workers.wait(gate).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        true
    }

    fn seal(&self, cell: &Cell<T>, batch: u64, seal: impl FnOnce(&mut T)) {
        Self::with_payload_mut(cell, seal);
        let gate = self.lock();
        cell.sealed.store(batch + 1, Ordering::Release);
        drop(gate);
        self.for_consumer.notify_all();
    }
}

/// The four accesses to a payload. Each is sound because of where the protocol calls it from.
#[expect(unsafe_code, reason = "the protocol of the module doc, checked with loom")]
impl<T> Ring<T> {
    fn put_payload(cell: &Cell<T>, payload: T) {
        // SAFETY: called by the opener alone, after the cell's previous batch was taken and before `opened` says that
        // there is something to see.
        cell.payload.with_mut(|slot| unsafe { *slot = Some(payload) });
    }

    fn with_payload(cell: &Cell<T>, use_it: impl FnOnce(&T)) {
        // SAFETY: called between seeing `opened` and the row's `fetch_sub`; until all rows are subtracted nobody takes
        // a mutable reference.
        cell.payload.with(|slot| use_it(unsafe { (*slot).as_ref().expect("open batches have a payload") }));
    }

    fn with_payload_mut(cell: &Cell<T>, use_it: impl FnOnce(&mut T)) {
        // SAFETY: called by the worker whose `fetch_sub` brought `remaining` to zero: all others are done with it, and
        // the consumer waits for `sealed`.
        cell.payload
            .with_mut(|slot| use_it(unsafe { (*slot).as_mut().expect("open batches have a payload") }));
    }

    fn remove_payload(cell: &Cell<T>) -> T {
        // SAFETY: called by the consumer after `sealed` was stored, which is the last worker's last act on the cell;
        // the next opener waits for `taken` to grow, under the gate we hold.
        cell.payload.with_mut(|slot| unsafe { (*slot).take().expect("sealed batches have a payload") })
    }
}

impl<T> std::fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.cells.len())
            .field("rows", &self.total_rows)
            .finish_non_exhaustive()
    }
}
