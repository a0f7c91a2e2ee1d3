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

pub use channels::*;
pub use clahe::*;
pub use gray::*;
pub use histogram::*;
pub use jitter::*;
pub use opponent::*;
pub use sharpness::*;
pub use shift::*;
pub use single::*;
pub use table::*;
pub use twist::*;
