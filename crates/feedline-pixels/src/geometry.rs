//! Which source pixels become which output pixels: crop box, resized size, window, flips.
//!
//! Every classic recipe is one [`Geometry`]: `RandomResizedCrop` is a crop box resized to the output size;
//! `Resize` + `CenterCrop` is a window of the whole resized image; `RandomCrop(padding)` is a window that extends
//! beyond an image that is not resized.

use crate::resize::{Axis, Filter};
use crate::{Error, Region, Result, Size};

/// A box in the resized image. It may extend beyond any side; pixels outside are [`Geometry::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Left edge; negative when the window begins left of the image.
    pub x: i32,
    /// Upper edge; negative when the window begins above the image.
    pub y: i32,
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Window {
    /// The box with this corner and size.
    pub const fn new(x: i32, y: i32, width: u32, height: u32) -> Self {
        Window { x, y, width, height }
    }

    /// The whole image.
    pub const fn whole(size: Size) -> Self {
        Window { x: 0, y: 0, width: size.width, height: size.height }
    }

    /// The window that torchvision's `CenterCrop(size)` takes out of an image of size `of`: the offset is half the
    /// difference, rounded half to even; an image smaller than the window is padded, the odd pixel after it.
    pub fn center(of: Size, size: Size) -> Self {
        let offset = |image: u32, window: u32| {
            let (image, window) = (i64::from(image), i64::from(window));
            if image < window {
                return -((window - image) / 2);
            }
            let half = (image - window) / 2;
            let odd = (image - window) % 2;
            half + (odd & half)
        };
        let (x, y) = (offset(of.width, size.width), offset(of.height, size.height));
        Window { x: x as i32, y: y as i32, width: size.width, height: size.height }
    }

    /// Width and height.
    pub const fn size(self) -> Size {
        Size { width: self.width, height: self.height }
    }
}

/// Maps source pixels to output pixels: crop, then resize, then window, then flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Size of the source image.
    pub image: Size,
    /// Box of the source that is resized. Pixels outside it do not exist for the filter (torchvision's
    /// `RandomResizedCrop` crops first, then resizes).
    pub crop: Region,
    /// Size to which the crop box is resized.
    pub resized: Size,
    /// Part of the resized image that is returned; its size is the output's.
    pub window: Window,
    /// Red, green, blue of window pixels outside the resized image.
    pub fill: [u8; 3],
    /// Mirror left and right, last.
    pub flip_horizontal: bool,
    /// Mirror top and bottom, last.
    pub flip_vertical: bool,
}

/// Longest side that is accepted: positions then fit 32 bits, with space for filter margins.
pub(crate) const MAX_SIDE: u32 = 1 << 24;

impl Geometry {
    /// The unchanged image.
    pub const fn identity(image: Size) -> Self {
        Self::crop_resize(image, Region::whole(image), image)
    }

    /// `crop` of the image, resized to `size`: `RandomResizedCrop` with a given box.
    pub const fn crop_resize(image: Size, crop: Region, size: Size) -> Self {
        Geometry {
            image,
            crop,
            resized: size,
            window: Window::whole(size),
            fill: [0; 3],
            flip_horizontal: false,
            flip_vertical: false,
        }
    }

    /// The image resized to `resized`, and the centre `size` of it: `Resize` + `CenterCrop`.
    pub fn resize_center_crop(image: Size, resized: Size, size: Size) -> Self {
        Geometry {
            window: Window::center(resized, size),
            ..Self::crop_resize(image, Region::whole(image), resized)
        }
    }

    /// Sets whether the output is mirrored left to right.
    pub const fn with_flip_horizontal(mut self, flip: bool) -> Self {
        self.flip_horizontal = flip;
        self
    }

    /// Size of the output.
    pub const fn output(&self) -> Size {
        self.window.size()
    }

    /// Returns an error unless boxes are non-empty, the crop is inside the image and all sides are within the limit.
    pub fn check(&self) -> Result<()> {
        self.crop.check_inside(self.image)?;
        let sides =
            [("image", self.image), ("resized image", self.resized), ("output window", self.window.size())];
        for (name, size) in sides {
            let fits = |side: u32| (1..=MAX_SIDE).contains(&side);
            if !fits(size.width) || !fits(size.height) {
                return Err(Error::Misuse(format!(
                    "{name} of {}x{} pixels: sides must be between 1 and {MAX_SIDE}",
                    size.width, size.height
                )));
            }
        }
        let offsets = [self.window.x, self.window.y];
        if offsets.iter().any(|offset| offset.unsigned_abs() > MAX_SIDE) {
            return Err(Error::Misuse(format!(
                "window offset ({}, {}) is too far",
                self.window.x, self.window.y
            )));
        }
        Ok(())
    }

    /// The part of the window that the resized image covers, in coordinates of the resized image; `None` if the
    /// window is completely outside.
    pub fn covered(&self) -> Option<Region> {
        let clip = |start: i32, length: u32, limit: u32| {
            let first = i64::from(start).max(0);
            let last = (i64::from(start) + i64::from(length)).min(i64::from(limit));
            (last > first).then_some((first as u32, (last - first) as u32))
        };
        let (x, width) = clip(self.window.x, self.window.width, self.resized.width)?;
        let (y, height) = clip(self.window.y, self.window.height, self.resized.height)?;
        Some(Region { x, y, width, height })
    }

    /// The source pixels this output depends on, filter margins included; `None` if it is all fill. A decoder need
    /// not produce any others. The geometry must have passed [`check`](Self::check).
    pub fn needed(&self, filter: Filter) -> Option<Region> {
        let covered = self.covered()?;
        let horizontal = Axis::new(filter, self.crop.width, self.resized.width);
        let vertical = Axis::new(filter, self.crop.height, self.resized.height);
        let (left, right) = horizontal.span(covered.x, covered.right());
        let (top, bottom) = vertical.span(covered.y, covered.bottom());
        Some(Region::new(self.crop.x + left, self.crop.y + top, right - left, bottom - top))
    }

    /// Whether pixels are only copied: the crop box already has the resized size.
    pub fn is_copy(&self) -> bool {
        self.crop.size() == self.resized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn center_rounds_as_torchvision() {
        // int(round((height - crop) / 2.0)): 0.5 -> 0, 1.5 -> 2, 2.5 -> 2.
        let offset = |image, window| Window::center(Size::new(image, 9), Size::new(window, 9)).x;
        assert_eq!([offset(225, 224), offset(227, 224), offset(229, 224), offset(256, 224)], [0, 2, 2, 16]);
        // padding_left = (crop - width) // 2.
        assert_eq!([offset(223, 224), offset(221, 224), offset(100, 224)], [0, -1, -62]);
    }

    #[test]
    fn the_needed_region_stays_inside_the_crop() {
        let image = Size::new(500, 375);
        let crop = Region::new(100, 50, 300, 200);
        let geometry = Geometry::crop_resize(image, crop, Size::new(224, 224));
        assert_eq!(geometry.needed(Filter::Bilinear), Some(crop));
        let resized = Geometry::resize_center_crop(image, Size::new(341, 256), Size::new(224, 224));
        let needed = resized.needed(Filter::Bilinear).unwrap();
        assert!(needed.width < 340 && needed.width >= 328, "{needed:?}");
        assert!(needed.height < 340 && needed.height >= 328, "{needed:?}");
    }

    #[test]
    fn windows_outside_of_the_image_need_nothing() {
        let mut geometry = Geometry::identity(Size::new(10, 10));
        geometry.window = Window::new(-20, 0, 10, 10);
        assert_eq!(geometry.needed(Filter::Bilinear), None);
        geometry.window = Window::new(-4, 7, 10, 10);
        assert_eq!(geometry.covered(), Some(Region::new(0, 7, 6, 3)));
        assert_eq!(geometry.needed(Filter::Bicubic), Some(Region::new(0, 7, 6, 3)));
    }

    #[test]
    fn nonsense_is_refused() {
        let image = Size::new(10, 10);
        assert!(Geometry::identity(Size::new(0, 3)).check().is_err());
        assert!(Geometry::crop_resize(image, Region::new(5, 5, 6, 1), image).check().is_err());
        assert!(Geometry::crop_resize(image, Region::whole(image), Size::new(0, 1)).check().is_err());
        assert!(Geometry::identity(image).check().is_ok());
    }
}
