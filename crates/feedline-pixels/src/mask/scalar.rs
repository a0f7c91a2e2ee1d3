//! The reference.

use super::Scene;
use crate::effect::Overlay;
use crate::{ImageMut, ImageRef, Region};

pub(super) fn cover(region: Region, [red, green, blue]: [u8; 3], image: &mut ImageMut<'_>) {
    let (right, bottom) = (
        region.x.saturating_add(region.width).min(image.size.width),
        region.y.saturating_add(region.height).min(image.size.height),
    );
    for y in region.y..bottom {
        let row = image.row_mut(y);
        if region.x < right {
            let row = &mut row[region.x as usize * 4..right as usize * 4];
            row.chunks_exact_mut(4).for_each(|pixel| pixel.copy_from_slice(&[red, green, blue, 255]));
        }
    }
}

/// Writes a field from 0 to 1 as one channel.
pub(super) fn write_channel(field: &[f32], channel: usize, mean: f32, spread: f32, to: &mut ImageMut<'_>) {
    let width = to.size.width as usize;
    for (y, row) in field.chunks_exact(width).enumerate() {
        for (pixel, value) in to.row_mut(y as u32).chunks_exact_mut(4).zip(row) {
            pixel[channel] = (mean + (value * 2.0 - 1.0) * spread).round().clamp(0.0, 255.0) as u8;
            pixel[3] = 255;
        }
    }
}

pub(super) fn paste(scene: &Scene, from: ImageRef<'_>, to: &mut ImageMut<'_>) {
    let (left, top) = (i64::from(scene.corner.0), i64::from(scene.corner.1));
    let (width, height) = (i64::from(from.size.width), i64::from(from.size.height));
    let (middle_x, middle_y) = (width as f32 / 2.0, height as f32 / 2.0);
    let rows = top.max(0)..(top + height).min(i64::from(to.size.height));
    let columns = left.max(0)..(left + width).min(i64::from(to.size.width));
    for y in rows {
        let source = from.row((y - top) as u32);
        let out = to.row_mut(y as u32);
        let dy = (y - top) as f32 + 0.5 - middle_y;
        for x in columns.clone() {
            let dx = (x - left) as f32 + 0.5 - middle_x;
            let share = scene.fade.share((dx * dx + dy * dy).sqrt()) * scene.opacity;
            let image = &source[(x - left) as usize * 4..][..3];
            for (behind, front) in out[x as usize * 4..][..3].iter_mut().zip(image) {
                let (low, high) = (f32::from(*behind), f32::from(*front));
                *behind = (low + (high - low) * share).round().clamp(0.0, 255.0) as u8;
            }
        }
    }
}

/// Truncates, as NumPy's conversion to bytes does.
pub(super) fn overlay(overlay: &Overlay, image: &mut ImageMut<'_>) {
    let width = image.size.width as usize;
    let (low, high) = (f32::from(overlay.clamp.0), f32::from(overlay.clamp.1));
    for y in 0..image.size.height as usize {
        for (x, pixel) in image.row_mut(y as u32).chunks_exact_mut(4).enumerate() {
            let at = y * width + x;
            let share = overlay.shares[at];
            for (value, over) in pixel.iter_mut().zip(&overlay.pixels[at * 3..at * 3 + 3]) {
                let mixed = f32::from(*value) * (1.0 - share) + over * share;
                *value = mixed.max(low).min(high) as u8;
            }
        }
    }
}
