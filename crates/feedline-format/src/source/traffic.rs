//! What remote storage was asked for, and how long threads waited for it.

use std::cell::Cell;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Requests for bytes.
    pub requests: u64,
    /// Those that were made again because the first did not succeed.
    pub retries: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Blocks that were found in the disk cache.
    pub cache_hits: u64,
    /// Blocks that had to be fetched for it.
    pub cache_misses: u64,
}

impl Traffic {
    /// Both together.
    pub fn plus(self, other: Traffic) -> Traffic {
        Traffic {
            requests: self.requests + other.requests,
            retries: self.retries + other.retries,
            bytes: self.bytes + other.bytes,
            cache_hits: self.cache_hits + other.cache_hits,
            cache_misses: self.cache_misses + other.cache_misses,
        }
    }
}

thread_local! {
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Notes that this thread waited for bytes.
pub(crate) fn add_wait(time: Duration) {
    WAITED.set(WAITED.get() + time);
}

/// How long this thread waited for bytes that others fetch since it was last asked.
pub fn take_waited() -> Duration {
    WAITED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_belong_to_their_thread_and_are_counted_once() {
        add_wait(Duration::from_millis(2));
        add_wait(Duration::from_millis(3));
        std::thread::spawn(|| assert_eq!(take_waited(), Duration::ZERO)).join().unwrap();
        assert_eq!(take_waited(), Duration::from_millis(5));
        assert_eq!(take_waited(), Duration::ZERO);
    }
}
