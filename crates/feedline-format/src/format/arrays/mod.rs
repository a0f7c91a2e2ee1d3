//! NumPy's `.npy` and `.npz` files: a sample is a row along the first dimension. Rows of one-dimensional arrays are
//! numbers, all others are arrays, or images if `schema` says so.

mod column;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::{common_length, is_part, without_part};
use super::sniff::has_ending;
use super::zip::{Members, Method};
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, SampleBuffer, Schema};
use crate::source::{HeldBytes, Seen, Source, Target, to_usize};
use column::{Bytes, Column};

/// How to detect and open NumPy files.
pub(super) const PROBE: Probe = Probe { name: "npy", recognises, open };

/// The only field of an `.npy` file.
const ONLY: &str = "array";

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Objects(source, names) = target else { return Ok(None) };
    let [name] = names.as_slice() else { return Ok(None) };
    if !has_ending(name, ".npy") && !has_ending(name, ".npz") {
        return Ok(None);
    }
    let object = source.open(name)?;
    let mut magic = [0; 6];
    if object.size() < 6 || object.read_at(0, &mut magic).is_err() {
        return Ok(None);
    }
    let numpy = &magic == b"\x93NUMPY" || magic.starts_with(b"PK");
    Ok(numpy.then(|| "a NumPy file".to_owned()))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, name) = match target {
        Target::Objects(source, names) if names.len() == 1 => (source, &names[0]),
        _ => {
            let reason = "one .npy or .npz file was expected";
            return Err(Error::data(Location::new(target.uri()), reason));
        }
    };
    Ok(Arc::new(Arrays::open(source.clone(), name, options)?))
}

/// An open NumPy file.
#[derive(Debug)]
struct Arrays {
    source: Arc<dyn Source>,
    name: String,
    seen: Seen,
    schema: Schema,
    columns: Vec<Column>,
    rows: u64,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
}

impl Arrays {
    fn open(source: Arc<dyn Source>, name: &str, options: &ReadingOptions) -> Result<Self> {
        let place = Location::new(source.uri()).with_shard(name);
        let object = source.open(name)?;
        let seen = Seen { size: object.size(), version: object.version() };
        let mut magic = [0; 4];
        object.read_at(0, &mut magic)?;
        let mut problems = Vec::new();
        let found = if magic.starts_with(b"PK") {
            in_zip(&source, name, options, &mut problems)?
        } else if options.split.is_some() {
            return Err(Error::option("split", "an .npy file holds one array and has no parts".to_owned()));
        } else {
            let whole = 0..object.size();
            vec![(ONLY.to_owned(), Bytes::InFile { object, range: whole })]
        };
        check_names(&options.schema, &found)?;
        let mut columns = Vec::new();
        for (name, bytes) in found {
            let kind = options.schema.get(&name).copied();
            match Column::new(name, bytes, kind) {
                Ok(column) => columns.push(column),
                Err(error) if kind.is_some() => return Err(error.into_error(&place)),
                Err(error) => problems.push(error.into_error(&place)),
            }
        }
        let lengths = columns.iter().map(|column| (column.name.as_str(), column.rows));
        let rows = common_length(lengths, &problems, &place)?;
        let field = |column: &Column| FieldSpec::new(&column.name, column.kind());
        let schema = Schema { fields: columns.iter().map(field).collect(), classes: None };
        let shapes: Vec<String> = columns.iter().map(Column::describe).collect();
        let (size, version) = (seen.size.to_le_bytes(), seen.version.to_le_bytes());
        let pieces = [&b"npy"[..], &size, &version].into_iter().chain(shapes.iter().map(String::as_bytes));
        let fingerprint = Fingerprint::of(pieces);
        Ok(Arrays { source, name: name.to_owned(), seen, schema, columns, rows, fingerprint, problems })
    }

    fn check(&self, sample: u64) -> Result<()> {
        if sample < self.rows {
            return Ok(());
        }
        Err(Error::data(self.locate(sample), format!("the file has {} rows", self.rows)))
    }
}

/// Refuses a kind for an array that does not exist.
fn check_names(schema: &BTreeMap<String, Kind>, found: &[(String, Bytes)]) -> Result<()> {
    let Some(name) = schema.keys().find(|name| !found.iter().any(|(array, _)| array == *name)) else {
        return Ok(());
    };
    let names: Vec<&str> = found.iter().map(|(array, _)| array.as_str()).collect();
    Err(Error::option("schema", format!("there is no array '{name}'; there are {}", names.join(", "))))
}

/// The arrays of an `.npz` file: uncompressed ones are read from the file, others are unpacked once.
fn in_zip(
    source: &Arc<dyn Source>,
    name: &str,
    options: &ReadingOptions,
    problems: &mut Vec<Error>,
) -> Result<Vec<(String, Bytes)>> {
    let members = Members::open(source, name, |member| has_ending(member, ".npy"))?;
    let place = || Location::new(source.uri()).with_shard(name);
    let wanted = |array: &str| options.split.as_ref().is_none_or(|split| is_part(array, split));
    let mut found = Vec::new();
    for (number, member) in members.all().iter().enumerate() {
        let array = member.name[..member.name.len() - 4].to_owned();
        if let Some(reason) = member.refusal() {
            problems.push(Error::data(place(), reason));
        } else if wanted(&array) {
            let bytes = if member.method == Method::Stored {
                Bytes::InFile { object: members.file().2.clone(), range: members.place_of(number)? }
            } else {
                let mut whole = Vec::new();
                let size = to_usize(member.size, source.uri(), name)?;
                whole.try_reserve_exact(size).map_err(|_| {
                    Error::data(place(), format!("'{array}' has {size} bytes, which memory cannot hold"))
                        .with_hint("write the file with np.savez instead of np.savez_compressed")
                })?;
                whole.resize(size, 0);
                members.read(number, &mut whole)?;
                Bytes::Here(HeldBytes::Owned(whole.into()))
            };
            found.push((array, bytes));
        }
    }
    if found.is_empty() && options.split.is_some() {
        let names: Vec<&str> = members.all().iter().map(|m| m.name.trim_end_matches(".npy")).collect();
        let reason = format!("no array of {name} has it in its name; there are {}", names.join(", "));
        return Err(Error::option("split", reason));
    }
    for (array, _) in &mut found {
        if let Some(split) = &options.split {
            *array = without_part(array, split);
        }
    }
    Ok(found)
}

impl Format for Arrays {
    fn name(&self) -> &'static str {
        "npy"
    }

    fn len(&self) -> u64 {
        self.rows
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.columns.len());
        self.check(sample)?;
        for field in fields.iter() {
            let value = self.columns[field].read(sample, into);
            let value = value.map_err(|refusal| refusal.into_error(&self.locate(sample)))?;
            into.set(field, value);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new(self.source.uri()).with_shard(&self.name).with_sample(sample)
    }
}

impl crate::format::Index for Arrays {
    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.columns.get(field)?.image_meta().filter(|_| sample < self.rows)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        (sample < self.rows).then(|| self.columns.get(field)?.int(sample))?
    }
}

impl crate::format::Extents for Arrays {
    fn seen(&self, _number: u32) -> Option<Seen> {
        Some(self.seen)
    }

    fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    fn object_count(&self) -> u32 {
        1
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        (number == 0).then(|| (&self.source, self.name.as_str().into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if sample < self.rows {
            let ranges = fields.iter().filter_map(|field| self.columns.get(field)?.extent(sample));
            out.extend(ranges.map(|range| Extent { object: 0, range }));
        }
    }
}
