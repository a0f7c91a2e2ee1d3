//! THREADS AND DELIVERY.
//!
//! Options → `Plan` (checked, sizes known) → [`Loader`] → [`Epoch`] (running threads, batches in order).
//!
//! A loader may run several epochs at once (nested loops); each has its own threads. Dropping an epoch stops
//! its threads within one sample's time; the threads stay for the next epoch unless `persistent_workers` is off.

mod affinity;
mod arrays;
mod audio;
mod clip_file;
mod epoch;
mod faults;
mod machine;
mod mix;
mod plan;
mod seek;
mod seen_sizes;
mod sequence;
mod spare;
mod stats;
mod targets;
mod tune;
mod video;
mod views;
mod windows;
mod worker_threads;
mod workers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::batch::{BatchMemory, ColumnSpec, Pool, Ring};
use crate::dataset::{Checkpoints, Dataset};
use crate::error::{Error, Result};
use crate::field::Kind;
use crate::order::{BadSamples, Batches, Identity, Order, State};
use crate::read::{Prefetch, PrefetchData, PrefetchLimits, Switch};
use crate::source::{Source, Traffic};
use crate::spec::{DecodeMode, LoaderOptions, OnError};
use faults::Faults;
use plan::Plan;
use seen_sizes::SeenSizes;
use stats::{LoaderFacts, Totals};
use tune::{Limits, Measured, Setting};
use worker_threads::{EndingThreads, WorkerThreads};
use workers::EpochRun;

pub use crate::read::{StorageProbe, probe_storage};
pub use epoch::{Epoch, Next};
pub use plan::usable_cores;
pub use seek::{IndexReport, build_indexes};
pub use sequence::mix;
pub use spare::Substitutes;
pub use stats::{
    AheadStats, Bound, CoreStats, MemoryStats, Moment, QueueStats, RankStats, StageSeconds, Stats, Stored,
};

/// How long [`Loader::close`] waits for threads that are making a sample. The largest image decodes faster; a thread
/// that takes longer is stuck.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How long a drop waits: a loader that goes out of scope, an epoch whose threads are not kept.
const DROP_WITHIN: Duration = Duration::from_secs(1);

/// Upper limit of every wait; it keeps deadlines within the range of the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Number of objects whose sources are collected: enough for data sets that are joined from several.
const MOST_OBJECTS: u32 = 256;

/// How long a new epoch waits for the threads of the last one before it starts others.
const FREE_WITHIN: Duration = Duration::from_millis(200);

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
    /// Seek indexes of images that are stored without.
    checkpoints: Option<Arc<Checkpoints>>,
    /// Sizes of whole images that the store does not know.
    seen_sizes: Option<Arc<SeenSizes>>,
    totals: Totals,
    /// Whether local data are read ahead.
    ahead: Arc<Switch>,
    state: Mutex<LoaderState>,
    process: u32,
}

#[derive(Debug, Default)]
struct LoaderState {
    /// Sets of threads without work.
    idle: Vec<WorkerThreads>,
    /// Running epochs, to be stopped by `close`.
    running: Vec<Running>,
    /// Threads that are ending and were still alive at the last check.
    ending: Vec<EndingThreads>,
    faults: Faults,
    closed: bool,
    /// Threads and read-ahead chosen by `auto_tune`, and the measurements at that time.
    tuned: Option<(Setting, Measured)>,
}

/// A running epoch as `close` sees it.
#[derive(Debug)]
struct Running {
    run: Weak<EpochRun>,
    threads: Weak<Mutex<Option<WorkerThreads>>>,
}

impl Loader {
    /// Checks `options` against `dataset`. No thread starts before the first epoch.
    pub fn new(dataset: Dataset, options: LoaderOptions) -> Result<Self> {
        Loader::with_memory(dataset, options, None)
    }

    /// The same with batches in memory of another kind, such as page-locked memory.
    pub fn with_memory(
        dataset: Dataset,
        options: LoaderOptions,
        memory: Option<Arc<dyn BatchMemory>>,
    ) -> Result<Self> {
        let (dataset, options) = windows::cut(dataset, options)?;
        let plan = Arc::new(Plan::new(&dataset, options)?);
        plan.check_read_ahead(&dataset)?;
        // Errors of later epochs are reported now.
        for epoch in plan.changes() {
            plan.at_epoch(&dataset, epoch)?;
        }
        // What the ring, the user and the seal step can use at once, per column; more is freed when it is returned.
        let idle = (plan.depth + 3) * plan.columns.len();
        let pool = Pool::with_memory(idle, plan.options.memory_budget.unwrap_or(u64::MAX), memory);
        let ahead = Arc::new(Switch::new(plan.options.read_ahead));
        let checkpoints = seek::store(&dataset, &plan).map(Arc::new);
        let seen_sizes = SeenSizes::new(&plan, &dataset).map(Arc::new);
        let shared = Shared {
            dataset,
            plan,
            ahead,
            pool,
            checkpoints,
            seen_sizes,
            totals: Totals::default(),
            state: Mutex::default(),
            process: std::process::id(),
        };
        Ok(Loader { shared: Arc::new(shared) })
    }

    /// Number of batches in an epoch; in the first one, if samples are packed into rows.
    pub fn len(&self) -> u64 {
        self.len_of(0)
    }

    /// Number of batches in epoch `epoch`. Epochs differ only if samples are packed into rows.
    pub fn len_of(&self, epoch: u64) -> u64 {
        self.shared.plan.whole_epoch(epoch).count()
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The options of this loader.
    pub fn options(&self) -> &LoaderOptions {
        &self.shared.plan.options
    }

    /// Description of the columns of a batch.
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

    /// Starts epoch `number` at global position `first`, after `first` samples over all ranks together.
    pub fn epoch_from(&self, number: u64, first: u64) -> Result<Epoch> {
        let (order, batches) = self.shared.plan.epoch(number, first, None)?;
        self.begin(number, order, batches)
    }

    /// Like [`epoch_from`](Self::epoch_from), with these weights of a mixture in this epoch only.
    pub fn epoch_weighted(&self, number: u64, first: u64, weights: &[f64]) -> Result<Epoch> {
        let (order, batches) = self.shared.plan.epoch(number, first, Some(weights))?;
        let mut epoch = self.begin(number, order, batches)?;
        epoch.weights = Some(weights.to_vec());
        Ok(epoch)
    }

    /// Starts epoch `number` at global position `first`, with `list` as its order: for
    /// [`Sampler::PerEpoch`](crate::Sampler::PerEpoch).
    pub fn epoch_in_order(&self, number: u64, first: u64, list: Vec<u64>) -> Result<Epoch> {
        let (order, batches) = self.shared.plan.epoch_in_order(number, first, list)?;
        self.begin(number, order, batches)
    }

    fn begin(&self, number: u64, order: Order, batches: Batches) -> Result<Epoch> {
        Epoch::begin(self.shared.clone(), number, order, batches)
    }

    /// Resumes where `state` was taken, on any number of ranks; an error lists the differences. The weights of a
    /// mixture come from the state: those of its epoch, and those set for the following epochs.
    pub fn resume(&self, state: &State) -> Result<Epoch> {
        state.check(&self.identity_for(state))?;
        self.restore_bad_samples(&state.bad);
        if let Some(weights) = &state.next_weights {
            self.set_weights(weights)?;
        }
        // At the very beginning of an epoch, weights that were set since mean that it had started.
        let begun = state.samples > 0
            || (state.next_weights.is_some() && state.next_weights != state.identity.weights);
        match &state.identity.weights {
            Some(weights) if begun => self.epoch_weighted(state.epoch, state.samples, weights),
            _ => self.epoch_from(state.epoch, state.samples),
        }
    }

    /// The identity that `state` must match: a mixture in the middle of an epoch keeps its weights.
    pub fn identity_for(&self, state: &State) -> Identity {
        let mut here = self.identity();
        if let (Some(own), Some(theirs)) = (&mut here.weights, &state.identity.weights)
            && own.len() == theirs.len()
        {
            own.clone_from(theirs);
        }
        here
    }

    /// The weights that were set with [`set_weights`](Self::set_weights), if any.
    pub fn chosen_weights(&self) -> Option<Vec<f64>> {
        self.shared.plan.chosen_weights()
    }

    /// The bad samples that count towards `max_errors` so far; empty under `on_error="raise"`.
    pub fn bad_samples(&self) -> BadSamples {
        self.shared.bad_samples()
    }

    /// Replaces the counted bad samples by those of a saved state.
    pub fn restore_bad_samples(&self, bad: &BadSamples) {
        self.shared.state().faults.restore(bad);
    }

    /// What samples, order and values depend on. A saved state must match it.
    pub fn identity(&self) -> Identity {
        self.shared.plan.identity(&self.shared.dataset)
    }

    /// Sets new weights for a mixture, one per data set, for epochs started from now on.
    pub fn set_weights(&self, weights: &[f64]) -> Result<()> {
        self.shared.plan.set_weights(weights)
    }

    /// Statistics so far, and what limits the speed.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Asks for statistics without keeping the loader alive: for pages and bars that watch it.
    pub fn watcher(&self) -> Watcher {
        Watcher { shared: Arc::downgrade(&self.shared) }
    }

    /// Numbers of samples that failed and of requests that were made again so far.
    pub fn failures_and_retries(&self) -> (u64, u64) {
        (self.shared.totals.failed(), self.shared.storage().0.retries)
    }

    /// From now on everything is kept for [`write_trace`](Self::write_trace), not only the last thousand samples of each
    /// thread: up to a million samples.
    pub fn record_trace(&self) {
        self.shared.totals.record();
    }

    /// Writes what all threads did when, as Perfetto and Chrome read it.
    pub fn write_trace(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        self.shared.totals.trace(out)
    }

    /// The samples that could not be read or decoded so far, each once (the first ten thousand).
    pub fn errors(&self) -> Vec<Error> {
        self.shared.state().faults.errors()
    }

    /// Stops all epochs and threads. Idempotent; delivered batches stay valid. Returns the number of threads that
    /// are stuck in storage that does not answer: they are abandoned after five seconds.
    pub fn close(&self) -> usize {
        self.close_within(CLOSE_WITHIN)
    }

    /// Like [`close`](Self::close), but waits at most `timeout` for the threads; call it again to wait for the rest.
    pub fn close_within(&self, timeout: Duration) -> usize {
        if self.shared.process != std::process::id() {
            return 0;
        }
        let mut ending = self.shared.stop_all();
        let deadline = Instant::now() + timeout.min(LONGEST_WAIT);
        ending.retain_mut(|threads| threads.wait_until(deadline) > 0);
        let left = ending.iter().map(EndingThreads::len).sum();
        self.shared.state().ending.extend(ending);
        left
    }
}

/// Gives the statistics of a loader as long as the loader exists.
#[derive(Clone, Debug)]
pub struct Watcher {
    shared: Weak<Shared>,
}

impl Watcher {
    /// What was done so far; `None` once the loader is gone.
    pub fn stats(&self) -> Option<Stats> {
        Some(self.shared.upgrade()?.stats())
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if self.shared.process != std::process::id() {
            // After a fork, nothing that the parent's threads may have locked can be touched, so it is leaked.
            std::mem::forget(self.shared.clone());
            return;
        }
        self.close_within(DROP_WITHIN);
    }
}

impl Shared {
    fn stats(&self) -> Stats {
        let batches = self.plan.whole_epoch(0);
        let Setting { threads, depth } = self.setting();
        let (storage, warnings) = self.storage();
        self.totals.sum(LoaderFacts {
            threads,
            cpus: self.plan.options.cpus.clone(),
            depth,
            pool: self.pool.stats(),
            dropped: batches.dropped(),
            padded: batches.padded(),
            ready: self.ready(),
            stored: self.stored(),
            storage,
            warnings,
            ahead: AheadStats::of(&self.ahead),
        })
    }

    /// Batches that are ready, in all epochs that run.
    fn ready(&self) -> u64 {
        let runs: Vec<_> = self.state().running.iter().filter_map(|epoch| epoch.run.upgrade()).collect();
        runs.iter().map(|run| run.ring.occupancy().0).sum()
    }

    /// How the data are stored and read, on which advice about speed depends.
    fn stored(&self) -> Stored {
        let format = self.dataset.format();
        let name = format.name();
        let image = self.dataset.schema().fields.iter().position(|field| field.kind == Kind::Image);
        let meta = image.filter(|_| !self.dataset.is_empty()).and_then(|field| format.image_meta(0, field));
        Stored {
            single_files: ["folder", "files", "table"].contains(&name),
            packed: name == "pack",
            remote: format.is_remote(),
            cached: self.storage().0.cache_hits + self.storage().0.cache_misses > 0,
            decoded_fast: self.plan.options.decode == DecodeMode::Fast,
            encoding: meta.map(|meta| meta.encoding.name().to_owned()),
            cores: usable_cores(),
        }
    }

    /// What the data set's sources were asked for and what they warn of; nothing for local data.
    fn storage(&self) -> (Traffic, Vec<String>) {
        let format = self.dataset.format();
        let mut sources: Vec<&Arc<dyn Source>> = Vec::new();
        for (source, _) in
            (0..format.object_count().min(MOST_OBJECTS)).filter_map(|number| format.object(number))
        {
            if !sources.iter().any(|known| Arc::ptr_eq(known, source)) {
                sources.push(source);
            }
            if !format.is_remote() {
                break;
            }
        }
        let mut all = Traffic::default();
        for traffic in sources.iter().map(|source| source.traffic()) {
            all = all.plus(traffic);
        }
        (all, sources.iter().flat_map(|source| source.warnings()).collect())
    }

    fn state(&self) -> MutexGuard<'_, LoaderState> {
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

    /// Current number of threads and of batches in flight.
    fn setting(&self) -> Setting {
        let planned = Setting { threads: self.plan.threads, depth: self.plan.depth };
        self.state().tuned.map_or(planned, |(setting, _)| setting)
    }

    /// The setting for a new epoch: with `auto_tune`, one step from the last setting.
    fn tune(&self) -> Setting {
        let now = self.setting();
        if !self.plan.options.auto_tune {
            return now;
        }
        let measured = self.totals.measured();
        let limits = Limits { cores: plan::cores_for(&self.plan.options), depth: self.plan.most_depth() };
        let mut state = self.state();
        let before = state.tuned.map_or_else(Measured::default, |(_, measured)| measured);
        let next = tune::next(now, measured.since(before), limits);
        if next.threads != now.threads {
            // The idle threads belong to the old setting and have no work.
            drop(std::mem::take(&mut state.idle));
        }
        state.tuned = Some((next, measured));
        next
    }

    /// Closes all epochs and ends all threads.
    fn stop_all(&self) -> Vec<EndingThreads> {
        let mut state = self.state();
        state.closed = true;
        let running = std::mem::take(&mut state.running);
        let idle = std::mem::take(&mut state.idle);
        let mut ending = std::mem::take(&mut state.ending);
        drop(state);
        ending.extend(idle.into_iter().map(WorkerThreads::end));
        for epoch in running {
            if let Some(run) = epoch.run.upgrade() {
                run.close();
            }
            let threads = epoch.threads.upgrade();
            let threads =
                threads.and_then(|threads| threads.lock().unwrap_or_else(PoisonError::into_inner).take());
            ending.extend(threads.map(WorkerThreads::end));
        }
        ending
    }

    /// Idle threads, or new ones. A set with a stuck thread is dropped: that thread would never start.
    fn threads(&self) -> Result<WorkerThreads> {
        let threads = self.setting().threads;
        loop {
            let mut state = self.state();
            if state.closed {
                return Err(Error::Closed("the loader is closed".to_owned()));
            }
            state.running.retain(|epoch| epoch.run.strong_count() > 0);
            state.ending.retain_mut(|threads| threads.wait_until(Instant::now()) > 0);
            let idle = state.idle.pop();
            drop(state);
            match idle {
                None => {
                    let LoaderOptions { max_pixels, cpus, .. } = &self.plan.options;
                    return affinity::on_cpus(cpus, || {
                        WorkerThreads::new(threads, *max_pixels, &self.totals)
                    });
                }
                Some(threads) if threads.is_free_within(FREE_WITHIN) => return Ok(threads),
                Some(stuck) => self.state().ending.push(stuck.end()),
            }
        }
    }

    /// Takes back the threads of a finished epoch.
    fn release(&self, threads: WorkerThreads) {
        let wanted = self.setting().threads;
        let mut state = self.state();
        if self.plan.options.persistent_workers && !state.closed && threads.len() == wanted {
            state.idle.push(threads);
            return;
        }
        drop(state);
        let mut ending = threads.end();
        if ending.wait_until(Instant::now() + DROP_WITHIN) > 0 {
            self.state().ending.push(ending);
        }
    }

    fn bad_samples(&self) -> BadSamples {
        match self.plan.options.on_error {
            OnError::Raise => BadSamples::default(),
            OnError::Skip | OnError::Replace => self.state().faults.to_state(),
        }
    }
}
