//! Everything a user can set, as plain data. Python, the command line, pickling and resume all use it.
//!
//! Nothing here has an effect by itself. `loader::Plan` checks all of it against a data set before the first byte is
//! read.

mod choices;
mod field_transforms;
mod sampler;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::choices::{DecodeMode, IndexMode, OnError, OnMissing, ReadAhead, Shuffle};
pub use self::field_transforms::FieldTransforms;
pub use self::sampler::Sampler;

use crate::error::{Error, Result};
use crate::field::{DType, MemoryFormat};
use crate::transform::{BatchTransform, Target, Transform};

/// Largest number of processes that can share an epoch. At this limit, the batches of all of them still fit into a
/// `u64`.
const MOST_RANKS: u64 = 1 << 32;

/// Largest number of local reads at once; each has a thread.
const MOST_READS: u32 = 1024;

/// A loader's settings. Build it from [`LoaderOptions::default`] with the `with_…` methods, or as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderOptions {
    /// Samples per batch on each rank.
    pub batch_size: u64,
    /// Order of an epoch.
    pub shuffle: Shuffle,
    /// Seed of the order and of the augmentation.
    pub seed: u64,
    /// Leave out a last batch that is not full.
    pub drop_last: bool,
    /// Which samples in which order, instead of `shuffle`.
    pub sampler: Option<Sampler>,
    /// Transforms by image field.
    pub transforms: BTreeMap<String, FieldTransforms>,
    /// Fields that move with an image's geometry.
    pub targets: BTreeMap<String, Target>,
    /// Operations that mix the samples of a batch with each other.
    pub batch_transforms: Vec<BatchTransform>,
    /// How often each sample is repeated, one after the other, each time with its own random draws.
    pub repeats: u64,
    /// Whether batches contain the parameters drawn for every image.
    pub return_params: bool,
    /// Image columns returned as 8-bit rows × columns × channels, whatever `dtype` and `memory_format` say: for a
    /// consumer that processes the pixels further.
    pub pixels: Vec<String>,
    /// Load only these fields; all if `None`.
    pub fields: Option<Vec<String>>,
    /// Number of worker threads; 0 for as many as this process may use.
    pub num_workers: usize,
    /// CPUs that the worker threads may use, such as those of one NUMA node; any of the process if empty.
    pub cpus: Vec<u32>,
    /// Number of batches to prepare ahead of the consumer; `None` lets feedline choose.
    pub prefetch: Option<usize>,
    /// Whether bytes are read before they are needed.
    pub read_ahead: ReadAhead,
    /// Rank of this process, below `world_size`.
    pub rank: u64,
    /// Number of processes that share each epoch.
    pub world_size: u64,
    /// Element type of image tensors.
    pub dtype: DType,
    /// Element types of single image fields, overriding `dtype`.
    pub dtypes: BTreeMap<String, DType>,
    /// Mode of image fields, by field name ("RGB", "L", "index", …). The default is "RGB".
    pub modes: BTreeMap<String, String>,
    /// Whether images are rotated as their EXIF orientation says.
    pub exif_transpose: bool,
    /// The colour behind transparent pixels; `None` drops opacity.
    pub background: Option<[u8; 3]>,
    /// Whether JPEGs and PNGs that end early are decoded as far as they go, as with Pillow's `LOAD_TRUNCATED_IMAGES`.
    pub allow_truncated: bool,
    /// The page of images and masks with several pages (TIFF), counted from 0.
    pub page: u32,
    /// Order of image dimensions.
    pub memory_format: MemoryFormat,
    /// How images are decoded.
    pub decode: DecodeMode,
    /// With [`DecodeMode::None`]: images and bytes as views into a pack's mapped files, of which nothing is read or
    /// checked. A file that is truncated meanwhile ends the process.
    pub views: bool,
    /// Whether JPEGs that are stored without a seek index get one. Never changes the content of batches.
    pub index: IndexMode,
    /// What to store for numbers that are missing in a sample.
    pub missing: OnMissing,
    /// What to do with a bad sample.
    pub on_error: OnError,
    /// With skip or replace: the largest number of different bad samples, in a row or in total; more are an error.
    /// `None`: 100 in a row; in total 1 % of the data set, and at least 100.
    pub max_errors: Option<u64>,
    /// Raise an error when no batch is ready for this many seconds.
    pub timeout: Option<f64>,
    /// Largest number of bytes of batch memory in use, ragged values included. One batch is always allowed.
    pub memory_budget: Option<u64>,
    /// Keep the worker threads between epochs.
    pub persistent_workers: bool,
    /// Adjust threads and prefetching from epoch to epoch, by what was slow. Never changes the content of batches.
    pub auto_tune: bool,
    /// Refuse images with more pixels than this.
    pub max_pixels: u64,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions {
            batch_size: 64,
            shuffle: Shuffle::Off,
            seed: 0,
            drop_last: false,
            sampler: None,
            transforms: BTreeMap::new(),
            targets: BTreeMap::new(),
            batch_transforms: Vec::new(),
            repeats: 1,
            return_params: false,
            pixels: Vec::new(),
            fields: None,
            num_workers: 0,
            cpus: Vec::new(),
            prefetch: None,
            read_ahead: ReadAhead::Auto,
            rank: 0,
            world_size: 1,
            dtype: DType::F32,
            dtypes: BTreeMap::new(),
            modes: BTreeMap::new(),
            exif_transpose: true,
            background: None,
            allow_truncated: false,
            page: 0,
            memory_format: MemoryFormat::ChannelsFirst,
            missing: OnMissing::Mask,
            decode: DecodeMode::Exact,
            views: false,
            index: IndexMode::Auto,
            on_error: OnError::Raise,
            max_errors: None,
            timeout: None,
            memory_budget: None,
            persistent_workers: true,
            auto_tune: false,
            // Pillow warns from 89 MP and refuses from 179 MP; the largest single photographs are about 150 MP.
            max_pixels: 178_956_970,
        }
    }
}

/// Writes the `with_…` setters.
macro_rules! setters {
    ($($(#[$doc:meta])* $setter:ident: $field:ident = $type:ty;)*) => {
        impl LoaderOptions {
            $($(#[$doc])*
            pub fn $setter(mut self, value: $type) -> Self {
                self.$field = value.into();
                self
            })*
        }
    };
}

setters! {
    /// Samples per batch on each rank.
    with_batch_size: batch_size = u64;
    /// Order of an epoch.
    with_shuffle: shuffle = Shuffle;
    /// Seed of the order and of the augmentation.
    with_seed: seed = u64;
    /// Whether to leave out a last batch that is not full.
    with_drop_last: drop_last = bool;
    /// Which samples in which order, instead of `shuffle`.
    with_sampler: sampler = Sampler;
    /// Operations that mix the samples of a batch with each other.
    with_batch_transforms: batch_transforms = Vec<BatchTransform>;
    /// How often each sample is repeated, one after the other.
    with_repeats: repeats = u64;
    /// Whether batches contain the parameters drawn for every image.
    with_return_params: return_params = bool;
    /// Image columns returned as 8-bit rows × columns × channels.
    with_pixels: pixels = Vec<String>;
    /// Load only these fields.
    with_fields: fields = Vec<String>;
    /// Number of worker threads; 0 for as many as this process may use.
    with_num_workers: num_workers = usize;
    /// CPUs that the worker threads may use; any of the process if empty.
    with_cpus: cpus = Vec<u32>;
    /// Number of batches to prepare ahead of the consumer.
    with_prefetch: prefetch = usize;
    /// Whether bytes are read before they are needed.
    with_read_ahead: read_ahead = ReadAhead;
    /// Element type of image tensors.
    with_dtype: dtype = DType;
    /// Whether images are rotated as their EXIF orientation says.
    with_exif_transpose: exif_transpose = bool;
    /// The colour behind transparent pixels.
    with_background: background = [u8; 3];
    /// Whether JPEGs and PNGs that end early are decoded as far as they go.
    with_allow_truncated: allow_truncated = bool;
    /// The page of images and masks with several pages (TIFF), counted from 0.
    with_page: page = u32;
    /// Order of image dimensions.
    with_memory_format: memory_format = MemoryFormat;
    /// What to store for numbers that are missing in a sample.
    with_missing: missing = OnMissing;
    /// How images are decoded.
    with_decode: decode = DecodeMode;
    /// Whether undecoded values are views into mapped files.
    with_file_views: views = bool;
    /// Whether JPEGs that are stored without a seek index get one.
    with_index: index = IndexMode;
    /// What to do with a bad sample.
    with_on_error: on_error = OnError;
    /// Largest number of bad samples.
    with_max_errors: max_errors = u64;
    /// Seconds without a batch after which an error is raised.
    with_timeout: timeout = f64;
    /// Largest number of bytes of batch memory in use.
    with_memory_budget: memory_budget = u64;
    /// Whether to keep the threads between epochs.
    with_persistent_workers: persistent_workers = bool;
    /// Whether to adjust threads and prefetching from epoch to epoch.
    with_auto_tune: auto_tune = bool;
    /// Refuse images with more pixels than this.
    with_max_pixels: max_pixels = u64;
}

impl LoaderOptions {
    /// Sets the list of transforms of the field `field`.
    pub fn with_transforms(mut self, field: impl Into<String>, transforms: Vec<Transform>) -> Self {
        self.transforms.insert(field.into(), FieldTransforms::Single(transforms));
        self
    }

    /// Makes the field `field` move with the image's geometry.
    pub fn with_target(mut self, field: impl Into<String>, target: Target) -> Self {
        self.targets.insert(field.into(), target);
        self
    }

    /// Sets the mode of the image field `field`: "RGB", "RGBA", "L", "LA", "I;16", "F", "index" or "unchanged".
    pub fn with_mode(mut self, field: impl Into<String>, mode: impl Into<String>) -> Self {
        self.modes.insert(field.into(), mode.into());
        self
    }

    /// Sets the element type of the image field `field`.
    pub fn with_field_dtype(mut self, field: impl Into<String>, dtype: DType) -> Self {
        self.dtypes.insert(field.into(), dtype);
        self
    }

    /// Sets this process's rank among the processes that share each epoch.
    pub fn with_rank(mut self, rank: u64, world_size: u64) -> Self {
        (self.rank, self.world_size) = (rank, world_size);
        self
    }

    /// Options for a process that feeds one GPU: as many threads as cores, kept between epochs.
    pub fn gpu_optimized(self) -> Self {
        self.with_persistent_workers(true).with_num_workers(0)
    }

    /// The same for one of several processes; every rank gets the same number of batches.
    pub fn distributed_optimized(self, rank: u64, world_size: u64) -> Self {
        self.gpu_optimized().with_rank(rank, world_size)
    }

    /// One thread, nothing kept or tuned, an error after ten seconds without a batch.
    pub fn debug_mode(mut self) -> Self {
        self.timeout = Some(10.0);
        self.with_num_workers(1).with_persistent_workers(false).with_auto_tune(false)
    }

    /// Sets several named views of the image field `field`.
    pub fn with_views(
        mut self,
        field: impl Into<String>,
        views: impl IntoIterator<Item = (String, Vec<Transform>)>,
    ) -> Self {
        self.transforms.insert(field.into(), FieldTransforms::Views(views.into_iter().collect()));
        self
    }

    /// Reads options from JSON; unknown names are an error that lists the known ones.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::option("options", e.to_string()))
    }

    /// How long to wait for a batch. `None` means without limit; so does a time longer than any clock can count.
    pub fn timeout_duration(&self) -> Option<Duration> {
        self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Returns an error for the first setting that is wrong for any data.
    pub fn check(&self) -> Result<()> {
        self.check_numbers()?;
        self.check_combinations()
    }

    /// Every number within its limits.
    fn check_numbers(&self) -> Result<()> {
        let bad = |knob: &str, reason: String| Err(Error::option(knob, reason));
        if self.batch_size == 0 || self.batch_size > 1 << 24 {
            return bad("batch_size", format!("{} is not between 1 and {}", self.batch_size, 1 << 24));
        }
        if self.world_size == 0 || self.rank >= self.world_size {
            return bad("rank", format!("{} is not below world_size {}", self.rank, self.world_size));
        }
        if self.world_size > MOST_RANKS {
            return bad("world_size", format!("{} is more than {MOST_RANKS}", self.world_size));
        }
        if self.prefetch == Some(0) || self.prefetch.is_some_and(|p| p > 4096) {
            return bad("prefetch", "must be between 1 and 4096".to_owned());
        }
        if let ReadAhead::Reads(count) = self.read_ahead
            && !(1..=MOST_READS).contains(&count)
        {
            return bad(
                "read_ahead",
                format!("{count} is not between 1 and {MOST_READS}; 'off' reads nothing ahead"),
            );
        }
        if self.num_workers > 4096 {
            return bad("num_workers", format!("{} threads are too many", self.num_workers));
        }
        if self.timeout.is_some_and(|t| t.is_nan() || t <= 0.0) {
            return bad("timeout", "must be a positive number of seconds".to_owned());
        }
        if !(1..=1 << 16).contains(&self.repeats) {
            return bad("repeats", format!("{} is not between 1 and 65536", self.repeats));
        }
        if self.max_pixels == 0 {
            return bad("max_pixels", "must be at least 1".to_owned());
        }
        Ok(())
    }

    /// No knob that another one makes useless.
    fn check_combinations(&self) -> Result<()> {
        let bad = |knob: &str, reason: &str| Err(Error::option(knob, reason));
        if self.max_errors.is_some() && self.on_error == OnError::Raise {
            return bad("max_errors", "only makes sense with on_error='skip' or 'replace'");
        }
        if self.sampler.is_some() && self.shuffle != Shuffle::Off {
            return bad("sampler", "already gives the order; leave shuffle off");
        }
        if self.views && self.decode != DecodeMode::None {
            return bad("views", "only for the stored bytes: set decode='none' as well");
        }
        if self.decode == DecodeMode::None {
            let colours = [
                ("mode", !self.modes.is_empty()),
                ("background", self.background.is_some()),
                ("exif_transpose", !self.exif_transpose),
                ("allow_truncated", self.allow_truncated),
                ("page", self.page != 0),
            ];
            if let Some((knob, _)) = colours.iter().find(|(_, given)| *given) {
                return bad(knob, "images are not decoded (decode='none')");
            }
        }
        Ok(())
    }
}
