//! TRANSFORMS.
//!
//! ```text
//! Transform  ──check, output──►  Plan       once: the list is sound, the result's form is known
//! Transform  ──draw(key)──────►  Params     per sample: what is to be done, drawn, complete, JSON
//! Params     ──plan───────────►  Program    per sample: as few passes over the pixels as possible
//! ```
//!
//! A [`Transform`] is data: name and parameters, as in torchvision. Drawing gives `Params`: a list of concrete
//! `Action`s without randomness, which can be stored and repeated. Planning joins neighbours into a `Program`, nearly
//! always of one segment: decode this box, resize it, take this window, flip. `render/` runs it.
//!
//! An operation is one file with its parameters, checks, draws and actions, and one line in the list below. Random
//! parameters are drawn from (seed, epoch, sample, place in the list, view) and from nothing else.

mod action;
mod array;
mod audio;
mod clip;
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
mod tokens;

use feedline_pixels::Filter;
use serde::{Deserialize, Serialize};

pub(crate) use action::Action;
pub(crate) use array::copy_window;
pub(crate) use clip::Times;
pub(crate) use geometric::crop::nearest_ratio;
pub use group::{BoxFormat, Boxes, Role, Target};
pub(crate) use group::{Mover, moving, read_boxes, refusal, write_box};
pub use mix::{
    BatchTransform, CopyPaste, CutMix, LabelSmoothing, MixChoice, MixDialect, MixUp, Mosaic, OneHot, Per,
};
pub(crate) use mix::{MixAction, MixKey, Soft};
pub(crate) use params::{Params, Place, SampleKey};
pub(crate) use plan::{ImagePlan, finish};
pub(crate) use program::{Chain, Program, Segment};

use op::Op;

/// The parameters of every operation.
pub mod ops {
    pub use super::array::{ArrayPad, ArrayPolicy, ArrayWindow};
    pub use super::audio::{
        AmplitudeToDB, AudioPad, AudioPolicy, AudioWindow, BackgroundNoise, FrequencyMasking, MelScaleName,
        MelSpectrogram, Mono, RandomGain, RandomNoise, Resample, TimeMasking,
    };
    pub use super::clip::{Clip, ClipPolicy, PastEnd};
    pub use super::colour::*;
    pub use super::geometric::*;
    pub use super::label::ReplaceLabel;
    pub use super::pixel::*;
    pub use super::policy::*;
    pub use super::tokens::{TokenWindow, WindowPolicy};
}

use ops::*;

/// Interpolation when resizing.
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

/// Whose pixels to match, if torchvision's two backends differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Like {
    /// torchvision's for PIL images.
    #[default]
    Pil,
    /// torchvision's for tensors of bytes.
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
    /// torchvision's: up to ten tries, then the centre.
    #[default]
    Torchvision,
    /// Without tries: the ratio first, then an area that fits it, then the position.
    Direct,
}

/// Makes the enum, its names, its JSON and the dispatch from one list.
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

            /// Name as users write it.
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
    /// Crops a random box of random area and aspect ratio, and resizes it.
    RandomResizedCrop,
    /// Resizes to a fixed size, or the shorter side to a length.
    Resize,
    /// Crops the centre; smaller images are padded with black.
    CenterCrop,
    /// Crops a square in the centre and resizes it: FFCV's validation crop.
    ResizedCenterCrop,
    /// Crops a random box of fixed size.
    RandomCrop,
    /// Adds pixels on the left, top, right and bottom.
    Pad,
    /// Crops the centre to the nearest of several aspect ratios and resizes it to that ratio's size.
    BucketResize,
    /// Mirrors left and right with probability `p`.
    RandomHorizontalFlip,
    /// Mirrors top and bottom with probability `p`.
    RandomVerticalFlip,
    /// Rotates by a random angle.
    RandomRotation,
    /// Rotates, moves, scales and shears at random.
    RandomAffine,
    /// Applies a random perspective, with probability `p`.
    RandomPerspective,
    /// Displaces pixels by a smooth random field.
    ElasticTransform,
    /// A lens that bulges or pinches.
    OpticalDistortion,
    /// Rotates about a place, in units of the image, with probability `p`.
    RandomRotate,
    /// Zooms about a place, with probability `p`.
    RandomZoom,
    /// Rotates, zooms and moves an object, with probability `p`.
    RandomRotateObject,
    /// Puts the image on a larger canvas at a random place.
    RandomZoomOut,
    /// Moves by a few pixels, as in FFCV.
    RandomTranslate,
    /// Resizes to the largest size that fits, times a random factor.
    ScaleJitter,
    /// Resizes the shorter side to one of several lengths.
    RandomShortestSize,
    /// Resizes the shorter side to a random length.
    RandomResize,
    /// Fits the whole image into a size, with bars.
    Letterbox,
    /// Puts square patches in random order.
    RandomPatchShuffle,
    /// Crops by the overlap with the boxes.
    RandomIoUCrop,
    /// Crops four corners and the centre.
    FiveCrop,
    /// The same crops, and mirrored ones.
    TenCrop,
    /// Changes brightness, contrast, saturation and hue in random order.
    ColorJitter,
    /// Converts to grey in one or three channels.
    Grayscale,
    /// Converts to grey with probability `p`.
    RandomGrayscale,
    /// Puts channels in random order.
    RandomChannelPermutation,
    /// SSD's colour changes.
    RandomPhotometricDistort,
    /// Subtracts every value from 255, with probability `p`.
    RandomInvert,
    /// Reduces the bits per channel, with probability `p`.
    RandomPosterize,
    /// Inverts values from a threshold on, with probability `p`.
    RandomSolarize,
    /// Equalises the histogram, with probability `p`.
    RandomEqualize,
    /// Stretches from black to white, with probability `p`.
    RandomAutocontrast,
    /// Sharpens or smooths, with probability `p`.
    RandomAdjustSharpness,
    /// Multiplies every value by a random factor, with probability `p`.
    RandomBrightness,
    /// Changes the contrast, with probability `p`.
    RandomContrast,
    /// Changes the saturation, with probability `p`.
    RandomSaturation,
    /// Rotates the hue, with probability `p`.
    RandomHue,
    /// Applies a random gamma, with probability `p`.
    RandomGamma,
    /// Changes hue, saturation, value and contrast in floats, with probability `p`.
    RandomColorJitterHSV,
    /// Applies one random colour matrix, with probability `p`.
    RandomColorJitterYIQ,
    /// Adds levels to each channel, with probability `p`.
    RGBShift,
    /// Sets some channels to one value, with probability `p`.
    ChannelDropout,
    /// Adaptive equalisation, with probability `p`.
    CLAHE,
    /// Gaussian blur with a random width.
    GaussianBlur,
    /// Pillow's Gaussian blur with a random radius.
    PILGaussianBlur,
    /// Blurs as if the camera had moved, with probability `p`.
    MotionBlur,
    /// Blurs as if out of focus, with probability `p`.
    Defocus,
    /// Adds normal noise to every value.
    GaussianNoise,
    /// Makes some pixels black or white, with probability `p`.
    SaltAndPepper,
    /// Blends power-law noise over the image, with probability `p`.
    PowerLawNoise,
    /// Compresses as JPEG of random quality and decompresses.
    JPEG,
    /// Fills one square, as in FFCV.
    Cutout,
    /// Fills several boxes, with probability `p`.
    CoarseDropout,
    /// Fills a grid of squares, with probability `p`.
    GridMask,
    /// Shows a disc with a soft edge.
    CircularMask,
    /// Puts the image at a random place on a canvas.
    RandomEmbed,
    /// Fades the image into a background.
    RandomBackgroundBlend,
    /// Blends a pattern into chosen samples, as in FFCV.
    Poison,
    /// Fills a box with one colour or noise, with probability `p`.
    RandomErasing,
    /// Subtracts `mean` and divides by `std`, channel by channel.
    Normalize,
    /// Five colour-opponent channels.
    RGBToLGN,
    /// Two channels: light on dark, dark on light.
    RGBToMagno,
    /// Sets another label for chosen samples, as in FFCV.
    ReplaceLabel,
    /// Cuts windows out of a stream of tokens.
    TokenWindow,
    /// Adds noise from recordings.
    BackgroundNoise,
    /// Windows of an n-d array.
    ArrayWindow,
    /// Decodes a window of audio.
    AudioWindow,
    /// Converts audio to another rate.
    Resample,
    /// Averages the channels of audio.
    Mono,
    /// Makes audio louder or softer, with probability `p`.
    RandomGain,
    /// Adds normal noise to audio, with probability `p`.
    RandomNoise,
    /// A spectrogram of audio on the mel scale.
    MelSpectrogram,
    /// Values of a spectrogram as decibels.
    AmplitudeToDB,
    /// Sets a random band of a spectrogram to zero.
    FrequencyMasking,
    /// Sets a random stretch of time of a spectrogram to zero.
    TimeMasking,
    /// Decodes some frames of a video.
    Clip,
    /// Applies several, one after the other.
    Compose,
    /// Applies several, one after the other, or none of them.
    RandomApply,
    /// Applies one of several.
    RandomChoice,
    /// Applies several, in random order.
    RandomOrder,
    /// Applies a number of several, in random order.
    SomeOf,
    /// Other transforms in other epochs.
    Schedule,
    /// Applies one of 25 learned pairs of operations.
    AutoAugment,
    /// Applies a number of random operations of one strength.
    RandAugment,
    /// Applies one random operation of random strength.
    TrivialAugmentWide,
    /// Mixes chains of random operations with the image.
    AugMix,
    /// Grey, solarised or blurred, then colour jitter.
    ThreeAugment,
    /// Uses the draws of another view.
    Yoked,
}

impl Transform {
    /// The transform in this epoch: a [`Schedule`] is replaced by its current step.
    pub(crate) fn at_epoch(&self, epoch: u64) -> Self {
        match self {
            Transform::Schedule(schedule) => Compose { transforms: schedule.at(epoch).to_vec() }.into(),
            other => other.clone(),
        }
    }

    /// Checks the parameters alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.op().check()
    }

    /// The epochs at which it changes.
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
