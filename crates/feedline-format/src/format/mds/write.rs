//! Writes MDS: `index.json` and `shard.NNNNN.mds`, with the columns sorted by name, like Mosaic's writer.

use std::io::Write;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::index::INDEX_NAME;
use crate::error::{Error, Location, Result};
use crate::format::export::{Exporter, Samples, Shard, unwritten};
use crate::format::plain::{PlainSystem, encode};
use crate::format::whole_file::write_file;
use crate::sample::{DType, FieldSpec, ImageEncoding, ImageMeta, Kind, Schema};

/// Mosaic's own default.
const SHARD_BYTES: u64 = 1 << 26;

/// A column's name, encoding and fixed length.
type ColumnText = (String, &'static str, Option<u64>);

/// Collects the samples of one shard: offsets and columns come before them in the file.
pub(super) struct ShardBuilder {
    columns: Vec<ColumnText>,
    samples: Vec<u8>,
    /// End of each sample in `samples`.
    ends: Vec<usize>,
}

impl ShardBuilder {
    pub(super) fn new(columns: Vec<ColumnText>) -> Self {
        ShardBuilder { columns, samples: Vec::new(), ends: Vec::new() }
    }

    /// Sets the encoding of a column for which there are several.
    fn set_encoding(&mut self, column: usize, encoding: &'static str) {
        self.columns[column].1 = encoding;
    }

    /// Adds a sample: the encoded value of each column.
    pub(super) fn add(&mut self, values: &[&[u8]]) -> Result<(), String> {
        for ((name, _, size), value) in self.columns.iter().zip(values) {
            if size.is_none() {
                let length = u32::try_from(value.len());
                let length =
                    length.map_err(|_| format!("'{name}' is longer than the 4 GiB that MDS can count"))?;
                self.samples.extend_from_slice(&length.to_le_bytes());
            }
        }
        for value in values {
            self.samples.extend_from_slice(value);
        }
        self.ends.push(self.samples.len());
        Ok(())
    }

    /// Writes the shard and returns its entry for the index, without name, length and number of samples.
    pub(super) fn finish(self, out: &mut dyn Write) -> Result<Json, ShardError> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _, _)| name.as_str()).collect();
        let encodings: Vec<&str> = self.columns.iter().map(|(_, encoding, _)| *encoding).collect();
        let sizes: Vec<Option<u64>> = self.columns.iter().map(|(_, _, size)| *size).collect();
        let mut entry = json!({
            "column_names": names, "column_encodings": encodings, "column_sizes": sizes, "compression": null,
            "format": "mds", "hashes": [], "size_limit": SHARD_BYTES, "version": 2,
        });
        let config = entry.to_string();
        let start = 4 * (self.ends.len() + 2) + config.len();
        let word = |number: usize| {
            let number = u32::try_from(number).map_err(|_| ShardError::TooLong);
            number.map(u32::to_le_bytes)
        };
        out.write_all(&word(self.ends.len())?).map_err(ShardError::Write)?;
        for end in std::iter::once(&0).chain(&self.ends) {
            out.write_all(&word(start + end)?).map_err(ShardError::Write)?;
        }
        out.write_all(config.as_bytes()).map_err(ShardError::Write)?;
        out.write_all(&self.samples).map_err(ShardError::Write)?;
        entry["zip_data"] = Json::Null;
        Ok(entry)
    }
}

/// Why a shard was not written.
#[derive(Debug)]
pub(super) enum ShardError {
    TooLong,
    Write(std::io::Error),
}

/// Writes Mosaic's data sets.
#[derive(Debug)]
pub(in crate::format) struct MdsExporter {
    shard_bytes: u64,
}

impl MdsExporter {
    /// Shards of about this size, or Mosaic's usual one.
    pub(in crate::format) fn make(shard_bytes: Option<u64>) -> Box<dyn Exporter> {
        Box::new(MdsExporter { shard_bytes: shard_bytes.unwrap_or(SHARD_BYTES) })
    }
}

/// The fields in the order of their columns: Mosaic sorts columns by name.
fn sorted(schema: &Schema) -> Vec<(usize, &FieldSpec)> {
    let mut fields: Vec<_> = schema.fields.iter().enumerate().collect();
    fields.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    fields
}

/// The encoding of a field, and its fixed length. The encoding of images is known only after the shard's last image.
fn column(field: &FieldSpec) -> ColumnText {
    let encoding = if field.pickled { "pkl" } else { field.kind.mds() };
    let size = (!field.kind.carrier().has_bytes()).then_some(8);
    (field.name.clone(), encoding, size)
}

/// The types of images in a column.
#[derive(Debug, Clone, Copy, Default)]
struct ImageForms {
    png: bool,
    other: bool,
    raw: bool,
}

impl PlainSystem for ImageForms {
    const NAME: &'static str = "MDS";

    fn see(&mut self, bytes: &[u8], meta: ImageMeta) -> Result<(), String> {
        match meta.encoding {
            ImageEncoding::Rgb => self.raw = true,
            _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => self.png = true,
            _ => self.other = true,
        }
        Ok(())
    }

    fn array_head(dtype: DType, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
        array_head(dtype, shape, out)
    }
}

impl ImageForms {
    /// Mosaic's `jpeg` passes any file to PIL, which detects its type; so images stay images in every shard, whatever
    /// mixture of files a data set has.
    fn encoding(self) -> Result<&'static str, String> {
        match self {
            ImageForms { raw: true, png: false, other: false } => Ok("pil"),
            ImageForms { raw: true, .. } => Err("raw pixels among image files".to_owned()),
            ImageForms { png: true, other: false, .. } => Ok("png"),
            _ => Ok("jpeg"),
        }
    }
}

/// Writes the element type and shape, which precede a dynamic array.
fn array_head(dtype: DType, shape: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
    let code = dtype.mds().ok_or_else(|| format!("MDS has no arrays of {}", dtype.name()))?;
    if shape.is_empty() || shape.contains(&0) {
        return Err(format!("MDS has no arrays of shape {shape:?}"));
    }
    let largest = shape.iter().max().copied().unwrap_or(0);
    let width_code = [1u64 << 8, 1 << 16, 1 << 32].iter().filter(|limit| largest >= **limit).count();
    out.extend_from_slice(&[code, (shape.len() as u8) << 2 | width_code as u8]);
    for side in shape {
        out.extend_from_slice(&side.to_le_bytes()[..1 << width_code]);
    }
    Ok(())
}

impl Exporter for MdsExporter {
    fn name(&self) -> &'static str {
        "mds"
    }

    fn settings(&self) -> String {
        format!("mds 1 {}", self.shard_bytes)
    }

    fn shard_bytes(&self) -> u64 {
        self.shard_bytes
    }

    fn shard_name(&self, number: usize, _: usize) -> String {
        format!("shard.{number:05}.mds")
    }

    fn write_shard(&self, samples: &mut Samples<'_>, out: &mut dyn Write) -> Result<Json> {
        let fields = sorted(samples.schema());
        let mut builder = ShardBuilder::new(fields.iter().map(|(_, field)| column(field)).collect());
        let mut forms = vec![ImageForms::default(); fields.len()];
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        while let Some((sample, buffer)) = samples.next()? {
            let bad = |name: &str, reason: String| {
                Error::data(Location::default().with_sample(sample).with_field(name), reason)
            };
            bytes.clear();
            ends.clear();
            for ((at, field), seen) in fields.iter().zip(&mut forms) {
                encode(buffer.value(*at), buffer, seen, &mut bytes).map_err(|e| bad(&field.name, e))?;
                ends.push(bytes.len());
            }
            let starts = std::iter::once(&0).chain(&ends);
            let values: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &bytes[*start..*end]).collect();
            builder.add(&values).map_err(|reason| bad("", reason))?;
        }
        for (number, ((_, field), seen)) in fields.iter().zip(forms).enumerate() {
            if field.kind == Kind::Image {
                let place = || Location::default().with_field(&field.name);
                let encoding = seen.encoding().map_err(|reason| Error::data(place(), reason))?;
                builder.set_encoding(number, encoding);
            }
        }
        builder.finish(out).map_err(|error| match error {
            ShardError::Write(error) => unwritten(error),
            ShardError::TooLong => {
                Error::data(Location::default(), "a shard is longer than the 4 GiB that MDS can count")
            }
        })
    }

    fn finish(&self, folder: &Path, _: &Schema, shards: &[Shard]) -> Result<()> {
        let entry = |shard: &Shard| {
            let mut entry = shard.note.clone();
            entry["raw_data"] = json!({"basename": shard.name, "bytes": shard.bytes, "hashes": {}});
            entry["samples"] = (shard.samples.end - shard.samples.start).into();
            entry
        };
        let entries: Vec<Json> = shards.iter().map(entry).collect();
        let index = json!({"shards": entries, "version": 2});
        write_file(&folder.join(INDEX_NAME), index.to_string().as_bytes())
    }
}
