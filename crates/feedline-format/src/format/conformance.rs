//! Tests of the contract in `mod.rs` on real files, run by every format.
//!
//! A format joins by implementing [`Subject`] in a test and calling [`check`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Format;
use crate::error::{Error, Result};
use crate::sample::{FieldSet, Kind, SampleBuffer, Value};

/// How the suite gets a data set of a format.
pub(crate) trait Subject: Sync {
    /// Writes images (name without extension, bytes) below `folder`, in this order.
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]);

    /// Opens what `write` wrote.
    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>>;

    /// What the format promises about damaged files.
    fn protection(&self) -> Protection;
}

/// How much damage the format detects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// None: files are samples, and their content is not checked.
    None,
    /// Structure is checked, sample bytes are not.
    Structure,
    /// Every byte is checked.
    Everything,
}

/// Runs the whole suite.
pub(crate) fn check(subject: &dyn Subject) {
    let images = some_images(7);
    let folder = tempfile::tempdir().unwrap();
    subject.write(folder.path(), &images);
    let format = subject.open(folder.path()).unwrap();
    values_equal_the_input(&*format, &images);
    random_access_equals_sequential(&*format, &images);
    many_threads_read(&format, &images);
    past_the_end_is_an_error(&*format);
    reading_leaves_no_trace(subject, folder.path(), &images);
    describes_itself(subject, folder.path(), &*format);
    what_the_index_knows_is_so(&*format);
    many_open_at_once(subject, folder.path(), &images);
    replaced_files_are_noticed(subject, &images);
    files_that_shrink_or_go_are_errors(subject, &images);
    one_sample(subject);
    no_sample(subject);
    huge_sample(subject);
    if subject.protection() != Protection::None {
        truncation_at_every_byte(subject);
        flipped_bits(subject);
        wrong_numbers(subject);
    }
}

/// Images whose names sort in this order, some not ASCII. Sizes are small and odd, never 0.
fn some_images(count: usize) -> Vec<(String, Vec<u8>)> {
    let names = ["a", "b c", "k1", "z", "é", "ü ß", "日本"];
    let bytes = |n: usize| (0..n * 37 + 5).map(|i| (i * 31 + n) as u8).collect();
    (0..count).map(|n| (format!("{}{n}", names[n % names.len()]), bytes(n))).collect()
}

fn image_field(format: &dyn Format) -> usize {
    format.schema().fields.iter().position(|f| f.kind == Kind::Image).expect("an image field")
}

fn read_image(format: &dyn Format, sample: u64) -> Result<Vec<u8>> {
    let field = image_field(format);
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(format.schema().fields.len()), &mut buffer)?;
    match buffer.value(field) {
        Value::Image { bytes, .. } => Ok(buffer.bytes(bytes).to_vec()),
        // Damage can turn a value into a null; callers that expect a value count this as a failure.
        Value::Missing => Err(Error::data(format.locate(sample), "the image is missing")),
        other => panic!("an image expected, not {other:?}"),
    }
}

fn values_equal_the_input(format: &dyn Format, images: &[(String, Vec<u8>)]) {
    assert_eq!(format.len(), images.len() as u64);
    for (sample, (_, bytes)) in images.iter().enumerate() {
        assert_eq!(&read_image(format, sample as u64).unwrap(), bytes);
    }
}

fn random_access_equals_sequential(format: &dyn Format, images: &[(String, Vec<u8>)]) {
    let field = image_field(format);
    let count = format.schema().fields.len();
    // One buffer for all samples, as in workers: no byte of an earlier sample may be left.
    let mut buffer = SampleBuffer::new();
    for step in 0..images.len() * 5 {
        let sample = step * 3 % images.len();
        let expected = &images[sample].1;
        format.read(sample as u64, &FieldSet::only(count, [field]), &mut buffer).unwrap();
        let Value::Image { bytes, index, .. } = buffer.value(field) else { panic!("an image expected") };
        assert_eq!((buffer.bytes(bytes), buffer.bytes(index).len()), (&expected[..], 0));
        let others = (0..count).filter(|f| *f != field);
        assert!(
            others.into_iter().all(|f| *buffer.value(f) == Value::Missing),
            "only the wanted fields are set"
        );
        if let Some(length) = format.byte_length(sample as u64, field) {
            let mut room = vec![0; length as usize];
            format.read_bytes(sample as u64, field, &mut room).unwrap();
            assert_eq!(&room, expected);
        }
    }
}

fn many_threads_read(format: &Arc<dyn Format>, images: &[(String, Vec<u8>)]) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for step in 0..200 {
                    let sample = (thread * 5 + step * 3) % images.len();
                    assert_eq!(read_image(&**format, sample as u64).unwrap(), images[sample].1);
                }
            });
        }
    });
}

fn past_the_end_is_an_error(format: &dyn Format) {
    for sample in [format.len(), u64::MAX] {
        assert!(read_image(format, sample).is_err());
        let _ = format.locate(sample);
        assert_eq!(format.byte_length(sample, image_field(format)), None);
    }
}

/// Every file below `folder` with its content.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

/// On read-only media nothing can be written, so nothing may be written anywhere else either.
fn reading_leaves_no_trace(subject: &dyn Subject, folder: &Path, images: &[(String, Vec<u8>)]) {
    let before = snapshot(folder);
    for path in before.keys() {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    values_equal_the_input(&*subject.open(folder).unwrap(), images);
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(snapshot(folder), before);
}

fn describes_itself(subject: &dyn Subject, folder: &Path, format: &dyn Format) {
    let again = subject.open(folder).unwrap();
    assert_eq!((again.fingerprint(), again.schema()), (format.fingerprint(), format.schema()));
    let place = format.locate(0);
    assert_eq!(place.sample, Some(0));
    assert!(place.shard.is_some(), "the file is named");
    let mut extents = Vec::new();
    for sample in 0..format.len() {
        format.extents(sample, &FieldSet::all(format.schema().fields.len()), &mut extents);
    }
    for extent in &extents {
        assert!(extent.object < format.object_count() && extent.range.start <= extent.range.end);
        let (source, name) = format.object(extent.object).expect("a counted object");
        assert!(source.open(&name).unwrap().size() >= extent.range.end);
    }
}

/// Integers and lengths from the index are the same as those from reading.
fn what_the_index_knows_is_so(format: &dyn Format) {
    let fields = &format.schema().fields;
    let mut buffer = SampleBuffer::new();
    for sample in 0..format.len() {
        format.read(sample, &FieldSet::all(fields.len()), &mut buffer).unwrap();
        for (field, spec) in fields.iter().enumerate() {
            if let Some(value) = format.int_value(sample, field) {
                assert_eq!(*buffer.value(field), Value::Int(value), "{}", spec.name);
            }
            let length = match buffer.value(field) {
                Value::Bytes(range) | Value::Image { bytes: range, .. } => range.len() as u64,
                _ => continue,
            };
            assert!(format.byte_length(sample, field).is_none_or(|known| known == length), "{}", spec.name);
        }
    }
}

fn many_open_at_once(subject: &dyn Subject, folder: &Path, images: &[(String, Vec<u8>)]) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| values_equal_the_input(&*subject.open(folder).unwrap(), images));
        }
    });
}

/// Files are truncated, then removed, while the data set is open: every read is right or an error.
fn files_that_shrink_or_go_are_errors(subject: &dyn Subject, images: &[(String, Vec<u8>)]) {
    let folder = tempfile::tempdir().unwrap();
    subject.write(folder.path(), images);
    let format = subject.open(folder.path()).unwrap();
    let files = snapshot(folder.path());
    let check = || {
        for (sample, (_, bytes)) in images.iter().enumerate() {
            match read_image(&*format, sample as u64) {
                Ok(found) => assert_eq!(&found, bytes),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    };
    for (path, content) in &files {
        fs::File::options().write(true).open(path).unwrap().set_len(content.len() as u64 / 2).unwrap();
    }
    check();
    for path in files.keys() {
        fs::remove_file(path).unwrap();
    }
    check();
}

/// The files are replaced by another data set of the same shape while the first is open: every read gives old bytes
/// or an error.
fn replaced_files_are_noticed(subject: &dyn Subject, images: &[(String, Vec<u8>)]) {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    subject.write(old.path(), images);
    let other: Vec<_> =
        images.iter().map(|(n, b)| (n.clone(), b.iter().map(|x| x ^ 255).collect())).collect();
    subject.write(new.path(), &other);
    let format = subject.open(old.path()).unwrap();
    let _ = read_image(&*format, 0).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    for path in snapshot(new.path()).keys() {
        fs::File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
        fs::rename(path, old.path().join(path.strip_prefix(new.path()).unwrap())).unwrap();
    }
    for (sample, (_, bytes)) in images.iter().enumerate() {
        if let Ok(found) = read_image(&*format, sample as u64) {
            assert_eq!(&found, bytes);
        }
    }
    let again = subject.open(old.path()).unwrap();
    values_equal_the_input(&*again, &other);
    assert_ne!(again.fingerprint(), format.fingerprint(), "other data, other fingerprint");
}

fn one_sample(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    let images = some_images(1);
    subject.write(folder.path(), &images);
    values_equal_the_input(&*subject.open(folder.path()).unwrap(), &images);
}

/// An empty data set opens as empty, or is refused with a message.
fn no_sample(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    subject.write(folder.path(), &[]);
    match subject.open(folder.path()) {
        Ok(format) => assert!(format.is_empty() && format.problems().is_empty()),
        Err(error) => assert!(error.to_string().len() > 20, "{error}"),
    }
}

fn huge_sample(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    let mut large = vec![0; (65 << 20) + 3];
    *large.last_mut().unwrap() = 9;
    let images = [("a".to_owned(), vec![1, 2, 3]), ("b".to_owned(), large), ("c".to_owned(), vec![4])];
    subject.write(folder.path(), &images);
    values_equal_the_input(&*subject.open(folder.path()).unwrap(), &images);
}

/// Writes a new file: ext4 waits for the disk when an old one is truncated and written.
fn rewrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn truncation_at_every_byte(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    let images = some_images(3);
    subject.write(folder.path(), &images);
    for (path, content) in snapshot(folder.path()) {
        for length in 0..content.len() {
            rewrite(&path, &content[..length]);
            right_or_refused(subject, folder.path(), &images, true);
        }
        rewrite(&path, &content);
    }
    values_equal_the_input(&*subject.open(folder.path()).unwrap(), &images);
}

fn flipped_bits(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    let images = some_images(3);
    subject.write(folder.path(), &images);
    let everything = subject.protection() == Protection::Everything;
    for (path, content) in snapshot(folder.path()) {
        let mut damaged = content.clone();
        for byte in 0..content.len() {
            // Flipping every bit of every byte takes minutes, so each byte gets one flip, at all bit positions in
            // turn.
            damaged[byte] ^= 1 << (byte % 8);
            rewrite(&path, &damaged);
            right_or_refused(subject, folder.path(), &images, everything);
            damaged[byte] = content[byte];
        }
        rewrite(&path, &content);
    }
}

/// Puts zero, huge and negative lengths and offsets everywhere: nothing panics, hangs or allocates memory for bytes
/// that do not exist.
fn wrong_numbers(subject: &dyn Subject) {
    let folder = tempfile::tempdir().unwrap();
    let images = some_images(2);
    subject.write(folder.path(), &images);
    for (path, content) in snapshot(folder.path()) {
        for at in (0..content.len()).step_by(4) {
            for number in [[0; 8], [0xff; 8], [0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0], *b"77777777"] {
                let mut damaged = content.clone();
                let end = content.len().min(at + 8);
                damaged[at..end].copy_from_slice(&number[..end - at]);
                rewrite(&path, &damaged);
                right_or_refused(subject, folder.path(), &images, false);
            }
        }
        rewrite(&path, &content);
    }
}

/// Every sample of a damaged file is right (if the format can tell) or an error; nothing panics.
fn right_or_refused(subject: &dyn Subject, folder: &Path, images: &[(String, Vec<u8>)], compare: bool) {
    let Ok(format) = subject.open(folder) else { return };
    // Without checksums, a flipped bit may turn the image into another kind of field.
    if format.schema().fields.iter().all(|f| f.kind != Kind::Image) {
        return;
    }
    for sample in 0..format.len().min(images.len() as u64) {
        match read_image(&*format, sample) {
            Ok(found) if compare => assert_eq!(found, images[sample as usize].1),
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
