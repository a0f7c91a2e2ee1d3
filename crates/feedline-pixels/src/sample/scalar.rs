//! The reference.

use super::Outside;
use crate::{ImageRef, Size};

/// A place along one axis, brought inside where edges or mirrors show.
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

fn fill(outside: Outside) -> [u8; 4] {
    match outside {
        Outside::Fill([red, green, blue]) => [red, green, blue, 255],
        _ => [0, 0, 0, 255],
    }
}

/// The pixel in this column and row; fill where there is none.
fn pixel(from: ImageRef<'_>, x: f64, y: f64, outside: Outside) -> [u8; 4] {
    let there = x >= 0.0 && y >= 0.0 && x < f64::from(from.size.width) && y < f64::from(from.size.height);
    if !there {
        return fill(outside);
    }
    let found = &from.row(y as u32)[x as usize * 4..][..3];
    [found[0], found[1], found[2], 255]
}

pub(super) fn nearest(from: ImageRef<'_>, (x, y): (f64, f64), outside: Outside) -> [u8; 4] {
    let x = inside(x - 0.5, from.size.width, outside).round_ties_even();
    let y = inside(y - 0.5, from.size.height, outside).round_ties_even();
    pixel(from, x, y, outside)
}

/// The column and row that a place shows; `None` outside.
pub(super) fn nearest_place(size: Size, (x, y): (f64, f64), outside: Outside) -> Option<(u32, u32)> {
    let x = inside(x - 0.5, size.width, outside).round_ties_even();
    let y = inside(y - 0.5, size.height, outside).round_ties_even();
    let there = x >= 0.0 && y >= 0.0 && x < f64::from(size.width) && y < f64::from(size.height);
    there.then_some((x as u32, y as u32))
}

pub(super) fn bilinear(from: ImageRef<'_>, (x, y): (f64, f64), outside: Outside) -> [u8; 4] {
    let x = inside(x - 0.5, from.size.width, outside);
    let y = inside(y - 0.5, from.size.height, outside);
    if !x.is_finite() || !y.is_finite() {
        return fill(outside);
    }
    let (left, top) = (x.floor(), y.floor());
    let (dx, dy) = ((x - left) as f32, (y - top) as f32);
    let corners = [
        (pixel(from, left, top, outside), (1.0 - dx) * (1.0 - dy)),
        (pixel(from, left + 1.0, top, outside), dx * (1.0 - dy)),
        (pixel(from, left, top + 1.0, outside), (1.0 - dx) * dy),
        (pixel(from, left + 1.0, top + 1.0, outside), dx * dy),
    ];
    let blended = |channel: usize| {
        let sum: f32 = corners.iter().map(|(pixel, weight)| f32::from(pixel[channel]) * weight).sum();
        sum.round_ties_even() as u8
    };
    [blended(0), blended(1), blended(2), 255]
}
