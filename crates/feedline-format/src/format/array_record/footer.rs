//! Finds an ArrayRecord file's chunks: the last block has the offset of the footer, and the footer those of the
//! chunks.

use super::chunk::{BLOCK, Records, varint};
use crate::error::{Error, Location, Result};
use crate::source::{Object, room_for};

/// In the last block, after the footer's offset.
const MAGIC: u64 = 0x71930e704fdae05e;
/// A footer has some bytes for every chunk; a longer one is damaged.
const LARGEST_FOOTER: u64 = 4 << 30;

/// One chunk: its offset, and the number of records before it in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) first: u64,
}

/// The chunks of one file.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) chunks: Vec<Chunk>,
    /// Upper bound of the last chunk's end.
    pub(super) end: u64,
    pub(super) records: u64,
}

/// The footer's offset, if the file's last block is that of an ArrayRecord file.
pub(super) fn postscript(object: &dyn Object) -> Result<Option<u64>> {
    let size = object.size();
    if size < 2 * BLOCK || !size.is_multiple_of(BLOCK) {
        return Ok(None);
    }
    let mut last = [0; 512];
    object.read_at(size - BLOCK, &mut last)?;
    let Ok(records) = Records::parse(&last, size - BLOCK) else { return Ok(None) };
    let found = records.get(0).map(numbers).unwrap_or_default();
    let number = |wanted: u64| found.iter().find(|(field, _)| *field == wanted).map(|(_, number)| *number);
    Ok(number(1).filter(|offset| number(2) == Some(MAGIC) && *offset < size - BLOCK))
}

impl Footer {
    pub(super) fn read(object: &dyn Object, place: &Location) -> Result<Self> {
        let wrong = |reason: &str| Error::data(place.clone(), reason.to_owned());
        let missing = "the last block is not that of an ArrayRecord file: it was not closed, or is cut off";
        let offset = postscript(object)?.ok_or_else(|| wrong(missing))?;
        let length = object.size() - BLOCK - offset;
        if length > LARGEST_FOOTER {
            return Err(wrong("a footer of more than 4 GiB"));
        }
        let mut bytes = room_for(length, &place.uri, place.shard.as_deref().unwrap_or_default())?;
        object.read_at(offset, &mut bytes)?;
        let records =
            Records::parse(&bytes, offset).map_err(|reason| wrong(&format!("the footer: {reason}")))?;
        Footer::parse(&records, offset).map_err(|reason| wrong(&format!("the footer: {reason}")))
    }

    /// The first record describes the whole file (version, chunks, records), each other one a chunk.
    fn parse(footer: &Records, end: u64) -> Result<Self, String> {
        let field = |record: &[u8], wanted: u64| {
            numbers(record).into_iter().find(|(field, _)| *field == wanted).map_or(0, |(_, number)| number)
        };
        let head = footer.get(0).and_then(inner).ok_or("it does not begin with a description of the file")?;
        let (mut chunks, mut records, mut least) = (Vec::new(), 0u64, 1);
        for number in 1..footer.ends.len() {
            let record = footer.get(number).ok_or("a chunk is missing")?;
            let offset = field(record, 1);
            if offset < least || offset >= end {
                return Err("chunks that are not in the file, or not in order".to_owned());
            }
            chunks.push(Chunk { offset, first: records });
            least = offset + 1;
            records = records.checked_add(field(record, 3)).ok_or("a huge number of records")?;
        }
        if field(head, 2) != chunks.len() as u64 || field(head, 3) != records {
            return Err("its chunks and records do not add up".to_owned());
        }
        // Every record takes at least one byte of lengths.
        if records > end.saturating_mul(1024) {
            return Err("more records than the file can hold".to_owned());
        }
        Ok(Footer { chunks, end, records })
    }
}

/// The message in a record's first field.
fn inner(record: &[u8]) -> Option<&[u8]> {
    let (length, content) = varint(record.strip_prefix(&[1 << 3 | 2])?)?;
    content.get(..usize::try_from(length).ok()?)
}

/// The fields of a small protobuf that are numbers.
fn numbers(record: &[u8]) -> Vec<(u64, u64)> {
    let (mut found, mut rest) = (Vec::new(), record);
    while let Some((tag, after)) = varint(rest) {
        match tag & 7 {
            0 => {
                let Some((number, after)) = varint(after) else { break };
                found.push((tag >> 3, number));
                rest = after;
            }
            2 => {
                let Some((length, after)) = varint(after) else { break };
                let Some(after) = usize::try_from(length).ok().and_then(|length| after.get(length..)) else {
                    break;
                };
                rest = after;
            }
            _ => break,
        }
    }
    found
}
