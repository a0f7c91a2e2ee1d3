//! Warps that use sixteen pixels, with Pillow's arithmetic: double precision, clamped, truncated.

use super::Map;
use crate::{ImageMut, ImageRef};

pub(super) fn warp(map: &Map, from: ImageRef<'_>, to: &mut ImageMut<'_>, fill: [u8; 4]) {
    for y in 0..to.size.height {
        for (x, pixel) in to.row_mut(y).chunks_exact_mut(4).enumerate() {
            pixel.copy_from_slice(&found(from, place(map, x as u32, y)).unwrap_or(fill));
        }
    }
}

fn place(map: &Map, x: u32, y: u32) -> (f64, f64) {
    let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
    match *map {
        Map::Affine([a, b, c, d, e, f]) => (a * x + b * y + c, d * x + e * y + f),
        Map::Perspective([a, b, c, d, e, f, g, h]) => {
            let divisor = g * x + h * y + 1.0;
            ((a * x + b * y + c) / divisor, (d * x + e * y + f) / divisor)
        }
    }
}

/// The curve through four values, at `share` between the middle two.
fn cubic([a, b, c, d]: [f64; 4], share: f64) -> f64 {
    let (p2, p3, p4) = (-a + c, 2.0 * (a - b) + c - d, -a + b - c + d);
    b + share * (p2 + share * (p3 + share * p4))
}

/// The pixel at a place; `None` outside.
fn found(from: ImageRef<'_>, (x, y): (f64, f64)) -> Option<[u8; 4]> {
    let (width, height) = (from.size.width, from.size.height);
    // Written so that NaN is outside.
    let inside = x >= 0.0 && x < f64::from(width) && y >= 0.0 && y < f64::from(height);
    if !inside {
        return None;
    }
    let (x, y) = (x - 0.5, y - 0.5);
    let (left, top) = (x.floor() as i64 - 1, y.floor() as i64 - 1);
    let (dx, dy) = (x - x.floor(), y - y.floor());
    let columns: [usize; 4] =
        std::array::from_fn(|i| (left + i as i64).clamp(0, i64::from(width) - 1) as usize * 4);
    let mut pixel = [0, 0, 0, 255];
    for (channel, value) in pixel.iter_mut().take(3).enumerate() {
        let line = |row: i64| {
            let row = from.row(row as u32);
            cubic(columns.map(|column| f64::from(row[column + channel])), dx)
        };
        let mut lines = [line(top.clamp(0, i64::from(height) - 1)); 4];
        // Rows outside repeat the one before, as in Pillow.
        for at in 1..4 {
            let row = top + at as i64;
            lines[at] = if (0..i64::from(height)).contains(&row) { line(row) } else { lines[at - 1] };
        }
        *value = cubic(lines, dy).clamp(0.0, 255.0) as u8;
    }
    Some(pixel)
}
