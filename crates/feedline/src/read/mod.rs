//! WHEN BYTES ARE FETCHED.
//!
//! The order is known beforehand, so remote bytes, and local ones on slow storage, are requested before a worker needs
//! them: see `README.md`. Results never depend on it; a worker that finds nothing prepared reads the bytes itself.

mod blocked;
mod budget;
mod coalesce;
mod lanes;
mod probe;
mod switch;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use self::blocked::WaitCheck;
use self::budget::Budget;
use self::coalesce::{Need, Run, coalesce};
use self::lanes::Lanes;
pub use self::probe::{StorageProbe, probe_storage};
pub(crate) use self::switch::Switch;
use crate::dataset::Dataset;
use crate::order::{Batches, Order};
use crate::sample::FieldSet;
use crate::source::{start_thread, while_wanted};
use crate::spec::ReadAhead;

/// Unneeded bytes between two reads that cost less than a second request: about a millisecond of a fast network.
const GAP: u64 = 64 << 10;

/// Bytes held from a store that answers at once, for an order without windows. Memory that is used again soon stays in the
/// CPU caches: in order from a server at 2.8 GB/s, 57 MB instead of 256 take 0.36 instead of 0.48 CPU ms/MB.
const NEAR_BYTES: u64 = 57 << 20;

/// Rows after the one whose read was slow that are left to the workers when reading ahead begins: they are on their way.
const LEFT_OUT: u64 = 8;

/// Largest number of batches planned together.
const MOST_BATCHES: u64 = 1024;

/// Threads for local reads: so many for each worker, within these limits. At 5 ms a read, a worker that decodes 2,000
/// images/s needs ten; the rest is for slower storage.
const LANES_EACH: usize = 32;
const LANES: (usize, usize) = (64, 512);

/// Reads ahead for one pass over an epoch. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Prefetch {
    planner: Arc<Planner>,
}

/// The data set and the order to read it in.
#[derive(Debug)]
pub(crate) struct PrefetchData {
    pub(crate) dataset: Dataset,
    /// All fields that will be read.
    pub(crate) fields: FieldSet,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    /// Set when the bytes are no longer wanted.
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// How much to read ahead, and whether to.
#[derive(Debug)]
pub(crate) struct PrefetchLimits {
    /// Bytes that may be held.
    pub(crate) bytes: u64,
    /// Worker threads.
    pub(crate) workers: usize,
    pub(crate) switch: Arc<Switch>,
}

impl Prefetch {
    /// Begins to request remote bytes, and local ones as soon as the switch is on. `None` if the data set cannot be read
    /// ahead, or if the user does not want it.
    pub(crate) fn start(data: PrefetchData, limits: PrefetchLimits) -> Option<Self> {
        let PrefetchLimits { bytes, workers, switch } = limits;
        let format = data.dataset.format();
        if switch.asked() == ReadAhead::Off || format.object_count() == 0 || bytes == 0 {
            return None;
        }
        let remote = format.is_remote();
        // A source's buffers may be an eighth larger than the request.
        let most_bytes = bytes / 9 * 8;
        // A block shuffle needs two windows at once.
        let has_windows = data.order.stretch_end(0).is_some();
        let held_bytes = if has_windows { most_bytes } else { most_bytes / 2 };
        let plan_bytes =
            if has_windows || remote { held_bytes / 2 } else { (held_bytes / 2).min(NEAR_BYTES) };
        let lanes = match switch.asked() {
            ReadAhead::Reads(count) => count as usize,
            _ => (LANES_EACH * workers).clamp(LANES.0, LANES.1),
        };
        let planner = Arc::new(Planner {
            data,
            remote,
            budget: Budget::new(held_bytes),
            lanes: Lanes::new(lanes, switch.clone()),
            switch,
            held_bytes,
            plan_bytes,
            largest_bytes: held_bytes / 2,
            begun: AtomicBool::new(false),
        });
        if remote || planner.switch.is_on() {
            planner.begin(Cursor { batch: 0, done: 0 });
        }
        Some(Prefetch { planner })
    }

    /// Notes that batch `number` needs nothing more.
    pub(crate) fn seal(&self, number: u64) {
        self.planner.budget.seal(number);
    }

    /// Ends everything at once; reads that wait for staged bytes fail.
    pub(crate) fn stop(&self) {
        self.planner.budget.close();
        self.planner.lanes.close();
    }

    /// Largest number of bytes held at once.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.planner.budget.peak_bytes()
    }

    /// Begins to check whether a worker's next read waits, now and then.
    pub(crate) fn begin_wait_check(&self, turn: &mut u32) -> Option<WaitCheck> {
        self.planner.switch.begin_wait_check(turn)
    }

    /// Ends the check of the read for `row` of `batch`. If reads turn out to wait for storage, those after it are done ahead.
    pub(crate) fn end_wait_check(&self, check: &WaitCheck, turn: &mut u32, batch: u64, row: u64) {
        if self.planner.switch.end_wait_check(check, turn) {
            // The other workers have begun with the next rows.
            self.planner.begin(Cursor { batch, done: row + LEFT_OUT });
        }
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
struct Planner {
    data: PrefetchData,
    /// Whether some of the data are remote: these are always read ahead.
    remote: bool,
    budget: Budget,
    lanes: Lanes,
    switch: Arc<Switch>,
    /// The most that may be held.
    held_bytes: u64,
    /// About so many bytes are planned together.
    plan_bytes: u64,
    /// Longer values are read by their worker, in parallel parts, straight into the batch.
    largest_bytes: u64,
    /// Whether a thread is planning, or everything is planned.
    begun: AtomicBool,
}

/// Progress of planning: everything before position `done` of batch `batch`'s share is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    batch: u64,
    done: u64,
}

impl Planner {
    /// Starts a thread that plans from `cursor` on, unless there is one. Loading works without it.
    fn begin(self: &Arc<Self>, cursor: Cursor) {
        if self.begun.swap(true, Ordering::SeqCst) {
            return;
        }
        let planner = self.clone();
        // Workers may wait for an index that the planner reads, so it must stop when they do.
        let run = move || while_wanted(&planner.data.cancelled, || planner.run(cursor));
        let thread = std::thread::Builder::new().name("feedline-plan".to_owned());
        if start_thread(|| thread.spawn(run)).is_err() {
            self.begun.store(false, Ordering::SeqCst);
        }
    }

    /// Ends planning; a worker whose reads wait begins again. False if one wanted to at this very moment.
    fn rest(&self) -> bool {
        self.begun.store(false, Ordering::SeqCst);
        !self.is_wanted() || self.begun.swap(true, Ordering::SeqCst)
    }

    /// Whether reading ahead is still worth it.
    fn is_wanted(&self) -> bool {
        self.remote || self.switch.is_on()
    }

    fn run(&self, from: Cursor) {
        let (mut cursor, mut ahead) = (self.at_a_row(from), 1);
        while cursor.batch < self.data.batches.count() {
            let (needs, end, stretch) = self.plan_next(cursor, ahead);
            cursor = end;
            // A stretch is fetched as whole blocks only if all of it is planned together.
            ahead = if stretch { MOST_BATCHES } else { (ahead * 2).min(MOST_BATCHES) };
            let runs = coalesce(needs, GAP, self.largest_request());
            self.budget.set_limit(self.worth_holding(&runs, stretch));
            for run in runs {
                if !self.is_wanted() && self.rest() {
                    return;
                }
                if !self.request(run) {
                    return;
                }
            }
        }
        self.lanes.finish();
    }

    /// The same place, or the beginning of the batch that follows it.
    fn at_a_row(&self, mut cursor: Cursor) -> Cursor {
        while cursor.batch < self.data.batches.count() {
            let rows = self.data.batches.range(cursor.batch);
            if cursor.done < rows.end - rows.start {
                return cursor;
            }
            cursor = Cursor { batch: cursor.batch + 1, done: cursor.done - (rows.end - rows.start) };
        }
        cursor
    }

    /// Plans what comes next: at most `count` batches, not much more than a window of bytes, and not past the end of a
    /// stretch, even in the middle of a batch. Also returns where it ended, and whether the order has stretches.
    fn plan_next(&self, from: Cursor, count: u64) -> (Vec<Need>, Cursor, bool) {
        let PrefetchData { order, batches, .. } = &self.data;
        let last = (from.batch + count).min(batches.count());
        let stop = order.stretch_end(batches.range(from.batch).start + from.done);
        // The next stretch is fetched while this one is used: each may have half of the budget, and a little more
        // because blocks differ in length.
        let most = if stop.is_some() { self.plan_bytes / 4 * 5 } else { self.plan_bytes };
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
        let PrefetchData { dataset, fields, order, .. } = &self.data;
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

    /// How much to hold while these runs are requested: as much as is allowed, but from local storage and a near store only
    /// two windows of a block shuffle, or what keeps them busy.
    fn worth_holding(&self, runs: &[Run], stretch: bool) -> u64 {
        let object = self.data.dataset.format().object(0);
        if self.remote && !object.is_some_and(|(source, _)| source.is_near()) {
            return self.held_bytes;
        }
        let window: u64 = runs.iter().map(|run| run.range.end - run.range.start).sum();
        let worth = if stretch { NEAR_BYTES.max(window.saturating_mul(2)) } else { NEAR_BYTES };
        worth.min(self.held_bytes)
    }

    fn largest_request(&self) -> u64 {
        let object = self.data.dataset.format().object(0);
        object.map_or(8 << 20, |(source, _)| source.largest_request())
    }

    /// Requests one run when the budget allows; returns false if planning was stopped.
    fn request(&self, mut run: Run) -> bool {
        run.batches.retain(|batch| !self.budget.is_sealed(*batch));
        let Some(first) = run.batches.first() else { return true };
        let Some((source, name)) = self.data.dataset.format().object(run.object) else { return true };
        let bytes = run.range.end - run.range.start;
        let local = !source.is_remote();
        if bytes > self.largest_bytes || (local && !self.switch.is_on()) {
            return true;
        }
        if !self.budget.admit(bytes, *first) {
            return false;
        }
        let seen = self.data.dataset.format().seen(run.object);
        let ticket = if local {
            let ahead = source.read_ahead(&name, run.range, seen);
            ahead.and_then(|ahead| self.lanes.submit(ahead.job).then_some(ahead.ticket))
        } else {
            source.prefetch(&name, run.range, seen)
        };
        if let Some(ticket) = ticket {
            self.budget.hold(bytes, &run.batches, ticket);
        }
        true
    }
}
