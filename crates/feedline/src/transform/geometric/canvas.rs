//! `RandomZoomOut`, `RandomTranslate`: the image at a random place on a canvas.

use feedline_pixels::Window;
use serde::{Deserialize, Serialize};

use super::crop::Crop;
use super::pad::check_padding;
use crate::transform::op::{Form, Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};

/// Puts the image on a larger canvas at a random place, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomZoomOut {
    /// Colour of the canvas.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Smallest and largest side of the canvas, in sides of the image.
    #[serde(default = "default_range")]
    pub side_range: (f64, f64),
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_range() -> (f64, f64) {
    (1.0, 4.0)
}

impl Op for RandomZoomOut {
    fn check(&self) -> Result<(), String> {
        check_range("side_range", self.side_range, (1.0, 1e3))?;
        check_p(self.p)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(Form { size: before.size.filter(|_| self.p == 0.0), ..before })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if !draw.chance(self.p) {
            return Ok(());
        }
        let (size, factor) = (into.size(), draw.between(self.side_range.0, self.side_range.1));
        let side = |side: u32| (f64::from(side) * factor) as u32;
        let (width, height) = (side(size.width), side(size.height));
        let left = (f64::from(width - size.width) * draw.unit()) as i32;
        let top = (f64::from(height - size.height) * draw.unit()) as i32;
        into.push(Crop::window(Window::new(-left, -top, width, height), self.fill));
        Ok(())
    }
}

/// Moves by up to `padding` pixels in each direction: FFCV's crop of the same size from a padded image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomTranslate {
    /// Largest number of pixels to each side.
    pub padding: u32,
    /// Colour of the new pixels.
    #[serde(default)]
    pub fill: [u8; 3],
}

impl Op for RandomTranslate {
    fn check(&self) -> Result<(), String> {
        check_padding((self.padding, self.padding, self.padding, self.padding))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        let mut by = || draw.below(2 * u64::from(self.padding) + 1) as i32 - self.padding as i32;
        let (y, x) = (by(), by());
        into.push(Crop::window(Window::new(x, y, size.width, size.height), self.fill));
        Ok(())
    }
}
