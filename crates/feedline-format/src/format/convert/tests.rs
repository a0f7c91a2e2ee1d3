use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::format::ReadingOptions;
use crate::format::export::{Samples, Shard, unwritten};
use crate::format::whole_file::write_file;
use crate::sample::{Schema, Value};
use crate::source::{FolderSink, LocalSource, Target};

/// Writes the paths of an image folder, one per line.
#[derive(Debug)]
struct Lines {
    single_file: bool,
}

impl Exporter for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn check(&self, _: &Schema) -> Result<()> {
        Ok(())
    }

    fn shard_bytes(&self) -> u64 {
        40
    }

    fn shard_name(&self, number: usize, count: usize) -> String {
        format!("deep/{number}-of-{count}.txt")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<serde_json::Value> {
        let path = samples.schema().position("path").expect("folders have paths");
        let mut lines = 0;
        while let Some((_, sample)) = samples.next()? {
            let Value::Bytes(text) = sample.value(path) else { panic!("a path expected") };
            out.write_all(sample.bytes(text)).and_then(|()| out.write_all(b"\n")).map_err(unwritten)?;
            lines += 1;
        }
        Ok(lines.into())
    }

    fn finish(&self, folder: &Path, _: &Schema, shards: &[Shard]) -> Result<()> {
        let total: u64 = shards.iter().map(|s| s.note.as_u64().unwrap()).sum();
        if !self.single_file {
            return write_file(&folder.join("index"), total.to_string().as_bytes());
        }
        let all = shards.iter().flat_map(|s| fs::read(folder.join(&s.name)).unwrap()).collect::<Vec<_>>();
        write_file(&folder.join(RESULT), &all)
    }

    fn single_file(&self) -> bool {
        self.single_file
    }
}

fn images(root: &Path, count: usize) -> Arc<dyn Format> {
    fs::create_dir_all(root.join("class")).unwrap();
    for n in 0..count {
        fs::write(root.join(format!("class/{n:03}.jpg")), [n as u8; 10]).unwrap();
    }
    let target = Target::Folder(Arc::new(LocalSource::new(root)));
    crate::format::open(&target, "folder", &ReadingOptions::default()).unwrap()
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let list = LocalSource::new(folder);
    let names = Source::list(&list, "").unwrap().entries;
    names.into_iter().map(|e| (PathBuf::from(&e.name), fs::read(folder.join(&e.name)).unwrap())).collect()
}

/// Stops after some samples, like a crash.
struct StopAfter(u64);

impl Progress for StopAfter {
    fn update(&self, samples: u64, _: u64, _: u64) -> ControlFlow<()> {
        if samples > self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn a_conversion_interrupted_anywhere_resumes_to_the_same_bytes() {
    let (data, whole, cut) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 23);
    let lines = Lines { single_file: false };
    let report = write(&*source, whole.path(), &lines, 3, &(), None).unwrap();
    assert_eq!((report.samples, report.found), (23, 0));
    assert!(report.shards > 3);
    for stop in 1..23 {
        let destination = cut.path().join(stop.to_string());
        write(&*source, &destination, &lines, 1, &StopAfter(stop), None).unwrap_err();
        let target = Target::Folder(Arc::new(LocalSource::new(&destination)));
        let message = crate::format::open(&target, "auto", &ReadingOptions::default()).unwrap_err();
        assert!(message.to_string().contains("not finished"), "{message}");
        let report = write(&*source, &destination, &lines, 2, &(), None).unwrap();
        assert!(report.found < report.shards);
        assert_eq!(files(&destination), files(whole.path()));
    }
}

#[test]
fn damaged_or_missing_shards_of_an_earlier_run_are_written_again() {
    let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 9);
    let lines = Lines { single_file: false };
    let destination = out.path().join("x");
    write(&*source, &destination, &lines, 1, &StopAfter(7), None).unwrap_err();
    let first = files(&destination).into_keys().find(|n| n.starts_with("deep")).unwrap();
    fs::write(destination.join(first), b"short").unwrap();
    fs::write(destination.join("deep/.0-of-9.txt.123-4.tmp"), b"left by a killed run").unwrap();
    write(&*source, &destination, &lines, 1, &(), None).unwrap();
    write(&*source, &out.path().join("y"), &lines, 1, &(), None).unwrap();
    assert_eq!(files(&destination), files(&out.path().join("y")));
}

#[test]
fn a_single_file_appears_only_when_complete() {
    let (data, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 9);
    let lines = Lines { single_file: true };
    let destination = out.path().join("all.txt");
    write(&*source, &destination, &lines, 2, &StopAfter(5), None).unwrap_err();
    assert!(!destination.exists());
    write(&*source, &destination, &lines, 2, &(), None).unwrap();
    assert_eq!(fs::read_to_string(&destination).unwrap().lines().count(), 9);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 2, "nothing but the note is left behind");
    let again = write(&*source, &destination, &lines, 2, &(), None).unwrap();
    assert_eq!((again.found, again.samples), (again.shards, 9), "there is nothing to do");
    let more = tempfile::tempdir().unwrap();
    let other = images(more.path(), 3);
    let message = write(&*other, &destination, &lines, 2, &(), None).unwrap_err().to_string();
    assert!(message.contains("exists"), "{message}");
}

#[test]
fn remote_destinations_get_the_same_files_and_no_local_copy_remains() {
    let (data, local, remote, staging) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let source = images(data.path(), 23);
    let lines = Lines { single_file: false };
    write(&*source, local.path(), &lines, 1, &(), None).unwrap();
    let staging = staging.path().join("x");
    for stop in [3, 9, 15] {
        let sink = FolderSink::new(remote.path());
        write(&*source, &staging, &lines, 1, &StopAfter(stop), Some(&sink)).unwrap_err();
        assert!(refuse_unfinished(&sink).is_err(), "readers see that it is not finished");
    }
    let sink = FolderSink::new(remote.path());
    let report = write(&*source, &staging, &lines, 2, &(), Some(&sink)).unwrap();
    assert!(report.found > 2, "{report:?}");
    assert_eq!(files(remote.path()), files(local.path()));
    assert_eq!(files(&staging).len(), 0);
    let again = write(&*source, &staging, &lines, 1, &(), Some(&sink)).unwrap();
    assert_eq!(again.found, again.shards, "there is nothing to do");
    let more = tempfile::tempdir().unwrap();
    let other = images(more.path(), 3);
    let message = write(&*other, &staging, &lines, 1, &(), Some(&sink)).unwrap_err().to_string();
    assert!(message.contains("not empty"), "{message}");
}

#[test]
fn a_single_file_is_uploaded_complete() {
    let (data, remote, staging) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = images(data.path(), 9);
    let lines = Lines { single_file: true };
    let sink = FolderSink::new(remote.path());
    let destination = staging.path().join("all.txt");
    write(&*source, &destination, &lines, 2, &StopAfter(5), Some(&sink)).unwrap_err();
    assert_eq!(files(remote.path()).len(), 0);
    write(&*source, &destination, &lines, 2, &(), Some(&sink)).unwrap();
    assert_eq!(files(remote.path()).into_keys().collect::<Vec<_>>(), [PathBuf::from("all.txt")]);
}

#[test]
fn other_folders_and_other_plans_are_not_touched() {
    let (data, more, out) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines = Lines { single_file: false };
    let source = images(data.path(), 9);
    fs::write(out.path().join("mine.txt"), b"").unwrap();
    let message = write(&*source, out.path(), &lines, 1, &(), None).unwrap_err().to_string();
    assert!(message.contains("mine.txt"), "{message}");
    let destination = out.path().join("new");
    write(&*source, &destination, &lines, 1, &StopAfter(5), None).unwrap_err();
    let other = images(more.path(), 11);
    let message = write(&*other, &destination, &lines, 1, &(), None).unwrap_err().to_string();
    assert!(message.contains("unfinished conversion"), "{message}");
}

#[test]
fn unknown_systems_are_named() {
    let data = tempfile::tempdir().unwrap();
    let source = images(data.path(), 1);
    let options = ConvertOptions { to: "zip".to_owned(), ..ConvertOptions::default() };
    let message = convert(&*source, data.path().join("x"), &options, &()).unwrap_err().to_string();
    assert!(message.contains("'zip'"), "{message}");
}
