//! `RandomErasing`.

use feedline_pixels::{Channels, Region, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};
use crate::transform::program::{Erasure, ErasureValue};

/// torchvision stops looking for a box after this many tries.
const TRIES: usize = 10;

fn default_scale() -> (f64, f64) {
    (0.02, 0.33)
}

fn default_ratio() -> (f64, f64) {
    (0.3, 3.3)
}

/// Content of an erased box.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EraseValue {
    /// One number per channel: after `Normalize` in its units, before it from 0 to 255.
    Channels([f32; 3]),
    /// Normal noise, pixel by pixel; after `Normalize` only.
    Random,
}

/// timm's names for the content of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EraseMode {
    /// Zero.
    Const,
    /// One normal value per channel and box.
    Rand,
    /// Normal noise, pixel by pixel.
    Pixel,
}

impl Default for EraseValue {
    fn default() -> Self {
        EraseValue::Channels([0.0; 3])
    }
}

/// Fills a box with one colour or noise, with probability `p`. It may come before `Normalize` or after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomErasing {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Smallest and largest share of the image's area.
    #[serde(default = "default_scale")]
    pub scale: (f64, f64),
    /// Smallest and largest height : width.
    #[serde(default = "default_ratio")]
    pub ratio: (f64, f64),
    /// Content of the box.
    #[serde(default)]
    pub value: EraseValue,
    /// timm's name for the content; overrides `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EraseMode>,
    /// Smallest and largest number of boxes; each gets its share of the area.
    #[serde(default = "one_box")]
    pub count: (u32, u32),
}

fn one_box() -> (u32, u32) {
    (1, 1)
}

impl Default for RandomErasing {
    fn default() -> Self {
        RandomErasing {
            p: 0.5,
            scale: default_scale(),
            ratio: default_ratio(),
            value: EraseValue::default(),
            mode: None,
            count: one_box(),
        }
    }
}

impl Op for RandomErasing {
    fn check(&self) -> Result<(), String> {
        check_p(self.p)?;
        let (low, high) = self.count;
        if low == 0 || low > high || high > 1000 {
            return Err(format!("count must be (low, high) between 1 and 1000, not ({low}, {high})"));
        }
        check_range("scale", self.scale, (0.0, 1.0))?;
        check_range("ratio", self.ratio, (f64::MIN_POSITIVE, f64::INFINITY))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        if !matches!(before.channels, Channels::Grey | Channels::Rgb) {
            return Err("cannot follow opponent channels".to_owned());
        }
        let noise = matches!(self.mode, Some(EraseMode::Rand | EraseMode::Pixel));
        if noise && !before.normalised {
            return Err(
                "mode 'rand' and 'pixel' are noise around 0, so they need Normalize in front".to_owned()
            );
        }
        match self.value {
            EraseValue::Random if !before.normalised => {
                Err("value 'random' is noise around 0, so it needs Normalize in front".to_owned())
            }
            EraseValue::Channels(values) if values.iter().any(|v| !v.is_finite()) => {
                Err(format!("value must be finite numbers, not {values:?}"))
            }
            EraseValue::Channels(values)
                if !before.normalised && values.iter().any(|v| !(0.0..=255.0).contains(v)) =>
            {
                Err(format!("value before Normalize must be from 0 to 255, not {values:?}"))
            }
            _ => Ok(before),
        }
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if !draw.chance(self.p) {
            return Ok(());
        }
        let (low, high) = self.count;
        let count = if low == high { low } else { low + draw.below(u64::from(high - low) + 1) as u32 };
        for _ in 0..count {
            let Some(region) = self.region(into.size(), count, &mut draw) else { continue };
            let Region { x, y, width, height } = region;
            let (value, noise) = self.content(&mut draw);
            let floats = into.are_floats();
            into.push(Erase { top: y, left: x, height, width, value, noise, floats });
        }
        Ok(())
    }

    fn takes_floats(&self) -> bool {
        true
    }
}

impl RandomErasing {
    /// A value per channel, or the seed of noise.
    fn content(&self, draw: &mut Draw) -> ([f32; 3], Option<u64>) {
        match (self.mode, self.value) {
            (Some(EraseMode::Const), _) => ([0.0; 3], None),
            (Some(EraseMode::Rand), _) => (std::array::from_fn(|_| draw.normal() as f32), None),
            (Some(EraseMode::Pixel), _) | (None, EraseValue::Random) => ([0.0; 3], Some(draw.bits())),
            (None, EraseValue::Channels(values)) => (values, None),
        }
    }

    fn region(&self, image: Size, count: u32, draw: &mut Draw) -> Option<Region> {
        for _ in 0..TRIES {
            let share = draw.between(self.scale.0, self.scale.1) / f64::from(count);
            let area = image.area() as f64 * share;
            let aspect = draw.between(self.ratio.0.ln(), self.ratio.1.ln()).exp();
            let height = (area * aspect).sqrt().round_ties_even() as u32;
            let width = (area / aspect).sqrt().round_ties_even() as u32;
            if height < image.height && width < image.width {
                let y = draw.below(u64::from(image.height - height) + 1) as u32;
                let x = draw.below(u64::from(image.width - width) + 1) as u32;
                return (height > 0 && width > 0).then_some(Region::new(x, y, width, height));
            }
        }
        None
    }
}

/// A box of one colour, or of normal noise if there is a seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Erase {
    top: u32,
    left: u32,
    height: u32,
    width: u32,
    value: [f32; 3],
    noise: Option<u64>,
    /// Whether values are in the units of the normalised image.
    floats: bool,
}

impl Erase {
    fn region(&self) -> Region {
        Region::new(self.left, self.top, self.width, self.height)
    }
}

impl Act for Erase {
    fn check(&self, before: Size) -> Result<(), String> {
        self.region().check_inside(before).map_err(|e| e.to_string())
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let region = self.region();
        if self.floats {
            let value = self.noise.map_or(ErasureValue::Channels(self.value), ErasureValue::Noise);
            return fusion.erase(Erasure { region, value });
        }
        let bytes = self.value.map(|value| value as u8);
        fusion.whole_placed(WholeOp::Erase(region, bytes), fusion.size());
    }
}
