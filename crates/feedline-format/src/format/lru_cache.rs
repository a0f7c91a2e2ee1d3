//! A cache of decompressed pieces, limited in bytes and shared by all threads.
//!
//! For containers whose compressed pieces contain many samples. A piece is made once for all threads that want it at
//! the same time (the others wait for that piece alone), and the least recently used pieces are dropped when the
//! cache is full. Pieces are immutable; a reader keeps its piece alive even after it was dropped from the cache. The
//! lock is held for a look-up, never while a piece is made.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Number of bytes that a piece takes.
pub(super) trait ByteSize {
    fn weight(&self) -> usize;
}

impl ByteSize for Vec<u8> {
    fn weight(&self) -> usize {
        self.capacity()
    }
}

/// Pieces by key. See the module.
#[derive(Debug)]
pub(super) struct LruCache<K, V> {
    state: Mutex<State<K, V>>,
    most_bytes: usize,
}

#[derive(Debug)]
struct State<K, V> {
    pieces: HashMap<K, Piece<V>>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct Piece<V> {
    slot: Arc<Mutex<Option<Arc<V>>>>,
    bytes: usize,
    used: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Copy + Eq + Hash + Debug, V: ByteSize> LruCache<K, V> {
    /// Keeps up to `most_bytes`, and always the newest piece.
    pub(super) fn new(most_bytes: usize) -> Self {
        let state = State { pieces: HashMap::new(), bytes: 0, clock: 0 };
        LruCache { state: Mutex::new(state), most_bytes }
    }

    /// The piece `key`, made by `make` if it is not cached. A failure is not remembered.
    pub(super) fn get(&self, key: K, make: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        let slot = self.slot(key);
        let mut inside = lock(&slot);
        if let Some(piece) = &*inside {
            return Ok(piece.clone());
        }
        match make() {
            Ok(piece) => {
                let piece = Arc::new(piece);
                *inside = Some(piece.clone());
                drop(inside);
                self.account(key, piece.weight());
                Ok(piece)
            }
            Err(error) => {
                lock(&self.state).pieces.remove(&key);
                Err(error)
            }
        }
    }

    /// The piece `key` if it is cached; makes nothing and does not wait.
    pub(super) fn peek(&self, key: K) -> Option<Arc<V>> {
        let slot = lock(&self.state).pieces.get(&key)?.slot.clone();
        slot.try_lock().ok()?.clone()
    }

    fn slot(&self, key: K) -> Arc<Mutex<Option<Arc<V>>>> {
        let mut state = lock(&self.state);
        state.clock += 1;
        let used = state.clock;
        let piece = state.pieces.entry(key).or_insert_with(|| Piece { slot: Arc::default(), bytes: 0, used });
        piece.used = used;
        piece.slot.clone()
    }

    /// Records the size of a new piece and drops the least recently used ones.
    fn account(&self, key: K, weight: usize) {
        let mut state = lock(&self.state);
        let State { pieces, bytes, .. } = &mut *state;
        if let Some(piece) = pieces.get_mut(&key) {
            *bytes = *bytes - piece.bytes + weight;
            piece.bytes = weight;
        }
        while *bytes > self.most_bytes {
            let others = pieces.iter().filter(|(other, piece)| **other != key && piece.bytes > 0);
            let Some(oldest) = others.min_by_key(|(_, piece)| piece.used).map(|(key, _)| *key) else {
                return;
            };
            if let Some(piece) = pieces.remove(&oldest) {
                *bytes -= piece.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::error::{Error, Location};

    #[test]
    fn the_least_recently_used_piece_is_dropped_first() {
        let made = AtomicUsize::new(0);
        let cache: LruCache<u32, Vec<u8>> = LruCache::new(250);
        let get = |key: u32| {
            let make = || {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(vec![key as u8; 100])
            };
            assert_eq!(cache.get(key, make).unwrap()[0], key as u8);
        };
        [1, 2, 1, 3].into_iter().for_each(get);
        assert_eq!(made.load(Ordering::Relaxed), 3);
        get(1);
        assert!(cache.peek(1).is_some() && cache.peek(2).is_none());
        assert_eq!(made.load(Ordering::Relaxed), 3);
        get(2);
        assert_eq!(made.load(Ordering::Relaxed), 4);
        assert!(lock(&cache.state).bytes <= 250);
    }

    #[test]
    fn a_piece_is_made_once_and_failures_are_retried() {
        let made = AtomicUsize::new(0);
        let cache: LruCache<u32, Vec<u8>> = LruCache::new(1000);
        let fail = || Err(Error::data(Location::new("x"), "no"));
        assert!(cache.get(7, fail).is_err());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(vec![1; 10])
                    };
                    assert_eq!(cache.get(7, make).unwrap().len(), 10);
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
