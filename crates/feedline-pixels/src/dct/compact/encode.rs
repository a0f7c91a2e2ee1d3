//! From a JPEG to the `compact` encoding.

use super::planes::{FULL, TRIANGLES};
use super::split::{Split, split};
use super::streams::RowWriter;
use super::{HAS_FULL, HEADER, MAGIC, SLACK, VERSION, WIDE_QUANTISERS, dc, original};
use crate::jpeg::coefficients::{self, Coefficients};
use crate::jpeg::frame::{Colors, Frame};
use crate::jpeg::idct::Quant;
use crate::{CpuLevel, Error, Result, reserve};

/// Encodes a JPEG so that [`original`](super::original) can restore it byte for byte. Files for which that is
/// impossible are refused (progressive, arithmetic, CMYK, 12 bits, several scans, damaged): store those unchanged.
pub fn encode(bytes: &[u8], pixel_limit: u64) -> Result<Vec<u8>> {
    let refused = |reason: &str| Error::Unsupported { codec: "compact", reason: reason.to_owned() };
    let read = coefficients::read(bytes, pixel_limit)
        .map_err(|_| refused("only intact sequential JPEGs of 8 bits have this encoding"))?;
    let mut out = pack(&read).ok_or_else(|| refused("coefficients out of the usual range, or over 4 GiB"))?;
    let kept = original::keep(bytes, &read).ok_or_else(|| refused("the file cannot be rebuilt exactly"))?;
    out.extend_from_slice(&kept);
    let end = u32::try_from(out.len()).map_err(|_| refused("over 4 GiB"))?;
    out[32..36].copy_from_slice(&end.to_le_bytes());
    Ok(out)
}

fn pack(read: &Coefficients) -> Option<Vec<u8>> {
    let frame = &read.frame;
    let level = CpuLevel::detect();
    let per_row = frame.mcus_across * frame.blocks_per_mcu;
    let mut splits = Vec::new();
    reserve(&mut splits, read.blocks.len()).ok()?;
    splits.resize(read.blocks.len(), Split::default());
    split(level, &read.blocks, &mut splits)?;
    let heads: Vec<Head> = splits.iter().map(Head::of).collect();
    // F pays off if the first diagonals are dense, that is, at high quality. It costs two bits per block.
    let saved: u32 = heads.iter().map(|head| FULL[usize::from(head.full)].count_ones()).sum();
    let has_full = saved as usize > 2 * heads.len();
    let mut out = header(frame, read.orientation, has_full);
    for row in read.blocks.chunks_exact(per_row) {
        dc::append(&mut out, frame, row)?;
    }
    out.extend_from_slice(&[0; SLACK]);
    let dc_end = u32::try_from(out.len()).ok()?;
    out[24..28].copy_from_slice(&dc_end.to_le_bytes());
    let table = out.len();
    out.resize(table + 4 * (frame.mcus_down + 1), 0);
    let data = out.len();
    let mut writer = RowWriter::new(level, per_row);
    for (number, row) in splits.chunks_exact(per_row).enumerate() {
        writer.append(&mut out, row, &heads[number * per_row..][..per_row], has_full);
        let offset = u32::try_from(out.len() - data).ok()?;
        out[table + 4 * number + 4..][..4].copy_from_slice(&offset.to_le_bytes());
    }
    out.extend_from_slice(&[0; SLACK]);
    let rows_end = u32::try_from(out.len()).ok()?;
    out[28..32].copy_from_slice(&rows_end.to_le_bytes());
    Some(out)
}

fn header(frame: &Frame, orientation: u8, has_full: bool) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    out[..2].copy_from_slice(&MAGIC);
    out[2] = VERSION;
    out[3] = match frame.colors {
        Colors::Grey => 0x01,
        Colors::Ycc => 0x13,
        Colors::Rgb => 0x23,
    };
    out[4..8].copy_from_slice(&frame.size.width.to_le_bytes());
    out[8..12].copy_from_slice(&frame.size.height.to_le_bytes());
    out[18] = orientation;
    let mut tables: Vec<Quant> = Vec::new();
    for (i, component) in frame.components.iter().enumerate() {
        out[12 + 2 * i] = component.h as u8;
        out[13 + 2 * i] = component.v as u8;
        let known = tables.iter().position(|table| *table == component.quant);
        out[20 + i] = known.unwrap_or(tables.len()) as u8;
        if known.is_none() {
            tables.push(component.quant);
        }
    }
    out[23] = tables.len() as u8;
    let wide = tables.iter().flatten().any(|&value| u8::try_from(value).is_err());
    out[19] = if has_full { HAS_FULL } else { 0 } | if wide { WIDE_QUANTISERS } else { 0 };
    for value in tables.iter().flatten() {
        out.extend_from_slice(&value.to_le_bytes()[..if wide { 2 } else { 1 }]);
    }
    out
}

/// D and F of a block.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) last: u8,
    pub(super) full: u8,
    /// Coefficients that are not zero, without DC.
    pub(super) mask: u64,
}

impl Head {
    fn of(block: &Split) -> Self {
        let mask = block.nonzero();
        // The first triangle that has all of them, found by halving.
        let mut last = 0;
        for step in [8, 4, 2, 1] {
            last += if mask & !TRIANGLES[last + step - 1] == 0 { 0 } else { step };
        }
        let full = FULL.iter().rposition(|triangle| mask & triangle == *triangle).unwrap_or(0);
        Head { last: last as u8, full: full as u8, mask }
    }
}

/// The coefficients for which `test` holds. First as bytes of 0 or 1, which the compiler vectorises; one multiplication
/// then turns eight bytes into eight bits.
#[inline(always)]
pub(in crate::dct) fn mask_of(block: &[i16; 64], test: impl Fn(i16) -> bool) -> u64 {
    let mut flags = [0u8; 64];
    for (flag, &value) in flags.iter_mut().zip(block) {
        *flag = u8::from(test(value));
    }
    let mut mask = 0;
    for (group, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
        let byte = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= byte << (8 * group);
    }
    mask
}

#[cfg(test)]
pub(super) fn append_row(
    level: CpuLevel,
    out: &mut Vec<u8>,
    blocks: &[crate::jpeg::idct::Block],
    has_full: bool,
) -> Option<()> {
    let mut splits = vec![Split::default(); blocks.len()];
    split(level, blocks, &mut splits)?;
    let heads: Vec<Head> = splits.iter().map(Head::of).collect();
    RowWriter::new(level, blocks.len()).append(out, &splits, &heads, has_full);
    Some(())
}
