//! Operations on values and neighbourhoods.

mod blur;
mod erasing;
mod holes;
mod jpeg;
mod kernels;
mod noise;
mod normalize;
mod pil_blur;
mod poison;
mod scene;

pub use blur::GaussianBlur;
pub use erasing::{EraseMode, EraseValue, RandomErasing};
pub use holes::{CoarseDropout, Cutout, GridMask};
pub use jpeg::JPEG;
pub use kernels::{Defocus, MotionBlur};
pub use noise::{GaussianNoise, SaltAndPepper};
pub use normalize::Normalize;
pub use pil_blur::PILGaussianBlur;
pub use poison::Poison;
pub use scene::{BackgroundKind, CircularMask, FadeMode, PowerLawNoise, RandomBackgroundBlend, RandomEmbed};

pub(crate) use blur::Blur;
pub(crate) use erasing::Erase;
pub(crate) use holes::{Grid, Holes};
pub(crate) use jpeg::Recompress;
pub(crate) use kernels::{Disc, Smear};
pub(crate) use noise::{AddNoise, Sprinkle};
pub(crate) use pil_blur::BoxBlur;
pub(crate) use poison::Blended;
pub(crate) use scene::Composed;
