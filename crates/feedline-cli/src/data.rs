//! Opens the data set named on the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use feedline::format::ReadingOptions;
use feedline::source::{Destination, Storage, Target, resolve};
use feedline::{Dataset, Error, OpenOptions, Result};

use crate::args::{OpenArgs, SourceArgs};

/// Resolves `hf://` uris, storage options and the name of a split to addresses, and options to read them with.
pub type Locate = dyn Fn(&[String], &BTreeMap<String, String>, Option<&str>) -> Result<(Vec<String>, BTreeMap<String, String>)>
    + Send
    + Sync;

static LOCATE: OnceLock<Box<Locate>> = OnceLock::new();

/// Sets how files on the hub are found. Python does that; the command alone refuses `hf://`. The first call counts.
pub fn locate_with(locate: Box<Locate>) {
    let _ = LOCATE.set(locate);
}

/// Opens `uris` as one data set. Files belong together; folders and tables are joined, with classes matched by name.
pub(crate) fn open(uris: &[String], args: &OpenArgs) -> Result<Dataset> {
    let mut options = options(args)?;
    match LOCATE.get() {
        Some(locate) if uris.iter().any(|uri| is_hub(uri)) => {
            let split = options.reading.split.take();
            let (found, storage) = locate(uris, &options.storage.options, split.as_deref())?;
            options.storage.options = storage;
            Dataset::open_all(&found, &options)
        }
        _ => Dataset::open_all(uris, &options),
    }
}

fn is_hub(uri: &str) -> bool {
    uri.starts_with("hf://")
}

/// The files of a uri and their lengths.
pub(crate) fn files(uri: &str) -> Result<Vec<(PathBuf, u64)>> {
    if is_hub(uri) {
        return Ok(Vec::new());
    }
    let (root, names) = match resolve(&[uri.to_owned()], &Storage::default())? {
        Target::Folder(source) => {
            let entries = source.list("")?.entries;
            (source.uri().to_owned(), entries.into_iter().map(|entry| entry.name).collect())
        }
        Target::Objects(source, names) => (source.uri().to_owned(), names),
    };
    let with_length = |name: String| {
        let path = Path::new(&root).join(name);
        let length = std::fs::metadata(&path).map_or(0, |meta| meta.len());
        (path, length)
    };
    Ok(names.into_iter().map(with_length).collect())
}

/// Storage settings for remote data.
pub(crate) fn storage(args: &OpenArgs) -> Storage {
    Storage { options: args.storage.iter().cloned().collect(), cache_dir: args.cache_dir.clone() }
}

/// Whether a uri is remote.
fn is_remote(uri: &str) -> bool {
    uri.contains("://") && !uri.starts_with("file://")
}

/// Options for the source of a command that writes: --storage is for the destination, unless only the
/// source is remote, or both are and --source-storage is not given.
pub(crate) fn of_source(
    sources: &[String],
    destination: &str,
    open: &OpenArgs,
    source: &SourceArgs,
) -> OpenArgs {
    let local = !sources.iter().any(|uri| is_remote(uri));
    let storage = match source.source_storage.as_slice() {
        [] if local && is_remote(destination) => Vec::new(),
        [] => open.storage.clone(),
        own => own.to_vec(),
    };
    OpenArgs { storage, ..open.clone() }
}

/// The destination to write to.
pub(crate) fn destination(uri: &str, open: &OpenArgs, source: &SourceArgs) -> Result<Destination> {
    let meant = is_remote(uri) || !source.source_storage.is_empty();
    let options = if meant { open.storage.iter().cloned().collect() } else { BTreeMap::new() };
    Destination::new(uri, &Storage { options, cache_dir: None })
}

fn options(args: &OpenArgs) -> Result<OpenOptions> {
    let mut fields = BTreeMap::new();
    for (name, source) in &args.fields {
        if fields.insert(name.clone(), source.clone()).is_some() {
            return Err(Error::option("--field", format!("'{name}' is given twice")));
        }
    }
    let password = args.password_from.as_ref().map(|variable| {
        let missing = || Error::option("--password-from", format!("the environment has no {variable}"));
        std::env::var(variable).map_err(|_| missing())
    });
    let reading = ReadingOptions {
        allow_pickle: args.allow_pickle,
        password: password.transpose()?,
        verify_hashes: args.verify_hashes,
        split: args.split.clone(),
        root: args.root.clone(),
        schema: args.kinds.iter().cloned().collect(),
        follow_links: args.follow_links,
        dtype: args.dtype,
        ..ReadingOptions::default()
    };
    let fields = (!fields.is_empty()).then_some(fields);
    Ok(OpenOptions { format: args.format.clone(), fields, reading, storage: storage(args) })
}
