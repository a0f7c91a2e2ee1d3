//! Threads that fill the cache ahead of need. Each waits for one block at a time; dozens of them cost nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Blocks of 4 MiB that are fetched at once: enough for a fast link at 20 ms, 64 MiB of memory at most.
const THREADS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs in the order in which they were given.
#[derive(Default)]
pub(super) struct Queue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Job, Arc<AtomicBool>)>,
    /// The process whose threads these are, and their number: a forked child has none.
    threads: (u32, usize),
    idle: usize,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.shared.lock().jobs.len()).finish_non_exhaustive()
    }
}

/// Dropping it takes back a job that was not begun.
#[derive(Debug)]
pub(super) struct Order {
    unwanted: Arc<AtomicBool>,
}

impl Drop for Order {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if state.closed {
                return;
            }
            if let Some((job, unwanted)) = state.jobs.pop_front() {
                drop(state);
                if !unwanted.load(Ordering::Relaxed) {
                    job();
                }
                state = self.lock();
                continue;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Queue {
    /// Adds a job, to be done unless the order is dropped first.
    pub(super) fn add(&self, job: impl FnOnce() + Send + 'static) -> Order {
        let unwanted = Arc::new(AtomicBool::new(false));
        let mut state = self.shared.lock();
        let process = std::process::id();
        if state.threads.0 != process {
            *state = State { threads: (process, 0), ..State::default() };
        }
        state.jobs.push_back((Box::new(job), unwanted.clone()));
        if state.idle < state.jobs.len() && state.threads.1 < THREADS {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("feedline-cache".to_owned());
            if thread.spawn(move || shared.work()).is_ok() {
                state.threads.1 += 1;
            }
        }
        drop(state);
        self.shared.changed.notify_one();
        Order { unwanted }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.jobs.clear();
        drop(state);
        self.shared.changed.notify_all();
    }
}
