//! Writes Parquet files like those on Hugging Face's hub: `data/train-00000-of-00005.parquet`, images as a struct of
//! `bytes` and `path`, class names in the metadata. What Arrow's types cannot express (that a text is JSON, the
//! lengths that an empty list hides) is stored as a note, so that reading returns what was written.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{
    ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, new_null_array,
};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use serde_json::{Value as Json, json};

use super::lists::Lists;
use crate::error::{Error, Location, Result};
use crate::field::Carrier;
use crate::format::columns::{NOTE_KEY, Note};
use crate::format::export::{Exporter, Samples, Shard, unwritten};
use crate::sample::{FieldSpec, Kind, SampleBuffer, Schema, Value};

/// Approximate size of the hub's own files.
const SHARD_BYTES: u64 = 500_000_000;
/// A row group ends at this many bytes or rows.
const GROUP_BYTES: usize = 64 << 20;
const GROUP_ROWS: usize = 1000;
/// Number of rows after which the size of a page is checked.
const PAGE_ROWS: usize = 16;

/// Writes Parquet files.
#[derive(Debug)]
pub(in crate::format) struct ParquetExporter {
    shard_bytes: u64,
}

impl ParquetExporter {
    /// Files of about this size, or of the hub's usual one.
    pub(in crate::format) fn make(shard_bytes: Option<u64>) -> Box<dyn Exporter> {
        Box::new(ParquetExporter { shard_bytes: shard_bytes.unwrap_or(SHARD_BYTES) })
    }
}

impl Exporter for ParquetExporter {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn settings(&self) -> String {
        format!("parquet 1, {} bytes", self.shard_bytes)
    }

    fn check(&self, schema: &Schema) -> Result<()> {
        match schema.fields.iter().find(|field| field.pickled) {
            None => Ok(()),
            Some(field) => {
                let reason =
                    format!("field '{}' is a Python pickle, which Parquet has no type for", field.name);
                Err(Error::option("to", reason))
            }
        }
    }

    fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    fn shard_name(&self, number: usize, count: usize) -> String {
        format!("data/train-{number:05}-of-{count:05}.parquet")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<Json> {
        let mut file = FileWriter::new(samples.schema().clone());
        while let Some((sample, buffer)) = samples.next()? {
            file.add(buffer).map_err(|(field, reason)| refused(sample, field, reason))?;
            if file.is_group_full() {
                file.flush(out)?;
            }
        }
        file.close(out)
    }

    fn finish(&self, folder: &Path, _: &Schema, shards: &[Shard]) -> Result<()> {
        let Some(first) = shards.first() else { return Ok(()) };
        match shards.iter().find(|shard| shard.note != first.note) {
            None => Ok(()),
            Some(other) => {
                let place = Location::new(folder.display().to_string()).with_shard(&other.name);
                let reason = format!("arrays are of other types or dimensions than in {}", first.name);
                Err(Error::data(place, reason)
                    .with_hint("all files of a Parquet data set must have the same columns"))
            }
        }
    }
}

fn refused(sample: u64, field: String, reason: String) -> Error {
    Error::data(Location::default().with_sample(sample).with_field(field), reason)
}

/// The values of one column in the current row group.
#[derive(Debug)]
enum Values {
    Bytes(Vec<Option<Vec<u8>>>),
    Texts(Vec<Option<String>>),
    Ints(Vec<Option<i64>>),
    Floats(Vec<Option<f64>>),
    Lists(Box<Lists>),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind.carrier() {
            Carrier::Bytes if kind.is_text() => Values::Texts(Vec::new()),
            Carrier::Image | Carrier::Bytes => Values::Bytes(Vec::new()),
            Carrier::Int => Values::Ints(Vec::new()),
            Carrier::Float => Values::Floats(Vec::new()),
            Carrier::Array => Values::Lists(Box::default()),
        }
    }

    /// Adds a value; returns its number of bytes.
    fn push(&mut self, value: &Value, buffer: &SampleBuffer) -> Result<usize, String> {
        match (self, value) {
            (Values::Bytes(column), Value::Missing) => column.push(None),
            (Values::Bytes(column), Value::Bytes(range)) => {
                column.push(Some(buffer.bytes(range).to_vec()));
                return Ok(range.len());
            }
            (Values::Bytes(column), Value::Image { bytes, meta, .. }) => {
                if !meta.encoding.is_file() {
                    let form = meta.encoding.found_as();
                    return Err(format!(
                        "an image stored as {form} is not a file that other programs can read"
                    ));
                }
                column.push(Some(buffer.bytes(bytes).to_vec()));
                return Ok(bytes.len());
            }
            (Values::Texts(column), Value::Missing) => column.push(None),
            (Values::Texts(column), Value::Bytes(range)) => {
                let text = String::from_utf8(buffer.bytes(range).to_vec());
                column.push(Some(text.map_err(|_| "text that is not UTF-8".to_owned())?));
                return Ok(range.len());
            }
            (Values::Ints(column), Value::Missing) => column.push(None),
            (Values::Ints(column), Value::Int(value)) => column.push(Some(*value)),
            (Values::Floats(column), Value::Missing) => column.push(None),
            (Values::Floats(column), Value::Float(value)) => column.push(Some(*value)),
            (Values::Lists(column), value) => return column.push(value, buffer),
            (_, other) => return Err(format!("a value of another kind: {other:?}")),
        }
        Ok(8)
    }

    fn take(&mut self, kind: Kind) -> Result<ArrayRef, String> {
        Ok(match self {
            Values::Bytes(column) => {
                let column = std::mem::take(column);
                let bytes: BinaryArray = column.iter().map(Option::as_deref).collect();
                if kind.carrier() == Carrier::Bytes {
                    return Ok(Arc::new(bytes));
                }
                let nulls: Vec<bool> = column.iter().map(Option::is_some).collect();
                let paths = new_null_array(&DataType::Utf8, column.len());
                Arc::new(StructArray::new(stored(), vec![Arc::new(bytes), paths], Some(nulls.into())))
            }
            Values::Texts(column) => Arc::new(std::mem::take(column).into_iter().collect::<StringArray>()),
            Values::Ints(column) => Arc::new(std::mem::take(column).into_iter().collect::<Int64Array>()),
            Values::Floats(column) => Arc::new(std::mem::take(column).into_iter().collect::<Float64Array>()),
            Values::Lists(column) => column.take()?,
        })
    }

    fn data_type(&self, kind: Kind) -> DataType {
        match self {
            Values::Bytes(_) if kind.carrier() == Carrier::Image => DataType::Struct(stored()),
            Values::Bytes(_) => DataType::Binary,
            Values::Texts(_) => DataType::Utf8,
            Values::Ints(_) => DataType::Int64,
            Values::Floats(_) => DataType::Float64,
            Values::Lists(column) => column.data_type(),
        }
    }
}

/// The type in which `datasets` store a file.
fn stored() -> Fields {
    Fields::from(vec![Field::new("bytes", DataType::Binary, true), Field::new("path", DataType::Utf8, true)])
}

/// The parquet crate writes here; the bytes are taken after each row group.
#[derive(Clone, Debug, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Pipe {
    fn drain(&self, out: &mut dyn Write) -> Result<()> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out.write_all(&bytes).map_err(unwritten)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes one file.
struct FileWriter {
    schema: Schema,
    columns: Vec<Values>,
    rows: usize,
    bytes: usize,
    pipe: Pipe,
    /// Made with the first row group, when the types of arrays are known.
    writer: Option<ArrowWriter<Pipe>>,
}

fn failed(error: ParquetError) -> Error {
    unwritten(std::io::Error::other(error))
}

impl FileWriter {
    fn new(schema: Schema) -> Self {
        let columns = schema.fields.iter().map(|f| Values::of(f.kind)).collect();
        FileWriter { schema, columns, rows: 0, bytes: 0, pipe: Pipe::default(), writer: None }
    }

    fn add(&mut self, buffer: &SampleBuffer) -> Result<(), (String, String)> {
        for (number, column) in self.columns.iter_mut().enumerate() {
            let pushed = column.push(buffer.value(number), buffer);
            let name = || self.schema.fields[number].name.clone();
            self.bytes += pushed.map_err(|reason| (name(), reason))?;
        }
        self.rows += 1;
        Ok(())
    }

    fn is_group_full(&self) -> bool {
        self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES
    }

    /// Writes the rows so far as a row group.
    fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        let fields = self.schema.fields.iter().zip(&self.columns);
        let fields: Vec<Field> = fields
            .map(|(field, column)| Field::new(&field.name, column.data_type(field.kind), true))
            .collect();
        let metadata = HashMap::from([("huggingface".to_owned(), features(&self.schema, &self.columns))]);
        let arrow = Arc::new(ArrowSchema::new_with_metadata(fields, metadata));
        if self.writer.is_none() {
            let properties = properties(&self.schema.fields);
            let writer = ArrowWriter::try_new(self.pipe.clone(), arrow.clone(), Some(properties));
            self.writer = Some(writer.map_err(failed)?);
        }
        let writer = self.writer.as_mut().expect("made just now");
        if self.rows > 0 {
            let mut arrays = Vec::with_capacity(self.columns.len());
            for (field, column) in self.schema.fields.iter().zip(&mut self.columns) {
                let array = column.take(field.kind);
                arrays
                    .push(array.map_err(|reason| {
                        Error::data(Location::default().with_field(&field.name), reason)
                    })?);
            }
            let batch = RecordBatch::try_new(arrow, arrays);
            let batch = batch.map_err(|e| {
                Error::data(Location::default(), format!("rows that do not make a table: {e}"))
            })?;
            writer.write(&batch).map_err(failed)?;
            writer.flush().map_err(failed)?;
        }
        (self.rows, self.bytes) = (0, 0);
        self.pipe.drain(out)
    }

    fn close(mut self, out: &mut dyn Write) -> Result<Json> {
        self.flush(out)?;
        let notes: Vec<Note> =
            self.schema.fields.iter().zip(&self.columns).map(|(f, c)| note(f, c)).collect();
        let types: Vec<String> = self.columns.iter().map(|c| c.data_type(Kind::Bytes).to_string()).collect();
        let text = serde_json::to_string(&notes).expect("plain data");
        let mut writer = self.writer.take().expect("flush makes one");
        writer.append_key_value_metadata(KeyValue::new(
            "huggingface".to_owned(),
            features(&self.schema, &self.columns),
        ));
        writer.append_key_value_metadata(KeyValue::new(NOTE_KEY.to_owned(), text));
        writer.close().map_err(failed)?;
        self.pipe.drain(out)?;
        Ok(json!({ "types": types }))
    }
}

fn note(field: &FieldSpec, column: &Values) -> Note {
    let mut note = Note {
        name: field.name.clone(),
        kind: Some(field.kind),
        optional: field.optional,
        unit: field.unit.clone(),
        ..Note::default()
    };
    if let Values::Lists(lists) = column {
        (note.dtype, note.shape) = lists.note();
    }
    note
}

/// The features for `datasets`, with every column: some of its releases refuse a column that is not among them.
fn features(schema: &Schema, columns: &[Values]) -> String {
    let integers = || schema.fields.iter().filter(|f| f.kind == Kind::Int);
    let label = integers()
        .find(|f| f.name == "label")
        .or_else(|| integers().next().filter(|_| integers().count() == 1));
    let feature = |(field, column): (&FieldSpec, &Values)| {
        let classes = schema.classes.as_ref().filter(|_| label.is_some_and(|label| label.name == field.name));
        let feature = match (field.kind, classes) {
            (Kind::Image, _) => json!({"_type": "Image"}),
            (_, Some(names)) => json!({"names": names, "_type": "ClassLabel"}),
            (kind, None) => value_feature(&column.data_type(kind)),
        };
        format!("{}: {feature}", json!(field.name))
    };
    // By hand, to keep the order of the columns.
    let features: Vec<String> = schema.fields.iter().zip(columns).map(feature).collect();
    format!(r#"{{"info": {{"features": {{{}}}}}}}"#, features.join(", "))
}

/// A column's type in the notation of `datasets`.
fn value_feature(data_type: &DataType) -> Json {
    let name = match data_type {
        DataType::List(item) => {
            // datasets 2.2 needs an explicit -1 if the length is not fixed.
            return json!({"feature": value_feature(item.data_type()), "length": -1, "_type": "Sequence"});
        }
        DataType::Utf8 => "string".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        other => other.to_string().to_lowercase(),
    };
    json!({"dtype": name, "_type": "Value"})
}

/// Images are already compressed; the rest is small. Both choices keep reading a value cheap.
fn properties(fields: &[FieldSpec]) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_write_batch_size(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(None);
    for field in fields.iter().filter(|f| matches!(Values::of(f.kind), Values::Bytes(_))) {
        let mut path = vec![field.name.clone()];
        if field.kind.carrier() == Carrier::Image {
            path.push("bytes".to_owned());
        }
        let path = ColumnPath::new(path);
        builder = builder
            .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
            .set_column_dictionary_enabled(path, false);
    }
    builder.build()
}

#[cfg(test)]
mod tests;
