//! Threads that wait for local reads in place of the workers. They start when there is something to read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::blocked::WaitCheck;
use super::switch::Switch;
use crate::source::start_thread;

/// Their stack: they only open and read files.
const STACK: usize = 128 << 10;

/// A read; false if there was nothing left to do.
type Job = Box<dyn FnOnce() -> bool + Send>;

/// Up to a number of threads and the reads that wait for one, first come, first served.
#[derive(Debug)]
pub(super) struct Lanes {
    shared: Arc<Shared>,
    most: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    more: Condvar,
    switch: Arc<Switch>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Nothing more will come: threads without work end.
    ending: bool,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("jobs", &self.jobs.len())
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Lanes {
    pub(super) fn new(most: usize, switch: Arc<Switch>) -> Self {
        Lanes { shared: Arc::new(Shared { state: Mutex::default(), more: Condvar::new(), switch }), most }
    }

    /// Has a thread do `job`, after all earlier ones. False if it will not be done.
    pub(super) fn submit(&self, job: Job) -> bool {
        let mut state = self.shared.lock();
        if state.closed {
            return false;
        }
        if state.idle <= state.jobs.len() && state.threads < self.most {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("feedline-read".to_owned()).stack_size(STACK);
            let started = start_thread(|| thread.spawn(move || shared.run()));
            state.threads += usize::from(started.is_ok());
        }
        if state.threads == 0 {
            return false;
        }
        state.jobs.push_back(job);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.shared.more.notify_one();
        }
        true
    }

    /// Says that no more reads will come: threads end after the last one.
    pub(super) fn finish(&self) {
        self.shared.lock().ending = true;
        self.shared.more.notify_all();
    }

    /// Forgets all reads that nobody has begun; threads end when they come back from theirs.
    pub(super) fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.shared.more.notify_all();
        drop(jobs);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(job) = self.next() {
            let check = WaitCheck::begin();
            // A job catches its own panics.
            if job() {
                self.switch.note_ahead(check.has_waited());
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.ending {
                return None;
            }
            state.idle += 1;
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::spec::ReadAhead;

    fn lanes(most: usize) -> Lanes {
        Lanes::new(most, Arc::new(Switch::new(ReadAhead::Reads(most as u32))))
    }

    #[test]
    fn as_many_at_once_as_allowed_and_no_more_threads_than_needed() {
        let lanes = lanes(3);
        let (begun, seen) = channel();
        let (release, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for number in 0..5 {
            let (begun, gate) = (begun.clone(), gate.clone());
            let job = move || {
                begun.send(number).unwrap();
                if number < 3 {
                    gate.lock().unwrap().recv().unwrap();
                }
                true
            };
            assert!(lanes.submit(Box::new(job)));
        }
        let mut first: Vec<i32> = (0..3).map(|_| seen.recv().unwrap()).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2], "three wait at once, in order");
        assert!(seen.try_recv().is_err(), "and no fourth");
        (0..3).for_each(|_| release.send(()).unwrap());
        assert_eq!((seen.recv().unwrap() + seen.recv().unwrap(), lanes.shared.lock().threads), (7, 3));
    }

    #[test]
    fn after_the_last_read_the_threads_end() {
        let lanes = lanes(2);
        let (done, seen) = channel();
        for number in 0..6 {
            let done = done.clone();
            assert!(lanes.submit(Box::new(move || done.send(number).is_ok())));
        }
        lanes.finish();
        drop(done);
        // The channel ends when every job, and so every sender, is gone.
        assert_eq!(seen.iter().sum::<i32>(), 15);
        while Arc::strong_count(&lanes.shared) > 1 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_close_drops_what_was_not_begun() {
        let lanes = lanes(1);
        let (begun, seen) = channel();
        let (release, gate) = channel::<()>();
        let first = move || {
            begun.send(()).unwrap();
            gate.recv().is_ok()
        };
        assert!(lanes.submit(Box::new(first)));
        seen.recv().unwrap();
        let held = Arc::new(());
        let kept = held.clone();
        assert!(lanes.submit(Box::new(move || Arc::strong_count(&kept) > 0)));
        lanes.close();
        assert_eq!(Arc::strong_count(&held), 1, "the second was dropped");
        assert!(!lanes.submit(Box::new(|| true)));
        drop(release);
    }
}
