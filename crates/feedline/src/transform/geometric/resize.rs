//! `Resize`, `RandomResizedCrop`, `ResizedCenterCrop`, `BucketResize`: operations that resize a box.

use feedline_pixels::{Region, Size};
use serde::{Deserialize, Serialize};

use super::crop::Crop;
use super::{boxes, of_size};
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_range, check_size};
use crate::transform::params::{Params, Place};
use crate::transform::{CropMethod, Interpolation};

fn default_scale() -> (f64, f64) {
    (0.08, 1.0)
}

fn default_ratio() -> (f64, f64) {
    (3.0 / 4.0, 4.0 / 3.0)
}

/// Crops a random box of random area and aspect ratio, and resizes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomResizedCrop {
    /// Result's height and width.
    pub size: (u32, u32),
    /// Smallest and largest share of the image's area.
    #[serde(default = "default_scale")]
    pub scale: (f64, f64),
    /// Smallest and largest width : height.
    #[serde(default = "default_ratio")]
    pub ratio: (f64, f64),
    /// How the box is drawn.
    #[serde(default)]
    pub method: CropMethod,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl RandomResizedCrop {
    /// To a square, with torchvision's defaults.
    pub fn square(side: u32) -> Self {
        RandomResizedCrop {
            size: (side, side),
            scale: default_scale(),
            ratio: default_ratio(),
            method: CropMethod::Torchvision,
            interpolation: Interpolation::Bilinear,
        }
    }
}

impl Op for RandomResizedCrop {
    fn check(&self) -> Result<(), String> {
        let good = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
        if !good(self.scale) || !good(self.ratio) {
            return Err("scale and ratio must be positive (low, high) pairs".to_owned());
        }
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(of_size(before, self.size))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let RandomResizedCrop { size, scale, ratio, method, interpolation } = *self;
        let part = boxes::random_resized(into.size(), scale, ratio, method, &mut place.draw());
        push(into, part, Size::new(size.1, size.0), interpolation);
        Ok(())
    }
}

/// Resizes to a fixed size, or (with only `shorter`) so that the shorter side gets this length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// Result's height and width.
    #[serde(default)]
    pub size: Option<(u32, u32)>,
    /// Length of the shorter side; the other follows.
    #[serde(default)]
    pub shorter: Option<u32>,
    /// With `shorter`: the longer side is at most this long. Alone: the longer side is exactly this long.
    #[serde(default)]
    pub max_size: Option<u32>,
    /// Alone: both sides are multiplied by this and truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<f64>,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Resize {
    fn size_of(&self, image: Size) -> Size {
        match (self.size, self.shorter, self.max_size, self.scale) {
            (Some((height, width)), ..) => Size::new(width, height),
            (None, None, Some(longer), _) => boxes::longer_side(image, longer),
            (None, None, None, Some(scale)) => boxes::scaled(image, scale),
            (None, shorter, most, _) => boxes::shorter_side(image, shorter.unwrap_or(1), most),
        }
    }
}

impl Op for Resize {
    fn check(&self) -> Result<(), String> {
        match (self.size, self.shorter, self.max_size, self.scale) {
            (Some(size), None, None, None) => check_size(size),
            (None, Some(shorter), Some(max), None) if max < shorter => {
                Err("max_size must not be below size".to_owned())
            }
            (None, Some(shorter), _, None) => check_size((shorter, shorter)),
            (None, None, Some(longer), None) => check_size((longer, longer)),
            (None, None, None, Some(scale)) => check_range("scale", (scale, scale), (1e-6, 1e3)),
            _ => Err(
                "give either one number (the shorter side), (height, width), max_size (the longer side) or \
                      scale; max_size goes with one number as well"
                    .to_owned(),
            ),
        }
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let fixed = self.size.map(|(height, width)| Size::new(width, height));
        Ok(Form { size: fixed.or(before.size.map(|size| self.size_of(size))), ..before })
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        into.push(Resized::new(self.size_of(into.size()), self.interpolation));
        Ok(())
    }
}

/// Crops a square in the centre, `ratio` times the shorter side, and resizes it: FFCV's validation crop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResizedCenterCrop {
    /// Result's height and width.
    pub size: (u32, u32),
    /// Share of the shorter side.
    pub ratio: f64,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Op for ResizedCenterCrop {
    fn check(&self) -> Result<(), String> {
        if !(self.ratio > 0.0 && self.ratio <= 1.0) {
            return Err(format!("ratio must be above 0 and at most 1, not {}", self.ratio));
        }
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(of_size(before, self.size))
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let part = boxes::center_square(into.size(), self.ratio);
        push(into, part, Size::new(self.size.1, self.size.0), self.interpolation);
        Ok(())
    }
}

/// Crops the centre to the nearest of several aspect ratios and resizes it to that ratio's size. With
/// [`Sampler::Buckets`](crate::Sampler::Buckets) of the same sizes, every batch has one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketResize {
    /// Heights and widths to choose from.
    pub sizes: Vec<(u32, u32)>,
    /// Filter.
    #[serde(default)]
    pub interpolation: Interpolation,
}

impl Op for BucketResize {
    fn check(&self) -> Result<(), String> {
        if self.sizes.is_empty() {
            return Err("give at least one size".to_owned());
        }
        self.sizes.iter().try_for_each(|size| check_size(*size))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        // Depends on the image's own ratio, unless there is only one size.
        match self.sizes[..] {
            [size] => Ok(of_size(before, size)),
            _ => Ok(Form { size: None, ..before }),
        }
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let image = into.size();
        let (height, width) = self.sizes[boxes::nearest_ratio(image.height, image.width, &self.sizes)];
        let size = Size::new(width, height);
        push(into, boxes::center_of_ratio(image, size), size, self.interpolation);
        Ok(())
    }
}

fn push(into: &mut Params, part: Region, size: Size, interpolation: Interpolation) {
    into.push(Crop::region(part));
    into.push(Resized::new(size, interpolation));
}

/// Resizes to another size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resized {
    height: u32,
    width: u32,
    interpolation: Interpolation,
}

impl Resized {
    pub(super) fn new(size: Size, interpolation: Interpolation) -> Self {
        Resized { height: size.height, width: size.width, interpolation }
    }
}

impl Act for Resized {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_size((self.height, self.width))
    }

    fn output(&self, _before: Size) -> Size {
        Size::new(self.width, self.height)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.resize(Size::new(self.width, self.height), self.interpolation.filter());
    }
}
