//! From a JPEG to the `dct` encoding.

use super::compact::mask_of;
use super::expand::{LARGEST, SLACK};
use super::{CODEC, HEADER, SEGMENT, VERSION};
use crate::jpeg::coefficients::{self, Coefficients};
use crate::jpeg::frame::{Colors, Frame};
use crate::jpeg::idct::Block;
use crate::{Error, Result, turbo};

/// Packs the coefficients of a JPEG. Progressive and arithmetic files are transcoded first, which keeps their
/// coefficients. CMYK, 12-bit and lossless files, and those that libjpeg reads only with warnings, are refused: store
/// those unchanged.
pub fn encode(bytes: &[u8], pixel_limit: u64) -> Result<Vec<u8>> {
    let read = if let Ok(read) = coefficients::read(bytes, pixel_limit) {
        read
    } else {
        let baseline = turbo::to_baseline(bytes, pixel_limit)?;
        coefficients::read(&baseline, pixel_limit).map_err(|_| Error::Unsupported {
            codec: CODEC,
            reason: "only intact grey and three-component JPEGs of 8 bits have this encoding".into(),
        })?
    };
    pack(&read).ok_or_else(|| Error::Unsupported { codec: CODEC, reason: "over 4 GiB".into() })
}

fn pack(read: &Coefficients) -> Option<Vec<u8>> {
    let frame = &read.frame;
    let mut out = header(frame, read.orientation);
    for block in &read.blocks {
        out.extend_from_slice(&block[0].to_le_bytes());
    }
    let dc_end = u32::try_from(out.len()).ok()?;
    let places: Vec<Places> = read.blocks.iter().map(Places::of).collect();
    for (part, end) in [(0, 28), (1, 32)] {
        append_part(&mut out, frame, &read.blocks, &places, part)?;
        let length = u32::try_from(out.len()).ok()?;
        out[end..end + 4].copy_from_slice(&length.to_le_bytes());
    }
    out[24..28].copy_from_slice(&dc_end.to_le_bytes());
    Some(out)
}

fn header(frame: &Frame, orientation: u8) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    out[..3].copy_from_slice(&[b'F', b'D', VERSION]);
    out[3] = match frame.colors {
        Colors::Grey => 0x01,
        Colors::Ycc => 0x13,
        Colors::Rgb => 0x23,
    };
    out[4..8].copy_from_slice(&frame.size.width.to_le_bytes());
    out[8..12].copy_from_slice(&frame.size.height.to_le_bytes());
    out[18] = orientation;
    for (i, component) in frame.components.iter().enumerate() {
        out[12 + 2 * i] = component.h as u8;
        out[13 + 2 * i] = component.v as u8;
        for (k, value) in component.quant.iter().enumerate() {
            out[36 + 128 * i + 2 * k..][..2].copy_from_slice(&value.to_le_bytes());
        }
    }
    out
}

/// Coefficients of a block by how they are stored, the DC coefficient left out.
#[derive(Clone, Copy)]
struct Places {
    /// Those that fit in a byte and are not zero.
    small: u64,
    /// Those that do not fit in a byte.
    large: u64,
}

impl Places {
    fn of(block: &Block) -> Self {
        let any = mask_of(block, |value| value != 0) & !1;
        // Nearly all blocks have only small ones; one comparison of the whole block says so.
        let over = block[1..].iter().fold(0, |over, &value| over | (i16::from(value as i8) ^ value));
        let large = if over == 0 { 0 } else { mask_of(block, |value| i16::from(value as i8) != value) & !1 };
        Places { small: any & !large, large }
    }
}

/// Rows 0–3 (part 0) or 4–7 (part 1) of all blocks, by segment, after a table of offsets.
fn append_part(
    out: &mut Vec<u8>,
    frame: &Frame,
    blocks: &[Block],
    places: &[Places],
    part: usize,
) -> Option<()> {
    let row = frame.mcus_across * frame.blocks_per_mcu;
    let length = SEGMENT * frame.blocks_per_mcu;
    let segments = blocks.chunks(row).flat_map(|row| row.chunks(length));
    let places = places.chunks(row).flat_map(|row| row.chunks(length));
    let table = out.len();
    out.resize(table + 4 * (segments.clone().count() + 1), 0);
    let data = out.len();
    let mut entry = table;
    for (segment, places) in segments.zip(places) {
        let offset = u32::try_from(out.len() - data).ok()?;
        out[entry..entry + 4].copy_from_slice(&offset.to_le_bytes());
        entry += 4;
        append_segment(out, segment, places, part);
    }
    let offset = u32::try_from(out.len() - data).ok()?;
    out[entry..entry + 4].copy_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&[0; SLACK]);
    Some(())
}

fn append_segment(out: &mut Vec<u8>, blocks: &[Block], places: &[Places], part: usize) {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut escapes = 0u16;
    for (i, (block, places)) in blocks.iter().zip(places).enumerate() {
        let mut left = places.large & (0xFFFF_FFFF << (32 * part));
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            out.extend_from_slice(&(i as u16).to_le_bytes());
            out.push(place as u8);
            out.extend_from_slice(&block[place & 63].to_le_bytes());
            escapes += 1;
        }
    }
    out[start..start + 2].copy_from_slice(&escapes.to_le_bytes());
    for (block, places) in blocks.iter().zip(places) {
        append_half(out, block, (places.small >> (32 * part)) as u32, part);
    }
}

/// Appends the coefficients that `mask` marks.
fn append_half(out: &mut Vec<u8>, block: &Block, mask: u32, part: usize) {
    let mut packed = [0; LARGEST + 1];
    let mut at = 1;
    for (row, mask) in mask.to_le_bytes().into_iter().enumerate() {
        // A mask that is zero is overwritten by the next.
        packed[at] = mask;
        at += usize::from(mask != 0);
        packed[0] |= u8::from(mask != 0) << row;
    }
    let mut left = mask;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        packed[at] = block[(32 * part + place) & 63] as u8;
        at += 1;
    }
    out.extend_from_slice(&packed[..at]);
}
