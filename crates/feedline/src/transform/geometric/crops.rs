//! `FiveCrop`, `TenCrop`: several crops of one image, which become a dimension of the result.

use feedline_pixels::{Size, Window};
use serde::{Deserialize, Serialize};

use super::crop::Crop;
use super::flip::{HorizontalFlip, VerticalFlip};
use super::of_size;
use crate::transform::op::{Form, Op, check_size};
use crate::transform::params::{Params, Place};

/// Crops the four corners and the centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiveCrop {
    /// Height and width of each.
    pub size: (u32, u32),
}

/// The same crops, and all of them mirrored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenCrop {
    /// Height and width of each.
    pub size: (u32, u32),
    /// Mirrored top to bottom instead of left to right.
    #[serde(default)]
    pub vertical_flip: bool,
}

fn several(before: Form, size: (u32, u32), copies: u32) -> Result<Form, String> {
    if before.copies > 1 {
        return Err("only one FiveCrop or TenCrop is allowed in a list".to_owned());
    }
    Ok(Form { copies, ..of_size(before, size) })
}

fn push(into: &mut Params, (height, width): (u32, u32), which: u32) -> Result<(), String> {
    let image = into.size();
    if image.width < width || image.height < height {
        return Err(format!(
            "{height}x{width} does not fit an image of {}x{} (height x width)",
            image.height, image.width
        ));
    }
    let (right, bottom) = ((image.width - width) as i32, (image.height - height) as i32);
    let size = Size::new(width, height);
    let window = match which {
        0 => Window::new(0, 0, width, height),
        1 => Window::new(right, 0, width, height),
        2 => Window::new(0, bottom, width, height),
        3 => Window::new(right, bottom, width, height),
        _ => Window::center(image, size),
    };
    into.push(Crop::window(window, [0; 3]));
    Ok(())
}

impl Op for FiveCrop {
    fn check(&self) -> Result<(), String> {
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        several(before, self.size, 5)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        push(into, self.size, place.copy())
    }
}

impl Op for TenCrop {
    fn check(&self) -> Result<(), String> {
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        several(before, self.size, 10)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        // torchvision mirrors the image and then crops, so corners change sides.
        if place.copy() >= 5 {
            if self.vertical_flip {
                into.push(VerticalFlip {});
            } else {
                into.push(HorizontalFlip {});
            }
        }
        push(into, self.size, place.copy() % 5)
    }
}
