//! `RandomPatchShuffle`.

use feedline_pixels::{Effect, Patches, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, half};
use crate::transform::params::{Params, Place};

/// Puts square patches in random order, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPatchShuffle {
    /// Sides of patches to choose from.
    pub sizes: Vec<u32>,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomPatchShuffle {
    fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes.iter().any(|side| !(1..=1 << 16).contains(side)) {
            return Err("sizes must be at least one length, each from 1 to 65536".to_owned());
        }
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if !draw.chance(self.p) {
            return Ok(());
        }
        let side = self.sizes[draw.below(self.sizes.len() as u64) as usize];
        let mut order: Vec<u32> = (0..pieces(into.size(), side)).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, draw.below(last as u64 + 1) as usize);
        }
        into.push(ShufflePatches { side, order });
        Ok(())
    }
}

fn pieces(size: Size, side: u32) -> u32 {
    (size.width / side).saturating_mul(size.height / side)
}

/// Patch `i`, row by row, is patch `order[i]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShufflePatches {
    side: u32,
    order: Vec<u32>,
}

impl Act for ShufflePatches {
    fn check(&self, before: Size) -> Result<(), String> {
        let count = if self.side == 0 { 0 } else { pieces(before, self.side) };
        let inside = self.order.iter().all(|piece| *piece < count);
        if self.side > 0 && self.order.len() as u64 == u64::from(count) && inside {
            return Ok(());
        }
        Err(format!("{} patches of side {} do not fit this image", self.order.len(), self.side))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let patches = Patches { side: self.side, order: self.order.clone() };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Patches(patches))), fusion.size());
    }
}
