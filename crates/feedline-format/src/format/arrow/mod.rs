//! Arrow IPC files and streams, including those that Hugging Face's `datasets` save to disk.
//!
//! Opening reads the headers of all record batches. Values of uncompressed batches are then read in place, so that an
//! undecoded image costs one read. See [`table`] for what is kept in memory.

mod disk;
mod inflate;
mod layout;
mod message;
mod table;

use std::borrow::Cow;
use std::sync::Arc;

use super::columns::{self, Column, Features, FirstRows, Shape, TableFiles, linked};
use super::open_objects::OpenObjects;
use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, Fingerprint, Kind, SampleBuffer, Schema, Value};
use crate::source::{Source, Target};

pub(super) use table::{IpcTable, Pieces};

/// How to detect and open Arrow files.
pub(super) const PROBE: Probe = Probe { name: "arrow", recognises, open };

fn recognises(target: &Target) -> Result<Option<String>> {
    let (source, names) = match target {
        Target::Objects(source, names) => (source, names.clone()),
        Target::Folder(source) => {
            if let Some(sight) = disk::recognises(&**source)? {
                return Ok(Some(sight));
            }
            (source, disk::loose_files(&**source)?)
        }
    };
    let Some(first) = names.first() else { return Ok(None) };
    let object = source.open(first)?;
    let mut head = [0; 8];
    if object.size() < 8 {
        return Ok(None);
    }
    object.read_at(0, &mut head)?;
    Ok(message::begins(&head).then(|| format!("{} Arrow files", names.len())))
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let found = match target {
        Target::Objects(source, names) => disk::FoundFiles::listed(&**source, names.clone(), options)?,
        Target::Folder(source) => disk::find(&**source, options)?,
    };
    let (Target::Objects(source, _) | Target::Folder(source)) = target;
    Ok(Arc::new(Arrow::open(source.clone(), found, options.follow_links)?))
}

/// Open Arrow files.
#[derive(Debug)]
pub(crate) struct Arrow {
    schema: Schema,
    columns: Vec<Column>,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    open_objects: OpenObjects,
    tables: Vec<IpcTable>,
    /// First row of each table, and the number of rows.
    first_rows: FirstRows,
    /// The row of each sample, if the data set was shuffled or filtered before it was saved.
    mapping: Option<Vec<u64>>,
    follow_links: bool,
}

impl Arrow {
    fn open(source: Arc<dyn Source>, found: disk::FoundFiles, follow_links: bool) -> Result<Self> {
        let pieces = Arc::new(Pieces::new());
        let opened = TableFiles::open(
            source,
            &found.names,
            |object, place, number| {
                IpcTable::open(&**object, 0..object.size(), place, pieces.clone(), number)
            },
            IpcTable::rows,
        )?;
        let TableFiles { files: tables, open_objects, first_rows, mut identity } = opened;
        let mapping = found.mapping;
        for row in mapping.iter().flatten() {
            identity.update(&row.to_le_bytes());
        }
        let mut open = Arrow {
            schema: Schema::default(),
            columns: Vec::new(),
            fingerprint: Fingerprint::of([]),
            problems: Vec::new(),
            open_objects,
            tables,
            first_rows,
            mapping,
            follow_links,
        };
        open.check_mapping()?;
        open.find_fields(&found.features)?;
        open.fingerprint = columns::fingerprint("arrow", &open.schema, &identity);
        Ok(open)
    }

    fn check_mapping(&self) -> Result<()> {
        let rows = self.first_rows.count();
        match self.mapping.iter().flatten().find(|row| **row >= rows) {
            None => Ok(()),
            Some(row) => {
                let reason = format!("the saved indices name row {row}, but there are {rows}");
                Err(Error::data(Location::new(self.open_objects.source().uri()), reason))
            }
        }
    }

    /// Fields, class names and notes.
    fn find_fields(&mut self, features: &Features) -> Result<()> {
        let Some(first) = self.tables.first() else { return Ok(()) };
        let own = first.schema().metadata.get("huggingface").map(|text| Features::from_metadata(text));
        let features = own.filter(|f| !f.is_empty()).unwrap_or_else(|| features.clone());
        let place =
            |n: usize| Location::new(self.open_objects.source().uri()).with_shard(self.open_objects.name(n));
        columns::check_alike(&self.open_objects, self.tables.iter().map(IpcTable::schema))?;
        let (mut columns, left_out) = columns::columns(first.schema(), &features);
        for column in &mut columns {
            column.spec.optional = self.tables.iter().any(|table| table.has_nulls(column));
        }
        self.problems = left_out.into_iter().map(|reason| Error::data(place(0), reason)).collect();
        for (number, _) in self.tables.iter().enumerate().filter(|(_, t)| t.is_unterminated()) {
            let reason = "the Arrow stream has no end mark; if it was cut, samples are missing";
            self.problems.push(Error::data(place(number), reason));
        }
        for column in &mut columns {
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

    /// Table and row of a sample.
    fn find(&self, sample: u64) -> Option<(usize, u64)> {
        let row = match &self.mapping {
            Some(mapping) => *mapping.get(usize::try_from(sample).ok()?)?,
            None => sample,
        };
        self.first_rows.find(row)
    }

    fn read_column(&self, sample: u64, column: &Column, into: &mut SampleBuffer) -> Result<Value> {
        let (number, row) = self.find(sample).ok_or_else(|| self.past_end(sample))?;
        let table = &self.tables[number];
        let value =
            self.open_objects.with(number, |object| table.read_value(object, row, column, into))??;
        if value != Value::Missing || !matches!(column.shape, Shape::Stored { path: Some(_), .. }) {
            return Ok(value);
        }
        let path = self.open_objects.with(number, |object| table.read_path(object, row, column))??;
        let Some(path) = path else { return Ok(Value::Missing) };
        let place = || self.locate(sample).with_field(&column.spec.name);
        let (objects, kind) = (&self.open_objects, column.spec.kind);
        linked::read(objects, number, &path, self.follow_links, kind, &place, into)
    }

    fn past_end(&self, sample: u64) -> Error {
        columns::past_end(self.open_objects.source().uri(), sample, self.len())
    }

    fn place_of(&self, sample: u64, field: usize) -> Option<(usize, std::ops::Range<u64>, bool)> {
        let (number, row) = self.find(sample)?;
        let found =
            self.open_objects.with(number, |o| self.tables[number].place_of(o, row, &self.columns[field]));
        let (range, own) = found.ok()?.ok()??;
        Some((number, range, own))
    }
}

impl Format for Arrow {
    fn name(&self) -> &'static str {
        "arrow"
    }

    fn len(&self) -> u64 {
        self.mapping.as_ref().map_or_else(|| self.first_rows.count(), |m| m.len() as u64)
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
        match self.tables[number].offset(row) {
            Some(offset) => place.with_offset(offset),
            None => place,
        }
    }
}

impl crate::format::Index for Arrow {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let (_, range, _) = self.place_of(sample, field)?;
        Some(range.end - range.start)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        if let Some((number, range, true)) = self.place_of(sample, field)
            && range.end - range.start == into.len() as u64
        {
            return self.open_objects.with(number, |object| object.read_at(range.start, into))?;
        }
        let mut buffer = SampleBuffer::new();
        buffer.reset(0);
        match self.read_column(sample, &self.columns[field], &mut buffer)? {
            Value::Bytes(range) | Value::Image { bytes: range, .. } if range.len() == into.len() => {
                into.copy_from_slice(buffer.bytes(&range));
                Ok(())
            }
            _ => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let (number, row) = self.find(sample)?;
        self.open_objects
            .with(number, |o| self.tables[number].int_value(o, row, &self.columns[field]))
            .ok()?
    }
}

impl crate::format::Extents for Arrow {
    fn object_count(&self) -> u32 {
        self.open_objects.len() as u32
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((self.open_objects.source(), self.open_objects.name(number as usize).into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        for field in fields.iter() {
            if let Some((number, range, true)) = self.place_of(sample, field) {
                out.push(Extent { object: number as u32, range });
            }
        }
    }
}

#[cfg(test)]
mod tests;
