//! Whether local data are worth reading ahead: only if reads make their threads wait. Data in the page cache are read by the
//! worker that needs them, without a second thread.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::blocked::WaitCheck;
use crate::spec::ReadAhead;

/// So many waits among so many of the workers' own reads begin reading ahead.
const BEGIN: (u32, u32) = (3, 32);

/// Fewer waits among so many reads ahead end it.
const END: (u32, u32) = (2, 64);

/// Of so many reads of a worker one is checked; and each of the first, and each after one that waited.
const CHECK_EVERY: u32 = 16;
const FIRST: u32 = 8;

/// Kept by a loader over all its epochs.
#[derive(Debug)]
pub(crate) struct Switch {
    asked: ReadAhead,
    on: AtomicBool,
    own: Window,
    ahead: Window,
    reads: AtomicU64,
    waited: AtomicU64,
}

/// The last reads that were checked. Counts may be a little off when threads meet: nothing depends on exact ones.
#[derive(Debug, Default)]
struct Window {
    checked: AtomicU32,
    waited: AtomicU32,
}

impl Window {
    /// Adds a read; returns how many were checked and how many of them waited.
    fn add(&self, waited: bool) -> (u32, u32) {
        let checked = self.checked.fetch_add(1, Ordering::Relaxed) + 1;
        let add = u32::from(waited);
        (checked, self.waited.fetch_add(add, Ordering::Relaxed) + add)
    }

    fn clear(&self) {
        self.checked.store(0, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
    }
}

impl Switch {
    pub(crate) fn new(asked: ReadAhead) -> Self {
        Switch {
            asked,
            on: AtomicBool::new(matches!(asked, ReadAhead::Reads(_))),
            own: Window::default(),
            ahead: Window::default(),
            reads: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        }
    }

    /// What the user asked for.
    pub(crate) fn asked(&self) -> ReadAhead {
        self.asked
    }

    /// Whether local data are read ahead now.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// Reads ahead so far, and how many of them waited for storage.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.waited.load(Ordering::Relaxed))
    }

    /// Begins to check whether a worker's next read waits, if it is its turn. `turn` is the worker's own count.
    pub(super) fn begin_wait_check(&self, turn: &mut u32) -> Option<WaitCheck> {
        if self.asked != ReadAhead::Auto || self.is_on() {
            return None;
        }
        let due = *turn < FIRST || turn.is_multiple_of(CHECK_EVERY);
        *turn = turn.wrapping_add(1);
        due.then(WaitCheck::begin)
    }

    /// Ends the check of a worker's read. Returns whether that begins reading ahead.
    pub(super) fn end_wait_check(&self, check: &WaitCheck, turn: &mut u32) -> bool {
        self.note_own(check.has_waited(), turn)
    }

    fn note_own(&self, has_waited: bool, turn: &mut u32) -> bool {
        if has_waited {
            *turn = 0;
        }
        let (checked, waited) = self.own.add(has_waited);
        let begin = waited >= BEGIN.0;
        if begin || checked >= BEGIN.1 {
            self.own.clear();
        }
        begin && !self.on.swap(true, Ordering::SeqCst)
    }

    /// Notes a read ahead; too few that wait end it.
    pub(super) fn note_ahead(&self, has_waited: bool) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.waited.fetch_add(u64::from(has_waited), Ordering::Relaxed);
        let (checked, waited) = self.ahead.add(has_waited);
        if checked < END.1 {
            return;
        }
        self.ahead.clear();
        if self.asked == ReadAhead::Auto && waited < END.0 {
            self.on.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_wait_begin_it_and_reads_that_do_not_end_it() {
        let (switch, mut turn) = (Switch::new(ReadAhead::Auto), 100);
        for _ in 0..100 {
            assert!(!switch.note_own(false, &mut turn));
        }
        assert_eq!((switch.is_on(), turn), (false, 100));
        let begun: Vec<bool> = (0..4).map(|_| switch.note_own(true, &mut turn)).collect();
        assert_eq!((begun, turn), (vec![false, false, true, false], 0));
        assert!(switch.begin_wait_check(&mut turn).is_none(), "workers are no longer checked");
        for _ in 0..64 {
            switch.note_ahead(true);
        }
        assert!(switch.is_on());
        for _ in 0..64 {
            switch.note_ahead(false);
        }
        assert!(!switch.is_on());
        assert_eq!(switch.counts(), (128, 64));
    }

    #[test]
    fn a_wait_now_and_then_changes_nothing() {
        let (switch, mut turn) = (Switch::new(ReadAhead::Auto), 0);
        for read in 0..3200 {
            switch.note_own(read % 20 == 0, &mut turn);
        }
        assert!(!switch.is_on());
    }

    #[test]
    fn some_reads_are_looked_at_and_all_after_one_that_waited() {
        let (switch, mut turn) = (Switch::new(ReadAhead::Auto), 0);
        let checks: Vec<bool> = (0..32).map(|_| switch.begin_wait_check(&mut turn).is_some()).collect();
        assert!(checks[..8].iter().all(|check| *check));
        assert_eq!(checks[8..].iter().filter(|check| **check).count(), 1);
        switch.note_own(true, &mut turn);
        assert!(switch.begin_wait_check(&mut turn).is_some());
    }

    #[test]
    fn what_the_user_asked_for_is_not_changed() {
        let (always, never) = (Switch::new(ReadAhead::Reads(4)), Switch::new(ReadAhead::Off));
        (0..1000).for_each(|_| always.note_ahead(false));
        assert!(always.is_on() && always.begin_wait_check(&mut 0).is_none());
        assert!(!never.is_on() && never.begin_wait_check(&mut 0).is_none());
    }
}
