//! Writes the shards, each on one thread.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::export::{Exporter, Samples, Shard};
use super::super::parts::{Meter, Progress, run_parts};
use super::super::whole_file::{Temporary, failed, put_in_place, temporary_path, write_file};
use super::output::OutputFolders;
use super::{ConvertReport, Plan, tasks};
use crate::error::{Error, Result};
use crate::format::Format;

/// The shards of a conversion.
pub(super) struct WrittenShards {
    pub(super) done: Vec<Shard>,
    found: u64,
}

impl WrittenShards {
    pub(super) fn report(&self) -> ConvertReport {
        ConvertReport {
            samples: self.done.iter().map(|s| s.samples.end - s.samples.start).sum(),
            shards: self.done.len() as u64,
            found: self.found,
            bytes: self.done.iter().map(|s| s.bytes).sum(),
        }
    }
}

/// Writes the shards that an earlier run did not finish.
pub(super) fn write_shards(
    output: &OutputFolders<'_>,
    plan: &Plan,
    source: &dyn Format,
    exporter: &dyn Exporter,
    workers: usize,
    progress: &dyn Progress,
) -> Result<WrittenShards> {
    let count = plan.starts.len() - 1;
    let meter = Meter::new(progress, source.len());
    let done: Mutex<Vec<Option<Shard>>> = Mutex::new(vec![None; count]);
    let found = AtomicU64::new(0);
    run_parts(count as u64, workers, |number| {
        let number = number as usize;
        if output.mode.task.is_some_and(|task| !task.writes(number as u64)) {
            return Ok(());
        }
        let shard = if let Some(shard) = output.found(number) {
            found.fetch_add(1, Ordering::Relaxed);
            meter.add(shard.samples.end - shard.samples.start, shard.bytes)?;
            shard
        } else if output.mode.tasks && output.mode.task.is_none() {
            return Err(tasks::missing(&output.folder, &exporter.shard_name(number, count)));
        } else {
            write_shard(output, plan, source, exporter, number, &meter)?
        };
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[number] = Some(shard);
        Ok(())
    })?;
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(WrittenShards { done: done.into_iter().flatten().collect(), found: found.into_inner() })
}

fn write_shard(
    output: &OutputFolders<'_>,
    plan: &Plan,
    source: &dyn Format,
    exporter: &dyn Exporter,
    number: usize,
    meter: &Meter<'_>,
) -> Result<Shard> {
    let range = plan.starts[number]..plan.starts[number + 1];
    let name = exporter.shard_name(number, plan.starts.len() - 1);
    let path = output.folder.join(&name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| failed("creating", folder, e))?;
    }
    let temporary = Temporary(temporary_path(&path));
    let file = File::create(&temporary.0).map_err(|e| failed("creating", &path, e))?;
    let mut out = Counted { inner: BufWriter::with_capacity(1 << 20, file), bytes: 0 };
    let add = |bytes| meter.add(1, bytes);
    let mut samples = Samples::new(source, range.clone(), &add);
    let note = exporter.write_shard(&mut samples, &mut out).map_err(|e| at_path(e, &path))?;
    let file = out.inner.into_inner().map_err(|e| failed("writing", &path, e.into_error()))?;
    put_in_place(&file, temporary, &path)?;
    output.send(&name)?;
    let shard = Shard { name, bytes: out.bytes, samples: range, note };
    write_file(&output.note(number), &serde_json::to_vec(&shard).expect("a note is plain data"))?;
    if let (Some(sink), true) = (output.shard_sink(), output.mode.tasks) {
        tasks::send_note(sink, number, &output.note(number))?;
    }
    Ok(shard)
}

/// Adds the file to a failed write: an exporter does not know its path.
fn at_path(error: Error, path: &Path) -> Error {
    match error {
        Error::Storage { action: "writing", location, source } if location.uri.is_empty() => {
            failed("writing", path, std::io::Error::new(source.kind(), source.to_string()))
        }
        other => other,
    }
}

/// Counts the bytes written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
