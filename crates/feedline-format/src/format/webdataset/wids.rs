//! `wids` index files: a JSON list of shards with the number of samples in each. Ours also contain the names and
//! kinds of the fields before they became suffixes.

use serde::{Deserialize, Serialize};

use super::names::Content;
use crate::error::{Error, Location, Result};
use crate::sample::{FieldSpec, Kind};
use crate::source::Source;

/// Name of the index that exports write, and that is read when a folder is opened.
pub(super) const INDEX_NAME: &str = "wids.json";
/// The value of `__kind__`.
pub(super) const KIND: &str = "wids-shard-index-v1";
/// A larger file is not a list of shards.
const MAX_BYTES: u64 = 256 << 20;

/// The file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Index {
    #[serde(rename = "__kind__", default)]
    kind: Option<String>,
    #[serde(default)]
    wids_version: Option<u64>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    base: Option<String>,
    #[serde(default)]
    shardlist: Vec<ListedShard>,
    #[serde(default)]
    datasets: Vec<Index>,
    #[serde(default)]
    source_url: Option<String>,
    /// Only in files that feedline wrote.
    #[serde(default)]
    pub(super) feedline: Option<Layout>,
}

/// A shard of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListedShard {
    /// Relative to the index file (or its `base`).
    pub(super) url: String,
    pub(super) nsamples: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) filesize: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) md5sum: Option<String>,
}

/// How fields became suffixes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) fields: Vec<LayoutField>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) classes: Option<Vec<String>>,
}

/// A field, and the suffixes its members have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayoutField {
    #[serde(flatten)]
    pub(super) spec: FieldSpec,
    pub(super) suffixes: Vec<String>,
}

impl Layout {
    /// The field that members with this suffix belong to, and their content.
    pub(super) fn find(&self, suffix: &str) -> Option<(usize, Content, bool)> {
        let at = self.fields.iter().position(|field| field.suffixes.iter().any(|s| s == suffix))?;
        let spec = &self.fields[at].spec;
        let (content, gzipped) = Content::of(suffix);
        let content =
            if spec.kind == Kind::Float && content == Content::Json { Content::Float } else { content };
        // A layout that contradicts the suffix was not written by feedline. Audio and video are bytes to a suffix.
        spec.kind.takes(content.kind()).then_some((at, content, gzipped))
    }
}

/// Reads the index `name`; `None` if the file is something else.
pub(super) fn read(source: &dyn Source, name: &str) -> Result<Option<Index>> {
    let object = source.open(name)?;
    let size = object.size();
    let mut first = [0; 1];
    if size == 0 || size > MAX_BYTES {
        return Ok(None);
    }
    object.read_at(0, &mut first)?;
    if !matches!(first[0], b'{' | b' ' | b'\n' | b'\t' | b'\r') {
        return Ok(None);
    }
    let mut bytes = vec![0; size as usize];
    object.read_at(0, &mut bytes)?;
    let Ok(index) = serde_json::from_slice::<Index>(&bytes) else { return Ok(None) };
    // `__kind__` was added after the version.
    let ours = index.kind.as_deref() == Some(KIND) || (index.kind.is_none() && index.wids_version == Some(1));
    Ok((ours && (!index.shardlist.is_empty() || !index.datasets.is_empty())).then_some(index))
}

impl Index {
    /// The shards of the index `name`, with names relative to the root of `source`. If the index lists several data
    /// sets, `split` chooses one; without it, all.
    pub(super) fn shards(
        &self,
        source: &dyn Source,
        name: &str,
        split: Option<&str>,
    ) -> Result<Vec<ListedShard>> {
        let place = || Location::new(source.uri()).with_shard(name);
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut found = Vec::new();
        let sets = std::iter::once(self).chain(&self.datasets);
        let wanted = |set: &&Index| split.is_none_or(|split| set.name.as_deref() == Some(split));
        for set in sets.filter(wanted) {
            if let Some(url) = &set.source_url {
                let reason = format!("it refers to another index, {url}, which is not followed");
                return Err(
                    Error::data(place(), reason).with_hint("open that index and join them with concat")
                );
            }
            let base = set.base.as_deref().or(self.base.as_deref()).unwrap_or(folder);
            for shard in &set.shardlist {
                let url = locate(source.uri(), base, &shard.url).ok_or_else(|| {
                    let reason = format!("its shard {} is outside this folder", shard.url);
                    Error::data(place(), reason).with_hint("open the shards by a list of their urls")
                })?;
                found.push(ListedShard { url, ..shard.clone() });
            }
        }
        if found.is_empty() {
            let names: Vec<&str> = self.datasets.iter().filter_map(|set| set.name.as_deref()).collect();
            let split = split.unwrap_or_default();
            let reason =
                format!("the index has no data set '{split}' with shards; it has {}", names.join(", "));
            return Err(Error::option("split", reason));
        }
        Ok(found)
    }
}

/// `url`, relative to `base`, as a name below `root`; `None` if it is not below.
fn locate(root: &str, base: &str, url: &str) -> Option<String> {
    let joined = if url.contains("://") || url.starts_with('/') || base.is_empty() {
        url.to_owned()
    } else {
        format!("{}/{url}", base.trim_end_matches('/'))
    };
    let path = joined.strip_prefix("file://").or_else(|| joined.strip_prefix("file:")).unwrap_or(&joined);
    let relative = match path.strip_prefix(root.trim_end_matches('/')) {
        Some(below) if below.starts_with('/') && !root.is_empty() => below.trim_start_matches('/'),
        _ => path,
    };
    let outside = relative.contains("://") || relative.starts_with('/');
    (!outside).then(|| normal(relative)).flatten()
}

/// Removes `.` and `..`; `None` if the path leads above the root.
fn normal(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_relative_to_the_index() {
        for (root, base, url, expected) in [
            ("/d", "", "a.tar", Some("a.tar")),
            ("/d", "sub", "a.tar", Some("sub/a.tar")),
            ("/d", "sub", "../a.tar", Some("a.tar")),
            ("/d", "", "../a.tar", None),
            ("/d", "", "/d/x/a.tar", Some("x/a.tar")),
            ("/d", "", "file:/d/a.tar", Some("a.tar")),
            ("/d", "", "/e/a.tar", None),
            ("s3://b/d", "", "s3://b/d/a.tar", Some("a.tar")),
            ("s3://b/d", "", "https://x/a.tar", None),
            ("s3://b/d", "s3://b/d/deep", "a.tar", Some("deep/a.tar")),
        ] {
            assert_eq!(locate(root, base, url).as_deref(), expected, "{root} {base} {url}");
        }
    }
}
