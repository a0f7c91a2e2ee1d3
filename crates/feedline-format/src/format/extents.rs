//! [`Extents`]: which bytes there are to fetch before a sample is read.

use std::borrow::Cow;
use std::sync::Arc;

use crate::sample::{Extent, FieldSet};
use crate::source::{Seen, Source};

/// Where the bytes of samples lie, for reading ahead.
///
/// The objects and their numbers never change while the data set is open. Every method has an answer for formats that
/// plan nothing.
pub trait Extents {
    /// How many objects [`extents`](Self::extents) counts in; 0 if it plans nothing.
    fn object_count(&self) -> u32 {
        0
    }

    /// Where object `number` (below [`object_count`](Self::object_count)) is: its source and its name there.
    fn object(&self, _number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        None
    }

    /// What object `number` was when the data set was opened, if the format knows (a listing told).
    fn seen(&self, _number: u32) -> Option<Seen> {
        None
    }

    /// Whether some of its objects are far away, so that it pays to ask for bytes before they are needed.
    fn is_remote(&self) -> bool {
        (0..self.object_count())
            .any(|number| self.object(number).is_some_and(|(source, _)| source.is_remote()))
    }

    /// Readies whatever [`extents`](Self::extents) of these samples needs (indexes that are read on first use), many at a
    /// time. Only called for data that are far away, where one at a time would take a round trip each.
    fn prepare(&self, _samples: &[u64]) {}

    /// The bytes that `read` will ask for, for planning reads ahead. May be empty: no plan, read when needed.
    fn extents(&self, _sample: u64, _fields: &FieldSet, _out: &mut Vec<Extent>) {}
}
