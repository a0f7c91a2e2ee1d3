//! A TIFF directory: tags and their numbers. Classic and BigTIFF, either byte order.
//!
//! Nothing outside the file is read, and no count is trusted: a list is at most as long as the bytes that follow.

use super::CODEC;
use crate::Result;

/// Tags that decoding uses.
pub(super) mod tag {
    pub(in super::super) const WIDTH: u16 = 256;
    pub(in super::super) const HEIGHT: u16 = 257;
    pub(in super::super) const BITS_PER_SAMPLE: u16 = 258;
    pub(in super::super) const COMPRESSION: u16 = 259;
    pub(in super::super) const PHOTOMETRIC: u16 = 262;
    pub(in super::super) const FILL_ORDER: u16 = 266;
    pub(in super::super) const STRIP_OFFSETS: u16 = 273;
    pub(in super::super) const ORIENTATION: u16 = 274;
    pub(in super::super) const SAMPLES_PER_PIXEL: u16 = 277;
    pub(in super::super) const ROWS_PER_STRIP: u16 = 278;
    pub(in super::super) const STRIP_BYTE_COUNTS: u16 = 279;
    pub(in super::super) const PLANAR_CONFIGURATION: u16 = 284;
    pub(in super::super) const T4_OPTIONS: u16 = 292;
    pub(in super::super) const PREDICTOR: u16 = 317;
    pub(in super::super) const COLOR_MAP: u16 = 320;
    pub(in super::super) const TILE_WIDTH: u16 = 322;
    pub(in super::super) const TILE_LENGTH: u16 = 323;
    pub(in super::super) const TILE_OFFSETS: u16 = 324;
    pub(in super::super) const TILE_BYTE_COUNTS: u16 = 325;
    pub(in super::super) const EXTRA_SAMPLES: u16 = 338;
    pub(in super::super) const SAMPLE_FORMAT: u16 = 339;
    pub(in super::super) const JPEG_TABLES: u16 = 347;
    pub(in super::super) const JPEG_STREAM: u16 = 513;
    pub(in super::super) const YCBCR_SUBSAMPLING: u16 = 530;

    /// Whether decoding depends on the values of a tag.
    pub(super) fn matters(tag: u16) -> bool {
        matches!(tag, WIDTH..=PHOTOMETRIC | FILL_ORDER | STRIP_OFFSETS..=T4_OPTIONS | PREDICTOR..=TILE_BYTE_COUNTS)
            || matches!(tag, EXTRA_SAMPLES | SAMPLE_FORMAT | JPEG_TABLES | JPEG_STREAM | YCBCR_SUBSAMPLING)
    }
}

/// One entry: the type of its values, their number, and their offset.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    at: usize,
}

/// The first directory of a file.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    bytes: &'a [u8],
    pub(super) big_endian: bool,
    entries: Vec<Entry>,
}

impl<'a> Directory<'a> {
    /// Reads the first directory.
    pub(super) fn first(bytes: &'a [u8]) -> Result<Self> {
        let (mut directory, large) = Self::empty(bytes)?;
        directory.read_entries(large)?;
        Ok(directory)
    }

    /// No entries yet; and whether the file is a BigTIFF.
    fn empty(bytes: &'a [u8]) -> Result<(Self, bool)> {
        let (big_endian, large) = match bytes.get(..4) {
            Some(b"II*\0") => (false, false),
            Some(b"MM\0*") => (true, false),
            Some(b"II+\0") => (false, true),
            Some(b"MM\0+") => (true, true),
            _ => return Err(CODEC.truncated("no file header")),
        };
        Ok((Directory { bytes, big_endian, entries: Vec::new() }, large))
    }

    /// Where the file says where its first directory is, and the bytes there that would name directory `page`.
    pub(super) fn link_to(bytes: &'a [u8], page: usize) -> Result<(usize, &'a [u8])> {
        let (directory, large) = Self::empty(bytes)?;
        let (first, width, head, entry) = if large { (8, 8, 8, 20) } else { (4, 4, 2, 12) };
        let mut link = first;
        for number in 0..=page {
            let start = directory.number(link, width).filter(|start| *start != 0);
            // A directory takes more bytes than this, so links that run in a circle end, too.
            if start.is_none() || number > bytes.len() / entry {
                let pages = if number == 1 { "1 page".to_owned() } else { format!("{number} pages") };
                return Err(
                    CODEC.unsupported(format!("page {page} of a file with {pages} (they count from 0)"))
                );
            }
            if number == page {
                break;
            }
            let next = start.and_then(|start| {
                let start = usize::try_from(start).ok()?;
                let count = usize::try_from(directory.number(start, head)?).ok()?;
                start.checked_add(head)?.checked_add(count.checked_mul(entry)?)
            });
            link =
                next.ok_or_else(|| CODEC.truncated(format!("the directory of page {number} is cut off")))?;
        }
        Ok((first, &bytes[link..link + width]))
    }

    fn read_entries(&mut self, large: bool) -> Result<()> {
        let cut = |at: usize| CODEC.truncated(format!("the directory at byte {at} is cut off"));
        let (start, width) = if large { (self.number(8, 8), 20) } else { (self.number(4, 4), 12) };
        let start = start.and_then(|at| usize::try_from(at).ok()).ok_or_else(|| cut(4))?;
        let head = if large { 8 } else { 2 };
        let count = self.number(start, head).ok_or_else(|| cut(start))?;
        let room = (self.bytes.len() - start - head) / width;
        // A missing tag would be replaced by its default, and the pixels would be wrong.
        if count == 0 || count > room as u64 {
            return Err(cut(start));
        }
        for number in 0..count as usize {
            let at = start + head + number * width;
            let entry = self.read_entry(at, large).ok_or_else(|| cut(start))?;
            if tag::matters(entry.tag) && self.values(&entry).is_none() {
                return Err(CODEC.truncated(format!("values of tag {} are cut off", entry.tag)));
            }
            self.entries.push(entry);
        }
        Ok(())
    }

    fn read_entry(&self, at: usize, large: bool) -> Option<Entry> {
        let (tag, kind) = (self.number(at, 2)? as u16, self.number(at + 2, 2)? as u16);
        let (count, value, room) =
            if large { (self.number(at + 4, 8)?, at + 12, 8) } else { (self.number(at + 4, 4)?, at + 8, 4) };
        let inline = count.checked_mul(size_of_kind(kind) as u64).is_some_and(|size| size <= room as u64);
        let at = if inline { value } else { usize::try_from(self.number(value, room)?).ok()? };
        Some(Entry { tag, kind, count, at })
    }

    /// An unsigned number of `width` bytes at `at`.
    fn number(&self, at: usize, width: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(width)?)?;
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) })
    }

    fn entry(&self, tag: u16) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    /// All numbers of a tag; `None` if it is missing, cut off or not a list of integers.
    pub(super) fn numbers(&self, tag: u16) -> Option<Vec<u64>> {
        let entry = self.entry(tag)?;
        let width = match entry.kind {
            1 | 3 | 4 | 6 | 8 | 9 | 13 | 16 | 17 | 18 => size_of_kind(entry.kind),
            _ => return None,
        };
        let count = usize::try_from(entry.count).ok()?;
        self.bytes.get(entry.at..entry.at.checked_add(count.checked_mul(width)?)?)?;
        (0..count).map(|at| self.number(entry.at + at * width, width)).collect()
    }

    /// The first number of a tag.
    pub(super) fn first_number(&self, tag: u16) -> Option<u64> {
        let entry = self.entry(tag)?;
        match entry.kind {
            _ if entry.count == 0 => None,
            1 | 3 | 4 | 6 | 8 | 9 | 13 | 16 | 17 | 18 => self.number(entry.at, size_of_kind(entry.kind)),
            _ => None,
        }
    }

    /// The bytes of a tag.
    pub(super) fn raw(&self, tag: u16) -> Option<&'a [u8]> {
        self.values(self.entry(tag)?)
    }

    fn values(&self, entry: &Entry) -> Option<&'a [u8]> {
        let length = usize::try_from(entry.count).ok()?.checked_mul(size_of_kind(entry.kind))?;
        self.bytes.get(entry.at..entry.at.checked_add(length)?)
    }

    /// Offset of a tag's values in the file, for errors.
    pub(super) fn place(&self, tag: u16) -> usize {
        self.entry(tag).map_or(0, |entry| entry.at)
    }
}

const fn size_of_kind(kind: u16) -> usize {
    match kind {
        3 | 8 => 2,
        4 | 9 | 11 | 13 => 4,
        5 | 10 | 12 | 16 | 17 | 18 => 8,
        _ => 1,
    }
}
