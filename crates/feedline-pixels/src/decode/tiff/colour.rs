//! Converts samples to pixels like Pillow's modes and its `convert("RGB")`. Samples of 16 bits keep their upper bits;
//! integers and floats of 32 bits and more are clipped to 0…255.

use super::CODEC;
use super::directory::{Directory, tag};
use super::layout::{Layout, Meaning, Number};
use crate::{Result, room};

/// How samples become colours.
#[derive(Debug)]
pub(super) struct Colours {
    /// Red, green and blue by index.
    palette: Vec<[u8; 3]>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Grey { inverted: bool },
    Palette,
    Rgb { associated_alpha: bool },
    Cmyk,
    YCbCr,
    Lab,
}

impl Colours {
    pub(super) fn new(directory: &Directory<'_>, layout: &Layout) -> Result<Self> {
        let too_few = |needed: usize| layout.samples < needed;
        let kind = match layout.meaning {
            Meaning::WhiteIsZero => Kind::Grey { inverted: true },
            Meaning::BlackIsZero => Kind::Grey { inverted: false },
            Meaning::Palette => Kind::Palette,
            Meaning::Rgb | Meaning::YCbCr if layout.samples == 1 => Kind::Grey { inverted: false },
            Meaning::Rgb if !too_few(3) => {
                Kind::Rgb { associated_alpha: layout.samples == 4 && layout.extra.first() == Some(&1) }
            }
            Meaning::Cmyk if !too_few(4) => Kind::Cmyk,
            Meaning::YCbCr if !too_few(3) && layout.bits == 8 => Kind::YCbCr,
            Meaning::Lab if !too_few(3) && layout.bits == 8 => Kind::Lab,
            other => {
                let (samples, bits) = (layout.samples, layout.bits);
                return Err(CODEC.unsupported(format!("{other:?} of {samples} samples with {bits} bits")));
            }
        };
        if kind == Kind::Palette && layout.bits > 8 {
            return Err(CODEC.unsupported(format!("palette of {} bits", layout.bits)));
        }
        let palette = if kind == Kind::Palette { palette(directory)? } else { Vec::new() };
        Ok(Colours { palette, kind })
    }

    /// Adds `rows` rows of samples to `pixels`.
    pub(super) fn append(
        &self,
        layout: &Layout,
        rows: usize,
        band: &[u8],
        pixels: &mut Vec<u8>,
    ) -> Result<()> {
        let width = layout.size.width as usize;
        room::reserve(pixels, width * rows * 4)?;
        let stride = (width * layout.samples * layout.bits).div_ceil(8);
        let mut bytes = Vec::new();
        room::reserve(&mut bytes, width * layout.samples)?;
        for row in band.chunks_exact(stride).take(rows) {
            to_bytes(row, width * layout.samples, layout, self.kind == Kind::Palette, &mut bytes);
            self.append_row(&bytes, layout.samples, pixels);
        }
        Ok(())
    }

    fn append_row(&self, row: &[u8], samples: usize, pixels: &mut Vec<u8>) {
        let each = row.chunks_exact(samples);
        let solid = |[r, g, b]: [u8; 3]| [r, g, b, 255];
        match self.kind {
            Kind::Grey { inverted } => {
                let flip = if inverted { 255 } else { 0 };
                pixels.extend(each.flat_map(|s| solid([s[0] ^ flip; 3])));
            }
            Kind::Palette => pixels.extend(
                each.flat_map(|s| solid(self.palette.get(usize::from(s[0])).copied().unwrap_or_default())),
            ),
            Kind::Rgb { associated_alpha: true } => pixels.extend(each.flat_map(divide_by_alpha)),
            Kind::Rgb { .. } => pixels.extend(each.flat_map(|s| solid([s[0], s[1], s[2]]))),
            Kind::Cmyk => pixels.extend(each.flat_map(|s| solid(cmyk([s[0], s[1], s[2], s[3]])))),
            Kind::YCbCr => pixels.extend(each.flat_map(|s| solid(ycbcr(s[0], s[1], s[2])))),
            Kind::Lab => pixels.extend(each.flat_map(|s| solid(lab(s[0], s[1] as i8, s[2] as i8)))),
        }
    }
}

/// Adds rows of red, green and blue.
pub(super) fn append_rgb(band: &[u8], pixels: &mut Vec<u8>) -> Result<()> {
    room::reserve(pixels, band.len() / 3 * 4)?;
    pixels.extend(band.as_chunks::<3>().0.iter().flat_map(|[r, g, b]| [*r, *g, *b, 255]));
    Ok(())
}

/// Adds rows of unconverted numbers: one byte each, or two for those of 16 bits.
pub(super) fn append_numbers(layout: &Layout, rows: usize, band: &[u8], pixels: &mut Vec<u8>) -> Result<()> {
    let width = layout.size.width as usize;
    let stride = (width * layout.bits).div_ceil(8);
    room::reserve(pixels, width * rows * layout.bits.div_ceil(8))?;
    for row in band.chunks_exact(stride).take(rows) {
        match layout.bits {
            8 | 16 => pixels.extend_from_slice(row),
            bits => pixels.extend((0..width).map(|at| small(row, at, bits))),
        }
    }
    Ok(())
}

/// One byte per sample. Palette indices are not changed; greys of few bits are scaled to 0…255.
fn to_bytes(row: &[u8], count: usize, layout: &Layout, indices: bool, out: &mut Vec<u8>) {
    out.clear();
    let top = if indices { 1 } else { 255 / ((1u16 << layout.bits.min(8)) - 1) as u8 };
    match (layout.bits, layout.number) {
        (8, Number::Signed) => out.extend(row.iter().map(|byte| (*byte as i8).max(0) as u8)),
        (8, _) => out.extend_from_slice(row),
        (1 | 2 | 4, _) => out.extend((0..count).map(|at| small(row, at, layout.bits) * top)),
        (12, _) => out.extend((0..count).map(|at| (twelve(row, at) >> 4) as u8)),
        (16, Number::Unsigned) => {
            out.extend(row.as_chunks::<2>().0.iter().map(|v| (u16::from_ne_bytes(*v) >> 8) as u8));
        }
        (16, Number::Signed) => {
            out.extend(row.as_chunks::<2>().0.iter().map(|v| i16::from_ne_bytes(*v).clamp(0, 255) as u8));
        }
        (16, Number::Float) => {
            out.extend(row.as_chunks::<2>().0.iter().map(|v| half(u16::from_ne_bytes(*v)) as u8));
        }
        (32, Number::Float) => {
            out.extend(row.as_chunks::<4>().0.iter().map(|v| f32::from_ne_bytes(*v) as u8));
        }
        (32, Number::Unsigned) => {
            out.extend(row.as_chunks::<4>().0.iter().map(|v| u32::from_ne_bytes(*v).min(255) as u8));
        }
        (32, Number::Signed) => {
            out.extend(row.as_chunks::<4>().0.iter().map(|v| i32::from_ne_bytes(*v).clamp(0, 255) as u8));
        }
        (_, Number::Float) => {
            out.extend(row.as_chunks::<8>().0.iter().map(|v| f64::from_ne_bytes(*v) as u8));
        }
        (_, Number::Signed) => {
            out.extend(row.as_chunks::<8>().0.iter().map(|v| i64::from_ne_bytes(*v).clamp(0, 255) as u8));
        }
        (_, Number::Unsigned) => {
            out.extend(row.as_chunks::<8>().0.iter().map(|v| u64::from_ne_bytes(*v).min(255) as u8));
        }
    }
}

/// Sample `at` of 1, 2 or 4 bits.
pub(super) fn small(row: &[u8], at: usize, bits: usize) -> u8 {
    let bit = at * bits;
    row[bit / 8] >> (8 - bits - bit % 8) & ((1u16 << bits) as u8 - 1)
}

/// Sample `at` of 12 bits: two are stored in three bytes, highest bits first.
pub(super) fn twelve(row: &[u8], at: usize) -> u16 {
    let byte = at / 2 * 3;
    if at.is_multiple_of(2) {
        u16::from(row[byte]) << 4 | u16::from(row[byte + 1]) >> 4
    } else {
        u16::from(row[byte + 1] & 15) << 8 | u16::from(row[byte + 2])
    }
}

/// A half-precision float.
pub(super) fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f32::from(bits & 0x3FF));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
    };
    if sign == 1 { -size } else { size }
}

/// The colour map contains all reds, then all greens, then all blues, 16 bits each.
pub(super) fn palette(directory: &Directory<'_>) -> Result<Vec<[u8; 3]>> {
    let map =
        directory.numbers(tag::COLOR_MAP).ok_or_else(|| CODEC.corrupt(0, "palette image without palette"))?;
    let count = map.len() / 3;
    let upper = |index: usize| (map[index] >> 8) as u8;
    Ok((0..count).map(|index| [upper(index), upper(count + index), upper(2 * count + index)]).collect())
}

/// As in Pillow: rounded down, and black if alpha is 0.
fn divide_by_alpha(pixel: &[u8]) -> [u8; 4] {
    let scale =
        |colour: u8| (u32::from(colour) * 255).checked_div(u32::from(pixel[3])).unwrap_or(0).min(255) as u8;
    [scale(pixel[0]), scale(pixel[1]), scale(pixel[2]), 255]
}

/// Pillow's simple conversion: each ink is scaled by what black leaves.
fn cmyk([cyan, magenta, yellow, black]: [u8; 4]) -> [u8; 3] {
    let left = 255 - black;
    [cyan, magenta, yellow].map(|ink| {
        let product = u32::from(ink) * u32::from(left) + 128;
        left - ((product + (product >> 8)) >> 8) as u8
    })
}

/// Pillow's arithmetic: products in 64ths, truncated towards zero after adding a half, then shifted.
pub(super) fn ycbcr(light: u8, blue: u8, red: u8) -> [u8; 3] {
    let part = |factor: f64, value: u8| (factor * 64.0 * (f64::from(value) - 128.0) + 0.5) as i32;
    let light = i32::from(light);
    [
        light + (part(1.402, red) >> 6),
        light + ((part(-0.34414, blue) + part(-0.71414, red)) >> 6),
        light + (part(1.772, blue) >> 6),
    ]
    .map(|value| value.clamp(0, 255) as u8)
}

/// CIE L*a*b* under D50, to sRGB.
fn lab(light: u8, a: i8, b: i8) -> [u8; 3] {
    let y = (f64::from(light) * 100.0 / 255.0 + 16.0) / 116.0;
    let (x, z) = (y + f64::from(a) / 500.0, y - f64::from(b) / 200.0);
    let linear = |t: f64| if t > 6.0 / 29.0 { t * t * t } else { 108.0 / 841.0 * (t - 4.0 / 29.0) };
    let (x, y, z) = (linear(x) * 0.9642, linear(y), linear(z) * 0.8249);
    // From XYZ under D50 to linear sRGB.
    let rows = [
        [3.133_856_1, -1.616_866_7, -0.490_614_6],
        [-0.978_768_4, 1.916_141_5, 0.033_454_0],
        [0.071_945_3, -0.228_991_4, 1.405_242_7],
    ];
    rows.map(|row| {
        let value: f64 = (row[0] * x + row[1] * y + row[2] * z).clamp(0.0, 1.0);
        let curved = if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
        (curved * 255.0).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_samples_start_at_the_highest_bit() {
        assert_eq!((0..4).map(|at| small(&[0b1100_0110], at, 2)).collect::<Vec<_>>(), [3, 0, 1, 2]);
        assert_eq!(twelve(&[0xAB, 0xCD, 0xEF], 0), 0xABC);
        assert_eq!(twelve(&[0xAB, 0xCD, 0xEF], 1), 0xDEF);
    }

    #[test]
    fn half_floats_are_read() {
        assert_eq!(half(0x3C00), 1.0);
        assert_eq!(half(0xC000), -2.0);
        assert_eq!(half(0x0001), 2f32.powi(-24));
        assert_eq!(half(0x7C00), f32::INFINITY);
    }

    #[test]
    fn grey_stays_grey() {
        assert_eq!(ycbcr(77, 128, 128), [77; 3]);
        assert_eq!(lab(255, 0, 0), [255; 3]);
        assert_eq!(cmyk([0, 0, 0, 55]), [200; 3]);
    }
}
