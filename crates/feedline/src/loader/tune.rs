//! `auto_tune`: chooses threads and read-ahead from the last epoch's times. Neither changes the content of batches.

/// What `auto_tune` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Number of worker threads.
    pub(crate) threads: usize,
    /// Number of batches in flight.
    pub(crate) depth: usize,
}

/// Time spent, in seconds, since the last look at the setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// Time the consumer waited for batches.
    pub(crate) consumer_wait: f64,
    /// Time the consumer did something else.
    pub(crate) consumer_busy: f64,
    /// Time workers had nothing to do, summed over all.
    pub(crate) workers_idle: f64,
    /// Time workers waited for storage.
    pub(crate) workers_read: f64,
    /// Time workers computed.
    pub(crate) workers_busy: f64,
}

impl Measured {
    /// Difference to `before`.
    pub(crate) fn since(self, before: Measured) -> Measured {
        Measured {
            consumer_wait: self.consumer_wait - before.consumer_wait,
            consumer_busy: self.consumer_busy - before.consumer_busy,
            workers_idle: self.workers_idle - before.workers_idle,
            workers_read: self.workers_read - before.workers_read,
            workers_busy: self.workers_busy - before.workers_busy,
        }
    }
}

/// Limits of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Cores this process may use.
    pub(crate) cores: usize,
    /// Number of batches in flight that the memory budget allows.
    pub(crate) depth: usize,
}

/// The setting to try next: one step towards removing the bottleneck.
pub(crate) fn next(now: Setting, measured: Measured, limits: Limits) -> Setting {
    let consumer = measured.consumer_wait + measured.consumer_busy;
    let workers = measured.workers_idle + measured.workers_read + measured.workers_busy;
    if consumer <= 0.0 || workers <= 0.0 {
        return now;
    }
    let (idle, reading) = (measured.workers_idle / workers, measured.workers_read / workers);
    if measured.consumer_wait < 0.02 * consumer {
        // Batches are ready when requested. Threads that mostly idle take cores from the training.
        let spare = idle > 0.5 && now.threads > 1;
        return Setting { threads: now.threads - usize::from(spare), ..now };
    }
    if idle > 0.2 {
        // The consumer waits although workers idle: it requests batches in bursts, so more must be ready.
        return Setting { depth: (now.depth * 2).min(limits.depth).max(now.depth), ..now };
    }
    // Threads that wait for storage do not need a core each.
    let most = if reading > 0.5 { 4 * limits.cores } else { limits.cores };
    Setting { threads: (now.threads + now.threads.div_ceil(2)).min(most).max(now.threads), ..now }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { cores: 8, depth: 20 };

    fn measured(wait: f64, idle: f64, read: f64) -> Measured {
        Measured {
            consumer_wait: wait,
            consumer_busy: 1.0 - wait,
            workers_idle: idle,
            workers_read: read,
            workers_busy: 1.0 - idle - read,
        }
    }

    #[test]
    fn one_step_towards_the_bottleneck() {
        let now = Setting { threads: 4, depth: 3 };
        assert_eq!(next(now, measured(0.5, 0.0, 0.1), LIMITS), Setting { threads: 6, depth: 3 });
        assert_eq!(next(now, measured(0.5, 0.4, 0.1), LIMITS), Setting { threads: 4, depth: 6 });
        assert_eq!(next(now, measured(0.0, 0.8, 0.1), LIMITS), Setting { threads: 3, depth: 3 });
        assert_eq!(next(now, measured(0.0, 0.1, 0.1), LIMITS), now);
        assert_eq!(next(now, Measured::default(), LIMITS), now);
    }

    #[test]
    fn limits_hold() {
        let mut busy = Setting { threads: 1, depth: 1 };
        let mut slow = busy;
        for _ in 0..20 {
            busy = next(busy, measured(0.9, 0.3, 0.0), LIMITS);
            busy = next(busy, measured(0.9, 0.0, 0.0), LIMITS);
            slow = next(slow, measured(0.9, 0.0, 0.9), LIMITS);
        }
        assert_eq!(busy, Setting { threads: 8, depth: 20 });
        assert_eq!(slow.threads, 32);
    }
}
