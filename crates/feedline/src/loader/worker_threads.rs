//! A set of threads that work on one run at a time, and how they end.
//!
//! A thread inside a system call that never returns (a dead network file system) cannot be stopped. Every wait has a
//! limit: after it, the thread is abandoned, and ends by itself if the call ever returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::stats::Totals;
use super::workers::{EpochRun, Worker};
use crate::error::{Error, Result};
use crate::source::start_thread;

/// A set of threads and the channels that give them work. Dropping it ends the threads without waiting.
#[derive(Debug)]
pub(crate) struct WorkerThreads {
    senders: Vec<Sender<Arc<EpochRun>>>,
    ending: EndingThreads,
    /// Number of threads that have not finished their last run.
    busy: Arc<AtomicUsize>,
}

impl WorkerThreads {
    /// Starts `count` threads.
    pub(crate) fn new(count: usize, max_pixels: u64, totals: &Totals) -> Result<Self> {
        let busy = Arc::new(AtomicUsize::new(0));
        let ending = EndingThreads { handles: Vec::with_capacity(count), process: std::process::id() };
        let mut threads = WorkerThreads { senders: Vec::with_capacity(count), ending, busy };
        for number in 0..count {
            let (sender, receiver) = channel();
            let (counters, busy) = (totals.worker(), threads.busy.clone());
            let thread = std::thread::Builder::new().name(format!("feedline-{number}"));
            let run = move || Worker::new(counters, max_pixels).run(&receiver, &busy);
            let handle = start_thread(|| thread.spawn(run));
            let handle = handle.map_err(|e| {
                Error::option("num_workers", format!("the system refused thread {number} of {count}: {e}"))
            })?;
            threads.senders.push(sender);
            threads.ending.handles.push(handle);
        }
        Ok(threads)
    }

    /// Number of threads.
    pub(crate) fn len(&self) -> usize {
        self.senders.len()
    }

    /// Gives this run to all threads; each starts it when its last run is finished.
    pub(crate) fn start(&self, run: &Arc<EpochRun>) {
        for sender in &self.senders {
            self.busy.fetch_add(1, Ordering::Relaxed);
            if sender.send(run.clone()).is_err() {
                // The thread panicked outside any sample; the run is closed then (see `Worker::run`).
                self.busy.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether all threads finish their last run within `timeout`. They do within a sample's time, unless one
    /// is stuck.
    pub(crate) fn is_free_within(&self, timeout: Duration) -> bool {
        poll(Instant::now() + timeout, || self.busy.load(Ordering::Relaxed) == 0)
    }

    /// Ends the threads.
    pub(crate) fn end(mut self) -> EndingThreads {
        let none = EndingThreads { handles: Vec::new(), process: self.ending.process };
        std::mem::replace(&mut self.ending, none)
    }
}

impl Drop for WorkerThreads {
    fn drop(&mut self) {
        if self.ending.process != std::process::id() {
            // After a fork, the other ends, and the holders of their locks, exist only in the parent.
            std::mem::forget(std::mem::take(&mut self.senders));
        }
    }
}

/// Threads that are ending.
#[derive(Debug)]
pub(crate) struct EndingThreads {
    handles: Vec<JoinHandle<()>>,
    process: u32,
}

impl EndingThreads {
    /// Number of threads that were alive at the last check.
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// Waits for them until `deadline`; returns how many are still alive.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> usize {
        if self.process != std::process::id() {
            return 0;
        }
        poll(deadline, || self.handles.iter().all(JoinHandle::is_finished));
        let (ended, left): (Vec<_>, Vec<_>) = self.handles.drain(..).partition(JoinHandle::is_finished);
        for handle in ended {
            let _ = handle.join();
        }
        self.handles = left;
        self.handles.len()
    }
}

impl Drop for EndingThreads {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // After a fork, the threads exist only in the parent; there is nothing to release.
            std::mem::forget(std::mem::take(&mut self.handles));
        }
    }
}

/// Checks repeatedly, at first often, until `done` or the deadline.
fn poll(deadline: Instant, done: impl Fn() -> bool) -> bool {
    let mut pause = Duration::from_micros(20);
    while !done() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    true
}
