//! The Arrow files of a data set: listed ones, those of a folder, or those that `save_to_disk` of Hugging Face's
//! `datasets` wrote (`state.json`, and `dataset_dict.json` above one folder for each split).

use std::sync::Arc;

use serde_json::Value as Json;

use super::super::columns::{Column, Features, columns};
use super::super::{ReadingOptions, splits};
use super::table::{IpcTable, Pieces};
use crate::error::{Error, Location, Result};
use crate::sample::{SampleBuffer, Value};
use crate::source::Source;

/// Maximum length of a description.
const MAX_JSON: u64 = 64 << 20;
const STATE: &str = "state.json";
const DICT: &str = "dataset_dict.json";

/// The files of a data set, and what else is known about it.
#[derive(Debug)]
pub(super) struct FoundFiles {
    pub(super) names: Vec<String>,
    pub(super) mapping: Option<Vec<u64>>,
    pub(super) features: Features,
}

impl FoundFiles {
    /// Files that the user listed.
    pub(super) fn listed(source: &dyn Source, names: Vec<String>, options: &ReadingOptions) -> Result<Self> {
        let names = splits::choose(source.uri(), names, options.split.as_deref(), true)?;
        Ok(FoundFiles { names, mapping: None, features: Features::default() })
    }
}

/// Whether `save_to_disk` wrote the folder.
pub(super) fn recognises(source: &dyn Source) -> Result<Option<String>> {
    let names = source.children("")?;
    let has = |name: &str| names.iter().any(|n| n == name);
    let sight = if has(DICT) && read_json(source, DICT)?["splits"].is_array() {
        Some(format!("{DICT} of saved splits"))
    } else if has(STATE) && read_json(source, STATE)?["_data_files"].is_array() {
        Some(format!("{STATE} of a saved data set"))
    } else {
        None
    };
    Ok(sight)
}

/// `.arrow` files directly in the folder, without the cache files of `datasets`.
pub(super) fn loose_files(source: &dyn Source) -> Result<Vec<String>> {
    let mut names = source.children("")?;
    let arrow = |name: &str| {
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        matches!(extension, "arrow" | "arrows" | "feather" | "ipc")
    };
    names.retain(|name| arrow(name) && !name.starts_with("cache-") && !name.starts_with("tmp"));
    names.sort();
    Ok(names)
}

/// The files of the folder.
pub(super) fn find(source: &dyn Source, options: &ReadingOptions) -> Result<FoundFiles> {
    if source.exists(DICT)? {
        let folder = split_folder(source, options)?;
        return saved(source, &format!("{folder}/"));
    }
    if source.exists(STATE)? {
        if let Some(wanted) = &options.split {
            let reason = format!("{} is one data set without splits, '{wanted}' was asked for", source.uri());
            return Err(Error::option("split", reason));
        }
        return saved(source, "");
    }
    let names = loose_files(source)?;
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no .arrow file in this folder"));
    }
    let names = splits::choose(source.uri(), names, options.split.as_deref(), false)?;
    let features = features(source, "")?;
    Ok(FoundFiles { names, mapping: None, features })
}

fn split_folder(source: &dyn Source, options: &ReadingOptions) -> Result<String> {
    let dict = read_json(source, DICT)?;
    let known: Vec<&str> = dict["splits"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let list = known.join(", ");
    match (&options.split, known.as_slice()) {
        (Some(wanted), known) if known.contains(&wanted.as_str()) => Ok(wanted.clone()),
        (Some(wanted), _) => {
            Err(Error::option("split", format!("{} has no split '{wanted}': {list}", source.uri())))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => {
            let place = Location::new(source.uri()).with_shard(DICT);
            let first = known.first().copied().unwrap_or("train");
            Err(Error::data(place, format!("several splits are here: {list}"))
                .with_hint(format!("choose one with split=\"{first}\"")))
        }
    }
}

/// What `save_to_disk` wrote into the folder `prefix` (empty, or with its slash).
fn saved(source: &dyn Source, prefix: &str) -> Result<FoundFiles> {
    let name = format!("{prefix}{STATE}");
    let state = read_json(source, &name)?;
    let files = |key: &str| -> Result<Vec<String>> {
        let entries = state[key].as_array().map_or(&[][..], Vec::as_slice);
        let file = |entry: &Json| match entry["filename"].as_str() {
            Some(file) if !file.starts_with('/') && !file.split('/').any(|part| part == "..") => {
                Ok(format!("{prefix}{file}"))
            }
            _ => {
                let place = Location::new(source.uri()).with_shard(&name);
                Err(Error::data(place, format!("{key} names no file of this folder: {entry}")))
            }
        };
        entries.iter().map(file).collect()
    };
    let names = files("_data_files")?;
    let mut indices = files("_indices_files")?;
    indices.extend(files("_indices_data_files")?);
    let mapping = if indices.is_empty() { None } else { Some(read_indices(source, &indices)?) };
    Ok(FoundFiles { names, mapping, features: features(source, prefix)? })
}

fn features(source: &dyn Source, prefix: &str) -> Result<Features> {
    let name = format!("{prefix}dataset_info.json");
    if !source.exists(&name)? {
        return Ok(Features::default());
    }
    Ok(Features::from_json(&read_json(source, &name)?["features"]))
}

/// The column `indices` of these tables: the row of each sample.
fn read_indices(source: &dyn Source, names: &[String]) -> Result<Vec<u64>> {
    let mut mapping = Vec::new();
    let mut buffer = SampleBuffer::new();
    for name in names {
        let object = source.open(name)?;
        let place = Location::new(source.uri()).with_shard(name);
        let table = IpcTable::open(&*object, 0..object.size(), place.clone(), Arc::new(Pieces::new()), 0)?;
        let (found, _) = columns(table.schema(), &Features::default());
        let column: &Column =
            found.first().ok_or_else(|| Error::data(place.clone(), "a table of indices without a column"))?;
        for row in 0..table.rows() {
            buffer.reset(0);
            let value = table.read_value(&*object, row, column, &mut buffer)?;
            let index = match value {
                Value::Int(index) => u64::try_from(index).ok(),
                _ => None,
            };
            mapping.push(
                index
                    .ok_or_else(|| Error::data(place.clone(), format!("index {row} is not a row number")))?,
            );
        }
    }
    Ok(mapping)
}

fn read_json(source: &dyn Source, name: &str) -> Result<Json> {
    let object = source.open(name)?;
    let place = || Location::new(source.uri()).with_shard(name);
    if object.size() > MAX_JSON {
        return Err(Error::data(place(), format!("{} bytes are too many for a description", object.size())));
    }
    let mut bytes = vec![0; object.size() as usize];
    object.read_at(0, &mut bytes)?;
    serde_json::from_slice(&bytes).map_err(|e| Error::data(place(), format!("not valid JSON: {e}")))
}
