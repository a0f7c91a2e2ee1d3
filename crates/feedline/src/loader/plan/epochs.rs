//! The order of epochs, their division into batches, and the identity that a saved state must match.

use std::sync::{MutexGuard, PoisonError};

use super::Plan;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::loader::sequence;
use crate::order::{Batches, Identity, Order, Sequence, digest};
use crate::spec::{FieldTransforms, LoaderOptions};
use crate::transform::{BatchTransform, Transform};

/// The order of new epochs, and whether a mixture's weights were changed since the loader was created.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) sequence: Sequence,
    pub(super) chosen: bool,
}

impl Plan {
    /// The order of the next epoch.
    pub(crate) fn sequence(&self) -> Sequence {
        self.current().sequence.clone()
    }

    pub(super) fn current(&self) -> MutexGuard<'_, Current> {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets new weights for a mixture, from the next epoch on.
    pub(crate) fn set_weights(&self, weights: &[f64]) -> Result<()> {
        let mut current = self.current();
        current.sequence = sequence::with_weights(&current.sequence, weights)?;
        current.chosen = true;
        Ok(())
    }

    /// A mixture's weights in new epochs.
    pub(crate) fn weights(&self) -> Option<Vec<f64>> {
        match &self.current().sequence {
            Sequence::Mixed(recipe) => Some(recipe.weights.clone()),
            _ => None,
        }
    }

    /// The weights set by the user, if a mixture no longer has its first ones.
    pub(crate) fn chosen_weights(&self) -> Option<Vec<f64>> {
        let chosen = self.current().chosen;
        self.weights().filter(|_| chosen)
    }

    /// The order of `epoch` and its division into batches, starting at position `first`. `weights` overrides the
    /// weights of a mixture.
    pub(crate) fn epoch(&self, epoch: u64, first: u64, weights: Option<&[f64]>) -> Result<(Order, Batches)> {
        let (mut sequence, seed) = (self.sequence(), self.options.seed);
        if let Some(weights) = weights {
            sequence = sequence::with_weights(&sequence, weights)?;
        }
        if let Sequence::PerEpoch { name, .. } = &sequence {
            let reason = format!("{name}: this epoch's order must be given (Loader::epoch_in_order)");
            return Err(Error::option("sampler", reason));
        }
        let order = Order::new(&sequence, self.samples, seed, epoch).repeated(self.options.repeats);
        Ok((order, self.batches(first).with_cuts_of(&sequence, seed, epoch)))
    }

    /// The same for an epoch whose order is `list`.
    pub(crate) fn epoch_in_order(&self, epoch: u64, first: u64, list: Vec<u64>) -> Result<(Order, Batches)> {
        let sequence = self.sequence().given_list(list, self.samples)?;
        let order =
            Order::new(&sequence, self.samples, self.options.seed, epoch).repeated(self.options.repeats);
        Ok((order, self.batches(first)))
    }

    /// Division of a whole epoch: its batches, and its dropped or repeated samples. Only rows of several samples make
    /// epochs differ.
    pub(crate) fn whole_epoch(&self, epoch: u64) -> Batches {
        self.batches(0).with_cuts_of(&self.sequence(), self.options.seed, epoch)
    }

    /// Divides an epoch into batches of equal size, starting at position `first`.
    pub(super) fn batches(&self, first: u64) -> Batches {
        let options = &self.options;
        Batches {
            positions: self.sequence().positions(self.samples),
            first,
            batch_size: options.batch_size,
            drop_last: options.drop_last,
            rank: options.rank,
            world_size: options.world_size,
            cuts: None,
            rows: None,
        }
    }

    /// The identity that a saved state must match.
    pub(crate) fn identity(&self, dataset: &Dataset) -> Identity {
        let sequence = self.sequence();
        Identity {
            fingerprint: dataset.fingerprint().to_hex(),
            dataset_samples: self.samples,
            seed: self.options.seed,
            order: sequence::in_words(&sequence, &self.sampler_digest),
            weights: self.weights(),
            epoch_samples: sequence.positions(self.samples),
            drop_last: self.options.drop_last,
            global_batch: self.options.batch_size * self.options.world_size,
            transforms: transforms_in_words(&self.options),
            pixels: pixels_in_words(&self.options),
        }
    }

    /// The length of a packed sample.
    pub(crate) fn packed_length(&self, sample: u64) -> u64 {
        match &self.current().sequence {
            Sequence::Packed(packing) => packing.length(sample),
            _ => 0,
        }
    }
}

/// Names of the transforms for people, and a digest of all parameters for exact comparison.
fn transforms_in_words(options: &LoaderOptions) -> String {
    let names = |list: &[Transform]| list.iter().map(Transform::name).collect::<Vec<_>>().join(", ");
    let field = |(name, transforms): (&String, &FieldTransforms)| match transforms {
        FieldTransforms::Single(list) => format!("{name}: {}", names(list)),
        FieldTransforms::Views(views) => format!("{name}: {} views", views.len()),
    };
    let mut words = options.transforms.iter().map(field).collect::<Vec<_>>().join("; ");
    let mut exact = serde_json::to_vec(&options.transforms).expect("transforms are plain data");
    if !options.targets.is_empty() {
        let names: Vec<&str> = options.targets.keys().map(String::as_str).collect();
        words = format!("{words} with {}", names.join(", "));
        exact.extend(serde_json::to_vec(&options.targets).expect("targets are plain data"));
    }
    if !options.batch_transforms.is_empty() || options.repeats > 1 {
        let names: Vec<&str> = options.batch_transforms.iter().map(BatchTransform::name).collect();
        words = format!("{words}; {} x{}", names.join(", "), options.repeats);
        let mixed = (&options.batch_transforms, options.repeats);
        exact.extend(serde_json::to_vec(&mixed).expect("transforms are plain data"));
    }
    // A long list would make the state long; the digest distinguishes it all the same.
    let words: String = words.chars().take(200).collect();
    if words.is_empty() { "none".to_owned() } else { format!("{words} #{}", digest(&exact)) }
}

fn pixels_in_words(options: &LoaderOptions) -> String {
    let mut parts = vec![format!("{}, decode {:?}", options.dtype.name(), options.decode).to_lowercase()];
    parts.extend(options.modes.iter().map(|(field, mode)| format!("{field} as {mode}")));
    parts.extend(options.dtypes.iter().map(|(field, dtype)| format!("{field} of {}", dtype.name())));
    if !options.exif_transpose {
        parts.push("not turned".to_owned());
    }
    if options.allow_truncated {
        parts.push("truncated files".to_owned());
    }
    if options.page != 0 {
        parts.push(format!("page {}", options.page));
    }
    parts.extend(options.background.map(|colour| format!("on {colour:?}")));
    parts.join(", ")
}
