//! Lists objects below a prefix, page by page. Skips folder markers and reports unusable keys.

use std::collections::HashSet;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use super::connection::{Connection, RetryTimer};
use super::wire::UnusableKey;
use crate::error::{Location, Result};
use crate::source::Entry;

/// Hadoop marks a folder by an empty object with the folder's name and this suffix.
const HADOOP_MARKER: &str = "_$folder$";

/// Objects, and keys that cannot be names.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) objects: Vec<ObjectMeta>,
    pub(super) unusable: Vec<UnusableKey>,
    markers: usize,
}

impl Listed {
    /// Whether nothing exists there, not even a marker.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.unusable.is_empty() && self.markers == 0
    }

    fn add(&mut self, meta: ObjectMeta) {
        match UnusableKey::recognise(meta.location.as_ref()) {
            // The S3 console and s3fs mark folders like this.
            Some(unusable) if meta.size == 0 && is_marker(&unusable.0) => self.markers += 1,
            Some(unusable) => self.unusable.push(unusable),
            None => self.objects.push(meta),
        }
    }
}

/// Whether a key is a folder's name with a slash.
fn is_marker(key: &str) -> bool {
    key.strip_suffix('/').is_some_and(|folder| !folder.split('/').any(str::is_empty))
}

/// Lists the objects below `prefix`; an interrupted listing resumes after the last name.
pub(super) async fn list_all(connection: &Connection, prefix: &Path, place: Location) -> Result<Listed> {
    let mut timer = RetryTimer::new(connection, "listing", place, None);
    let mut found = Listed::default();
    'again: loop {
        let opened = connection.opened();
        let mut pages = match found.objects.last() {
            Some(last) => opened.store.list_with_offset(Some(prefix), &last.location),
            None => opened.store.list(Some(prefix)),
        };
        // UnusableKey keys after the last plain name will be listed again.
        let last = found.objects.last().map(|meta| meta.location.to_string());
        found.unusable.retain(|unusable| last.as_ref().is_some_and(|last| unusable.0 <= *last));
        loop {
            let received = found.objects.len() as u64 * 1024;
            match tokio::time::timeout(connection.transfer().stall, pages.next()).await {
                Ok(Some(Ok(meta))) => found.add(meta),
                Ok(None) => return Ok(found),
                Ok(Some(Err(error))) => {
                    timer.wait_after_error(&error, received).await?;
                    continue 'again;
                }
                Err(_) => {
                    timer.wait_after_stall(received).await?;
                    continue 'again;
                }
            }
        }
    }
}

/// Lists one folder, without its subfolders.
pub(super) async fn folder(connection: &Connection, folder: &Path, place: Location) -> Result<Folder> {
    let mut timer = RetryTimer::new(connection, "listing", place, None);
    loop {
        let opened = connection.opened();
        let listing = opened.store.list_with_delimiter(Some(folder));
        match tokio::time::timeout(connection.transfer().stall * 4, listing).await {
            Ok(Ok(found)) => return Ok(names(found)),
            Ok(Err(error)) => timer.wait_after_error(&error, 0).await?,
            Err(_) => timer.wait_after_stall(0).await?,
        }
    }
}

/// Content of one folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Names; those of folders end in a slash.
    pub(super) names: Vec<String>,
    pub(super) unusable: Vec<UnusableKey>,
    /// Whether the folder exists: it contains something, if only a marker.
    pub(super) exists: bool,
}

fn names(listed: ListResult) -> Folder {
    let (mut found, mut folders) = (Listed::default(), Vec::new());
    listed.objects.into_iter().for_each(|meta| found.add(meta));
    for path in listed.common_prefixes {
        match UnusableKey::recognise(path.as_ref()) {
            Some(unusable) => found.unusable.push(unusable),
            None => folders.push(path),
        }
    }
    let marks = |path: &Path| folders.contains(path) || path.as_ref().ends_with(HADOOP_MARKER);
    let real = |meta: &&ObjectMeta| meta.size > 0 || !marks(&meta.location);
    let last = |path: &Path| path.filename().map(str::to_owned);
    let objects = found.objects.iter().filter(real).filter_map(|meta| last(&meta.location));
    let names = objects.chain(folders.iter().filter_map(|path| last(path).map(|name| name + "/"))).collect();
    let exists = !found.is_empty() || !folders.is_empty();
    Folder { names, unusable: found.unusable, exists }
}

/// Removes the empty objects that some tools put where a folder begins; they are not samples.
pub(super) fn without_markers(mut entries: Vec<Entry>) -> Vec<Entry> {
    let folders: HashSet<String> = entries
        .iter()
        .flat_map(|e| e.name.match_indices('/').map(|(at, _)| e.name[..at].to_owned()).collect::<Vec<_>>())
        .collect();
    entries.retain(|e| e.size > 0 || !(folders.contains(&e.name) || e.name.ends_with(HADOOP_MARKER)));
    entries
}
