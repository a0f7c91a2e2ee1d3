//! Other numbers for the same classes, so that several sets can share one list of names.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema, Value};

/// A set whose classes have other numbers.
#[derive(Debug)]
pub struct Relabelled {
    inner: Arc<dyn Format>,
    schema: Schema,
    /// The field with the class, and the new number of each class.
    field: usize,
    numbers: Vec<i64>,
}

impl Relabelled {
    /// Replaces class `n` in `field` of `inner` by `numbers[n]` of `classes`.
    pub fn new(inner: Arc<dyn Format>, field: usize, numbers: Vec<i64>, classes: &[String]) -> Self {
        let schema = Schema { classes: Some(classes.to_vec()), ..inner.schema().clone() };
        Relabelled { inner, schema, field, numbers }
    }

    /// Numbers without a name stay as they are: -1 for "unknown", for example.
    fn number(&self, old: i64) -> i64 {
        usize::try_from(old).ok().and_then(|old| self.numbers.get(old).copied()).unwrap_or(old)
    }
}

impl Format for Relabelled {
    forward_description!(inner);

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        let numbers: Vec<u8> = self.numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        Fingerprint::of([&b"relabelled"[..], &self.inner.fingerprint().0, &numbers])
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.inner.read(sample, fields, into)?;
        if let Value::Int(old) = *into.value(self.field) {
            into.set(self.field, Value::Int(self.number(old)));
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        self.inner.locate(sample)
    }
}

impl Index for Relabelled {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.inner.knows_byte_lengths(field)
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.inner.byte_length(sample, field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        self.inner.read_bytes(sample, field, into)
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        self.inner.stored_at(sample, field)
    }

    fn stored_index(&self, sample: u64, field: usize) -> Result<Option<Vec<u8>>> {
        self.inner.stored_index(sample, field)
    }

    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        self.inner.piece_table(sample, field, into)
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_part(sample, field, offset, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.inner.image_meta(sample, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let old = self.inner.int_value(sample, field)?;
        Some(if field == self.field { self.number(old) } else { old })
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        self.inner.array_length(sample, field)
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_elements(sample, field, first, into)
    }
}

impl Extents for Relabelled {
    fn prepare(&self, samples: &[u64]) {
        self.inner.prepare(samples);
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    forward_objects!(inner);

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        self.inner.extents(sample, fields, out);
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        self.inner.element_extents(sample, field, elements, out);
    }
}
