//! A selection of samples.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};

/// Some samples of a set, in a given order; a sample may occur more than once.
#[derive(Debug)]
pub struct Selected {
    inner: Arc<dyn Format>,
    indices: Arc<[u64]>,
    fingerprint: Fingerprint,
}

impl Selected {
    /// The samples at `indices`; an error names the first that is out of range.
    pub fn new(inner: Arc<dyn Format>, indices: Arc<[u64]>) -> Result<Self> {
        if let Some(bad) = indices.iter().find(|i| **i >= inner.len()) {
            let reason = format!("index {bad} is out of range: the data set has {} samples", inner.len());
            return Err(Error::option("indices", reason));
        }
        let mut hasher = blake3::Hasher::new();
        for index in indices.iter() {
            hasher.update(&index.to_le_bytes());
        }
        let hash = hasher.finalize();
        let fingerprint = Fingerprint::of([&b"select"[..], &inner.fingerprint().0, &hash.as_bytes()[..]]);
        Ok(Selected { inner, indices, fingerprint })
    }

    fn index(&self, sample: u64) -> Result<u64> {
        let at = usize::try_from(sample).ok().and_then(|at| self.indices.get(at)).copied();
        at.ok_or_else(|| {
            let reason = format!("sample {sample} is out of range: {} are selected", self.indices.len());
            Error::option("index", reason)
        })
    }
}

impl Format for Selected {
    forward_description!(inner);

    fn len(&self) -> u64 {
        self.indices.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn schema(&self) -> &Schema {
        self.inner.schema()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.inner.read(self.index(sample)?, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.index(sample).map(|i| self.inner.locate(i)).unwrap_or_default()
    }
}

impl Index for Selected {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.inner.knows_byte_lengths(field)
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.inner.byte_length(self.index(sample).ok()?, field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        self.inner.read_bytes(self.index(sample)?, field, into)
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        self.inner.stored_at(self.index(sample)?, field)
    }

    fn stored_index(&self, sample: u64, field: usize) -> Result<Option<Vec<u8>>> {
        self.inner.stored_index(self.index(sample)?, field)
    }

    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        self.inner.piece_table(self.index(sample)?, field, into)
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_part(self.index(sample)?, field, offset, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.inner.image_meta(self.index(sample).ok()?, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.inner.int_value(self.index(sample).ok()?, field)
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        self.inner.array_length(self.index(sample).ok()?, field)
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_elements(self.index(sample)?, field, first, into)
    }
}

impl Extents for Selected {
    fn prepare(&self, samples: &[u64]) {
        let chosen: Vec<u64> =
            samples.iter().filter_map(|at| self.indices.get(*at as usize).copied()).collect();
        self.inner.prepare(&chosen);
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    forward_objects!(inner);

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if let Ok(index) = self.index(sample) {
            self.inner.extents(index, fields, out);
        }
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        if let Ok(index) = self.index(sample) {
            self.inner.element_extents(index, field, elements, out);
        }
    }
}
