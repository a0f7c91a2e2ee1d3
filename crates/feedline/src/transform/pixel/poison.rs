//! `Poison`: blends a pattern into chosen samples, as in FFCV.

use std::sync::Arc;

use feedline_pixels::{Effect, Overlay, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_size};
use crate::transform::params::{Params, Place};

/// Blends `mask` into the samples `indices`: `x (1 - alpha) + mask alpha`, clamped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poison {
    /// Height and width of the pattern, and of the images.
    pub size: (u32, u32),
    /// Red, green, blue of every pixel, from 0 to 255.
    #[serde(with = "shared")]
    pub mask: Arc<[f32]>,
    /// Weight of the pattern for every pixel, from 0 to 1.
    #[serde(with = "shared")]
    pub alpha: Arc<[f32]>,
    /// Samples, ascending.
    pub indices: Vec<u64>,
    /// Smallest and largest result.
    #[serde(default = "all_levels")]
    pub clamp: (u8, u8),
}

/// Numbers shared by many samples, as a list.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &Arc<[f32]>, serializer: S) -> Result<S::Ok, S::Error> {
        numbers.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[f32]>, D::Error> {
        Vec::<f32>::deserialize(deserializer).map(Arc::from)
    }
}

fn all_levels() -> (u8, u8) {
    (0, 255)
}

fn check_pattern((height, width): (u32, u32), mask: &[f32], alpha: &[f32]) -> Result<(), String> {
    let area = u64::from(height) * u64::from(width);
    if alpha.len() as u64 != area || mask.len() as u64 != 3 * area {
        return Err(format!(
            "mask needs {height} x {width} x 3 numbers and alpha {height} x {width}; they have {} and {}",
            mask.len(),
            alpha.len()
        ));
    }
    if mask.iter().any(|v| !v.is_finite()) || alpha.iter().any(|v| !(0.0..=1.0).contains(v)) {
        return Err("mask must be finite numbers, alpha between 0 and 1".to_owned());
    }
    Ok(())
}

impl Op for Poison {
    fn check(&self) -> Result<(), String> {
        check_size(self.size)?;
        if !self.indices.is_sorted() {
            return Err("indices must be ascending".to_owned());
        }
        if self.clamp.0 > self.clamp.1 {
            return Err(format!("clamp must be (low, high), not {:?}", self.clamp));
        }
        check_pattern(self.size, &self.mask, &self.alpha)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        match before.size {
            Some(size) if (size.height, size.width) != self.size => Err(format!(
                "a mask of {} x {} for images of {} x {} (height x width)",
                self.size.0, self.size.1, size.height, size.width
            )),
            _ => Ok(before),
        }
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        if self.indices.binary_search(&place.sample()).is_ok() {
            let action = Blended {
                size: self.size,
                pixels: self.mask.clone(),
                shares: self.alpha.clone(),
                clamp: self.clamp,
            };
            action.check(into.size())?;
            into.push(action);
        }
        Ok(())
    }
}

/// Blends another image of the same size over the image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blended {
    size: (u32, u32),
    #[serde(with = "shared")]
    pixels: Arc<[f32]>,
    #[serde(with = "shared")]
    shares: Arc<[f32]>,
    clamp: (u8, u8),
}

impl Act for Blended {
    fn check(&self, before: Size) -> Result<(), String> {
        if (before.height, before.width) != self.size {
            return Err(format!(
                "a pattern of {}x{} for an image of {}x{} (height x width)",
                self.size.0, self.size.1, before.height, before.width
            ));
        }
        check_pattern(self.size, &self.pixels, &self.shares)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let overlay = Overlay { pixels: self.pixels.clone(), shares: self.shares.clone(), clamp: self.clamp };
        fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Overlay(overlay))), fusion.size());
    }
}
