//! Makes the index of a folder. Folders are listed in parallel, level by level. A folder that a saved index knows and
//! that has not changed is not listed at all.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::parallel;
use super::super::saved_index::SavedIndex;
use super::Content;
use super::index::{About, Builder, Files, Folder};
use crate::error::{Error, Location, Result};
use crate::source::{FolderFile, FolderFiles, FolderVersion, Source};

/// Maximum number of foreign files that are named; more are only counted.
const MAX_NAMED: usize = 1000;

/// A folder and its images.
#[derive(Debug)]
struct Found {
    folder: Folder,
    images: Images,
    problems: Vec<Error>,
}

#[derive(Debug)]
enum Images {
    Listed(FolderFiles),
    /// The same as in the saved index.
    Saved,
}

/// Result of listing.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) files: Files,
    pub(super) problems: Vec<Error>,
    /// Whether nothing has changed since the index was saved.
    pub(super) unchanged: bool,
}

/// Lists the images below `root` (a folder of the source, or empty for all of it).
pub(super) fn list(
    source: &dyn Source,
    root: &str,
    content: Content,
    saved: Option<Files>,
) -> Result<Listed> {
    let known: HashMap<&str, &Folder> =
        saved.iter().flat_map(|s| &s.about().folders).map(|folder| (folder.name.as_str(), folder)).collect();
    let mut folders = match walk(source, root, content, &known)? {
        Some(folders) => folders,
        None => all_at_once(source, root, content)?,
    };
    let mut problems: Vec<Error> = folders.iter_mut().flat_map(|f| std::mem::take(&mut f.problems)).collect();
    let same = folders.len() == known.len() && folders.iter().all(|f| matches!(f.images, Images::Saved));
    let files = match saved {
        Some(saved) if same => saved,
        saved => build(root, folders, saved.as_ref()),
    };
    note(&mut problems, source, root, files.about());
    Ok(Listed { files, problems, unchanged: same })
}

/// Lists every folder by itself; `None` if the source lists all at once.
fn walk(
    source: &dyn Source,
    root: &str,
    content: Content,
    known: &HashMap<&str, &Folder>,
) -> Result<Option<Vec<Found>>> {
    if source.folder_version(root).is_none() && source.list_folder(root)?.is_none() {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut level = vec![(root.to_owned(), Vec::new())];
    while !level.is_empty() {
        let listed = parallel::collect(level.len(), |number| {
            Ok(list_folder(source, &level[number].0, content, known))
        })?;
        let mut next = Vec::new();
        for ((name, above), listed) in level.into_iter().zip(listed) {
            // A root that cannot be listed is the caller's mistake; below it, it is a problem to report.
            let mut here = match listed {
                Err(error) if found.is_empty() => return Err(error),
                Err(error) => Found {
                    problems: vec![error],
                    ..group(&name, content, FolderFiles::default(), Vec::new())
                },
                Ok(here) => here,
            };
            if above.contains(&here.folder.version.id) {
                here = failed(
                    source,
                    &name,
                    content,
                    std::io::Error::other("a link leads back to a folder above it"),
                );
            }
            let mut above: Vec<(u64, u64)> = above;
            above.push(here.folder.version.id);
            let inside = here.folder.folders.iter();
            next.extend(inside.map(|folder| (below(&name, folder), above.clone())));
            found.push(here);
        }
        level = next;
    }
    Ok(Some(found))
}

fn below(folder: &str, last: &str) -> String {
    if folder.is_empty() { last.to_owned() } else { format!("{folder}/{last}") }
}

/// One folder: from the saved index if it has not changed, otherwise listed.
fn list_folder(
    source: &dyn Source,
    name: &str,
    content: Content,
    known: &HashMap<&str, &Folder>,
) -> Result<Found> {
    if let Some(folder) = known.get(name)
        && folder.version.changed != 0
        && source.folder_version(name) == Some(folder.version)
    {
        return Ok(Found { folder: (*folder).clone(), images: Images::Saved, problems: Vec::new() });
    }
    let listing = source.list_folder(name)?.unwrap_or_default();
    let mut found = group(name, content, listing.files, listing.folders);
    // A folder with a problem is listed again each time: the target of a broken link may appear without the folder
    // changing.
    let steady = listing.problems.is_empty() && SavedIndex::is_old_enough(listing.version.changed);
    let changed = if steady { listing.version.changed } else { 0 };
    found.folder.version = FolderVersion { changed, ..listing.version };
    found.problems = listing.problems;
    Ok(found)
}

fn failed(source: &dyn Source, name: &str, content: Content, error: std::io::Error) -> Found {
    let error = Error::storage("listing", Location::new(source.uri()).with_shard(name), error);
    Found { problems: vec![error], ..group(name, content, FolderFiles::default(), Vec::new()) }
}

fn group(name: &str, content: Content, mut files: FolderFiles, mut folders: Vec<String>) -> Found {
    let (mut others, mut named) = (0, Vec::new());
    files.sort_and_keep(|file| {
        let keep = content.has(file.name);
        if !keep {
            others += 1;
            if named.len() < MAX_NAMED {
                named.push(below(name, file.name));
            }
        }
        keep
    });
    folders.sort_unstable();
    let folder = Folder {
        name: name.to_owned(),
        images: files.len() as u64,
        others,
        named,
        folders,
        ..Folder::default()
    };
    Found { folder, images: Images::Listed(files), problems: Vec::new() }
}

/// Lists from a source that lists everything below a prefix.
fn all_at_once(source: &dyn Source, root: &str, content: Content) -> Result<Vec<Found>> {
    let listing = source.list(root)?;
    let mut files: BTreeMap<String, FolderFiles> = BTreeMap::new();
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    files.entry(root.to_owned()).or_default();
    for entry in &listing.entries {
        let (folder, name) = entry.name.rsplit_once('/').unwrap_or(("", &entry.name));
        let mut folder = folder.to_owned();
        let file = FolderFile { name, size: entry.size, version: entry.version };
        files.entry(folder.clone()).or_default().push(file);
        while folder != root {
            let (above, last) = folder.rsplit_once('/').map_or(("", folder.as_str()), |parts| parts);
            if !folders.entry(above.to_owned()).or_default().insert(last.to_owned()) {
                break;
            }
            folder = above.to_owned();
            files.entry(folder.clone()).or_default();
        }
    }
    let mut found: Vec<Found> = files
        .into_iter()
        .map(|(name, files)| {
            let inside = folders.remove(&name).unwrap_or_default().into_iter().collect();
            group(&name, content, files, inside)
        })
        .collect();
    if let Some(first) = found.first_mut() {
        first.problems = listing.problems;
    }
    Ok(found)
}

/// The folder's name relative to `root`.
fn inside<'a>(root: &str, name: &'a str) -> &'a str {
    name.strip_prefix(root).unwrap_or(name).trim_start_matches('/')
}

/// All images in torchvision's order: by class, then by folder, then by name, each compared by code points.
fn build(root: &str, mut folders: Vec<Found>, saved: Option<&Files>) -> Files {
    let nested = folders.iter().any(|f| f.folder.images > 0 && f.folder.name != root);
    let top = folders.iter().find(|f| f.folder.name == root);
    let mut classes = top.map(|f| f.folder.folders.clone()).unwrap_or_default();
    if !nested {
        classes.clear();
    }
    folders.sort_by(|a, b| {
        let key = |name| (inside(root, name).split('/').next().unwrap_or(""), inside(root, name));
        key(a.folder.name.as_str()).cmp(&key(b.folder.name.as_str()))
    });
    let mut builder = Builder::default();
    let mut class_starts = Vec::new();
    let mut about = Vec::with_capacity(folders.len());
    for Found { mut folder, images, .. } in folders {
        let relative = inside(root, &folder.name);
        let class = relative.split('/').next().unwrap_or("");
        // A class without images starts where the next one does.
        while class_starts.len() < classes.len() && classes[class_starts.len()].as_str() <= class {
            class_starts.push(builder.len());
        }
        let start = builder.len();
        if nested && relative.is_empty() {
            // Images outside every class are skipped. They are wanted if the sub-folders disappear, so the folder is
            // listed again then.
            folder.version.changed *= u64::from(folder.images == 0);
        } else {
            add(&mut builder, &folder, &images, saved);
        }
        folder.start = start;
        about.push(folder);
    }
    if nested {
        class_starts.resize(classes.len() + 1, builder.len());
    }
    builder.finish(About { classes, class_starts, folders: about, ..About::default() })
}

fn add(builder: &mut Builder, folder: &Folder, images: &Images, saved: Option<&Files>) {
    match images {
        Images::Listed(files) => files.iter().for_each(|file| builder.add_below(&folder.name, file)),
        Images::Saved => {
            let range = folder.start..folder.start.saturating_add(folder.images);
            range.map_while(|number| saved?.get(number)).for_each(|file| builder.add(file));
        }
    }
}

/// Reports what is not part of the data set.
fn note(problems: &mut Vec<Error>, source: &dyn Source, root: &str, about: &About) {
    let place = |name: &str| Location::new(source.uri()).with_shard(name);
    let mut named = 0;
    for name in about.folders.iter().flat_map(|folder| &folder.named).take(MAX_NAMED) {
        problems.push(Error::data(place(name), "is not an image by its name and is left out"));
        named += 1;
    }
    let others: u64 = about.folders.iter().map(|folder| folder.others).sum();
    if others > named {
        let more = format!("{} more files like these are left out", others - named);
        problems.push(Error::data(Location::new(source.uri()), more));
    }
    let loose = about.folders.iter().find(|f| f.name == root && f.images > 0 && !about.classes.is_empty());
    if let Some(folder) = loose {
        let reason = format!("{} images outside every class folder are left out", folder.images);
        problems.push(Error::data(Location::new(source.uri()), reason));
    }
    for (class, bounds) in about.classes.iter().zip(about.class_starts.windows(2)) {
        if bounds[0] == bounds[1] {
            problems
                .push(Error::data(place(class), "the class folder holds no image; its label stays unused"));
        }
    }
}
