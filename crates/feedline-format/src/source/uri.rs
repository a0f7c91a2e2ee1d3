//! Resolves what the user typed: paths, `file://`, remote uris, brace and glob patterns.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::direct::SETTING;
use super::memory::{self, SharedMemory};
use super::{LocalSource, Source, Storage, remote};
use crate::error::{Error, Location, Result};

/// What a uri refers to.
#[derive(Debug, Clone)]
pub enum Target {
    /// One folder (or prefix): a format looks inside.
    Folder(Arc<dyn Source>),
    /// One or several objects by name, all below one source.
    Objects(Arc<dyn Source>, Vec<String>),
}

impl Target {
    /// The source of the folder or the objects.
    pub fn source(&self) -> &Arc<dyn Source> {
        match self {
            Target::Folder(source) | Target::Objects(source, _) => source,
        }
    }

    /// The root as the user would write it.
    pub fn uri(&self) -> &str {
        self.source().uri()
    }
}

/// A pattern with more names than this is a mistake.
const MAX_EXPANSION: usize = 1_000_000;

/// Finds what the uris refer to. Patterns are expanded in the given order, each sorted by name.
pub fn resolve(uris: &[String], storage: &Storage) -> Result<Target> {
    let remote_count = uris.iter().filter(|uri| remote::is_remote(uri)).count();
    if remote_count > 0 && remote_count == uris.len() {
        return remote::resolve(uris, storage);
    }
    if remote_count > 0 {
        let reason = "local and remote data are mixed; open them one by one and join them with concat";
        return Err(Error::option("uri", reason));
    }
    refuse_for_local(storage)?;
    if uris.iter().any(|uri| memory::key(uri).is_some()) {
        if storage.options.contains_key(SETTING) {
            return Err(Error::option(SETTING, "memory:// has no page cache; leave it out"));
        }
        return resolve_memory(uris);
    }
    if let [only] = uris {
        let path = local_path(only)?;
        if path.is_dir() {
            return Ok(Target::Folder(Arc::new(LocalSource::with_storage(path, storage)?)));
        }
    }
    let mut paths = Vec::new();
    for uri in uris {
        expand(uri, &mut paths)?;
    }
    match paths.as_slice() {
        [] => Err(Error::option("uri", "nothing to open: the list is empty")),
        [folder] if folder.is_dir() => {
            Ok(Target::Folder(Arc::new(LocalSource::with_storage(folder.clone(), storage)?)))
        }
        _ => objects(&paths, storage),
    }
}

/// Splits webdataset's notation for a list: `a.tar::b.tar`. A file that really has `::` in its name takes precedence.
pub fn split_joined(uris: &[String]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for uri in uris {
        if uri.starts_with("pipe:") {
            let reason =
                "pipe: would run a command, and its output cannot be read at random; give the files or urls";
            return Err(Error::option("uri", reason));
        }
        if uri.contains("::") && !Path::new(uri).exists() {
            found.extend(uri.split("::").filter(|part| !part.is_empty()).map(str::to_owned));
        } else {
            found.push(uri.clone());
        }
    }
    Ok(found)
}

/// Extensions of files that are each a whole data set.
const WHOLE: [&str; 7] = [".zip", ".npz", ".npy", ".csv", ".tsv", ".jsonl", ".ndjson"];

/// Splits the uris into several data sets: folders, or files that are each one. `None` if the uris are one data set.
pub fn pieces(uris: &[String]) -> Result<Option<Vec<String>>> {
    let whole = |name: &str| WHOLE.iter().any(|ending| name.to_ascii_lowercase().ends_with(ending));
    let has_scheme = |uri: &&String| remote::is_remote(uri) || memory::key(uri).is_some();
    let remote_count = uris.iter().filter(has_scheme).count();
    if remote_count > 0 {
        let mut plain = Vec::new();
        for uri in uris {
            plain.extend(braces(uri)?);
        }
        let last =
            |uri: &str| uri.split('?').next().and_then(|u| u.rsplit('/').next()).unwrap_or("").to_owned();
        let alone = |uri: &String| !last(uri).contains(['.', '*', '[']) || whole(&last(uri));
        return Ok(
            (remote_count == uris.len() && plain.len() > 1 && plain.iter().any(alone)).then_some(plain)
        );
    }
    let mut paths = Vec::new();
    for uri in uris {
        expand(uri, &mut paths)?;
    }
    let alone = |path: &PathBuf| path.is_dir() || whole(&path.to_string_lossy());
    if paths.len() < 2 || !paths.iter().any(alone) {
        return Ok(None);
    }
    let text = |path: PathBuf| {
        let name = path.display().to_string();
        path.into_os_string().into_string().map_err(|_| Error::option("uri", format!("{name} is not UTF-8")))
    };
    paths.into_iter().map(text).collect::<Result<Vec<_>>>().map(Some)
}

/// Opens a folder or prefix in which files are found by name.
pub(crate) fn folder_at(uri: &str, storage: &Storage) -> Result<Arc<dyn Source>> {
    if remote::is_remote(uri) {
        return remote::folder_at(uri, storage);
    }
    Ok(Arc::new(LocalSource::of_samples(local_path(&absolute(uri))?, storage)?))
}

/// Makes a local path absolute, so that it means the same in other processes and after a change of the working
/// folder. `~` is the user's home folder, unless something of that name exists.
pub fn absolute(uri: &str) -> String {
    if uri.contains("://") || uri.starts_with('{') {
        return uri.to_owned();
    }
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let below_home = match uri.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(rest.trim_start_matches('/')),
        _ => None,
    };
    let path = match below_home.filter(|_| !Path::new(uri).exists()).and_then(|rest| Some(home()?.join(rest)))
    {
        Some(path) => path,
        None => PathBuf::from(uri),
    };
    std::path::absolute(&path).map_or_else(|_| uri.to_owned(), |path| path.display().to_string())
}

/// Refuses options that would have no effect.
fn refuse_for_local(storage: &Storage) -> Result<()> {
    if storage.cache_dir.is_some() {
        return Err(Error::option("cache_dir", "local data need no cache; leave it out"));
    }
    if storage.options.keys().any(|name| name != SETTING) {
        let reason = "local data take none but page_cache; leave them out";
        return Err(Error::option("storage_options", reason));
    }
    Ok(())
}

/// Resolves `memory://` names of this process: one folder, or objects.
fn resolve_memory(uris: &[String]) -> Result<Target> {
    let mixed = || {
        Error::option("uri", "memory:// and files are mixed; open them one by one and join them with concat")
    };
    let everything = SharedMemory::new("");
    let mut names = Vec::new();
    for uri in uris {
        let key = memory::key(uri).ok_or_else(mixed)?;
        for plain in braces(key)? {
            if plain.contains(['*', '?', '[']) {
                names.extend(matching(&everything, &plain, uri)?);
            } else if let ([_], false) = (uris, everything.exists(&plain)?) {
                return Ok(Target::Folder(Arc::new(SharedMemory::new(&plain))));
            } else {
                names.push(plain);
            }
        }
    }
    let root = common_folder(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
    let below = |name: &String| Path::new(name).strip_prefix(&root).map(|p| p.to_string_lossy().into_owned());
    let names = names.iter().filter_map(|name| below(name).ok()).collect();
    Ok(Target::Objects(Arc::new(SharedMemory::new(&root.to_string_lossy())), names))
}

/// Names in a source that match a pattern, sorted.
fn matching(source: &dyn Source, pattern: &str, uri: &str) -> Result<Vec<String>> {
    let wanted =
        glob::Pattern::new(pattern).map_err(|e| Error::option("uri", format!("bad pattern {uri}: {e}")))?;
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let mut names: Vec<String> = source.list("")?.entries.into_iter().map(|entry| entry.name).collect();
    names.retain(|name| wanted.matches_with(name, options));
    names.sort();
    if names.is_empty() {
        return Err(Error::data(Location::new(uri), "no object matches this pattern"));
    }
    Ok(names)
}

fn local_path(uri: &str) -> Result<PathBuf> {
    if let Some(path) = uri.strip_prefix("file://") {
        // The uri may name a host, but only this one.
        let path = path.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(path);
        return Ok(unescaped(path));
    }
    if let Some((scheme, _)) = uri.split_once("://") {
        return Err(unsupported(scheme));
    }
    Ok(PathBuf::from(uri))
}

fn unsupported(scheme: &str) -> Error {
    let known = "local paths, file://, memory://, s3:// (r2://, b2://, wasabi://, spaces://), gs://, az://, abfs://, \
                 http:// and https:// are";
    let way = match scheme {
        "hf" => {
            "the Python package (fl.open, python -m feedline) finds the files behind it; here, name them by \
             https://huggingface.co/datasets/OWNER/NAME/resolve/main/FILE"
        }
        "sftp" | "ftp" => "`rclone serve s3` or `sshfs` in front of it gives a bucket or a folder to open",
        _ => return Error::option("uri", format!("{scheme}:// is not supported; {known}")),
    };
    Error::option("uri", format!("{scheme}:// is not supported; {known}. {way}"))
}

/// Decodes a path as `Path.as_uri()` writes it, with `%20` for a space. A path that exists as written is not decoded.
fn unescaped(path: &str) -> PathBuf {
    let plain = PathBuf::from(path);
    if !path.contains('%') || plain.exists() {
        return plain;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = hex.filter(|_| *byte == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn expand(uri: &str, paths: &mut Vec<PathBuf>) -> Result<()> {
    let local = local_path(uri)?;
    // A file that really has braces or a star in its name takes precedence over the pattern.
    if local.exists() {
        paths.push(local);
        return Ok(());
    }
    let mut matched = false;
    for plain in braces(&local.to_string_lossy())? {
        if plain.contains(['*', '?', '[']) {
            matched |= expand_glob(&plain, paths)?;
        } else {
            matched = true;
            paths.push(PathBuf::from(plain));
        }
    }
    if matched {
        return Ok(());
    }
    Err(Error::data(Location::new(uri), "no file matches this pattern"))
}

fn expand_glob(pattern: &str, paths: &mut Vec<PathBuf>) -> Result<bool> {
    let matches =
        glob::glob(pattern).map_err(|e| Error::option("uri", format!("bad pattern {pattern}: {e}")))?;
    let before = paths.len();
    for path in matches {
        paths.push(path.map_err(|e| {
            let place = Location::new(e.path().display().to_string());
            Error::storage("listing", place, e.into())
        })?);
    }
    Ok(paths.len() > before)
}

/// Bash's brace expansion: `{a,b}` and `{000..146}` (width kept), nested and repeated.
pub(super) fn braces(pattern: &str) -> Result<Vec<String>> {
    let Some((open, close)) = outer_braces(pattern) else { return Ok(vec![pattern.to_owned()]) };
    let (head, body, tail) = (&pattern[..open], &pattern[open + 1..close], &pattern[close + 1..]);
    let alternatives = match number_range(body) {
        Some(numbers) => numbers?,
        None => split_top_level(body).into_iter().map(braces).collect::<Result<Vec<_>>>()?.concat(),
    };
    let tails = braces(tail)?;
    if alternatives.len().saturating_mul(tails.len()) > MAX_EXPANSION {
        return Err(too_many(pattern));
    }
    Ok(alternatives.iter().flat_map(|a| tails.iter().map(move |t| format!("{head}{a}{t}"))).collect())
}

fn too_many(pattern: &str) -> Error {
    Error::option("uri", format!("{pattern} stands for more than {MAX_EXPANSION} names"))
}

fn outer_braces(text: &str) -> Option<(usize, usize)> {
    let open = text.find('{')?;
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some((open, at)),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn number_range(body: &str) -> Option<Result<Vec<String>>> {
    let (first, last) = body.split_once("..")?;
    let (low, high) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    let width = if first.starts_with('0') || last.starts_with('0') { first.len().max(last.len()) } else { 0 };
    if low.abs_diff(high) >= MAX_EXPANSION as u64 {
        return Some(Err(too_many(body)));
    }
    let format = |n| format!("{n:0width$}");
    Some(Ok(if low <= high {
        (low..=high).map(format).collect()
    } else {
        (high..=low).rev().map(format).collect()
    }))
}

fn split_top_level(body: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&body[start..]);
    parts
}

/// Converts all paths to names below their deepest common folder.
fn objects(paths: &[PathBuf], storage: &Storage) -> Result<Target> {
    for path in paths {
        let missing = |e| Error::storage("opening", Location::new(path.display().to_string()), e);
        let meta = std::fs::metadata(path).map_err(missing)?;
        if meta.is_dir() && paths.len() > 1 {
            let reason = format!("{} is a folder; several uris must all be files", path.display());
            return Err(Error::option(
                "uri",
                reason + " (open folders one by one and join them with concat)",
            ));
        }
    }
    let root = common_folder(paths);
    let name = |p: &PathBuf| {
        let relative = p.strip_prefix(&root).unwrap_or(p);
        relative
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| Error::option("uri", format!("{} is not UTF-8", p.display())))
    };
    let names = paths.iter().map(name).collect::<Result<Vec<_>>>()?;
    Ok(Target::Objects(Arc::new(LocalSource::with_storage(root, storage)?), names))
}

pub(super) fn common_folder(paths: &[PathBuf]) -> PathBuf {
    let mut root = paths[0].parent().unwrap_or(Path::new("")).to_path_buf();
    for path in &paths[1..] {
        while !path.starts_with(&root) {
            if !root.pop() {
                return PathBuf::new();
            }
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_expand_as_in_bash() {
        assert_eq!(braces("a-{08..11}.tar").unwrap(), ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]);
        assert_eq!(braces("{x,y{1..2}}z").unwrap(), ["xz", "y1z", "y2z"]);
        assert_eq!(braces("{a,b}{c,d}").unwrap(), ["ac", "ad", "bc", "bd"]);
        assert_eq!(braces("{3..1}").unwrap(), ["3", "2", "1"]);
        assert_eq!(braces("open{brace").unwrap(), ["open{brace"]);
        assert!(braces("{1..99999999}").is_err());
    }

    #[test]
    fn unknown_schemes_and_mixtures_are_refused() {
        let none = Storage::default();
        let message = resolve(&["ftp://host/x".to_owned()], &none).unwrap_err().to_string();
        assert!(message.contains("ftp://") && message.contains("s3://"), "{message}");
        let mixed = resolve(&["s3://b/x.tar".to_owned(), "y.tar".to_owned()], &none).unwrap_err().to_string();
        assert!(mixed.contains("concat"), "{mixed}");
        let two = ["http://a/x.tar".to_owned(), "http://b/y.tar".to_owned()];
        assert!(resolve(&two, &none).unwrap_err().to_string().contains("different"));
        let cached = Storage { cache_dir: Some("x".into()), ..Storage::default() };
        assert!(resolve(&["/tmp".to_owned()], &cached).unwrap_err().to_string().starts_with("cache_dir"));
    }

    #[test]
    fn file_uris_may_be_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b%é");
        let escaped = format!("file://{}/a%20b%25%C3%A9", folder.path().display());
        assert_eq!(local_path(&escaped).unwrap(), path);
        std::fs::write(folder.path().join("50%25"), b"x").unwrap();
        let plain = format!("file://{}/50%25", folder.path().display());
        assert!(local_path(&plain).unwrap().ends_with("50%25"));
        assert!(local_path("file:///x/%zz%").unwrap().ends_with("%zz%"));
        let message = local_path("hf://datasets/a/b").unwrap_err().to_string();
        assert!(message.contains("huggingface.co/datasets"), "{message}");
        assert!(local_path("sftp://a/b").unwrap_err().to_string().contains("rclone"));
    }

    #[test]
    fn http_files_need_no_request() {
        let uris = ["https://host/a/train-{0..2}.tar?sig=x".to_owned()];
        let Target::Objects(source, names) = resolve(&uris, &Storage::default()).unwrap() else {
            panic!("files expected")
        };
        assert_eq!(names, ["train-0.tar", "train-1.tar", "train-2.tar"]);
        assert_eq!(source.uri(), "https://host/a");
        assert!(matches!(
            resolve(&["https://host/pack".to_owned()], &Storage::default()),
            Ok(Target::Folder(_))
        ));
    }

    #[test]
    fn joined_lists_are_split_and_commands_refused() {
        let split = |uri: &str| split_joined(&[uri.to_owned()]);
        assert_eq!(split("a-{0..1}.tar::b.tar").unwrap(), ["a-{0..1}.tar", "b.tar"]);
        assert_eq!(split("s3://x/a.tar").unwrap(), ["s3://x/a.tar"]);
        assert!(split("pipe:curl x").unwrap_err().to_string().contains("command"));
    }

    #[test]
    fn files_in_several_folders_have_a_common_root() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a/1.tar", "b/2.tar"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        let pattern = format!("{}/{{a,b}}/*.tar", folder.path().display());
        let Target::Objects(source, names) = resolve(&[pattern], &Storage::default()).unwrap() else {
            panic!("files expected")
        };
        assert_eq!(names, ["a/1.tar", "b/2.tar"]);
        assert_eq!(source.uri(), folder.path().display().to_string());
    }
}
