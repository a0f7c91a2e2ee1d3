//! The folder a pack is written into: which files it contains, whether we may write there, and what a crash left
//! behind.

use std::fs::{self, File};
use std::path::Path;

use super::manifest::{MANIFEST_NAME, Manifest};
use super::plan::PackPlan;
use super::reader::read_manifest;
use crate::error::{DataCause, Error, Location, Result};
use crate::format::whole_file::{TEMPORARY_SUFFIX, failed, sync_folder, write_file};
use crate::source::{LocalSource, LockedFile};

/// Name of the plan of an unfinished pack.
pub(super) const PLAN_NAME: &str = "feedline-plan.json";

/// State of the destination, once we may write there.
#[derive(Debug)]
pub(super) enum DestinationState {
    /// Exactly the requested pack, complete.
    Complete(Box<Manifest>),
    /// Ready for parts. While this lives, the folder is locked against other writers on this machine.
    Open(FolderLock),
}

/// Holds the folder's lock.
#[derive(Debug)]
pub(super) struct FolderLock {
    _folder: LockedFile,
}

/// Prepares `destination` for `plan`, or returns why it must not be touched.
pub(super) fn prepare(
    destination: &Path,
    plan: &PackPlan,
    resume: bool,
    overwrite: bool,
) -> Result<DestinationState> {
    fs::create_dir_all(destination).map_err(|e| failed("creating", destination, e))?;
    let lock = lock(destination)?;
    refuse_foreign(destination)?;
    // A stream's samples cannot be read again, so parts of an earlier stream do not count as done.
    let keep = resume && !plan.is_stream();
    match finished(destination)? {
        None => {}
        Some(_) if overwrite => remove_all(destination)?,
        Some(Ok(manifest)) if keep && manifest.plan == plan.id => {
            clean(destination)?;
            remove_where(destination, |n| n == PLAN_NAME)?;
            return Ok(DestinationState::Complete(Box::new(manifest)));
        }
        Some(_) => return Err(refusal(destination, "holds a finished pack already")),
    }
    let earlier = unfinished(destination);
    if !(keep && earlier.as_ref().is_some_and(|p| p.id == plan.id)) {
        let of_stream = plan.is_stream() && earlier.is_some_and(|p| p.is_stream());
        if resume && !overwrite && !of_stream && holds_parts(destination)? {
            return Err(refusal(
                destination,
                "holds an unfinished pack of another source or with other options",
            ));
        }
        remove_all(destination)?;
        let text = serde_json::to_vec(plan).expect("a plan is plain data");
        write_file(&destination.join(PLAN_NAME), &text)?;
    }
    clean(destination)?;
    Ok(DestinationState::Open(lock))
}

/// Removes temporary files of dead writers.
pub(super) fn clean(destination: &Path) -> Result<()> {
    remove_where(destination, is_temporary)
}

pub(super) fn lock(destination: &Path) -> Result<FolderLock> {
    let folder = File::open(destination).map_err(|e| failed("opening", destination, e))?;
    match LockedFile::try_lock(folder) {
        Err((_, rustix::io::Errno::WOULDBLOCK)) => {
            let place = Location::new(destination.display().to_string());
            Err(Error::data(place, "another process is writing a pack here").with_cause(DataCause::Busy))
        }
        // Some network file systems cannot lock. Writing there is still safe, only wasteful if done twice.
        Err((folder, _)) => Ok(FolderLock { _folder: LockedFile::new(folder) }),
        Ok(folder) => Ok(FolderLock { _folder: folder }),
    }
}

fn names(destination: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(destination).map_err(|e| failed("listing", destination, e))?;
    let name = |e: std::io::Result<fs::DirEntry>| Ok(e?.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<std::io::Result<_>>().map_err(|e| failed("listing", destination, e))
}

/// Whether this is the name of a part.
pub(super) fn is_part(name: &str) -> bool {
    let number = name.strip_prefix("part-").and_then(|n| n.strip_suffix(".fl"));
    number.is_some_and(|n| n.len() >= 6 && n.bytes().all(|b| b.is_ascii_digit()))
}

fn is_temporary(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|n| n.strip_suffix(TEMPORARY_SUFFIX));
    let Some((of, _)) = inner.and_then(|n| n.rsplit_once('.')) else { return false };
    is_part(of) || of == MANIFEST_NAME || of == PLAN_NAME
}

/// The folder where parts to be appended are written; see `merge.rs`.
fn is_append_folder(name: &str) -> bool {
    name.strip_suffix(".append").is_some_and(|n| is_part(&format!("{n}.fl")))
}

fn is_ours(name: &str) -> bool {
    is_part(name)
        || is_append_folder(name)
        || is_temporary(name)
        || name == MANIFEST_NAME
        || name == PLAN_NAME
}

pub(super) fn refuse_foreign(destination: &Path) -> Result<()> {
    match names(destination)?.into_iter().find(|n| !is_ours(n)) {
        None => Ok(()),
        Some(name) => Err(Error::data(
            Location::new(destination.display().to_string()),
            format!("the folder holds files that are not a pack's, such as '{name}'"),
        )
        .with_hint("pack into a new or empty folder; files of others are never removed")),
    }
}

/// The finished pack's manifest, if there is one; the inner error if it cannot be read.
fn finished(destination: &Path) -> Result<Option<Result<Manifest>>> {
    let path = destination.join(MANIFEST_NAME);
    if !path.try_exists().map_err(|e| failed("looking for", &path, e))? {
        return Ok(None);
    }
    Ok(Some(read_manifest(&LocalSource::new(destination))))
}

pub(super) fn unfinished(destination: &Path) -> Option<PackPlan> {
    serde_json::from_slice(&fs::read(destination.join(PLAN_NAME)).ok()?).ok()
}

pub(super) fn holds_parts(destination: &Path) -> Result<bool> {
    Ok(names(destination)?.iter().any(|n| is_part(n)))
}

/// Removes a pack, finished or not. The manifest is removed first: what a crash leaves after that is not a pack.
fn remove_all(destination: &Path) -> Result<()> {
    remove_where(destination, |n| n == MANIFEST_NAME)?;
    sync_folder(destination)?;
    remove_where(destination, |n| is_part(n) || is_temporary(n))?;
    for name in names(destination)?.iter().filter(|n| is_append_folder(n)) {
        let folder = destination.join(name);
        fs::remove_dir_all(&folder).map_err(|e| failed("removing", &folder, e))?;
    }
    remove_where(destination, |n| n == PLAN_NAME)
}

fn remove_where(destination: &Path, unwanted: impl Fn(&str) -> bool) -> Result<()> {
    for name in names(destination)?.iter().filter(|n| unwanted(n)) {
        let path = destination.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed("removing", &path, e)),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn refusal(destination: &Path, reason: &str) -> Error {
    Error::data(Location::new(destination.display().to_string()), format!("the folder {reason}"))
        .with_hint("choose another destination, or use overwrite to replace it")
        .with_cause(DataCause::Occupied)
}
