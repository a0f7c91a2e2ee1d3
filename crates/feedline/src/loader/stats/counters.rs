//! What each worker counts for itself, and the last samples it made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Samples that a worker remembers for a trace.
const REMEMBERED: usize = 1024;

/// One of this many reads is checked: asking the system costs a microsecond.
const CHECK_EVERY: u64 = 64;

/// Numbers of one remembered sample.
const NUMBERS: usize = 7;

/// One worker's counters. Aligned so that no two workers write the same cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(super) samples: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) nanoseconds: [AtomicU64; Work::COUNT],
    /// The system's number of the thread; 0 before it runs.
    pub(super) thread: AtomicU64,
    /// Reads that were checked: their time, and the part of it on a core.
    pub(super) checked: AtomicU64,
    pub(super) checked_on_core: AtomicU64,
    /// Samples ever remembered; the last of them lie in `slots`.
    remembered: AtomicU64,
    slots: Box<[[AtomicU64; NUMBERS]]>,
}

/// What a worker spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reading, without the wait for bytes from a network.
    Read,
    Decode,
    Transform,
    Copy,
    /// No room for another batch: the consumer has to take one first.
    Wait,
    /// Waiting for bytes that a network brings.
    Bytes,
}

impl Work {
    pub(super) const COUNT: usize = 6;
}

/// When one sample was made, and how long each stage took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleTimes {
    pub(crate) sample: u64,
    /// Since the loader began.
    pub(crate) begun: Duration,
    pub(crate) read: Duration,
    /// The part of reading that was waiting for a network.
    pub(crate) waited: Duration,
    pub(crate) copy: Duration,
    pub(crate) decode: Duration,
    pub(crate) transform: Duration,
}

impl SampleTimes {
    fn numbers(&self) -> [u64; NUMBERS] {
        let times = [self.begun, self.read, self.waited, self.copy, self.decode, self.transform];
        let [a, b, c, d, e, f] = times.map(|time| time.as_nanos() as u64);
        [self.sample, a, b, c, d, e, f]
    }

    fn of(numbers: [u64; NUMBERS]) -> Self {
        let [sample, times @ ..] = numbers;
        let [begun, read, waited, copy, decode, transform] = times.map(Duration::from_nanos);
        SampleTimes { sample, begun, read, waited, copy, decode, transform }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            samples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            nanoseconds: Default::default(),
            thread: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            checked_on_core: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
            slots: (0..REMEMBERED).map(|_| Default::default()).collect(),
        }
    }
}

impl Counters {
    /// Notes that the counters belong to the calling thread.
    pub(crate) fn note_thread(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread as u64, Ordering::Relaxed);
    }

    /// Adds time to one kind of work. Relaxed: the sums are only ever shown.
    pub(crate) fn spent(&self, work: Work, time: Duration) {
        self.nanoseconds[work as usize].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Time this thread was on a core so far, for one read of many; `None` for the others.
    pub(crate) fn begin_core_check(&self) -> Option<Duration> {
        let due = self.samples.load(Ordering::Relaxed).is_multiple_of(CHECK_EVERY);
        due.then(on_core)
    }

    /// Ends the check of a read that took `read`.
    pub(crate) fn end_core_check(&self, before: Option<Duration>, read: Duration) {
        if let Some(before) = before {
            let on_core = on_core().saturating_sub(before).min(read);
            self.checked.fetch_add(read.as_nanos() as u64, Ordering::Relaxed);
            self.checked_on_core.fetch_add(on_core.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Counts samples that were made together, as one in a trace.
    pub(crate) fn finished_together(&self, times: &SampleTimes, count: u64) {
        self.samples.fetch_add(count - 1, Ordering::Relaxed);
        self.finished(times, 0);
    }

    /// Counts a finished sample of `bytes` stored bytes.
    pub(crate) fn finished(&self, times: &SampleTimes, bytes: u64) {
        self.samples.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.spent(Work::Decode, times.decode);
        self.spent(Work::Transform, times.transform);
        let number = self.remembered.load(Ordering::Relaxed);
        let slot = &self.slots[number as usize % REMEMBERED];
        for (place, value) in slot.iter().zip(times.numbers()) {
            place.store(value, Ordering::Relaxed);
        }
        // Release: a thread that reads this count also reads the sample's numbers.
        self.remembered.store(number + 1, Ordering::Release);
    }

    /// The samples from number `from` on that are still remembered, and the number after the last.
    pub(super) fn remembered(&self, from: u64) -> (Vec<SampleTimes>, u64) {
        let end = self.remembered.load(Ordering::Acquire);
        let first = from.max(end.saturating_sub(REMEMBERED as u64));
        let read = |number: u64| {
            let slot = &self.slots[number as usize % REMEMBERED];
            (number, std::array::from_fn(|at| slot[at].load(Ordering::Relaxed)))
        };
        let found: Vec<(u64, [u64; NUMBERS])> = (first..end).map(read).collect();
        // The worker has continued meanwhile: samples that it may have overwritten, or is overwriting, are left out.
        let overwritten = (self.remembered.load(Ordering::Acquire) + 1).saturating_sub(REMEMBERED as u64);
        let kept = found.into_iter().filter(|(number, _)| *number >= overwritten);
        (kept.map(|(_, numbers)| SampleTimes::of(numbers)).collect(), end)
    }
}

/// Time the calling thread has been on a core.
fn on_core() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Times pieces of work that follow each other.
#[derive(Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// When it was started or last asked.
    pub(crate) fn at(&self) -> Instant {
        self.0
    }

    /// Time since then.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_samples_are_remembered() {
        let counters = Counters::default();
        let read = Duration::from_nanos(5);
        for sample in 0..3000 {
            counters.finished(&SampleTimes { sample, read, ..SampleTimes::default() }, 10);
        }
        let (found, end) = counters.remembered(0);
        assert_eq!((end, found.len(), found[0].sample), (3000, REMEMBERED - 1, 3001 - REMEMBERED as u64));
        assert!(found.iter().all(|times| times.read == read));
        assert_eq!(counters.remembered(2998).0.len(), 2);
        assert_eq!(counters.bytes.load(Ordering::Relaxed), 30_000);
    }

    #[test]
    fn a_thread_that_sleeps_is_not_on_a_core() {
        let counters = Counters::default();
        let before = counters.begin_core_check();
        assert!(before.is_some(), "the first read is checked");
        std::thread::sleep(Duration::from_millis(20));
        counters.end_core_check(before, Duration::from_millis(20));
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert!(load(&counters.checked_on_core) * 2 < load(&counters.checked));
        counters.finished(&SampleTimes::default(), 0);
        assert!(counters.begin_core_check().is_none(), "the second is not");
    }
}
