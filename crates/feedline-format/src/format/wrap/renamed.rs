//! Renamed and fewer fields.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Seen, Source};

/// Selected and renamed fields. Each has one or more candidates in the wrapped set; the first that a sample has is
/// used.
#[derive(Debug)]
pub struct Renamed {
    behind: Arc<dyn Format>,
    schema: Schema,
    candidates: Vec<Vec<usize>>,
}

impl Renamed {
    /// `schema` and the candidates of each of its fields, by position in the wrapped schema.
    pub fn new(behind: Arc<dyn Format>, schema: Schema, candidates: Vec<Vec<usize>>) -> Self {
        Renamed { behind, schema, candidates }
    }

    fn wanted(&self, fields: &FieldSet) -> FieldSet {
        let mut set = FieldSet::none(self.behind.schema().fields.len());
        for field in fields.iter() {
            self.candidates[field].iter().for_each(|c| set.insert(*c));
        }
        set
    }
}

impl Format for Renamed {
    fn name(&self) -> &'static str {
        self.behind.name()
    }

    fn len(&self) -> u64 {
        self.behind.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.behind.fingerprint()
    }

    fn problems(&self) -> &[Error] {
        self.behind.problems()
    }

    fn warnings(&self) -> &[Error] {
        self.behind.warnings()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.behind.read(sample, &self.wanted(fields), into)?;
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
        self.behind.locate(sample)
    }
}

impl Index for Renamed {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.candidates[field].iter().any(|c| self.behind.knows_byte_lengths(*c))
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.candidates[field].iter().find_map(|c| self.behind.byte_length(sample, *c))
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let present = self.candidates[field].iter().find(|c| self.behind.byte_length(sample, **c).is_some());
        match present {
            Some(candidate) => self.behind.read_bytes(sample, *candidate, into),
            None => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        let candidates = &self.candidates[field];
        let present = candidates.iter().find(|c| self.behind.byte_length(sample, **c).is_some());
        match present.or(candidates.first()) {
            Some(candidate) => self.behind.stored_at(sample, *candidate),
            None => Ok(None),
        }
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.candidates[field].iter().find_map(|c| self.behind.image_meta(sample, *c))
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.candidates[field].iter().find_map(|c| self.behind.int_value(sample, *c))
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        self.candidates[field].iter().find_map(|c| self.behind.array_length(sample, *c))
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        let present = self.candidates[field].iter().find(|c| self.behind.array_length(sample, **c).is_some());
        match present {
            Some(candidate) => self.behind.read_elements(sample, *candidate, first, into),
            None => Err(Error::data(self.locate(sample), "the field is missing")),
        }
    }
}

impl Extents for Renamed {
    fn prepare(&self, samples: &[u64]) {
        self.behind.prepare(samples);
    }

    fn is_remote(&self) -> bool {
        self.behind.is_remote()
    }

    fn object_count(&self) -> u32 {
        self.behind.object_count()
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        self.behind.object(number)
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        self.behind.seen(number)
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        self.behind.extents(sample, &self.wanted(fields), out);
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        let present = self.candidates[field].iter().find(|c| self.behind.array_length(sample, **c).is_some());
        if let Some(candidate) = present {
            self.behind.element_extents(sample, *candidate, elements, out);
        }
    }
}
