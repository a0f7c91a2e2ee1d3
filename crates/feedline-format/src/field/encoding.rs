//! How an image's bytes are stored.

use serde::{Deserialize, Serialize};

/// How the bytes of an image field are read, and what a pack can store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum ImageEncoding {
    /// A file of any image format; the codec is found from its first bytes.
    File,
    /// A JPEG file.
    Jpeg,
    /// `width * height * 3` bytes, red first, row by row.
    Rgb,
    /// A luma plane, then two chroma planes of half width and height (rounded up).
    Yuv420,
    /// Quantised DCT coefficients of a JPEG (`feedline_pixels::dct`).
    Dct,
    /// The same coefficients as bit planes, with what is needed to restore the JPEG file
    /// (`feedline_pixels::dct::compact`).
    Compact,
}

/// Everything that is known about an encoding.
struct Row {
    /// The name that users write when they pack.
    name: &'static str,
    /// The name in reports.
    found: &'static str,
    /// One line for the command's help.
    about: &'static str,
    /// Whether the bytes are a file that other programs read.
    is_file: bool,
    /// Approximate size relative to a usual JPEG file.
    growth: f64,
}

/// Sorted by the codes in packs, which is also the order of the variants.
static TABLE: [Row; 6] = [
    Row {
        name: "as-is",
        found: "file",
        about: "Bytes untouched, whatever the codec",
        is_file: true,
        growth: 1.05,
    },
    Row {
        name: "jpeg",
        found: "jpeg",
        about: "Original bytes of JPEG files, bit for bit, plus an index for reading parts of them",
        is_file: true,
        growth: 1.05,
    },
    // A photograph's JPEG has about a tenth of the bytes of its pixels, and half of those of its coefficients.
    Row { name: "rgb", found: "rgb", about: "Raw pixels", is_file: false, growth: 10.0 },
    Row {
        name: "yuv420",
        found: "yuv420",
        about: "Raw pixels with halved colour resolution",
        is_file: false,
        growth: 5.0,
    },
    Row {
        name: "dct",
        found: "dct",
        about: "Quantised JPEG coefficients: the same pixels, about twice the size, faster to decode",
        is_file: false,
        growth: 2.0,
    },
    Row {
        name: "compact",
        found: "compact",
        about: "JPEG files in another form of about their size, given back bit for bit, nearly as fast as dct",
        is_file: false,
        growth: 1.08,
    },
];

super::spelled_by_name!(ImageEncoding, "way to store images");

impl ImageEncoding {
    /// All encodings, sorted by their codes in packs.
    pub const ALL: [ImageEncoding; 6] = [
        ImageEncoding::File,
        ImageEncoding::Jpeg,
        ImageEncoding::Rgb,
        ImageEncoding::Yuv420,
        ImageEncoding::Dct,
        ImageEncoding::Compact,
    ];

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The name that users write when they pack (`as-is`, `jpeg`, …).
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in reports (`file`, `jpeg`, …).
    pub fn found_as(self) -> &'static str {
        self.row().found
    }

    /// What is stored, in one line.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// Whether the bytes are an image file that other programs read.
    pub fn is_file(self) -> bool {
        self.row().is_file
    }

    /// Approximate size relative to the JPEG files of the same photographs.
    pub fn growth(self) -> f64 {
        self.row().growth
    }

    /// The code in a pack's index.
    pub(crate) fn code(self) -> u64 {
        self as u64
    }

    /// The encoding with this code in a pack's index.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        ImageEncoding::ALL.get(usize::try_from(code).ok()?).copied()
    }
}

/// What is known about a stored image without looking at its bytes. A width of 0 means that the bytes must be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageMeta {
    /// How to read the bytes.
    pub encoding: ImageEncoding,
    /// Stored width in pixels (before any EXIF rotation), or 0.
    pub width: u32,
    /// Stored height in pixels (before any EXIF rotation), or 0.
    pub height: u32,
    /// Channels of the stored image, or 0.
    pub channels: u8,
    /// EXIF orientation 1..=8, or 0 when not known.
    pub orientation: u8,
}

impl ImageMeta {
    /// An image file of which nothing is known.
    pub const UNKNOWN: ImageMeta =
        ImageMeta { encoding: ImageEncoding::File, width: 0, height: 0, channels: 0, orientation: 0 };

    /// Height and width as a viewer sees them, if known.
    pub fn oriented_size(&self) -> Option<(u32, u32)> {
        if self.width == 0 || self.orientation == 0 {
            return None;
        }
        Some(if self.orientation >= 5 { (self.width, self.height) } else { (self.height, self.width) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (at, encoding) in ImageEncoding::ALL.into_iter().enumerate() {
            assert_eq!(encoding.code(), at as u64);
            assert_eq!(ImageEncoding::from_code(at as u64), Some(encoding));
            assert_eq!(ImageEncoding::from_name(encoding.name()), Some(encoding));
        }
        assert_eq!(ImageEncoding::from_code(6), None);
    }
}
