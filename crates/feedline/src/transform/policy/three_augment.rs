//! `ThreeAugment`: grey, solarised or blurred, then colour jitter.

use serde::{Deserialize, Serialize};

use crate::transform::Like;
use crate::transform::colour::{ColorJitter, Gray, Solarize};
use crate::transform::op::{Op, check_range};
use crate::transform::params::{Params, Place, tidy};
use crate::transform::pixel::BoxBlur;

/// Applies one of grey, solarise and blur (as in DeiT III), then changes brightness, contrast and saturation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreeAugment {
    /// Range of brightness, contrast and saturation; 0 for none.
    #[serde(default = "default_jitter")]
    pub color_jitter: f64,
}

fn default_jitter() -> f64 {
    0.3
}

impl Op for ThreeAugment {
    fn check(&self) -> Result<(), String> {
        check_range("color_jitter", (self.color_jitter, self.color_jitter), (0.0, 1e3))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        match draw.below(3) {
            0 => into.push(Gray { like: Like::Pil }),
            1 => into.push(Solarize { threshold: 128.0 }),
            _ => into.push(BoxBlur { radius: tidy(draw.between(0.1, 2.0)) }),
        }
        if self.color_jitter > 0.0 {
            let range = Some(((1.0 - self.color_jitter).max(0.0), 1.0 + self.color_jitter));
            let jitter = ColorJitter {
                brightness: range,
                contrast: range,
                saturation: range,
                ..ColorJitter::default()
            };
            jitter.draw(&place.inside(0), into)?;
        }
        Ok(())
    }

    fn depth(&self) -> usize {
        1
    }
}
