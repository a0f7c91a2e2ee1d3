//! Which samples an epoch has, in which order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which samples an epoch has, in which order, beyond [`Shuffle`](super::Shuffle).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Sampler {
    /// As stored.
    Sequential,
    /// In random order.
    Random {
        /// Draw every position's sample on its own, so that samples may repeat.
        #[serde(default)]
        replacement: bool,
        /// Samples per epoch; as many as the data set has if `None`.
        #[serde(default)]
        num_samples: Option<u64>,
    },
    /// Quasi-random, as `shuffle="block"`.
    Block {
        /// Samples per block; about 1 MiB of them if `None`.
        #[serde(default)]
        block: Option<u64>,
        /// Blocks per window; 256 if `None`.
        #[serde(default)]
        window: Option<u64>,
    },
    /// By weight.
    Weighted {
        /// One per sample.
        weights: Vec<f64>,
        /// Samples per epoch; as many as the data set has if `None`.
        #[serde(default)]
        num_samples: Option<u64>,
        /// Whether samples may repeat.
        #[serde(default = "yes")]
        replacement: bool,
    },
    /// Every class equally often.
    Balanced {
        /// An integer field: the class.
        #[serde(default = "label")]
        field: String,
        /// Samples per epoch; as many as the data set has if `None`.
        #[serde(default)]
        num_samples: Option<u64>,
    },
    /// Several data sets, joined by [`Dataset::concat`](crate::Dataset::concat), by weight. See `mix`.
    Mix {
        /// Samples of each data set.
        lengths: Vec<u64>,
        /// Weight of each data set.
        weights: Vec<f64>,
        /// Samples per epoch.
        num_samples: u64,
    },
    /// Batches of images of one shape.
    Buckets {
        /// The image field; the only one if `None`.
        #[serde(default)]
        field: Option<String>,
        /// Heights and widths. An image goes to the one with the nearest aspect ratio. If empty, every height and width
        /// that occurs is a bucket of its own.
        #[serde(default)]
        sizes: Vec<(u32, u32)>,
        /// Whether samples inside buckets, and batches, are shuffled.
        #[serde(default = "yes")]
        shuffle: bool,
    },
    /// Several samples in each row of a batch, up to a number of tokens. `batch_size` counts rows.
    Packed {
        /// Tokens per row, at most.
        max_tokens: u64,
        /// Tokens of every sample; empty if they come from `field`.
        #[serde(default)]
        lengths: Vec<u64>,
        /// A field whose value is the length (an integer), or whose array has that length.
        #[serde(default)]
        field: Option<String>,
        /// Image fields, and the side of their patches: each patch is one token more.
        #[serde(default)]
        patches: BTreeMap<String, u64>,
        /// Samples that are packed together.
        #[serde(default = "packed_window")]
        window: u64,
        /// Leave out samples that are too long; otherwise they are an error.
        #[serde(default)]
        drop_long: bool,
        /// Whether samples and rows are shuffled.
        #[serde(default = "yes")]
        shuffle: bool,
    },
    /// Exactly these samples, in this order.
    Indices {
        /// Sample numbers.
        indices: Vec<u64>,
    },
    /// A new list in every epoch, passed when the epoch starts:
    /// [`Loader::epoch_in_order`](crate::Loader::epoch_in_order).
    PerEpoch {
        /// Distinguishes such orders in saved states.
        name: String,
        /// Samples per epoch.
        num_samples: u64,
    },
}

impl From<Vec<u64>> for Sampler {
    fn from(indices: Vec<u64>) -> Self {
        Sampler::Indices { indices }
    }
}

fn yes() -> bool {
    true
}

fn packed_window() -> u64 {
    8192
}

fn label() -> String {
    "label".to_owned()
}
