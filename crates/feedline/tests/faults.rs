//! Samples that cannot be read, storage that fails or does not answer, loaders that are closed during an iteration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use feedline::error::Location;
use feedline::field::{FieldSpec, Schema};
use feedline::format::Format;
use feedline::loader::{Next, mix};
use feedline::sample::{FieldSet, Fingerprint, SampleBuffer, Value};
use feedline::{Dataset, Epoch, Error, Kind, Loader, LoaderOptions, OnError, Result, Sampler};

/// Samples whose label is their number, in a storage whose failures a test chooses.
#[derive(Debug)]
struct ScriptedStorage {
    length: u64,
    schema: Schema,
    bad: BTreeSet<u64>,
    /// The error number that reading this sample gives, as long as `broken` says so.
    errno: Option<(u64, i32)>,
    broken: AtomicBool,
    /// Reading this sample waits until `free`.
    stuck: Option<u64>,
    free: (Mutex<bool>, Condvar),
    reads: AtomicU64,
}

impl ScriptedStorage {
    fn new(length: u64, bad: impl IntoIterator<Item = u64>) -> Self {
        ScriptedStorage {
            length,
            schema: Schema { fields: vec![FieldSpec::new("label", Kind::Int)], classes: None },
            bad: bad.into_iter().collect(),
            errno: None,
            broken: AtomicBool::new(true),
            stuck: None,
            free: (Mutex::new(false), Condvar::new()),
            reads: AtomicU64::new(0),
        }
    }

    fn let_go(&self) {
        *self.free.0.lock().unwrap() = true;
        self.free.1.notify_all();
    }
}

impl Format for ScriptedStorage {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([7; 16])
    }

    fn read(&self, sample: u64, _: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        into.reset(1);
        if self.bad.contains(&sample) {
            return Err(Error::data(self.locate(sample), "bad on purpose"));
        }
        if let Some((_, errno)) = self.errno.filter(|(at, _)| *at == sample)
            && self.broken.load(Ordering::Relaxed)
        {
            let error = std::io::Error::from_raw_os_error(errno);
            return Err(Error::storage("reading", Location::new("scripted://"), error));
        }
        if self.stuck == Some(sample) {
            let (lock, changed) = &self.free;
            drop(changed.wait_while(lock.lock().unwrap(), |free| !*free));
        }
        into.set(0, Value::Int(sample as i64));
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("scripted://").with_sample(sample)
    }
}

impl feedline::format::Index for ScriptedStorage {}

impl feedline::format::Extents for ScriptedStorage {}

fn dataset(data: ScriptedStorage) -> (Dataset, Arc<ScriptedStorage>) {
    let data = Arc::new(data);
    (Dataset::from_format(data.clone(), "scripted://"), data)
}

fn labels(batch: &feedline::Batch) -> Vec<u64> {
    let column = batch.column("label").unwrap();
    (0..batch.rows()).map(|row| i64::from_le_bytes(column.row(row).try_into().unwrap()) as u64).collect()
}

/// The next batch, which comes, however busy the machine is.
fn coming(epoch: &mut Epoch) -> Vec<u64> {
    match epoch.next_within(Duration::from_secs(120)).unwrap() {
        Next::Batch(batch) => labels(&batch),
        other => panic!("{other:?}"),
    }
}

fn all(epoch: Epoch) -> Vec<Vec<u64>> {
    epoch.map(|batch| labels(&batch.unwrap())).collect()
}

fn replacing() -> LoaderOptions {
    LoaderOptions::default()
        .with_on_error(OnError::Replace)
        .with_num_workers(2)
        .with_batch_size(5)
        .with_seed(3)
}

/// What an epoch delivers, whichever way its order is made.
fn delivered(data: &Dataset, options: LoaderOptions, epoch: u64) -> Vec<u64> {
    all(Loader::new(data.clone(), options).unwrap().epoch(epoch).unwrap()).concat()
}

#[test]
fn substitutes_come_from_what_the_order_can_deliver() {
    let (data, _) = dataset(ScriptedStorage::new(100, (0..100).filter(|s| s % 3 == 0)));
    let list: Vec<u64> = (0..30).collect();
    for epoch in 0..10 {
        let listed = delivered(&data, replacing().with_sampler(list.clone().into()), epoch);
        assert!(listed.len() == 30 && listed.iter().all(|s| *s < 30 && s % 3 != 0), "{listed:?}");
        let weights = (0..100).map(|s| if s < 20 { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
        for replacement in [true, false] {
            let num_samples = Some(if replacement { 60 } else { 20 });
            let sampler = Sampler::Weighted { weights: weights.clone(), num_samples, replacement };
            let weighted = delivered(&data, replacing().with_sampler(sampler), epoch);
            assert!(weighted.iter().all(|s| *s < 20 && s % 3 != 0), "{weighted:?}");
        }
        let sampler = Sampler::PerEpoch { name: "mine".into(), num_samples: 20 };
        let loader = Loader::new(data.clone(), replacing().with_sampler(sampler)).unwrap();
        let own = all(loader.epoch_in_order(epoch, 0, (40..60).rev().collect()).unwrap()).concat();
        assert!(own.len() == 20 && own.iter().all(|s| (40..60).contains(s) && s % 3 != 0), "{own:?}");
    }
}

#[test]
fn substitutes_in_a_mix_are_of_the_same_set() {
    let (one, _) = dataset(ScriptedStorage::new(40, (0..40).filter(|s| s % 2 == 0)));
    let (other, _) = dataset(ScriptedStorage::new(60, []));
    let (mixed, sampler) = mix(&[(one, 0.5), (other, 0.5)], 60).unwrap();
    for epoch in 0..10 {
        let loader = Loader::new(mixed.clone(), replacing().with_sampler(sampler.clone())).unwrap();
        let mut of_first = 0;
        for batch in loader.epoch(epoch).unwrap() {
            let batch = batch.unwrap();
            let index = batch.column("index").unwrap();
            let sample = |row| i64::from_le_bytes(index.row(row).try_into().unwrap());
            of_first += (0..batch.rows()).filter(|row| sample(*row) < 40).count();
        }
        assert_eq!(of_first, 30, "epoch {epoch}: the shares are exact");
    }
}

#[test]
fn substitutes_do_not_depend_on_ranks_threads_or_resume() {
    let (data, _) = dataset(ScriptedStorage::new(96, (0..96).filter(|s| s % 4 == 1)));
    let base = replacing()
        .with_batch_size(12)
        .with_sampler(Sampler::Random { replacement: false, num_samples: None });
    let whole = all(Loader::new(data.clone(), base.clone()).unwrap().epoch(2).unwrap());
    let threads = all(Loader::new(data.clone(), base.clone().with_num_workers(5)).unwrap().epoch(2).unwrap());
    assert_eq!(whole, threads);
    let resumed = all(Loader::new(data.clone(), base.clone()).unwrap().epoch_from(2, 36).unwrap());
    assert_eq!(whole[3..], resumed);
    for world in [2, 3, 4] {
        let rank = |rank| {
            let options = base.clone().with_batch_size(12 / world).with_rank(rank, world);
            all(Loader::new(data.clone(), options).unwrap().epoch(2).unwrap())
        };
        let ranks: Vec<_> = (0..world).map(rank).collect();
        for (number, batch) in whole.iter().enumerate() {
            let together: Vec<u64> = ranks.iter().flat_map(|r| r[number].clone()).collect();
            assert_eq!(&together, batch);
        }
    }
}

#[test]
fn a_sample_without_a_substitute_is_an_error_that_names_it() {
    let (data, reads) = dataset(ScriptedStorage::new(50, 0..50));
    let loader = Loader::new(data, replacing().with_sampler(vec![7, 8, 7].into())).unwrap();
    let message = loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(message.starts_with("sample 7 is bad and so are all 1 substitutes"), "{message}");
    assert!(message.contains("bad on purpose"), "{message}");
    // No sample is tried twice for the same row: two rows of 7 and 8 each, one of 8 and 7.
    assert_eq!(reads.reads.load(Ordering::Relaxed), 6);
    let (data, _) = dataset(ScriptedStorage::new(1000, 0..1000));
    let loader = Loader::new(data, replacing().with_batch_size(1)).unwrap();
    let message = loader.epoch(0).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(message.starts_with("sample 0 is bad and so are all 16 substitutes"), "{message}");
}

#[test]
fn bad_samples_count_once_in_any_number_of_epochs() {
    let (data, _) = dataset(ScriptedStorage::new(2000, [3, 500, 501, 777, 1000, 1500, 1999]));
    let options =
        LoaderOptions::default().with_on_error(OnError::Skip).with_num_workers(2).with_batch_size(100);
    let loader = Loader::new(data, options).unwrap();
    for epoch in 0..40 {
        assert_eq!(all(loader.epoch(epoch).unwrap()).concat().len(), 1993);
    }
    assert_eq!((loader.errors().len(), loader.stats().failed), (7, 280));
}

#[test]
fn a_resumed_run_stops_at_the_same_bad_sample() {
    let bad: Vec<u64> = (0..12).map(|n| n * 8 + 3).collect();
    let run = |from: Option<feedline::order::State>| {
        let (data, _) = dataset(ScriptedStorage::new(100, bad.clone()));
        let options = LoaderOptions::default()
            .with_on_error(OnError::Skip)
            .with_num_workers(1)
            .with_batch_size(4)
            .with_max_errors(8);
        let loader = Loader::new(data, options).unwrap();
        let mut epoch = match &from {
            Some(state) => loader.resume(state).unwrap(),
            None => loader.epoch(0).unwrap(),
        };
        let mut states = vec![epoch.state()];
        while epoch.next_batch().is_ok_and(|batch| batch.is_some()) {
            let text = serde_json::to_string(&epoch.state()).unwrap();
            states.push(feedline::order::State::from_json(&text).unwrap());
        }
        states
    };
    let whole = run(None);
    assert_eq!(whole.len(), 17, "the ninth bad sample is in the seventeenth batch");
    for (number, state) in whole.iter().enumerate() {
        assert_eq!(run(Some(state.clone()))[..], whole[number..], "from batch {number}");
    }
}

#[test]
fn storage_failures_always_raise_and_lose_no_batch() {
    for policy in [OnError::Raise, OnError::Skip, OnError::Replace] {
        for errno in [5, 116, 110, 13, 2] {
            let data = ScriptedStorage { errno: Some((13, errno)), ..ScriptedStorage::new(40, []) };
            let (set, data) = dataset(data);
            let options =
                LoaderOptions::default().with_on_error(policy).with_num_workers(2).with_batch_size(10);
            let loader = Loader::new(set, options).unwrap();
            let mut epoch = loader.epoch(0).unwrap();
            assert_eq!(labels(&epoch.next_batch().unwrap().unwrap()), (0..10).collect::<Vec<_>>());
            for _ in 0..2 {
                let error = epoch.next_batch().unwrap_err();
                let Error::Storage { source, location, .. } = &error else { panic!("{error}") };
                assert_eq!((source.raw_os_error(), location.sample), (Some(errno), Some(13)));
                assert_eq!(epoch.state().samples, 10, "the batch is not lost");
            }
            assert_eq!(loader.errors().len(), 0);
            data.broken.store(false, Ordering::Relaxed);
            let rest: Vec<u64> =
                std::iter::from_fn(|| epoch.next_batch().unwrap()).flat_map(|b| labels(&b)).collect();
            assert!(rest.into_iter().eq(10..40));
        }
    }
}

#[test]
fn errors_have_the_number_in_the_batch_and_in_the_source() {
    let bad = || dataset(ScriptedStorage::new(20, [17])).0;
    let selected = bad().select(&[4, 17, 5]).unwrap();
    let joined = Dataset::concat(&[dataset(ScriptedStorage::new(10, [])).0, selected.clone()]).unwrap();
    for (set, index) in [(selected, 1), (joined, 11), (bad(), 17)] {
        let place = |error: &Error| {
            let place = error.location().unwrap();
            (place.sample, place.source_sample)
        };
        let loader = Loader::new(set.clone(), LoaderOptions::default().with_num_workers(1)).unwrap();
        let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err();
        assert_eq!(place(&error), (Some(index), Some(17)));
        assert_eq!(place(&loader.errors()[0]), (Some(index), Some(17)));
        assert_eq!(place(&set.get(index).unwrap_err()), (Some(index), Some(17)));
        let expected = if index == 17 { ", sample 17:" } else { "(17 of its source)" };
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn iterating_a_closed_loader_is_an_error() {
    let (data, _) = dataset(ScriptedStorage::new(1000, []));
    let loader = Loader::new(data, LoaderOptions::default().with_num_workers(2).with_batch_size(10)).unwrap();
    let mut epoch = loader.epoch(0).unwrap();
    epoch.next_batch().unwrap().unwrap();
    let mut other = loader.epoch(1).unwrap();
    other.close();
    loader.close();
    assert!(matches!(epoch.next_batch(), Err(Error::Closed(_))));
    assert!(matches!(epoch.next_batch(), Err(Error::Closed(_))));
    // Closing the epoch itself is not an error.
    assert!(other.next_batch().unwrap().is_none());
    assert!(matches!(loader.epoch(2), Err(Error::Closed(_))));
}

#[test]
fn a_complete_epoch_ends_normally_after_closing() {
    let (data, _) = dataset(ScriptedStorage::new(10, []));
    let loader = Loader::new(data, LoaderOptions::default().with_num_workers(2)).unwrap();
    let mut epoch = loader.epoch(0).unwrap();
    epoch.next_batch().unwrap().unwrap();
    loader.close();
    assert!(epoch.next_batch().unwrap().is_none());
}

#[test]
fn a_stuck_thread_is_abandoned() {
    let (data, storage) = dataset(ScriptedStorage { stuck: Some(3), ..ScriptedStorage::new(20, []) });
    let options = LoaderOptions::default().with_num_workers(1).with_batch_size(2).with_timeout(0.2);
    let loader = Loader::new(data, options).unwrap();
    let mut epoch = loader.epoch(0).unwrap();
    assert_eq!(coming(&mut epoch), [0, 1]);
    assert!(matches!(epoch.next_batch(), Err(Error::Timeout { .. })));
    drop(epoch);
    // The only thread is stuck; another epoch gets another one.
    let mut epoch = loader.epoch_from(0, 4).unwrap();
    assert_eq!(coming(&mut epoch), [4, 5]);
    let begun = Instant::now();
    assert_eq!(loader.close_within(Duration::from_millis(300)), 1);
    assert!(begun.elapsed() < Duration::from_secs(20));
    storage.let_go();
    assert_eq!(loader.close_within(Duration::MAX), 0);
    drop(epoch);
}

#[test]
fn extreme_numbers_work_or_are_refused() {
    let (data, _) = dataset(ScriptedStorage::new(100, []));
    let make = |options: LoaderOptions| Loader::new(data.clone(), options);
    let message = make(LoaderOptions::default().with_rank(0, 1 << 61)).unwrap_err().to_string();
    assert!(message.starts_with("world_size: "), "{message}");
    let sampler = Sampler::Random { replacement: true, num_samples: Some(u64::MAX) };
    let message = make(LoaderOptions::default().with_sampler(sampler)).unwrap_err().to_string();
    assert!(message.starts_with("sampler: "), "{message}");
    let endless = make(LoaderOptions::default().with_num_workers(1).with_timeout(1e20)).unwrap();
    assert_eq!(all(endless.epoch(0).unwrap()).concat().len(), 100);
    for (block, window) in [(4, 1 << 62), (1 << 40, 1), (u64::MAX, u64::MAX)] {
        let sampler = Sampler::Block { block: Some(block), window: Some(window) };
        let loader = make(LoaderOptions::default().with_num_workers(1).with_sampler(sampler)).unwrap();
        let mut had = all(loader.epoch(0).unwrap()).concat();
        had.sort_unstable();
        assert!(had.into_iter().eq(0..100));
    }
}

#[test]
fn a_cancelled_scan_ends() {
    let (data, storage) = dataset(ScriptedStorage::new(1_000_000, []));
    let cancelled = Arc::new(AtomicBool::new(true));
    let sampler = Sampler::Balanced { field: "label".into(), num_samples: None };
    let options = LoaderOptions::default().with_sampler(sampler);
    let made = feedline::source::while_wanted(&cancelled, || Loader::new(data, options));
    assert!(matches!(made, Err(Error::Closed(_))));
    assert_eq!(storage.reads.load(Ordering::Relaxed), 0);
}

#[test]
fn replaced_samples_keep_every_row() {
    let (data, _) = dataset(ScriptedStorage::new(60, (0..60).filter(|s| s % 2 == 1)));
    let had = delivered(&data, replacing().with_batch_size(7), 0);
    let mut counts = BTreeMap::new();
    for sample in &had {
        *counts.entry(*sample).or_insert(0) += 1;
    }
    assert_eq!((had.len(), counts.len()), (60, 30));
}
