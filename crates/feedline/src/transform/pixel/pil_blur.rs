//! `PILGaussianBlur`: Pillow's approximation by three box blurs.

use feedline_pixels::{Effect, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range};
use crate::transform::params::{Params, Place, tidy};

const RADII: (f64, f64) = (0.0, 1e3);

/// `PIL.ImageFilter.GaussianBlur` with a random radius, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PILGaussianBlur {
    /// Smallest and largest radius.
    #[serde(default = "default_radius")]
    pub radius: (f64, f64),
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

fn default_radius() -> (f64, f64) {
    (0.1, 2.0)
}

fn always() -> f64 {
    1.0
}

impl Op for PILGaussianBlur {
    fn check(&self) -> Result<(), String> {
        check_range("radius", self.radius, RADII)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            into.push(BoxBlur { radius: tidy(draw.between(self.radius.0, self.radius.1)) });
        }
        Ok(())
    }
}

/// Three box blurs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoxBlur {
    pub(in crate::transform) radius: f64,
}

impl Act for BoxBlur {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("radius", (self.radius, self.radius), RADII)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.whole(WholeOp::Effect(Box::new(Effect::BoxBlur(self.radius as f32))));
    }
}
