//! A run's position, and what the resumed run must have in common with it: plain data, the same on every rank.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The version of [`State`]'s layout.
pub const STATE_VERSION: u32 = 1;

/// Everything that the samples, their order and their values depend on. Two loaders with the same identity return the
/// same batches from the same position, whatever their threads, ranks and machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The data set's fingerprint.
    pub fingerprint: String,
    /// Number of samples in the data set.
    pub dataset_samples: u64,
    /// Seed of the order and of the augmentation.
    pub seed: u64,
    /// The order of epochs as text; long lists as a digest.
    pub order: String,
    /// Weights of a mixture in the current epoch; other epochs may have others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<f64>>,
    /// Samples per epoch.
    pub epoch_samples: u64,
    /// Whether an incomplete last batch is left out.
    pub drop_last: bool,
    /// `batch_size × world_size`.
    pub global_batch: u64,
    /// Transforms by field, as text and as a digest.
    pub transforms: String,
    /// Element type and decoding mode.
    pub pixels: String,
}

/// Bad samples that were skipped or replaced. They count towards `max_errors` when the run is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BadSamples {
    /// Each sample once; at most ten thousand.
    pub samples: Vec<u64>,
    /// Bad samples since the last good one.
    pub in_a_row: Vec<u64>,
}

impl BadSamples {
    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.in_a_row.is_empty()
    }
}

/// A place in a run: after `samples` samples of epoch `epoch`, counted over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Version of the state's layout.
    pub version: u32,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Positions of the epoch that were delivered, over all ranks.
    pub samples: u64,
    /// Bad samples so far. Each rank has its own; any rank's state can be used to resume.
    #[serde(default, skip_serializing_if = "BadSamples::is_empty")]
    pub bad: BadSamples,
    /// Weights set for the following epochs; `None` if a mixture keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_weights: Option<Vec<f64>>,
    /// Identity of the run.
    #[serde(flatten)]
    pub identity: Identity,
}

impl State {
    /// Creates the state of a run with this identity.
    pub fn new(identity: Identity, epoch: u64, samples: u64) -> Self {
        State {
            version: STATE_VERSION,
            epoch,
            samples,
            bad: BadSamples::default(),
            next_weights: None,
            identity,
        }
    }

    /// Adds the bad samples found so far.
    #[must_use]
    pub fn with_bad(mut self, bad: BadSamples) -> Self {
        self.bad = bad;
        self
    }

    /// Adds the weights set for the following epochs.
    #[must_use]
    pub fn with_next_weights(self, next_weights: Option<Vec<f64>>) -> Self {
        State { next_weights, ..self }
    }

    /// Parses a state from JSON; an error if it has another version or is not a state.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: Option<u32>,
        }
        // The position in the text does not help: the text was made from a dict just now.
        let bad = |e: serde_json::Error| {
            let reason = e.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            Error::State(format!("not a state of a loader: {reason}"))
        };
        match serde_json::from_str::<Version>(text).map_err(bad)?.version {
            Some(STATE_VERSION) => serde_json::from_str(text).map_err(bad),
            found => {
                let found = found.map_or("none".to_owned(), |v| v.to_string());
                Err(Error::State(format!("its version is {found}, this feedline reads {STATE_VERSION}")))
            }
        }
    }

    /// Lists why a loader of identity `here` would not continue this run exactly; empty if it would.
    pub fn differences(&self, here: &Identity) -> Vec<String> {
        let was = &self.identity;
        let mut found = Vec::new();
        let mut compare = |name: &str, was: &dyn Display, is: &dyn Display, hint: &str| {
            let (was, is) = (was.to_string(), is.to_string());
            if was != is {
                found.push(format!("{name} was {was}, is {is}{hint}"));
            }
        };
        compare("the data set's fingerprint", &was.fingerprint, &here.fingerprint, "");
        compare("its number of samples", &was.dataset_samples, &here.dataset_samples, "");
        compare("seed", &was.seed, &here.seed, "");
        compare("the order", &was.order, &here.order, "");
        compare("samples per epoch", &was.epoch_samples, &here.epoch_samples, "");
        compare("drop_last", &was.drop_last, &here.drop_last, "");
        compare("transforms", &was.transforms, &here.transforms, "");
        compare("pixels", &was.pixels, &here.pixels, "");
        // A position stays valid when the batch size changes, unless the order depends on batches.
        if self.samples > 0 && was.order.starts_with("buckets") {
            let hint = " (with buckets, batch_size × world_size must not change)";
            compare("the global batch size", &was.global_batch, &here.global_batch, hint);
        }
        if self.samples > 0 {
            let text = |weights: &Option<Vec<f64>>| format!("{:?}", weights.as_deref().unwrap_or_default());
            let hint = " (weights may change between epochs, not within one)";
            compare("weights", &text(&was.weights), &text(&here.weights), hint);
        }
        found
    }

    /// Returns an error that lists the differences, if there are any.
    pub fn check(&self, here: &Identity) -> Result<()> {
        let differences = self.differences(here);
        if differences.is_empty() {
            return Ok(());
        }
        let hint = "hint: set them back, or load with strict=False to continue at the same sample with other batches";
        Err(Error::State(format!("{}\n{hint}", differences.join("; "))))
    }
}

/// The first 12 hex digits of a digest: enough to tell settings apart, short enough to read.
pub(crate) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            fingerprint: "ab".repeat(16),
            dataset_samples: 1000,
            seed: 1,
            order: "full shuffle".into(),
            weights: None,
            epoch_samples: 1000,
            drop_last: true,
            global_batch: 64,
            transforms: "image: RandomResizedCrop #0123456789ab".into(),
            pixels: "float32, exact".into(),
        }
    }

    #[test]
    fn states_are_small_and_survive_json() {
        let state = State::new(identity(), 3, 640);
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.len() < 1024, "{}", text.len());
        assert_eq!(State::from_json(&text).unwrap(), state);
    }

    #[test]
    fn differences_are_readable() {
        let state = State::new(identity(), 3, 640);
        assert_eq!(state.differences(&identity()), Vec::<String>::new());
        let other = Identity { seed: 2, order: "sequential".into(), ..identity() };
        let message = state.check(&other).unwrap_err().to_string();
        assert!(message.contains("seed was 1, is 2; the order was full shuffle, is sequential"), "{message}");
    }

    #[test]
    fn the_batch_size_matters_only_to_buckets() {
        let other = Identity { global_batch: 32, ..identity() };
        assert!(State::new(identity(), 0, 64).check(&other).is_ok());
        let bucketed = |id: Identity| Identity { order: "buckets".into(), ..id };
        assert!(State::new(bucketed(identity()), 0, 64).check(&bucketed(other.clone())).is_err());
        assert!(State::new(bucketed(identity()), 1, 0).check(&bucketed(other)).is_ok());
    }

    #[test]
    fn weights_change_between_epochs_only() {
        let other = Identity { weights: Some(vec![0.5, 0.5]), ..identity() };
        assert!(State::new(identity(), 2, 0).check(&other).is_ok());
        assert!(State::new(identity(), 2, 64).check(&other).is_err());
    }

    #[test]
    fn foreign_states_are_refused() {
        for text in ["{}", r#"{"version": 99}"#, "[]", r#"{"version": 1, "epoch": 0}"#] {
            assert!(matches!(State::from_json(text), Err(Error::State(_))), "{text}");
        }
    }
}
