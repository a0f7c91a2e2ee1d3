//! [`Extents`]: which bytes to fetch before a sample is read.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::sample::{Extent, FieldSet};
use crate::source::{Seen, Source};

/// Where the bytes of samples are stored, for prefetching.
///
/// The objects and their numbers never change while the data set is open. The default methods are for formats that
/// plan nothing.
pub trait Extents {
    /// Number of objects that [`extents`](Self::extents) refers to; 0 if it plans nothing.
    fn object_count(&self) -> u32 {
        0
    }

    /// The source and name of object `number` (below [`object_count`](Self::object_count)).
    fn object(&self, _number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        None
    }

    /// State of object `number` when the data set was opened, if known (from a listing).
    fn seen(&self, _number: u32) -> Option<Seen> {
        None
    }

    /// Whether some objects are remote, so that it is worth fetching bytes before they are needed.
    fn is_remote(&self) -> bool {
        (0..self.object_count())
            .any(|number| self.object(number).is_some_and(|(source, _)| source.is_remote()))
    }

    /// Reads, many at a time, the indexes that [`extents`](Self::extents) of these samples needs. Called
    /// before bytes are read ahead, where each index would otherwise take a round trip of its own.
    fn prepare(&self, _samples: &[u64]) {}

    /// Adds the bytes that `read` will need to `out`, for prefetching. Adds nothing if there is no plan; they are
    /// then read when needed.
    fn extents(&self, _sample: u64, _fields: &FieldSet, _out: &mut Vec<Extent>) {}

    /// The same for some elements of an array that [`Index::read_elements`](super::Index::read_elements) can read.
    fn element_extents(&self, _sample: u64, _field: usize, _elements: Range<u64>, _out: &mut Vec<Extent>) {}
}
