//! Colour operations.

mod channels;
mod clahe;
mod gray;
mod histogram;
mod jitter;
mod opponent;
mod sharpness;
mod shift;
mod single;
mod table;
mod twist;

pub use channels::RandomChannelPermutation;
pub use clahe::CLAHE;
pub use gray::{Grayscale, RandomGrayscale};
pub use histogram::{RandomAutocontrast, RandomEqualize};
pub use jitter::{ColorJitter, RandomPhotometricDistort};
pub use opponent::{RGBToLGN, RGBToMagno};
pub use sharpness::RandomAdjustSharpness;
pub use shift::{ChannelDropout, RGBShift};
pub use single::{RandomBrightness, RandomContrast, RandomGamma, RandomHue, RandomSaturation};
pub use table::{RandomInvert, RandomPosterize, RandomSolarize};
pub use twist::{RandomColorJitterHSV, RandomColorJitterYIQ};

pub(crate) use channels::PermuteChannels;
pub(crate) use clahe::EqualizeTiles;
pub(crate) use gray::Gray;
pub(crate) use histogram::{Autocontrast, Equalize};
pub(crate) use jitter::{Brightness, Contrast, Hue, Saturation};
pub(crate) use opponent::Opposed;
pub(crate) use sharpness::Sharpness;
pub(crate) use shift::ShiftChannels;
pub(crate) use single::Gamma;
pub(crate) use table::{Invert, Posterize, Solarize, SolarizeAdd};
pub(crate) use twist::{TwistHsv, TwistYiq};
