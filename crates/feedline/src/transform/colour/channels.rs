//! `RandomChannelPermutation`.

use feedline_pixels::{RowOp, Size};
use serde::{Deserialize, Serialize};

use super::jitter::permutation;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::Op;
use crate::transform::params::{Params, Place};

/// Channels in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomChannelPermutation {}

impl Op for RandomChannelPermutation {
    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        into.push(PermuteChannels { order: permutation::<3>(&mut place.draw()) });
        Ok(())
    }
}

/// Channel `i` of the result is channel `order[i]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermuteChannels {
    pub(super) order: [u8; 3],
}

impl Act for PermuteChannels {
    fn check(&self, _before: Size) -> Result<(), String> {
        let mut sorted = self.order;
        sorted.sort_unstable();
        if sorted == [0, 1, 2] { Ok(()) } else { Err(format!("{:?} is not an order of 0, 1, 2", self.order)) }
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.row(RowOp::Permute(self.order));
    }
}
