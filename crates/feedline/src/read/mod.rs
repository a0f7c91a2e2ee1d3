//! WHEN BYTES ARE FETCHED.
//!
//! The order is known beforehand, so bytes that are far away are asked for before a worker needs them: see
//! `README.md`. Results never depend on it; a worker that finds nothing prepared reads for itself.

mod budget;
mod coalesce;

use std::sync::Arc;

use self::budget::Budget;
use self::coalesce::{Need, Run, coalesce};
use crate::dataset::Dataset;
use crate::order::{Batches, Order};
use crate::sample::FieldSet;

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
}

impl Prefetch {
    /// Begins to ask for bytes, at most `budget_bytes` at a time. `None` for data that are near, or if there is no
    /// thread to be had: nothing depends on it.
    pub(crate) fn start(course: Course, budget_bytes: u64) -> Option<Self> {
        if !course.dataset.format().is_remote() {
            return None;
        }
        let budget = Arc::new(Budget::new(budget_bytes));
        let planner = Planner { course, budget: budget.clone(), window_bytes: budget_bytes / 2 };
        std::thread::Builder::new().name("feedline-plan".to_owned()).spawn(move || planner.run()).ok()?;
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

impl Planner {
    fn run(&self) {
        let (mut next, mut ahead) = (0, 1);
        while next < self.course.batches.count() {
            let (needs, end) = self.look(next, ahead);
            (next, ahead) = (end, (ahead * 2).min(MOST_BATCHES));
            for run in coalesce(needs, GAP, self.largest_request()) {
                if !self.request(run) {
                    return;
                }
            }
        }
    }

    /// What the batches from `first` on need: at most `count` of them, and not much more than a window of bytes.
    fn look(&self, first: u64, count: u64) -> (Vec<Need>, u64) {
        let last = (first + count).min(self.course.batches.count());
        let (mut needs, mut bytes, mut extents) = (Vec::new(), 0, Vec::new());
        for batch in first..last {
            let positions = self.course.batches.range(batch);
            let samples: Vec<u64> = positions.map(|position| self.course.order.at(position)).collect();
            self.course.dataset.format().prepare(&samples);
            for sample in samples {
                self.course.dataset.format().extents(sample, &self.course.fields, &mut extents);
                for extent in extents.drain(..) {
                    bytes += extent.range.end.saturating_sub(extent.range.start);
                    needs.push(Need { extent, batch });
                }
            }
            if bytes >= self.window_bytes {
                return (needs, batch + 1);
            }
        }
        (needs, last)
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
