//! Planes of brightness and colour difference → RGB.

use crate::error::{Error, Result};

/// How planes are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Pixels that share a value of colour, as a power of two: across and down.
    across: u32,
    down: u32,
    /// Bits of a value; above 8 they take two bytes.
    depth: u32,
    grey: bool,
    /// Whether values use all levels, by the layout's name.
    pub(crate) full: bool,
}

impl Layout {
    /// The layout with FFmpeg's name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let (name, depth) = match name {
            name if name.ends_with("10le") => (&name[..name.len() - 4], 10),
            name if name.ends_with("12le") => (&name[..name.len() - 4], 12),
            name => (name, 8),
        };
        let (across, down, grey, full) = match name {
            "yuv420p" => (1, 1, false, false),
            "yuvj420p" => (1, 1, false, true),
            "yuv422p" => (1, 0, false, false),
            "yuvj422p" => (1, 0, false, true),
            "yuv444p" => (0, 0, false, false),
            "yuvj444p" => (0, 0, false, true),
            "gray" => (0, 0, true, false),
            _ => return None,
        };
        Some(Layout { across, down, depth, grey, full })
    }

    /// A layout by its numbers: pixels that share a value of colour as powers of two, and bits of a value.
    #[cfg(any(feature = "av1", feature = "h264"))]
    pub(crate) fn planar(across: u32, down: u32, depth: u32, grey: bool) -> Self {
        Layout { across, down, depth, grey, full: false }
    }

    /// Bytes of a row of plane `at`, and its rows.
    pub(crate) fn size_of(&self, at: usize, width: usize, height: usize) -> (usize, usize) {
        let bytes = if self.depth > 8 { 2 } else { 1 };
        match at {
            0 => (width * bytes, height),
            _ if self.grey => (0, 0),
            _ => (width.div_ceil(1 << self.across) * bytes, height.div_ceil(1 << self.down)),
        }
    }
}

/// Bytes and stride of each plane.
pub(crate) type Planes<'a> = [(&'a [u8], usize); 3];

/// A decoded frame, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) layout: Layout,
    pub(crate) planes: Planes<'a>,
    /// The matrix by its number in the standards: 1 is BT.709, 9 BT.2020; others are taken as BT.601.
    pub(crate) matrix: i64,
    /// Whether values use all levels.
    pub(crate) full: bool,
}

/// The weights of a matrix, in units of 2^-16.
#[derive(Clone, Copy)]
struct Weights {
    bright: i32,
    red: i32,
    green: (i32, i32),
    blue: i32,
    /// The level of black.
    zero: i32,
}

impl Weights {
    fn new(matrix: i64, full: bool) -> Self {
        let (kr, kb) = match matrix {
            1 => (0.2126f64, 0.0722f64),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        let kg = 1.0 - kr - kb;
        let (scale, zero, colour) = if full { (1.0, 0, 1.0) } else { (255.0 / 219.0, 16, 255.0 / 224.0) };
        let (red, blue) = (2.0 * (1.0 - kr) * colour, 2.0 * (1.0 - kb) * colour);
        let fixed = |value: f64| (value * 65536.0).round() as i32;
        let green = (fixed(-kb * blue / kg), fixed(-kr * red / kg));
        Weights { bright: fixed(scale), red: fixed(red), green, blue: fixed(blue), zero }
    }
}

/// A value of a plane, of one byte or two.
trait Level: Copy {
    const BYTES: usize;
    fn at(bytes: &[u8], number: usize) -> i32;
}

impl Level for u8 {
    const BYTES: usize = 1;
    #[inline(always)]
    fn at(bytes: &[u8], number: usize) -> i32 {
        i32::from(bytes[number])
    }
}

impl Level for u16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn at(bytes: &[u8], number: usize) -> i32 {
        i32::from(u16::from_le_bytes([bytes[2 * number], bytes[2 * number + 1]]))
    }
}

/// What colour adds to red, green and blue, for every pixel of a row.
struct Tints {
    red: Vec<i32>,
    green: Vec<i32>,
    blue: Vec<i32>,
}

impl Tints {
    fn new(width: usize) -> Result<Self> {
        let row = || {
            let mut row = Vec::new();
            row.try_reserve_exact(width).map_err(|_| Error::OutOfMemory { bytes: 4 * width as u64 })?;
            row.resize(width, 0);
            Ok(row)
        };
        Ok(Tints { red: row()?, green: row()?, blue: row()? })
    }

    #[inline(always)]
    fn set<T: Level>(&mut self, (u, v): (&[u8], &[u8]), across: u32, weights: Weights, depth: u32) {
        let (middle, half) = (128 << (depth - 8), 1 << (7 + depth));
        let count = u.len().min(v.len()) / T::BYTES;
        let (u, v) = (&u[..count * T::BYTES], &v[..count * T::BYTES]);
        let each = 1 << across;
        let rows = self.red.chunks_mut(each).zip(self.green.chunks_mut(each)).zip(self.blue.chunks_mut(each));
        for (at, ((red, green), blue)) in rows.enumerate().take(count) {
            let (u, v) = (T::at(u, at) - middle, T::at(v, at) - middle);
            red.fill(weights.red * v + half);
            green.fill(weights.green.0 * u + weights.green.1 * v + half);
            blue.fill(weights.blue * u + half);
        }
    }

    #[inline(always)]
    fn write<T: Level>(&self, row: &[u8], weights: Weights, depth: u32, out: &mut [u8]) {
        let tints = self.red.chunks(BLOCK).zip(self.green.chunks(BLOCK)).zip(self.blue.chunks(BLOCK));
        let lines = row.chunks(BLOCK * T::BYTES).zip(out.chunks_mut(3 * BLOCK));
        for ((row, out), ((red, green), blue)) in lines.zip(tints) {
            let count = red.len().min(row.len() / T::BYTES).min(out.len() / 3);
            let mut levels = [[0u8; BLOCK]; 3];
            for (levels, tint) in levels.iter_mut().zip([red, green, blue]) {
                fill_levels::<T>(
                    &row[..count * T::BYTES],
                    &tint[..count],
                    weights,
                    depth,
                    &mut levels[..count],
                );
            }
            let [red, green, blue] = &levels;
            let colours = red[..count].iter().zip(&green[..count]).zip(&blue[..count]);
            for (pixel, ((red, green), blue)) in out.chunks_exact_mut(3).zip(colours) {
                (pixel[0], pixel[1], pixel[2]) = (*red, *green, *blue);
            }
        }
    }
}

/// Pixels that are converted at once: first each colour by itself, which compilers turn into vector instructions.
const BLOCK: usize = 64;

#[inline(always)]
fn fill_levels<T: Level>(row: &[u8], tint: &[i32], weights: Weights, depth: u32, out: &mut [u8]) {
    let (shift, zero) = (8 + depth, weights.zero << (depth - 8));
    for (at, (level, tint)) in out.iter_mut().zip(tint).enumerate() {
        let bright = (T::at(row, at) - zero) * weights.bright;
        *level = ((bright + tint) >> shift).clamp(0, 255) as u8;
    }
}

impl Picture<'_> {
    /// Writes rows of red, green and blue; `out` is `3 * width * height` long. Every pixel takes the colour difference of
    /// the block that it belongs to.
    pub(crate) fn write_rgb(&self, out: &mut [u8]) -> Result<()> {
        let mut tints = Tints::new(self.width)?;
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions.
            unsafe { self.write_avx2(&mut tints, out) };
            return Ok(());
        }
        self.write(&mut tints, out);
        Ok(())
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn write_avx2(&self, tints: &mut Tints, out: &mut [u8]) {
        self.write(tints, out);
    }

    #[inline(always)]
    fn write(&self, tints: &mut Tints, out: &mut [u8]) {
        if self.layout.depth == 8 { self.rows::<u8>(tints, out) } else { self.rows::<u16>(tints, out) }
    }

    #[inline(always)]
    fn rows<T: Level>(&self, tints: &mut Tints, out: &mut [u8]) {
        let weights = Weights::new(self.matrix, self.full);
        let Layout { across, down, depth, grey, .. } = self.layout;
        let line = |plane: usize, y: usize| {
            let (bytes, stride) = self.planes[plane];
            &bytes[y * stride..y * stride + self.layout.size_of(plane, self.width, self.height).0]
        };
        if grey {
            let half = 1 << (7 + depth);
            for row in [&mut tints.red, &mut tints.green, &mut tints.blue] {
                row.fill(half);
            }
        }
        for (y, row) in out.chunks_exact_mut(3 * self.width).take(self.height).enumerate() {
            if !grey && y.is_multiple_of(1 << down) {
                tints.set::<T>((line(1, y >> down), line(2, y >> down)), across, weights, depth);
            }
            tints.write::<T>(line(0, y), weights, depth, row);
        }
    }
}

/// Turns rows of RGB clockwise by 90, 180 or 270 degrees. Returns the new width and height.
pub(crate) fn turned(
    rgb: &[u8],
    width: usize,
    height: usize,
    degrees: u16,
    out: &mut [u8],
) -> (usize, usize) {
    let (wide, high) = if degrees.is_multiple_of(180) { (width, height) } else { (height, width) };
    for (y, row) in out.chunks_exact_mut(3 * wide).take(high).enumerate() {
        for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
            let (from_x, from_y) = match degrees {
                90 => (y, height - 1 - x),
                180 => (width - 1 - x, height - 1 - y),
                270 => (width - 1 - y, x),
                _ => (x, y),
            };
            let at = 3 * (from_y * width + from_x);
            pixel.copy_from_slice(&rgb[at..at + 3]);
        }
    }
    (wide, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(planes: &[Vec<u8>; 3], width: usize, height: usize, full: bool, matrix: i64) -> Picture<'_> {
        let layout = Layout::named("yuv420p").unwrap();
        let stride = |at: usize| layout.size_of(at, width, height).0;
        let planes = [0, 1, 2].map(|at| (&planes[at][..], stride(at)));
        Picture { width, height, layout, planes, matrix, full }
    }

    #[test]
    fn black_white_and_red_are_themselves() {
        let mut out = [9; 12];
        for (planes, full, matrix, expected) in [
            ([vec![16; 4], vec![128], vec![128]], false, 2, [0, 0, 0]),
            ([vec![235; 4], vec![128], vec![128]], false, 1, [255, 255, 255]),
            ([vec![76; 4], vec![85], vec![255]], true, 5, [254, 0, 0]),
            ([vec![81; 4], vec![90], vec![240]], false, 6, [255, 0, 0]),
            ([vec![63; 4], vec![102], vec![240]], false, 1, [255, 0, 0]),
        ] {
            picture(&planes, 2, 2, full, matrix).write_rgb(&mut out).unwrap();
            for (found, expected) in out.chunks(3).flat_map(|pixel| pixel.iter().zip(&expected)) {
                assert!(found.abs_diff(*expected) <= 1, "{out:?} {expected:?}");
            }
        }
    }

    /// One pixel by the formula of the standards, in floats.
    fn by_formula(bright: f64, u: f64, v: f64, full: bool, matrix: i64) -> [f64; 3] {
        let (kr, kb) = if matrix == 1 { (0.2126, 0.0722) } else { (0.299, 0.114) };
        let (bright, colour) =
            if full { (bright, 1.0) } else { ((bright - 16.0) * 255.0 / 219.0, 255.0 / 224.0) };
        let (u, v) = ((u - 128.0) * colour, (v - 128.0) * colour);
        let red = bright + 2.0 * (1.0 - kr) * v;
        let blue = bright + 2.0 * (1.0 - kb) * u;
        [red, (bright - kr * red - kb * blue) / (1.0 - kr - kb), blue]
    }

    #[test]
    fn all_depths_and_layouts_are_the_formula() {
        let names = ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv444p12le", "yuvj420p", "gray"];
        for (name, (width, height)) in
            names.iter().flat_map(|name| [(*name, (131, 7)), (*name, (2, 2)), (*name, (1, 1))])
        {
            let layout = Layout::named(name).unwrap();
            let sizes = [0, 1, 2].map(|at| layout.size_of(at, width, height));
            let most = (1u32 << layout.depth) - 1;
            let planes = sizes.map(|(bytes, rows)| {
                let values = (0..bytes * rows).map(|at| (at as u32).wrapping_mul(2_654_435_761) >> 7);
                if layout.depth == 8 {
                    return values.map(|value| value as u8).collect::<Vec<u8>>();
                }
                let wide = values.step_by(2).flat_map(|value| ((value & most) as u16).to_le_bytes());
                wide.collect()
            });
            for (full, matrix) in [(false, 1), (false, 2), (true, 1)] {
                let full = full || layout.full;
                let borrowed = [0, 1, 2].map(|at| (&planes[at][..], sizes[at].0));
                let picture = Picture { width, height, layout, planes: borrowed, matrix, full };
                let mut out = vec![0; 3 * width * height];
                picture.write_rgb(&mut out).unwrap();
                let value = |plane: usize, x: usize, y: usize| {
                    let (bytes, stride) = borrowed[plane];
                    match layout.depth {
                        8 => f64::from(bytes[y * stride + x]),
                        depth => {
                            let at = y * stride + 2 * x;
                            f64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
                                / f64::from(1 << (depth - 8))
                        }
                    }
                };
                for (at, pixel) in out.chunks(3).enumerate() {
                    let (x, y) = (at % width, at / width);
                    let (cx, cy) = (x >> layout.across, y >> layout.down);
                    let (u, v) =
                        if layout.grey { (128.0, 128.0) } else { (value(1, cx, cy), value(2, cx, cy)) };
                    let expected = by_formula(value(0, x, y), u, v, full, matrix);
                    for (found, expected) in pixel.iter().zip(expected) {
                        let apart = f64::from(*found) - expected.clamp(0.0, 255.0);
                        assert!(apart.abs() < 0.52, "{name} {x} {y}: {pixel:?} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn odd_sizes_have_their_last_colours() {
        let planes = [vec![100; 15], vec![128, 128, 0, 128, 128, 0], vec![128; 6]];
        let mut out = [0; 45];
        picture(&planes, 5, 3, true, 5).write_rgb(&mut out).unwrap();
        assert_eq!(out[..3], [100, 100, 100]);
        assert_eq!(out[14], 0, "the last column's blue");
    }

    #[test]
    fn turns_are_clockwise() {
        let rgb: Vec<u8> = (0..18).collect(); // two rows of three pixels: a b c / d e f
        let pixels = |out: &[u8]| out.chunks(3).map(|pixel| pixel[0] / 3).collect::<Vec<u8>>();
        let mut out = [0; 18];
        assert_eq!(turned(&rgb, 3, 2, 90, &mut out), (2, 3));
        assert_eq!(pixels(&out), [3, 0, 4, 1, 5, 2]);
        turned(&rgb, 3, 2, 180, &mut out);
        assert_eq!(pixels(&out), [5, 4, 3, 2, 1, 0]);
        turned(&rgb, 3, 2, 270, &mut out);
        assert_eq!(pixels(&out), [2, 5, 1, 4, 0, 3]);
    }
}
