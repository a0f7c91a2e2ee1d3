//! Where data are stored: buckets with other tools' leftovers, web servers, secrets in addresses.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::{bitmap, tar};
use feedline::format::{ConvertOptions, PackOptions, ReadingOptions, convert_into, pack_into};
use feedline::source::{Destination, Storage};
use feedline::{Dataset, OpenOptions, pack};
use feedline_servers::{Bucket, Certificate, Fault, FaultProxy, Server};

fn options(endpoint: &str, more: &[(&str, &str)]) -> OpenOptions {
    let given = [("key", "any"), ("secret", "any"), ("endpoint_url", endpoint), ("retry_seconds", "25")];
    let options = given.iter().chain(more).map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    OpenOptions { storage: Storage { options, cache_dir: None }, ..OpenOptions::default() }
}

fn open(uri: &str, options: &OpenOptions) -> feedline::Result<Dataset> {
    Dataset::open_all(&[uri.to_owned()], options)
}

/// The same images in every format that can be written here, one folder each.
fn every_format() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    for number in 0..7 {
        let path = root.path().join(format!("folder/c{}/{number:04}.jpg", number % 3));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(recorded.join("litdata/a.jpg"), path).unwrap();
    }
    let photos = Dataset::open(root.path().join("folder").display().to_string()).unwrap();
    pack(&**photos.format(), root.path().join("pack"), &PackOptions::default(), &()).unwrap();
    for to in ["webdataset", "mds", "litdata", "parquet"] {
        let target = root.path().join(to).display().to_string();
        let destination = Destination::new(&target, &Storage::default()).unwrap();
        let options = ConvertOptions { to: to.to_owned(), ..ConvertOptions::default() };
        convert_into(&**photos.format(), &destination, &options, &()).unwrap();
    }
    std::fs::create_dir_all(root.path().join("tfrecord")).unwrap();
    std::fs::copy(recorded.join("tfrecord/plain.tfrecord"), root.path().join("tfrecord/plain.tfrecord"))
        .unwrap();
    for name in files(&recorded.join("arrow/saved")) {
        let target = root.path().join("arrow").join(&name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(recorded.join("arrow/saved").join(&name), target).unwrap();
    }
    root
}

/// Names of all files below a folder.
fn files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    found
}

/// A folder's files as objects, with what `markers` makes of the name of every folder among them.
fn objects(root: &Path, markers: impl Fn(&str) -> Vec<String>) -> BTreeMap<String, Vec<u8>> {
    let mut objects = BTreeMap::new();
    for name in files(root) {
        for folder in name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
            objects.extend(markers(folder.to_str().unwrap()).into_iter().map(|marker| (marker, Vec::new())));
        }
        objects.insert(name.to_str().unwrap().to_owned(), std::fs::read(root.join(&name)).unwrap());
    }
    objects
}

fn serve(objects: &BTreeMap<String, Vec<u8>>) -> Bucket {
    Bucket::new(objects.iter().map(|(key, bytes)| (key.as_str(), bytes.as_slice())))
}

const FORMATS: [&str; 8] = ["folder", "pack", "webdataset", "mds", "litdata", "parquet", "tfrecord", "arrow"];

/// Every sample, as text.
fn content(dataset: &Dataset) -> Vec<String> {
    (0..dataset.len()).map(|sample| format!("{:?}", dataset.get(sample).unwrap())).collect()
}

fn local(root: &Path, format: &str) -> Dataset {
    Dataset::open(root.join(format).display().to_string()).unwrap()
}

#[test]
fn folder_markers_are_never_samples() {
    let root = every_format();
    // The S3 console's and s3fs's; Hadoop's; an older s3fs's; and a folder with nothing in it.
    let markers = |folder: &str| {
        vec![
            format!("{folder}/"),
            format!("{folder}_$folder$"),
            folder.to_owned(),
            format!("{folder}/empty/"),
        ]
    };
    let bucket = serve(&objects(root.path(), markers));
    for format in FORMATS {
        let here = local(root.path(), format);
        for uri in [format!("s3://bucket/{format}"), format!("s3://bucket/{format}/")] {
            let there = open(&uri, &options(&bucket.url(), &[])).unwrap_or_else(|e| panic!("{uri}: {e}"));
            assert_eq!(there.format_name(), here.format_name());
            assert_eq!(content(&there), content(&here), "{uri}");
            assert_eq!(there.classes(), here.classes(), "{uri}");
            assert!(there.problems().is_empty(), "{uri}: {:?}", there.problems());
        }
    }
}

#[test]
fn unusable_keys_are_reported_and_skipped() {
    let root = every_format();
    let odd = |folder: &str| {
        let keys = ["{}//x.bmp", "{}/./y.bmp", "{}/../z.bmp", "{}/new\nline.bmp"];
        keys.map(|key| key.replace("{}", folder)).to_vec()
    };
    let mut objects = objects(root.path(), odd);
    objects.insert("folder/full/".to_owned(), b"not empty".to_vec());
    let bucket = serve(&objects);
    for format in FORMATS {
        let here = local(root.path(), format);
        let there = open(&format!("s3://bucket/{format}"), &options(&bucket.url(), &[]))
            .unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(content(&there), content(&here), "{format}");
        let problems: Vec<String> = there.problems().iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|p| p.contains("empty part")), "{format}: {problems:?}");
        assert!(problems.iter().any(|p| p.contains("is '.' or '..'")), "{format}: {problems:?}");
        if format == "folder" {
            assert!(problems.iter().any(|p| p.contains("full/") && p.contains("slash")), "{problems:?}");
        }
    }
}

#[test]
fn a_listing_of_several_pages_with_unusual_keys_is_complete() {
    let mut objects = BTreeMap::new();
    for number in 0..2500 {
        objects.insert(format!("many/{number:05}.bmp"), bitmap(2, number));
    }
    objects.insert("many/00999.bmp//x".to_owned(), Vec::new());
    let bucket = serve(&objects);
    let dataset = open("s3://bucket/many", &options(&bucket.url(), &[])).unwrap();
    assert_eq!((dataset.len(), dataset.problems().len()), (2500, 1), "{:?}", dataset.problems());
}

fn plain(more: &[(&str, &str)]) -> OpenOptions {
    // Retrying up to the limit would take longer than the tests here allow.
    let options = more
        .iter()
        .chain(&[("retry_seconds", "25")])
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    OpenOptions { storage: Storage { options, cache_dir: None }, ..OpenOptions::default() }
}

/// A pack on a server that accepts any key.
fn served_pack() -> (tempfile::TempDir, Bucket) {
    let root = every_format();
    let bucket = serve(&objects(root.path(), |_| Vec::new()));
    (root, bucket)
}

/// The message of an attempt that must fail long before `retry_seconds` are over.
fn fails_at_once(uri: &str, options: &OpenOptions) -> String {
    let begun = Instant::now();
    let message = open(uri, options).map(|dataset| dataset.len()).unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}: {message}", begun.elapsed());
    message
}

#[test]
fn an_untrusted_certificate_is_an_error_at_once() {
    let (_root, bucket) = served_pack();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let authority = file("authority.pem", Certificate::AUTHORITY);
    let own = file("own.pem", Certificate::OWN_AUTHORITY);
    let signed = Server::tls(bucket.address(), Certificate::Signed);
    let uri = format!("https://{}/bucket/pack/", signed.address());
    let message = fails_at_once(&uri, &plain(&[("ca_bundle", &own)]));
    assert!(
        message.contains("certificate") && message.contains("hint") && message.contains("ca_bundle"),
        "{message}"
    );
    assert_eq!(open(&uri, &plain(&[("ca_bundle", &authority)])).unwrap().len(), 7);
    let endpoint = format!("https://{}", signed.address());
    let message = fails_at_once("s3://bucket/pack/", &options(&endpoint, &[("ca_bundle", &own)]));
    assert!(message.contains("ca_bundle"), "{message}");
    let s3 = options(&endpoint, &[("ca_bundle", &authority)]);
    assert_eq!(open("s3://bucket/pack/", &s3).unwrap().len(), 7);

    let shown = Server::tls(bucket.address(), Certificate::OwnAuthority);
    let uri = format!("https://{}/bucket/pack/", shown.address());
    let message = fails_at_once(&uri, &plain(&[("ca_bundle", &own)]));
    assert!(message.contains("CA:TRUE") && message.contains("CA:FALSE"), "{message}");
    assert_eq!(open(&uri, &plain(&[("verify_ssl", "false")])).unwrap().len(), 7);
}

#[test]
fn a_server_that_does_not_speak_tls_is_an_error_at_once() {
    let (_root, bucket) = served_pack();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, Certificate::AUTHORITY).unwrap();
    let trusted = plain(&[("ca_bundle", authority.to_str().unwrap())]);
    // https to a port that speaks http.
    let message = fails_at_once(&format!("https://{}/bucket/pack/", bucket.address()), &trusted);
    assert!(message.contains("does not speak TLS") && message.contains("http://"), "{message}");
    // And to one that closes the connection. It reads the greeting first: closing before that may reset the connection,
    // which is retried.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in deaf.incoming() {
            let _greeting = stream.unwrap().read(&mut [0; 8192]);
        }
    });
    let message = fails_at_once(&format!("https://{address}/bucket/pack/"), &trusted);
    assert!(message.contains("does not speak TLS"), "{message}");
    // https that redirects to http.
    let front = Server::tls(bucket.address(), Certificate::Signed);
    let plain_url = bucket.url();
    bucket.set(move |request| {
        let location = format!("{plain_url}{}", request.path);
        Some(("302 Found", vec![("Location", location)]))
    });
    let message = fails_at_once(&format!("https://{}/bucket/pack/", front.address()), &trusted);
    assert!(message.contains("redirects https:// to http://"), "{message}");
}

const PASSWORD: &str = "pa55word-very-secret";
const SIGNATURE: &str = "5160a7u5ef0ffee";

#[test]
fn web_servers_receive_users_tokens_and_headers() {
    let (_root, bucket) = served_pack();
    bucket.set(|request| {
        let basic = request.header("authorization") == Some("Basic bWU6cGE1NXdvcmQtdmVyeS1zZWNyZXQ=");
        let bearer = request.header("authorization") == Some("Bearer tok-abc-123456");
        let header = request.header("x-api-key") == Some("key-abc-123456");
        (!basic && !bearer && !header).then(|| ("401 Unauthorized", Vec::new()))
    });
    let uri = format!("{}/bucket/pack/", bucket.url());
    let with_user = uri.replace("http://", &format!("http://me:{PASSWORD}@"));
    let dataset = open(&with_user, &plain(&[])).unwrap();
    assert_eq!((dataset.len(), dataset.uri()), (7, uri.as_str()));
    for given in [
        &[("username", "me"), ("password", PASSWORD)][..],
        &[("token", "tok-abc-123456")],
        &[("header.X-Api-Key", "key-abc-123456")],
    ] {
        assert_eq!(open(&uri, &plain(given)).unwrap().len(), 7, "{given:?}");
    }
    let message = fails_at_once(&uri, &plain(&[]));
    assert!(message.contains("401") && message.contains("'username'"), "{message}");
    let message = fails_at_once(&uri, &plain(&[("username", "me"), ("password", "wrong-word")]));
    assert!(message.contains("does not accept this user") && !message.contains("wrong-word"), "{message}");
}

#[test]
fn secrets_in_addresses_are_shown_nowhere() {
    let (_root, bucket) = served_pack();
    let host = bucket.url().replace("http://", &format!("http://me:{PASSWORD}@"));
    let cache = tempfile::tempdir().unwrap();
    let mut with_cache = plain(&[]);
    with_cache.storage.cache_dir = Some(cache.path().to_path_buf());
    let query = format!("?X-Amz-Signature={SIGNATURE}&sig={SIGNATURE}");
    let hidden = |text: &str| assert!(!text.contains(PASSWORD) && !text.contains(SIGNATURE), "{text}");
    let dataset = open(&format!("{host}/bucket/pack/{query}"), &with_cache).unwrap();
    assert!(bucket.asked().iter().all(|request| request.path.contains(SIGNATURE)));
    dataset.get(0).unwrap();
    hidden(dataset.uri());
    hidden(&format!("{dataset:?}"));
    for name in files(cache.path()) {
        hidden(&String::from_utf8_lossy(&std::fs::read(cache.path().join(name)).unwrap()));
    }
    // What another process opens it with must have them.
    let spec = serde_json::to_string(dataset.spec().unwrap()).unwrap();
    assert!(spec.contains(PASSWORD) && spec.contains(SIGNATURE));
    for status in ["403 Forbidden", "404 Not Found", "400 Bad Request", "501 Not Implemented", "302 Found"] {
        bucket.set(move |_| Some((status, Vec::new())));
        hidden(&fails_at_once(&format!("{host}/bucket/pack/{query}"), &plain(&[])));
        hidden(&fails_at_once(&format!("{host}/bucket/a.tar{query}"), &plain(&[])));
    }
    hidden(&fails_at_once(&format!("http://me:{PASSWORD}@127.0.0.1:9/x/{query}"), &plain(&[])));
    hidden(&fails_at_once(&format!("ftp://me:{PASSWORD}@host/x{query}"), &plain(&[])));
    hidden(&fails_at_once(&format!("{host}/bucket/{{1..9999999}}.tar{query}"), &plain(&[])));
}

#[test]
fn a_google_token_is_not_taken_for_a_file() {
    let bucket = Bucket::new([]);
    bucket.set(|request| {
        let known = request.header("authorization") == Some("Bearer ya29.secret-token-0123");
        (!known).then(|| ("401 Unauthorized", Vec::new()))
    });
    bucket.put("x/1.bmp", &bitmap(4, 1));
    let given = |token: &str| plain(&[("token", token), ("endpoint_url", &bucket.url())]);
    assert_eq!(open("gs://bucket/x", &given("ya29.secret-token-0123")).unwrap().len(), 1);
    for token in ["ya29.another-token-0123", "/no/such/secret-token.json", "{\"broken-secret\": 1}"] {
        let message = fails_at_once("gs://bucket/x", &given(token));
        assert!(!message.contains("another-token") && !message.contains("broken-secret"), "{message}");
        assert!(!message.contains("such/secret"), "{message}");
    }
}

#[test]
fn folders_over_http_need_an_index_and_say_so() {
    let (root, bucket) = served_pack();
    let shards = root.path().join("webdataset");
    let made = local(root.path(), "webdataset");
    assert!(shards.join("wids.json").exists(), "the writer makes an index");
    for format in ["pack", "webdataset", "mds", "litdata"] {
        let here = local(root.path(), format);
        let uri = format!("{}/bucket/{format}/", bucket.url());
        let there = open(&uri, &plain(&[])).unwrap_or_else(|e| panic!("{uri}: {e}"));
        assert_eq!((there.format_name(), content(&there)), (here.format_name(), content(&here)));
    }
    assert_eq!(made.len(), 7);
    for format in ["folder", "parquet"] {
        let message = fails_at_once(&format!("{}/bucket/{format}/", bucket.url()), &plain(&[]));
        assert!(message.contains("does not list") && message.contains("part-{000..011}"), "{message}");
    }
}

/// The first answer with a body of some length is tampered with, the same bytes are right when asked for again.
#[test]
fn bytes_damaged_in_transfer_are_fetched_again_if_a_checksum_shows_it() {
    let root = every_format();
    let server = Server::http(root.path());
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let hashes = Server::http(&recorded);
    for (server, uri, flipped) in [
        (&server, "pack/", 70),
        (&server, "tfrecord/plain.tfrecord", 70),
        (&hashes, "mds/hashes/", 70),
        (&hashes, "tfrecord/gzip.tfrecord", 70),
        (&hashes, "tbl/plain.tbl", 70),
        (&hashes, "tbl/lz4.tbl", 70),
        (&hashes, "checked/a.zip", 300),
        (&hashes, "checked/a.tar.gz", 300),
        (&hashes, "checked/a.tar.zst", 300),
        (&hashes, "checked/a.tar.bz2", 300),
        (&hashes, "checked/a.tar.xz", 300),
        (&hashes, "checked/plain.parquet", 300),
        (&hashes, "checked/zstd.parquet", 300),
        (&hashes, "checked/a.h5", 300),
        (&hashes, "checked/a.array_record", 100),
    ] {
        let proxy = FaultProxy::new(server.address());
        // Only some indexes have hashes of whole files; elsewhere the files have checksums of their own.
        let reading = ReadingOptions { verify_hashes: uri.starts_with("mds"), ..ReadingOptions::default() };
        let clean = OpenOptions { reading, ..plain(&[]) };
        let expected = content(&open(&format!("{}/{uri}", proxy.url()), &clean).unwrap());
        for cached in [false, true] {
            let cache = tempfile::tempdir().unwrap();
            let mut options = clean.clone();
            options.storage.cache_dir = cached.then(|| cache.path().to_path_buf());
            proxy.set(|_| Fault::None);
            let dataset = open(&format!("{}/{uri}", proxy.url()), &options).unwrap();
            let mut left = 2;
            let before = proxy.counts().faults();
            proxy.set(move |request| {
                if request.method != "GET" || left == 0 {
                    return Fault::None;
                }
                left -= 1;
                if left == 1 { Fault::Corrupt(flipped) } else { Fault::None }
            });
            assert_eq!(content(&dataset), expected, "{uri}, cached: {cached}");
            if !cached {
                assert_eq!(proxy.counts().faults() - before, 1, "{uri}: nothing was damaged");
            }
        }
    }
}

#[test]
fn memory_is_a_source_like_any_other() {
    let root = every_format();
    let photos = local(root.path(), "folder");
    let memory =
        |name: &str| Destination::new(&format!("memory://places/{name}"), &Storage::default()).unwrap();
    pack_into(&**photos.format(), &memory("pack"), &PackOptions::default(), &()).unwrap();
    for to in ["webdataset", "mds"] {
        let options = ConvertOptions { to: to.to_owned(), ..ConvertOptions::default() };
        convert_into(&**photos.format(), &memory(to), &options, &()).unwrap();
    }
    for (uri, name) in [
        ("memory://places/pack", "pack"),
        ("memory://places/mds/", "mds"),
        ("memory://places/webdataset/*.tar", "webdataset"),
    ] {
        let dataset = Dataset::open(uri).unwrap_or_else(|e| panic!("{uri}: {e}"));
        assert_eq!((dataset.format_name(), dataset.len(), dataset.uri()), (name, 7, uri));
        assert_eq!(dataset.spec().unwrap().open().unwrap().fingerprint(), dataset.fingerprint());
    }
    let shard = root.path().join("one.tar");
    std::fs::write(&shard, tar(&[("a.bmp".to_owned(), bitmap(3, 1)), ("a.cls".to_owned(), b"5".to_vec())]))
        .unwrap();
    assert_eq!(Dataset::open(format!("file://{}", shard.display())).unwrap().len(), 1);
    let message = Dataset::open("memory://nobody/here").unwrap_err().to_string();
    assert!(
        message.contains("memory://nobody/here") && message.contains("only what this process wrote"),
        "{message}"
    );
    let file = format!("file://localhost{}", root.path().join("pack").display());
    assert_eq!(Dataset::open(&file).unwrap().len(), 7);
}

#[test]
fn several_endpoints_are_used_in_turn_and_one_may_be_down() {
    let root = every_format();
    let objects = objects(root.path(), |_| Vec::new());
    let (one, two) = (serve(&objects), serve(&objects));
    let both = format!("{},{}", one.url(), two.url());
    let dataset = open("s3://bucket/pack", &options(&both, &[])).unwrap();
    assert_eq!(content(&dataset), content(&local(root.path(), "pack")));
    let gets = |bucket: &Bucket| bucket.asked().iter().filter(|asked| asked.range.is_some()).count();
    assert!(gets(&one) >= 3 && gets(&two) >= 3, "{} and {}", gets(&one), gets(&two));
    two.set(|_| Some(("503 Slow Down", Vec::new())));
    assert_eq!(content(&dataset).len(), 7);
}

#[test]
fn s3_settings_reach_the_store_as_headers() {
    let root = every_format();
    let bucket = serve(&objects(root.path(), |_| Vec::new()));
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let given =
        [("requester_pays", "true"), ("sse", "sse-c"), ("sse_customer_key", key), ("checksum", "sha256")];
    let reading = options(&bucket.url(), &given);
    let dataset = open("s3://bucket/pack", &reading).unwrap();
    dataset.get(0).unwrap();
    let gets = bucket.asked();
    let of_objects = |request: &&feedline_servers::Request| !request.path.contains("list-type");
    for request in gets.iter().filter(of_objects) {
        assert_eq!(request.header("x-amz-request-payer"), Some("requester"), "{request:?}");
        assert_eq!(request.header("x-amz-server-side-encryption-customer-key"), Some(key), "{request:?}");
    }
    let destination = Destination::new("s3://bucket/copy", &reading.storage).unwrap();
    pack_into(&**dataset.format(), &destination, &PackOptions::default(), &()).unwrap();
    let asked = bucket.asked();
    let puts: Vec<_> = asked.iter().filter(|request| request.method == "PUT").collect();
    assert!(!puts.is_empty());
    for put in puts {
        assert!(put.header("x-amz-checksum-sha256").is_some(), "{put:?}");
        assert_eq!(put.header("x-amz-server-side-encryption-customer-algorithm"), Some("AES256"));
    }
    let kms = options(&bucket.url(), &[("sse", "aws:kms"), ("sse_kms_key_id", "my-key")]);
    let destination = Destination::new("s3://bucket/kms", &kms.storage).unwrap();
    pack_into(&**dataset.format(), &destination, &PackOptions::default(), &()).unwrap();
    let asked = bucket.asked();
    let put = asked.iter().rfind(|request| request.method == "PUT").unwrap();
    assert_eq!(put.header("x-amz-server-side-encryption-aws-kms-key-id"), Some("my-key"));
}
