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

pub use blur::*;
pub use erasing::*;
pub use holes::*;
pub use jpeg::*;
pub use kernels::*;
pub use noise::*;
pub use normalize::*;
pub use pil_blur::*;
pub use poison::*;
pub use scene::*;
