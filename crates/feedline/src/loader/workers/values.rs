//! Values that are not decoded: numbers, bytes, arrays, sizes of images.

use std::time::Instant;

use super::Worker;
use super::destination::Destination;
use super::epoch_run::EpochRun;
use super::errors::{decode_error, missing, read_error};
use super::images::stored_image;
use crate::batch::Room;
use crate::error::{Error, Result, Stage};
use crate::loader::plan::Output;
use crate::loader::stats::Work;
use crate::loader::{views, windows};
use crate::sample::{FieldSet, ImageEncoding, SampleBuffer, Value};

impl Worker {
    /// Puts any value except a decoded image into its row. Returns the number of stored bytes that it read itself.
    pub(super) fn value(&mut self, to: &mut Destination<'_, '_>, output: Output) -> Result<u64> {
        match output {
            Output::Index => to.put_number((to.sample as i64).to_le_bytes()),
            Output::Int { .. }
            | Output::Soft { .. }
            | Output::Float { .. }
            | Output::IntOrZero { .. }
            | Output::NumberOrNan { .. }
            | Output::Valid { .. } => self.number(to, output)?,
            Output::Bytes { field, direct } => {
                refuse_compact(to.run, to.sample, field)?;
                if direct {
                    return self.direct(to, field);
                }
                put_bytes(to, &self.sample, field)?;
            }
            Output::View { field } => views::put_view(to, field)?,
            Output::Array { field } => put_array(to, &self.sample, field)?,
            Output::Tokens { field, skip } => windows::put(to, &self.sample, field, skip)?,
            Output::ImageSize { field } => self.image_size(to, field)?,
            Output::Image { .. }
            | Output::Target { .. }
            | Output::Media { .. }
            | Output::ArrayWindow { .. }
            | Output::PackedLength
            | Output::PackedRow => {
                unreachable!("images, media, windows and packing have their own functions")
            }
        }
        Ok(0)
    }

    /// Puts one number into its row.
    fn number(&self, to: &mut Destination<'_, '_>, output: Output) -> Result<()> {
        match output {
            Output::Int { field } => match self.sample.value(field) {
                Value::Int(value) => {
                    let label =
                        to.run.plan.relabelled(&to.run.plan.columns[to.column].name, to.sample, *value);
                    to.put_number(label.to_le_bytes());
                }
                _ => return Err(to.missing(field)),
            },
            Output::Soft { field, soft } => self.soft_label(to, field, soft)?,
            Output::Float { field } => match self.sample.value(field) {
                Value::Float(value) => to.put_number(value.to_le_bytes()),
                _ => return Err(to.missing(field)),
            },
            Output::IntOrZero { field } => {
                let value = if let Value::Int(value) = self.sample.value(field) { *value } else { 0 };
                to.put_number(value.to_le_bytes());
            }
            Output::NumberOrNan { field } => {
                let value = match self.sample.value(field) {
                    Value::Int(value) => *value as f64,
                    Value::Float(value) => *value,
                    _ => f64::NAN,
                };
                to.put_number(value.to_le_bytes());
            }
            Output::Valid { field } => {
                to.dense()[0] = u8::from(*self.sample.value(field) != Value::Missing);
            }
            _ => unreachable!("only fields of numbers"),
        }
        Ok(())
    }

    /// Writes a label as shares of classes.
    fn soft_label(&self, to: &mut Destination<'_, '_>, field: usize, soft: usize) -> Result<()> {
        let Value::Int(value) = self.sample.value(field) else { return Err(to.missing(field)) };
        let plan = &to.run.plan;
        let label = plan.relabelled(&plan.columns[to.column].name, to.sample, *value);
        let written = plan.mix.write_soft(soft, label, to.dense());
        written.map_err(|reason| to.refused(field, Stage::Batch, reason))
    }

    /// Reads bytes straight from storage into the batch, or through scratch memory if not all lengths were known.
    fn direct(&mut self, to: &mut Destination<'_, '_>, field: usize) -> Result<u64> {
        let (run, sample, begun) = (to.run, to.sample, Instant::now());
        if let (Room::Planned(room), _) = to.row.ragged(to.column) {
            let bytes = room.len() as u64;
            self.wait_check = run.begin_wait_check(&mut self.reads);
            run.dataset.read_bytes(sample, field, room).map_err(|e| read_error(e, run, sample))?;
            self.end_wait_check(run);
            self.counters.spent(Work::Read, begun.elapsed());
            return Ok(bytes);
        }
        self.read_only(run, sample, field)?;
        put_bytes(to, &self.probed, field)?;
        Ok(self.probed.used() as u64)
    }

    /// Reads one field of a sample, beside the values that were read before.
    fn read_only(&mut self, run: &EpochRun, sample: u64, field: usize) -> Result<()> {
        let only = FieldSet::only(run.dataset.schema().fields.len(), [field]);
        run.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, run, sample))
    }

    fn image_size(&mut self, to: &mut Destination<'_, '_>, field: usize) -> Result<()> {
        let run = to.run;
        let stored = run.dataset.format().image_meta(to.sample, field).filter(|_| run.plan.options.page == 0);
        let (height, width) = match stored.and_then(|meta| meta.oriented_size()) {
            Some(size) => size,
            None => self.probed_size(run, to.sample, field)?,
        };
        to.put_size(height, width);
        Ok(())
    }

    /// Height and width, from the image's own header.
    fn probed_size(&mut self, run: &EpochRun, sample: u64, field: usize) -> Result<(u32, u32)> {
        self.read_only(run, sample, field)?;
        let stored = stored_image(&self.probed, field).ok_or_else(|| missing(run, sample, field))?;
        let page = run.plan.options.page as usize;
        let opened = stored.with_page(page, &mut self.paged).and_then(|stored| stored.open());
        let size = opened.map_err(|e| decode_error(run, sample, field, &e))?.upright_size();
        Ok((size.height, size.width))
    }
}

/// Undecoded bytes are for other decoders, and no other decoder reads the compact form.
pub(crate) fn refuse_compact(run: &EpochRun, sample: u64, field: usize) -> Result<()> {
    let stored = run.dataset.format().image_meta(sample, field);
    if stored.is_none_or(|meta| meta.encoding != ImageEncoding::Compact) {
        return Ok(());
    }
    let reason = "stored as compact, which no other decoder reads; pack with image='jpeg' for decode='none'";
    Err(Error::sample(run.locate_field(sample, field), Stage::Read, reason))
}

fn put_bytes(to: &mut Destination<'_, '_>, buffer: &SampleBuffer, field: usize) -> Result<()> {
    let bytes: &[u8] = match buffer.value(field) {
        Value::Bytes(bytes) | Value::Image { bytes, .. } => buffer.bytes(bytes),
        _ => &[],
    };
    if let (Room::Planned(room), _) = to.row.ragged(to.column) {
        room.copy_from_slice(bytes);
        return Ok(());
    }
    to.put_bytes(bytes)
}

fn put_array(to: &mut Destination<'_, '_>, buffer: &SampleBuffer, field: usize) -> Result<()> {
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(field) else {
        return to.put_array(&[], &[0]);
    };
    let expected = to.run.plan.columns[to.column].dtype;
    if *dtype != expected {
        let reason = format!("array of {}, but the column is {}", dtype.name(), expected.name());
        return Err(to.refused(field, Stage::Batch, reason));
    }
    to.put_array(buffer.bytes(bytes), &shape[..*dimensions as usize])
}

/// Writes a packed sample's length or row; no bytes are read for it.
pub(super) fn put_packing(to: &mut Destination<'_, '_>, position: u64, output: Output) {
    let number = match output {
        Output::PackedLength => to.run.plan.packed_length(to.sample),
        _ => to.run.batches.row_in_batch(to.row.batch(), position),
    };
    to.put_number((number as i64).to_le_bytes());
}
