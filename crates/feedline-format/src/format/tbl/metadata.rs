//! The blocks after the samples: one JSON text (or other bytes) per sample, with the labels.

use std::ops::Range;

use crate::source::HeldBytes;

/// Sample, length, type, padding.
const BLOCK_HEADER: usize = 16;
const TYPE_JSON: u16 = 1;

/// All blocks of a file.
#[derive(Debug)]
pub(super) struct Metadata {
    bytes: HeldBytes,
    /// Sample and range in `bytes`, sorted by sample; a later block of a sample replaces an earlier one.
    blocks: Vec<(u64, Range<usize>)>,
    /// Whether every block is JSON.
    pub(super) json: bool,
    /// The integer `label` of each block, in the same order, if the first one has it.
    labels: Option<Vec<Option<i64>>>,
}

impl Metadata {
    /// Parses the blocks of a file with `samples` samples.
    pub(super) fn parse(bytes: HeldBytes, samples: u64) -> Result<Self, String> {
        let (mut blocks, mut json, mut at) = (Vec::new(), true, 0usize);
        while at < bytes.len() {
            let bad = || format!("the metadata block at byte {at} of the metadata is damaged");
            let header = bytes.get(at..at + BLOCK_HEADER).ok_or_else(bad)?;
            let sample = u64::from_le_bytes(header[..8].try_into().expect("eight bytes"));
            let length = u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
            json &= u16::from_le_bytes([header[12], header[13]]) == TYPE_JSON;
            let start = at + BLOCK_HEADER;
            let end = start.checked_add(length).filter(|end| *end <= bytes.len() && sample < samples);
            blocks.push((sample, start..end.ok_or_else(bad)?));
            at = start + length;
        }
        // Stable, so that of several blocks of a sample the last one written stays last.
        blocks.sort_by_key(|(sample, _)| *sample);
        blocks.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1.clone();
            }
            same
        });
        let mut metadata = Metadata { bytes, blocks, json, labels: None };
        metadata.labels = metadata.find_labels();
        Ok(metadata)
    }

    fn find_labels(&self) -> Option<Vec<Option<i64>>> {
        #[derive(serde::Deserialize)]
        struct Labelled {
            label: i64,
        }
        let label = |(_, place): &(u64, Range<usize>)| {
            serde_json::from_slice(&self.bytes[place.clone()]).ok().map(|found: Labelled| found.label)
        };
        self.blocks.first().filter(|_| self.json).and_then(label)?;
        Some(self.blocks.iter().map(label).collect())
    }

    /// Number of samples that have a block.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Number of samples with a label; `None` if there are no labels.
    pub(super) fn labelled(&self) -> Option<usize> {
        self.labels.as_ref().map(|labels| labels.iter().flatten().count())
    }

    fn position(&self, sample: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&sample, |(owner, _)| *owner).ok()
    }

    /// The block of a sample.
    pub(super) fn block(&self, sample: u64) -> Option<&[u8]> {
        self.position(sample).map(|at| &self.bytes[self.blocks[at].1.clone()])
    }

    /// The label of a sample.
    pub(super) fn label(&self, sample: u64) -> Option<i64> {
        self.labels.as_ref()?[self.position(sample)?]
    }
}
