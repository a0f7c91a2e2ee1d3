//! Waiting without holding the interpreter, but still hearing Ctrl-C.

use std::time::Duration;

use pyo3::prelude::*;

/// Signals are looked at this often while we wait.
pub(crate) const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// Runs `work` on a thread of its own with the interpreter released, listening for Ctrl-C; on a signal, `stop` is called
/// once and the signal's exception is raised as soon as `work` has come back.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send,
    stop: impl Fn() + Sync,
) -> PyResult<T> {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // A receiver is not `Sync`, and only what is may cross into code that runs without the interpreter.
        let receiver = std::sync::Mutex::new(receiver);
        scope.spawn(move || {
            let _ = sender.send(work());
        });
        let mut signal = None;
        loop {
            let got = py.detach(|| {
                let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                receiver.recv_timeout(LISTEN_EVERY)
            });
            match got {
                Ok(result) => return signal.map_or(Ok(result), Err),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(pyo3::exceptions::PyRuntimeError::new_err(
                        "internal error: the work panicked",
                    ));
                }
            }
            if let Err(error) = py.check_signals() {
                stop();
                signal.get_or_insert(error);
            }
        }
    })
}
