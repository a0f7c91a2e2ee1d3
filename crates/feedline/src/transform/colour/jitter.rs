//! `ColorJitter` and `RandomPhotometricDistort`: brightness, contrast, saturation, hue. Each is clamped and truncated
//! to 8 bits before the next, so their order matters.

use feedline_pixels::{Effect, Point, RowOp, Size, Table, WholeOp};
use serde::{Deserialize, Serialize};

use super::PermuteChannels;
use crate::random::Draw;
use crate::transform::Like;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place, tidy};

type Range = (f64, f64);

/// Range of factors; a million is practically infinite, and keeps products finite.
const FACTORS: Range = (0.0, 1e6);
const HUES: Range = (-0.5, 0.5);

/// Changes brightness, contrast, saturation and hue in random order. `None` means no change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColorJitter {
    /// Smallest and largest factor.
    #[serde(default)]
    pub brightness: Option<Range>,
    /// Smallest and largest factor.
    #[serde(default)]
    pub contrast: Option<Range>,
    /// Smallest and largest factor.
    #[serde(default)]
    pub saturation: Option<Range>,
    /// Smallest and largest part of the colour circle.
    #[serde(default)]
    pub hue: Option<Range>,
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for ColorJitter {
    fn check(&self) -> Result<(), String> {
        check_ranges(self.brightness, self.contrast, self.saturation, self.hue)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let order = permutation::<4>(&mut draw);
        let mut drawn = |range: Option<Range>| range.map(|(low, high)| tidy(draw.between(low, high)));
        let brightness = drawn(self.brightness);
        let contrast = drawn(self.contrast);
        let saturation = drawn(self.saturation);
        let (hue, like) = (drawn(self.hue), self.like);
        for which in order {
            match which {
                0 => push(into, brightness, |factor| Brightness { factor: factor as f32 }),
                1 => push(into, contrast, |factor| Contrast { factor: factor as f32, like }),
                2 => push(into, saturation, |factor| Saturation { factor: factor as f32, like }),
                _ => push(into, hue, |turn| Hue { turn, like }),
            }
        }
        Ok(())
    }
}

fn push<A: Into<crate::transform::Action>>(
    into: &mut Params,
    value: Option<f64>,
    action: impl FnOnce(f64) -> A,
) {
    if let Some(value) = value {
        into.push(action(value));
    }
}

fn check_ranges(
    brightness: Option<Range>,
    contrast: Option<Range>,
    saturation: Option<Range>,
    hue: Option<Range>,
) -> Result<(), String> {
    let factors = [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)];
    for (name, range) in factors {
        range.map_or(Ok(()), |range| check_range(name, range, FACTORS))?;
    }
    hue.map_or(Ok(()), |range| check_range("hue", range, HUES))
}

/// 0..N in random order.
pub(in crate::transform) fn permutation<const N: usize>(draw: &mut Draw) -> [u8; N] {
    let mut order = std::array::from_fn(|i| i as u8);
    for last in (1..N).rev() {
        order.swap(last, draw.below(last as u64 + 1) as usize);
    }
    order
}

/// SSD's colour changes: each of them, and another order of channels, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPhotometricDistort {
    /// Smallest and largest factor.
    #[serde(default = "default_brightness")]
    pub brightness: Range,
    /// Smallest and largest factor.
    #[serde(default = "default_contrast")]
    pub contrast: Range,
    /// Smallest and largest factor.
    #[serde(default = "default_contrast")]
    pub saturation: Range,
    /// Smallest and largest part of the colour circle.
    #[serde(default = "default_hue")]
    pub hue: Range,
    /// Probability of each.
    #[serde(default = "half")]
    pub p: f64,
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

fn default_brightness() -> Range {
    (0.875, 1.125)
}

fn default_contrast() -> Range {
    (0.5, 1.5)
}

fn default_hue() -> Range {
    (-0.05, 0.05)
}

impl Op for RandomPhotometricDistort {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)?;
        check_ranges(Some(self.brightness), Some(self.contrast), Some(self.saturation), Some(self.hue))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        let mut drawn = |(low, high): Range| draw.chance(self.p).then(|| tidy(draw.between(low, high)));
        let brightness = drawn(self.brightness);
        let contrast = drawn(self.contrast);
        let saturation = drawn(self.saturation);
        let hue = drawn(self.hue);
        let (contrast_first, like) = (draw.chance(0.5), self.like);
        let order = draw.chance(self.p).then(|| permutation::<3>(&mut draw));
        push(into, brightness, |factor| Brightness { factor: factor as f32 });
        push(into, contrast.filter(|_| contrast_first), |factor| Contrast { factor: factor as f32, like });
        push(into, saturation, |factor| Saturation { factor: factor as f32, like });
        push(into, hue, |turn| Hue { turn, like });
        push(into, contrast.filter(|_| !contrast_first), |factor| Contrast { factor: factor as f32, like });
        if let Some(order) = order {
            into.push(PermuteChannels { order });
        }
        Ok(())
    }
}

fn check_factor(factor: f32) -> Result<(), String> {
    check_range("factor", (f64::from(factor), f64::from(factor)), FACTORS)
}

/// Multiplies every value by `factor`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Brightness {
    pub(in crate::transform) factor: f32,
}

impl Act for Brightness {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_factor(self.factor)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let factor = self.factor;
        fusion.row(RowOp::Table(Table::of(|x| (factor * f32::from(x)).clamp(0.0, 255.0) as u8)));
    }
}

/// Moves values away from the mean grey, or towards it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contrast {
    pub(in crate::transform) factor: f32,
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub(in crate::transform) like: Like,
}

impl Act for Contrast {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_factor(self.factor)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // A factor of one gives every pixel back.
        if self.factor == 1.0 {
            return;
        }
        fusion.whole(match self.like {
            Like::Pil => WholeOp::Contrast(self.factor),
            Like::Tensor => WholeOp::Effect(Box::new(Effect::TensorContrast(self.factor))),
        });
    }
}

/// Moves values away from each pixel's own grey, or towards it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saturation {
    pub(in crate::transform) factor: f32,
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub(in crate::transform) like: Like,
}

impl Act for Saturation {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_factor(self.factor)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // A factor of one gives every pixel back.
        if self.factor == 1.0 {
            return;
        }
        fusion.row(match self.like {
            Like::Pil => RowOp::Saturation(self.factor),
            Like::Tensor => RowOp::Point(Point::TensorSaturation(self.factor)),
        });
    }
}

/// Rotates the hue; 1 is a full circle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hue {
    pub(super) turn: f64,
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub(super) like: Like,
}

impl Act for Hue {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("turn", (self.turn, self.turn), HUES)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // Truncated towards zero, then modulo 256: negative shifts go the other way round.
        fusion.row(match self.like {
            Like::Pil => RowOp::Hue((self.turn * 255.0) as i32 as u8),
            Like::Tensor => RowOp::Point(Point::TensorHue(self.turn as f32)),
        });
    }
}
