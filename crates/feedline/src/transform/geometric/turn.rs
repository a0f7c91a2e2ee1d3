//! `RandomRotate`, `RandomZoom`, `RandomRotateObject`: rotations and zooms in units of the image, counter-clockwise,
//! with black, edge or mirror image outside. Pixels are blended as in torch's `grid_sample`.

use feedline_pixels::Size;
use serde::{Deserialize, Serialize};

use super::sampled::{PadMode, Sampled, SourcePixels};
use crate::transform::Interpolation;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place};

fn middle() -> (f64, f64) {
    (0.5, 0.5)
}

/// Rotates about `center` by `degrees` counter-clockwise, makes the image `zoom` times as large and moves the centre to
/// `goal`; all places are shares of width and height. The map goes from the result back to the image.
fn about(size: Size, degrees: f64, zoom: f64, center: (f64, f64), goal: (f64, f64)) -> Vec<f64> {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (cx, cy) = (center.0 * width, center.1 * height);
    let (gx, gy) = (goal.0 * width, goal.1 * height);
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (a, b, d, e) = (cos / zoom, -sin / zoom, sin / zoom, cos / zoom);
    vec![a, b, cx - a * gx - b * gy, d, e, cy - d * gx - e * gy]
}

fn push(into: &mut Params, coefficients: Vec<f64>, outside: PadMode) {
    let Size { width, height } = into.size();
    let (interpolation, fill) = (Interpolation::Bilinear, [0; 3]);
    into.push(Sampled {
        whence: SourcePixels::Map { coefficients },
        height,
        width,
        interpolation,
        outside,
        fill,
    });
}

/// Rotates by up to `max_deg`, or by one of `angles`, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotate {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Largest angle to either side.
    #[serde(default = "forty_five")]
    pub max_deg: f64,
    /// Centre of the rotation, as shares of width and height.
    #[serde(default = "middle")]
    pub center: (f64, f64),
    /// Angles to choose from instead.
    #[serde(default)]
    pub angles: Option<Vec<f64>>,
    /// Content outside the image.
    #[serde(default)]
    pub pad_mode: PadMode,
}

fn forty_five() -> f64 {
    45.0
}

fn check_places(name: &str, (x, y): (f64, f64)) -> Result<(), String> {
    check_range(name, (x, x), (-10.0, 10.0))?;
    check_range(name, (y, y), (-10.0, 10.0))
}

impl Op for RandomRotate {
    fn check(&self) -> Result<(), String> {
        check_range("max_deg", (self.max_deg, self.max_deg), (0.0, 1e6))?;
        check_places("center", self.center)?;
        if self.angles.as_ref().is_some_and(|all| all.is_empty() || all.iter().any(|a| !a.is_finite())) {
            return Err("angles must be a list of at least one finite number".to_owned());
        }
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let degrees = match &self.angles {
                Some(angles) => angles[draw.below(angles.len() as u64) as usize],
                None => draw.between(-self.max_deg, self.max_deg),
            };
            push(into, about(into.size(), degrees, 1.0, self.center, self.center), self.pad_mode);
        }
        Ok(())
    }
}

/// Zooms by a random factor, with probability `p`: below 1 the image shrinks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomZoom {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Smallest and largest factor.
    #[serde(default = "default_zoom")]
    pub zoom: (f64, f64),
    /// Centre of the zoom, as shares of width and height.
    #[serde(default = "middle")]
    pub center: (f64, f64),
    /// Content outside the image.
    #[serde(default)]
    pub pad_mode: PadMode,
}

fn default_zoom() -> (f64, f64) {
    (0.5, 1.0)
}

impl Op for RandomZoom {
    fn check(&self) -> Result<(), String> {
        check_range("zoom", self.zoom, (1e-3, 1e3))?;
        check_places("center", self.center)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let zoom = draw.between(self.zoom.0, self.zoom.1);
            push(into, about(into.size(), 0.0, zoom, self.center, self.center), self.pad_mode);
        }
        Ok(())
    }
}

/// Rotates about an object's centre, zooms, and moves that centre elsewhere, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotateObject {
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Largest angle to either side.
    #[serde(default = "forty_five")]
    pub max_deg: f64,
    /// The object's centre, as shares of width and height.
    #[serde(default = "middle")]
    pub center: (f64, f64),
    /// Smallest and largest zoom.
    #[serde(default = "default_scale")]
    pub scale: (f64, f64),
    /// New place of the centre: smallest and largest share of the width.
    #[serde(default = "default_goal")]
    pub dest_x: (f64, f64),
    /// The same for the height.
    #[serde(default = "default_goal")]
    pub dest_y: (f64, f64),
    /// Content outside the image.
    #[serde(default = "border")]
    pub pad_mode: PadMode,
}

fn default_scale() -> (f64, f64) {
    (1.0, 2.0)
}

fn default_goal() -> (f64, f64) {
    (0.25, 0.75)
}

fn border() -> PadMode {
    PadMode::Border
}

impl Op for RandomRotateObject {
    fn check(&self) -> Result<(), String> {
        check_range("max_deg", (self.max_deg, self.max_deg), (0.0, 1e6))?;
        check_range("scale", self.scale, (1e-3, 1e3))?;
        check_range("dest_x", self.dest_x, (-10.0, 10.0))?;
        check_range("dest_y", self.dest_y, (-10.0, 10.0))?;
        check_places("center", self.center)?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let degrees = draw.between(-self.max_deg, self.max_deg);
            let zoom = draw.between(self.scale.0, self.scale.1);
            let goal =
                (draw.between(self.dest_x.0, self.dest_x.1), draw.between(self.dest_y.0, self.dest_y.1));
            push(into, about(into.size(), degrees, zoom, self.center, goal), self.pad_mode);
        }
        Ok(())
    }
}
