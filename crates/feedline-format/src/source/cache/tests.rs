use super::super::MemorySource;
use super::*;

fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn conforms() {
    let folder = tempfile::tempdir().unwrap();
    super::super::conformance::check(|objects| {
        let inner = Arc::new(MemorySource::new(objects.iter().map(|(n, b)| (*n, b.clone()))));
        Arc::new(CachedSource::new(inner, folder.path(), None).unwrap())
    });
    assert!(DiskCache::open(folder.path()).unwrap().verify().unwrap().blocks >= 3);
}

/// A source that counts the bytes read from it.
#[derive(Debug)]
struct Counted(MemorySource, Arc<AtomicU64>);

#[derive(Debug)]
struct CountedObject(Arc<dyn Object>, Arc<AtomicU64>);

impl Source for Counted {
    fn uri(&self) -> &str {
        self.0.uri()
    }
    fn list(&self, prefix: &str) -> Result<Listing> {
        self.0.list(prefix)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }
    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        Ok(Arc::new(CountedObject(self.0.open(name)?, self.1.clone())))
    }
}

impl Object for CountedObject {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn version(&self) -> u64 {
        self.0.version()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.1.fetch_add(into.len() as u64, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        self.0.read_at(offset, into)
    }
    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        self.0.hold(range)
    }
}

fn counted(bytes: &[u8]) -> (Arc<dyn Source>, Arc<AtomicU64>) {
    let count = Arc::default();
    (Arc::new(Counted(MemorySource::new([("a", bytes.to_vec())]), Arc::clone(&count))), count)
}

#[test]
fn every_byte_is_fetched_once_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(10_000_000);
    let (inner, count) = counted(&bytes);
    let sources: Vec<_> =
        (0..3).map(|_| CachedSource::new(inner.clone(), folder.path(), None).unwrap()).collect();
    std::thread::scope(|scope| {
        for source in &sources {
            scope.spawn(|| {
                let object = source.open("a").unwrap();
                let ticket = source.prefetch("a", 0..10_000_000, None);
                let mut read = vec![0; 10_000_000];
                object.read_at(0, &mut read).unwrap();
                assert!(read == bytes);
                drop(ticket);
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 10_000_000);
    let again = CachedSource::new(inner, folder.path(), None).unwrap();
    let mut read = vec![0; 100];
    again.open("a").unwrap().read_at(5_000_000, &mut read).unwrap();
    assert!(read == bytes[5_000_000..5_000_100]);
    assert_eq!(count.load(Ordering::Relaxed), 10_000_000);
    let entries = DiskCache::open(folder.path()).unwrap().entries().unwrap();
    assert_eq!((entries.len(), entries[0].cached, entries[0].blocks), (1, 10_000_000, 3));
    assert_eq!(DiskCache::open(folder.path()).unwrap().clear().unwrap().0, 3);
}

#[test]
fn a_damaged_block_is_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(100_000);
    let (inner, _) = counted(&bytes);
    let mut read = vec![0; 100_000];
    CachedSource::new(inner.clone(), folder.path(), None)
        .unwrap()
        .open("a")
        .unwrap()
        .read_at(0, &mut read)
        .unwrap();
    let cache = DiskCache::open(folder.path()).unwrap();
    let path = cache.disk.files().unwrap().remove(0).path;
    let mut block = std::fs::read(&path).unwrap();
    block[77] ^= 4;
    std::fs::write(&path, block).unwrap();
    assert_eq!(cache.verify().unwrap().damaged.len(), 1);
    CachedSource::new(inner, folder.path(), None).unwrap().open("a").unwrap().read_at(0, &mut read).unwrap();
    assert!(read == bytes && cache.verify().unwrap().damaged.is_empty());
}

/// Number of bytes that this thread has read from files.
fn read_so_far() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    // Reading this file counts, too.
    line.parse::<u64>().unwrap() - text.len() as u64
}

#[test]
#[cfg(target_os = "linux")]
fn a_thousand_blocks_in_random_order_are_read_once() {
    const BLOCK: u64 = 64 << 10;
    const READ: u64 = 8 << 10;
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern((1000 * BLOCK) as usize);
    let inner: Arc<dyn Source> = Arc::new(MemorySource::new([("a", bytes.clone())]));
    let open = || {
        let mut source = CachedSource::new(inner.clone(), folder.path(), None).unwrap();
        Arc::get_mut(&mut source.shared).unwrap().block_bytes = BLOCK;
        source
    };
    let pass = |source: &CachedSource, seed: u64| {
        let object = source.open("a").unwrap();
        let (mut read, count, before) = (vec![0; READ as usize], 1000 * BLOCK / READ, read_so_far());
        for step in 0..count {
            // Any step that has no common factor with the count visits every place once.
            let at = (step * 3001 + seed) % count * READ;
            object.read_at(at, &mut read).unwrap();
            assert!(read == bytes[at as usize..(at + READ) as usize]);
        }
        (read_so_far() - before) as f64 / bytes.len() as f64
    };
    let first = open();
    first.open("a").unwrap().read_at(0, &mut vec![0; bytes.len()]).unwrap();
    let warm = pass(&first, 1);
    assert!(warm <= 1.2, "{warm} times its bytes by the process that fetched them");
    let second = open();
    let (checked, warm) = (pass(&second, 2), pass(&second, 3));
    assert!(checked <= 2.2 && warm <= 1.2, "{checked} and {warm} times its bytes by the next process");
}

#[test]
fn a_read_only_cache_is_used_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(100_000);
    let (inner, count) = counted(&bytes);
    let mut read = vec![0; 100_000];
    let first = CachedSource::new(inner.clone(), folder.path(), None).unwrap();
    first.open("a").unwrap().read_at(0, &mut read).unwrap();
    // Nothing can be created below a file, not even by root: like a folder without permission.
    for name in ["tmp", "locks"] {
        std::fs::remove_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name), b"").unwrap();
    }
    let source = CachedSource::new(inner, folder.path(), None).unwrap();
    source.open("a").unwrap().read_at(0, &mut read).unwrap();
    assert!(read == bytes);
    assert_eq!(count.load(Ordering::Relaxed), 100_000);
    let warnings = source.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("cannot be written"), "{warnings:?}");
    std::fs::remove_dir_all(folder.path().join("blocks")).unwrap();
    std::fs::create_dir(folder.path().join("blocks")).unwrap();
    source.shared.lock().files = LruMap::new(MAX_OPEN);
    source.open("a").unwrap().read_at(500, &mut read[..10]).unwrap();
    assert_eq!(read[..10], bytes[500..510]);
    assert_eq!(count.load(Ordering::Relaxed), 100_010);
}

#[test]
fn a_full_disk_is_reported_once_and_reading_continues() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(100_000);
    let (inner, count) = counted(&bytes);
    let source = CachedSource::new(inner, folder.path(), Some(10)).unwrap();
    let object = source.open("a").unwrap();
    for offset in [0, 500, 99_000] {
        let mut read = vec![0; 1000];
        object.read_at(offset, &mut read).unwrap();
        assert!(read == bytes[offset as usize..offset as usize + 1000]);
    }
    let warnings = source.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("streamed"), "{warnings:?}");
    // One whole block that could not be stored, then only what is needed.
    assert_eq!(count.load(Ordering::Relaxed), 100_000 + 3000);
}
