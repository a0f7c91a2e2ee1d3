//! `ReplaceLabel`: another label for chosen samples. It is used in the list of an integer field, not of an image.

use serde::{Deserialize, Serialize};

use super::op::{Form, Op};
use super::params::{Params, Place};

/// Gives the samples `indices` the label `new_label`, as in FFCV.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceLabel {
    /// Samples, ascending.
    pub indices: Vec<u64>,
    /// The new label.
    pub new_label: i64,
}

impl ReplaceLabel {
    /// The label of this sample.
    pub(crate) fn label(&self, sample: u64, label: i64) -> i64 {
        if self.indices.binary_search(&sample).is_ok() { self.new_label } else { label }
    }
}

impl Op for ReplaceLabel {
    fn check(&self) -> Result<(), String> {
        if self.indices.is_sorted() { Ok(()) } else { Err("indices must be ascending".to_owned()) }
    }

    fn output(&self, _before: Form) -> Result<Form, String> {
        Err("is for an integer field such as a label, not for images".to_owned())
    }

    fn draw(&self, _place: &Place, _into: &mut Params) -> Result<(), String> {
        Err("is not for images".to_owned())
    }
}
