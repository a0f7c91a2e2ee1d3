//! WHICH SAMPLES, IN WHICH ORDER.
//!
//! An order is a pure function: (length, seed, epoch, position) → sample. [`Batches`] cuts the positions of an epoch
//! into global batches and gives each rank its part. No I/O, no threads, no state but what the caller passes.
//!
//! Global batch `g` is positions `g·G .. (g+1)·G` with `G = batch_size × world_size`; rank `r` gets the `r`-th of
//! `world_size` equal slices. So the global sequence depends on `G` alone, and a run may go on with another number of
//! ranks as long as `G` stays.

mod permutation;

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use permutation::Permutation;

/// How an epoch is ordered. What [`Order`] is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// 0, 1, 2, …
    Sequential,
    /// Every sample once, in an order drawn from (seed, epoch).
    Shuffled,
    /// The user's own list, the same in every epoch.
    Listed(Arc<[u64]>),
}

/// One epoch's order: position → sample.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Sample = position.
    Sequential,
    /// Sample = permutation of position.
    Permuted(Arc<Permutation>),
    /// Sample = entry of a list.
    Listed(Arc<[u64]>),
}

impl Order {
    /// The order of `epoch` over a data set of `length` samples.
    pub(crate) fn new(sequence: &Sequence, length: u64, seed: u64, epoch: u64) -> Result<Self> {
        match sequence {
            Sequence::Sequential => Ok(Order::Sequential),
            Sequence::Shuffled => Ok(Order::Permuted(Arc::new(Permutation::new(length, &[seed, epoch])))),
            Sequence::Listed(list) => {
                if let Some((at, sample)) = list.iter().enumerate().find(|(_, s)| **s >= length) {
                    let reason = format!("entry {at} is {sample}, but the data set has {length} samples");
                    return Err(Error::option("sampler", reason));
                }
                Ok(Order::Listed(list.clone()))
            }
        }
    }

    /// The sample at `position`, which must be below the number of positions.
    pub(crate) fn at(&self, position: u64) -> u64 {
        match self {
            Order::Sequential => position,
            Order::Permuted(permutation) => permutation.at(position),
            Order::Listed(list) => list[position as usize],
        }
    }
}

/// How positions become batches on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Positions in the epoch.
    pub(crate) positions: u64,
    /// Begin here: positions before it were had in an earlier run.
    pub(crate) first: u64,
    /// Samples per batch on each rank.
    pub(crate) batch_size: u64,
    /// Leave out a last global batch that is not full.
    pub(crate) drop_last: bool,
    /// This process.
    pub(crate) rank: u64,
    /// Of how many.
    pub(crate) world_size: u64,
}

impl Batches {
    /// Samples per global batch.
    pub(crate) fn global_size(&self) -> u64 {
        self.batch_size * self.world_size
    }

    /// Batches from `first` to the epoch's end: the same on every rank.
    pub(crate) fn count(&self) -> u64 {
        let left = self.positions.saturating_sub(self.first);
        if self.drop_last { left / self.global_size() } else { left.div_ceil(self.global_size()) }
    }

    /// Samples that `drop_last` leaves out of the epoch.
    pub(crate) fn dropped(&self) -> u64 {
        let left = self.positions.saturating_sub(self.first);
        if self.drop_last { left % self.global_size() } else { 0 }
    }

    /// Samples that some rank sees a second time because the last global batch has fewer samples than there are
    /// ranks and none may go without.
    pub(crate) fn padded(&self) -> u64 {
        match self.positions.saturating_sub(self.first) % self.global_size() {
            0 => 0,
            _ if self.drop_last => 0,
            rest => self.world_size.saturating_sub(rest),
        }
    }

    /// The positions of batch `number` on this rank. Ranges that reach past the epoch's end wrap around to its
    /// start: see [`padded`](Self::padded).
    pub(crate) fn range(&self, number: u64) -> Range<u64> {
        let start = self.first + number * self.global_size();
        let size = self.global_size().min(self.positions - start);
        // A short last batch is dealt out evenly, the first ranks getting one more; at least one each.
        let (share, extra) = (size / self.world_size, size % self.world_size);
        if share == 0 {
            return start + self.rank..start + self.rank + 1;
        }
        let first = start + self.rank * share + self.rank.min(extra);
        first..first + share + u64::from(self.rank < extra)
    }

    /// Samples in batch `number` on this rank.
    pub(crate) fn size(&self, number: u64) -> u64 {
        let range = self.range(number);
        range.end - range.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn global(positions: u64, batch_size: u64, world_size: u64, drop_last: bool) -> Vec<Vec<u64>> {
        let rank = |rank| Batches { positions, first: 0, batch_size, drop_last, rank, world_size };
        let count = rank(0).count();
        (0..count).map(|b| (0..world_size).flat_map(|r| rank(r).range(b)).collect()).collect()
    }

    proptest! {
        #[test]
        fn ranks_together_make_the_epoch(n in 1u64..300, size in 1u64..20, world in 1u64..9, drop_last: bool) {
            let batches = global(n, size, world, drop_last);
            let one = Batches { positions: n, first: 0, batch_size: size, drop_last, rank: 0, world_size: world };
            let all = batches.concat();
            prop_assert_eq!(all.len() as u64, n - one.dropped() + one.padded());
            prop_assert!(all.iter().copied().eq(0..all.len() as u64));
            for rank in 0..world {
                prop_assert_eq!(Batches { rank, ..one }.count(), one.count());
                for b in 0..one.count() {
                    let here = Batches { rank, ..one }.size(b);
                    prop_assert!(here >= 1 && here <= size);
                }
            }
        }

        #[test]
        fn beginning_later_gives_the_rest(n in 1u64..300, size in 1u64..20, skip in 0u64..20, drop_last: bool) {
            let whole = Batches { positions: n, first: 0, batch_size: size, drop_last, rank: 0, world_size: 1 };
            let rest = Batches { first: skip * size, ..whole };
            prop_assert_eq!(rest.count(), whole.count().saturating_sub(skip));
            for b in 0..rest.count() {
                prop_assert_eq!(rest.range(b), whole.range(b + skip));
            }
        }

        #[test]
        fn world_size_does_not_change_global_batches(n in 1u64..500, drop_last: bool) {
            let reference = global(n, 24, 1, drop_last);
            for world in [2, 3, 4, 8] {
                let mut batches = global(n, 24 / world, world, drop_last);
                if let Some(last) = batches.last_mut() {
                    last.retain(|&p| p < n);
                }
                prop_assert_eq!(&batches, &reference);
            }
        }
    }

    #[test]
    fn a_listed_order_is_checked() {
        let list = Sequence::Listed(vec![1, 5].into());
        let message = Order::new(&list, 3, 0, 0).unwrap_err().to_string();
        assert!(message.contains("entry 1 is 5"), "{message}");
    }
}
