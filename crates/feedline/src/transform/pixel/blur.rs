//! `GaussianBlur`.

use feedline_pixels::{Gaussian, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Form, Op, check_range};
use crate::transform::params::{Params, Place, tidy};

/// Widest kernel: wider ones are mistakes, and would need memory in proportion.
const WIDEST: u32 = 2047;

fn default_sigma() -> (f64, f64) {
    (0.1, 2.0)
}

/// Gaussian blur with a random standard deviation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaussianBlur {
    /// Width and height of the kernel: odd.
    pub kernel_size: (u32, u32),
    /// Smallest and largest standard deviation, in pixels.
    #[serde(default = "default_sigma")]
    pub sigma: (f64, f64),
}

impl Op for GaussianBlur {
    fn check(&self) -> Result<(), String> {
        check_kernel(self.kernel_size)?;
        check_range("sigma", self.sigma, (1e-3, 1e6))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        before.size.map_or(Ok(()), |size| check_fits(self.kernel_size, size))?;
        Ok(before)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        check_fits(self.kernel_size, into.size())?;
        let sigma = tidy(place.draw().between(self.sigma.0, self.sigma.1));
        into.push(Blur { kernel_size: self.kernel_size, sigma });
        Ok(())
    }
}

fn check_kernel((width, height): (u32, u32)) -> Result<(), String> {
    let good = |side: u32| side % 2 == 1 && side <= WIDEST;
    if good(width) && good(height) {
        return Ok(());
    }
    Err(format!("kernel_size must be odd numbers up to {WIDEST}, not {width} x {height}"))
}

/// Edges are mirrored, so the kernel must not reach further than the image.
fn check_fits((width, height): (u32, u32), size: Size) -> Result<(), String> {
    if width / 2 < size.width && height / 2 < size.height {
        return Ok(());
    }
    Err(format!(
        "a kernel of {width}x{height} (width x height) is too wide for an image of {}x{}",
        size.width, size.height
    ))
}

/// Gaussian blur.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blur {
    kernel_size: (u32, u32),
    sigma: f64,
}

impl Act for Blur {
    fn check(&self, before: Size) -> Result<(), String> {
        check_kernel(self.kernel_size)?;
        check_range("sigma", (self.sigma, self.sigma), (1e-3, 1e6))?;
        check_fits(self.kernel_size, before)
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        fusion.whole(WholeOp::Blur(Gaussian::new(self.kernel_size, (self.sigma, self.sigma))));
    }
}
