//! Files that a column names: where each is, and its state when the table was opened. A path may be relative to the
//! table's root, absolute, or a uri of its own.

use std::collections::HashMap;
use std::path::{Component, Path};
use std::sync::Arc;

use super::super::parallel;
use super::column::Column;
use crate::error::{Error, Location, Result};
use crate::sample::SampleBuffer;
use crate::source::{LocalSource, Seen, Source, Storage, folder_at, to_usize};

/// Maximum number of missing files that are named.
const MAX_NAMED: usize = 100;
/// Fewer files than this are checked one by one, even remote ones; more are found by listing.
const ASKED_SINGLY: usize = 64;
/// Number of files that one thread checks in a row.
const AT_A_TIME: usize = 256;
/// The size of a file of which nothing is known, or which is missing.
const UNKNOWN: u64 = u64::MAX;
const MISSING: u64 = u64::MAX - 1;

/// The roots of files.
#[derive(Debug)]
pub(super) struct Places {
    sources: Vec<Arc<dyn Source>>,
    by_root: HashMap<String, usize>,
    storage: Storage,
}

impl Places {
    /// The first root is for relative paths.
    pub(super) fn new(root: Arc<dyn Source>, storage: Storage) -> Self {
        Places { sources: vec![root], by_root: HashMap::new(), storage }
    }

    pub(super) fn source(&self, number: usize) -> &Arc<dyn Source> {
        &self.sources[number]
    }

    pub(super) fn is_remote(&self) -> bool {
        self.sources.iter().any(|source| source.is_remote())
    }

    /// The root and name for `path`.
    fn find(&mut self, path: &str) -> Result<(usize, String)> {
        if let Some((head, rest)) = path.split_once("://") {
            if head == "file" {
                return self.find_local(rest);
            }
            let root = self.sources[0].uri().trim_end_matches('/');
            if let Some(below) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) {
                return Ok((0, below.to_owned()));
            }
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            let storage = self.storage.clone();
            let root = format!("{head}://{bucket}");
            let place = self.place(&root, |root| folder_at(root, &storage))?;
            return Ok((place, key.to_owned()));
        }
        if path.starts_with('/') || path.starts_with('~') {
            return self.find_local(path);
        }
        match inside(path) {
            Some(name) => Ok((0, name)),
            None if self.sources[0].is_remote() => {
                let place = Location::new(self.sources[0].uri()).with_shard(path);
                Err(Error::data(place, "the path leads out of the root"))
            }
            None => self.find_local(&format!("{}/{path}", self.sources[0].uri())),
        }
    }

    fn find_local(&mut self, path: &str) -> Result<(usize, String)> {
        let path = crate::source::absolute(path);
        let root = self.sources[0].uri().trim_end_matches('/');
        if let Some(below) = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'))
            && !self.sources[0].is_remote()
            && let Some(name) = inside(below)
        {
            return Ok((0, name));
        }
        let storage = self.storage.clone();
        let place = self
            .place("/", |root| Ok(Arc::new(LocalSource::of_samples(root, &storage)?) as Arc<dyn Source>))?;
        let name = inside(path.trim_start_matches('/'));
        Ok((place, name.unwrap_or_else(|| path.trim_start_matches('/').to_owned())))
    }

    fn place(&mut self, root: &str, open: impl Fn(&str) -> Result<Arc<dyn Source>>) -> Result<usize> {
        if let Some(place) = self.by_root.get(root) {
            return Ok(*place);
        }
        self.sources.push(open(root)?);
        self.by_root.insert(root.to_owned(), self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }
}

/// The path without `.` and `..`; `None` if it leads out of the root.
fn inside(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            _ => {}
        }
    }
    Some(parts.join("/"))
}

/// The files of one column.
#[derive(Debug)]
pub(super) struct Files {
    names: String,
    ends: Vec<u64>,
    places: Vec<u32>,
    seen: Vec<Seen>,
    /// Whether every row has a file whose length is known.
    pub(super) all_known: bool,
}

impl Files {
    /// Finds and checks the files that `column` names.
    pub(super) fn find(column: &Column, places: &mut Places, problems: &mut Vec<Error>) -> Result<Self> {
        let mut files = Files {
            names: String::new(),
            ends: Vec::new(),
            places: Vec::new(),
            seen: vec![Seen { size: UNKNOWN, version: 0 }; column.rows as usize],
            all_known: false,
        };
        for row in 0..column.rows {
            let (place, name) = match column.text(row) {
                "" => (0, String::new()),
                path => places.find(path)?,
            };
            files.names.push_str(&name);
            files.ends.push(files.names.len() as u64);
            files.places.push(place as u32);
        }
        let mut rows = vec![Vec::new(); places.sources.len()];
        for row in (0..column.rows).filter(|row| !files.name(*row).is_empty()) {
            rows[files.place(row)].push(row);
        }
        for (place, rows) in rows.into_iter().enumerate() {
            files.find_all(column, rows, places.source(place), problems)?;
        }
        files.all_known = files.seen.iter().all(|seen| seen.size < MISSING);
        Ok(files)
    }

    pub(super) fn place(&self, row: u64) -> usize {
        self.places[row as usize] as usize
    }

    pub(super) fn name(&self, row: u64) -> &str {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.names[start as usize..self.ends[row] as usize]
    }

    /// The file's state at opening, if known.
    pub(super) fn seen(&self, row: u64) -> Option<Seen> {
        self.seen.get(row as usize).copied().filter(|seen| seen.size < MISSING)
    }

    fn find_all(
        &mut self,
        column: &Column,
        rows: Vec<u64>,
        source: &Arc<dyn Source>,
        problems: &mut Vec<Error>,
    ) -> Result<()> {
        let names: Vec<&str> = rows.iter().map(|row| self.name(*row)).collect();
        let found = file_states(source, &names)?;
        let missing = found.iter().filter(|seen| **seen == FileState::Missing).count();
        if missing == rows.len() && missing > 1 {
            return Err(all_missing(column, source, names[0], missing));
        }
        let gone = rows.iter().zip(&names).zip(&found).filter(|(_, seen)| **seen == FileState::Missing);
        for ((row, name), _) in gone.take(MAX_NAMED) {
            problems.push(no_such_file(source, name, *row));
        }
        if missing > MAX_NAMED {
            let more = format!("{} more files like these are missing", missing - MAX_NAMED);
            problems.push(Error::data(Location::new(source.uri()), more));
        }
        for (row, seen) in rows.into_iter().zip(found) {
            match seen {
                FileState::There(seen) => self.seen[row as usize] = seen,
                FileState::Missing => self.seen[row as usize].size = MISSING,
                FileState::Unknown => {}
            }
        }
        Ok(())
    }

    /// Reads the file of row `row` into the buffer.
    pub(super) fn read(
        &self,
        row: u64,
        places: &Places,
        into: &mut SampleBuffer,
    ) -> Result<std::ops::Range<usize>> {
        let (source, name) = (places.source(self.place(row)), self.name(row));
        if let Some(seen) = self.seen(row) {
            let (range, room) = into.reserve(to_usize(seen.size, source.uri(), name)?);
            source.read_unchanged(name, seen.version, room)?;
            return Ok(range);
        }
        if self.seen[row as usize].size == MISSING {
            // Not a temporary failure of the storage: the table is wrong, so the sample is bad.
            return Err(no_such_file(source, name, row));
        }
        let object = source.open(name)?;
        let (range, room) = into.reserve(to_usize(object.size(), source.uri(), name)?);
        object.read_at(0, room)?;
        Ok(range)
    }
}

fn no_such_file(source: &Arc<dyn Source>, name: &str, row: u64) -> Error {
    let place = Location::new(source.uri()).with_shard(name).with_sample(row);
    Error::data(place, "there is no such file; the sample cannot be read")
}

fn all_missing(column: &Column, source: &Arc<dyn Source>, first: &str, count: usize) -> Error {
    let reason = format!(
        "none of the {count} files that column '{}' names is there; the first is {first}",
        column.name
    );
    Error::data(Location::new(source.uri()), reason)
        .with_hint("paths are relative to the table's folder; use root=\"...\" if they start elsewhere")
}

/// Result of looking for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    There(Seen),
    Missing,
    /// Not known; the read will show.
    Unknown,
}

fn file_states(source: &Arc<dyn Source>, names: &[&str]) -> Result<Vec<FileState>> {
    if source.is_remote() && names.len() > ASKED_SINGLY {
        return Ok(listed(source, names));
    }
    let size = if source.is_remote() { 1 } else { AT_A_TIME };
    let chunks: Vec<&[&str]> = names.chunks(size).collect();
    let look = |name: &&str| match source.open(name) {
        Ok(object) => Ok(FileState::There(Seen { size: object.size(), version: object.version() })),
        Err(Error::Storage { source, .. }) if is_absent(source.kind()) => Ok(FileState::Missing),
        Err(_) if !source.is_remote() => Ok(FileState::Unknown),
        Err(error) => Err(error),
    };
    let found = parallel::collect(chunks.len(), |chunk| {
        chunks[chunk].iter().map(look).collect::<Result<Vec<FileState>>>()
    })?;
    Ok(found.concat())
}

fn is_absent(kind: std::io::ErrorKind) -> bool {
    matches!(kind, std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Checks by one listing of the common folder; a server that cannot list knows nothing.
fn listed(source: &Arc<dyn Source>, names: &[&str]) -> Vec<FileState> {
    let mut folder = names[0].rsplit_once('/').map_or("", |(folder, _)| folder);
    for name in names {
        while !folder.is_empty() && !name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')) {
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    let Ok(listing) = source.list(folder) else { return vec![FileState::Unknown; names.len()] };
    let known: HashMap<&str, Seen> = listing
        .entries
        .iter()
        .map(|entry| (entry.name.as_str(), Seen { size: entry.size, version: entry.version }))
        .collect();
    let look = |name: &&str| known.get(*name).map_or(FileState::Missing, |seen| FileState::There(*seen));
    names.iter().map(look).collect()
}
