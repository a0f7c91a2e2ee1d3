//! Writes one part: samples are written to a temporary file, the index is collected in memory, and only a complete,
//! synced file gets the part's name.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use feedline_pixels::checksum;

use super::digest::Digest;
use super::encode::{EncodedImage, ImageEncoder, ImageInput};
use super::layout::{
    HEADER_LENGTH, INDEX_ALIGNMENT, IndexBuilder, MAX_COLUMNS, PartHeader, Row, SAMPLE_ALIGNMENT,
    TRAILER_LENGTH, Trailer, at,
};
use super::manifest::{MAX_LISTED, PartEntry, Skipped, part_name, schema_text};
use crate::error::{Error, Location, Result, Stage};
use crate::format::whole_file::{Temporary, failed, put_in_place, temporary_path};
use crate::sample::{FieldSpec, ImageMeta, Kind, SampleBuffer, Value};

/// Large enough that small samples do not cost a system call each.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a sample was not added.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The sample is at fault; nothing was written.
    Read(Error),
    /// The disk is at fault; the part is lost.
    Write(Error),
}

/// An unfinished part. Dropping it removes the temporary file.
#[derive(Debug)]
pub(super) struct PartWriter {
    file: BufWriter<File>,
    temporary: Temporary,
    path: PathBuf,
    position: u64,
    fields: Vec<FieldSpec>,
    index: IndexBuilder,
    digest: Digest,
    skipped: Vec<Skipped>,
    skipped_count: u64,
    rows: Vec<Row>,
    images: Vec<EncodedImage>,
}

impl PartWriter {
    pub(super) fn create(folder: &Path, part: u64, plan: [u8; 16], fields: &[FieldSpec]) -> Result<Self> {
        let path = folder.join(part_name(part));
        let temporary = Temporary(temporary_path(&path));
        let file = File::create(&temporary.0).map_err(|e| failed("creating", &temporary.0, e))?;
        let mut writer = PartWriter {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            temporary,
            path,
            position: 0,
            fields: fields.to_vec(),
            index: IndexBuilder::new(fields.iter().map(|f| f.kind)),
            digest: Digest::default(),
            skipped: Vec::new(),
            skipped_count: 0,
            rows: vec![[0; MAX_COLUMNS]; fields.len()],
            images: fields.iter().map(|_| EncodedImage::default()).collect(),
        };
        writer.write(&PartHeader { part, plan }.to_bytes())?;
        Ok(writer)
    }

    /// Number of bytes and samples written so far.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.position, self.index.samples())
    }

    /// Adds a sample; returns its stored length. `place` is used if the sample is at fault.
    pub(super) fn push(
        &mut self,
        sample: &SampleBuffer,
        encoder: &dyn ImageEncoder,
        place: impl Fn() -> Location,
    ) -> Result<u64, Refusal> {
        let encoded = self.encode(sample, encoder);
        encoded.map_err(|reason| Refusal::Read(Error::sample(place(), Stage::Read, reason)))?;
        let padding = self.position.next_multiple_of(SAMPLE_ALIGNMENT) - self.position;
        self.write(&[0; SAMPLE_ALIGNMENT as usize][..padding as usize]).map_err(Refusal::Write)?;
        let start = self.position;
        for field in 0..self.fields.len() {
            self.write_field(field, sample).map_err(Refusal::Write)?;
        }
        for field in 0..self.fields.len() {
            self.write_video_index(field, sample).map_err(Refusal::Write)?;
        }
        self.index.push(start, &self.rows);
        self.digest.push(&self.fields, &self.rows);
        Ok(self.position - start)
    }

    /// Records a skipped sample.
    pub(super) fn skip(&mut self, sample: u64, error: &Error) {
        self.skipped_count += 1;
        if self.skipped.len() < MAX_LISTED {
            self.skipped.push(Skipped { sample, reason: portable_reason(error) });
        }
    }

    /// Writes index and trailer, syncs, and renames the file.
    pub(super) fn finish(mut self) -> Result<PartEntry> {
        let samples = self.index.samples();
        let padding = self.position.next_multiple_of(INDEX_ALIGNMENT) - self.position;
        self.write(&vec![0; padding as usize])?;
        let index_offset = self.position;
        let skipped = skipped_text(self.skipped_count, &self.skipped);
        let builder = std::mem::replace(&mut self.index, IndexBuilder::new([]));
        let index = builder.finish(&schema_text(&self.fields), &skipped);
        let trailer = Trailer {
            index_offset,
            index_length: index.len() as u64,
            samples,
            digest: self.digest.to_bytes(),
            index_crc: checksum::crc32c(&index),
        };
        self.write(&index)?;
        self.write(&trailer.to_bytes())?;
        let PartWriter { file, temporary, path, position, .. } = self;
        let fail = |e| failed("writing", &path, e);
        let file = file.into_inner().map_err(|e| fail(e.into_error()))?;
        put_in_place(&file, temporary, &path)?;
        debug_assert!(position >= HEADER_LENGTH + TRAILER_LENGTH);
        Ok(PartEntry::new(&trailer, position))
    }

    /// Fills `rows` and `images`; writes nothing, so that a sample that fails here leaves nothing behind.
    fn encode(&mut self, sample: &SampleBuffer, encoder: &dyn ImageEncoder) -> Result<(), String> {
        for (number, field) in self.fields.iter().enumerate() {
            let place = |reason: String| format!("field '{}': {reason}", field.name);
            let row = &mut self.rows[number];
            *row = [0; MAX_COLUMNS];
            match sample.value(number) {
                Value::Missing if field.optional => row[at::MISSING] = 1,
                Value::Missing => return Err(place("the sample lacks it".to_owned())),
                Value::Int(value) => row[at::VALUE] = *value as u64,
                Value::Float(value) => row[at::VALUE] = value.to_bits(),
                Value::Bytes(range) if field.kind == Kind::Video => {
                    let (bytes, video) = (sample.bytes(range), &mut self.images[number]);
                    encoder.encode_video(bytes, video).map_err(place)?;
                    fill_bytes(row, video.bytes.as_deref().unwrap_or(bytes));
                    if !video.index.is_empty() {
                        row[at::VIDEO_INDEX_LENGTH] = video.index.len() as u64;
                        row[at::VIDEO_INDEX_CRC] = u64::from(checksum::crc32c(&video.index));
                    }
                }
                Value::Bytes(range) => fill_bytes(row, sample.bytes(range)),
                Value::Image { bytes, index, meta } => {
                    let input =
                        ImageInput { bytes: sample.bytes(bytes), index: sample.bytes(index), meta: *meta };
                    let image = &mut self.images[number];
                    encoder.encode(input, image).map_err(place)?;
                    fill_bytes(row, image.bytes.as_deref().unwrap_or(input.bytes));
                    fill_image(row, image);
                }
                Value::Array { dtype, dimensions, shape, bytes } => {
                    fill_bytes(row, sample.bytes(bytes));
                    row[at::DTYPE] = dtype.code();
                    row[at::DIMENSIONS] = u64::from(*dimensions);
                    row[at::SHAPE..at::SHAPE + shape.len()].copy_from_slice(shape);
                }
            }
        }
        Ok(())
    }

    fn write_field(&mut self, field: usize, sample: &SampleBuffer) -> Result<()> {
        match sample.value(field) {
            Value::Missing | Value::Int(_) | Value::Float(_) => Ok(()),
            Value::Bytes(range) if self.fields[field].kind == Kind::Video => {
                let video = std::mem::take(&mut self.images[field]);
                self.write(video.bytes.as_deref().unwrap_or(sample.bytes(range)))?;
                self.images[field] = video;
                Ok(())
            }
            Value::Bytes(range) | Value::Array { bytes: range, .. } => self.write(sample.bytes(range)),
            Value::Image { bytes, .. } => {
                let image = std::mem::take(&mut self.images[field]);
                self.write(image.bytes.as_deref().unwrap_or(sample.bytes(bytes)))?;
                self.write(&image.index)?;
                self.images[field] = image;
                Ok(())
            }
        }
    }

    /// Indexes of videos are behind all fields, where readers that do not know them do not look.
    fn write_video_index(&mut self, field: usize, sample: &SampleBuffer) -> Result<()> {
        if self.fields[field].kind != Kind::Video || *sample.value(field) == Value::Missing {
            return Ok(());
        }
        let index = std::mem::take(&mut self.images[field].index);
        self.write(&index)?;
        self.images[field].index = index;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| failed("writing", &self.path, e))?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

fn fill_bytes(row: &mut Row, bytes: &[u8]) {
    row[at::LENGTH] = bytes.len() as u64;
    row[at::CRC] = u64::from(checksum::crc32c(bytes));
}

fn fill_image(row: &mut Row, image: &EncodedImage) {
    let ImageMeta { encoding, width, height, channels, orientation } = image.meta;
    row[at::WIDTH] = u64::from(width);
    row[at::HEIGHT] = u64::from(height);
    row[at::CHANNELS] = u64::from(channels);
    row[at::ENCODING] = encoding.code();
    row[at::ORIENTATION] = u64::from(orientation);
    row[at::SEEK_LENGTH] = image.index.len() as u64;
    if !image.index.is_empty() {
        row[at::SEEK_CRC] = u64::from(checksum::crc32c(&image.index));
    }
}

/// The skipped samples of a part in the form of its section; empty if there are none.
fn skipped_text(count: u64, listed: &[Skipped]) -> Vec<u8> {
    if count == 0 {
        return Vec::new();
    }
    serde_json::to_vec(&(count, listed)).expect("skipped samples are plain data")
}

/// The reason without paths: a pack's bytes must not depend on where its source was, or under which name it was
/// opened.
fn portable_reason(error: &Error) -> String {
    let reason = match error {
        Error::Data { reason, .. } | Error::Sample { reason, .. } => reason.clone(),
        Error::Storage { action, source, .. } => format!("{action}: {source}"),
        other => other.to_string(),
    };
    match error.location().and_then(|l| l.shard.as_ref()) {
        Some(shard) if !shard.starts_with('/') => format!("{shard}: {reason}"),
        _ => reason,
    }
}
