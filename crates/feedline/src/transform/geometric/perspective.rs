//! `RandomPerspective`.

use feedline_pixels::Size;
use serde::{Deserialize, Serialize};

use super::warp::{Warped, check_dialect};
use crate::random::Draw;
use crate::transform::op::{Op, check_p, half};
use crate::transform::params::{Params, Place};
use crate::transform::{Interpolation, Like};

/// Applies a random perspective, with probability `p`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomPerspective {
    /// How far corners move, as a share of half the image.
    #[serde(default = "half")]
    pub distortion_scale: f64,
    /// Probability.
    #[serde(default = "half")]
    pub p: f64,
    /// Nearest or bilinear.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Colour outside the image.
    #[serde(default)]
    pub fill: [u8; 3],
    /// Whose pixels to match.
    #[serde(default, skip_serializing_if = "Like::is_pil")]
    pub like: Like,
}

impl Op for RandomPerspective {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.distortion_scale) {
            return Err(format!("distortion_scale must be between 0 and 1, not {}", self.distortion_scale));
        }
        check_p(self.p)?;
        check_dialect(self.interpolation, self.like)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let mut draw = place.draw();
        if !draw.chance(self.p) {
            return Ok(());
        }
        let size = into.size();
        let corners = self.corners(size, &mut draw);
        // If the corners are on one line, there is no map; the image stays unchanged.
        if let Some(map) = coefficients(size, corners) {
            let coefficients = map.to_vec();
            let Size { width, height } = size;
            let (interpolation, fill) = (self.interpolation, self.fill);
            into.push(Warped { coefficients, height, width, interpolation, fill }.like(self.like));
        }
        Ok(())
    }
}

impl RandomPerspective {
    /// New places of the corners, clockwise from the upper left, drawn in torchvision's order.
    fn corners(&self, size: Size, draw: &mut Draw) -> [(f64, f64); 4] {
        let bound = |side: u32| (self.distortion_scale * f64::from(side / 2)) as u32 + 1;
        let (bound_x, bound_y) = (bound(size.width), bound(size.height));
        let mut below = |bound: u32, from: u32| f64::from(from + draw.below(u64::from(bound)) as u32);
        let (far_x, far_y) = (size.width - bound_x.min(size.width), size.height - bound_y.min(size.height));
        [(0, 0), (far_x, 0), (far_x, far_y), (0, far_y)].map(|(x, y)| (below(bound_x, x), below(bound_y, y)))
    }
}

/// The map from these corners back to the image's: eight equations, solved by elimination with pivoting, then rounded
/// to single precision as torchvision does.
fn coefficients(size: Size, corners: [(f64, f64); 4]) -> Option<[f64; 8]> {
    let (right, bottom) = (f64::from(size.width) - 1.0, f64::from(size.height) - 1.0);
    let image = [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)];
    let mut rows = [[0.0; 9]; 8];
    for (i, ((x, y), (u, v))) in corners.into_iter().zip(image).enumerate() {
        rows[2 * i] = [x, y, 1.0, 0.0, 0.0, 0.0, -u * x, -u * y, u];
        rows[2 * i + 1] = [0.0, 0.0, 0.0, x, y, 1.0, -v * x, -v * y, v];
    }
    for column in 0..8 {
        let pivot = (column..8).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let lead = rows[column];
        if lead[column].abs() < 1e-9 {
            return None;
        }
        for (at, row) in rows.iter_mut().enumerate() {
            if at != column {
                let share = row[column] / lead[column];
                row.iter_mut().zip(lead).for_each(|(value, lead)| *value -= share * lead);
            }
        }
    }
    Some(std::array::from_fn(|i| f64::from((rows[i][8] / rows[i][i]) as f32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmoved_corners_give_the_identity() {
        let size = Size::new(30, 20);
        let found = coefficients(size, [(0.0, 0.0), (29.0, 0.0), (29.0, 19.0), (0.0, 19.0)]).unwrap();
        let expected = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn corners_on_a_line_have_no_map() {
        let line = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)];
        assert_eq!(coefficients(Size::new(4, 4), line), None);
    }
}
