//! A data set that is packed while it is read: no sample may show which side it came from.

use std::path::Path;
use std::time::{Duration, Instant};

use feedline::dataset::DatasetSpec;
use feedline::field::ImageEncoding;
use feedline::{Dataset, Sample};
use feedline_pixels::{Size, turbo};

fn picture(number: u8) -> Vec<u8> {
    let size = Size::new(40, 30);
    let pixels: Vec<u8> = (0..40 * 30 * 3).map(|i| (i as u8).wrapping_mul(number)).collect();
    turbo::encode(&pixels, &turbo::Encoding::baseline(size, 3, 85, (2, 2))).unwrap()
}

/// A folder with `count` images, one of them broken.
fn images(folder: &Path, count: usize) -> Dataset {
    for n in 0..count {
        let class = folder.join(["a", "b"][n % 2]);
        std::fs::create_dir_all(&class).unwrap();
        let bytes = if n == 3 { &b"\xff\xd8\xff not really"[..] } else { &picture(n as u8) };
        std::fs::write(class.join(format!("{n:02}.jpg")), bytes).unwrap();
    }
    Dataset::open(folder.display().to_string()).unwrap()
}

fn all(dataset: &Dataset) -> Vec<Sample> {
    (0..dataset.len()).map(|n| dataset.get(n).unwrap()).collect()
}

fn values(samples: &[Sample]) -> Vec<String> {
    // The pack adds what it knows of an image (its seek index, its size); the stored bytes and all else are the same.
    let shown = |s: &Sample| {
        let value = |(name, v): &(String, feedline::owned::OwnedValue)| match v {
            feedline::owned::OwnedValue::Image { bytes, .. } => format!("{name}={bytes:?}"),
            other => format!("{name}={other:?}"),
        };
        s.fields.iter().map(value).collect::<Vec<_>>().join(" ")
    };
    samples.iter().map(shown).collect()
}

fn wait(dataset: &Dataset) {
    let begun = Instant::now();
    while !dataset.copy_status().unwrap().complete {
        let status = dataset.copy_status().unwrap();
        assert!(status.failure.is_none(), "{status:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn samples_are_the_same_before_and_after() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 20);
    let cached = source.cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    assert_eq!((cached.fingerprint(), cached.schema()), (source.fingerprint(), source.schema()));
    assert_eq!(values(&all(&cached)), values(&all(&source)));
    wait(&cached);
    assert_eq!(values(&all(&cached)), values(&all(&source)));
    // From now on the source is not needed for samples.
    let expected = values(&all(&source));
    std::fs::remove_dir_all(data.path().join("a")).unwrap();
    assert_eq!(values(&all(&cached)), expected);
}

#[test]
fn the_second_opening_reads_the_pack_from_the_start() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 8);
    wait(&source.cached(cache.path(), ImageEncoding::Jpeg).unwrap());
    let again = source.cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    assert!(again.copy_status().unwrap().complete);
    let text = serde_json::to_string(again.spec().unwrap()).unwrap();
    let elsewhere = serde_json::from_str::<DatasetSpec>(&text).unwrap().open().unwrap();
    assert!(elsewhere.copy_status().unwrap().complete);
    assert_eq!(values(&all(&elsewhere)), values(&all(&source)));
}

#[test]
fn a_pack_of_another_user_is_not_trusted() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 8);
    let first = source.cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    wait(&first);
    let folder = first.copy_status().unwrap().folder;
    let part =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_file());
    // Only root can change a file's owner.
    if std::os::unix::fs::chown(part.unwrap(), Some(54321), None).is_err() {
        return;
    }
    let again = source.cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    assert!(!again.copy_status().unwrap().complete);
    assert_eq!(values(&all(&again)), values(&all(&source)));
    let begun = Instant::now();
    while again.copy_status().unwrap().failure.is_none() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let failure = again.copy_status().unwrap().failure.unwrap();
    assert!(failure.contains("another user") && failure.contains("cache folder of your own"), "{failure}");
}

#[test]
fn an_old_pack_is_not_used_for_changed_data() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = images(data.path(), 8).cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    wait(&first);
    let second = images(data.path(), 9).cached(cache.path(), ImageEncoding::Jpeg).unwrap();
    assert_ne!(first.copy_status().unwrap().folder, second.copy_status().unwrap().folder);
    wait(&second);
    assert_eq!(second.len(), 9);
}

#[test]
fn two_readers_share_one_pack() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 30);
    let both = [(), ()].map(|()| source.cached(cache.path(), ImageEncoding::Jpeg).unwrap());
    both.iter().for_each(wait);
    assert_eq!(both[0].copy_status().unwrap().folder, both[1].copy_status().unwrap().folder);
    assert_eq!(values(&all(&both[0])), values(&all(&both[1])));
}

#[test]
fn encodings_that_change_bytes_are_refused() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let message = images(data.path(), 2).cached(cache.path(), ImageEncoding::Rgb).unwrap_err().to_string();
    assert!(message.contains("rgb"), "{message}");
}
