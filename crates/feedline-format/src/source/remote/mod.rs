//! Objects in S3 and compatible stores, Google Cloud Storage, Azure, and behind http(s).
//!
//! Async code stays in this folder: nothing else uses `tokio`, `object_store`, `bytes` or `futures_util`
//! (`tests/layering.rs` checks it). Outside, a read blocks the thread that needs the bytes; what the loader's order
//! makes predictable is fetched ahead through [`Source::prefetch`].
//!
//! Every answer must agree with the object's state when it was first seen (ETag, or modification time, and length).
//! Bytes of two versions are never mixed, not even when an interrupted body is resumed.

mod address;
mod connection;
mod direct;
mod fault;
mod fetch;
mod landing;
mod listing;
mod options;
mod profile;
mod resolve;
mod runtime;
mod staged;
mod store;
mod upload;
mod wire;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object_store::ObjectMeta;
use object_store::path::Path;

use self::address::{Address, Scheme};
use self::connection::Connection;
use self::fetch::{ObjectVersion, RangeRequest};
use self::listing::Folder;
use self::options::Options;
use self::options::{bytes, seconds};
pub(super) use self::resolve::{folder_at, is_remote, resolve, sink_at};
pub(super) use self::runtime::hold;
use self::wire::UnusableKey;
use super::{
    Entry, HeldBytes, Listing, Object, Seen, Source, Storage, Ticket, Traffic, changed, past_end, room_for,
};
use crate::error::{Error, Location, Result};

/// A bucket with a prefix, or a web server with a folder.
#[derive(Debug)]
pub struct RemoteSource {
    address: Address,
    uri: String,
    link: Arc<StoreLink>,
    /// Answers remembered while a data set is being opened: every format asks for the same few things, and each
    /// answer takes a round trip.
    found: Mutex<Option<RememberedAnswers>>,
    /// Keys in listings that cannot be names.
    unusable: Mutex<BTreeSet<UnusableKey>>,
}

#[derive(Debug, Default)]
struct RememberedAnswers {
    children: HashMap<String, Folder>,
    wholes: HashMap<String, Arc<[u8]>>,
    /// For a folder of a web server: which of [`INDEXES`] exist.
    indexes: Option<Vec<String>>,
}

/// Files that formats find by listing a folder; a web server must be asked for them by name.
const INDEXES: [&str; 1] = ["wids.json"];

/// Longer objects are read again rather than remembered.
const REMEMBERED_BYTES: usize = 4 << 20;

/// How to reach the store, in this process and in its forks.
#[derive(Debug)]
struct StoreLink {
    address: Address,
    options: Options,
    /// Made again in a forked child, which has none of the parent's threads.
    connection: Mutex<Arc<Connection>>,
    /// Set when a listing had no ETags, as with some servers: all versions are then made from times.
    by_time: AtomicBool,
}

impl StoreLink {
    fn connection(&self) -> Result<Arc<Connection>> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.process != std::process::id() {
            let fresh = Arc::new(Connection::new(&self.address, &self.options)?);
            // Dropping the parent's connection might wait for the parent's threads.
            std::mem::forget(std::mem::replace(&mut *connection, fresh));
        }
        Ok(connection.clone())
    }
}

impl RemoteSource {
    /// The folder that `address` names. No request is sent yet.
    pub(crate) fn new(address: Address, storage: &Storage) -> Result<Self> {
        let options = Options::parse(address.scheme.name(), &storage.options)?;
        let connection = Mutex::new(Arc::new(Connection::new(&address, &options)?));
        let link = Arc::new(StoreLink {
            address: address.clone(),
            options,
            connection,
            by_time: AtomicBool::new(false),
        });
        Ok(RemoteSource {
            uri: address.uri(),
            address,
            link,
            found: Mutex::new(None),
            unusable: Mutex::default(),
        })
    }

    /// Remembers what is found until [`Source::opening_finished`].
    pub(crate) fn remembering(self) -> Self {
        RemoteSource { found: Mutex::new(Some(RememberedAnswers::default())), ..self }
    }

    fn recall<T>(&self, what: impl FnOnce(&mut RememberedAnswers) -> T) -> Option<T> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(what)
    }

    /// Opens a uri's folder: `s3://bucket/prefix`, `https://host/folder`.
    pub fn open_uri(uri: &str, storage: &Storage) -> Result<Self> {
        RemoteSource::new(Address::parse(uri)?, storage)
    }

    fn place(&self, name: &str) -> Location {
        let place = Location::new(&self.uri);
        if name.is_empty() { place } else { place.with_shard(name) }
    }

    fn path(&self, name: &str) -> Result<Path> {
        let key = match (self.address.key.as_str(), name.trim_matches('/')) {
            ("", name) => name.to_owned(),
            (key, "") => key.to_owned(),
            (key, name) => format!("{key}/{name}"),
        };
        Path::parse(key).map_err(|e| Error::data(self.place(name), format!("not a name for an object: {e}")))
    }

    /// An object's name below the root.
    fn name(&self, path: &Path) -> Option<String> {
        let below = path.as_ref().strip_prefix(&self.address.key)?;
        let name = if self.address.key.is_empty() { below } else { below.strip_prefix('/')? };
        (!name.is_empty()).then(|| name.to_owned())
    }

    fn object(&self, name: &str, promised: ObjectVersion) -> Result<RemoteObject> {
        Ok(RemoteObject {
            name: name.to_owned(),
            place: self.place(name),
            path: self.path(name)?,
            promised,
            confirmed: OnceLock::new(),
            link: self.link.clone(),
        })
    }

    fn no_listing(&self) -> Error {
        let reason = "a web server does not list its files, and no index was found (feedline.json, index.json, \
                      wids.json)\nhint: name the files (braces such as part-{000..011}.tar are expanded), open a \
                      folder with an index, or use the store's own address (s3://…)";
        Error::storage("listing", self.place(""), io::Error::new(io::ErrorKind::Unsupported, reason))
    }

    fn note(&self, unusable: impl IntoIterator<Item = UnusableKey>) {
        self.unusable.lock().unwrap_or_else(PoisonError::into_inner).extend(unusable);
    }

    /// The error for a key that exists but cannot be part of a data set.
    fn problem(&self, unusable: &UnusableKey) -> Error {
        let key = unusable.0.strip_prefix(&self.address.key).unwrap_or(&unusable.0);
        let reason = format!("skipped: the key {}", unusable.why());
        Error::data(self.place(&format!("{:?}", key.strip_prefix('/').unwrap_or(key))), reason)
    }

    fn not_found(&self, folder: &str) -> Error {
        let error = io::Error::new(io::ErrorKind::NotFound, "there is nothing below this name");
        Error::storage("listing", self.place(folder), error)
    }

    /// Whether anything exists below the root.
    pub(crate) fn is_folder(&self) -> Result<bool> {
        Ok(self.folder("")?.exists)
    }

    /// Lists one folder, without its subfolders.
    fn folder(&self, folder: &str) -> Result<Folder> {
        if let Some(known) = self.recall(|found| found.children.get(folder).cloned()).flatten() {
            return Ok(known);
        }
        let (connection, path) = (self.link.connection()?, self.path(folder)?);
        let listed = connection.wait(listing::folder(&connection, &path, self.place(folder)))?;
        self.note(listed.unusable.iter().cloned());
        self.recall(|found| found.children.insert(folder.to_owned(), listed.clone()));
        Ok(listed)
    }

    fn indexes(&self) -> Result<Vec<String>> {
        if let Some(known) = self.recall(|found| found.indexes.clone()).flatten() {
            return Ok(known);
        }
        let mut there = Vec::new();
        for name in INDEXES {
            if self.request_version(name)?.is_some() {
                there.push(name.to_owned());
            }
        }
        self.recall(|found| found.indexes = Some(there.clone()));
        Ok(there)
    }

    /// Whether an object exists, if the names found in the root tell.
    fn exists_in_listing(&self, name: &str) -> Option<bool> {
        let (first, below) = name.split_once('/').map_or((name, false), |(first, _)| (first, true));
        self.recall(|found| {
            let names = &found.children.get("")?.names;
            let folder = || names.iter().any(|n| n.strip_suffix('/') == Some(first));
            if below { (!folder()).then_some(false) } else { Some(names.iter().any(|n| n == first)) }
        })
        .flatten()
    }

    /// The object's state now; `None` if it does not exist. A range that is being fetched tells it too.
    fn request_version(&self, name: &str) -> Result<Option<ObjectVersion>> {
        let connection = self.link.connection()?;
        if let Some(known) = connection.stage.any(name).and_then(|staged| staged.known()) {
            return Ok(Some(known));
        }
        connection.wait(connection.head(&self.path(name)?, self.place(name)))
    }
}

impl Source for RemoteSource {
    fn uri(&self) -> &str {
        &self.uri
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn traffic(&self) -> Traffic {
        self.link.connection().map_or_else(|_| Traffic::default(), |connection| connection.counts.traffic())
    }

    fn largest_request(&self) -> u64 {
        self.link.options.transfer.part_size
    }

    fn is_near(&self) -> bool {
        self.link.connection().is_ok_and(|connection| connection.is_near())
    }

    fn list(&self, prefix: &str) -> Result<Listing> {
        if self.address.scheme == Scheme::Http {
            return Err(self.no_listing());
        }
        let (connection, path) = (self.link.connection()?, self.path(prefix)?);
        let listed = connection.wait(listing::list_all(&connection, &path, self.place(prefix)))?;
        if listed.is_empty() {
            return Err(self.not_found(prefix));
        }
        let by_time = !listed.objects.iter().all(|meta| ObjectVersion::of(meta).is_tagged());
        if by_time {
            self.link.by_time.store(true, Ordering::Relaxed);
        }
        let entry = |meta: &ObjectMeta| {
            let name = self.name(&meta.location)?;
            Some(Entry { name, size: meta.size, version: ObjectVersion::of(meta).version(by_time)? })
        };
        let entries = listing::without_markers(listed.objects.iter().filter_map(entry).collect());
        let problems = listed.unusable.iter().map(|unusable| self.problem(unusable)).collect();
        self.note(listed.unusable);
        Ok(Listing { entries, problems })
    }

    fn left_out(&self) -> Vec<Error> {
        let unusable = self.unusable.lock().unwrap_or_else(PoisonError::into_inner);
        // A folder's key is redundant if a key inside it is listed.
        let inside = |(one, next): (&UnusableKey, Option<&UnusableKey>)| {
            next.is_none_or(|next| !next.0.starts_with(&one.0))
        };
        let nexts = unusable.iter().skip(1).map(Some).chain([None]);
        unusable
            .iter()
            .zip(nexts)
            .filter(|pair| inside(*pair))
            .map(|(unusable, _)| self.problem(unusable))
            .collect()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        match self.exists_in_listing(name) {
            Some(exists) => Ok(exists),
            None => Ok(self.request_version(name)?.is_some()),
        }
    }

    fn opening_finished(&self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A web server has no listing, but formats with an index are found all the same. The one index that is found by
    /// its name in a listing is requested here.
    fn children(&self, folder: &str) -> Result<Vec<String>> {
        if self.address.scheme == Scheme::Http {
            return if folder.is_empty() { self.indexes() } else { Ok(Vec::new()) };
        }
        let found = self.folder(folder)?;
        if !found.exists {
            return Err(self.not_found(folder));
        }
        Ok(found.names)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Object>> {
        let missing = || Error::storage("opening", self.place(name), io::ErrorKind::NotFound.into());
        let known = self.request_version(name)?.ok_or_else(missing)?;
        Ok(Arc::new(self.object(name, known)?))
    }

    /// Sends no request: the first read checks the version.
    fn open_seen(&self, name: &str, seen: Seen) -> Result<Arc<dyn Object>> {
        Ok(Arc::new(self.object(name, ObjectVersion::seen(seen.size, seen.version))?))
    }

    fn read_whole(&self, name: &str, into: &mut Vec<u8>) -> Result<()> {
        if let Some(bytes) = self.recall(|found| found.wholes.get(name).cloned()).flatten() {
            into.clear();
            into.extend_from_slice(&bytes);
            return Ok(());
        }
        let connection = self.link.connection()?;
        connection.wait(connection.whole(&self.path(name)?, self.place(name), into))?;
        if into.len() <= REMEMBERED_BYTES {
            self.recall(|found| found.wholes.insert(name.to_owned(), into.as_slice().into()));
        }
        Ok(())
    }

    fn read_unchanged(&self, name: &str, version: u64, into: &mut [u8]) -> Result<()> {
        self.object(name, ObjectVersion::seen(into.len() as u64, version))?.read_at(0, into)
    }

    fn forget(&self, name: &str, range: &Range<u64>) {
        if let Ok(connection) = self.link.connection() {
            connection.stage.forget(name, range);
        }
    }

    fn background(&self, job: Box<dyn FnOnce() + Send>) -> Option<Ticket> {
        runtime::background(job).ok().map(Ticket::new)
    }

    fn prefetch(&self, name: &str, range: Range<u64>, seen: Option<Seen>) -> Option<Ticket> {
        let connection = self.link.connection().ok()?;
        let known = seen.map(|seen| ObjectVersion::seen(seen.size, seen.version));
        let (path, place) = (self.path(name).ok()?, self.place(name));
        let request = RangeRequest { path, place, range, known, landing: None };
        Some(Ticket::new(staged::begin(&connection, name, request)))
    }
}

/// One object, pinned to what it was when opened.
#[derive(Debug)]
struct RemoteObject {
    name: String,
    place: Location,
    path: Path,
    /// The expected state: as the store confirmed, or as an index says.
    promised: ObjectVersion,
    /// The state that came with the first bytes, where `promised` says less.
    confirmed: OnceLock<ObjectVersion>,
    link: Arc<StoreLink>,
}

impl RemoteObject {
    fn known(&self) -> &ObjectVersion {
        self.confirmed.get().unwrap_or(&self.promised)
    }

    /// From now on, every answer must agree with this one.
    fn must_agree(&self, now: ObjectVersion) -> Result<()> {
        let confirmed = self.confirmed.get_or_init(|| now.clone());
        if confirmed.agrees(&now) {
            return Ok(());
        }
        Err(changed(self.place.clone(), confirmed.size, now.size))
    }

    fn confirm(&self) -> Result<()> {
        let connection = self.link.connection()?;
        let now = connection.wait(connection.head(&self.path, self.place.clone()))?;
        let missing = || Error::storage("opening", self.place.clone(), io::ErrorKind::NotFound.into());
        self.must_agree(now.ok_or_else(missing)?)
    }

    fn check(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.promised.size {
            return Ok(());
        }
        Err(past_end(self.place.clone(), range, self.promised.size))
    }
}

impl Object for RemoteObject {
    fn size(&self) -> u64 {
        self.promised.size
    }

    fn version(&self) -> u64 {
        let version = || self.known().version(self.link.by_time.load(Ordering::Relaxed));
        // An unknown version is 0; a read then reports why.
        version().or_else(|| self.confirm().ok().and_then(|()| version())).unwrap_or(0)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(into.len() as u64);
        self.check(&range)?;
        if into.is_empty() {
            return Ok(());
        }
        let connection = self.link.connection()?;
        if let Some(staged) = connection.stage.find(&self.name, &range)
            && let Some(now) = staged.read(offset, into, self.known(), &self.place)?
        {
            return self.must_agree(now);
        }
        let (path, place) = (self.path.clone(), self.place.clone());
        let request = RangeRequest { path, place, range, known: Some(self.known().clone()), landing: None };
        self.must_agree(connection.wait(connection.fill(request, into))?)
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        self.check(&range)?;
        let mut bytes = room_for(range.end - range.start, &self.place.uri, &self.name)?;
        self.read_at(range.start, &mut bytes)?;
        Ok(HeldBytes::Owned(bytes.into()))
    }
}

#[cfg(test)]
mod tests;
