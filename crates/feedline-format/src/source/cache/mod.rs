//! A source that keeps fetched bytes on disk, in blocks, for all processes of the machine and for the next run.
//!
//! Each block is fetched by one process at a time: the others wait for its lock and find the block on disk. A process
//! that dies while fetching releases the lock. A block is named by (uri, object, version, length), so that blocks of
//! a changed object are never used. If a block cannot be written to disk, reads continue without it, with one
//! warning.

mod block;
mod block_buffers;
mod disk;
mod folder;
mod lru_map;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use self::block::Description;
use self::block_buffers::BlockBuffers;
use self::disk::{BlockFileId, Disk};
pub use self::folder::{CacheReport, CachedEntry, DiskCache};
use self::lru_map::LruMap;
use super::wanted::is_cancelled;
use super::{
    AheadRead, FolderListing, FolderVersion, HeldBytes, Listing, MappedFile, Object, Seen, Source, Ticket,
    Traffic, check_wanted, past_end, room_for, to_usize,
};
use crate::error::{Error, Location, Result};

/// Bytes per block. Smaller blocks would need more requests; larger ones would fetch too much for a small read.
const BLOCK_BYTES: u64 = 4 << 20;

/// Maximum number of files and objects kept open.
const MAX_OPEN: usize = 256;

/// Number of locks for first checks of blocks, so that threads that want the same block check it once.
const CHECK_LOCKS: usize = 64;

/// Time after a failed write during which no other write is tried.
const PAUSE: Duration = Duration::from_secs(30);

/// A source behind a disk cache.
#[derive(Debug)]
pub struct CachedSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Source>,
    disk: Disk,
    state: Mutex<State>,
    check_locks: [Mutex<()>; CHECK_LOCKS],
    spare: BlockBuffers,
    block_bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Open files of blocks.
    files: LruMap<Arc<File>>,
    /// Blocks that this process wrote or has checked; they need no second check.
    whole: HashMap<String, BlockFileId>,
    objects: LruMap<(Seen, Arc<dyn Object>)>,
    paused: Option<Instant>,
    warnings: Vec<String>,
}

impl CachedSource {
    /// `inner`, with a cache in `folder` of at most `limit` bytes.
    pub fn new(inner: Arc<dyn Source>, folder: &Path, limit: Option<u64>) -> Result<Self> {
        CachedSource::with_lock_timeout(inner, folder, limit, None)
    }

    /// Like `new`, with a limit on the time to wait for other processes.
    pub(super) fn with_lock_timeout(
        inner: Arc<dyn Source>,
        folder: &Path,
        limit: Option<u64>,
        lock_timeout: Option<Duration>,
    ) -> Result<Self> {
        let lock_timeout = lock_timeout.unwrap_or(disk::LOCK_TIMEOUT);
        let disk =
            Disk::open(folder, limit, lock_timeout).map_err(|e| failed("opening the cache", folder, e))?;
        let state = State {
            files: LruMap::new(MAX_OPEN),
            whole: HashMap::new(),
            objects: LruMap::new(MAX_OPEN),
            paused: None,
            warnings: Vec::new(),
        };
        let check_locks = std::array::from_fn(|_| Mutex::default());
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        let (state, block_bytes) = (Mutex::new(state), BLOCK_BYTES);
        let spare = BlockBuffers::default();
        let shared = Shared { inner, disk, state, check_locks, spare, block_bytes, hits, misses };
        let shared = Arc::new(shared);
        if let Some(kind) = shared.disk.read_only() {
            let warning = format!(
                "the cache {} cannot be written ({kind}); its content is used, the rest is streamed",
                folder.display()
            );
            shared.lock().warnings.push(warning);
        }
        Ok(CachedSource { shared })
    }

    fn object(&self, name: &str) -> Result<Arc<CachedObject>> {
        self.shared.object(name)
    }
}

fn failed(action: &'static str, folder: &Path, error: io::Error) -> Error {
    Error::storage(action, Location::new(folder.display().to_string()), error)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(self: &Arc<Self>, name: &str) -> Result<Arc<CachedObject>> {
        let known = self.lock().objects.get(name);
        let (seen, inner) = match known {
            Some(known) => known,
            None => self.open_inner(name)?,
        };
        Ok(Arc::new(CachedObject { name: name.to_owned(), seen, inner: Some(inner), shared: self.clone() }))
    }

    fn open_inner(&self, name: &str) -> Result<(Seen, Arc<dyn Object>)> {
        let inner = self.inner.open(name)?;
        let seen = Seen { size: inner.size(), version: inner.version() };
        let evicted = self.lock().objects.put(name.to_owned(), (seen, inner.clone()));
        drop(evicted);
        Ok((seen, inner))
    }

    fn warn(&self, warning: String) {
        let mut state = self.lock();
        state.paused = Some(Instant::now());
        // Once only: a full disk fails for every block.
        if state.warnings.is_empty() {
            state.warnings.push(warning);
        }
    }

    fn is_paused(&self) -> bool {
        self.lock().paused.is_some_and(|since| since.elapsed() < PAUSE)
    }

    /// Keeps the file of an undamaged block open.
    fn keep(&self, name: String, file: File) -> Arc<File> {
        let (identity, file) = (BlockFileId::of(&file), Arc::new(file));
        let mut state = self.lock();
        if let Some(identity) = identity {
            state.whole.insert(name.clone(), identity);
        }
        let evicted = state.files.put(name, file.clone());
        drop(state);
        drop(evicted);
        file
    }

    /// A block that is on disk. One thread checks it when this process uses it for the first time.
    fn find_on_disk(&self, name: &str, description: &Description) -> Option<Arc<File>> {
        let number = usize::from_str_radix(&name[..8], 16).unwrap_or(0) % CHECK_LOCKS;
        let _checking = self.check_locks[number].lock().unwrap_or_else(PoisonError::into_inner);
        let seen = {
            let mut state = self.lock();
            if let Some(file) = state.files.get(name) {
                return Some(file);
            }
            state.whole.get(name).copied()
        };
        let file = self.disk.find(description, seen)?;
        Some(self.keep(name.to_owned(), file))
    }

    /// The block's file, fetched first if necessary. `None` if it cannot be written to disk.
    fn block(&self, object: &CachedObject, description: &Description) -> Result<Option<Arc<File>>> {
        let name = description.file_name();
        let open = self.lock().files.get(&name);
        if let Some(file) = open.or_else(|| self.find_on_disk(&name, description)) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(file));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        if self.is_paused() || self.disk.read_only().is_some() {
            return Ok(None);
        }
        let kept = self.fetch_block(object, description)?;
        match kept {
            Ok(file) => Ok(Some(self.keep(name, file))),
            Err(error) => {
                // A cancelled wait says nothing about the disk.
                check_wanted()?;
                self.warn(format!("the cache cannot be written ({error}); data are streamed without it"));
                Ok(None)
            }
        }
    }

    /// Fetches a block and writes it to disk, unless another process does so first. The inner error is the disk's.
    fn fetch_block(&self, object: &CachedObject, description: &Description) -> Result<io::Result<File>> {
        let _turn = match self.disk.turn(description) {
            Ok(turn) => turn,
            Err(error) if is_cancelled() => {
                return Err(Error::Closed(format!("the read was cancelled: {error}")));
            }
            Err(error) => return Ok(Err(error)),
        };
        if let Some(file) = self.disk.find(description, None) {
            return Ok(Ok(file));
        }
        let length = to_usize(description.length(), &description.uri, &description.name)?;
        let mut buffer = self.spare.take(length, description)?;
        object.fetch(description.start(), &mut buffer[..length])?;
        let put = self.disk.put(description, &buffer[..length]);
        self.spare.give_back(buffer);
        Ok(put)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for CachedSource {
    fn uri(&self) -> &str {
        self.shared.inner.uri()
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        self.shared.inner.list(prefix)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.shared.inner.exists(name)
    }

    fn children(&self, folder: &str) -> Result<Vec<String>> {
        self.shared.inner.children(folder)
    }

    fn is_remote(&self) -> bool {
        self.shared.inner.is_remote()
    }

    fn warnings(&self) -> Vec<String> {
        self.shared.lock().warnings.clone()
    }

    fn traffic(&self) -> Traffic {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (cache_hits, cache_misses) = (count(&self.shared.hits), count(&self.shared.misses));
        Traffic { cache_hits, cache_misses, ..self.shared.inner.traffic() }
    }

    fn left_out(&self) -> Vec<Error> {
        self.shared.inner.left_out()
    }

    fn largest_request(&self) -> u64 {
        self.shared.inner.largest_request()
    }

    fn is_near(&self) -> bool {
        self.shared.inner.is_near()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        Ok(self.object(name)?)
    }

    /// Blocks are stored by version, so an unknown version must be requested.
    fn open_seen(&self, name: &str, seen: Seen) -> Result<Arc<dyn Object>> {
        if seen.version == 0 {
            return super::open_checked(self, name, seen);
        }
        let (name, inner) = (name.to_owned(), Some(self.shared.inner.open_seen(name, seen)?));
        Ok(Arc::new(CachedObject { name, seen, inner, shared: self.shared.clone() }))
    }

    fn opening_finished(&self) {
        self.shared.inner.opening_finished();
    }

    fn read_unchanged(&self, name: &str, version: u64, into: &mut [u8]) -> Result<()> {
        let seen = Seen { size: into.len() as u64, version };
        CachedObject { name: name.to_owned(), seen, inner: None, shared: self.shared.clone() }
            .read_at(0, into)
    }

    /// Reads in blocks, like every other read.
    fn read_whole(&self, name: &str, into: &mut Vec<u8>) -> Result<()> {
        let object = self.open(name)?;
        into.resize(to_usize(object.size(), self.uri(), name)?, 0);
        object.read_at(0, into)
    }

    fn list_folder(&self, folder: &str) -> Result<Option<FolderListing>> {
        self.shared.inner.list_folder(folder)
    }

    fn folder_version(&self, folder: &str) -> Option<FolderVersion> {
        self.shared.inner.folder_version(folder)
    }

    fn leads_outside(&self, name: &str) -> Result<bool> {
        self.shared.inner.leads_outside(name)
    }

    fn background(&self, job: Box<dyn FnOnce() + Send>) -> Option<Ticket> {
        self.shared.inner.background(job)
    }

    fn forget(&self, name: &str, range: &Range<u64>) {
        let known = self.shared.lock().objects.get(name).map(|(seen, _)| seen);
        let Some(seen) = known.or_else(|| self.shared.open_inner(name).ok().map(|(seen, _)| seen)) else {
            return;
        };
        let object = CachedObject { name: name.to_owned(), seen, inner: None, shared: self.shared.clone() };
        let block_bytes = self.shared.block_bytes;
        for block in range.start / block_bytes..range.end.min(seen.size).div_ceil(block_bytes) {
            let description = object.description(block);
            self.shared.disk.remove(&description);
            let name = description.file_name();
            let mut state = self.shared.lock();
            state.whole.remove(&name);
            let closed = state.files.remove(&name);
            drop((state, closed));
        }
        self.shared.inner.forget(name, range);
    }

    /// What is cached is read by whoever needs it; the rest is remote.
    fn read_ahead(&self, _name: &str, _range: Range<u64>, _seen: Option<Seen>) -> Option<AheadRead> {
        None
    }

    fn map(&self, name: &str, seen: Option<Seen>) -> Result<MappedFile> {
        self.shared.inner.map(name, seen)
    }

    fn prefetch(&self, name: &str, range: Range<u64>, seen: Option<Seen>) -> Option<Ticket> {
        if self.shared.disk.read_only().is_some() {
            return self.shared.inner.prefetch(name, range, seen);
        }
        let seen = seen.filter(|seen| seen.version != 0);
        let block_bytes = self.shared.block_bytes;
        let blocks = range.start / block_bytes..range.end.div_ceil(block_bytes);
        let jobs: Vec<Ticket> = blocks
            .filter_map(|block| {
                let (shared, name) = (self.shared.clone(), name.to_owned());
                self.background(Box::new(move || {
                    // A failure here happens again when the bytes are needed, and is reported then.
                    let _ = shared.fill(&name, block, seen);
                }))
            })
            .collect();
        (!jobs.is_empty()).then(|| Ticket::new(jobs))
    }
}

impl Shared {
    fn fill(self: &Arc<Self>, name: &str, block: u64, seen: Option<Seen>) -> Result<()> {
        let object = match seen {
            Some(seen) => {
                Arc::new(CachedObject { name: name.to_owned(), seen, inner: None, shared: self.clone() })
            }
            None => self.object(name)?,
        };
        let description = object.description(block);
        if description.length() > 0 && !self.disk.has(&description) {
            self.block(&object, &description)?;
        }
        Ok(())
    }
}

/// An object whose bytes come from the cache.
#[derive(Debug)]
struct CachedObject {
    name: String,
    seen: Seen,
    /// `None` for an object that is fetched with what a listing said about it.
    inner: Option<Arc<dyn Object>>,
    shared: Arc<Shared>,
}

impl CachedObject {
    fn description(&self, block: u64) -> Description {
        Description {
            uri: self.shared.inner.uri().to_owned(),
            name: self.name.clone(),
            version: self.seen.version,
            size: self.seen.size,
            block,
            block_bytes: self.shared.block_bytes,
        }
    }

    /// Reads from the source itself.
    fn fetch(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match &self.inner {
            Some(inner) => inner.read_at(offset, into),
            None if offset == 0 && into.len() as u64 == self.seen.size => {
                self.shared.inner.read_unchanged(&self.name, self.seen.version, into)
            }
            None => self.shared.inner.open_seen(&self.name, self.seen)?.read_at(offset, into),
        }
    }

    fn read_block(&self, block: u64, at: u64, into: &mut [u8]) -> Result<()> {
        let description = self.description(block);
        if let Some(file) = self.shared.block(self, &description)?
            && file.read_exact_at(into, at).is_ok()
        {
            return Ok(());
        }
        self.fetch(description.start() + at, into)
    }
}

impl Object for CachedObject {
    fn size(&self) -> u64 {
        self.seen.size
    }

    fn version(&self) -> u64 {
        self.seen.version
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(into.len() as u64);
        if range.end > self.seen.size {
            let place = Location::new(self.shared.inner.uri()).with_shard(&self.name);
            return Err(past_end(place, &range, self.seen.size));
        }
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let block_bytes = self.shared.block_bytes;
            let (block, inside) = (at / block_bytes, at % block_bytes);
            let count = (block_bytes - inside).min(rest.len() as u64) as usize;
            let (room, after) = rest.split_at_mut(count);
            self.read_block(block, inside, room)?;
            (at, rest) = (at + count as u64, after);
        }
        Ok(())
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        let length = range.end.saturating_sub(range.start);
        if range.start > range.end || range.end > self.seen.size {
            let place = Location::new(self.shared.inner.uri()).with_shard(&self.name);
            return Err(past_end(place, &range, self.seen.size));
        }
        let mut bytes = room_for(length, self.shared.inner.uri(), &self.name)?;
        self.read_at(range.start, &mut bytes)?;
        Ok(HeldBytes::Owned(bytes.into()))
    }
}
