//! HDF5 files (`.h5`, `.hdf5`): a sample is a row along the first dimension of the file's datasets. Datasets in
//! groups are fields named `group/name`. Several files with the same datasets are concatenated.
//!
//! The `hdf5-reader` crate reads the file's structure and undoes the filters (deflate, shuffle, Fletcher's checksum,
//! LZ4, scale-offset, szip). Unlike the C library it has no lock, so threads read in parallel.

mod column;
mod storage;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use hdf5_reader::group::Group;
use hdf5_reader::{Dataset, Hdf5File, OpenOptions};

use super::open_objects::OpenObjects;
use super::rows::{common_length, is_part, without_part};
use super::sniff::has_ending;
use super::{Extents, Format, Index, Probe, ReadingOptions, parallel};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, MAX_FIELDS, SampleBuffer, Schema};
use crate::source::{Source, Target};
use column::Column;
use storage::{OpenFile, reading};

/// How to detect and open HDF5 files.
pub(super) const PROBE: Probe = Probe { name: "hdf5", recognises, open };

const MAGIC: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
const ENDINGS: [&str; 4] = [".h5", ".hdf5", ".he5", ".hdf"];
/// Maximum depth of groups.
const DEEPEST: usize = 16;
/// Maximum size of integer columns that are kept in memory: samplers need labels without reading samples.
const HELD_AT_MOST: u64 = 64 << 20;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = candidates(target)?;
    let Some(first) = names.first() else { return Ok(None) };
    let object = source.open(first)?;
    // A user block of 512 bytes, or a power of two times as many, may come first.
    let begins = |at: u64| {
        let mut magic = [0; 8];
        at + 8 <= object.size() && object.read_at(at, &mut magic).is_ok() && magic == *MAGIC
    };
    let found = [0, 512, 1024, 2048].into_iter().any(begins);
    Ok(found.then(|| format!("{} HDF5 files", names.len())))
}

fn candidates(target: &Target) -> Result<(&Arc<dyn Source>, Vec<String>)> {
    let (source, mut names) = match target {
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(source) => (source, source.children("")?),
    };
    names.retain(|name| ENDINGS.iter().any(|ending| has_ending(name, ending)));
    if matches!(target, Target::Folder(_)) {
        names.sort();
    }
    Ok((source, names))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names) = match target {
        // By name, whatever its extension.
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(_) => candidates(target)?,
    };
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no .h5 or .hdf5 file in this folder"));
    }
    Ok(Arc::new(Hdf5::open(source.clone(), names, options)?))
}

/// One open file.
#[derive(Debug)]
struct File {
    columns: Vec<Column>,
    rows: u64,
    /// Integers by column, if they are kept in memory.
    ints: Vec<Option<Vec<i64>>>,
    problems: Vec<Error>,
}

/// Open HDF5 files.
#[derive(Debug)]
struct Hdf5 {
    uri: String,
    open_objects: Arc<OpenObjects>,
    schema: Schema,
    files: Vec<File>,
    /// First sample of each file, and the number of samples.
    starts: Vec<u64>,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
}

impl Hdf5 {
    fn open(source: Arc<dyn Source>, names: Vec<String>, options: &ReadingOptions) -> Result<Self> {
        let uri = source.uri().to_owned();
        let objects = parallel::collect(names.len(), |number| {
            let object = source.open(&names[number])?;
            Ok((names[number].clone(), object.size(), object.version()))
        })?;
        let mut hasher = blake3::Hasher::new();
        for (_, size, version) in &objects {
            hasher.update(&size.to_le_bytes());
            hasher.update(&version.to_le_bytes());
        }
        let open_objects = Arc::new(OpenObjects::with_versions(source, objects));
        let files = parallel::collect(names.len(), |number| File::open(&open_objects, number, options))?;
        check_alike(&files, &open_objects)?;
        let columns = &files[0].columns;
        let fields = columns.iter().map(|column| FieldSpec::new(&column.name, column.kind())).collect();
        let described: Vec<String> = columns.iter().map(Column::describe).collect();
        let hash = hasher.finalize();
        let pieces =
            [&b"hdf5"[..], hash.as_bytes()].into_iter().chain(described.iter().map(String::as_bytes));
        let fingerprint = Fingerprint::of(pieces);
        let mut starts = vec![0];
        for file in &files {
            starts.push(starts.last().copied().unwrap_or(0) + file.rows);
        }
        let problems = files.iter().flat_map(|file| file.problems.clone()).collect();
        let schema = Schema { fields, classes: None };
        Ok(Hdf5 { uri, open_objects, schema, files, starts, fingerprint, problems })
    }

    fn place(&self, sample: u64) -> Result<(usize, u64)> {
        if sample >= self.len() {
            let place = Location::new(&self.uri).with_sample(sample);
            return Err(Error::data(place, format!("the files hold {} rows", self.len())));
        }
        let file = self.starts.partition_point(|start| *start <= sample) - 1;
        Ok((file, sample - self.starts[file]))
    }
}

impl File {
    fn open(open_objects: &Arc<OpenObjects>, number: usize, options: &ReadingOptions) -> Result<Self> {
        let place = Location::new(open_objects.source().uri()).with_shard(open_objects.name(number));
        let bytes = Arc::new(OpenFile { open_objects: open_objects.clone(), number });
        let mut found = Vec::new();
        reading(&place, || {
            let file = Hdf5File::from_storage_with_options(bytes, OpenOptions::default())?;
            collect(&file.root_group()?, "", 0, &mut HashSet::new(), &mut found)
        })?;
        // The order in a file depends on how its links are stored.
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (columns, problems) = columns(found, options, &place)?;
        let rows = common_length(columns.iter().map(|c| (c.name.as_str(), c.rows)), &problems, &place)?;
        let held = |column: &Column| reading(&place, || column.ints(HELD_AT_MOST));
        let ints = columns.iter().map(held).collect::<Result<_>>()?;
        Ok(File { columns, rows, ints, problems })
    }
}

/// The wanted datasets of a file, as columns, and why others are not used.
fn columns(
    found: Vec<(String, Dataset)>,
    options: &ReadingOptions,
    place: &Location,
) -> Result<(Vec<Column>, Vec<Error>)> {
    let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
    let (mut columns, mut problems) = (Vec::new(), Vec::new());
    for (mut name, dataset) in found {
        if let Some(split) = &options.split {
            if !is_part(&name, split) {
                continue;
            }
            name = without_part(&name, split);
        }
        let kind = options.schema.get(&name).copied();
        match reading(place, || Ok(Column::new(name.clone(), dataset, kind)))? {
            Ok(column) => columns.push(column),
            Err(reason) => {
                let error = Error::data(place.clone().with_field(name), reason);
                if kind.is_some() {
                    return Err(error);
                }
                problems.push(error);
            }
        }
    }
    if columns.is_empty() && options.split.is_some() {
        let reason = format!("no dataset has it in its name; there are {}", names.join(", "));
        return Err(Error::option("split", reason));
    }
    if columns.len() > MAX_FIELDS {
        let reason = format!("{} datasets; at most {MAX_FIELDS} can be fields", columns.len());
        return Err(Error::data(place.clone(), reason)
            .with_hint("a dataset for every sample is not read: join them along a first dimension"));
    }
    Ok((columns, problems))
}

/// All datasets below a group, by name. Links may form cycles.
fn collect(
    group: &Group,
    prefix: &str,
    depth: usize,
    seen: &mut HashSet<u64>,
    found: &mut Vec<(String, Dataset)>,
) -> hdf5_reader::error::Result<()> {
    if depth > DEEPEST || !seen.insert(group.address()) || found.len() > MAX_FIELDS {
        return Ok(());
    }
    let (groups, datasets) = group.members()?;
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    for dataset in datasets {
        found.push((format!("{prefix}{}", last(dataset.name())), dataset));
    }
    for group in groups {
        collect(&group, &format!("{prefix}{}/", last(group.name())), depth + 1, seen, found)?;
    }
    Ok(())
}

/// Checks that files which follow one another have the same fields.
fn check_alike(files: &[File], open_objects: &OpenObjects) -> Result<()> {
    let described = |file: &File| file.columns.iter().map(Column::describe).collect::<Vec<_>>();
    let first = described(&files[0]);
    for (number, file) in files.iter().enumerate().skip(1) {
        let other = described(file);
        if other != first {
            let reason = format!(
                "the datasets differ from those of {}: {} there, {} here",
                open_objects.name(0),
                first.join(", "),
                other.join(", ")
            );
            let place = Location::new(open_objects.source().uri()).with_shard(open_objects.name(number));
            return Err(Error::data(place, reason));
        }
    }
    Ok(())
}

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        "hdf5"
    }

    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
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
        into.reset(self.schema.fields.len());
        let (file, row) = self.place(sample)?;
        for field in fields.iter() {
            let column = &self.files[file].columns[field];
            let place = || self.locate(sample).with_field(&column.name);
            let value = reading(&place(), || column.read(row, into))?;
            into.set(field, value);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(&self.uri).with_sample(sample);
        match self.place(sample) {
            Ok((file, _)) => place.with_shard(self.open_objects.name(file)),
            Err(_) => place,
        }
    }
}

impl Index for Hdf5 {
    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let (file, _) = self.place(sample).ok()?;
        self.files[file].columns.get(field)?.image_meta()
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let (file, row) = self.place(sample).ok()?;
        self.files[file].ints.get(field)?.as_ref()?.get(row as usize).copied()
    }
}

impl Extents for Hdf5 {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    // Only the reader knows the offsets of a row: nothing is planned.
    fn extents(&self, _: u64, _: &FieldSet, _: &mut Vec<Extent>) {}
}
