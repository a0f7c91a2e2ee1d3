//! The files of a table: opened many at a time, with the rows and the identity of each.

use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;

use super::FirstRows;
use crate::error::{Error, Location, Result};
use crate::format::open_objects::OpenObjects;
use crate::format::parallel;
use crate::sample::{Fingerprint, Schema};
use crate::source::{Object, Source};

/// Opened files, and where their rows are.
pub(in crate::format) struct TableFiles<T> {
    pub(in crate::format) files: Vec<T>,
    pub(in crate::format) open_objects: OpenObjects,
    pub(in crate::format) first_rows: FirstRows,
    /// Hash of the length, version and number of rows of every file.
    pub(in crate::format) identity: blake3::Hasher,
}

impl<T: Send> TableFiles<T> {
    /// Opens all files. `open` gets an object, its location and its number; `rows` counts the rows of the result.
    pub(in crate::format) fn open(
        source: Arc<dyn Source>,
        names: &[String],
        open: impl Fn(&Arc<dyn Object>, Location, u32) -> Result<T> + Sync,
        rows: impl Fn(&T) -> u64,
    ) -> Result<Self> {
        let place = |name: &str| Location::new(source.uri()).with_shard(name);
        let opened = parallel::collect(names.len(), |n| {
            let object = source.open(&names[n])?;
            Ok((open(&object, place(&names[n]), n as u32)?, object.size(), object.version()))
        })?;
        let mut identity = blake3::Hasher::new();
        let (mut files, mut objects, mut first_rows) = (Vec::new(), Vec::new(), FirstRows::new());
        for (name, (file, size, version)) in names.iter().zip(opened) {
            for number in [size, version, rows(&file)] {
                identity.update(&number.to_le_bytes());
            }
            let counted = first_rows.push(rows(&file));
            counted.ok_or_else(|| Error::data(place(name), "more rows than can be counted"))?;
            objects.push((name.clone(), size, version));
            files.push(file);
        }
        let open_objects = OpenObjects::with_versions(source, objects);
        Ok(TableFiles { files, open_objects, first_rows, identity })
    }
}

/// The fingerprint of files with this identity, read as this schema.
pub(in crate::format) fn fingerprint(
    format: &str,
    schema: &Schema,
    identity: &blake3::Hasher,
) -> Fingerprint {
    let names = schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join("\0");
    Fingerprint::of([format.as_bytes(), names.as_bytes(), &identity.finalize().as_bytes()[..]])
}

/// Refuses files that have other columns than the first.
pub(in crate::format) fn check_alike<'a>(
    objects: &OpenObjects,
    mut schemas: impl Iterator<Item = &'a ArrowSchema>,
) -> Result<()> {
    let types = |schema: &'a ArrowSchema| {
        schema.fields().iter().map(|f| (f.name(), f.data_type())).collect::<Vec<_>>()
    };
    let Some(expected) = schemas.next().map(types) else { return Ok(()) };
    let Some(after) = schemas.position(|schema| types(schema) != expected) else { return Ok(()) };
    let place = Location::new(objects.source().uri()).with_shard(objects.name(after + 1));
    let reason = format!("its columns differ from those of {}", objects.name(0));
    Err(Error::data(place, reason).with_hint("open files of one schema at a time"))
}
