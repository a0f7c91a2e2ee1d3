//! Where one value goes: the column of a row, with what its errors have to name.

use super::epoch_run::EpochRun;
use super::errors::missing;
use crate::batch::{Room, RowMut, Shape};
use crate::error::{Error, Result, Stage};

/// The place of one value in a batch.
pub(crate) struct Destination<'d, 'r> {
    pub(crate) run: &'d EpochRun,
    pub(crate) sample: u64,
    pub(crate) row: &'d mut RowMut<'r>,
    pub(crate) column: usize,
}

impl Destination<'_, '_> {
    /// The value's bytes, in a column whose values have one size.
    pub(crate) fn dense(&mut self) -> &mut [u8] {
        self.row.dense(self.column)
    }

    /// Writes a number of eight bytes.
    pub(crate) fn put_number(&mut self, number: [u8; 8]) {
        self.dense().copy_from_slice(&number);
    }

    /// Writes a height and a width.
    pub(crate) fn put_size(&mut self, height: u32, width: u32) {
        let room = self.dense();
        room[..8].copy_from_slice(&i64::from(height).to_le_bytes());
        room[8..].copy_from_slice(&i64::from(width).to_le_bytes());
    }

    /// Copies a value of unplanned length, after reserving memory for it.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.run.reserve(self.row, bytes.len());
        let Room::Free(room) = self.row.ragged(self.column).0 else {
            unreachable!("the length was not planned")
        };
        room.clear();
        let starved = |_| Error::out_of_memory(bytes.len() as u64, "a value of a batch");
        room.try_reserve_exact(bytes.len()).map_err(starved)?;
        room.extend_from_slice(bytes);
        Ok(())
    }

    /// The same for a value with a shape.
    pub(crate) fn put_array(&mut self, bytes: &[u8], shape: &[u64]) -> Result<()> {
        self.put_bytes(bytes)?;
        *self.row.ragged(self.column).1 = Shape::new(shape);
        Ok(())
    }

    /// The error of a sample without a value for `field`.
    pub(crate) fn missing(&self, field: usize) -> Error {
        missing(self.run, self.sample, field)
    }

    /// The error of a value of `field` that cannot be used.
    pub(crate) fn refused(&self, field: usize, stage: Stage, reason: String) -> Error {
        Error::sample(self.run.locate_field(self.sample, field), stage, reason)
    }
}
