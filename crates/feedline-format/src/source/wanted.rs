//! Cancels waiting: a closed epoch must not wait for a stuck network, and an interrupted `open` must not either.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

thread_local! {
    static CANCEL_FLAG: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`. Soon after `cancelled` is set, its reads of remote sources and its long scans end with an error.
///
/// ```
/// # use std::sync::{Arc, atomic::AtomicBool};
/// let cancelled = Arc::new(AtomicBool::new(false));
/// use feedline_format::source::{Storage, resolve, while_wanted};
/// let found = while_wanted(&cancelled, || resolve(&["/no/such/*.tar".to_owned()], &Storage::default()));
/// assert!(found.is_err());
/// ```
pub fn while_wanted<T>(cancelled: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    with_flag(Some(cancelled.clone()), work)
}

/// Runs `work` on this thread on behalf of another thread, whose [`cancel_flag`] is passed in.
pub(crate) fn with_flag<T>(flag: Option<Arc<AtomicBool>>, work: impl FnOnce() -> T) -> T {
    let _before = RestoreFlag(CANCEL_FLAG.replace(flag));
    work()
}

/// The thread's previous flag; restored also when the work panics.
struct RestoreFlag(Option<Arc<AtomicBool>>);

impl Drop for RestoreFlag {
    fn drop(&mut self) {
        CANCEL_FLAG.set(self.0.take());
    }
}

/// This thread's cancel flag, if it has one.
pub(crate) fn cancel_flag() -> Option<Arc<AtomicBool>> {
    CANCEL_FLAG.with_borrow(Clone::clone)
}

/// Whether this thread's work was cancelled.
pub(super) fn is_cancelled() -> bool {
    CANCEL_FLAG.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}

/// Returns an error once this thread's work is cancelled; for long loops.
pub fn check_wanted() -> Result<()> {
    if is_cancelled() { Err(Error::Closed("cancelled before the end".to_owned())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_belongs_to_its_thread_can_be_passed_on_and_survives_a_panic() {
        let flag = Arc::new(AtomicBool::new(true));
        assert!(check_wanted().is_ok());
        while_wanted(&flag, || {
            assert!(check_wanted().is_err());
            let here = cancel_flag();
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(check_wanted().is_ok()));
                scope.spawn(|| with_flag(here, || assert!(check_wanted().is_err())));
            });
        });
        let panicked = std::panic::catch_unwind(|| while_wanted(&flag, || panic!("on purpose")));
        assert!(panicked.is_err() && check_wanted().is_ok());
    }
}
