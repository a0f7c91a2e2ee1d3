//! `AutoAugment`, `RandAugment`, `TrivialAugmentWide`, as in torchvision.

use serde::{Deserialize, Serialize};

use super::space::{Choice, RANDOM, Space, WarpSettings};
use super::timm::Timm;
use crate::transform::op::{Op, check_range};
use crate::transform::params::{Params, Place};
use crate::transform::{Interpolation, Like};

use Choice as C;

/// One operation of a learned pair: its name, its probability, and one of ten levels.
type Learned = (Choice, f64, u32);

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

fn bins() -> u32 {
    31
}

pub(super) fn check_look(interpolation: Interpolation) -> Result<(), String> {
    match interpolation {
        Interpolation::Nearest | Interpolation::Bilinear => Ok(()),
        other => Err(format!("interpolation must be nearest or bilinear here, not {other:?}").to_lowercase()),
    }
}

fn check_bins(bins: u32) -> Result<(), String> {
    if (2..=1000).contains(&bins) {
        return Ok(());
    }
    Err(format!("num_magnitude_bins must be between 2 and 1000, not {bins}"))
}

/// The data that the pairs were learned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AutoAugmentPolicy {
    /// ImageNet.
    #[default]
    ImageNet,
    /// CIFAR-10.
    Cifar10,
    /// Street View House Numbers.
    Svhn,
}

impl AutoAugmentPolicy {
    fn pairs(self) -> &'static [[Learned; 2]; 25] {
        match self {
            AutoAugmentPolicy::ImageNet => &IMAGENET,
            AutoAugmentPolicy::Cifar10 => &CIFAR10,
            AutoAugmentPolicy::Svhn => &SVHN,
        }
    }
}

/// Applies one of 25 learned pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoAugment {
    /// The data that the pairs were learned on.
    #[serde(default)]
    pub policy: AutoAugmentPolicy,
    /// Nearest or bilinear.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Op for AutoAugment {
    fn check(&self) -> Result<(), String> {
        check_look(self.interpolation)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let pairs = self.policy.pairs();
        let look = WarpSettings { interpolation: self.interpolation, fill: self.fill, like: Like::Pil };
        for (choice, probability, bin) in pairs[draw.below(pairs.len() as u64) as usize] {
            if draw.unit() <= probability {
                Space::usual(10).push(choice, bin, look, &mut draw, into);
            }
        }
        Ok(())
    }
}

/// Whose RandAugment to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// torchvision's.
    #[default]
    Torchvision,
    /// timm's.
    Timm,
}

/// Applies `num_ops` random operations of one strength.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandAugment {
    /// Number of operations.
    #[serde(default = "two")]
    pub num_ops: u32,
    /// Level, from 0; timm's is in tenths.
    #[serde(default = "nine")]
    pub magnitude: u32,
    /// Number of levels.
    #[serde(default = "bins")]
    pub num_magnitude_bins: u32,
    /// Nearest or bilinear.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Whose version to use.
    #[serde(default)]
    pub like: Dialect,
    /// timm: probability of each operation.
    #[serde(default = "half")]
    pub p: f64,
    /// timm: standard deviation of the magnitude; above 100 it is uniform from 0.
    #[serde(default)]
    pub magnitude_std: f64,
    /// timm: largest magnitude.
    #[serde(default = "ten")]
    pub magnitude_max: f64,
    /// timm: whether larger magnitudes always change more.
    #[serde(default)]
    pub increasing: bool,
}

fn half() -> f64 {
    0.5
}

fn ten() -> f64 {
    10.0
}

impl Default for RandAugment {
    fn default() -> Self {
        RandAugment {
            num_ops: two(),
            magnitude: nine(),
            num_magnitude_bins: bins(),
            interpolation: nearest(),
            fill: [0; 3],
            like: Dialect::Torchvision,
            p: 0.5,
            magnitude_std: 0.0,
            magnitude_max: 10.0,
            increasing: false,
        }
    }
}

fn two() -> u32 {
    2
}

fn nine() -> u32 {
    9
}

impl Op for RandAugment {
    fn check(&self) -> Result<(), String> {
        if self.like == Dialect::Timm {
            return self.check_timm();
        }
        check_bins(self.num_magnitude_bins)?;
        if self.magnitude >= self.num_magnitude_bins {
            return Err(format!(
                "magnitude must be below num_magnitude_bins ({}), not {}",
                self.num_magnitude_bins, self.magnitude
            ));
        }
        if self.num_ops > 100 {
            return Err(format!("num_ops must be at most 100, not {}", self.num_ops));
        }
        check_look(self.interpolation)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if self.like == Dialect::Timm {
            let timm = self.timm();
            (0..self.num_ops).for_each(|_| timm.push(&mut draw, into));
            return Ok(());
        }
        let space = Space::usual(self.num_magnitude_bins);
        let look = WarpSettings { interpolation: self.interpolation, fill: self.fill, like: Like::Pil };
        for _ in 0..self.num_ops {
            let choice = RANDOM[draw.below(RANDOM.len() as u64) as usize];
            space.push(choice, self.magnitude, look, &mut draw, into);
        }
        Ok(())
    }
}

impl RandAugment {
    fn check_timm(&self) -> Result<(), String> {
        if self.num_ops > 100 {
            return Err(format!("num_ops must be at most 100, not {}", self.num_ops));
        }
        check_range("p", (self.p, self.p), (0.0, 1.0))?;
        check_range("magnitude_std", (self.magnitude_std, self.magnitude_std), (0.0, 1e9))?;
        check_range("magnitude_max", (self.magnitude_max, self.magnitude_max), (0.0, 100.0))
    }

    fn timm(&self) -> Timm {
        Timm {
            magnitude: f64::from(self.magnitude),
            deviation: if self.magnitude_std > 100.0 { f64::INFINITY } else { self.magnitude_std },
            most: self.magnitude_max,
            p: self.p,
            increasing: self.increasing,
            fill: self.fill,
        }
    }
}

/// Applies one random operation of random strength.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrivialAugmentWide {
    /// Number of levels.
    #[serde(default = "bins")]
    pub num_magnitude_bins: u32,
    /// Nearest or bilinear.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Op for TrivialAugmentWide {
    fn check(&self) -> Result<(), String> {
        check_bins(self.num_magnitude_bins)?;
        check_look(self.interpolation)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let choice = RANDOM[draw.below(RANDOM.len() as u64) as usize];
        let bin = draw.below(u64::from(self.num_magnitude_bins)) as u32;
        let look = WarpSettings { interpolation: self.interpolation, fill: self.fill, like: Like::Pil };
        Space::wide(self.num_magnitude_bins).push(choice, bin, look, &mut draw, into);
        Ok(())
    }
}

#[rustfmt::skip]
static IMAGENET: [[Learned; 2]; 25] = [
    [(C::Posterize, 0.4, 8), (C::Rotate, 0.6, 9)],
    [(C::Solarize, 0.6, 5), (C::AutoContrast, 0.6, 0)],
    [(C::Equalize, 0.8, 0), (C::Equalize, 0.6, 0)],
    [(C::Posterize, 0.6, 7), (C::Posterize, 0.6, 6)],
    [(C::Equalize, 0.4, 0), (C::Solarize, 0.2, 4)],
    [(C::Equalize, 0.4, 0), (C::Rotate, 0.8, 8)],
    [(C::Solarize, 0.6, 3), (C::Equalize, 0.6, 0)],
    [(C::Posterize, 0.8, 5), (C::Equalize, 1.0, 0)],
    [(C::Rotate, 0.2, 3), (C::Solarize, 0.6, 8)],
    [(C::Equalize, 0.6, 0), (C::Posterize, 0.4, 6)],
    [(C::Rotate, 0.8, 8), (C::Color, 0.4, 0)],
    [(C::Rotate, 0.4, 9), (C::Equalize, 0.6, 0)],
    [(C::Equalize, 0.0, 0), (C::Equalize, 0.8, 0)],
    [(C::Invert, 0.6, 0), (C::Equalize, 1.0, 0)],
    [(C::Color, 0.6, 4), (C::Contrast, 1.0, 8)],
    [(C::Rotate, 0.8, 8), (C::Color, 1.0, 2)],
    [(C::Color, 0.8, 8), (C::Solarize, 0.8, 7)],
    [(C::Sharpness, 0.4, 7), (C::Invert, 0.6, 0)],
    [(C::ShearX, 0.6, 5), (C::Equalize, 1.0, 0)],
    [(C::Color, 0.4, 0), (C::Equalize, 0.6, 0)],
    [(C::Equalize, 0.4, 0), (C::Solarize, 0.2, 4)],
    [(C::Solarize, 0.6, 5), (C::AutoContrast, 0.6, 0)],
    [(C::Invert, 0.6, 0), (C::Equalize, 1.0, 0)],
    [(C::Color, 0.6, 4), (C::Contrast, 1.0, 8)],
    [(C::Equalize, 0.8, 0), (C::Equalize, 0.6, 0)],
];

#[rustfmt::skip]
static CIFAR10: [[Learned; 2]; 25] = [
    [(C::Invert, 0.1, 0), (C::Contrast, 0.2, 6)],
    [(C::Rotate, 0.7, 2), (C::TranslateX, 0.3, 9)],
    [(C::Sharpness, 0.8, 1), (C::Sharpness, 0.9, 3)],
    [(C::ShearY, 0.5, 8), (C::TranslateY, 0.7, 9)],
    [(C::AutoContrast, 0.5, 0), (C::Equalize, 0.9, 0)],
    [(C::ShearY, 0.2, 7), (C::Posterize, 0.3, 7)],
    [(C::Color, 0.4, 3), (C::Brightness, 0.6, 7)],
    [(C::Sharpness, 0.3, 9), (C::Brightness, 0.7, 9)],
    [(C::Equalize, 0.6, 0), (C::Equalize, 0.5, 0)],
    [(C::Contrast, 0.6, 7), (C::Sharpness, 0.6, 5)],
    [(C::Color, 0.7, 7), (C::TranslateX, 0.5, 8)],
    [(C::Equalize, 0.3, 0), (C::AutoContrast, 0.4, 0)],
    [(C::TranslateY, 0.4, 3), (C::Sharpness, 0.2, 6)],
    [(C::Brightness, 0.9, 6), (C::Color, 0.2, 8)],
    [(C::Solarize, 0.5, 2), (C::Invert, 0.0, 0)],
    [(C::Equalize, 0.2, 0), (C::AutoContrast, 0.6, 0)],
    [(C::Equalize, 0.2, 0), (C::Equalize, 0.6, 0)],
    [(C::Color, 0.9, 9), (C::Equalize, 0.6, 0)],
    [(C::AutoContrast, 0.8, 0), (C::Solarize, 0.2, 8)],
    [(C::Brightness, 0.1, 3), (C::Color, 0.7, 0)],
    [(C::Solarize, 0.4, 5), (C::AutoContrast, 0.9, 0)],
    [(C::TranslateY, 0.9, 9), (C::TranslateY, 0.7, 9)],
    [(C::AutoContrast, 0.9, 0), (C::Solarize, 0.8, 3)],
    [(C::Equalize, 0.8, 0), (C::Invert, 0.1, 0)],
    [(C::TranslateY, 0.7, 9), (C::AutoContrast, 0.9, 0)],
];

#[rustfmt::skip]
static SVHN: [[Learned; 2]; 25] = [
    [(C::ShearX, 0.9, 4), (C::Invert, 0.2, 0)],
    [(C::ShearY, 0.9, 8), (C::Invert, 0.7, 0)],
    [(C::Equalize, 0.6, 0), (C::Solarize, 0.6, 6)],
    [(C::Invert, 0.9, 0), (C::Equalize, 0.6, 0)],
    [(C::Equalize, 0.6, 0), (C::Rotate, 0.9, 3)],
    [(C::ShearX, 0.9, 4), (C::AutoContrast, 0.8, 0)],
    [(C::ShearY, 0.9, 8), (C::Invert, 0.4, 0)],
    [(C::ShearY, 0.9, 5), (C::Solarize, 0.2, 6)],
    [(C::Invert, 0.9, 0), (C::AutoContrast, 0.8, 0)],
    [(C::Equalize, 0.6, 0), (C::Rotate, 0.9, 3)],
    [(C::ShearX, 0.9, 4), (C::Solarize, 0.3, 3)],
    [(C::ShearY, 0.8, 8), (C::Invert, 0.7, 0)],
    [(C::Equalize, 0.9, 0), (C::TranslateY, 0.6, 6)],
    [(C::Invert, 0.9, 0), (C::Equalize, 0.6, 0)],
    [(C::Contrast, 0.3, 3), (C::Rotate, 0.8, 4)],
    [(C::Invert, 0.8, 0), (C::TranslateY, 0.0, 2)],
    [(C::ShearY, 0.7, 6), (C::Solarize, 0.4, 8)],
    [(C::Invert, 0.6, 0), (C::Rotate, 0.8, 4)],
    [(C::ShearY, 0.3, 7), (C::TranslateX, 0.9, 3)],
    [(C::ShearX, 0.1, 6), (C::Invert, 0.6, 0)],
    [(C::Solarize, 0.7, 2), (C::TranslateY, 0.6, 7)],
    [(C::ShearY, 0.8, 4), (C::Invert, 0.8, 0)],
    [(C::ShearX, 0.7, 9), (C::TranslateY, 0.8, 3)],
    [(C::ShearY, 0.8, 5), (C::AutoContrast, 0.7, 0)],
    [(C::ShearX, 0.7, 2), (C::Invert, 0.1, 0)],
];
