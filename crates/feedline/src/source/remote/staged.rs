//! Ranges that were asked for ahead of need: filled in the background, read while they fill, let go with their ticket.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::connection::{Connection, LISTEN_EVERY};
use super::fetch::{Pin, Want};
use crate::error::{Error, Location, Result};
use crate::source::changed;
use crate::source::wanted::is_given_up;

/// All ranges that are being fetched or held, by object.
#[derive(Debug, Default)]
pub(super) struct Stage {
    ranges: Mutex<HashMap<String, Vec<Arc<Staged>>>>,
    spare: Mutex<Spare>,
}

/// Buffers of ranges that were let go, for the next ones: memory fresh from the system costs a page fault for every
/// 4 KiB, half as much CPU as receiving the bytes (0.7 of 1.5 s per GB from a loopback server).
#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// Bytes of all ranges that are held now, and the most there ever were.
    held: usize,
    most_held: usize,
}

impl Spare {
    /// An empty buffer for `length` bytes; not a much larger one, for its unused end is memory nobody counts.
    fn take(&mut self, length: usize) -> Vec<u8> {
        self.held += length;
        self.most_held = self.most_held.max(self.held);
        let fits = |buffer: &Vec<u8>| (length..=length + length / 4).contains(&buffer.capacity());
        match self.buffers.iter().rposition(fits) {
            Some(at) => {
                let buffer = self.buffers.swap_remove(at);
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(length),
        }
    }

    /// Takes a buffer back that was taken for `length` bytes. Keeps at most a quarter of what was ever held at once.
    fn put(&mut self, mut buffer: Vec<u8>, length: usize) {
        self.held -= length;
        if buffer.capacity() > self.most_held / 4 {
            return;
        }
        buffer.clear();
        self.bytes += buffer.capacity();
        self.buffers.push(buffer);
        let mut gone = 0;
        while self.bytes > self.most_held / 4 {
            self.bytes -= self.buffers[gone].capacity();
            gone += 1;
        }
        self.buffers.drain(..gone);
    }
}

/// One range and what has come of it.
#[derive(Debug)]
pub(super) struct Staged {
    range: Range<u64>,
    progress: Mutex<Progress>,
    more: Condvar,
}

#[derive(Debug)]
struct Progress {
    bytes: Vec<u8>,
    /// Of which version they are, once something came.
    pin: Option<Pin>,
    /// Set when nothing more will come.
    failed: Option<Failure>,
    /// Somebody waits until there are so many bytes: whoever brings them wakes the waiting, but not for each piece.
    awaited: usize,
}

#[derive(Debug)]
enum Failure {
    /// The store or the network.
    Fetching(Error),
    /// The ticket was dropped.
    Dropped,
}

impl Staged {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        self.lock().failed = Some(Failure::Fetching(error));
        self.more.notify_all();
    }

    /// Waits until it is known which version comes; `None` if nothing will.
    pub(super) fn pin(&self) -> Option<Pin> {
        let mut progress = self.lock();
        while progress.pin.is_none() && progress.failed.is_none() && !is_given_up() {
            progress.awaited = 0;
            let waited = self.more.wait_timeout(progress, LISTEN_EVERY);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.pin.clone()
    }

    /// Waits for the bytes from `offset` on and copies them, if they are of the version `pin`; gives the version as it
    /// was told with them. The range must contain them. `None` if they will not come because whoever asked for them
    /// ahead no longer wants them.
    pub(super) fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        pin: &Pin,
        place: &Location,
    ) -> Result<Option<Pin>> {
        let start = (offset - self.range.start) as usize;
        let end = start + into.len();
        let mut progress = self.lock();
        while progress.bytes.len() < end {
            match &progress.failed {
                Some(Failure::Dropped) => return Ok(None),
                Some(Failure::Fetching(error)) => return Err(error.clone()),
                None if is_given_up() => return Ok(None),
                None => {}
            }
            progress.awaited = progress.awaited.min(end);
            let waited = self.more.wait_timeout(progress, LISTEN_EVERY);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match &progress.pin {
            Some(now) if !pin.agrees(now) => Err(changed(place.clone(), pin.size, now.size)),
            now => {
                into.copy_from_slice(&progress.bytes[start..end]);
                Ok(now.clone())
            }
        }
    }
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Staged>>>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A range that contains this one, complete or not.
    pub(super) fn find(&self, name: &str, range: &Range<u64>) -> Option<Arc<Staged>> {
        let ranges = self.lock();
        let contains =
            |staged: &&Arc<Staged>| staged.range.start <= range.start && range.end <= staged.range.end;
        ranges.get(name)?.iter().find(contains).cloned()
    }

    /// Any range of this object.
    pub(super) fn any(&self, name: &str) -> Option<Arc<Staged>> {
        self.lock().get(name)?.first().cloned()
    }

    fn remove(&self, name: &str, staged: &Arc<Staged>) {
        let mut ranges = self.lock();
        if let Some(list) = ranges.get_mut(name) {
            list.retain(|other| !Arc::ptr_eq(other, staged));
            if list.is_empty() {
                ranges.remove(name);
            }
        }
    }
}

/// Holds a staged range; dropping it stops the transfer and frees the bytes.
#[derive(Debug)]
pub(super) struct Held {
    connection: Arc<Connection>,
    name: String,
    staged: Arc<Staged>,
    task: AbortHandle,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.connection.stage.remove(&self.name, &self.staged);
        self.task.abort();
        // Whoever still waits (another epoch over the same data) must ask for itself.
        let mut progress = self.staged.lock();
        progress.failed.get_or_insert(Failure::Dropped);
        let bytes = std::mem::take(&mut progress.bytes);
        drop(progress);
        self.staged.more.notify_all();
        let length = (self.staged.range.end - self.staged.range.start) as usize;
        self.connection.stage.spare().put(bytes, length);
    }
}

/// Begins to fetch a range in the background.
pub(super) fn begin(connection: &Arc<Connection>, name: &str, want: Want) -> Held {
    let length = (want.range.end - want.range.start) as usize;
    let staged = Arc::new(Staged {
        range: want.range.clone(),
        progress: Mutex::new(Progress {
            bytes: connection.stage.spare().take(length),
            pin: None,
            failed: None,
            awaited: usize::MAX,
        }),
        more: Condvar::new(),
    });
    connection.stage.lock().entry(name.to_owned()).or_default().push(staged.clone());
    let (filling, asking) = (staged.clone(), connection.clone());
    let task = connection.runtime.spawn(async move {
        let _slot = asking.slots.acquire().await;
        let sink = |pin: &Pin, piece: &[u8]| {
            let mut progress = filling.lock();
            if progress.failed.is_some() {
                // Let go a moment ago; this task ends at its next step.
                return;
            }
            progress.bytes.extend_from_slice(piece);
            if progress.pin.is_none() {
                progress.pin = Some(pin.clone());
            }
            if progress.bytes.len() >= progress.awaited {
                progress.awaited = usize::MAX;
                drop(progress);
                filling.more.notify_all();
            }
        };
        if let Err(error) = asking.fetch(want, sink).await {
            filling.fail(error);
        }
    });
    Held { connection: connection.clone(), name: name.to_owned(), staged, task: task.abort_handle() }
}
