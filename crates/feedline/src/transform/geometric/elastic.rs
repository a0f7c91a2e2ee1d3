//! `ElasticTransform`.

use serde::{Deserialize, Serialize};

use super::sampled::{PadMode, Sampled, SourcePixels, check_elastic};
use super::warp::check_tensor_interpolation;
use crate::transform::Interpolation;
use crate::transform::op::Op;
use crate::transform::params::{Params, Place};

/// Displaces pixels by a smooth random field, as seen through water.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ElasticTransform {
    /// Strength along x and y.
    #[serde(default = "fifty")]
    pub alpha: (f64, f64),
    /// Smoothness along x and y.
    #[serde(default = "five")]
    pub sigma: (f64, f64),
    /// Nearest or bilinear.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
}

fn fifty() -> (f64, f64) {
    (50.0, 50.0)
}

fn five() -> (f64, f64) {
    (5.0, 5.0)
}

impl Op for ElasticTransform {
    fn check(&self) -> Result<(), String> {
        check_elastic(self.alpha, self.sigma)?;
        check_tensor_interpolation(self.interpolation)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let size = into.size();
        let pair = |(x, y): (f64, f64)| (x as f32, y as f32);
        let whence = SourcePixels::Elastic {
            alpha: pair(self.alpha),
            sigma: pair(self.sigma),
            seed: place.draw().bits(),
        };
        into.push(Sampled {
            whence,
            height: size.height,
            width: size.width,
            interpolation: self.interpolation,
            outside: PadMode::Zeros,
            fill: self.fill,
        });
        Ok(())
    }
}
