//! Geometric operations.

mod boxes;
mod canvas;
pub(super) mod crop;
mod crops;
mod elastic;
mod flip;
mod iou_crop;
mod lens;
mod pad;
mod patches;
mod perspective;
mod resize;
mod rotate;
mod sampled;
mod sizes;
mod turn;
mod warp;

pub use canvas::*;
pub use crop::*;
pub use crops::*;
pub use elastic::*;
pub use flip::*;
pub use iou_crop::*;
pub use lens::*;
pub use pad::*;
pub use patches::*;
pub use perspective::*;
pub use resize::*;
pub use rotate::*;
pub use sampled::*;
pub use sizes::*;
pub use turn::*;
pub(crate) use warp::*;

use super::op::Form;
use feedline_pixels::Size;

/// A form of this (height, width).
fn of_size(before: Form, (height, width): (u32, u32)) -> Form {
    Form { size: Some(Size::new(width, height)), ..before }
}
