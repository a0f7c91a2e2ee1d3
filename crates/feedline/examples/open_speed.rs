//! Opens a data set three times and prints how long it took. `open_speed URI`.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::Instant;

fn main() -> feedline::Result<()> {
    let uri = std::env::args().nth(1).expect("uri");
    for _ in 0..3 {
        let start = Instant::now();
        let dataset = feedline::Dataset::open(&uri)?;
        let opened = start.elapsed();
        let last = dataset.len().saturating_sub(1);
        dataset.get(last)?;
        println!(
            "{} samples as {} in {opened:?}; first sample after {:?}",
            dataset.len(),
            dataset.format_name(),
            start.elapsed()
        );
    }
    Ok(())
}
