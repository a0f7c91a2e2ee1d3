//! Quasi-random order for fast storage access: shuffles whole blocks of neighbouring samples, then the samples inside a
//! window of blocks. A reader needs one window's blocks at a time and each block once per epoch.
//!
//! ```text
//! blocks by key:   5 2 7 │ 0 3 6 │ 1 4         windows of 3 blocks
//! samples by key:  shuffled inside each window
//! ```
//!
//! Position → sample in constant time. Only the permutation of blocks is stored (a table up to 65,536 blocks).

use std::sync::Arc;

use super::permutation::{Permutation, permuted};

/// Separates shuffles inside windows from all other uses of the seed.
const PURPOSE: u64 = 0x7769_6e64_6f77; // "window"

/// One epoch's quasi-random order.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    length: u64,
    /// Samples per block.
    block: u64,
    /// Blocks per window.
    window: u64,
    places: Arc<Permutation>,
    key: [u64; 2],
}

impl Blocks {
    pub(super) fn new(length: u64, block: u64, window: u64, seed: u64, epoch: u64) -> Self {
        // A block larger than the data set would consist mostly of missing samples, and skipping those would be very
        // slow.
        let block = block.min(length.max(1));
        let count = length.div_ceil(block);
        let window = window.min(count.max(1));
        let places = Arc::new(Permutation::new(count, &[seed, epoch, PURPOSE]));
        Blocks { length, block, window, places, key: [seed, epoch] }
    }

    pub(super) fn at(&self, position: u64) -> u64 {
        // The last block may be short. Its missing samples are permuted again until a real one is found. This moves
        // fewer than one block of samples out of their windows and keeps everything else simple.
        let mut at = position;
        loop {
            at = self.scramble(at);
            if at < self.length {
                return at;
            }
        }
    }

    /// The first position after `position` that belongs to another window.
    pub(super) fn window_end(&self, position: u64) -> u64 {
        let span = self.block * self.window;
        (position / span + 1) * span
    }

    fn scramble(&self, position: u64) -> u64 {
        let whole = self.length.div_ceil(self.block) * self.block;
        let span = self.block * self.window;
        let number = position / span;
        let start = number * span;
        let length = span.min(whole - start);
        let [seed, epoch] = self.key;
        let within = start + permuted(length, &[PURPOSE, seed, epoch, number], position - start);
        self.places.at(within / self.block) * self.block + within % self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sample_once(length in 1u64..3000, block in 1u64..70, window in 1u64..20, seed: u64) {
            let blocks = Blocks::new(length, block, window, seed, 3);
            let mut seen: Vec<u64> = (0..length).map(|p| blocks.at(p)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..length));
        }
    }

    #[test]
    fn blocks_and_windows_larger_than_the_data_cover_all_of_it() {
        for (block, window) in [(4, 1 << 62), (1 << 62, 4), (u64::MAX, u64::MAX), (1 << 40, 1)] {
            let blocks = Blocks::new(2001, block, window, 7, 3);
            let mut seen: Vec<u64> = (0..2001).map(|p| blocks.at(p)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..2001), "{block} {window}");
            assert!(blocks.window_end(2000) >= 2001);
        }
        Blocks::new(0, 8, 8, 1, 1);
    }

    #[test]
    fn a_window_reads_its_blocks_and_few_others() {
        let (block, window) = (50, 8);
        let blocks = Blocks::new(100_000, block, window, 1, 2);
        for number in 0..250 {
            let mut read: Vec<u64> = (0..400).map(|p| blocks.at(number * 400 + p) / block).collect();
            read.sort_unstable();
            read.dedup();
            assert_eq!(read.len(), 8, "window {number}");
            assert_eq!(blocks.window_end(number * 400 + 399), (number + 1) * 400);
        }
    }
}
