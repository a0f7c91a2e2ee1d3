//! From planes of brightness and chroma to red, green and blue, with the numbers of libyuv, which Pillow uses: chroma is
//! interpolated to full size, then every pixel is converted with factors of six bits behind the point.

use super::CODEC;
use super::rows::{self, Factors};
use super::stream::{Chroma, Colours};
use crate::{CpuLevel, Result, Size, fit};

/// A plane of samples of 8 to 12 bits.
#[derive(Debug)]
pub(super) struct Plane {
    pub(super) samples: Vec<u16>,
    pub(super) size: Size,
}

impl Plane {
    /// An empty plane of this size.
    pub(super) fn new(size: Size) -> Result<Self> {
        let mut samples = Vec::new();
        fit(&mut samples, size.area() as usize, 0)?;
        Ok(Plane { samples, size })
    }

    fn row(&self, y: usize) -> &[u16] {
        let width = self.size.width as usize;
        &self.samples[y * width..][..width]
    }
}

/// An image before conversion.
#[derive(Debug)]
pub(super) struct Planes {
    pub(super) all: [Plane; 3],
    pub(super) alpha: Option<Plane>,
    pub(super) chroma: Chroma,
    pub(super) bits: u32,
    pub(super) colours: Colours,
}

/// How a pixel is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conversion {
    /// Planes are green, blue and red.
    Identity,
    Fixed(Factors),
}

fn conversion(colours: Colours) -> Result<Conversion> {
    let full = colours.full_range;
    // libyuv has room for no factor above 128: blue is a little pale in limited range.
    let factors = match (colours.matrix, full) {
        (0, _) => return Ok(Conversion::Identity),
        (1, true) => [119, 12, 30, 101],
        (1, false) => [128, 14, 34, 115],
        // Unspecified is taken for BT.601.
        (2 | 5 | 6, true) => [113, 22, 46, 90],
        (2 | 5 | 6, false) => [128, 25, 52, 102],
        (9, true) => [120, 11, 37, 94],
        (9, false) => [128, 12, 42, 107],
        (other, _) => return Err(CODEC.unsupported(format!("colour matrix {other}"))),
    };
    Ok(Conversion::Fixed(Factors::new(full, factors)))
}

impl Planes {
    /// Converts to red, green, blue and opacity.
    pub(super) fn convert(&mut self, pixels: &mut Vec<u8>) -> Result<()> {
        if self.chroma == Chroma::None && self.alpha.is_none() {
            return self.greys(pixels);
        }
        let conversion = conversion(self.colours)?;
        // Without opacity, more than eight bits are cut before the conversion, as Pillow's libraries do.
        if self.alpha.is_none() && self.bits > 8 {
            let shift = self.bits - 8;
            for plane in &mut self.all {
                plane.samples.iter_mut().for_each(|sample| *sample >>= shift);
            }
            self.bits = 8;
        }
        let size = self.all[0].size;
        let (width, height) = (size.width as usize, size.height as usize);
        fit(pixels, width * height * 4, 0)?;
        let mut chroma = [Vec::new(), Vec::new()];
        for (y, row) in pixels.chunks_exact_mut(width * 4).enumerate() {
            self.chroma_row(y, width, &mut chroma)?;
            self.convert_row(conversion, y, &chroma, row);
        }
        Ok(())
    }

    /// Greys without opacity are not libyuv's: they are divided and rounded.
    fn greys(&self, pixels: &mut Vec<u8>) -> Result<()> {
        let (black, range) = if self.colours.full_range {
            (0, (1u32 << self.bits) - 1)
        } else {
            (16 << (self.bits - 8), 219 << (self.bits - 8))
        };
        let light = &self.all[0].samples;
        fit(pixels, light.len() * 4, 0)?;
        for (pixel, light) in pixels.as_chunks_mut::<4>().0.iter_mut().zip(light) {
            let above = u32::from(*light).saturating_sub(black);
            let grey = ((above * 510 + range) / (2 * range)).min(255) as u8;
            *pixel = [grey, grey, grey, 255];
        }
        Ok(())
    }

    /// Chroma of row `y` at full width.
    fn chroma_row(&self, y: usize, width: usize, out: &mut [Vec<u16>; 2]) -> Result<()> {
        let level = CpuLevel::detect();
        for (plane, out) in self.all[1..].iter().zip(out) {
            fit(out, width, 0)?;
            match self.chroma {
                Chroma::None => out.fill(1 << (self.bits - 1)),
                Chroma::Full => out.copy_from_slice(plane.row(y)),
                Chroma::Half => rows::widen(level, plane.row(y), out),
                Chroma::Quarter => {
                    // The nearer row counts three times; there is none above the first and below the last.
                    let near = y / 2;
                    let last = plane.size.height as usize - 1;
                    let far = if y % 2 == 1 { near + 1 } else { near.wrapping_sub(1) };
                    if y == 0 || far > last {
                        rows::widen(level, plane.row(near), out);
                    } else {
                        rows::widen_two(level, plane.row(near), plane.row(far), out);
                    }
                }
            }
        }
        Ok(())
    }

    fn convert_row(&self, conversion: Conversion, y: usize, chroma: &[Vec<u16>; 2], row: &mut [u8]) {
        let light = self.all[0].row(y);
        let shift = self.bits - 8;
        match conversion {
            Conversion::Identity => {
                let light = light.iter().zip(&chroma[0]).zip(&chroma[1]);
                for (pixel, ((green, blue), red)) in row.as_chunks_mut::<4>().0.iter_mut().zip(light) {
                    *pixel = [(red >> shift) as u8, (green >> shift) as u8, (blue >> shift) as u8, 255];
                }
            }
            Conversion::Fixed(factors) => {
                let planes = [light, &chroma[0], &chroma[1]];
                rows::convert(CpuLevel::detect(), factors, self.bits, planes, row);
            }
        }
        if let Some(alpha) = &self.alpha {
            for (pixel, alpha) in row.as_chunks_mut::<4>().0.iter_mut().zip(alpha.row(y)) {
                pixel[3] = *alpha as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_stays_grey() {
        let colours = Colours { matrix: 6, full_range: true };
        let Conversion::Fixed(factors) = conversion(colours).unwrap() else { panic!("factors") };
        let light: Vec<u16> = (0..256).collect();
        let mut row = vec![0; 1024];
        rows::convert(CpuLevel::detect(), factors, 8, [&light, &[128; 256], &[128; 256]], &mut row);
        assert!(
            row.chunks(4).enumerate().all(|(grey, pixel)| pixel == [grey as u8, grey as u8, grey as u8, 255])
        );
        assert!(conversion(Colours { matrix: 99, full_range: true }).is_err());
    }
}
