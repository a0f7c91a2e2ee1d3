//! Mixes samples: one worker makes the rows of a group and mixes them while they are in its CPU cache.

mod mosaic;
mod objects;
mod paste;

use feedline_pixels::{Dtype, RowForm, Size, blend_pair, exchange_boxes};

use super::plan::Plan;
use super::targets::TargetKind;
use super::workers::EpochRun;
use crate::batch::{Layout, RowMut};
use crate::error::{Error, Result, Stage};
use crate::spec::LoaderOptions;
use crate::transform::{BatchTransform, MixAction, MixKey, Soft};

/// A row and the position of its sample in the epoch.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) position: u64,
    pub(super) row: RowMut<'a>,
}

/// What is mixed, and how it is stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct MixPlan {
    ops: Vec<BatchTransform>,
    /// Number of rows that are made together.
    pub(crate) group: u64,
    soft: Vec<Soft>,
    /// Image columns: their row form and element type.
    images: Vec<(usize, RowForm, Dtype)>,
    /// Columns of soft labels (shares of classes).
    labels: Vec<usize>,
    /// Columns of masks.
    masks: Vec<(usize, RowForm)>,
}

fn refuse(reason: impl std::fmt::Display) -> Error {
    Error::option("batch_transforms", reason.to_string())
}

impl MixPlan {
    /// Checks everything that does not depend on the data.
    pub(super) fn new(options: &LoaderOptions) -> Result<Self> {
        let ops = options.batch_transforms.clone();
        for (at, op) in ops.iter().enumerate() {
            let named = |reason| refuse(format!("number {} ({}): {reason}", at + 1, op.name()));
            op.check().map_err(named)?;
        }
        let group = ops.iter().map(BatchTransform::group).max().unwrap_or(1);
        if !options.batch_size.is_multiple_of(group) {
            let why = "samples that are mixed with each other must be in one batch of one rank";
            return Err(refuse(format!(
                "batch_size {} is not a multiple of {group}: {why}",
                options.batch_size
            )));
        }
        Ok(MixPlan { soft: soft_labels(&ops)?, ops, group, ..MixPlan::default() })
    }

    /// The soft label that this field becomes: its place and its number of classes.
    pub(super) fn soft_label(&self, field: &str) -> Option<(usize, u64)> {
        let at = self.soft.iter().position(|soft| soft.label == field)?;
        Some((at, self.soft[at].classes))
    }

    /// Writes a label as shares of classes.
    pub(super) fn write_soft(&self, soft: usize, label: i64, out: &mut [u8]) -> Result<(), String> {
        let Soft { classes, smoothing, .. } = &self.soft[soft];
        let place = u64::try_from(label).ok().filter(|label| label < classes);
        let Some(place) = place else {
            return Err(format!("label {label} is not one of {classes} classes (num_classes)"));
        };
        let off = (smoothing / *classes as f64) as f32;
        let on = (1.0 - smoothing + smoothing / *classes as f64) as f32;
        for (class, share) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *share = if class as u64 == place { on } else { off }.to_le_bytes();
        }
        Ok(())
    }

    /// Positions of the members' groups that are not among the members.
    pub(super) fn partners_on_other_ranks(&self, members: &[Member<'_>], positions: u64) -> Vec<u64> {
        let is_member = |position: u64| members.iter().any(|member| member.position == position);
        let mut absent = Vec::new();
        for member in members {
            let first = member.position - member.position % self.group;
            let others = (first..(first + self.group).min(positions)).filter(|at| !is_member(*at));
            for position in others {
                if !absent.contains(&position) {
                    absent.push(position);
                }
            }
        }
        absent
    }
}

/// How each label field becomes a soft label; all operations must agree. Smoothing given once applies to all.
fn soft_labels(ops: &[BatchTransform]) -> Result<Vec<Soft>> {
    let mut found: Vec<Soft> = Vec::new();
    for soft in ops.iter().flat_map(BatchTransform::soft) {
        match found.iter_mut().find(|other| other.label == soft.label) {
            None => found.push(soft),
            Some(other) if other.classes != soft.classes => {
                let reason = format!("{}: num_classes {} and {}", soft.label, other.classes, soft.classes);
                return Err(refuse(reason));
            }
            Some(other) => other.smoothing = other.smoothing.max(soft.smoothing),
        }
    }
    Ok(found)
}

impl Plan {
    /// Finds the columns that are mixed, and refuses those that cannot be.
    pub(super) fn plan_mix(&mut self) -> Result<()> {
        if self.mix.ops.is_empty() {
            return Ok(());
        }
        self.check_labels()?;
        for views in &self.image_fields {
            for (column, plan) in &views.outputs {
                let (image, spec) = (&self.images[*plan], &self.columns[*column]);
                let Some(size) = image.output().filter(|_| image.copies() == 1) else {
                    if self.mix.group == 1 {
                        continue;
                    }
                    return Err(refuse(format!("{}: images that are mixed have one size", spec.name)));
                };
                let finish = image.finish();
                let channels = finish.channels.count();
                let form = RowForm::new(size, channels, finish.dtype.bytes(), finish.layout);
                self.mix.images.push((*column, form, finish.dtype));
            }
            for target in &views.targets {
                if let (TargetKind::Mask { dtype, .. }, Layout::Dense { shape }) =
                    (&target.kind, &self.columns[target.column].layout)
                {
                    let size = Size::new(shape[1] as u32, shape[0] as u32);
                    let form = RowForm { size, channels: 1, bytes: dtype.size(), planes: true };
                    self.mix.masks.push((target.column, form));
                }
            }
        }
        let each: Vec<BatchTransform> = self.mix.ops.iter().flat_map(|op| op.each()).cloned().collect();
        each.iter().try_for_each(|op| self.check_mixable(op))
    }

    fn check_labels(&mut self) -> Result<()> {
        for soft in &self.mix.soft {
            let column = self.columns.iter().position(|column| column.name == soft.label);
            let shares = |at: usize| matches!(self.outputs[at], super::plan::Output::Soft { .. });
            match column.filter(|at| shares(*at)) {
                Some(column) => self.mix.labels.push(column),
                None => {
                    return Err(refuse(format!(
                        "there is no integer field '{}' to make shares of",
                        soft.label
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_mixable(&self, op: &BatchTransform) -> Result<()> {
        let kinds: Vec<&TargetKind> =
            self.image_fields.iter().flat_map(|views| &views.targets).map(|target| &target.kind).collect();
        let name = op.name();
        match op {
            BatchTransform::MixUp(_) if !kinds.is_empty() => {
                Err(refuse(format!("{name}: blended images have no one mask or box (targets)")))
            }
            BatchTransform::MixUp(_) if self.mix.images.iter().any(|(_, _, dtype)| *dtype == Dtype::F16) => {
                Err(refuse(format!("{name}: needs dtype float32, bfloat16 or uint8, not float16")))
            }
            BatchTransform::CutMix(_)
                if kinds.iter().any(|kind| !matches!(kind, TargetKind::Mask { stack: false, .. })) =>
            {
                Err(refuse(format!(
                    "{name}: masks move with the box, but boxes and keypoints cannot (targets)"
                )))
            }
            BatchTransform::Mosaic(_) if !self.mix.labels.is_empty() => Err(refuse(format!(
                "{name}: four samples have no one label; mix labels with MixUp or CutMix alone"
            ))),
            BatchTransform::CopyPaste(paste) => self.check_paste(paste),
            _ => Ok(()),
        }
    }
}

impl EpochRun {
    /// Mixes the members of each group, which are in the order of their positions.
    pub(super) fn mix(&self, members: &mut [Member<'_>]) {
        let group = self.plan.mix.group;
        for (place, op) in self.plan.mix.ops.iter().enumerate() {
            for unit in members.chunk_by_mut(|a, b| a.position / group == b.position / group) {
                if let Err(error) = self.mix_unit(op, place as u64, unit) {
                    self.fail_rows(unit, &error);
                }
            }
        }
    }

    /// Marks the finished rows of a group as failed.
    fn fail_rows(&self, unit: &mut [Member<'_>], error: &feedline_pixels::Error) {
        for Member { row, .. } in unit.iter_mut().filter(|member| member.row.is_done()) {
            let place = self.locate(row.sample());
            row.invalidate(Error::sample(place, Stage::Transform, error.to_string()));
        }
    }

    fn mix_key(&self, position: u64, place: u64) -> MixKey {
        let options = &self.plan.options;
        let global_batch = self.batches.global_size();
        MixKey { seed: options.seed, epoch: self.epoch, position, global_batch, place }
    }

    fn mix_unit(
        &self,
        op: &BatchTransform,
        place: u64,
        unit: &mut [Member<'_>],
    ) -> feedline_pixels::Result<()> {
        let chosen = op.chosen(self.mix_key(unit[0].position, place));
        if let BatchTransform::Mosaic(_) = chosen {
            return self.mosaic(op, place, unit);
        }
        for pair in unit.chunk_by_mut(|a, b| a.position / 2 == b.position / 2) {
            let [a, b] = pair else { continue };
            if !a.row.is_done() || !b.row.is_done() {
                // Without its partner, a sample stays unchanged.
                continue;
            }
            let actions =
                (op.action(self.mix_key(a.position, place)), op.action(self.mix_key(b.position, place)));
            if let (MixAction::Paste { .. }, _) | (_, MixAction::Paste { .. }) = actions {
                self.paste((&mut a.row, &mut b.row), actions)?;
            } else {
                self.plan.mix.mix_pair(&mut a.row, &mut b.row, actions)?;
            }
        }
        Ok(())
    }
}

impl MixPlan {
    fn mix_pair(
        &self,
        a: &mut RowMut<'_>,
        b: &mut RowMut<'_>,
        actions: (MixAction, MixAction),
    ) -> feedline_pixels::Result<()> {
        let Some((_, form, _)) = self.images.first() else { return Ok(()) };
        let own = |action: MixAction| match action {
            MixAction::Blend { own } => own as f32,
            MixAction::Cut(cut) => cut.own(form.size) as f32,
            _ => 1.0,
        };
        let shares = (own(actions.0), own(actions.1));
        if shares == (1.0, 1.0) {
            return Ok(());
        }
        if matches!(actions, (MixAction::Cut(_), _) | (_, MixAction::Cut(_))) {
            let forms = self.images.iter().map(|(column, form, _)| (column, form));
            for (column, form) in forms.chain(self.masks.iter().map(|(column, form)| (column, form))) {
                let region = |action: MixAction| match action {
                    MixAction::Cut(cut) => cut.region(form.size),
                    _ => feedline_pixels::Region::new(0, 0, 0, 0),
                };
                let boxes = (region(actions.0), region(actions.1));
                exchange_boxes(form, a.dense(*column), b.dense(*column), boxes)?;
            }
        } else {
            for (column, _, dtype) in &self.images {
                blend_pair(*dtype, a.dense(*column), b.dense(*column), shares)?;
            }
        }
        for column in &self.labels {
            blend_pair(Dtype::F32, a.dense(*column), b.dense(*column), shares)?;
        }
        Ok(())
    }
}
