//! The objects of a row: boxes, values per box, stacks of masks, points. Read from the row, changed, written back.

use feedline_pixels::Size;

use crate::batch::{Room, RowMut, Shape};
use crate::loader::plan::ImageViews;
use crate::loader::targets::{TargetKind, TargetPlan};
use crate::transform::{Boxes, read_boxes, write_box};

/// One ragged column of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) bytes: Vec<u8>,
    pub(super) shape: Vec<u64>,
}

impl Values {
    /// Takes the row's value of this column.
    pub(super) fn of(row: &mut RowMut<'_>, column: usize) -> Self {
        let (room, shape) = row.ragged(column);
        let Room::Free(bytes) = room else { return Values::default() };
        Values { bytes: bytes.clone(), shape: shape.as_slice().to_vec() }
    }

    pub(super) fn put(&self, row: &mut RowMut<'_>, column: usize) {
        let (room, shape) = row.ragged(column);
        if let Room::Free(bytes) = room {
            bytes.clear();
            bytes.extend_from_slice(&self.bytes);
            *shape = Shape::new(&self.shape);
        }
    }

    /// Number of values along the first dimension.
    pub(super) fn count(&self) -> usize {
        if self.bytes.is_empty() { 0 } else { self.shape.first().copied().unwrap_or(0) as usize }
    }

    /// Bytes of one value.
    pub(super) fn each(&self) -> usize {
        self.bytes.len() / self.count().max(1)
    }

    /// Bytes of value number `at`.
    pub(super) fn one(&self, at: usize) -> &[u8] {
        let each = self.each();
        &self.bytes[at * each..(at + 1) * each]
    }

    /// An empty value with the same shape.
    pub(super) fn none(&self) -> Self {
        let mut shape = self.shape.clone();
        if let Some(first) = shape.first_mut() {
            *first = 0;
        }
        Values { bytes: Vec::new(), shape }
    }

    /// Adds one value; the first one determines the shape.
    pub(super) fn push(&mut self, one: &[u8], like: &Values) {
        if self.bytes.is_empty() {
            self.shape.clone_from(&like.shape);
            if let Some(first) = self.shape.first_mut() {
                *first = 0;
            }
        }
        self.bytes.extend_from_slice(one);
        if let Some(first) = self.shape.first_mut() {
            *first += 1;
        }
    }
}

/// Corners of a box in a row.
pub(super) fn box_at(values: &Values, at: usize, rules: &Boxes, size: Size) -> [f64; 4] {
    let numbers = values.one(at).as_chunks::<4>().0;
    let number = |at: usize| numbers.get(at).map_or(0.0, |number| f64::from(f32::from_le_bytes(*number)));
    read_boxes(rules, [number(0), number(1), number(2), number(3)], size)
}

/// A box as a row's bytes.
pub(super) fn box_bytes(corners: [f64; 4], rules: &Boxes, size: Size) -> Vec<u8> {
    write_box(rules, corners, size).iter().flat_map(|number| (*number as f32).to_le_bytes()).collect()
}

/// The targets of one view that are ragged.
pub(super) fn ragged_targets(views: &ImageViews, view: usize) -> impl Iterator<Item = &TargetPlan> {
    views.targets.iter().filter(move |target| {
        target.view == view && !matches!(target.kind, TargetKind::Mask { stack: false, .. })
    })
}
