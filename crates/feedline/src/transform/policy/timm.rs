//! timm's RandAugment: the same name as torchvision's, but other strengths and probabilities.

use feedline_pixels::Size;

use crate::random::Draw;
use crate::transform::Interpolation;
use crate::transform::Like;
use crate::transform::colour::{
    Autocontrast, Brightness, Contrast, Equalize, Invert, Posterize, Saturation, Sharpness, Solarize,
    SolarizeAdd,
};
use crate::transform::geometric::{Affine, rotation};
use crate::transform::params::{Params, tidy};

/// Magnitudes are tenths.
const TENTHS: f64 = 10.0;

/// Number of operations, all equally likely.
const NAMES: u64 = 15;

/// How an operation is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timm {
    pub(super) magnitude: f64,
    /// Standard deviation of the magnitude; infinite for uniform from 0.
    pub(super) deviation: f64,
    pub(super) most: f64,
    pub(super) p: f64,
    /// Whether larger magnitudes always change more.
    pub(super) increasing: bool,
    pub(super) fill: [u8; 3],
}

impl Timm {
    /// Adds one random operation, or none.
    pub(super) fn push(&self, draw: &mut Draw, into: &mut Params) {
        let name = draw.below(NAMES);
        if !draw.chance(self.p) {
            return;
        }
        let magnitude = if self.deviation.is_infinite() {
            draw.between(0.0, self.magnitude)
        } else {
            self.magnitude + self.deviation * draw.normal()
        };
        let share = magnitude.clamp(0.0, self.most) / TENTHS;
        self.operation(name, share, draw, into);
    }

    fn operation(&self, name: u64, share: f64, draw: &mut Draw, into: &mut Params) {
        match name {
            0 => into.push(Autocontrast { like: Like::Pil }),
            1 => into.push(Equalize {}),
            2 => into.push(Invert {}),
            3 => {
                let degrees = negated(share * 30.0, draw);
                let turned = rotation(into.size(), degrees, false, None);
                into.push(turned.warped(either_filter(draw), self.fill));
            }
            4 => {
                let bits = (share * 4.0) as u32;
                let bits = if self.increasing { 4u32.saturating_sub(bits) } else { bits };
                into.push(Posterize { bits: bits.min(8) });
            }
            5 => {
                let threshold = ((share * 256.0) as u32).min(256);
                let threshold = if self.increasing { 256 - threshold } else { threshold };
                into.push(Solarize { threshold: f64::from(threshold) });
            }
            6 => into.push(SolarizeAdd { add: ((share * 110.0) as u32).min(128) as u8, threshold: 128 }),
            7..=10 => self.enhancement(name, share, draw, into),
            _ => self.movement(name, share, draw, into),
        }
    }

    fn enhancement(&self, name: u64, share: f64, draw: &mut Draw, into: &mut Params) {
        let factor =
            if self.increasing { (1.0 + negated(share * 0.9, draw)).max(0.1) } else { share * 1.8 + 0.1 };
        let (factor, like) = (tidy(factor) as f32, Like::Pil);
        match name {
            7 => into.push(Saturation { factor, like }),
            8 => into.push(Contrast { factor, like }),
            9 => into.push(Brightness { factor }),
            _ => into.push(Sharpness { factor }),
        }
    }

    fn movement(&self, name: u64, share: f64, draw: &mut Draw, into: &mut Params) {
        let size = into.size();
        let Size { width, height } = size;
        let by = negated(if name < 13 { share * 0.3 } else { share * 0.45 }, draw);
        let map = match name {
            11 => [1.0, by, 0.0, 0.0, 1.0, 0.0],
            12 => [1.0, 0.0, 0.0, by, 1.0, 0.0],
            13 => [1.0, 0.0, by * f64::from(width), 0.0, 1.0, 0.0],
            _ => [1.0, 0.0, 0.0, 0.0, 1.0, by * f64::from(height)],
        };
        into.push(Affine { map, output: size }.warped(either_filter(draw), self.fill));
    }
}

fn negated(value: f64, draw: &mut Draw) -> f64 {
    if draw.unit() > 0.5 { -value } else { value }
}

fn either_filter(draw: &mut Draw) -> Interpolation {
    if draw.chance(0.5) { Interpolation::Bilinear } else { Interpolation::Bicubic }
}
