//! Columns of bytes and texts, value by value: PLAIN and dictionary pages of any codec.
//!
//! When a value of a page is first wanted, the page is read and the range of each value in it is recorded. After
//! that, a value of an uncompressed page is one read, and one of a snappy page is a read of the few fragments that
//! contain it. Other codecs cannot be decompressed from the middle, so the decompressed page itself is kept. There is
//! one limit for everything that is kept of the data set.

use std::ops::Range;

use super::inflate::{Codec, FRAGMENT, inflate, snappy_fragments};
use super::levels;
use super::pages::{PageHeader, PageKind};
use crate::sample::SampleBuffer;
use crate::source::Object;

/// Maximum size of pages that are kept decompressed with any codec: small values would cost a read each.
const SMALL: usize = 256 << 10;
/// Maximum number of rows in a page; more are damage, or a page of only nulls.
const MAX_ROWS: u64 = 1 << 24;
const NULL: u32 = u32::MAX;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

/// A page whose values can be found.
#[derive(Debug)]
pub(super) struct Page {
    /// The value of each row, if not all rows have one.
    slots: Option<Vec<u32>>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// Ranges of the values in the page's content.
    Plain { places: Vec<(u32, u32)>, stored: Stored },
    /// Indices of values in the dictionary page.
    Keys(Vec<u32>),
}

/// Where a page's content is stored.
#[derive(Debug)]
enum Stored {
    /// In memory.
    Held(Vec<u8>),
    /// In the file, uncompressed, from this offset on.
    Raw(u64),
    /// In the file from this offset on, in snappy fragments that begin at these offsets.
    Fragments { at: u64, starts: Vec<u32>, length: usize },
}

/// Content of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Null,
    /// This value of the page.
    Value(usize),
    /// This value of the dictionary.
    Key(usize),
}

impl Page {
    /// Reads a page whose values are at most `definition` levels deep.
    pub(super) fn read(
        object: &dyn Object,
        header: &PageHeader,
        codec: Codec,
        definition: i16,
    ) -> Result<Self, Fault> {
        if header.values > MAX_ROWS {
            return Err(Fault::damaged(format!("a page of {} rows", header.values)));
        }
        let mut body = vec![0; (header.body.end - header.body.start) as usize];
        object.read_at(header.body.start, &mut body).map_err(Fault::Unread)?;
        if header.crc.is_some_and(|crc| crc32fast::hash(&body) != crc) {
            return Err(Fault::damaged("the page fails its checksum"));
        }
        let inflated = header.inflated as usize;
        let values = header.values as usize;
        match header.kind {
            PageKind::Dictionary => {
                let content = inflate(codec, &body, inflated)?;
                let place = Place { body: &body, at: header.body.start, codec };
                Ok(Page::plain(content, 0, values, None, place)?)
            }
            PageKind::First => {
                let content = inflate(codec, &body, inflated)?;
                let (slots, start) = levels::first(&content, definition, values)?;
                let place = Place { body: &body, at: header.body.start, codec };
                Ok(Page::values(header.encoding, content, start, values, slots, place)?)
            }
            PageKind::Second { repetition, definition: length, compressed } => {
                let start = repetition as usize;
                let end = start.checked_add(length as usize).filter(|end| *end <= body.len().min(inflated));
                let end = end.ok_or_else(|| Fault::damaged("levels reach past the page"))?;
                let slots = levels::second(&body[start..end], definition, values)?;
                let codec = if compressed { codec } else { Codec::None };
                let content = inflate(codec, &body[end..], inflated - end)?;
                let place = Place { body: &body[end..], at: header.body.start + end as u64, codec };
                Ok(Page::values(header.encoding, content, 0, values, slots, place)?)
            }
            PageKind::Other => Err(Fault::damaged("not a page of values")),
        }
    }

    fn values(
        encoding: i64,
        content: Vec<u8>,
        start: usize,
        rows: usize,
        slots: Option<Vec<u32>>,
        place: Place<'_>,
    ) -> Result<Self, String> {
        let count = slots.as_ref().map_or(rows, |slots| slots.iter().filter(|slot| **slot != NULL).count());
        match encoding {
            PLAIN => Page::plain(content, start, count, slots, place),
            PLAIN_DICTIONARY | RLE_DICTIONARY => {
                let keys = levels::keys(&content[start..], count)?;
                Ok(Page { slots, content: Content::Keys(keys) })
            }
            other => Err(format!("values in encoding {other}, which is not supported here")),
        }
    }

    fn plain(
        content: Vec<u8>,
        start: usize,
        count: usize,
        slots: Option<Vec<u32>>,
        place: Place<'_>,
    ) -> Result<Self, String> {
        // Every value takes at least its length.
        if count > (content.len() - start) / 4 {
            return Err(format!("{count} values in {} bytes", content.len() - start));
        }
        let mut places = Vec::with_capacity(count);
        let mut at = start;
        for _ in 0..count {
            let length = content.get(at..at + 4).ok_or("values are cut off")?;
            let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
            let end = (at + 4).checked_add(length as usize).filter(|end| *end <= content.len());
            places.push((at as u32 + 4, length));
            at = end.ok_or("a value reaches past its page")?;
        }
        let stored = place.stored(content);
        Ok(Page { slots, content: Content::Plain { places, stored } })
    }

    /// The content of row `row` of the page.
    pub(super) fn row(&self, row: usize) -> Result<Row, String> {
        let value = match &self.slots {
            Some(slots) => *slots.get(row).ok_or("a row past its page")?,
            None => row as u32,
        };
        if value == NULL {
            return Ok(Row::Null);
        }
        match &self.content {
            Content::Plain { places, .. } if (value as usize) < places.len() => {
                Ok(Row::Value(value as usize))
            }
            Content::Plain { .. } => Err("a row past its page".to_owned()),
            Content::Keys(keys) => keys
                .get(value as usize)
                .map(|key| Row::Key(*key as usize))
                .ok_or_else(|| "a row past its page".to_owned()),
        }
    }

    /// Reads value `value` into the buffer.
    pub(super) fn value(
        &self,
        object: &dyn Object,
        value: usize,
        into: &mut SampleBuffer,
    ) -> Result<Range<usize>, Fault> {
        let Content::Plain { places, stored } = &self.content else {
            return Err(Fault::damaged("no dictionary"));
        };
        let (start, length) =
            *places.get(value).ok_or_else(|| Fault::damaged("a key past its dictionary"))?;
        let (start, length) = (start as usize, length as usize);
        match stored {
            Stored::Held(content) => Ok(into.append(&content[start..start + length])),
            Stored::Raw(at) => {
                let (range, room) = into.reserve(length);
                object.read_at(at + start as u64, room).map_err(Fault::Unread)?;
                Ok(range)
            }
            Stored::Fragments { at, starts, length: whole } => {
                fragments(object, *at, starts, *whole, start..start + length, into)
            }
        }
    }

    /// Number of bytes that are kept of it.
    pub(super) fn weight(&self) -> usize {
        let slots = self.slots.as_ref().map_or(0, |slots| slots.len() * 4);
        let content = match &self.content {
            Content::Keys(keys) => keys.len() * 4,
            Content::Plain { places, stored } => {
                let stored = match stored {
                    Stored::Held(bytes) => bytes.len(),
                    Stored::Raw(_) => 0,
                    Stored::Fragments { starts, .. } => starts.len() * 4,
                };
                places.len() * 8 + stored
            }
        };
        slots + content + 128
    }
}

/// Why a value cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    Damaged(String),
    Unread(crate::error::Error),
}

impl Fault {
    fn damaged(reason: impl Into<String>) -> Self {
        Fault::Damaged(reason.into())
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Fault::Damaged(reason)
    }
}

/// A page's stored bytes, from which the way to read its values is chosen.
struct Place<'a> {
    body: &'a [u8],
    at: u64,
    codec: Codec,
}

impl Place<'_> {
    fn stored(&self, content: Vec<u8>) -> Stored {
        if content.len() > SMALL {
            match self.codec {
                Codec::None => return Stored::Raw(self.at),
                Codec::Snappy => {
                    if let Some(starts) = snappy_fragments(self.body)
                        && starts.len() == content.len().div_ceil(FRAGMENT) + 1
                    {
                        return Stored::Fragments { at: self.at, starts, length: content.len() };
                    }
                }
                _ => {}
            }
        }
        Stored::Held(content)
    }
}

/// Decompresses the fragments that contain `wanted`, all within the buffer.
fn fragments(
    object: &dyn Object,
    at: u64,
    starts: &[u32],
    whole: usize,
    wanted: Range<usize>,
    into: &mut SampleBuffer,
) -> Result<Range<usize>, Fault> {
    if wanted.is_empty() {
        return Ok(into.reserve(0).0);
    }
    let (first, last) = (wanted.start / FRAGMENT, (wanted.end - 1) / FRAGMENT);
    let (from, to) = (starts[first] as usize, starts[last + 1] as usize);
    let content = first * FRAGMENT..whole.min((last + 1) * FRAGMENT);
    // A snappy stream begins with the length of its content.
    let (mut head, mut length, mut rest) = ([0; 5], 0, content.len());
    while rest > 127 {
        head[length] = rest as u8 | 128;
        rest >>= 7;
        length += 1;
    }
    head[length] = rest as u8;
    length += 1;
    let (range, room) = into.reserve(length + to - from + content.len());
    let (compressed, inflated) = room.split_at_mut(length + to - from);
    compressed[..length].copy_from_slice(&head[..length]);
    object.read_at(at + from as u64, &mut compressed[length..]).map_err(Fault::Unread)?;
    let done = snap::raw::Decoder::new().decompress(compressed, inflated);
    if !done.is_ok_and(|count| count == content.len()) {
        return Err(Fault::damaged("a value cannot be decompressed: the file was changed or is damaged"));
    }
    let start = range.start + length + to - from + wanted.start - content.start;
    Ok(start..start + wanted.len())
}
