//! Files below a folder, read with `pread`.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, Stat};

use super::ahead::{AheadRead, Identity, Stage};
use super::direct::{self, Bypass};
use super::{
    Entry, FolderFile, FolderListing, FolderVersion, HeldBytes, Listing, MappedFile, Object, Seen, Source,
    Storage, changed, past_end, room_for, to_usize,
};
use crate::error::{Error, Location, Result};

/// Largest read ahead: long enough that a slow disk's or server's first byte does not matter, short enough that several
/// are under way at once.
const LARGEST_AHEAD: u64 = 2 << 20;

/// A folder of the local file system (or a single file's folder).
#[derive(Debug)]
pub struct LocalSource {
    root: PathBuf,
    uri: String,
    stage: Arc<Stage>,
}

impl LocalSource {
    /// The folder `root`; it need not exist until something is read.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let uri = root.display().to_string();
        LocalSource { root, uri, stage: Arc::default() }
    }

    /// The same, read as `storage` says.
    pub(super) fn with_storage(root: impl Into<PathBuf>, storage: &Storage) -> Result<Self> {
        Ok(LocalSource::new(root).with_bypass(Bypass::asked(storage)?))
    }

    /// The same, of which nothing is read but files that are samples.
    pub(crate) fn of_samples(root: impl Into<PathBuf>, storage: &Storage) -> Result<Self> {
        Ok(LocalSource::new(root).with_bypass(Bypass::asked(storage)?.at_once()))
    }

    fn with_bypass(self, bypass: Bypass) -> Self {
        LocalSource { stage: Arc::new(Stage::new(bypass)), ..self }
    }

    #[cfg(test)]
    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn fail(&self, action: &'static str, name: &str, error: io::Error) -> Error {
        Error::storage(action, Location::new(self.path(name).display().to_string()), error)
    }

    /// Lists everything below `folder`, whose name is `name`.
    fn walk(&self, name: &str, above: &mut Vec<FolderId>, found: &mut Listing) {
        let inside = match self.read_folder(name) {
            Ok(inside) => inside,
            Err(error) => return found.problems.push(self.fail("listing", name, error)),
        };
        if above.contains(&inside.version.id) {
            let error = io::Error::other("a link leads back to a folder above it");
            return found.problems.push(self.fail("listing", name, error));
        }
        let entry = |file: FolderFile<'_>| {
            let FolderFile { size, version, .. } = file;
            Entry { name: below(name, file.name), size, version }
        };
        found.entries.extend(inside.files.iter().map(entry));
        found.problems.extend(inside.problems);
        above.push(inside.version.id);
        for folder in inside.folders {
            self.walk(&below(name, &folder), above, found);
        }
        above.pop();
    }

    fn read_folder(&self, name: &str) -> io::Result<FolderListing> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(self.path(name), flags, Mode::empty())?);
        let meta = folder.metadata()?;
        let version = FolderVersion { id: (meta.dev(), meta.ino()), changed: version(&meta) };
        let mut found = FolderListing { version, ..FolderListing::default() };
        for entry in Dir::read_from(&folder)? {
            match entry {
                Ok(entry) => self.visit(&folder, &entry, name, &mut found),
                Err(error) => found.problems.push(self.fail("listing", name, error.into())),
            }
        }
        Ok(found)
    }

    /// Adds one name of `opened`, the open folder called `folder`.
    fn visit(&self, opened: &File, entry: &DirEntry, folder: &str, found: &mut FolderListing) {
        let last = match entry.file_name().to_str() {
            Ok("." | "..") => return,
            Ok(last) => last,
            Err(_) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "the name is not UTF-8");
                let name = below(folder, &entry.file_name().to_string_lossy());
                return found.problems.push(self.fail("listing", &name, error));
            }
        };
        if entry.file_type() == FileType::Directory {
            return found.folders.push(last.to_owned());
        }
        // Links count as their targets, as in torchvision's ImageFolder. Asked for by the name in the open folder: the
        // system walks no path.
        match rustix::fs::statat(opened, entry.file_name(), AtFlags::empty()) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => found.folders.push(last.to_owned()),
                FileType::RegularFile => {
                    let (size, version) = (stat.st_size as u64, stat_version(&stat));
                    found.files.push(FolderFile { name: last, size, version });
                }
                // Sockets, pipes and devices cannot be samples.
                _ => {}
            },
            Err(error) => found.problems.push(self.fail("listing", &below(folder, last), error.into())),
        }
    }
}

/// The name of `last` inside `folder`.
fn below(folder: &str, last: &str) -> String {
    if folder.is_empty() { last.to_owned() } else { format!("{folder}/{last}") }
}

/// Whether folders of this file system change their modification time when names are added or removed. Mounted
/// buckets and the like often invent the times.
#[cfg(target_os = "linux")]
fn keeps_folder_times(folder: &Path) -> bool {
    // ext2-4, XFS, Btrfs, tmpfs, F2FS, ZFS, overlay, NFS, Lustre, GPFS, Ceph.
    const KNOWN: [u64; 11] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x0102_1994,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0x794c_7630,
        0x6969,
        0x0bd0_0bd0,
        0x4750_4653,
        0x00c3_6400,
    ];
    rustix::fs::statfs(folder).is_ok_and(|found| KNOWN.contains(&(found.f_type as u64 & 0xffff_ffff)))
}

#[cfg(not(target_os = "linux"))]
fn keeps_folder_times(_: &Path) -> bool {
    false
}

/// Device and inode: they identify a folder, whatever links lead to it.
type FolderId = (u64, u64);

/// Modification time in nanoseconds, which tells whether a file has changed.
pub(super) fn version(meta: &fs::Metadata) -> u64 {
    (meta.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(meta.mtime_nsec() as u64)
}

/// The same of what the system says itself. Its types differ from system to system.
fn stat_version(stat: &Stat) -> u64 {
    (i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)) as u64
}

impl Source for LocalSource {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        let folder = self.path(prefix);
        // A missing or unreadable root is the caller's mistake; below it, it is a problem to report.
        fs::read_dir(&folder).map_err(|e| self.fail("listing", prefix, e))?;
        let mut found = Listing::default();
        self.walk(prefix.trim_end_matches('/'), &mut Vec::new(), &mut found);
        Ok(found)
    }

    fn list_folder(&self, folder: &str) -> Result<Option<FolderListing>> {
        self.read_folder(folder).map(Some).map_err(|e| self.fail("listing", folder, e))
    }

    fn folder_version(&self, folder: &str) -> Option<FolderVersion> {
        let path = self.path(folder);
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
        let changed = if keeps_folder_times(&path) { version(&meta) } else { 0 };
        Some(FolderVersion { id: (meta.dev(), meta.ino()), changed })
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.path(name).try_exists().map_err(|e| self.fail("looking for", name, e))
    }

    fn children(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder);
        let entries = fs::read_dir(&path).map_err(|e| self.fail("listing", folder, e))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.fail("listing", folder, e))?;
            // Names that are not UTF-8 are reported by `list`.
            let Ok(mut name) = entry.file_name().into_string() else { continue };
            if is_folder(&entry) {
                name.push('/');
            }
            names.push(name);
        }
        Ok(names)
    }

    fn leads_outside(&self, name: &str) -> Result<bool> {
        let real = |name: &str| self.path(name).canonicalize().map_err(|e| self.fail("opening", name, e));
        Ok(!real(name)?.starts_with(real("")?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        let path = self.path(name);
        let file = File::open(&path).map_err(|e| self.fail("opening", name, e))?;
        let meta = file.metadata().map_err(|e| self.fail("opening", name, e))?;
        if meta.is_dir() {
            return Err(self.fail("opening", name, io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let identity = Identity::of(&meta);
        let direct = if self.stage.bypass.is_asked() {
            let direct = direct::open(&path).map_err(|e| self.fail("opening", name, e))?;
            let again = direct.metadata().map_err(|e| self.fail("opening", name, e))?;
            if Identity::of(&again) != identity {
                return Err(changed(Location::new(path.display().to_string()), meta.len(), again.len()));
            }
            Some(direct)
        } else {
            None
        };
        Ok(Arc::new(LocalObject {
            file,
            direct,
            identity,
            path: path.display().to_string(),
            name: name.to_owned(),
            stage: self.stage.clone(),
        }))
    }

    fn largest_request(&self) -> u64 {
        LARGEST_AHEAD
    }

    fn read_ahead(&self, name: &str, range: Range<u64>, seen: Option<Seen>) -> Option<AheadRead> {
        self.stage.plan(name, self.path(name), range, seen)
    }

    fn opening_finished(&self) {
        self.stage.bypass.opening_finished();
    }

    fn map(&self, name: &str, seen: Option<Seen>) -> Result<MappedFile> {
        if self.stage.bypass.is_asked() {
            let reason = "mapped files are the page cache, which page_cache='bypass' avoids";
            return Err(Error::option("views", reason));
        }
        let file = File::open(self.path(name)).map_err(|e| self.fail("opening", name, e))?;
        let meta = file.metadata().map_err(|e| self.fail("opening", name, e))?;
        if let Some(seen) = seen.filter(|seen| !Identity::of(&meta).agrees(*seen)) {
            return Err(changed(Location::new(self.path(name).display().to_string()), seen.size, meta.len()));
        }
        MappedFile::new(&file).map_err(|e| self.fail("mapping", name, e))
    }

    fn read_whole(&self, name: &str, into: &mut Vec<u8>) -> Result<()> {
        let file = File::open(self.path(name)).map_err(|e| self.fail("opening", name, e))?;
        let size = file.metadata().map_err(|e| self.fail("reading", name, e))?.len();
        into.resize(to_usize(size, &self.uri, name)?, 0);
        file.read_exact_at(into, 0).map_err(|e| self.fail("reading", name, e))
    }

    fn read_unchanged(&self, name: &str, expected: u64, into: &mut [u8]) -> Result<()> {
        let length = into.len() as u64;
        let unchanged = |found: &Identity| found.size == length && found.version == expected;
        if self.stage.serve(name, &(0..length), unchanged, into)? {
            return Ok(());
        }
        let is_direct = self.stage.bypass.is_on();
        let open = |path: PathBuf| if is_direct { direct::open(&path) } else { File::open(path) };
        let file = open(self.path(name)).map_err(|e| self.fail("opening", name, e))?;
        let meta = file.metadata().map_err(|e| self.fail("reading", name, e))?;
        if meta.len() != into.len() as u64 || version(&meta) != expected {
            let place = Location::new(self.path(name).display().to_string());
            return Err(changed(place, into.len() as u64, meta.len()));
        }
        let read =
            if is_direct { direct::read_exact_at(&file, into, 0) } else { file.read_exact_at(into, 0) };
        read.map_err(|e| self.fail("reading", name, e))
    }
}

/// Links count as their targets; only links need a second system call.
fn is_folder(entry: &fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    }
}

#[derive(Debug)]
struct LocalObject {
    file: File,
    /// The same, for reads past the page cache.
    direct: Option<File>,
    identity: Identity,
    path: String,
    /// Its name in the source.
    name: String,
    stage: Arc<Stage>,
}

impl LocalObject {
    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.identity.size {
            return Ok(());
        }
        Err(past_end(Location::new(&self.path), range, self.identity.size))
    }
}

impl Object for LocalObject {
    fn size(&self) -> u64 {
        self.identity.size
    }

    fn version(&self) -> u64 {
        self.identity.version
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(into.len() as u64);
        self.check(&range)?;
        if self.stage.serve(&self.name, &range, |found| *found == self.identity, into)? {
            return Ok(());
        }
        let read = match &self.direct {
            Some(file) if self.stage.bypass.is_on() => direct::read_exact_at(file, into, offset),
            _ => self.file.read_exact_at(into, offset),
        };
        read.map_err(|error| match error.kind() {
            // The file shrank after it was opened.
            io::ErrorKind::UnexpectedEof => past_end(Location::new(&self.path), &range, self.identity.size),
            _ => Error::storage("reading", Location::new(&self.path).with_offset(offset), error),
        })
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        self.check(&range)?;
        let mut bytes = room_for(range.end - range.start, &self.path, "")?;
        self.read_at(range.start, &mut bytes)?;
        Ok(HeldBytes::Owned(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conforms() {
        let folder = tempfile::tempdir().unwrap();
        super::super::conformance::check(|objects| {
            for (name, bytes) in objects {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Arc::new(LocalSource::new(folder.path()))
        });
    }

    #[test]
    fn a_truncated_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        fs::write(&path, [7; 100]).unwrap();
        let object = LocalSource::new(folder.path()).open("a.bin").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(10).unwrap();
        let message = object.read_at(0, &mut [0; 50]).unwrap_err().to_string();
        assert!(message.contains("a.bin") && message.contains("truncated"), "{message}");
    }

    #[test]
    fn held_bytes_survive_truncation_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let held = LocalSource::new(folder.path()).open("a.bin").unwrap().hold(0..1 << 20).unwrap();
        // With a mapping the process would end here, because its pages disappear when the file is truncated.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        assert!(held.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_link_loop_ends() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        fs::write(folder.path().join("a"), b"x").unwrap();
        let found = LocalSource::new(folder.path()).list("").unwrap();
        assert_eq!((found.entries.len(), found.problems.len()), (1, 1));
    }
}
