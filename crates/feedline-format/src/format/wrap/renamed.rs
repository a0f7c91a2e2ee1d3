//! Renamed and fewer fields.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};

/// Selected and renamed fields. Each has one or more candidates in the wrapped set; the first that a sample has is
/// used.
#[derive(Debug)]
pub struct Renamed {
    inner: Arc<dyn Format>,
    schema: Schema,
    candidates: Vec<Vec<usize>>,
}

impl Renamed {
    /// `schema` and the candidates of each of its fields, by position in the wrapped schema.
    pub fn new(inner: Arc<dyn Format>, schema: Schema, candidates: Vec<Vec<usize>>) -> Self {
        Renamed { inner, schema, candidates }
    }

    fn wanted(&self, fields: &FieldSet) -> FieldSet {
        let mut set = FieldSet::none(self.inner.schema().fields.len());
        for field in fields.iter() {
            self.candidates[field].iter().for_each(|c| set.insert(*c));
        }
        set
    }
}

impl Format for Renamed {
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
        self.inner.fingerprint()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.inner.read(sample, &self.wanted(fields), into)?;
        // A field that is not wanted stays missing even if another one shares its candidate.
        into.rearrange(
            self.candidates
                .iter()
                .enumerate()
                .map(|(field, candidates)| if fields.has(field) { candidates.as_slice() } else { &[] }),
        );
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        self.inner.locate(sample)
    }
}

impl Renamed {
    /// The candidate that has the value, or the first.
    fn stored_in(&self, sample: u64, field: usize) -> Option<usize> {
        let candidates = &self.candidates[field];
        let present = candidates.iter().find(|c| self.inner.byte_length(sample, **c).is_some());
        present.or(candidates.first()).copied()
    }
}

impl Index for Renamed {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.candidates[field].iter().any(|c| self.inner.knows_byte_lengths(*c))
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.candidates[field].iter().find_map(|c| self.inner.byte_length(sample, *c))
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let present = self.candidates[field].iter().find(|c| self.inner.byte_length(sample, **c).is_some());
        match present {
            Some(candidate) => self.inner.read_bytes(sample, *candidate, into),
            None => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        match self.stored_in(sample, field) {
            Some(candidate) => self.inner.stored_at(sample, candidate),
            None => Ok(None),
        }
    }

    fn stored_index(&self, sample: u64, field: usize) -> Result<Option<Vec<u8>>> {
        match self.stored_in(sample, field) {
            Some(candidate) => self.inner.stored_index(sample, candidate),
            None => Ok(None),
        }
    }

    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        match self.stored_in(sample, field) {
            Some(candidate) => self.inner.piece_table(sample, candidate, into),
            None => Ok(None),
        }
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.stored_in(sample, field) {
            Some(candidate) => self.inner.read_part(sample, candidate, offset, into),
            None => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.candidates[field].iter().find_map(|c| self.inner.image_meta(sample, *c))
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.candidates[field].iter().find_map(|c| self.inner.int_value(sample, *c))
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        self.candidates[field].iter().find_map(|c| self.inner.array_length(sample, *c))
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        let present = self.candidates[field].iter().find(|c| self.inner.array_length(sample, **c).is_some());
        match present {
            Some(candidate) => self.inner.read_elements(sample, *candidate, first, into),
            None => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }
}

impl Extents for Renamed {
    fn prepare(&self, samples: &[u64]) {
        self.inner.prepare(samples);
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    forward_objects!(inner);

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        self.inner.extents(sample, &self.wanted(fields), out);
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        let present = self.candidates[field].iter().find(|c| self.inner.array_length(sample, **c).is_some());
        if let Some(candidate) = present {
            self.inner.element_extents(sample, *candidate, elements, out);
        }
    }
}
