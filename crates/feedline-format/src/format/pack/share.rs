//! A pack whose parts are written by many processes, on one machine or on many: [`begin_pack`] stores the plan at the
//! destination, [`write_part_into`] and [`commit_pack_into`] are the steps of `plan.rs` for local and remote
//! destinations.
//!
//! No step removes a file that another process may be writing. The commit does so, when every part is complete.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::destination::{self, DestinationState, PLAN_NAME};
use super::manifest::{MANIFEST_NAME, Manifest};
use super::plan::{PackOptions, PackPlan, PackReport, commit_pack, find_part, manifest_of, write_part};
use super::reader::read_manifest;
use super::upload::{announce, send, send_part};
use crate::error::{Error, Location, Result};
use crate::format::Format;
use crate::format::convert::Task;
use crate::format::parts::{Meter, Progress, refuse_own_source, run_parts};
use crate::format::whole_file::{failed, write_file};
use crate::source::{Destination, LocalSource, LockedFile, Source, open_sink, private, staging_folder};

/// Prepares `destination` for parts of `plan`, unless another process did. Returns the report if the pack is
/// complete.
pub fn begin_pack(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    destination: &Destination,
) -> Result<Option<PackReport>> {
    match destination {
        Destination::Local(folder) => {
            refuse_own_source(source, folder)?;
            begin_here(plan, options, folder)
        }
        Destination::Remote { uri, storage } => {
            refuse_removal(options)?;
            let sink = open_sink(uri, storage)?;
            if let Some(manifest) = complete(plan, &*sink)? {
                return Ok(Some(PackReport::of(&manifest)));
            }
            let staging = Staging::of(&staging_folder(uri)?, "plan")?;
            announce(plan, &*sink, &staging.folder, true)?;
            Ok(None)
        }
    }
}

fn begin_here(plan: &PackPlan, options: &PackOptions, folder: &Path) -> Result<Option<PackReport>> {
    if options.overwrite || !options.resume {
        return match destination::prepare(folder, plan, options.resume, options.overwrite)? {
            DestinationState::Complete(manifest) => Ok(Some(PackReport::of(&manifest))),
            DestinationState::Open(_) => Ok(None),
        };
    }
    fs::create_dir_all(folder).map_err(|e| failed("creating", folder, e))?;
    destination::refuse_foreign(folder)?;
    if let Some(manifest) = complete(plan, &LocalSource::new(folder))? {
        return Ok(Some(PackReport::of(&manifest)));
    }
    match destination::unfinished(folder) {
        Some(there) if there.id == plan.id => {}
        None if !destination::holds_parts(folder)? => {
            // Others may do the same at this moment: the content is the same, and each renames a complete file.
            let text = serde_json::to_vec(plan).expect("a plan is plain data");
            write_file(&folder.join(PLAN_NAME), &text)?;
        }
        _ => {
            let reason = "holds an unfinished pack of another source or with other options";
            return Err(destination::refusal(folder, reason));
        }
    }
    Ok(None)
}

/// Writes one part of a plan that [`begin_pack`] stored, unless it exists. May be called any number of times, from
/// anywhere, in any order.
pub fn write_part_into(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    part: u64,
    destination: &Destination,
    progress: &dyn Progress,
) -> Result<()> {
    match destination {
        Destination::Local(folder) => {
            let there = LocalSource::new(folder);
            if complete(plan, &there)?.is_some() {
                return Ok(());
            }
            check_announced(plan, &there)?;
            let _lock = lock_shared(folder)?;
            let written = write_part(plan, source, options, part, folder, progress);
            ignore_if_written(written, plan, part, &there)
        }
        Destination::Remote { uri, storage } => {
            let sink = open_sink(uri, storage)?;
            if complete(plan, &*sink)?.is_some() {
                return Ok(());
            }
            check_announced(plan, &*sink)?;
            let staging = Staging::of(&staging_folder(uri)?, &format!("part-{part:06}"))?;
            let meter = Meter::new(progress, plan.samples());
            let sent = send_part(plan, source, options, part, &*sink, &staging.folder, &meter);
            ignore_if_written(sent, plan, part, &*sink)
        }
    }
}

/// Writes all parts of one task, with `options.workers` threads.
pub fn write_parts_into(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    task: Task,
    destination: &Destination,
    progress: &dyn Progress,
) -> Result<()> {
    let own = (0..plan.parts()).filter(|part| task.writes(*part)).collect::<Vec<_>>();
    let counts = SummedProgress { progress, parts: own.iter().map(|_| Mutex::default()).collect() };
    run_parts(own.len() as u64, options.workers, |number| {
        let part = Numbered { of: &counts, number: number as usize };
        write_part_into(plan, source, options, own[number as usize], destination, &part)
    })
}

/// Adds up the progress of several parts.
struct SummedProgress<'a> {
    progress: &'a dyn Progress,
    parts: Vec<Mutex<(u64, u64)>>,
}

struct Numbered<'a> {
    of: &'a SummedProgress<'a>,
    number: usize,
}

impl Progress for Numbered<'_> {
    fn update(&self, samples: u64, bytes: u64, total: u64) -> ControlFlow<()> {
        let lock = |part: &Mutex<(u64, u64)>| *part.lock().unwrap_or_else(PoisonError::into_inner);
        *self.of.parts[self.number].lock().unwrap_or_else(PoisonError::into_inner) = (samples, bytes);
        let sum = self.of.parts.iter().map(lock).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        self.of.progress.update(sum.0, sum.1, total)
    }
}

/// Ignores an error if the part exists: a duplicate of this writer was faster, and the commit removed this one's
/// files.
fn ignore_if_written(done: Result<()>, plan: &PackPlan, part: u64, there: &dyn Source) -> Result<()> {
    done.or_else(|error| if find_part(plan, part, there).is_ok() { Ok(()) } else { Err(error) })
}

/// The parts of the plan that do not exist at `destination` yet.
pub fn missing_parts(plan: &PackPlan, destination: &Destination) -> Result<Vec<u64>> {
    let sink;
    let local;
    let there: &dyn Source = match destination {
        Destination::Local(folder) => {
            local = LocalSource::new(folder);
            &local
        }
        Destination::Remote { uri, storage } => {
            sink = open_sink(uri, storage)?;
            &*sink
        }
    };
    if complete(plan, there)?.is_some() {
        return Ok(Vec::new());
    }
    Ok((0..plan.parts()).filter(|part| find_part(plan, *part, there).is_err()).collect())
}

/// [`commit_pack`] for local and remote destinations. Calling it again does nothing.
pub fn commit_pack_into(plan: &PackPlan, destination: &Destination) -> Result<PackReport> {
    match destination {
        Destination::Local(folder) => {
            if let Some(manifest) = complete(plan, &LocalSource::new(folder))? {
                return Ok(PackReport::of(&manifest));
            }
            // If nothing was begun, the error is about the missing parts.
            let _lock = folder.exists().then(|| lock_shared(folder)).transpose()?;
            commit_pack(plan, folder)
        }
        Destination::Remote { uri, storage } => {
            let sink = open_sink(uri, storage)?;
            if let Some(manifest) = complete(plan, &*sink)? {
                return Ok(PackReport::of(&manifest));
            }
            let manifest = manifest_of(plan, &*sink)?;
            let staging = Staging::of(&staging_folder(uri)?, "manifest")?;
            send(&*sink, &staging.folder, MANIFEST_NAME, &manifest.to_bytes())?;
            sink.remove(PLAN_NAME)?;
            Ok(PackReport::of(&manifest))
        }
    }
}

/// The manifest if exactly this pack is complete; an error if another one is.
fn complete(plan: &PackPlan, there: &dyn Source) -> Result<Option<Manifest>> {
    if !there.exists(MANIFEST_NAME)? {
        return Ok(None);
    }
    let manifest = read_manifest(there)?;
    if manifest.plan == plan.id {
        return Ok(Some(manifest));
    }
    Err(Error::data(Location::new(there.uri()), "the destination already holds a finished pack")
        .with_hint("choose another destination, or use overwrite when planning"))
}

/// Refuses a destination without the plan: a part on a disk that the other machines do not see would be lost
/// silently.
fn check_announced(plan: &PackPlan, there: &dyn Source) -> Result<()> {
    let mut text = Vec::new();
    let read = there.read_whole(PLAN_NAME, &mut text);
    let found = read.ok().and_then(|()| serde_json::from_slice::<PackPlan>(&text).ok());
    match found {
        Some(found) if found.id == plan.id => Ok(()),
        Some(_) => Err(Error::data(Location::new(there.uri()), "another pack was begun here since the plan")),
        None => Err(Error::data(Location::new(there.uri()), "the plan of this pack is not here").with_hint(
            "every machine must see the destination: a shared disk or a bucket, not a disk of its own",
        )),
    }
}

fn refuse_removal(options: &PackOptions) -> Result<()> {
    if !options.overwrite && options.resume {
        return Ok(());
    }
    let knob = if options.overwrite { "overwrite" } else { "resume" };
    let reason = "remote data are not removed from here; remove them with the store's own tools";
    Err(Error::option(knob, reason))
}

/// Takes a lock that all writers of parts share. A process that packs the folder alone or starts over is refused
/// meanwhile.
fn lock_shared(folder: &Path) -> Result<LockedFile> {
    let file = File::open(folder).map_err(|e| failed("opening", folder, e))?;
    match LockedFile::try_share(file) {
        Err((_, rustix::io::Errno::WOULDBLOCK)) => {
            let place = Location::new(folder.display().to_string());
            Err(Error::data(place, "another process is packing this folder alone"))
        }
        // Some network file systems cannot lock; parts are safe there all the same.
        Err((file, _)) => Ok(LockedFile::new(file)),
        Ok(locked) => Ok(locked),
    }
}

/// A local folder for files that are to be uploaded; removed on drop.
struct Staging {
    folder: PathBuf,
    _lock: LockedFile,
}

impl Staging {
    /// The folder of this name, with what a killed writer left in it. If a live duplicate holds it, another folder is
    /// used.
    fn of(root: &Path, name: &str) -> Result<Self> {
        let usual = root.join(name);
        let other = root.join(format!("{name}.{}", std::process::id()));
        for folder in [usual, other] {
            private::make_folder(&folder).map_err(|e| failed("creating", &folder, e))?;
            let file = File::open(&folder).map_err(|e| failed("opening", &folder, e))?;
            match LockedFile::try_lock(file) {
                Err((_, rustix::io::Errno::WOULDBLOCK)) => {}
                Err((file, _)) => return Ok(Staging { folder, _lock: LockedFile::new(file) }),
                Ok(locked) => return Ok(Staging { folder, _lock: locked }),
            }
        }
        let place = Location::new(root.display().to_string());
        Err(Error::data(place, format!("this process writes {name} twice at the same time")))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::pack::plan_pack;
    use crate::format::{ReadingOptions, pack};
    use crate::source::Target;

    fn images(root: &Path, count: usize) -> Arc<dyn Format> {
        for n in 0..count {
            fs::write(root.join(format!("{n:03}.jpg")), [n as u8; 100]).unwrap();
        }
        let target = Target::Folder(Arc::new(LocalSource::new(root)));
        crate::format::open(&target, "folder", &ReadingOptions::default()).unwrap()
    }

    /// Parts of it could be damaged unnoticed: only the whole has a checksum.
    #[test]
    fn a_video_without_an_index_must_be_read_whole() {
        let (data, packed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(data.path().join("a.mp4"), [7; 100]).unwrap();
        let open = |folder: &Path, format: &str| {
            let target = Target::Folder(Arc::new(LocalSource::new(folder)));
            crate::format::open(&target, format, &ReadingOptions::default()).unwrap()
        };
        let folder = open(data.path(), "folder");
        pack(&*folder, packed.path(), &PackOptions { workers: 1, ..PackOptions::default() }, &()).unwrap();
        for (format, expected) in [(folder, None), (open(packed.path(), "pack"), Some(Vec::new()))] {
            let field = format.schema().position("video").unwrap();
            assert_eq!(format.stored_index(0, field).unwrap(), expected);
        }
    }

    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut entries = LocalSource::new(folder).list("").unwrap().entries;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.into_iter().map(|e| (e.name.clone(), fs::read(folder.join(&e.name)).unwrap())).collect()
    }

    fn options() -> PackOptions {
        PackOptions { part_bytes: Some(500), workers: 1, ..PackOptions::default() }
    }

    #[test]
    fn parts_in_any_order_or_repeated_make_the_same_pack() {
        let (data, alone, shared) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = images(data.path(), 30);
        pack(&*source, alone.path(), &options(), &()).unwrap();
        let there = Destination::Local(shared.path().to_path_buf());
        let plan = plan_pack(&*source, &options()).unwrap();
        assert!(begin_pack(&plan, &*source, &options(), &there).unwrap().is_none());
        let message = commit_pack_into(&plan, &there).unwrap_err().to_string();
        assert!(message.contains("not complete"), "{message}");
        for part in (0..plan.parts()).rev().chain(0..plan.parts()) {
            begin_pack(&plan, &*source, &options(), &there).unwrap();
            write_part_into(&plan, &*source, &options(), part, &there, &()).unwrap();
        }
        assert!(missing_parts(&plan, &there).unwrap().is_empty());
        commit_pack_into(&plan, &there).unwrap();
        assert_eq!(files(shared.path()), files(alone.path()));
        // Late duplicates find nothing to do.
        write_part_into(&plan, &*source, &options(), 0, &there, &()).unwrap();
        commit_pack_into(&plan, &there).unwrap();
        assert_eq!(files(shared.path()), files(alone.path()));
    }

    #[test]
    fn a_disk_that_others_cannot_see_is_refused() {
        let (data, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let source = images(data.path(), 5);
        let plan = plan_pack(&*source, &options()).unwrap();
        let there = Destination::Local(there.path().to_path_buf());
        let message = write_part_into(&plan, &*source, &options(), 0, &there, &()).unwrap_err().to_string();
        assert!(message.contains("the plan of this pack is not here"), "{message}");
    }

    #[test]
    fn other_data_are_refused() {
        let (one, two, there) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, second) = (images(one.path(), 9), images(two.path(), 12));
        let there = Destination::Local(there.path().to_path_buf());
        let plan = plan_pack(&*first, &options()).unwrap();
        begin_pack(&plan, &*first, &options(), &there).unwrap();
        let other = plan_pack(&*second, &options()).unwrap();
        let message = begin_pack(&other, &*second, &options(), &there).unwrap_err().to_string();
        assert!(message.contains("unfinished pack of another source"), "{message}");
    }
}
