//! Planes of brightness and colour difference → RGB.

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

impl Picture<'_> {
    fn value(&self, plane: usize, x: usize, y: usize) -> f32 {
        let (bytes, stride) = self.planes[plane];
        if self.layout.depth == 8 {
            return f32::from(bytes[y * stride + x]);
        }
        let at = y * stride + 2 * x;
        let wide = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        f32::from(wide) / (1 << (self.layout.depth - 8)) as f32
    }

    /// Writes rows of red, green and blue; `out` is `3 * width * height` long. Every pixel takes the colour difference of
    /// the block that it belongs to.
    pub(crate) fn write_rgb(&self, out: &mut [u8]) {
        let (kr, kb) = match self.matrix {
            1 => (0.2126f32, 0.0722f32),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        let kg = 1.0 - kr - kb;
        let (scale, zero, colour) =
            if self.full { (1.0, 0.0, 1.0) } else { (255.0 / 219.0, 16.0, 255.0 / 224.0) };
        let (red, blue) = (2.0 * (1.0 - kr) * colour, 2.0 * (1.0 - kb) * colour);
        for (y, row) in out.chunks_exact_mut(3 * self.width).take(self.height).enumerate() {
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let bright = (self.value(0, x, y) - zero) * scale;
                let (u, v) = if self.layout.grey {
                    (0.0, 0.0)
                } else {
                    let (x, y) = (x >> self.layout.across, y >> self.layout.down);
                    (self.value(1, x, y) - 128.0, self.value(2, x, y) - 128.0)
                };
                let (r, b) = (red * v, blue * u);
                let level = |value: f32| (value + 0.5).clamp(0.0, 255.0) as u8;
                pixel[0] = level(bright + r);
                pixel[1] = level(bright - (kr * r + kb * b) / kg);
                pixel[2] = level(bright + b);
            }
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
            picture(&planes, 2, 2, full, matrix).write_rgb(&mut out);
            for (found, expected) in out.chunks(3).flat_map(|pixel| pixel.iter().zip(&expected)) {
                assert!(found.abs_diff(*expected) <= 1, "{out:?} {expected:?}");
            }
        }
    }

    #[test]
    fn odd_sizes_have_their_last_colours() {
        let planes = [vec![100; 15], vec![128, 128, 0, 128, 128, 0], vec![128; 6]];
        let mut out = [0; 45];
        picture(&planes, 5, 3, true, 5).write_rgb(&mut out);
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
