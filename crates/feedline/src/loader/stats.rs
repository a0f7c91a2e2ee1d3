//! Where the time goes: counters that each worker keeps for itself, and the sum that names the bottleneck.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::tune::Seen;
use crate::batch::PoolStats;

/// One worker's counters. Aligned so that no two workers write the same cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    samples: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: [AtomicU64; 5],
}

/// What a worker spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Decode,
    Transform,
    Copy,
    Wait,
}

impl Counters {
    /// Adds time to one kind of work. Relaxed: the sums are only ever shown.
    pub(crate) fn spent(&self, work: Work, time: Duration) {
        self.nanoseconds[work as usize].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts a finished sample.
    pub(crate) fn sample(&self, bytes: u64) {
        self.samples.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// All workers' counters and what the consumer saw.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    workers: Mutex<Vec<Arc<Counters>>>,
    batches: AtomicU64,
    consumer_wait: AtomicU64,
    consumer_busy: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    replaced: AtomicU64,
}

impl Totals {
    /// Counters for a new worker.
    pub(crate) fn worker(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    pub(crate) fn delivered(&self, waited: Duration, busy: Duration) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.consumer_wait.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        self.consumer_busy.fetch_add(busy.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(crate) fn failures(&self, failed: u64, skipped: u64, replaced: u64) {
        self.failed.fetch_add(failed, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.replaced.fetch_add(replaced, Ordering::Relaxed);
    }
}

/// What a loader has done so far.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// Worker threads.
    pub threads: usize,
    /// Batches that may be in flight at once.
    pub depth: usize,
    /// Batches delivered.
    pub batches: u64,
    /// Samples made (some may still wait to be delivered).
    pub samples: u64,
    /// Stored bytes read.
    pub bytes_read: u64,
    /// Seconds of worker time per stage, summed over workers.
    pub seconds: StageSeconds,
    /// Seconds the consumer waited for a batch.
    pub consumer_wait_seconds: f64,
    /// Seconds the consumer did something else between batches.
    pub consumer_busy_seconds: f64,
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
    /// Batch memory.
    pub memory: MemoryStats,
    /// What limits the speed, in words.
    pub bottleneck: &'static str,
    /// What went wrong without harm: a disk cache that cannot be written.
    pub warnings: Vec<String>,
}

/// Worker seconds by stage.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StageSeconds {
    /// Getting bytes.
    pub read: f64,
    /// Making pixels of them.
    pub decode: f64,
    /// Resizing, flipping, normalising.
    pub transform: f64,
    /// Everything else in a sample's making: labels, text, copies.
    pub copy: f64,
    /// Idle: no room for another batch, or none left.
    pub wait: f64,
}

/// Batch memory in bytes and loans.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MemoryStats {
    /// Allocations made.
    pub fresh: u64,
    /// Loans of memory that had come back.
    pub reused: u64,
    /// Bytes out now, with workers or with you.
    pub lent_bytes: u64,
    /// The most that was out at once.
    pub peak_bytes: u64,
}

impl Totals {
    /// Where time went, for `auto_tune`.
    pub(crate) fn seen(&self) -> Seen {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = |work: Work| {
            workers.iter().map(|w| w.nanoseconds[work as usize].load(Ordering::Relaxed)).sum::<u64>() as f64
                * 1e-9
        };
        Seen {
            consumer_wait: self.consumer_wait.load(Ordering::Relaxed) as f64 * 1e-9,
            consumer_busy: self.consumer_busy.load(Ordering::Relaxed) as f64 * 1e-9,
            workers_idle: seconds(Work::Wait),
            workers_read: seconds(Work::Read),
            workers_busy: seconds(Work::Decode) + seconds(Work::Transform) + seconds(Work::Copy),
        }
    }

    /// The sum of everything. `threads` and `depth` are the plan's.
    pub(crate) fn sum(
        &self,
        threads: usize,
        depth: usize,
        pool: PoolStats,
        dropped: u64,
        padded: u64,
        stored: Stored,
    ) -> Stats {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |read: &dyn Fn(&Counters) -> u64| workers.iter().map(|w| read(w)).sum::<u64>();
        let seconds =
            |work: Work| add(&|w| w.nanoseconds[work as usize].load(Ordering::Relaxed)) as f64 * 1e-9;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stages = StageSeconds {
            read: seconds(Work::Read),
            decode: seconds(Work::Decode),
            transform: seconds(Work::Transform),
            copy: seconds(Work::Copy),
            wait: seconds(Work::Wait),
        };
        let (wait, busy) = (load(&self.consumer_wait) as f64 * 1e-9, load(&self.consumer_busy) as f64 * 1e-9);
        Stats {
            threads,
            depth,
            batches: load(&self.batches),
            samples: add(&|w| load(&w.samples)),
            bytes_read: add(&|w| load(&w.bytes)),
            seconds: stages,
            consumer_wait_seconds: wait,
            consumer_busy_seconds: busy,
            failed: load(&self.failed),
            skipped: load(&self.skipped),
            replaced: load(&self.replaced),
            dropped_per_epoch: dropped,
            padded_per_epoch: padded,
            memory: MemoryStats {
                fresh: pool.fresh,
                reused: pool.reused,
                lent_bytes: pool.lent_bytes,
                peak_bytes: pool.peak_bytes,
            },
            bottleneck: bottleneck(&stages, wait, busy, stored),
            warnings: Vec::new(),
        }
    }
}

/// What advice depends on: how the data are stored and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Each sample is a file of its own.
    pub(crate) single_files: bool,
    /// It is a pack.
    pub(crate) packed: bool,
    /// Bytes cross a network.
    pub(crate) remote: bool,
    /// Images are decoded as fast as they can be.
    pub(crate) decoded_fast: bool,
}

impl Stored {
    fn advice_on_reading(self) -> &'static str {
        match self {
            Stored { remote: true, .. } => {
                "reading: a faster connection, or a disk cache (cache_dir), would help"
            }
            Stored { single_files: true, .. } => {
                "reading: faster storage, or a pack instead of single files, would help"
            }
            Stored { packed: true, .. } => {
                "reading: faster storage, or memory to keep the files in, would help"
            }
            _ => "reading: faster storage, or a pack, would help",
        }
    }

    fn advice_on_decoding(self) -> &'static str {
        match (self.packed, self.decoded_fast) {
            (true, true) => "decoding: more threads would help",
            (true, false) => "decoding: more threads, or decode='fast', would help",
            (false, true) => "decoding: more threads, or a pack with a seek index, would help",
            (false, false) => "decoding: more threads, a pack with a seek index, or decode='fast' would help",
        }
    }
}

/// The consumer is the limit if it hardly ever waits; otherwise the stage that takes most worker time.
fn bottleneck(stages: &StageSeconds, wait: f64, busy: f64, stored: Stored) -> &'static str {
    if wait + busy == 0.0 {
        return "nothing loaded yet";
    }
    if wait < 0.1 * (wait + busy) {
        return "the consumer: batches are ready when it asks";
    }
    let by_stage = [
        (stages.read, stored.advice_on_reading()),
        (stages.decode, stored.advice_on_decoding()),
        (stages.transform, "transforms: more threads, or a smaller output, would help"),
        (stages.copy, "copying values into batches"),
    ];
    by_stage.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or("unknown", |stage| stage.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_workers_and_names_the_bottleneck() {
        let totals = Totals::default();
        for _ in 0..2 {
            let worker = totals.worker();
            worker.sample(100);
            worker.spent(Work::Decode, Duration::from_secs(3));
            worker.spent(Work::Read, Duration::from_secs(1));
        }
        totals.delivered(Duration::from_secs(5), Duration::from_secs(1));
        let stored = Stored { single_files: true, packed: false, remote: false, decoded_fast: false };
        let stats = totals.sum(2, 3, PoolStats::default(), 0, 0, stored);
        assert_eq!((stats.samples, stats.bytes_read, stats.batches), (2, 200, 1));
        assert!((stats.seconds.decode - 6.0).abs() < 1e-9);
        assert!(stats.bottleneck.starts_with("decoding"));
        totals.delivered(Duration::ZERO, Duration::from_secs(500));
        let stats = totals.sum(2, 3, PoolStats::default(), 0, 0, stored);
        assert!(stats.bottleneck.starts_with("the consumer"));
    }

    #[test]
    fn advice_looks_at_the_data() {
        let slow = |read, decode| StageSeconds { read, decode, ..StageSeconds::default() };
        let folder = Stored { single_files: true, packed: false, remote: false, decoded_fast: false };
        let pack = Stored { single_files: false, packed: true, remote: false, decoded_fast: true };
        let far = Stored { remote: true, ..pack };
        assert!(bottleneck(&slow(2.0, 1.0), 1.0, 0.0, folder).contains("a pack instead of single files"));
        assert!(bottleneck(&slow(1.0, 2.0), 1.0, 0.0, folder).contains("decode='fast'"));
        for stored in [pack, far] {
            for stages in [slow(2.0, 1.0), slow(1.0, 2.0)] {
                let advice = bottleneck(&stages, 1.0, 0.0, stored);
                assert!(!advice.contains("a pack") && !advice.contains("'fast'"), "{advice}");
            }
        }
        assert!(bottleneck(&slow(2.0, 1.0), 1.0, 0.0, far).contains("cache"));
    }
}
