//! From a JPEG to the `compact` encoding.

use super::planes::{BITS, FULL, TRIANGLES};
use super::{HAS_FULL, HEADER, MAGIC, SLACK, VERSION, WIDE_QUANTISERS, dc, original};
use crate::jpeg::coefficients::{self, Coefficients};
use crate::jpeg::frame::{Colors, Frame};
use crate::jpeg::idct::{Block, Quant};
use crate::{Error, Result};

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
    let per_row = frame.mcus_across * frame.blocks_per_mcu;
    let heads: Vec<Head> = read.blocks.iter().map(Head::of).collect();
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
    let mut writer = RowWriter::default();
    for (number, row) in read.blocks.chunks_exact(per_row).enumerate() {
        writer.append(&mut out, row, &heads[number * per_row..][..per_row], has_full)?;
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
struct Head {
    last: u8,
    full: u8,
    /// Coefficients that are not zero, without DC.
    mask: u64,
}

impl Head {
    fn of(block: &Block) -> Self {
        let mask = mask_of(block, |value| value != 0) & !1;
        let last = TRIANGLES[..15].iter().position(|triangle| mask & !triangle == 0).unwrap_or(14);
        let full = FULL.iter().rposition(|triangle| mask & triangle == *triangle).unwrap_or(0);
        Head { last: last as u8, full: full as u8, mask }
    }
}

/// Bits, lowest first.
#[derive(Clone, Debug, Default)]
struct Bits {
    words: Vec<u64>,
    length: usize,
}

impl Bits {
    fn clear(&mut self) {
        self.words.clear();
        self.length = 0;
    }

    /// Appends the low `count` bits; the bits above must be zero.
    #[inline]
    fn push(&mut self, bits: u64, count: u32) {
        if count == 0 {
            return;
        }
        let shift = self.length % 64;
        if shift == 0 {
            self.words.push(bits);
        } else {
            if let Some(last) = self.words.last_mut() {
                *last |= bits << shift;
            }
            if shift + count as usize > 64 {
                self.words.push(bits >> (64 - shift));
            }
        }
        self.length += count as usize;
    }

    fn append(&mut self, other: &Bits) {
        for (at, &word) in other.words.iter().enumerate() {
            self.push(word, (other.length - 64 * at).min(64) as u32);
        }
    }
}

/// Scratch memory for a row's streams.
#[derive(Default)]
struct RowWriter {
    whole: Bits,
    full: Bits,
    a: Bits,
    x: [Bits; BITS],
    e: [Bits; BITS],
}

impl RowWriter {
    fn append(&mut self, out: &mut Vec<u8>, blocks: &[Block], heads: &[Head], has_full: bool) -> Option<()> {
        let RowWriter { whole, full, a, x, e } = self;
        [&mut *whole, &mut *full, &mut *a].into_iter().chain(&mut *x).chain(&mut *e).for_each(Bits::clear);
        for (block, head) in blocks.iter().zip(heads) {
            whole.push(u64::from(head.last), 4);
            let dense = if has_full { FULL[usize::from(head.full)] } else { 0 };
            full.push(u64::from(head.full), 2);
            let triangle = TRIANGLES[usize::from(head.last)] & !dense;
            a.push(extract(head.mask, triangle), triangle.count_ones());
            append_levels(block, head.mask, x, e)?;
        }
        if has_full {
            whole.append(full);
        }
        whole.append(a);
        for (x, e) in x.iter().zip(&*e) {
            whole.append(x);
            whole.append(e);
        }
        let bytes = whole.words.iter().flat_map(|word| word.to_le_bytes());
        out.extend(bytes.take(whole.length.div_ceil(8)));
        Some(())
    }
}

/// Appends the streams of magnitudes and signs. `None` if a magnitude has more than [`BITS`] bits.
fn append_levels(block: &Block, nonzero: u64, x: &mut [Bits; BITS], e: &mut [Bits; BITS]) -> Option<()> {
    let mut magnitudes = *block;
    magnitudes[0] = 0;
    let mut any = 0;
    for value in &mut magnitudes {
        *value = value.wrapping_abs();
        any |= *value;
    }
    let bits = 16 - any.leading_zeros() as usize;
    if bits > BITS {
        return None;
    }
    let mut mask = nonzero;
    for t in 0..bits {
        let least = 1i16 << (t + 1);
        let longer = mask_of(&magnitudes, |m| m >= least);
        let extra = if t == 0 {
            mask_of(block, |value| value < 0)
        } else {
            let bit = 1i16 << (t - 1);
            mask_of(&magnitudes, |m| m & bit != 0)
        };
        let count = mask.count_ones();
        x[t].push(extract(longer, mask), count);
        e[t].push(extract(extra, mask), count);
        mask = longer;
    }
    Some(())
}

/// The coefficients for which `test` holds. First as bytes of 0 or 1, which the compiler vectorises; one multiplication
/// then turns eight bytes into eight bits.
#[inline(always)]
pub(in crate::dct) fn mask_of(block: &Block, test: impl Fn(i16) -> bool) -> u64 {
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

/// Moves the bits of `value` that are set in `mask` together.
fn extract(value: u64, mut mask: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("bmi2") && super::planes::has_fast_pdep() {
        // SAFETY: BMI2 was just found.
        return unsafe { std::arch::x86_64::_pext_u64(value, mask) };
    }
    let (mut out, mut next) = (0, 0);
    while mask != 0 {
        let lowest = mask & mask.wrapping_neg();
        out |= u64::from(value & lowest != 0) << next;
        next += 1;
        mask ^= lowest;
    }
    out
}

#[cfg(test)]
pub(super) fn append_row(out: &mut Vec<u8>, blocks: &[Block], has_full: bool) -> Option<()> {
    let heads: Vec<Head> = blocks.iter().map(Head::of).collect();
    RowWriter::default().append(out, blocks, &heads, has_full)
}
