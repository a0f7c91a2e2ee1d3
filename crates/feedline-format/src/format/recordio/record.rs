//! One record: its framing, and the header that `im2rec` puts before an image.
//!
//! A frame is the magic number, a word whose upper 3 bits are the part and whose lower 29 bits are the length, the
//! bytes, and zeros up to a multiple of 4. Where the content has the magic number, it is left out, and the record is
//! split there into parts (first, middle, last).

use std::ops::Range;

use crate::sample::SampleBuffer;

/// First bytes of every frame.
pub(super) const MAGIC: [u8; 4] = 0xced7_230a_u32.to_le_bytes();
/// Magic number and length.
pub(super) const FRAME: u64 = 8;
/// Flag, label, number, second number.
pub(super) const HEADER: usize = 24;

/// Which part of a record a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    First,
    Middle,
    Last,
}

/// Parses a frame's first 8 bytes: its part, the length of its bytes, and that length with the padding.
pub(super) fn frame(head: [u8; 8]) -> Option<(Part, u64, u64)> {
    let word = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let part = match (head[..4] == MAGIC, word >> 29) {
        (true, 0) => Part::Whole,
        (true, 1) => Part::First,
        (true, 2) => Part::Middle,
        (true, 3) => Part::Last,
        _ => return None,
    };
    let length = u64::from(word & 0x1fff_ffff);
    Some((part, length, length.next_multiple_of(4)))
}

/// The content of the record whose frames are at `stored`: a part of that range, or joined after it.
pub(super) fn content(stored: Range<usize>, buffer: &mut SampleBuffer) -> Result<Range<usize>, String> {
    let bytes = buffer.bytes(&stored);
    let damaged = || "the record is not where the index has it, or damaged".to_owned();
    let head = |at: usize| bytes.get(at..at + 8).and_then(|head| frame(head.try_into().ok()?));
    let (part, length, _) = head(0).ok_or_else(damaged)?;
    let end = FRAME as usize + length as usize;
    if part == Part::Whole {
        let inside = bytes.len() == end.next_multiple_of(4);
        return if inside { Ok(stored.start + 8..stored.start + end) } else { Err(damaged()) };
    }
    let (mut whole, mut at) = (Vec::new(), 0);
    loop {
        let (part, length, padded) = head(at).ok_or_else(damaged)?;
        let expected = if at == 0 { part == Part::First } else { matches!(part, Part::Middle | Part::Last) };
        let piece = bytes.get(at + 8..at + 8 + length as usize).filter(|_| expected).ok_or_else(damaged)?;
        if at > 0 {
            whole.extend_from_slice(&MAGIC);
        }
        whole.extend_from_slice(piece);
        at += 8 + padded as usize;
        if part == Part::Last {
            return if at == bytes.len() { Ok(buffer.append(&whole)) } else { Err(damaged()) };
        }
    }
}

/// The header of an image record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ImageRecordHeader {
    pub(super) label: f32,
    pub(super) id: u64,
    /// Range of the labels in the record, if there are several.
    pub(super) several: Option<Range<usize>>,
    /// Length of the header with these labels.
    pub(super) length: usize,
}

impl ImageRecordHeader {
    /// The header of a record; `None` if it has none.
    pub(super) fn parse(record: &[u8]) -> Option<Self> {
        let head = record.get(..HEADER)?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let labels = usize::try_from(word(0)).ok()?.checked_mul(4)?;
        let length = HEADER.checked_add(labels).filter(|length| *length <= record.len())?;
        // The second number has never been used for anything.
        (long(16) == 0).then(|| ImageRecordHeader {
            label: f32::from_bits(word(4)),
            id: long(8),
            several: (labels > 0).then_some(HEADER..length),
            length,
        })
    }

    /// Whether the label is a class number.
    pub(super) fn is_whole(&self) -> bool {
        self.label.fract() == 0.0 && self.label.abs() < 16_777_216.0
    }
}
