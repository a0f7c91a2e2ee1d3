//! DC coefficients: for each MCU row and component the first value, then differences in groups of eight.
//!
//! For each component: the first value (16 bits), a width of 4 bits for every group (low half first, padded to a byte),
//! then the groups, each as many bytes as its width has bits: eight differences of that many bits, lowest first, with
//! the sign in the lowest bit (0, −1, 1, −2, …). The last group is padded with zeros.

use super::SLACK;
use crate::CpuLevel;
use crate::jpeg::frame::Frame;
use crate::jpeg::idct::Block;

const GROUP: usize = 8;

/// Values of one component in an MCU row, and their places in it.
struct Lane {
    /// Number of blocks of this component in an MCU.
    per_mcu: usize,
    /// Index of the first of them.
    first_block: usize,
    /// Number of values in a row.
    count: usize,
}

impl Lane {
    fn groups(&self) -> usize {
        (self.count - 1).div_ceil(GROUP)
    }
}

fn lanes(frame: &Frame) -> Vec<Lane> {
    let lane = |c: &crate::jpeg::frame::Component| Lane {
        per_mcu: c.h * c.v,
        first_block: c.first_block,
        count: frame.mcus_across * c.h * c.v,
    };
    frame.components.iter().map(lane).collect()
}

/// The DC part of a file.
pub(super) struct Part<'a> {
    bytes: &'a [u8],
    /// Offset of each row; the last entry is the end.
    starts: Vec<usize>,
    lanes: Vec<Lane>,
    blocks_per_mcu: usize,
    values: Vec<i16>,
}

impl<'a> Part<'a> {
    /// Finds the rows. `None` if they do not fill the part exactly.
    pub(super) fn open(bytes: &'a [u8], frame: &Frame) -> Option<Self> {
        let end = bytes.len().checked_sub(SLACK)?;
        let lanes = lanes(frame);
        // Every row has at least one value per component, so a header cannot request more memory than it has bytes.
        if end < 2 * lanes.len() * frame.mcus_down {
            return None;
        }
        let mut starts = Vec::with_capacity(frame.mcus_down + 1);
        let mut at = 0;
        for _ in 0..frame.mcus_down {
            starts.push(at);
            for lane in &lanes {
                let widths = bytes[..end].get(at + 2..at + 2 + lane.groups().div_ceil(2))?;
                let total: usize = widths.iter().map(|b| usize::from(b & 15) + usize::from(b >> 4)).sum();
                at += 2 + widths.len() + total;
            }
        }
        starts.push(at);
        (at == end).then_some(Part {
            bytes,
            starts,
            lanes,
            blocks_per_mcu: frame.blocks_per_mcu,
            values: Vec::new(),
        })
    }

    /// Writes the DC coefficients of `blocks`, which are the blocks of a row starting at `first`.
    pub(super) fn put(
        &mut self,
        level: CpuLevel,
        row: usize,
        first: usize,
        blocks: &mut [Block],
    ) -> Option<()> {
        let mcu = first / self.blocks_per_mcu;
        let end = (first + blocks.len()) / self.blocks_per_mcu;
        let mut at = *self.starts.get(row)?;
        for lane in &self.lanes {
            let length = lane.groups().div_ceil(2);
            let widths = self.bytes.get(at + 2..at + 2 + length)?;
            let start = i16::from_le_bytes([*self.bytes.get(at)?, *self.bytes.get(at + 1)?]);
            let wanted = end * lane.per_mcu;
            decode(level, start, widths, self.bytes.get(at + 2 + length..)?, wanted, &mut self.values)?;
            for (m, values) in self.values.chunks_exact(lane.per_mcu).take(end).skip(mcu).enumerate() {
                let into = &mut blocks[m * self.blocks_per_mcu + lane.first_block..];
                for (block, value) in into.iter_mut().zip(values) {
                    block[0] = *value;
                }
            }
            let total: usize = widths.iter().map(|b| usize::from(b & 15) + usize::from(b >> 4)).sum();
            at += 2 + length + total;
        }
        Some(())
    }
}

fn width_of(widths: &[u8], group: usize) -> usize {
    usize::from(widths[group / 2] >> (4 * (group % 2)) & 15)
}

/// Decodes at least the first `wanted` values.
fn decode(
    level: CpuLevel,
    start: i16,
    widths: &[u8],
    groups: &[u8],
    wanted: usize,
    values: &mut Vec<i16>,
) -> Option<()> {
    values.clear();
    values.push(start);
    let count = wanted.saturating_sub(1).div_ceil(GROUP);
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 if super::planes::has_fast_pdep() => {
            // SAFETY: these levels are only ever passed down after detection of AVX2 and BMI2.
            unsafe { avx2(start, widths, groups, count, values) }
        }
        _ => scalar(start, widths, groups, count, values),
    }
}

fn scalar(start: i16, widths: &[u8], groups: &[u8], count: usize, values: &mut Vec<i16>) -> Option<()> {
    let (mut at, mut last) = (0, start);
    for group in 0..count {
        let width = width_of(widths, group);
        let mut bits = u128::from_le_bytes(*groups.get(at..)?.first_chunk()?);
        at += width;
        for _ in 0..GROUP {
            let mapped = (bits & ((1 << width) - 1)) as u16;
            bits >>= width;
            let difference = (mapped >> 1) as i16 ^ -((mapped & 1) as i16);
            last = last.wrapping_add(difference);
            values.push(last);
        }
    }
    Some(())
}

/// Two `pdep` expand a group to eight lanes; three shifted additions compute the prefix sum.
///
/// # Safety
/// The CPU must have AVX2 and BMI2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn avx2(start: i16, widths: &[u8], groups: &[u8], count: usize, values: &mut Vec<i16>) -> Option<()> {
    use std::arch::x86_64::*;
    let mut last = _mm_set1_epi16(start);
    let mut at = 0;
    values.reserve(GROUP * count);
    for group in 0..count {
        let width = width_of(widths, group);
        let bytes: &[u8; 16] = groups.get(at..)?.first_chunk()?;
        at += width;
        let bits = u128::from_le_bytes(*bytes);
        let lanes = 0x0001_0001_0001_0001 * ((1u64 << width) - 1);
        let low = _pdep_u64(bits as u64, lanes);
        let high = _pdep_u64((bits >> (4 * width)) as u64, lanes);
        let mapped = _mm_set_epi64x(high as i64, low as i64);
        let sign = _mm_sub_epi16(_mm_setzero_si128(), _mm_and_si128(mapped, _mm_set1_epi16(1)));
        let mut sum = _mm_xor_si128(_mm_srli_epi16::<1>(mapped), sign);
        sum = _mm_add_epi16(sum, _mm_slli_si128::<2>(sum));
        sum = _mm_add_epi16(sum, _mm_slli_si128::<4>(sum));
        sum = _mm_add_epi16(sum, _mm_slli_si128::<8>(sum));
        sum = _mm_add_epi16(sum, last);
        last = _mm_shuffle_epi8(sum, _mm_set1_epi16(0x0F0E));
        let mut eight = [0i16; GROUP];
        // SAFETY: eight values of 16 bits are 16 bytes; the store needs no alignment.
        unsafe { _mm_storeu_si128(eight.as_mut_ptr().cast(), sum) };
        values.extend_from_slice(&eight);
    }
    Some(())
}

/// Appends an MCU row. `None` if a difference has more than 15 bits.
pub(super) fn append(out: &mut Vec<u8>, frame: &Frame, blocks: &[Block]) -> Option<()> {
    for lane in lanes(frame) {
        let mcus = blocks.chunks_exact(frame.blocks_per_mcu);
        let values = mcus.flat_map(|mcu| &mcu[lane.first_block..lane.first_block + lane.per_mcu]);
        let values: Vec<i16> = values.map(|block| block[0]).collect();
        append_lane(out, &values)?;
    }
    Some(())
}

fn append_lane(out: &mut Vec<u8>, values: &[i16]) -> Option<()> {
    out.extend_from_slice(&values[0].to_le_bytes());
    let mapped: Option<Vec<u16>> =
        values.windows(2).map(|pair| map(pair[1] as i32 - pair[0] as i32)).collect();
    let mapped = mapped?;
    let width = |group: &[u16]| 16 - group.iter().fold(0, |all, v| all | v).leading_zeros() as u8;
    let widths: Vec<u8> = mapped.chunks(GROUP).map(width).collect();
    out.extend(widths.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4));
    for (group, &width) in mapped.chunks(GROUP).zip(&widths) {
        let bits = group.iter().rev().fold(0u128, |bits, &v| bits << width | u128::from(v));
        out.extend_from_slice(&bits.to_le_bytes()[..usize::from(width)]);
    }
    Some(())
}

/// Encodes a difference with its sign in the lowest bit.
fn map(difference: i32) -> Option<u16> {
    let mapped = (difference << 1) ^ (difference >> 31);
    u16::try_from(mapped).ok().filter(|&m| m < 1 << 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back_at_every_level(values in prop::collection::vec(-4000i16..4000, 1..70), cut in 1usize..70) {
            let mut out = Vec::new();
            append_lane(&mut out, &values).unwrap();
            out.extend_from_slice(&[0; SLACK]);
            let widths = (values.len() - 1).div_ceil(GROUP).div_ceil(2);
            let start = i16::from_le_bytes([out[0], out[1]]);
            let cut = cut.min(values.len());
            for level in CpuLevel::available() {
                let mut back = Vec::new();
                decode(level, start, &out[2..2 + widths], &out[2 + widths..], cut, &mut back).unwrap();
                prop_assert_eq!(&back[..cut], &values[..cut]);
            }
        }
    }

    #[test]
    fn what_has_more_than_fifteen_bits_is_refused() {
        assert!(append_lane(&mut Vec::new(), &[0, 16384]).is_none());
        assert!(append_lane(&mut Vec::new(), &[0, 16383, 0]).is_some());
        assert!(append_lane(&mut Vec::new(), &[-32768, 32767]).is_none());
    }
}
