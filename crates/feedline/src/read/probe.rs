//! Tries a data set's storage: a few reads, one after the other.

use std::time::{Duration, Instant};

use super::blocked::WaitCheck;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::sample::{FieldSet, SampleBuffer};

/// What a few reads took, as [`probe_storage`] found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageProbe {
    /// Samples read.
    pub reads: u64,
    /// Reads that waited for storage; the others found their bytes in memory.
    pub waited: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// The time that half of the reads took at most.
    pub median: Duration,
}

/// Reads at most `count` samples from all over the data set, one after the other.
pub fn probe_storage(dataset: &Dataset, count: u64) -> Result<StorageProbe> {
    let (fields, mut buffer) = (FieldSet::all(dataset.schema().fields.len()), SampleBuffer::new());
    let count = count.min(dataset.len());
    let (mut found, mut times) = (StorageProbe::default(), Vec::new());
    for number in 0..count {
        // In the middle of its share, so that neighbours are not read with each other.
        let sample = (number * 2 + 1) * dataset.len() / (2 * count);
        let (check, begun) = (WaitCheck::begin(), Instant::now());
        dataset.read(sample, &fields, &mut buffer)?;
        times.push(begun.elapsed());
        found.waited += u64::from(check.has_waited());
        found.bytes += buffer.used() as u64;
    }
    times.sort_unstable();
    found.reads = count;
    found.median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(found)
}
