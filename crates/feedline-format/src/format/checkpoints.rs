//! Small values that belong to the bytes of single samples, stored on disk between runs: seek indexes of JPEGs, which
//! packs store beside the images and other formats do not.
//!
//! A value is found by a hash of *all* bytes it was made from, never by a name, a size or a time. So it does not matter
//! how the bytes are stored, and a value never meets other bytes: a file that was replaced by another of the same size
//! and time has another hash. Hashing costs 1 % of decoding.
//!
//! A store is a folder of files that are written under a temporary name, renamed and never written again. A process
//! adds a file and sees those that others added when its next epoch begins. When there are many, one process joins
//! them. Every value has its own checksum: a damaged or truncated file only means that values are made again. If the
//! folder cannot be written, values stay in memory up to a limit.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::SystemTime;

use twox_hash::XxHash3_64;

use crate::source::{HeldBytes, LockedFile, cache_root, hold_own, private};

/// First bytes of every file; the last byte is the version.
const MAGIC: &[u8; 16] = b"feedline-seeks\0\x01";
/// Magic, number of values, length of the file; zeros.
const HEADER: usize = 64;
/// Hash of the sample's bytes, checksum of the value, its place and its length.
const ROW: usize = 24;
/// A row has 40 bits for the place of a value in its file and 24 for its length.
const PLACE_BITS: u32 = 40;
const LONGEST: usize = (1 << 24) - 1;

/// Values in memory are written when they take more than this.
const WRITE_AT: usize = 32 << 20;
/// If they cannot be written, no more are kept than this.
const MOST_IN_MEMORY: usize = 64 << 20;
/// Fewer bytes are not worth a file.
const WORTH_SAVING: usize = 16 << 10;
/// Estimated memory of a value beside its bytes.
const OVERHEAD: usize = 64;
/// The number of files at which they are joined.
const MANY: usize = 16;
/// Largest size of the files of one store.
const MOST_BYTES: u64 = 4 << 30;
/// Largest size of all stores; above it, those that were not used for longest are removed.
const MOST_OF_ALL: u64 = 16 << 30;
const SHARDS: usize = 64;

/// Beginning of the names of stores.
const STORE: &str = "checkpoints-";
const EXTENSION: &str = "seeks";

/// Values by the bytes that they were made from. Serves many threads.
#[derive(Debug)]
pub struct Checkpoints {
    /// `None` if there is no folder for caches.
    folder: Option<PathBuf>,
    /// Newest first.
    files: RwLock<Vec<Arc<Stored>>>,
    fresh: Vec<Mutex<HashMap<u64, Box<[u8]>>>>,
    /// Approximate size of `fresh`.
    fresh_bytes: AtomicUsize,
    saving: Mutex<()>,
    /// Writing failed, or the store is full.
    refused: AtomicBool,
}

impl Checkpoints {
    /// Opens the store of the data set that `key` describes, below `folder` or the user's cache folder. Nothing is
    /// written before there is something to save.
    pub fn open(folder: Option<&Path>, key: &str) -> Self {
        let folder = folder.map(Path::to_path_buf).or_else(|| Some(cache_root()?.join("index")));
        let name = format!("{STORE}{}", &blake3::hash(key.as_bytes()).to_hex()[..32]);
        let store = Checkpoints {
            folder: folder.map(|folder| folder.join(name)),
            files: RwLock::default(),
            fresh: (0..SHARDS).map(|_| Mutex::default()).collect(),
            fresh_bytes: AtomicUsize::new(0),
            saving: Mutex::default(),
            refused: AtomicBool::new(false),
        };
        store.refresh();
        store
    }

    /// The hash by which a sample's values are found.
    pub fn key(bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes)
    }

    /// Copies the value for `key` into `into`; false if there is none.
    pub fn find(&self, key: u64, into: &mut Vec<u8>) -> bool {
        into.clear();
        if self.fresh_bytes.load(Ordering::Relaxed) > 0
            && let Some(value) = self.shard(key).get(&key)
        {
            into.extend_from_slice(value);
            return true;
        }
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let Some(value) = files.iter().find_map(|file| file.find(key)) else { return false };
        into.extend_from_slice(value);
        true
    }

    /// Keeps a value, in place of an older one.
    pub fn add(&self, key: u64, value: &[u8]) {
        let more = value.len() + OVERHEAD;
        let full = self.fresh_bytes.load(Ordering::Relaxed) + more > MOST_IN_MEMORY;
        if value.is_empty() || value.len() > LONGEST || full {
            return;
        }
        let replaced = self.shard(key).insert(key, value.into());
        let less = replaced.map_or(0, |old| old.len() + OVERHEAD);
        let before = self.fresh_bytes.fetch_add(more, Ordering::Relaxed);
        self.fresh_bytes.fetch_sub(less, Ordering::Relaxed);
        if before + more > WRITE_AT && !self.refused.load(Ordering::Relaxed) {
            self.save();
        }
    }

    /// Writes the values that are only in memory, unless they are few. Best effort.
    pub fn save(&self) {
        if self.fresh_bytes.load(Ordering::Relaxed) >= WORTH_SAVING {
            self.save_all();
        }
    }

    /// Writes the values that are only in memory. Best effort; returns whether all are on disk.
    pub fn save_all(&self) -> bool {
        let _saving = match self.saving.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            // Another thread is saving.
            Err(TryLockError::WouldBlock) => return false,
        };
        if self.fresh_bytes.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let saved = self.folder.as_deref().is_some_and(|folder| self.try_save(folder).is_ok());
        self.refused.store(!saved, Ordering::Relaxed);
        saved
    }

    /// Looks for files that other processes have written meanwhile.
    pub fn refresh(&self) {
        let Some(folder) = &self.folder else { return };
        let names = file_names(folder);
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let mut known: HashMap<String, Arc<Stored>> =
            files.drain(..).map(|file| (file.name.clone(), file)).collect();
        let open = |name: String| known.remove(&name).or_else(|| Stored::open(folder, &name).map(Arc::new));
        // Newest first.
        *files = names.into_iter().rev().filter_map(open).collect();
    }

    /// Number of values on disk and in memory, those counted twice that have been replaced.
    pub fn len(&self) -> u64 {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let fresh: usize = (0..SHARDS).map(|shard| lock(&self.fresh[shard]).len()).sum();
        files.iter().map(|file| file.count as u64).sum::<u64>() + fresh as u64
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the files.
    pub fn bytes(&self) -> u64 {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.iter().map(|file| file.bytes.len() as u64).sum()
    }

    /// The folder of the files.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        lock(&self.fresh[(key % SHARDS as u64) as usize])
    }

    fn try_save(&self, folder: &Path) -> std::io::Result<()> {
        if self.bytes() + self.fresh_bytes.load(Ordering::Relaxed) as u64 > MOST_BYTES {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        make_room(folder);
        private::make_folder(folder)?;
        let mut values = BTreeMap::new();
        for shard in &self.fresh {
            values.extend(lock(shard).iter().map(|(key, value)| (*key, value.clone())));
        }
        let rows: Vec<(u64, &[u8])> = values.iter().map(|(key, value)| (*key, &**value)).collect();
        let written = write(folder, &rows)?;
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(0, Arc::new(written));
        let mut freed = 0;
        for (key, value) in values {
            let mut shard = self.shard(key);
            if shard.get(&key) == Some(&value) {
                shard.remove(&key);
                freed += value.len() + OVERHEAD;
            }
        }
        self.fresh_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.join_files(folder);
        Ok(())
    }

    /// Joins the files of the store into one if there are many.
    fn join_files(&self, folder: &Path) {
        if file_names(folder).len() < MANY {
            return;
        }
        // Best effort: another process may be at it, and the next time will do.
        let lock = private::new_file().open(folder.join("lock")).ok();
        let Some(_lock) = lock.and_then(|file| LockedFile::try_lock(file).ok()) else { return };
        self.refresh();
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut rows: BTreeMap<u64, &[u8]> = BTreeMap::new();
        for file in &files {
            for (key, value) in file.values() {
                rows.entry(key).or_insert(value);
            }
        }
        let rows: Vec<(u64, &[u8])> = rows.into_iter().collect();
        if write(folder, &rows).is_ok() {
            for file in &files {
                let _ = std::fs::remove_file(folder.join(&file.name));
            }
        }
        self.refresh();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of a store's files, oldest first.
fn file_names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(&format!(".{EXTENSION}"))).collect()
}

/// Removes stores that were not used for longest until all of them together are within the limit.
fn make_room(own: &Path) {
    let Some(above) = own.parent() else { return };
    let mut stores = Vec::new();
    for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STORE) {
            let folder = entry.path();
            let sizes = file_names(&folder).into_iter().filter_map(|name| {
                let found = std::fs::metadata(folder.join(name)).ok()?;
                Some((found.modified().ok()?, found.len()))
            });
            let (times, sizes): (Vec<SystemTime>, Vec<u64>) = sizes.unzip();
            stores.push((times.into_iter().max(), sizes.iter().sum::<u64>(), folder));
        }
    }
    stores.sort();
    let mut all: u64 = stores.iter().map(|(_, size, _)| size).sum();
    for (_, size, folder) in stores {
        if all <= MOST_OF_ALL {
            return;
        }
        if folder != own && std::fs::remove_dir_all(&folder).is_ok() {
            all -= size;
        }
    }
}

/// The checksum of a value: it includes the key, so that a value cannot pass for another's.
fn checksum(key: u64, value: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(key, value)
}

/// Writes a new file of values, which are sorted by key.
fn write(folder: &Path, values: &[(u64, &[u8])]) -> std::io::Result<Stored> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The name sorts by time; the process id and a count make it unique.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{now:016x}-{:x}-{count:x}.{EXTENSION}", std::process::id());
    let temporary = folder.join(format!("{name}.tmp"));
    let written = write_to(&temporary, values).and_then(|()| {
        std::fs::rename(&temporary, folder.join(&name))?;
        Stored::open(folder, &name).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn write_to(path: &Path, values: &[(u64, &[u8])]) -> std::io::Result<()> {
    let mut file = BufWriter::new(private::new_file().truncate(true).open(path)?);
    let mut place = HEADER + values.len() * ROW;
    let length = place + values.iter().map(|(_, value)| value.len()).sum::<usize>();
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(MAGIC);
    header[16..24].copy_from_slice(&(values.len() as u64).to_le_bytes());
    header[24..32].copy_from_slice(&(length as u64).to_le_bytes());
    file.write_all(&header)?;
    for (key, value) in values {
        file.write_all(&key.to_le_bytes())?;
        file.write_all(&checksum(*key, value).to_le_bytes())?;
        file.write_all(&(place as u64 | (value.len() as u64) << PLACE_BITS).to_le_bytes())?;
        place += value.len();
    }
    for (_, value) in values {
        file.write_all(value)?;
    }
    file.flush()
}

/// One file of a store.
#[derive(Debug)]
struct Stored {
    name: String,
    bytes: HeldBytes,
    count: usize,
}

impl Stored {
    /// Opens a file; `None` if it is damaged, truncated or another user's.
    fn open(folder: &Path, name: &str) -> Option<Self> {
        let path = folder.join(name);
        if !std::fs::symlink_metadata(&path).is_ok_and(|found| private::is_own(&found)) {
            return None;
        }
        let file = File::open(path).ok()?;
        // Renamed into place and never written again, so that all processes can share one mapping.
        let bytes = hold_own(&file, 0..file.metadata().ok()?.len()).ok()?;
        let header = bytes.first_chunk::<HEADER>()?;
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (count, length) = (usize::try_from(number(16)).ok()?, number(24));
        let table = count.checked_mul(ROW)?.checked_add(HEADER)?;
        let intact = header[..16] == *MAGIC && length == bytes.len() as u64 && table <= bytes.len();
        intact.then(|| Stored { name: name.to_owned(), bytes, count })
    }

    fn row(&self, number: usize) -> [u64; 3] {
        let row = &self.bytes[HEADER + number * ROW..][..ROW];
        [0, 8, 16].map(|at| u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes")))
    }

    fn find(&self, key: u64) -> Option<&[u8]> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.row(middle)[0].cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.value(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Value `number`, if it is intact.
    fn value(&self, number: usize) -> Option<&[u8]> {
        let [key, check, place] = self.row(number);
        let (start, length) = (place & ((1 << PLACE_BITS) - 1), place >> PLACE_BITS);
        let start = usize::try_from(start).ok()?;
        let value = self.bytes.get(start..start.checked_add(length as usize)?)?;
        (checksum(key, value) == check).then_some(value)
    }

    fn values(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.count).filter_map(|number| Some((self.row(number)[0], self.value(number)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(store: &Checkpoints, key: u64) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        store.find(key, &mut value).then_some(value)
    }

    fn filled(folder: &Path, keys: std::ops::Range<u64>) -> Checkpoints {
        let store = Checkpoints::open(Some(folder), "data");
        for key in keys {
            store.add(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), &vec![key as u8; 100 + key as usize]);
        }
        store
    }

    fn count(store: &Checkpoints, keys: std::ops::Range<u64>) -> usize {
        let right = |key: &u64| {
            let value = found(store, key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            value.inspect(|v| assert_eq!(*v, vec![*key as u8; 100 + *key as usize])).is_some()
        };
        keys.filter(right).count()
    }

    fn only_file(store: &Checkpoints) -> PathBuf {
        let names = file_names(store.folder().unwrap());
        assert_eq!(names.len(), 1);
        store.folder().unwrap().join(names.first().unwrap())
    }

    #[test]
    fn added_values_are_found_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path(), 0..200);
        assert_eq!(count(&store, 0..300), 200);
        store.save();
        assert_eq!(store.fresh_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(count(&store, 0..300), 200);
        let again = Checkpoints::open(Some(folder.path()), "data");
        assert_eq!((count(&again, 0..300), again.len()), (200, 200));
        assert!(Checkpoints::open(Some(folder.path()), "other data").is_empty());
        // The newest value counts.
        again.add(0, b"new");
        assert!(again.save_all());
        assert_eq!(found(&Checkpoints::open(Some(folder.path()), "data"), 0).unwrap(), b"new");
    }

    #[test]
    fn few_values_are_not_worth_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path(), 0..5);
        store.save();
        assert!(Checkpoints::open(Some(folder.path()), "data").is_empty());
        assert!(store.save_all());
        assert_eq!(count(&Checkpoints::open(Some(folder.path()), "data"), 0..5), 5);
    }

    #[test]
    fn damaged_values_are_skipped_and_the_others_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path(), 0..50);
        assert!(store.save_all());
        let file = only_file(&store);
        let intact = std::fs::read(&file).unwrap();
        drop(store);
        for at in (0..intact.len()).step_by(97) {
            let mut damaged = intact.clone();
            damaged[at] ^= 0x10;
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, &damaged).unwrap();
            // `count` compares every value that is found.
            let left = count(&Checkpoints::open(Some(folder.path()), "data"), 0..50);
            let header = at < HEADER;
            assert!(left == 50 || left == 0 && header || !header && left >= 20, "byte {at}: {left}");
        }
        for length in [0, 10, HEADER, intact.len() / 2, intact.len() - 1] {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, &intact[..length]).unwrap();
            assert!(Checkpoints::open(Some(folder.path()), "data").is_empty());
        }
    }

    #[test]
    fn several_writers_lose_nothing_and_files_are_joined() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4u64 {
                let folder = folder.path();
                scope.spawn(move || {
                    for round in 0..10 {
                        let first = (writer * 10 + round) * 5;
                        assert!(filled(folder, first..first + 5).save_all());
                    }
                });
            }
        });
        let store = Checkpoints::open(Some(folder.path()), "data");
        assert_eq!(count(&store, 0..200), 200);
        assert!(file_names(store.folder().unwrap()).len() < 40);
    }

    #[test]
    fn values_written_by_others_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = filled(folder.path(), 0..10);
        assert!(filled(folder.path(), 10..20).save_all());
        assert_eq!(count(&store, 0..20), 10);
        store.refresh();
        assert_eq!(count(&store, 0..20), 20);
    }

    #[test]
    fn without_a_folder_values_stay_in_memory_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, b"not a folder").unwrap();
        let store = filled(&blocked, 0..10);
        assert!(!store.save_all());
        assert_eq!(count(&store, 0..10), 10);
        for key in 1000..1100 {
            store.add(key, &vec![0; 1 << 20]);
        }
        assert!(store.fresh_bytes.load(Ordering::Relaxed) <= MOST_IN_MEMORY);
        assert_eq!(count(&store, 0..10), 10);
    }
}
