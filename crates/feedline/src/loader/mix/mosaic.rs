//! Joins four samples at a point: each fills one quarter with the part of itself that is next to the point.

use std::collections::BTreeMap;

use feedline_pixels::{Region, Result, RowForm, Size, copy_box};

use super::Member;
use super::objects::{Values, box_at, box_bytes, ragged_targets};
use crate::loader::plan::ImageViews;
use crate::loader::targets::TargetKind;
use crate::loader::workers::EpochRun;
use crate::transform::{BatchTransform, Boxes, MixAction};

/// One quarter: the part of its sample, and its place in the result.
#[derive(Clone, Copy, Debug)]
struct Quarter {
    from: Region,
    to: (u32, u32),
}

impl Quarter {
    /// Quarter `number` (left to right, top to bottom) of an image whose centre point is at (x, y).
    fn new(number: usize, size: Size, (x, y): (u32, u32)) -> Self {
        let Size { width, height } = size;
        let (left, top) = (number.is_multiple_of(2), number / 2 == 0);
        let (from_x, to_x, w) = if left { (width - x, 0, x) } else { (0, x, width - x) };
        let (from_y, to_y, h) = if top { (height - y, 0, y) } else { (0, y, height - y) };
        Quarter { from: Region::new(from_x, from_y, w, h), to: (to_x, to_y) }
    }

    fn shift(&self) -> (f64, f64) {
        (f64::from(self.to.0) - f64::from(self.from.x), f64::from(self.to.1) - f64::from(self.from.y))
    }

    /// Left, top, right, bottom in the result.
    fn edges(&self) -> [f64; 4] {
        let (x, y) = self.to;
        [x, y, x + self.from.width, y + self.from.height].map(f64::from)
    }
}

fn point(center: (f64, f64), size: Size) -> (u32, u32) {
    let along = |share: f64, length: u32| ((share * f64::from(length)) as u32).min(length);
    (along(center.0, size.width), along(center.1, size.height))
}

impl EpochRun {
    /// Makes mosaics of four members; smaller groups stay unchanged.
    pub(super) fn mosaic(&self, op: &BatchTransform, place: u64, unit: &mut [Member<'_>]) -> Result<()> {
        if unit.len() != 4 || unit.iter().any(|member| !member.row.is_done()) {
            return Ok(());
        }
        let mut centers = [(0.0, 0.0); 4];
        for (center, member) in centers.iter_mut().zip(&*unit) {
            let MixAction::Mosaic { center: drawn } = op.action(self.mix_key(member.position, place)) else {
                return Ok(());
            };
            *center = drawn;
        }
        let mix = &self.plan.mix;
        let dense =
            mix.images.iter().map(|(column, form, _)| (*column, *form)).chain(mix.masks.iter().copied());
        for (column, form) in dense {
            join_dense(unit, column, &form, &centers)?;
        }
        for views in &self.plan.image_fields {
            for view in 0..views.outputs.len() {
                self.join_objects(unit, views, view, &centers)?;
            }
        }
        Ok(())
    }

    fn join_objects(
        &self,
        unit: &mut [Member<'_>],
        views: &ImageViews,
        view: usize,
        centers: &[(f64, f64); 4],
    ) -> Result<()> {
        let plan = &self.plan.images[views.outputs[view].1];
        let Some(size) = plan.output() else { return Ok(()) };
        let targets: Vec<_> = ragged_targets(views, view).collect();
        let before: Vec<Vec<Values>> = unit
            .iter_mut()
            .map(|member| targets.iter().map(|target| Values::of(&mut member.row, target.column)).collect())
            .collect();
        for (own, member) in unit.iter_mut().enumerate() {
            let mut made: Vec<Values> = before[own].iter().map(Values::none).collect();
            for number in 0..4 {
                let from = &before[(own + number) % 4];
                let quarter = Quarter::new(number, size, point(centers[own], size));
                let mut kept: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
                for (at, target) in targets.iter().enumerate() {
                    let all: Vec<usize> = (0..from[at].count()).collect();
                    let chosen = target.follows.and_then(|boxes| kept.get(&boxes).cloned()).unwrap_or(all);
                    match &target.kind {
                        TargetKind::Boxes(rules) => {
                            let left = join_boxes(&from[at], &mut made[at], rules, size, &quarter);
                            kept.insert(target.column, left);
                        }
                        TargetKind::Keypoints => join_points(&from[at], &mut made[at], &chosen, &quarter),
                        TargetKind::PerBox(_) => {
                            for number in chosen {
                                made[at].push(from[at].one(number), &from[at]);
                            }
                        }
                        TargetKind::Mask { dtype, .. } => {
                            let form = RowForm { size, channels: 1, bytes: dtype.size(), planes: true };
                            join_stack(&from[at], &mut made[at], &chosen, &form, &quarter)?;
                        }
                    }
                }
            }
            for (values, target) in made.iter().zip(&targets) {
                values.put(&mut member.row, target.column);
            }
        }
        Ok(())
    }
}

fn join_dense(
    unit: &mut [Member<'_>],
    column: usize,
    form: &RowForm,
    centers: &[(f64, f64); 4],
) -> Result<()> {
    let before: Vec<Vec<u8>> = unit.iter_mut().map(|member| member.row.dense(column).to_vec()).collect();
    for (own, member) in unit.iter_mut().enumerate() {
        for number in 0..4 {
            let quarter = Quarter::new(number, form.size, point(centers[own], form.size));
            let from = &before[(own + number) % 4];
            copy_box(form, from, quarter.from, quarter.to, member.row.dense(column))?;
        }
    }
    Ok(())
}

/// Adds the boxes that are visible in a quarter; returns their indices.
fn join_boxes(from: &Values, into: &mut Values, rules: &Boxes, size: Size, quarter: &Quarter) -> Vec<usize> {
    let (dx, dy) = quarter.shift();
    let [left, top, right, bottom] = quarter.edges();
    let mut kept = Vec::new();
    for at in 0..from.count() {
        let [a, b, c, d] = box_at(from, at, rules, size);
        let moved = [a + dx, b + dy, c + dx, d + dy];
        let cut = [
            moved[0].clamp(left, right),
            moved[1].clamp(top, bottom),
            moved[2].clamp(left, right),
            moved[3].clamp(top, bottom),
        ];
        let (width, height) = (cut[2] - cut[0], cut[3] - cut[1]);
        let visible = width * height / ((c - a) * (d - b)).max(f64::MIN_POSITIVE);
        let stays = width > 0.0 && height > 0.0 && width.min(height) >= rules.min_size;
        if stays && visible >= rules.min_visibility {
            let corners = if rules.clip { cut } else { moved };
            into.push(&box_bytes(corners, rules, size), from);
            kept.push(at);
        }
    }
    kept
}

/// Adds moved points; those outside the quarter become invisible.
fn join_points(from: &Values, into: &mut Values, chosen: &[usize], quarter: &Quarter) {
    let (dx, dy) = quarter.shift();
    let [left, top, right, bottom] = quarter.edges();
    let each = from.shape.last().copied().unwrap_or(2) as usize;
    for number in chosen {
        let mut numbers: Vec<f32> =
            from.one(*number).as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        for point in numbers.chunks_exact_mut(each) {
            let (x, y) = (f64::from(point[0]) + dx, f64::from(point[1]) + dy);
            (point[0], point[1]) = (x as f32, y as f32);
            let inside = x + 0.5 >= left && x + 0.5 <= right && y + 0.5 >= top && y + 0.5 <= bottom;
            if each == 3 && !inside {
                point[2] = 0.0;
            }
        }
        let bytes: Vec<u8> = numbers.iter().flat_map(|value| value.to_le_bytes()).collect();
        into.push(&bytes, from);
    }
}

fn join_stack(
    from: &Values,
    into: &mut Values,
    chosen: &[usize],
    form: &RowForm,
    quarter: &Quarter,
) -> Result<()> {
    for number in chosen {
        let mut plane = vec![0; from.each()];
        copy_box(form, from.one(*number), quarter.from, quarter.to, &mut plane)?;
        into.push(&plane, from);
    }
    Ok(())
}
