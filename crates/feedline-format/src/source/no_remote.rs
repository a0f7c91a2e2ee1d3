//! Stands for `remote/` in builds without the feature `remote`: remote uris are recognised and refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Sink, Source, Storage, Target};
use crate::error::{Error, Result};

const SCHEMES: [&str; 15] = [
    "s3", "s3a", "r2", "b2", "wasabi", "spaces", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "http",
    "https",
];

pub(super) fn is_remote(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme.to_lowercase().as_str()))
}

pub(super) fn resolve(uris: &[String], _: &Storage) -> Result<Target> {
    Err(refused(&uris[0]))
}

pub(super) fn folder_at(uri: &str, _: &Storage) -> Result<Arc<dyn Source>> {
    Err(refused(uri))
}

pub(super) fn sink_at(uri: &str, _: &Storage) -> Result<Arc<dyn Sink>> {
    Err(refused(uri))
}

fn refused(uri: &str) -> Error {
    let scheme = uri.split("://").next().unwrap_or(uri);
    Error::option("uri", format!("{scheme}:// needs a build of feedline with the Cargo feature `remote`"))
}

/// There is no runtime to hold.
pub(super) fn hold() -> MutexGuard<'static, ()> {
    static NOTHING: Mutex<()> = Mutex::new(());
    NOTHING.lock().unwrap_or_else(PoisonError::into_inner)
}
