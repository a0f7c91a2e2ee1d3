//! The sequence parameter set of H.264: what the built-in decoder does not say itself.

use crate::error::{Error, Result, malformed};

/// What a stream's frames are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sps {
    /// 0 is grey, 1 is 4:2:0.
    pub(crate) chroma: u32,
    /// Bits of a value.
    pub(crate) depth: u32,
    /// Size as encoded, before cropping.
    pub(crate) width: u64,
    /// Size as encoded, before cropping.
    pub(crate) height: u64,
    /// Whether a frame may be made of two fields.
    pub(crate) interlaced: bool,
    /// The matrix by its number in the standards.
    pub(crate) matrix: u32,
    /// Whether values use all levels.
    pub(crate) full: bool,
}

impl Sps {
    /// Reads the unit, with its first byte.
    pub(crate) fn read(unit: &[u8]) -> Result<Self> {
        let content = unescaped(unit.get(1..).unwrap_or_default());
        let mut bits = Bits { bytes: &content, at: 0 };
        let profile = bits.take(8)?;
        bits.take(16)?;
        bits.number()?;
        let (chroma, depth) = if has_chroma(profile) { chroma(&mut bits)? } else { (1, 8) };
        bits.number()?; // log2 of the largest frame number
        order(&mut bits)?;
        bits.number()?; // frames that are referred to
        bits.take(1)?;
        let width = 16 * (u64::from(bits.number()?) + 1);
        let rows = u64::from(bits.number()?) + 1;
        let interlaced = bits.take(1)? == 0;
        let height = 16 * rows * if interlaced { 2 } else { 1 };
        if interlaced {
            bits.take(1)?;
        }
        bits.take(1)?;
        if bits.take(1)? == 1 {
            for _ in 0..4 {
                bits.number()?;
            }
        }
        let (matrix, full) = if bits.take(1)? == 1 { colours(&mut bits)? } else { (2, false) };
        Ok(Sps { chroma, depth, width, height, interlaced, matrix, full })
    }

    /// Refuses what the built-in decoder does not decode.
    pub(crate) fn check(&self) -> Result<()> {
        let (chroma, depth) = (self.chroma, self.depth);
        let what = if self.interlaced {
            "interlaced H.264".to_owned()
        } else if chroma != 1 || depth != 8 {
            let name = ["grey", "4:2:0", "4:2:2", "4:4:4"].get(chroma as usize).unwrap_or(&"unknown");
            format!("H.264 {name} of {depth} bits")
        } else {
            return Ok(());
        };
        Err(Error::NoDecoder(format!("{what} needs FFmpeg: the built-in decoder reads 4:2:0 of 8 bits")))
    }
}

/// Whether sets of this profile say how colour is stored.
fn has_chroma(profile: u32) -> bool {
    matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135)
}

fn chroma(bits: &mut Bits<'_>) -> Result<(u32, u32)> {
    let chroma = bits.number()?;
    if chroma == 3 {
        bits.take(1)?;
    }
    let depth = bits.number()?.max(bits.number()?).saturating_add(8);
    bits.take(1)?;
    if bits.take(1)? == 1 {
        for list in 0..if chroma == 3 { 12 } else { 8 } {
            if bits.take(1)? == 1 {
                scaling(bits, if list < 6 { 16 } else { 64 })?;
            }
        }
    }
    Ok((chroma, depth))
}

fn scaling(bits: &mut Bits<'_>, count: u32) -> Result<()> {
    let (mut last, mut next) = (8i64, 8i64);
    for _ in 0..count {
        if next != 0 {
            next = (last + bits.signed()? + 256).rem_euclid(256);
        }
        last = if next == 0 { last } else { next };
    }
    Ok(())
}

/// How the order of frames is said.
fn order(bits: &mut Bits<'_>) -> Result<()> {
    match bits.number()? {
        0 => {
            bits.number()?;
        }
        1 => {
            bits.take(1)?;
            bits.number()?;
            bits.number()?;
            for _ in 0..bits.number()?.min(255) {
                bits.number()?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Matrix and range, from the usability information.
fn colours(bits: &mut Bits<'_>) -> Result<(u32, bool)> {
    if bits.take(1)? == 1 && bits.take(8)? == 255 {
        bits.take(32)?;
    }
    if bits.take(1)? == 1 {
        bits.take(1)?;
    }
    if bits.take(1)? == 0 {
        return Ok((2, false));
    }
    bits.take(3)?;
    let full = bits.take(1)? == 1;
    if bits.take(1)? == 0 {
        return Ok((2, full));
    }
    bits.take(16)?;
    Ok((bits.take(8)?, full))
}

/// Bytes without those that keep start codes out.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes.len());
    let mut zeros = 0;
    for byte in bytes {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        content.push(*byte);
    }
    content
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Result<u32> {
        let mut value = 0u32;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8);
            let byte = byte.ok_or_else(|| malformed("the sequence parameter set ends early"))?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Ok(value)
    }

    /// A number of variable length.
    fn number(&mut self) -> Result<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return Err(malformed("a wrong number in the sequence parameter set"));
            }
        }
        Ok((1u32 << zeros) - 1 + self.take(zeros)?)
    }

    fn signed(&mut self) -> Result<i64> {
        let value = i64::from(self.number()?);
        Ok(if value % 2 == 1 { (value + 1) / 2 } else { -(value / 2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sets that x264 wrote for clips of 96x64 pixels.
    const HIGH: &[u8] = &[
        0x67, 0x64, 0x00, 0x0a, 0xac, 0xd9, 0x46, 0x26, 0x84, 0x00, 0x00, 0x03, 0x00, 0x04, 0x00, 0x00, 0x03,
        0x00, 0xc8, 0x3c, 0x48, 0x96, 0x58,
    ];
    const FULL_709: &[u8] = &[
        0x67, 0x64, 0x00, 0x0a, 0xac, 0xd9, 0x46, 0x26, 0x9b, 0x81, 0x01, 0x00, 0xa0, 0x00, 0x00, 0x03, 0x00,
        0x20, 0x00, 0x00, 0x06, 0x41, 0xe2, 0x44, 0xb2, 0xc0,
    ];
    const FULL_COLOUR: &[u8] = &[
        0x67, 0xf4, 0x00, 0x0a, 0x91, 0x9b, 0x28, 0xc4, 0xd0, 0x80, 0x00, 0x00, 0x03, 0x00, 0x80, 0x00, 0x00,
        0x19, 0x07, 0x89, 0x12, 0xcb,
    ];
    const TEN_BITS: &[u8] = &[
        0x67, 0x6e, 0x00, 0x0a, 0xa6, 0xcd, 0x94, 0x62, 0x68, 0x40, 0x00, 0x00, 0x03, 0x00, 0x40, 0x00, 0x00,
        0x0c, 0x83, 0xc4, 0x89, 0x65, 0x80,
    ];
    const INTERLACED: &[u8] = &[
        0x67, 0x64, 0x00, 0x15, 0xac, 0xd9, 0x46, 0x4d, 0x08, 0x00, 0x00, 0x03, 0x00, 0x08, 0x00, 0x00, 0x03,
        0x01, 0x90, 0xf8, 0xa1, 0x4c, 0xb0,
    ];

    #[test]
    fn sets_of_x264_are_read() {
        let sps = Sps::read(HIGH).unwrap();
        let expected =
            Sps { chroma: 1, depth: 8, width: 96, height: 64, interlaced: false, matrix: 2, full: false };
        assert_eq!(sps, expected);
        assert!(sps.check().is_ok());
        assert_eq!(Sps::read(FULL_709).unwrap(), Sps { matrix: 1, full: true, ..expected });
        for (set, words) in
            [(FULL_COLOUR, "4:4:4 of 8 bits"), (TEN_BITS, "4:2:0 of 10 bits"), (INTERLACED, "interlaced")]
        {
            let sps = Sps::read(set).unwrap();
            assert_eq!((sps.width, sps.height), (96, 64), "{words}");
            assert!(sps.check().unwrap_err().to_string().contains(words));
        }
    }

    #[test]
    fn cut_and_damaged_sets_are_errors_or_sets() {
        for cut in 0..9 {
            assert!(Sps::read(&HIGH[..cut]).is_err(), "{cut}");
        }
        for at in 0..8 * FULL_709.len() {
            let mut damaged = FULL_709.to_vec();
            damaged[at / 8] ^= 1 << (at % 8);
            let _ = Sps::read(&damaged);
        }
    }
}
