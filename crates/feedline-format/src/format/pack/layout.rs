//! The bytes of a part file: header, trailer, and the index with its columns. `docs/formats/pack.md` is normative.
//!
//! Everything here is pure: slices in, checked numbers out. Nothing is trusted: a damaged or hostile part gives a
//! [`Fault`], never a panic and never an allocation larger than the part itself.

use crate::field::{Carrier, Kind};

/// First bytes of every part. Byte 0 is not ASCII and the last is a newline, so that transfers in text mode are
/// detected.
pub(super) const PART_MAGIC: [u8; 8] = *b"\x89FLPACK\n";
/// First bytes of every index.
pub(super) const INDEX_MAGIC: [u8; 8] = *b"FLINDEX\n";
/// Last bytes of every part.
pub(super) const END_MAGIC: [u8; 8] = *b"FLPKEND\n";
/// Readers refuse a larger major version.
pub(super) const MAJOR: u16 = 1;
/// Readers ignore what a larger minor version adds.
pub(super) const MINOR: u16 = 0;
/// Header and trailer lengths.
pub(super) const HEADER_LENGTH: u64 = 64;
pub(super) const TRAILER_LENGTH: u64 = 64;
/// The index starts on a page, so that it can be mapped.
pub(super) const INDEX_ALIGNMENT: u64 = 4096;
/// Samples start at multiples of 8 bytes: at most 7 bytes are lost, and arrays are aligned in a mapped part.
pub(super) const SAMPLE_ALIGNMENT: u64 = 8;
/// Sections start on a cache line.
const SECTION_ALIGNMENT: usize = 64;
const INDEX_HEADER_LENGTH: usize = 32;
const ENTRY_LENGTH: usize = 32;
/// `field` of a section that does not belong to a field.
pub(super) const NO_FIELD: u16 = u16::MAX;

/// What a section contains.
pub(super) mod section {
    pub(in super::super) const SCHEMA: u16 = 1;
    pub(in super::super) const SKIPPED: u16 = 2;
    pub(in super::super) const START: u16 = 16;
    pub(in super::super) const MISSING: u16 = 17;
    pub(in super::super) const LENGTH: u16 = 18;
    pub(in super::super) const CRC: u16 = 19;
    pub(in super::super) const VALUE: u16 = 20;
    pub(in super::super) const WIDTH: u16 = 21;
    pub(in super::super) const HEIGHT: u16 = 22;
    pub(in super::super) const CHANNELS: u16 = 23;
    pub(in super::super) const ENCODING: u16 = 24;
    pub(in super::super) const ORIENTATION: u16 = 25;
    pub(in super::super) const SEEK_LENGTH: u16 = 26;
    pub(in super::super) const SEEK_CRC: u16 = 27;
    pub(in super::super) const DTYPE: u16 = 28;
    pub(in super::super) const DIMENSIONS: u16 = 29;
    /// The first of eight, one per dimension.
    pub(in super::super) const SHAPE: u16 = 32;
}

/// Positions in a field's row of column values; see [`columns_of`].
pub(super) mod at {
    pub(in super::super) const MISSING: usize = 0;
    pub(in super::super) const VALUE: usize = 1;
    pub(in super::super) const LENGTH: usize = 1;
    pub(in super::super) const CRC: usize = 2;
    pub(in super::super) const WIDTH: usize = 3;
    pub(in super::super) const HEIGHT: usize = 4;
    pub(in super::super) const CHANNELS: usize = 5;
    pub(in super::super) const ENCODING: usize = 6;
    pub(in super::super) const ORIENTATION: usize = 7;
    pub(in super::super) const SEEK_LENGTH: usize = 8;
    pub(in super::super) const SEEK_CRC: usize = 9;
    pub(in super::super) const VIDEO_INDEX_LENGTH: usize = 3;
    pub(in super::super) const VIDEO_INDEX_CRC: usize = 4;
    pub(in super::super) const DTYPE: usize = 3;
    pub(in super::super) const DIMENSIONS: usize = 4;
    pub(in super::super) const SHAPE: usize = 5;
}

/// Maximum number of columns of a field.
pub(super) const MAX_COLUMNS: usize = 13;

/// The sections of a field of this kind, in the order of its row.
pub(super) fn columns_of(kind: Kind) -> &'static [u16] {
    use section::*;
    match kind.carrier() {
        Carrier::Int | Carrier::Float => &[MISSING, VALUE],
        Carrier::Image => {
            &[MISSING, LENGTH, CRC, WIDTH, HEIGHT, CHANNELS, ENCODING, ORIENTATION, SEEK_LENGTH, SEEK_CRC]
        }
        Carrier::Array => &[
            MISSING,
            LENGTH,
            CRC,
            DTYPE,
            DIMENSIONS,
            SHAPE,
            SHAPE + 1,
            SHAPE + 2,
            SHAPE + 3,
            SHAPE + 4,
            SHAPE + 5,
            SHAPE + 6,
            SHAPE + 7,
        ],
        Carrier::Bytes if kind == Kind::Video => &[MISSING, LENGTH, CRC, SEEK_LENGTH, SEEK_CRC],
        Carrier::Bytes => &[MISSING, LENGTH, CRC],
    }
}

/// What is wrong with a part, and the offset in the parsed bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) offset: u64,
    pub(super) reason: String,
}

fn fault<T>(offset: usize, reason: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { offset: offset as u64, reason: reason.into() })
}

/// First 64 bytes of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartHeader {
    pub(super) part: u64,
    pub(super) plan: [u8; 16],
}

impl PartHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER_LENGTH as usize] {
        let mut bytes = [0; HEADER_LENGTH as usize];
        bytes[..8].copy_from_slice(&PART_MAGIC);
        bytes[8..10].copy_from_slice(&MAJOR.to_le_bytes());
        bytes[10..12].copy_from_slice(&MINOR.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_LENGTH as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.part.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.plan);
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; HEADER_LENGTH as usize]) -> Result<Self, Fault> {
        if bytes[..8] != PART_MAGIC {
            return fault(0, "not a feedline part: the first bytes are wrong");
        }
        if u32_at(bytes, 60) != crc32c::crc32c(&bytes[..60]) {
            return fault(60, "the header's checksum does not match");
        }
        check_major(u16_at(bytes, 8)).or_else(|reason| fault(8, reason))?;
        if u64::from(u32_at(bytes, 12)) != HEADER_LENGTH {
            return fault(12, "the header's length is not 64");
        }
        Ok(PartHeader { part: u64_at(bytes, 16), plan: array_at(bytes, 24) })
    }
}

/// The compatibility rule: a larger major version is refused, a larger minor one is read.
pub(super) fn check_major(major: u16) -> Result<(), String> {
    if major == MAJOR {
        return Ok(());
    }
    Err(format!("pack version {major} cannot be read: this feedline reads version {MAJOR}"))
}

/// Last 64 bytes of a part; what is needed to find and check the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) index_offset: u64,
    pub(super) index_length: u64,
    pub(super) samples: u64,
    pub(super) digest: [u8; 16],
    pub(super) index_crc: u32,
}

impl Trailer {
    pub(super) fn to_bytes(self) -> [u8; TRAILER_LENGTH as usize] {
        let mut bytes = [0; TRAILER_LENGTH as usize];
        bytes[..8].copy_from_slice(&self.index_offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.index_length.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.samples.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.digest);
        bytes[40..44].copy_from_slice(&self.index_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..52]);
        bytes[52..56].copy_from_slice(&crc.to_le_bytes());
        bytes[56..].copy_from_slice(&END_MAGIC);
        bytes
    }

    /// Parses the trailer of a file of `file_length` bytes.
    pub(super) fn parse(bytes: &[u8; TRAILER_LENGTH as usize], file_length: u64) -> Result<Self, Fault> {
        if bytes[56..] != END_MAGIC {
            return fault(56, "the part's last bytes are wrong: it is truncated or not a feedline part");
        }
        if u32_at(bytes, 52) != crc32c::crc32c(&bytes[..52]) {
            return fault(52, "the trailer's checksum does not match");
        }
        let trailer = Trailer {
            index_offset: u64_at(bytes, 0),
            index_length: u64_at(bytes, 8),
            samples: u64_at(bytes, 16),
            digest: array_at(bytes, 24),
            index_crc: u32_at(bytes, 40),
        };
        if !trailer.fits(file_length) {
            return fault(0, "the index is outside the part");
        }
        Ok(trailer)
    }

    /// Whether a file of this length has room for header, index and trailer, in this order.
    pub(super) fn fits(&self, file_length: u64) -> bool {
        let end =
            self.index_offset.checked_add(self.index_length).and_then(|n| n.checked_add(TRAILER_LENGTH));
        self.index_offset >= HEADER_LENGTH
            && self.index_offset.is_multiple_of(INDEX_ALIGNMENT)
            && end == Some(file_length)
    }
}

/// One number per sample, as wide as the largest one needs: `base + stored`, both wrapping. Width 0: all equal
/// `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Column {
    start: usize,
    width: u8,
    base: u64,
}

impl Column {
    /// The value of row `row`, which must be below the number of samples the index was parsed with.
    #[inline]
    pub(super) fn get(&self, index: &[u8], row: usize) -> u64 {
        let stored = match self.width {
            0 => 0,
            1 => u64::from(index[self.start + row]),
            2 => u64::from(u16_at(index, self.start + 2 * row)),
            4 => u64::from(u32_at(index, self.start + 4 * row)),
            _ => u64_at(index, self.start + 8 * row),
        };
        self.base.wrapping_add(stored)
    }
}

impl Column {
    /// The first row whose value is above `most`.
    fn first_above(&self, index: &[u8], samples: u64, most: u64) -> Option<usize> {
        let widest = match self.width {
            0 => 0,
            8.. => u64::MAX,
            width => (1 << (8 * width)) - 1,
        };
        // The usual case: numbers of this width cannot be larger.
        if self.base.checked_add(widest).is_some_and(|largest| largest <= most) {
            return None;
        }
        (0..samples as usize).find(|row| self.get(index, *row) > most)
    }
}

/// One field's columns, in the order of [`columns_of`]; a column that is not stored is all zeros.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FieldColumns {
    columns: [Column; MAX_COLUMNS],
}

impl FieldColumns {
    /// The value of column `column` (one of [`at`]) in row `row`.
    #[inline]
    pub(super) fn get(&self, index: &[u8], column: usize, row: usize) -> u64 {
        self.columns[column].get(index, row)
    }
}

/// A parsed index: offsets of the columns. The caller keeps the bytes.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) samples: u64,
    pub(super) starts: Column,
    pub(super) fields: Vec<FieldColumns>,
    pub(super) schema: std::ops::Range<usize>,
    pub(super) skipped: std::ops::Range<usize>,
}

struct Entry {
    kind: u16,
    field: u16,
    width: u8,
    base: u64,
    start: usize,
    length: usize,
}

impl Index {
    /// Parses the index of a part with fields of these kinds. The caller has checked the checksum.
    pub(super) fn parse(bytes: &[u8], kinds: &[Kind]) -> Result<Self, Fault> {
        if bytes.len() < INDEX_HEADER_LENGTH || bytes[..8] != INDEX_MAGIC {
            return fault(0, "not an index: the first bytes are wrong");
        }
        let samples = u64_at(bytes, 8);
        let entries = u32_at(bytes, 16) as usize;
        if u32_at(bytes, 20) as usize != kinds.len() {
            let found = u32_at(bytes, 20);
            return fault(20, format!("the index has {found} fields, the manifest has {}", kinds.len()));
        }
        let table_end = entries.checked_mul(ENTRY_LENGTH).and_then(|n| n.checked_add(INDEX_HEADER_LENGTH));
        if table_end.is_none_or(|end| end > bytes.len()) {
            return fault(16, format!("{entries} sections do not fit in the index"));
        }
        let mut index = Index {
            samples,
            starts: Column::default(),
            fields: vec![FieldColumns::default(); kinds.len()],
            schema: 0..0,
            skipped: 0..0,
        };
        for entry in 0..entries {
            index.take(bytes, INDEX_HEADER_LENGTH + entry * ENTRY_LENGTH, kinds)?;
        }
        Ok(index)
    }

    /// Returns an error if a sample's stated length is above `data` bytes, or an image is larger than any codec
    /// allows. Samples are checked one by one when they are read; this is for code that sizes memory from an index
    /// alone.
    pub(super) fn check_values(&self, bytes: &[u8], kinds: &[Kind], data: u64) -> Result<(), String> {
        const MOST_SIDE: u64 = i32::MAX as u64;
        let limit = |column: u16| match column {
            section::LENGTH | section::SEEK_LENGTH => Some((data, "a length")),
            section::WIDTH => Some((MOST_SIDE, "a width")),
            section::HEIGHT => Some((MOST_SIDE, "a height")),
            _ => None,
        };
        for (field, kind) in self.fields.iter().zip(kinds) {
            for (at, column) in columns_of(*kind).iter().enumerate() {
                let Some((most, name)) = limit(*column) else { continue };
                let column = field.columns[at];
                if let Some(row) = column.first_above(bytes, self.samples, most) {
                    return Err(format!("{name} of {} in row {row} is not possible", column.get(bytes, row)));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], at: usize, kinds: &[Kind]) -> Result<(), Fault> {
        let entry = parse_entry(bytes, at)?;
        let range = entry.start..entry.start + entry.length;
        match entry.kind {
            section::SCHEMA => self.schema = range,
            section::SKIPPED => self.skipped = range,
            section::START => self.starts = self.column(&entry, at)?,
            kind => {
                let known = kinds
                    .get(usize::from(entry.field))
                    .and_then(|k| columns_of(*k).iter().position(|c| *c == kind));
                // A section of a later minor version, to be ignored.
                let Some(position) = known else { return Ok(()) };
                let column = self.column(&entry, at)?;
                self.fields[usize::from(entry.field)].columns[position] = column;
            }
        }
        Ok(())
    }

    fn column(&self, entry: &Entry, at: usize) -> Result<Column, Fault> {
        if !matches!(entry.width, 0 | 1 | 2 | 4 | 8) {
            return fault(at + 4, format!("a column cannot be {} bytes wide", entry.width));
        }
        let length = self.samples.checked_mul(u64::from(entry.width));
        if length != Some(entry.length as u64) {
            let reason = format!("column of {} bytes cannot hold {} samples", entry.length, self.samples);
            return fault(at + 24, reason);
        }
        Ok(Column { start: entry.start, width: entry.width, base: entry.base })
    }
}

fn parse_entry(bytes: &[u8], at: usize) -> Result<Entry, Fault> {
    let (start, length) = (u64_at(bytes, at + 16), u64_at(bytes, at + 24));
    let inside = start.checked_add(length).is_some_and(|end| end <= bytes.len() as u64);
    if !inside {
        return fault(at + 16, "a section reaches past the index");
    }
    Ok(Entry {
        kind: u16_at(bytes, at),
        field: u16_at(bytes, at + 2),
        width: bytes[at + 4],
        base: u64_at(bytes, at + 8),
        start: start as usize,
        length: length as usize,
    })
}

/// Collects columns row by row and lays them out.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    starts: Vec<u64>,
    fields: Vec<FieldRows>,
}

#[derive(Debug)]
struct FieldRows {
    kind: Kind,
    columns: Vec<Vec<u64>>,
}

/// One field's values for one sample, in the order of [`columns_of`].
pub(super) type Row = [u64; MAX_COLUMNS];

impl IndexBuilder {
    pub(super) fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        let rows = |kind| FieldRows { kind, columns: vec![Vec::new(); columns_of(kind).len()] };
        IndexBuilder { starts: Vec::new(), fields: kinds.into_iter().map(rows).collect() }
    }

    pub(super) fn samples(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Adds a sample that starts at `start`, one row per field.
    pub(super) fn push(&mut self, start: u64, rows: &[Row]) {
        self.starts.push(start);
        for (field, row) in self.fields.iter_mut().zip(rows) {
            for (column, value) in field.columns.iter_mut().zip(row) {
                column.push(*value);
            }
        }
    }

    /// The finished index. Columns of zeros are left out.
    pub(super) fn finish(self, schema: &[u8], skipped: &[u8]) -> Vec<u8> {
        let samples = self.samples();
        let field_count = self.fields.len() as u32;
        let mut sections = vec![blob(section::SCHEMA, schema)];
        if !skipped.is_empty() {
            sections.push(blob(section::SKIPPED, skipped));
        }
        sections.push(pack_column(section::START, NO_FIELD, &self.starts, false));
        for (number, field) in self.fields.iter().enumerate() {
            for (kind, values) in columns_of(field.kind).iter().zip(&field.columns) {
                let signed = field.kind == Kind::Int && *kind == section::VALUE;
                sections.push(pack_column(*kind, number as u16, values, signed));
            }
        }
        sections.retain(|s| s.kind == section::START || s.base != 0 || !s.bytes.is_empty());
        lay_out(samples, field_count, &sections)
    }
}

struct Section {
    kind: u16,
    field: u16,
    width: u8,
    base: u64,
    bytes: Vec<u8>,
}

fn blob(kind: u16, bytes: &[u8]) -> Section {
    Section { kind, field: NO_FIELD, width: 1, base: 0, bytes: bytes.to_vec() }
}

fn pack_column(kind: u16, field: u16, values: &[u64], signed: bool) -> Section {
    let base = if signed {
        values.iter().map(|v| *v as i64).min().unwrap_or(0) as u64
    } else {
        values.iter().copied().min().unwrap_or(0)
    };
    let largest = values.iter().map(|v| v.wrapping_sub(base)).max().unwrap_or(0);
    let width: u8 = match largest {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let mut bytes = Vec::with_capacity(values.len() * usize::from(width));
    for value in values {
        bytes.extend_from_slice(&value.wrapping_sub(base).to_le_bytes()[..usize::from(width)]);
    }
    Section { kind, field, width, base, bytes }
}

fn lay_out(samples: u64, field_count: u32, sections: &[Section]) -> Vec<u8> {
    let mut out = vec![0; INDEX_HEADER_LENGTH + sections.len() * ENTRY_LENGTH];
    out[..8].copy_from_slice(&INDEX_MAGIC);
    out[8..16].copy_from_slice(&samples.to_le_bytes());
    out[16..20].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    out[20..24].copy_from_slice(&field_count.to_le_bytes());
    for (number, section) in sections.iter().enumerate() {
        out.resize(out.len().next_multiple_of(SECTION_ALIGNMENT), 0);
        let at = INDEX_HEADER_LENGTH + number * ENTRY_LENGTH;
        let start = out.len() as u64;
        out[at..at + 2].copy_from_slice(&section.kind.to_le_bytes());
        out[at + 2..at + 4].copy_from_slice(&section.field.to_le_bytes());
        out[at + 4] = section.width;
        out[at + 8..at + 16].copy_from_slice(&section.base.to_le_bytes());
        out[at + 16..at + 24].copy_from_slice(&start.to_le_bytes());
        out[at + 24..at + 32].copy_from_slice(&(section.bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&section.bytes);
    }
    out
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has N bytes")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 4] = [Kind::Image, Kind::Int, Kind::Text, Kind::Array];

    fn build(rows: &[(u64, [Row; 4])]) -> Vec<u8> {
        let mut builder = IndexBuilder::new(KINDS);
        for (start, fields) in rows {
            builder.push(*start, fields);
        }
        builder.finish(b"{}", b"")
    }

    #[test]
    fn constant_columns_take_no_space() {
        let row = [[0, 1000, 7, 500, 375, 3, 1, 1, 0, 0, 0, 0, 0]; 4];
        let small = build(&[(64, row)]).len();
        let many: Vec<_> = (0..1000).map(|i| (64 + i * 1000, row)).collect();
        // Only `start` differs: four bytes per sample.
        assert!(build(&many).len() <= small + 4 * 1000 + 64);
    }

    #[test]
    fn sections_of_later_minor_versions_are_ignored() {
        let mut bytes = build(&[(64, [[1; 13]; 4]), (72, [[2; 13]; 4])]);
        let last = INDEX_HEADER_LENGTH + (u32_at(&bytes, 16) as usize - 1) * ENTRY_LENGTH;
        bytes[last..last + 2].copy_from_slice(&999u16.to_le_bytes());
        bytes[last + 4] = 3;
        let index = Index::parse(&bytes, &KINDS).unwrap();
        assert_eq!(index.starts.get(&bytes, 1), 72);
    }

    #[test]
    fn another_major_version_is_refused() {
        let mut bytes = PartHeader { part: 3, plan: [9; 16] }.to_bytes();
        assert_eq!(PartHeader::parse(&bytes).unwrap().part, 3);
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        assert!(PartHeader::parse(&bytes).unwrap_err().reason.contains("version 2"));
    }

    proptest! {
        #[test]
        fn columns_round_trip(
            rows in prop::collection::vec((any::<u64>(), prop::array::uniform4(prop::array::uniform13(any::<u64>()))), 0..20),
            small in any::<bool>(),
        ) {
            let rows: Vec<_> = rows.into_iter().map(|(s, f)| (s, f.map(|r| r.map(|v| if small { v % 300 } else { v })))).collect();
            let bytes = build(&rows);
            let index = Index::parse(&bytes, &KINDS).unwrap();
            prop_assert_eq!(index.samples, rows.len() as u64);
            for (row, (start, fields)) in rows.iter().enumerate() {
                prop_assert_eq!(index.starts.get(&bytes, row), *start);
                for (field, kind) in KINDS.iter().enumerate() {
                    for (column, value) in fields[field][..columns_of(*kind).len()].iter().enumerate() {
                        prop_assert_eq!(index.fields[field].get(&bytes, column, row), *value);
                    }
                }
            }
        }

        #[test]
        fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), real in any::<bool>(), at in 0usize..200, flip in any::<u8>()) {
            if real {
                bytes = build(&[(64, [[1; 13]; 4]), (72, [[300; 13]; 4]), (80, [[u64::MAX; 13]; 4])]);
                let at = at % bytes.len();
                bytes[at] ^= flip;
            }
            if let Ok(index) = Index::parse(&bytes, &KINDS) {
                for row in 0..index.samples.min(4) as usize {
                    index.starts.get(&bytes, row);
                    for field in &index.fields {
                        (0..MAX_COLUMNS).for_each(|c| { field.get(&bytes, c, row); });
                    }
                }
            }
        }

        #[test]
        fn trailers_round_trip_and_bad_ones_are_refused(page in 1u64..1000, length in 0u64..100_000, samples: u64, at in 0usize..56, bit in 0u8..8) {
            let trailer = Trailer { index_offset: page * 4096, index_length: length, samples, digest: [3; 16], index_crc: 5 };
            let size = page * 4096 + length + TRAILER_LENGTH;
            let mut bytes = trailer.to_bytes();
            prop_assert_eq!(Trailer::parse(&bytes, size), Ok(trailer));
            prop_assert!(Trailer::parse(&bytes, size + 1).is_err());
            bytes[at] ^= 1 << bit;
            prop_assert!(Trailer::parse(&bytes, size).is_err());
        }
    }
}
