//! Several sets, one after the other.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::format::{Extents, Format, Index};
use crate::sample::{DType, Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Seen, Source};

/// Several sets with the same fields, one after the other.
#[derive(Debug)]
pub struct Concatenated {
    pieces: Vec<Piece>,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    warnings: Vec<Error>,
}

#[derive(Debug)]
struct Piece {
    format: Arc<dyn Format>,
    /// Index after its last sample.
    end: u64,
    /// Number of objects of the sets before it.
    objects: u32,
}

impl Concatenated {
    /// All of `formats` must have the fields of `schema`, in the same order.
    pub fn new(formats: Vec<Arc<dyn Format>>, schema: Schema) -> Self {
        let prints: Vec<[u8; 16]> = formats.iter().map(|f| f.fingerprint().0).collect();
        let fingerprint = Fingerprint::of([&b"concat"[..]].into_iter().chain(prints.iter().map(|p| &p[..])));
        let problems = formats.iter().flat_map(|f| f.problems().iter().cloned()).collect();
        let warnings = formats.iter().flat_map(|f| f.warnings().iter().cloned()).collect();
        let (mut end, mut objects) = (0, 0);
        let piece = |format: Arc<dyn Format>| {
            end += format.len();
            let before = objects;
            objects += format.object_count();
            Piece { format, end, objects: before }
        };
        let pieces = formats.into_iter().map(piece).collect();
        Concatenated { pieces, schema, fingerprint, problems, warnings }
    }

    fn piece(&self, sample: u64) -> Result<(&Piece, u64)> {
        let at = self.pieces.partition_point(|p| p.end <= sample);
        let start = if at == 0 { 0 } else { self.pieces[at - 1].end };
        let piece = self.pieces.get(at).ok_or_else(|| {
            Error::option("index", format!("sample {sample} is out of range: there are {}", self.len()))
        })?;
        Ok((piece, sample - start))
    }
}

impl Format for Concatenated {
    fn name(&self) -> &'static str {
        let first = self.pieces.first().map_or("concat", |p| p.format.name());
        if self.pieces.iter().all(|p| p.format.name() == first) { first } else { "concat" }
    }

    fn len(&self) -> u64 {
        self.pieces.last().map_or(0, |p| p.end)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn warnings(&self) -> &[Error] {
        &self.warnings
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.read(sample, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.piece(sample).map(|(piece, sample)| piece.format.locate(sample)).unwrap_or_default()
    }
}

impl Index for Concatenated {
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.piece(0).is_ok_and(|(piece, _)| piece.format.knows_byte_lengths(field))
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.byte_length(sample, field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.read_bytes(sample, field, into)
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        let (piece, sample) = self.piece(sample)?;
        let found = piece.format.stored_at(sample, field)?;
        Ok(found.map(|extent| Extent { object: extent.object + piece.objects, ..extent }))
    }

    fn stored_index(&self, sample: u64, field: usize) -> Result<Option<Vec<u8>>> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.stored_index(sample, field)
    }

    fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.piece_table(sample, field, into)
    }

    fn read_part(&self, sample: u64, field: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.read_part(sample, field, offset, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.image_meta(sample, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.int_value(sample, field)
    }

    fn array_length(&self, sample: u64, field: usize) -> Option<(DType, u64)> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.array_length(sample, field)
    }

    fn read_elements(&self, sample: u64, field: usize, first: u64, into: &mut [u8]) -> Result<()> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.read_elements(sample, field, first, into)
    }
}

impl Extents for Concatenated {
    fn prepare(&self, samples: &[u64]) {
        for piece in &self.pieces {
            let first = piece.end - piece.format.len();
            let inside = samples.iter().filter(|sample| (first..piece.end).contains(*sample));
            let own: Vec<u64> = inside.map(|sample| sample - first).collect();
            if !own.is_empty() {
                piece.format.prepare(&own);
            }
        }
    }

    fn is_remote(&self) -> bool {
        self.pieces.iter().any(|piece| piece.format.is_remote())
    }

    fn object_count(&self) -> u32 {
        self.pieces.last().map_or(0, |p| p.objects + p.format.object_count())
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        let at = self.pieces.partition_point(|p| p.objects + p.format.object_count() <= number);
        let piece = self.pieces.get(at)?;
        piece.format.object(number - piece.objects)
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        let at = self.pieces.partition_point(|p| p.objects + p.format.object_count() <= number);
        let piece = self.pieces.get(at)?;
        piece.format.seen(number - piece.objects)
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        let Ok((piece, sample)) = self.piece(sample) else { return };
        let before = out.len();
        piece.format.extents(sample, fields, out);
        for extent in &mut out[before..] {
            extent.object += piece.objects;
        }
    }

    fn element_extents(&self, sample: u64, field: usize, elements: Range<u64>, out: &mut Vec<Extent>) {
        let Ok((piece, sample)) = self.piece(sample) else { return };
        let before = out.len();
        piece.format.element_extents(sample, field, elements, out);
        for extent in &mut out[before..] {
            extent.object += piece.objects;
        }
    }
}
