//! Image columns may contain a path instead of bytes. Such a file is read if it is below the data set's own source: a
//! table from elsewhere must not make us read arbitrary files of this machine.

use super::placed;
use crate::error::{Error, Location, Result};
use crate::format::open_objects::OpenObjects;
use crate::sample::{Kind, SampleBuffer, Value};
use crate::source::to_usize;

/// The value of a column that has a path: the content of the file `path`, relative to object `number`.
pub(in crate::format) fn read(
    objects: &OpenObjects,
    number: usize,
    path: &str,
    follow_links: bool,
    kind: Kind,
    place: &dyn Fn() -> Location,
    into: &mut SampleBuffer,
) -> Result<Value> {
    let (source, shard) = (objects.source(), objects.name(number));
    let name = name_below(source.uri(), shard, path).ok_or_else(|| {
        let reason = format!("the image is not stored here but in '{path}', which is outside the data set");
        Error::data(place(), reason)
            .with_hint("store the images' bytes in the table, or put the files beside it")
    })?;
    if !follow_links && source.leads_outside(&name)? {
        let reason = format!("the image is in '{path}', and a link there leads out of the data set's folder");
        return Err(Error::data(place(), reason).with_hint("set follow_links=True if that is intended"));
    }
    let object = source.open(&name)?;
    let (range, room) = into.reserve(to_usize(object.size(), source.uri(), &name)?);
    object.read_at(0, room)?;
    Ok(placed(kind, range))
}

/// The name of `path` in the source with this root, if it is inside.
fn name_below(root: &str, shard: &str, path: &str) -> Option<String> {
    let root = root.trim_end_matches('/');
    let (folder, relative) = if path.starts_with('/') || path.contains("://") {
        ("", path.strip_prefix(root).filter(|_| !root.is_empty())?.strip_prefix('/')?)
    } else {
        (shard.rsplit_once('/').map_or("", |(folder, _)| folder), path)
    };
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for (shard, path, name) in [
            ("a.parquet", "x/1.jpg", Some("x/1.jpg")),
            ("data/a.parquet", "../x/./1.jpg", Some("x/1.jpg")),
            ("data/a.parquet", "/root/x/1.jpg", Some("x/1.jpg")),
            ("a.parquet", "../secret", None),
            ("a.parquet", "/etc/passwd", None),
            ("a.parquet", "/rootless/x", None),
            ("a.parquet", "/root/../etc/passwd", None),
            ("a.parquet", "https://elsewhere/x.jpg", None),
        ] {
            assert_eq!(name_below("/root", shard, path).as_deref(), name, "{path}");
        }
        assert_eq!(name_below("", "a", "/x"), None);
    }
}
