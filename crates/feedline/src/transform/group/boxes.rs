//! Moves boxes through a program: moves the corners, takes the box around them, and cuts it at the image's edges.

use feedline_pixels::{Effect, Patches, Places, Region, Result, Size, WholeOp};

use super::points::Mover;
use super::{BoxFormat, Boxes, Program, Segment, moving};

/// A remaining box.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kept {
    /// Index of the original box.
    pub(crate) number: usize,
    /// Left, top, right, bottom, in pixels of the result.
    pub(crate) corners: [f64; 4],
}

/// Converts a box in its written form to left, top, right, bottom in pixels of an image of this size.
pub(crate) fn read_boxes(boxes: &Boxes, [a, b, c, d]: [f64; 4], size: Size) -> [f64; 4] {
    let (width, height) = scale(boxes, size);
    let [a, b, c, d] = [a * width, b * height, c * width, d * height];
    match boxes.format {
        BoxFormat::Xyxy => [a, b, c, d],
        BoxFormat::Xywh => [a, b, a + c, b + d],
        BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
    }
}

/// The reverse, for the result's size.
pub(crate) fn write_box(boxes: &Boxes, [left, top, right, bottom]: [f64; 4], size: Size) -> [f64; 4] {
    let (width, height) = scale(boxes, size);
    let [left, top, right, bottom] = [left / width, top / height, right / width, bottom / height];
    match boxes.format {
        BoxFormat::Xyxy => [left, top, right, bottom],
        BoxFormat::Xywh => [left, top, right - left, bottom - top],
        BoxFormat::Cxcywh => {
            [f64::midpoint(left, right), f64::midpoint(top, bottom), right - left, bottom - top]
        }
    }
}

fn scale(boxes: &Boxes, size: Size) -> (f64, f64) {
    if boxes.normalized { (f64::from(size.width), f64::from(size.height)) } else { (1.0, 1.0) }
}

/// One box in progress.
#[derive(Clone, Copy)]
struct Moving {
    corners: [f64; 4],
    /// The share of it that is still visible.
    visible: f64,
}

impl Mover {
    /// Moves boxes (left, top, right, bottom in pixels) through the whole program; returns those that remain.
    pub(crate) fn boxes(
        &mut self,
        program: &Program,
        image: Size,
        rules: &Boxes,
        boxes: &[[f64; 4]],
    ) -> Result<Vec<Kept>> {
        let mut all: Vec<Moving> =
            boxes.iter().map(|corners| Moving { corners: *corners, visible: 1.0 }).collect();
        let mut size = image;
        cut_all(&mut all, rules, whole(size));
        for segment in moving(program) {
            if let Segment::Resample { geometry, .. } = segment {
                cut_all(&mut all, rules, edges(geometry.crop));
            }
            size = self.move_all(segment, size, &mut all)?;
            cut_all(&mut all, rules, whole(size));
        }
        let wanted =
            |number: usize| program.boxes.as_ref().is_none_or(|kept| kept.contains(&(number as u32)));
        let kept =
            all.iter().enumerate().filter(|(number, moving)| wanted(*number) && moving.stays(rules, size));
        Ok(kept.map(|(number, moving)| Kept { number, corners: moving.corners }).collect())
    }

    fn move_all(&mut self, segment: &Segment, size: Size, all: &mut [Moving]) -> Result<Size> {
        let mut output = size;
        for moving in all.iter_mut() {
            let [left, top, right, bottom] = moving.corners;
            let mut points = match pieces(segment, moving.corners) {
                Some(points) => points,
                None => vec![(left, top), (right, top), (left, bottom), (right, bottom)],
            };
            output = self.step(segment, size, &mut points)?;
            moving.corners = hull(&points);
        }
        if all.is_empty() { self.step(segment, size, &mut []) } else { Ok(output) }
    }
}

/// Points that show where a box goes if its corners alone do not.
fn pieces(segment: &Segment, corners: [f64; 4]) -> Option<Vec<(f64, f64)>> {
    let Segment::Whole(WholeOp::Effect(effect)) = segment else { return None };
    match &**effect {
        Effect::Patches(patches) => Some(parts(patches, corners)),
        Effect::Sample(sample) if matches!(sample.places, Places::Lens { .. }) => Some(edge_points(corners)),
        _ => None,
    }
}

/// A lens bends the edges of a box: points on them, one every few pixels.
fn edge_points([left, top, right, bottom]: [f64; 4]) -> Vec<(f64, f64)> {
    const STEPS: u32 = 16;
    let shares = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
    let along = |share: f64| {
        let (x, y) = (left + share * (right - left), top + share * (bottom - top));
        [(x, top), (x, bottom), (left, y), (right, y)]
    };
    shares.flat_map(along).collect()
}

/// If patches of an image are moved, a box is split: the corners of its part in every patch.
fn parts(patches: &Patches, [left, top, right, bottom]: [f64; 4]) -> Vec<(f64, f64)> {
    let side = f64::from(patches.side.max(1));
    // Slightly inside, so that an edge between two patches belongs to the one that contains the box.
    let cuts = |low: f64, high: f64| {
        let mut cuts = vec![low + 1e-6];
        let mut at = (low / side).floor() * side + side;
        while at < high && cuts.len() < 1 << 16 {
            cuts.extend([at - 1e-6, at + 1e-6]);
            at += side;
        }
        cuts.push(high - 1e-6);
        cuts
    };
    let columns = cuts(left, right);
    cuts(top, bottom).iter().flat_map(|y| columns.iter().map(move |x| (*x, *y))).collect()
}

fn edges(region: Region) -> [f64; 4] {
    [region.x, region.y, region.right(), region.bottom()].map(f64::from)
}

fn hull(points: &[(f64, f64)]) -> [f64; 4] {
    let wrong = points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite());
    let first = if wrong { f64::NAN } else { f64::INFINITY };
    points.iter().fold([first, first, -first, -first], |[left, top, right, bottom], (x, y)| {
        if wrong {
            return [f64::NAN; 4];
        }
        [left.min(*x), top.min(*y), right.max(*x), bottom.max(*y)]
    })
}

fn cut_all(all: &mut [Moving], rules: &Boxes, by: [f64; 4]) {
    if rules.clip {
        for moving in all {
            moving.cut(by);
        }
    }
}

impl Moving {
    fn cut(&mut self, [left, top, right, bottom]: [f64; 4]) {
        let [a, b, c, d] = self.corners;
        let cut = [a.clamp(left, right), b.clamp(top, bottom), c.clamp(left, right), d.clamp(top, bottom)];
        let (before, after) = ((c - a) * (d - b), (cut[2] - cut[0]) * (cut[3] - cut[1]));
        if before > 0.0 {
            self.visible *= after / before;
        }
        self.corners = cut;
    }

    /// Whether the rules keep it in a result of this size.
    fn stays(mut self, rules: &Boxes, size: Size) -> bool {
        let [left, top, right, bottom] = self.corners;
        let (width, height) = (right - left, bottom - top);
        self.cut(whole(size));
        // Written so that a NaN is not a box either.
        width >= rules.min_size
            && height >= rules.min_size
            && width > 0.0
            && height > 0.0
            && self.visible > 0.0
            && self.visible >= rules.min_visibility
    }
}

fn whole(size: Size) -> [f64; 4] {
    [0.0, 0.0, f64::from(size.width), f64::from(size.height)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::Program;
    use feedline_pixels::{Filter, Geometry, Window};

    fn program(geometry: Geometry) -> Program {
        let segments = vec![Segment::Resample { geometry, filter: Filter::Bilinear }];
        Program { segments, output: geometry.output(), ..Program::default() }
    }

    #[test]
    fn box_formats_round_trip() {
        let size = Size::new(200, 100);
        let close = |a: [f64; 4], b: [f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        for format in [BoxFormat::Xyxy, BoxFormat::Xywh, BoxFormat::Cxcywh] {
            for normalized in [false, true] {
                let rules = Boxes { format, normalized, ..Boxes::default() };
                let corners = [10.0, 20.0, 50.0, 60.0];
                assert!(close(read_boxes(&rules, write_box(&rules, corners, size), size), corners));
            }
        }
        let rules = Boxes { format: BoxFormat::Cxcywh, normalized: true, ..Boxes::default() };
        assert!(close(write_box(&rules, [10.0, 20.0, 50.0, 60.0], size), [0.15, 0.4, 0.2, 0.4]));
    }

    #[test]
    fn crops_clip_and_drop_boxes() {
        let image = Size::new(100, 100);
        let mut geometry = Geometry::crop_resize(image, Region::new(20, 0, 40, 40), Size::new(80, 80));
        geometry.flip_horizontal = true;
        let boxes = [[10.0, 10.0, 40.0, 20.0], [70.0, 70.0, 90.0, 90.0], [20.0, 0.0, 20.4, 40.0]];
        let kept = Mover::default().boxes(&program(geometry), image, &Boxes::default(), &boxes).unwrap();
        assert_eq!(kept, [Kept { number: 0, corners: [40.0, 20.0, 80.0, 40.0] }]);
        let rules = Boxes { min_visibility: 0.7, ..Boxes::default() };
        assert_eq!(Mover::default().boxes(&program(geometry), image, &rules, &boxes).unwrap(), []);
        let rules = Boxes { clip: false, ..Boxes::default() };
        let kept = Mover::default().boxes(&program(geometry), image, &rules, &boxes).unwrap();
        assert_eq!(kept, [Kept { number: 0, corners: [40.0, 20.0, 100.0, 40.0] }]);
    }

    #[test]
    fn a_cropped_box_does_not_extend_into_padding() {
        let image = Size::new(100, 100);
        let mut geometry = Geometry::crop_resize(image, Region::new(0, 0, 50, 50), Size::new(50, 50));
        geometry.window = Window::new(-10, -10, 70, 70);
        let kept = Mover::default()
            .boxes(&program(geometry), image, &Boxes::default(), &[[40.0, 40.0, 90.0, 90.0]])
            .unwrap();
        assert_eq!(kept, [Kept { number: 0, corners: [50.0, 50.0, 60.0, 60.0] }]);
    }
}
