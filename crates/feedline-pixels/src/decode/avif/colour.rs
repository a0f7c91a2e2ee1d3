//! From planes of brightness and chroma to red, green and blue, with the numbers of libyuv, which Pillow uses: chroma is
//! interpolated to full size, then every pixel is converted with factors of six bits behind the point.

use super::CODEC;
use super::stream::{Chroma, Colours};
use crate::{Result, Size, fit};

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

/// Factors times 64; brightness is multiplied by `y` / 1024 after it was widened to 16 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    y: u32,
    bias: i32,
    u_to_blue: i32,
    u_to_green: i32,
    v_to_green: i32,
    v_to_red: i32,
}

impl Factors {
    const fn new(full: bool, [u_to_blue, u_to_green, v_to_green, v_to_red]: [i32; 4]) -> Self {
        let (y, bias) = if full { (16320, 32) } else { (18997, -1160) };
        Factors { y, bias, u_to_blue, u_to_green, v_to_green, v_to_red }
    }
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
        for (plane, out) in self.all[1..].iter().zip(out) {
            fit(out, width, 0)?;
            match self.chroma {
                Chroma::None => out.fill(1 << (self.bits - 1)),
                Chroma::Full => out.copy_from_slice(plane.row(y)),
                Chroma::Half => widen(plane.row(y), out),
                Chroma::Quarter => {
                    // The nearer row counts three times; there is none above the first and below the last.
                    let near = y / 2;
                    let last = plane.size.height as usize - 1;
                    let far = if y % 2 == 1 { near + 1 } else { near.wrapping_sub(1) };
                    if y == 0 || far > last {
                        widen(plane.row(near), out);
                    } else {
                        widen_two(plane.row(near), plane.row(far), out);
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
            Conversion::Fixed(factors) => factors.convert(self.bits, light, chroma, row),
        }
        if let Some(alpha) = &self.alpha {
            for (pixel, alpha) in row.as_chunks_mut::<4>().0.iter_mut().zip(alpha.row(y)) {
                pixel[3] = *alpha as u8;
            }
        }
    }
}

impl Factors {
    fn convert(self, bits: u32, light: &[u16], [u, v]: &[Vec<u16>; 2], row: &mut [u8]) {
        let shift = bits - 8;
        let pixels = row.as_chunks_mut::<4>().0.iter_mut();
        for (((pixel, light), u), v) in pixels.zip(light).zip(u).zip(v) {
            let light = u32::from(*light);
            // Widened to 16 bits by repeating the upper bits.
            let wide = light << (16 - bits) | light >> (2 * bits - 16);
            let light = ((wide * self.y) >> 16) as i32 + self.bias;
            let (u, v) = (i32::from(*u >> shift) - 128, i32::from(*v >> shift) - 128);
            let byte = |value: i32| (value >> 6).clamp(0, 255) as u8;
            *pixel = [
                byte(light + v * self.v_to_red),
                byte(light - u * self.u_to_green - v * self.v_to_green),
                byte(light + u * self.u_to_blue),
                255,
            ];
        }
    }
}

/// Twice as many samples: three quarters of the nearer and a quarter of the farther one.
fn widen(from: &[u16], to: &mut [u16]) {
    let last = to.len() - 1;
    to[0] = from[0];
    for (pair, two) in to[1..last.max(1)].chunks_mut(2).zip(from.windows(2)) {
        let (a, b) = (two[0], two[1]);
        pair[0] = (3 * a + b + 2) >> 2;
        if let Some(second) = pair.get_mut(1) {
            *second = (a + 3 * b + 2) >> 2;
        }
    }
    to[last] = from[last / 2];
}

/// The same from two rows, of which the nearer counts three times.
fn widen_two(near: &[u16], far: &[u16], to: &mut [u16]) {
    let last = to.len() - 1;
    let edge = |at: usize| (3 * near[at] + far[at] + 2) >> 2;
    to[0] = edge(0);
    let windows = near.windows(2).zip(far.windows(2));
    for (pair, (near, far)) in to[1..last.max(1)].chunks_mut(2).zip(windows) {
        let mix = |a: usize, b: usize| (9 * near[a] + 3 * near[b] + 3 * far[a] + far[b] + 8) >> 4;
        pair[0] = mix(0, 1);
        if let Some(second) = pair.get_mut(1) {
            *second = mix(1, 0);
        }
    }
    to[last] = edge(last / 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chroma_is_interpolated() {
        let mut to = [0; 5];
        widen(&[0, 100, 200], &mut to);
        assert_eq!(to, [0, 25, 75, 125, 200]);
        let mut to = [0; 4];
        widen_two(&[0, 160], &[0, 160], &mut to);
        assert_eq!(to, [0, 40, 120, 160]);
        let mut to = [0; 1];
        widen_two(&[8], &[4], &mut to);
        assert_eq!(to, [7]);
        let mut to = [0; 2];
        widen(&[9], &mut to);
        assert_eq!(to, [9, 9]);
    }

    #[test]
    fn grey_stays_grey() {
        let colours = Colours { matrix: 6, full_range: true };
        let Conversion::Fixed(factors) = conversion(colours).unwrap() else { panic!("factors") };
        let light: Vec<u16> = (0..256).collect();
        let mut row = vec![0; 1024];
        factors.convert(8, &light, &[vec![128; 256], vec![128; 256]], &mut row);
        assert!(
            row.chunks(4).enumerate().all(|(grey, pixel)| pixel == [grey as u8, grey as u8, grey as u8, 255])
        );
        assert!(conversion(Colours { matrix: 99, full_range: true }).is_err());
    }
}
