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

pub use canvas::{RandomTranslate, RandomZoomOut};
pub use crop::{CenterCrop, RandomCrop};
pub use crops::{FiveCrop, TenCrop};
pub use elastic::ElasticTransform;
pub use flip::{RandomHorizontalFlip, RandomVerticalFlip};
pub use iou_crop::RandomIoUCrop;
pub use lens::OpticalDistortion;
pub use pad::{Pad, PaddingMode};
pub use patches::RandomPatchShuffle;
pub use perspective::RandomPerspective;
pub use resize::{BucketResize, RandomResizedCrop, Resize, ResizedCenterCrop};
pub use rotate::{RandomAffine, RandomRotation};
pub use sampled::PadMode;
pub use sizes::{Letterbox, RandomResize, RandomShortestSize, ScaleJitter};
pub use turn::{RandomRotate, RandomRotateObject, RandomZoom};

pub(crate) use crop::Crop;
pub(crate) use flip::{HorizontalFlip, VerticalFlip};
pub(crate) use iou_crop::KeepBoxes;
pub(crate) use pad::PadBorder;
pub(crate) use patches::ShufflePatches;
pub(crate) use resize::Resized;
pub(crate) use rotate::{Affine, rotation};
pub(crate) use sampled::Sampled;
pub(crate) use warp::Warped;

use super::op::Form;
use feedline_pixels::Size;

/// A form of this (height, width).
fn of_size(before: Form, (height, width): (u32, u32)) -> Form {
    Form { size: Some(Size::new(width, height)), ..before }
}
