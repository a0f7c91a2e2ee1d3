//! Smoothed random offsets for every pixel.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::{Places, Sample, scalar};
use crate::cpu::dispatch;
use crate::filter2d::mirrored;
use crate::noise::{bits, unit};
use crate::{CpuLevel, Result, Size, fit};

/// Offsets along x and y; memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Field {
    x: Vec<f32>,
    y: Vec<f32>,
    /// One row with mirrored margins.
    line: Vec<f32>,
    /// The field before it is smoothed along its columns.
    before: Vec<f32>,
    width: usize,
}

impl Field {
    /// Computes the offsets that `sample` needs, if any.
    pub(crate) fn prepare(&mut self, sample: &Sample) -> Result<()> {
        self.prepare_by(CpuLevel::detect(), sample)
    }

    /// The same, with the kernels of this level.
    pub(super) fn prepare_by(&mut self, level: CpuLevel, sample: &Sample) -> Result<()> {
        match sample.places {
            Places::Elastic { alpha, sigma, seed } => self.make(level, sample.output, alpha, sigma, seed),
            _ => Ok(()),
        }
    }

    /// The offsets between pixels, interpolated; outside, those of the edge.
    pub(super) fn between(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = (self.width as f64, (self.x.len() / self.width.max(1)) as f64);
        let (x, y) = (x.clamp(0.0, width - 1.0), y.clamp(0.0, height - 1.0));
        let (left, top) = (x.floor(), y.floor());
        let (right, below) = ((left + 1.0).min(width - 1.0), (top + 1.0).min(height - 1.0));
        let corners = [(left, top), (right, top), (left, below), (right, below)];
        let (dx, dy) = (x - left, y - top);
        let weights = [(1.0 - dx) * (1.0 - dy), dx * (1.0 - dy), (1.0 - dx) * dy, dx * dy];
        corners.iter().zip(weights).fold((0.0, 0.0), |sum, ((x, y), weight)| {
            let [a, b] = self.row(*y as u32).map(|row| row[*x as usize]);
            (sum.0 + weight * f64::from(a), sum.1 + weight * f64::from(b))
        })
    }

    pub(super) fn make(
        &mut self,
        level: CpuLevel,
        size: Size,
        alpha: (f32, f32),
        sigma: (f32, f32),
        seed: u64,
    ) -> Result<()> {
        self.width = size.width as usize;
        let area = size.area() as usize;
        let Field { x, y, line, before, .. } = self;
        for (axis, field) in [x, y].into_iter().enumerate() {
            fit(field, area, 0.0)?;
            for (at, value) in field.iter_mut().enumerate() {
                let random = bits(seed, at as u64);
                *value = unit((random >> (32 * axis)) as u32) * 2.0 - 1.0;
            }
            // torchvision takes the kernel's size from this field's axis, and both deviations for its two directions.
            let own = if axis == 0 { sigma.0 } else { sigma.1 };
            if own > 0.0 {
                let radius = ((8.0 * own + 1.0) as u32 | 1) / 2;
                smooth_rows(level, field, size, &weights(sigma.0, radius), line)?;
                smooth_columns(level, field, size, &weights(sigma.1, radius), before)?;
            }
            let reach = if axis == 0 { alpha.0 } else { alpha.1 } / 2.0;
            for value in field.iter_mut() {
                *value *= reach;
            }
        }
        Ok(())
    }

    /// The offsets of a row's pixels along x and along y.
    pub(super) fn row(&self, y: u32) -> [&[f32]; 2] {
        let at = y as usize * self.width;
        [&self.x, &self.y].map(|field| field.get(at..at + self.width).unwrap_or(&[]))
    }
}

/// The offsets of an elastic field of this size, along x and along y, in pixels.
pub fn elastic_offsets(
    size: Size,
    alpha: (f32, f32),
    sigma: (f32, f32),
    seed: u64,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let mut field = Field::default();
    field.make(CpuLevel::detect(), size, alpha, sigma, seed)?;
    Ok((field.x, field.y))
}

fn weights(sigma: f32, radius: u32) -> Vec<f32> {
    let one = |distance: u32| (-0.5 * (f64::from(distance) / f64::from(sigma).max(1e-3)).powi(2)).exp();
    let sum = one(0) + 2.0 * (1..=radius).map(one).sum::<f64>();
    (0..=radius).map(|distance| (one(distance) / sum) as f32).collect()
}

/// Smooths with a Gaussian along rows, edges mirrored.
fn smooth_rows(
    level: CpuLevel,
    field: &mut [f32],
    size: Size,
    weights: &[f32],
    line: &mut Vec<f32>,
) -> Result<()> {
    let (width, radius) = (size.width as usize, weights.len() - 1);
    fit(line, width + 2 * radius, 0.0)?;
    for row in field.chunks_exact_mut(width) {
        for (at, value) in line.iter_mut().enumerate() {
            *value = row[mirrored(at as i64 - radius as i64, size.width) as usize];
        }
        dispatch!(level, scaled(&line[radius..], weights[0], row));
        for (distance, weight) in weights.iter().enumerate().skip(1) {
            let (one, other) = (&line[radius - distance..], &line[radius + distance..]);
            dispatch!(level, add_pair(one, other, *weight, row));
        }
    }
    Ok(())
}

/// The same along columns.
fn smooth_columns(
    level: CpuLevel,
    field: &mut [f32],
    size: Size,
    weights: &[f32],
    before: &mut Vec<f32>,
) -> Result<()> {
    let width = size.width as usize;
    fit(before, field.len(), 0.0)?;
    before.copy_from_slice(field);
    let row = |at: i64| &before[mirrored(at, size.height) as usize * width..];
    for (y, out) in (0i64..).zip(field.chunks_exact_mut(width)) {
        dispatch!(level, scaled(row(y), weights[0], out));
        for (distance, weight) in (0i64..).zip(weights).skip(1) {
            dispatch!(level, add_pair(row(y - distance), row(y + distance), *weight, out));
        }
    }
    Ok(())
}
