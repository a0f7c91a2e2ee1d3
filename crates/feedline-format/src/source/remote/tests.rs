//! Tests against a real S3 server and a real web server on loopback, directly and through the fault proxy.

use std::fs;
use std::time::{Duration, Instant};

use feedline_servers::{ACCESS_KEY, Fault, FaultProxy, Random, SECRET_KEY, Server};

use super::*;

fn storage(endpoint: &str, more: &[(&str, &str)]) -> Storage {
    let given = [("key", ACCESS_KEY), ("secret", SECRET_KEY), ("endpoint_url", endpoint)];
    let options = given.iter().chain(more).map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Storage { options, cache_dir: None }
}

fn write(root: &std::path::Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A bucket with one object of 3 MB behind a proxy.
fn served() -> (tempfile::TempDir, Server, FaultProxy, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(3_000_000);
    write(folder.path(), "bucket/data/a.bin", &bytes);
    let server = Server::s3(folder.path());
    let proxy = FaultProxy::new(server.address());
    (folder, server, proxy, bytes)
}

fn source_with(proxy: &FaultProxy, more: &[(&str, &str)]) -> RemoteSource {
    RemoteSource::open_uri("s3://bucket/data", &storage(&proxy.url(), more)).unwrap()
}

#[test]
fn s3_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::s3(folder.path());
    super::super::conformance::check(|objects| {
        for (name, bytes) in objects {
            write(folder.path(), &format!("bucket/some/prefix/{name}"), bytes);
        }
        let storage = storage(&server.url(), &[("part_size", "64KiB")]);
        Arc::new(RemoteSource::open_uri("s3://bucket/some/prefix", &storage).unwrap())
    });
}

#[test]
fn http_reads_ranges_and_says_that_it_cannot_list() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pattern(300_000);
    write(folder.path(), "sub/ü name.bin", &bytes);
    let server = Server::http(folder.path());
    let source = RemoteSource::open_uri(&format!("{}/sub", server.url()), &Storage::default()).unwrap();
    assert!(source.exists("ü name.bin").unwrap() && !source.exists("nobody").unwrap());
    let object = source.open("ü name.bin").unwrap();
    let mut read = vec![0; 1000];
    object.read_at(123_456, &mut read).unwrap();
    assert_eq!(read, bytes[123_456..124_456]);
    assert_eq!(&*object.hold(0..object.size()).unwrap(), &bytes[..]);
    let message = source.list("").unwrap_err().to_string();
    assert!(message.contains("does not list"), "{message}");
}

#[test]
fn listings_have_many_pages() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..2300 {
        write(folder.path(), &format!("bucket/many/{number:05}.bin"), b"x");
    }
    let server = Server::s3(folder.path());
    let source = RemoteSource::open_uri("s3://bucket/many", &storage(&server.url(), &[])).unwrap();
    let mut names: Vec<String> = source.list("").unwrap().entries.into_iter().map(|e| e.name).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), names[2299].as_str()), (2300, "02299.bin"));
    assert_eq!(source.children("").unwrap().len(), 2300);
}

#[test]
fn temporary_faults_cost_time_but_change_no_byte() {
    let (_folder, _server, proxy, bytes) = served();
    let source =
        source_with(&proxy, &[("stall_timeout", "0.3"), ("part_size", "256KiB"), ("hedge_after", "100")]);
    let object = source.open("a.bin").unwrap();
    let mut random = Random::new(
        7,
        2,
        &[
            Fault::Delay(150),
            Fault::Truncate(1000),
            Fault::Reset(100_000),
            Fault::ServerError,
            Fault::SlowDown,
            Fault::Stall(5000),
            Fault::Throttle(4_000_000),
        ],
    );
    proxy.set(move |_| random.draw());
    for _ in 0..3 {
        assert!(*object.hold(0..object.size()).unwrap() == bytes[..]);
    }
    assert!(proxy.counts().faults() > 5);
}

#[test]
fn a_cut_body_is_resumed_where_it_broke_off() {
    let (_folder, _server, proxy, bytes) = served();
    let object = source_with(&proxy, &[]).open("a.bin").unwrap();
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = ranges.clone();
    proxy.set(move |request| {
        let mut seen = seen.lock().unwrap();
        seen.extend(request.range.clone());
        if seen.len() == 1 { Fault::Truncate(1_000_000) } else { Fault::None }
    });
    assert!(*object.hold(0..3_000_000).unwrap() == bytes[..]);
    assert_eq!(*ranges.lock().unwrap(), ["bytes=0-2999999", "bytes=1000000-2999999"]);
}

#[test]
fn a_changed_object_is_noticed_and_never_mixed() {
    let (folder, _server, proxy, _) = served();
    let source = source_with(&proxy, &[]);
    let object = source.open("a.bin").unwrap();
    let version = object.version();
    write(folder.path(), "bucket/data/a.bin", &pattern(3_000_001)[1..]);
    let message = object.read_at(0, &mut [0; 10]).unwrap_err().to_string();
    assert!(message.contains("a.bin") && message.contains("changed"), "{message}");
    let message = source.read_unchanged("a.bin", version, &mut vec![0; 3_000_000]).unwrap_err().to_string();
    assert!(message.contains("changed"), "{message}");
    // In the middle of a body, too: the second request finds another version.
    let object = source.open("a.bin").unwrap();
    let mut number = 0;
    proxy.set(move |_| {
        number += 1;
        if number == 1 { Fault::Truncate(1000) } else { Fault::OtherVersion }
    });
    let message = object.hold(0..3_000_000).unwrap_err().to_string();
    assert!(message.contains("was written again"), "{message}");
}

#[test]
fn an_endless_stall_is_one_error_within_the_timeout() {
    let (_folder, _server, proxy, _) = served();
    let limits = [("stall_timeout", "0.3"), ("retry_seconds", "1.5")];
    let object = source_with(&proxy, &limits).open("a.bin").unwrap();
    proxy.set(|_| Fault::Stall(10));
    let begun = Instant::now();
    let message = object.read_at(0, &mut [0; 100]).unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(message.contains("no bytes received") && message.contains("stall_timeout"), "{message}");
}

#[test]
fn errors_name_the_request_the_credentials_and_a_remedy() {
    let (_folder, server, proxy, _) = served();
    let object = source_with(&proxy, &[]).open("a.bin").unwrap();
    let read = || object.read_at(0, &mut [0; 10]).unwrap_err().to_string();
    for (fault, words) in [
        (Fault::Denied, &["403", "AccessDenied", "storage_options", "permission"][..]),
        (Fault::Expired, &["ExpiredToken", "expired", "3 times"]),
        (Fault::Missing, &["NoSuchKey", "a.bin", "3 times"]),
        (Fault::WrongRegion, &["region"]),
    ] {
        proxy.set(move |_| fault);
        let message = read();
        for word in words.iter().chain(&[&*proxy.url()]) {
            assert!(message.contains(word), "{fault:?}: '{word}' is not in: {message}");
        }
    }
    let open = |uri: &str, storage: &Storage| {
        RemoteSource::open_uri(uri, storage).unwrap().list("").unwrap_err().to_string()
    };
    let message = open("s3://nobody/x", &storage(&server.url(), &[]));
    assert!(message.contains("no bucket of this name"), "{message}");
    let message = open("s3://bucket/data", &storage(&server.url(), &[("secret", "wrong")]));
    assert!(
        message.contains("SignatureDoesNotMatch") && message.contains("does not accept these credentials"),
        "{message}"
    );
    let message = open("s3://bucket/data", &storage(&server.url(), &[("anon", "true")]));
    assert!(message.contains("without credentials") && message.contains("not public"), "{message}");
    let message = open("s3://bucket/x", &storage("http://127.0.0.1:9", &[]));
    assert!(message.contains("127.0.0.1:9") && message.contains("check the endpoint"), "{message}");
    let message = open("s3://bucket/nothing", &storage(&server.url(), &[]));
    assert!(message.contains("there is nothing below"), "{message}");
}

#[test]
fn expired_credentials_are_read_again() {
    let (_folder, _server, proxy, bytes) = served();
    let object = source_with(&proxy, &[]).open("a.bin").unwrap();
    let mut left = 2;
    proxy.set(move |_| {
        left -= 1;
        if left >= 0 { Fault::Expired } else { Fault::None }
    });
    let mut read = [0; 10];
    object.read_at(5, &mut read).unwrap();
    assert_eq!(read, bytes[5..15]);
}

#[test]
fn ranges_fetched_ahead_are_read_without_another_request() {
    let (_folder, _server, proxy, bytes) = served();
    let source = source_with(&proxy, &[]);
    let object = source.open("a.bin").unwrap();
    let before = proxy.counts().requests();
    let ticket = source.prefetch("a.bin", 1000..900_000, None).unwrap();
    let mut read = vec![0; 5000];
    for offset in [1000, 400_000, 895_000] {
        object.read_at(offset, &mut read).unwrap();
        assert!(read == bytes[offset as usize..offset as usize + 5000]);
    }
    assert_eq!(proxy.counts().requests() - before, 1);
    drop(ticket);
    object.read_at(1000, &mut read).unwrap();
    assert_eq!(proxy.counts().requests() - before, 2);
}

#[test]
fn a_slow_first_answer_is_requested_twice() {
    let (_folder, _server, proxy, bytes) = served();
    let object = source_with(&proxy, &[("hedge_after", "50")]).open("a.bin").unwrap();
    let mut number = 0;
    proxy.set(move |_| {
        number += 1;
        if number == 1 { Fault::Delay(3000) } else { Fault::None }
    });
    let begun = Instant::now();
    let mut read = vec![0; 1000];
    object.read_at(0, &mut read).unwrap();
    assert!(read == bytes[..1000] && begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn large_ranges_are_fetched_in_parallel_parts() {
    let (_folder, _server, proxy, bytes) = served();
    let parts = [("part_size", "500KB"), ("max_inflight_parts", "6")];
    let object = source_with(&proxy, &parts).open("a.bin").unwrap();
    proxy.set(|_| Fault::Delay(300));
    let begun = Instant::now();
    assert!(*object.hold(0..3_000_000).unwrap() == bytes[..]);
    // Six parts one after the other would take 1.8 s.
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
}

#[test]
fn bytes_fetched_ahead_are_not_copied() {
    let (folder, server, proxy, bytes) = served();
    for (endpoint, through) in [(server.url(), "directly"), (proxy.url(), "with a body that breaks off")] {
        let mut number = 0;
        proxy.set(move |_| {
            number += 1;
            if number == 2 { Fault::Truncate(700_000) } else { Fault::None }
        });
        let source = RemoteSource::open_uri("s3://bucket/data", &storage(&endpoint, &[])).unwrap();
        let object = source.open("a.bin").unwrap();
        for _ in 0..3 {
            let tickets: Vec<_> = [0..1_500_000, 1_500_000..3_000_000]
                .map(|range| source.prefetch("a.bin", range, None).unwrap())
                .into();
            let mut read = vec![0; 1_500_000];
            for start in [0, 1_500_000] {
                object.read_at(start, &mut read).unwrap();
                assert!(read == bytes[start as usize..start as usize + read.len()], "{through}");
            }
            drop(tickets);
        }
        let copied = source.link.connection().unwrap().stage.copied.load(Ordering::Relaxed);
        assert_eq!(copied, 0, "{through}");
    }
    drop(folder);
}

#[test]
fn a_slow_body_is_not_a_stall() {
    let (_folder, _server, proxy, bytes) = served();
    let source = source_with(&proxy, &[("stall_timeout", "2")]);
    let object = source.open("a.bin").unwrap();
    // More than the stated time for the memory that is handed on at once.
    proxy.set(|_| Fault::Throttle(80_000));
    let before = proxy.counts().requests();
    let ticket = source.prefetch("a.bin", 0..270_000, None).unwrap();
    let mut read = vec![0; 270_000];
    object.read_at(0, &mut read).unwrap();
    assert!(read == bytes[..270_000]);
    assert_eq!(proxy.counts().requests() - before, 1);
    drop(ticket);
}

#[test]
fn redirected_requests_are_left_to_the_http_client() {
    let (folder, _server, _proxy, bytes) = served();
    let moved = feedline_servers::Bucket::new([]);
    let web = Server::http(folder.path());
    let location = format!("{}/bucket/data/a.bin", web.url());
    moved.set(move |_| Some(("302 Found", vec![("Location", location.clone())])));
    let source = RemoteSource::open_uri(&moved.url(), &Storage::default()).unwrap();
    let object = source.open("a.bin").unwrap();
    let ticket = source.prefetch("a.bin", 100..2_000_000, None).unwrap();
    let mut read = vec![0; 1_000_000];
    object.read_at(500_000, &mut read).unwrap();
    assert!(read == bytes[500_000..1_500_000]);
    drop(ticket);
}
