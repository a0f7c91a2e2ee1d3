//! Statistics of running loaders: this process's own, and what other ranks send.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use feedline::loader::{Stats, Watcher};
use serde_json::{Value, json};

/// A rank that says nothing for so long is shown as gone.
const SILENT: Duration = Duration::from_secs(15);

/// More ranks than this do not fit on a page.
const MOST_RANKS: usize = 4096;

/// Who is watched.
#[derive(Default)]
pub struct Live {
    own: Mutex<Option<OwnLoader>>,
    sent: Mutex<BTreeMap<u64, (Instant, Stats)>>,
}

#[derive(Debug)]
struct OwnLoader {
    rank: u64,
    loader: Watcher,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("own", &self.own).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// A page for a loader of this process, which is this rank.
    pub fn of(rank: u64, loader: Watcher) -> Self {
        Live { own: Mutex::new(Some(OwnLoader { rank, loader })), sent: Mutex::default() }
    }

    /// Takes what another rank sends.
    pub(crate) fn take(&self, rank: u64, text: &[u8]) -> Result<(), String> {
        let stats: Stats = serde_json::from_slice(text).map_err(|e| format!("no statistics: {e}"))?;
        let mut sent = lock(&self.sent);
        if sent.len() >= MOST_RANKS && !sent.contains_key(&rank) {
            return Err("too many ranks".to_owned());
        }
        sent.insert(rank, (Instant::now(), stats));
        Ok(())
    }

    /// Whether there is anything to see.
    pub(crate) fn is_there(&self) -> bool {
        lock(&self.own).is_some() || !lock(&self.sent).is_empty()
    }

    /// All ranks, and their sum.
    pub(crate) fn show(&self) -> Value {
        let mut ranks: Vec<(u64, bool, Stats)> = Vec::new();
        if let Some(own) = &*lock(&self.own)
            && let Some(stats) = own.loader.stats()
        {
            ranks.push((own.rank, false, stats));
        }
        for (rank, (when, stats)) in &*lock(&self.sent) {
            ranks.push((*rank, when.elapsed() > SILENT, stats.clone()));
        }
        ranks.sort_by_key(|(rank, ..)| *rank);
        let all: Vec<Stats> = ranks.iter().map(|(.., stats)| stats.clone()).collect();
        let shown = |(rank, silent, stats): &(u64, bool, Stats)| json!({"rank": rank, "silent": silent, "stats": stats});
        let ended = all.is_empty();
        json!({"ranks": ranks.iter().map(shown).collect::<Vec<_>>(), "all": Stats::merge(&all), "ended": ended})
    }
}
