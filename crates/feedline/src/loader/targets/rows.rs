//! Fills the rows of targets.

use std::collections::BTreeMap;

use feedline_pixels::{PolygonFiller, Size, fit};

use super::masks::{Stack, plane_of};
use super::numbers::numbers;
use super::{TargetKind, TargetPlan};
use crate::batch::{Layout, Room, RowMut, Shape};
use crate::error::{Error, Result, Stage};
use crate::loader::plan::ImageViews;
use crate::loader::workers::{Destination, EpochRun, decode_error, missing};
use crate::render::{LabelRunner, label_type};
use crate::sample::{DType, SampleBuffer, Value};
use crate::transform::{Boxes, Mover, Program, read_boxes, write_box};

/// What a target of one sample is made from.
#[derive(Clone, Copy)]
pub(crate) struct TargetWork<'a> {
    pub(crate) run: &'a EpochRun,
    pub(crate) sample: u64,
    /// Size of the image that the target moves with.
    pub(crate) image: Size,
    pub(crate) buffer: &'a SampleBuffer,
    /// What is done to that image.
    pub(crate) program: &'a Program,
    pub(crate) target: &'a TargetPlan,
}

impl TargetWork<'_> {
    /// The error of a value that cannot be used.
    fn refused(&self, reason: String) -> Error {
        Error::sample(self.run.locate_field(self.sample, self.target.field), Stage::Transform, reason)
    }
}

/// Fills the rows of targets; keeps scratch memory.
#[derive(Debug)]
pub(crate) struct TargetRunner {
    labels: LabelRunner,
    mover: Mover,
    /// For every column of boxes: the indices of those that remain of the sample's, and the number there was.
    kept: BTreeMap<usize, (Vec<usize>, usize)>,
    plane: Vec<u8>,
    /// A mask file with the wanted page as its first.
    paged: Vec<u8>,
    polygons: PolygonFiller,
}

impl TargetRunner {
    pub(crate) fn new(max_pixels: u64) -> Self {
        TargetRunner {
            labels: LabelRunner::new(max_pixels),
            mover: Mover::default(),
            kept: BTreeMap::new(),
            plane: Vec::new(),
            paged: Vec::new(),
            polygons: PolygonFiller::default(),
        }
    }

    /// Writes one target into its row.
    pub(crate) fn put(&mut self, of: &TargetWork<'_>, row: &mut RowMut<'_>) -> Result<()> {
        let TargetWork { run, sample, target, .. } = *of;
        if *of.buffer.value(target.field) == Value::Missing {
            return Err(missing(run, sample, target.field));
        }
        self.labels.set_upright(run.plan.options.exif_transpose);
        let mut to = Destination { run, sample, row, column: target.column };
        let bad = |reason: String| of.refused(reason);
        match &target.kind {
            TargetKind::Mask { fill, dtype, stack: true } => {
                let (masks, shape) = self.stack(of, (*fill, *dtype)).map_err(bad)?;
                to.put_array(&masks, &shape)
            }
            TargetKind::Mask { fill, dtype, stack: false } => self.mask(of, (*fill, *dtype), row),
            TargetKind::Boxes(rules) => {
                let boxes = self.boxes(of, rules).map_err(bad)?;
                let count = boxes.len() as u64 / 4;
                to.put_array(&float_bytes(&boxes), &[count, 4])
            }
            TargetKind::Keypoints => {
                let (shape, values) = self.keypoints(of).map_err(bad)?;
                to.put_array(&float_bytes(&values), &shape)
            }
            TargetKind::PerBox(dtype) => {
                let (shape, bytes) = self.per_box(of, *dtype).map_err(bad)?;
                to.put_array(&bytes, &shape)
            }
        }
    }

    fn mask(&mut self, of: &TargetWork<'_>, (fill, dtype): (i64, DType), row: &mut RowMut<'_>) -> Result<()> {
        let TargetWork { run, sample, image, buffer, program, target } = *of;
        let bad = |error: feedline_pixels::Error| decode_error(run, sample, target.field, &error);
        let reason = |reason: String| bad(feedline_pixels::Error::Misuse(reason));
        let TargetRunner { labels, plane, paged, .. } = self;
        let found = plane_of(buffer, target.field, plane).map_err(reason)?;
        let found = found.page(run.plan.options.page as usize, paged).map_err(bad)?;
        let (output, kind) = (program.output, label_type(dtype));
        if matches!(run.plan.columns[target.column].layout, Layout::Dense { .. }) {
            return labels.run(found, image, program, (fill, kind), row.dense(target.column)).map_err(bad);
        }
        let length = output.area() as usize * kind.bytes();
        run.reserve(row, length);
        let (room, shape) = row.ragged(target.column);
        let Room::Free(room) = room else { unreachable!("sizes of masks are not planned") };
        fit(room, length, 0).map_err(bad)?;
        *shape = Shape::new(&[u64::from(output.height), u64::from(output.width)]);
        labels.run(found, image, program, (fill, kind), room).map_err(bad)
    }

    /// Transforms one plane per remaining box.
    fn stack(
        &mut self,
        of: &TargetWork<'_>,
        (fill, dtype): (i64, DType),
    ) -> Result<(Vec<u8>, Vec<u64>), String> {
        let TargetWork { image, program, target, .. } = *of;
        let stack = Stack::of(of.buffer, target.field)?;
        let chosen = self.chosen(target, stack.count())?;
        let kind = label_type(dtype);
        let length = program.output.area() as usize * kind.bytes();
        let mut out = Vec::new();
        fit(&mut out, length.saturating_mul(chosen.len()), 0).map_err(|e| e.to_string())?;
        for (number, out) in chosen.iter().zip(out.chunks_exact_mut(length.max(1))) {
            let found = stack.plane(*number, image, &mut self.polygons, &mut self.plane)?;
            self.labels.run(found, image, program, (fill, kind), out).map_err(|e| e.to_string())?;
        }
        let Size { width, height } = program.output;
        Ok((out, vec![chosen.len() as u64, u64::from(height), u64::from(width)]))
    }

    /// Indices of the values that are kept out of `count`.
    fn chosen(&self, target: &TargetPlan, count: usize) -> Result<Vec<usize>, String> {
        let Some(boxes) = target.follows else { return Ok((0..count).collect()) };
        let (kept, boxes) = self.kept.get(&boxes).ok_or("its boxes were not read before it")?;
        if *boxes != count {
            return Err(format!("{count} values for {boxes} boxes"));
        }
        Ok(kept.clone())
    }

    /// The sample's boxes (left, top, right, bottom in pixels) before anything is done to them.
    pub(crate) fn given_boxes(
        run: &EpochRun,
        (sample, image): (u64, Size),
        buffer: &SampleBuffer,
        views: &ImageViews,
    ) -> Result<Option<Vec<[f64; 4]>>> {
        for target in &views.targets {
            if let TargetKind::Boxes(rules) = &target.kind {
                let bad = |reason: String| {
                    Error::sample(run.locate_field(sample, target.field), Stage::Transform, reason)
                };
                return read_all(buffer, target.field, rules, image).map(Some).map_err(bad);
            }
        }
        Ok(None)
    }

    fn boxes(&mut self, of: &TargetWork<'_>, rules: &Boxes) -> Result<Vec<f32>, String> {
        let TargetWork { image, program, target, .. } = *of;
        let given = read_all(of.buffer, target.field, rules, image)?;
        let kept = self.mover.boxes(program, image, rules, &given).map_err(|e| e.to_string())?;
        self.kept.insert(target.column, (kept.iter().map(|kept| kept.number).collect(), given.len()));
        let written = kept.iter().flat_map(|kept| write_box(rules, kept.corners, program.output));
        Ok(written.map(|value| value as f32).collect())
    }

    /// Points are in pixels: (0, 0) is the centre of the first one.
    fn keypoints(&mut self, of: &TargetWork<'_>) -> Result<(Vec<u64>, Vec<f32>), String> {
        let TargetWork { image, program, target, .. } = *of;
        let mut found = numbers(of.buffer, target.field)?;
        let each = found.shape.last().copied().unwrap_or(0) as usize;
        if found.values.is_empty() {
            return Ok((vec![0, if each == 3 { 3 } else { 2 }], Vec::new()));
        }
        if !matches!(each, 2 | 3) || found.shape.len() < 2 {
            return Err(format!("keypoints have shape [n, 2] or [n, 3], not {:?}", found.shape));
        }
        let chosen = self.chosen(target, found.rows())?;
        let width = found.width();
        let mut values: Vec<f64> =
            chosen.iter().flat_map(|row| &found.values[row * width..(row + 1) * width]).copied().collect();
        self.mover.keypoints(program, image, each, &mut values).map_err(|e| e.to_string())?;
        found.shape[0] = chosen.len() as u64;
        Ok((found.shape, values.into_iter().map(|value| value as f32).collect()))
    }

    fn per_box(&self, of: &TargetWork<'_>, dtype: DType) -> Result<(Vec<u64>, Vec<u8>), String> {
        let TargetWork { buffer, target, .. } = *of;
        let (mut shape, bytes): (Vec<u64>, Vec<u8>) = match buffer.value(target.field) {
            Value::Array { dtype: stored, .. } if *stored != dtype => {
                return Err(format!("array of {}, but the column is {}", stored.name(), dtype.name()));
            }
            Value::Array { dimensions, shape, bytes, .. } => {
                (shape[..*dimensions as usize].to_vec(), buffer.bytes(bytes).to_vec())
            }
            _ => {
                let found = numbers(buffer, target.field)?;
                let bytes = if dtype == DType::I64 {
                    found.values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect()
                } else {
                    found.values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect()
                };
                (found.shape, bytes)
            }
        };
        let count = shape.first().copied().unwrap_or(0) as usize;
        let chosen = self.chosen(target, count)?;
        let each = bytes.len().checked_div(count).unwrap_or(0);
        if shape.is_empty() {
            shape.push(0);
        }
        shape[0] = chosen.len() as u64;
        Ok((shape, chosen.iter().flat_map(|row| &bytes[row * each..(row + 1) * each]).copied().collect()))
    }
}

/// A sample's boxes as corners, in pixels.
fn read_all(
    buffer: &SampleBuffer,
    field: usize,
    rules: &Boxes,
    image: Size,
) -> Result<Vec<[f64; 4]>, String> {
    let found = numbers(buffer, field)?;
    if found.rows() > 0 && (found.shape.len() != 2 || found.width() != 4) {
        return Err(format!("boxes have shape [n, 4], not {:?}", found.shape));
    }
    Ok(found.values.as_chunks::<4>().0.iter().map(|four| read_boxes(rules, *four, image)).collect())
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
