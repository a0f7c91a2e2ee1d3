//! Description of the image from its directory: sizes, samples, chunks; all checked before a byte is unpacked.

use super::CODEC;
use super::directory::{Directory, tag};
use super::fax;
use crate::decode::amount;
use crate::{Orientation, Result, Size};

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    PackBits,
    Lzw,
    Deflate,
    Fax(fax::Kind),
    Jpeg,
    Zstd,
    Lzma,
}

impl Compression {
    /// Whether the compression can have a predictor.
    fn has_predictor(self) -> bool {
        matches!(self, Compression::Lzw | Compression::Deflate | Compression::Zstd | Compression::Lzma)
    }

    /// Largest number of sample bytes that one byte can decode to; fax has no such bound and is checked by rows.
    pub(super) fn best_ratio(self) -> usize {
        match self {
            Compression::None => 1,
            Compression::PackBits => 64,
            // LZW: 4 KiB for a 12-bit code; deflate: 1032.
            Compression::Lzw | Compression::Deflate => 2800,
            Compression::Fax(_) | Compression::Jpeg => 1 << 16,
            Compression::Zstd | Compression::Lzma => 1 << 17,
        }
    }
}

/// Meaning of a pixel's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    Palette,
    Cmyk,
    YCbCr,
    Lab,
}

/// Number type of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Unsigned,
    Signed,
    Float,
}

/// An image in a TIFF file.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) size: Size,
    pub(super) orientation: Orientation,
    pub(super) bits: usize,
    pub(super) samples: usize,
    pub(super) number: Number,
    pub(super) meaning: Meaning,
    pub(super) compression: Compression,
    pub(super) predictor: u64,
    pub(super) big_endian: bool,
    pub(super) reversed_bits: bool,
    /// Whether each sample has its own chunks.
    pub(super) planes: bool,
    /// Kinds of the samples after the colours.
    pub(super) extra: Vec<u64>,
    /// Number of luma samples, across and down, that share one pair of chroma samples in YCbCr.
    pub(super) subsampling: (usize, usize),
    /// Width and height of a tile; `None` for strips.
    pub(super) tile: Option<(usize, usize)>,
    pub(super) rows_per_strip: usize,
    pub(super) offsets: Vec<u64>,
    pub(super) lengths: Vec<u64>,
}

impl Layout {
    pub(super) fn new(directory: &Directory<'_>) -> Result<Self> {
        let number = |tag: u16, usual: u64| directory.first_number(tag).unwrap_or(usual);
        let size = size(directory)?;
        let samples = number(tag::SAMPLES_PER_PIXEL, 1) as usize;
        if samples == 0 || samples > 64 {
            return Err(CODEC.unsupported(format!("{samples} samples per pixel")));
        }
        let planar = number(tag::PLANAR_CONFIGURATION, 1);
        if !matches!(planar, 1 | 2) {
            return Err(CODEC.corrupt(
                directory.place(tag::PLANAR_CONFIGURATION),
                format!("planar configuration {planar}"),
            ));
        }
        let compression = compression(directory)?;
        let tile = tile(directory)?;
        let (offsets, lengths) = if tile.is_some() {
            (tag::TILE_OFFSETS, tag::TILE_BYTE_COUNTS)
        } else {
            (tag::STRIP_OFFSETS, tag::STRIP_BYTE_COUNTS)
        };
        let rows = number(tag::ROWS_PER_STRIP, u64::from(size.height)).clamp(1, u64::from(size.height));
        Ok(Layout {
            size,
            orientation: Orientation::from_exif(number(tag::ORIENTATION, 1) as u32),
            bits: bits(directory, samples)?,
            samples,
            number: number_kind(directory)?,
            meaning: meaning(directory, samples, compression)?,
            compression,
            predictor: if compression.has_predictor() { number(tag::PREDICTOR, 1) } else { 1 },
            big_endian: directory.big_endian,
            reversed_bits: number(tag::FILL_ORDER, 1) == 2 && compression != Compression::Jpeg,
            planes: planar == 2 && samples > 1,
            extra: directory.numbers(tag::EXTRA_SAMPLES).unwrap_or_default(),
            subsampling: subsampling(directory),
            tile,
            rows_per_strip: rows as usize,
            offsets: directory.numbers(offsets).unwrap_or_default(),
            lengths: directory.numbers(lengths).unwrap_or_default(),
        })
    }

    /// The fewest bytes that the samples of the whole image can take. Chunks may share their bytes, so even
    /// uncompressed samples count as if they were compressed.
    pub(super) fn fewest_bytes(&self) -> u64 {
        if let Compression::Fax(_) = self.compression {
            // A row equal to the one above takes one bit, however long it is.
            return u64::from(self.size.height) / 8;
        }
        let bits = u128::from(self.size.area()) * (self.samples * self.bits) as u128;
        let ratio = (self.compression.best_ratio() as u64).max(amount::LZW);
        u64::try_from(bits / 8 / u128::from(ratio)).unwrap_or(u64::MAX)
    }

    /// Height of a band: one row of tiles, or a strip.
    pub(super) fn band_rows(&self) -> usize {
        self.tile.map_or(self.rows_per_strip, |(_, height)| height)
    }

    /// Number of chunks beside each other in a band.
    pub(super) fn chunks_across(&self) -> usize {
        self.tile.map_or(1, |(width, _)| (self.size.width as usize).div_ceil(width))
    }

    /// Number of bands in one plane.
    pub(super) fn bands(&self) -> usize {
        (self.size.height as usize).div_ceil(self.band_rows())
    }

    /// The bytes of chunk `number`, and their offset.
    pub(super) fn chunk<'a>(&self, bytes: &'a [u8], number: usize) -> Result<(usize, &'a [u8])> {
        let missing = || CODEC.truncated(format!("there is no chunk {number}"));
        let start = self.offsets.get(number).copied().ok_or_else(missing)?;
        let outside =
            || CODEC.truncated(format!("chunk {number} begins at byte {start}, behind the file's end"));
        let at = usize::try_from(start).ok().filter(|at| *at < bytes.len()).ok_or_else(outside)?;
        // If the length is missing, the chunk reaches to the end of the file.
        let length = self.lengths.get(number).copied().filter(|length| *length > 0).unwrap_or(u64::MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len() - at);
        Ok((at, &bytes[at..at + length]))
    }
}

fn size(directory: &Directory<'_>) -> Result<Size> {
    let side = |tag: u16, name: &str| {
        let number = directory.first_number(tag).ok_or_else(|| CODEC.corrupt(0, format!("no {name}")))?;
        let fits = u32::try_from(number).ok().filter(|side| *side > 0 && *side <= 1 << 30);
        fits.ok_or_else(|| CODEC.corrupt(directory.place(tag), format!("{name} {number}")))
    };
    Ok(Size::new(side(tag::WIDTH, "width")?, side(tag::HEIGHT, "height")?))
}

fn bits(directory: &Directory<'_>, samples: usize) -> Result<usize> {
    let all = directory.numbers(tag::BITS_PER_SAMPLE).unwrap_or_else(|| vec![1]);
    let first = all.first().copied().unwrap_or(1);
    if all.iter().take(samples).any(|bits| *bits != first) {
        return Err(CODEC.unsupported(format!("samples of different sizes, {all:?} bits")));
    }
    match first {
        1 | 2 | 4 | 8 | 12 | 16 | 32 | 64 => Ok(first as usize),
        bits => Err(CODEC.unsupported(format!("{bits} bits per sample"))),
    }
}

fn number_kind(directory: &Directory<'_>) -> Result<Number> {
    match directory.first_number(tag::SAMPLE_FORMAT).unwrap_or(1) {
        // 4 is "undefined", which readers take for unsigned.
        0 | 1 | 4 => Ok(Number::Unsigned),
        2 => Ok(Number::Signed),
        3 => Ok(Number::Float),
        other => Err(CODEC.unsupported(format!("sample format {other} (complex numbers)"))),
    }
}

fn compression(directory: &Directory<'_>) -> Result<Compression> {
    let number = directory.first_number(tag::COMPRESSION).unwrap_or(1);
    let name = match number {
        0 | 1 => return Ok(Compression::None),
        2 => return Ok(Compression::Fax(fax::Kind::Rle)),
        3 => {
            let two_dimensional = directory.first_number(tag::T4_OPTIONS).unwrap_or(0) & 1 == 1;
            return Ok(Compression::Fax(fax::Kind::Group3 { two_dimensional }));
        }
        4 => return Ok(Compression::Fax(fax::Kind::Group4)),
        5 => return Ok(Compression::Lzw),
        6 if directory.first_number(tag::JPEG_STREAM).is_none() => "old JPEG without a whole JPEG file in it",
        6 | 7 => return Ok(Compression::Jpeg),
        8 | 32946 => return Ok(Compression::Deflate),
        32773 => return Ok(Compression::PackBits),
        34925 => return Ok(Compression::Lzma),
        50000 => return Ok(Compression::Zstd),
        32809 => "ThunderScan",
        33003..=33005 | 34712 => "JPEG 2000",
        34676 | 34677 => "SGI Log",
        34887 => "LERC",
        50001 => "WebP",
        50002 => "JPEG XL",
        _ => "unknown",
    };
    Err(CODEC.unsupported(format!("compression {number} ({name})")))
}

fn meaning(directory: &Directory<'_>, samples: usize, compression: Compression) -> Result<Meaning> {
    let usual = match (samples, compression) {
        // Without the tag, Pillow takes white for zero.
        (1, _) | (_, Compression::Fax(_)) => 0,
        (2, _) => 1,
        _ => 2,
    };
    Ok(match directory.first_number(tag::PHOTOMETRIC).unwrap_or(usual) {
        0 => Meaning::WhiteIsZero,
        // 4 is a mask of another image: black and white.
        1 | 4 => Meaning::BlackIsZero,
        2 => Meaning::Rgb,
        3 => Meaning::Palette,
        5 => Meaning::Cmyk,
        6 => Meaning::YCbCr,
        8 => Meaning::Lab,
        other => return Err(CODEC.unsupported(format!("photometric interpretation {other}"))),
    })
}

fn subsampling(directory: &Directory<'_>) -> (usize, usize) {
    match directory.numbers(tag::YCBCR_SUBSAMPLING).unwrap_or_default()[..] {
        [across @ 1..=4, down @ 1..=4, ..] => (across as usize, down as usize),
        _ => (2, 2),
    }
}

fn tile(directory: &Directory<'_>) -> Result<Option<(usize, usize)>> {
    let Some(width) = directory.first_number(tag::TILE_WIDTH) else { return Ok(None) };
    let height = directory.first_number(tag::TILE_LENGTH).unwrap_or(0);
    // The specification asks for multiples of 16; rows of whole bytes need multiples of 8.
    let fits = (8..=1 << 20).contains(&width) && (1..=1 << 20).contains(&height) && width % 8 == 0;
    if fits {
        return Ok(Some((width as usize, height as usize)));
    }
    Err(CODEC.unsupported(format!("tiles of {width}x{height} pixels")))
}
