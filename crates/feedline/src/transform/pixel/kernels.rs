//! `MotionBlur`, `Defocus`: blurs with a drawn kernel.

use feedline_pixels::{Effect, Kernel, Size, WholeOp};
use serde::{Deserialize, Serialize};

use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range, half};
use crate::transform::params::{Params, Place, tidy};

/// Widest kernel; wider ones are mistakes.
const WIDEST: u32 = 255;

fn check_limits(name: &str, (low, high): (u32, u32), least: u32) -> Result<(), String> {
    if low >= least && low <= high && high <= WIDEST {
        return Ok(());
    }
    Err(format!("{name} must be (low, high) between {least} and {WIDEST}, not ({low}, {high})"))
}

/// Blurs as if the camera had moved along a straight line, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MotionBlur {
    /// Shortest and longest line, in pixels; odd lengths are drawn.
    #[serde(default = "default_limit")]
    pub blur_limit: (u32, u32),
    /// Smallest and largest angle, in degrees.
    #[serde(default = "any_angle")]
    pub angle_range: (f64, f64),
    /// Smallest and largest share of the movement on one side: -1 all before, 0 even, 1 all after.
    #[serde(default = "any_direction")]
    pub direction_range: (f64, f64),
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_limit() -> (u32, u32) {
    (3, 7)
}

fn any_angle() -> (f64, f64) {
    (0.0, 360.0)
}

fn any_direction() -> (f64, f64) {
    (-1.0, 1.0)
}

impl Op for MotionBlur {
    fn check(&self) -> Result<(), String> {
        check_limits("blur_limit", self.blur_limit, 3)?;
        check_range("angle_range", self.angle_range, (-1e6, 1e6))?;
        check_range("direction_range", self.direction_range, (-1.0, 1.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let (low, high) = (self.blur_limit.0 / 2, (self.blur_limit.1 - 1) / 2);
            let length = 2 * (low + draw.below(u64::from(high.max(low) - low) + 1) as u32) + 1;
            let angle = tidy(draw.between(self.angle_range.0, self.angle_range.1));
            let direction = tidy(draw.between(self.direction_range.0, self.direction_range.1));
            into.push(Smear { length, angle, direction });
        }
        Ok(())
    }
}

/// Blurs as if out of focus: a disc with a soft edge; with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defocus {
    /// Smallest and largest radius, in pixels.
    #[serde(default = "default_radius")]
    pub radius: (u32, u32),
    /// Smallest and largest standard deviation of the disc's edge.
    #[serde(default = "default_alias")]
    pub alias_blur: (f64, f64),
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
}

fn default_radius() -> (u32, u32) {
    (3, 10)
}

fn default_alias() -> (f64, f64) {
    (0.1, 0.5)
}

impl Op for Defocus {
    fn check(&self) -> Result<(), String> {
        let (low, high, most) = (self.radius.0, self.radius.1, WIDEST / 2);
        if low == 0 || low > high || high > most {
            return Err(format!("radius must be (low, high) between 1 and {most}, not ({low}, {high})"));
        }
        check_range("alias_blur", self.alias_blur, (0.0, 100.0))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let (low, high) = self.radius;
            let radius = low + draw.below(u64::from(high - low) + 1) as u32;
            into.push(Disc { radius, edge: tidy(draw.between(self.alias_blur.0, self.alias_blur.1)) });
        }
        Ok(())
    }
}

fn push(fusion: &mut Fusion<'_>, side: u32, mut weights: Vec<f32>) {
    let sum: f32 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    let kernel = Kernel { width: side, height: side, weights };
    fusion.whole_placed(WholeOp::Effect(Box::new(Effect::Filter(kernel))), fusion.size());
}

/// The mean along a line of `length` pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Smear {
    length: u32,
    angle: f64,
    direction: f64,
}

impl Act for Smear {
    fn check(&self, _before: Size) -> Result<(), String> {
        if self.length.is_multiple_of(2) || self.length > WIDEST {
            return Err(format!("length must be odd and at most {WIDEST}, not {}", self.length));
        }
        check_range("angle", (self.angle, self.angle), (-1e6, 1e6))?;
        check_range("direction", (self.direction, self.direction), (-1.0, 1.0))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let side = self.length as usize;
        let middle = (side / 2) as f64;
        let mut weights = vec![0.0; side * side];
        let (sin, cos) = self.angle.to_radians().sin_cos();
        // With direction 1 the line begins in the centre, with -1 it ends there; it always fits into the kernel.
        let (from, to) =
            (-middle * (1.0 - self.direction.max(0.0)), middle * (1.0 + self.direction.min(0.0)));
        let steps = 4 * side;
        for step in 0..=steps {
            let way = from + (to - from) * step as f64 / steps as f64;
            let (x, y) = (middle + way * cos, middle - way * sin);
            let (left, top) = (x.floor(), y.floor());
            for (column, row) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)] {
                let (cx, cy) = (left + column, top + row);
                let share = (1.0 - (x - cx).abs()) * (1.0 - (y - cy).abs());
                let inside = cx >= 0.0 && cy >= 0.0 && (cx as usize) < side && (cy as usize) < side;
                if inside {
                    weights[cy as usize * side + cx as usize] += share.max(0.0) as f32;
                }
            }
        }
        push(fusion, self.length, weights);
    }
}

/// The mean over a disc with a soft edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disc {
    radius: u32,
    edge: f64,
}

impl Act for Disc {
    fn check(&self, _before: Size) -> Result<(), String> {
        if !(1..=WIDEST / 2).contains(&self.radius) {
            return Err(format!("radius must be between 1 and {}, not {}", WIDEST / 2, self.radius));
        }
        check_range("edge", (self.edge, self.edge), (0.0, 100.0))
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        // A disc whose edge falls like a Gaussian-softened one.
        let reach = self.radius + (2.0 * self.edge).ceil() as u32;
        let side = 2 * reach.min(WIDEST / 2) + 1;
        let middle = f64::from(side / 2);
        let soft = self.edge.max(0.05);
        let weight = |at: u32| {
            let (x, y) = (f64::from(at % side) - middle, f64::from(at / side) - middle);
            let beyond = (x * x + y * y).sqrt() - f64::from(self.radius);
            1.0 / (1.0 + (1.702 * beyond / soft).exp())
        };
        let weights = (0..side * side).map(|at| weight(at) as f32);
        let weights = weights.map(|w| if w > 1e-4 { w } else { 0.0 }).collect();
        push(fusion, side, weights);
    }
}
