//! Forks. A child has only the thread that forked, but all locks in the state they were in: a lock that another
//! thread held is never released. What belongs to one data set is opened again in the child; what all data sets share
//! is handled here.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{memory, remote};

/// The locks of what all data sets of a process share.
struct ForkGuard {
    _memory: memory::Guard,
    _runtime: MutexGuard<'static, ()>,
    _starting: MutexGuard<'static, ()>,
}

/// Held while a thread starts, and while the process forks.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a thread, but not while another thread forks: glibc frees the thread-local memory of a reused stack outside of
/// its own locks, so a child of that moment would free the same memory again when it starts a thread.
pub fn start_thread<T>(start: impl FnOnce() -> T) -> T {
    let _starting = hold_starts();
    start()
}

fn hold_starts() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Set between `before_fork` and `after_fork`, which the same thread calls.
    static FORK_GUARD: RefCell<Option<ForkGuard>> = const { RefCell::new(None) };
}

/// To be called by the thread that forks, before it does. Waits until no other thread is changing shared state.
pub fn before_fork() {
    // Always in this order, to avoid a deadlock.
    let held = ForkGuard { _memory: memory::hold(), _runtime: remote::hold(), _starting: hold_starts() };
    FORK_GUARD.with(|place| *place.borrow_mut() = Some(held));
}

/// To be called after the fork, in the parent and in the child.
pub fn after_fork() {
    FORK_GUARD.with(|place| *place.borrow_mut() = None);
}
