//! Ranges that are fetched ahead: filled in the background, readable while they fill, freed with their ticket.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use tokio::task::AbortHandle;

use super::connection::{CHECK_EVERY, Connection};
use super::fetch::{ObjectVersion, RangeRequest};
use super::landing::{Landing, Room};
use crate::error::{Error, Location, Result};
use crate::source::cells::{CELL, Cells};
use crate::source::spare_buffers::{SpareBuffers, capacity_for};
use crate::source::wanted::is_cancelled;
use crate::source::{add_wait, changed};

/// All ranges that are being fetched or held, by object.
#[derive(Debug, Default)]
pub(super) struct Stage {
    ranges: Mutex<HashMap<String, Vec<Arc<Staged>>>>,
    cells: Cells,
    /// Buffers smaller than a cell.
    spare: Mutex<Spare>,
    /// Number of bytes that had to be copied after they were received.
    pub(super) copied: AtomicU64,
}

/// Maximum size of the spare buffers while nothing is fetched.
const MOST_SPARE: usize = 128 << 20;

type Spare = SpareBuffers<BytesMut, MOST_SPARE>;

/// One range and the bytes that have arrived.
#[derive(Debug)]
pub(super) struct Staged {
    range: Range<u64>,
    progress: Mutex<Progress>,
    more: Condvar,
}

#[derive(Debug)]
struct Progress {
    /// The pieces that have arrived, each with its offset in the range.
    pieces: Vec<(usize, Bytes)>,
    /// Number of bytes that have arrived.
    length: usize,
    landing: Landing,
    /// Version of the bytes, once some have arrived.
    known: Option<ObjectVersion>,
    /// Set when no more bytes will arrive.
    failed: Option<Failure>,
    /// Number of bytes that a reader waits for: readers are woken when it is reached, not for each piece.
    awaited: usize,
}

#[derive(Debug)]
enum Failure {
    /// The store or the network failed.
    Fetching(Error),
    /// The ticket was dropped.
    Dropped,
}

impl Progress {
    /// A further piece, the last one or not; gives how many bytes had to be copied.
    fn add(&mut self, piece: Bytes, is_last: bool) -> usize {
        let Progress { landing, pieces, length, .. } = self;
        landing.hold(piece, is_last, |piece| {
            let start = *length;
            *length += piece.len();
            pieces.push((start, piece));
        })
    }

    /// Copies the bytes from `start` on, all of which have arrived.
    fn copy(&self, start: usize, into: &mut [u8]) {
        let first = self.pieces.partition_point(|(before, piece)| before + piece.len() <= start);
        let (mut at, mut rest) = (start, into);
        for (before, piece) in &self.pieces[first..] {
            if rest.is_empty() {
                return;
            }
            let from = at - before;
            let count = rest.len().min(piece.len() - from);
            let (room, after) = rest.split_at_mut(count);
            room.copy_from_slice(&piece[from..from + count]);
            (at, rest) = (at + count, after);
        }
    }
}

impl Staged {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        self.lock().failed = Some(Failure::Fetching(error));
        self.more.notify_all();
    }

    /// Takes over a piece that has arrived and wakes a reader whose bytes are complete. Returns how many bytes had to be
    /// copied.
    fn receive(&self, known: &ObjectVersion, piece: Bytes, is_last: bool) -> usize {
        let mut progress = self.lock();
        if progress.failed.is_some() {
            // Dropped a moment ago; the task ends at its next step.
            return 0;
        }
        let copied = progress.add(piece, is_last);
        if progress.known.is_none() {
            progress.known = Some(known.clone());
        }
        if progress.length >= progress.awaited {
            progress.awaited = usize::MAX;
            drop(progress);
            self.more.notify_all();
        }
        copied
    }

    /// Waits until the version is known; `None` if no bytes will arrive.
    pub(super) fn known(&self) -> Option<ObjectVersion> {
        let mut progress = self.lock();
        while progress.known.is_none() && progress.failed.is_none() && !is_cancelled() {
            progress.awaited = 0;
            let waited = self.more.wait_timeout(progress, CHECK_EVERY);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.known.clone()
    }

    /// Waits for the bytes from `offset` on, which the range must contain, and copies them if they are of the version
    /// `known`. Returns the version that came with them. `None` if the prefetch was cancelled.
    pub(super) fn read(
        &self,
        offset: u64,
        into: &mut [u8],
        known: &ObjectVersion,
        place: &Location,
    ) -> Result<Option<ObjectVersion>> {
        let start = (offset - self.range.start) as usize;
        let end = start + into.len();
        let mut progress = self.lock();
        let begun = (progress.length < end).then(Instant::now);
        while progress.length < end {
            match &progress.failed {
                Some(Failure::Dropped) => return Ok(None),
                Some(Failure::Fetching(error)) => return Err(error.clone()),
                None if is_cancelled() => return Ok(None),
                None => {}
            }
            progress.awaited = progress.awaited.min(end);
            let waited = self.more.wait_timeout(progress, CHECK_EVERY);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(begun) = begun {
            add_wait(begun.elapsed());
        }
        match &progress.known {
            Some(now) if !known.agrees(now) => Err(changed(place.clone(), known.size, now.size)),
            now => {
                progress.copy(start, into);
                Ok(now.clone())
            }
        }
    }
}

/// An empty buffer for `length` bytes again; `None` if a piece of it is still in use.
fn reclaimed(mut buffer: BytesMut, length: usize) -> Option<BytesMut> {
    let capacity = capacity_for(length);
    buffer.clear();
    (buffer.try_reclaim(capacity) && buffer.capacity() == capacity).then_some(buffer)
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Staged>>>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for `length` bytes: whole cells, and a buffer for the rest.
    fn room(&self, length: usize) -> Room {
        let fresh = |capacity| Some(BytesMut::with_capacity(capacity));
        let rest = self.spare().take(length % CELL, fresh).unwrap_or_default();
        Room::new(self.cells.take(length / CELL), rest)
    }

    /// The buffer of a range of `length` bytes is free again; cells come home by themselves.
    fn free_buffer(&self, length: usize, room: Option<Room>) {
        let rest = length % CELL;
        self.spare().put(rest, room.and_then(|room| reclaimed(room.into_rest(), rest)));
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

    /// Discards these bytes: they are damaged.
    pub(super) fn forget(&self, name: &str, range: &Range<u64>) {
        if let Some(list) = self.lock().get_mut(name) {
            list.retain(|staged| staged.range.end <= range.start || range.end <= staged.range.start);
        }
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
pub(super) struct PrefetchGuard {
    connection: Arc<Connection>,
    name: String,
    staged: Arc<Staged>,
    task: AbortHandle,
}

impl Drop for PrefetchGuard {
    fn drop(&mut self) {
        self.connection.stage.remove(&self.name, &self.staged);
        self.task.abort();
        // Another reader that still waits (another epoch over the same data) must send its own request.
        let mut progress = self.staged.lock();
        progress.failed.get_or_insert(Failure::Dropped);
        progress.pieces = Vec::new();
        progress.length = 0;
        let room = progress.landing.take_back();
        drop(progress);
        self.staged.more.notify_all();
        let length = (self.staged.range.end - self.staged.range.start) as usize;
        self.connection.stage.free_buffer(length, room);
    }
}

/// Begins to fetch a range in the background.
pub(super) fn begin(connection: &Arc<Connection>, name: &str, mut request: RangeRequest) -> PrefetchGuard {
    let length = (request.range.end - request.range.start) as usize;
    let landing = Landing::new(connection.stage.room(length));
    request.landing = Some(landing.clone());
    let staged = Arc::new(Staged {
        range: request.range.clone(),
        progress: Mutex::new(Progress {
            pieces: Vec::new(),
            length: 0,
            landing,
            known: None,
            failed: None,
            awaited: usize::MAX,
        }),
        more: Condvar::new(),
    });
    connection.stage.lock().entry(name.to_owned()).or_default().push(staged.clone());
    let (filling, asking) = (staged.clone(), connection.clone());
    // Queues for a slot here and now: tasks begin in no particular order, and the first batch must not wait for the
    // third.
    let mut queueing = Box::pin(connection.slots.clone().acquire_many_owned(connection.slots_for(length)));
    let slot = queueing.as_mut().now_or_never();
    let task = connection.runtime.spawn(async move {
        let _slot = match slot {
            Some(slot) => slot,
            None => queueing.await,
        };
        let (receiving, mut received) = (asking.clone(), 0);
        let sink = |known: &ObjectVersion, piece: Bytes| {
            received += piece.len();
            let copied = filling.receive(known, piece, received == length);
            receiving.stage.copied.fetch_add(copied as u64, Ordering::Relaxed);
        };
        // If the task panics, readers must not wait for it for ever.
        match AssertUnwindSafe(asking.fetch(request, sink)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => filling.fail(error),
            Err(panic) => filling.fail(asking.broken_task(&*panic)),
        }
    });
    PrefetchGuard { connection: connection.clone(), name: name.to_owned(), staged, task: task.abort_handle() }
}
