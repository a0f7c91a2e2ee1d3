//! A weighted sum of images: single precision, truncated at the end.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::cpu::dispatch;
use crate::{CpuLevel, Result, fit};

/// The sum so far.
#[derive(Debug)]
pub struct Mixture {
    level: CpuLevel,
    sums: Vec<f32>,
}

impl Default for Mixture {
    fn default() -> Self {
        Mixture { level: CpuLevel::detect(), sums: Vec::new() }
    }
}

impl Mixture {
    /// Starts the sum with `weight` times these bytes.
    pub fn begin(&mut self, pixels: &[u8], weight: f32) -> Result<()> {
        fit(&mut self.sums, pixels.len(), 0.0)?;
        dispatch!(self.level, begin(&mut self.sums, pixels, weight));
        Ok(())
    }

    /// Adds `weight` times these bytes, which must have the same length.
    pub fn add(&mut self, pixels: &[u8], weight: f32) {
        assert_eq!(pixels.len(), self.sums.len(), "images of one size are mixed");
        dispatch!(self.level, add(&mut self.sums, pixels, weight));
    }

    /// Adds `weight` times these bytes and writes the sum in their place.
    pub fn finish(&self, pixels: &mut [u8], weight: f32) {
        assert_eq!(pixels.len(), self.sums.len(), "images of one size are mixed");
        dispatch!(self.level, finish(&self.sums, weight, pixels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_levels_agree_and_sums_are_truncated() {
        let image = |seed: u32| -> Vec<u8> {
            (0..301u32).map(|i| ((i + seed).wrapping_mul(2654435761) >> 21) as u8).collect()
        };
        let (one, two, three) = (image(0), image(1000), image(2000));
        for level in CpuLevel::available() {
            let mut mixture = Mixture { level, sums: Vec::new() };
            mixture.begin(&one, 0.31).unwrap();
            mixture.add(&two, 0.27);
            let mut found = three.clone();
            mixture.finish(&mut found, 0.42);
            for (at, value) in found.iter().enumerate() {
                let [a, b, c] = [one[at], two[at], three[at]].map(f32::from);
                assert_eq!(*value, (0.31 * a + 0.27 * b + 0.42 * c) as u8, "{level:?} {at}");
            }
        }
    }
}
