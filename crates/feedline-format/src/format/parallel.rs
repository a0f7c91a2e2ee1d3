//! Runs the same work for many objects on all cores: scanning shards, reading footers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::source::{cancel_flag, check_wanted, with_flag};

/// At least this many threads, even on fewer cores: a bucket answers slowly, but many requests at once.
const MIN_THREADS: usize = 8;

/// The results of `work` for each of `count` objects, in order; or the error of the first one in that order that
/// failed.
pub(super) fn collect<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let results: Vec<Mutex<Option<Result<T>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(number) else { return };
            let result = check_wanted().and_then(|()| work(number));
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.max(MIN_THREADS).min(count);
    let flag = cancel_flag();
    std::thread::scope(|scope| {
        for number in 1..threads {
            // If a thread cannot be started, the others do its work.
            let builder = std::thread::Builder::new().name(format!("feedline-scan-{number}"));
            let flag = flag.clone();
            let _ = builder.spawn_scoped(scope, || with_flag(flag, run));
        }
        run();
    });
    let taken = |slot: Mutex<Option<Result<T>>>| {
        slot.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every object was worked on")
    };
    results.into_iter().map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Location};

    #[test]
    fn results_are_in_order_and_the_first_failure_is_reported() {
        assert_eq!(collect(100, |n| Ok(n * 2)).unwrap(), (0..100).map(|n| n * 2).collect::<Vec<_>>());
        let fail =
            |n: usize| if n % 3 == 2 { Err(Error::data(Location::new("x"), n.to_string())) } else { Ok(n) };
        assert!(collect(10, fail).unwrap_err().to_string().ends_with(": 2"));
        assert!(collect(0, Ok).unwrap().is_empty());
    }
}
