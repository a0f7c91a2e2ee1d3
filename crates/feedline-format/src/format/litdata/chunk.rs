//! A chunk's own tables: offsets of its items, frames or record batches. Read once, checked completely.

use std::ops::Range;
use std::sync::Arc;

use super::arrow::Rows;
use crate::error::Result;
use crate::format::open_objects::OpenObjects;
use crate::source::HeldBytes;

/// First bytes of a chunk of zstd frames.
const FRAMED_MAGIC: &[u8; 8] = b"LDFZ01\0\0";
/// Magic, version, flags, items, items per frame, frames.
const FRAMED_HEAD: u64 = 24;
/// First item, items, offset in the file, compressed and uncompressed length.
const FRAME_ENTRY: usize = 24;

/// The bytes of a chunk before whole-file compression: in its file, or inflated in memory.
#[derive(Debug, Clone)]
pub(super) enum Bytes<'a> {
    File { open_objects: &'a OpenObjects, number: usize, size: u64 },
    Memory(Arc<Vec<u8>>),
}

impl Bytes<'_> {
    pub(super) fn size(&self) -> u64 {
        match self {
            Bytes::File { size, .. } => *size,
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `into`; the caller has checked that the range is inside.
    pub(super) fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Bytes::File { open_objects, number, .. } => {
                open_objects.with(*number, |object| object.read_at(offset, into))?
            }
            Bytes::Memory(bytes) => {
                into.copy_from_slice(&bytes[offset as usize..offset as usize + into.len()]);
                Ok(())
            }
        }
    }

    /// A copy of a range that was checked to be inside.
    pub(super) fn copy(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// A range that is kept.
    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        match self {
            Bytes::File { open_objects, number, .. } => {
                open_objects.with(*number, |object| object.hold(range))?
            }
            Bytes::Memory(bytes) => {
                Ok(HeldBytes::Owned(bytes[range.start as usize..range.end as usize].to_vec().into()))
            }
        }
    }
}

/// The layout of a chunk.
#[derive(Debug)]
pub(super) enum Layout {
    Items(Items),
    Frames(Frames),
    Rows(Rows),
}

/// What is wrong with a chunk: an error at an offset, or a failed read.
#[derive(Debug)]
pub(super) enum Wrong {
    At(u64, String),
    Reading(crate::error::Error),
}

impl From<crate::error::Error> for Wrong {
    fn from(error: crate::error::Error) -> Self {
        Wrong::Reading(error)
    }
}

impl Wrong {
    fn at(offset: u64, reason: impl Into<String>) -> Self {
        Wrong::At(offset, reason.into())
    }
}

impl Layout {
    /// Detects the layout of a chunk of `count` items and reads its tables.
    pub(super) fn read(bytes: &Bytes<'_>, count: u64) -> Result<Layout, Wrong> {
        let size = bytes.size();
        let head = bytes.copy(0..size.min(FRAMED_HEAD))?;
        if head.starts_with(FRAMED_MAGIC) {
            return Ok(Layout::Frames(Frames::read(bytes, &head, count)?));
        }
        let items = Items::read(bytes, &head, count)?;
        match Rows::find(bytes, items.end(), count)? {
            Some(rows) => Ok(Layout::Rows(rows)),
            None if items.end() == size => Ok(Layout::Items(items)),
            None => Err(Wrong::at(
                items.end(),
                format!("the items end at byte {}, the chunk at {size}", items.end()),
            )),
        }
    }
}

/// The u32 at index `at` of a table that was checked to be long enough.
fn number(table: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(table[at * 4..at * 4 + 4].try_into().expect("four bytes"))
}

/// Checks that offsets do not decrease.
fn check_ascending(table: &[u8], count: usize, start: u64) -> Result<(), Wrong> {
    let mut last = number(table, 0);
    for at in 1..=count {
        let next = number(table, at);
        if next < last {
            let place = start + 4 * at as u64;
            return Err(Wrong::at(
                place,
                format!("offset {next} of item {at} is before its predecessor's {last}"),
            ));
        }
        last = next;
    }
    Ok(())
}

fn check_count(found: u32, count: u64, at: u64) -> Result<(), Wrong> {
    if u64::from(found) == count {
        return Ok(());
    }
    Err(Wrong::at(at, format!("the chunk says it has {found} items, index.json {count}")))
}

/// Items end to end: u32 offsets, one more than items.
#[derive(Debug)]
pub(super) struct Items {
    table: HeldBytes,
    count: usize,
}

impl Items {
    fn read(bytes: &Bytes<'_>, head: &[u8], count: u64) -> Result<Items, Wrong> {
        let size = bytes.size();
        if head.len() < 8 {
            return Err(Wrong::at(0, format!("{size} bytes are not a chunk: it is cut off")));
        }
        check_count(number(head, 0), count, 0)?;
        let start = 4 * (count + 2);
        if start > size {
            let reason = format!(
                "the table of {count} items ends at byte {start}, the chunk at {size}: it is cut off"
            );
            return Err(Wrong::at(4, reason));
        }
        let items = Items { table: bytes.hold(4..start)?, count: count as usize };
        if u64::from(number(&items.table, 0)) != start {
            let reason = format!("the first item starts at {}, not at {start}", number(&items.table, 0));
            return Err(Wrong::at(4, reason));
        }
        check_ascending(&items.table, items.count, 4)?;
        if items.end() > size {
            let reason = format!("the items end at byte {}, the chunk at {size}: it is cut off", items.end());
            return Err(Wrong::at(start, reason));
        }
        Ok(items)
    }

    fn end(&self) -> u64 {
        u64::from(number(&self.table, self.count))
    }

    /// The bytes of item `item`, which is below the count. `None` if the item ends before it starts, because the file
    /// has changed.
    pub(super) fn range(&self, item: usize) -> Option<Range<u64>> {
        let (start, end) = (number(&self.table, item), number(&self.table, item + 1));
        (start <= end).then_some(u64::from(start)..u64::from(end))
    }
}

/// Runs of items, each in a zstd frame.
#[derive(Debug)]
pub(super) struct Frames {
    /// Offsets in the inflated items, then the frames.
    table: HeldBytes,
    count: usize,
    items_per_frame: u32,
}

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) number: u32,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) inflated: u32,
    first: u32,
    items: u32,
}

impl Frames {
    fn read(bytes: &Bytes<'_>, head: &[u8], count: u64) -> Result<Frames, Wrong> {
        if head.len() < FRAMED_HEAD as usize {
            return Err(Wrong::at(0, "the frames' header is cut off"));
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != 1 {
            return Err(Wrong::at(8, format!("framed layout version {version} is unknown")));
        }
        let (items_per_frame, frames) = (number(head, 4), u64::from(number(head, 5)));
        check_count(number(head, 3), count, 12)?;
        if items_per_frame == 0 || frames != count.div_ceil(u64::from(items_per_frame)) {
            let reason = format!("{frames} frames of {items_per_frame} items do not hold {count} items");
            return Err(Wrong::at(16, reason));
        }
        let end = FRAMED_HEAD + 4 * (count + 1) + FRAME_ENTRY as u64 * frames;
        if end > bytes.size() {
            let reason =
                format!("the tables end at byte {end}, the chunk at {}: it is cut off", bytes.size());
            return Err(Wrong::at(FRAMED_HEAD, reason));
        }
        let table = bytes.hold(FRAMED_HEAD..end)?;
        let found = Frames { table, count: count as usize, items_per_frame };
        found.check(end, bytes.size())?;
        Ok(found)
    }

    fn check(&self, tables_end: u64, size: u64) -> Result<(), Wrong> {
        check_ascending(&self.table, self.count, FRAMED_HEAD)?;
        let frames = self.count.div_ceil(self.items_per_frame as usize);
        for at in 0..frames {
            let frame = self.frame(at);
            let first = at as u64 * u64::from(self.items_per_frame);
            let items = u64::from(self.items_per_frame).min(self.count as u64 - first);
            let inside = frame.offset >= tables_end
                && frame.offset.checked_add(u64::from(frame.length)).is_some_and(|end| end <= size);
            let right = u64::from(frame.first) == first && u64::from(frame.items) == items;
            let inflated =
                number(&self.table, (first + items) as usize) - number(&self.table, first as usize);
            if !inside || !right || inflated != frame.inflated {
                let place = FRAMED_HEAD + 4 * (self.count as u64 + 1) + (at * FRAME_ENTRY) as u64;
                return Err(Wrong::at(place, format!("the entry of frame {at} is damaged or cut off")));
            }
        }
        Ok(())
    }

    fn frame(&self, at: usize) -> Frame {
        let start = 4 * (self.count + 1) + at * FRAME_ENTRY;
        let entry = &self.table[start..start + FRAME_ENTRY];
        Frame {
            number: at as u32,
            offset: u64::from_le_bytes(entry[8..16].try_into().expect("eight bytes")),
            length: number(entry, 4),
            inflated: number(entry, 5),
            first: number(entry, 0),
            items: number(entry, 1),
        }
    }

    /// The frame with item `item`, which is below the count, and the item's range in the inflated frame.
    pub(super) fn place(&self, item: usize) -> Option<(Frame, Range<u64>)> {
        let at = item / self.items_per_frame as usize;
        let base = number(&self.table, at * self.items_per_frame as usize);
        let start = number(&self.table, item).checked_sub(base)?;
        let end = number(&self.table, item + 1).checked_sub(base)?;
        (start <= end).then(|| (self.frame(at), u64::from(start)..u64::from(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], count: u64) -> Result<Layout, Wrong> {
        Layout::read(&Bytes::Memory(Arc::new(bytes.to_vec())), count)
    }

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn items_are_found_and_damaged_tables_refused() {
        let chunk = [words(&[2, 16, 17, 19]), vec![1, 2, 3]].concat();
        let Layout::Items(items) = read(&chunk, 2).unwrap() else { panic!("items expected") };
        assert_eq!((items.range(0), items.range(1)), (Some(16..17), Some(17..19)));
        assert!((0..chunk.len()).all(|n| read(&chunk[..n], 2).is_err()));
        assert!(read(&[&chunk[..], &[0]].concat(), 2).is_err());
        assert!(read(&chunk, 3).is_err());
        for bad in
            [[2, 15, 17, 19], [2, 16, 20, 19], [2, 16, 17, 20], [2, 16, 17, 18], [u32::MAX, 16, 17, 19]]
        {
            assert!(read(&[words(&bad), vec![1, 2, 3]].concat(), 2).is_err(), "{bad:?}");
        }
        assert!(read(&chunk, u64::from(u32::MAX)).is_err());
        assert!(matches!(read(&words(&[0, 8]), 0).unwrap(), Layout::Items(_)));
    }

    fn framed(frames: &[u32]) -> Vec<u8> {
        let head = [&FRAMED_MAGIC[..], &words(&[1, 3, 2, 2, 0, 5, 9, 10])].concat();
        [&head[..], &words(frames), &[7; 8]].concat()
    }

    #[test]
    fn frames_are_found_and_damaged_tables_refused() {
        let good = [0, 2, 88, 0, 3, 9, 2, 1, 91, 0, 5, 1];
        let chunk = framed(&good);
        let Layout::Frames(frames) = read(&chunk, 3).unwrap() else { panic!("frames expected") };
        let (frame, range) = frames.place(1).unwrap();
        assert_eq!((frame.offset, frame.length, frame.inflated, range), (88, 3, 9, 5..9));
        assert_eq!(frames.place(2).unwrap().1, 0..1);
        assert!((0..chunk.len()).all(|n| read(&chunk[..n], 3).is_err()));
        for at in 0..good.len() {
            let mut bad = good;
            bad[at] = bad[at].wrapping_add(100);
            assert!(read(&framed(&bad), 3).is_err(), "entry word {at}");
        }
    }
}
