//! The new place of a point of the image after a program. Coordinates start at the image's upper left corner: the
//! centre of the first pixel is (0.5, 0.5).

use feedline_pixels::{Effect, Geometry, Map, Nearest, Patches, Region, Result, Size, WholeOp};

use super::{Program, Segment, moving};

/// Moves points; keeps scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    nearest: Nearest,
}

impl Mover {
    /// Moves points of `each` numbers: column, row and optionally visibility, which becomes 0 if one of the passes does
    /// not show the point. Integers are the centres of pixels, as in torchvision.
    pub(crate) fn keypoints(
        &mut self,
        program: &Program,
        image: Size,
        each: usize,
        values: &mut [f64],
    ) -> Result<()> {
        let mut points: Vec<(f64, f64)> =
            values.chunks_exact(each).map(|point| (point[0] + 0.5, point[1] + 0.5)).collect();
        let (mut size, mut seen) = (image, vec![true; points.len()]);
        for segment in moving(program) {
            if let Segment::Resample { geometry, .. } = segment {
                look(&mut seen, &points, geometry.crop);
            }
            size = self.step(segment, size, &mut points)?;
            look(&mut seen, &points, Region::whole(size));
        }
        for ((point, (x, y)), seen) in values.chunks_exact_mut(each).zip(points).zip(seen) {
            (point[0], point[1]) = (x - 0.5, y - 0.5);
            if each == 3 && !seen {
                point[2] = 0.0;
            }
        }
        Ok(())
    }

    /// Moves points through one pass over an image of this size; returns the size of the pass's result.
    pub(super) fn step(&mut self, segment: &Segment, size: Size, points: &mut [(f64, f64)]) -> Result<Size> {
        match segment {
            Segment::Resample { geometry, .. } => {
                for point in points {
                    *point = resampled(geometry, *point);
                }
                Ok(geometry.output())
            }
            Segment::Warp(warp) => {
                warped(&warp.map, points);
                Ok(warp.output)
            }
            Segment::Whole(op) => {
                match op {
                    WholeOp::Pad([left, top, ..], _) => shift(points, f64::from(*left), f64::from(*top)),
                    WholeOp::Effect(effect) => self.effect(effect, size, points)?,
                    _ => {}
                }
                Ok(op.output(size))
            }
            Segment::Rows(_) | Segment::Mix { .. } => Ok(size),
        }
    }

    fn effect(&mut self, effect: &Effect, size: Size, points: &mut [(f64, f64)]) -> Result<()> {
        match effect {
            Effect::Sample(sample) => self.nearest.move_points(sample, points)?,
            Effect::Patches(patches) => {
                for point in points {
                    *point = shuffled(patches, size, *point);
                }
            }
            Effect::Scene(scene) => {
                shift(points, f64::from(scene.corner.0), f64::from(scene.corner.1));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Notes which points are in a region. A NaN is in none.
fn look(seen: &mut [bool], points: &[(f64, f64)], region: Region) {
    let (left, top) = (f64::from(region.x), f64::from(region.y));
    let (right, bottom) = (f64::from(region.right()), f64::from(region.bottom()));
    for (seen, (x, y)) in seen.iter_mut().zip(points) {
        *seen &= (left..=right).contains(x) && (top..=bottom).contains(y);
    }
}

fn shift(points: &mut [(f64, f64)], by_x: f64, by_y: f64) {
    for (x, y) in points {
        (*x, *y) = (*x + by_x, *y + by_y);
    }
}

fn resampled(geometry: &Geometry, (x, y): (f64, f64)) -> (f64, f64) {
    let Geometry { crop, resized, window, .. } = *geometry;
    let along = |at: f64, start: u32, from: u32, to: u32, before: i32, length: u32, flip: bool| {
        let scaled = (at - f64::from(start)) * f64::from(to) / f64::from(from) - f64::from(before);
        if flip { f64::from(length) - scaled } else { scaled }
    };
    (
        along(x, crop.x, crop.width, resized.width, window.x, window.width, geometry.flip_horizontal),
        along(y, crop.y, crop.height, resized.height, window.y, window.height, geometry.flip_vertical),
    )
}

/// A warp's map goes from the result to the image; points go the other way.
fn warped(map: &Map, points: &mut [(f64, f64)]) {
    let inverse = map.inverse();
    for point in points {
        *point = inverse.map_or((f64::NAN, f64::NAN), |inverse| inverse.at(*point));
    }
}

/// Points in the rest at the right and at the bottom stay.
fn shuffled(patches: &Patches, size: Size, (x, y): (f64, f64)) -> (f64, f64) {
    let side = f64::from(patches.side.max(1));
    let (across, down) = (size.width / patches.side.max(1), size.height / patches.side.max(1));
    let (column, row) = ((x / side).floor(), (y / side).floor());
    let inside = column >= 0.0 && row >= 0.0 && column < f64::from(across) && row < f64::from(down);
    let number = row * f64::from(across) + column;
    if !inside {
        return (x, y);
    }
    match patches.order.iter().position(|piece| f64::from(*piece) == number) {
        Some(at) => {
            let (to_column, to_row) = (f64::from(at as u32 % across), f64::from(at as u32 / across));
            (x + (to_column - column) * side, y + (to_row - row) * side)
        }
        None => (f64::NAN, f64::NAN),
    }
}
