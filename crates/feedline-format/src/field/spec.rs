//! The fields of a data set.

use serde::{Deserialize, Serialize};

use super::Kind;

/// One column of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSpec {
    /// Its name.
    pub name: String,
    /// What it contains.
    pub kind: Kind,
    /// Whether samples may lack it.
    #[serde(default)]
    pub optional: bool,
    /// Whether its bytes are a Python pickle. Only Python can turn that into a value, and only if the user allows it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pickled: bool,
    /// For integers that are dates or times: their unit, in Arrow's notation (`timestamp[ms]`, `date32[day]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

impl FieldSpec {
    /// A field that every sample has.
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        FieldSpec { name: name.into(), kind, optional: false, pickled: false, unit: None }
    }

    /// Sets whether samples may lack the field.
    pub fn optional(mut self, optional: bool) -> Self {
        self.optional = optional;
        self
    }
}

/// The columns of a data set, and the names of its integer labels if they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Sorted as in samples.
    pub fields: Vec<FieldSpec>,
    /// Class names by label, if the source has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
}

impl Schema {
    /// The position of the field with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }
}
