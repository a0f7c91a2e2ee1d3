//! Types that every stage shares: one sample's values, and ranges of bytes. `field` defines what a field is.

use std::ops::Range;

pub use crate::field::{DType, FieldSpec, ImageEncoding, ImageMeta, Kind, Schema};

/// Maximum number of dimensions of an array field (numpy's own limit was 32 for decades; nobody stores more than 8).
pub const MAX_DIMENSIONS: usize = 8;

/// One field's value in a [`SampleBuffer`]; ranges point into the buffer's arena.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// The sample lacks this field.
    #[default]
    Missing,
    /// [`Kind::Int`].
    Int(i64),
    /// [`Kind::Float`].
    Float(f64),
    /// [`Kind::Text`], [`Kind::Json`] or [`Kind::Bytes`].
    Bytes(Range<usize>),
    /// [`Kind::Image`].
    Image {
        /// The encoded image.
        bytes: Range<usize>,
        /// Its seek index, empty if there is none.
        index: Range<usize>,
        /// What is known about it without decoding.
        meta: ImageMeta,
    },
    /// [`Kind::Array`].
    Array {
        /// Element type.
        dtype: DType,
        /// Number of used entries of `shape`.
        dimensions: u8,
        /// Length of each dimension.
        shape: [u64; MAX_DIMENSIONS],
        /// The elements, row-major, little-endian.
        bytes: Range<usize>,
    },
}

/// The panic payload of [`SampleBuffer::reserve`] when there is no memory.
#[derive(Debug)]
pub struct NoRoom {
    /// Number of bytes that were requested.
    pub bytes: u64,
}

/// One sample's values. Owned by a worker and reused, so that reading a sample usually allocates nothing.
#[derive(Debug, Default)]
pub struct SampleBuffer {
    arena: Vec<u8>,
    used: usize,
    values: Vec<Value>,
    spare: Vec<Value>,
}

impl SampleBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        SampleBuffer::default()
    }

    /// Forgets the last sample and makes room for `fields` values, all missing.
    pub fn reset(&mut self, fields: usize) {
        self.used = 0;
        self.values.clear();
        self.values.resize(fields, Value::Missing);
    }

    /// Reserves `length` more bytes. Returns their range, for a [`Value`], and the bytes themselves, to be
    /// overwritten.
    ///
    /// The arena only ever grows and is not cleared between samples. Until the bytes are written they may be those of
    /// an earlier sample, so the caller must fill them or report an error.
    pub fn reserve(&mut self, length: usize) -> (Range<usize>, &mut [u8]) {
        let start = self.used;
        let end = start.saturating_add(length);
        if self.arena.len() < end {
            self.grow(end);
        }
        self.used = end;
        (start..end, &mut self.arena[start..end])
    }

    /// Formats reserve bytes wherever they read a length, and cannot continue without them. A failed allocation
    /// therefore unwinds, without a panic message, and becomes an error in [`Dataset::read`](crate::Dataset::read).
    fn grow(&mut self, end: usize) {
        let more = end - self.arena.len();
        if self.arena.try_reserve(more).is_err() {
            std::panic::resume_unwind(Box::new(NoRoom { bytes: more as u64 }));
        }
        self.arena.resize(end, 0);
    }

    /// Copies `bytes` in and returns their range.
    pub fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let (range, room) = self.reserve(bytes.len());
        room.copy_from_slice(bytes);
        range
    }

    /// Number of bytes reserved since the last reset.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Sets the value of field `field`.
    pub fn set(&mut self, field: usize, value: Value) {
        self.values[field] = value;
    }

    /// The value of field `field`.
    pub fn value(&self, field: usize) -> &Value {
        &self.values[field]
    }

    /// All values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Replaces the values by new ones made of the old: each new field takes the first of its candidates that the
    /// sample has. Views rename and select fields this way without copying bytes.
    pub(crate) fn rearrange<'a>(&mut self, fields: impl Iterator<Item = &'a [usize]>) {
        let (values, spare) = (&self.values, &mut self.spare);
        spare.clear();
        let first = |candidates: &'a [usize]| {
            candidates.iter().map(|c| &values[*c]).find(|v| **v != Value::Missing).cloned()
        };
        spare.extend(fields.map(|candidates| first(candidates).unwrap_or_default()));
        std::mem::swap(&mut self.values, &mut self.spare);
    }

    /// The bytes of a range returned by [`reserve`](Self::reserve).
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.arena[range.clone()]
    }

    /// The same bytes, mutable.
    pub(crate) fn bytes_mut(&mut self, range: &Range<usize>) -> &mut [u8] {
        &mut self.arena[range.clone()]
    }
}

/// Maximum number of fields of a data set. The bound keeps [`FieldSet`] free of allocation; views make one per read.
pub const MAX_FIELDS: usize = 1024;

/// Which fields of a format a caller wants, by position in its [`Schema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSet {
    wanted: [u64; MAX_FIELDS / 64],
    count: usize,
}

impl FieldSet {
    /// None of `count` fields, which must be at most [`MAX_FIELDS`].
    pub fn none(count: usize) -> Self {
        assert!(count <= MAX_FIELDS, "formats refuse data sets with more than {MAX_FIELDS} fields");
        FieldSet { wanted: [0; MAX_FIELDS / 64], count }
    }

    /// All `count` fields.
    pub fn all(count: usize) -> Self {
        FieldSet::only(count, 0..count)
    }

    /// Only these of `count` fields.
    pub fn only(count: usize, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut set = FieldSet::none(count);
        positions.into_iter().for_each(|position| set.insert(position));
        set
    }

    /// Adds field `position`, which must be below the count.
    pub fn insert(&mut self, position: usize) {
        assert!(position < self.count, "field {position} of {}", self.count);
        self.wanted[position / 64] |= 1 << (position % 64);
    }

    /// Takes field `position` out.
    pub fn remove(&mut self, position: usize) {
        assert!(position < self.count, "field {position} of {}", self.count);
        self.wanted[position / 64] &= !(1 << (position % 64));
    }

    /// Whether field `position` is wanted.
    pub fn has(&self, position: usize) -> bool {
        position < self.count && self.wanted[position / 64] >> (position % 64) & 1 == 1
    }

    /// The wanted positions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(|position| self.has(*position))
    }
}

/// A range of bytes in one object of a source. `object` is an index into the format's own list of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Index of the object.
    pub object: u32,
    /// The bytes of that object.
    pub range: Range<u64>,
}

/// A 128-bit hash that changes when the data change.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// The fingerprint of these pieces. Each piece is hashed with its length, so that moving a boundary changes the
    /// result.
    pub fn of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(&(piece.len() as u64).to_le_bytes());
            hasher.update(piece);
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Fingerprint(short)
    }

    /// As 32 hex digits.
    pub fn to_hex(self) -> String {
        use std::fmt::Write;
        self.0.iter().fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_reuses_its_arena() {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        let range = buffer.append(b"hello");
        buffer.set(0, Value::Bytes(range.clone()));
        assert_eq!(buffer.bytes(&range), b"hello");
        buffer.reset(2);
        assert_eq!(buffer.values(), &[Value::Missing, Value::Missing]);
        assert_eq!(buffer.reserve(3).0, 0..3);
    }

    #[test]
    fn fingerprints_separate_their_pieces() {
        let one = Fingerprint::of([&b"ab"[..], b"c"]);
        let two = Fingerprint::of([&b"a"[..], b"bc"]);
        assert_ne!(one, two);
        assert_eq!(one.to_hex().len(), 32);
    }
}
