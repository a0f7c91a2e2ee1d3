//! A note that a finished conversion leaves, so that the same call again has nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::export::Shard;
use super::super::whole_file::{failed, write_file};
use super::output::OutputFolders;
use super::{ConvertReport, DONE, Plan, RESULT, WORK};
use crate::error::Result;
use crate::source::{LocalSource, Sink, Source};

/// What a finished conversion was made from, and the files that it wrote.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finished {
    plan: Plan,
    /// Names and lengths of the files beside this one.
    files: Vec<(String, u64)>,
    samples: u64,
    shards: u64,
    bytes: u64,
}

/// Path of a finished conversion's note: in the folder, or beside the file.
pub(super) fn done_path(destination: &Path, single_file: bool) -> PathBuf {
    if !single_file {
        return destination.join(DONE);
    }
    let name = destination.file_name().unwrap_or_default().display().to_string();
    destination.with_file_name(format!(".{name}{DONE}"))
}

impl Finished {
    /// The report of the same conversion, if all of its files still exist.
    pub(super) fn here(path: &Path, plan: &Plan) -> Option<ConvertReport> {
        let folder = path.parent()?;
        let length = |name: &str| Some(fs::metadata(folder.join(name)).ok()?.len());
        Finished::check(&fs::read(path).ok()?, plan, length)
    }

    /// The same for a remote store.
    pub(super) fn there(sink: &dyn Sink, plan: &Plan) -> Option<ConvertReport> {
        let object = sink.open(DONE).ok()?;
        let text = object.hold(0..object.size()).ok()?;
        Finished::check(&text, plan, |name| Some(sink.open(name).ok()?.size()))
    }

    fn check(text: &[u8], plan: &Plan, length: impl Fn(&str) -> Option<u64>) -> Option<ConvertReport> {
        let found: Finished = serde_json::from_slice(text).ok()?;
        let whole = |(name, bytes): &(String, u64)| length(name) == Some(*bytes);
        let same = found.plan == *plan && found.files.iter().all(whole);
        let Finished { samples, shards, bytes, .. } = found;
        same.then_some(ConvertReport { samples, shards, found: shards, bytes })
    }

    pub(super) fn note(
        output: &OutputFolders<'_>,
        destination: &Path,
        plan: Plan,
        written: &[Shard],
        report: &ConvertReport,
        path: &Path,
    ) -> Result<()> {
        let files = if output.single_file {
            let result = output.folder.join(RESULT);
            let bytes = fs::metadata(&result).map_err(|e| failed("reading", &result, e))?.len();
            vec![(destination.file_name().unwrap_or_default().display().to_string(), bytes)]
        } else {
            // Shards may have been uploaded already; the files that the exporter wrote last are still here.
            let mut files: BTreeMap<String, u64> =
                written.iter().map(|shard| (shard.name.clone(), shard.bytes)).collect();
            let here = LocalSource::new(&output.folder).list("")?.entries;
            let ours = here.into_iter().filter(|e| !e.name.starts_with(WORK) && e.name != DONE);
            files.extend(ours.map(|entry| (entry.name, entry.size)));
            files.into_iter().collect()
        };
        let ConvertReport { samples, shards, bytes, .. } = *report;
        let finished = Finished { plan, files, samples, shards, bytes };
        write_file(path, &serde_json::to_vec(&finished).expect("a note is plain data"))
    }
}
