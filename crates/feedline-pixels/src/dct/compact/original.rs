//! Restores the JPEG file byte for byte: its headers are stored, its scan is encoded again.
//!
//! The original part, if it is not empty: the bit that pads bytes (8 bits), the length of the header (up to the scan's
//! data) and of the tail (after the end of the data), 32 bits each; then both, deflated.
//!
//! A sequential scan is determined by its coefficients, its Huffman tables and its restart interval, if the encoder
//! wrote it the usual way. This is checked when a file is packed: by the decoder while it reads the codes, or, for tables and
//! scans that it cannot judge, by writing the scan and comparing.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::io::{Read, Write};

use super::File;
use crate::jpeg::coefficients::Coefficients;
use crate::jpeg::frame::Frame;
use crate::jpeg::huffman::Irregular;
use crate::jpeg::idct::Block;
use crate::jpeg::parse::{self, HuffmanSpec, ZIGZAG};
use crate::jpeg::source::{RowSpan, Source};
use crate::{CpuLevel, Error, Result, reserve};

const PREFIX: usize = 9;

/// Data to store besides the coefficients; `None` if the file could not be restored.
pub(super) fn keep(bytes: &[u8], read: &Coefficients) -> Option<Vec<u8>> {
    let header = read.data_start;
    let (end, fill) = match read.determined {
        Some(end) => (header + end.length, if end.ones { 0xFF } else { 0 }),
        None => rebuilt(bytes, read)?,
    };
    let tail = bytes.get(end..)?;
    let mut out = vec![fill & 1];
    out.extend_from_slice(&u32::try_from(header).ok()?.to_le_bytes());
    out.extend_from_slice(&u32::try_from(tail.len()).ok()?.to_le_bytes());
    let mut deflated = DeflateEncoder::new(out, Compression::best());
    deflated.write_all(&bytes[..header]).ok()?;
    deflated.write_all(tail).ok()?;
    deflated.finish().ok()
}

/// Writes the scan as [`original`] would, and compares: its end in the file, and the padding.
fn rebuilt(bytes: &[u8], read: &Coefficients) -> Option<(usize, u8)> {
    let header = bytes.get(..read.data_start)?;
    let mut rebuilt = Vec::with_capacity(bytes.len() + 64);
    let fill = [0xFFu8, 0].into_iter().find(|fill| {
        rebuilt.clear();
        rebuilt.extend_from_slice(header);
        write_scan(&mut rebuilt, header, *fill, &read.frame, &read.blocks).is_some()
            && bytes.starts_with(&rebuilt)
    })?;
    Some((rebuilt.len(), fill))
}

/// Restores the encoded file, byte for byte.
pub fn original(bytes: &[u8], pixel_limit: u64) -> Result<Vec<u8>> {
    let file = File::open(bytes)?;
    let size = file.frame.size;
    if size.area() > pixel_limit {
        return Err(Error::TooLarge { width: size.width, height: size.height, limit: pixel_limit });
    }
    let (header, tail, fill) = kept(file.part(file.ends[1] as usize, file.ends[2])?)?;
    let blocks = all_blocks(&file)?;
    let mut out = Vec::new();
    reserve(&mut out, bytes.len() + header.len() + tail.len())?;
    out.extend_from_slice(&header);
    write_scan(&mut out, &header, fill, &file.frame, &blocks).ok_or_else(|| wrong("tables"))?;
    out.extend_from_slice(&tail);
    Ok(out)
}

fn wrong(reason: &str) -> Error {
    Error::Corrupt { codec: "compact", offset: 0, reason: format!("original file: {reason}") }
}

/// Header, tail and padding bit of an original part.
fn kept(part: &[u8]) -> Result<(Vec<u8>, Vec<u8>, u8)> {
    let prefix: &[u8; PREFIX] = part.first_chunk().ok_or_else(|| wrong("not kept"))?;
    let length = |at| super::long(prefix, at) as usize;
    let (header, tail) = (length(1), length(5));
    // Deflate expands one byte to at most 1032.
    let most = part.len().saturating_mul(1032);
    if header.checked_add(tail).is_none_or(|total| total > most) {
        return Err(wrong("lengths"));
    }
    let mut both = Vec::new();
    reserve(&mut both, header + tail)?;
    let inflated = DeflateDecoder::new(&part[PREFIX..]).take((header + tail) as u64).read_to_end(&mut both);
    if inflated.ok() != Some(header + tail) {
        return Err(wrong("headers cut short"));
    }
    let tail = both.split_off(header);
    Ok((both, tail, if prefix[0] & 1 == 1 { 0xFF } else { 0 }))
}

fn all_blocks(file: &File<'_>) -> Result<Vec<Block>> {
    let frame = &file.frame;
    let mut source = file.source(CpuLevel::detect(), 8)?;
    let per_row = frame.mcus_across * frame.blocks_per_mcu;
    let mut blocks = Vec::new();
    reserve(&mut blocks, per_row * frame.mcus_down)?;
    blocks.resize(per_row * frame.mcus_down, [0; 64]);
    for row in 0..frame.mcus_down {
        let span = RowSpan { row, mcus: 0..frame.mcus_across, offset: row * per_row };
        source.fill(&[span], &mut blocks).map_err(|Irregular| wrong("coefficients"))?;
    }
    Ok(blocks)
}

/// Code and length of every symbol; length 0 for those without a code.
struct Codes([(u16, u8); 256]);

impl Codes {
    fn new(spec: &HuffmanSpec) -> Option<Self> {
        let mut codes = [(0, 0); 256];
        let (mut code, mut next) = (0u32, 0);
        for (length, &count) in (1u8..).zip(&spec.counts) {
            for _ in 0..count {
                let symbol = usize::from(*spec.symbols.get(next)?);
                if codes[symbol].1 == 0 {
                    codes[symbol] = (u16::try_from(code).ok()?, length);
                }
                next += 1;
                code += 1;
            }
            code <<= 1;
        }
        Some(Codes(codes))
    }

    fn get(&self, symbol: usize) -> Option<(u64, u32)> {
        let (code, length) = self.0[symbol & 255];
        (length > 0).then_some((u64::from(code), u32::from(length)))
    }
}

/// Writes bits, highest first, with a zero byte after every `FF`.
struct ScanWriter<'a> {
    out: &'a mut Vec<u8>,
    bits: u64,
    count: u32,
}

impl ScanWriter<'_> {
    /// Writes at most 32 bits.
    #[inline]
    fn push(&mut self, bits: u64, count: u32) {
        self.bits = self.bits << count | bits;
        self.count += count;
        if self.count >= 32 {
            self.count -= 32;
            let four = (self.bits >> self.count) as u32;
            // A byte of ones is rare; four other bytes are written at once.
            if (four & !four.wrapping_add(0x0101_0101)) & 0x8080_8080 == 0 {
                self.out.extend_from_slice(&four.to_be_bytes());
            } else {
                four.to_be_bytes().into_iter().for_each(|byte| self.byte(byte));
            }
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
        if byte == 0xFF {
            self.out.push(0);
        }
    }

    /// Pads the last byte.
    fn finish(&mut self, fill: u8) {
        let free = self.count.wrapping_neg() % 8;
        self.bits = self.bits << free | u64::from(fill) & ((1 << free) - 1);
        self.count += free;
        while self.count > 0 {
            self.count -= 8;
            self.byte((self.bits >> self.count) as u8);
        }
    }
}

/// Writes the scan of these blocks with the tables of `header`. `None` if a code is missing in them.
fn write_scan(out: &mut Vec<u8>, header: &[u8], fill: u8, frame: &Frame, blocks: &[Block]) -> Option<()> {
    let header = parse::parse(header).ok()?;
    let mut slots = Vec::with_capacity(frame.blocks_per_mcu);
    for (number, (component, spec)) in frame.components.iter().zip(&header.components).enumerate() {
        let dc = std::rc::Rc::new(Codes::new(header.dc[usize::from(spec.dc)].as_ref()?)?);
        let ac = std::rc::Rc::new(Codes::new(header.ac[usize::from(spec.ac)].as_ref()?)?);
        slots.extend((0..component.h * component.v).map(|_| (number, dc.clone(), ac.clone())));
    }
    let interval = header.restart_interval as usize;
    let mut writer = ScanWriter { out, bits: 0, count: 0 };
    let mut last = [0i16; 3];
    for (number, mcu) in blocks.chunks_exact(frame.blocks_per_mcu).enumerate() {
        if interval > 0 && number > 0 && number.is_multiple_of(interval) {
            writer.finish(fill);
            writer.out.extend_from_slice(&[0xFF, 0xD0 + ((number / interval - 1) % 8) as u8]);
            last = [0; 3];
        }
        for (block, (component, dc, ac)) in mcu.iter().zip(&slots) {
            let difference = i32::from(block[0]) - i32::from(last[*component]);
            last[*component] = block[0];
            write_dc(&mut writer, difference, dc)?;
            write_ac(&mut writer, block, ac)?;
        }
    }
    writer.finish(fill);
    Some(())
}

/// Number of bits of a value, and those bits as JPEG writes them: negative values minus one.
#[inline]
fn category(value: i32) -> (u32, u64) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let bits = if value < 0 { value - 1 } else { value };
    (size, u64::from(bits as u32) & ((1 << size) - 1))
}

fn write_dc(writer: &mut ScanWriter<'_>, difference: i32, codes: &Codes) -> Option<()> {
    let (size, bits) = category(difference);
    let (code, length) = codes.get(size as usize)?;
    writer.push(code << size | bits, length + size);
    Some(())
}

fn write_ac(writer: &mut ScanWriter<'_>, block: &Block, codes: &Codes) -> Option<()> {
    let values: [i16; 64] = std::array::from_fn(|k| block[usize::from(ZIGZAG[k])]);
    let mut left = super::encode::mask_of(&values, |value| value != 0) & !1;
    let mut before = 0;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let value = i32::from(values[at & 63]);
        let mut run = at - before - 1;
        before = at;
        while run > 15 {
            let (code, length) = codes.get(0xF0)?;
            writer.push(code, length);
            run -= 16;
        }
        let (size, bits) = category(value);
        if size > 10 + 5 {
            return None;
        }
        let (code, length) = codes.get(run << 4 | size as usize)?;
        writer.push(code << size | bits, length + size);
    }
    if before < 63 {
        let (code, length) = codes.get(0)?;
        writer.push(code, length);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::encode::encode;
    use super::*;
    use crate::Size;
    use crate::jpeg::coefficients;
    use crate::turbo::{self, Encoding};
    use proptest::prelude::*;

    const LIMIT: u64 = 1 << 20;

    fn read(bytes: &[u8]) -> Coefficients {
        coefficients::read(bytes, LIMIT).unwrap_or_else(|_| panic!("a regular file"))
    }

    proptest! {
        /// What the decoder sees is what writing the scan again shows.
        #[test]
        fn the_decoder_finds_the_end_that_writing_finds(
            width in 1..90u32, height in 1..60u32, quality in 1..=100u8, seed in any::<u64>(),
            optimize in any::<bool>(), even in any::<bool>(),
        ) {
            let sampling = if even { (2, 2) } else { (1, 1) };
            let base = Encoding::baseline(Size::new(width, height), 3, quality, sampling);
            let mut state = seed | 1;
            let pixels: Vec<u8> = (0..width * height * 3).map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if i / 300 % 2 == 0 { (state >> 56) as u8 } else { (i / 7) as u8 }
            }).collect();
            let bytes = turbo::encode(&pixels, &Encoding { optimize, ..base }).unwrap();
            let read = read(&bytes);
            let end = read.determined.unwrap();
            let found = (read.data_start + end.length, if end.ones { 0xFF } else { 0 });
            prop_assert_eq!(rebuilt(&bytes, &read), Some(found));
        }
    }

    /// A grey image of one block with this scan.
    fn one_block(scan: &[u8]) -> Vec<u8> {
        let flat = turbo::encode(&[128; 64], &Encoding::baseline(Size::new(8, 8), 1, 75, (1, 1))).unwrap();
        let header = parse::parse(&flat).ok().unwrap().data_start;
        [&flat[..header], scan, &[0xFF, 0xD9]].concat()
    }

    #[test]
    fn scans_that_coefficients_do_not_determine_are_refused() {
        // The standard tables: 00 is no difference, 11111111001 are sixteen zeros, 1010 is the end of a block.
        let padded = [(0b0010_1011, true), (0b0010_1000, false)];
        for (scan, ones) in padded {
            let bytes = one_block(&[scan]);
            assert_eq!(read(&bytes).determined.map(|end| (end.length, end.ones)), Some((1, ones)));
            assert_eq!(original(&encode(&bytes, LIMIT).unwrap(), LIMIT).unwrap(), bytes);
        }
        let odd_padding = one_block(&[0b0010_1001]);
        let needless_zeros = one_block(&[0b0011_1111, 0b1100_1101, 0b0111_1111]);
        for bytes in [odd_padding, needless_zeros] {
            assert_eq!(read(&bytes).determined, None);
            assert!(encode(&bytes, LIMIT).is_err());
        }
        // Bytes between the scan and the end marker belong to the tail.
        let longer = one_block(&[0b0010_1011, 0x12, 0x34]);
        assert_eq!(original(&encode(&longer, LIMIT).unwrap(), LIMIT).unwrap(), longer);
    }
}
