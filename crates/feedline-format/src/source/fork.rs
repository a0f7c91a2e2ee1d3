//! Forks. A child has only the thread that forked, but all locks as they were: one that another thread held is held for
//! ever. What belongs to one data set is opened anew there; what all share is put in order here.

use std::cell::RefCell;
use std::sync::MutexGuard;

use super::{memory, remote};

/// The locks of what all data sets of a process share.
struct Held {
    _memory: memory::Guard,
    _runtime: MutexGuard<'static, ()>,
}

thread_local! {
    /// Between `before_fork` and `after_fork`, which the same thread calls.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// To be called by the thread that forks, before it does: waits until no other thread is changing what all share.
pub fn before_fork() {
    // The same order in every thread.
    let held = Held { _memory: memory::hold(), _runtime: remote::hold() };
    HELD.with(|place| *place.borrow_mut() = Some(held));
}

/// To be called afterwards, in the parent and in the child.
pub fn after_fork() {
    HELD.with(|place| *place.borrow_mut() = None);
}
