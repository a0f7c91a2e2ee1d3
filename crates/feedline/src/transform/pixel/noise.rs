//! `GaussianNoise`, `SaltAndPepper`.

use feedline_pixels::{Effect, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place, tidy};

/// Adds normal noise to every value, in units where white is 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianNoise {
    /// Mean of the noise.
    #[serde(default)]
    pub mean: f64,
    /// Smallest and largest standard deviation.
    #[serde(default = "default_sigma")]
    pub sigma: (f64, f64),
    /// Whether to clamp results; otherwise they wrap around, as torchvision's bytes do.
    #[serde(default = "yes")]
    pub clip: bool,
    /// Probability.
    #[serde(default = "always")]
    pub p: f64,
}

fn default_sigma() -> (f64, f64) {
    (0.1, 0.1)
}

fn yes() -> bool {
    true
}

fn always() -> f64 {
    1.0
}

impl Op for GaussianNoise {
    fn check(&self) -> Result<(), String> {
        check_range("mean", (self.mean, self.mean), (-100.0, 100.0))?;
        check_range("sigma", self.sigma, (0.0, 100.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let sigma = tidy(draw.between(self.sigma.0, self.sigma.1));
            into.push(AddNoise { mean: tidy(self.mean), sigma, clip: self.clip, seed: draw.bits() });
        }
        Ok(())
    }
}

/// Makes some pixels black or white, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaltAndPepper {
    /// Smallest and largest share of pixels.
    #[serde(default = "default_amount")]
    pub amount: (f64, f64),
    /// Smallest and largest share of white among the changed pixels.
    #[serde(default = "default_salt")]
    pub salt_vs_pepper: (f64, f64),
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_amount() -> (f64, f64) {
    (0.01, 0.06)
}

fn default_salt() -> (f64, f64) {
    (0.4, 0.6)
}

impl Op for SaltAndPepper {
    fn check(&self) -> Result<(), String> {
        check_range("amount", self.amount, (0.0, 1.0))?;
        check_range("salt_vs_pepper", self.salt_vs_pepper, (0.0, 1.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let amount = tidy(draw.between(self.amount.0, self.amount.1));
            let salt = tidy(draw.between(self.salt_vs_pepper.0, self.salt_vs_pepper.1));
            into.push(Sprinkle { amount, salt, seed: draw.bits() });
        }
        Ok(())
    }
}

/// Noise from this seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddNoise {
    mean: f64,
    sigma: f64,
    clip: bool,
    seed: u64,
}

impl Act for AddNoise {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("mean", (self.mean, self.mean), (-100.0, 100.0))?;
        check_range("sigma", (self.sigma, self.sigma), (0.0, 100.0))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let (mean, sigma) = ((self.mean * 255.0) as f32, (self.sigma * 255.0) as f32);
        let noise = feedline_pixels::GaussianNoise { seed: self.seed, mean, sigma, clip: self.clip };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::GaussianNoise(noise))), fusion.size());
    }
}

/// Black and white pixels from this seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sprinkle {
    amount: f64,
    salt: f64,
    seed: u64,
}

impl Act for Sprinkle {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("amount", (self.amount, self.amount), (0.0, 1.0))?;
        check_range("salt", (self.salt, self.salt), (0.0, 1.0))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let (amount, salt) = (self.amount as f32, self.salt as f32);
        let noise = feedline_pixels::SaltAndPepper { seed: self.seed, amount, salt };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::SaltAndPepper(noise))), fusion.size());
    }
}
