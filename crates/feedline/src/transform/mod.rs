//! WHAT HAPPENS TO A SAMPLE.
//!
//! A [`Transform`] is data: name and parameters, as torchvision has them. [`ImagePlan`] checks a list of them once and
//! knows the result's shape before the first sample; for each sample it then draws the random parameters and boils the
//! list down to as few [`Step`]s as possible, nearly always one: decode this box, resize it, take this window, flip.
//!
//! Random parameters are drawn from (seed, epoch, sample, place in the list, view) and from nothing else.

mod crop;
mod fuse;

use feedline_pixels::Filter;
use serde::{Deserialize, Serialize};

pub(crate) use crop::nearest_ratio;
pub(crate) use fuse::{ImagePlan, SampleKey, Step, Steps};

/// How pixels between pixels are found when resizing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interpolation {
    /// Triangle filter, widened when shrinking (antialiased), as Pillow's `BILINEAR`.
    #[default]
    Bilinear,
    /// Cubic filter (a = -0.5), widened when shrinking, as Pillow's `BICUBIC`.
    Bicubic,
    /// The nearest pixel, as Pillow's `NEAREST`.
    Nearest,
}

impl Interpolation {
    pub(crate) fn filter(self) -> Filter {
        match self {
            Interpolation::Bilinear => Filter::Bilinear,
            Interpolation::Bicubic => Filter::Bicubic,
            Interpolation::Nearest => Filter::Nearest,
        }
    }
}

/// How `RandomResizedCrop` draws its box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CropMethod {
    /// torchvision's: up to ten tries, then the middle.
    #[default]
    Torchvision,
    /// Without tries: the ratio first, then an area that fits it, then the position.
    Direct,
}

fn default_scale() -> (f64, f64) {
    (0.08, 1.0)
}

fn default_ratio() -> (f64, f64) {
    (3.0 / 4.0, 4.0 / 3.0)
}

fn half() -> f64 {
    0.5
}

/// One operation on an image. Sizes are (height, width) as in torchvision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", deny_unknown_fields)]
#[non_exhaustive]
pub enum Transform {
    /// A random box of random area and aspect, resized.
    RandomResizedCrop {
        /// Result's height and width.
        size: (u32, u32),
        /// Smallest and largest share of the image's area.
        #[serde(default = "default_scale")]
        scale: (f64, f64),
        /// Smallest and largest width : height.
        #[serde(default = "default_ratio")]
        ratio: (f64, f64),
        /// How the box is drawn.
        #[serde(default)]
        method: CropMethod,
        /// Filter.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// To a fixed size, or (with only `shorter`) so that the shorter side gets this length.
    Resize {
        /// Result's height and width.
        #[serde(default)]
        size: Option<(u32, u32)>,
        /// Length of the shorter side; the other follows.
        #[serde(default)]
        shorter: Option<u32>,
        /// With `shorter`: the longer side gets at most this long.
        #[serde(default)]
        max_size: Option<u32>,
        /// Filter.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// The middle; smaller images are padded with black.
    CenterCrop {
        /// Result's height and width.
        size: (u32, u32),
    },
    /// A square box in the middle, `ratio` times the shorter side, resized: FFCV's validation crop.
    ResizedCenterCrop {
        /// Result's height and width.
        size: (u32, u32),
        /// Share of the shorter side.
        ratio: f64,
        /// Filter.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// A random box of fixed size.
    RandomCrop {
        /// Result's height and width.
        size: (u32, u32),
        /// Pixels added on the left, top, right and bottom first.
        #[serde(default)]
        padding: (u32, u32, u32, u32),
        /// Pad images that are too small instead of failing.
        #[serde(default)]
        pad_if_needed: bool,
        /// Colour of added pixels.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// Adds pixels on the left, top, right and bottom.
    Pad {
        /// How many.
        padding: (u32, u32, u32, u32),
        /// Their colour.
        #[serde(default)]
        fill: [u8; 3],
    },
    /// The middle of the image at the nearest of several aspect ratios, resized to that ratio's size. With
    /// [`Sampler::Buckets`](crate::Sampler::Buckets) of the same sizes, every batch has one size.
    BucketResize {
        /// Heights and widths to choose from.
        sizes: Vec<(u32, u32)>,
        /// Filter.
        #[serde(default)]
        interpolation: Interpolation,
    },
    /// Mirrors left and right with probability `p`.
    RandomHorizontalFlip {
        /// Probability.
        #[serde(default = "half")]
        p: f64,
    },
    /// Mirrors top and bottom with probability `p`.
    RandomVerticalFlip {
        /// Probability.
        #[serde(default = "half")]
        p: f64,
    },
    /// Subtracts `mean` and divides by `std`, channel by channel, in units where white is 1. Must come last.
    Normalize {
        /// Per channel.
        mean: [f32; 3],
        /// Per channel, not 0.
        std: [f32; 3],
    },
}

impl Transform {
    /// `RandomResizedCrop` to a square, with torchvision's defaults.
    pub fn random_resized_crop(side: u32) -> Self {
        Transform::RandomResizedCrop {
            size: (side, side),
            scale: default_scale(),
            ratio: default_ratio(),
            method: CropMethod::Torchvision,
            interpolation: Interpolation::Bilinear,
        }
    }

    /// `Resize` of the shorter side.
    pub fn resize_shorter(side: u32) -> Self {
        Transform::Resize {
            size: None,
            shorter: Some(side),
            max_size: None,
            interpolation: Interpolation::Bilinear,
        }
    }

    /// `CenterCrop` to a square.
    pub fn center_crop(side: u32) -> Self {
        Transform::CenterCrop { size: (side, side) }
    }

    /// `RandomHorizontalFlip` with probability one half.
    pub fn random_horizontal_flip() -> Self {
        Transform::RandomHorizontalFlip { p: half() }
    }

    /// `Normalize` with ImageNet's mean and standard deviation.
    pub fn normalize_imagenet() -> Self {
        Transform::Normalize { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
    }

    /// Its name, as users write it.
    pub fn name(&self) -> &'static str {
        match self {
            Transform::RandomResizedCrop { .. } => "RandomResizedCrop",
            Transform::Resize { .. } => "Resize",
            Transform::CenterCrop { .. } => "CenterCrop",
            Transform::ResizedCenterCrop { .. } => "ResizedCenterCrop",
            Transform::RandomCrop { .. } => "RandomCrop",
            Transform::Pad { .. } => "Pad",
            Transform::BucketResize { .. } => "BucketResize",
            Transform::RandomHorizontalFlip { .. } => "RandomHorizontalFlip",
            Transform::RandomVerticalFlip { .. } => "RandomVerticalFlip",
            Transform::Normalize { .. } => "Normalize",
        }
    }
}
