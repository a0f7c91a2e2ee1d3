//! Writes MDS: `index.json` and `shard.NNNNN.mds`, with the columns sorted by name as Mosaic's writer has them.

use std::io::Write;

use serde_json::{Value as Json, json};

use crate::error::Result;

/// Mosaic's own default.
const SHARD_BYTES: u64 = 1 << 26;

/// A column's name, encoding and fixed length.
type ColumnText = (String, &'static str, Option<u64>);

/// Collects the samples of one shard: offsets and columns come before them in the file.
pub(super) struct ShardBuilder {
    columns: Vec<ColumnText>,
    samples: Vec<u8>,
    /// Where each sample ends in `samples`.
    ends: Vec<usize>,
}

impl ShardBuilder {
    pub(super) fn new(columns: Vec<ColumnText>) -> Self {
        ShardBuilder { columns, samples: Vec::new(), ends: Vec::new() }
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
        values.iter().for_each(|value| self.samples.extend_from_slice(value));
        self.ends.push(self.samples.len());
        Ok(())
    }

    /// Writes the shard and gives its entry for the index, which still lacks name, length and number of samples.
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
