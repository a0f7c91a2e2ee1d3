//! Undecoded images, a batch at a time: for decoders of one's own.
//!
//! `cargo run --release --example raw_bytes -- PATH`
#![expect(clippy::print_stdout, reason = "an example")]

use feedline::{Dataset, DecodeMode, Loader, LoaderOptions, Result};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).expect("usage: raw_bytes PATH");
    let (images, bytes) = run(&path)?;
    println!("{images} images, {bytes} bytes");
    Ok(())
}

/// Reads every image once; gives their number and the number of their bytes.
pub(crate) fn run(path: &str) -> Result<(usize, usize)> {
    let options = LoaderOptions::default().with_batch_size(64).with_decode(DecodeMode::None);
    let loader = Loader::new(Dataset::open(path)?, options)?;
    let (mut images, mut bytes) = (0, 0);
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let column = batch.column("image").expect("a field of the data set");
        for row in 0..batch.rows() {
            // A view into the batch: nothing is copied.
            let file: &[u8] = column.row(row);
            images += 1;
            bytes += file.len();
        }
    }
    Ok((images, bytes))
}
