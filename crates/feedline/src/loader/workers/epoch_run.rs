//! One pass over an epoch, as its workers and its consumer share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use feedline_pixels::Size;

use crate::batch::{Budget, Filling, Pool, Ring, RowMut};
use crate::dataset::{Checkpoints, Dataset};
use crate::error::Location;
use crate::loader::plan::{Output, Plan};
use crate::loader::seen_sizes::SeenSizes;
use crate::order::{Batches, Order};
use crate::random::Draw;
use crate::read::{Prefetch, WaitCheck};
use crate::source::take_waited;
use crate::transform::SampleKey;

/// Separates the draws of a sample's repetitions from all other uses of the seed.
const REPETITION: u64 = 0x61_6761_696e; // "again"

/// For images with more pixels per stored byte than this, no memory is planned from their headers.
const MOST_PIXELS_PER_BYTE: u64 = 512;

/// One pass over (the rest of) an epoch, shared by its workers and its consumer.
#[derive(Debug)]
pub(crate) struct EpochRun {
    pub(crate) dataset: Dataset,
    pub(crate) plan: Arc<Plan>,
    pub(crate) pool: Pool,
    pub(crate) ring: Ring<Filling>,
    /// Limits values whose size is not known beforehand.
    pub(crate) budget: Budget,
    pub(crate) order: Order,
    pub(crate) batches: Batches,
    pub(crate) epoch: u64,
    /// Reads bytes before they are needed.
    pub(crate) ahead: Option<Prefetch>,
    /// Seek indexes of images that are stored without.
    pub(crate) checkpoints: Option<Arc<Checkpoints>>,
    /// Sizes of whole images that the store does not know.
    pub(crate) seen_sizes: Option<Arc<SeenSizes>>,
    /// Set when the batches are no longer wanted.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// What the times in a trace count from.
    pub(crate) loader_begun: Instant,
}

impl EpochRun {
    /// Closes the run: workers stop at their next row, waits for storage are cancelled where possible.
    pub(crate) fn close(&self) {
        self.ring.close();
        self.budget.close();
        self.cancelled.store(true, Ordering::Relaxed);
        if let Some(ahead) = &self.ahead {
            ahead.stop();
        }
    }

    pub(super) fn open(&self, number: u64) -> Filling {
        let samples: Vec<u64> = self.batches.range(number).map(|position| self.order.at(position)).collect();
        let planned = |column: usize| match self.plan.outputs[column] {
            Output::Bytes { field, direct: true } => {
                samples.iter().map(|sample| self.dataset.format().byte_length(*sample, field)).collect()
            }
            Output::Image { field, whole: Some(plan) } => {
                samples.iter().map(|sample| self.whole_length(*sample, field, plan)).collect()
            }
            _ => None,
        };
        let filling = Filling::new(number, samples.clone(), &self.plan.columns, &self.pool, planned);
        match filling {
            Ok(filling) => {
                // This memory is lent but not yet touched; rows are read into it once the budget admits it.
                self.budget.reserve(number, filling.planned_bytes());
                filling
            }
            Err(error) => Filling::without_memory(number, samples, error),
        }
    }

    /// Length of the result of a whole image, if its size is known.
    fn whole_length(&self, sample: u64, field: usize, plan: usize) -> Option<u64> {
        let seen = self.seen_sizes.as_ref().and_then(|sizes| sizes.get(field, sample));
        let size = seen.or_else(|| self.stored_size(sample, field))?;
        Some(self.plan.images[plan].finish().output_bytes(size) as u64)
    }

    /// The size that the store knows, if an image may take so much memory: one over the limit and one whose bytes cannot
    /// contain it get none before they are looked at.
    fn stored_size(&self, sample: u64, field: usize) -> Option<Size> {
        let format = self.dataset.format();
        let (height, width) = format.image_meta(sample, field)?.oriented_size()?;
        let size = Size::new(width, height);
        let believable = size.area() / MOST_PIXELS_PER_BYTE <= format.byte_length(sample, field)?;
        (believable && size.area() <= self.plan.options.max_pixels).then_some(size)
    }

    /// Key of the draws for a sample at this position. Its repetitions have their own draws.
    pub(super) fn key(&self, sample: u64, position: u64) -> SampleKey {
        let options = &self.plan.options;
        let seed = match position % options.repeats {
            0 => options.seed,
            repetition => Draw::new(&[REPETITION, options.seed, repetition]).bits(),
        };
        SampleKey { seed, epoch: self.epoch, sample }
    }

    /// Rows for samples of other ranks that are mixed with samples of this one.
    pub(super) fn rows_of_other_ranks(&self, batch: u64, positions: &[u64]) -> Option<Filling> {
        if positions.is_empty() {
            return None;
        }
        let samples = positions.iter().map(|position| self.order.at(*position)).collect();
        Filling::new(batch, samples, &self.plan.columns, &self.pool, |_| None).ok()
    }

    /// Reserves memory for a value of `bytes` bytes, which exists twice while its batch is sealed.
    pub(crate) fn reserve(&self, row: &RowMut<'_>, bytes: usize) {
        self.budget.reserve(row.batch(), 2 * bytes as u64);
    }

    /// Begins to check whether the next read of the calling worker waits, now and then.
    pub(super) fn begin_wait_check(&self, turn: &mut u32) -> Option<WaitCheck> {
        self.ahead.as_ref()?.begin_wait_check(turn)
    }

    /// Time the calling worker waited for a network. Waits for local storage are part of reading.
    pub(super) fn network_wait(&self) -> Duration {
        let waited = take_waited();
        if self.plan.remote { waited } else { Duration::ZERO }
    }

    /// Location of a sample, with the number that batches show.
    pub(crate) fn locate(&self, sample: u64) -> Location {
        self.dataset.format().locate(sample).seen_as(sample)
    }

    /// Location of a sample's value, with the name of its field.
    pub(crate) fn locate_field(&self, sample: u64, field: usize) -> Location {
        self.locate(sample).with_field(&self.dataset.schema().fields[field].name)
    }
}
