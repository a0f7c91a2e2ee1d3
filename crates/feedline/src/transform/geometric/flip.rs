//! `RandomHorizontalFlip`, `RandomVerticalFlip`.

use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, half};
use crate::transform::params::{Params, Place};

/// Mirrors left and right with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomHorizontalFlip {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomHorizontalFlip {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(HorizontalFlip {});
        }
        Ok(())
    }
}

/// Mirrors top and bottom with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomVerticalFlip {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomVerticalFlip {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(VerticalFlip {});
        }
        Ok(())
    }
}

/// Left becomes right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HorizontalFlip {}

impl Act for HorizontalFlip {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.flip_horizontal();
    }
}

/// Top becomes bottom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerticalFlip {}

impl Act for VerticalFlip {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.flip_vertical();
    }
}
