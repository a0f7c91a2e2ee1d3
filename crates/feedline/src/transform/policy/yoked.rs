//! `Yoked`: the draws of another view.

use serde::{Deserialize, Serialize};

use crate::transform::Transform;
use crate::transform::op::{Form, Op, check_inner, draw_checked};
use crate::transform::params::{Params, Place};

/// Draws like the transform at position `place` of view number `view`, so that both views get the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Yoked {
    /// Number of the view, in the order of their names.
    pub view: u64,
    /// The position in that view's list.
    pub place: u64,
    /// The transform; exactly one.
    pub transforms: Vec<Transform>,
}

impl Op for Yoked {
    fn check(&self) -> Result<(), String> {
        if self.transforms.len() == 1 {
            return Ok(());
        }
        Err(format!("{} transforms where exactly one is allowed", self.transforms.len()))
    }

    fn output(&self, before: Form) -> Result<Form, String> {
        check_inner(&self.transforms, before)
    }

    fn draw(&self, place: &Place, into: &mut Params) -> Result<(), String> {
        let there = place.of_view(self.view, self.place);
        self.transforms.iter().try_for_each(|transform| draw_checked(transform, &there, into))
    }

    fn depth(&self) -> usize {
        super::lists::depth(&self.transforms)
    }
}
