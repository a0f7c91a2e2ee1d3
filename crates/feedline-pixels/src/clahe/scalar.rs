//! The reference.

use super::lab::Lab;
use super::{Between, Grid};
use crate::filter2d::mirrored;

/// A row of pixels of `bytes` bytes as lightness and colours.
pub(super) fn split(pixels: &[u8], bytes: usize, lightness: &mut [u8], colours: &mut [[u8; 2]]) {
    let lab = Lab::get();
    for ((pixel, level), colour) in pixels.chunks_exact(bytes).zip(lightness).zip(colours) {
        let [lightness, a, b] = lab.of_rgb([pixel[0], pixel[1], pixel[2]]);
        *level = lightness;
        *colour = [a, b];
    }
}

/// The opposite.
pub(super) fn join(lightness: &[u8], colours: &[[u8; 2]], bytes: usize, pixels: &mut [u8]) {
    let lab = Lab::get();
    for ((pixel, level), [a, b]) in pixels.chunks_exact_mut(bytes).zip(lightness).zip(colours) {
        pixel[..3].copy_from_slice(&lab.to_rgb([*level, *a, *b]));
    }
}

pub(super) fn tables(grid: Grid, clip_limit: f32, lightness: &[u8], tables: &mut [[u8; 256]]) {
    let area = grid.tile.area() as u32;
    let limit = if clip_limit > 0.0 { ((clip_limit * area as f32 / 256.0) as u32).max(1) } else { 0 };
    for (at, table) in tables.iter_mut().enumerate() {
        let mut counts = counted(grid, (at as u32 % grid.tiles.0, at as u32 / grid.tiles.0), lightness);
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

/// How often each lightness occurs in a tile.
fn counted(grid: Grid, (column, line): (u32, u32), lightness: &[u8]) -> [u32; 256] {
    let Grid { size, tile, .. } = grid;
    let (left, right) = (column * tile.width, (column + 1) * tile.width);
    let inner = left.min(size.width) as usize..right.min(size.width) as usize;
    let mut counts = [0u32; 256];
    for y in line * tile.height..(line + 1) * tile.height {
        let row = mirrored(i64::from(y), size.height) as usize * size.width as usize;
        let row = &lightness[row..row + size.width as usize];
        for level in &row[inner.clone()] {
            counts[*level as usize] += 1;
        }
        for x in left.max(size.width)..right {
            counts[row[mirrored(i64::from(x), size.width) as usize] as usize] += 1;
        }
    }
    counts
}

/// Cuts what is over the limit and spreads it over all bins; the rest goes to every so manieth.
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

/// A row of lightness through the tables of the tiles above and below.
pub(super) fn blend([above, below]: [&[[u8; 256]]; 2], down: f32, columns: &[Between], lightness: &mut [u8]) {
    for (level, Between { first, second, share }) in lightness.iter_mut().zip(columns) {
        let value = |tables: &[[u8; 256]], tile: u32| f32::from(tables[tile as usize][*level as usize]);
        let upper = value(above, *first) * (1.0 - share) + value(above, *second) * share;
        let lower = value(below, *first) * (1.0 - share) + value(below, *second) * share;
        *level = rounded(upper * (1.0 - down) + lower * down);
    }
}

/// To the nearest, ties to even: adding 1.5 · 2^23 leaves no bits for a fraction.
fn rounded(value: f32) -> u8 {
    (value + 12_582_912.0).to_bits() as u8
}
