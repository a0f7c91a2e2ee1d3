//! What to do with each sample.

use feedline::{DType, DecodeMode, LoaderOptions, OnError, Shuffle, Transform};

/// A usual way to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipe {
    /// Undecoded bytes, shuffled.
    Raw,
    /// Full-size pixels, shuffled.
    Decode,
    /// Random crop, flip, normalise; shuffled.
    Train,
    /// Resize, centre crop, normalise; in order.
    Validation,
}

impl Recipe {
    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Recipe::Raw => "raw",
            Recipe::Decode => "decode",
            Recipe::Train => "train",
            Recipe::Validation => "validation",
        }
    }

    /// Description.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Recipe::Raw => "undecoded bytes, shuffled",
            Recipe::Decode => "full-size uint8 pixels, shuffled",
            Recipe::Train => "RandomResizedCrop(224), RandomHorizontalFlip, Normalize; float32, shuffled",
            Recipe::Validation => "Resize(256), CenterCrop(224), Normalize; float32, in order",
        }
    }

    /// The loader's options. Bad samples are left out and counted: one broken file should not end a benchmark.
    pub(crate) fn options(self, images: &[String], batch_size: u64, workers: usize) -> LoaderOptions {
        let options = LoaderOptions::default()
            .with_batch_size(batch_size)
            .with_num_workers(workers)
            .with_on_error(OnError::Skip)
            .with_max_errors(u64::MAX);
        match self {
            Recipe::Raw => options.with_decode(DecodeMode::None).with_shuffle(Shuffle::Full),
            Recipe::Decode => options.with_dtype(DType::U8).with_shuffle(Shuffle::Full),
            Recipe::Train => transformed(options.with_shuffle(Shuffle::Full), images, &train()),
            Recipe::Validation => transformed(options, images, &validation()),
        }
    }
}

fn transformed(mut options: LoaderOptions, images: &[String], list: &[Transform]) -> LoaderOptions {
    for image in images {
        options = options.with_transforms(image, list.to_vec());
    }
    options
}

fn train() -> Vec<Transform> {
    vec![
        Transform::random_resized_crop(224),
        Transform::random_horizontal_flip(),
        Transform::normalize_imagenet(),
    ]
}

fn validation() -> Vec<Transform> {
    vec![Transform::resize_shorter(256), Transform::center_crop(224), Transform::normalize_imagenet()]
}
