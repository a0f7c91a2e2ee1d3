//! What a field is for, derived from its kind and name.

use super::{FieldSpec, Kind};

/// What a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The image of a sample.
    Image,
    /// The class of a sample.
    Label,
}

/// Names of integer fields that contain a class.
const CLASS_NAMES: [&str; 9] = [
    "label",
    "labels",
    "cls",
    "class",
    "class_id",
    "class_idx",
    "target",
    "category_id",
    "image/class/label",
];

impl Role {
    /// The usual name of a data set's only field of this role.
    pub const fn usual_name(self) -> &'static str {
        match self {
            Role::Image => "image",
            Role::Label => "label",
        }
    }

    /// Whether a field can have this role.
    pub fn fits(self, field: &FieldSpec) -> bool {
        match self {
            Role::Image => field.kind == Kind::Image,
            Role::Label => field.kind == Kind::Int && CLASS_NAMES.contains(&field.name.as_str()),
        }
    }
}
