//! The cache folder on disk, shared by all processes of a machine.
//!
//! ```text
//! blocks/ab/<hash>   a block, put there by rename
//! tmp/<…>            being written; locked by its writer, removed by whoever finds it unlocked
//! locks/<n>          who fetches: one at a time per block, freed by the kernel when its holder dies
//! used               bytes in blocks and in those being written: the limit holds for all processes together
//! ```
//!
//! A block's modification time is the time of its last use: when room is needed, the oldest blocks are removed first.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::block::{self, Description};
use crate::source::wanted::is_cancelled;
use crate::source::{LockedFile, private};

/// More lock files than concurrent requests, so that two blocks rarely share one.
const LOCKS: u64 = 1024;

/// Blocks are removed until this fraction of the limit is used, so that not every new block has to make room.
const EVICT_TO: f64 = 0.9;

/// The cache folder.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    limit: u64,
    next_temporary: AtomicU64,
    /// Why the folder cannot be written, if so.
    read_only: Option<io::ErrorKind>,
    /// How long to wait for a lock of another process.
    lock_timeout: Duration,
}

/// How long another process may hold a lock: as long as a fetch without progress may take.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(330);

/// A file below `blocks/`.
#[derive(Debug)]
pub(super) struct BlockFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    used: SystemTime,
}

/// Identifies a block's file: a block that was written again under the same name is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockFileId {
    inode: u64,
    length: u64,
}

impl BlockFileId {
    pub(super) fn of(file: &File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        Some(BlockFileId { inode: meta.ino(), length: meta.len() })
    }
}

/// The right to fetch one block. Released on drop, and by the kernel if the process dies.
#[derive(Debug)]
pub(super) struct FetchLock {
    _file: LockedFile,
}

impl Disk {
    /// Opens or makes the folder and removes temporary files of dead processes. Without a limit, the cache may use
    /// nine tenths of the free space.
    pub(super) fn open(root: &Path, limit: Option<u64>, lock_timeout: Duration) -> io::Result<Self> {
        let disk = Disk {
            root: root.to_owned(),
            limit: u64::MAX,
            next_temporary: AtomicU64::new(0),
            read_only: None,
            lock_timeout,
        };
        match disk.prepare() {
            Ok(used) => {
                let room =
                    rustix::fs::statvfs(root).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize));
                let usual = used.saturating_add(room / 10 * 9);
                Ok(Disk { limit: limit.unwrap_or(usual), ..disk })
            }
            // The blocks that are there can still be read.
            Err(error) if fs::read_dir(root.join("blocks")).is_ok() => {
                Ok(Disk { read_only: Some(error.kind()), ..disk })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes missing folders and removes temporary files of dead processes. Returns the number of bytes stored.
    fn prepare(&self) -> io::Result<u64> {
        for folder in ["blocks", "tmp", "locks"] {
            private::make_folder(&self.root.join(folder))?;
        }
        self.clear_temporary()?;
        self.counter()?.get().map_or_else(|| self.count(), Ok)
    }

    /// Why the folder cannot be written, if so.
    pub(super) fn read_only(&self) -> Option<io::ErrorKind> {
        self.read_only
    }

    /// Removes a block with damaged bytes.
    pub(super) fn remove(&self, description: &Description) {
        let _ = fs::remove_file(self.path(&description.file_name()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("blocks").join(&name[..2]).join(name)
    }

    /// Opens a block that is there and undamaged, and marks it as used now. A damaged block is removed. A file that
    /// was `seen` undamaged before is not read again.
    pub(super) fn find(&self, description: &Description, seen: Option<BlockFileId>) -> Option<File> {
        let path = self.path(&description.file_name());
        let file = File::open(&path).ok()?;
        // A checksum detects damage, not who wrote the block. A block of another user is fetched again and replaced.
        if !file.metadata().is_ok_and(|found| private::is_own(&found)) {
            return None;
        }
        if seen.is_some() && BlockFileId::of(&file) == seen {
            let _ = file.set_modified(SystemTime::now());
            return Some(file);
        }
        match block::check(&file) {
            Ok(found) if found == *description => {
                let _ = file.set_modified(SystemTime::now());
                Some(file)
            }
            _ => {
                let _ = fs::remove_file(&path);
                None
            }
        }
    }

    /// Waits for the right to fetch a block. Another process may have fetched it meanwhile.
    pub(super) fn turn(&self, description: &Description) -> io::Result<FetchLock> {
        let hash = u64::from_str_radix(&description.file_name()[..8], 16).unwrap_or(0);
        let path = self.root.join("locks").join(format!("{:04}", hash % LOCKS));
        let file = private::new_file().truncate(false).open(path)?;
        Ok(FetchLock { _file: lock(file, self.lock_timeout)? })
    }

    /// Whether a block of this name exists; it is checked when it is read.
    pub(super) fn has(&self, description: &Description) -> bool {
        let found = fs::symlink_metadata(self.path(&description.file_name()));
        found.is_ok_and(|found| private::is_own(&found))
    }

    /// Puts a block in place and returns its open file.
    pub(super) fn put(&self, description: &Description, payload: &[u8]) -> io::Result<File> {
        let length = block::file_length(payload, description)?;
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let temporary = self.root.join("tmp").join(format!("{}-{nanos}-{number}", std::process::id()));
        let file = self.reserve(length, &temporary)?;
        let written = self.write(file, &temporary, description, payload);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
            self.counter()?.change(|used| used.saturating_sub(length));
        }
        written
    }

    fn write(
        &self,
        mut file: File,
        temporary: &Path,
        description: &Description,
        payload: &[u8],
    ) -> io::Result<File> {
        block::write(&mut file, payload, description)?;
        let path = self.path(&description.file_name());
        private::make_folder(path.parent().expect("blocks lie in folders"))?;
        fs::rename(temporary, &path)?;
        flock(&file, FlockOperation::Unlock)?;
        Ok(file)
    }

    /// Makes and locks a temporary file of `bytes`, which count as used. Makes room first if necessary. One process
    /// at a time.
    fn reserve(&self, bytes: u64, temporary: &Path) -> io::Result<File> {
        if bytes > self.limit {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "the block is larger than the cache may be",
            ));
        }
        let counter = self.counter()?;
        let mut used = counter.get().map_or_else(|| self.count(), Ok)?;
        if used.saturating_add(bytes) > self.limit {
            used = self.make_room(bytes)?;
        }
        let file = private::new_file().read(true).create_new(true).open(temporary)?;
        flock(&file, FlockOperation::LockExclusive)?;
        // From now on the file's length is included when used bytes are counted.
        file.set_len(bytes)?;
        counter.set(used + bytes);
        Ok(file)
    }

    fn counter(&self) -> io::Result<Counter> {
        let path = self.root.join("used");
        let file = private::new_file().truncate(false).read(true).open(path)?;
        Ok(Counter { file: lock(file, self.lock_timeout)? })
    }

    /// Number of bytes stored, including files that are being written.
    fn count(&self) -> io::Result<u64> {
        // Temporary files first: a block that is renamed meanwhile is then counted twice rather than not at all.
        let mut unfinished = 0;
        for file in fs::read_dir(self.root.join("tmp"))? {
            unfinished += file?.metadata().map_or(0, |meta| meta.len());
        }
        let blocks: u64 = self.files()?.iter().map(|found| found.bytes).sum();
        Ok(unfinished + blocks)
    }

    /// Removes the least recently used blocks until `bytes` more fit. Returns the number of bytes still used.
    fn make_room(&self, bytes: u64) -> io::Result<u64> {
        let mut used = self.count()?;
        let mut files = self.files()?;
        files.sort_by_key(|found| found.used);
        let target = ((self.limit as f64 * EVICT_TO) as u64).min(self.limit - bytes);
        for found in files {
            if used <= target {
                break;
            }
            match fs::remove_file(&found.path) {
                // Another process made room too.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => used = used.saturating_sub(found.bytes),
            }
        }
        Ok(used)
    }

    /// Lists all blocks.
    pub(super) fn files(&self) -> io::Result<Vec<BlockFile>> {
        let mut found = Vec::new();
        for folder in fs::read_dir(self.root.join("blocks"))? {
            for file in fs::read_dir(folder?.path())? {
                let file = file?;
                // Another process removed it to make room.
                let Ok(meta) = file.metadata() else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(BlockFile { path: file.path(), bytes: meta.len(), used });
            }
        }
        Ok(found)
    }

    /// Removes temporary files that no process is writing any more.
    fn clear_temporary(&self) -> io::Result<()> {
        for file in fs::read_dir(self.root.join("tmp"))? {
            let path = file?.path();
            let Ok(file) = File::open(&path) else { continue };
            if let Ok(file) = LockedFile::try_lock(file) {
                // The writer may just have renamed it: then the name is gone, or belongs to another file.
                let same = |meta: fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == meta.ino());
                if fs::metadata(&path).is_ok_and(same) {
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(())
    }

    /// Removes all blocks; returns their number and bytes.
    pub(super) fn clear(&self) -> io::Result<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0);
        for found in self.files()? {
            fs::remove_file(&found.path)?;
            count += 1;
            bytes += found.bytes;
        }
        self.counter()?.set(0);
        Ok((count, bytes))
    }
}

/// The file `used`, locked until it is dropped. If a process dies between counting and writing, the count is too
/// high, never too low, and is corrected when room is made.
struct Counter {
    file: LockedFile,
}

impl Counter {
    fn get(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// A count that cannot be written (a full disk) is computed again by the next process that needs it.
    fn set(&self, used: u64) {
        if self.file.write_all_at(&used.to_le_bytes(), 0).is_err() {
            let _ = self.file.set_len(0);
        }
    }

    fn change(&self, change: impl FnOnce(u64) -> u64) {
        if let Some(used) = self.get() {
            self.set(change(used));
        }
    }
}

/// Waits for a lock: not for ever (its holder may be stopped or stuck), and not after the read was cancelled.
fn lock(mut file: File, lock_timeout: Duration) -> io::Result<LockedFile> {
    let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        file = match LockedFile::try_lock(file) {
            Ok(locked) => return Ok(locked),
            Err((file, rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR)) => file,
            Err((_, error)) => return Err(error.into()),
        };
        if is_cancelled() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "cancelled while waiting for a lock"));
        }
        if begun.elapsed() >= lock_timeout {
            let reason = format!("another process has held its lock for {} s", lock_timeout.as_secs_f64());
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(block: u64) -> Description {
        Description {
            uri: "s3://b".into(),
            name: "a".into(),
            version: 1,
            size: 1 << 30,
            block,
            block_bytes: 1000,
        }
    }

    #[test]
    fn blocks_are_found_again_and_the_least_recently_used_are_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), Some(4000), LOCK_TIMEOUT).unwrap();
        for block in 0..3 {
            disk.put(&description(block), &[block as u8; 1000]).unwrap();
            std::thread::sleep(Duration::from_millis(15));
        }
        assert!(disk.find(&description(0), None).is_some(), "now it is the last used");
        disk.put(&description(3), &[3; 1000]).unwrap();
        assert!(disk.find(&description(1), None).is_none());
        assert!(disk.find(&description(0), None).is_some() && disk.find(&description(3), None).is_some());
        let again = Disk::open(folder.path(), Some(4000), LOCK_TIMEOUT).unwrap();
        assert!(again.find(&description(3), None).is_some());
        assert!(again.find(&Description { version: 2, ..description(3) }, None).is_none());
        assert!(disk.put(&description(9), &[0; 5000]).is_err());
    }

    /// Like two processes: each knows only what it wrote itself.
    #[test]
    fn the_limit_holds_for_all_users_of_the_folder_together() {
        let folder = tempfile::tempdir().unwrap();
        let disks = [0, 1].map(|_| Disk::open(folder.path(), Some(10_000), LOCK_TIMEOUT).unwrap());
        std::thread::scope(|scope| {
            for (at, disk) in disks.iter().enumerate() {
                scope.spawn(move || {
                    for block in 0..50 {
                        disk.put(&description(block * 2 + at as u64), &[1; 1000]).unwrap();
                        // While the counter is held, no process makes room or uses it.
                        let _counter = disk.counter().unwrap();
                        let there: u64 = disk.files().unwrap().iter().map(|found| found.bytes).sum();
                        assert!(there <= 10_000, "{there}");
                    }
                });
            }
        });
        let there: u64 = disks[0].files().unwrap().iter().map(|found| found.bytes).sum();
        assert!(disks[0].counter().unwrap().get().is_some_and(|counted| counted >= there));
        assert!(there > 5000, "{there}");
    }

    #[test]
    fn damaged_blocks_and_temporary_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), None, LOCK_TIMEOUT).unwrap();
        disk.put(&description(0), &[1; 1000]).unwrap();
        let path = disk.files().unwrap().remove(0).path;
        let mut bytes = fs::read(&path).unwrap();
        bytes[500] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(disk.find(&description(0), None).is_none() && !path.exists());
        let dead = folder.path().join("tmp/1-1-1");
        let living = folder.path().join("tmp/2-2-2");
        fs::write(&dead, b"half").unwrap();
        let held = File::create(&living).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        Disk::open(folder.path(), None, LOCK_TIMEOUT).unwrap();
        assert!(!dead.exists() && living.exists());
    }

    #[test]
    fn cache_files_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("cache");
        let disk = Disk::open(&root, None, LOCK_TIMEOUT).unwrap();
        disk.put(&description(0), &[1; 1000]).unwrap();
        drop(disk.turn(&description(0)).unwrap());
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "{}", folder.display());
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let mode = fs::metadata(&path).unwrap().mode() & 0o777;
                if path.is_dir() {
                    folders.push(path);
                } else {
                    assert_eq!(mode, 0o600, "{}", path.display());
                }
            }
        }
    }

    #[test]
    fn a_block_of_another_user_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path(), None, LOCK_TIMEOUT).unwrap();
        disk.put(&description(0), &[1; 1000]).unwrap();
        assert!(disk.has(&description(0)) && disk.find(&description(0), None).is_some());
        let path = disk.path(&description(0).file_name());
        let seen = BlockFileId::of(&File::open(&path).unwrap());
        // Only root can change a file's owner.
        if std::os::unix::fs::chown(&path, Some(54321), None).is_ok() {
            assert!(!disk.has(&description(0)));
            assert!(disk.find(&description(0), None).is_none() && disk.find(&description(0), seen).is_none());
            disk.put(&description(0), &[2; 1000]).unwrap();
            assert!(disk.find(&description(0), None).is_some());
        }
    }

    #[test]
    fn waiting_for_a_lock_ends_by_timeout_or_cancellation() {
        let folder = tempfile::tempdir().unwrap();
        let holder = Disk::open(folder.path(), None, LOCK_TIMEOUT).unwrap();
        let _turn = holder.turn(&description(0)).unwrap();
        let hasty = Disk::open(folder.path(), None, Duration::from_millis(100)).unwrap();
        let error = hasty.turn(&description(0)).unwrap_err();
        assert!(error.kind() == io::ErrorKind::TimedOut && error.to_string().contains("0.1 s"), "{error}");
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                crate::source::while_wanted(&flag, || holder.turn(&description(0)).unwrap_err().kind())
            });
            std::thread::sleep(Duration::from_millis(50));
            flag.store(true, Ordering::Relaxed);
            assert_eq!(waiting.join().unwrap(), io::ErrorKind::Interrupted);
        });
    }
}
