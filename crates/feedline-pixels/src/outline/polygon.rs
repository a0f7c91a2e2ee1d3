//! Polygons. COCO traces the outline on a grid five times as fine as the pixels, and a column of pixels is crossed
//! where the trace passes its middle: from each crossing down, inside becomes outside and the reverse.

use super::check_plane;
use crate::{Error, Result, Size, fit};

/// Steps of the fine grid per pixel.
const FINE: f64 = 5.0;
/// The step after which a column's middle is passed.
const MIDDLE: i64 = 2;

/// A corner of a polygon: column and row.
pub type Vertex = (f64, f64);

/// Fills polygons; keeps scratch memory.
#[derive(Debug, Default)]
pub struct PolygonFiller {
    /// One byte per pixel: whether inside and outside are exchanged from here down.
    turns: Vec<u8>,
    inside: Vec<u8>,
}

impl PolygonFiller {
    /// Sets the pixels inside the polygon to 1; others keep their values. Fewer than three corners enclose nothing.
    pub fn fill(&mut self, corners: &[Vertex], size: Size, plane: &mut [u8]) -> Result<()> {
        check_plane(size, plane)?;
        check_corners(corners, size)?;
        if corners.len() < 3 || plane.is_empty() {
            return Ok(());
        }
        self.turns.clear();
        fit(&mut self.turns, plane.len(), 0)?;
        self.trace(corners, size);
        self.inside.clear();
        fit(&mut self.inside, size.width as usize, 0)?;
        let width = size.width as usize;
        for (turns, row) in self.turns.chunks_exact(width).zip(plane.chunks_exact_mut(width)) {
            for ((inside, turn), pixel) in self.inside.iter_mut().zip(turns).zip(row) {
                *inside ^= turn;
                *pixel |= *inside;
            }
        }
        Ok(())
    }

    /// Notes every crossing of a column's middle.
    fn trace(&mut self, corners: &[Vertex], size: Size) {
        let fine = |(x, y): Vertex| ((FINE * x + 0.5) as i64, (FINE * y + 0.5) as i64);
        let mut last = fine(corners[0]);
        for number in 0..corners.len() {
            let (from, to) = (fine(corners[number]), fine(corners[(number + 1) % corners.len()]));
            along(from, to, |point| {
                if let Some(at) = crossing(last, point, size) {
                    self.turns[at] ^= 1;
                }
                last = point;
            });
        }
    }
}

/// Each edge is walked step by step, so its length is bounded by the image's: annotations end at the image's edges.
fn check_corners(corners: &[Vertex], size: Size) -> Result<()> {
    let near = |at: f64, length: u32| (-f64::from(length)..=2.0 * f64::from(length)).contains(&at);
    match corners.iter().find(|(x, y)| !near(*x, size.width) || !near(*y, size.height)) {
        None => Ok(()),
        Some((x, y)) => {
            let Size { width, height } = size;
            let reason =
                format!("a polygon's corner ({x}, {y}) is far outside of an image of {height}x{width}");
            Err(Error::Misuse(reason))
        }
    }
}

/// The points of the fine grid from one to another, both included, one for each step of the longer side.
fn along((x0, y0): (i64, i64), (x1, y1): (i64, i64), mut each: impl FnMut((i64, i64))) {
    let (wide, high) = ((x1 - x0).abs(), (y1 - y0).abs());
    let steps = wide.max(high);
    if steps == 0 {
        return;
    }
    // Rounding is not symmetric, so an edge is always walked from its lower end in the direction of the longer side.
    let backwards = if wide >= high { x0 > x1 } else { y0 > y1 };
    let ((sx, sy), (ex, ey)) = if backwards { ((x1, y1), (x0, y0)) } else { ((x0, y0), (x1, y1)) };
    let slope = if wide >= high { (ey - sy) as f64 / wide as f64 } else { (ex - sx) as f64 / high as f64 };
    for step in 0..=steps {
        let at = if backwards { steps - step } else { step };
        let rounded = |start: i64| (start as f64 + slope * at as f64 + 0.5) as i64;
        each(if wide >= high { (sx + at, rounded(sy)) } else { (rounded(sx), sy + at) });
    }
}

/// Index of the pixel from which a step between neighbouring points exchanges inside and outside, if it does.
fn crossing((x0, y0): (i64, i64), (x1, y1): (i64, i64), size: Size) -> Option<usize> {
    let left = x0.min(x1);
    if x0 == x1 || left.rem_euclid(FINE as i64) != MIDDLE {
        return None;
    }
    let column = u32::try_from((left - MIDDLE) / FINE as i64).ok().filter(|column| *column < size.width)?;
    let row = ((y0.min(y1) as f64 + 0.5) / FINE - 0.5).max(0.0).ceil();
    (row < f64::from(size.height)).then(|| row as usize * size.width as usize + column as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(corners: &[Vertex], size: Size) -> Vec<u8> {
        let mut plane = vec![0; size.area() as usize];
        PolygonFiller::default().fill(corners, size, &mut plane).unwrap();
        plane
    }

    #[test]
    fn a_rectangle_covers_exactly_its_pixels() {
        let size = Size::new(6, 5);
        let plane = filled(&[(1.0, 1.0), (4.0, 1.0), (4.0, 3.0), (1.0, 3.0)], size);
        for (at, value) in plane.iter().enumerate() {
            let (x, y) = (at % 6, at / 6);
            assert_eq!(*value, u8::from((1..4).contains(&x) && (1..3).contains(&y)), "{x}, {y}");
        }
    }

    #[test]
    fn direction_and_repeated_corners_do_not_matter() {
        let size = Size::new(40, 30);
        let corners = [(3.2, 4.7), (30.9, 8.1), (22.3, 27.6), (12.5, 11.5)];
        let mut reversed: Vec<_> = corners.into_iter().rev().collect();
        reversed.push(reversed[0]);
        assert_eq!(filled(&corners, size), filled(&reversed, size));
    }

    #[test]
    fn polygons_are_clipped_and_distant_ones_refused() {
        let size = Size::new(4, 4);
        let plane = filled(&[(-3.0, -3.0), (7.0, -3.0), (7.0, 2.0), (-3.0, 2.0)], size);
        assert_eq!(plane, [[1; 8], [0; 8]].concat());
        assert_eq!(filled(&[(1.0, 1.0), (3.0, 3.0)], size), [0; 16]);
        for far in [1e9, f64::NAN, f64::INFINITY] {
            let corners = [(0.0, 0.0), (far, 0.0), (0.0, 3.0)];
            let error = PolygonFiller::default().fill(&corners, size, &mut [0; 16]).unwrap_err();
            assert!(error.to_string().contains("far outside"), "{error}");
        }
    }
}
