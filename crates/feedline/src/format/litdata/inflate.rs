//! Inflating zstd within bounds, and keeping what was inflated.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::Result;

/// First bytes of a zstd frame.
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Inflates to exactly `length` bytes. Memory is asked for before it is used, but a claim alone costs none.
pub(super) fn inflate(frame: &[u8], length: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let decoder = zstd::Decoder::with_buffer(frame).map_err(|e| e.to_string())?;
    // One byte more shows that there is more than there should be.
    decoder.take(length.saturating_add(1)).read_to_end(&mut out).map_err(|e| format!("zstd: {e}"))?;
    if out.len() as u64 != length {
        return Err(format!("inflates to {} {} bytes, not {length}", more(out.len(), length), out.len()));
    }
    Ok(out)
}

fn more(found: usize, expected: u64) -> &'static str {
    if found as u64 > expected { "at least" } else { "only" }
}

/// Appends what a frame inflates to, at most `limit` bytes.
pub(super) fn inflate_up_to(frame: &[u8], limit: u64, out: &mut Vec<u8>) -> Result<(), String> {
    let decoder = zstd::Decoder::with_buffer(frame).map_err(|e| e.to_string())?;
    let found = decoder.take(limit.saturating_add(1)).read_to_end(out).map_err(|e| format!("zstd: {e}"))?;
    if found as u64 > limit { Err(format!("inflates to more than {limit} bytes")) } else { Ok(()) }
}

/// At most this many things are kept, so that throwing the oldest out stays cheap.
const MOST_KEPT: usize = 1024;

/// Costly things (inflated chunks, frames, record batches) shared by all threads, within a budget. Made once even if
/// several threads ask at the same time; the lock is never held while one is made.
#[derive(Debug)]
pub(super) struct Kept<K, T> {
    budget_bytes: usize,
    state: Mutex<State<K, T>>,
}

#[derive(Debug)]
struct State<K, T> {
    entries: HashMap<K, Entry<T>>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    cell: Arc<OnceLock<Result<Arc<T>>>>,
    bytes: usize,
    used: u64,
}

impl<K: Hash + Eq + Clone, T> Kept<K, T> {
    pub(super) fn new(budget_bytes: usize) -> Self {
        let state = State { entries: HashMap::new(), clock: 0, bytes: 0 };
        Kept { budget_bytes, state: Mutex::new(state) }
    }

    /// What is kept under `key`, or what `make` gives with its weight in bytes. A failure is not kept.
    pub(super) fn get(&self, key: &K, make: impl FnOnce() -> Result<(T, usize)>) -> Result<Arc<T>> {
        let cell = self.cell(key);
        if let Some(result) = cell.get() {
            return result.clone();
        }
        let mut weight = 0;
        let result = cell.get_or_init(|| {
            let (value, bytes) = make()?;
            weight = bytes;
            Ok(Arc::new(value))
        });
        match result {
            Ok(_) if weight > 0 => self.weigh(key, &cell, weight),
            Ok(_) => {}
            Err(_) => self.forget(key, &cell),
        }
        result.clone()
    }

    fn state(&self) -> MutexGuard<'_, State<K, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cell(&self, key: &K) -> Arc<OnceLock<Result<Arc<T>>>> {
        let mut state = self.state();
        state.clock += 1;
        let used = state.clock;
        let entry = state.entries.entry(key.clone()).or_insert_with(|| Entry {
            cell: Arc::new(OnceLock::new()),
            bytes: 0,
            used,
        });
        entry.used = used;
        entry.cell.clone()
    }

    /// Notes the weight of a new thing and lets go of the ones unused for longest until all fit.
    fn weigh(&self, key: &K, cell: &Arc<OnceLock<Result<Arc<T>>>>, bytes: usize) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(key).filter(|e| Arc::ptr_eq(&e.cell, cell)) else { return };
        entry.bytes = bytes;
        state.bytes += bytes;
        while (state.bytes > self.budget_bytes || state.entries.len() > MOST_KEPT) && state.entries.len() > 1
        {
            // Those still being made weigh nothing yet and are wanted by somebody.
            let made = state.entries.iter().filter(|(other, e)| *other != key && e.bytes > 0);
            let Some(oldest) = made.min_by_key(|(_, e)| e.used).map(|(k, _)| k.clone()) else { return };
            let gone = state.entries.remove(&oldest).map_or(0, |e| e.bytes);
            state.bytes -= gone;
        }
    }

    fn forget(&self, key: &K, cell: &Arc<OnceLock<Result<Arc<T>>>>) {
        let mut state = self.state();
        if state.entries.get(key).is_some_and(|e| Arc::ptr_eq(&e.cell, cell)) {
            state.entries.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::{Error, Location};

    #[test]
    fn inflating_stops_at_what_was_announced() {
        let frame = zstd::encode_all(&vec![7; 100_000][..], 3).unwrap();
        assert_eq!(inflate(&frame, 100_000).unwrap(), vec![7; 100_000]);
        for length in [0, 99_999, 100_001, u64::MAX] {
            assert!(inflate(&frame, length).is_err(), "{length}");
        }
        assert!((0..frame.len()).all(|n| inflate(&frame[..n], 100_000).is_err()));
        let mut out = vec![1];
        inflate_up_to(&frame, 100_000, &mut out).unwrap();
        assert_eq!(out.len(), 100_001);
        assert!(inflate_up_to(&frame, 99_999, &mut out).is_err());
    }

    #[test]
    fn things_are_made_once_and_the_oldest_go() {
        let kept: Kept<u32, u32> = Kept::new(10);
        let made = AtomicUsize::new(0);
        let get = |key: u32| {
            kept.get(&key, || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok((key * 2, 5))
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(*get(1).unwrap(), 2));
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let _ = (get(2), get(1), get(3), get(1));
        assert_eq!(made.load(Ordering::Relaxed), 3, "1 was used last, 2 went");
        let _ = get(2);
        assert_eq!(made.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_failure_may_be_tried_again() {
        let kept: Kept<u32, u32> = Kept::new(10);
        let fail = || Err(Error::data(Location::new("x"), "no"));
        assert!(kept.get(&1, fail).is_err());
        assert_eq!(*kept.get(&1, || Ok((7, 1))).unwrap(), 7);
    }

    #[test]
    fn one_thing_larger_than_the_budget_is_still_kept() {
        let kept: Kept<u32, u32> = Kept::new(10);
        kept.get(&1, || Ok((7, 100))).unwrap();
        assert_eq!(*kept.get(&1, || panic!("kept")).unwrap(), 7);
    }
}
