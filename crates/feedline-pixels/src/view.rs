//! Borrowed views of pixels. They never own memory: scratch belongs to decoders, results to the batch.

use crate::{Error, Result};

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// `width` × `height`.
    pub const fn new(width: u32, height: u32) -> Self {
        Size { width, height }
    }

    /// Number of pixels.
    pub const fn area(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

/// A box of pixels inside an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Region {
    /// The box with this corner and size.
    pub const fn new(x: u32, y: u32, width: u32, height: u32) -> Self {
        Region { x, y, width, height }
    }

    /// The whole image.
    pub const fn whole(size: Size) -> Self {
        Region { x: 0, y: 0, width: size.width, height: size.height }
    }

    /// Width and height.
    pub const fn size(self) -> Size {
        Size { width: self.width, height: self.height }
    }

    /// One past the right edge.
    pub const fn right(self) -> u32 {
        self.x + self.width
    }

    /// One past the lower edge.
    pub const fn bottom(self) -> u32 {
        self.y + self.height
    }

    /// Returns an error unless the box is non-empty and inside an image of this size.
    pub fn check_inside(self, size: Size) -> Result<()> {
        let right = u64::from(self.x) + u64::from(self.width);
        let bottom = u64::from(self.y) + u64::from(self.height);
        let inside = self.width > 0
            && self.height > 0
            && right <= u64::from(size.width)
            && bottom <= u64::from(size.height);
        if inside {
            return Ok(());
        }
        Err(Error::Misuse(format!(
            "region {}x{} at ({}, {}) is empty or not inside an image of {}x{}",
            self.width, self.height, self.x, self.y, size.width, size.height
        )))
    }
}

/// Meaning of an image's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Channels {
    /// One: grey, 8 bits.
    Grey,
    /// Three: red, green, blue, 8 bits each.
    #[default]
    Rgb,
    /// Five colour-opponent channels: floats.
    Lgn,
    /// Two opponent channels: light on dark, dark on light.
    Magno,
}

impl Channels {
    /// Number of channels.
    pub const fn count(self) -> usize {
        match self {
            Channels::Grey => 1,
            Channels::Rgb => 3,
            Channels::Lgn => 5,
            Channels::Magno => 2,
        }
    }
}

/// Number type of a channel, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// Bytes.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// 32-bit floats.
    F32,
}

impl Number {
    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Number::U8 => 1,
            Number::U16 => 2,
            Number::I32 | Number::F32 => 4,
        }
    }
}

/// Layout of a pixel: its channels and the order of their bytes.
///
/// Decoders of photos and all filters work on the colour layouts ([`is_colour`](Self::is_colour)). The others contain
/// numbers that must not be blended (class indices) or that do not fit a byte; geometry moves them with
/// [`Nearest`](crate::Nearest), which works on every layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PixelLayout {
    /// One byte: a class, or an index into a palette.
    Index8,
    /// One byte: grey.
    Grey8,
    /// Two bytes in the machine's order: grey, or a class.
    Grey16,
    /// Four bytes: one 32-bit float.
    GreyF32,
    /// Three bytes: red, green, blue.
    Rgb,
    /// Four bytes: red, green, blue, and an unused one (255). Resizes faster than three bytes.
    Rgbx,
    /// Four bytes: red, green, blue, opacity.
    Rgba,
    /// Any other numbers: grey with opacity, colours of 16 bits, bands of a satellite.
    Many {
        /// Number of channels.
        channels: u8,
        /// Number type of the channels.
        number: Number,
    },
}

impl PixelLayout {
    /// All layouts, with two examples of `Many`, for tests.
    pub const ALL: [PixelLayout; 9] = [
        PixelLayout::Index8,
        PixelLayout::Grey8,
        PixelLayout::Grey16,
        PixelLayout::GreyF32,
        PixelLayout::Rgb,
        PixelLayout::Rgbx,
        PixelLayout::Rgba,
        PixelLayout::Many { channels: 2, number: Number::U8 },
        PixelLayout::Many { channels: 7, number: Number::U16 },
    ];

    /// Bytes per pixel.
    pub const fn bytes(self) -> usize {
        match self {
            PixelLayout::Index8 | PixelLayout::Grey8 => 1,
            PixelLayout::Grey16 => 2,
            PixelLayout::Rgb => 3,
            PixelLayout::Rgbx | PixelLayout::Rgba | PixelLayout::GreyF32 => 4,
            PixelLayout::Many { channels, number } => channels as usize * number.bytes(),
        }
    }

    /// Number of channels that carry information.
    pub const fn channels(self) -> usize {
        match self {
            PixelLayout::Index8 | PixelLayout::Grey8 | PixelLayout::Grey16 | PixelLayout::GreyF32 => 1,
            PixelLayout::Rgb | PixelLayout::Rgbx => 3,
            PixelLayout::Rgba => 4,
            PixelLayout::Many { channels, .. } => channels as usize,
        }
    }

    /// Number type of the channels.
    pub const fn number(self) -> Number {
        match self {
            PixelLayout::Grey16 => Number::U16,
            PixelLayout::GreyF32 => Number::F32,
            PixelLayout::Many { number, .. } => number,
            _ => Number::U8,
        }
    }

    /// Whether pixels begin with bytes of red, green and blue.
    pub const fn is_colour(self) -> bool {
        matches!(self, PixelLayout::Rgb | PixelLayout::Rgbx | PixelLayout::Rgba)
    }

    /// Returns an error unless pixels begin with bytes of red, green and blue.
    pub fn check_colour(self) -> Result<()> {
        if self.is_colour() {
            return Ok(());
        }
        Err(Error::Misuse(format!("pixels are {self:?} where red, green and blue bytes are needed")))
    }
}

/// Read-only pixels: `size.height` rows, each `stride` bytes after the one above.
#[derive(Clone, Copy, Debug)]
pub struct ImageRef<'a> {
    /// The bytes; the last row may be shorter than `stride`.
    pub bytes: &'a [u8],
    /// Width and height.
    pub size: Size,
    /// Bytes from one row's start to the next.
    pub stride: usize,
    /// Layout of a pixel.
    pub layout: PixelLayout,
}

impl<'a> ImageRef<'a> {
    /// Creates a view of `bytes`; returns an error if they are too few for the size.
    pub fn new(bytes: &'a [u8], size: Size, stride: usize, layout: PixelLayout) -> Result<Self> {
        check_length(bytes.len(), size, stride, layout)?;
        Ok(ImageRef { bytes, size, stride, layout })
    }

    /// The bytes of row `y`, exactly `width` pixels.
    pub fn row(&self, y: u32) -> &'a [u8] {
        let start = y as usize * self.stride;
        &self.bytes[start..start + self.size.width as usize * self.layout.bytes()]
    }

    /// The part inside `region`, without copying.
    pub fn crop(&self, region: Region) -> Result<ImageRef<'a>> {
        region.check_inside(self.size)?;
        let start = region.y as usize * self.stride + region.x as usize * self.layout.bytes();
        ImageRef::new(&self.bytes[start..], region.size(), self.stride, self.layout)
    }
}

/// Writable pixels; otherwise like [`ImageRef`].
#[derive(Debug)]
pub struct ImageMut<'a> {
    /// The bytes; the last row may be shorter than `stride`.
    pub bytes: &'a mut [u8],
    /// Width and height.
    pub size: Size,
    /// Bytes from one row's start to the next.
    pub stride: usize,
    /// Layout of a pixel.
    pub layout: PixelLayout,
}

impl<'a> ImageMut<'a> {
    /// Creates a view of `bytes`; returns an error if they are too few for the size.
    pub fn new(bytes: &'a mut [u8], size: Size, stride: usize, layout: PixelLayout) -> Result<Self> {
        check_length(bytes.len(), size, stride, layout)?;
        Ok(ImageMut { bytes, size, stride, layout })
    }

    /// The bytes of row `y`, exactly `width` pixels.
    pub fn row_mut(&mut self, y: u32) -> &mut [u8] {
        let start = y as usize * self.stride;
        let length = self.size.width as usize * self.layout.bytes();
        &mut self.bytes[start..start + length]
    }

    /// The same pixels, read-only.
    pub fn as_ref(&self) -> ImageRef<'_> {
        ImageRef { bytes: self.bytes, size: self.size, stride: self.stride, layout: self.layout }
    }
}

fn check_length(length: usize, size: Size, stride: usize, layout: PixelLayout) -> Result<()> {
    let row = size.width as usize * layout.bytes();
    let needed = match size.height {
        0 => 0,
        rows => {
            (rows as usize - 1).checked_mul(stride).and_then(|n| n.checked_add(row)).unwrap_or(usize::MAX)
        }
    };
    if stride >= row && length >= needed {
        return Ok(());
    }
    Err(Error::Misuse(format!(
        "{length} bytes with stride {stride} cannot hold {}x{} pixels",
        size.width, size.height
    )))
}
