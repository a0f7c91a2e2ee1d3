//! A conversion whose files are written by many processes, on one machine or on many. Each task writes every n-th
//! file and notes it in the working folder; the last step finds all notes and writes the index.

use std::path::Path;

use super::super::export::exporter;
use super::super::parts::{Progress, refuse_own_source};
use super::output::refuse_foreign_objects;
use super::{ConvertOptions, ConvertReport, PLAN, WORK, WriteMode, object_at, write_in};
use crate::error::{Error, Location, Result};
use crate::format::Format;
use crate::source::{Destination, Sink, open_sink, staging_folder};

/// One of several processes that share a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Number of this task, from 0.
    pub number: u64,
    /// Number of tasks.
    pub count: u64,
}

impl Task {
    /// A task; an error if `number` is not below `count`.
    pub fn new(number: u64, count: u64) -> Result<Self> {
        if number < count {
            return Ok(Task { number, count });
        }
        let reason = format!("there is no task {number} of {count}; they are numbered from 0");
        Err(Error::option("part", reason))
    }

    /// Whether this task writes part or file `number`.
    pub fn writes(&self, number: u64) -> bool {
        number % self.count == self.number
    }
}

/// Does one task's share, or the last step.
pub(crate) fn in_tasks(
    source: &dyn Format,
    destination: &Destination,
    options: &ConvertOptions,
    task: Option<Task>,
    progress: &dyn Progress,
) -> Result<ConvertReport> {
    let exporter = exporter(&options.to, options.shard_bytes)?;
    match destination {
        Destination::Local(path) => {
            refuse_own_source(source, path)?;
            let mode = WriteMode { sink: None, tasks: true, task };
            write_in(source, path, &*exporter, options.workers, progress, mode)
        }
        Destination::Remote { uri, storage } => {
            if exporter.single_file() {
                let reason =
                    format!("{} is one file, which tasks cannot share in a remote store", options.to);
                return Err(Error::option("part", reason).with_hint("convert it without tasks"));
            }
            let (folder, _) = object_at(uri, &options.to)?;
            let sink = open_sink(folder, storage)?;
            let own = task.map_or("commit".to_owned(), |t| format!("task-{}-of-{}", t.number, t.count));
            let staging = staging_folder(uri)?.join(own);
            let mode = WriteMode { sink: Some(&*sink), tasks: true, task };
            let report = write_in(source, &staging, &*exporter, options.workers, progress, mode)?;
            let _ = std::fs::remove_dir_all(&staging);
            Ok(report)
        }
    }
}

/// Whether another task has stored the plan; an error if it is a plan for other data.
pub(super) fn announced(sink: &dyn Sink, plan: &[u8]) -> Result<bool> {
    let there = || -> Result<bool> {
        let name = format!("{WORK}/{PLAN}");
        if !sink.exists(&name)? {
            return Ok(false);
        }
        let mut text = Vec::new();
        sink.read_whole(&name, &mut text)?;
        if text == plan {
            return Ok(true);
        }
        let reason = "an unfinished conversion of other data, or with other options, is here";
        Err(Error::data(Location::new(sink.uri()), reason).with_hint("choose another destination"))
    };
    if there()? {
        return Ok(true);
    }
    match refuse_foreign_objects(sink) {
        Ok(()) => Ok(false),
        // Another task may have been faster between the two requests.
        Err(error) => {
            if there()? {
                Ok(true)
            } else {
                Err(error)
            }
        }
    }
}

fn note_name(shard: usize) -> String {
    format!("{WORK}/{shard:06}.json")
}

pub(super) fn read_note(sink: &dyn Sink, shard: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    sink.read_whole(&note_name(shard), &mut text).ok()?;
    Some(text)
}

pub(super) fn send_note(sink: &dyn Sink, shard: usize, file: &Path) -> Result<()> {
    sink.put(&note_name(shard), file)
}

/// Removes the notes. The caller removes the plan, which must go last.
pub(super) fn remove_notes(sink: &dyn Sink) -> Result<()> {
    let entries = sink.list(&format!("{WORK}/"))?.entries;
    let mut notes = entries.iter().filter(|entry| !entry.name.ends_with(PLAN));
    notes.try_for_each(|entry| sink.remove(&entry.name))
}

pub(super) fn missing(folder: &Path, name: &str) -> Error {
    Error::data(Location::new(folder.display().to_string()), format!("{name} is not written yet"))
        .with_hint("run the task that writes it, then commit again")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::format::{ReadingOptions, convert, open};
    use crate::source::{LocalSource, Source, Target};

    fn images(root: &Path, count: usize) -> Arc<dyn Format> {
        for n in 0..count {
            fs::write(root.join(format!("{n:03}.jpg")), [n as u8; 100]).unwrap();
        }
        open(&Target::Folder(Arc::new(LocalSource::new(root))), "folder", &ReadingOptions::default()).unwrap()
    }

    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut entries = LocalSource::new(folder).list("").unwrap().entries;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.into_iter().map(|e| (e.name.clone(), fs::read(folder.join(&e.name)).unwrap())).collect()
    }

    #[test]
    fn tasks_in_any_order_or_repeated_write_the_same_files() {
        let (data, alone, shared) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = images(data.path(), 40);
        let options = ConvertOptions { to: "webdataset".to_owned(), shard_bytes: Some(400), workers: 1 };
        convert(&*source, alone.path(), &options, &()).unwrap();
        let there = Destination::Local(shared.path().to_path_buf());
        let task = |number| in_tasks(&*source, &there, &options, Some(Task { number, count: 3 }), &());
        task(2).unwrap();
        let message = in_tasks(&*source, &there, &options, None, &()).unwrap_err().to_string();
        assert!(message.contains("is not written yet"), "{message}");
        task(0).unwrap();
        assert!(task(2).unwrap().found > 0, "what is there is not written again");
        task(1).unwrap();
        in_tasks(&*source, &there, &options, None, &()).unwrap();
        assert_eq!(files(shared.path()), files(alone.path()));
        // A late duplicate of a task finds nothing to do.
        task(1).unwrap();
        assert_eq!(files(shared.path()), files(alone.path()));
    }
}
