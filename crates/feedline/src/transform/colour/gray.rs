//! `Grayscale`, `RandomGrayscale`.

use feedline_pixels::{Channels, Point, RowOp};
use serde::{Deserialize, Serialize};

use crate::transform::Like;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_p};
use crate::transform::params::{Params, Place};

fn one() -> u32 {
    1
}

fn tenth() -> f64 {
    0.1
}

/// Grey in one or three channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grayscale {
    /// 1 or 3.
    #[serde(default = "one")]
    pub num_output_channels: u32,
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for Grayscale {
    fn check(&self) -> Result<(), String> {
        match self.num_output_channels {
            1 | 3 => Ok(()),
            other => Err(format!("num_output_channels must be 1 or 3, not {other}")),
        }
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let channels = if self.num_output_channels == 1 { Channels::Grey } else { Channels::Rgb };
        Ok(Form { channels, ..before })
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        into.push(Gray { like: self.like });
        Ok(())
    }
}

/// Grey in as many channels as there are, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomGrayscale {
    /// Probability.
    #[serde(default = "tenth")]
    pub p: f64,
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for RandomGrayscale {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if place.draw().chance(self.p) {
            into.push(Gray { like: self.like });
        }
        Ok(())
    }
}

/// Sets all channels to the luma.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gray {
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub(in crate::transform) like: Like,
}

impl Act for Gray {
    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.row(match self.like {
            Like::Pil => RowOp::Grey,
            Like::Tensor => RowOp::Point(Point::TensorGrey),
        });
    }
}
