//! Formats made of formats: other names, a selection of samples, several sets in a row. None copies a byte.

use std::borrow::Cow;
use std::sync::Arc;

use super::Format;
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Seen, Source};

/// Fields picked and renamed. Each has one or more candidates in the set behind; a sample's first present one counts.
#[derive(Debug)]
pub(crate) struct Renamed {
    behind: Arc<dyn Format>,
    schema: Schema,
    candidates: Vec<Vec<usize>>,
}

impl Renamed {
    /// `schema` and the candidates of each of its fields, by position in the schema behind.
    pub(crate) fn new(behind: Arc<dyn Format>, schema: Schema, candidates: Vec<Vec<usize>>) -> Self {
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

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.behind.fingerprint()
    }

    fn problems(&self) -> &[Error] {
        self.behind.problems()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.behind.read(sample, &self.wanted(fields), into)?;
        // A field that was not asked for stays missing even if another one shares its candidate.
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

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.candidates[field].iter().find_map(|c| self.behind.image_meta(sample, *c))
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.candidates[field].iter().find_map(|c| self.behind.int_value(sample, *c))
    }

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
}

/// Some samples of a set, in a given order; a sample may come more than once.
#[derive(Debug)]
pub(crate) struct Selected {
    behind: Arc<dyn Format>,
    indices: Arc<[u64]>,
    fingerprint: Fingerprint,
}

impl Selected {
    /// The samples at `indices`; an error names the first that is out of range.
    pub(crate) fn new(behind: Arc<dyn Format>, indices: Arc<[u64]>) -> Result<Self> {
        if let Some(bad) = indices.iter().find(|i| **i >= behind.len()) {
            let reason = format!("index {bad} is out of range: the data set has {} samples", behind.len());
            return Err(Error::option("indices", reason));
        }
        let mut hasher = blake3::Hasher::new();
        for index in indices.iter() {
            hasher.update(&index.to_le_bytes());
        }
        let hash = hasher.finalize();
        let fingerprint = Fingerprint::of([&b"select"[..], &behind.fingerprint().0, &hash.as_bytes()[..]]);
        Ok(Selected { behind, indices, fingerprint })
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
    fn name(&self) -> &'static str {
        self.behind.name()
    }

    fn len(&self) -> u64 {
        self.indices.len() as u64
    }

    fn schema(&self) -> &Schema {
        self.behind.schema()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        self.behind.problems()
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.behind.read(self.index(sample)?, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.index(sample).map(|i| self.behind.locate(i)).unwrap_or_default()
    }

    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.behind.knows_byte_lengths(field)
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        self.behind.byte_length(self.index(sample).ok()?, field)
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        self.behind.read_bytes(self.index(sample)?, field, into)
    }

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        self.behind.image_meta(self.index(sample).ok()?, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        self.behind.int_value(self.index(sample).ok()?, field)
    }

    fn prepare(&self, samples: &[u64]) {
        let chosen: Vec<u64> =
            samples.iter().filter_map(|at| self.indices.get(*at as usize).copied()).collect();
        self.behind.prepare(&chosen);
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
        if let Ok(index) = self.index(sample) {
            self.behind.extents(index, fields, out);
        }
    }
}

/// Several sets with the same fields, one after the other.
#[derive(Debug)]
pub(crate) struct Concatenated {
    pieces: Vec<Piece>,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
}

#[derive(Debug)]
struct Piece {
    format: Arc<dyn Format>,
    /// One past its last sample.
    end: u64,
    /// Objects before its own.
    objects: u32,
}

impl Concatenated {
    /// All of `formats` must have the fields of `schema`, in its order.
    pub(crate) fn new(formats: Vec<Arc<dyn Format>>, schema: Schema) -> Self {
        let prints: Vec<[u8; 16]> = formats.iter().map(|f| f.fingerprint().0).collect();
        let fingerprint = Fingerprint::of([&b"concat"[..]].into_iter().chain(prints.iter().map(|p| &p[..])));
        let problems = formats.iter().flat_map(|f| f.problems().iter().cloned()).collect();
        let (mut end, mut objects) = (0, 0);
        let piece = |format: Arc<dyn Format>| {
            end += format.len();
            let before = objects;
            objects += format.object_count();
            Piece { format, end, objects: before }
        };
        Concatenated { pieces: formats.into_iter().map(piece).collect(), schema, fingerprint, problems }
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

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        let (piece, sample) = self.piece(sample)?;
        piece.format.read(sample, fields, into)
    }

    fn locate(&self, sample: u64) -> Location {
        self.piece(sample).map(|(piece, sample)| piece.format.locate(sample)).unwrap_or_default()
    }

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

    fn image_meta(&self, sample: u64, field: usize) -> Option<ImageMeta> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.image_meta(sample, field)
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        let (piece, sample) = self.piece(sample).ok()?;
        piece.format.int_value(sample, field)
    }

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
}
