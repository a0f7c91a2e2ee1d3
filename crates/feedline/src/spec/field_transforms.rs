//! The transforms of a field, or of its views.

use std::collections::BTreeMap;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::transform::Transform;

/// The transforms of one image field: one list, or several named views of the same image.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FieldTransforms {
    /// One result.
    Single(Vec<Transform>),
    /// One result per view, each with its own random draws, all from one read of the sample.
    Views(BTreeMap<String, Vec<Transform>>),
}

impl FieldTransforms {
    /// Every view's list.
    pub(crate) fn lists(&self) -> Vec<&Vec<Transform>> {
        match self {
            FieldTransforms::Single(list) => vec![list],
            FieldTransforms::Views(views) => views.values().collect(),
        }
    }

    /// Every view's list, mutable.
    pub(crate) fn lists_mut(&mut self) -> Vec<&mut Vec<Transform>> {
        match self {
            FieldTransforms::Single(list) => vec![list],
            FieldTransforms::Views(views) => views.values_mut().collect(),
        }
    }
}

/// Written by hand: the derived reader of untagged enums only says that nothing matches, not what is wrong.
impl<'de> Deserialize<'de> for FieldTransforms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldTransformsVisitor)
    }
}

struct FieldTransformsVisitor;

impl<'de> Visitor<'de> for FieldTransformsVisitor {
    type Value = FieldTransforms;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of transforms, or several by view")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(FieldTransforms::Single)
    }

    fn visit_map<A: MapAccess<'de>>(self, views: A) -> Result<Self::Value, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(views)).map(FieldTransforms::Views)
    }
}
