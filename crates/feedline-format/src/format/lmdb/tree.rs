//! The tree of keys in the layout of LMDB 0.9 on 64-bit little-endian machines: two meta pages, of which the one with
//! the later transaction is valid; branch and leaf pages with offsets of their nodes; large values in runs of
//! overflow pages.

use crate::error::{Error, Location, Result};
use crate::source::Object;

const MAGIC: u32 = 0xbeef_c0de;
/// Length of every page's header.
const HEAD: usize = 16;
/// Number of bytes read of a meta page.
const META: usize = 152;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// A node's value is in overflow pages.
const BIG: u16 = 1;
/// A node's value is a database, or a set of values.
const NESTED: u16 = 2 | 4;
/// A tree of four billion pages is less deep than this.
const MAX_DEPTH: usize = 16;
/// No page.
const NONE: u64 = u64::MAX;

/// One value: its offset and length, and the range of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) length: u64,
    key: (u64, u64),
}

/// All keys, sorted.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Offset and length of each value, and the end of its key.
    entries: Vec<(u64, u64, u64)>,
    /// The keys themselves, one after the other.
    text: Vec<u8>,
    pub(super) transaction: u64,
    /// Number of keys such as `__len__`, and the first of them.
    pub(super) metas: u64,
    pub(super) first_meta: Option<String>,
    /// Number of keys whose values are not plain values.
    pub(super) nested: u64,
}

impl Keys {
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn entry(&self, number: u64) -> Option<Entry> {
        let at = usize::try_from(number).ok()?;
        let (offset, length, end) = *self.entries.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.entries[before].2);
        Some(Entry { offset, length, key: (start, end) })
    }

    pub(super) fn key(&self, entry: &Entry) -> &[u8] {
        &self.text[entry.key.0 as usize..entry.key.1 as usize]
    }

    pub(super) fn are_text(&self) -> bool {
        let mut all = (0..self.len()).filter_map(|number| self.entry(number));
        all.all(|entry| std::str::from_utf8(self.key(&entry)).is_ok())
    }

    fn add(&mut self, key: &[u8], offset: u64, length: u64) {
        // `__len__`, `__keys__`: notes that writers of Python data sets store beside their samples.
        if key.len() > 4 && key.starts_with(b"__") && key.ends_with(b"__") {
            self.metas += 1;
            self.first_meta.get_or_insert_with(|| String::from_utf8_lossy(key).into_owned());
            return;
        }
        self.text.extend_from_slice(key);
        self.entries.push((offset, length, self.text.len() as u64));
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Whether the file begins with a meta page.
pub(super) fn is_lmdb(object: &dyn Object) -> Result<bool> {
    let mut head = [0; HEAD + 4];
    if object.size() < META as u64 {
        return Ok(false);
    }
    object.read_at(0, &mut head)?;
    Ok(word(&head, HEAD) == MAGIC)
}

/// Content of a meta page.
#[derive(Clone, Copy, Debug)]
struct Meta {
    page_size: u64,
    flags: u16,
    entries: u64,
    root: u64,
    last_page: u64,
    transaction: u64,
}

impl Meta {
    fn read(object: &dyn Object, at: u64) -> Result<Option<Self>> {
        let mut page = [0; META];
        if at.checked_add(META as u64).is_none_or(|end| end > object.size()) {
            return Ok(None);
        }
        object.read_at(at, &mut page)?;
        let page_size = u64::from(word(&page, 40));
        let fits = word(&page, 16) == MAGIC && word(&page, 20) == 1;
        Ok((fits && page_size.is_power_of_two() && (512..=65536).contains(&page_size)).then(|| Meta {
            page_size,
            flags: half(&page, 88 + 4),
            entries: long(&page, 88 + 32),
            root: long(&page, 88 + 40),
            last_page: long(&page, 136),
            transaction: long(&page, 144),
        }))
    }

    /// The later of the two meta pages.
    fn find(object: &dyn Object, place: &Location) -> Result<Self> {
        let bad = |reason: &str| Error::data(place.clone(), reason);
        let first = Meta::read(object, 0)?.ok_or_else(|| bad("not an LMDB environment of version 1"))?;
        let second = Meta::read(object, first.page_size)?;
        Ok(second.filter(|second| second.transaction > first.transaction).unwrap_or(first))
    }
}

/// Walks over all leaves.
struct Walk<'a> {
    object: &'a dyn Object,
    place: &'a Location,
    meta: Meta,
    keys: Keys,
    /// Number of pages that may still be visited, so that a tree with a cycle ends.
    left: u64,
}

/// All keys of the main database.
pub(super) fn walk(object: &dyn Object, place: &Location) -> Result<Keys> {
    let meta = Meta::find(object, place)?;
    // Flags of databases whose keys are numbers, reversed, or have several values.
    if meta.flags & 0x7e != 0 {
        let reason = "keys with several values or in an order of their own are not supported";
        return Err(Error::data(place.clone(), reason));
    }
    let left = meta.last_page.saturating_add(1).min(object.size() / meta.page_size + 1);
    let keys = Keys { transaction: meta.transaction, ..Keys::default() };
    let mut walk = Walk { object, place, meta, keys, left };
    if meta.root != NONE {
        walk.page(meta.root, 0)?;
    }
    let found = walk.keys.len() + walk.keys.metas + walk.keys.nested;
    if found != meta.entries {
        return Err(
            walk.bad(0, format!("{found} keys found, {} announced: the file is damaged", meta.entries))
        );
    }
    Ok(walk.keys)
}

impl Walk<'_> {
    fn bad(&self, page: u64, reason: impl Into<String>) -> Error {
        let offset = page.saturating_mul(self.meta.page_size);
        Error::data(self.place.clone().with_offset(offset), reason)
    }

    fn page(&mut self, number: u64, depth: usize) -> Result<()> {
        let size = self.meta.page_size;
        let start = number.checked_mul(size).filter(|start| {
            start.checked_add(size).is_some_and(|end| end <= self.object.size())
                && number <= self.meta.last_page
        });
        let start = start.ok_or_else(|| self.bad(number, "a page past the end: the file is cut off"))?;
        if depth > MAX_DEPTH || self.left == 0 {
            return Err(self.bad(number, "a tree of pages that leads back into itself"));
        }
        self.left -= 1;
        let mut page = vec![0; size as usize];
        self.object.read_at(start, &mut page)?;
        let (flags, lower) = (half(&page, 10), usize::from(half(&page, 12)));
        if long(&page, 0) != number || lower < HEAD || lower > page.len() || !lower.is_multiple_of(2) {
            return Err(self.bad(number, "a damaged page"));
        }
        for at in (HEAD..lower).step_by(2) {
            let node = usize::from(half(&page, at));
            let damaged = || self.bad(number, "a damaged node");
            let head = page.get(node..node + 8).filter(|_| node >= lower).ok_or_else(damaged)?;
            match flags & (BRANCH | LEAF) {
                BRANCH => {
                    let low = u64::from(word(head, 0));
                    self.page(low | u64::from(half(head, 4)) << 32, depth + 1)?;
                }
                LEAF => self.leaf(number, start, &page, node)?,
                _ => return Err(self.bad(number, "a page that is no part of a tree")),
            }
        }
        Ok(())
    }

    fn leaf(&mut self, number: u64, start: u64, page: &[u8], node: usize) -> Result<()> {
        let (length, flags) = (u64::from(word(page, node)), half(page, node + 4));
        let key_end = node + 8 + usize::from(half(page, node + 6));
        let damaged = || self.bad(number, "a damaged node");
        let key = page.get(node + 8..key_end).ok_or_else(damaged)?;
        if flags & NESTED != 0 {
            self.keys.nested += 1;
            return Ok(());
        }
        let offset = if flags & BIG == 0 {
            let inside = page.len() as u64 - key_end as u64;
            start + (length <= inside).then_some(key_end as u64).ok_or_else(damaged)?
        } else {
            let run = page.get(key_end..key_end + 8).map(|at| long(at, 0)).ok_or_else(damaged)?;
            let at = run.checked_mul(self.meta.page_size).and_then(|at| at.checked_add(HEAD as u64));
            let inside = |at: &u64| at.checked_add(length).is_some_and(|end| end <= self.object.size());
            at.filter(inside).ok_or_else(|| self.bad(run, "a value past the end: the file is cut off"))?
        };
        self.keys.add(key, offset, length);
        Ok(())
    }
}
