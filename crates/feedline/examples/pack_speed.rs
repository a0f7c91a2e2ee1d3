//! Packs a data set, verifies it and reads it back; prints MB/s. `pack_speed SOURCE DESTINATION [WORKERS]`.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::Instant;

use feedline::format::{PackOptions, verify};
use feedline::sample::{FieldSet, SampleBuffer};
use feedline::{Dataset, pack};

fn main() -> feedline::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (source, destination) = (arguments.next().expect("source"), arguments.next().expect("destination"));
    let workers = arguments.next().map_or(0, |w| w.parse().expect("workers"));
    let start = Instant::now();
    let dataset = Dataset::open(&source)?;
    println!("open {:?}: {} samples, {} problems", start.elapsed(), dataset.len(), dataset.problems().len());
    let options = PackOptions { workers, overwrite: true, ..PackOptions::default() };
    let start = Instant::now();
    let report = pack(&**dataset.format(), &destination, &options, &())?;
    say("pack", start, report.bytes);
    println!("{report:?}");
    let start = Instant::now();
    let found = verify(&destination, workers, &())?;
    say("verify", start, found.bytes);
    assert!(found.is_intact(), "{:?}", found.damage);
    let packed = Dataset::open(&destination)?;
    for name in ["read", "read again"] {
        let start = Instant::now();
        let bytes = read_all(&packed)?;
        say(name, start, bytes);
    }
    let start = Instant::now();
    let bytes = read_images(&packed)?;
    say("read_bytes", start, bytes);
    Ok(())
}

fn say(what: &str, start: Instant, bytes: u64) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {bytes} bytes in {seconds:.3} s = {:.0} MB/s", bytes as f64 / seconds / 1e6);
}

fn read_all(dataset: &Dataset) -> feedline::Result<u64> {
    let all = FieldSet::all(dataset.schema().fields.len());
    let mut buffer = SampleBuffer::new();
    let mut bytes = 0;
    for sample in 0..dataset.len() {
        dataset.read(sample, &all, &mut buffer)?;
        bytes += dataset.format().byte_length(sample, 0).unwrap_or(0);
    }
    Ok(bytes)
}

fn read_images(dataset: &Dataset) -> feedline::Result<u64> {
    let mut room = Vec::new();
    let mut bytes = 0;
    for sample in 0..dataset.len() {
        let length = dataset.format().byte_length(sample, 0).unwrap_or(0);
        room.resize(length as usize, 0);
        dataset.format().read_bytes(sample, 0, &mut room)?;
        bytes += length;
    }
    Ok(bytes)
}
