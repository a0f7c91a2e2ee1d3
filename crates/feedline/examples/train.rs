//! Training batches from a folder of images (one folder per class), a pack, tar shards, or whatever else is at the path.
//!
//! `cargo run --release --example train -- PATH`
#![expect(clippy::print_stdout, reason = "an example")]

use feedline::{Dataset, Loader, LoaderOptions, OnError, Result, Shuffle, Transform};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).expect("usage: train PATH");
    for (epoch, samples) in run(&path, 2)?.into_iter().enumerate() {
        println!("epoch {epoch}: {samples} samples");
    }
    Ok(())
}

/// Loads some epochs; gives the number of samples in each.
pub(crate) fn run(path: &str, epochs: u64) -> Result<Vec<usize>> {
    let dataset = Dataset::open(path)?;
    let options = LoaderOptions::default()
        .with_batch_size(32)
        .with_shuffle(Shuffle::Full)
        .with_seed(42)
        .with_on_error(OnError::Skip)
        .with_transforms(
            "image",
            vec![
                Transform::random_resized_crop(64),
                Transform::random_horizontal_flip(),
                Transform::normalize_imagenet(),
            ],
        );
    // One loader for the whole training: its threads and its memory stay.
    let loader = Loader::new(dataset, options)?;
    let mut counts = Vec::new();
    for epoch in 0..epochs {
        let mut samples = 0;
        for batch in loader.epoch(epoch)? {
            let batch = batch?;
            let images = batch.column("image").expect("a field of the data set");
            // [batch, 3, 64, 64], in memory that is ours to keep.
            let pixels = images.as_f32().expect("images are float32 unless asked otherwise");
            let labels =
                batch.column("label").and_then(|column| column.as_i64()).expect("one class per folder");
            step(pixels, labels);
            samples += batch.rows();
        }
        counts.push(samples);
    }
    Ok(counts)
}

/// What a training step would do.
fn step(pixels: &[f32], labels: &[i64]) {
    assert_eq!(pixels.len(), labels.len() * 3 * 64 * 64);
    assert!(pixels.iter().all(|value| value.is_finite()));
}
