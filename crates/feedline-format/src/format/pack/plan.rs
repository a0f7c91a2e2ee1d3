//! Writing a pack in three steps that any number of machines can share: [`plan_pack`] decides which samples go into
//! which part, [`write_part`] writes one part (in any order, on any machine, repeatedly if necessary),
//! [`commit_pack`] checks that all parts exist and writes the manifest. [`pack`](super::pack) runs the three steps
//! with threads.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::destination::{self, PLAN_NAME};
use super::encode::{ImageEncoder, KeepImages};
use super::layout::PartHeader;
use super::manifest::{
    MANIFEST_NAME, MAX_LISTED, Manifest, PartEntry, Skipped, check_fields, hex16, part_name, schema_text,
};
use super::part_writer::{PartWriter, Refusal};
use super::reader::{PartIndex, read_part};
use crate::error::{Error, Location, Result};
use crate::format::Format;
use crate::format::parts::{Meter, Progress, SampleSizes};
use crate::format::whole_file::write_file;
use crate::sample::{FieldSet, Fingerprint, Kind, SampleBuffer, Schema};
use crate::source::{LocalSource, Source};

/// Parts of this size keep requests large and retries cheap.
const PART_BYTES: u64 = 256 << 20;
/// A small data set is still cut into parts, so that threads can share the work.
const LEAST_PART_BYTES: u64 = 16 << 20;
/// More parts than this make opening slow and mappings scarce (Linux allows 65,530); parts become larger instead.
const MOST_PARTS: u64 = 8192;
/// Limits the memory for an unfinished part's index (about 100 bytes per sample).
pub(super) const MOST_SAMPLES: u64 = 1 << 19;

/// What to do with a sample that cannot be read or encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnPackError {
    /// Stop with the error.
    #[default]
    Raise,
    /// Skip the sample and list it in the manifest.
    Skip,
}

/// How to write a pack.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// How images are stored.
    pub image: Arc<dyn ImageEncoder>,
    /// Approximate size of a part; `None` chooses by the size of the data.
    pub part_bytes: Option<u64>,
    /// Number of threads; 0 means all cores this process may use.
    pub workers: usize,
    /// What to do with unreadable samples.
    pub on_error: OnPackError,
    /// Resume an unfinished pack of the same source and options; otherwise start from the beginning.
    pub resume: bool,
    /// Replace a finished or different pack at the destination. Other files are never touched.
    pub overwrite: bool,
}

impl Default for PackOptions {
    fn default() -> Self {
        PackOptions {
            image: Arc::new(KeepImages::default()),
            part_bytes: None,
            workers: 0,
            on_error: OnPackError::Raise,
            resume: true,
            overwrite: false,
        }
    }
}

/// Which samples go into which part, and everything that decides a part's bytes. Plain data, sent to other machines
/// as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackPlan {
    #[serde(with = "hex16")]
    pub(super) id: [u8; 16],
    pub(super) source: String,
    pub(super) image: String,
    pub(super) on_error: OnPackError,
    pub(super) schema: Schema,
    /// First sample of each part, and the number of samples.
    pub(super) starts: Vec<u64>,
}

impl PackPlan {
    /// Number of parts.
    pub fn parts(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// Number of samples of the source.
    pub fn samples(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    pub(super) fn with_id(mut self) -> Self {
        self.id = [0; 16];
        let text = serde_json::to_vec(&self).expect("a plan is plain data");
        self.id = Fingerprint::of([&b"feedline plan 1"[..], &text]).0;
        self
    }

    /// Whether the samples come from a program and cannot be read again.
    pub(super) fn is_stream(&self) -> bool {
        self.source.starts_with("stream")
    }

    fn kinds(&self) -> Vec<Kind> {
        self.schema.fields.iter().map(|f| f.kind).collect()
    }

    fn check(&self, source: &dyn Format, options: &PackOptions, part: u64) -> Result<()> {
        if self.source != source.fingerprint().to_hex() {
            return Err(Error::option(
                "source",
                "is not the data set the plan was made for, or it changed since",
            ));
        }
        if self.image != options.image.name() {
            let reason = format!("the plan says '{}', not '{}'", self.image, options.image.name());
            return Err(Error::option("image", reason));
        }
        if part >= self.parts() {
            return Err(Error::option(
                "part",
                format!("the plan has {} parts, no part {part}", self.parts()),
            ));
        }
        Ok(())
    }
}

/// Decides the parts. The same source and options give the same plan on any machine, for any number of workers.
pub fn plan_pack(source: &dyn Format, options: &PackOptions) -> Result<PackPlan> {
    let schema = source.schema().clone();
    check_fields(&schema.fields).map_err(|reason| Error::option("schema", reason))?;
    let sizes = SampleSizes::new(source, options.image.growth());
    let total: u64 = (0..source.len()).map(|sample| sizes.of(sample)).fold(0, u64::saturating_add);
    let part_bytes = part_bytes(options.part_bytes, total)?;
    let starts = sizes.cut(part_bytes, MOST_SAMPLES);
    Ok(PackPlan {
        id: [0; 16],
        source: source.fingerprint().to_hex(),
        image: options.image.name(),
        on_error: options.on_error,
        schema,
        starts,
    }
    .with_id())
}

fn part_bytes(wanted: Option<u64>, total: u64) -> Result<u64> {
    match wanted {
        Some(0) => Err(Error::option("part_bytes", "must be at least 1")),
        Some(bytes) => Ok(bytes),
        None => Ok((total / 64).clamp(LEAST_PART_BYTES, PART_BYTES).max(total / MOST_PARTS)),
    }
}

/// Writes part `part` of the plan into the folder `destination`, unless it exists. May be called again, and from
/// several machines at once: each writes under its own temporary name, and the results are the same bytes.
pub fn write_part(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    part: u64,
    destination: &Path,
    progress: &dyn Progress,
) -> Result<()> {
    write_part_metered(plan, source, options, part, destination, &Meter::new(progress, plan.samples()))
}

pub(super) fn write_part_metered(
    plan: &PackPlan,
    source: &dyn Format,
    options: &PackOptions,
    part: u64,
    destination: &Path,
    meter: &Meter<'_>,
) -> Result<()> {
    plan.check(source, options, part)?;
    let samples = plan.starts[part as usize]..plan.starts[part as usize + 1];
    if let Ok((entry, _)) = find_part(plan, part, &LocalSource::new(destination)) {
        return meter.add(samples.end - samples.start, entry.bytes);
    }
    let mut writer = PartWriter::create(destination, part, plan.id, &plan.schema.fields)?;
    let all = FieldSet::all(plan.schema.fields.len());
    let mut buffer = SampleBuffer::new();
    for sample in samples {
        let bytes = match add_sample(source, sample, &all, &mut buffer, &mut writer, &*options.image) {
            Ok(bytes) => bytes,
            Err(Refusal::Write(error)) => return Err(error),
            Err(Refusal::Read(error)) if plan.on_error == OnPackError::Raise => return Err(error),
            Err(Refusal::Read(error)) => {
                writer.skip(sample, &error);
                0
            }
        };
        meter.add(1, bytes)?;
    }
    writer.finish().map(|_| ())
}

fn add_sample(
    source: &dyn Format,
    sample: u64,
    fields: &FieldSet,
    buffer: &mut SampleBuffer,
    writer: &mut PartWriter,
    encoder: &dyn ImageEncoder,
) -> Result<u64, Refusal> {
    source.read(sample, fields, buffer).map_err(Refusal::Read)?;
    let place = || source.locate(sample).with_sample(sample);
    writer.push(buffer, encoder, place)
}

pub(super) fn find_part(
    plan: &PackPlan,
    part: u64,
    destination: &dyn Source,
) -> Result<(PartEntry, PartIndex), String> {
    let object = destination.open(&part_name(part)).map_err(|e| e.to_string())?;
    read_part(&*object, PartHeader { part, plan: plan.id }, &plan.kinds())
}

/// Summary of a finished pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackReport {
    /// Number of samples in the pack.
    pub samples: u64,
    /// Number of parts.
    pub parts: u64,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Number of skipped samples.
    pub skipped_count: u64,
    /// The first skipped samples.
    pub skipped: Vec<Skipped>,
    /// The pack's fingerprint.
    pub fingerprint: Fingerprint,
}

impl PackReport {
    pub(super) fn of(manifest: &Manifest) -> Self {
        PackReport {
            samples: manifest.samples,
            parts: manifest.parts.len() as u64,
            bytes: manifest.parts.iter().map(|p| p.bytes).sum(),
            skipped_count: manifest.skipped_count,
            skipped: manifest.skipped.clone(),
            fingerprint: Fingerprint(manifest.fingerprint),
        }
    }
}

/// Checks that every part of the plan is complete, writes the manifest, and removes temporary files.
pub fn commit_pack(plan: &PackPlan, destination: &Path) -> Result<PackReport> {
    let manifest = manifest_of(plan, &LocalSource::new(destination))?;
    write_file(&destination.join(MANIFEST_NAME), &manifest.to_bytes())?;
    destination::clean(destination)?;
    // The plan is removed last: without it and without a manifest, the parts would not belong to any pack.
    let _ = fs::remove_file(destination.join(PLAN_NAME));
    Ok(PackReport::of(&manifest))
}

/// The manifest of a pack whose parts must all exist at `destination`.
pub(super) fn manifest_of(plan: &PackPlan, destination: &dyn Source) -> Result<Manifest> {
    let mut entries = Vec::new();
    let (mut skipped_count, mut skipped) = (0, Vec::new());
    for part in 0..plan.parts() {
        let missing = |reason: String| {
            let place = Location::new(destination.uri()).with_shard(part_name(part));
            Error::data(place, format!("the part is not complete: {reason}"))
                .with_hint("write this part again, then commit")
        };
        let (entry, index) = find_part(plan, part, destination).map_err(missing)?;
        if index.bytes[index.index.schema.clone()] != schema_text(&plan.schema.fields) {
            return Err(missing("its schema differs from the plan's".to_owned()));
        }
        let (count, listed) = skipped_of(&index).map_err(missing)?;
        skipped_count += count;
        skipped.extend(listed);
        skipped.truncate(MAX_LISTED);
        entries.push(entry);
    }
    let mut manifest = Manifest::new(plan.id, &plan.image, &plan.schema, entries);
    (manifest.skipped_count, manifest.skipped) = (skipped_count, skipped);
    Ok(manifest)
}

fn skipped_of(index: &PartIndex) -> Result<(u64, Vec<Skipped>), String> {
    let text = &index.bytes[index.index.skipped.clone()];
    if text.is_empty() {
        return Ok((0, Vec::new()));
    }
    serde_json::from_slice(text).map_err(|e| format!("its list of skipped samples is damaged: {e}"))
}
