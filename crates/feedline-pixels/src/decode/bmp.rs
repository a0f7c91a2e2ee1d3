//! Windows and OS/2 bitmaps: 1 to 32 bits, run-length coded or not. Written here because the format is small, and
//! because Pillow's treatment of odd files (runs past a row's end, missing pixels) is easier to match than with a
//! library.

use super::{Codec, ImageHeader, Scratch, Stored, expand_palette};
use crate::{Number, Orientation, PixelLayout, Result, Size, room};

const CODEC: Codec = Codec::Bmp;

/// Bytes before the second header.
const FILE_HEADER: usize = 14;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let bitmap = Bitmap::parse(bytes)?;
    let channels = if bitmap.bits <= 8 { 1 } else { 3 };
    let bits = if bitmap.bits <= 8 { bitmap.bits as u8 } else { 8 };
    Ok(ImageHeader { codec: CODEC, size: bitmap.size, channels, bits, orientation: Orientation::Upright })
}

/// The fewest bytes that the pixels can take. In run-length coded files, four bytes can skip 255 rows.
pub(super) fn fewest_bytes(bytes: &[u8]) -> Result<u64> {
    let bitmap = Bitmap::parse(bytes)?;
    Ok(match bitmap.coding {
        Coding::Raw => bitmap.size.area() / 8 * u64::from(bitmap.bits),
        Coding::Runs { .. } => u64::from(bitmap.size.height) * 4 / 256,
    })
}

pub(super) fn decode(bytes: &[u8], _: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let bitmap = Bitmap::parse(bytes)?;
    let data = bytes.get(bitmap.data..).ok_or_else(|| CODEC.truncated("no pixels"))?;
    match bitmap.coding {
        Coding::Raw => bitmap.read_raw(data, scratch)?,
        Coding::Runs { nibbles } => {
            bitmap.read_runs(data, nibbles, &mut scratch.samples)?;
            let palette = bitmap.palette(bytes)?;
            expand_palette(&scratch.samples, &palette, &mut scratch.pixels)?;
        }
    }
    if bitmap.is_indexed() && bitmap.coding == Coding::Raw {
        expand_palette(&scratch.samples, &bitmap.palette(bytes)?, &mut scratch.pixels)?;
    }
    if !bitmap.is_top_down {
        flip_rows(&mut scratch.pixels, bitmap.size.width as usize * 4);
    }
    Ok(PixelLayout::Rgbx)
}

/// Palette indices; `None` for a bitmap of colours.
pub(super) fn stored(bytes: &[u8], scratch: &mut Scratch) -> Result<Option<Stored>> {
    let bitmap = Bitmap::parse(bytes)?;
    if !bitmap.is_indexed() {
        return Ok(None);
    }
    let data = bytes.get(bitmap.data..).ok_or_else(|| CODEC.truncated("no pixels"))?;
    match bitmap.coding {
        Coding::Raw => bitmap.read_raw(data, scratch)?,
        Coding::Runs { nibbles } => bitmap.read_runs(data, nibbles, &mut scratch.samples)?,
    }
    if !bitmap.is_top_down {
        flip_rows(&mut scratch.samples, bitmap.size.width as usize);
    }
    let palette = bitmap.palette(bytes)?;
    // As in Pillow, a palette that is a ramp of greys means grey values.
    let grey = |(at, [red, green, blue]): (usize, &[u8; 3])| {
        let wanted = if bitmap.bits == 1 && at > 0 { 255 } else { at as u8 };
        (*red, *green, *blue) == (wanted, wanted, wanted)
    };
    let ramp = palette.iter().enumerate().all(grey);
    Ok(Some(match (ramp, bitmap.bits) {
        (true, 1) => Stored { black_and_white: true, ..Stored::plain(1, Number::U8) },
        (true, 8) => Stored::plain(1, Number::U8),
        _ => Stored::indexed(palette.iter().map(|[r, g, b]| [*r, *g, *b, 255]).collect()),
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Raw,
    Runs { nibbles: bool },
}

#[derive(Debug)]
struct Bitmap {
    size: Size,
    is_top_down: bool,
    bits: u16,
    coding: Coding,
    /// Red, green and blue of 16- and 32-bit pixels.
    masks: [u32; 3],
    palette_at: usize,
    palette_entry: usize,
    colors: usize,
    data: usize,
}

impl Bitmap {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let fields = Fields { bytes };
        let header = fields.u32(FILE_HEADER)? as usize;
        match header {
            12 => Self::parse_core(&fields),
            40 | 52 | 56 | 64 | 108 | 124 => Self::parse_info(&fields, header),
            _ => Err(CODEC.unsupported(format!("header of {header} bytes"))),
        }
    }

    fn parse_core(fields: &Fields<'_>) -> Result<Self> {
        let size = Size::new(u32::from(fields.u16(18)?), u32::from(fields.u16(20)?));
        let bits = fields.u16(24)?;
        Bitmap {
            size,
            is_top_down: false,
            bits,
            coding: Coding::Raw,
            masks: default_masks(bits),
            palette_at: FILE_HEADER + 12,
            palette_entry: 3,
            colors: 1 << bits.min(8),
            data: fields.u32(10)? as usize,
        }
        .checked()
    }

    fn parse_info(fields: &Fields<'_>, header: usize) -> Result<Self> {
        let height = fields.u32(22)?.cast_signed();
        let bits = fields.u16(28)?;
        let compression = fields.u32(30)?;
        let mut palette_at = FILE_HEADER + header;
        let mut masks = default_masks(bits);
        let coding = match compression {
            0 => Coding::Raw,
            1 if bits == 8 => Coding::Runs { nibbles: false },
            2 if bits == 4 => Coding::Runs { nibbles: true },
            3 => {
                let declared = [fields.u32(54)?, fields.u32(58)?, fields.u32(62)?];
                if declared != [0; 3] {
                    masks = declared;
                }
                if header == 40 {
                    palette_at += 12;
                }
                Coding::Raw
            }
            other => return Err(CODEC.unsupported(format!("compression {other} of {bits} bits"))),
        };
        let colors = match fields.u32(46)? as usize {
            0 => 1 << bits.min(8),
            colors => colors,
        };
        Bitmap {
            size: Size::new(fields.u32(18)?, height.unsigned_abs()),
            is_top_down: height < 0,
            bits,
            coding,
            masks,
            palette_at,
            palette_entry: 4,
            colors,
            data: fields.u32(10)? as usize,
        }
        .checked()
    }

    fn checked(mut self) -> Result<Self> {
        if self.size.width > i32::MAX as u32 {
            return Err(CODEC.corrupt(18, "negative width"));
        }
        if !matches!(self.bits, 1 | 4 | 8 | 16 | 24 | 32) {
            return Err(CODEC.unsupported(format!("{} bits per pixel", self.bits)));
        }
        if self.is_indexed() && self.colors > 65536 {
            return Err(CODEC.corrupt(46, format!("palette of {} colours", self.colors)));
        }
        // Some writers forget the palette in the offset of the pixels; Pillow corrects this, too.
        if self.is_indexed() && self.data == self.palette_at {
            self.data += 4 * self.colors;
        }
        Ok(self)
    }

    fn is_indexed(&self) -> bool {
        self.bits <= 8
    }

    /// Entries are blue, green, red. A palette that is cut off by the file's end or by the pixels ends there.
    fn palette(&self, bytes: &[u8]) -> Result<Vec<[u8; 3]>> {
        let table = bytes.get(self.palette_at..).ok_or_else(|| CODEC.truncated("no palette"))?;
        let entries = table.chunks_exact(self.palette_entry).take(self.colors.min(256));
        Ok(entries.map(|entry| [entry[2], entry[1], entry[0]]).collect())
    }

    /// Rows are padded to four bytes. Indices go to `samples`, colours to `pixels`.
    fn read_raw(&self, data: &[u8], scratch: &mut Scratch) -> Result<()> {
        let width = self.size.width as usize;
        let row = (width * usize::from(self.bits)).div_ceil(8);
        let stride = row.next_multiple_of(4);
        let height = self.size.height as usize;
        let needed = stride * (height - 1) + row;
        if data.len() < needed {
            return Err(CODEC.truncated(format!("{} of {needed} bytes of pixels", data.len())));
        }
        scratch.samples.clear();
        scratch.pixels.clear();
        let area = width * height;
        if self.is_indexed() {
            room::reserve(&mut scratch.samples, area)?;
        } else {
            room::reserve(&mut scratch.pixels, area * 4)?;
        }
        for row in data.chunks(stride).take(height) {
            match self.bits {
                1 => scratch.samples.extend((0..width).map(|x| row[x / 8] >> (7 - x % 8) & 1)),
                4 => scratch.samples.extend((0..width).map(|x| row[x / 2] >> (4 - x % 2 * 4) & 15)),
                8 => scratch.samples.extend_from_slice(&row[..width]),
                16 => {
                    self.read_masked(row.as_chunks::<2>().0, |&b| u32::from(u16::from_le_bytes(b)), scratch);
                }
                24 => scratch
                    .pixels
                    .extend(row.as_chunks::<3>().0[..width].iter().flat_map(|p| [p[2], p[1], p[0], 255])),
                _ => self.read_masked(row.as_chunks::<4>().0, |&b| u32::from_le_bytes(b), scratch),
            }
        }
        Ok(())
    }

    fn read_masked<T>(&self, row: &[T], value: impl Fn(&T) -> u32, scratch: &mut Scratch) {
        let channels = self.masks.map(Channel::new);
        for pixel in &row[..self.size.width as usize] {
            let value = value(pixel);
            scratch.pixels.extend(channels.map(|channel| channel.read(value)));
            scratch.pixels.push(255);
        }
    }

    /// Pairs of count and index; count 0 escapes to end of line, end of bitmap, a jump, or plain indices. As in Pillow,
    /// a run that goes past its row is cut, skipped pixels have index 0, and an image that ends early is an error.
    fn read_runs(&self, data: &[u8], nibbles: bool, indices: &mut Vec<u8>) -> Result<()> {
        let width = self.size.width as usize;
        let total = self.size.area() as usize;
        let mut x = 0;
        let mut at = 0;
        indices.clear();
        room::reserve(indices, total)?;
        while indices.len() < total {
            let Some(&[count, value]) = data.get(at..at + 2).and_then(|pair| pair.first_chunk()) else {
                break;
            };
            at += 2;
            match (usize::from(count), value) {
                (0, 0) => {
                    indices.resize(indices.len().next_multiple_of(width), 0);
                    x = 0;
                }
                (0, 1) => break,
                (0, 2) => {
                    let Some(&[right, up]) = data.get(at..at + 2).and_then(|pair| pair.first_chunk()) else {
                        break;
                    };
                    at += 2;
                    let skipped = usize::from(right) + usize::from(up) * width;
                    indices.resize((indices.len() + skipped).min(total), 0);
                    x = indices.len() % width;
                }
                (0, plain) => {
                    let count = usize::from(plain).min(total - indices.len());
                    let length = if nibbles { count.div_ceil(2) } else { count };
                    let Some(run) = data.get(at..at + length) else { break };
                    at += length + (self.data + at + length) % 2;
                    indices.extend((0..count).map(|i| if nibbles { nibble(run[i / 2], i) } else { run[i] }));
                    x += usize::from(plain);
                }
                (count, value) => {
                    let count = count.min(width.saturating_sub(x));
                    indices.extend((0..count).map(|i| if nibbles { nibble(value, i) } else { value }));
                    x += count;
                }
            }
        }
        if indices.len() < total {
            return Err(CODEC.truncated(format!("{} of {total} pixels", indices.len())));
        }
        indices.truncate(total);
        Ok(())
    }
}

fn nibble(byte: u8, index: usize) -> u8 {
    if index.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

fn default_masks(bits: u16) -> [u32; 3] {
    if bits == 16 { [0x7C00, 0x03E0, 0x001F] } else { [0x00FF_0000, 0xFF00, 0xFF] }
}

/// One colour inside a pixel word.
#[derive(Clone, Copy)]
struct Channel {
    shift: u32,
    top: u32,
}

impl Channel {
    fn new(mask: u32) -> Self {
        let shift = mask.trailing_zeros().min(31);
        Channel { shift, top: mask >> shift }
    }

    /// Scaled to 0..=255, rounded down as Pillow does.
    fn read(self, pixel: u32) -> u8 {
        if self.top == 0 {
            return 0;
        }
        (u64::from(pixel >> self.shift & self.top) * 255 / u64::from(self.top)) as u8
    }
}

fn flip_rows(pixels: &mut [u8], stride: usize) {
    let height = pixels.len() / stride;
    let (upper, lower) = pixels.split_at_mut(height / 2 * stride);
    let lower = &mut lower[height % 2 * stride..];
    for (upper, lower) in upper.chunks_exact_mut(stride).zip(lower.chunks_exact_mut(stride).rev()) {
        upper.swap_with_slice(lower);
    }
}

/// Little-endian numbers at fixed places.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn u16(&self, at: usize) -> Result<u16> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes
            .map(|bytes| u16::from_le_bytes(*bytes))
            .ok_or_else(|| CODEC.truncated("the header is not complete"))
    }

    fn u32(&self, at: usize) -> Result<u32> {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes
            .map(|bytes| u32::from_le_bytes(*bytes))
            .ok_or_else(|| CODEC.truncated("the header is not complete"))
    }
}
