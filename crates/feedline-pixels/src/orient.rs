//! The eight EXIF orientations, for sizes, boxes and pixels.
//!
//! There are two coordinate systems: *stored*, as pixels are in the file, and *upright*, as people see them. An
//! orientation is described by three flags: axes swapped, stored x mirrored, stored y mirrored.

use crate::{ImageRef, Region, Result, Size, fit};

/// How stored pixels must be rotated to be upright, numbered as in EXIF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Orientation {
    /// 1: as stored.
    #[default]
    Upright = 1,
    /// 2: mirror left and right.
    MirrorHorizontal = 2,
    /// 3: half a turn.
    Turn180 = 3,
    /// 4: mirror top and bottom.
    MirrorVertical = 4,
    /// 5: mirror along the main diagonal.
    Transpose = 5,
    /// 6: a quarter turn clockwise.
    Turn90 = 6,
    /// 7: mirror along the other diagonal.
    Transverse = 7,
    /// 8: a quarter turn counter-clockwise.
    Turn270 = 8,
}

impl Orientation {
    /// All eight, in EXIF's order.
    pub const ALL: [Orientation; 8] = [
        Orientation::Upright,
        Orientation::MirrorHorizontal,
        Orientation::Turn180,
        Orientation::MirrorVertical,
        Orientation::Transpose,
        Orientation::Turn90,
        Orientation::Transverse,
        Orientation::Turn270,
    ];

    /// From EXIF's number; anything but 2..=8 is upright, as in Pillow.
    pub fn from_exif(number: u32) -> Self {
        let index = number.wrapping_sub(1) as usize;
        Self::ALL.get(index).copied().unwrap_or_default()
    }

    /// Whether upright rows are stored columns.
    pub const fn swaps_axes(self) -> bool {
        self as u8 >= 5
    }

    /// Whether the stored x axis runs backwards.
    const fn mirrors_x(self) -> bool {
        matches!(
            self,
            Orientation::MirrorHorizontal
                | Orientation::Turn180
                | Orientation::Transverse
                | Orientation::Turn270
        )
    }

    /// Whether the stored y axis runs backwards.
    const fn mirrors_y(self) -> bool {
        matches!(
            self,
            Orientation::Turn180
                | Orientation::MirrorVertical
                | Orientation::Turn90
                | Orientation::Transverse
        )
    }

    /// Size of the upright image from the stored one, or the reverse.
    pub const fn turn_size(self, size: Size) -> Size {
        if self.swaps_axes() { Size::new(size.height, size.width) } else { size }
    }

    /// The stored box that contains an upright box. `stored` is the stored image's size.
    pub const fn to_stored(self, upright: Region, stored: Size) -> Region {
        let box_ = if self.swaps_axes() { swap(upright) } else { upright };
        self.mirror(box_, stored)
    }

    /// The upright box that contains a stored box. `stored` is the stored image's size.
    pub const fn to_upright(self, box_: Region, stored: Size) -> Region {
        let mirrored = self.mirror(box_, stored);
        if self.swaps_axes() { swap(mirrored) } else { mirrored }
    }

    const fn mirror(self, mut box_: Region, stored: Size) -> Region {
        if self.mirrors_x() {
            box_.x = stored.width - box_.right();
        }
        if self.mirrors_y() {
            box_.y = stored.height - box_.bottom();
        }
        box_
    }

    /// Writes the upright pixels into `scratch` and returns them; returns the stored pixels if they are upright
    /// already.
    pub fn apply<'a>(self, image: ImageRef<'a>, scratch: &'a mut Vec<u8>) -> Result<ImageRef<'a>> {
        if self == Orientation::Upright {
            return Ok(image);
        }
        let size = self.turn_size(image.size);
        fit(scratch, size.area() as usize * image.layout.bytes(), 0)?;
        match image.layout.bytes() {
            1 => self.turn::<1>(image, scratch),
            2 => self.turn::<2>(image, scratch),
            3 => self.turn::<3>(image, scratch),
            4 => self.turn::<4>(image, scratch),
            bytes => self.turn_large(image, bytes, scratch),
        }
        Ok(ImageRef {
            bytes: scratch,
            size,
            stride: size.width as usize * image.layout.bytes(),
            layout: image.layout,
        })
    }

    /// Works on squares of 16 × 16 pixels: with swapped axes, every pixel of an upright row comes from another stored
    /// row, and 16 of those lines fit in the L1 cache, while a whole column does not.
    fn turn<const BYTES: usize>(self, image: ImageRef<'_>, out: &mut [u8]) {
        const SQUARE: usize = 16;
        let size = self.turn_size(image.size);
        let (width, height) = (size.width as usize, size.height as usize);
        for top in (0..height).step_by(SQUARE) {
            for left in (0..width).step_by(SQUARE) {
                for y in top..(top + SQUARE).min(height) {
                    let end = (left + SQUARE).min(width);
                    let row = &mut out[(y * width + left) * BYTES..(y * width + end) * BYTES];
                    for (x, pixel) in (left..end).zip(row.chunks_exact_mut(BYTES)) {
                        let at = self.stored_offset::<BYTES>(x, y, image);
                        pixel.copy_from_slice(&image.bytes[at..at + BYTES]);
                    }
                }
            }
        }
    }

    /// Pixels of any size.
    fn turn_large(self, image: ImageRef<'_>, bytes: usize, out: &mut [u8]) {
        let width = self.turn_size(image.size).width as usize;
        for (place, pixel) in out.chunks_exact_mut(bytes).enumerate() {
            let (x, y) = self.stored_place(place % width, place / width, image.size);
            let at = y * image.stride + x * bytes;
            pixel.copy_from_slice(&image.bytes[at..at + bytes]);
        }
    }

    #[inline]
    fn stored_offset<const BYTES: usize>(self, x: usize, y: usize, image: ImageRef<'_>) -> usize {
        let (x, y) = self.stored_place(x, y, image.size);
        y * image.stride + x * BYTES
    }

    #[inline]
    fn stored_place(self, x: usize, y: usize, stored: Size) -> (usize, usize) {
        let (x, y) = if self.swaps_axes() { (y, x) } else { (x, y) };
        let x = if self.mirrors_x() { stored.width as usize - 1 - x } else { x };
        let y = if self.mirrors_y() { stored.height as usize - 1 - y } else { y };
        (x, y)
    }
}

const fn swap(region: Region) -> Region {
    Region { x: region.y, y: region.x, width: region.height, height: region.width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    /// A 3 × 2 image whose pixels are numbered 0 1 2 / 3 4 5, and its `ImageOps.exif_transpose`.
    #[test]
    fn orientations_equal_pillow() {
        let pixels: Vec<u8> = (0..6).flat_map(|n| [n, n, n]).collect();
        let image = ImageRef::new(&pixels, Size::new(3, 2), 9, PixelLayout::Rgb).unwrap();
        let expected: [&[u8]; 8] = [
            &[0, 1, 2, 3, 4, 5],
            &[2, 1, 0, 5, 4, 3],
            &[5, 4, 3, 2, 1, 0],
            &[3, 4, 5, 0, 1, 2],
            &[0, 3, 1, 4, 2, 5],
            &[3, 0, 4, 1, 5, 2],
            &[5, 2, 4, 1, 3, 0],
            &[2, 5, 1, 4, 0, 3],
        ];
        for (orientation, expected) in Orientation::ALL.into_iter().zip(expected) {
            let mut scratch = Vec::new();
            let turned = orientation.apply(image, &mut scratch).unwrap();
            let got: Vec<u8> = turned.bytes.iter().step_by(3).copied().collect();
            assert_eq!(got, expected, "{orientation:?}");
            assert_eq!(turned.size, orientation.turn_size(image.size));
        }
    }

    #[test]
    fn boxes_rotate_with_their_pixels() {
        let stored = Size::new(7, 5);
        let pixels: Vec<u8> = (0..35).flat_map(|n| [n, 0, 0, 0]).collect();
        let image = ImageRef::new(&pixels, stored, 28, PixelLayout::Rgbx).unwrap();
        for orientation in Orientation::ALL {
            let upright = orientation.turn_size(stored);
            let wanted = Region::new(1, 2, 3, 2);
            wanted.check_inside(upright).unwrap();
            let region = orientation.to_stored(wanted, stored);
            assert_eq!(orientation.to_upright(region, stored), wanted);
            let (mut whole, mut part) = (Vec::new(), Vec::new());
            let expected = orientation.apply(image, &mut whole).unwrap().crop(wanted).unwrap();
            let got = orientation.apply(image.crop(region).unwrap(), &mut part).unwrap();
            for y in 0..2 {
                assert_eq!(got.row(y), expected.row(y), "{orientation:?}");
            }
        }
    }

    #[test]
    fn unknown_orientations_are_upright() {
        assert_eq!(Orientation::from_exif(0), Orientation::Upright);
        assert_eq!(Orientation::from_exif(9), Orientation::Upright);
        assert_eq!(Orientation::from_exif(6), Orientation::Turn90);
    }
}
