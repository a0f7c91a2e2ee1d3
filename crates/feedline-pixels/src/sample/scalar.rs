//! The reference; inlined into `avx2`.

use super::{Field, Outside, Sample, place_in_row};
#[cfg(target_arch = "x86_64")]
use super::{Places, bent};
#[cfg(target_arch = "x86_64")]
use crate::warp::Map;
use crate::{ImageRef, Size, WarpFilter};

/// One row of the result.
#[inline(always)]
pub(super) fn row(sample: &Sample, field: &Field, from: ImageRef<'_>, y: u32, row: &mut [u8]) {
    let offsets = field.row(y);
    for (x, pixel) in row.chunks_exact_mut(4).enumerate() {
        let place = place_in_row(sample, offsets, x as u32, y);
        let found = match sample.filter {
            WarpFilter::Nearest => nearest(from, place, sample.outside),
            _ => bilinear(from, place, sample.outside),
        };
        pixel.copy_from_slice(&found);
    }
}

/// The places of a run of pixels that begins at column `first`: those of `place_in_row`, in loops that the compiler makes
/// vectors of.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn places(
    sample: &Sample,
    offsets: [&[f32]; 2],
    first: u32,
    y: u32,
    places: (&mut [f64], &mut [f64]),
) {
    let my = f64::from(y) + 0.5;
    match sample.places {
        Places::Map(Map::Affine([a, b, c, d, e, f])) => {
            each(first, places, |mx| (a * mx + b * my + c, d * mx + e * my + f));
        }
        Places::Map(map) => each(first, places, |mx| map.at((mx, my))),
        Places::Lens { distortion, shift } => {
            each(first, places, |mx| bent(sample.output, distortion, shift, (mx, my)));
        }
        Places::Elastic { .. } => {
            each(first, (&mut *places.0, &mut *places.1), |mx| (mx, my));
            let [dx, dy] = offsets.map(|row| &row[first as usize..]);
            places.0.iter_mut().zip(dx).for_each(|(place, offset)| *place += f64::from(*offset));
            places.1.iter_mut().zip(dy).for_each(|(place, offset)| *place += f64::from(*offset));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn each(first: u32, (across, down): (&mut [f64], &mut [f64]), find: impl Fn(f64) -> (f64, f64)) {
    for (column, (across, down)) in (first as i32..).zip(across.iter_mut().zip(down)) {
        (*across, *down) = find(f64::from(column) + 0.5);
    }
}

/// `out = values · weight`.
#[inline(always)]
pub(super) fn scaled(values: &[f32], weight: f32, out: &mut [f32]) {
    for (sum, value) in out.iter_mut().zip(values) {
        *sum = weight * value;
    }
}

/// `out += (one + other) · weight`.
#[inline(always)]
pub(super) fn add_pair(one: &[f32], other: &[f32], weight: f32, out: &mut [f32]) {
    for ((sum, one), other) in out.iter_mut().zip(one).zip(other) {
        *sum += weight * (one + other);
    }
}

/// A place along one axis, moved inside if edges or mirrors are used.
#[inline(always)]
fn inside(at: f64, length: u32, outside: Outside) -> f64 {
    let length = f64::from(length);
    match outside {
        Outside::Fill(_) => at,
        Outside::Edge => at.clamp(0.0, length - 1.0),
        Outside::Reflect => {
            let folded = (at + 0.5).rem_euclid(2.0 * length);
            (folded.min(2.0 * length - folded) - 0.5).clamp(0.0, length - 1.0)
        }
    }
}

#[inline(always)]
fn fill(outside: Outside) -> [u8; 4] {
    match outside {
        Outside::Fill([red, green, blue]) => [red, green, blue, 255],
        _ => [0, 0, 0, 255],
    }
}

/// The pixel in this column and row; fill if there is none.
fn pixel(from: ImageRef<'_>, x: f64, y: f64, outside: Outside) -> [u8; 4] {
    let there = x >= 0.0 && y >= 0.0 && x < f64::from(from.size.width) && y < f64::from(from.size.height);
    if !there {
        return fill(outside);
    }
    let found = &from.row(y as u32)[x as usize * 4..][..3];
    [found[0], found[1], found[2], 255]
}

#[inline(always)]
fn nearest(from: ImageRef<'_>, (x, y): (f64, f64), outside: Outside) -> [u8; 4] {
    let x = inside(x - 0.5, from.size.width, outside).round_ties_even();
    let y = inside(y - 0.5, from.size.height, outside).round_ties_even();
    pixel(from, x, y, outside)
}

/// The column and row at a place; `None` outside.
pub(super) fn nearest_place(size: Size, (x, y): (f64, f64), outside: Outside) -> Option<(u32, u32)> {
    let x = inside(x - 0.5, size.width, outside).round_ties_even();
    let y = inside(y - 0.5, size.height, outside).round_ties_even();
    let there = x >= 0.0 && y >= 0.0 && x < f64::from(size.width) && y < f64::from(size.height);
    there.then_some((x as u32, y as u32))
}

#[inline(always)]
pub(super) fn bilinear(from: ImageRef<'_>, (x, y): (f64, f64), outside: Outside) -> [u8; 4] {
    let x = inside(x - 0.5, from.size.width, outside);
    let y = inside(y - 0.5, from.size.height, outside);
    if !x.is_finite() || !y.is_finite() {
        return fill(outside);
    }
    let (left, top) = (x.floor(), y.floor());
    let (dx, dy) = ((x - left) as f32, (y - top) as f32);
    let (width, height) = (f64::from(from.size.width), f64::from(from.size.height));
    if left >= 0.0 && top >= 0.0 && left + 1.0 < width && top + 1.0 < height {
        return between(from, (left as usize, top as u32), (dx, dy));
    }
    let corners = [
        (pixel(from, left, top, outside), (1.0 - dx) * (1.0 - dy)),
        (pixel(from, left + 1.0, top, outside), dx * (1.0 - dy)),
        (pixel(from, left, top + 1.0, outside), (1.0 - dx) * dy),
        (pixel(from, left + 1.0, top + 1.0, outside), dx * dy),
    ];
    // As in `between`.
    let blended = |channel: usize| {
        let sum: f32 = corners.iter().map(|(pixel, weight)| f32::from(pixel[channel]) * weight).sum();
        sum.round_ties_even() as u8
    };
    [blended(0), blended(1), blended(2), 255]
}

/// The blend of four existing pixels, with the sums of `bilinear`.
#[inline(always)]
fn between(from: ImageRef<'_>, (left, top): (usize, u32), (dx, dy): (f32, f32)) -> [u8; 4] {
    let weights = [(1.0 - dx) * (1.0 - dy), dx * (1.0 - dy), (1.0 - dx) * dy, dx * dy];
    let pair = |row: &[u8]| -> [[u8; 4]; 2] {
        let eight = &row[left * 4..][..8];
        [[eight[0], eight[1], eight[2], eight[3]], [eight[4], eight[5], eight[6], eight[7]]]
    };
    let ([a, b], [c, d]) = (pair(from.row(top)), pair(from.row(top + 1)));
    let mut sums = [0.0f32; 4];
    for (pixel, weight) in [a, b, c, d].into_iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(pixel) {
            *sum += f32::from(value) * weight;
        }
    }
    let [red, green, blue, _] = sums.map(|sum| sum.round_ties_even() as u8);
    [red, green, blue, 255]
}
