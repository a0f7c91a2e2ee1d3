//! Buffers of blocks, used again: memory fresh from the system costs a page fault for every 4 KiB, and is cleared
//! twice (a seventh of what writing the block costs).

use std::sync::{Mutex, PoisonError};

use super::block::Description;
use crate::error::Result;
use crate::source::room_for;

/// Number of buffers that are kept.
const MOST: usize = 4;

/// Buffers that nobody uses at the moment.
#[derive(Debug, Default)]
pub(super) struct BlockBuffers(Mutex<Vec<Vec<u8>>>);

impl BlockBuffers {
    /// A buffer of at least `length` bytes, with any content.
    pub(super) fn take(&self, length: usize, of: &Description) -> Result<Vec<u8>> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare.filter(|buffer| buffer.len() >= length) {
            Some(buffer) => Ok(buffer),
            None => room_for(length as u64, &of.uri, &of.name),
        }
    }

    /// Keeps the buffer for the next block.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST {
            spare.push(buffer);
        }
    }
}
