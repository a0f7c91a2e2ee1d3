//! Pastes objects of one sample into another: the pixels under their masks, and with them masks, boxes and labels.

use feedline_pixels::{Result, RowForm, Size, copy_marked};

use super::objects::{Values, box_at, box_bytes, ragged_targets};
use super::refuse;
use crate::batch::RowMut;
use crate::loader::plan::{ImageViews, Plan};
use crate::loader::targets::{TargetKind, TargetPlan};
use crate::loader::workers::EpochRun;
use crate::random::Draw;
use crate::transform::{BatchTransform, Boxes, CopyPaste, MixAction};

impl Plan {
    /// Checks that there is one mask per box, because objects are pasted by their masks.
    pub(super) fn check_paste(&self, paste: &CopyPaste) -> crate::error::Result<()> {
        let [views] = &self.image_fields[..] else {
            return Err(refuse("CopyPaste: for data sets with one image"));
        };
        if views.outputs.len() != 1 {
            return Err(refuse("CopyPaste: for one view; several would get different objects"));
        }
        let stack = |target: &TargetPlan| {
            matches!(target.kind, TargetKind::Mask { stack: true, .. })
                && self.columns[target.column].name == paste.masks
                && target.follows.is_some()
        };
        let boxes = views.targets.iter().any(|target| matches!(target.kind, TargetKind::Boxes(_)));
        if boxes && views.targets.iter().any(stack) {
            return Ok(());
        }
        Err(refuse(format!(
            "CopyPaste: needs targets with a stack of masks '{}' and boxes that name it: T.Boxes(labels=[\"{}\", ...])",
            paste.masks, paste.masks
        )))
    }
}

/// Values of a sample before anything is pasted.
struct OriginalValues {
    image: Vec<u8>,
    values: Vec<Values>,
}

impl EpochRun {
    pub(super) fn paste<'a>(
        &self,
        (a, b): (&mut RowMut<'a>, &mut RowMut<'a>),
        actions: (MixAction, MixAction),
    ) -> Result<()> {
        let views = &self.plan.image_fields[0];
        let targets: Vec<&TargetPlan> = ragged_targets(views, 0).collect();
        let image = views.outputs[0].0;
        let before = |row: &mut RowMut<'_>| OriginalValues {
            image: row.dense(image).to_vec(),
            values: targets.iter().map(|target| Values::of(row, target.column)).collect(),
        };
        let (first, second) = (before(a), before(b));
        for (row, own, other, action) in [(a, &first, &second, actions.0), (b, &second, &first, actions.1)] {
            if let MixAction::Paste { share, seed } = action {
                self.paste_into(row, views, &targets, (own, other), (share, seed))?;
            }
        }
        Ok(())
    }

    fn paste_into(
        &self,
        row: &mut RowMut<'_>,
        views: &ImageViews,
        targets: &[&TargetPlan],
        (own, other): (&OriginalValues, &OriginalValues),
        (share, seed): (f64, u64),
    ) -> Result<()> {
        let mix = &self.plan.mix;
        let Some((column, form, _)) = mix.images.iter().find(|(column, ..)| *column == views.outputs[0].0)
        else {
            return Ok(());
        };
        let Some(stack) = self.stack_of(targets) else { return Ok(()) };
        let size = form.size;
        let mut draw = Draw::new(&[seed]);
        let chosen: Vec<usize> = (0..other.values[stack].count()).filter(|_| draw.chance(share)).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let marks = union(&other.values[stack], &chosen, size);
        copy_marked(form, &other.image, &marks, row.dense(*column))?;
        // Covered pixels are removed from the sample's own masks; objects that are covered entirely are removed.
        let planes: Vec<Vec<u8>> = (0..own.values[stack].count())
            .map(|number| uncovered(own.values[stack].one(number), &marks))
            .collect();
        let left: Vec<usize> =
            (0..planes.len()).filter(|at| planes[*at].iter().any(|byte| *byte != 0)).collect();
        let boxes = targets[stack].follows;
        for (at, target) in targets.iter().enumerate() {
            if target.follows != boxes && Some(target.column) != boxes {
                continue;
            }
            let (mine, theirs) = (&own.values[at], &other.values[at]);
            let mut made = if mine.shape.len() >= theirs.shape.len() { mine.none() } else { theirs.none() };
            for number in &left {
                match &target.kind {
                    TargetKind::Boxes(rules) => {
                        made.push(&fitted(mine, *number, &planes[*number], rules, size), mine);
                    }
                    TargetKind::Mask { .. } if at == stack => made.push(&planes[*number], mine),
                    _ => made.push(mine.one(*number), mine),
                }
            }
            for number in &chosen {
                made.push(theirs.one(*number), theirs);
            }
            made.put(row, target.column);
        }
        Ok(())
    }

    /// Index of the target that contains the masks for pasting.
    fn stack_of(&self, targets: &[&TargetPlan]) -> Option<usize> {
        let ops = self.plan.options.batch_transforms.iter().flat_map(BatchTransform::each);
        let name = ops.into_iter().find_map(|op| match op {
            BatchTransform::CopyPaste(paste) => Some(&paste.masks),
            _ => None,
        })?;
        targets.iter().position(|target| self.plan.columns[target.column].name == *name)
    }
}

/// One byte per pixel: whether one of the chosen masks covers it.
fn union(stack: &Values, chosen: &[usize], size: Size) -> Vec<u8> {
    let area = size.area() as usize;
    let mut marks = vec![0; area];
    for number in chosen {
        let plane = stack.one(*number);
        let bytes = plane.len() / area.max(1);
        for (mark, pixel) in marks.iter_mut().zip(plane.chunks_exact(bytes.max(1))) {
            *mark |= u8::from(pixel.iter().any(|byte| *byte != 0));
        }
    }
    marks
}

fn uncovered(plane: &[u8], marks: &[u8]) -> Vec<u8> {
    let bytes = plane.len() / marks.len().max(1);
    let mut left = plane.to_vec();
    for (pixel, _) in left.chunks_exact_mut(bytes.max(1)).zip(marks).filter(|(_, mark)| **mark != 0) {
        pixel.fill(0);
    }
    left
}

/// Shrinks a box to what remains of its mask, if a part was covered.
fn fitted(boxes: &Values, number: usize, plane: &[u8], rules: &Boxes, size: Size) -> Vec<u8> {
    let form =
        RowForm { size, channels: 1, bytes: plane.len() / (size.area() as usize).max(1), planes: true };
    let width = size.width as usize;
    let mut around = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];
    let marked = plane.chunks_exact(form.bytes.max(1)).enumerate();
    for (at, _) in marked.filter(|(_, pixel)| pixel.iter().any(|byte| *byte != 0)) {
        let (x, y) = ((at % width) as f64, (at / width) as f64);
        around = [around[0].min(x), around[1].min(y), around[2].max(x + 1.0), around[3].max(y + 1.0)];
    }
    let [left, top, right, bottom] = box_at(boxes, number, rules, size);
    let cut = [left.max(around[0]), top.max(around[1]), right.min(around[2]), bottom.min(around[3])];
    let corners = if cut[2] > cut[0] && cut[3] > cut[1] { cut } else { around };
    box_bytes(corners, rules, size)
}
