//! [`Exporter`]: how another system's files are written. [`convert`](super::convert) drives them.

use std::fmt::Debug;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Format;
use super::original::restore_files;
use crate::error::{Error, Location, Result, Stage};
use crate::field::ImageEncoding;
use crate::sample::{FieldSet, SampleBuffer, Schema};

/// Why an image in one of feedline's own encodings cannot be written for other systems.
pub(crate) fn only_ours(encoding: ImageEncoding) -> String {
    format!(
        "only feedline reads images stored as {}; pack the data set with image=\"jpeg\" or \"rgb\" first",
        encoding.found_as()
    )
}

/// Refuses a data set without fields.
pub(super) fn check_has_fields(system: &str, schema: &Schema) -> Result<()> {
    if schema.fields.is_empty() {
        return Err(Error::option("to", format!("{system}: the data set has no fields")));
    }
    Ok(())
}

/// Writes samples in one system's format. Only settings, no state: several threads write shards at once, some in an
/// earlier run.
pub(crate) trait Exporter: Send + Sync + Debug {
    /// The name that users write in `--to`.
    fn name(&self) -> &'static str;

    /// All settings that decide the written bytes, as text: an unfinished export is resumed only with the same
    /// settings.
    fn settings(&self) -> String;

    /// Refuses a schema that cannot be stored, before the first byte is written; the error names the field. Samples
    /// may lack an optional field: the first that does is an error that names it, when it is written.
    fn check(&self, schema: &Schema) -> Result<()> {
        check_has_fields(self.name(), schema)
    }

    /// Approximate size of a shard, before compression.
    fn shard_bytes(&self) -> u64;

    /// The file name of shard `number` of `count`, relative to the destination.
    fn shard_name(&self, number: usize, count: usize) -> String;

    /// Writes all of `samples` as one shard. Returns what the index must know about the shard besides name, length
    /// and number of samples. Must write the same bytes each time: no time of day, no random numbers.
    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<serde_json::Value>;

    /// Writes the index files into `folder`, which contains all shards, each with
    /// [`write_file`](super::whole_file::write_file). The file that completes the data set comes last.
    fn finish(&self, folder: &Path, schema: &Schema, shards: &[Shard]) -> Result<()>;

    /// Whether the result is one file. Shards are then parts in a working folder, which `finish` joins into
    /// `folder/result`.
    fn single_file(&self) -> bool {
        false
    }
}

/// A finished shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shard {
    /// File name relative to the destination.
    pub(crate) name: String,
    /// Its length.
    pub(crate) bytes: u64,
    /// First sample and one past the last.
    pub(crate) samples: Range<u64>,
    /// The result of [`Exporter::write_shard`].
    pub(crate) note: serde_json::Value,
}

/// The samples of one shard, read one after the other.
pub(crate) struct Samples<'a> {
    source: &'a dyn Format,
    range: Range<u64>,
    fields: FieldSet,
    buffer: SampleBuffer,
    done: &'a dyn Fn(u64) -> Result<()>,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(
        source: &'a dyn Format,
        range: Range<u64>,
        done: &'a dyn Fn(u64) -> Result<()>,
    ) -> Self {
        let fields = FieldSet::all(source.schema().fields.len());
        Samples { source, range, fields, buffer: SampleBuffer::new(), done }
    }

    /// Fields of each sample.
    pub(crate) fn schema(&self) -> &'a Schema {
        self.source.schema()
    }

    /// The next sample's number and values, in the order of the schema; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &SampleBuffer)>> {
        let Some(sample) = self.range.next() else { return Ok(None) };
        super::read(self.source, sample, &self.fields, &mut self.buffer)?;
        let place = || self.source.locate(sample);
        restore_files(&mut self.buffer).map_err(|reason| Error::sample(place(), Stage::Decode, reason))?;
        (self.done)(self.buffer.used() as u64)?;
        Ok(Some((sample, &self.buffer)))
    }
}

/// The error for a failed write to a shard. The caller adds the file.
pub(crate) fn unwritten(error: std::io::Error) -> Error {
    Error::storage("writing", Location::default(), error)
}

/// Makes an exporter for shards of this size, or of its system's default size.
type Make = fn(Option<u64>) -> Box<dyn Exporter>;

/// Every system that can be written.
#[rustfmt::skip] // one line each
static EXPORTERS: &[(&str, Make)] = &[
    #[cfg(feature = "webdataset")] ("webdataset", |bytes| Box::new(super::webdataset::WebDatasetExporter::new(bytes))),
    #[cfg(feature = "beton")] ("beton", super::beton::BetonExporter::make),
    #[cfg(feature = "mds")] ("mds", super::mds::MdsExporter::make),
    #[cfg(feature = "litdata")] ("litdata", super::litdata::LitDataExporter::make),
    #[cfg(feature = "parquet")] ("parquet", super::parquet::ParquetExporter::make),
];

/// Names of the exporters.
pub(crate) fn export_names() -> Vec<&'static str> {
    EXPORTERS.iter().map(|(name, _)| *name).collect()
}

/// The exporter with this name.
pub(crate) fn exporter(name: &str, shard_bytes: Option<u64>) -> Result<Box<dyn Exporter>> {
    if shard_bytes == Some(0) {
        return Err(Error::option("shard_bytes", "must be at least 1"));
    }
    let found = EXPORTERS.iter().find(|(known, _)| *known == name);
    let (_, make) = found.ok_or_else(|| {
        Error::option("to", format!("'{name}' is not one of {}", export_names().join(", ")))
    })?;
    Ok(make(shard_bytes))
}
