//! WHAT HAPPENS TO A SAMPLE.
//!
//! ```text
//! Transform  ──check, output──►  Plan       once: the list is sound, the result's form is known
//! Transform  ──draw(key)──────►  Params     per sample: what is to be done, drawn, complete, JSON
//! Params     ──plan───────────►  Program    per sample: as few passes over the pixels as possible
//! ```
//!
//! A [`Transform`] is data: name and parameters, as torchvision has them. Drawing gives `Params`: a list of concrete
//! `Action`s without any chance left in them, so that what happened can be written down and done again. Planning joins
//! neighbours into a `Program`, nearly always of one segment: decode this box, resize it, take this window, flip.
//! `render/` runs it.
//!
//! An op is one file with its parameters, its checks, its draws and its actions, and one line in the list below. Random
//! parameters are drawn from (seed, epoch, sample, place in the list, view) and from nothing else.

mod action;
mod colour;
mod fuse;
mod geometric;
mod group;
mod label;
mod mix;
mod op;
mod params;
mod pixel;
mod plan;
mod policy;
mod program;

use feedline_pixels::Filter;
use serde::{Deserialize, Serialize};

pub(crate) use action::Action;
pub(crate) use geometric::crop::nearest_ratio;
pub use group::{BoxFormat, Boxes, Role, Target};
pub(crate) use group::{Mover, moving, read_boxes, refusal, write_box};
pub use mix::{
    BatchTransform, CopyPaste, CutMix, LabelSmoothing, MixChoice, MixDialect, MixUp, Mosaic, OneHot, Per,
};
pub(crate) use mix::{Deed, MixKey, Soft};
pub(crate) use params::{Params, SampleKey};
pub(crate) use plan::{ImagePlan, finish};
pub(crate) use program::{Chain, Program, Segment};

use op::Op;

/// The parameters of every operation.
pub mod ops {
    pub use super::colour::{
        CLAHE, ChannelDropout, ColorJitter, Grayscale, RGBShift, RGBToLGN, RGBToMagno, RandomAdjustSharpness,
        RandomAutocontrast, RandomBrightness, RandomChannelPermutation, RandomColorJitterHSV,
        RandomColorJitterYIQ, RandomContrast, RandomEqualize, RandomGamma, RandomGrayscale, RandomHue,
        RandomInvert, RandomPhotometricDistort, RandomPosterize, RandomSaturation, RandomSolarize,
    };
    pub use super::geometric::{
        BucketResize, CenterCrop, ElasticTransform, FiveCrop, Letterbox, OpticalDistortion, Pad, PadMode,
        PaddingMode, RandomAffine, RandomCrop, RandomHorizontalFlip, RandomPatchShuffle, RandomPerspective,
        RandomResize, RandomResizedCrop, RandomRotate, RandomRotateObject, RandomRotation,
        RandomShortestSize, RandomTranslate, RandomVerticalFlip, RandomZoom, RandomZoomOut, Resize,
        ResizedCenterCrop, ScaleJitter, TenCrop,
    };
    pub use super::label::ReplaceLabel;
    pub use super::pixel::{
        BackgroundKind, CircularMask, CoarseDropout, Cutout, Defocus, EraseMode, EraseValue, FadeMode,
        GaussianBlur, GaussianNoise, GridMask, JPEG, MotionBlur, Normalize, PILGaussianBlur, Poison,
        PowerLawNoise, RandomBackgroundBlend, RandomEmbed, RandomErasing, SaltAndPepper,
    };
    pub use super::policy::{
        AugMix, AutoAugment, AutoAugmentPolicy, Compose, Dialect, RandAugment, RandomApply, RandomChoice,
        RandomOrder, Schedule, SomeOf, ThreeAugment, TrivialAugmentWide, Yoked,
    };
}

use ops::*;

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
    /// The mean of the pixels covered, as Pillow's `BOX`.
    Box,
    /// Three lobes, widened when shrinking, as Pillow's `LANCZOS`.
    Lanczos,
}

impl Interpolation {
    pub(crate) fn filter(self) -> Filter {
        match self {
            Interpolation::Bilinear => Filter::Bilinear,
            Interpolation::Bicubic => Filter::Bicubic,
            Interpolation::Nearest => Filter::Nearest,
            Interpolation::Box => Filter::Box,
            Interpolation::Lanczos => Filter::Lanczos,
        }
    }
}

/// Whose pixels an operation gives, where torchvision's two backends differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Like {
    /// Those of PIL images.
    #[default]
    Pil,
    /// Those of tensors of bytes.
    Tensor,
}

impl Like {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn is_pil(&self) -> bool {
        *self == Like::Pil
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

/// From one list: the enum, its names, its JSON and who does what.
macro_rules! list_of_ops {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One operation on an image. Sizes are (height, width) as in torchvision.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op")]
        #[non_exhaustive]
        pub enum Transform {
            $($(#[$doc])* $name($name),)*
        }

        impl Transform {
            /// Every operation's name, as users write it.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Its name, as users write it.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Transform::$name(_) => stringify!($name),)*
                }
            }

            fn op(&self) -> &dyn Op {
                match self {
                    $(Transform::$name(op) => op,)*
                }
            }
        }

        $(impl From<$name> for Transform {
            fn from(op: $name) -> Self {
                Transform::$name(op)
            }
        })*
    };
}

list_of_ops! {
    /// A random box of random area and aspect, resized.
    RandomResizedCrop,
    /// To a fixed size, or so that the shorter side gets a length.
    Resize,
    /// The middle; smaller images are padded with black.
    CenterCrop,
    /// A square box in the middle, resized: FFCV's validation crop.
    ResizedCenterCrop,
    /// A random box of fixed size.
    RandomCrop,
    /// Adds pixels on the left, top, right and bottom.
    Pad,
    /// The middle of the image at the nearest of several aspect ratios, resized to that ratio's size.
    BucketResize,
    /// Mirrors left and right with probability `p`.
    RandomHorizontalFlip,
    /// Mirrors top and bottom with probability `p`.
    RandomVerticalFlip,
    /// Turns by a random angle.
    RandomRotation,
    /// Turns, moves, scales and shears at random.
    RandomAffine,
    /// Looks at the image from a random side, with probability `p`.
    RandomPerspective,
    /// Pixels pushed about by a smooth random field.
    ElasticTransform,
    /// A lens that bulges or pinches.
    OpticalDistortion,
    /// Turns about a place, in units of the image, with probability `p`.
    RandomRotate,
    /// Zooms about a place, with probability `p`.
    RandomZoom,
    /// Turns, zooms and moves an object, with probability `p`.
    RandomRotateObject,
    /// A larger canvas with the image somewhere on it.
    RandomZoomOut,
    /// Moved by a few pixels: FFCV's.
    RandomTranslate,
    /// As large as fits a size, times a random factor.
    ScaleJitter,
    /// One of several lengths for the shorter side.
    RandomShortestSize,
    /// A random length for the shorter side.
    RandomResize,
    /// The whole image inside a size, with bars.
    Letterbox,
    /// Square pieces in random order.
    RandomPatchShuffle,
    /// Four corners and the middle.
    FiveCrop,
    /// The same, and mirrored.
    TenCrop,
    /// Brightness, contrast, saturation and hue in random order.
    ColorJitter,
    /// Grey in one or three channels.
    Grayscale,
    /// Grey with probability `p`.
    RandomGrayscale,
    /// Channels in random order.
    RandomChannelPermutation,
    /// SSD's mixture of colour changes.
    RandomPhotometricDistort,
    /// 255 minus every value, with probability `p`.
    RandomInvert,
    /// Fewer bits per channel, with probability `p`.
    RandomPosterize,
    /// Inverts values from a threshold on, with probability `p`.
    RandomSolarize,
    /// A flat histogram, with probability `p`.
    RandomEqualize,
    /// Black to white, with probability `p`.
    RandomAutocontrast,
    /// Sharper or smoother, with probability `p`.
    RandomAdjustSharpness,
    /// Every value times a random factor, with probability `p`.
    RandomBrightness,
    /// More or less contrast, with probability `p`.
    RandomContrast,
    /// More or less colour, with probability `p`.
    RandomSaturation,
    /// Around the colour circle, with probability `p`.
    RandomHue,
    /// A random exponent, with probability `p`.
    RandomGamma,
    /// Hue, saturation, value and contrast in floats, with probability `p`.
    RandomColorJitterHSV,
    /// One random colour matrix, with probability `p`.
    RandomColorJitterYIQ,
    /// Levels added to each channel, with probability `p`.
    RGBShift,
    /// Some channels become one value, with probability `p`.
    ChannelDropout,
    /// Adaptive equalisation, with probability `p`.
    CLAHE,
    /// Gaussian blur with a random width.
    GaussianBlur,
    /// Pillow's Gaussian blur with a random radius.
    PILGaussianBlur,
    /// As if the camera had moved, with probability `p`.
    MotionBlur,
    /// Out of focus, with probability `p`.
    Defocus,
    /// Normal noise on every value.
    GaussianNoise,
    /// Black and white pixels, with probability `p`.
    SaltAndPepper,
    /// Noise like clouds over the image, with probability `p`.
    PowerLawNoise,
    /// Through JPEG of random quality and back.
    JPEG,
    /// One square without pixels: FFCV's.
    Cutout,
    /// Several boxes without pixels, with probability `p`.
    CoarseDropout,
    /// A grid of squares without pixels, with probability `p`.
    GridMask,
    /// A disc with a soft edge.
    CircularMask,
    /// The image somewhere on a canvas.
    RandomEmbed,
    /// The image faded into a background.
    RandomBackgroundBlend,
    /// A pattern blended into chosen samples: FFCV's.
    Poison,
    /// A box of one colour or of noise, with probability `p`.
    RandomErasing,
    /// Subtracts `mean` and divides by `std`, channel by channel.
    Normalize,
    /// Five colour-opponent channels.
    RGBToLGN,
    /// Two channels: light on dark, dark on light.
    RGBToMagno,
    /// Another label for chosen samples: FFCV's.
    ReplaceLabel,
    /// Several, one after the other.
    Compose,
    /// Several, one after the other, or none of them.
    RandomApply,
    /// One of several.
    RandomChoice,
    /// Several, in random order.
    RandomOrder,
    /// A number of several, in random order.
    SomeOf,
    /// Other transforms in other epochs.
    Schedule,
    /// One of 25 learned pairs.
    AutoAugment,
    /// A number of random operations of one strength.
    RandAugment,
    /// One random operation of random strength.
    TrivialAugmentWide,
    /// Chains of random operations, mixed with the image.
    AugMix,
    /// Grey, solarised or blurred, then colour jitter.
    ThreeAugment,
    /// The draws of another view.
    Yoked,
}

impl Transform {
    /// What it is in this epoch: a [`Schedule`] is the step that holds then.
    pub(crate) fn at_epoch(&self, epoch: u64) -> Self {
        match self {
            Transform::Schedule(schedule) => Compose { transforms: schedule.at(epoch).to_vec() }.into(),
            other => other.clone(),
        }
    }

    /// The epochs from which on it changes.
    pub(crate) fn changes(&self) -> impl Iterator<Item = u64> {
        let steps = if let Transform::Schedule(schedule) = self { &schedule.steps[..] } else { &[] };
        steps.iter().map(|(first, _)| *first)
    }

    /// `RandomResizedCrop` to a square, with torchvision's defaults.
    pub fn random_resized_crop(side: u32) -> Self {
        RandomResizedCrop::square(side).into()
    }

    /// `Resize` of the shorter side.
    pub fn resize_shorter(side: u32) -> Self {
        Resize { shorter: Some(side), ..Resize::default() }.into()
    }

    /// `CenterCrop` to a square.
    pub fn center_crop(side: u32) -> Self {
        CenterCrop { size: (side, side) }.into()
    }

    /// `RandomHorizontalFlip` with probability one half.
    pub fn random_horizontal_flip() -> Self {
        RandomHorizontalFlip { p: 0.5 }.into()
    }

    /// `Normalize` with ImageNet's mean and standard deviation.
    pub fn normalize_imagenet() -> Self {
        Normalize { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }.into()
    }
}
