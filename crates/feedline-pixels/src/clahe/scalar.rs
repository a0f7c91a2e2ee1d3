//! The reference.

use super::Grid;
use crate::filter2d::mirrored;

pub(super) fn tables(grid: Grid, clip_limit: f32, lab: &[[f32; 3]], tables: &mut [[u8; 256]]) {
    let area = grid.tile.area() as u32;
    let limit = if clip_limit > 0.0 { ((clip_limit * area as f32 / 256.0) as u32).max(1) } else { 0 };
    for (at, table) in tables.iter_mut().enumerate() {
        let (column, line) = (at as u32 % grid.tiles.0, at as u32 / grid.tiles.0);
        let mut counts = [0u32; 256];
        for y in line * grid.tile.height..(line + 1) * grid.tile.height {
            let row = mirrored(i64::from(y), grid.size.height) as usize * grid.size.width as usize;
            for x in column * grid.tile.width..(column + 1) * grid.tile.width {
                let place = row + mirrored(i64::from(x), grid.size.width) as usize;
                counts[lab[place][0].round() as u8 as usize] += 1;
            }
        }
        if limit > 0 {
            clip(&mut counts, limit);
        }
        let scale = 255.0 / area as f32;
        let mut sum = 0;
        for (level, count) in table.iter_mut().zip(counts) {
            sum += count;
            *level = (sum as f32 * scale).round_ties_even().clamp(0.0, 255.0) as u8;
        }
    }
}

/// Cuts counts over the limit and distributes the excess over all bins; the remainder goes to every n-th bin.
fn clip(counts: &mut [u32; 256], limit: u32) {
    let mut over = 0;
    for count in &mut *counts {
        over += count.saturating_sub(limit);
        *count = (*count).min(limit);
    }
    let (each, rest) = (over / 256, over % 256);
    for count in &mut *counts {
        *count += each;
    }
    if rest > 0 {
        let step = (256 / rest as usize).max(1);
        counts.iter_mut().step_by(step).take(rest as usize).for_each(|count| *count += 1);
    }
}

pub(super) fn blended(grid: Grid, tables: &[[u8; 256]], x: u32, y: u32, level: u8) -> u8 {
    let along = |at: u32, length: u32, count: u32| {
        let place = at as f32 / length as f32 - 0.5;
        let first = place.floor();
        let share = place - first;
        let clamp = |tile: f32| tile.clamp(0.0, count as f32 - 1.0) as u32;
        (clamp(first), clamp(first + 1.0), share)
    };
    let (left, right, dx) = along(x, grid.tile.width, grid.tiles.0);
    let (above, below, dy) = along(y, grid.tile.height, grid.tiles.1);
    let value =
        |column: u32, line: u32| f32::from(tables[(line * grid.tiles.0 + column) as usize][level as usize]);
    let upper = value(left, above) * (1.0 - dx) + value(right, above) * dx;
    let lower = value(left, below) * (1.0 - dx) + value(right, below) * dx;
    (upper * (1.0 - dy) + lower * dy).round_ties_even().clamp(0.0, 255.0) as u8
}
