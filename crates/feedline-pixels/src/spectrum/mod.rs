//! Power-law noise: a random field whose power falls with frequency as 1/f^alpha. Natural images have alpha near 2.

mod scalar;

use crate::noise::{bits, normal};
use crate::{Error, Result, Size, fit};

/// Longest side of a field: the memory of its transform is proportional to it.
const LONGEST: u32 = 1 << 13;

/// Scratch memory for fields.
#[derive(Debug, Default)]
pub(crate) struct Spectrum {
    real: Vec<f32>,
    imaginary: Vec<f32>,
    column: Vec<(f32, f32)>,
}

impl Spectrum {
    /// Computes a field of this size, scaled to 0 to 1, into `field`.
    pub(crate) fn field(&mut self, size: Size, alpha: f32, seed: u64, field: &mut Vec<f32>) -> Result<()> {
        let side = size.width.max(size.height);
        if side > LONGEST {
            return Err(Error::Misuse(format!("power-law noise of {side} pixels; {LONGEST} at most")));
        }
        let (width, height) =
            (size.width.next_power_of_two() as usize, size.height.next_power_of_two() as usize);
        fit(&mut self.real, width * height, 0.0)?;
        fit(&mut self.imaginary, width * height, 0.0)?;
        fit(&mut self.column, width.max(height), (0.0, 0.0))?;
        self.draw(width, height, alpha, seed);
        scalar::transform(&mut self.real, &mut self.imaginary, width, height, &mut self.column);
        fit(field, size.area() as usize, 0.0)?;
        let rows = self.real.chunks_exact(width).take(size.height as usize);
        for (row, out) in rows.zip(field.chunks_exact_mut(size.width as usize)) {
            out.copy_from_slice(&row[..size.width as usize]);
        }
        stretch(field);
        Ok(())
    }

    /// Draws white noise and attenuates it with frequency.
    fn draw(&mut self, width: usize, height: usize, alpha: f32, seed: u64) {
        let frequency = |at: usize, count: usize| at.min(count - at) as f32 / count as f32;
        for y in 0..height {
            let fy = frequency(y, height);
            for x in 0..width {
                let fx = frequency(x, width);
                let squared = fx * fx + fy * fy;
                let strength = if squared > 0.0 { squared.powf(-alpha / 4.0) } else { 0.0 };
                let random = bits(seed, (y * width + x) as u64);
                self.real[y * width + x] = strength * normal(random as u32);
                self.imaginary[y * width + x] = strength * normal((random >> 32) as u32);
            }
        }
    }
}

fn stretch(field: &mut [f32]) {
    let (low, high) =
        field.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)));
    let scale = if high > low { 1.0 / (high - low) } else { 0.0 };
    for value in field {
        *value = (*value - low) * scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(alpha: f32) -> Vec<f32> {
        let mut field = Vec::new();
        Spectrum::default().field(Size::new(60, 50), alpha, 3, &mut field).unwrap();
        field
    }

    #[test]
    fn larger_exponents_give_smoother_noise() {
        let rough = |field: &[f32]| {
            let steps = field.windows(2).map(|pair| (pair[1] - pair[0]).abs());
            steps.sum::<f32>() / field.len() as f32
        };
        let (white, brown, flat) = (made(0.0), made(2.0), made(4.0));
        let roughness = [&white, &brown, &flat].map(|field| rough(field));
        assert!(roughness[0] > 1.5 * roughness[1] && roughness[1] > 1.5 * roughness[2], "{roughness:?}");
        assert!(white.iter().all(|value| (0.0..=1.0).contains(value)));
    }
}
