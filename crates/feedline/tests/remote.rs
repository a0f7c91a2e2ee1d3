//! Training from a bucket: the same batches as from local files, whatever the network does, within memory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{FORMATS, RECORDED, all_bytes, recorded_options, undecoded, write_formats};
use feedline::source::{DiskCache, Storage};
use feedline::{Dataset, Loader, OpenOptions, Shuffle};
use feedline_servers::{ACCESS_KEY, Fault, FaultProxy, Random, SECRET_KEY, Server};

const HELPER: &str = "FEEDLINE_CACHE_HELPER";

fn storage(endpoint: &str, more: &[(&str, &str)]) -> Storage {
    let given = [("key", ACCESS_KEY), ("secret", SECRET_KEY), ("endpoint_url", endpoint)];
    let options = given.iter().chain(more).map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Storage { options, cache_dir: None }
}

fn open(uri: &str, storage: &Storage) -> feedline::Result<Dataset> {
    Dataset::open_all(&[uri.to_owned()], &OpenOptions { storage: storage.clone(), ..OpenOptions::default() })
}

/// A folder that an S3 server shows as one bucket, with `count` images in every format.
fn bucket(count: usize, side: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    write_formats(&root.path().join("bucket"), count, side);
    root
}

/// Every byte of every column of every batch of an epoch.
fn epoch(loader: &Loader, number: u64) -> feedline::Result<Vec<Vec<Vec<u8>>>> {
    all_bytes(loader.epoch(number)?)
}

#[test]
fn bytes_and_order_from_s3_equal_the_local_ones_in_every_format() {
    let root = bucket(60, 24);
    let server = Server::s3(root.path());
    let cache = tempfile::tempdir().unwrap();
    for (name, format) in FORMATS {
        let local = Dataset::open(root.path().join("bucket").join(name).display().to_string()).unwrap();
        let plain = storage(&server.url(), &[]);
        let cached = Storage { cache_dir: Some(cache.path().to_owned()), ..plain.clone() };
        for (kind, storage) in [("streamed", &plain), ("cached", &cached)] {
            let remote = open(&format!("s3://bucket/{name}"), storage).unwrap();
            assert_eq!((remote.format_name(), remote.len()), (format, local.len()));
            for shuffle in [Shuffle::Off, Shuffle::Full, Shuffle::Block] {
                let local_loader = Loader::new(local.clone(), undecoded(7, shuffle)).unwrap();
                let remote_loader = Loader::new(remote.clone(), undecoded(7, shuffle)).unwrap();
                for number in 0..2 {
                    assert!(
                        epoch(&local_loader, number).unwrap() == epoch(&remote_loader, number).unwrap(),
                        "{format}, {kind}, {shuffle:?}, epoch {number}"
                    );
                }
            }
        }
    }
    assert!(DiskCache::open(cache.path()).unwrap().verify().unwrap().damaged.is_empty());
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn recorded_files_of_other_systems_read_the_same_from_s3() {
    let root = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    copy(&recorded, &root.path().join("bucket"));
    let server = Server::s3(root.path());
    let indexes = tempfile::tempdir().unwrap();
    for name in RECORDED {
        let options = recorded_options(indexes.path());
        let remote_options = OpenOptions { storage: storage(&server.url(), &[]), ..options.clone() };
        let local = root.path().join("bucket").join(name).display().to_string();
        let local = Dataset::open_all(&[local], &options).unwrap();
        let remote = Dataset::open_all(&[format!("s3://bucket/{name}")], &remote_options).unwrap();
        assert_eq!((remote.len(), remote.schema()), (local.len(), local.schema()), "{name}");
        for sample in 0..local.len() {
            let (local, remote) = (local.get(sample).unwrap(), remote.get(sample).unwrap());
            assert_eq!(format!("{local:?}"), format!("{remote:?}"), "{name}, sample {sample}");
        }
    }
}

#[test]
fn a_pack_and_tars_are_read_over_plain_http() {
    let root = bucket(20, 16);
    let server = Server::http(&root.path().join("bucket"));
    for (name, path) in [("packed/", "packed"), ("shards/00{0..2}.tar", "shards/*.tar")] {
        let remote = open(&format!("{}/{name}", server.url()), &Storage::default()).unwrap();
        let local = Dataset::open(root.path().join("bucket").join(path).display().to_string()).unwrap();
        let local_loader = Loader::new(local, undecoded(6, Shuffle::Full)).unwrap();
        let remote_loader = Loader::new(remote, undecoded(6, Shuffle::Full)).unwrap();
        assert!(epoch(&local_loader, 3).unwrap() == epoch(&remote_loader, 3).unwrap(), "{name}");
    }
}

/// Temporary faults: each costs time, none may change a byte.
const PASSING: [Fault; 9] = [
    Fault::Delay(60),
    Fault::Throttle(2_000_000),
    Fault::Truncate(0),
    Fault::Truncate(700),
    Fault::Reset(300),
    Fault::ServerError,
    Fault::SlowDown,
    Fault::Expired,
    Fault::Stall(200),
];

/// `FEEDLINE_CHAOS_EPOCHS=200` for the long version.
#[test]
fn random_faults_cost_time_but_change_no_byte() {
    let epochs: u64 = std::env::var("FEEDLINE_CHAOS_EPOCHS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let root = bucket(24, 16);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    let patient = storage(&proxy.url(), &[("stall_timeout", "0.25"), ("retry_seconds", "60")]);
    let cache = tempfile::tempdir().unwrap();
    for (at, (name, format)) in FORMATS.into_iter().enumerate() {
        let local = Dataset::open(root.path().join("bucket").join(name).display().to_string()).unwrap();
        let local_loader = Loader::new(local, undecoded(5, Shuffle::Full)).unwrap();
        let mut random = Random::new(at as u64, 6, &PASSING);
        proxy.set(move |_| random.draw());
        let cached = Storage { cache_dir: Some(cache.path().to_owned()), ..patient.clone() };
        let storage = if at == 1 { &cached } else { &patient };
        let remote_loader =
            Loader::new(open(&format!("s3://bucket/{name}"), storage).unwrap(), undecoded(5, Shuffle::Full));
        let remote_loader = remote_loader.unwrap();
        for number in 0..epochs {
            let expected = epoch(&local_loader, number).unwrap();
            assert!(epoch(&remote_loader, number).unwrap() == expected, "{format}, epoch {number}");
        }
        proxy.set(|_| Fault::None);
    }
    assert!(proxy.counts().faults() > 20, "{}", proxy.counts().faults());
}

/// Every other fault as well: an epoch is right, or it ends in an error that says why. The same loader is used again.
#[test]
fn random_faults_of_every_kind_give_the_right_bytes_or_a_clear_error() {
    let epochs: u64 = std::env::var("FEEDLINE_CHAOS_EPOCHS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let root = bucket(24, 16);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    let hasty = storage(&proxy.url(), &[("stall_timeout", "0.25"), ("retry_seconds", "20")]);
    let local_loader = Dataset::open(root.path().join("bucket/packed").display().to_string()).unwrap();
    let local_loader = Loader::new(local_loader, undecoded(5, Shuffle::Full)).unwrap();
    let remote_loader =
        Loader::new(open("s3://bucket/packed", &hasty).unwrap(), undecoded(5, Shuffle::Full)).unwrap();
    let mut every = PASSING.to_vec();
    every.extend([
        Fault::Corrupt(40),
        Fault::Denied,
        Fault::Missing,
        Fault::WrongRegion,
        Fault::OtherVersion,
    ]);
    let mut random = Random::new(7, 2, &every);
    proxy.set(move |_| random.draw());
    let (mut right, mut failed) = (0, 0);
    for number in 0..epochs {
        let begun = Instant::now();
        match epoch(&remote_loader, number) {
            Ok(bytes) => {
                assert!(bytes == epoch(&local_loader, number).unwrap(), "epoch {number}");
                right += 1;
            }
            Err(error) => {
                let message = error.to_string();
                let words = ["403", "404", "301", "region", "checksum", "changed"];
                assert!(words.iter().any(|word| message.contains(word)), "{message}");
                failed += 1;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "epoch {number}: {:?}", begun.elapsed());
    }
    assert!(right > 0 && failed > 0, "{right} right, {failed} failed");
}

#[test]
fn lasting_faults_are_one_clear_error_within_the_timeout() {
    let root = bucket(12, 16);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    let limits = [("stall_timeout", "0.3"), ("retry_seconds", "1.5")];
    for (fault, word) in [
        (Fault::Stall(10), "no bytes received"),
        (Fault::Truncate(10), "end of file"),
        (Fault::SlowDown, "503"),
        (Fault::Denied, "403"),
        (Fault::Missing, "404"),
        (Fault::OtherVersion, "changed"),
    ] {
        proxy.set(|_| Fault::None);
        let dataset = open("s3://bucket/packed", &storage(&proxy.url(), &limits)).unwrap();
        let loader = Loader::new(dataset, undecoded(4, Shuffle::Off)).unwrap();
        assert_eq!(epoch(&loader, 0).unwrap().len(), 3);
        proxy.set(move |_| fault);
        let begun = Instant::now();
        let failed = epoch(&loader, 1).map(|batches| batches.len());
        let message = failed.unwrap_err().to_string();
        assert!(begun.elapsed() < Duration::from_secs(6), "{fault:?}: {:?}", begun.elapsed());
        assert!(message.contains(word), "{fault:?}: {message}");
        // A cancelled read does not wait for the network.
        let begun = Instant::now();
        drop(loader);
        assert!(begun.elapsed() < Duration::from_secs(5), "{fault:?}: {:?}", begun.elapsed());
    }
}

/// A corrupt byte is noticed by formats that have checksums.
#[test]
fn a_pack_notices_a_corrupt_byte() {
    let root = bucket(12, 40);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    let dataset = open("s3://bucket/packed", &storage(&proxy.url(), &[])).unwrap();
    let loader = Loader::new(dataset, undecoded(12, Shuffle::Off)).unwrap();
    proxy.set(|_| Fault::Corrupt(3000));
    let message = epoch(&loader, 0).unwrap_err().to_string();
    assert!(message.contains("checksum"), "{message}");
}

#[test]
fn the_first_batch_takes_fewer_than_five_round_trips() {
    let root = bucket(200, 64);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    const TRIP: u64 = 200;
    for (name, format) in FORMATS {
        // A pack's manifest describes everything; other formats read some of their files when they are opened.
        let before_opening = if format == "pack" { Fault::Delay(TRIP) } else { Fault::None };
        proxy.set(move |_| before_opening);
        let mut begun = Instant::now();
        let dataset = open(&format!("s3://bucket/{name}"), &storage(&proxy.url(), &[])).unwrap();
        let loader = Loader::new(dataset, undecoded(16, Shuffle::Full)).unwrap();
        proxy.set(|_| Fault::Delay(TRIP));
        if before_opening == Fault::None {
            begun = Instant::now();
        }
        let mut running = loader.epoch(0).unwrap();
        running.next_batch().unwrap().unwrap();
        let trips = begun.elapsed().as_millis() as f64 / TRIP as f64;
        assert!(trips < 5.0, "{format}: {trips:.1} round trips");
        // Sixteen samples one after the other by two threads would take eight.
        drop(running);
    }
}

/// Requests wait for their turn in the order of the batches that need them, however many wait.
#[test]
fn the_first_batch_does_not_wait_for_later_ones() {
    let root = bucket(160, 16);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    const TRIP: u64 = 100;
    let dataset = open("s3://bucket/photos", &storage(&proxy.url(), &[("max_inflight_parts", "8")])).unwrap();
    let loader = Loader::new(dataset, undecoded(8, Shuffle::Full)).unwrap();
    proxy.set(|_| Fault::Delay(TRIP));
    for number in 0..3 {
        let begun = Instant::now();
        let mut running = loader.epoch(number).unwrap();
        running.next_batch().unwrap().unwrap();
        let trips = begun.elapsed().as_millis() as f64 / TRIP as f64;
        // All twenty batches take twenty.
        assert!(trips < 3.5, "epoch {number}: {trips:.1} round trips");
    }
}

#[test]
fn memory_stays_within_the_budget_under_a_slow_consumer_and_a_slow_server() {
    let root = bucket(240, 128);
    let server = Server::s3(root.path());
    let proxy = FaultProxy::new(server.address());
    let budget = 4u64 << 20;
    for (name, format) in FORMATS {
        for fault in [Fault::None, Fault::Throttle(3_000_000)] {
            proxy.set(|_| Fault::None);
            let dataset = open(&format!("s3://bucket/{name}"), &storage(&proxy.url(), &[])).unwrap();
            let options = undecoded(8, Shuffle::Full).with_memory_budget(budget);
            let loader = Loader::new(dataset, options).unwrap();
            proxy.set(move |_| fault);
            let mut running = loader.epoch(0).unwrap();
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(if fault == Fault::None { 30 } else { 1 }));
                running.next_batch().unwrap().unwrap();
            }
            let (batches, ahead) = (loader.stats().memory.peak_bytes, running.read_ahead_peak_bytes());
            assert!(ahead > 0, "{format}: nothing was read ahead");
            assert!(ahead <= budget / 2, "{format}, {fault:?}: {ahead} bytes read ahead");
            assert!(batches + ahead <= budget, "{format}, {fault:?}: {batches} + {ahead}");
        }
    }
}

/// Not a test of its own: the process that the test below starts and kills.
#[test]
fn helper() {
    let Ok(arguments) = std::env::var(HELPER) else { return };
    let [endpoint, cache] = arguments.split('\n').collect::<Vec<_>>()[..] else { panic!("two lines") };
    read_through(endpoint, Path::new(cache), None);
}

/// Epochs through the cache; compared with what is expected, if it is.
fn read_through(endpoint: &str, cache: &Path, expected: Option<&Vec<Vec<Vec<u8>>>>) {
    let cached =
        Storage { cache_dir: Some(cache.to_owned()), ..storage(endpoint, &[("cache_bytes", "1MB")]) };
    let dataset = open("s3://bucket/packed", &cached).unwrap();
    let loader = Loader::new(dataset, undecoded(8, Shuffle::Full)).unwrap();
    for _ in 0..if expected.is_some() { 1 } else { 1000 } {
        let found = epoch(&loader, 0).unwrap();
        assert!(expected.is_none_or(|expected| found == *expected));
    }
}

fn start(endpoint: &str, cache: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "remote::helper", "--nocapture"])
        .env(HELPER, format!("{endpoint}\n{}", cache.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// `FEEDLINE_KILL_ROUNDS=50` for the long version.
#[test]
fn killing_one_of_two_processes_harms_neither_the_other_nor_the_cache() {
    let rounds: u64 = std::env::var("FEEDLINE_KILL_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let root = bucket(150, 96);
    let server = Server::s3(root.path());
    let local = Dataset::open(root.path().join("bucket/packed").display().to_string()).unwrap();
    let expected = epoch(&Loader::new(local, undecoded(8, Shuffle::Full)).unwrap(), 0).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache: PathBuf = folder.path().join("cache");
    for round in 0..rounds {
        let mut victim = start(&server.url(), &cache);
        std::thread::sleep(Duration::from_millis(40 + round * 37 % 300));
        std::thread::scope(|scope| {
            scope.spawn(|| read_through(&server.url(), &cache, Some(&expected)));
            std::thread::sleep(Duration::from_millis(round * 13 % 60));
            victim.kill().unwrap();
        });
        victim.wait().unwrap();
        let report = DiskCache::open(&cache).unwrap().verify().unwrap();
        assert!(report.damaged.is_empty() && report.blocks > 0, "round {round}: {report:?}");
        // Each of the two counts what it adds itself and looks at the folder when that reaches the limit.
        assert!(report.bytes <= 2_000_000, "round {round}: {} bytes", report.bytes);
        // Opening cleared away what the dead process had begun.
        assert_eq!(std::fs::read_dir(cache.join("tmp")).unwrap().count(), 0, "round {round}");
    }
}
