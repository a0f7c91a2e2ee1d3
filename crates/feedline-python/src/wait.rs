//! Waiting without holding the interpreter, but still hearing Ctrl-C.
//!
//! A system call on a dead network file system never returns and cannot be broken off. So work that may take long runs on
//! a thread of its own, and whoever waits for it can leave: the thread then ends by itself, if ever, and touches nothing
//! of Python's.

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

/// Signals are looked at this often while we wait.
pub(crate) const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// After Ctrl-C, so long for reads that can be broken off to come back.
const GRACE: Duration = Duration::from_millis(400);

/// The same for writing, which stops at the end of a sample and leaves everything in order.
const WRITING_GRACE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

/// What a job gives: its result, or the text of its panic.
type Outcome<T> = Result<T, String>;

/// A thread that does one job after the other for one other thread.
struct Helper {
    jobs: Sender<Job>,
    process: u32,
}

thread_local! {
    /// Kept from call to call: a thread for each would cost more than reading a small sample.
    static HELPER: RefCell<Option<Helper>> = const { RefCell::new(None) };
}

impl Helper {
    /// This thread's helper, or a new one; an error if the system refuses the thread.
    fn get() -> std::io::Result<Helper> {
        match HELPER.take() {
            Some(helper) if helper.process == std::process::id() => return Ok(helper),
            // A forked child has the parent's helper only in name.
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
        // A helper that is gone drops the job, and the receiver hears of it.
        let _ = self.jobs.send(Box::new(job));
        receiver
    }
}

/// Runs `work`, which only reads, with the interpreter released. On a signal (Ctrl-C) its reads are given up; if it does
/// not come back at once it is left behind. The signal's exception is raised.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> feedline::Result<T> + Send + 'static,
) -> PyResult<T> {
    wait(py, GRACE, || {}, work)
}

/// The same for `work` that writes: on a signal `stop` is called, and it gets more time to come to an end.
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
    // Without a thread to be had, the work can still be done; only signals must wait.
    let Ok(helper) = Helper::get() else { return py.detach(work).map_err(|e| raise(&e)) };
    let given_up = Arc::new(AtomicBool::new(false));
    let flag = given_up.clone();
    // A receiver is not `Sync`, and only what is may cross into code that runs without the interpreter.
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
            given_up.store(true, Ordering::Relaxed);
            stop();
            // A second Ctrl-C means now.
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

/// The result, unless a signal came meanwhile; a panic becomes an error that says what it said.
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
