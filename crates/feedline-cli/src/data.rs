//! Opening what the command line names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use feedline::{Dataset, Destination, Error, OpenOptions, ReadingOptions, Result, Storage, Target, resolve};

use crate::args::OpenArgs;

/// Opens `uris` as one data set. Files go together; folders are opened one by one and joined.
pub(crate) fn open(uris: &[String], args: &OpenArgs) -> Result<Dataset> {
    let options = options(args)?;
    if uris.len() < 2 || !uris.iter().any(|uri| Path::new(uri).is_dir()) {
        return Dataset::open_all(uris, &options);
    }
    let open_one = |uri: &String| Dataset::open_all(std::slice::from_ref(uri), &options);
    Dataset::concat(&uris.iter().map(open_one).collect::<Result<Vec<_>>>()?)
}

/// The files behind a uri and their lengths.
pub(crate) fn files(uri: &str) -> Result<Vec<(PathBuf, u64)>> {
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

/// How to reach what is not on this machine.
pub(crate) fn storage(args: &OpenArgs) -> Storage {
    Storage { options: args.storage.iter().cloned().collect(), cache_dir: args.cache_dir.clone() }
}

/// Where to write. What is said about storage may be meant for the source alone.
pub(crate) fn destination(uri: &str, args: &OpenArgs) -> Result<Destination> {
    let local = !uri.contains("://") || uri.starts_with("file://");
    Destination::new(uri, &if local { Storage::default() } else { storage(args) })
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
        index_dir: None,
    };
    let fields = (!fields.is_empty()).then_some(fields);
    Ok(OpenOptions { format: args.format.clone(), fields, reading, storage: storage(args) })
}
