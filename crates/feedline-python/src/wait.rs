//! Waits without holding the interpreter, while Ctrl-C still works.
//!
//! A system call on a dead network file system never returns and cannot be interrupted. So long work runs on
//! its own thread, and the caller can stop waiting: the thread is abandoned, ends by itself if the call returns, and
//! touches no Python object.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use feedline::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::raise;

/// How often signals are checked while waiting.
pub(crate) const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// After Ctrl-C, how long to wait for reads that can be cancelled.
const GRACE: Duration = Duration::from_millis(400);

/// The same for writing, which stops at the end of a sample and leaves everything consistent.
const WRITING_GRACE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

/// Result of a job: its value, or the text of its panic.
type Outcome<T> = Result<T, String>;

/// A thread that runs one job after the other for one other thread.
struct Helper {
    jobs: Sender<Job>,
    process: u32,
}

thread_local! {
    /// Kept from call to call: starting a thread for each call would cost more than reading a small sample.
    static HELPER: RefCell<Option<Helper>> = const { RefCell::new(None) };
}

impl Helper {
    /// This thread's helper, or a new one; an error if the system refuses to start a thread.
    fn get() -> std::io::Result<Helper> {
        match HELPER.take() {
            Some(helper) if helper.process == std::process::id() => return Ok(helper),
            // In a forked child, the parent's helper thread does not exist.
            Some(parents) => std::mem::forget(parents),
            None => {}
        }
        let (jobs, receiver): (Sender<Job>, Receiver<Job>) = channel();
        let work = move || receiver.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("feedline_wait".to_owned()).spawn(work)?;
        Ok(Helper { jobs, process: std::process::id() })
    }

    fn start<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Receiver<Outcome<T>> {
        let (sender, receiver) = channel();
        let job = move || {
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work)).map_err(|panic| text(&*panic)));
        };
        // A helper that is gone drops the job, and the receiver returns an error.
        let _ = self.jobs.send(Box::new(job));
        receiver
    }
}

/// Runs `work`, which only reads, with the interpreter released. On a signal (Ctrl-C) its reads are cancelled; if it
/// does not return soon, it is abandoned. The signal's exception is raised.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> feedline::Result<T> + Send + 'static,
) -> PyResult<T> {
    wait(py, GRACE, || {}, work)
}

/// The same for `work` that writes: on a signal `stop` is called, and it gets more time to finish.
pub(crate) fn stoppable<T: Send + 'static>(
    py: Python<'_>,
    stop: impl Fn(),
    work: impl FnOnce() -> feedline::Result<T> + Send + 'static,
) -> PyResult<T> {
    wait(py, WRITING_GRACE, stop, work)
}

fn wait<T: Send + 'static>(
    py: Python<'_>,
    grace: Duration,
    stop: impl Fn(),
    work: impl FnOnce() -> feedline::Result<T> + Send + 'static,
) -> PyResult<T> {
    // If no thread can be started, the work is done here; only signals must wait.
    let Ok(helper) = Helper::get() else { return py.detach(work).map_err(|e| raise(&e)) };
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    // A receiver is not `Sync`, which code without the interpreter requires.
    let result = Mutex::new(helper.start(move || feedline::source::while_wanted(&flag, work)));
    let mut signal: Option<(PyErr, Instant)> = None;
    loop {
        let got =
            py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LISTEN_EVERY));
        match got {
            Ok(outcome) => {
                HELPER.set(Some(helper));
                return finish(outcome, signal.map(|(error, _)| error));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a helper thread is gone"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = py.check_signals() {
            cancelled.store(true, Ordering::Relaxed);
            stop();
            // A second Ctrl-C stops waiting at once.
            if signal.is_some() {
                return Err(error);
            }
            signal = Some((error, Instant::now()));
        }
        if let Some((error, _)) = signal.take_if(|(_, since)| since.elapsed() >= grace) {
            return Err(error);
        }
    }
}

/// The result, unless a signal arrived meanwhile; a panic becomes an error with its message.
fn finish<T>(outcome: Outcome<feedline::Result<T>>, signal: Option<PyErr>) -> PyResult<T> {
    match (signal, outcome) {
        (Some(signal), _) => Err(signal),
        (None, Ok(result)) => result.map_err(|error: Error| raise(&error)),
        (None, Err(panic)) => {
            Err(PyRuntimeError::new_err(format!("internal error, please report it: {panic}")))
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
