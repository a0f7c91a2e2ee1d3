//! WHEN BYTES ARE FETCHED.
//!
//! The order is known beforehand, so remote bytes are requested before a worker needs them: see `README.md`. Results
//! never depend on it; a worker that finds nothing prepared reads the bytes itself.

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

/// Unneeded bytes between two reads that cost less than a second request: about a millisecond of a fast network.
const GAP: u64 = 64 << 10;

/// Bytes held from a store that answers at once, for an order without windows. Memory that is used again soon stays in the
/// CPU caches: in order from a server at 2.8 GB/s, 57 MB instead of 256 take 0.36 instead of 0.48 CPU ms/MB.
const NEAR_BYTES: u64 = 57 << 20;

/// Largest number of batches planned together.
const MOST_BATCHES: u64 = 1024;

/// Reads ahead for one pass over an epoch. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Prefetch {
    budget: Arc<Budget>,
}

/// The data set and the order to read it in.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) dataset: Dataset,
    /// All fields that will be read.
    pub(crate) fields: FieldSet,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    /// Set when the bytes are no longer wanted.
    pub(crate) given_up: Arc<AtomicBool>,
}

impl Prefetch {
    /// Starts to request bytes, at most `budget_bytes` at a time. `None` for local data, or if no thread could be
    /// started: loading works without it.
    pub(crate) fn start(course: Course, budget_bytes: u64) -> Option<Self> {
        if !course.dataset.format().is_remote() {
            return None;
        }
        // A source's buffers may be an eighth larger than the request.
        let most_bytes = budget_bytes / 9 * 8;
        // A block shuffle needs two windows at once.
        let has_windows = course.order.stretch_end(0).is_some();
        let held_bytes = if has_windows { most_bytes } else { most_bytes / 2 };
        let budget = Arc::new(Budget::new(held_bytes));
        let planner = Planner { course, budget: budget.clone(), held_bytes, window_bytes: held_bytes / 2 };
        // Workers may wait for an index that the planner reads, so it must stop when they do.
        let run = move || while_wanted(&planner.course.given_up, || planner.run());
        std::thread::Builder::new().name("feedline-plan".to_owned()).spawn(run).ok()?;
        Some(Prefetch { budget })
    }

    /// Notes that batch `number` needs nothing more.
    pub(crate) fn seal(&self, number: u64) {
        self.budget.seal(number);
    }

    /// Ends everything at once; reads that wait for staged bytes fail.
    pub(crate) fn stop(&self) {
        self.budget.close();
    }

    /// Largest number of bytes held at once.
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
    /// The most that may be held.
    held_bytes: u64,
    window_bytes: u64,
}

/// Progress of planning: everything before position `done` of batch `batch`'s share is planned.
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
            // A stretch is fetched as whole blocks only if all of it is planned together.
            ahead = if stretch { MOST_BATCHES } else { (ahead * 2).min(MOST_BATCHES) };
            let runs = coalesce(needs, GAP, self.largest_request());
            self.budget.set_limit(self.worth_holding(&runs, stretch));
            for run in runs {
                if !self.request(run) {
                    return;
                }
            }
        }
    }

    /// Plans what comes next: at most `count` batches, not much more than a window of bytes, and not past the end of a
    /// stretch, even in the middle of a batch. Also returns where it ended, and whether the order has stretches.
    fn look(&self, from: Cursor, count: u64) -> (Vec<Need>, Cursor, bool) {
        let Course { order, batches, .. } = &self.course;
        let last = (from.batch + count).min(batches.count());
        let stop = order.stretch_end(batches.range(from.batch).start + from.done);
        // The next stretch is fetched while this one is used: each may have half of the budget, and a little more
        // because blocks differ in length.
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

    /// Adds the needs of some positions of a batch; returns their bytes.
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

    /// How much to hold while these runs are requested: as much as is allowed, but from a near store only two windows of
    /// a block shuffle, or what keeps the network busy.
    fn worth_holding(&self, runs: &[Run], stretch: bool) -> u64 {
        let object = self.course.dataset.format().object(0);
        if !object.is_some_and(|(source, _)| source.is_near()) {
            return self.held_bytes;
        }
        let window: u64 = runs.iter().map(|run| run.range.end - run.range.start).sum();
        let worth = if stretch { NEAR_BYTES.max(window.saturating_mul(2)) } else { NEAR_BYTES };
        worth.min(self.held_bytes)
    }

    fn largest_request(&self) -> u64 {
        let object = self.course.dataset.format().object(0);
        object.map_or(8 << 20, |(source, _)| source.largest_request())
    }

    /// Requests one run when the budget allows; returns false if planning was stopped.
    fn request(&self, mut run: Run) -> bool {
        run.batches.retain(|batch| !self.budget.is_sealed(*batch));
        let Some(first) = run.batches.first() else { return true };
        let Some((source, name)) = self.course.dataset.format().object(run.object) else { return true };
        let bytes = run.range.end - run.range.start;
        // A value larger than the window is read by its worker, in parallel parts, straight into the batch.
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
