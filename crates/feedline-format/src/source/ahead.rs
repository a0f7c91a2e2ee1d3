//! Ranges of local files that are read before they are needed, by threads of somebody else, and held until their ticket is
//! dropped.
//!
//! Nothing here can make a read fail or return other bytes: a range that could not be read, or that is of another file
//! than the reader's, counts as absent, and the reader reads the file itself.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::direct::{self, Bypass};
use super::local::version;
use super::spare_buffers::SpareBuffers;
use super::{Seen, Ticket, add_wait, check_wanted};
use crate::error::Result;

/// How often a waiting reader checks whether it is still wanted.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Number of files kept open for ranges of them. Files that are read as a whole are closed at once.
const MOST_OPEN: usize = 32;

/// Maximum size of the spare buffers.
const MOST_SPARE: usize = 64 << 20;

/// Ranges that begin before a reader's, of which one may contain it. More than one only if several epochs read the same file.
const CANDIDATES: usize = 4;

/// A read that a thread of the caller's does. `job` blocks while it reads; until the ticket is dropped, reads inside the range
/// are served from it.
pub struct AheadRead {
    /// Holds the range.
    pub ticket: Ticket,
    /// Does the read, unless the ticket was dropped or a reader came first: false then.
    pub job: Box<dyn FnOnce() -> bool + Send>,
}

impl std::fmt::Debug for AheadRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AheadRead").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Which file, in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    id: (u64, u64),
    pub(super) size: u64,
    pub(super) version: u64,
}

impl Identity {
    pub(super) fn of(meta: &Metadata) -> Self {
        Identity { id: (meta.dev(), meta.ino()), size: meta.len(), version: version(meta) }
    }

    pub(super) fn agrees(&self, seen: Seen) -> bool {
        self.size == seen.size && (seen.version == 0 || seen.version == self.version)
    }
}

/// All ranges of a source.
#[derive(Debug, Default)]
pub(super) struct Stage {
    /// Number of ranges. While it is 0, readers look no further.
    count: AtomicUsize,
    ranges: Mutex<Ranges>,
    spare: Mutex<SpareBuffers<Vec<u8>, MOST_SPARE>>,
    open: Mutex<VecDeque<(String, Arc<OpenFile>)>>,
    /// Whether ranges are read past the page cache.
    pub(super) bypass: Bypass,
}

#[derive(Debug, Default)]
struct Ranges {
    /// By name, then by start and a running number.
    by_name: HashMap<String, BTreeMap<(u64, u64), Arc<Staged>>>,
    next: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    identity: Identity,
    /// Opened for reads past the page cache.
    is_direct: bool,
}

#[derive(Debug)]
struct Staged {
    range: Range<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
enum State {
    Queued,
    Reading,
    Ready(Arc<Buffer>, Identity),
    /// Not here: it could not be read, a reader came first, or the ticket was dropped.
    Absent,
}

/// A range's bytes, whose memory is used again.
#[derive(Debug)]
struct Buffer {
    memory: Vec<u8>,
    /// The part of the memory that was asked for.
    room: usize,
    /// Place of the range in it.
    start: usize,
    home: Arc<Stage>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of `capacity` bytes; `None` if the system has none.
fn zeros(capacity: usize) -> Option<Vec<u8>> {
    let mut fresh = Vec::new();
    fresh.try_reserve_exact(capacity).ok()?;
    fresh.resize(capacity, 0);
    Some(fresh)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        lock(&self.home.spare).put(self.room, Some(std::mem::take(&mut self.memory)));
    }
}

impl Stage {
    pub(super) fn new(bypass: Bypass) -> Self {
        Stage { bypass, ..Stage::default() }
    }

    /// Plans to read `range` of the file `name` at `path`.
    pub(super) fn plan(
        self: &Arc<Self>,
        name: &str,
        path: PathBuf,
        range: Range<u64>,
        seen: Option<Seen>,
    ) -> Option<AheadRead> {
        usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let staged = Arc::new(Staged {
            range: range.clone(),
            state: Mutex::new(State::Queued),
            changed: Condvar::new(),
        });
        let mut ranges = lock(&self.ranges);
        let key = (range.start, ranges.next);
        ranges.next += 1;
        ranges.by_name.entry(name.to_owned()).or_default().insert(key, staged.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(ranges);
        let held = AheadGuard { stage: self.clone(), name: name.to_owned(), key, staged: staged.clone() };
        let (stage, name) = (self.clone(), name.to_owned());
        let job = Box::new(move || staged.fill(|| stage.read(&name, path, range, seen)));
        Some(AheadRead { ticket: Ticket::new(held), job })
    }

    /// Fills `into` with a range that was read ahead of a file that `agrees`, after a wait for it if need be. False if it is
    /// not here: the caller must read it. An error if the caller's work was cancelled meanwhile.
    pub(super) fn serve(
        &self,
        name: &str,
        range: &Range<u64>,
        agrees: impl Fn(&Identity) -> bool,
        into: &mut [u8],
    ) -> Result<bool> {
        // Relaxed: whoever misses a range reads the file.
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let Some(staged) = self.find(name, range) else { return Ok(false) };
        let Some((buffer, identity)) = staged.wait(range)? else { return Ok(false) };
        if !agrees(&identity) {
            return Ok(false);
        }
        let start = buffer.start + (range.start - staged.range.start) as usize;
        into.copy_from_slice(&buffer.memory[start..start + into.len()]);
        Ok(true)
    }

    fn find(&self, name: &str, range: &Range<u64>) -> Option<Arc<Staged>> {
        let ranges = lock(&self.ranges);
        let before = ranges.by_name.get(name)?.range(..=(range.start, u64::MAX));
        let contains = |staged: &&Arc<Staged>| range.end <= staged.range.end;
        before.rev().map(|(_, staged)| staged).take(CANDIDATES).find(contains).cloned()
    }

    fn read(
        self: &Arc<Self>,
        name: &str,
        path: PathBuf,
        range: Range<u64>,
        seen: Option<Seen>,
    ) -> io::Result<(Arc<Buffer>, Identity)> {
        let opened = self.open(name, path, &range)?;
        if range.end > opened.identity.size || seen.is_some_and(|seen| !opened.identity.agrees(seen)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = (range.end - range.start) as usize;
        let room = if opened.is_direct { length.saturating_add(direct::MARGIN) } else { length };
        let memory = lock(&self.spare).take(room, zeros).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffer = Buffer { memory, room, start: 0, home: self.clone() };
        if opened.is_direct {
            buffer.start = direct::read_aligned(&opened.file, range, &mut buffer.memory)?;
        } else {
            opened.file.read_exact_at(&mut buffer.memory[..length], range.start)?;
        }
        Ok((Arc::new(buffer), opened.identity))
    }

    /// The file, kept open if only a part of it is read.
    fn open(&self, name: &str, path: PathBuf, range: &Range<u64>) -> io::Result<Arc<OpenFile>> {
        let kept = lock(&self.open).iter().find(|(known, _)| known == name).map(|(_, file)| file.clone());
        if let Some(file) = kept {
            return Ok(file);
        }
        let is_direct = self.bypass.is_on();
        let file = if is_direct { direct::open(&path)? } else { File::open(path)? };
        let identity = Identity::of(&file.metadata()?);
        let opened = Arc::new(OpenFile { file, identity, is_direct });
        if range.end - range.start < identity.size {
            let mut open = lock(&self.open);
            open.push_back((name.to_owned(), opened.clone()));
            let oldest = if open.len() > MOST_OPEN { open.pop_front() } else { None };
            drop(open);
            drop(oldest);
        }
        Ok(opened)
    }
}

impl Staged {
    /// Reads the range, unless it is no longer wanted: false then.
    fn fill(&self, read: impl FnOnce() -> io::Result<(Arc<Buffer>, Identity)>) -> bool {
        {
            let mut state = lock(&self.state);
            if !matches!(*state, State::Queued) {
                return false;
            }
            *state = State::Reading;
        }
        // If the read panics, nobody may wait for it.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
        let mut state = lock(&self.state);
        if matches!(*state, State::Reading) {
            *state = match result {
                Ok(Ok((buffer, identity))) => State::Ready(buffer, identity),
                _ => State::Absent,
            };
        }
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Waits until the range is here; `None` if it will not be.
    fn wait(&self, wanted: &Range<u64>) -> Result<Option<(Arc<Buffer>, Identity)>> {
        let mut state = lock(&self.state);
        let mut begun = None;
        let found = loop {
            match &*state {
                State::Ready(buffer, identity) => break Some((buffer.clone(), *identity)),
                State::Absent => break None,
                // Nobody has begun, and nobody else needs it: the reader is as quick.
                State::Queued if *wanted == self.range => *state = State::Absent,
                State::Queued | State::Reading => {
                    check_wanted()?;
                    begun.get_or_insert_with(Instant::now);
                    let waited = self.changed.wait_timeout(state, CHECK_EVERY);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        drop(state);
        if let Some(begun) = begun {
            add_wait(begun.elapsed());
        }
        Ok(found)
    }
}

/// Holds a range; dropping it frees the bytes.
#[derive(Debug)]
struct AheadGuard {
    stage: Arc<Stage>,
    name: String,
    key: (u64, u64),
    staged: Arc<Staged>,
}

impl Drop for AheadGuard {
    fn drop(&mut self) {
        let mut ranges = lock(&self.stage.ranges);
        if let Some(list) = ranges.by_name.get_mut(&self.name) {
            list.remove(&self.key);
            if list.is_empty() {
                ranges.by_name.remove(&self.name);
            }
        }
        self.stage.count.fetch_sub(1, Ordering::Relaxed);
        // Files change between epochs; whoever reads next opens them again.
        let last = ranges.by_name.is_empty();
        drop(ranges);
        if last {
            let files = std::mem::take(&mut *lock(&self.stage.open));
            drop(files);
        }
        let before = std::mem::replace(&mut *lock(&self.staged.state), State::Absent);
        drop(before);
        self.staged.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::super::{LocalSource, Source, take_waited, while_wanted};
    use super::*;

    fn source(bytes: &[u8]) -> (tempfile::TempDir, LocalSource) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), bytes).unwrap();
        let source = LocalSource::new(folder.path());
        (folder, source)
    }

    fn numbers(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n % 251) as u8).collect()
    }

    fn read(source: &LocalSource, range: Range<u64>) -> Vec<u8> {
        let mut into = vec![0; (range.end - range.start) as usize];
        source.open("a").unwrap().read_at(range.start, &mut into).unwrap();
        into
    }

    #[test]
    fn a_reader_gets_what_was_read_ahead() {
        let (folder, source) = source(&numbers(1000));
        let object = source.open("a").unwrap();
        let ahead = source.read_ahead("a", 100..200, None).unwrap();
        assert!((ahead.job)());
        // The same file with other bytes, in a way that does not show: only what was read ahead has the old ones.
        let meta = fs::metadata(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a"), [0; 1000]).unwrap();
        let file = File::options().write(true).open(folder.path().join("a")).unwrap();
        file.set_modified(meta.modified().unwrap()).unwrap();
        let mut into = [9; 50];
        object.read_at(120, &mut into).unwrap();
        assert_eq!(into, numbers(1000)[120..170]);
        object.read_at(190, &mut into).unwrap();
        assert_eq!(into, [0; 50], "not inside the range");
        drop(ahead.ticket);
        object.read_at(120, &mut into).unwrap();
        assert_eq!(into, [0; 50], "the ticket was dropped");
    }

    #[test]
    fn a_file_replaced_meanwhile_is_not_mixed_with_the_old_one() {
        let (folder, source) = source(&numbers(1000));
        let object = source.open("a").unwrap();
        fs::write(folder.path().join("b"), [7; 1000]).unwrap();
        fs::rename(folder.path().join("b"), folder.path().join("a")).unwrap();
        let ahead = source.read_ahead("a", 0..100, None).unwrap();
        assert!((ahead.job)());
        let mut into = [0; 100];
        object.read_at(0, &mut into).unwrap();
        assert_eq!(into, numbers(1000)[..100], "the reader's own file");
        let old = Seen { size: 1000, version: 1 };
        let refused = source.read_ahead("a", 0..100, Some(old)).unwrap();
        assert!((refused.job)());
        assert_eq!(read(&source, 0..100), [7; 100]);
    }

    #[test]
    fn whole_files_are_served_if_they_are_unchanged() {
        let (_folder, source) = source(&numbers(300));
        let version = source.open("a").unwrap().version();
        let ahead = source.read_ahead("a", 0..300, Some(Seen { size: 300, version })).unwrap();
        assert!((ahead.job)());
        let mut into = vec![0; 300];
        source.read_unchanged("a", version, &mut into).unwrap();
        assert_eq!(into, numbers(300));
        assert!(
            source.read_unchanged("a", version + 1, &mut into).unwrap_err().to_string().contains("changed")
        );
        assert!(lock(&source.stage().open).is_empty(), "a whole file is closed at once");
    }

    #[test]
    fn failed_reads_ahead_are_reported_to_the_reader() {
        let (folder, source) = source(&numbers(300));
        let object = source.open("a").unwrap();
        let outside = source.read_ahead("a", 200..400, None).unwrap();
        assert!((outside.job)());
        assert!(
            object.read_at(200, &mut [0; 200]).unwrap_err().to_string().contains("truncated or was replaced")
        );
        // The last ticket closes the files that were kept open.
        drop(outside.ticket);
        fs::remove_file(folder.path().join("a")).unwrap();
        let gone = source.read_ahead("a", 0..300, None).unwrap();
        assert!((gone.job)());
        let error = source.read_unchanged("a", object.version(), &mut [0; 300]).unwrap_err().to_string();
        assert!(error.contains("opening"), "{error}");
    }

    #[test]
    fn reads_not_yet_started_are_taken_over_and_started_ones_awaited() {
        let (_folder, source) = source(&numbers(1000));
        let queued = source.read_ahead("a", 0..100, None).unwrap();
        assert_eq!(read(&source, 0..100), numbers(100));
        assert!(!(queued.job)());
        assert_eq!(lock(&source.stage().spare).most_used, 0, "the job had nothing left to do");
        let run = source.read_ahead("a", 200..600, None).unwrap();
        take_waited();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| (read(&source, 300..400), take_waited()));
            scope.spawn(run.job);
            let (bytes, _) = reader.join().unwrap();
            assert_eq!(bytes, numbers(1000)[300..400]);
        });
    }

    #[test]
    fn a_cancelled_reader_does_not_wait() {
        let (_folder, source) = source(&numbers(1000));
        let never = source.read_ahead("a", 0..1000, None).unwrap();
        let flag = Arc::new(AtomicBool::new(true));
        let object = source.open("a").unwrap();
        let cancelled = while_wanted(&flag, || object.read_at(10, &mut [0; 10])).unwrap_err();
        assert!(matches!(cancelled, crate::error::Error::Closed(_)), "{cancelled}");
        drop(never);
        assert_eq!(source.stage().count.load(Ordering::Relaxed), 0);
    }

    proptest! {
        #[test]
        fn every_read_is_right_whatever_is_read_ahead(
            planned in prop::collection::vec((0u64..2000, 1u64..900, 0u8..3), 0..20),
            reads in prop::collection::vec((0u64..1990, 1u64..600), 1..20),
        ) {
            let all = numbers(2000);
            let (_folder, source) = source(&all);
            let mut held = Vec::new();
            for (start, length, fate) in planned {
                let ahead = source.read_ahead("a", start..start + length, None).unwrap();
                if fate > 0 {
                    assert!((ahead.job)());
                }
                if fate < 2 {
                    // Ranges that nobody reads must be asked for as a whole, or dropped.
                    drop(ahead.ticket);
                } else {
                    held.push(ahead.ticket);
                }
            }
            for (start, length) in reads {
                let end = (start + length).min(2000);
                prop_assert_eq!(read(&source, start..end), &all[start as usize..end as usize]);
            }
            drop(held);
            let spare = lock(&source.stage().spare);
            prop_assert!(spare.used == 0 && spare.bytes <= spare.most_used);
        }
    }
}
