//! A table of samples: the lines of a CSV, TSV or JSON-lines file, rows that a program made, or a plain list of image
//! files. Columns of image paths become image fields, whose bytes are read from those files.

mod column;
mod csv;
mod files;
mod jsonl;
mod make;
mod rows;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use super::folder::is_image_name;
use super::sniff::has_ending;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::sample::{Extent, FieldSet, Fingerprint, ImageMeta, Kind, SampleBuffer, Schema, Value};
use crate::source::{Seen, Source, Target, to_usize};
use column::Column;
use files::{Files, Places};
use make::TableBuilder;
pub use rows::Rows;

/// How to detect and open a table.
pub(super) const PROBE: Probe = Probe { name: "table", recognises, open };
/// How to detect and open a list of image files.
pub(super) const FILES: Probe = Probe { name: "files", recognises: recognises_files, open: open_files };

/// Number of bytes inspected to distinguish text from anything else.
const HEAD_BYTES: u64 = 4096;

/// The syntax of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Csv,
    Tsv,
    JsonLines,
}

/// The syntax for a file extension.
fn style(name: &str) -> Option<Style> {
    let known = [
        (".csv", Style::Csv),
        (".tsv", Style::Tsv),
        (".jsonl", Style::JsonLines),
        (".ndjson", Style::JsonLines),
    ];
    known.into_iter().find(|(ending, _)| has_ending(name, ending)).map(|(_, style)| style)
}

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Objects(source, names) = target else { return Ok(None) };
    let [name] = names.as_slice() else { return Ok(None) };
    if style(name).is_none() {
        return Ok(None);
    }
    let object = source.open(name)?;
    let head = object.hold(0..object.size().min(HEAD_BYTES))?;
    Ok((!head.contains(&0)).then(|| "a table in text".to_owned()))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let (source, name) = match target {
        Target::Objects(source, names) if names.len() == 1 => (source, &names[0]),
        _ => {
            let reason = "one .csv, .tsv or .jsonl file was expected";
            return Err(Error::data(Location::new(target.uri()), reason));
        }
    };
    let place = Location::new(source.uri()).with_shard(name);
    let object = source.open(name)?;
    let size = to_usize(object.size(), source.uri(), name)?;
    let bytes = object.hold(0..size as u64)?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        Error::data(place.clone().with_offset(e.valid_up_to() as u64), "the text is not UTF-8")
            .with_hint("save the table as UTF-8")
    })?;
    let style = style(name).unwrap_or(Style::Csv);
    let columns = match style {
        Style::JsonLines => jsonl::parse(text, &options.schema),
        style => csv::parse(text, style == Style::Tsv, &options.schema),
    };
    let columns = columns.map_err(|reason| Error::data(place.clone(), reason))?;
    let columns = columns.into_iter().map(Arc::new).collect();
    let needs_paths = style != Style::JsonLines;
    let making = TableBuilder { name: "table", place, options, needs_paths, classes: None };
    let root = match &options.root {
        Some(root) => crate::source::folder_at(root, &options.storage)?,
        None => source.clone(),
    };
    Ok(Arc::new(making.table(columns, root)?))
}

#[expect(clippy::unnecessary_wraps, reason = "a probe may fail; this one does not look at files")]
fn recognises_files(target: &Target) -> Result<Option<String>> {
    let Target::Objects(_, names) = target else { return Ok(None) };
    let images = !names.is_empty() && names.iter().all(|name| is_image_name(name));
    Ok(images.then(|| format!("{} image files", names.len())))
}

fn open_files(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let Target::Objects(source, names) = target else {
        let reason = "a list of image files was asked for, but this is a folder";
        return Err(Error::data(Location::new(target.uri()), reason));
    };
    let mut paths = Column::new("path", Kind::Text);
    for name in names {
        paths.push_bytes(name.as_bytes());
    }
    let making = TableBuilder {
        name: "files",
        place: Location::new(source.uri()),
        options,
        needs_paths: true,
        classes: None,
    };
    Ok(Arc::new(making.table(vec![Arc::new(paths)], source.clone())?))
}

/// Opens rows that a program made; paths in them are relative to the options' root.
pub fn open_rows(rows: &Rows, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let place = Location::new("rows");
    if !rows.is_sound() {
        return Err(Error::data(place, "the rows are damaged"));
    }
    let root = crate::source::folder_at(options.root.as_deref().unwrap_or("."), &options.storage)?;
    let making =
        TableBuilder { name: "rows", place, options, needs_paths: false, classes: rows.classes.clone() };
    Ok(Arc::new(making.table(rows.columns.clone(), root)?))
}

/// What a field consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// A column's own values.
    Column(usize),
    /// The files that a column names: index of the column, and of the list of files.
    Files(usize, usize),
}

/// An open table.
#[derive(Debug)]
struct Table {
    name: &'static str,
    place: Location,
    schema: Schema,
    fields: Vec<Field>,
    columns: Vec<Arc<Column>>,
    files: Vec<Files>,
    places: Places,
    rows: u64,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
}

impl Table {
    fn check(&self, sample: u64) -> Result<()> {
        if sample < self.rows {
            return Ok(());
        }
        let place = self.place.clone().with_sample(sample);
        Err(Error::data(place, format!("the table has {} rows", self.rows)))
    }

    fn value(&self, field: usize, row: u64, into: &mut SampleBuffer) -> Result<Value> {
        match self.fields[field] {
            Field::Files(column, _) if self.columns[column].text(row).is_empty() => Ok(Value::Missing),
            Field::Files(_, files) => {
                let bytes = self.files[files].read(row, &self.places, into)?;
                Ok(Value::Image { index: bytes.end..bytes.end, bytes, meta: ImageMeta::UNKNOWN })
            }
            Field::Column(column) => self.columns[column].value(row, into).map_err(|reason| {
                Error::data(self.locate(row).with_field(&self.schema.fields[field].name), reason)
            }),
        }
    }

    /// The list of files and the row for an object's number.
    fn file(&self, number: u32) -> Option<(&Files, u64)> {
        let number = u64::from(number);
        let files = self.files.get(number.checked_div(self.rows)? as usize)?;
        Some((files, number % self.rows))
    }
}

impl Format for Table {
    fn name(&self) -> &'static str {
        self.name
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
        into.reset(self.fields.len());
        self.check(sample)?;
        for field in fields.iter() {
            let value = self.value(field, sample, into)?;
            into.set(field, value);
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let first = self.files.first().filter(|_| sample < self.rows);
        match first {
            Some(files) => {
                let source = self.places.source(files.place(sample));
                Location::new(source.uri()).with_shard(files.name(sample)).with_sample(sample)
            }
            None => self.place.clone().with_sample(sample),
        }
    }
}

impl crate::format::Index for Table {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        match self.fields.get(field) {
            Some(Field::Files(_, files)) => self.files[*files].all_known,
            Some(Field::Column(column)) => {
                let column = &self.columns[*column];
                let bytes = matches!(column.kind.carrier(), Carrier::Bytes | Carrier::Image);
                bytes && !column.has_missing()
            }
            None => false,
        }
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        if sample >= self.rows || !self.knows_byte_lengths(field) {
            return None;
        }
        match self.fields[field] {
            Field::Files(_, files) => Some(self.files[files].seen(sample)?.size),
            Field::Column(column) => Some(self.columns[column].bytes(sample).len() as u64),
        }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        self.check(sample)?;
        match self.fields[field] {
            Field::Files(_, number) => {
                let files = &self.files[number];
                let source = self.places.source(files.place(sample));
                let version = files.seen(sample).map_or(0, |seen| seen.version);
                source.read_unchanged(files.name(sample), version, into)
            }
            Field::Column(column) => {
                into.copy_from_slice(self.columns[column].bytes(sample));
                Ok(())
            }
        }
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let Some(Field::Column(column)) = self.fields.get(field) else { return None };
        self.columns[*column].int(sample)
    }
}

impl crate::format::Extents for Table {
    fn is_remote(&self) -> bool {
        self.places.is_remote()
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        let (files, row) = self.file(number)?;
        files.seen(row)
    }

    /// Every row of every list of files is an object.
    fn object_count(&self) -> u32 {
        u32::try_from(self.rows.saturating_mul(self.files.len() as u64)).unwrap_or(0)
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        let (files, row) = self.file(number)?;
        Some((self.places.source(files.place(row)), files.name(row).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if sample >= self.rows || self.object_count() == 0 {
            return;
        }
        for field in fields.iter() {
            if let Field::Files(_, number) = self.fields[field]
                && let Some(seen) = self.files[number].seen(sample)
            {
                let object = (number as u64 * self.rows + sample) as u32;
                out.push(Extent { object, range: 0..seen.size });
            }
        }
    }
}
