//! `OpticalDistortion`: a fixed lens.

use serde::{Deserialize, Serialize};

use super::sampled::{PadMode, Sampled, SourcePixels};
use crate::transform::Interpolation;
use crate::transform::op::{Op, check_p, check_range};
use crate::transform::params::{Params, Place, tidy};

fn always() -> f64 {
    1.0
}

/// A lens that bulges or pinches: `r (1 + k r² + k r⁴)` from the centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpticalDistortion {
    /// Smallest and largest k.
    pub distortion: (f64, f64),
    /// Shift of the centre to the right and down, in pixels.
    #[serde(default)]
    pub shift: (f64, f64),
    /// Content outside the image.
    #[serde(default)]
    pub pad_mode: PadMode,
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

impl Op for OpticalDistortion {
    fn check(&self) -> Result<(), String> {
        check_range("distortion", self.distortion, (-10.0, 10.0))?;
        for shift in [self.shift.0, self.shift.1] {
            check_range("shift", (shift, shift), (-1e6, 1e6))?;
        }
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if !draw.chance(self.p) {
            return Ok(());
        }
        let size = into.size();
        let distortion = tidy(draw.between(self.distortion.0, self.distortion.1));
        into.push(Sampled {
            whence: SourcePixels::Lens { distortion, shift: (tidy(self.shift.0), tidy(self.shift.1)) },
            height: size.height,
            width: size.width,
            interpolation: Interpolation::Bilinear,
            outside: self.pad_mode,
            fill: [0; 3],
        });
        Ok(())
    }
}
