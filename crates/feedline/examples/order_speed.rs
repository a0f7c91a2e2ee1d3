//! Time and memory to start, and to seek to the middle of an epoch, at several sizes, for every order that keeps no
//! table; and how well each shuffles. `cargo run --release -p feedline --example order_speed`
//!
//! The data set is synthetic: an index without data. Each line is measured in a process of its own.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]

use std::sync::Arc;
use std::time::Instant;

use feedline::error::Location;
use feedline::field::{FieldSpec, Schema};
use feedline::format::Format;
use feedline::sample::{FieldSet, Fingerprint, SampleBuffer, Value};
use feedline::{Dataset, DecodeMode, Error, Kind, Loader, LoaderOptions, Result, Sampler, Shuffle};

/// As many samples as wanted, each only a number.
#[derive(Debug)]
struct Numbers {
    length: u64,
    schema: Schema,
}

impl Format for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([0; 16])
    }

    fn read(&self, sample: u64, _fields: &FieldSet, into: &mut SampleBuffer) -> Result<(), Error> {
        into.reset(1);
        into.set(0, Value::Int(sample as i64));
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("numbers").with_sample(sample)
    }
}

impl feedline::format::Index for Numbers {}

impl feedline::format::Extents for Numbers {}

fn numbers(length: u64) -> Dataset {
    let schema = Schema { fields: vec![FieldSpec::new("number", Kind::Int)], classes: None };
    Dataset::from_format(Arc::new(Numbers { length, schema }), "numbers")
}

fn options(order: &str, length: u64) -> LoaderOptions {
    let options =
        LoaderOptions::default().with_batch_size(256).with_num_workers(1).with_decode(DecodeMode::None);
    match order {
        "full" => options.with_shuffle(Shuffle::Full),
        "block" => options.with_shuffle(Shuffle::Block),
        "replacement" => options.with_sampler(Sampler::Random { replacement: true, num_samples: None }),
        "mix" => options.with_sampler(Sampler::Mix {
            lengths: vec![length / 2, length - length / 2],
            weights: vec![0.7, 0.3],
            num_samples: length,
        }),
        _ => options,
    }
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
    kib / 1024.0
}

fn measure(order: &str, length: u64) -> Result<()> {
    let begun = Instant::now();
    let loader = Loader::new(numbers(length), options(order, length))?;
    let mut epoch = loader.epoch(0)?;
    epoch.next_batch()?;
    let start = begun.elapsed();
    drop(epoch);
    let begun = Instant::now();
    let mut epoch = loader.epoch_from(3, length / 2)?;
    epoch.next_batch()?;
    let seek = begun.elapsed();
    let (start, seek) = (start.as_secs_f64() * 1e3, seek.as_secs_f64() * 1e3);
    println!(
        "| {order} | {length:.0e} | {start:.2} | {seek:.2} | {:.1} |",
        resident_mib(),
        length = length as f64
    );
    Ok(())
}

/// Data sorted by class, 1000 classes of 1000: what a batch of 256 sees of it.
fn quality(order: &str) -> Result<()> {
    let length = 1_000_000;
    let loader = Loader::new(numbers(length), options(order, length))?;
    let (mut classes, mut blocks, mut batches) = (0, 0, 0);
    let mut squares = 0.0;
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let column = batch.column("number").expect("the only field");
        let distinct = |divisor: i64| {
            let row = |row| i64::from_le_bytes(column.row(row).try_into().expect("eight bytes")) / divisor;
            let mut seen: Vec<i64> = (0..batch.rows()).map(row).collect();
            let mean = seen.iter().sum::<i64>() as f64 / seen.len() as f64;
            seen.sort_unstable();
            seen.dedup();
            (seen.len(), mean)
        };
        let (seen, _) = distinct(1000);
        let (read, _) = distinct(64);
        let (_, mean) = distinct(1);
        classes += seen;
        blocks += read;
        batches += 1;
        squares += (mean - length as f64 / 2.0).powi(2);
    }
    let n = f64::from(batches);
    let spread = (squares / n).sqrt() / length as f64;
    println!("| {order} | {:.1} | {:.1} | {:.4} |", classes as f64 / n, blocks as f64 / n, spread);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, order, length] = &arguments[..] {
        return measure(order, length.parse().expect("a number of samples"));
    }
    let program = std::env::current_exe().expect("this program");
    println!("| order | samples | start, ms | seek, ms | peak memory, MiB |\n|---|---|---|---|---|");
    for order in ["sequential", "full", "block", "replacement", "mix"] {
        for length in ["1000000", "100000000", "1000000000"] {
            let _ = std::process::Command::new(&program).args([order, length]).status();
        }
    }
    println!(
        "\n| order | classes in a batch | blocks of 64 in a batch | spread of batch means |\n|---|---|---|---|"
    );
    ["sequential", "full", "block"].into_iter().try_for_each(quality)
}
