//! Parquet files, alone or in the layout of Hugging Face's hub: samples by row, whatever the row groups are.
//!
//! Opening reads the footers. Columns of bytes and texts are read value by value ([`strings`]); other columns are
//! decoded in blocks of rows. Recently read parts are kept, up to a limit, and shared by all threads.

mod export;
mod file;
mod inflate;
mod levels;
mod lists;
mod pages;
mod strings;
mod thrift;

use std::borrow::Cow;
use std::sync::Arc;

use super::columns::{self, Column, Features, FirstRows, Shape, TableFiles, linked, units};
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions, splits};
use crate::error::{Error, Location, Result};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, Kind, SampleBuffer, Schema, Value};
use crate::source::{Source, Target};
pub(super) use export::ParquetExporter;
use file::{File, Pieces};

/// How to detect and open Parquet files.
pub(super) const PROBE: Probe = Probe { name: "parquet", recognises, open };

const MAGIC: &[u8; 4] = b"PAR1";
/// Maximum number of sub-folders searched for files: `data`, or one for each split.
const MAX_FOLDERS: usize = 64;

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = match target {
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(source) => (source, files_of(&**source)?),
    };
    let Some(first) = names.first() else { return Ok(None) };
    let object = source.open(first)?;
    if object.size() < 12 {
        return Ok(None);
    }
    let (mut head, mut tail) = ([0; 4], [0; 4]);
    object.read_at(0, &mut head)?;
    object.read_at(object.size() - 4, &mut tail)?;
    Ok((head == *MAGIC && tail == *MAGIC).then(|| format!("{} Parquet files", names.len())))
}

fn is_parquet(name: &str) -> bool {
    let hidden = name.rsplit('/').next().is_some_and(|base| base.starts_with(['.', '_']));
    !hidden
        && name.rsplit_once('.').is_some_and(|(_, extension)| matches!(extension, "parquet" | "pq" | "parq"))
}

/// The Parquet files of a folder, or of its sub-folders and theirs (`data/`, `default/train/`).
fn files_of(source: &dyn Source) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut level = vec![String::new()];
    for _ in 0..3 {
        let mut below = Vec::new();
        for folder in &level {
            for name in source.children(folder)? {
                let path = format!("{folder}{name}");
                if name.ends_with('/') && !name.starts_with('.') {
                    below.push(path);
                } else if is_parquet(&name) {
                    found.push(path);
                }
            }
        }
        if !found.is_empty() || below.len() > MAX_FOLDERS {
            break;
        }
        level = below;
    }
    found.sort();
    Ok(found)
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, names, listed) = match target {
        Target::Objects(source, names) => (source.clone(), names.clone(), true),
        Target::Folder(source) => (source.clone(), files_of(&**source)?, false),
    };
    let names = splits::choose(source.uri(), names, options.split.as_deref(), listed)?;
    if names.is_empty() {
        return Err(Error::data(Location::new(source.uri()), "no .parquet file in this folder"));
    }
    Ok(Arc::new(Parquet::open(source, &names, options.follow_links)?))
}

/// Open Parquet files.
#[derive(Debug)]
pub(crate) struct Parquet {
    schema: Schema,
    columns: Vec<Column>,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    open_objects: OpenObjects,
    files: Vec<File>,
    pieces: Pieces,
    /// First row of each file, and the number of rows.
    first_rows: FirstRows,
    follow_links: bool,
}

impl Parquet {
    fn open(source: Arc<dyn Source>, names: &[String], follow_links: bool) -> Result<Self> {
        let opened = TableFiles::open(source, names, File::open, File::rows)?;
        let TableFiles { files, open_objects, first_rows, identity } = opened;
        let mut open = Parquet {
            schema: Schema::default(),
            columns: Vec::new(),
            fingerprint: Fingerprint::of([]),
            problems: Vec::new(),
            open_objects,
            files,
            pieces: Pieces::new(),
            first_rows,
            follow_links,
        };
        open.find_fields()?;
        open.fingerprint = columns::fingerprint("parquet", &open.schema, &identity);
        Ok(open)
    }

    /// Fields, class names and notes.
    fn find_fields(&mut self) -> Result<()> {
        let first = self.files[0].metadata.schema();
        let features = first.metadata.get("huggingface").map(|text| Features::from_metadata(text));
        let features = features.unwrap_or_default();
        let place =
            |n: usize| Location::new(self.open_objects.source().uri()).with_shard(self.open_objects.name(n));
        columns::check_alike(&self.open_objects, self.files.iter().map(|file| &**file.metadata.schema()))?;
        let (mut columns, left_out) = columns::columns(first, &features);
        self.problems = left_out.into_iter().map(|reason| Error::data(place(0), reason)).collect();
        let written = self.files[0].written_schema();
        for column in &mut columns {
            if let Some(field) = written.as_ref().and_then(|s| s.field_with_name(&column.spec.name).ok()) {
                column.per = units::per(first.field(column.root).data_type(), field.data_type());
                let unit = units::unit(field.data_type()).filter(|_| column.per > 1);
                column.spec.unit = unit.or(column.spec.unit.take());
            }
            self.widen(column)?;
            let lacking = || self.files.iter().any(|file| file.may_lack(column));
            column.spec.optional = column.noted_optional.unwrap_or_else(lacking);
            if column.unsettled
                && columns::holds_images(self.len(), |sample, into| self.read_column(sample, column, into))
            {
                column.spec.kind = Kind::Image;
            }
        }
        let fields = columns.iter().map(|c| c.spec.clone()).collect();
        self.schema = Schema { fields, classes: features.classes() };
        self.columns = columns;
        Ok(())
    }

    /// Returns lists of integers with nulls among them as floats, with NaN for null. Checks the first rows of each
    /// file whose footer counts nulls.
    fn widen(&self, column: &mut Column) -> Result<()> {
        let Shape::Array { dtype, depth } = column.shape else { return Ok(()) };
        if matches!(dtype, DType::F16 | DType::F32 | DType::F64 | DType::BF16) {
            return Ok(());
        }
        for (number, file) in self.files.iter().enumerate().filter(|(_, file)| file.says_nulls(column)) {
            let found = self
                .open_objects
                .with_shared(number, |object| file.first_block(object, &self.pieces, column))??;
            if found.is_some_and(|block| columns::has_null_elements(&*block, depth)) {
                column.shape = Shape::Array { dtype: DType::F64, depth };
                return Ok(());
            }
        }
        Ok(())
    }

    /// File and row of a sample.
    fn find(&self, sample: u64) -> Option<(usize, u64)> {
        self.first_rows.find(sample)
    }

    fn read_column(&self, sample: u64, column: &Column, into: &mut SampleBuffer) -> Result<Value> {
        let (number, row) = self.find(sample).ok_or_else(|| self.past_end(sample))?;
        let file = &self.files[number];
        self.open_objects.with_shared(number, |object| {
            let value = file.read_value(object, &self.pieces, row, column, into)?;
            if value != Value::Missing || !matches!(column.shape, Shape::Stored { path: Some(_), .. }) {
                return Ok(value);
            }
            let path = file.read_path(object, &self.pieces, row, column)?;
            let Some(path) = path else { return Ok(Value::Missing) };
            let place = || self.locate(sample).with_field(&column.spec.name);
            let (objects, kind) = (&self.open_objects, column.spec.kind);
            linked::read(objects, number, &path, self.follow_links, kind, &place, into)
        })?
    }

    fn past_end(&self, sample: u64) -> Error {
        columns::past_end(self.open_objects.source().uri(), sample, self.len())
    }
}

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn len(&self) -> u64 {
        self.first_rows.count()
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
        if sample >= self.len() {
            return Err(self.past_end(sample));
        }
        for field in fields.iter() {
            let value = self.read_column(sample, &self.columns[field], into);
            into.set(field, value.map_err(|e| columns::in_sample(e, sample, &self.columns[field]))?);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(self.open_objects.source().uri()).with_sample(sample);
        let Some((number, row)) = self.find(sample) else { return place };
        let place = place.with_shard(self.open_objects.name(number));
        match self.files[number].offset(row) {
            Some(offset) => place.with_offset(offset),
            None => place,
        }
    }
}

impl crate::format::Index for Parquet {}

impl crate::format::Extents for Parquet {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Some((number, row)) = self.find(sample) else { return };
        for field in fields.iter() {
            let size = self.open_objects.length(number);
            if let Some(range) = self.files[number].extent(&self.pieces, row, &self.columns[field], size) {
                out.push(Extent { object: number as u32, range });
            }
        }
    }
}

#[cfg(test)]
mod tests;
