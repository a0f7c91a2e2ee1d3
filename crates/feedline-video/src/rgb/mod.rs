//! Planes of brightness and colour difference → RGB.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

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
    #[cfg(any(feature = "ffmpeg", test))]
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

/// Weights are in units of 2^-14: the largest that keep all but blue's within 16 bits.
const FRACTION: u32 = 14;

/// What a row is converted with. Weights are in units of 2^-14.
#[derive(Clone, Copy, Debug)]
struct Conversion {
    bright: i32,
    red: i32,
    green: (i32, i32),
    blue: i32,
    /// The level of black.
    zero: i32,
    /// The level of no colour.
    middle: i32,
    /// Bits behind the point, and those that a value has above eight.
    shift: u32,
}

impl Conversion {
    fn new(matrix: i64, full: bool, depth: u32) -> Self {
        let (kr, kb) = match matrix {
            1 => (0.2126f64, 0.0722f64),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        let kg = 1.0 - kr - kb;
        let (scale, zero, colour) = if full { (1.0, 0, 1.0) } else { (255.0 / 219.0, 16, 255.0 / 224.0) };
        let (red, blue) = (2.0 * (1.0 - kr) * colour, 2.0 * (1.0 - kb) * colour);
        let fixed = |value: f64| (value * f64::from(1 << FRACTION)).round() as i32;
        let green = (fixed(-kb * blue / kg), fixed(-kr * red / kg));
        let more = depth - 8;
        Conversion {
            bright: fixed(scale),
            red: fixed(red),
            green,
            blue: fixed(blue),
            zero: zero << more,
            middle: 128 << more,
            shift: FRACTION + more,
        }
    }
}

/// A row of each plane; the values of colour are those of pixels, pairs of pixels or missing.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    bright: &'a [u8],
    u: &'a [u8],
    v: &'a [u8],
}

impl Picture<'_> {
    /// Writes rows of red, green and blue; `out` is `3 * width * height` long. Every pixel takes the colour difference of
    /// the block that it belongs to.
    pub(crate) fn write_rgb(&self, out: &mut [u8]) {
        let conversion = Conversion::new(self.matrix, self.full, self.layout.depth);
        let write = row_writer(self.layout);
        for (y, out) in out.chunks_exact_mut(3 * self.width).take(self.height).enumerate() {
            let coloured = y >> self.layout.down;
            let row = Row { bright: self.row(0, y), u: self.row(1, coloured), v: self.row(2, coloured) };
            write(&conversion, row, out);
        }
    }

    fn row(&self, plane: usize, y: usize) -> &[u8] {
        let (bytes, stride) = self.planes[plane];
        match self.layout.size_of(plane, self.width, self.height).0 {
            0 => &[],
            length => &bytes[y * stride..][..length],
        }
    }
}

type RowWriter = fn(&Conversion, Row<'_>, &mut [u8]);

/// The function for rows of this layout: bytes of a value, then pixels that share a value of colour.
fn row_writer(layout: Layout) -> RowWriter {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return match (layout.grey, layout.depth > 8, layout.across) {
            (true, false, _) => scalar::grey::<1>,
            (true, true, _) => scalar::grey::<2>,
            (_, false, 0) => avx2::row::<1, 0>,
            (_, false, _) => avx2::row::<1, 1>,
            (_, true, 0) => avx2::row::<2, 0>,
            (_, true, _) => avx2::row::<2, 1>,
        };
    }
    match (layout.grey, layout.depth > 8, layout.across) {
        (true, false, _) => scalar::grey::<1>,
        (true, true, _) => scalar::grey::<2>,
        (_, false, 0) => scalar::row::<1, 0>,
        (_, false, _) => scalar::row::<1, 1>,
        (_, true, 0) => scalar::row::<2, 0>,
        (_, true, _) => scalar::row::<2, 1>,
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
                picture.write_rgb(&mut out);
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

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn vectors_are_the_reference() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return;
        }
        let both: [(usize, usize, RowWriter, RowWriter); 4] = [
            (1, 0, avx2::row::<1, 0>, scalar::row::<1, 0>),
            (1, 1, avx2::row::<1, 1>, scalar::row::<1, 1>),
            (2, 0, avx2::row::<2, 0>, scalar::row::<2, 0>),
            (2, 1, avx2::row::<2, 1>, scalar::row::<2, 1>),
        ];
        for ((bytes, across, fast, slow), width) in
            both.iter().flat_map(|both| (1..70usize).map(move |w| (both, w)))
        {
            let depth = if *bytes == 1 { 8 } else { 12 };
            let values = |count: usize, seed: u32| -> Vec<u8> {
                let mixed =
                    (0..count as u32).map(|at| (at ^ seed).wrapping_mul(2_654_435_761) >> (32 - depth));
                mixed.flat_map(|value| (value as u16).to_le_bytes()[..*bytes].to_vec()).collect()
            };
            let coloured = width.div_ceil(1 << across);
            let (bright, u, v) = (values(width, 1), values(coloured, 77), values(coloured, 5000));
            for (matrix, full) in [(1, false), (9, false), (5, true)] {
                let (mut found, mut expected) = (vec![0; 3 * width], vec![0; 3 * width]);
                let row = Row { bright: &bright, u: &u, v: &v };
                fast(&Conversion::new(matrix, full, depth), row, &mut found);
                slow(&Conversion::new(matrix, full, depth), row, &mut expected);
                assert_eq!(found, expected, "{bytes} bytes, {across}, {width} pixels");
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
