//! `RandomRotation`, `RandomAffine`.

use feedline_pixels::Size;
use serde::{Deserialize, Serialize};

use super::warp::{Warped, check_dialect};
use crate::transform::op::{Form, Op, check_range};
use crate::transform::params::{Params, Place};
use crate::transform::{Interpolation, Like};

fn nearest() -> Interpolation {
    Interpolation::Nearest
}

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Rotates by a random angle, counter-clockwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRotation {
    /// Smallest and largest angle.
    pub degrees: (f64, f64),
    /// Nearest or bilinear.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Whether the result is large enough for the whole image.
    #[serde(default)]
    pub expand: bool,
    /// Column and row of the rotation's centre; the image's centre if `None`.
    #[serde(default)]
    pub center: Option<(f64, f64)>,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for RandomRotation {
    fn check(&self) -> Result<(), String> {
        check_range("degrees", self.degrees, ANY)?;
        check_center(self.center)?;
        check_dialect(self.interpolation, self.like)
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        Ok(Form { size: before.size.filter(|_| !self.expand), ..before })
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let angle = place.draw().between(self.degrees.0, self.degrees.1);
        let turned = rotation(into.size(), angle, self.expand, self.center);
        into.push(turned.warped(self.interpolation, self.fill).like(self.like));
        Ok(())
    }
}

fn check_center(center: Option<(f64, f64)>) -> Result<(), String> {
    if center.is_some_and(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return Err("center must be two finite numbers".to_owned());
    }
    Ok(())
}

/// An affine map from the result's coordinates to the image's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    pub(crate) map: [f64; 6],
    pub(crate) output: Size,
}

impl Affine {
    /// The action for this map.
    pub(crate) fn warped(self, interpolation: Interpolation, fill: [u8; 3]) -> Warped {
        let Size { width, height } = self.output;
        Warped { coefficients: self.map.to_vec(), height, width, interpolation, fill }
    }

    /// torchvision's `affine`: about `center`, first shears (degrees), then rotates clockwise, scales and moves.
    pub(crate) fn new(
        size: Size,
        angle: f64,
        (tx, ty): (f64, f64),
        scale: f64,
        shear: (f64, f64),
        center: Option<(f64, f64)>,
    ) -> Self {
        let (cx, cy) = center.unwrap_or((f64::from(size.width) * 0.5, f64::from(size.height) * 0.5));
        let (turn, sx, sy) = (angle.to_radians(), shear.0.to_radians(), shear.1.to_radians());
        let a = (turn - sy).cos() / sy.cos();
        let b = -(turn - sy).cos() * sx.tan() / sy.cos() - turn.sin();
        let c = (turn - sy).sin() / sy.cos();
        let d = -(turn - sy).sin() * sx.tan() / sy.cos() + turn.cos();
        let mut map = [d, -b, 0.0, -c, a, 0.0].map(|value| value / scale);
        map[2] += map[0] * (-cx - tx) + map[1] * (-cy - ty);
        map[5] += map[3] * (-cx - tx) + map[4] * (-cy - ty);
        map[2] += cx;
        map[5] += cy;
        Affine { map, output: size }
    }
}

/// Pillow's `rotate`: angles in degrees counter-clockwise, sines and cosines rounded to 15 digits so that right angles
/// are exact.
pub(crate) fn rotation(size: Size, angle: f64, expand: bool, center: Option<(f64, f64)>) -> Affine {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let angle = angle.rem_euclid(360.0);
    if expand && center.is_none() && (angle == 90.0 || angle == 270.0) {
        let right = [0.0, 1.0, 0.0, -1.0, 0.0, height];
        let map = if angle == 90.0 { [0.0, -1.0, width, 1.0, 0.0, 0.0] } else { right };
        return Affine { map, output: Size::new(size.height, size.width) };
    }
    let turn = -angle.to_radians();
    let digits = |value: f64| format!("{value:.15}").parse().unwrap_or(value);
    let (cos, sin) = (digits(turn.cos()), digits(turn.sin()));
    let (cx, cy) = center.unwrap_or((width / 2.0, height / 2.0));
    let mut map = [cos, sin, 0.0, -sin, cos, 0.0];
    let apply =
        |map: &[f64; 6], x: f64, y: f64| (map[0] * x + map[1] * y + map[2], map[3] * x + map[4] * y + map[5]);
    (map[2], map[5]) = apply(&map, -cx, -cy);
    map[2] += cx;
    map[5] += cy;
    if !expand {
        return Affine { map, output: size };
    }
    let corners = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)].map(|(x, y)| apply(&map, x, y));
    let span = |values: [f64; 4]| {
        let most = values.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let least = values.into_iter().fold(f64::INFINITY, f64::min);
        most.ceil() - least.floor()
    };
    let (new_width, new_height) = (span(corners.map(|c| c.0)), span(corners.map(|c| c.1)));
    (map[2], map[5]) = apply(&map, -(new_width - width) / 2.0, -(new_height - height) / 2.0);
    Affine { map, output: Size::new(new_width as u32, new_height as u32) }
}

/// Rotates (clockwise), moves, scales and shears at random about the centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAffine {
    /// Smallest and largest angle.
    pub degrees: (f64, f64),
    /// Largest share of the width and height by which to move.
    #[serde(default)]
    pub translate: Option<(f64, f64)>,
    /// Smallest and largest factor.
    #[serde(default)]
    pub scale: Option<(f64, f64)>,
    /// Smallest and largest angle along x, and along y.
    #[serde(default)]
    pub shear: Option<(f64, f64, f64, f64)>,
    /// Nearest or bilinear.
    #[serde(default = "nearest")]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Column and row of the rotation's centre; the image's centre if `None`.
    #[serde(default)]
    pub center: Option<(f64, f64)>,
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for RandomAffine {
    fn check(&self) -> Result<(), String> {
        check_range("degrees", self.degrees, ANY)?;
        if let Some((x, y)) = self.translate {
            check_range("translate", (x.min(y), x.max(y)), (0.0, 1.0))?;
        }
        if let Some(scale) = self.scale {
            check_range("scale", scale, (f64::MIN_POSITIVE, f64::INFINITY))?;
        }
        if let Some((x0, x1, y0, y1)) = self.shear {
            check_range("shear", (x0, x1), (-89.999, 89.999))?;
            check_range("shear", (y0, y1), (-89.999, 89.999))?;
        }
        check_center(self.center)?;
        check_dialect(self.interpolation, self.like)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let (size, mut draw) = (into.size(), place.draw());
        let angle = draw.between(self.degrees.0, self.degrees.1);
        let moved = self.translate.map_or((0.0, 0.0), |(x, y)| {
            let (most_x, most_y) = (x * f64::from(size.width), y * f64::from(size.height));
            let mut whole = |most: f64| draw.between(-most, most).round_ties_even();
            (whole(most_x), whole(most_y))
        });
        let scale = self.scale.map_or(1.0, |(low, high)| draw.between(low, high));
        let shear =
            self.shear.map_or((0.0, 0.0), |(x0, x1, y0, y1)| (draw.between(x0, x1), draw.between(y0, y1)));
        let map = Affine::new(size, angle, moved, scale, shear, self.center);
        into.push(map.warped(self.interpolation, self.fill).like(self.like));
        Ok(())
    }
}
