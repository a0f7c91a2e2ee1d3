//! A batch while workers fill it: columns with a place for every row, and the state of each row.

#![expect(unsafe_code, reason = "rows are written through a shared batch; see batch/README.md")]

use std::cell::UnsafeCell;
use std::ops::Range;
use std::sync::Arc;

use super::memory::{Pool, Slab};
use super::ring::Claim;
use super::{Batch, Column, ColumnSpec, Layout};
use crate::error::{Error, Result};
use crate::sample::MAX_DIMENSIONS;

/// A batch being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    /// Number of the batch in the epoch.
    pub(crate) number: u64,
    /// The sample of each row.
    pub(crate) samples: Vec<u64>,
    columns: Vec<FillingColumn>,
    rows: Vec<UnsafeCell<RowState>>,
    /// Why the batch has no columns, if there was no memory for them.
    broken: Option<Error>,
    sealed: Option<Sealed>,
}

// SAFETY: `rows` and the columns' memory are written only through `RowMut`, of which there is one per claimed row.
unsafe impl Sync for Filling {}

/// Result of sealing a batch.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// The batch, without its failed rows; `None` if no row is left.
    pub(crate) batch: Option<Batch>,
    /// Every failure with its row, in row order; includes samples that were replaced by a substitute.
    pub(crate) failures: Vec<(usize, Error)>,
    /// Number of rows the batch was planned with.
    pub(crate) rows: usize,
    /// Rows that hold a sample, ascending.
    pub(crate) kept: Vec<usize>,
    /// Rows without a sample.
    pub(crate) lost: usize,
}

#[derive(Debug)]
enum FillingColumn {
    /// Equal rows in one slab.
    Dense { memory: Slab, row_bytes: usize },
    /// Rows of known, unequal lengths in one slab.
    Planned { memory: Slab, offsets: Vec<i64> },
    /// Rows of unknown length, each in memory of its own until sealing.
    Pieces,
}

/// State of one row, written only by the row's worker.
#[derive(Debug, Default)]
pub(crate) struct RowState {
    done: bool,
    failures: Vec<Error>,
    /// One per column, used by `Pieces` columns; none if no column is ragged.
    pieces: Vec<Vec<u8>>,
    shapes: Vec<Shape>,
}

/// Dimensions of one ragged value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) dimensions: u8,
    pub(crate) lengths: [u64; MAX_DIMENSIONS],
}

impl Shape {
    pub(crate) fn new(lengths: &[u64]) -> Self {
        let mut shape = Shape { dimensions: lengths.len() as u8, lengths: [0; MAX_DIMENSIONS] };
        shape.lengths[..lengths.len()].copy_from_slice(lengths);
        shape
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.lengths[..self.dimensions as usize]
    }
}

impl Filling {
    /// Creates an empty batch. `planned` gives, for a ragged column, every row's length if all are known beforehand.
    pub(crate) fn new(
        number: u64,
        samples: Vec<u64>,
        specs: &[ColumnSpec],
        pool: &Pool,
        planned: impl Fn(usize) -> Option<Vec<u64>>,
    ) -> Result<Self> {
        let rows = samples.len();
        let column = |(at, spec): (usize, &ColumnSpec)| match (&spec.layout, planned(at)) {
            (Layout::Dense { .. } | Layout::Views { .. }, _) => {
                let row_bytes = spec.row_bytes();
                let memory = pool.lend(rows.saturating_mul(row_bytes))?;
                Ok(FillingColumn::Dense { memory, row_bytes })
            }
            (Layout::Ragged { .. }, Some(lengths)) => {
                let offsets = running_sum(lengths.iter().copied());
                let total = *offsets.last().expect("there is always a first offset") as usize;
                Ok(FillingColumn::Planned { memory: pool.lend(total)?, offsets })
            }
            (Layout::Ragged { .. }, None) => Ok(FillingColumn::Pieces),
        };
        let columns = specs.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        // Rows of equal length need neither; empty vectors cost nothing.
        let ragged = specs.iter().any(|spec| matches!(spec.layout, Layout::Ragged { .. }));
        let count = if ragged { columns.len() } else { 0 };
        let state = || RowState {
            pieces: vec![Vec::new(); count],
            shapes: vec![Shape::default(); count],
            ..RowState::default()
        };
        let rows = (0..rows).map(|_| UnsafeCell::new(state())).collect();
        Ok(Filling { number, samples, columns, rows, broken: None, sealed: None })
    }

    /// Creates a batch for which there was no memory: nobody fills it, and sealing it gives `error`.
    pub(crate) fn without_memory(number: u64, samples: Vec<u64>, error: Error) -> Self {
        let (columns, rows) = (Vec::new(), Vec::new());
        Filling { number, samples, columns, rows, broken: Some(error), sealed: None }
    }

    /// Whether there was no memory for the batch.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Bytes of the rows of unknown length. For the worker that seals the batch.
    pub(crate) fn loose_bytes(&mut self) -> u64 {
        let pieces = self.rows.iter_mut().flat_map(|row| &row.get_mut().pieces);
        pieces.map(|piece| piece.len() as u64).sum()
    }

    /// Bytes of the rows whose lengths were known beforehand.
    pub(crate) fn planned_bytes(&self) -> u64 {
        let planned = |column: &FillingColumn| match column {
            FillingColumn::Planned { memory, .. } => memory.len() as u64,
            _ => 0,
        };
        self.columns.iter().map(planned).sum()
    }

    /// The claimed rows that exist: the ring counts every batch as full.
    pub(crate) fn rows<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = RowMut<'a>> {
        let last = (claim.row + claim.rows).min(self.rows.len() as u64);
        (claim.row..last).map(|row| {
            // SAFETY: the ring hands out each claim once and lends it to one closure, which asks for its rows once;
            // the iterator gives each row once. The state is not touched otherwise until the last row is finished.
            let state = unsafe { &mut *self.rows[row as usize].get() };
            RowMut { filling: self, row: row as usize, state }
        })
    }

    /// Turns the filled rows into a batch. Called once, by the worker that finished the last row.
    pub(crate) fn seal(&mut self, specs: &[ColumnSpec], pool: &Pool) {
        if let Some(error) = self.broken.take() {
            let rows = self.samples.len();
            self.sealed =
                Some(Sealed { batch: None, failures: vec![(0, error)], rows, kept: Vec::new(), lost: rows });
            return;
        }
        let mut states: Vec<RowState> = self.rows.drain(..).map(UnsafeCell::into_inner).collect();
        let kept: Vec<usize> = (0..states.len()).filter(|row| states[*row].done).collect();
        let failed = |(row, state): (usize, &mut RowState)| {
            std::mem::take(&mut state.failures).into_iter().map(move |error| (row, error))
        };
        let mut failures: Vec<_> = states.iter_mut().enumerate().flat_map(failed).collect();
        let (rows, lost) = (states.len(), states.len() - kept.len());
        let columns = std::mem::take(&mut self.columns);
        let seal = |(at, column)| seal_column(column, at, &specs[at], &kept, &states, pool);
        let mut batch = None;
        if !kept.is_empty() {
            match columns.into_iter().enumerate().map(seal).collect() {
                Ok(columns) => batch = Some(Batch { number: self.number, rows: kept.len(), columns }),
                Err(error) => failures.push((rows - 1, error)),
            }
        }
        self.sealed = Some(Sealed { batch, failures, rows, kept, lost });
    }

    /// Result of sealing. Called once, by the consumer.
    pub(crate) fn into_sealed(mut self) -> Sealed {
        self.sealed.take().expect("a taken batch is sealed")
    }
}

/// One row of a batch, for the worker that claimed it.
#[derive(Debug)]
pub(crate) struct RowMut<'a> {
    filling: &'a Filling,
    row: usize,
    state: &'a mut RowState,
}

/// Destination of a ragged value.
pub(crate) enum Room<'a> {
    /// Exactly the planned number of bytes.
    Planned(&'a mut [u8]),
    /// As many bytes as the value needs.
    Free(&'a mut Vec<u8>),
}

impl RowMut<'_> {
    /// Number of the row's batch.
    pub(crate) fn batch(&self) -> u64 {
        self.filling.number
    }

    /// The sample of this row.
    pub(crate) fn sample(&self) -> u64 {
        self.filling.samples[self.row]
    }

    /// The row's bytes in a dense column.
    pub(crate) fn dense(&mut self, column: usize) -> &mut [u8] {
        let FillingColumn::Dense { memory, row_bytes } = &self.filling.columns[column] else {
            unreachable!("the plan says which columns are dense")
        };
        let start = self.row * row_bytes;
        // SAFETY: rows do not overlap, this row is ours alone, and `&mut self` excludes a second reference to it.
        unsafe { memory.part_mut(start..start + row_bytes) }
    }

    /// Destination of the row's value in a ragged column, and of its shape.
    pub(crate) fn ragged(&mut self, column: usize) -> (Room<'_>, &mut Shape) {
        let room = match &self.filling.columns[column] {
            FillingColumn::Planned { memory, offsets } => {
                let range = offset_range(offsets, self.row);
                // SAFETY: as for dense rows: offsets ascend, so ranges do not overlap.
                Room::Planned(unsafe { memory.part_mut(range) })
            }
            FillingColumn::Pieces => Room::Free(&mut self.state.pieces[column]),
            FillingColumn::Dense { .. } => unreachable!("the plan says which columns are ragged"),
        };
        (room, &mut self.state.shapes[column])
    }

    /// Whether the row's value in a ragged column was planned with this length.
    pub(crate) fn is_planned(&self, column: usize, length: usize) -> bool {
        matches!(&self.filling.columns[column], FillingColumn::Planned { offsets, .. }
            if offset_range(offsets, self.row).len() == length)
    }

    /// Destination of a value of this length. One that is not as long as planned (a substitute, an image that is not
    /// what its store says) gets memory of its own.
    pub(crate) fn ragged_of(&mut self, column: usize, length: usize) -> (Room<'_>, &mut Shape) {
        let loose = matches!(self.filling.columns[column], FillingColumn::Planned { .. })
            && !self.is_planned(column, length);
        if loose {
            return (Room::Free(&mut self.state.pieces[column]), &mut self.state.shapes[column]);
        }
        if self.is_planned(column, length) {
            // An earlier try may have left one.
            self.state.pieces[column] = Vec::new();
        }
        self.ragged(column)
    }

    /// Notes that a sample failed. The row stays empty unless a later try succeeds.
    pub(crate) fn failed(&mut self, error: Error) {
        self.state.failures.push(error);
    }

    /// Notes that the row is complete.
    pub(crate) fn done(&mut self) {
        self.state.done = true;
    }

    /// Whether the row is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.state.done
    }

    /// Notes that a complete row has become unusable.
    pub(crate) fn invalidate(&mut self, error: Error) {
        self.state.done = false;
        self.state.failures.push(error);
    }
}

fn running_sum(lengths: impl Iterator<Item = u64>) -> Vec<i64> {
    let mut sum = 0i64;
    std::iter::once(0)
        .chain(lengths.map(|length| {
            sum = sum.saturating_add_unsigned(length);
            sum
        }))
        .collect()
}

fn offset_range(offsets: &[i64], row: usize) -> Range<usize> {
    offsets[row] as usize..offsets[row + 1] as usize
}

fn seal_column(
    column: FillingColumn,
    at: usize,
    spec: &ColumnSpec,
    kept: &[usize],
    states: &[RowState],
    pool: &Pool,
) -> Result<Column> {
    let all = kept.len() == states.len();
    Ok(match column {
        FillingColumn::Dense { mut memory, row_bytes } => {
            if !all {
                close_gaps(memory.bytes_mut(), kept.iter().map(|row| row * row_bytes..(row + 1) * row_bytes));
            }
            Column::dense(spec, memory, kept.len())
        }
        FillingColumn::Planned { memory, offsets }
            if kept.iter().any(|row| !states[*row].pieces[at].is_empty()) =>
        {
            let planned = |row: usize| &memory.bytes()[offset_range(&offsets, row)];
            let own = |row: &usize| match &states[*row].pieces[at] {
                piece if piece.is_empty() => planned(*row),
                piece => &piece[..],
            };
            let (memory, offsets) = joined(|| kept.iter().map(own), pool)?;
            Column::ragged(spec, memory, offsets, shapes(at, spec, kept, states))
        }
        FillingColumn::Planned { mut memory, offsets } => {
            let ranges = || kept.iter().map(|row| offset_range(&offsets, *row));
            if !all {
                close_gaps(memory.bytes_mut(), ranges());
            }
            let offsets = running_sum(ranges().map(|r| r.len() as u64));
            Column::ragged(spec, memory, offsets, shapes(at, spec, kept, states))
        }
        FillingColumn::Pieces => {
            let (memory, offsets) = joined(|| kept.iter().map(|row| &states[*row].pieces[at][..]), pool)?;
            Column::ragged(spec, memory, offsets, shapes(at, spec, kept, states))
        }
    })
}

/// Copies values one after the other into one slab; returns it with their offsets.
fn joined<'a, I: Iterator<Item = &'a [u8]>>(values: impl Fn() -> I, pool: &Pool) -> Result<(Slab, Vec<i64>)> {
    let offsets = running_sum(values().map(|value| value.len() as u64));
    let mut memory = pool.lend(*offsets.last().expect("there is always a first offset") as usize)?;
    let mut rest = memory.bytes_mut();
    for value in values() {
        let (room, after) = rest.split_at_mut(value.len());
        room.copy_from_slice(value);
        rest = after;
    }
    Ok((memory, offsets))
}

/// Moves the kept ranges together, in place. They ascend, so no range is overwritten before it is moved.
fn close_gaps(bytes: &mut [u8], kept: impl Iterator<Item = Range<usize>>) {
    let mut end = 0;
    for range in kept {
        let length = range.len();
        bytes.copy_within(range, end);
        end += length;
    }
}

fn shapes(at: usize, spec: &ColumnSpec, kept: &[usize], states: &[RowState]) -> Option<Arc<[Shape]>> {
    let Layout::Ragged { shaped: true } = spec.layout else { return None };
    Some(kept.iter().map(|row| states[*row].shapes[at]).collect())
}
