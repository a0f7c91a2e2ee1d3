//! Bytes held for reads ahead, and the batches that need them. `README.md` explains why this cannot deadlock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::source::Ticket;

/// The limit, and the runs that are held.
#[derive(Debug)]
pub(super) struct Budget {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    limit: u64,
    held_bytes: u64,
    peak_bytes: u64,
    next_run: u64,
    runs: BTreeMap<u64, Holding>,
    /// Runs by the batch that needs them.
    needed_by: BTreeMap<u64, Vec<u64>>,
    /// Every batch below this is sealed.
    oldest: u64,
    /// Sealed batches at or above `oldest`.
    sealed: BTreeSet<u64>,
    closed: bool,
}

#[derive(Debug)]
struct Holding {
    bytes: u64,
    /// Number of batches that need the run and are not sealed yet.
    users: usize,
    #[expect(dead_code, reason = "held for what dropping it does")]
    ticket: Ticket,
}

impl State {
    fn is_sealed(&self, batch: u64) -> bool {
        batch < self.oldest || self.sealed.contains(&batch)
    }
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        let state = Mutex::new(State { limit, ..State::default() });
        Budget { state, changed: Condvar::new() }
    }

    /// Changes the limit for whatever is admitted from now on.
    pub(super) fn set_limit(&self, limit: u64) {
        self.lock().limit = limit;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a run of `bytes` for `batch` may be requested; returns false if everything was closed meanwhile.
    pub(super) fn admit(&self, bytes: u64, batch: u64) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed {
                return false;
            }
            if batch <= state.oldest || state.held_bytes == 0 || state.held_bytes + bytes <= state.limit {
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the batch was sealed before anything was planned for it.
    pub(super) fn is_sealed(&self, batch: u64) -> bool {
        self.lock().is_sealed(batch)
    }

    /// Holds a run until the last of its batches is sealed.
    pub(super) fn hold(&self, bytes: u64, batches: &[u64], ticket: Ticket) {
        let mut state = self.lock();
        let users: Vec<u64> = batches.iter().copied().filter(|batch| !state.is_sealed(*batch)).collect();
        if users.is_empty() || state.closed {
            // Dropping a ticket takes the source's locks.
            drop(state);
            return drop(ticket);
        }
        let number = state.next_run;
        state.next_run += 1;
        for batch in &users {
            state.needed_by.entry(*batch).or_default().push(number);
        }
        state.runs.insert(number, Holding { bytes, users: users.len(), ticket });
        state.held_bytes += bytes;
        state.peak_bytes = state.peak_bytes.max(state.held_bytes);
    }

    /// Releases the runs that only `batch` still needed.
    pub(super) fn seal(&self, batch: u64) {
        let mut state = self.lock();
        state.sealed.insert(batch);
        while state.sealed.contains(&state.oldest) {
            let oldest = state.oldest;
            state.sealed.remove(&oldest);
            state.oldest += 1;
        }
        let mut done = Vec::new();
        for number in state.needed_by.remove(&batch).unwrap_or_default() {
            let holding = state.runs.get_mut(&number).expect("a needed run is held");
            holding.users -= 1;
            if holding.users == 0 {
                done.extend(state.runs.remove(&number));
            }
        }
        state.held_bytes -= done.iter().map(|holding| holding.bytes).sum::<u64>();
        drop(state);
        self.changed.notify_all();
        drop(done);
    }

    /// Releases everything and admits nothing more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let runs = std::mem::take(&mut state.runs);
        state.needed_by.clear();
        state.held_bytes = 0;
        drop(state);
        self.changed.notify_all();
        drop(runs);
    }

    /// Largest number of bytes held at once.
    pub(super) fn peak_bytes(&self) -> u64 {
        self.lock().peak_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;

    struct Counted(Arc<AtomicU64>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ticket(dropped: &Arc<AtomicU64>) -> Ticket {
        Ticket::new(Counted(dropped.clone()))
    }

    #[test]
    fn a_run_is_held_until_its_last_batch_is_sealed() {
        let (budget, dropped) = (Budget::new(100), Arc::default());
        assert!(budget.admit(60, 0));
        budget.hold(60, &[0, 2], ticket(&dropped));
        budget.seal(2);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        budget.seal(0);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        // Batch 2 was sealed before: nothing is held.
        budget.hold(60, &[2], ticket(&dropped));
        assert_eq!((dropped.load(Ordering::Relaxed), budget.peak_bytes()), (2, 60));
    }

    #[test]
    fn the_oldest_batch_is_always_admitted() {
        let (budget, dropped) = (Budget::new(100), Arc::default());
        budget.hold(90, &[0, 7], ticket(&dropped));
        budget.seal(0);
        // Bytes are held for batch 7, but batch 1 is the oldest and must not wait for them.
        assert!(budget.admit(1000, 1));
    }

    #[test]
    fn a_larger_limit_admits_more() {
        let (budget, dropped) = (Arc::new(Budget::new(100)), Arc::default());
        budget.hold(90, &[0], ticket(&dropped));
        let waiting = {
            let budget = budget.clone();
            std::thread::spawn(move || budget.admit(50, 3))
        };
        budget.set_limit(140);
        assert!(waiting.join().unwrap());
    }

    #[test]
    fn later_batches_wait_for_room_and_closing_wakes_them() {
        let (budget, dropped) = (Arc::new(Budget::new(100)), Arc::default());
        budget.hold(90, &[0], ticket(&dropped));
        let waiting = {
            let budget = budget.clone();
            std::thread::spawn(move || (budget.admit(50, 3), budget.admit(1000, 9)))
        };
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        budget.seal(0);
        std::thread::sleep(Duration::from_millis(50));
        budget.hold(50, &[3], ticket(&dropped));
        budget.close();
        assert!(waiting.join().unwrap().0);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert!(!budget.admit(1, 0));
    }
}
