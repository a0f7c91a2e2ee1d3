//! WHERE BYTES ARE STORED.
//!
//! A [`Source`] is a root (a folder, a bucket prefix). Its [`Object`]s are found by name and read by range.
//!
//! Implementers guarantee: a read returns exactly the requested bytes or an error that names the object; `size` stays
//! what it was at `open`; a range past the end is an error, never a short read; every method may be called from many
//! threads at once. No read has a side effect that another read could see. A source knows nothing about samples or
//! formats.

mod ahead;
mod cache;
#[cfg(feature = "remote")]
mod cells;
mod direct;
mod file_lock;
mod folder_files;
mod fork;
mod local;
mod memory;
mod mmap;
pub(crate) mod private;
#[cfg_attr(not(feature = "remote"), path = "no_remote.rs")]
mod remote;
mod sink;
mod spare_buffers;
mod traffic;
mod uri;
mod wanted;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Location, Result};

pub use ahead::AheadRead;
pub use cache::{CacheReport, CachedEntry, CachedSource, DiskCache};
pub(crate) use file_lock::LockedFile;
pub use folder_files::{FolderFile, FolderFiles};
pub use fork::{after_fork, before_fork, start_thread};
pub use local::LocalSource;
pub use memory::MemorySource;
pub use mmap::MappedFile;
pub(crate) use mmap::{Mapping, hold_own};
pub use private::is_own;
#[cfg(feature = "remote")]
pub use remote::RemoteSource;
#[cfg(test)]
pub(crate) use sink::FolderSink;
pub use sink::{Destination, Sink};
pub(crate) use sink::{open_sink, staging_folder};
pub(crate) use traffic::add_wait;
pub use traffic::{Traffic, take_waited};
pub(crate) use uri::folder_at;
pub use uri::{Target, resolve};
pub use uri::{absolute, pieces, split_joined};
pub use wanted::check_wanted;
pub use wanted::while_wanted;
pub(crate) use wanted::{cancel_flag, with_flag};

/// How to reach remote data, and where to cache them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// Credentials, endpoint, region and the like, by the names users know.
    pub options: BTreeMap<String, String>,
    /// Folder for fetched bytes; `None` keeps nothing on disk.
    pub cache_dir: Option<PathBuf>,
}

impl Storage {
    /// These credentials and settings, without a cache.
    pub fn new(options: BTreeMap<String, String>) -> Self {
        Storage { options, cache_dir: None }
    }
}

crate::setters! {
    Storage:
    /// Credentials, endpoint, region and the like.
    with_options: options = BTreeMap<String, String>;
    /// Folder for fetched bytes.
    with_cache_dir: cache_dir = PathBuf;
}

/// Values may be secrets: messages and logs show only the names.
impl Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.options.keys().collect();
        f.debug_struct("Storage").field("options", &names).field("cache_dir", &self.cache_dir).finish()
    }
}

/// An object's name, size and version, from a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name relative to the source's root, parts joined by `/`.
    pub name: String,
    /// Length in bytes.
    pub size: u64,
    /// A tag that changes when the content may have changed: modification time in nanoseconds, or a hash of an ETag.
    pub version: u64,
}

/// State of an object when it was seen: its length and the tag of [`Entry::version`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Length in bytes.
    pub size: u64,
    /// Changes when the content may have changed.
    pub version: u64,
}

/// A root below which objects are found. See the module's contract.
pub trait Source: Send + Sync + Debug {
    /// The root as the user would write it.
    fn uri(&self) -> &str;

    /// Lists every object below `prefix` (a folder name, or empty), in no particular order, and what could not be
    /// listed.
    fn list(&self, prefix: &str) -> Result<Listing>;

    /// Whether the object exists.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Names directly in `folder` (or in the root, if empty), in no particular order; folders end in `/`. Cheaper
    /// than [`list`](Self::list): files are not inspected and folders are not entered.
    fn children(&self, folder: &str) -> Result<Vec<String>> {
        let prefix =
            if folder.is_empty() { String::new() } else { format!("{}/", folder.trim_end_matches('/')) };
        let mut names = std::collections::BTreeSet::new();
        for entry in self.list(folder)?.entries {
            let below = entry.name.strip_prefix(&prefix).unwrap_or(&entry.name);
            let end = below.find('/').map_or(below.len(), |slash| slash + 1);
            names.insert(below[..end].to_owned());
        }
        Ok(names.into_iter().collect())
    }

    /// Whether reads cross a network, so that it is worth fetching bytes before they are needed.
    fn is_remote(&self) -> bool {
        false
    }

    /// Harmless problems that should be reported once (a cache that cannot be written).
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What was asked for so far. All zeros for what is on this machine.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Objects that listings skipped because their keys cannot be names. One error each.
    fn left_out(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Maximum number of bytes that one request of a [`prefetch`](Self::prefetch) should ask for.
    fn largest_request(&self) -> u64 {
        8 << 20
    }

    /// Whether answers come so quickly that reading a few megabytes ahead keeps the network busy.
    fn is_near(&self) -> bool {
        false
    }

    /// Begins to fetch a range in the background. Until the ticket is dropped, reads inside the range are served from
    /// it and wait for it where they must. `seen` is the object's state when the data set was opened, if known.
    /// `None` if there is nothing to gain.
    fn prefetch(&self, _name: &str, _range: Range<u64>, _seen: Option<Seen>) -> Option<Ticket> {
        None
    }

    /// Plans a read of a local file for a thread of the caller's to do, so that whoever needs the bytes does not wait for
    /// storage. `seen` as for [`prefetch`](Self::prefetch). `None` if there is nothing to gain.
    fn read_ahead(&self, _name: &str, _range: Range<u64>, _seen: Option<Seen>) -> Option<AheadRead> {
        None
    }

    /// Runs `job` in the background beside the prefetches of this source, unless the ticket is dropped before it
    /// begins. `None` if there is nothing to gain; the job is then not run.
    fn background(&self, _job: Box<dyn FnOnce() + Send>) -> Option<Ticket> {
        None
    }

    /// Forgets prefetched or cached copies of these bytes, because they are damaged. The next read fetches them
    /// again.
    fn forget(&self, _name: &str, _range: &Range<u64>) {}

    /// Lists one `folder` (or the root, if empty). `None` from sources that list everything below a prefix as easily
    /// as one folder; use [`list`](Self::list) then.
    fn list_folder(&self, _folder: &str) -> Result<Option<FolderListing>> {
        Ok(None)
    }

    /// The version that [`list_folder`](Self::list_folder) would return for the folder now, without listing it.
    /// `None` if it is unknown, or may stay the same when the folder changes.
    fn folder_version(&self, _folder: &str) -> Option<FolderVersion> {
        None
    }

    /// Maps a whole object into memory, of the length that it had when the data set was opened.
    ///
    /// A file that is truncated while it is mapped ends the process (SIGBUS), and one that is written shows its new bytes:
    /// only for users who asked for it.
    fn map(&self, name: &str, _seen: Option<Seen>) -> Result<MappedFile> {
        Err(Error::data(Location::new(self.uri()).with_shard(name), "only local files can be mapped"))
    }

    /// Opens one object.
    fn open(&self, name: &str) -> Result<Arc<dyn Object>>;

    /// Opens an object that was seen earlier, or that an index describes (version 0: any version). If the object has
    /// changed, this or the first read returns an error.
    fn open_seen(&self, name: &str, seen: Seen) -> Result<Arc<dyn Object>> {
        open_checked(self, name, seen)
    }

    /// Called once a data set is open: names and small files that were remembered until then are fetched again from
    /// now on.
    fn opening_finished(&self) {}

    /// Whether `name` is a symbolic link out of this source. Stores have no links.
    fn leads_outside(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// Reads a whole object into `into` (replacing its content) in as few system calls as possible. For folders of
    /// small files, where opening is a large part of the cost.
    fn read_whole(&self, name: &str, into: &mut Vec<u8>) -> Result<()> {
        let object = self.open(name)?;
        into.resize(to_usize(object.size(), self.uri(), name)?, 0);
        object.read_at(0, into)
    }

    /// Fills `into` with a whole object that an earlier listing showed with this length and version. An error if it
    /// has changed. Sources for which the version costs extra check only the length.
    fn read_unchanged(&self, name: &str, _version: u64, into: &mut [u8]) -> Result<()> {
        let object = self.open(name)?;
        if object.size() != into.len() as u64 {
            return Err(changed(
                Location::new(self.uri()).with_shard(name),
                into.len() as u64,
                object.size(),
            ));
        }
        object.read_at(0, into)
    }
}

/// Opens an object and compares it with `seen`.
fn open_checked(source: &(impl Source + ?Sized), name: &str, seen: Seen) -> Result<Arc<dyn Object>> {
    let object = source.open(name)?;
    let place = || Location::new(source.uri()).with_shard(name);
    if object.size() != seen.size {
        let reason = format!("{} bytes long, {} expected: truncated or replaced", object.size(), seen.size);
        return Err(Error::data(place(), reason));
    }
    if seen.version != 0 && object.version() != seen.version {
        return Err(changed(place(), seen.size, object.size()));
    }
    Ok(object)
}

/// Holds a range that is fetched ahead. Dropping it cancels the rest of the transfer and frees the bytes.
#[derive(Debug)]
pub struct Ticket {
    #[expect(dead_code, reason = "held for what dropping it does")]
    held: Box<dyn std::any::Any + Send + Sync>,
}

impl Ticket {
    /// A ticket that drops `held` when it is dropped.
    pub fn new(held: impl Send + Sync + 'static) -> Self {
        Ticket { held: Box::new(held) }
    }
}

/// The error for an object that has changed since the data set was opened.
pub(crate) fn changed(location: Location, before: u64, now: u64) -> Error {
    let what = if before == now {
        "was written again".to_owned()
    } else {
        format!("had {before} bytes, now has {now}")
    };
    Error::data(location, format!("changed since the data set was opened: it {what}"))
        .with_hint("open the data set again")
}

/// Result of a listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The objects.
    pub entries: Vec<Entry>,
    /// What could not be inspected (no permission, broken link), one error each.
    pub problems: Vec<Error>,
}

/// Tells whether a folder still contains the same names. The files themselves may have changed: rewriting a file in
/// place does not change its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderVersion {
    /// Device and inode: they identify a folder, whatever links lead to it.
    pub id: (u64, u64),
    /// Modification time in nanoseconds; 0 if it is not reliable.
    pub changed: u64,
}

/// Content of one folder, without its subfolders' content.
#[derive(Clone, Debug, Default)]
pub struct FolderListing {
    /// The folder's version before it was read.
    pub version: FolderVersion,
    /// The files.
    pub files: FolderFiles,
    /// The folders, by their own names.
    pub folders: Vec<String>,
    /// What could not be inspected (no permission, broken link), one error each.
    pub problems: Vec<Error>,
}

/// One open object. See the module's contract.
pub trait Object: Send + Sync + Debug {
    /// Length in bytes, as of opening.
    fn size(&self) -> u64;

    /// The same tag as [`Entry::version`], as of opening; 0 if the source does not know.
    fn version(&self) -> u64 {
        0
    }

    /// Fills `into` with the bytes from `offset` on.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Reads a range that is kept for long (an index) into memory. It is not mapped, because other programs may
    /// truncate the file, and that would end the process.
    fn hold(&self, range: Range<u64>) -> Result<HeldBytes>;
}

/// Bytes that are kept: read into memory, or mapped from one of feedline's own files.
#[derive(Debug, Clone)]
pub enum HeldBytes {
    /// Read into memory.
    Owned(Arc<Vec<u8>>),
    /// Mapped from a file that never changes.
    #[expect(private_interfaces, reason = "a mapping is only ever used as the bytes it derefs to")]
    Mapped(Arc<Mapping>),
}

impl Deref for HeldBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            HeldBytes::Owned(bytes) => bytes,
            HeldBytes::Mapped(mapping) => mapping,
        }
    }
}

/// The user's folder for files that can be made or fetched again: `$FEEDLINE_CACHE_DIR`, or the system's cache
/// folder.
pub(crate) fn cache_root() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("FEEDLINE_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|p| p.join("feedline")))
        .or_else(|| set("HOME").map(|p| p.join(".cache/feedline")))
}

/// Zeroed memory for `length` bytes of a file or object.
pub(crate) fn room_for(length: u64, uri: &str, name: &str) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    let count = to_usize(length, uri, name)?;
    room.try_reserve_exact(count).map_err(|_| {
        Error::out_of_memory(length, format!("reading {}", Location::new(uri).with_shard(name)))
    })?;
    room.resize(count, 0);
    Ok(room)
}

/// Converts a length that must fit in memory.
pub(crate) fn to_usize(length: u64, uri: &str, name: &str) -> Result<usize> {
    usize::try_from(length).map_err(|_| {
        Error::data(Location::new(uri).with_shard(name), format!("{length} bytes do not fit in memory"))
    })
}

/// The error for a range past the end.
pub(crate) fn past_end(location: Location, range: &Range<u64>, size: u64) -> Error {
    let offset = range.start;
    Error::data(
        location.with_offset(offset),
        format!(
            "bytes {}..{} requested, but the file ends at {size}: it is truncated or was replaced",
            range.start, range.end
        ),
    )
}

#[cfg(test)]
mod conformance;
