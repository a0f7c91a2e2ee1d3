//! Items: the ranges of an item's leaves, and their conversion to values.

use std::ops::Range;

use super::index::{Index, Loader};
use super::leaf::Leaf;
use super::temporal::Temporal;
use crate::sample::{Kind, MAX_FIELDS};

/// Maximum length of items that are read whole: that costs less than a second read for their sizes.
const READ_WHOLE: u64 = 256 << 10;

/// Converts an item's bytes to values.
#[derive(Debug)]
pub(super) enum ItemReader {
    /// Sizes, then leaves.
    Leaves(Vec<Leaf>),
    /// One array of tokens.
    Tokens(Leaf),
    Temporal(Temporal),
}

impl ItemReader {
    pub(super) fn new(index: &Index) -> Result<Self, String> {
        if index.serializers.len() > MAX_FIELDS {
            return Err(format!("{} leaves; at most {MAX_FIELDS} are supported", index.serializers.len()));
        }
        let leaf = |(serializer, name): (&String, &String)| match (
            Leaf::named(serializer),
            index.ours.kinds.get(name),
        ) {
            // JSON is stored as text.
            (Leaf::Text, Some(Kind::Json)) => Leaf::JsonText,
            (leaf, _) => leaf,
        };
        match index.loader {
            Loader::Tree => {
                Ok(ItemReader::Leaves(index.serializers.iter().zip(&index.names).map(leaf).collect()))
            }
            Loader::Tokens => match Leaf::named(&index.serializers[0]) {
                elements @ Leaf::Elements(_) => Ok(ItemReader::Tokens(elements)),
                _ => Err(format!("tokens stored as '{}' are unknown", index.serializers[0])),
            },
            Loader::Temporal => {
                let schema = index.temporal.as_ref().ok_or("temporal_schema is missing")?;
                Ok(ItemReader::Temporal(Temporal::parse(schema)?))
            }
        }
    }
}

/// Whether reading single leaves of an item is better than reading it whole: never if all are wanted, always if only
/// numbers are, otherwise if the item is large.
pub(super) fn is_worth_parting(length: u64, leaves: &[Leaf], wanted: impl Fn(usize) -> bool) -> bool {
    let all = (0..leaves.len()).all(&wanted);
    let small = || leaves.iter().enumerate().all(|(n, leaf)| !wanted(n) || leaf.fixed_size().is_some());
    !all && length > 4096 && (length > READ_WHOLE || small())
}

/// End of each leaf in its item.
pub(super) struct Sizes {
    ends: [u32; MAX_FIELDS],
    start: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { ends: [0; MAX_FIELDS], start: 0 }
    }
}

impl Sizes {
    /// `head` begins with the sizes of `leaves` leaves (at most [`MAX_FIELDS`]) of an item `length` bytes long.
    pub(super) fn parse(&mut self, head: &[u8], leaves: usize, length: u64) -> Result<(), String> {
        let table = head.get(..4 * leaves).ok_or("the item is shorter than its table of sizes")?;
        self.start = 4 * leaves as u32;
        let mut end = u64::from(self.start);
        for (place, size) in self.ends.iter_mut().zip(table.chunks_exact(4)) {
            end += u64::from(u32::from_le_bytes(size.try_into().expect("four bytes")));
            *place = u32::try_from(end).unwrap_or(u32::MAX);
        }
        if end != length {
            return Err(format!("the leaves' sizes add up to {end} bytes, the item has {length}"));
        }
        Ok(())
    }

    pub(super) fn range(&self, leaf: usize) -> Range<u64> {
        let start = if leaf == 0 { self.start } else { self.ends[leaf - 1] };
        u64::from(start)..u64::from(self.ends[leaf])
    }
}

/// Range of each leaf of an item.
pub(super) fn leaf_places(stored: &[u8], leaves: usize) -> Result<Vec<Range<usize>>, String> {
    let mut sizes = Sizes::default();
    sizes.parse(stored, leaves, stored.len() as u64)?;
    let place = |range: Range<u64>| range.start as usize..range.end as usize;
    Ok((0..leaves).map(|n| place(sizes.range(n))).collect())
}
