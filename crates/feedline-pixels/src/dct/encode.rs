//! From a JPEG to the `dct` encoding.

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
    for (part, end) in [(0, 28), (1, 32)] {
        append_part(&mut out, frame, &read.blocks, part)?;
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

/// Rows 0–3 (part 0) or 4–7 (part 1) of all blocks, by segment, after a table of offsets.
fn append_part(out: &mut Vec<u8>, frame: &Frame, blocks: &[Block], part: usize) -> Option<()> {
    let row = frame.mcus_across * frame.blocks_per_mcu;
    let segments = blocks.chunks(row).flat_map(|row| row.chunks(SEGMENT * frame.blocks_per_mcu));
    let table = out.len();
    out.resize(table + 4 * (segments.clone().count() + 1), 0);
    let data = out.len();
    let mut entry = table;
    for segment in segments {
        let offset = u32::try_from(out.len() - data).ok()?;
        out[entry..entry + 4].copy_from_slice(&offset.to_le_bytes());
        entry += 4;
        append_segment(out, segment, part);
    }
    let offset = u32::try_from(out.len() - data).ok()?;
    out[entry..entry + 4].copy_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&[0; SLACK]);
    Some(())
}

fn append_segment(out: &mut Vec<u8>, blocks: &[Block], part: usize) {
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    let mut escapes = 0u16;
    for (i, block) in blocks.iter().enumerate() {
        for (place, value) in block.iter().enumerate().skip(part * 32).take(32) {
            if place != 0 && i8::try_from(*value).is_err() {
                out.extend_from_slice(&(i as u16).to_le_bytes());
                out.push(place as u8);
                out.extend_from_slice(&value.to_le_bytes());
                escapes += 1;
            }
        }
    }
    out[start..start + 2].copy_from_slice(&escapes.to_le_bytes());
    for block in blocks {
        append_half(out, block, part);
    }
}

fn append_half(out: &mut Vec<u8>, block: &Block, part: usize) {
    let presence_at = out.len();
    out.push(0);
    let mut values = [0; LARGEST];
    let mut count = 0;
    for (row, coefficients) in block[part * 32..part * 32 + 32].chunks_exact(8).enumerate() {
        let mut mask = 0u8;
        for (column, &value) in coefficients.iter().enumerate() {
            // The DC coefficient has its own part; values that do not fit in a byte are already in the list.
            let dc = part == 0 && row == 0 && column == 0;
            if let (false, Ok(small @ (i8::MIN..=-1 | 1..))) = (dc, i8::try_from(value)) {
                mask |= 1 << column;
                values[count] = small as u8;
                count += 1;
            }
        }
        if mask != 0 {
            out[presence_at] |= 1 << row;
            out.push(mask);
        }
    }
    out.extend_from_slice(&values[..count]);
}
