//! Statistics of several ranks as one.

use serde::{Deserialize, Serialize};

use super::{Bound, CoreStats, MemoryStats, QueueStats, StageSeconds, Stats};

/// One rank among several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankStats {
    /// Its place in the list that was merged.
    pub rank: usize,
    /// Samples delivered per second.
    pub samples_per_second: f64,
    /// The share of its time that its consumer waited.
    pub waiting: f64,
    /// What limits it.
    pub bound: Bound,
    /// The same in words.
    pub bottleneck: String,
}

impl Stats {
    /// All ranks as one loader: counts, threads and times add up, and so do rates, for ranks run side by side. What is
    /// said about storage is the first rank's.
    pub fn merge(ranks: &[Stats]) -> Stats {
        let mut all = Stats::default();
        for rank in ranks {
            all.add(rank);
        }
        let Some(first) = ranks.first() else { return all };
        all.stored = first.stored.clone();
        all.stored.cores = ranks.iter().map(|rank| rank.stored.cores).max().unwrap_or(0);
        let sum = |rate: fn(&Stats) -> f64| ranks.iter().map(rate).sum();
        all.read_blocked = sum(|rank| rank.read_blocked) / ranks.len() as f64;
        all.work_out_rates();
        all.samples_per_second = sum(|rank| rank.samples_per_second);
        all.recent_samples_per_second = sum(|rank| rank.recent_samples_per_second);
        all.ranks = ranks.iter().enumerate().map(RankStats::of).collect();
        all
    }

    fn add(&mut self, rank: &Stats) {
        self.threads += rank.threads;
        self.depth += rank.depth;
        self.cpus.extend(&rank.cpus);
        self.cpus.sort_unstable();
        self.cpus.dedup();
        self.batches += rank.batches;
        self.samples += rank.samples;
        self.delivered += rank.delivered;
        self.bytes_read += rank.bytes_read;
        self.consumer_wait_seconds += rank.consumer_wait_seconds;
        self.consumer_busy_seconds += rank.consumer_busy_seconds;
        self.interpreter_wait_seconds += rank.interpreter_wait_seconds;
        self.failed += rank.failed;
        self.skipped += rank.skipped;
        self.replaced += rank.replaced;
        self.dropped_per_epoch = self.dropped_per_epoch.max(rank.dropped_per_epoch);
        self.padded_per_epoch = self.padded_per_epoch.max(rank.padded_per_epoch);
        self.seconds = self.seconds.plus(&rank.seconds);
        self.queue = QueueStats { ready: self.queue.ready + rank.queue.ready, history: Vec::new() };
        self.storage = self.storage.plus(rank.storage);
        self.memory = self.memory.plus(&rank.memory);
        self.read_ahead = self.read_ahead.plus(rank.read_ahead);
        self.cores = CoreStats {
            cpu_seconds: self.cores.cpu_seconds + rank.cores.cpu_seconds,
            starved_seconds: self.cores.starved_seconds + rank.cores.starved_seconds,
        };
        for warning in &rank.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }
}

impl RankStats {
    fn of((rank, stats): (usize, &Stats)) -> Self {
        let all = stats.consumer_wait_seconds + stats.consumer_busy_seconds + stats.interpreter_wait_seconds;
        RankStats {
            rank,
            samples_per_second: stats.samples_per_second,
            waiting: if all > 0.0 { stats.consumer_wait_seconds / all } else { 0.0 },
            bound: stats.bound,
            bottleneck: stats.bottleneck.clone(),
        }
    }
}

impl StageSeconds {
    fn plus(&self, other: &StageSeconds) -> StageSeconds {
        StageSeconds {
            read: self.read + other.read,
            bytes: self.bytes + other.bytes,
            decode: self.decode + other.decode,
            transform: self.transform + other.transform,
            copy: self.copy + other.copy,
            wait: self.wait + other.wait,
        }
    }
}

impl MemoryStats {
    fn plus(&self, other: &MemoryStats) -> MemoryStats {
        MemoryStats {
            fresh: self.fresh + other.fresh,
            reused: self.reused + other.reused,
            lent_bytes: self.lent_bytes + other.lent_bytes,
            peak_bytes: self.peak_bytes + other.peak_bytes,
            resident_bytes: self.resident_bytes + other.resident_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_bottleneck_is_found_again() {
        let rank = |decode: f64, wait: f64| {
            let mut stats = Stats {
                threads: 2,
                delivered: 100,
                seconds: StageSeconds { decode, read: 1.0, ..StageSeconds::default() },
                consumer_wait_seconds: wait,
                consumer_busy_seconds: 1.0,
                ..Stats::default()
            };
            stats.work_out_rates();
            stats
        };
        let (fast, slow) = (rank(0.5, 0.01), rank(9.0, 3.0));
        assert_eq!((fast.bound, slow.bound), (Bound::Consumer, Bound::Decode));
        let all = Stats::merge(&[fast.clone(), slow.clone()]);
        assert_eq!((all.threads, all.delivered, all.bound), (4, 200, Bound::Decode));
        assert!((all.samples_per_second - fast.samples_per_second - slow.samples_per_second).abs() < 1e-9);
        assert_eq!(all.ranks.len(), 2);
        assert!(all.ranks[0].waiting < 0.1 && all.ranks[1].waiting > 0.7);
        assert_eq!(Stats::merge(&[]).bound, Bound::Nothing);
    }
}
