//! What limits the speed, and what to do about it, in one sentence.

use serde::{Deserialize, Serialize};

use super::{StageSeconds, Stats};

/// A consumer that waits for a smaller share of its time than this is itself the limit.
const LEAST_WAIT_SHARE: f64 = 0.1;

/// Reads that wait for this share of their time wait for storage; the others copy.
const WAITING_READ_SHARE: f64 = 0.5;

/// Threads that wait for a core for this share of their working time are short of cores.
const SHORT_OF_CORES_SHARE: f64 = 0.35;

/// What limits the speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// Nothing was loaded yet.
    #[default]
    Nothing,
    /// Batches are ready when the consumer asks.
    Consumer,
    /// Batches are ready, but Python's interpreter lock is with another thread.
    Lock,
    /// Bytes do not come fast enough over the network.
    Bytes,
    /// Reading from local storage, or taking apart what was read.
    Read,
    /// Making pixels.
    Decode,
    /// Resizing, flipping, normalising and the like.
    Transform,
    /// Putting values into batches.
    Copy,
}

impl Bound {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Nothing => "nothing",
            Bound::Consumer => "consumer",
            Bound::Lock => "lock",
            Bound::Bytes => "bytes",
            Bound::Read => "read",
            Bound::Decode => "decode",
            Bound::Transform => "transform",
            Bound::Copy => "copy",
        }
    }
}

/// What advice depends on: how the data are stored and read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Each sample is a file of its own.
    pub single_files: bool,
    /// It is a pack.
    pub packed: bool,
    /// Bytes come over a network.
    pub remote: bool,
    /// A disk cache keeps them.
    pub cached: bool,
    /// Images are decoded with `decode='fast'`.
    pub decoded_fast: bool,
    /// How the first image is stored, if the index has it.
    pub encoding: Option<String>,
    /// Threads that could run at once.
    pub cores: usize,
}

impl Stored {
    fn on_bytes(&self) -> &'static str {
        if self.cached {
            "a faster connection would help; later epochs read from the disk cache"
        } else {
            "a faster connection or a disk cache (cache_dir) would help"
        }
    }

    fn on_reading(&self) -> &'static str {
        match self {
            Stored { remote: true, .. } => self.on_bytes(),
            Stored { single_files: true, .. } => {
                "faster storage, or a pack instead of single files, would help"
            }
            Stored { packed: true, .. } => "faster storage, or memory to keep the files in, would help",
            _ => "faster storage or a pack would help",
        }
    }

    /// The shares are those measured in `docs/performance.md`.
    fn on_decoding(&self, threads: usize) -> String {
        let mut ways = Vec::new();
        if threads < self.cores {
            ways.push(format!("more threads ({} cores are usable)", self.cores));
        }
        match self.encoding.as_deref() {
            Some("jpeg") if self.packed => {
                ways.push("a pack with image='dct' (twice as large) would save about half of it".to_owned());
            }
            _ if self.packed => {}
            _ => {
                ways.push(
                    "a pack would save about a fifth of it, one with image='dct' about 60 %".to_owned(),
                );
            }
        }
        if !self.decoded_fast && !self.packed {
            ways.push("decode='fast' helps with large images".to_owned());
        }
        if ways.is_empty() { "more cores would help".to_owned() } else { ways.join("; ") }
    }

    fn on_transforming(&self, threads: usize) -> String {
        if threads < self.cores {
            return format!(
                "more threads ({} cores are usable), or a smaller output, would help",
                self.cores
            );
        }
        "more cores, cheaper transforms or a smaller output would help".to_owned()
    }
}

/// Names the limit: the consumer if it hardly ever waits, otherwise what takes most of the workers' time.
pub(super) fn bound(stats: &Stats) -> Bound {
    let (wait, lock) = (stats.consumer_wait_seconds, stats.interpreter_wait_seconds);
    let all = wait + lock + stats.consumer_busy_seconds;
    if all == 0.0 {
        return Bound::Nothing;
    }
    if lock > wait && lock > LEAST_WAIT_SHARE * all {
        return Bound::Lock;
    }
    if wait < LEAST_WAIT_SHARE * all {
        return Bound::Consumer;
    }
    let seconds = &stats.seconds;
    let stages = [
        (seconds.bytes, Bound::Bytes),
        (seconds.read, Bound::Read),
        (seconds.decode, Bound::Decode),
        (seconds.transform, Bound::Transform),
        (seconds.copy, Bound::Copy),
    ];
    stages.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(Bound::Nothing, |stage| stage.1)
}

/// The limit in words.
pub(super) fn sentence(stats: &Stats, bound: Bound) -> String {
    let (wait, lock) = (stats.consumer_wait_seconds, stats.interpreter_wait_seconds);
    let all = (wait + lock + stats.consumer_busy_seconds).max(f64::MIN_POSITIVE);
    let percent = |part: f64, whole: f64| format!("{:.0} %", 100.0 * part / whole.max(f64::MIN_POSITIVE));
    let (waits, seconds) = (percent(wait, all), &stats.seconds);
    if bound == Bound::Nothing {
        return "nothing loaded yet".to_owned();
    }
    if bound == Bound::Consumer {
        return format!(
            "consumer-bound: batches are ready when it asks, the training step waits {waits} of the time; loading \
             could go {} as fast",
            times(stats)
        );
    }
    if bound == Bound::Lock {
        let held = percent(lock, all);
        return format!(
            "lock-bound: batches are ready, but the training step waits {held} of the time for Python's interpreter \
             lock, which other threads hold; move their work to processes, or let them release the lock"
        );
    }
    let busy = percent(seconds.work(), seconds.work() + seconds.wait);
    let threads =
        if stats.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", stats.threads) };
    let share = percent(seconds.of(bound), seconds.work());
    let (advice, starved) = (advice(stats, bound), starved(stats));
    format!(
        "{}-bound: {threads} {busy} busy, {share} of that {}, the training step waits {waits} of the time; \
         {advice}{starved}",
        bound.name(),
        doing(bound)
    )
}

/// Says that threads have fewer cores than they need, if that is so.
fn starved(stats: &Stats) -> String {
    let (starved, work) = (stats.cores.starved_seconds, stats.seconds.work().max(f64::MIN_POSITIVE));
    if starved < SHORT_OF_CORES_SHARE * work {
        return String::new();
    }
    let why = if stats.threads > stats.stored.cores {
        format!("there are {} for {} threads", stats.stored.cores, stats.threads)
    } else {
        "other work on this machine takes them".to_owned()
    };
    format!(
        "; the threads are short of cores {:.0} % of the time: {why}",
        (100.0 * starved / work).min(100.0)
    )
}

/// How many times as fast the workers could be.
fn times(stats: &Stats) -> String {
    let seconds = &stats.seconds;
    if seconds.work() <= 0.0 {
        return "many times".to_owned();
    }
    let times = (seconds.work() + seconds.wait) / seconds.work();
    if times >= 100.0 { "over 100 times".to_owned() } else { format!("{times:.1} times") }
}

fn doing(bound: Bound) -> &'static str {
    match bound {
        Bound::Bytes => "waiting for bytes from the network",
        Bound::Read => "reading from storage",
        Bound::Decode => "decoding",
        Bound::Transform => "transforming",
        Bound::Copy => "copying values into batches",
        Bound::Nothing | Bound::Consumer | Bound::Lock => "",
    }
}

fn advice(stats: &Stats, bound: Bound) -> String {
    let (stored, threads) = (&stats.stored, stats.threads);
    match bound {
        Bound::Bytes => stored.on_bytes().to_owned(),
        Bound::Read => on_storage(stats),
        Bound::Decode => stored.on_decoding(threads),
        Bound::Transform => stored.on_transforming(threads),
        _ => "fields=[...] leaves out what is not needed".to_owned(),
    }
}

/// What to do about reads that take most of the time, and whether they wait for storage.
fn on_storage(stats: &Stats) -> String {
    let (ways, ahead) = (stats.stored.on_reading(), &stats.read_ahead);
    if stats.stored.remote || stats.read_blocked < WAITING_READ_SHARE {
        return ways.to_owned();
    }
    if !ahead.allowed {
        return format!("storage is the limit, and read_ahead='off' makes the threads wait for it; {ways}");
    }
    if !ahead.active {
        return format!("storage is the limit; {ways}");
    }
    let (reads, waited) = (ahead.reads, ahead.waited);
    format!(
        "storage is the limit although bytes are read ahead ({waited} of {reads} reads waited for it); {ways}"
    )
}

impl StageSeconds {
    /// Everything but waiting for the consumer.
    pub fn work(&self) -> f64 {
        self.read + self.bytes + self.decode + self.transform + self.copy
    }

    /// The part that a limit is about.
    fn of(&self, bound: Bound) -> f64 {
        match bound {
            Bound::Bytes => self.bytes,
            Bound::Read => self.read,
            Bound::Decode => self.decode,
            Bound::Transform => self.transform,
            Bound::Copy => self.copy,
            _ => self.work(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AheadStats, CoreStats, Stats};
    use super::*;

    fn stats(read: f64, decode: f64, wait: f64, busy: f64, stored: &Stored) -> Stats {
        Stats {
            threads: 2,
            seconds: StageSeconds { read, decode, ..StageSeconds::default() },
            consumer_wait_seconds: wait,
            consumer_busy_seconds: busy,
            stored: stored.clone(),
            ..Stats::default()
        }
    }

    fn said(stats: &Stats) -> String {
        sentence(stats, bound(stats))
    }

    #[test]
    fn each_limit_is_named() {
        let here = Stored { cores: 2, ..Stored::default() };
        assert_eq!(bound(&Stats::default()), Bound::Nothing);
        assert_eq!(bound(&stats(1.0, 2.0, 0.01, 5.0, &here)), Bound::Consumer);
        assert_eq!(bound(&stats(1.0, 2.0, 3.0, 5.0, &here)), Bound::Decode);
        assert_eq!(bound(&stats(3.0, 2.0, 3.0, 5.0, &here)), Bound::Read);
        let locked = Stats { interpreter_wait_seconds: 4.0, ..stats(1.0, 2.0, 3.0, 5.0, &here) };
        assert_eq!(bound(&locked), Bound::Lock);
        let starved = CoreStats { cpu_seconds: 1.0, starved_seconds: 2.0 };
        let starved = said(&Stats { cores: starved, ..stats(1.0, 2.0, 3.0, 5.0, &here) });
        assert!(starved.starts_with("decode-bound") && starved.contains("short of cores 67 %"), "{starved}");
        let text = said(&stats(1.0, 3.0, 2.0, 2.0, &here));
        assert!(text.starts_with("decode-bound: 2 threads 100 % busy, 75 % of that decoding"), "{text}");
        assert!(text.contains("the training step waits 50 % of the time"), "{text}");
    }

    #[test]
    fn slow_storage_is_named() {
        let here = Stored { packed: true, cores: 2, ..Stored::default() };
        let waiting = |read_ahead: AheadStats, read_blocked: f64| {
            said(&Stats { read_blocked, read_ahead, ..stats(3.0, 1.0, 3.0, 1.0, &here) })
        };
        let ahead = AheadStats { allowed: true, active: true, reads: 100, waited: 90 };
        let text = waiting(ahead, 0.9);
        assert!(text.starts_with("read-bound") && text.contains("90 of 100 reads waited for it"), "{text}");
        let off = waiting(AheadStats::default(), 0.9);
        assert!(off.contains("storage is the limit, and read_ahead='off'"), "{off}");
        assert!(!waiting(ahead, 0.1).contains("storage is the limit"), "copying is not waiting");
        let idle = waiting(AheadStats { active: false, ..ahead }, 0.9);
        assert!(idle.contains("storage is the limit; faster storage"), "{idle}");
    }

    #[test]
    fn advice_looks_at_the_data() {
        let folder = Stored { single_files: true, cores: 2, ..Stored::default() };
        let pack = Stored { packed: true, decoded_fast: true, cores: 2, ..Stored::default() };
        let far = Stored { remote: true, ..pack.clone() };
        let slow_read = |stored: &Stored| said(&stats(2.0, 1.0, 1.0, 0.0, stored));
        let slow_decode = |stored: &Stored| said(&stats(1.0, 2.0, 1.0, 0.0, stored));
        assert!(slow_read(&folder).contains("a pack instead of single files"));
        assert!(slow_decode(&folder).contains("decode='fast'"));
        for stored in [&pack, &far] {
            for advice in [slow_read(stored), slow_decode(stored)] {
                assert!(!advice.contains("a pack") && !advice.contains("'fast'"), "{advice}");
            }
        }
        let jpeg = Stored { encoding: Some("jpeg".to_owned()), ..pack };
        assert!(slow_decode(&jpeg).contains("image='dct'"));
        assert!(slow_read(&far).contains("cache_dir"));
        assert!(!slow_read(&Stored { cached: true, ..far }).contains("cache_dir"));
        let more = slow_decode(&Stored { cores: 8, ..folder });
        assert!(more.contains("more threads (8 cores are usable)"), "{more}");
    }
}
