//! `RandomColorJitterHSV`, `RandomColorJitterYIQ`: colour changes in one step, without rounding in between.

use feedline_pixels::{Point, RowOp, Size};
use serde::{Deserialize, Serialize};

use crate::random::Draw;
use crate::transform::action::Act;
use crate::transform::fuse::Fusion;
use crate::transform::op::{Op, check_p, check_range};
use crate::transform::params::{Params, Place, tidy};

type Range = (f64, f64);

fn four_fifths() -> f64 {
    0.8
}

fn one() -> Range {
    (1.0, 1.0)
}

fn drawn(draw: &mut Draw, (low, high): Range) -> f64 {
    tidy(draw.between(low, high))
}

/// Changes hue, saturation and value through HSV in floats, then contrast about middle grey, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomColorJitterHSV {
    /// Probability.
    #[serde(default = "four_fifths")]
    pub p: f64,
    /// Smallest and largest part of the colour circle.
    #[serde(default)]
    pub hue: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub saturation: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub value: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub contrast: Range,
}

impl Op for RandomColorJitterHSV {
    fn check(&self) -> Result<(), String> {
        check_range("hue", self.hue, (-1.0, 1.0))?;
        check_range("saturation", self.saturation, (0.0, 1e6))?;
        check_range("value", self.value, (0.0, 1e6))?;
        check_range("contrast", self.contrast, (0.0, 1e6))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let (hue, saturation) = (drawn(&mut draw, self.hue), drawn(&mut draw, self.saturation));
            let (value, contrast) = (drawn(&mut draw, self.value), drawn(&mut draw, self.contrast));
            into.push(TwistHsv { hue, saturation, value, contrast });
        }
        Ok(())
    }
}

/// One matrix: rotates the hue, scales saturation and value in YIQ, brightness and contrast about middle grey; with
/// probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomColorJitterYIQ {
    /// Probability.
    #[serde(default = "four_fifths")]
    pub p: f64,
    /// Smallest and largest angle, in degrees.
    #[serde(default)]
    pub hue: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub saturation: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub value: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub brightness: Range,
    /// Smallest and largest factor.
    #[serde(default = "one")]
    pub contrast: Range,
}

impl Op for RandomColorJitterYIQ {
    fn check(&self) -> Result<(), String> {
        check_range("hue", self.hue, (-1e6, 1e6))?;
        let factors = [
            ("saturation", self.saturation),
            ("value", self.value),
            ("brightness", self.brightness),
            ("contrast", self.contrast),
        ];
        factors.into_iter().try_for_each(|(name, range)| check_range(name, range, (0.0, 1e6)))?;
        check_p(self.p)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if draw.chance(self.p) {
            let (hue, saturation) = (drawn(&mut draw, self.hue), drawn(&mut draw, self.saturation));
            let (value, brightness) = (drawn(&mut draw, self.value), drawn(&mut draw, self.brightness));
            let contrast = drawn(&mut draw, self.contrast);
            into.push(TwistYiq { hue, saturation, value, brightness, contrast });
        }
        Ok(())
    }
}

fn check_factors(named: &[(&str, f64)]) -> Result<(), String> {
    named.iter().try_for_each(|(name, value)| check_range(name, (*value, *value), (0.0, 1e6)))
}

/// Changes hue, saturation and value, then contrast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TwistHsv {
    hue: f64,
    saturation: f64,
    value: f64,
    contrast: f64,
}

impl Act for TwistHsv {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("hue", (self.hue, self.hue), (-1.0, 1.0))?;
        check_factors(&[("saturation", self.saturation), ("value", self.value), ("contrast", self.contrast)])
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let (turn, saturation, value) = (self.hue as f32, self.saturation as f32, self.value as f32);
        if (turn, saturation, value) != (0.0, 1.0, 1.0) {
            fusion.row(RowOp::Point(Point::Hsv { turn, saturation, value }));
        }
        if self.contrast != 1.0 {
            let (c, rest) = (self.contrast as f32, (127.5 - 127.5 * self.contrast) as f32);
            let rows = [[c, 0.0, 0.0], [0.0, c, 0.0], [0.0, 0.0, c]];
            fusion.row(RowOp::Point(Point::Matrix { rows, add: [rest; 3] }));
        }
    }
}

/// All changes in one matrix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TwistYiq {
    hue: f64,
    saturation: f64,
    value: f64,
    brightness: f64,
    contrast: f64,
}

type Matrix = [[f64; 3]; 3];

const YIQ: Matrix = [[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]];

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..3).map(|k| a[i][k] * b[k][j]).sum()))
}

fn inverse(m: &Matrix) -> Matrix {
    let minor = |i: usize, j: usize| {
        let (r, s) = ((i + 1) % 3, (i + 2) % 3);
        let (c, d) = ((j + 1) % 3, (j + 2) % 3);
        m[r][c] * m[s][d] - m[r][d] * m[s][c]
    };
    let determinant: f64 = (0..3).map(|j| m[0][j] * minor(0, j)).sum();
    std::array::from_fn(|i| std::array::from_fn(|j| minor(j, i) / determinant))
}

impl Act for TwistYiq {
    fn check(&self, _before: Size) -> Result<(), String> {
        check_range("hue", (self.hue, self.hue), (-1e6, 1e6))?;
        let factors = [("saturation", self.saturation), ("value", self.value)];
        check_factors(&factors)?;
        check_factors(&[("brightness", self.brightness), ("contrast", self.contrast)])
    }

    fn plan(&self, fusion: &mut Fusion<'_>) {
        let (sin, cos) = self.hue.to_radians().sin_cos();
        let (u, w) = (self.value * self.saturation * cos, self.value * self.saturation * sin);
        let turned = [[self.value, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]];
        let matrix = product(&product(&inverse(&YIQ), &turned), &YIQ);
        let scale = self.brightness * self.contrast;
        let rows = matrix.map(|row| row.map(|value| (value * scale) as f32));
        let add = (255.0 * (0.5 - 0.5 * self.contrast) * self.brightness) as f32;
        fusion.row(RowOp::Point(Point::Matrix { rows, add: [add; 3] }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_matrix_restores_the_input() {
        let identity = product(&inverse(&YIQ), &YIQ);
        for (i, row) in identity.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                assert!((value - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
    }
}
