//! [`pack`]: plan, parts by threads, commit. And [`PackWriter`], for samples that a program makes one by one.

use std::path::{Path, PathBuf};

use super::destination::{self, DestinationState, FolderLock};
use super::manifest::check_fields;
use super::part_writer::{PartWriter, Refusal};
use super::plan::{
    MOST_SAMPLES, OnPackError, PackOptions, PackPlan, PackReport, commit_pack, plan_pack, write_part_metered,
};
use crate::error::{Error, Location, Result, Stage};
use crate::format::Format;
use crate::format::parts::{Meter, Progress, refuse_own_source, run_parts};
use crate::owned::Sample;
use crate::sample::{SampleBuffer, Schema};

/// Writes `source` as a pack into the folder `destination`.
///
/// Runs in parallel, in bounded memory. If it is killed at any moment, the same call completes the folder, to the
/// same bytes; an unfinished folder is never taken for a pack. A full disk is an error that leaves finished parts in
/// place.
pub fn pack(
    source: &dyn Format,
    destination: impl AsRef<Path>,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    let destination = destination.as_ref();
    refuse_own_source(source, destination)?;
    let plan = plan_pack(source, options)?;
    let _lock = match destination::prepare(destination, &plan, options.resume, options.overwrite)? {
        DestinationState::Complete(manifest) => return Ok(PackReport::of(&manifest)),
        DestinationState::Open(lock) => lock,
    };
    let meter = Meter::new(progress, plan.samples());
    write_parts(&plan, source, options, destination, &meter)?;
    commit_pack(&plan, destination)
}

fn write_parts(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    destination: &Path,
    meter: &Meter<'_>,
) -> Result<()> {
    run_parts(plan.parts(), options.workers, |part| {
        write_part_metered(plan, source, options, part, destination, meter)
    })
}

/// Writes samples that a program makes one after the other. Not resumable: the samples cannot be read again, so an
/// interrupted run starts from the beginning (its files are recognised and removed).
#[derive(Debug)]
pub struct PackWriter {
    plan: PackPlan,
    destination: PathBuf,
    options: PackOptions,
    part_bytes: u64,
    current: Option<PartWriter>,
    buffer: SampleBuffer,
    pushed: u64,
    _lock: FolderLock,
}

impl PackWriter {
    /// Starts a pack with this schema at `destination`, which must be new, empty, or left by an interrupted run.
    pub fn create(destination: impl Into<PathBuf>, schema: Schema, options: PackOptions) -> Result<Self> {
        check_fields(&schema.fields).map_err(|reason| Error::option("schema", reason))?;
        let destination = destination.into();
        let part_bytes = match options.part_bytes {
            Some(0) => return Err(Error::option("part_bytes", "must be at least 1")),
            wanted => wanted.unwrap_or(256 << 20),
        };
        let plan = PackPlan {
            id: [0; 16],
            source: format!("stream part_bytes={part_bytes}"),
            image: options.image.name(),
            on_error: options.on_error,
            schema,
            starts: vec![0],
        }
        .with_id();
        let standing = destination::prepare(&destination, &plan, options.resume, options.overwrite)?;
        let DestinationState::Open(lock) = standing else {
            unreachable!("a stream never counts as complete")
        };
        let buffer = SampleBuffer::new();
        Ok(PackWriter {
            plan,
            destination,
            options,
            part_bytes,
            current: None,
            buffer,
            pushed: 0,
            _lock: lock,
        })
    }

    /// Adds a sample. With [`OnPackError::Skip`] a bad one is skipped and listed. Otherwise it is an error, and the
    /// pack can still continue without it.
    pub fn push(&mut self, sample: &Sample) -> Result<()> {
        let number = self.pushed;
        self.pushed += 1;
        let place = Location::new(self.destination.display().to_string()).with_sample(number);
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.add(sample, &mut buffer, place);
        self.buffer = buffer;
        match result {
            Ok(_) => self.cut(),
            Err(Refusal::Read(error)) if self.plan.on_error == OnPackError::Skip => {
                self.part()?.skip(number, &error);
                Ok(())
            }
            Err(Refusal::Read(error) | Refusal::Write(error)) => Err(error),
        }
    }

    fn add(&mut self, sample: &Sample, buffer: &mut SampleBuffer, place: Location) -> Result<u64, Refusal> {
        let fits = sample.to_buffer(&self.plan.schema, buffer);
        fits.map_err(|reason| Refusal::Read(Error::sample(place.clone(), Stage::Read, reason)))?;
        let image = self.options.image.clone();
        self.part().map_err(Refusal::Write)?.push(buffer, &*image, || place.clone())
    }

    /// Completes the pack.
    pub fn finish(mut self) -> Result<PackReport> {
        self.close_part()?;
        commit_pack(&self.plan, &self.destination)
    }

    fn part(&mut self) -> Result<&mut PartWriter> {
        if self.current.is_none() {
            let part = self.plan.parts();
            let fields = &self.plan.schema.fields;
            self.current = Some(PartWriter::create(&self.destination, part, self.plan.id, fields)?);
        }
        Ok(self.current.as_mut().expect("just made"))
    }

    fn cut(&mut self) -> Result<()> {
        let full = self.current.as_ref().is_some_and(|part| {
            let (bytes, samples) = part.size();
            bytes >= self.part_bytes || samples >= MOST_SAMPLES
        });
        if full { self.close_part() } else { Ok(()) }
    }

    fn close_part(&mut self) -> Result<()> {
        if let Some(part) = self.current.take() {
            part.finish()?;
            self.plan.starts.push(self.pushed);
        }
        Ok(())
    }
}
