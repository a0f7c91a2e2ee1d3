//! The `dct` encoding: a JPEG's quantised coefficients without their entropy coding, in a layout for speed.
//!
//! About twice the JPEG's size. It decodes to exactly the JPEG's pixels without any Huffman decoding. Every region can
//! be read directly, and a scaled decode reads only the front of the file.
//!
//! # Layout (version 1, little-endian)
//!
//! | bytes | what |
//! |---|---|
//! | 0–1 | `FD` |
//! | 2 | version, 1 |
//! | 3 | components (1 or 3) in the low half, colours (0 grey, 1 YCbCr, 2 RGB) in the high half |
//! | 4–11 | width, height |
//! | 12–17 | horizontal and vertical sampling factor of each component |
//! | 18 | EXIF orientation |
//! | 19–23 | zero |
//! | 24–35 | end of the DC part, of the low part and of the file |
//! | 36–419 | quantisation table of each component, 64 16-bit values in natural order |
//! | 420– | **DC part**: the DC coefficient of every block, 16 bits, in MCU order |
//! | | **low part**: offsets of all segments (32 bits each, and the end), then rows 0–3 of their blocks |
//! | | **high part**: the same with rows 4–7 |
//!
//! A segment is `SEGMENT` MCUs of one MCU row (fewer at the right edge). It starts with the number of coefficients that
//! do not fit in a byte (16 bits), five bytes for each (block 16, place 8, value 16), then its blocks in MCU order,
//! each in the form that `expand` describes. Place 0 of the low part is reserved for the DC coefficient and stays
//! empty.
//!
//! Scaled decodes use as many frequencies as they produce samples: at a half the lowest 4 × 4, which are in the DC and
//! low parts, at a quarter 2 × 2, at an eighth only the DC part. (libjpeg's scaled decode folds in higher frequencies;
//! here they are left out for luma and chroma, which is the better filter for luma and leaves chroma subsampled.
//! Full-size pixels are identical.)

pub mod compact;
mod encode;
mod expand;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod shuffles;

use crate::jpeg::frame::{Colors, Frame, Scaled};
use crate::jpeg::huffman::Irregular;
use crate::jpeg::idct::{Block, Quant};
use crate::jpeg::region::{Pipeline, Wanted};
use crate::jpeg::render::{ImageTarget, SinkTarget, Target};
use crate::jpeg::source::{RowSpan, Source};
use crate::jpeg::{DEFAULT_PIXEL_LIMIT, Scale};
use crate::{CpuLevel, Error, ImageMut, ImageRef, PixelLayout, Region, Result, Size};

pub use encode::encode;

const CODEC: &str = "dct";
const VERSION: u8 = 1;
const HEADER: usize = 420;

/// Number of MCUs in a segment.
const SEGMENT: usize = 8;

/// Header of a `dct` or [`compact`] file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DctHeader {
    /// Width and height in pixels, before any EXIF rotation.
    pub size: Size,
    /// EXIF orientation of the JPEG, 1 to 8.
    pub orientation: u8,
    /// Number of bytes from the start that a decode at scales 1/8, 1/2 and 1/1 needs (1/4 as 1/2).
    pub prefix: [u32; 3],
}

/// Reads the header.
pub fn probe(bytes: &[u8]) -> Result<DctHeader> {
    if bytes.starts_with(&compact::MAGIC) {
        let compact::File { frame, orientation, ends, .. } = compact::File::open(bytes)?;
        return Ok(DctHeader { size: frame.size, orientation, prefix: [ends[0], ends[1], ends[1]] });
    }
    let file = File::open(bytes)?;
    Ok(DctHeader { size: file.frame.size, orientation: file.orientation, prefix: file.ends })
}

/// For [`pieces`](crate::pieces): rows of pixels in an MCU row, and where the pieces end. These are everything up to the low
/// part's first segment, the MCU rows of the low part, the high part's offsets, and its MCU rows.
pub(crate) fn piece_ends(bytes: &[u8]) -> Option<(u32, Vec<u32>)> {
    let File { frame, ends, .. } = File::open(bytes).ok()?;
    let per_row = frame.mcus_across.div_ceil(SEGMENT);
    let table = u32::try_from(4 * (per_row * frame.mcus_down + 1)).ok()?;
    let mut found = Vec::with_capacity(2 * frame.mcus_down + 2);
    for (start, end) in [(ends[0], ends[1]), (ends[1], ends[2])] {
        let data = start.checked_add(table)?;
        found.push(data);
        for row in 1..frame.mcus_down {
            found.push(data.checked_add(long(bytes, start as usize + 4 * per_row * row))?);
        }
        found.push(end);
    }
    found.is_sorted().then_some((8 * frame.max_v as u32, found))
}

fn corrupt(reason: &str) -> Error {
    Error::Corrupt { codec: CODEC, offset: 0, reason: reason.into() }
}

fn long(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_le_bytes(*four))
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_le_bytes(*two))
}

/// A file whose header has been checked.
struct File<'a> {
    frame: Frame,
    orientation: u8,
    ends: [u32; 3],
    bytes: &'a [u8],
}

impl<'a> File<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or_else(|| corrupt("header cut short"))?;
        if header[..3] != [b'F', b'D', VERSION] || header[19..24] != [0; 5] {
            return Err(Error::UnknownFormat("not a dct file of a known version".into()));
        }
        let (colors, count) = match header[3] {
            0x01 => (Colors::Grey, 1),
            0x13 => (Colors::Ycc, 3),
            0x23 => (Colors::Rgb, 3),
            _ => return Err(corrupt("components")),
        };
        let mut sampling = Vec::with_capacity(count);
        for i in 0..count {
            let (h, v) = (usize::from(header[12 + 2 * i]), usize::from(header[13 + 2 * i]));
            let quant: Quant = std::array::from_fn(|k| short(header, 36 + 128 * i + 2 * k) as i16);
            if !(1..=4).contains(&h) || !(1..=4).contains(&v) {
                return Err(corrupt("sampling factors"));
            }
            sampling.push((h, v, quant));
        }
        let size = Size::new(long(header, 4), long(header, 8));
        // JPEG's own limit; it also keeps all products below in range.
        if size.width > 65535 || size.height > 65535 {
            return Err(corrupt("size"));
        }
        let frame = Frame::from_sampling(size, colors, &sampling).map_err(|_| corrupt("frame"))?;
        let ends = [24, 28, 32].map(|at| long(header, at));
        let dc_end = HEADER as u64 + 2 * (frame.mcus() * frame.blocks_per_mcu) as u64;
        if u64::from(ends[0]) != dc_end || ends[0] > ends[1] || ends[1] > ends[2] {
            return Err(corrupt("parts"));
        }
        Ok(File { frame, orientation: header[18].clamp(1, 8), ends, bytes })
    }

    /// The bytes between the ends of two parts.
    fn part(&self, from: u32, to: u32) -> Result<&'a [u8]> {
        self.bytes.get(from as usize..to as usize).ok_or_else(|| Error::Truncated {
            codec: CODEC,
            reason: format!("{} bytes of {to}", self.bytes.len()),
        })
    }
}

/// Decodes `dct` and [`compact`] files. Owns all scratch memory: keep one per thread and reuse it.
pub struct Decoder {
    level: CpuLevel,
    pixel_limit: u64,
    pipeline: Pipeline,
    strip: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Decoder {
    /// Creates a decoder with the best kernels of this machine.
    pub fn new() -> Self {
        Self::with_level(CpuLevel::detect())
    }

    /// Creates a decoder with the kernels of `level`, which must be [available](CpuLevel::available) here.
    pub fn with_level(level: CpuLevel) -> Self {
        let level = if CpuLevel::available().contains(&level) { level } else { CpuLevel::Scalar };
        Decoder { level, pixel_limit: DEFAULT_PIXEL_LIMIT, pipeline: Pipeline::default(), strip: Vec::new() }
    }

    /// Refuses images of more pixels than this before allocating memory for them.
    pub fn with_pixel_limit(mut self, limit: u64) -> Self {
        self.pixel_limit = limit;
        self
    }

    /// Decodes the box `region` (in pixels of the image at `scale`) and passes its rows to `sink` in strips, top to
    /// bottom, each row once. `bytes` may end at the [`DctHeader::prefix`] of this scale.
    pub fn decode_region(
        &mut self,
        bytes: &[u8],
        region: Region,
        scale: Scale,
        layout: PixelLayout,
        sink: &mut dyn FnMut(u32, ImageRef<'_>),
    ) -> Result<()> {
        layout.check_colour()?;
        let mut strip = std::mem::take(&mut self.strip);
        let mut target = SinkTarget { width: region.width, layout, buffer: &mut strip, sink };
        let done = self.decode(bytes, &[region], scale, &mut [&mut target]);
        self.strip = strip;
        done
    }

    /// Like [`Decoder::decode_region`], into an image of the region's size.
    pub fn decode_into(
        &mut self,
        bytes: &[u8],
        region: Region,
        scale: Scale,
        out: &mut ImageMut<'_>,
    ) -> Result<()> {
        if out.size != region.size() {
            return Err(Error::Misuse("the output does not have the size of the region".into()));
        }
        ImageMut::new(out.bytes, out.size, out.stride, out.layout)?.layout.check_colour()?;
        let mut target = ImageTarget { image: out };
        self.decode(bytes, &[region], scale, &mut [&mut target])
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        regions: &[Region],
        scale: Scale,
        targets: &mut [&mut dyn Target],
    ) -> Result<()> {
        let keep = usize::from(scale.eighths());
        if bytes.starts_with(&compact::MAGIC) {
            let file = compact::File::open(bytes)?;
            self.check_size(&file.frame)?;
            let mut rows = file.source(self.level, keep)?;
            return self.run(&file.frame, &mut rows, regions, keep, targets);
        }
        let file = File::open(bytes)?;
        self.check_size(&file.frame)?;
        let mut segments = Segments::new(self.level, &file, keep)?;
        self.run(&file.frame, &mut segments, regions, keep, targets)
    }

    fn check_size(&self, frame: &Frame) -> Result<()> {
        let Size { width, height } = frame.size;
        if frame.size.area() <= self.pixel_limit {
            return Ok(());
        }
        Err(Error::TooLarge { width, height, limit: self.pixel_limit })
    }

    fn run(
        &mut self,
        frame: &Frame,
        source: &mut dyn Source,
        regions: &[Region],
        keep: usize,
        targets: &mut [&mut dyn Target],
    ) -> Result<()> {
        let scaled = Scaled::new(frame, keep);
        for region in regions {
            region.check_inside(scaled.size)?;
        }
        let wanted = Wanted { level: self.level, frame, scaled: &scaled, regions };
        self.pipeline.run(&wanted, source, targets).map_err(|Irregular| corrupt("coefficients"))
    }
}

/// Coefficients by segment.
struct Segments<'a> {
    level: CpuLevel,
    mcus_across: usize,
    blocks_per_mcu: usize,
    per_row: usize,
    dc: &'a [u8],
    /// Low and high part, if the scale needs them, with the number of segments in each.
    parts: [Option<&'a [u8]>; 2],
    count: usize,
    /// Number of frequencies to keep in each direction.
    keep: usize,
}

impl<'a> Segments<'a> {
    fn new(level: CpuLevel, file: &File<'a>, keep: usize) -> Result<Self> {
        let per_row = file.frame.mcus_across.div_ceil(SEGMENT);
        let [dc_end, low_end, high_end] = file.ends;
        let low = if keep > 1 { Some(file.part(dc_end, low_end)?) } else { None };
        let high = if keep > 4 { Some(file.part(low_end, high_end)?) } else { None };
        Ok(Segments {
            level,
            mcus_across: file.frame.mcus_across,
            blocks_per_mcu: file.frame.blocks_per_mcu,
            per_row,
            dc: file.part(HEADER as u32, dc_end)?,
            parts: [low, high],
            count: per_row * file.frame.mcus_down,
            keep,
        })
    }

    /// Fills four rows of one segment's blocks from a part, starting with the first block.
    fn expand(&self, part: usize, segment: usize, blocks: &mut [Block]) -> Option<()> {
        let Some(bytes) = self.parts[part] else {
            let rows = part * 32..part * 32 + 32;
            for block in blocks {
                block[rows.clone()].fill(0);
            }
            return Some(());
        };
        let from = long(bytes, 4 * segment) as usize;
        // Reads may continue past the segment's end into the next one or the padding, but never past the part.
        let data = bytes.get(4 * (self.count + 1)..)?.get(from..)?;
        let escapes = usize::from(short(data.get(..2)?, 0));
        let rest = data.get(2 + 5 * escapes..)?;
        expand::rows(self.level, rest, part * 4, blocks)?;
        for escape in data[2..].chunks_exact(5).take(escapes) {
            let (block, place) = (usize::from(short(escape, 0)), usize::from(escape[2] & 63));
            if let Some(block) = blocks.get_mut(block) {
                block[place] = short(escape, 3) as i16;
            }
        }
        Some(())
    }

    fn fill_segment(&self, segment: usize, first_block: usize, blocks: &mut [Block]) -> Option<()> {
        let dc = self.dc.get(2 * first_block..2 * (first_block + blocks.len()))?;
        if self.keep == 1 {
            for (block, dc) in blocks.iter_mut().zip(dc.chunks_exact(2)) {
                *block = [0; 64];
                block[0] = i16::from_le_bytes([dc[0], dc[1]]);
            }
            return Some(());
        }
        self.expand(0, segment, blocks)?;
        self.expand(1, segment, blocks)?;
        for (block, dc) in blocks.iter_mut().zip(dc.chunks_exact(2)) {
            block[0] = i16::from_le_bytes([dc[0], dc[1]]);
            if self.keep < 8 {
                cut(block, self.keep);
            }
        }
        Some(())
    }
}

/// Drops all but the lowest `keep` frequencies in each direction.
fn cut(block: &mut Block, keep: usize) {
    for (y, row) in block.chunks_exact_mut(8).enumerate() {
        let kept = if y < keep { keep } else { 0 };
        row[kept..].fill(0);
    }
}

impl Source for Segments<'_> {
    fn alignment(&self) -> usize {
        SEGMENT
    }

    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        for span in spans {
            let length = span.mcus.len() * self.blocks_per_mcu;
            let blocks = &mut blocks[span.offset..span.offset + length];
            let segments = blocks.chunks_mut(SEGMENT * self.blocks_per_mcu).enumerate();
            for (i, blocks) in segments {
                let mcu = span.mcus.start + i * SEGMENT;
                let segment = span.row * self.per_row + mcu / SEGMENT;
                let first = (span.row * self.mcus_across + mcu) * self.blocks_per_mcu;
                self.fill_segment(segment, first, blocks).ok_or(Irregular)?;
            }
        }
        Ok(())
    }
}
