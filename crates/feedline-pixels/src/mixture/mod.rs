//! A weighted sum of images: single precision, truncated at the end.

mod scalar;

use crate::{Result, fit};

/// The sum so far.
#[derive(Debug, Default)]
pub struct Mixture {
    sums: Vec<f32>,
}

impl Mixture {
    /// Starts the sum with `weight` times these bytes.
    pub fn begin(&mut self, pixels: &[u8], weight: f32) -> Result<()> {
        fit(&mut self.sums, pixels.len(), 0.0)?;
        self.sums.fill(0.0);
        self.add(pixels, weight);
        Ok(())
    }

    /// Adds `weight` times these bytes, which must have the same length.
    pub fn add(&mut self, pixels: &[u8], weight: f32) {
        assert_eq!(pixels.len(), self.sums.len(), "images of one size are mixed");
        scalar::add(&mut self.sums, pixels, weight);
    }

    /// Writes the sum as bytes.
    pub fn finish(&self, pixels: &mut [u8]) {
        scalar::finish(&self.sums, pixels);
    }
}
