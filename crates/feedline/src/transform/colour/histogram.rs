//! `RandomEqualize`, `RandomAutocontrast`.

use feedline_pixels::{Effect, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::Like;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, half};
use crate::transform::params::{Params, Place};

/// Equalises the histogram of each channel, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomEqualize {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomEqualize {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Equalize {});
        }
        Ok(())
    }
}

/// Stretches each channel from black to white, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAutocontrast {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

impl Op for RandomAutocontrast {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Autocontrast { like: Like::Pil });
        }
        Ok(())
    }
}

/// Equalises the histogram of each channel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Equalize {}

impl Act for Equalize {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.whole(WholeOp::Equalize);
    }
}

/// Stretches each channel from black to white.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Autocontrast {
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub(in crate::transform) like: Like,
}

impl Act for Autocontrast {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.whole(match self.like {
            Like::Pil => WholeOp::Autocontrast,
            Like::Tensor => WholeOp::Effect(Box::new(Effect::TensorAutocontrast)),
        });
    }
}
