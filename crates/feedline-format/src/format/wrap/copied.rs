//! A data set that is being copied to a local pack: samples are read from the pack once it is complete.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};

/// The local copy of a data set: empty until it is complete.
pub type LocalCopy = Arc<OnceLock<Arc<dyn Format>>>;

/// Reads from the local copy once it is complete, and from the source until then.
///
/// Name, fingerprint, lengths and objects stay those of the source, because they may not change after opening. The
/// copy has the same samples and fields.
pub struct Copied {
    source: Arc<dyn Format>,
    copy: LocalCopy,
    /// Keeps the thread that makes the copy running as long as there is a reader.
    #[expect(dead_code, reason = "held for what dropping it does")]
    maker: Arc<dyn Any + Send + Sync>,
}

impl Copied {
    /// `source` with its `copy`. `maker` is dropped when the last reader is.
    pub fn new(source: Arc<dyn Format>, copy: LocalCopy, maker: Arc<dyn Any + Send + Sync>) -> Self {
        Copied { source, copy, maker }
    }

    fn nearest(&self) -> &dyn Format {
        &**self.copy.get().unwrap_or(&self.source)
    }
}

impl std::fmt::Debug for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copied")
            .field("source", &self.source)
            .field("copy", &self.copy)
            .finish_non_exhaustive()
    }
}

impl Format for Copied {
    forward_description!(source);

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    fn schema(&self) -> &Schema {
        self.source.schema()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.source.fingerprint()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.nearest().read(sample, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.source.locate(sample)
    }
}

impl Index for Copied {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.source.byte_length(sample, field)
    }

    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.source.knows_byte_lengths(field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let fits = |copy: &&Arc<dyn Format>| copy.byte_length(sample, field) == Some(into.len() as u64);
        self.copy.get().filter(fits).unwrap_or(&self.source).read_bytes(sample, field, into)
    }

    /// Where the bytes lie changes when the copy is complete.
    fn stored_at(&self, _sample: u64, _field: usize) -> Result<Option<Extent>> {
        Ok(None)
    }

    fn stored_index(&self, _sample: u64, _field: usize) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Only of the copy: a part must not be read from it by the table of the source.
    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        self.copy.get().map_or(Ok(None), |copy| copy.piece_table(sample, field, into))
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        self.nearest().read_part(sample, field, offset, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.nearest().image_meta(sample, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.nearest().int_value(sample, field)
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        self.source.array_length(sample, field)
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        self.source.read_elements(sample, field, first, into)
    }
}

/// The objects are always the source's, so that a plan made before the copy was complete stays valid. After that
/// nothing is planned, because the copy is local.
impl Extents for Copied {
    forward_objects!(source);

    fn is_remote(&self) -> bool {
        self.nearest().is_remote()
    }

    fn prepare(&self, samples: &[u64]) {
        self.nearest().prepare(samples);
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if self.copy.get().is_none() {
            self.source.extents(sample, fields, out);
        }
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        self.source.element_extents(sample, field, elements, out);
    }
}
