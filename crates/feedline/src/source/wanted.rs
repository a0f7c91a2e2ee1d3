//! Whether anybody still wants what a thread is waiting for: a closed epoch must not wait for a network that is stuck.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static GIVEN_UP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`; reads of remote sources in it end with an error soon after `given_up` is set.
pub(crate) fn while_wanted<T>(given_up: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let before = GIVEN_UP.replace(Some(given_up.clone()));
    let done = work();
    GIVEN_UP.set(before);
    done
}

/// The flag that says so for this thread, if it has one.
pub(super) fn given_up() -> Option<Arc<AtomicBool>> {
    GIVEN_UP.with_borrow(Clone::clone)
}

/// Whether this thread's work is no longer wanted.
pub(super) fn is_given_up() -> bool {
    GIVEN_UP.with_borrow(|flag| flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)))
}
