//! WHO DOES IT.
//!
//! Options → [`Plan`] (checked, sizes known) → [`Loader`] → [`Epoch`] (running threads, batches in order).
//!
//! A loader may run several epochs at once (nested loops); each has a crew of threads of its own. Dropping an epoch stops
//! its crew within one sample's time; the threads stay for the next epoch unless `persistent_workers` is off.

mod plan;
mod sequence;
mod stats;
mod tune;
mod workers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{Batch, ColumnSpec, Pool, Ring, Sealed, Take};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::order::{Batches, Identity, Order, State};
use crate::read::{Course, Prefetch};
use crate::spec::{LoaderOptions, OnError};
use plan::Plan;
use stats::Totals;
use tune::{Limits, Seen, Setting};
use workers::{Crew, Flight};

pub use sequence::mix;
pub use stats::{MemoryStats, StageSeconds, Stats};

/// Failures kept for [`Loader::errors`]; the count goes on beyond.
const ERRORS_KEPT: usize = 10_000;

/// Batches of a data set. Share it between threads by reference; every [`epoch`](Self::epoch) is independent.
#[derive(Debug)]
pub struct Loader {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dataset: Dataset,
    plan: Arc<Plan>,
    pool: Pool,
    totals: Totals,
    state: Mutex<Crews>,
    process: u32,
}

#[derive(Debug, Default)]
struct Crews {
    /// Crews without work.
    idle: Vec<Crew>,
    /// Running epochs, to be stopped by `close`.
    running: Vec<std::sync::Weak<Flight>>,
    errors: Vec<Error>,
    /// Bad samples since the last good one.
    streak: u64,
    closed: bool,
    /// Threads and read-ahead as `auto_tune` has found them, and what was seen then.
    tuned: Option<(Setting, Seen)>,
}

impl Loader {
    /// Checks `options` against `dataset`. No thread starts before the first epoch.
    pub fn new(dataset: Dataset, options: LoaderOptions) -> Result<Self> {
        let plan = Arc::new(Plan::new(&dataset, options)?);
        // What the ring, the user and the seal step can have at once, per column; more is freed when it comes back.
        let pool = Pool::new((plan.depth + 3) * plan.columns.len());
        let shared = Shared {
            dataset,
            plan,
            pool,
            totals: Totals::default(),
            state: Mutex::default(),
            process: std::process::id(),
        };
        Ok(Loader { shared: Arc::new(shared) })
    }

    /// Number of batches in an epoch.
    pub fn len(&self) -> u64 {
        self.shared.plan.whole_epoch().count()
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The settings in force.
    pub fn options(&self) -> &LoaderOptions {
        &self.shared.plan.options
    }

    /// What batches will consist of.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.shared.plan.columns
    }

    /// The data set.
    pub fn dataset(&self) -> &Dataset {
        &self.shared.dataset
    }

    /// Starts epoch `number` from its beginning.
    pub fn epoch(&self, number: u64) -> Result<Epoch> {
        self.epoch_from(number, 0)
    }

    /// Starts epoch `number` at global position `first`: where `first` samples were had by all ranks together.
    pub fn epoch_from(&self, number: u64, first: u64) -> Result<Epoch> {
        let (order, batches) = self.shared.plan.epoch(number, first)?;
        self.begin(number, order, batches)
    }

    /// Starts epoch `number` at global position `first`, with `list` as its order: for
    /// [`Sampler::PerEpoch`](crate::Sampler::PerEpoch).
    pub fn epoch_in_order(&self, number: u64, first: u64, list: Vec<u64>) -> Result<Epoch> {
        let (order, batches) = self.shared.plan.epoch_in_order(number, first, list)?;
        self.begin(number, order, batches)
    }

    fn begin(&self, number: u64, order: Order, batches: Batches) -> Result<Epoch> {
        self.shared.check_process()?;
        let plan = &self.shared.plan;
        let setting = self.shared.tune();
        // Batches with fewer rows leave some of these unused: see `Worker::fly`.
        let rows = batches.count() * batches.batch_size;
        let course = Course {
            dataset: self.shared.dataset.clone(),
            fields: plan.stored_fields(),
            order: order.clone(),
            batches: batches.clone(),
        };
        let ahead = Prefetch::start(course, plan.ahead_bytes());
        let flight = Arc::new(Flight {
            dataset: self.shared.dataset.clone(),
            plan: plan.clone(),
            pool: self.shared.pool.clone(),
            ring: Ring::new(setting.depth, batches.batch_size, rows),
            order,
            batches,
            epoch: number,
            ahead,
            given_up: Arc::default(),
        });
        let crew = self.shared.crew(&flight)?;
        crew.start(&flight);
        Ok(Epoch { shared: self.shared.clone(), flight, crew: Some(crew), last: Instant::now(), received: 0 })
    }

    /// Goes on where `state` was taken, on any number of ranks; an error lists what is not as it was.
    pub fn resume(&self, state: &State) -> Result<Epoch> {
        state.check(&self.identity())?;
        self.epoch_from(state.epoch, state.samples)
    }

    /// What samples, order and values depend on: what a saved state must agree with.
    pub fn identity(&self) -> Identity {
        self.shared.plan.identity(&self.shared.dataset)
    }

    /// New weights for a mixture, one per data set, for epochs begun from now on.
    pub fn set_weights(&self, weights: &[f64]) -> Result<()> {
        self.shared.plan.set_weights(weights)
    }

    /// What was done so far, and what limits the speed.
    pub fn stats(&self) -> Stats {
        let plan = &self.shared.plan;
        let batches = plan.whole_epoch();
        let pool = self.shared.pool.stats();
        let setting = self.shared.setting();
        let mut stats =
            self.shared.totals.sum(setting.threads, setting.depth, pool, batches.dropped(), batches.padded());
        let first = self.shared.dataset.format().object(0);
        stats.warnings = first.map_or_else(Vec::new, |(source, _)| source.warnings());
        stats
    }

    /// The samples that could not be read or decoded so far (the first ten thousand).
    pub fn errors(&self) -> Vec<Error> {
        self.shared.state().errors.clone()
    }

    /// Stops all epochs and threads. Idempotent; batches already delivered stay valid.
    pub fn close(&self) {
        if self.shared.process != std::process::id() {
            return;
        }
        let (running, idle) = {
            let mut state = self.shared.state();
            state.closed = true;
            (std::mem::take(&mut state.running), std::mem::take(&mut state.idle))
        };
        for flight in running.iter().filter_map(std::sync::Weak::upgrade) {
            flight.close();
        }
        drop(idle);
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Crews> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::Closed(
            "this loader was made before a fork; its threads exist only in the parent process\n\
             hint: make the loader in the child, or use the spawn or forkserver start method"
                .to_owned(),
        ))
    }

    /// Threads and batches in flight, as they are now.
    fn setting(&self) -> Setting {
        let planned = Setting { threads: self.plan.threads, depth: self.plan.depth };
        self.state().tuned.map_or(planned, |(setting, _)| setting)
    }

    /// The setting for an epoch that begins: with `auto_tune`, a step from the last one.
    fn tune(&self) -> Setting {
        let now = self.setting();
        if !self.plan.options.auto_tune {
            return now;
        }
        let seen = self.totals.seen();
        let limits = Limits { cores: plan::usable_cores(), depth: self.plan.most_depth() };
        let mut state = self.state();
        let before = state.tuned.map_or_else(Seen::default, |(_, seen)| seen);
        let next = tune::next(now, seen.since(before), limits);
        if next.threads != now.threads {
            // Crews of another size; their threads have nothing to do.
            drop(std::mem::take(&mut state.idle));
        }
        state.tuned = Some((next, seen));
        next
    }

    /// An idle crew, or a new one.
    fn crew(&self, flight: &Arc<Flight>) -> Result<Crew> {
        let threads = self.setting().threads;
        let mut state = self.state();
        if state.closed {
            return Err(Error::Closed("the loader is closed".to_owned()));
        }
        state.running.retain(|flight| flight.strong_count() > 0);
        state.running.push(Arc::downgrade(flight));
        match state.idle.pop() {
            Some(crew) => Ok(crew),
            None => Crew::new(threads, self.plan.options.max_pixels, &self.totals),
        }
    }

    /// Books a batch's failures; an error if they are too many.
    fn book(&self, sealed: &Sealed) -> Result<()> {
        if sealed.failures.is_empty() {
            self.state().streak = 0;
            return Ok(());
        }
        let count = sealed.failures.len() as u64;
        let mut replaced: Vec<usize> = sealed.failures.iter().map(|(row, _)| *row).collect();
        replaced.dedup();
        let replaced = replaced.len() as u64 - sealed.lost as u64;
        self.totals.failures(count, sealed.lost as u64, replaced);
        let mut state = self.state();
        let room = ERRORS_KEPT.saturating_sub(state.errors.len());
        state.errors.extend(sealed.failures.iter().take(room).map(|(_, error)| error.clone()));
        state.streak = longest_tail(state.streak, sealed);
        self.check_limit(state.streak, sealed)
    }

    fn check_limit(&self, streak: u64, sealed: &Sealed) -> Result<()> {
        let total = self.totals.failed_so_far();
        let (in_a_row, in_all) = match self.plan.options.max_errors {
            Some(limit) => (limit, limit),
            None => (100, (self.dataset.len() / 100).max(100)),
        };
        let reason = if streak > in_a_row {
            format!("{streak} bad samples in a row are more than {in_a_row}")
        } else if total > in_all {
            format!("{total} bad samples are more than {in_all}")
        } else {
            return Ok(());
        };
        let last = sealed.failures.last().expect("there is a failure").1.clone();
        let advice =
            if self.plan.options.max_errors.is_none() { " (max_errors=… sets the limit)" } else { "" };
        Err(Error::TooManyBadSamples { reason: reason + advice, last: Box::new(last) })
    }
}

/// Bad samples in a row at the end of this batch, given those before it; the longest run inside if that is longer.
fn longest_tail(before: u64, sealed: &Sealed) -> u64 {
    let mut bad = vec![0u64; sealed.rows];
    for (row, _) in &sealed.failures {
        bad[*row] += 1;
    }
    // A row whose substitute worked ends the run after its failures.
    let kept = |row: usize| sealed.kept.binary_search(&row).is_ok();
    let (mut streak, mut longest) = (before, 0);
    for (row, failures) in bad.iter().enumerate() {
        streak += failures;
        longest = longest.max(streak);
        if kept(row) {
            streak = 0;
        }
    }
    longest.max(streak)
}

/// One pass over an epoch: batches in order. Dropping it stops the work.
#[derive(Debug)]
pub struct Epoch {
    shared: Arc<Shared>,
    flight: Arc<Flight>,
    crew: Option<Crew>,
    last: Instant,
    received: u64,
}

/// What [`Epoch::next_within`] found.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Batch),
    /// None yet.
    NotYet,
    /// The epoch is over.
    End,
}

impl Epoch {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.flight.epoch
    }

    /// Batches in it, from where it was started.
    pub fn len(&self) -> u64 {
        self.flight.batches.count()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the consumer stands: what it received counts, not what was read ahead. The same on every rank. After the
    /// last batch, the beginning of the next epoch.
    pub fn state(&self) -> State {
        let identity = self.shared.plan.identity(&self.shared.dataset);
        let batches = &self.flight.batches;
        if self.received >= batches.count() {
            return State::new(identity, self.flight.epoch + 1, 0);
        }
        let samples = batches.first + self.received * batches.global_size();
        State::new(identity, self.flight.epoch, samples)
    }

    /// The next batch if it comes within `patience`. A batch with a bad sample is an error under `on_error="raise"`; the
    /// one after it can still be asked for.
    pub fn next_within(&mut self, patience: Duration) -> Result<Next> {
        self.shared.check_process()?;
        let asked = Instant::now();
        match self.flight.ring.take(Some(patience)) {
            Take::NotYet => Ok(Next::NotYet),
            Take::End => {
                let ended = self.end();
                self.release();
                ended
            }
            Take::Batch(filling) => {
                self.received += 1;
                let now = Instant::now();
                self.shared.totals.delivered(now - asked, asked.saturating_duration_since(self.last));
                self.last = now;
                self.deliver(filling.into_sealed())
            }
        }
    }

    /// The next batch, waiting at most the loader's `timeout`.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        let timeout = self.shared.plan.options.timeout;
        let patience = timeout.map_or(Duration::from_secs(3600), Duration::from_secs_f64);
        loop {
            match self.next_within(patience)? {
                Next::Batch(batch) => return Ok(Some(batch)),
                Next::End => return Ok(None),
                Next::NotYet if timeout.is_none() => {}
                Next::NotYet => return Err(self.timed_out()),
            }
        }
    }

    /// The error for a consumer that lost patience.
    pub fn timed_out(&self) -> Error {
        let (ready, depth) = self.flight.ring.occupancy();
        let seconds = self.shared.plan.options.timeout.unwrap_or_default();
        let doing = format!(
            "{ready} of {depth} batches are ready but not the next one: storage or a sample is stuck"
        );
        Error::Timeout { seconds, doing }
    }

    /// The most bytes that were held at once for reads ahead; 0 for local data, which need none.
    pub fn read_ahead_peak_bytes(&self) -> u64 {
        self.flight.ahead.as_ref().map_or(0, Prefetch::peak_bytes)
    }

    /// Stops the work. What was delivered stays valid.
    pub fn close(&mut self) {
        self.flight.close();
        self.release();
    }

    fn end(&self) -> Result<Next> {
        let ended_early = self.flight.ring.is_closed() && !self.flight.ring.is_drained();
        if ended_early && !self.shared.state().closed && self.crew.is_some() {
            return Err(Error::Closed(
                "a worker thread failed outside any sample; please report it".to_owned(),
            ));
        }
        Ok(Next::End)
    }

    fn deliver(&self, sealed: Sealed) -> Result<Next> {
        if self.shared.plan.options.on_error == OnError::Raise
            && let Some((_, error)) = sealed.failures.first()
        {
            let error = error.clone();
            self.shared.totals.failures(sealed.failures.len() as u64, 0, 0);
            self.shared.state().errors.extend(sealed.failures.into_iter().map(|(_, e)| e));
            return Err(error);
        }
        self.shared.book(&sealed)?;
        match (sealed.batch, sealed.failures.into_iter().next_back()) {
            (Some(batch), _) => Ok(Next::Batch(batch)),
            (None, Some((_, last))) => {
                let reason = format!("no sample of the batch is left ({} failed)", sealed.lost);
                Err(Error::TooManyBadSamples { reason, last: Box::new(last) })
            }
            (None, None) => unreachable!("a batch without rows is never opened"),
        }
    }

    /// Gives the crew back.
    fn release(&mut self) {
        let Some(crew) = self.crew.take() else { return };
        if self.shared.process != std::process::id() {
            return std::mem::forget(crew);
        }
        let threads = self.shared.setting().threads;
        let mut state = self.shared.state();
        if self.shared.plan.options.persistent_workers && !state.closed && crew.len() == threads {
            state.idle.push(crew);
            return;
        }
        drop(state);
        drop(crew);
    }
}

impl Iterator for Epoch {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        if self.shared.process == std::process::id() {
            self.flight.close();
        }
        self.release();
    }
}
