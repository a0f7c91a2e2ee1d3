//! The `compact` encoding: a JPEG's coefficients as nested bit planes, about as large as the JPEG itself.
//!
//! Huffman codes say which coefficients are not zero and how long each is; sign and magnitude bits are raw anyway. Here
//! raw masks say the same, each nested in the one before, and are expanded 64 coefficients at a time (`pdep`). No
//! coefficient is processed alone. `docs/formats/pack.md` describes the bytes; in short:
//!
//! | bytes | what |
//! |---|---|
//! | 0–1 | `FC` |
//! | 2 | version, 1 |
//! | 3 | components (1 or 3) in the low half, colours (0 grey, 1 YCbCr, 2 RGB) in the high half |
//! | 4–11 | width, height |
//! | 12–17 | horizontal and vertical sampling factor of each component |
//! | 18 | EXIF orientation |
//! | 19 | bit 0: rows have the stream F; bit 1: quantisers have 16 bits |
//! | 20–22 | which quantisation table each component has |
//! | 23 | number of quantisation tables |
//! | 24–35 | end of the DC part, of the row part and of the file |
//! | 36– | quantisation tables, 64 values in natural order each |
//! | | **DC part**: the DC coefficients of each MCU row (`dc`), then `SLACK` zero bytes |
//! | | **row part**: offsets of all rows (32 bits each, and the end), the rows (`planes`), then `SLACK` zero bytes |
//! | | **original part**: data for restoring the file byte for byte (`original`); it may be empty |

mod dc;
mod encode;
mod original;
mod planes;
mod split;
mod streams;

use super::{corrupt, long, short};
use crate::jpeg::frame::{Colors, Frame};
use crate::jpeg::huffman::Irregular;
use crate::jpeg::idct::{Block, Quant};
use crate::jpeg::source::{RowSpan, Source};
use crate::{CpuLevel, Error, Result, Size};

pub use encode::encode;
pub(super) use encode::mask_of;
pub use original::original;

pub(super) const MAGIC: [u8; 2] = *b"FC";
const VERSION: u8 = 1;
const HEADER: usize = 36;

/// Number of zero bytes after the last stream, because kernels read whole words.
const SLACK: usize = 16;

const HAS_FULL: u8 = 1;
const WIDE_QUANTISERS: u8 = 2;

/// A file whose header has been checked.
pub(super) struct File<'a> {
    pub(super) frame: Frame,
    pub(super) orientation: u8,
    /// End of the DC part, of the row part and of the file.
    pub(super) ends: [u32; 3],
    has_full: bool,
    tables_end: usize,
    bytes: &'a [u8],
}

impl<'a> File<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self> {
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or_else(|| corrupt("header cut short"))?;
        if header[..2] != MAGIC || header[2] != VERSION || header[19] > (HAS_FULL | WIDE_QUANTISERS) {
            return Err(Error::UnknownFormat("not a compact file of a known version".into()));
        }
        let (colors, count) = match header[3] {
            0x01 => (Colors::Grey, 1),
            0x13 => (Colors::Ycc, 3),
            0x23 => (Colors::Rgb, 3),
            _ => return Err(corrupt("components")),
        };
        let (tables, tables_end) = quantisers(bytes, header)?;
        let mut sampling = Vec::with_capacity(count);
        for i in 0..count {
            let (h, v) = (usize::from(header[12 + 2 * i]), usize::from(header[13 + 2 * i]));
            if !(1..=4).contains(&h) || !(1..=4).contains(&v) {
                return Err(corrupt("sampling factors"));
            }
            let table =
                tables.get(usize::from(header[20 + i])).ok_or_else(|| corrupt("quantisation table"))?;
            sampling.push((h, v, *table));
        }
        let size = Size::new(long(header, 4), long(header, 8));
        // JPEG's own limit; it also keeps all products in range.
        if size.width > 65535 || size.height > 65535 {
            return Err(corrupt("size"));
        }
        let frame = Frame::from_sampling(size, colors, &sampling).map_err(|_| corrupt("frame"))?;
        let ends = [24, 28, 32].map(|at| long(header, at));
        if (ends[0] as usize) < tables_end || ends[0] > ends[1] || ends[1] > ends[2] {
            return Err(corrupt("parts"));
        }
        let has_full = header[19] & HAS_FULL != 0;
        Ok(File { frame, orientation: header[18].clamp(1, 8), ends, has_full, tables_end, bytes })
    }

    fn part(&self, from: usize, to: u32) -> Result<&'a [u8]> {
        self.bytes.get(from..to as usize).ok_or_else(|| Error::Truncated {
            codec: "compact",
            reason: format!("{} bytes of {to}", self.bytes.len()),
        })
    }

    /// The coefficients, limited to the lowest `keep` frequencies in each direction.
    pub(super) fn source(&self, level: CpuLevel, keep: usize) -> Result<Rows<'a>> {
        let dc_part = self.part(self.tables_end, self.ends[0])?;
        let rows = if keep > 1 { Some(self.part(self.ends[0] as usize, self.ends[1])?) } else { None };
        let dc = dc::Part::open(dc_part, &self.frame).ok_or_else(|| corrupt("DC part"))?;
        if rows.is_some_and(|rows| rows.len() < 4 * (self.frame.mcus_down + 1) + SLACK) {
            return Err(corrupt("row part"));
        }
        Ok(Rows {
            level,
            per_row: self.frame.mcus_across * self.frame.blocks_per_mcu,
            mcus_down: self.frame.mcus_down,
            blocks_per_mcu: self.frame.blocks_per_mcu,
            has_full: self.has_full,
            dc,
            planes: rows,
            keep,
        })
    }
}

/// For [`pieces`](crate::pieces): rows of pixels in an MCU row, and where the pieces end. These are everything up to the
/// first row, the rows, and the rest.
pub(crate) fn piece_ends(bytes: &[u8]) -> Option<(u32, Vec<u32>)> {
    let File { frame, ends, .. } = File::open(bytes).ok()?;
    let data = ends[0].checked_add(u32::try_from(4 * (frame.mcus_down + 1)).ok()?)?;
    let mut found = Vec::with_capacity(frame.mcus_down + 2);
    for row in 0..=frame.mcus_down {
        found.push(data.checked_add(long(bytes, ends[0] as usize + 4 * row))?);
    }
    found.push(ends[2]);
    found.is_sorted().then_some((8 * frame.max_v as u32, found))
}

/// The quantisation tables, and the offset of their end.
fn quantisers(bytes: &[u8], header: &[u8; HEADER]) -> Result<(Vec<Quant>, usize)> {
    let count = usize::from(header[23]);
    let width = if header[19] & WIDE_QUANTISERS != 0 { 2 } else { 1 };
    let end = HEADER + count * 64 * width;
    let values = bytes.get(HEADER..end).filter(|_| count <= 3).ok_or_else(|| corrupt("tables cut short"))?;
    let value = |table: &[u8], k: usize| if width == 2 { short(table, 2 * k) } else { u16::from(table[k]) };
    let tables = values.chunks_exact(64 * width);
    Ok((tables.map(|table| std::array::from_fn(|k| value(table, k) as i16)).collect(), end))
}

/// Coefficients by MCU row.
pub(super) struct Rows<'a> {
    level: CpuLevel,
    /// Number of blocks in an MCU row.
    per_row: usize,
    mcus_down: usize,
    blocks_per_mcu: usize,
    has_full: bool,
    dc: dc::Part<'a>,
    /// The row part, unless only the DC coefficients are needed.
    planes: Option<&'a [u8]>,
    keep: usize,
}

impl Rows<'_> {
    fn fill_row(&mut self, row: usize, first: usize, blocks: &mut [Block]) -> Option<()> {
        match self.planes {
            None => blocks.fill([0; 64]),
            Some(part) => {
                let data = &part[4 * (self.mcus_down + 1)..];
                let (from, to) = (long(part, 4 * row) as usize, long(part, 4 * row + 4) as usize);
                let stream = planes::Row::open(data, from..to, self.per_row, self.has_full)?;
                stream.expand(self.level, first, blocks)?;
            }
        }
        self.dc.put(self.level, row, first, blocks)?;
        if self.keep < 8 && self.planes.is_some() {
            for block in blocks {
                super::cut(block, self.keep);
            }
        }
        Some(())
    }
}

impl Source for Rows<'_> {
    fn alignment(&self) -> usize {
        1
    }

    fn fill(&mut self, spans: &[RowSpan], blocks: &mut [Block]) -> Result<(), Irregular> {
        for span in spans {
            let length = span.mcus.len() * self.blocks_per_mcu;
            let blocks = &mut blocks[span.offset..span.offset + length];
            self.fill_row(span.row, span.mcus.start * self.blocks_per_mcu, blocks).ok_or(Irregular)?;
        }
        Ok(())
    }
}
