//! Bounds the bytes of values whose size is known only when they are decoded: whole images, texts, arrays.
//!
//! Dense columns are bounded by the number of batches in flight, which is fixed beforehand. Ragged ones are counted
//! here as they arrive: a worker whose value does not fit waits, except in the oldest batch, the one that the consumer
//! wants next. This cannot deadlock: rows are claimed in order, so the workers of the oldest batch never wait, and
//! taking it makes another batch the oldest.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of batches held by the consumer that still count: the current one and the one before.
const HELD: u64 = 2;

/// Byte counts of one pass over an epoch.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Option<u64>,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BudgetState {
    /// The first batch that the consumer has not taken.
    oldest: u64,
    /// Number of the batch at the front of `bytes`.
    first: u64,
    /// Bytes reserved by each batch from `first` on.
    bytes: VecDeque<u64>,
    sum: u64,
    closed: bool,
}

impl Budget {
    /// Allows at most `limit` bytes at once; without a limit, nothing is counted.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Budget { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Reserves `bytes` for a value of `batch`, waiting until they fit. Returns false if it was closed meanwhile.
    pub(crate) fn reserve(&self, batch: u64, bytes: u64) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut state = self.state();
        while !state.closed && batch > state.oldest && state.sum.saturating_add(bytes) > limit {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.add(batch, bytes);
        !state.closed
    }

    /// Gives `bytes` of `batch` back.
    pub(crate) fn release(&self, batch: u64, bytes: u64) {
        if self.limit.is_some() {
            self.state().remove(batch, bytes);
            self.changed.notify_all();
        }
    }

    /// Notes that the consumer has taken batch `batch`. The batches it held before are assumed to be dropped.
    pub(crate) fn taken(&self, batch: u64) {
        if self.limit.is_some() {
            let mut state = self.state();
            state.oldest = batch + 1;
            state.forget_before((batch + 1).saturating_sub(HELD));
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Wakes all waiting workers; none waits after this.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    fn add(&mut self, batch: u64, bytes: u64) {
        let Some(at) = batch.checked_sub(self.first) else { return };
        let at = at as usize;
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] = self.bytes[at].saturating_add(bytes);
        self.sum = self.sum.saturating_add(bytes);
    }

    fn remove(&mut self, batch: u64, bytes: u64) {
        let at = batch.checked_sub(self.first).map(|at| at as usize);
        if let Some(reserved) = at.and_then(|at| self.bytes.get_mut(at)) {
            let bytes = bytes.min(*reserved);
            *reserved -= bytes;
            self.sum -= bytes;
        }
    }

    fn forget_before(&mut self, batch: u64) {
        while self.first < batch {
            self.sum -= self.bytes.pop_front().unwrap_or(0);
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn only_the_oldest_batch_never_waits() {
        let budget = Arc::new(Budget::new(Some(100)));
        assert!(budget.reserve(0, 1000));
        let entered = Arc::new(AtomicBool::new(false));
        let waiting = std::thread::spawn({
            let (budget, entered) = (budget.clone(), entered.clone());
            move || {
                assert!(budget.reserve(3, 50));
                entered.store(true, Ordering::SeqCst);
            }
        });
        for batch in 0..2 {
            budget.taken(batch);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!entered.load(Ordering::SeqCst), "the consumer still holds batch 0");
        }
        budget.taken(2);
        waiting.join().unwrap();
        assert_eq!(budget.state().sum, 50);
        budget.release(3, 50);
        assert_eq!(budget.state().sum, 0);
    }

    #[test]
    fn closing_ends_every_wait() {
        let budget = Arc::new(Budget::new(Some(10)));
        assert!(budget.reserve(1, 10));
        let waiting = std::thread::spawn({
            let budget = budget.clone();
            move || budget.reserve(1, 1)
        });
        budget.close();
        assert!(!waiting.join().unwrap());
    }
}
