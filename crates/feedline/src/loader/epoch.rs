//! One pass over an epoch: batches in order.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::faults;
use super::stats::Delivery;
use super::worker_threads::WorkerThreads;
use super::workers::EpochRun;
use super::{Prefetch, PrefetchData, PrefetchLimits, Ring, Running, Shared};
use crate::batch::{Batch, Budget, Sealed, Take};
use crate::error::{Error, Result};
use crate::order::{Batches, Identity, Order, State};
use crate::spec::OnError;

/// One pass over an epoch: batches in order. Dropping it stops the work.
#[derive(Debug)]
pub struct Epoch {
    pub(super) shared: Arc<Shared>,
    pub(super) run: Arc<EpochRun>,
    /// Shared with the loader, which takes the threads when it is closed.
    threads: Arc<Mutex<Option<WorkerThreads>>>,
    last: Instant,
    /// When the batch that is waited for was first asked for.
    asked: Option<Instant>,
    received: u64,
    /// Storage failed: the next call restarts at the batch that could not be read.
    interrupted: bool,
    /// Closed by its user, not by the loader.
    done: bool,
    /// A mixture's weights in this epoch.
    pub(super) weights: Option<Vec<f64>>,
}

/// Result of [`Epoch::next_within`].
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Batch),
    /// No batch is ready yet.
    NotYet,
    /// The epoch is over.
    End,
}

impl Shared {
    /// Records a batch's failures. Returns the batch's error, if the failures are one.
    pub(super) fn record_failures(&self, sealed: &Sealed) -> Result<()> {
        let policy = self.plan.options.on_error;
        let mut state = self.state();
        if sealed.failures.is_empty() {
            state.faults.good_batch();
            return Ok(());
        }
        if policy == OnError::Raise {
            self.totals.failures(sealed.failures.len() as u64, 0, 0);
            state.faults.raised(sealed);
            return Err(sealed.failures[0].1.clone());
        }
        count(self, sealed);
        let limits = faults::Limits::new(self.plan.options.max_errors, self.dataset.len());
        state.faults.record(sealed, limits, policy)
    }
}

impl Epoch {
    /// Starts epoch `number`.
    pub(super) fn begin(shared: Arc<Shared>, number: u64, order: Order, batches: Batches) -> Result<Self> {
        let (run, threads) = start_run(&shared, number, order, batches)?;
        let (last, received) = (Instant::now(), 0);
        let weights = shared.plan.weights();
        Ok(Epoch {
            shared,
            run,
            threads,
            last,
            asked: None,
            received,
            interrupted: false,
            done: false,
            weights,
        })
    }

    /// Number of the epoch.
    pub fn number(&self) -> u64 {
        self.run.epoch
    }

    /// Number of batches, counted from where the epoch was started.
    pub fn len(&self) -> u64 {
        self.run.batches.count()
    }

    /// Whether there are no batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position of the consumer: counts delivered batches, not batches prepared ahead. The same on every rank, except
    /// for each rank's bad samples. After the last batch, it is the beginning of the next epoch.
    pub fn state(&self) -> State {
        let plan = &self.shared.plan;
        let identity = plan.identity(&self.shared.dataset);
        let (bad, coming) = (self.shared.bad_samples(), plan.chosen_weights());
        let state = if self.received >= self.run.batches.count() {
            State::new(identity, self.run.epoch + 1, 0)
        } else {
            let identity = Identity { weights: self.weights.clone(), ..identity };
            State::new(identity, self.run.epoch, self.next_position())
        };
        state.with_bad(bad).with_next_weights(coming)
    }

    /// Global position of the next batch.
    fn next_position(&self) -> u64 {
        self.run.batches.first + self.received * self.run.batches.global_size()
    }

    /// The next batch, if it is ready within `timeout`. Under `on_error="raise"`, a batch with a bad sample is an
    /// error; the next call returns the batch after it. A storage failure is an error whatever `on_error` says; the
    /// batch is not lost, the next call retries it.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Next> {
        self.shared.check_process()?;
        if self.interrupted {
            self.restart()?;
        }
        // A caller that polls with a short timeout, to notice Ctrl-C, has waited since its first call.
        let asked = *self.asked.get_or_insert_with(Instant::now);
        match self.run.ring.take(Some(timeout)) {
            Take::NotYet => Ok(Next::NotYet),
            Take::End => {
                let ended = self.end();
                self.release();
                ended
            }
            Take::Batch(filling) => {
                let now = Instant::now();
                self.asked = None;
                let number = filling.number;
                let sealed = filling.into_sealed();
                if let Some((_, error)) = sealed.failures.iter().find(|(_, error)| !error.blames_sample()) {
                    self.interrupted = true;
                    self.run.close();
                    return Err(error.clone());
                }
                self.received += 1;
                self.run.budget.taken(number);
                let rows = sealed.batch.as_ref().map_or(0, |batch| batch.rows() as u64);
                let busy = asked.saturating_duration_since(self.last);
                let ring = &self.run.ring;
                self.shared.totals.delivered(Delivery { rows, asked, got: now, busy }, || ring.occupancy().0);
                self.last = now;
                self.deliver(sealed)
            }
        }
    }

    /// Reports that the consumer received the last result `time` after it was returned: another thread had Python's
    /// interpreter lock.
    pub fn add_lock_wait(&mut self, time: Duration) {
        self.shared.totals.add_lock_wait(time);
        *self.asked.as_mut().unwrap_or(&mut self.last) += time;
    }

    /// The next batch; waits at most the loader's `timeout`.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        let timeout = self.shared.plan.options.timeout_duration();
        loop {
            match self.next_within(timeout.unwrap_or(Duration::from_secs(3600)))? {
                Next::Batch(batch) => return Ok(Some(batch)),
                Next::End => return Ok(None),
                Next::NotYet if timeout.is_none() => {}
                Next::NotYet => return Err(self.timed_out()),
            }
        }
    }

    /// The error to raise when the timeout has passed.
    pub fn timed_out(&self) -> Error {
        let (ready, depth) = self.run.ring.occupancy();
        let seconds = self.shared.plan.options.timeout.unwrap_or_default();
        let doing = format!(
            "{ready} of {depth} batches are ready but not the next one: storage or a sample is stuck"
        );
        Error::Timeout { seconds, doing }
    }

    /// Largest number of bytes held at once for reads ahead.
    pub fn read_ahead_peak_bytes(&self) -> u64 {
        self.run.ahead.as_ref().map_or(0, Prefetch::peak_bytes)
    }

    /// Stops the work. Delivered batches stay valid.
    pub fn close(&mut self) {
        self.done = true;
        self.run.close();
        self.release();
    }

    /// Restarts at the batch that storage failed to read.
    fn restart(&mut self) -> Result<()> {
        if self.done {
            return Ok(());
        }
        self.release();
        let batches = Batches { first: self.next_position(), ..self.run.batches.clone() };
        let (number, order) = (self.run.epoch, self.run.order.clone());
        (self.run, self.threads) = start_run(&self.shared, number, order, batches)?;
        (self.received, self.interrupted) = (0, false);
        Ok(())
    }

    fn end(&self) -> Result<Next> {
        if self.done || self.run.ring.is_drained() {
            return Ok(Next::End);
        }
        let reason = if self.shared.state().closed {
            "the loader was closed before this epoch was over"
        } else {
            "a worker thread failed outside any sample; please report it"
        };
        Err(Error::Closed(reason.to_owned()))
    }

    fn deliver(&self, sealed: Sealed) -> Result<Next> {
        self.shared.record_failures(&sealed)?;
        match (sealed.batch, sealed.failures.into_iter().next_back()) {
            (Some(batch), _) => Ok(Next::Batch(batch)),
            (None, Some((_, last))) => {
                let reason = format!("no sample of the batch is left ({} failed)", sealed.lost);
                Err(Error::TooManyBadSamples { reason, last: Box::new(last) })
            }
            (None, None) => unreachable!("a batch without rows is never opened"),
        }
    }

    fn threads(&self) -> MutexGuard<'_, Option<WorkerThreads>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the threads back to the loader.
    fn release(&mut self) {
        let threads = self.threads().take();
        if let Some(threads) = threads {
            self.shared.release(threads);
            self.shared.save_checkpoints();
        }
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
        if self.shared.process != std::process::id() {
            // The threads, and the holders of their locks, exist only in the parent.
            let kept = (std::mem::take(&mut self.threads), self.run.clone(), self.shared.clone());
            return std::mem::forget(kept);
        }
        self.run.close();
        self.release();
    }
}

/// Threads of an epoch; the loader may take them away.
type SharedThreads = Arc<Mutex<Option<WorkerThreads>>>;

/// Starts threads on an epoch.
fn start_run(
    shared: &Arc<Shared>,
    epoch: u64,
    order: Order,
    batches: Batches,
) -> Result<(Arc<EpochRun>, SharedThreads)> {
    shared.check_process()?;
    if let Some(checkpoints) = &shared.checkpoints {
        // Other processes may have saved some.
        checkpoints.refresh();
    }
    let plan = &shared.plan.at_epoch(&shared.dataset, epoch)?;
    let setting = shared.tune();
    let threads = shared.threads()?;
    // Batches with fewer rows leave some of these unused: see `Worker::make_rows`.
    let (largest, count) = (batches.largest(), batches.count());
    let cancelled: Arc<AtomicBool> = Arc::default();
    let data = PrefetchData {
        dataset: shared.dataset.clone(),
        fields: plan.stored_fields(),
        order: order.clone(),
        batches: batches.clone(),
        cancelled: cancelled.clone(),
    };
    let limits =
        PrefetchLimits { bytes: plan.ahead_bytes(), workers: setting.threads, switch: shared.ahead.clone() };
    let run = Arc::new(EpochRun {
        dataset: shared.dataset.clone(),
        plan: plan.clone(),
        pool: shared.pool.clone(),
        ring: Ring::new(setting.depth, largest, count * largest, plan.rows_at_once(largest)),
        budget: Budget::new(plan.ragged_budget()),
        order,
        batches,
        epoch,
        ahead: Prefetch::start(data, limits),
        checkpoints: shared.checkpoints.clone(),
        seen_sizes: shared.seen_sizes.clone(),
        cancelled,
        loader_begun: shared.totals.begun,
    });
    let threads = start_threads(shared, &run, threads)?;
    Ok((run, threads))
}

/// Starts the threads on the run, and lists both for `close`.
fn start_threads(shared: &Shared, run: &Arc<EpochRun>, threads: WorkerThreads) -> Result<SharedThreads> {
    let threads = Arc::new(Mutex::new(Some(threads)));
    let running = Running { run: Arc::downgrade(run), threads: Arc::downgrade(&threads) };
    let mut state = shared.state();
    if state.closed {
        return Err(Error::Closed("the loader is closed".to_owned()));
    }
    state.running.push(running);
    if let Some(threads) = &*threads.lock().unwrap_or_else(PoisonError::into_inner) {
        threads.start(run);
    }
    drop(state);
    Ok(threads)
}

/// Adds a batch's failures to the statistics.
fn count(shared: &Shared, sealed: &Sealed) {
    let mut rows: Vec<usize> = sealed.failures.iter().map(|(row, _)| *row).collect();
    rows.dedup();
    let replaced = rows.len() as u64 - sealed.lost as u64;
    shared.totals.failures(sealed.failures.len() as u64, sealed.lost as u64, replaced);
}
