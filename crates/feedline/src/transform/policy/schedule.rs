//! `Schedule`: other transforms in other epochs.

use serde::{Deserialize, Serialize};

use super::lists::{depth, draw_all, either};
use crate::transform::Transform;
use crate::transform::op::{Form, Op, check_inner};
use crate::transform::params::{Params, Place};

/// Uses another list from each given epoch on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// First epoch and its list; the first starts at 0, epochs ascend.
    pub steps: Vec<(u64, Vec<Transform>)>,
}

impl Schedule {
    /// The list for this epoch.
    pub(crate) fn at(&self, epoch: u64) -> &[Transform] {
        let step = self.steps.iter().rev().find(|(first, _)| *first <= epoch);
        step.map_or(&[], |(_, transforms)| transforms)
    }
}

impl Op for Schedule {
    fn check(&self) -> Result<(), String> {
        let firsts: Vec<u64> = self.steps.iter().map(|(first, _)| *first).collect();
        if firsts.first() == Some(&0) && firsts.windows(2).all(|pair| pair[0] < pair[1]) {
            return Ok(());
        }
        Err(format!("steps must begin at epoch 0 and ascend, not {firsts:?}"))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        let mut form: Option<Form> = None;
        for (first, transforms) in &self.steps {
            let one = check_inner(transforms, before).map_err(|why| format!("from epoch {first}: {why}"))?;
            form = Some(form.map_or(Ok(one), |form| either(form, one))?);
        }
        Ok(form.unwrap_or(before))
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        draw_all(self.at(place.epoch()), place, into)
    }

    fn depth(&self) -> usize {
        self.steps.iter().map(|(_, transforms)| depth(transforms)).max().unwrap_or(1)
    }
}
