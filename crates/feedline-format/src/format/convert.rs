//! [`convert`]: writes a data set as another system's files. This file has what all systems share; see [`Exporter`]
//! for the rest.
//!
//! Which samples go into which shard is decided beforehand. Threads write the shards: each is written under a
//! temporary name, synced, renamed and then noted in a working folder. The index comes last, then the working folder
//! is removed. If the process is killed at any moment, the same call writes the missing shards, to the same bytes.

mod finished;
mod output;
mod shards;
mod tasks;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use self::finished::{Finished, done_path};
use self::output::OutputFolders;
use self::shards::write_shards;
pub use self::tasks::Task;
pub(super) use self::tasks::in_tasks;
use super::Format;
use super::export::{Exporter, export_names, exporter};
use super::parts::{Progress, SampleSizes, refuse_own_source};
use crate::error::{Error, Location, Result};
use crate::source::{Sink, Source};

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
struct WriteMode<'a> {
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
    let mode = WriteMode { sink, tasks: false, task: None };
    write_in(source, destination, exporter, workers, progress, mode)
}

fn write_in(
    source: &dyn Format,
    destination: &Path,
    exporter: &dyn Exporter,
    workers: usize,
    progress: &dyn Progress,
    mode: WriteMode<'_>,
) -> Result<ConvertReport> {
    exporter.check(source.schema())?;
    let sink = mode.sink;
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
    let output = OutputFolders::prepare(destination, &plan, exporter.single_file(), mode)?;
    let shards = write_shards(&output, &plan, source, exporter, workers, progress)?;
    if mode.task.is_some() {
        return Ok(shards.report());
    }
    exporter.finish(&output.folder, source.schema(), &shards.done)?;
    let report = ConvertReport { samples: source.len(), ..shards.report() };
    // A single remote object gets no note beside it.
    if sink.is_none() || !output.single_file {
        Finished::note(&output, destination, plan, &shards.done, &report, &done)?;
    }
    output.complete(destination)?;
    Ok(report)
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
mod tests;
