//! Batches straight from a bucket, with a cache on the local disk.
//!
//! `cargo run --release --example remote -- s3://bucket/train CACHE_FOLDER` (credentials from the environment)
#![expect(clippy::print_stdout, reason = "an example")]

use std::path::Path;

use feedline::source::Storage;
use feedline::{Dataset, DecodeMode, Loader, LoaderOptions, OpenOptions, Result, Shuffle};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (address, cache) =
        arguments.next().zip(arguments.next()).expect("usage: remote ADDRESS CACHE_FOLDER");
    let samples = run(&address, Storage::default(), Path::new(&cache))?;
    println!("{samples} samples");
    Ok(())
}

/// Loads an epoch; what was fetched stays in `cache` for the next one.
pub(crate) fn run(address: &str, storage: Storage, cache: &Path) -> Result<usize> {
    let storage = storage.with_cache_dir(cache.to_owned());
    let dataset = Dataset::open_all(&[address.to_owned()], &OpenOptions::default().with_storage(storage))?;
    // Block shuffle reads storage in stretches: fewer, larger requests.
    let options = LoaderOptions::default()
        .with_batch_size(16)
        .with_shuffle(Shuffle::Block)
        .with_decode(DecodeMode::None);
    let mut samples = 0;
    for batch in Loader::new(dataset, options)?.epoch(0)? {
        samples += batch?.rows();
    }
    Ok(samples)
}
