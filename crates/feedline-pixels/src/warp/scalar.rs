//! The reference.

use crate::{ImageMut, ImageRef};

#[inline(always)]
fn affine(map: &[f64; 6], x: u32, y: u32) -> (f64, f64) {
    let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
    (map[0] * x + map[1] * y + map[2], map[3] * x + map[4] * y + map[5])
}

#[inline(always)]
fn perspective(map: &[f64; 8], x: u32, y: u32) -> (f64, f64) {
    let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
    let divisor = map[6] * x + map[7] * y + 1.0;
    ((map[0] * x + map[1] * y + map[2]) / divisor, (map[3] * x + map[4] * y + map[5]) / divisor)
}

pub(super) fn bilinear_affine(from: ImageRef<'_>, map: &[f64; 6], y: u32, fill: [u8; 4], row: &mut [u8]) {
    for (x, pixel) in row.chunks_exact_mut(4).enumerate() {
        pixel.copy_from_slice(&bilinear(from, affine(map, x as u32, y)).unwrap_or(fill));
    }
}

pub(super) fn bilinear_perspective(
    from: ImageRef<'_>,
    map: &[f64; 8],
    y: u32,
    fill: [u8; 4],
    row: &mut [u8],
) {
    for (x, pixel) in row.chunks_exact_mut(4).enumerate() {
        pixel.copy_from_slice(&bilinear(from, perspective(map, x as u32, y)).unwrap_or(fill));
    }
}

/// The blend of the four pixels around a place; `None` outside.
#[inline(always)]
fn bilinear(from: ImageRef<'_>, (x, y): (f64, f64)) -> Option<[u8; 4]> {
    let (width, height) = (from.size.width, from.size.height);
    // Written so that NaN is outside.
    let inside = x >= 0.0 && x < f64::from(width) && y >= 0.0 && y < f64::from(height);
    if !inside {
        return None;
    }
    let (x, y) = (x - 0.5, y - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (dx, dy) = (x - left, y - top);
    let (left, top) = (left as i32, top as i32);
    let last = (width as i32 - 1, height as i32 - 1);
    let columns = [left.max(0), (left + 1).min(last.0)];
    // After the last row there is no lower one to blend with, before the first none above: the same row is used twice.
    let [upper, lower] = [top.max(0), (top + 1).min(last.1)].map(|row| lerp(pixels(from, columns, row), dx));
    let blended = lerp([upper, lower], dy);
    // SAFETY: blends of bytes are between 0 and 255.
    let [red, green, blue] = blended.map(|value| unsafe { value.to_int_unchecked::<i32>() } as u8);
    Some([red, green, blue, 255])
}

#[inline(always)]
fn pixels(from: ImageRef<'_>, columns: [i32; 2], row: i32) -> [[f64; 3]; 2] {
    let start = row as usize * from.stride;
    columns.map(|column| {
        let pixel = &from.bytes[start + column as usize * 4..][..4];
        [pixel[0], pixel[1], pixel[2]].map(f64::from)
    })
}

#[inline(always)]
fn lerp([a, b]: [[f64; 3]; 2], share: f64) -> [f64; 3] {
    std::array::from_fn(|c| a[c] + (b[c] - a[c]) * share)
}

#[inline(always)]
fn nearest<const BYTES: usize>(from: ImageRef<'_>, (x, y): (f64, f64)) -> Option<&[u8]> {
    let inside = x >= 0.0 && x < f64::from(from.size.width) && y >= 0.0 && y < f64::from(from.size.height);
    inside.then(|| &from.bytes[y as usize * from.stride + x as usize * BYTES..][..BYTES])
}

pub(super) fn nearest_perspective<const BYTES: usize>(
    from: ImageRef<'_>,
    map: &[f64; 8],
    y: u32,
    fill: [u8; BYTES],
    row: &mut [u8],
) {
    for (x, pixel) in row.chunks_exact_mut(BYTES).enumerate() {
        pixel.copy_from_slice(nearest::<BYTES>(from, perspective(map, x as u32, y)).unwrap_or(&fill));
    }
}

pub(super) fn nearest_places<const BYTES: usize>(
    from: ImageRef<'_>,
    map: &[f64; 6],
    y: u32,
    fill: [u8; BYTES],
    row: &mut [u8],
) {
    for (x, pixel) in row.chunks_exact_mut(BYTES).enumerate() {
        pixel.copy_from_slice(nearest::<BYTES>(from, affine(map, x as u32, y)).unwrap_or(&fill));
    }
}

/// For maps that only move, by whole pixels.
pub(super) fn nearest_moved<const BYTES: usize>(
    (dx, dy): (i64, i64),
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
    fill: [u8; BYTES],
) {
    let width = i64::from(to.size.width);
    let first = (-dx).clamp(0, width);
    let last = (i64::from(from.size.width) - dx).clamp(first, width);
    let bytes = |pixels: i64| pixels as usize * BYTES;
    for y in 0..to.size.height {
        let row = to.row_mut(y);
        let Some(line) = u32::try_from(i64::from(y) + dy).ok().filter(|line| *line < from.size.height) else {
            row.as_chunks_mut::<BYTES>().0.fill(fill);
            continue;
        };
        row[..bytes(first)].as_chunks_mut::<BYTES>().0.fill(fill);
        if first < last {
            row[bytes(first)..bytes(last)]
                .copy_from_slice(&from.row(line)[bytes(first + dx)..bytes(last + dx)]);
        }
        row[bytes(last)..].as_chunks_mut::<BYTES>().0.fill(fill);
    }
}

/// For maps that only move and scale: places are summed step by step, as in Pillow.
pub(super) fn nearest_scaled<const BYTES: usize>(
    map: &[f64; 6],
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
    fill: [u8; BYTES],
) {
    let mut y = map[5] + map[4] * 0.5;
    for row in 0..to.size.height {
        let mut x = map[2] + map[0] * 0.5;
        for pixel in to.row_mut(row).chunks_exact_mut(BYTES) {
            pixel.copy_from_slice(nearest::<BYTES>(from, (x, y)).unwrap_or(&fill));
            x += map[0];
        }
        y += map[4];
    }
}

/// A map in 16.16 fixed point: steps, and the starts of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) step: (i32, i32),
    down: (i32, i32),
    start: (i32, i32),
}

impl Fixed {
    pub(super) fn new(map: &[f64; 6]) -> Self {
        let fixed = |value: f64| (value * 65536.0 + 0.5).floor() as i32;
        let [a0, a1, _, a3, a4, _] = map.map(fixed);
        let x = fixed(map[2] + map[0] * 0.5 + map[1] * 0.5);
        let y = fixed(map[5] + map[3] * 0.5 + map[4] * 0.5);
        Fixed { step: (a0, a3), down: (a1, a4), start: (x, y) }
    }

    /// The start of row `y`.
    pub(super) fn row(&self, y: u32) -> (i32, i32) {
        let along = |start: i32, step: i32| start.wrapping_add(step.wrapping_mul(y as i32));
        (along(self.start.0, self.down.0), along(self.start.1, self.down.1))
    }
}

/// 16.16 fixed point; all corners fit.
pub(super) fn nearest_fixed<const BYTES: usize>(
    fixed: &Fixed,
    from: ImageRef<'_>,
    (mut x, mut y): (i32, i32),
    fill: [u8; BYTES],
    row: &mut [u8],
) {
    let (width, height) = (from.size.width as i32, from.size.height as i32);
    for pixel in row.chunks_exact_mut(BYTES) {
        let (column, line) = (x >> 16, y >> 16);
        let inside = (0..width).contains(&column) && (0..height).contains(&line);
        let at = line.max(0) as usize * from.stride + column.max(0) as usize * BYTES;
        pixel.copy_from_slice(if inside { &from.bytes[at..at + BYTES] } else { &fill });
        x = x.wrapping_add(fixed.step.0);
        y = y.wrapping_add(fixed.step.1);
    }
}
