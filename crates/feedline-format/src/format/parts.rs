//! Writing a data set in parts: which samples make a part, the threads that write parts, and their progress.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Format;
use crate::error::{Error, Result};
use crate::field::Carrier;
use crate::sample::{FieldSet, Kind, SampleBuffer};
use crate::source::{cancel_flag, with_flag};

/// Receives the progress of packing or verifying.
pub trait Progress: Sync {
    /// `samples` of `total` samples and `bytes` bytes are done. Called from any thread, now and then. `Break` stops
    /// the work with an error; a pack can be resumed.
    fn update(&self, samples: u64, bytes: u64, total: u64) -> ControlFlow<()>;
}

/// Ignores the progress.
impl Progress for () {
    fn update(&self, _: u64, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Counts for a [`Progress`] from many threads.
pub(crate) struct Meter<'a> {
    progress: &'a dyn Progress,
    samples: AtomicU64,
    bytes: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(progress: &'a dyn Progress, total: u64) -> Self {
        Meter { progress, samples: AtomicU64::new(0), bytes: AtomicU64::new(0), total }
    }

    pub(crate) fn add(&self, samples: u64, bytes: u64) -> Result<()> {
        let samples = self.samples.fetch_add(samples, Ordering::Relaxed) + samples;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match self.progress.update(samples, bytes, self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Closed("stopped before the end".to_owned())),
        }
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.samples.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Calls `work` once for each part, from `workers` threads (0: all cores), until one fails.
pub(crate) fn run_parts(parts: u64, workers: usize, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if workers == 0 { cores() } else { workers };
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return;
            }
            if let Err(error) = work(part) {
                stop.store(true, Ordering::Relaxed);
                failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let flag = cancel_flag();
    std::thread::scope(|scope| {
        for number in 1..workers.min(parts as usize) {
            // If a thread cannot be started, the others do its work.
            let builder = std::thread::Builder::new().name(format!("feedline-write-{number}"));
            let flag = flag.clone();
            let _ = builder.spawn_scoped(scope, || with_flag(flag, run));
        }
        run();
    });
    failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Refuses a destination that is the source, or inside the image folder that is the source: it would be found there
/// as one more class when the folder is opened again.
pub(crate) fn refuse_own_source(source: &dyn Format, destination: &Path) -> Result<()> {
    let Ok(origin) = Path::new(&source.locate(0).uri).canonicalize() else { return Ok(()) };
    let target = std::path::absolute(destination).unwrap_or_else(|_| destination.to_path_buf());
    // The destination need not exist yet; its existing part decides.
    let real = target.ancestors().find_map(|above| {
        let below = target.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(below))
    });
    let real = real.unwrap_or(target);
    if real == origin || (source.name() == "folder" && real.starts_with(&origin)) {
        let reason = format!("{} is, or is inside, the source itself", destination.display());
        return Err(Error::option("destination", reason));
    }
    Ok(())
}

/// Number of samples to read if the index does not know lengths.
const EXAMINED: u64 = 32;

/// Approximate sizes of samples: from the source's index, or the mean of a few samples if it does not know
/// (compressed shards, columns of a table).
pub(crate) struct SampleSizes<'a> {
    source: &'a dyn Format,
    fields: Vec<FieldSize>,
}

struct FieldSize {
    growth: f64,
    /// Used if the index does not know the length.
    usual: u64,
}

impl<'a> SampleSizes<'a> {
    /// Images will be `growth` times as large as in the source.
    pub(crate) fn new(source: &'a dyn Format, growth: f64) -> Self {
        let fields = source.schema().fields.iter().enumerate().map(|(number, field)| FieldSize {
            growth: if field.kind.carrier() == Carrier::Image { growth } else { 1.0 },
            usual: usual_length(source, number, field.kind),
        });
        SampleSizes { source, fields: fields.collect() }
    }

    /// Size of one sample.
    pub(crate) fn of(&self, sample: u64) -> u64 {
        let one = |(number, field): (usize, &FieldSize)| {
            let length = self.source.byte_length(sample, number).unwrap_or(field.usual);
            (length as f64 * field.growth) as u64
        };
        self.fields.iter().enumerate().map(one).fold(0, u64::saturating_add)
    }

    /// First sample of each part of about `part_bytes` and at most `most_samples`, and the number of samples.
    pub(crate) fn cut(&self, part_bytes: u64, most_samples: u64) -> Vec<u64> {
        let count = self.source.len();
        let mut starts = vec![0];
        let (mut filled, mut samples) = (0u64, 0);
        for sample in 0..count {
            let size = self.of(sample);
            if samples > 0 && (filled.saturating_add(size) > part_bytes || samples == most_samples) {
                starts.push(sample);
                (filled, samples) = (0, 0);
            }
            filled = filled.saturating_add(size);
            samples += 1;
        }
        if count > 0 {
            starts.push(count);
        }
        starts
    }
}

/// Mean length of a field over samples spread evenly; 8 for numbers, and if nothing can be read.
fn usual_length(source: &dyn Format, field: usize, kind: Kind) -> u64 {
    if !kind.carrier().has_bytes() || source.is_empty() || source.byte_length(0, field).is_some() {
        return 8;
    }
    let only = FieldSet::only(source.schema().fields.len(), [field]);
    let mut buffer = SampleBuffer::new();
    let step = (source.len() / EXAMINED).max(1);
    let (mut bytes, mut count) = (0, 0);
    for sample in (0..source.len()).step_by(step as usize).take(EXAMINED as usize) {
        if source.read(sample, &only, &mut buffer).is_ok() {
            bytes += buffer.used() as u64;
            count += 1;
        }
    }
    bytes.checked_div(count).unwrap_or(0).max(8)
}
