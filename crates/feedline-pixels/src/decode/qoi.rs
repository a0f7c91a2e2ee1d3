//! QOI, the "quite OK image format".

use super::{Codec, ImageHeader, Scratch};
use crate::{Orientation, PixelLayout, Result, Size, room};

const CODEC: Codec = Codec::Qoi;
const HEADER: usize = 14;
/// Largest number of pixels that one byte can encode.
pub(super) const LONGEST_RUN: usize = 62;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let Some(&[_, _, _, _, w0, w1, w2, w3, h0, h1, h2, h3, channels, _]) = bytes.first_chunk::<HEADER>()
    else {
        return Err(CODEC.truncated("no image header"));
    };
    if !matches!(channels, 3 | 4) {
        return Err(CODEC.corrupt(12, format!("{channels} channels")));
    }
    let size = Size::new(u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]));
    Ok(ImageHeader { codec: CODEC, size, channels, bits: 8, orientation: Orientation::Upright })
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let count = header.size.area() as usize;
    if count / LONGEST_RUN > bytes.len() {
        return Err(CODEC.truncated(format!("{} bytes cannot hold {count} pixels", bytes.len())));
    }
    let pixels = &mut scratch.pixels;
    pixels.clear();
    room::reserve(pixels, count * 4)?;
    let mut reader = Reader { bytes, at: HEADER, seen: [[0; 4]; 64], pixel: [0, 0, 0, 255] };
    while pixels.len() < count * 4 {
        let repeats = reader
            .next()
            .ok_or_else(|| CODEC.truncated(format!("{} pixels instead of {count}", pixels.len() / 4)))?;
        for _ in 0..repeats.min(count - pixels.len() / 4) {
            pixels.extend_from_slice(&reader.pixel);
        }
    }
    Ok(PixelLayout::Rgbx)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    seen: [[u8; 4]; 64],
    pixel: [u8; 4],
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// Reads the next operation; returns how often its pixel is repeated.
    fn next(&mut self) -> Option<usize> {
        let head = self.byte()?;
        let low = head & 0x3F;
        match head {
            0xFE => self.pixel = [self.byte()?, self.byte()?, self.byte()?, self.pixel[3]],
            0xFF => self.pixel = [self.byte()?, self.byte()?, self.byte()?, self.byte()?],
            _ => match head >> 6 {
                0 => self.pixel = self.seen[usize::from(low)],
                1 => self.add([
                    (low >> 4).wrapping_sub(2),
                    (low >> 2 & 3).wrapping_sub(2),
                    (low & 3).wrapping_sub(2),
                ]),
                2 => {
                    let second = self.byte()?;
                    let green = low.wrapping_sub(32);
                    let red = green.wrapping_add((second >> 4).wrapping_sub(8));
                    let blue = green.wrapping_add((second & 15).wrapping_sub(8));
                    self.add([red, green, blue]);
                }
                _ => return Some(usize::from(low) + 1),
            },
        }
        let [red, green, blue, alpha] = self.pixel.map(usize::from);
        self.seen[(red * 3 + green * 5 + blue * 7 + alpha * 11) % 64] = self.pixel;
        Some(1)
    }

    fn add(&mut self, difference: [u8; 3]) {
        for (colour, difference) in self.pixel.iter_mut().zip(difference) {
            *colour = colour.wrapping_add(difference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_truncation() {
        let mut bytes = b"qoif\0\0\0\x03\0\0\0\x01\x03\0".to_vec();
        // A colour, a small difference, a run.
        bytes.extend([0xFE, 10, 20, 30, 0b0111_1001, 0xC0]);
        let mut scratch = Scratch::default();
        decode(&bytes, &probe(&bytes).unwrap(), &mut scratch).unwrap();
        assert_eq!(scratch.pixels, [10, 20, 30, 255, 11, 20, 29, 255, 11, 20, 29, 255]);
        for cut in 0..bytes.len() {
            let cut = &bytes[..cut];
            assert!(probe(cut).and_then(|header| decode(cut, &header, &mut scratch)).is_err());
        }
    }
}
