//! Noise as a function of a seed and a place: no state, so any part can be computed alone, with the same result
//! everywhere.

mod scalar;

pub(crate) use scalar::{bits, normal, unit};

use crate::ImageMut;

/// Noise that is added to every value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianNoise {
    /// Seed of the noise.
    pub seed: u64,
    /// Mean, in levels.
    pub mean: f32,
    /// Standard deviation, in levels.
    pub sigma: f32,
    /// Whether values are clamped to 0..=255; otherwise they wrap around.
    pub clip: bool,
}

/// Pixels that become black or white.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaltAndPepper {
    /// Seed that selects the pixels.
    pub seed: u64,
    /// Share of pixels that are changed.
    pub amount: f32,
    /// Share of the changed pixels that become white.
    pub salt: f32,
}

pub(crate) fn add_gaussian(noise: &GaussianNoise, image: &mut ImageMut<'_>) {
    for y in 0..image.size.height {
        let first = u64::from(y) * u64::from(image.size.width) * 2;
        scalar::add_gaussian(noise, first, image.row_mut(y));
    }
}

pub(crate) fn salt_and_pepper(noise: &SaltAndPepper, image: &mut ImageMut<'_>) {
    for y in 0..image.size.height {
        let first = u64::from(y) * u64::from(image.size.width);
        scalar::salt_and_pepper(noise, first, image.row_mut(y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_noise_has_the_right_moments() {
        let values: Vec<f64> = (0..200_000).map(|n| f64::from(normal(bits(7, n) as u32))).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let moment = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / count;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((moment(2) - 1.0).abs() < 0.01 && moment(3).abs() < 0.03, "{} {}", moment(2), moment(3));
        assert!((moment(4) - 3.0).abs() < 0.08, "{}", moment(4));
    }
}
