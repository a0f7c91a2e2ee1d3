//! Where the time goes: counters that each worker keeps for itself, and the sum that names the bottleneck.

mod advice;
mod counters;
mod history;
mod merge;
mod system;
mod trace;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::tune::Measured;
use crate::batch::PoolStats;
use crate::read::Switch;
use crate::source::Traffic;
use crate::spec::ReadAhead;

pub use advice::{Bound, Stored};
pub(crate) use counters::{Counters, SampleTimes, Stopwatch, Work};
use history::History;
pub use history::Moment;
pub use merge::RankStats;
use trace::{MOST_BATCHES, MOST_SAMPLES, Taken, Trace};

/// All workers' counters and what the consumer saw.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) begun: Instant,
    workers: Mutex<Vec<Arc<Counters>>>,
    batches: AtomicU64,
    delivered: AtomicU64,
    consumer_wait: AtomicU64,
    consumer_busy: AtomicU64,
    interpreter_wait: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    replaced: AtomicU64,
    recording: AtomicBool,
    seen: Mutex<SeenByConsumer>,
}

/// What is recorded with every batch.
#[derive(Debug)]
struct SeenByConsumer {
    history: History,
    /// The last batches; all while recording.
    batches: VecDeque<Taken>,
    samples: Vec<(usize, SampleTimes)>,
    /// For each worker, the number of its samples that are in `samples`.
    collected: Vec<u64>,
}

/// Batches remembered while nobody records.
const REMEMBERED_BATCHES: usize = 1024;

impl Default for Totals {
    fn default() -> Self {
        let begun = Instant::now();
        let seen = SeenByConsumer {
            history: History::new(begun),
            batches: VecDeque::new(),
            samples: Vec::new(),
            collected: Vec::new(),
        };
        Totals {
            begun,
            workers: Mutex::default(),
            batches: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            consumer_wait: AtomicU64::new(0),
            consumer_busy: AtomicU64::new(0),
            interpreter_wait: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            recording: AtomicBool::new(false),
            seen: Mutex::new(seen),
        }
    }
}

/// A batch that reached its consumer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) rows: u64,
    pub(crate) asked: Instant,
    pub(crate) got: Instant,
    /// What the consumer did before it asked.
    pub(crate) busy: Duration,
}

impl Totals {
    /// Counters for a new worker.
    pub(crate) fn worker(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.workers().push(counters.clone());
        counters
    }

    fn workers(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn consumer(&self) -> MutexGuard<'_, SeenByConsumer> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a batch; `ready` returns how many others wait.
    pub(crate) fn delivered(&self, delivery: Delivery, ready: impl Fn() -> u64) {
        let waited = delivery.got - delivery.asked;
        self.batches.fetch_add(1, Ordering::Relaxed);
        let samples = self.delivered.fetch_add(delivery.rows, Ordering::Relaxed) + delivery.rows;
        let total_waited = add(&self.consumer_wait, waited);
        add(&self.consumer_busy, delivery.busy);
        let recording = self.recording.load(Ordering::Relaxed);
        let mut seen = self.consumer();
        seen.history.note(delivery.got, || Moment {
            seconds: 0.0,
            samples,
            ready: ready(),
            waited: total_waited,
        });
        let since = |time: Instant| time.saturating_duration_since(self.begun);
        let ready = if recording { ready() } else { 0 };
        seen.batches.push_back(Taken { asked: since(delivery.asked), got: since(delivery.got), ready });
        let most = if recording { MOST_BATCHES } else { REMEMBERED_BATCHES };
        if seen.batches.len() > most {
            seen.batches.pop_front();
        }
        if recording {
            self.collect(&mut seen);
        }
    }

    /// Adds time in which a batch was ready but its consumer waited for the interpreter lock.
    pub(crate) fn add_lock_wait(&self, time: Duration) {
        add(&self.interpreter_wait, time);
    }

    pub(crate) fn failures(&self, failed: u64, skipped: u64, replaced: u64) {
        self.failed.fetch_add(failed, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.replaced.fetch_add(replaced, Ordering::Relaxed);
    }

    /// Samples that failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// From now on everything is kept for a trace, not only the last samples.
    pub(crate) fn record(&self) {
        let mut seen = self.consumer();
        self.collect(&mut seen);
        self.recording.store(true, Ordering::Relaxed);
    }

    /// Copies the times of the samples that workers made since the last call.
    fn collect(&self, seen: &mut SeenByConsumer) {
        let workers = self.workers();
        seen.collected.resize(workers.len(), 0);
        for (number, worker) in workers.iter().enumerate() {
            let (times, end) = worker.remembered(seen.collected[number]);
            seen.collected[number] = end;
            let room = MOST_SAMPLES.saturating_sub(seen.samples.len());
            seen.samples.extend(times.into_iter().take(room).map(|times| (number, times)));
        }
    }

    /// Writes what is kept in the format of Chrome and Perfetto.
    pub(crate) fn trace(&self, out: &mut impl io::Write) -> io::Result<()> {
        let workers = self.workers().len();
        let mut seen = self.consumer();
        let trace = if self.recording.load(Ordering::Relaxed) {
            self.collect(&mut seen);
            let (samples, batches) = (seen.samples.clone(), seen.batches.iter().copied().collect());
            Trace { samples, batches, workers }
        } else {
            let last = |(number, worker): (usize, &Arc<Counters>)| {
                worker.remembered(0).0.into_iter().map(move |times| (number, times)).collect::<Vec<_>>()
            };
            let samples = self.workers().iter().enumerate().flat_map(last).collect();
            Trace { samples, batches: seen.batches.iter().copied().collect(), workers }
        };
        drop(seen);
        trace.write(out)
    }
}

/// Adds a time; returns the sum in seconds.
fn add(counter: &AtomicU64, time: Duration) -> f64 {
    let nanoseconds = time.as_nanos() as u64;
    (counter.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds) as f64 * 1e-9
}

/// What a loader has done so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Worker threads.
    pub threads: usize,
    /// CPUs that the threads are bound to; any of the process if empty.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Batches that may be in flight at once.
    pub depth: usize,
    /// Batches delivered.
    pub batches: u64,
    /// Samples made (some may still wait to be delivered).
    pub samples: u64,
    /// Samples delivered.
    pub delivered: u64,
    /// Samples delivered per second, over all the time in which batches were asked for or used.
    pub samples_per_second: f64,
    /// The same over the last few seconds.
    pub recent_samples_per_second: f64,
    /// Stored bytes read.
    pub bytes_read: u64,
    /// Seconds of worker time per stage, summed over workers.
    pub seconds: StageSeconds,
    /// The share of the workers' time that each stage took.
    pub occupancy: StageSeconds,
    /// Of the time spent reading, the share in which the thread waited for storage, as far as one read of 64 tells.
    pub read_blocked: f64,
    /// Local reads that were done before a worker needed them.
    #[serde(default)]
    pub read_ahead: AheadStats,
    /// Seconds the consumer waited for a batch.
    pub consumer_wait_seconds: f64,
    /// Seconds the consumer did something else between batches.
    pub consumer_busy_seconds: f64,
    /// Seconds in which a batch was there but Python's interpreter lock was not.
    pub interpreter_wait_seconds: f64,
    /// Samples that could not be read or decoded.
    pub failed: u64,
    /// Rows left out of batches because of that.
    pub skipped: u64,
    /// Rows filled with a substitute because of that.
    pub replaced: u64,
    /// Samples of an epoch that `drop_last` leaves out.
    pub dropped_per_epoch: u64,
    /// Samples of an epoch that are seen twice so that every rank gets as many batches.
    pub padded_per_epoch: u64,
    /// Batches ready, now and over time.
    pub queue: QueueStats,
    /// What remote storage was asked for.
    pub storage: Traffic,
    /// Batch memory.
    pub memory: MemoryStats,
    /// Processor time of the worker threads.
    pub cores: CoreStats,
    /// How the data are stored and read.
    pub stored: Stored,
    /// What limits the speed.
    pub bound: Bound,
    /// The same in words, with what would help.
    pub bottleneck: String,
    /// What went wrong without harm: a disk cache that cannot be written.
    pub warnings: Vec<String>,
    /// By rank, where several were merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankStats>,
}

/// Reads of local data ahead of need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AheadStats {
    /// Whether the option allows them.
    pub allowed: bool,
    /// Whether local data are read ahead now.
    pub active: bool,
    /// Reads so far.
    pub reads: u64,
    /// Those that had to wait for storage; the others found their bytes in memory.
    pub waited: u64,
}

impl AheadStats {
    pub(crate) fn of(switch: &Switch) -> Self {
        let (reads, waited) = switch.counts();
        AheadStats { allowed: switch.asked() != ReadAhead::Off, active: switch.is_on(), reads, waited }
    }

    fn plus(self, other: AheadStats) -> Self {
        AheadStats {
            allowed: self.allowed || other.allowed,
            active: self.active || other.active,
            reads: self.reads + other.reads,
            waited: self.waited + other.waited,
        }
    }
}

/// Worker seconds by stage, or shares of them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct StageSeconds {
    /// Getting bytes from local storage, waits for it included, or from those that came over the network.
    pub read: f64,
    /// Waiting for bytes from the network.
    pub bytes: f64,
    /// Making pixels of them.
    pub decode: f64,
    /// Resizing, flipping, normalising.
    pub transform: f64,
    /// Everything else in a sample's making: labels, text, copies.
    pub copy: f64,
    /// Waiting for the consumer: no room for another batch, or none left.
    pub wait: f64,
}

/// Batches that wait for the consumer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueueStats {
    /// Ready now.
    pub ready: u64,
    /// Over time, at most 256 points.
    pub history: Vec<Moment>,
}

/// Memory in bytes and loans.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct MemoryStats {
    /// Allocations made.
    pub fresh: u64,
    /// Loans of memory that had come back.
    pub reused: u64,
    /// Bytes out now, with workers or with you.
    pub lent_bytes: u64,
    /// The most that was out at once.
    pub peak_bytes: u64,
    /// Memory of the whole process; 0 if the system does not tell.
    pub resident_bytes: u64,
}

/// Processor time of the worker threads that there are now; zeros if the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreStats {
    /// Seconds on a core.
    pub cpu_seconds: f64,
    /// Seconds in which a thread could have run but had no core.
    pub starved_seconds: f64,
}

/// What the loader knows and its counters do not.
#[derive(Debug)]
pub(crate) struct LoaderFacts {
    pub(crate) threads: usize,
    pub(crate) cpus: Vec<u32>,
    pub(crate) depth: usize,
    pub(crate) pool: PoolStats,
    pub(crate) dropped: u64,
    pub(crate) padded: u64,
    pub(crate) ready: u64,
    pub(crate) stored: Stored,
    pub(crate) storage: Traffic,
    pub(crate) warnings: Vec<String>,
    pub(crate) ahead: AheadStats,
}

impl Totals {
    /// Where time went, for `auto_tune`.
    pub(crate) fn measured(&self) -> Measured {
        let seconds = self.stages();
        Measured {
            consumer_wait: read_seconds(&self.consumer_wait),
            consumer_busy: read_seconds(&self.consumer_busy),
            workers_idle: seconds.wait,
            workers_read: seconds.read + seconds.bytes,
            workers_busy: seconds.decode + seconds.transform + seconds.copy,
        }
    }

    fn stages(&self) -> StageSeconds {
        let workers = self.workers();
        let seconds = |work: Work| workers.iter().map(|w| read_seconds(&w.nanoseconds[work as usize])).sum();
        StageSeconds {
            read: seconds(Work::Read),
            bytes: seconds(Work::Bytes),
            decode: seconds(Work::Decode),
            transform: seconds(Work::Transform),
            copy: seconds(Work::Copy),
            wait: seconds(Work::Wait),
        }
    }

    /// The sum of everything.
    pub(crate) fn sum(&self, facts: LoaderFacts) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let workers = self.workers().clone();
        let all = |read: &dyn Fn(&Counters) -> u64| workers.iter().map(|w| read(w)).sum::<u64>();
        let (checked, on_core) = (all(&|w| load(&w.checked)), all(&|w| load(&w.checked_on_core)));
        let LoaderFacts {
            threads,
            cpus,
            depth,
            pool,
            dropped,
            padded,
            ready,
            stored,
            storage,
            warnings,
            ahead,
        } = facts;
        let mut stats = Stats {
            threads,
            cpus,
            depth,
            batches: load(&self.batches),
            samples: all(&|w| load(&w.samples)),
            delivered: load(&self.delivered),
            bytes_read: all(&|w| load(&w.bytes)),
            seconds: self.stages(),
            read_blocked: if checked > 0 { 1.0 - on_core as f64 / checked as f64 } else { 0.0 },
            consumer_wait_seconds: read_seconds(&self.consumer_wait),
            consumer_busy_seconds: read_seconds(&self.consumer_busy),
            interpreter_wait_seconds: read_seconds(&self.interpreter_wait),
            failed: load(&self.failed),
            skipped: load(&self.skipped),
            replaced: load(&self.replaced),
            dropped_per_epoch: dropped,
            padded_per_epoch: padded,
            queue: QueueStats { ready, history: self.consumer().history.moments().to_vec() },
            storage,
            memory: memory(pool),
            cores: system::cores(workers.iter().map(|worker| load(&worker.thread))),
            stored,
            warnings,
            read_ahead: ahead,
            ..Stats::default()
        };
        stats.work_out_rates();
        stats
    }
}

impl Stats {
    /// Works out rates, shares and the sentence from what was counted.
    fn work_out_rates(&mut self) {
        let consumer =
            self.consumer_wait_seconds + self.consumer_busy_seconds + self.interpreter_wait_seconds;
        self.samples_per_second = if consumer > 0.0 { self.delivered as f64 / consumer } else { 0.0 };
        self.recent_samples_per_second = recent(&self.queue.history).unwrap_or(self.samples_per_second);
        self.occupancy = self.seconds.shares();
        self.bound = advice::bound(self);
        self.bottleneck = advice::sentence(self, self.bound);
    }
}

/// Over the last moments that are not further back than a few seconds; `None` with fewer than two.
fn recent(history: &[Moment]) -> Option<f64> {
    let last = history.last()?;
    let first = history.iter().find(|moment| moment.seconds >= last.seconds - 5.0)?;
    let first = if first == last { history.iter().rev().nth(1)? } else { first };
    Some((last.samples - first.samples) as f64 / (last.seconds - first.seconds).max(1e-9))
}

impl StageSeconds {
    fn shares(&self) -> Self {
        let all = (self.work() + self.wait).max(f64::MIN_POSITIVE);
        StageSeconds {
            read: self.read / all,
            bytes: self.bytes / all,
            decode: self.decode / all,
            transform: self.transform / all,
            copy: self.copy / all,
            wait: self.wait / all,
        }
    }
}

fn memory(pool: PoolStats) -> MemoryStats {
    MemoryStats {
        fresh: pool.fresh,
        reused: pool.reused,
        lent_bytes: pool.lent_bytes,
        peak_bytes: pool.peak_bytes,
        resident_bytes: system::resident(),
    }
}

fn read_seconds(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> LoaderFacts {
        LoaderFacts {
            threads: 2,
            cpus: Vec::new(),
            depth: 3,
            pool: PoolStats::default(),
            dropped: 0,
            padded: 0,
            ready: 1,
            stored: Stored { single_files: true, cores: 2, ..Stored::default() },
            storage: Traffic::default(),
            warnings: Vec::new(),
            ahead: AheadStats::default(),
        }
    }

    fn deliver(totals: &Totals, waited: u64, busy: u64) {
        let asked = Instant::now();
        let (got, busy) = (asked + Duration::from_secs(waited), Duration::from_secs(busy));
        totals.delivered(Delivery { rows: 1, asked, got, busy }, || 1);
    }

    #[test]
    fn sums_workers_and_names_the_bottleneck() {
        let totals = Totals::default();
        for _ in 0..2 {
            let worker = totals.worker();
            let times = SampleTimes { decode: Duration::from_secs(3), ..SampleTimes::default() };
            worker.finished(&times, 100);
            worker.spent(Work::Read, Duration::from_secs(1));
        }
        deliver(&totals, 5, 1);
        let stats = totals.sum(facts());
        assert_eq!((stats.samples, stats.bytes_read, stats.batches, stats.delivered), (2, 200, 1, 1));
        assert!((stats.seconds.decode - 6.0).abs() < 1e-9 && (stats.occupancy.decode - 0.75).abs() < 1e-9);
        assert!(stats.bound == Bound::Decode && stats.bottleneck.starts_with("decode-bound"));
        assert_eq!((stats.queue.ready, stats.queue.history.len()), (1, 1));
        deliver(&totals, 0, 500);
        assert_eq!(totals.sum(facts()).bound, Bound::Consumer);
    }

    #[test]
    fn a_trace_has_the_last_samples_and_while_recording_all() {
        let events = |totals: &Totals| {
            let mut text = Vec::new();
            totals.trace(&mut text).unwrap();
            let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let named = |event: &&serde_json::Value| event["name"] == "decode";
            read["traceEvents"].as_array().unwrap().iter().filter(named).count()
        };
        let totals = Totals::default();
        let worker = totals.worker();
        let times = SampleTimes { decode: Duration::from_micros(3), ..SampleTimes::default() };
        for _ in 0..5000 {
            worker.finished(&times, 1);
        }
        assert!((1000..1100).contains(&events(&totals)));
        totals.record();
        for _ in 0..20 {
            for _ in 0..500 {
                worker.finished(&times, 1);
            }
            deliver(&totals, 0, 0);
        }
        assert!(events(&totals) > 10_000);
    }
}
