//! Samples that are rows of an Arrow table: their fields, and reading them.

use std::ops::Range;
use std::sync::Arc;

use super::arrow::{RowPlace, Rows};
use super::batch::{Batch, Cell, Stored};
use super::chunk::{Bytes, Layout, Wrong};
use super::column::{Flat, Shape};
use super::leaf::with_text;
use super::{Chunk, LitData};
use crate::error::{Error, Location, Result};
use crate::format::sniff::is_image;
use crate::format::{Format, parallel};
use crate::sample::{Extent, FieldSet, FieldSpec, ImageMeta, Kind, SampleBuffer, Value};

/// Maximum number of rows searched for one that is not null, to see whether bytes are images.
const LOOK_AT: u64 = 64;

/// A record batch that is kept for good, or for a while.
enum BatchRef<'a> {
    Resident(&'a Batch),
    LruCache(Arc<Batch>),
}

impl std::ops::Deref for BatchRef<'_> {
    type Target = Batch;

    fn deref(&self) -> &Batch {
        match self {
            BatchRef::Resident(batch) => batch,
            BatchRef::LruCache(batch) => batch,
        }
    }
}

/// What all chunks together say about a field.
struct Union {
    name: String,
    /// `None` while only nulls were seen.
    kind: Option<Kind>,
    /// Number of chunks that have it.
    seen: usize,
}

impl LitData {
    /// Whether chunks may be Arrow tables: litdata writes them for dictionaries (whose types it stores) of bytes and
    /// of values that JSON can express.
    pub(super) fn may_have_rows(&self) -> bool {
        let plain = |name: &String| {
            matches!(name.as_str(), "str" | "text" | "bool" | "int" | "float" | "bytes" | "json" | "pickle")
        };
        self.index.types.is_some() && self.index.serializers.iter().all(plain)
    }

    /// The fields of all chunks' tables; `leaves` are those of chunks that are not tables, if there are any.
    pub(super) fn describe_rows(&self, leaves: &[FieldSpec]) -> Result<Vec<FieldSpec>> {
        let found =
            parallel::collect(self.chunks.len(), |number| self.chunk(number).map(|chunk| &chunk.layout))?;
        let tables: Vec<&Rows> = found.iter().filter_map(|layout| table(layout)).collect();
        let leaves = if tables.len() == found.len() { &[] } else { leaves };
        let mut fields: Vec<Union> = leaves
            .iter()
            .map(|f| Union { name: f.name.clone(), kind: Some(f.kind), seen: found.len() - tables.len() })
            .collect();
        for rows in &tables {
            rows.columns.flat.iter().for_each(|flat| join(&mut fields, flat));
        }
        let mut specs = Vec::new();
        for field in fields {
            let leaf = leaves.iter().find(|leaf| leaf.name == field.name);
            let kind = self.final_kind(&field, leaf, &tables)?;
            let optional =
                field.kind.is_none() || field.seen < found.len() || self.index.is_optional(&field.name);
            let mut spec = FieldSpec::new(field.name, kind).optional(optional);
            spec.pickled = leaf.is_some_and(|leaf| leaf.pickled);
            specs.push(spec);
        }
        Ok(specs)
    }

    /// A field's kind after all chunks were read: bytes may be images; a leaf cannot become another kind.
    fn final_kind(&self, field: &Union, leaf: Option<&FieldSpec>, tables: &[&Rows]) -> Result<Kind> {
        let mut kind = field.kind.unwrap_or(Kind::Json);
        if kind == Kind::Bytes
            && leaf.is_none_or(|leaf| !leaf.pickled)
            && self.first_is_image(&field.name, tables)?
        {
            kind = Kind::Image;
        }
        match leaf {
            Some(leaf) if leaf.kind != kind && !(leaf.kind == Kind::Bytes && kind == Kind::Image) => {
                let reason =
                    format!("'{}' is {:?} in one chunk and {kind:?} in another", field.name, leaf.kind);
                Err(Error::data(Location::new(&self.uri), reason))
            }
            _ => Ok(kind),
        }
    }

    fn first_is_image(&self, name: &str, tables: &[&Rows]) -> Result<bool> {
        for (number, start) in self.starts.iter().take(self.chunks.len()).enumerate() {
            let chunk = self.chunk(number)?;
            let Layout::Rows(rows) = &chunk.layout else { continue };
            if !tables.iter().any(|table| std::ptr::eq(*table, rows)) {
                continue;
            }
            let Some(flat) = rows.columns.flat.iter().find(|f| f.name == name) else { continue };
            for row in 0..rows_to_look_at(self.starts[number + 1] - start) {
                let (batch, place, bytes) = self.batch(number, chunk, rows, row)?;
                let cell = batch.cell(flat, place.row).map_err(|r| self.bad_item(start + row, r))?;
                if let Cell::Bytes(buffer, range) = cell {
                    let head = range.start..range.end.min(range.start + 64);
                    return match batch.stored(buffer, &head) {
                        Stored::Memory(stored) => Ok(is_image(stored)),
                        Stored::File(place) => Ok(is_image(&bytes.copy(place)?)),
                    };
                }
            }
        }
        Ok(false)
    }

    /// The record batch with row `row` of a chunk, and the row's place in it.
    fn batch<'a>(
        &'a self,
        number: usize,
        chunk: &'a Chunk,
        rows: &'a Rows,
        row: u64,
    ) -> Result<(BatchRef<'a>, RowPlace, Bytes<'a>)> {
        let bytes = self.bytes(number, chunk.whole)?;
        let bad = |wrong: Wrong| self.bad_chunk(number, wrong);
        let batches = rows.batches(&bytes).map_err(bad)?;
        let place = batches.find(row);
        if let Some(batch) = batches.resident(place.batch, |found| rows.load(&bytes, found)) {
            return Ok((BatchRef::Resident(batch.map_err(bad)?), place, bytes));
        }
        let key = (number as u32, place.batch as u32);
        let batch = self.batches.get(key, || rows.load(&bytes, batches.place(place.batch)).map_err(bad))?;
        Ok((BatchRef::LruCache(batch), place, bytes))
    }

    /// The column of field `field` in this chunk.
    fn column<'a>(&self, rows: &'a Rows, field: usize) -> Option<&'a Flat> {
        let fields = rows.fields.get_or_init(|| {
            let find = |spec: &FieldSpec| rows.columns.flat.iter().position(|f| f.name == spec.name);
            self.schema.fields.iter().map(find).collect()
        });
        fields[field].map(|column| &rows.columns.flat[column])
    }

    pub(super) fn read_row(
        &self,
        sample: u64,
        (number, item): (usize, usize),
        chunk: &Chunk,
        rows: &Rows,
        fields: &FieldSet,
        into: &mut SampleBuffer,
    ) -> Result<()> {
        let (batch, place, bytes) = self.batch(number, chunk, rows, item as u64)?;
        for field in fields.iter() {
            let Some(flat) = self.column(rows, field) else { continue };
            let spec = &self.schema.fields[field];
            let bad = |wrong: Wrong| match wrong {
                Wrong::At(_, reason) => Error::data(self.locate(sample).with_field(&spec.name), reason),
                Wrong::Reading(error) => error,
            };
            let value = row_value(&batch, &bytes, flat, place.row, spec.kind, into).map_err(bad)?;
            into.set(field, value);
        }
        Ok(())
    }

    /// The bytes of a text, bytes or image field, if its chunk's batches are kept in memory.
    fn row_bytes(&self, sample: u64, field: usize) -> Option<(usize, &Chunk, Range<u64>)> {
        let (number, item) = self.place(sample).ok()?;
        let chunk = self.chunk(number).ok()?;
        let Layout::Rows(rows) = &chunk.layout else { return None };
        let bytes = self.bytes(number, chunk.whole).ok()?;
        if !rows.batches(&bytes).ok()?.are_resident() || self.schema.fields.get(field)?.kind == Kind::Json {
            return None;
        }
        let flat = self.column(rows, field)?;
        let (batch, place, _) = self.batch(number, chunk, rows, item as u64).ok()?;
        match batch.cell(flat, place.row).ok()? {
            Cell::Bytes(buffer, range) => match batch.stored(buffer, &range) {
                Stored::File(place) => Some((number, chunk, place)),
                Stored::Memory(_) => None,
            },
            _ => None,
        }
    }

    pub(super) fn row_byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.row_bytes(sample, field).map(|(_, _, place)| place.end - place.start)
    }

    pub(super) fn read_row_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let found = self
            .row_bytes(sample, field)
            .filter(|(_, _, place)| place.end - place.start == into.len() as u64);
        let (number, chunk, place) =
            found.ok_or_else(|| self.bad_item(sample, "the field cannot be read in place"))?;
        self.bytes(number, chunk.whole)?.read_at(place.start, into)
    }

    pub(super) fn row_integer(&self, sample: u64, field: usize) -> Option<i64> {
        let (number, item) = self.place(sample).ok()?;
        let chunk = self.chunk(number).ok()?;
        let Layout::Rows(rows) = &chunk.layout else { return None };
        let flat = self.column(rows, field).filter(|_| self.schema.fields[field].kind == Kind::Int)?;
        let bytes = self.bytes(number, chunk.whole).ok()?;
        if !rows.batches(&bytes).ok()?.are_resident() {
            return None;
        }
        let (batch, place, _) = self.batch(number, chunk, rows, item as u64).ok()?;
        match batch.cell(flat, place.row).ok()? {
            Cell::Int(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn row_extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        for field in fields.iter() {
            if let Some((number, Chunk { whole: false, .. }, range)) = self.row_bytes(sample, field) {
                out.push(Extent { object: number as u32, range });
            }
        }
    }
}

fn rows_to_look_at(rows: u64) -> u64 {
    rows.min(LOOK_AT)
}

fn table(layout: &Layout) -> Option<&Rows> {
    match layout {
        Layout::Rows(rows) => Some(rows),
        _ => None,
    }
}

/// Adds what one table says about a column. Integers and floats together become floats, other mixtures JSON.
fn join(fields: &mut Vec<Union>, flat: &Flat) {
    let kind = flat.column.shape.kind();
    let Some(field) = fields.iter_mut().find(|f| f.name == flat.name) else {
        return fields.push(Union { name: flat.name.clone(), kind, seen: 1 });
    };
    field.seen += 1;
    field.kind = match (field.kind, kind) {
        (None, other) | (other, None) => other,
        (Some(Kind::Image), Some(Kind::Bytes)) => Some(Kind::Bytes),
        (Some(one), Some(other)) if one == other => Some(one),
        (Some(Kind::Int | Kind::Float), Some(Kind::Int | Kind::Float)) => Some(Kind::Float),
        _ => Some(Kind::Json),
    };
}

fn row_value(
    batch: &Batch,
    bytes: &Bytes<'_>,
    flat: &Flat,
    row: u64,
    kind: Kind,
    into: &mut SampleBuffer,
) -> Result<Value, Wrong> {
    let wrong = |reason: String| Wrong::At(0, reason);
    let cell = batch.cell(flat, row).map_err(wrong)?;
    Ok(match (kind, cell) {
        (_, Cell::Null) => Value::Missing,
        (Kind::Json, _) => {
            let mut failed = None;
            let text = with_text(into, |_, text| {
                batch.write_json(bytes, &flat.column, row, text).map_err(|wrong| {
                    failed = Some(wrong);
                    String::new()
                })
            });
            Value::Bytes(text.map_err(|reason| failed.unwrap_or(Wrong::At(0, reason)))?)
        }
        (Kind::Int, Cell::Int(number)) => Value::Int(number),
        (Kind::Float, Cell::Float(number)) => Value::Float(number),
        (Kind::Float, Cell::Int(number)) => Value::Float(number as f64),
        (Kind::Image, Cell::Bytes(buffer, range)) => {
            let range = bring(batch, bytes, buffer, &range, into)?;
            Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
        }
        (Kind::Text | Kind::Bytes, Cell::Bytes(buffer, range)) => {
            Value::Bytes(bring(batch, bytes, buffer, &range, into)?)
        }
        (kind, _) => {
            return Err(wrong(format!("the column holds no {kind:?} ({})", shape_name(&flat.column.shape))));
        }
    })
}

fn shape_name(shape: &Shape) -> &'static str {
    match shape.kind() {
        Some(Kind::Int) => "integers",
        Some(Kind::Float) => "floats",
        Some(Kind::Text) => "text",
        Some(Kind::Bytes) => "bytes",
        _ => "lists",
    }
}

fn bring(
    batch: &Batch,
    bytes: &Bytes<'_>,
    buffer: usize,
    range: &Range<u64>,
    into: &mut SampleBuffer,
) -> Result<Range<usize>, Wrong> {
    match batch.stored(buffer, range) {
        Stored::Memory(stored) => Ok(into.append(stored)),
        Stored::File(place) => {
            let (range, room) = into.reserve((place.end - place.start) as usize);
            bytes.read_at(place.start, room)?;
            Ok(range)
        }
    }
}
