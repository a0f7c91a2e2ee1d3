//! The reference.

use crate::filter2d::mirrored;
use crate::{ImageRef, Size};

/// Linear sRGB to the responses of the three cones, each 1 for white.
const CONES: [[f32; 3]; 3] =
    [[0.31399, 0.63951, 0.0465], [0.15537, 0.75789, 0.08674], [0.01775, 0.10944, 0.87281]];

pub(super) fn cones(image: ImageRef<'_>, planes: &mut [Vec<f32>; 3]) {
    let linear: [f32; 256] = std::array::from_fn(|level| {
        let value = level as f32 / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    let width = image.size.width as usize;
    for y in 0..image.size.height {
        for (x, pixel) in image.row(y).chunks_exact(4).enumerate() {
            let colour = [pixel[0], pixel[1], pixel[2]].map(|level| linear[level as usize]);
            for (plane, row) in planes.iter_mut().zip(CONES) {
                plane[y as usize * width + x] = row.iter().zip(colour).map(|(weight, c)| weight * c).sum();
            }
        }
    }
}

/// A Gaussian in both directions, edges mirrored.
pub(super) fn smooth(plane: &mut [f32], size: Size, sigma: f32, line: &mut [f32]) {
    let radius = (3.0 * sigma).ceil() as u32;
    let one = |distance: u32| (-0.5 * (distance as f32 / sigma.max(1e-3)).powi(2)).exp();
    let sum = one(0) + 2.0 * (1..=radius).map(one).sum::<f32>();
    let weights: Vec<f32> = (0..=radius).map(|distance| one(distance) / sum).collect();
    let (width, height) = (size.width as usize, size.height as usize);
    for y in 0..height {
        pass(plane, &weights, y * width, width, 1, line);
    }
    for x in 0..width {
        pass(plane, &weights, x, height, width, line);
    }
}

fn pass(plane: &mut [f32], weights: &[f32], start: usize, count: usize, step: usize, line: &mut [f32]) {
    let value = |plane: &[f32], at: i64| plane[start + mirrored(at, count as u32) as usize * step];
    for (at, out) in line[..count].iter_mut().enumerate() {
        let at = at as i64;
        let pairs = weights.iter().zip(0..).skip(1);
        let sides: f32 =
            pairs.map(|(weight, d)| weight * (value(plane, at - d) + value(plane, at + d))).sum();
        *out = weights[0] * value(plane, at) + sides;
    }
    for (at, value) in line[..count].iter().enumerate() {
        plane[start + at * step] = *value;
    }
}

pub(super) fn finish(plane: &mut [f32], rectify: bool, mean: f32, std: f32) {
    for value in plane {
        let shown = if rectify { value.max(0.0) } else { *value };
        *value = (shown - mean) / std;
    }
}
