//! The reference.

use super::{masks, window};
use crate::jpeg::idct::Block;

pub(super) fn rows(data: &[u8], first_row: usize, blocks: &mut [Block]) -> Option<()> {
    let mut start = 0;
    for block in blocks {
        let window = window(data, start)?;
        let (masks, mut at) = masks(window);
        for (row, mask) in masks.into_iter().enumerate() {
            for column in 0..8 {
                let present = (mask >> column) & 1;
                let value = i16::from(window[at] as i8) * i16::from(present);
                block[(first_row + row) * 8 + column] = value;
                at += usize::from(present);
            }
        }
        start += at;
    }
    Some(())
}
