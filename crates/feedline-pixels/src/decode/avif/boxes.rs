//! The boxes of an AVIF file: which items there are, where their bytes are, what is known of them, and how they refer to
//! each other. Lists are at most as long as the bytes that describe them; nothing outside the file is read.

use super::CODEC;
use crate::{Result, room};

/// A box: its kind, the offset of its content in the file, and the content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) kind: [u8; 4],
    pub(super) at: usize,
    pub(super) content: &'a [u8],
}

impl<'a> Block<'a> {
    /// The boxes in this one, after `skip` bytes. They must fill it: a length that is wrong changes what follows.
    fn inner(&self, skip: usize) -> Result<Vec<Block<'a>>> {
        let content = self.content.get(skip..).unwrap_or_default();
        let mut blocks = Blocks { rest: content, at: self.at + skip, cut: false };
        let found: Vec<Block<'a>> = blocks.by_ref().collect();
        if blocks.cut || !blocks.rest.is_empty() {
            let kind = self.kind.escape_ascii();
            return Err(CODEC.corrupt(blocks.at, format!("a box does not fit into box {kind}")));
        }
        Ok(found)
    }

    /// A reader of the content, and the version of a box that has one.
    fn versioned(&self) -> Result<(u8, Reader<'a>)> {
        let mut reader = Reader { rest: self.content, at: self.at };
        let version = reader.number(4)? >> 24;
        Ok((version as u8, reader))
    }

    pub(super) fn reader(&self) -> Reader<'a> {
        Reader { rest: self.content, at: self.at }
    }
}

/// Iterates over neighbouring boxes; ends at one that is longer than what follows.
#[derive(Clone, Debug)]
struct Blocks<'a> {
    rest: &'a [u8],
    at: usize,
    /// Whether the last box was longer than what follows.
    cut: bool,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, after) = self.rest.split_first_chunk::<4>()?;
        let (kind, after) = after.split_first_chunk::<4>()?;
        let (head, length) = match u32::from_be_bytes(*length) {
            0 => (8, self.rest.len()),
            1 => (16, usize::try_from(u64::from_be_bytes(*after.first_chunk()?)).ok()?),
            length => (8, length as usize),
        };
        // The last box may be cut off: its items find out whether they are.
        let end = length.min(self.rest.len());
        self.cut = length > self.rest.len();
        let content = self.rest.get(head..end)?;
        let block = Block { kind: *kind, at: self.at + head, content };
        self.rest = &self.rest[end..];
        self.at += end;
        Some(block)
    }
}

/// Reads numbers from a box.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A number of up to eight bytes; none are zero.
    pub(super) fn number(&mut self, width: usize) -> Result<u64> {
        let bytes = self.bytes(width)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| {
            CODEC.truncated(format!(
                "a box ends at byte {}, before its content does",
                self.at + self.rest.len()
            ))
        })?;
        self.rest = rest;
        self.at += length;
        Ok(bytes)
    }
}

/// An image, or a part of one, or something else that has bytes.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) id: u32,
    pub(super) kind: [u8; 4],
    /// Whether extents lie in the `idat` box rather than in the file.
    inside: bool,
    /// Offset and length of each part; a length of zero means up to the end.
    extents: Vec<(u64, u64)>,
    /// Numbers of its properties, from 1.
    properties: Vec<usize>,
}

/// One item refers to others.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) kind: [u8; 4],
    pub(super) from: u32,
    pub(super) to: Vec<u32>,
}

/// What the boxes of a file say.
#[derive(Debug)]
pub(super) struct Boxes<'a> {
    bytes: &'a [u8],
    /// In the order of their numbers.
    items: Vec<Item>,
    properties: Vec<Block<'a>>,
    pub(super) references: Vec<Reference>,
    pub(super) primary: u32,
    idat: Option<Block<'a>>,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self> {
        let mut top = Blocks { rest: bytes, at: 0, cut: false };
        let meta = top.find(|block| block.kind == *b"meta");
        let meta = meta.ok_or_else(|| CODEC.truncated("there is no list of images (box meta)"))?;
        let mut boxes = Boxes {
            bytes,
            items: Vec::new(),
            properties: Vec::new(),
            references: Vec::new(),
            primary: 0,
            idat: None,
        };
        let inside = meta.inner(4)?;
        check_handler(&inside, &meta)?;
        for block in &inside {
            match &block.kind {
                b"pitm" => boxes.primary = read_primary(block)?,
                b"iinf" => boxes.read_kinds(block)?,
                b"idat" => boxes.idat = Some(*block),
                _ => {}
            }
        }
        boxes.items.sort_by_key(|item| item.id);
        for block in &inside {
            match &block.kind {
                b"iloc" => boxes.read_places(block)?,
                b"iprp" => boxes.read_properties(block)?,
                b"iref" => boxes.read_references(block)?,
                _ => {}
            }
        }
        Ok(boxes)
    }

    fn read_kinds(&mut self, block: &Block<'_>) -> Result<()> {
        let (version, _) = block.versioned()?;
        for entry in block.inner(if version == 0 { 6 } else { 8 })? {
            let (version, mut reader) = entry.versioned()?;
            if entry.kind != *b"infe" || version < 2 {
                continue;
            }
            let id = reader.number(if version == 2 { 2 } else { 4 })? as u32;
            reader.number(2)?;
            let kind = *reader.bytes(4)?.first_chunk().expect("four bytes");
            self.items.push(Item { id, kind, ..Item::default() });
        }
        Ok(())
    }

    fn read_places(&mut self, block: &Block<'_>) -> Result<()> {
        let (version, mut reader) = block.versioned()?;
        let sizes = reader.number(2)?;
        let size = |shift: u32| (sizes >> shift & 15) as usize;
        let (offset, length, base) = (size(12), size(8), size(4));
        let index = if version == 0 { 0 } else { size(0) };
        if [offset, length, base, index].iter().any(|size| !matches!(size, 0 | 4 | 8)) {
            return Err(CODEC.corrupt(block.at + 4, "numbers that are neither 4 nor 8 bytes long"));
        }
        let wide = if version < 2 { 2 } else { 4 };
        for _ in 0..reader.number(wide)? {
            let id = reader.number(wide)? as u32;
            let method = if version == 0 { 0 } else { reader.number(2)? & 15 };
            reader.number(2)?;
            let base = reader.number(base)?;
            let count = reader.number(2)?;
            if count > 1 && offset + length == 0 {
                return Err(CODEC.corrupt(reader.at, "several parts without offsets"));
            }
            let mut extents = Vec::new();
            for _ in 0..count {
                reader.number(index)?;
                let start = base.saturating_add(reader.number(offset)?);
                extents.push((start, reader.number(length)?));
            }
            if let Some(item) = self.item_mut(id) {
                // Items that are made of other items' bytes are not images.
                let known = method < 2;
                (item.inside, item.extents) = (method == 1, if known { extents } else { Vec::new() });
            }
        }
        Ok(())
    }

    fn read_properties(&mut self, block: &Block<'a>) -> Result<()> {
        for part in block.inner(0)? {
            match &part.kind {
                b"ipco" => self.properties = part.inner(0)?,
                b"ipma" => self.read_associations(&part)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_associations(&mut self, block: &Block<'_>) -> Result<()> {
        let mut reader = block.reader();
        let head = reader.number(4)?;
        let (wide_id, wide) = (head >> 24 > 0, head & 1 == 1);
        for _ in 0..reader.number(4)? {
            let id = reader.number(if wide_id { 4 } else { 2 })? as u32;
            let mut properties = Vec::new();
            for _ in 0..reader.number(1)? {
                let number = reader.number(if wide { 2 } else { 1 })?;
                // The highest bit tells whether readers must know the property.
                properties.push((number & if wide { 0x7FFF } else { 0x7F }) as usize);
            }
            if let Some(item) = self.item_mut(id) {
                item.properties = properties;
            }
        }
        Ok(())
    }

    fn read_references(&mut self, block: &Block<'_>) -> Result<()> {
        let (version, _) = block.versioned()?;
        let wide = if version == 0 { 2 } else { 4 };
        for part in block.inner(4)? {
            let mut reader = part.reader();
            let from = reader.number(wide)? as u32;
            let mut to = Vec::new();
            for _ in 0..reader.number(2)? {
                to.push(reader.number(wide)? as u32);
            }
            self.references.push(Reference { kind: part.kind, from, to });
        }
        Ok(())
    }

    fn item_mut(&mut self, id: u32) -> Option<&mut Item> {
        let at = self.items.binary_search_by_key(&id, |item| item.id).ok()?;
        self.items.get_mut(at)
    }

    pub(super) fn item(&self, id: u32) -> Result<&Item> {
        let at = self.items.binary_search_by_key(&id, |item| item.id);
        at.map(|at| &self.items[at]).map_err(|_| CODEC.truncated(format!("there is no item {id}")))
    }

    /// The properties of an item, in the order in which they apply.
    pub(super) fn properties(&self, item: &Item) -> impl Iterator<Item = &Block<'a>> {
        item.properties.iter().filter_map(|number| self.properties.get(number.checked_sub(1)?))
    }

    pub(super) fn property(&self, item: &Item, kind: [u8; 4]) -> Option<&Block<'a>> {
        self.properties(item).find(|block| block.kind == kind)
    }

    /// The bytes of an item, and the offset of the first in the file; copied to `joined` if they lie in several parts.
    pub(super) fn content<'b>(&self, item: &Item, joined: &'b mut Vec<u8>) -> Result<(usize, &'b [u8])>
    where
        'a: 'b,
    {
        let first =
            item.extents.first().ok_or_else(|| CODEC.truncated(format!("item {} has no bytes", item.id)))?;
        let (at, content) = self.part(item, *first)?;
        if item.extents.len() == 1 {
            return Ok((at, content));
        }
        joined.clear();
        for extent in &item.extents {
            let (_, part) = self.part(item, *extent)?;
            // Parts may overlap, but an image is no longer than the file.
            if joined.len() + part.len() > self.bytes.len() {
                return Err(CODEC.corrupt(at, "the parts of an image are longer than the file"));
            }
            room::reserve(joined, part.len())?;
            joined.extend_from_slice(part);
        }
        Ok((at, joined))
    }

    fn part(&self, item: &Item, (start, length): (u64, u64)) -> Result<(usize, &'a [u8])> {
        let (base, room) = match (&self.idat, item.inside) {
            (_, false) => (0, self.bytes),
            (Some(idat), true) => (idat.at, idat.content),
            (None, true) => return Err(CODEC.truncated("there is no box idat")),
        };
        let cut = || CODEC.truncated(format!("item {} reaches behind the end of the file", item.id));
        let start = usize::try_from(start).map_err(|_| cut())?;
        let rest = room.get(start..).ok_or_else(cut)?;
        let part = match length {
            0 => rest,
            length => usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or_else(cut)?,
        };
        Ok((base + start, part))
    }
}

/// The first box must say that the file is about images.
fn check_handler(blocks: &[Block<'_>], meta: &Block<'_>) -> Result<()> {
    let first = blocks.first().filter(|block| block.kind == *b"hdlr");
    if first.and_then(|block| block.content.get(..12)) == Some(b"\0\0\0\0\0\0\0\0pict") {
        return Ok(());
    }
    Err(CODEC.corrupt(meta.at + 4, "the list of images does not begin with its handler"))
}

fn read_primary(block: &Block<'_>) -> Result<u32> {
    let (version, mut reader) = block.versioned()?;
    Ok(reader.number(if version == 0 { 2 } else { 4 })? as u32)
}
