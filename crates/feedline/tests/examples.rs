//! The examples do what they say, and everything works inside a program that has a tokio runtime of its own.

#[path = "../examples/pack.rs"]
#[expect(dead_code, reason = "its main")]
mod pack_example;
#[path = "../examples/raw_bytes.rs"]
#[expect(dead_code, reason = "its main")]
mod raw_bytes;
#[path = "../examples/remote.rs"]
#[expect(dead_code, reason = "its main")]
mod remote;
#[path = "../examples/train.rs"]
#[expect(dead_code, reason = "its main")]
mod train;

use std::path::Path;

use crate::support::bitmap;
use feedline::Dataset;
use feedline::source::Storage;
use feedline_servers::{ACCESS_KEY, SECRET_KEY, Server};

const COUNT: usize = 50;

/// Bitmaps in three classes below `folder`.
fn images(folder: &Path) {
    for number in 0..COUNT {
        let path = folder.join(format!("c{}/{number:03}.bmp", number % 3));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bitmap(24 + number as u32 % 5, number as u64)).unwrap();
    }
}

#[test]
fn training_packing_and_raw_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (photos, pack) = (folder.path().join("photos"), folder.path().join("pack"));
    images(&photos);
    let photos = photos.display().to_string();
    assert_eq!(train::run(&photos, 2).unwrap(), [COUNT, COUNT]);
    assert_eq!(pack_example::run(&photos, &pack).unwrap(), COUNT as u64);
    assert_eq!(train::run(&pack.display().to_string(), 1).unwrap(), [COUNT]);
    let from_files = raw_bytes::run(&photos).unwrap();
    assert_eq!(from_files.0, COUNT);
    assert_eq!(raw_bytes::run(&pack.display().to_string()).unwrap(), from_files);
    assert_eq!(pack_example::write_own(&folder.path().join("own"), 7).unwrap(), 7);
    let own = Dataset::open(folder.path().join("own").display().to_string()).unwrap();
    assert_eq!((own.len(), own.schema().classes.as_ref().map(Vec::len)), (7, Some(2)));
}

fn bucket() -> (tempfile::TempDir, Server, Storage) {
    let root = tempfile::tempdir().unwrap();
    images(&root.path().join("bucket/photos"));
    let server = Server::s3(root.path());
    let endpoint = server.url();
    let given = [("key", ACCESS_KEY), ("secret", SECRET_KEY), ("endpoint_url", endpoint.as_str())];
    let options = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    (root, server, Storage::new(options))
}

#[test]
fn a_bucket_with_a_cache() {
    let (_root, server, storage) = bucket();
    let cache = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        assert_eq!(remote::run("s3://bucket/photos", storage.clone(), cache.path()).unwrap(), COUNT);
    }
    drop(server);
}

/// Threads of a runtime may not start another one; ours must not ask them to.
#[test]
fn works_inside_the_users_tokio_runtime() {
    let (_root, server, storage) = bucket();
    let (own, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(own.path());
    let work = async {
        // On the runtime's own thread, and on one that it keeps for blocking work.
        let direct = remote::run("s3://bucket/photos", storage.clone(), cache.path()).unwrap();
        let (storage, cache) = (storage.clone(), cache.path().to_owned());
        let blocking =
            tokio::task::spawn_blocking(move || remote::run("s3://bucket/photos", storage, &cache));
        let local = own.path().display().to_string();
        (direct, blocking.await.unwrap().unwrap(), train::run(&local, 1).unwrap())
    };
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(single.block_on(work), (COUNT, COUNT, vec![COUNT]));
    drop(server);
}
