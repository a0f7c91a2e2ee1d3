//! Pixels at places that are not on the grid: rotation, shear, perspective. For every output pixel the map gives a
//! place in the source; places outside are filled. Arithmetic is that of Pillow's `Image.transform`: places in double
//! precision, bilinear results truncated, inside or outside decided by the pixel's centre.

mod bicubic;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use scalar::Fixed;

use crate::cpu::dispatch;
use crate::{CpuLevel, ImageMut, ImageRef, Size};

/// The source place of an output pixel's centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Map {
    /// `(a·x + b·y + c, d·x + e·y + f)`.
    Affine([f64; 6]),
    /// The same, divided by `g·x + h·y + 1`.
    Perspective([f64; 8]),
}

impl Map {
    /// Maps a place.
    pub fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        match *self {
            Map::Affine([a, b, c, d, e, f]) => (a * x + b * y + c, d * x + e * y + f),
            Map::Perspective([a, b, c, d, e, f, g, h]) => {
                let divisor = g * x + h * y + 1.0;
                ((a * x + b * y + c) / divisor, (d * x + e * y + f) / divisor)
            }
        }
    }

    /// The inverse map; `None` if there is none.
    pub fn inverse(&self) -> Option<Map> {
        let [a, b, c, d, e, f, g, h] = match *self {
            Map::Affine([a, b, c, d, e, f]) => [a, b, c, d, e, f, 0.0, 0.0],
            Map::Perspective(all) => all,
        };
        // The adjugate of the matrix, scaled so that its last element is 1.
        let last = a * e - b * d;
        let rows = [
            [e - f * h, c * h - b, b * f - c * e],
            [f * g - d, a - c * g, c * d - a * f],
            [d * h - e * g, b * g - a * h, last],
        ];
        let scaled = rows.map(|row| row.map(|value| value / last));
        let [[a, b, c], [d, e, f], [g, h, _]] = scaled;
        let all = [a, b, c, d, e, f, g, h];
        if last == 0.0 || all.iter().any(|value| !value.is_finite()) {
            return None;
        }
        Some(if g == 0.0 && h == 0.0 { Map::Affine([a, b, c, d, e, f]) } else { Map::Perspective(all) })
    }
}

/// Interpolation between pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpFilter {
    /// The pixel that contains the place.
    Nearest,
    /// The four pixels around it.
    Bilinear,
    /// The sixteen pixels around it.
    Bicubic,
}

/// A warp with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warp {
    /// Map from output to source.
    pub map: Map,
    /// Size of the result.
    pub output: Size,
    /// Interpolation between pixels.
    pub filter: WarpFilter,
    /// Red, green, blue outside the source.
    pub fill: [u8; 3],
}

/// Writes the warped image; both have four bytes per pixel.
pub(crate) fn warp(level: CpuLevel, warp: &Warp, from: ImageRef<'_>, to: &mut ImageMut<'_>) {
    let [red, green, blue] = warp.fill;
    let fill = [red, green, blue, 255];
    if warp.filter == WarpFilter::Nearest {
        return nearest(level, &warp.map, from, to, fill);
    }
    if warp.filter == WarpFilter::Bicubic {
        return bicubic::warp(&warp.map, from, to, fill);
    }
    for y in 0..to.size.height {
        let row = to.row_mut(y);
        match warp.map {
            Map::Affine(map) => dispatch!(avx512: level, bilinear_affine(from, &map, y, fill, row)),
            Map::Perspective(map) => dispatch!(avx512: level, bilinear_perspective(from, &map, y, fill, row)),
        }
    }
}

/// Writes the image warped without blending; both have `BYTES` bytes per pixel.
pub(crate) fn nearest<const BYTES: usize>(
    level: CpuLevel,
    map: &Map,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
    fill: [u8; BYTES],
) {
    match map {
        Map::Affine(map) => nearest_affine(level, map, from, to, fill),
        Map::Perspective(map) => {
            for y in 0..to.size.height {
                scalar::nearest_perspective(from, map, y, fill, to.row_mut(y));
            }
        }
    }
}

/// Pillow steps along rows: in 16.16 fixed point if the image allows, in floats if the map only moves and scales.
fn nearest_affine<const BYTES: usize>(
    level: CpuLevel,
    map: &[f64; 6],
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
    fill: [u8; BYTES],
) {
    if map[1] == 0.0 && map[3] == 0.0 {
        if let Some(by) = whole_pixels(map) {
            return scalar::nearest_moved(by, from, to, fill);
        }
        return scalar::nearest_scaled(map, from, to, fill);
    }
    let (width, height) = (f64::from(to.size.width), f64::from(to.size.height));
    let fits = |x: f64, y: f64| {
        let small = |v: f64| (-32768.0..32768.0).contains(&v);
        small(x * map[0] + y * map[1] + map[2]) && small(x * map[3] + y * map[4] + map[5])
    };
    if fits(0.0, 0.0) && fits(width, height) && fits(0.0, height) && fits(width, 0.0) {
        let fixed = Fixed::new(map);
        for y in 0..to.size.height {
            let (start, row) = (fixed.row(y), to.row_mut(y));
            nearest_row(level, &fixed, from, start, fill, row);
        }
        return;
    }
    for y in 0..to.size.height {
        scalar::nearest_places(from, map, y, fill, to.row_mut(y));
    }
}

/// One row of a map in fixed point. Pixels of four bytes are gathered eight at a time.
fn nearest_row<const BYTES: usize>(
    level: CpuLevel,
    fixed: &Fixed,
    from: ImageRef<'_>,
    start: (i32, i32),
    fill: [u8; BYTES],
    row: &mut [u8],
) {
    #[cfg(target_arch = "x86_64")]
    if let (Some(fill), true) = (fill.first_chunk::<4>(), level != CpuLevel::Scalar && BYTES == 4) {
        // SAFETY: levels above the reference are only ever passed down after detection.
        return unsafe { avx2::nearest_fixed(fixed, from, start, *fill, row) };
    }
    let _ = level;
    scalar::nearest_fixed(fixed, from, start, fill, row);
}

/// Writes the moved image if the map does nothing but move it by whole pixels; both have four bytes per pixel.
pub(crate) fn moved(map: &Map, from: ImageRef<'_>, to: &mut ImageMut<'_>, fill: [u8; 4]) -> bool {
    let by = match map {
        Map::Affine(map) if map[1] == 0.0 && map[3] == 0.0 => whole_pixels(map),
        _ => None,
    };
    if let Some(by) = by {
        scalar::nearest_moved(by, from, to, fill);
    }
    by.is_some()
}

/// The offset of a map that only moves, by whole pixels.
fn whole_pixels(map: &[f64; 6]) -> Option<(i64, i64)> {
    let small = |v: f64| v.fract() == 0.0 && v.abs() < f64::from(1 << 30);
    let moves = map[0] == 1.0 && map[4] == 1.0 && small(map[2]) && small(map[5]);
    moves.then_some((map[2] as i64, map[5] as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    fn made(level: CpuLevel, op: &Warp) -> Vec<u8> {
        let size = Size::new(31, 17);
        let bytes: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 20) as u8).collect();
        let from = ImageRef::new(&bytes, size, 31 * 4, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; op.output.area() as usize * 4];
        let mut to =
            ImageMut::new(&mut out, op.output, op.output.width as usize * 4, PixelLayout::Rgbx).unwrap();
        warp(level, op, from, &mut to);
        out
    }

    #[test]
    fn shifts_by_whole_pixels_copy_pixels() {
        for (dx, dy) in [(0, 0), (3, -2), (-5, 4), (100, 0), (0, -100), (-31, 0)] {
            let map = [1.0, 0.0, f64::from(dx), 0.0, 1.0, f64::from(dy)];
            let (size, output) = (Size::new(31, 17), Size::new(29, 23));
            let bytes: Vec<u8> = (0..size.area() as u32 * 4).map(|i| i as u8).collect();
            let from = ImageRef::new(&bytes, size, 31 * 4, PixelLayout::Rgbx).unwrap();
            let (mut moved, mut stepped) = (vec![0; 29 * 23 * 4], vec![1; 29 * 23 * 4]);
            let mut to = ImageMut::new(&mut moved, output, 29 * 4, PixelLayout::Rgbx).unwrap();
            scalar::nearest_moved(whole_pixels(&map).unwrap(), from, &mut to, [9; 4]);
            let mut to = ImageMut::new(&mut stepped, output, 29 * 4, PixelLayout::Rgbx).unwrap();
            scalar::nearest_scaled(&map, from, &mut to, [9; 4]);
            assert!(moved == stepped, "{dx} {dy}");
        }
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let maps = [
            Map::Affine([0.9, 0.3, -2.0, -0.3, 0.9, 4.0]),
            Map::Affine([1.0, 0.0, 3.0, 0.0, 1.0, -2.0]),
            Map::Affine([1.0, 0.0, -40.0, 0.0, 1.0, 5.0]),
            Map::Affine([1.0, 0.0, 3.5, 0.0, 1.0, -2.25]),
            Map::Affine([1.0, 0.3, 0.0, 0.0, 1.0, 0.0]),
            Map::Affine([0.5, 0.0, 0.0, 0.0, 0.5, 0.0]),
            Map::Affine([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            Map::Affine([1e9, 3.0, 1e12, -1e9, 1e300, -1e12]),
            Map::Perspective([1.1, 0.1, -2.0, 0.05, 0.9, 1.0, 0.001, -0.002]),
            Map::Perspective([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -0.1, 0.0]),
        ];
        for map in maps {
            for filter in [WarpFilter::Nearest, WarpFilter::Bilinear] {
                let op = Warp { map, output: Size::new(29, 23), filter, fill: [1, 2, 3] };
                let expected = made(CpuLevel::Scalar, &op);
                for level in CpuLevel::available() {
                    assert!(made(level, &op) == expected, "{level:?} {op:?}");
                }
            }
        }
    }
}
