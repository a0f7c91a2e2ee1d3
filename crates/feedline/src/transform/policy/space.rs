//! The operations of learned and random policies, and their strength at each level.

use feedline_pixels::Size;

use crate::random::Draw;
use crate::transform::colour::{
    Autocontrast, Brightness, Contrast, Equalize, Invert, Posterize, Saturation, Sharpness, Solarize,
};
use crate::transform::geometric::{Affine, rotation};
use crate::transform::params::{Params, tidy};
use crate::transform::{Interpolation, Like};

/// One operation, by the name used in papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Identity,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
}

use Choice as C;

/// The operations of `RandAugment` and `TrivialAugmentWide`, in torchvision's order.
pub(super) const RANDOM: [Choice; 14] = [
    C::Identity,
    C::ShearX,
    C::ShearY,
    C::TranslateX,
    C::TranslateY,
    C::Rotate,
    C::Brightness,
    C::Color,
    C::Contrast,
    C::Sharpness,
    C::Posterize,
    C::Solarize,
    C::AutoContrast,
    C::Equalize,
];

/// The operations of `AugMix`; without the last four if it does not change colours.
pub(super) const AUGMIX: [Choice; 13] = [
    C::ShearX,
    C::ShearY,
    C::TranslateX,
    C::TranslateY,
    C::Rotate,
    C::Posterize,
    C::Solarize,
    C::AutoContrast,
    C::Equalize,
    C::Brightness,
    C::Color,
    C::Contrast,
    C::Sharpness,
];

/// Strength of operations at the last of `bins` levels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) bins: u32,
    pub(super) shear: f32,
    /// Translation in pixels, or `None` for a share of the side.
    pub(super) translate: Option<f32>,
    /// Translation as a share of the side.
    pub(super) share: f64,
    /// Bits of the weakest posterisation.
    pub(super) bits: f32,
    pub(super) rotate: f32,
    pub(super) enhance: f32,
    /// Number of bits removed.
    pub(super) posterize: f32,
}

impl Space {
    /// The strengths of AutoAugment and RandAugment.
    pub(super) const fn usual(bins: u32) -> Self {
        Space {
            bins,
            shear: 0.3,
            translate: None,
            share: 150.0 / 331.0,
            bits: 8.0,
            rotate: 30.0,
            enhance: 0.9,
            posterize: 4.0,
        }
    }

    /// The strengths of TrivialAugment, which are larger.
    pub(super) const fn wide(bins: u32) -> Self {
        Space {
            bins,
            shear: 0.99,
            translate: Some(32.0),
            share: 0.0,
            bits: 8.0,
            rotate: 135.0,
            enhance: 0.99,
            posterize: 6.0,
        }
    }

    /// The strengths of AugMix, with ten levels.
    pub(super) const fn mixing() -> Self {
        Space { share: 1.0 / 3.0, bits: 4.0, ..Space::usual(10) }
    }

    /// The magnitude of `choice` at level `bin`, and whether it has a sign.
    fn magnitude(&self, choice: Choice, bin: u32, size: Size) -> (f64, bool) {
        let side = |side: u32| self.translate.unwrap_or((self.share * f64::from(side)) as f32);
        let up_to = |end: f32| (f64::from(self.level(0.0, end, bin)), true);
        match choice {
            C::ShearX | C::ShearY => up_to(self.shear),
            C::TranslateX => up_to(side(size.width)),
            C::TranslateY => up_to(side(size.height)),
            C::Rotate => up_to(self.rotate),
            C::Brightness | C::Color | C::Contrast | C::Sharpness => up_to(self.enhance),
            C::Posterize => {
                let steps = (self.bins.max(2) - 1) as f32 / self.posterize;
                (f64::from((self.bits - bin as f32 / steps).round_ties_even()), false)
            }
            C::Solarize => (f64::from(self.level(1.0, 0.0, bin)), false),
            C::Identity | C::AutoContrast | C::Equalize | C::Invert => (0.0, false),
        }
    }

    /// `torch.linspace(start, end, bins)[bin]`, which counts from the nearer end.
    fn level(&self, start: f32, end: f32, bin: u32) -> f32 {
        if self.bins < 2 {
            return start;
        }
        let step = (end - start) / (self.bins - 1) as f32;
        // Rounded once, as in torch.
        if bin < self.bins / 2 {
            step.mul_add(bin as f32, start)
        } else {
            (-step).mul_add((self.bins - 1 - bin) as f32, end)
        }
    }

    /// Adds `choice` at level `bin`, with a random sign if it has one.
    pub(super) fn push(
        &self,
        choice: Choice,
        bin: u32,
        look: WarpSettings,
        draw: &mut Draw,
        into: &mut Params,
    ) {
        let (mut magnitude, signed) = self.magnitude(choice, bin, into.size());
        if signed && draw.unit() <= 0.5 {
            magnitude = -magnitude;
        }
        do_choice(choice, magnitude, look, into);
    }
}

/// Interpolation and fill of operations that move pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpSettings {
    pub(super) interpolation: Interpolation,
    pub(super) fill: [u8; 3],
    pub(super) like: Like,
}

fn do_choice(choice: Choice, magnitude: f64, look: WarpSettings, into: &mut Params) {
    let (size, like) = (into.size(), look.like);
    let warp =
        |map: Affine, into: &mut Params| into.push(map.warped(look.interpolation, look.fill).like(like));
    let shear = |x: f64, y: f64| Affine::new(size, 0.0, (0.0, 0.0), 1.0, (x, y), Some((0.0, 0.0)));
    let moved = |x: f64, y: f64| Affine::new(size, 0.0, (x.trunc(), y.trunc()), 1.0, (0.0, 0.0), None);
    let factor = (1.0 + magnitude) as f32;
    match choice {
        C::Identity => {}
        C::ShearX => warp(shear(magnitude.atan().to_degrees(), 0.0), into),
        C::ShearY => warp(shear(0.0, magnitude.atan().to_degrees()), into),
        C::TranslateX => warp(moved(magnitude, 0.0), into),
        C::TranslateY => warp(moved(0.0, magnitude), into),
        C::Rotate => warp(rotation(size, magnitude, false, None), into),
        C::Brightness => into.push(Brightness { factor }),
        C::Color => into.push(Saturation { factor, like }),
        C::Contrast => into.push(Contrast { factor, like }),
        C::Sharpness => into.push(Sharpness { factor }),
        C::Posterize => into.push(Posterize { bits: magnitude as u32 }),
        C::Solarize => into.push(Solarize { threshold: tidy(255.0 * magnitude) }),
        C::AutoContrast => into.push(Autocontrast { like }),
        C::Equalize => into.push(Equalize {}),
        C::Invert => into.push(Invert {}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_torchvisions() {
        let space = Space::usual(31);
        let size = Size::new(331, 662);
        assert_eq!(space.magnitude(C::Posterize, 9, size), (7.0, false));
        assert_eq!(space.magnitude(C::TranslateX, 30, size), (150.0, true));
        assert_eq!(space.magnitude(C::TranslateY, 30, size), (300.0, true));
        assert!((space.magnitude(C::Brightness, 9, size).0 - 0.27).abs() < 1e-6);
        assert_eq!(space.magnitude(C::Solarize, 0, size).0, 1.0);
        assert_eq!(Space::wide(31).magnitude(C::Posterize, 30, size), (2.0, false));
    }
}
