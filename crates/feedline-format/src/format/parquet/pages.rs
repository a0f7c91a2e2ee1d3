//! The pages of a column chunk: offset and rows of each. From the chunk's offset index if it has one, otherwise by
//! following the headers.

use std::ops::Range;

use super::thrift::{Compact, Stop};
use crate::error::{Error, Location, Result};
use crate::source::Object;

/// Maximum length of a header (statistics may contain long values).
const MAX_HEADER: u64 = 16 << 20;
const WINDOW: u64 = 512;
/// Maximum length of an offset index.
const MAX_INDEX: u64 = 256 << 20;

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Dictionary,
    /// Levels and values are compressed together.
    First,
    /// Levels of this many bytes (repetition and definition) come first and are never compressed.
    Second {
        repetition: u32,
        definition: u32,
        compressed: bool,
    },
    /// Not needed for reading values.
    Other,
}

/// Content of a page's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Number of values, with nulls.
    pub(super) values: u64,
    pub(super) encoding: i64,
    pub(super) inflated: u64,
    pub(super) crc: Option<u32>,
    /// Range of the page's content.
    pub(super) body: Range<u64>,
}

/// The pages of a chunk without repeated values: offset of each header, and its first row.
#[derive(Debug, Default)]
pub(super) struct PageList {
    pub(super) dictionary: Option<u64>,
    pub(super) pages: Vec<(u64, u64)>,
}

impl PageList {
    /// The page with the row, and the row's index in it.
    pub(super) fn find(&self, row: u64) -> Option<(usize, u64, u64)> {
        let number = self.pages.partition_point(|(_, first)| *first <= row).checked_sub(1)?;
        let (at, first) = self.pages[number];
        Some((number, at, row - first))
    }
}

/// Range of a chunk, and of its offset index.
#[derive(Clone, Debug)]
pub(super) struct ChunkPlace {
    pub(super) range: Range<u64>,
    pub(super) dictionary: Option<u64>,
    pub(super) index: Option<Range<u64>>,
    pub(super) rows: u64,
}

/// Finds the pages of the chunk.
pub(super) fn list(object: &dyn Object, chunk: &ChunkPlace, place: &Location) -> Result<PageList> {
    if let Some(found) = chunk.index.as_ref().and_then(|index| from_index(object, chunk, index)) {
        return Ok(found);
    }
    let mut found = PageList::default();
    let (mut at, mut row) = (chunk.range.start, 0u64);
    while at < chunk.range.end && row < chunk.rows {
        let header = header(object, at, &chunk.range, place)?;
        match header.kind {
            PageKind::Dictionary => found.dictionary = Some(at),
            PageKind::First | PageKind::Second { .. } => {
                found.pages.push((at, row));
                row = row.saturating_add(header.values);
            }
            PageKind::Other => {}
        }
        at = header.body.end;
    }
    if row != chunk.rows {
        let reason = format!("pages of {row} rows in a row group of {}", chunk.rows);
        return Err(Error::data(place.clone().with_offset(chunk.range.start), reason));
    }
    Ok(found)
}

/// An inconsistent index is ignored: the headers give the same information.
fn from_index(object: &dyn Object, chunk: &ChunkPlace, index: &Range<u64>) -> Option<PageList> {
    let length = index.end.checked_sub(index.start).filter(|length| *length <= MAX_INDEX)?;
    if index.end > object.size() {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    object.read_at(index.start, &mut bytes).ok()?;
    let mut compact = Compact::new(&bytes);
    let mut pages: Vec<(u64, u64)> = Vec::new();
    compact
        .structure(None, |compact, field| {
            if field.id != 1 {
                return compact.skip(field);
            }
            for _ in 0..compact.list(field)? {
                let (mut at, mut first) = (None, None);
                let mut last = 0;
                while let Some(part) = compact.field(last)? {
                    match part.id {
                        1 => at = u64::try_from(compact.number(part)?).ok(),
                        3 => first = u64::try_from(compact.number(part)?).ok(),
                        _ => compact.skip(part)?,
                    }
                    last = part.id;
                }
                pages.push(at.zip(first).ok_or(Stop::Broken)?);
            }
            Ok(())
        })
        .ok()?;
    let ordered = pages.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    let inside = pages.iter().all(|(at, first)| chunk.range.contains(at) && *first < chunk.rows);
    let starts = pages.first().is_some_and(|(_, first)| *first == 0);
    // Some writers store 0 when there is no dictionary.
    let first_page = pages.first()?.0;
    let dictionary = chunk.dictionary.filter(|at| chunk.range.contains(at) && *at < first_page);
    let dictionary = dictionary.or_else(|| (chunk.range.start < first_page).then_some(chunk.range.start));
    (ordered && inside && starts).then_some(PageList { dictionary, pages })
}

/// Reads the header at `at`; the page must end within `chunk`.
pub(super) fn header(
    object: &dyn Object,
    at: u64,
    chunk: &Range<u64>,
    place: &Location,
) -> Result<PageHeader> {
    let fail = |reason: &str| Error::data(place.clone().with_offset(at), reason);
    let left = chunk.end.saturating_sub(at);
    let mut window = WINDOW;
    loop {
        let mut bytes = vec![0; left.min(window) as usize];
        object.read_at(at, &mut bytes)?;
        match parse(&bytes) {
            Ok((header, length, size)) => {
                let body = (at + length)
                    .checked_add(size)
                    .filter(|end| *end <= chunk.end)
                    .map(|end| at + length..end);
                let body = body.ok_or_else(|| fail("a page reaches past its column"))?;
                return Ok(PageHeader { body, ..header });
            }
            Err(Stop::Short) if window < left && window < MAX_HEADER => window *= 8,
            Err(_) => return Err(fail("a damaged page header")),
        }
    }
}

/// The header, its length, and the length of the content.
fn parse(bytes: &[u8]) -> std::result::Result<(PageHeader, u64, u64), Stop> {
    let mut compact = Compact::new(bytes);
    let (mut kind, mut inflated, mut size, mut crc) = (None, None, None, None);
    let (mut values, mut encoding, mut second) = (0, 0, (0, 0, true));
    let count = |n: i64| u64::try_from(n).map_err(|_| Stop::Broken);
    compact.structure(None, |compact, field| {
        match field.id {
            1 => kind = Some(compact.number(field)?),
            2 => inflated = Some(count(compact.number(field)?)?),
            3 => size = Some(count(compact.number(field)?)?),
            4 => crc = Some(compact.number(field)? as u32),
            5 | 7 => compact.structure(Some(field), |compact, field| {
                match field.id {
                    1 => values = count(compact.number(field)?)?,
                    2 => encoding = compact.number(field)?,
                    _ => compact.skip(field)?,
                }
                Ok(())
            })?,
            8 => compact.structure(Some(field), |compact, field| {
                match field.id {
                    1 => values = count(compact.number(field)?)?,
                    4 => encoding = compact.number(field)?,
                    5 => second.1 = u32::try_from(compact.number(field)?).map_err(|_| Stop::Broken)?,
                    6 => second.0 = u32::try_from(compact.number(field)?).map_err(|_| Stop::Broken)?,
                    7 => second.2 = Compact::truth(field)?,
                    _ => compact.skip(field)?,
                }
                Ok(())
            })?,
            _ => compact.skip(field)?,
        }
        Ok(())
    })?;
    let kind = match kind.ok_or(Stop::Broken)? {
        0 => PageKind::First,
        2 => PageKind::Dictionary,
        3 => PageKind::Second { repetition: second.0, definition: second.1, compressed: second.2 },
        _ => PageKind::Other,
    };
    let (inflated, size) = (inflated.ok_or(Stop::Broken)?, size.ok_or(Stop::Broken)?);
    // All are signed 32-bit numbers.
    if inflated > i32::MAX as u64 || size > i32::MAX as u64 || values > i32::MAX as u64 {
        return Err(Stop::Broken);
    }
    Ok((PageHeader { kind, values, encoding, inflated, crc, body: 0..0 }, compact.at as u64, size))
}
