//! The portable maps: PBM, PGM, PPM (plain and raw), PAM, and the floats of PFM.
//!
//! Numbers are scaled to 0…255 as Pillow does, rounded to nearest, ties to even; greys of 16 bits keep their upper
//! eight bits; floats are clipped.

use super::{Codec, ImageHeader, Scratch, Stored};
use crate::{Error, Number, Orientation, PixelLayout, Result, Size, room};

const CODEC: Codec = Codec::Pnm;

/// Header of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Map {
    kind: Kind,
    size: Size,
    /// Number of values per pixel.
    depth: usize,
    /// The value of white.
    top: u32,
    /// Offset of the values.
    start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Digits, 0 white.
    PlainBits,
    /// Eight pixels a byte, 1 black.
    Bits,
    /// Decimal numbers.
    Plain,
    /// One or two bytes a number, highest first.
    Raw,
    /// Floats, rows from the bottom up.
    Floats { big_endian: bool },
}

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let map = read_header(bytes)?;
    let bits = match map.kind {
        Kind::PlainBits | Kind::Bits => 1,
        Kind::Floats { .. } => 32,
        Kind::Plain | Kind::Raw if map.top > 255 => 16,
        Kind::Plain | Kind::Raw => 8,
    };
    Ok(ImageHeader {
        codec: CODEC,
        size: map.size,
        channels: map.depth as u8,
        bits,
        orientation: Orientation::Upright,
    })
}

pub(super) fn decode(bytes: &[u8], _: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let map = read_header(bytes)?;
    let data = &bytes[map.start..];
    let count = usize::try_from(map.size.area()).ok().and_then(|area| area.checked_mul(map.depth * 4));
    // Four bytes each for floats: no product below is larger.
    let count = count.ok_or_else(|| CODEC.unsupported("size does not fit memory"))? / 4;
    check_length(&map, data, count)?;
    let Scratch { pixels, samples, .. } = scratch;
    samples.clear();
    room::reserve(samples, count)?;
    match map.kind {
        Kind::PlainBits => plain_bits(data, count, map.start, samples)?,
        Kind::Bits => {
            let width = map.size.width as usize;
            for row in data.chunks_exact(width.div_ceil(8)).take(map.size.height as usize) {
                samples.extend((0..width).map(|x| if row[x / 8] << (x % 8) & 0x80 == 0 { 255 } else { 0 }));
            }
        }
        Kind::Plain => plain(data, count, &map, samples)?,
        Kind::Raw if map.top > 255 => {
            let pairs = data.as_chunks::<2>().0.iter().take(count);
            samples.extend(pairs.map(|pair| scale(u32::from(u16::from_be_bytes(*pair)), &map)));
        }
        Kind::Raw => samples.extend(data[..count].iter().map(|value| scale(u32::from(*value), &map))),
        Kind::Floats { big_endian } => each_float(data, &map, big_endian, |value| samples.push(value as u8)),
    }
    pixels.clear();
    room::reserve(pixels, count / map.depth * 4)?;
    match map.depth {
        1 | 2 => pixels.extend(samples.chunks_exact(map.depth).flat_map(|s| [s[0], s[0], s[0], 255])),
        _ => pixels.extend(samples.chunks_exact(map.depth).flat_map(|s| [s[0], s[1], s[2], 255])),
    }
    Ok(PixelLayout::Rgbx)
}

/// The unscaled values of a map with one value per pixel: bytes, or two bytes in the machine's order.
pub(super) fn labels(bytes: &[u8], scratch: &mut Scratch) -> Result<PixelLayout> {
    let map = read_header(bytes)?;
    let data = &bytes[map.start..];
    let count = usize::try_from(map.size.area()).unwrap_or(usize::MAX / 8);
    if map.kind != Kind::Raw || map.depth != 1 {
        return Err(CODEC.unsupported("masks are raw maps of one number per pixel (PGM, P5)"));
    }
    check_length(&map, data, count)?;
    let pixels = &mut scratch.pixels;
    pixels.clear();
    if map.top <= 255 {
        room::reserve(pixels, count)?;
        pixels.extend_from_slice(&data[..count]);
        return Ok(PixelLayout::Grey8);
    }
    room::reserve(pixels, count * 2)?;
    let pairs = data.as_chunks::<2>().0.iter().take(count);
    pixels.extend(pairs.flat_map(|pair| u16::from_be_bytes(*pair).to_ne_bytes()));
    Ok(PixelLayout::Grey16)
}

/// Values without loss: 16 bits and floats. `None` for maps of bytes.
pub(super) fn stored(bytes: &[u8], scratch: &mut Scratch) -> Result<Option<Stored>> {
    let map = read_header(bytes)?;
    let data = &bytes[map.start..];
    let count = usize::try_from(map.size.area()).ok().and_then(|area| area.checked_mul(map.depth * 4));
    let count = count.ok_or_else(|| CODEC.unsupported("size does not fit memory"))? / 4;
    check_length(&map, data, count)?;
    let samples = &mut scratch.samples;
    samples.clear();
    let number = match map.kind {
        Kind::Floats { .. } => Number::F32,
        Kind::Plain | Kind::Raw if map.top > 255 && map.depth < 3 => Number::U16,
        _ => return Ok(None),
    };
    room::reserve(samples, count * number.bytes())?;
    match map.kind {
        Kind::Floats { big_endian } => {
            each_float(data, &map, big_endian, |value| samples.extend(value.to_ne_bytes()));
        }
        Kind::Plain => {
            let mut tokens = Tokens { bytes: data, at: 0 };
            while samples.len() < count * 2 {
                let value = plain_number(&mut tokens, &map, samples.len() / 2, count)?;
                samples.extend(scale_16(value, &map).to_ne_bytes());
            }
        }
        _ => {
            let pairs = data.as_chunks::<2>().0.iter().take(count);
            samples.extend(
                pairs.flat_map(|two| scale_16(u32::from(u16::from_be_bytes(*two)), &map).to_ne_bytes()),
            );
        }
    }
    Ok(Some(Stored::plain(map.depth, number)))
}

/// Scales to 0…65535, as Pillow does.
fn scale_16(value: u32, map: &Map) -> u16 {
    (f64::from(value) / f64::from(map.top) * 65_535.0).round_ties_even().min(65_535.0) as u16
}

/// Returns an error if the bytes are too few for the pixels.
fn check_length(map: &Map, data: &[u8], count: usize) -> Result<()> {
    let needed = match map.kind {
        Kind::PlainBits => count,
        Kind::Bits => (map.size.width as usize).div_ceil(8) * map.size.height as usize,
        Kind::Plain => count.saturating_mul(2) - 1,
        Kind::Raw => count * if map.top > 255 { 2 } else { 1 },
        Kind::Floats { .. } => count * 4,
    };
    if data.len() >= needed {
        return Ok(());
    }
    Err(CODEC.truncated(format!("{} bytes of pixels instead of {needed}", data.len())))
}

/// Scales to 0…255. One-channel numbers of 16 bits are scaled to the whole range first and keep their upper half.
fn scale(value: u32, map: &Map) -> u8 {
    if map.top == 255 {
        return value as u8;
    }
    let wide = map.top > 255 && map.depth < 3;
    if wide {
        return (scale_16(value, map) >> 8) as u8;
    }
    (f64::from(value) / f64::from(map.top) * 255.0).round_ties_even().min(255.0) as u8
}

fn plain_bits(data: &[u8], count: usize, start: usize, samples: &mut Vec<u8>) -> Result<()> {
    let mut tokens = Tokens { bytes: data, at: 0 };
    while samples.len() < count {
        tokens.skip_space();
        match data.get(tokens.at) {
            Some(b'0') => samples.push(255),
            Some(b'1') => samples.push(0),
            Some(other) => return Err(bad(start + tokens.at, &[*other], "0 or 1")),
            None => return Err(CODEC.truncated(format!("{} pixels instead of {count}", samples.len()))),
        }
        tokens.at += 1;
    }
    Ok(())
}

fn plain(data: &[u8], count: usize, map: &Map, samples: &mut Vec<u8>) -> Result<()> {
    let mut tokens = Tokens { bytes: data, at: 0 };
    while samples.len() < count {
        let value = plain_number(&mut tokens, map, samples.len(), count)?;
        samples.push(scale(value, map));
    }
    Ok(())
}

fn plain_number(tokens: &mut Tokens<'_>, map: &Map, had: usize, wanted: usize) -> Result<u32> {
    let value = tokens.number().map_err(|e| e.at(map.start, had, wanted))?;
    if value <= map.top {
        return Ok(value);
    }
    Err(CODEC.corrupt(map.start + tokens.at, format!("{value} is more than {}", map.top)))
}

fn each_float(data: &[u8], map: &Map, big_endian: bool, mut take: impl FnMut(f32)) {
    let read =
        |four: &[u8; 4]| if big_endian { f32::from_be_bytes(*four) } else { f32::from_le_bytes(*four) };
    let row = map.size.width as usize * map.depth * 4;
    for line in data[..row * map.size.height as usize].chunks_exact(row).rev() {
        line.as_chunks::<4>().0.iter().for_each(|four| take(read(four)));
    }
}

fn read_header(bytes: &[u8]) -> Result<Map> {
    let mut tokens = Tokens { bytes, at: 2 };
    let (kind, depth) = match bytes.get(1) {
        Some(b'1') => (Kind::PlainBits, 1),
        Some(b'2') => (Kind::Plain, 1),
        Some(b'3') => (Kind::Plain, 3),
        Some(b'4') => (Kind::Bits, 1),
        Some(b'5') => (Kind::Raw, 1),
        Some(b'6') => (Kind::Raw, 3),
        Some(b'7') => return read_pam(bytes),
        Some(b'f') => (Kind::Floats { big_endian: true }, 1),
        Some(b'F') => (Kind::Floats { big_endian: true }, 3),
        _ => return Err(CODEC.corrupt(1, "not one of the portable maps")),
    };
    let mut number = || tokens.number().map_err(|e| e.at(0, 0, 0));
    let size = Size::new(number()?, number()?);
    if let Kind::Floats { .. } = kind {
        let word = tokens.word().map_err(|e| e.at(0, 0, 0))?;
        let scale: f32 = std::str::from_utf8(word)
            .ok()
            .and_then(|w| w.parse().ok())
            .ok_or_else(|| bad(tokens.at, word, "a scale"))?;
        let kind = Kind::Floats { big_endian: scale > 0.0 };
        return checked(Map { kind, size, depth, top: 255, start: tokens.at + 1 }, bytes);
    }
    let top = if matches!(kind, Kind::PlainBits | Kind::Bits) { 1 } else { number()? };
    checked(Map { kind, size, depth, top, start: tokens.at + 1 }, bytes)
}

/// PAM's header has a keyword before each number.
fn read_pam(bytes: &[u8]) -> Result<Map> {
    let mut tokens = Tokens { bytes, at: 2 };
    let (mut width, mut height, mut depth, mut top) = (0, 0, 0, 0);
    loop {
        let word = tokens.word().map_err(|e| e.at(0, 0, 0))?;
        let place = match word {
            b"WIDTH" => &mut width,
            b"HEIGHT" => &mut height,
            b"DEPTH" => &mut depth,
            b"MAXVAL" => &mut top,
            b"ENDHDR" => break,
            b"TUPLTYPE" => {
                tokens.word().map_err(|e| e.at(0, 0, 0))?;
                continue;
            }
            other => return Err(bad(tokens.at, other, "a word of the header")),
        };
        *place = tokens.number().map_err(|e| e.at(0, 0, 0))?;
    }
    let size = Size::new(width, height);
    checked(Map { kind: Kind::Raw, size, depth: depth as usize, top, start: tokens.at + 1 }, bytes)
}

fn checked(map: Map, bytes: &[u8]) -> Result<Map> {
    if !(1..=65_535).contains(&map.top) || !(1..=4).contains(&map.depth) {
        return Err(CODEC.corrupt(2, format!("largest number {}, {} numbers a pixel", map.top, map.depth)));
    }
    if map.size.area() == 0 || map.start > bytes.len() {
        return Err(CODEC.truncated("the header has no pixels behind it"));
    }
    Ok(map)
}

fn bad(offset: usize, found: &[u8], wanted: &str) -> Error {
    CODEC.corrupt(offset, format!("\"{}\" is not {wanted}", found.escape_ascii()))
}

/// Words of a header or of plain numbers; comments run from `#` to the end of the line.
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Why there is no word or number.
enum NoToken {
    End,
    Bad(usize),
}

impl NoToken {
    fn at(self, start: usize, had: usize, wanted: usize) -> Error {
        match self {
            NoToken::End if wanted == 0 => CODEC.truncated("the header is cut off"),
            NoToken::End => CODEC.truncated(format!("{had} numbers instead of {wanted}")),
            NoToken::Bad(at) => CODEC.corrupt(start + at, "not a number"),
        }
    }
}

impl<'a> Tokens<'a> {
    fn skip_space(&mut self) {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
                }
                byte if is_space(*byte) => self.at += 1,
                _ => break,
            }
        }
    }

    fn word(&mut self) -> Result<&'a [u8], NoToken> {
        self.skip_space();
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let length = rest.iter().position(|b| is_space(*b) || *b == b'#').unwrap_or(rest.len());
        if length == 0 {
            return Err(NoToken::End);
        }
        self.at += length;
        Ok(&rest[..length])
    }

    fn number(&mut self) -> Result<u32, NoToken> {
        let word = self.word()?;
        let place = self.at - word.len();
        let digits = word.len() <= 10 && word.iter().all(u8::is_ascii_digit);
        let value = digits.then(|| word.iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0')));
        value.and_then(|value| u32::try_from(value).ok()).ok_or(NoToken::Bad(place))
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0B | 0x0C | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut scratch = Scratch::default();
        decode(bytes, &probe(bytes)?, &mut scratch)?;
        Ok(scratch.pixels.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect())
    }

    #[test]
    fn every_kind_of_map_is_decoded() {
        assert_eq!(pixels(b"P1 2 1 0 1").unwrap(), [255, 255, 255, 0, 0, 0]);
        assert_eq!(pixels(b"P4\n2 1\n\x40").unwrap(), [255, 255, 255, 0, 0, 0]);
        assert_eq!(pixels(b"P2\n# a comment\n2 1 4\n1 4").unwrap(), [64, 64, 64, 255, 255, 255]);
        assert_eq!(pixels(b"P3 1 1 255 1 2 3").unwrap(), [1, 2, 3]);
        assert_eq!(pixels(b"P5 1 1 65535\n\x12\x34").unwrap(), [0x12; 3]);
        assert_eq!(pixels(b"P6 1 1 255\n\x01\x02\x03").unwrap(), [1, 2, 3]);
        let pam = b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x01\x02\x03\x04";
        assert_eq!(pixels(pam).unwrap(), [1, 2, 3]);
        let mut floats = b"Pf 1 2 -1\n".to_vec();
        floats.extend([7.9f32.to_le_bytes(), 300f32.to_le_bytes()].concat());
        assert_eq!(pixels(&floats).unwrap(), [255, 255, 255, 7, 7, 7]);
    }

    #[test]
    fn truncation_anywhere_is_an_error() {
        for whole in [&b"P6 2 2 255\n0123456789ab"[..], b"P2 2 2 99 1 2 3 4", b"P4 9 2 \x01\x02\x03\x04"] {
            assert!(pixels(whole).is_ok());
            for cut in 2..whole.len() {
                assert!(pixels(&whole[..cut]).is_err(), "{cut}");
            }
        }
        assert!(pixels(b"P6 4294967295 4294967295 255\n").is_err());
        assert!(pixels(b"P2 1 1 99999999999 1").is_err());
    }
}
