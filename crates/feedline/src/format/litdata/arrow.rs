//! Chunks whose items are the rows of an Arrow table.

use super::chunk::{Bytes, Wrong};

/// Last bytes of a chunk with an Arrow body.
const MAGIC: &[u8; 8] = b"LDARW01\0";

/// Where the rows of an Arrow body lie.
#[derive(Debug)]
pub(super) struct Rows;

impl Rows {
    /// The Arrow body behind the items, which end at `start`, if there is one.
    pub(super) fn find(bytes: &Bytes<'_>, start: u64, _count: u64) -> Result<Option<Rows>, Wrong> {
        let size = bytes.size();
        if size < start + 12 || bytes.copy(size - 8..size)? != MAGIC {
            return Ok(None);
        }
        Err(Wrong::At(start, "the chunk is an Arrow table, which is not read yet".to_owned()))
    }
}
