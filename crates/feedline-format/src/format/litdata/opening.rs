//! What is read before the first chunk: the index, the folder's listing, the key.

use super::fernet::{self, Fernet};
use super::index::{ChunkEntry, Index};
use crate::error::{Error, Location, Result};
use crate::format::convert::refuse_unfinished;
use crate::format::{ReadingOptions, parallel};
use crate::sample::Fingerprint;
use crate::source::{Entry, Source};

pub(super) const INDEX: &str = "index.json";

/// The index of a single writer, which exists if the writers have not finished.
pub(super) fn unmerged(source: &dyn Source) -> Result<Option<String>> {
    let mut names = source.children("")?;
    names.sort();
    let is_part = |name: &String| {
        let number = name.strip_suffix(".index.json").or_else(|| name.strip_suffix("-index.json"));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    Ok(names.into_iter().find(is_part))
}

/// `index.json`, or why it does not exist.
pub(super) fn read_index(source: &dyn Source) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if source.exists(INDEX)? {
        source.read_whole(INDEX, &mut bytes)?;
        return Ok(bytes);
    }
    refuse_unfinished(source)?;
    let place = Location::new(source.uri());
    Err(match unmerged(source)? {
        Some(name) => Error::data(
            place.with_shard(name),
            "the writers' indexes were not merged into index.json",
        )
        .with_hint(
            "the writer is still running or was stopped; let litdata.optimize() finish, or run it again",
        ),
        None => Error::data(place, "there is no index.json in this folder"),
    })
}

/// Name, length and version of every chunk in the index.
pub(super) fn find_chunks(source: &dyn Source, index: &Index) -> Result<Vec<(String, u64, u64)>> {
    let listed = match source.list("") {
        Ok(listing) => listing.entries,
        // A web server cannot list: each chunk is requested.
        Err(Error::Storage { source: error, .. }) if error.kind() == std::io::ErrorKind::Unsupported => {
            look_at(source, index)?
        }
        Err(error) => return Err(error),
    };
    let found: std::collections::HashMap<&str, (u64, u64)> =
        listed.iter().map(|e| (e.name.as_str(), (e.size, e.version))).collect();
    let find = |entry: &ChunkEntry| {
        let (size, version) = found.get(entry.filename.as_str()).ok_or_else(|| {
            let place = Location::new(source.uri()).with_shard(&entry.filename);
            Error::data(place, "index.json lists this chunk, but it is not there")
        })?;
        Ok((entry.filename.clone(), *size, *version))
    };
    index.chunks.iter().map(find).collect()
}

fn look_at(source: &dyn Source, index: &Index) -> Result<Vec<Entry>> {
    parallel::collect(index.chunks.len(), |number| {
        let name = index.chunks[number].filename.clone();
        let object = source.open(&name)?;
        Ok(Entry { name, size: object.size(), version: object.version() })
    })
}

/// The fingerprint of the index and of every chunk's name, length and version.
pub(super) fn fingerprint(index: &[u8], objects: &[(String, u64, u64)]) -> Fingerprint {
    let mut files = Vec::new();
    for (name, size, version) in objects {
        files.extend_from_slice(name.as_bytes());
        files.push(0);
        files.extend_from_slice(&size.to_le_bytes());
        files.extend_from_slice(&version.to_le_bytes());
    }
    Fingerprint::of([&b"litdata"[..], index, &files])
}

/// First sample of each chunk, and the number of samples.
pub(super) fn starts(index: &Index) -> Result<Vec<u64>, String> {
    let mut starts = vec![0u64];
    for chunk in &index.chunks {
        if chunk.chunk_size > u64::from(u32::MAX) {
            return Err(format!(
                "{} items in {} are more than a chunk can have",
                chunk.chunk_size, chunk.filename
            ));
        }
        starts.push(starts.last().expect("there is a first") + chunk.chunk_size);
    }
    if index.chunks.len() >= u32::MAX as usize {
        return Err("too many chunks".to_owned());
    }
    Ok(starts)
}

/// The key to an encrypted set: the password with the salt that litdata saved, or the Fernet key itself.
pub(super) fn cipher(source: &dyn Source, options: &ReadingOptions) -> Result<Fernet> {
    let place = || Location::new(source.uri());
    let Some(password) = &options.password else {
        return Err(Error::data(place(), "the data set is encrypted and no password was given")
            .with_hint("give password=... when opening it"));
    };
    if let Some(fernet) = Fernet::from_key(password) {
        return Ok(fernet);
    }
    let mut names = source.children("")?;
    names.retain(|name| name != INDEX && !name.ends_with('/'));
    names.sort();
    for name in names {
        // A salt file has two hundred bytes, so larger files are skipped.
        if source.open(&name)?.size() > 4096 {
            continue;
        }
        let mut bytes = Vec::new();
        source.read_whole(&name, &mut bytes)?;
        if let Some(salt) = fernet::salt(&bytes) {
            return Ok(Fernet::from_password(password, &salt));
        }
    }
    let reason =
        "the data set is encrypted, and the file with the salt (FernetEncryption.save) is not beside it";
    Err(Error::data(place(), reason)
        .with_hint("put that file next to index.json, or give the Fernet key itself as the password"))
}
