//! WHEN BYTES ARE FETCHED.
//!
//! The order is known beforehand, so bytes that are far away are asked for before a worker needs them: see
//! `README.md`. Results never depend on it; a worker that finds nothing prepared reads for itself.

mod budget;
mod coalesce;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use self::budget::Budget;
use self::coalesce::{Need, Run, coalesce};
use crate::dataset::Dataset;
use crate::order::{Batches, Order};
use crate::sample::FieldSet;
use crate::source::while_wanted;

/// Bytes that nobody needs but that are cheaper to fetch than to ask around: a millisecond or so of a fast network.
const GAP: u64 = 64 << 10;

/// Batches looked at together at most.
const MOST_BATCHES: u64 = 1024;

/// Reads ahead for one pass over an epoch. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Prefetch {
    budget: Arc<Budget>,
}

/// What there is to read, and in which order.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) dataset: Dataset,
    /// Every field that will be read.
    pub(crate) fields: FieldSet,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    /// Set when nobody wants the bytes any more.
    pub(crate) given_up: Arc<AtomicBool>,
}

impl Prefetch {
    /// Begins to ask for bytes, at most `budget_bytes` at a time. `None` for data that are near, or if there is no
    /// thread to be had: nothing depends on it.
    pub(crate) fn start(course: Course, budget_bytes: u64) -> Option<Self> {
        if !course.dataset.format().is_remote() {
            return None;
        }
        // A source's buffers may be an eighth larger than what is asked for.
        let most_bytes = budget_bytes / 9 * 8;
        // Two windows of a block shuffle are needed at once; elsewhere, memory that is used again soon stays in the caches.
        let has_windows = course.order.stretch_end(0).is_some();
        let held_bytes = if has_windows { most_bytes } else { most_bytes / 2 };
        let budget = Arc::new(Budget::new(held_bytes));
        let planner = Planner { course, budget: budget.clone(), window_bytes: held_bytes / 2 };
        // Workers may wait for an index that the planner reads: it must give up when they do.
        let run = move || while_wanted(&planner.course.given_up, || planner.run());
        std::thread::Builder::new().name("feedline-plan".to_owned()).spawn(run).ok()?;
        Some(Prefetch { budget })
    }

    /// Batch `number` needs nothing more.
    pub(crate) fn seal(&self, number: u64) {
        self.budget.seal(number);
    }

    /// Ends everything at once; reads that wait for staged bytes fail.
    pub(crate) fn stop(&self) {
        self.budget.close();
    }

    /// The most bytes that were held at once.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.budget.peak_bytes()
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Planner {
    course: Course,
    budget: Arc<Budget>,
    window_bytes: u64,
}

/// How far planning has come: everything before position `done` of batch `batch`'s share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    batch: u64,
    done: u64,
}

impl Planner {
    fn run(&self) {
        let (mut cursor, mut ahead) = (Cursor { batch: 0, done: 0 }, 1);
        while cursor.batch < self.course.batches.count() {
            let (needs, end, stretch) = self.look(cursor, ahead);
            cursor = end;
            // A stretch's blocks are whole only if all of it is looked at together.
            ahead = if stretch { MOST_BATCHES } else { (ahead * 2).min(MOST_BATCHES) };
            for run in coalesce(needs, GAP, self.largest_request()) {
                if !self.request(run) {
                    return;
                }
            }
        }
    }

    /// What comes next: at most `count` batches of it, not much more than a window of bytes, and not past the end of a
    /// stretch, even in the middle of a batch. Also where it ended, and whether the order has stretches.
    fn look(&self, from: Cursor, count: u64) -> (Vec<Need>, Cursor, bool) {
        let Course { order, batches, .. } = &self.course;
        let last = (from.batch + count).min(batches.count());
        let stop = order.stretch_end(batches.range(from.batch).start + from.done);
        // The next stretch is fetched while this one is used: each may have half of the budget, and a little more since
        // blocks are not all of one length.
        let most = if stop.is_some() { self.window_bytes / 4 * 5 } else { self.window_bytes };
        let (mut needs, mut bytes) = (Vec::new(), 0);
        let mut done = from.done;
        for batch in from.batch..last {
            let positions = batches.range(batch);
            let start = positions.start + done;
            let end = stop.map_or(positions.end, |stop| positions.end.min(stop.max(start)));
            bytes += self.add_needs(start..end, batch, &mut needs);
            if end < positions.end {
                return (needs, Cursor { batch, done: end - positions.start }, true);
            }
            done = 0;
            if bytes >= most {
                return (needs, Cursor { batch: batch + 1, done }, stop.is_some());
            }
        }
        (needs, Cursor { batch: last, done }, stop.is_some())
    }

    /// The needs of some positions of a batch; gives their bytes.
    fn add_needs(&self, positions: Range<u64>, batch: u64, needs: &mut Vec<Need>) -> u64 {
        let Course { dataset, fields, order, .. } = &self.course;
        let samples: Vec<u64> = positions.map(|position| order.at(position)).collect();
        dataset.format().prepare(&samples);
        let (mut bytes, mut extents) = (0, Vec::new());
        for sample in samples {
            dataset.format().extents(sample, fields, &mut extents);
            for extent in extents.drain(..) {
                bytes += extent.range.end.saturating_sub(extent.range.start);
                needs.push(Need { extent, batch });
            }
        }
        bytes
    }

    fn largest_request(&self) -> u64 {
        let object = self.course.dataset.format().object(0);
        object.map_or(8 << 20, |(source, _)| source.largest_request())
    }

    /// Asks for one run when the budget allows; false if it is all over.
    fn request(&self, mut run: Run) -> bool {
        run.batches.retain(|batch| !self.budget.is_sealed(*batch));
        let Some(first) = run.batches.first() else { return true };
        let Some((source, name)) = self.course.dataset.format().object(run.object) else { return true };
        let bytes = run.range.end - run.range.start;
        // A value larger than the window is read by its worker, in parallel parts, straight to where it belongs.
        if !source.is_remote() || bytes > self.window_bytes {
            return true;
        }
        if !self.budget.admit(bytes, *first) {
            return false;
        }
        if let Some(ticket) = source.prefetch(&name, run.range, self.course.dataset.format().seen(run.object))
        {
            self.budget.hold(bytes, &run.batches, ticket);
        }
        true
    }
}
