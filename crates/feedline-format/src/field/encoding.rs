//! How an image's bytes are stored.

use serde::{Deserialize, Serialize};

/// How an image field's bytes are to be read, and what a pack may be asked to store.
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
    /// The same as bit planes, with what gives the JPEG file back (`feedline_pixels::dct::compact`).
    Compact,
}

/// Everything that is known of an encoding.
struct Row {
    /// As users ask for it when they pack.
    name: &'static str,
    /// As reports call what is found.
    found: &'static str,
    /// One line for the command's help.
    about: &'static str,
    /// Whether the bytes are a file that other programs read.
    is_file: bool,
    /// About how many times as large as the usual JPEG file.
    growth: f64,
}

/// In the order of the codes in packs, which is the order of the variants.
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
    // Photographs take about a tenth of their pixels' bytes as JPEG, and half of their coefficients'.
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
    /// All of them, in the order of their codes in packs.
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

    /// The name by which users ask for it when they pack (`as-is`, `jpeg`, …).
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name by which reports call stored bytes (`file`, `jpeg`, …).
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

    /// About how many times as large as the JPEG files of the same photographs.
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

/// What is known of a stored image without looking at its bytes. Zero width means: not known, look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageMeta {
    /// How to read the bytes.
    pub encoding: ImageEncoding,
    /// Stored width in pixels (before any EXIF turn), or 0.
    pub width: u32,
    /// Stored height in pixels (before any EXIF turn), or 0.
    pub height: u32,
    /// Channels of the stored image, or 0.
    pub channels: u8,
    /// EXIF orientation 1..=8, or 0 when not known.
    pub orientation: u8,
}

impl ImageMeta {
    /// Nothing known but that it is an image file.
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
    fn codes_and_names_lead_back() {
        for (at, encoding) in ImageEncoding::ALL.into_iter().enumerate() {
            assert_eq!(encoding.code(), at as u64);
            assert_eq!(ImageEncoding::from_code(at as u64), Some(encoding));
            assert_eq!(ImageEncoding::from_name(encoding.name()), Some(encoding));
        }
        assert_eq!(ImageEncoding::from_code(6), None);
    }
}
