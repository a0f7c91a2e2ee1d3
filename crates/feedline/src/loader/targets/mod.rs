//! Fields that move with an image: their columns, and how each row is filled.

mod columns;
mod masks;
mod numbers;
mod rows;

use crate::sample::DType;
use crate::transform::Boxes;

pub(super) use columns::following;
pub(super) use rows::{TargetRunner, TargetWork};

/// One target of one view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetPlan {
    pub(super) field: usize,
    /// Index of the image's view.
    pub(super) view: usize,
    pub(super) column: usize,
    pub(super) kind: TargetKind,
    /// The column of the boxes that it has one value for each of: it drops those of dropped boxes.
    pub(super) follows: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TargetKind {
    Mask {
        fill: i64,
        dtype: DType,
        stack: bool,
    },
    Boxes(Boxes),
    Keypoints,
    /// A value per box that does not move.
    PerBox(DType),
}
