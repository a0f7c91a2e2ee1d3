//! WebDataset: tar shards with members `key.suffix`. Neighbours with the same key are one sample.
//!
//! Opening scans the headers of all shards, in parallel, unless a saved index has them. After that any sample takes
//! one or a few reads. Grouping is webdataset's own (`base_plus_ext`, `group_by_keys`), including what it skips.
//! Damage that webdataset silently ignores (a bad header ends the shard early) is an error here: training on half a
//! shard is worse.
//!
//! `tar` walks over members, `names` parses their names like webdataset, `scan` makes an `index` of each shard,
//! `packing` reads compressed shards, `again` joins samples that a tar splits, `dali` and `wids` read other systems'
//! indexes, `reader` is the format, `write` the exporter.

mod again;
mod dali;
mod index;
mod names;
mod notes;
mod packing;
mod reader;
mod scan;
mod tar;
mod tenbin;
#[cfg(test)]
mod tests;
mod wids;
mod write;

use std::io;
use std::sync::Arc;

use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::source::{Object, Source, Target};
use names::is_tar_name;
use packing::{Packing, Restart, Unpacker};
use reader::WebDataset;
use wids::{Layout, ListedShard};

pub(super) use write::WebDatasetExporter;

/// How to detect and open WebDataset shards.
pub(super) const PROBE: Probe = Probe { name: "webdataset", recognises, open };

/// Maximum number of sub-folders to search if a folder itself contains no tar.
const MAX_LISTED: usize = 8;

fn recognises(target: &Target) -> Result<Option<String>> {
    match target {
        Target::Folder(source) => {
            let names = source.children("")?;
            let tars = names.iter().filter(|n| is_tar_name(n)).count();
            if tars > 0 {
                return Ok(Some(format!("{tars} tar files")));
            }
            if names.iter().any(|name| name == wids::INDEX_NAME)
                && wids::read(&**source, wids::INDEX_NAME)?.is_some()
            {
                return Ok(Some("a wids index".to_owned()));
            }
            let folders = folders_with_tars(&**source, &names)?;
            Ok((!folders.is_empty()).then(|| format!("tar files in {}", folders.join(" and "))))
        }
        Target::Objects(source, names) => {
            let Some(first) = names.first() else { return Ok(None) };
            if let [only] = names.as_slice()
                && only.to_ascii_lowercase().ends_with(".json")
            {
                return Ok(wids::read(&**source, only)?.map(|_| "a wids index".to_owned()));
            }
            // A tar without members is two blocks of zeros.
            let block = first_block(&source.open(first)?)?;
            let tar = tar::is_header(&block) || (block == [0; 512] && is_tar_name(first));
            Ok(tar.then(|| "tar files".to_owned()))
        }
    }
}

/// The first 512 bytes of a tar, unpacked if necessary; fewer if there are no more.
fn first_block(object: &Arc<dyn Object>) -> Result<Vec<u8>> {
    let mut block = vec![0; object.size().min(512) as usize];
    object.read_at(0, &mut block)?;
    let Some(packing) = Packing::of(&block) else { return Ok(block) };
    let mut unpacked = vec![0; 512];
    let read = |unpacked: &mut Vec<u8>| -> io::Result<()> {
        let length = Unpacker::new(object.clone(), packing, Restart(0, 0))?.read(unpacked)?;
        unpacked.truncate(length);
        Ok(())
    };
    // What cannot be unpacked is not a tar; opening it as one reports why.
    Ok(if read(&mut unpacked).is_ok() { unpacked } else { block })
}

fn folders_with_tars(source: &dyn Source, names: &[String]) -> Result<Vec<String>> {
    let mut folders: Vec<&String> = names.iter().filter(|n| n.ends_with('/')).collect();
    folders.sort();
    let mut found = Vec::new();
    for folder in folders.into_iter().take(MAX_LISTED) {
        if source.children(folder.trim_end_matches('/'))?.iter().any(|n| is_tar_name(n)) {
            found.push(folder.clone());
        }
    }
    Ok(found)
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, list) = match target {
        Target::Folder(source) => (source, list_folder(&**source, options.split.as_deref())?),
        Target::Objects(source, names) => (source, list_objects(&**source, names, options.split.as_deref())?),
    };
    Ok(Arc::new(WebDataset::open(source.clone(), list, options)?))
}

/// The shards of a data set, and what an index says about them.
#[derive(Debug, Default)]
struct ShardList {
    shards: Vec<ListedShard>,
    layout: Option<Layout>,
}

impl ShardList {
    fn of(names: impl IntoIterator<Item = String>) -> Self {
        let shard = |url| ListedShard { url, nsamples: None, filesize: None, md5sum: None };
        ShardList { shards: names.into_iter().map(shard).collect(), layout: None }
    }
}

fn list_objects(source: &dyn Source, names: &[String], split: Option<&str>) -> Result<ShardList> {
    if let [only] = names
        && only.to_ascii_lowercase().ends_with(".json")
        && let Some(index) = wids::read(source, only)?
    {
        let shards = index.shards(source, only, split)?;
        return Ok(ShardList { shards, layout: index.feedline });
    }
    if split.is_some() {
        return Err(Error::option("split", "tar files were named one by one; name those of the split alone"));
    }
    Ok(ShardList::of(names.iter().cloned()))
}

/// The tars of a folder, or of the sub-folder `split`.
fn list_folder(source: &dyn Source, split: Option<&str>) -> Result<ShardList> {
    let children = source.children("")?;
    let below = split.map(|split| split.trim_matches('/'));
    let names = match below {
        None => children.clone(),
        Some(split) if children.iter().any(|n| n.strip_suffix('/') == Some(split)) => {
            source.children(split)?.into_iter().map(|name| format!("{split}/{name}")).collect()
        }
        Some(split) => {
            let known: Vec<&str> = children.iter().filter_map(|n| n.strip_suffix('/')).collect();
            let reason = format!("there is no folder '{split}' here; there are {}", known.join(", "));
            return Err(Error::option("split", reason));
        }
    };
    let index = names.iter().find(|n| n.rsplit('/').next() == Some(wids::INDEX_NAME));
    if let Some(name) = index
        && let Some(index) = wids::read(source, name)?
    {
        return Ok(ShardList { shards: index.shards(source, name, None)?, layout: index.feedline });
    }
    let mut names: Vec<String> = names.into_iter().filter(|n| is_tar_name(n)).collect();
    names.sort();
    if names.is_empty() {
        return Err(no_tars(source, below, &children));
    }
    Ok(ShardList::of(names))
}

fn no_tars(source: &dyn Source, split: Option<&str>, children: &[String]) -> Error {
    let place = Location::new(source.uri());
    match (split, folders_with_tars(source, children)) {
        (None, Ok(folders)) if !folders.is_empty() => {
            let reason = format!("no tar file in this folder, but in {}", folders.join(", "));
            let first = folders[0].trim_end_matches('/');
            Error::data(place, reason)
                .with_hint(format!("use split=\"{first}\", or open {}/{first}", source.uri()))
        }
        (Some(split), _) => Error::data(place.with_shard(split), "no tar file in this folder"),
        _ => Error::data(place, "no tar file in this folder"),
    }
}
