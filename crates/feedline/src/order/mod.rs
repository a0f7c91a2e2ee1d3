//! WHICH SAMPLES, IN WHICH ORDER.
//!
//! An order is a pure function: (length, seed, epoch, position) → sample. `Batches` cuts the positions of an epoch
//! into global batches and gives each rank its part. No I/O, no threads, no hidden state.
//! `docs/order.md` explains to users what each order costs and how well it shuffles.
//!
//! Global batch `g` is positions `g·G .. (g+1)·G` with `G = batch_size × world_size` (with buckets: the `g`-th of the
//! epoch's cuts; with packing: rows instead of positions); rank `r` gets the `r`-th of `world_size` equal slices. So the global sequence depends on `G` alone,
//! and a run may be resumed with another number of ranks as long as `G` stays the same.

mod balanced;
mod block;
mod buckets;
mod mix;
mod packed;
mod permutation;
mod state;
mod weighted;

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::random::Draw;
pub(crate) use balanced::Balanced;
pub(crate) use buckets::Buckets;
pub(crate) use mix::Recipe;
pub(crate) use packed::{Packing, Rows};
use permutation::{Permutation, permuted};
pub(crate) use state::digest;
pub use state::{BadSamples, Identity, STATE_VERSION, State};
pub(crate) use weighted::Alias;

/// Separates draws with replacement from all other uses of the seed.
const PURPOSE: u64 = 0x7265_7065_6174; // "repeat"

/// Separates the choice of substitutes from all other uses of the seed.
const SUBSTITUTE: u64 = 0x7375_6273_7469; // "substi"

/// How epochs are ordered; an [`Order`] is made from it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Sequence {
    /// 0, 1, 2, …
    Sequential,
    /// Every sample at most once, in an order drawn from (seed, epoch); the first `count` of them.
    Shuffled {
        /// Positions per epoch.
        count: u64,
    },
    /// Quasi-random: see [`block`].
    Blocks {
        /// Samples per block.
        block: u64,
        /// Blocks per window.
        window: u64,
    },
    /// Each position's sample is drawn independently.
    Repeating {
        /// Positions per epoch.
        count: u64,
    },
    /// Each position's sample is drawn independently, by weight.
    Weighted {
        /// The distribution.
        table: Arc<Alias>,
        /// Positions per epoch.
        count: u64,
    },
    /// By weight, without repeats.
    WeightedOnce {
        /// One weight per sample.
        weights: Arc<[f64]>,
        /// Positions per epoch.
        count: u64,
    },
    /// Every class equally often.
    Balanced {
        /// Samples by class.
        classes: Arc<Balanced>,
        /// Positions per epoch.
        count: u64,
    },
    /// Several data sets by weight.
    Mixed(Arc<Recipe>),
    /// Batches of similar samples.
    Bucketed(Arc<Buckets>),
    /// Rows of several samples.
    Packed(Arc<Packing>),
    /// The user's own list, the same in every epoch.
    Listed(Arc<[u64]>),
    /// The user's own list, a new one in every epoch, passed when the epoch starts.
    PerEpoch {
        /// Name for saved states.
        name: Arc<str>,
        /// Positions per epoch.
        count: u64,
    },
}

impl Sequence {
    /// Number of positions in an epoch over a data set of `length` samples.
    pub(crate) fn positions(&self, length: u64) -> u64 {
        match self {
            Sequence::Sequential | Sequence::Blocks { .. } => length,
            Sequence::Shuffled { count }
            | Sequence::Repeating { count }
            | Sequence::Weighted { count, .. }
            | Sequence::WeightedOnce { count, .. }
            | Sequence::Balanced { count, .. }
            | Sequence::PerEpoch { count, .. } => *count,
            Sequence::Mixed(recipe) => recipe.count,
            Sequence::Bucketed(buckets) => buckets.len(),
            Sequence::Packed(packing) => packing.len(),
            Sequence::Listed(list) => list.len() as u64,
        }
    }

    /// Returns an error if it contains samples that do not exist.
    pub(crate) fn check(&self, length: u64) -> Result<()> {
        let Sequence::Listed(list) = self else { return Ok(()) };
        check_list(list, length)
    }

    /// This epoch's order as a sequence, from the list that the user passes for the epoch.
    pub(crate) fn given_list(&self, list: Vec<u64>, length: u64) -> Result<Sequence> {
        let Sequence::PerEpoch { count, .. } = self else {
            return Err(Error::option("sampler", "gives the order itself; it takes no list for one epoch"));
        };
        if list.len() as u64 != *count {
            let reason = format!("{} samples in this epoch, {count} were announced for each", list.len());
            return Err(Error::option("sampler", reason));
        }
        check_list(&list, length)?;
        Ok(Sequence::Listed(list.into()))
    }
}

/// Returns an error for the first number that is not a sample's.
fn check_list(list: &[u64], length: u64) -> Result<()> {
    match list.iter().enumerate().find(|(_, sample)| **sample >= length) {
        None => Ok(()),
        Some((at, sample)) => {
            let reason = format!("entry {at} is {sample}, but the data set has {length} samples");
            Err(Error::option("sampler", reason))
        }
    }
}

/// One epoch's order: position → sample.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    kind: OrderKind,
    seed: u64,
    epoch: u64,
    /// Number of consecutive positions that have the same sample.
    repeats: u64,
}

#[derive(Clone, Debug)]
enum OrderKind {
    Sequential,
    Permuted(Arc<Permutation>),
    Blocks(block::Blocks),
    Repeating(u64),
    Weighted(Arc<Alias>),
    Balanced(Arc<Balanced>),
    Mixed(mix::Mix),
    Bucketed(Arc<Buckets>),
    Packed(Arc<Rows>),
    Listed(Arc<[u64]>),
}

impl Order {
    /// Creates the order of `epoch` over a data set of `length` samples.
    pub(crate) fn new(sequence: &Sequence, length: u64, seed: u64, epoch: u64) -> Self {
        let kind = match sequence {
            Sequence::Sequential => OrderKind::Sequential,
            Sequence::Shuffled { .. } => {
                OrderKind::Permuted(Arc::new(Permutation::new(length, &[seed, epoch])))
            }
            Sequence::Blocks { block, window } => {
                OrderKind::Blocks(block::Blocks::new(length, *block, *window, seed, epoch))
            }
            Sequence::Repeating { .. } => OrderKind::Repeating(length),
            Sequence::Weighted { table, .. } => OrderKind::Weighted(table.clone()),
            Sequence::WeightedOnce { weights, count } => {
                OrderKind::Listed(weighted::without_replacement(weights, *count, seed, epoch).into())
            }
            Sequence::Balanced { classes, .. } => OrderKind::Balanced(classes.clone()),
            Sequence::Mixed(recipe) => OrderKind::Mixed(mix::Mix::new(recipe, seed, epoch)),
            Sequence::Bucketed(buckets) => OrderKind::Bucketed(buckets.clone()),
            Sequence::Packed(packing) => OrderKind::Packed(packing.rows(seed, epoch)),
            Sequence::Listed(list) => OrderKind::Listed(list.clone()),
            Sequence::PerEpoch { .. } => unreachable!("the list for the epoch has replaced it"),
        };
        Order { kind, seed, epoch, repeats: 1 }
    }

    /// Repeats each sample `repeats` times in a row. The number of positions stays, so an epoch has fewer samples.
    pub(crate) fn repeated(self, repeats: u64) -> Self {
        Order { repeats, ..self }
    }

    /// The sample at `position`, which must be below the number of positions.
    pub(crate) fn at(&self, position: u64) -> u64 {
        let (seed, epoch, position) = (self.seed, self.epoch, position / self.repeats);
        match &self.kind {
            OrderKind::Sequential => position,
            OrderKind::Permuted(permutation) => permutation.at(position),
            OrderKind::Blocks(blocks) => blocks.at(position),
            OrderKind::Repeating(length) => Draw::new(&[PURPOSE, seed, epoch, position]).below(*length),
            OrderKind::Weighted(table) => table.at(seed, epoch, position),
            OrderKind::Balanced(classes) => classes.at(seed, epoch, position),
            OrderKind::Mixed(mix) => mix.at(position),
            OrderKind::Bucketed(buckets) => buckets.at(seed, epoch, position),
            OrderKind::Packed(rows) => rows.at(position),
            OrderKind::Listed(list) => list[position as usize],
        }
    }

    /// The `number`-th candidate to replace the bad sample at `position`; `None` if there are no more. It is a sample
    /// that this epoch of `positions` positions can deliver, from the same bucket or the same set of a mixture. It
    /// depends only on (seed, epoch, sample, number), not on the position's rank or batch.
    pub(crate) fn substitute(&self, position: u64, positions: u64, number: u64) -> Option<u64> {
        let places = match &self.kind {
            OrderKind::Bucketed(buckets) => buckets.bucket_of(position),
            OrderKind::Mixed(mix) => mix.places_of_set(position),
            _ => 0..positions,
        };
        self.candidate(self.at(position), places, number)
    }

    /// The same for `sample`, anywhere in the epoch. Searches a bucket's list for it.
    pub(crate) fn substitute_of(&self, sample: u64, positions: u64, number: u64) -> Option<u64> {
        let places = match &self.kind {
            OrderKind::Bucketed(buckets) => buckets.bucket_with(sample)?,
            OrderKind::Mixed(mix) => mix.places_of_member(sample)?,
            _ => 0..positions,
        };
        self.candidate(sample, places, number)
    }

    fn candidate(&self, sample: u64, places: Range<u64>, number: u64) -> Option<u64> {
        let count = places.end - places.start;
        if number >= count {
            return None;
        }
        let key = [SUBSTITUTE, self.seed, self.epoch, sample];
        let place = places.start + permuted(count, &key, number);
        Some(match &self.kind {
            OrderKind::Mixed(mix) => mix.at_place(place),
            _ => self.at(place),
        })
    }

    /// End of the stretch of positions whose samples are stored together, if the order has such stretches.
    pub(crate) fn stretch_end(&self, position: u64) -> Option<u64> {
        match &self.kind {
            OrderKind::Blocks(blocks) => {
                Some(blocks.window_end(position / self.repeats).saturating_mul(self.repeats))
            }
            _ => None,
        }
    }
}

/// How positions become batches on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Positions in the epoch.
    pub(crate) positions: u64,
    /// First position to deliver; an earlier run had those before it. With cuts, a multiple of the global size.
    pub(crate) first: u64,
    /// Samples per batch on each rank.
    pub(crate) batch_size: u64,
    /// Leave out a last global batch that is not full.
    pub(crate) drop_last: bool,
    /// Rank of this process.
    pub(crate) rank: u64,
    /// Number of processes.
    pub(crate) world_size: u64,
    /// Global batches as (first position, length), if they are not consecutive.
    pub(crate) cuts: Option<Arc<[(u64, u64)]>>,
    /// Rows of several samples: batches are then cut by rows, and `first` counts rows.
    pub(crate) rows: Option<Arc<Rows>>,
}

impl Batches {
    /// Cuts an epoch of a bucketed or packed sequence; does nothing for others.
    pub(crate) fn with_cuts_of(mut self, sequence: &Sequence, seed: u64, epoch: u64) -> Self {
        if let Sequence::Packed(packing) = sequence {
            self.rows = Some(packing.rows(seed, epoch));
        }
        if let Sequence::Bucketed(buckets) = sequence {
            self.cuts = Some(buckets.cuts(self.global_size(), self.drop_last, seed, epoch).into());
        }
        self
    }

    /// What batches are made of: rows of several samples, or positions.
    fn units(&self) -> u64 {
        self.rows.as_ref().map_or(self.positions, |rows| rows.len())
    }

    /// The most samples of a batch on this rank.
    pub(crate) fn largest(&self) -> u64 {
        if self.rows.is_none() {
            return self.batch_size;
        }
        let size = |range: Range<u64>| range.end - range.start;
        (0..self.count()).map(|number| size(self.range(number))).max().unwrap_or(1).max(1)
    }

    /// Samples per global batch; rows, if rows have several samples.
    pub(crate) fn global_size(&self) -> u64 {
        self.batch_size * self.world_size
    }

    /// Number of batches from `first` to the epoch's end: the same on every rank.
    pub(crate) fn count(&self) -> u64 {
        if let Some(cuts) = &self.cuts {
            return (cuts.len() as u64).saturating_sub(self.first / self.global_size());
        }
        let left = self.units().saturating_sub(self.first);
        if self.drop_last { left / self.global_size() } else { left.div_ceil(self.global_size()) }
    }

    /// First position and length of global batch `number`.
    fn cut(&self, number: u64) -> (u64, u64) {
        if let Some(cuts) = &self.cuts {
            return cuts[(self.first / self.global_size() + number) as usize];
        }
        let start = self.first + number * self.global_size();
        (start, self.global_size().min(self.units() - start))
    }

    /// Number of samples that `drop_last` leaves out of the epoch.
    pub(crate) fn dropped(&self) -> u64 {
        if let Some(cuts) = &self.cuts {
            return self.positions - cuts.iter().map(|(_, length)| length).sum::<u64>();
        }
        let left = self.units().saturating_sub(self.first);
        let dropped = if self.drop_last { left % self.global_size() } else { 0 };
        let Some(rows) = &self.rows else { return dropped };
        let positions = rows.positions(&(rows.len() - dropped..rows.len()));
        positions.end - positions.start
    }

    /// Number of samples that a second rank gets as well, because a global batch has fewer samples than there are ranks
    /// and every rank needs one.
    pub(crate) fn padded(&self) -> u64 {
        let missing = |length: u64| self.world_size.saturating_sub(length);
        if let Some(cuts) = &self.cuts {
            return cuts.iter().map(|(_, length)| missing(*length)).sum();
        }
        match self.units().saturating_sub(self.first) % self.global_size() {
            0 => 0,
            _ if self.drop_last => 0,
            rest => missing(rest),
        }
    }

    /// Positions of batch `number` on this rank.
    pub(crate) fn range(&self, number: u64) -> Range<u64> {
        let units = self.unit_range(number);
        self.rows.as_ref().map_or(units.clone(), |rows| rows.positions(&units))
    }

    /// The row of a position, counted from the first row of its batch on this rank.
    pub(crate) fn row_in_batch(&self, number: u64, position: u64) -> u64 {
        let row = self.rows.as_ref().map_or(position, |rows| rows.row_of(position));
        row - self.unit_range(number).start
    }

    /// Rows or positions of batch `number` on this rank. If a global batch has fewer samples than there are ranks, its samples
    /// are given out again from its beginning: see [`padded`](Self::padded).
    fn unit_range(&self, number: u64) -> Range<u64> {
        let (start, size) = self.cut(number);
        // A short batch is divided evenly; the first ranks get one more, and every rank at least one.
        let (share, extra) = (size / self.world_size, size % self.world_size);
        if share == 0 {
            let only = start + self.rank % size;
            return only..only + 1;
        }
        let first = start + self.rank * share + self.rank.min(extra);
        first..first + share + u64::from(self.rank < extra)
    }

    /// Number of samples in batch `number` on this rank.
    #[cfg(test)]
    fn size(&self, number: u64) -> u64 {
        let range = self.range(number);
        range.end - range.start
    }
}

#[cfg(test)]
mod tests;
