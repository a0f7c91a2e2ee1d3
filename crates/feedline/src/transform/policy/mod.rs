//! Operations that contain or choose operations.

mod augmix;
mod auto_augment;
mod lists;
mod schedule;
mod space;
mod three_augment;
mod timm;
mod yoked;

pub use augmix::*;
pub use auto_augment::*;
pub use lists::*;
pub use schedule::*;
pub use three_augment::*;
pub use yoked::*;
