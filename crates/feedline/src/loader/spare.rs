//! For a consumer that processes samples itself and may find them bad: substitutes, and the count of bad samples.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::workers::{CANDIDATES, EpochRun, Worker};
use super::{Epoch, Shared};
use crate::batch::{Batch, Budget, Ring, Sealed, Take};
use crate::error::{Error, Result, Stage};
use crate::order::{Batches, Order, Sequence};

/// Substitutes of an epoch. Independent of the [`Epoch`]: it may be used while another thread waits for
/// the next batch.
pub struct Substitutes {
    shared: Arc<Shared>,
    run: Arc<EpochRun>,
    worker: Mutex<Option<Worker>>,
}

impl fmt::Debug for Substitutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Substitutes").field("epoch", &self.run.epoch).finish_non_exhaustive()
    }
}

impl Epoch {
    /// Substitutes for samples of this epoch that the consumer finds bad.
    pub fn spare(&self) -> Substitutes {
        Substitutes { shared: self.shared.clone(), run: self.run.clone(), worker: Mutex::default() }
    }
}

impl Substitutes {
    /// The error of a sample that the consumer could not transform; `field` names the field, if one failed.
    pub fn error(&self, sample: u64, field: Option<&str>, reason: &str) -> Error {
        let place = self.run.locate(sample);
        let place = match field {
            Some(field) => place.with_field(field),
            None => place,
        };
        Error::sample(place, Stage::Transform, reason)
    }

    /// A batch of one row: the substitute for bad sample `sample` at try number `tries`, from 1. Made by the calling
    /// thread.
    pub fn substitute(&self, sample: u64, tries: u64) -> Result<Batch> {
        self.shared.check_process()?;
        let candidate = self.candidate(sample, tries.saturating_sub(1) as usize);
        let no_substitute = || self.error(sample, None, "the order has no other sample to replace it");
        let run = self.single(candidate.ok_or_else(no_substitute)?);
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        worker
            .get_or_insert_with(|| {
                Worker::new(self.shared.totals.worker(), self.shared.plan.options.max_pixels)
            })
            .make_rows(&run);
        let Take::Batch(filling) = run.ring.take(None) else {
            return Err(Error::Closed("the loader is closed".to_owned()));
        };
        let sealed = filling.into_sealed();
        let failure = sealed.failures.last().map(|(_, error)| error.clone());
        match (sealed.batch, failure) {
            (Some(batch), _) => Ok(batch),
            (None, Some(error)) => Err(error),
            (None, None) => unreachable!("a row is done or has failed"),
        }
    }

    /// The `number`-th other sample among the candidates, each counted once, as the workers do: an order may contain
    /// the same sample many times.
    fn candidate(&self, bad: u64, number: usize) -> Option<u64> {
        let mut seen = vec![bad];
        for at in 0..CANDIDATES {
            let sample = self.run.order.substitute_of(bad, self.run.batches.positions, at)?;
            if !seen.contains(&sample) {
                seen.push(sample);
            }
            if seen.len() > number + 1 {
                return seen.last().copied();
            }
        }
        None
    }

    /// Records samples that the consumer found bad in a batch of `rows` rows: each failure with its row, in order;
    /// `kept` are the rows that contain a sample all the same. Returns the batch's error, if there is one.
    pub fn record(&self, rows: usize, kept: Vec<usize>, failures: Vec<(usize, Error)>) -> Result<()> {
        let Some((_, last)) = failures.last().cloned() else { return Ok(()) };
        let lost = rows.saturating_sub(kept.len());
        self.shared.record_failures(&Sealed { batch: None, failures, rows, kept, lost })?;
        if lost < rows {
            return Ok(());
        }
        let reason = format!("no sample of the batch is left ({lost} failed)");
        Err(Error::TooManyBadSamples { reason, last: Box::new(last) })
    }

    /// A run over this sample only.
    fn single(&self, sample: u64) -> EpochRun {
        let whole = &*self.run;
        let sequence = Sequence::Listed([sample].into());
        EpochRun {
            dataset: whole.dataset.clone(),
            plan: whole.plan.clone(),
            pool: whole.pool.clone(),
            ring: Ring::new(1, 1, 1, 1),
            budget: Budget::new(None),
            order: Order::new(&sequence, whole.dataset.len(), whole.plan.options.seed, whole.epoch),
            batches: Batches {
                positions: 1,
                first: 0,
                batch_size: 1,
                drop_last: false,
                rank: 0,
                world_size: 1,
                cuts: None,
                rows: None,
            },
            epoch: whole.epoch,
            ahead: None,
            checkpoints: None,
            seen_sizes: None,
            cancelled: whole.cancelled.clone(),
            loader_begun: whole.loader_begun,
        }
    }
}
