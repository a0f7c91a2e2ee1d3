//! Pillow's Gaussian blur: three box blurs whose width need not be a whole number, along rows and then along columns,
//! rounded to bytes after each. Self-supervised recipes written for PIL images used this one.

mod scalar;

use crate::{ImageMut, ImageRef, Result, fit};

/// Box blurs that Pillow makes a Gaussian of.
const PASSES: u8 = 3;

/// Lines that a blur needs, kept for the next.
#[derive(Debug, Default)]
pub(crate) struct BoxLines {
    line: Vec<u8>,
    next: Vec<u8>,
}

/// Writes `from`, blurred with standard deviation `radius`, to `to`.
pub(crate) fn blur(
    lines: &mut BoxLines,
    radius: f32,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    for y in 0..from.size.height {
        to.row_mut(y).copy_from_slice(from.row(y));
    }
    let Some(weights) = scalar::Weights::new(box_radius(radius)) else { return Ok(()) };
    let (width, height) = (from.size.width as usize, from.size.height as usize);
    let BoxLines { line, next } = lines;
    fit(line, width.max(height) * 4, 0)?;
    fit(next, width.max(height) * 4, 0)?;
    for y in 0..height as u32 {
        let row = to.row_mut(y);
        line[..row.len()].copy_from_slice(row);
        thrice(&weights, line, next, width);
        row.copy_from_slice(&line[..width * 4]);
    }
    let stride = to.stride;
    for x in 0..width {
        for y in 0..height {
            line[y * 4..y * 4 + 4].copy_from_slice(&to.bytes[y * stride + x * 4..][..4]);
        }
        thrice(&weights, line, next, height);
        for y in 0..height {
            to.bytes[y * stride + x * 4..][..4].copy_from_slice(&line[y * 4..y * 4 + 4]);
        }
    }
    Ok(())
}

fn thrice(weights: &scalar::Weights, line: &mut Vec<u8>, next: &mut Vec<u8>, count: usize) {
    for _ in 0..PASSES {
        scalar::blur_line(weights, &line[..count * 4], &mut next[..count * 4]);
        std::mem::swap(line, next);
    }
}

/// The radius of a box blur that, done three times, spreads as a Gaussian does. Single precision where Pillow has it.
fn box_radius(radius: f32) -> f32 {
    let variance = radius * radius / f32::from(PASSES);
    let length = (12.0 * f64::from(variance) + 1.0).sqrt() as f32;
    let whole = ((f64::from(length) - 1.0) / 2.0).floor() as f32;
    let above = (2.0 * whole + 1.0) * (whole * (whole + 1.0) - 3.0 * variance);
    whole + above / (6.0 * (variance - (whole + 1.0) * (whole + 1.0)))
}
