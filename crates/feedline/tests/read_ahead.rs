//! Local data that are read before they are needed: the same batches, the same errors, within memory.

use std::fs;
use std::path::Path;

use crate::support::{self, FORMATS, RECORDED, all_bytes, recorded_options, write_formats};
use feedline::{Dataset, Loader, LoaderOptions, ReadAhead, Shuffle};
use proptest::prelude::*;

fn images(count: usize, side: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    write_formats(root.path(), count, side);
    root
}

fn open(root: &Path, name: &str) -> Dataset {
    Dataset::open(root.join(name).display().to_string()).unwrap()
}

fn undecoded(batch_size: u64, shuffle: Shuffle, ahead: ReadAhead) -> LoaderOptions {
    support::undecoded(batch_size, shuffle).with_read_ahead(ahead)
}

type Bytes = Vec<Vec<Vec<u8>>>;

/// Every byte of every column of every batch from a position on.
fn epoch_from(loader: &Loader, number: u64, first: u64) -> feedline::Result<Bytes> {
    all_bytes(loader.epoch_from(number, first)?)
}

#[test]
fn every_format_gives_the_same_batches_and_reads_them_ahead() {
    let root = images(60, 24);
    for (name, format) in FORMATS {
        let dataset = open(root.path(), name);
        assert_eq!(dataset.format_name(), format);
        for shuffle in [Shuffle::Off, Shuffle::Full, Shuffle::Block] {
            let load = |ahead| Loader::new(dataset.clone(), undecoded(7, shuffle, ahead)).unwrap();
            let (plain, ahead) = (load(ReadAhead::Off), load(ReadAhead::Reads(4)));
            for number in 0..2 {
                let expected = epoch_from(&plain, number, 0).unwrap();
                assert!(epoch_from(&ahead, number, 0).unwrap() == expected, "{format}, {shuffle:?}");
            }
            // A worker that is first reads the bytes itself; that must not be so for all of them.
            for number in 2..1000 {
                if ahead.stats().read_ahead.reads > 0 {
                    break;
                }
                epoch_from(&ahead, number, 0).unwrap();
            }
            let (off, on) = (plain.stats().read_ahead, ahead.stats().read_ahead);
            assert_eq!((off.allowed, off.active, off.reads), (false, false, 0));
            assert!(on.allowed && on.active && on.reads > 0, "{format}, {shuffle:?}: {on:?}");
        }
    }
}

#[test]
fn recorded_files_of_other_systems_read_the_same_ahead() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let indexes = tempfile::tempdir().unwrap();
    for name in RECORDED {
        let uri = recorded.join(name).display().to_string();
        let dataset = Dataset::open_all(&[uri], &recorded_options(indexes.path())).unwrap();
        let load = |ahead| {
            let loader = Loader::new(dataset.clone(), undecoded(3, Shuffle::Full, ahead)).unwrap();
            epoch_from(&loader, 0, 0).unwrap()
        };
        assert!(load(ReadAhead::Off) == load(ReadAhead::Reads(3)), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_do_not_depend_on_read_ahead(
        format in 0usize..3,
        reads in 1u32..20,
        batch_size in 1u64..12,
        shuffle in 0usize..3,
        workers in 1usize..4,
        first in 0u64..5,
        budget in prop::option::of(60_000u64..400_000),
    ) {
        let root = images(40, 16);
        let dataset = open(root.path(), FORMATS[format].0);
        let shuffle = [Shuffle::Off, Shuffle::Full, Shuffle::Block][shuffle];
        let load = |ahead| {
            let mut options = undecoded(batch_size, shuffle, ahead).with_num_workers(workers);
            options.memory_budget = budget;
            Loader::new(dataset.clone(), options)
        };
        let Ok(ahead) = load(ReadAhead::Reads(reads)) else { return Ok(()) };
        let plain = load(ReadAhead::Off).unwrap();
        let first = first * batch_size;
        prop_assert!(epoch_from(&plain, 1, first).unwrap() == epoch_from(&ahead, 1, first).unwrap());
    }
}

#[test]
fn a_resumed_epoch_gives_the_rest() {
    let root = images(50, 16);
    let loader =
        Loader::new(open(root.path(), "packed"), undecoded(4, Shuffle::Full, ReadAhead::Reads(8))).unwrap();
    let whole = epoch_from(&loader, 2, 0).unwrap();
    let mut begun = loader.epoch(2).unwrap();
    for _ in 0..5 {
        begun.next_batch().unwrap().unwrap();
    }
    let state = begun.state();
    drop(begun);
    let rest: Bytes = loader
        .resume(&state)
        .unwrap()
        .map(|batch| batch.unwrap().columns().iter().map(|column| column.bytes().to_vec()).collect())
        .collect();
    assert!(rest == whole[5..]);
}

/// Epochs that end early, one over the other, with reads under way.
#[test]
fn an_epoch_left_early_does_not_disturb_the_next() {
    let root = images(60, 40);
    for (name, format) in FORMATS {
        let options = undecoded(5, Shuffle::Full, ReadAhead::Reads(6));
        let loader = Loader::new(open(root.path(), name), options).unwrap();
        let expected = epoch_from(&loader, 0, 0).unwrap();
        for batches in 0..6 {
            let mut left = loader.epoch(0).unwrap();
            let mut other = loader.epoch(0).unwrap();
            for _ in 0..batches {
                left.next_batch().unwrap().unwrap();
            }
            drop(left);
            let first = other.next_batch().unwrap().unwrap();
            assert!(first.columns()[0].bytes() == expected[0][0], "{format}");
            drop(other);
        }
        assert!(epoch_from(&loader, 0, 0).unwrap() == expected, "{format}");
        assert_eq!(loader.close(), 0, "{format}");
    }
}

#[test]
fn errors_are_the_same_with_read_ahead() {
    let root = images(30, 24);
    let datasets: Vec<Dataset> = FORMATS.iter().map(|(name, _)| open(root.path(), name)).collect();
    fs::write(root.path().join("photos/c1/0004.bmp"), b"short").unwrap();
    fs::remove_file(root.path().join("photos/c2/0005.bmp")).unwrap();
    fs::File::options().write(true).open(root.path().join("shards/001.tar")).unwrap().set_len(3000).unwrap();
    let part = root.path().join("packed/part-000000.fl");
    let mut bytes = fs::read(&part).unwrap();
    bytes[500] ^= 1;
    fs::write(&part, bytes).unwrap();
    for (dataset, (_, format)) in datasets.iter().zip(FORMATS) {
        let errors = |ahead| {
            let loader = Loader::new(dataset.clone(), undecoded(4, Shuffle::Full, ahead)).unwrap();
            let found: Vec<String> = loader
                .epoch(0)
                .unwrap()
                .take(40)
                .filter_map(|batch| batch.err().map(|error| error.to_string()))
                .take(3)
                .collect();
            found
        };
        let plain = errors(ReadAhead::Off);
        assert!(!plain.is_empty(), "{format}");
        assert_eq!(plain, errors(ReadAhead::Reads(5)), "{format}");
    }
}

#[test]
fn memory_stays_within_the_budget() {
    let root = images(120, 60);
    let dataset = open(root.path(), "packed");
    let budget = 1_200_000;
    let options = undecoded(4, Shuffle::Full, ReadAhead::Reads(32)).with_memory_budget(budget);
    let loader = Loader::new(dataset, options).unwrap();
    let mut epoch = loader.epoch(0).unwrap();
    epoch.next_batch().unwrap().unwrap();
    // A consumer that takes its time: everything that may be read ahead is.
    let begun = std::time::Instant::now();
    while epoch.read_ahead_peak_bytes() == 0 && begun.elapsed().as_secs() < 20 {
        std::thread::yield_now();
    }
    for batch in epoch.by_ref() {
        batch.unwrap();
    }
    let peak = epoch.read_ahead_peak_bytes();
    assert!(peak > 0 && peak <= budget / 4, "{peak} bytes");
}

#[test]
fn a_number_without_effect_is_refused() {
    let root = images(12, 16);
    let load = |options: LoaderOptions| Loader::new(open(root.path(), "photos"), options).map(drop);
    let reads = |count| undecoded(4, Shuffle::Off, ReadAhead::Reads(count));
    assert!(load(reads(3)).is_ok());
    let message = load(reads(0)).unwrap_err().to_string();
    assert!(message.starts_with("read_ahead") && message.contains("between 1 and 1024"), "{message}");
    let message = load(reads(3).with_memory_budget(1)).unwrap_err().to_string();
    assert!(message.contains("memory_budget"), "{message}");
}
