//! `RandomAdjustSharpness`.

use feedline_pixels::{Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};

/// Sharpens (above 1) or smooths (below), with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAdjustSharpness {
    /// 0 is smooth, 1 unchanged, 2 sharp.
    pub sharpness_factor: f64,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomAdjustSharpness {
    fn check(&self) -> Result<(), String> {
        check_range("sharpness_factor", (self.sharpness_factor, self.sharpness_factor), (0.0, 1e6))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Sharpness { factor: self.sharpness_factor as f32 });
        }
        Ok(())
    }
}

/// Blends with a smoothed copy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sharpness {
    pub(in crate::transform) factor: f32,
}

impl Act for Sharpness {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("factor", (f64::from(self.factor), f64::from(self.factor)), (0.0, 1e6))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // A factor of one gives every pixel back.
        if self.factor != 1.0 {
            fusion.whole(WholeOp::Sharpness(self.factor));
        }
    }
}
