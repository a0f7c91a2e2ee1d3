//! Smoothed random offsets for every pixel.

use super::{Places, Sample};
use crate::filter2d::mirrored;
use crate::noise::{bits, unit};
use crate::{Result, Size, fit};

/// Offsets along x and y; memory is kept for the next.
#[derive(Debug, Default)]
pub(crate) struct Field {
    x: Vec<f32>,
    y: Vec<f32>,
    line: Vec<f32>,
    width: usize,
}

impl Field {
    /// Makes the offsets that `sample` needs, if any.
    pub(crate) fn prepare(&mut self, sample: &Sample) -> Result<()> {
        match sample.places {
            Places::Elastic { alpha, sigma, seed } => self.make(sample.output, alpha, sigma, seed),
            _ => Ok(()),
        }
    }

    /// The offsets between pixels, blended; those of the edge outside.
    pub(super) fn between(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = (self.width as f64, (self.x.len() / self.width.max(1)) as f64);
        let (x, y) = (x.clamp(0.0, width - 1.0), y.clamp(0.0, height - 1.0));
        let (left, top) = (x.floor(), y.floor());
        let (right, below) = ((left + 1.0).min(width - 1.0), (top + 1.0).min(height - 1.0));
        let corners = [(left, top), (right, top), (left, below), (right, below)];
        let (dx, dy) = (x - left, y - top);
        let weights = [(1.0 - dx) * (1.0 - dy), dx * (1.0 - dy), (1.0 - dx) * dy, dx * dy];
        corners.iter().zip(weights).fold((0.0, 0.0), |sum, ((x, y), weight)| {
            let (a, b) = self.at(*x as u32, *y as u32);
            (sum.0 + weight * f64::from(a), sum.1 + weight * f64::from(b))
        })
    }

    pub(super) fn make(&mut self, size: Size, alpha: (f32, f32), sigma: (f32, f32), seed: u64) -> Result<()> {
        self.width = size.width as usize;
        let area = size.area() as usize;
        fit(&mut self.line, self.width.max(size.height as usize), 0.0)?;
        for (axis, field) in [&mut self.x, &mut self.y].into_iter().enumerate() {
            fit(field, area, 0.0)?;
            for (at, value) in field.iter_mut().enumerate() {
                let random = bits(seed, at as u64);
                *value = unit((random >> (32 * axis)) as u32) * 2.0 - 1.0;
            }
            // torchvision takes the kernel's size from this field's axis, and both deviations for its two directions.
            let own = if axis == 0 { sigma.0 } else { sigma.1 };
            if own > 0.0 {
                let radius = ((8.0 * own + 1.0) as u32 | 1) / 2;
                smooth(field, size, weights(sigma.0, radius), true, &mut self.line);
                smooth(field, size, weights(sigma.1, radius), false, &mut self.line);
            }
            let reach = if axis == 0 { alpha.0 } else { alpha.1 } / 2.0;
            for value in field.iter_mut() {
                *value *= reach;
            }
        }
        Ok(())
    }

    pub(super) fn at(&self, x: u32, y: u32) -> (f32, f32) {
        let at = y as usize * self.width + x as usize;
        (self.x[at], self.y[at])
    }
}

fn weights(sigma: f32, radius: u32) -> Vec<f32> {
    let one = |distance: u32| (-0.5 * (f64::from(distance) / f64::from(sigma).max(1e-3)).powi(2)).exp();
    let sum = one(0) + 2.0 * (1..=radius).map(one).sum::<f64>();
    (0..=radius).map(|distance| (one(distance) / sum) as f32).collect()
}

/// One direction of a Gaussian, edges mirrored.
fn smooth(field: &mut [f32], size: Size, weights: Vec<f32>, along_rows: bool, line: &mut [f32]) {
    let (width, height) = (size.width as usize, size.height as usize);
    let (lines, count, step) = if along_rows { (height, width, 1) } else { (width, height, width) };
    for number in 0..lines {
        let start = if along_rows { number * width } else { number };
        let value = |field: &[f32], at: i64| field[start + mirrored(at, count as u32) as usize * step];
        for (at, out) in line[..count].iter_mut().enumerate() {
            let mut sum = weights[0] * field[start + at * step];
            for (distance, weight) in weights.iter().enumerate().skip(1) {
                let distance = distance as i64;
                sum += weight * (value(field, at as i64 - distance) + value(field, at as i64 + distance));
            }
            *out = sum;
        }
        for (at, value) in line[..count].iter().enumerate() {
            field[start + at * step] = *value;
        }
    }
}
