//! `CenterCrop`, `RandomCrop`.

use feedline_pixels::{Region, Size, Window};
use serde::{Deserialize, Serialize};

use super::pad::{self, PaddingMode};
use super::{boxes, of_size};
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_size};
use crate::transform::params::{Params, Place};

pub(crate) use super::boxes::nearest_ratio;

/// Crops the centre; smaller images are padded with black.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CenterCrop {
    /// Result's height and width.
    pub size: (u32, u32),
}

impl Op for CenterCrop {
    fn check(&self) -> Result<(), String> {
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(of_size(before, self.size))
    }

    fn draw(&self, _place: &Place, into: &mut Params) -> Result<(), String> {
        let size = Size::new(self.size.1, self.size.0);
        into.push(Crop::window(Window::center(into.size(), size), [0; 3]));
        Ok(())
    }
}

/// Crops a random box of fixed size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomCrop {
    /// Result's height and width.
    pub size: (u32, u32),
    /// Pixels added on the left, top, right and bottom first.
    #[serde(default)]
    pub padding: (u32, u32, u32, u32),
    /// Pad images that are too small instead of failing.
    #[serde(default)]
    pub pad_if_needed: bool,
    /// Colour of added pixels.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Content of added pixels.
    #[serde(default, skip_serializing_if = "PaddingMode::is_constant")]
    pub padding_mode: PaddingMode,
}

impl Op for RandomCrop {
    fn check(&self) -> Result<(), String> {
        pad::check_padding(self.padding)?;
        check_size(self.size)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(of_size(before, self.size))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (height, width) = self.size;
        pad::push(into, self.padding, self.padding_mode, self.fill)?;
        if self.pad_if_needed {
            // torchvision pads both sides by the whole difference, then crops at random.
            let image = into.size();
            let (dx, dy) = (width.saturating_sub(image.width), height.saturating_sub(image.height));
            pad::push(into, (dx, dy, dx, dy), self.padding_mode, self.fill)?;
        }
        let image = into.size();
        if image.width < width || image.height < height {
            return Err(format!(
                "{height}x{width} does not fit an image of {}x{} (height x width); pad_if_needed=True pads",
                image.height, image.width
            ));
        }
        let part = boxes::place(image, width, height, &mut place.draw());
        into.push(Crop::region(part).with_fill(self.fill));
        Ok(())
    }
}

/// A box, which may extend beyond the image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crop {
    left: i32,
    top: i32,
    width: u32,
    height: u32,
    fill: [u8; 3],
}

impl Crop {
    pub(super) fn window(window: Window, fill: [u8; 3]) -> Self {
        let Window { x, y, width, height } = window;
        Crop { left: x, top: y, width, height, fill }
    }

    pub(super) fn region(region: Region) -> Self {
        let Region { x, y, width, height } = region;
        Crop { left: x as i32, top: y as i32, width, height, fill: [0; 3] }
    }

    fn with_fill(self, fill: [u8; 3]) -> Self {
        Crop { fill, ..self }
    }
}

impl Act for Crop {
    fn check(&self, _before: Size) -> Result<(), String> {
        let near = |offset: i32| offset.unsigned_abs() <= 1 << 20;
        if !near(self.left) || !near(self.top) {
            return Err(format!("Crop at ({}, {}) is too far outside", self.top, self.left));
        }
        check_size((self.height, self.width))
    }

    fn output(&self, _before: Size) -> Size {
        Size::new(self.width, self.height)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.crop(Window::new(self.left, self.top, self.width, self.height), self.fill);
    }
}
