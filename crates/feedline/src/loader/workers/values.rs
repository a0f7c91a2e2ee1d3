//! Values that are not decoded: numbers, bytes, arrays, sizes of images.

use std::time::Instant;

use super::Worker;
use super::epoch_run::EpochRun;
use super::errors::{decode_error, missing, read_error};
use super::images::stored_image;
use crate::batch::{Room, RowMut, Shape};
use crate::error::{Error, Result, Stage};
use crate::loader::plan::Output;
use crate::loader::stats::Work;
use crate::loader::{views, windows};
use crate::sample::{FieldSet, ImageEncoding, SampleBuffer, Value};

impl Worker {
    /// Puts any value except a decoded image into its row. Returns the number of stored bytes that it read itself.
    pub(super) fn value(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        output: Output,
    ) -> Result<u64> {
        match output {
            Output::Index => row.dense(column).copy_from_slice(&(sample as i64).to_le_bytes()),
            Output::Int { .. }
            | Output::Soft { .. }
            | Output::Float { .. }
            | Output::IntOrZero { .. }
            | Output::NumberOrNan { .. }
            | Output::Valid { .. } => self.number(run, sample, row, column, output)?,
            Output::Bytes { field, direct } => {
                refuse_compact(run, sample, field)?;
                if direct {
                    return self.direct(run, sample, row, column, field);
                }
                put_bytes(run, &self.sample, field, row, column)?;
            }
            Output::View { field } => views::put_view(run, sample, row, column, field)?,
            Output::Array { field } => put_array(run, sample, &self.sample, field, row, column)?,
            Output::Tokens { field, skip } => {
                windows::put(run, sample, &self.sample, field, skip, row, column)?;
            }
            Output::ImageSize { field } => self.image_size(run, sample, row, column, field)?,
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
    fn number(
        &self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        output: Output,
    ) -> Result<()> {
        let missing = |field| missing(run, sample, field);
        match output {
            Output::Int { field } => match self.sample.value(field) {
                Value::Int(value) => {
                    let label = run.plan.relabelled(&run.plan.columns[column].name, sample, *value);
                    row.dense(column).copy_from_slice(&label.to_le_bytes());
                }
                _ => return Err(missing(field)),
            },
            Output::Soft { field, soft } => self.soft_label(run, sample, row, column, (field, soft))?,
            Output::Float { field } => match self.sample.value(field) {
                Value::Float(value) => row.dense(column).copy_from_slice(&value.to_le_bytes()),
                _ => return Err(missing(field)),
            },
            Output::IntOrZero { field } => {
                let value = if let Value::Int(value) = self.sample.value(field) { *value } else { 0 };
                row.dense(column).copy_from_slice(&value.to_le_bytes());
            }
            Output::NumberOrNan { field } => {
                let value = match self.sample.value(field) {
                    Value::Int(value) => *value as f64,
                    Value::Float(value) => *value,
                    _ => f64::NAN,
                };
                row.dense(column).copy_from_slice(&value.to_le_bytes());
            }
            Output::Valid { field } => {
                row.dense(column)[0] = u8::from(*self.sample.value(field) != Value::Missing);
            }
            _ => unreachable!("only fields of numbers"),
        }
        Ok(())
    }

    /// Writes a label as shares of classes.
    fn soft_label(
        &self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        (field, soft): (usize, usize),
    ) -> Result<()> {
        let Value::Int(value) = self.sample.value(field) else { return Err(missing(run, sample, field)) };
        let label = run.plan.relabelled(&run.plan.columns[column].name, sample, *value);
        run.plan.mix.write_soft(soft, label, row.dense(column)).map_err(|reason| {
            let name = &run.dataset.schema().fields[field].name;
            Error::sample(run.locate(sample).with_field(name), Stage::Batch, reason)
        })
    }

    /// Reads bytes straight from storage into the batch, or through scratch memory if not all lengths were known.
    pub(super) fn direct(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<u64> {
        let begun = Instant::now();
        if let (Room::Planned(room), _) = row.ragged(column) {
            let bytes = room.len() as u64;
            self.wait_check = run.begin_wait_check(&mut self.reads);
            run.dataset.read_bytes(sample, field, room).map_err(|e| read_error(e, run, sample))?;
            self.end_wait_check(run);
            self.counters.spent(Work::Read, begun.elapsed());
            return Ok(bytes);
        }
        let count = run.dataset.schema().fields.len();
        let only = FieldSet::only(count, [field]);
        run.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, run, sample))?;
        put_bytes(run, &self.probed, field, row, column)?;
        Ok(self.probed.used() as u64)
    }

    fn image_size(
        &mut self,
        run: &EpochRun,
        sample: u64,
        row: &mut RowMut<'_>,
        column: usize,
        field: usize,
    ) -> Result<()> {
        let stored = run.dataset.format().image_meta(sample, field).filter(|_| run.plan.options.page == 0);
        let size = match stored.and_then(|meta| meta.oriented_size()) {
            Some((height, width)) => [i64::from(height), i64::from(width)],
            None => self.probed_size(run, sample, field)?,
        };
        let room = row.dense(column);
        room[..8].copy_from_slice(&size[0].to_le_bytes());
        room[8..].copy_from_slice(&size[1].to_le_bytes());
        Ok(())
    }

    fn probed_size(&mut self, run: &EpochRun, sample: u64, field: usize) -> Result<[i64; 2]> {
        let only = FieldSet::only(run.dataset.schema().fields.len(), [field]);
        run.dataset.read(sample, &only, &mut self.probed).map_err(|e| read_error(e, run, sample))?;
        let stored = stored_image(&self.probed, field).ok_or_else(|| missing(run, sample, field))?;
        let page = run.plan.options.page as usize;
        let opened = stored.with_page(page, &mut self.paged).and_then(|stored| stored.open());
        let size = opened.map_err(|e| decode_error(run, sample, field, &e))?.upright_size();
        Ok([i64::from(size.height), i64::from(size.width)])
    }
}

/// Undecoded bytes are for other decoders, and no other decoder reads the compact form.
pub(crate) fn refuse_compact(run: &EpochRun, sample: u64, field: usize) -> Result<()> {
    let stored = run.dataset.format().image_meta(sample, field);
    if stored.is_none_or(|meta| meta.encoding != ImageEncoding::Compact) {
        return Ok(());
    }
    let place = run.locate(sample).with_field(&run.dataset.schema().fields[field].name);
    let reason = "stored as compact, which no other decoder reads; pack with image='jpeg' for decode='none'";
    Err(Error::sample(place, Stage::Read, reason))
}

fn put_bytes(
    run: &EpochRun,
    buffer: &SampleBuffer,
    field: usize,
    row: &mut RowMut<'_>,
    column: usize,
) -> Result<()> {
    let bytes: &[u8] = match buffer.value(field) {
        Value::Bytes(bytes) | Value::Image { bytes, .. } => buffer.bytes(bytes),
        _ => &[],
    };
    if let (Room::Planned(room), _) = row.ragged(column) {
        room.copy_from_slice(bytes);
        return Ok(());
    }
    run.reserve(row, bytes.len());
    copy_unplanned(bytes, row, column)
}

/// Copies a value into a row of unplanned length.
pub(crate) fn copy_unplanned(bytes: &[u8], row: &mut RowMut<'_>, column: usize) -> Result<()> {
    let Room::Free(room) = row.ragged(column).0 else { unreachable!("the length was not planned") };
    room.clear();
    let starved = |_| Error::out_of_memory(bytes.len() as u64, "a value of a batch");
    room.try_reserve_exact(bytes.len()).map_err(starved)?;
    room.extend_from_slice(bytes);
    Ok(())
}

fn put_array(
    run: &EpochRun,
    sample: u64,
    buffer: &SampleBuffer,
    field: usize,
    row: &mut RowMut<'_>,
    column: usize,
) -> Result<()> {
    *row.ragged(column).1 = Shape::new(&[0]);
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(field) else {
        return copy_unplanned(&[], row, column);
    };
    let expected = run.plan.columns[column].dtype;
    if *dtype != expected {
        let reason = format!("array of {}, but the column is {}", dtype.name(), expected.name());
        let name = &run.dataset.schema().fields[field].name;
        return Err(Error::sample(run.locate(sample).with_field(name), Stage::Batch, reason));
    }
    let bytes = buffer.bytes(bytes);
    run.reserve(row, bytes.len());
    copy_unplanned(bytes, row, column)?;
    *row.ragged(column).1 = Shape::new(&shape[..*dimensions as usize]);
    Ok(())
}

/// Writes a packed sample's length or row; no bytes are read for it.
pub(super) fn put_packing(
    run: &EpochRun,
    sample: u64,
    position: u64,
    row: &mut RowMut<'_>,
    column: usize,
    output: Output,
) -> u64 {
    let number = match output {
        Output::PackedLength => run.plan.packed_length(sample),
        _ => run.batches.row_in_batch(row.batch(), position),
    };
    row.dense(column).copy_from_slice(&(number as i64).to_le_bytes());
    0
}
