//! One recipe's epochs, measured.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use feedline::error::Location;
use feedline::loader::{StageSeconds, Stats};
use feedline::{Error, Loader, Result};
use serde::Serialize;

use super::recipe::Recipe;
use crate::args::BenchArgs;
use crate::{data, machine, page_cache};

/// Data that all recipes share.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Number of samples in the data set.
    pub(crate) samples: u64,
    /// Format of the data set.
    pub(crate) format: &'static str,
    /// Fingerprint of the data set.
    pub(crate) fingerprint: String,
    /// Image fields of the data set.
    pub(crate) images: Vec<String>,
    /// The data set's files, and their lengths.
    pub(crate) files: Vec<(PathBuf, u64)>,
    /// Number of worker threads.
    pub(crate) threads: usize,
}

/// One recipe, all epochs.
#[derive(Debug)]
pub(crate) struct Run {
    /// The recipe.
    pub(crate) recipe: Recipe,
    /// Seconds to open the data set, cold.
    pub(crate) open_seconds: f64,
    /// The epochs; whether the first is cold is in `cold`.
    pub(crate) epochs: Vec<Epoch>,
    /// Whether the first epoch was cold.
    pub(crate) cold: Cold,
    /// What limited the speed, in words.
    pub(crate) bottleneck: String,
}

/// Whether the first epoch's bytes came from storage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "cold")]
pub(crate) enum Cold {
    /// Most of them did.
    Yes {
        /// Bytes that came from storage.
        storage_bytes: u64,
    },
    /// The system was asked to drop the files from its cache, but hardly any bytes came from storage.
    No {
        /// Bytes that came from storage.
        storage_bytes: u64,
    },
    /// The system was asked to drop the files from its cache, but does not say where bytes came from.
    Unknown,
    /// The system cannot drop files from its cache.
    Refused,
}

/// One epoch.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Epoch {
    /// Number of samples delivered.
    pub(crate) samples: u64,
    /// Number of samples that could not be read or decoded.
    pub(crate) failed: u64,
    /// Seconds from requesting the first batch to receiving the last.
    pub(crate) seconds: f64,
    /// Seconds from requesting the first batch to receiving it.
    pub(crate) first_batch_seconds: f64,
    /// Number of stored bytes read.
    pub(crate) bytes: u64,
    /// Processor time of all threads.
    pub(crate) cpu_seconds: f64,
    /// Largest resident memory during the epoch, if the system reports it.
    pub(crate) peak_resident_bytes: Option<u64>,
    /// Worker seconds by stage.
    pub(crate) stages: StageSeconds,
    /// Seconds the consumer waited.
    pub(crate) consumer_wait_seconds: f64,
}

impl Epoch {
    /// Samples per second.
    pub(crate) fn rate(&self) -> f64 {
        self.samples as f64 / self.seconds
    }

    /// Stored megabytes per second.
    pub(crate) fn megabytes(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }

    /// Processor seconds per thousand samples.
    pub(crate) fn cpu_per_thousand(&self) -> f64 {
        self.cpu_seconds * 1000.0 / self.samples.max(1) as f64
    }
}

/// Runs all epochs of `recipe`.
pub(crate) fn run(recipe: Recipe, args: &BenchArgs, setup: &Setup) -> Result<Run> {
    let dropped = page_cache::drop_files(&setup.files);
    let storage_before = machine::storage_read();
    let begun = Instant::now();
    let dataset = data::open(std::slice::from_ref(&args.path), &args.open)?;
    let loader = Loader::new(dataset, recipe.options(&setup.images, args.batch_size, args.workers))?;
    let open_seconds = begun.elapsed().as_secs_f64();
    if args.trace.is_some() {
        loader.record_trace();
    }
    let mut epochs = Vec::new();
    let mut cold = Cold::Refused;
    for number in 0..args.epochs {
        epochs.push(epoch(&loader, number)?);
        if number == 0 && dropped.refused == 0 {
            let read = storage_before.zip(machine::storage_read()).map(|(before, now)| now - before);
            cold = judge(read, epochs[0].bytes);
        }
    }
    if let Some(path) = &args.trace {
        write_trace(&loader, path)?;
    }
    Ok(Run { recipe, open_seconds, epochs, cold, bottleneck: loader.stats().bottleneck })
}

fn write_trace(loader: &Loader, path: &Path) -> Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        loader.write_trace(&mut out)?;
        out.flush()
    };
    let place = || Location::new(path.display().to_string());
    write().map_err(|e| Error::storage("writing", place(), e))
}

/// Half of the bytes is proof enough: read-ahead and what others keep mapped move the number both ways.
fn judge(storage_bytes: Option<u64>, wanted: u64) -> Cold {
    match storage_bytes {
        None => Cold::Unknown,
        Some(storage_bytes) if storage_bytes >= wanted / 2 => Cold::Yes { storage_bytes },
        Some(storage_bytes) => Cold::No { storage_bytes },
    }
}

fn epoch(loader: &Loader, number: u64) -> Result<Epoch> {
    machine::reset_peak();
    let before = loader.stats();
    let cpu_before = machine::cpu_seconds();
    let begun = Instant::now();
    let mut batches = loader.epoch(number)?;
    let (mut samples, mut first_batch_seconds) = (0, 0.0);
    loop {
        match batches.next_batch() {
            Ok(Some(batch)) => samples += batch.rows() as u64,
            Ok(None) => break,
            // No sample of the batch is left. The next one may have some; if none has, the epoch has no samples.
            Err(Error::TooManyBadSamples { .. }) => {}
            Err(error) => return Err(error),
        }
        if first_batch_seconds == 0.0 {
            first_batch_seconds = begun.elapsed().as_secs_f64();
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (cpu_seconds, after) = (machine::cpu_seconds() - cpu_before, loader.stats());
    if samples == 0 {
        let reason = loader.errors().into_iter().next_back();
        return Err(reason.unwrap_or_else(|| Error::Closed("not a single sample could be loaded".to_owned())));
    }
    Ok(Epoch {
        samples,
        failed: after.failed - before.failed,
        seconds,
        first_batch_seconds,
        bytes: after.bytes_read - before.bytes_read,
        cpu_seconds,
        peak_resident_bytes: machine::peak_resident(),
        stages: stages(&before, &after),
        consumer_wait_seconds: after.consumer_wait_seconds - before.consumer_wait_seconds,
    })
}

fn stages(before: &Stats, after: &Stats) -> StageSeconds {
    let (a, b) = (&after.seconds, &before.seconds);
    StageSeconds {
        read: a.read - b.read,
        bytes: a.bytes - b.bytes,
        decode: a.decode - b.decode,
        transform: a.transform - b.transform,
        copy: a.copy - b.copy,
        wait: a.wait - b.wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_cold_if_its_bytes_came_from_storage() {
        assert_eq!(judge(Some(900), 1000), Cold::Yes { storage_bytes: 900 });
        assert_eq!(judge(Some(0), 1000), Cold::No { storage_bytes: 0 });
        assert_eq!(judge(None, 1000), Cold::Unknown);
    }
}
