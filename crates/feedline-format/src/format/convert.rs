//! [`convert`]: writes a data set as another system's files. This file has what all systems share; see [`Exporter`]
//! for the rest.
//!
//! Which samples go into which shard is decided beforehand. Threads write the shards: each is written under a
//! temporary name, synced, renamed and then noted in a working folder. The index comes last, then the working folder
//! is removed. If the process is killed at any moment, the same call writes the missing shards, to the same bytes.

mod finished;
mod tasks;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use self::finished::{Finished, done_path};
pub use self::tasks::Task;
pub(super) use self::tasks::in_tasks;
use self::tasks::{read_note, send_note};
use super::Format;
use super::export::{Exporter, Samples, Shard, export_names, exporter};
use super::parts::{Meter, Progress, SampleSizes, refuse_own_source, run_parts};
use super::whole_file::{TEMPORARY_SUFFIX, Temporary, failed, put_in_place, temporary_path, write_file};
use crate::error::{Error, Location, Result};
use crate::source::{LocalSource, LockedFile, Sink, Source, private};

/// Folder inside the destination with the state of an unfinished conversion.
pub(super) const WORK: &str = ".feedline-convert";
const PLAN: &str = "plan.json";
/// File that a finished conversion leaves: what it was made from. Readers ignore a file that begins with a dot.
const DONE: &str = ".feedline-done.json";
/// Name of a single-file exporter's result in the working folder.
pub(super) const RESULT: &str = "result";

/// How to convert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConvertOptions {
    /// The system to write for: one of [`convert_targets`].
    pub to: String,
    /// Approximate size of a shard; `None` is the system's own default.
    pub shard_bytes: Option<u64>,
    /// Number of threads; 0 means all cores this process may use.
    pub workers: usize,
}

impl Default for ConvertOptions {
    fn default() -> Self {
        ConvertOptions { to: "webdataset".to_owned(), shard_bytes: None, workers: 0 }
    }
}

/// Names of the systems that can be written.
pub fn convert_targets() -> Vec<&'static str> {
    export_names()
}

/// Summary of what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertReport {
    /// Number of samples.
    pub samples: u64,
    /// Number of shards.
    pub shards: u64,
    /// Shards that an earlier, interrupted run had finished.
    pub found: u64,
    /// Bytes of all shards.
    pub bytes: u64,
}

/// The prefix to write below and, for systems with one file per data set, the object's name.
pub(super) fn object_at<'a>(uri: &'a str, to: &str) -> Result<(&'a str, &'a str)> {
    if !exporter(to, None)?.single_file() {
        return Ok((uri, ""));
    }
    let parts = uri.rsplit_once('/').filter(|(folder, name)| !folder.ends_with('/') && !name.is_empty());
    parts.ok_or_else(|| Error::option("destination", format!("{uri} names no object to write {to} to")))
}

/// Everything that decides the bytes. Two runs with the same plan write the same files.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    source: String,
    to: String,
    settings: String,
    /// First sample of each shard, and the number of samples.
    starts: Vec<u64>,
}

/// Writes `source` at `destination` in the format `options.to`. The destination is a folder that is new, empty or
/// left by an interrupted run; for systems with one file per data set it is that file.
pub fn convert(
    source: &dyn Format,
    destination: impl AsRef<Path>,
    options: &ConvertOptions,
    progress: &dyn Progress,
) -> Result<ConvertReport> {
    let exporter = exporter(&options.to, options.shard_bytes)?;
    refuse_own_source(source, destination.as_ref())?;
    write(source, destination.as_ref(), &*exporter, options.workers, progress, None)
}

/// How the files are written.
#[derive(Debug, Clone, Copy)]
struct Way<'a> {
    /// Where finished files are uploaded.
    sink: Option<&'a dyn Sink>,
    /// Whether other processes write other files of the same conversion.
    tasks: bool,
    /// This process's task. Without one, the conversion is only completed.
    task: Option<Task>,
}

/// The same for a remote store, by way of the local folder `staging`: each file is uploaded and removed as soon as it
/// is complete, the index last. A system with one file per data set stores it as object `name`.
pub(crate) fn convert_and_send(
    source: &dyn Format,
    sink: &dyn Sink,
    name: &str,
    staging: &Path,
    options: &ConvertOptions,
    progress: &dyn Progress,
) -> Result<ConvertReport> {
    let exporter = exporter(&options.to, options.shard_bytes)?;
    let destination = if exporter.single_file() { staging.join(name) } else { staging.to_path_buf() };
    let report = write(source, &destination, &*exporter, options.workers, progress, Some(sink))?;
    let _ = fs::remove_dir_all(staging);
    Ok(report)
}

fn write(
    source: &dyn Format,
    destination: &Path,
    exporter: &dyn Exporter,
    workers: usize,
    progress: &dyn Progress,
    sink: Option<&dyn Sink>,
) -> Result<ConvertReport> {
    let way = Way { sink, tasks: false, task: None };
    write_in(source, destination, exporter, workers, progress, way)
}

fn write_in(
    source: &dyn Format,
    destination: &Path,
    exporter: &dyn Exporter,
    workers: usize,
    progress: &dyn Progress,
    way: Way<'_>,
) -> Result<ConvertReport> {
    exporter.check(source.schema())?;
    let sink = way.sink;
    let plan = Plan {
        source: source.fingerprint().to_hex(),
        to: exporter.name().to_owned(),
        settings: exporter.settings(),
        starts: SampleSizes::new(source, 1.0).cut(exporter.shard_bytes().max(1), u64::from(u32::MAX)),
    };
    let done = done_path(destination, exporter.single_file());
    let finished = match sink {
        None => Finished::here(&done, &plan),
        Some(sink) => Finished::there(sink, &plan),
    };
    if let Some(report) = finished {
        return Ok(report);
    }
    let place = Place::prepare(destination, &plan, exporter.single_file(), way)?;
    let shards = write_shards(&place, &plan, source, exporter, workers, progress)?;
    if way.task.is_some() {
        return Ok(shards.report());
    }
    exporter.finish(&place.folder, source.schema(), &shards.done)?;
    let report = ConvertReport { samples: source.len(), ..shards.report() };
    // A single remote object gets no note beside it.
    if sink.is_none() || !place.single_file {
        Finished::note(&place, destination, plan, &shards.done, &report, &done)?;
    }
    place.complete(destination)?;
    Ok(report)
}

/// Where shards and notes are written.
#[derive(Debug)]
struct Place<'a> {
    /// Folder of the shards and the index.
    folder: PathBuf,
    /// Folder of the plan and of one note per finished shard.
    work: PathBuf,
    single_file: bool,
    way: Way<'a>,
    _lock: LockedFile,
}

impl<'a> Place<'a> {
    fn prepare(destination: &Path, plan: &Plan, single_file: bool, way: Way<'a>) -> Result<Self> {
        let sink = way.sink;
        let (folder, work) = if single_file {
            let name = destination.file_name().unwrap_or_default().display().to_string();
            let work = destination.with_file_name(format!(".{name}{WORK}"));
            refuse_existing(destination, &name, sink)?;
            (work.clone(), work)
        } else {
            (destination.to_path_buf(), destination.join(WORK))
        };
        // Another task may have written the plan between the two checks.
        let begun = || way.tasks && work.join(PLAN).exists();
        if !work.join(PLAN).exists() && folder != work {
            refuse_foreign(&folder).or_else(|e| if begun() { Ok(()) } else { Err(e) })?;
        }
        // Files that are to be uploaded are private.
        let make = |folder: &Path| match sink {
            Some(_) => private::make_folder(folder),
            None => fs::create_dir_all(folder),
        };
        make(&work).map_err(|e| failed("creating", &work, e))?;
        let lock = lock(&work, way.tasks && sink.is_none())?;
        let text = serde_json::to_vec(plan).expect("a plan is plain data");
        match fs::read(work.join(PLAN)) {
            Ok(earlier) if earlier == text => {}
            Ok(_) => {
                let reason = "an unfinished conversion of other data, or with other options, is here";
                return Err(Error::data(Location::new(destination.display().to_string()), reason)
                    .with_hint("finish it with the options it was begun with, or remove the folder"));
            }
            Err(_) => {
                let remote = sink.filter(|_| !single_file);
                let announced = match remote {
                    Some(sink) if way.tasks => tasks::announced(sink, &text)?,
                    Some(sink) => refuse_foreign_objects(sink).map(|()| false)?,
                    None => true,
                };
                write_file(&work.join(PLAN), &text)?;
                // Remote readers must see that the conversion is not finished.
                if let (Some(sink), false) = (remote, announced) {
                    sink.put(&format!("{WORK}/{PLAN}"), &work.join(PLAN))?;
                }
            }
        }
        // Other tasks may still be writing; the last step cleans up.
        if way.task.is_none() {
            clean(&folder)?;
        }
        Ok(Place { folder, work, single_file, way, _lock: lock })
    }

    /// The sink, if shards are uploaded as objects of their own.
    fn shard_sink(&self) -> Option<&'a dyn Sink> {
        self.way.sink.filter(|_| !self.single_file)
    }

    fn note(&self, shard: usize) -> PathBuf {
        self.work.join(format!("{shard:06}.json"))
    }

    /// An earlier run's note of a shard, if the file is still the same.
    fn found(&self, shard: usize) -> Option<Shard> {
        let text = match self.shard_sink().filter(|_| self.way.tasks) {
            Some(sink) => read_note(sink, shard)?,
            None => fs::read(self.note(shard)).ok()?,
        };
        let noted: Shard = serde_json::from_slice(&text).ok()?;
        let bytes = match self.shard_sink() {
            Some(sink) => sink.open(&noted.name).ok()?.size(),
            None => fs::metadata(self.folder.join(&noted.name)).ok()?.len(),
        };
        (bytes == noted.bytes).then_some(noted)
    }

    /// Uploads a finished file, if there is a sink.
    fn send(&self, name: &str) -> Result<()> {
        let Some(sink) = self.shard_sink() else { return Ok(()) };
        let file = self.folder.join(name);
        sink.put(name, &file)?;
        fs::remove_file(&file).map_err(|e| failed("removing", &file, e))
    }

    /// Uploads the index files in the order in which the exporter wrote them.
    fn send_index(&self) -> Result<()> {
        let mut files = Vec::new();
        for entry in LocalSource::new(&self.folder).list("")?.entries {
            if !entry.name.starts_with(WORK) {
                files.push((entry.version, entry.name));
            }
        }
        files.sort();
        files.iter().try_for_each(|(_, name)| self.send(name))
    }

    /// Removes the working folder: everything is written.
    fn complete(self, destination: &Path) -> Result<()> {
        let result = self.folder.join(RESULT);
        match self.way.sink {
            Some(sink) if self.single_file => {
                sink.put(&destination.file_name().unwrap_or_default().display().to_string(), &result)?;
            }
            Some(sink) => {
                self.send_index()?;
                if self.way.tasks {
                    tasks::remove_notes(sink)?;
                }
                sink.remove(&format!("{WORK}/{PLAN}"))?;
            }
            None if self.single_file => {
                fs::rename(&result, destination).map_err(|e| failed("renaming", &result, e))?;
            }
            None => {}
        }
        fs::remove_dir_all(&self.work).map_err(|e| failed("removing", &self.work, e))
    }
}

fn refuse_existing(destination: &Path, name: &str, sink: Option<&dyn Sink>) -> Result<()> {
    if !sink.map_or_else(|| Ok(destination.exists()), |sink| sink.exists(name))? {
        return Ok(());
    }
    let place = Location::new(destination.display().to_string());
    Err(Error::data(place, "the file exists").with_hint("remove it, or choose another name"))
}

/// The same check for a remote store.
fn refuse_foreign_objects(sink: &dyn Sink) -> Result<()> {
    let names = match sink.children("") {
        Err(error) if error.is_not_found() => return Ok(()),
        names => names?,
    };
    let Some(name) = names.into_iter().next() else { return Ok(()) };
    let reason = format!("the place is not empty: it holds '{name}'");
    Err(Error::data(Location::new(sink.uri()), reason).with_hint("convert to a new or empty prefix"))
}

/// Removes temporary files of a killed run. When that run began, the folder contained nothing else.
fn clean(folder: &Path) -> Result<()> {
    for entry in LocalSource::new(folder).list("")?.entries {
        let base = entry.name.rsplit('/').next().unwrap_or(&entry.name);
        if base.starts_with('.') && base.ends_with(TEMPORARY_SUFFIX) {
            let path = folder.join(&entry.name);
            fs::remove_file(&path).map_err(|e| failed("removing", &path, e))?;
        }
    }
    Ok(())
}

/// Refuses a folder with other files: they are never touched, and a mixture would be read as one data set.
fn refuse_foreign(folder: &Path) -> Result<()> {
    let Ok(mut entries) = fs::read_dir(folder) else { return Ok(()) };
    if folder.join(DONE).exists() {
        let reason = "a finished conversion of other data, or with other options, is here";
        return Err(Error::data(Location::new(folder.display().to_string()), reason)
            .with_hint("convert into a new or empty folder, or remove this one"));
    }
    let foreign = entries.find_map(|e| Some(e.ok()?.file_name()).filter(|n| n != WORK));
    let Some(name) = foreign else { return Ok(()) };
    let reason = format!("the folder is not empty: it holds '{}'", name.display());
    Err(Error::data(Location::new(folder.display().to_string()), reason)
        .with_hint("convert into a new or empty folder"))
}

fn lock(work: &Path, shared: bool) -> Result<LockedFile> {
    let folder = File::open(work).map_err(|e| failed("opening", work, e))?;
    match if shared { LockedFile::try_share(folder) } else { LockedFile::try_lock(folder) } {
        Err((_, rustix::io::Errno::WOULDBLOCK)) => {
            let place = Location::new(work.display().to_string());
            Err(Error::data(place, "another process is converting here"))
        }
        // Some network file systems cannot lock. Writing there is still safe, only wasteful if done twice.
        Err((folder, _)) => Ok(LockedFile::new(folder)),
        Ok(folder) => Ok(folder),
    }
}

struct Written {
    done: Vec<Shard>,
    found: u64,
}

impl Written {
    fn report(&self) -> ConvertReport {
        ConvertReport {
            samples: self.done.iter().map(|s| s.samples.end - s.samples.start).sum(),
            shards: self.done.len() as u64,
            found: self.found,
            bytes: self.done.iter().map(|s| s.bytes).sum(),
        }
    }
}

fn write_shards(
    place: &Place<'_>,
    plan: &Plan,
    source: &dyn Format,
    exporter: &dyn Exporter,
    workers: usize,
    progress: &dyn Progress,
) -> Result<Written> {
    let count = plan.starts.len() - 1;
    let meter = Meter::new(progress, source.len());
    let done: Mutex<Vec<Option<Shard>>> = Mutex::new(vec![None; count]);
    let found = AtomicU64::new(0);
    run_parts(count as u64, workers, |number| {
        let number = number as usize;
        if place.way.task.is_some_and(|task| !task.writes(number as u64)) {
            return Ok(());
        }
        let shard = if let Some(shard) = place.found(number) {
            found.fetch_add(1, Ordering::Relaxed);
            meter.add(shard.samples.end - shard.samples.start, shard.bytes)?;
            shard
        } else if place.way.tasks && place.way.task.is_none() {
            return Err(tasks::missing(&place.folder, &exporter.shard_name(number, count)));
        } else {
            write_shard(place, plan, source, exporter, number, &meter)?
        };
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[number] = Some(shard);
        Ok(())
    })?;
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Written { done: done.into_iter().flatten().collect(), found: found.into_inner() })
}

fn write_shard(
    place: &Place<'_>,
    plan: &Plan,
    source: &dyn Format,
    exporter: &dyn Exporter,
    number: usize,
    meter: &Meter<'_>,
) -> Result<Shard> {
    let range = plan.starts[number]..plan.starts[number + 1];
    let name = exporter.shard_name(number, plan.starts.len() - 1);
    let path = place.folder.join(&name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| failed("creating", folder, e))?;
    }
    let temporary = Temporary(temporary_path(&path));
    let file = File::create(&temporary.0).map_err(|e| failed("creating", &path, e))?;
    let mut out = Counted { inner: BufWriter::with_capacity(1 << 20, file), bytes: 0 };
    let add = |bytes| meter.add(1, bytes);
    let mut samples = Samples::new(source, range.clone(), &add);
    let note = exporter.write_shard(&mut samples, &mut out).map_err(|e| at_path(e, &path))?;
    let file = out.inner.into_inner().map_err(|e| failed("writing", &path, e.into_error()))?;
    put_in_place(&file, temporary, &path)?;
    place.send(&name)?;
    let shard = Shard { name, bytes: out.bytes, samples: range, note };
    write_file(&place.note(number), &serde_json::to_vec(&shard).expect("a note is plain data"))?;
    if let (Some(sink), true) = (place.shard_sink(), place.way.tasks) {
        send_note(sink, number, &place.note(number))?;
    }
    Ok(shard)
}

/// Adds the file to a failed write: an exporter does not know its path.
fn at_path(error: Error, path: &Path) -> Error {
    match error {
        Error::Storage { action: "writing", location, source } if location.uri.is_empty() => {
            failed("writing", path, std::io::Error::new(source.kind(), source.to_string()))
        }
        other => other,
    }
}

/// Counts the bytes written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

/// Refuses a folder with an unfinished conversion, so that some of the shards are never taken for a data set.
pub(super) fn refuse_unfinished(source: &dyn Source) -> Result<()> {
    // If the source cannot answer, the format gives a better error later.
    if !source.exists(&format!("{WORK}/{PLAN}")).unwrap_or(false) {
        return Ok(());
    }
    Err(Error::data(Location::new(source.uri()), "a conversion into this folder was not finished")
        .with_hint("run the same convert command again to complete it"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use super::*;
    use crate::format::ReadingOptions;
    use crate::format::export::unwritten;
    use crate::sample::{Schema, Value};
    use crate::source::{FolderSink, Target};

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
        let (data, local, far, staging) = (
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
            let sink = FolderSink::new(far.path());
            write(&*source, &staging, &lines, 1, &StopAfter(stop), Some(&sink)).unwrap_err();
            assert!(refuse_unfinished(&sink).is_err(), "readers see that it is not finished");
        }
        let sink = FolderSink::new(far.path());
        let report = write(&*source, &staging, &lines, 2, &(), Some(&sink)).unwrap();
        assert!(report.found > 2, "{report:?}");
        assert_eq!(files(far.path()), files(local.path()));
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
        let (data, far, staging) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = images(data.path(), 9);
        let lines = Lines { single_file: true };
        let sink = FolderSink::new(far.path());
        let destination = staging.path().join("all.txt");
        write(&*source, &destination, &lines, 2, &StopAfter(5), Some(&sink)).unwrap_err();
        assert_eq!(files(far.path()).len(), 0);
        write(&*source, &destination, &lines, 2, &(), Some(&sink)).unwrap();
        assert_eq!(files(far.path()).into_keys().collect::<Vec<_>>(), [PathBuf::from("all.txt")]);
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
}
