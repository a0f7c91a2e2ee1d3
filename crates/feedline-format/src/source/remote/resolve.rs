//! What a remote uri stands for: an object, a folder, or the objects that a pattern matches.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::uri::{braces, common_folder};
use super::super::{CachedSource, Sink, Source, Storage, Target};
use super::{Address, RemoteSource, Scheme, bytes, seconds};
use crate::error::{Error, Location, Result};

/// Whether the uri has one of the schemes that are read over a network.
pub(in crate::source) fn is_remote(uri: &str) -> bool {
    Scheme::of(uri).is_some()
}

/// A folder or prefix by itself, to find files in by name.
pub(in crate::source) fn folder_at(uri: &str, storage: &Storage) -> Result<Arc<dyn Source>> {
    let mut address = Address::parse(uri)?;
    address.folder = true;
    with_cache(RemoteSource::new(address, storage)?, storage)
}

/// A prefix for writing.
pub(in crate::source) fn sink_at(uri: &str, storage: &Storage) -> Result<Arc<dyn Sink>> {
    Ok(Arc::new(RemoteSource::open_uri(uri, storage)?))
}

/// Finds what the uris stand for. Patterns are expanded in the order given, each sorted by name.
pub(in crate::source) fn resolve(uris: &[String], storage: &Storage) -> Result<Target> {
    let mut found: Vec<Address> = Vec::new();
    for uri in uris {
        for plain in braces(uri)? {
            expand_remote(&plain, storage, &mut found)?;
        }
    }
    match found.as_slice() {
        [] => Err(Error::option("uri", "nothing to open: the list is empty")),
        [only] => {
            let remote = RemoteSource::new(only.clone(), storage)?.remembering();
            if is_folder(only, &remote)? {
                return Ok(Target::Folder(with_cache(remote, storage)?));
            }
            remote_objects(&found, storage)
        }
        several => remote_objects(several, storage),
    }
}

/// With the disk cache before it, if there is one.
fn with_cache(remote: RemoteSource, storage: &Storage) -> Result<Arc<dyn Source>> {
    let remote: Arc<dyn Source> = Arc::new(remote);
    let Some(folder) = &storage.cache_dir else { return Ok(remote) };
    let limit = storage.options.get("cache_bytes").map(|value| bytes("cache_bytes", value)).transpose()?;
    let timer = storage.options.get("cache_lock_timeout").map(|value| seconds("cache_lock_timeout", value));
    Ok(Arc::new(CachedSource::with_lock_timeout(remote, folder, limit, timer.transpose()?)?))
}

/// Whether an address is a folder: whether something lies below it. A web server cannot be asked, and who may not list
/// cannot either: there, files have a dot in their names.
fn is_folder(address: &Address, remote: &RemoteSource) -> Result<bool> {
    if address.folder {
        return Ok(true);
    }
    let looks_like_a_file = address.key.rsplit('/').next().is_some_and(|name| name.contains('.'));
    if address.scheme == Scheme::Http {
        return Ok(!looks_like_a_file);
    }
    match remote.is_folder() {
        Err(Error::Storage { source, .. })
            if looks_like_a_file && source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Ok(false)
        }
        found => found,
    }
}

/// Stars and question marks: what is listed below the folder before the first of them, and matches.
fn expand_remote(uri: &str, storage: &Storage, found: &mut Vec<Address>) -> Result<()> {
    let address = Address::parse(uri)?;
    let Some(star) = address.key.find(['*', '?', '[']) else {
        found.push(address);
        return Ok(());
    };
    let pattern = glob::Pattern::new(&address.key)
        .map_err(|e| Error::option("uri", format!("bad pattern {uri}: {e}")))?;
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let folder = address.key[..star].rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let whole = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let listed = RemoteSource::new(address.with_key(&*folder), storage)?.list("")?;
    let mut keys: Vec<String> = listed.entries.iter().map(|entry| whole(&entry.name)).collect();
    keys.retain(|key| pattern.matches_with(key, options));
    if keys.is_empty() {
        return Err(Error::data(Location::new(uri), "no object matches this pattern"));
    }
    keys.sort();
    found.extend(keys.into_iter().map(|key| address.with_key(key)));
    Ok(())
}

/// All addresses as names below their deepest common folder.
fn remote_objects(addresses: &[Address], storage: &Storage) -> Result<Target> {
    let first = &addresses[0];
    if let Some(other) = addresses.iter().find(|other| !first.same_root(other)) {
        let reason = format!(
            "{} and {} are in different buckets or on different servers; open them one by one and join them with concat",
            first.uri(),
            other.uri()
        );
        return Err(Error::option("uri", reason));
    }
    let paths: Vec<PathBuf> = addresses.iter().map(|address| PathBuf::from(&address.key)).collect();
    let root = common_folder(&paths);
    let name = |path: &PathBuf| path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
    let names = paths.iter().map(name).collect();
    let root = first.with_key(root.to_string_lossy());
    let remote = RemoteSource::new(root, storage)?.remembering();
    Ok(Target::Objects(with_cache(remote, storage)?, names))
}
