//! The folders of a conversion: where its files and its notes are, what may be there before, and what is left after.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::super::export::Shard;
use super::super::whole_file::{TEMPORARY_SUFFIX, failed, write_file};
use super::{DONE, PLAN, Plan, RESULT, WORK, WriteMode, tasks};
use crate::error::{Error, Location, Result};
use crate::source::{LocalSource, LockedFile, Sink, Source, private};

/// Where shards and notes are written.
#[derive(Debug)]
pub(super) struct OutputFolders<'a> {
    /// Folder of the shards and the index.
    pub(super) folder: PathBuf,
    /// Folder of the plan and of one note per finished shard.
    work: PathBuf,
    pub(super) single_file: bool,
    pub(super) mode: WriteMode<'a>,
    _lock: LockedFile,
}

impl<'a> OutputFolders<'a> {
    pub(super) fn prepare(
        destination: &Path,
        plan: &Plan,
        single_file: bool,
        mode: WriteMode<'a>,
    ) -> Result<Self> {
        let sink = mode.sink;
        let (folder, work) = if single_file {
            let name = destination.file_name().unwrap_or_default().display().to_string();
            let work = destination.with_file_name(format!(".{name}{WORK}"));
            refuse_existing(destination, &name, sink)?;
            (work.clone(), work)
        } else {
            (destination.to_path_buf(), destination.join(WORK))
        };
        // Another task may have written the plan between the two checks.
        let begun = || mode.tasks && work.join(PLAN).exists();
        if !work.join(PLAN).exists() && folder != work {
            refuse_foreign(&folder).or_else(|e| if begun() { Ok(()) } else { Err(e) })?;
        }
        // Files that are to be uploaded are private.
        let make = |folder: &Path| match sink {
            Some(_) => private::make_folder(folder),
            None => fs::create_dir_all(folder),
        };
        make(&work).map_err(|e| failed("creating", &work, e))?;
        let lock = lock(&work, mode.tasks && sink.is_none())?;
        let text = serde_json::to_vec(plan).expect("a plan is plain data");
        match fs::read(work.join(PLAN)) {
            Ok(earlier) if earlier == text => {}
            Ok(_) => {
                let reason = "an unfinished conversion of other data, or with other options, is here";
                return Err(Error::data(Location::new(destination.display().to_string()), reason)
                    .with_hint("finish it with the options it was begun with, or remove the folder"));
            }
            Err(_) => announce(&work, &text, sink.filter(|_| !single_file), mode.tasks)?,
        }
        // Other tasks may still be writing; the last step cleans up.
        if mode.task.is_none() {
            clean(&folder)?;
        }
        Ok(OutputFolders { folder, work, single_file, mode, _lock: lock })
    }

    /// The sink, if shards are uploaded as objects of their own.
    pub(super) fn shard_sink(&self) -> Option<&'a dyn Sink> {
        self.mode.sink.filter(|_| !self.single_file)
    }

    pub(super) fn note(&self, shard: usize) -> PathBuf {
        self.work.join(format!("{shard:06}.json"))
    }

    /// An earlier run's note of a shard, if the file is still the same.
    pub(super) fn found(&self, shard: usize) -> Option<Shard> {
        let text = match self.shard_sink().filter(|_| self.mode.tasks) {
            Some(sink) => tasks::read_note(sink, shard)?,
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
    pub(super) fn send(&self, name: &str) -> Result<()> {
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
    pub(super) fn complete(self, destination: &Path) -> Result<()> {
        let result = self.folder.join(RESULT);
        match self.mode.sink {
            Some(sink) if self.single_file => {
                sink.put(&destination.file_name().unwrap_or_default().display().to_string(), &result)?;
            }
            Some(sink) => {
                self.send_index()?;
                if self.mode.tasks {
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

/// Stores the plan of a new conversion, and puts it at the destination for other tasks and for readers.
fn announce(work: &Path, plan: &[u8], remote: Option<&dyn Sink>, tasks: bool) -> Result<()> {
    let announced = match remote {
        Some(sink) if tasks => tasks::announced(sink, plan)?,
        Some(sink) => refuse_foreign_objects(sink).map(|()| false)?,
        None => true,
    };
    write_file(&work.join(PLAN), plan)?;
    // Remote readers must see that the conversion is not finished.
    if let (Some(sink), false) = (remote, announced) {
        sink.put(&format!("{WORK}/{PLAN}"), &work.join(PLAN))?;
    }
    Ok(())
}

fn refuse_existing(destination: &Path, name: &str, sink: Option<&dyn Sink>) -> Result<()> {
    if !sink.map_or_else(|| Ok(destination.exists()), |sink| sink.exists(name))? {
        return Ok(());
    }
    let place = Location::new(destination.display().to_string());
    Err(Error::data(place, "the file exists").with_hint("remove it, or choose another name"))
}

/// The same check for a remote store.
pub(super) fn refuse_foreign_objects(sink: &dyn Sink) -> Result<()> {
    let names = match sink.children("") {
        Err(error) if error.is_not_found() => return Ok(()),
        names => names?,
    };
    let Some(name) = names.into_iter().next() else { return Ok(()) };
    let reason = format!("the destination is not empty: it holds '{name}'");
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
