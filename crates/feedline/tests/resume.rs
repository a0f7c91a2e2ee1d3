//! Resuming a run from Rust: the rest is the same, wherever the run stopped and on any number of ranks.

use std::sync::Arc;

use feedline::error::Location;
use feedline::field::{FieldSpec, Schema};
use feedline::format::Format;
use feedline::order::State;
use feedline::sample::{FieldSet, Fingerprint, SampleBuffer, Value};
use feedline::{Dataset, Error, Kind, Loader, LoaderOptions, Result, Sampler, Shuffle};

/// Samples that are only numbers; every seventh is of class 1.
#[derive(Debug)]
struct Numbers(u64, Schema);

impl Format for Numbers {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn len(&self) -> u64 {
        self.0
    }

    fn schema(&self) -> &Schema {
        &self.1
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint([self.0 as u8; 16])
    }

    fn read(&self, sample: u64, _fields: &FieldSet, into: &mut SampleBuffer) -> Result<(), Error> {
        into.reset(1);
        into.set(0, Value::Int(i64::from(sample.is_multiple_of(7))));
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        Location::new("numbers").with_sample(sample)
    }
}

impl feedline::format::Index for Numbers {}

impl feedline::format::Extents for Numbers {}

fn numbers(length: u64) -> Dataset {
    let schema = Schema { fields: vec![FieldSpec::new("label", Kind::Int)], classes: None };
    Dataset::from_format(Arc::new(Numbers(length, schema)), "numbers")
}

fn orders(length: u64) -> Vec<LoaderOptions> {
    let options = LoaderOptions::default;
    let samplers = [
        Sampler::Random { replacement: true, num_samples: None },
        Sampler::Block { block: Some(5), window: Some(3) },
        Sampler::Weighted { weights: vec![1.0; length as usize], num_samples: Some(53), replacement: true },
        Sampler::Balanced { field: "label".to_owned(), num_samples: Some(60) },
        Sampler::Mix { lengths: vec![10, length - 10], weights: vec![0.5, 0.5], num_samples: 70 },
    ];
    [options(), options().with_shuffle(Shuffle::Full), options().with_shuffle(Shuffle::Block)]
        .into_iter()
        .chain(samplers.into_iter().map(|sampler| options().with_sampler(sampler)))
        .collect()
}

fn indices(batch: &feedline::Batch) -> Vec<i64> {
    let column = batch.column("index").expect("every batch has it");
    (0..batch.rows())
        .map(|row| i64::from_le_bytes(column.row(row).try_into().expect("eight bytes")))
        .collect()
}

/// Global batches of an epoch from `state` on, put together from all ranks, with the state after each.
fn run(options: &LoaderOptions, world: u64, state: Option<&State>) -> (Vec<Vec<i64>>, Vec<State>) {
    let (mut batches, mut states): (Vec<Vec<i64>>, Vec<State>) = (Vec::new(), Vec::new());
    for rank in 0..world {
        let options = options.clone().with_batch_size(12 / world).with_rank(rank, world).with_num_workers(2);
        let loader = Loader::new(numbers(83), options).unwrap();
        let mut epoch = match state {
            Some(state) => loader.resume(state).unwrap(),
            None => loader.epoch(4).unwrap(),
        };
        let mut number = 0;
        let mut taken = vec![epoch.state()];
        while let Some(batch) = epoch.next_batch().unwrap() {
            if rank == 0 {
                batches.push(Vec::new());
            }
            batches[number].extend(indices(&batch));
            taken.push(epoch.state());
            number += 1;
        }
        assert_eq!(number, batches.len(), "every rank has as many batches");
        if rank == 0 {
            states = taken;
        } else {
            assert_eq!(states, taken, "states are the same on every rank");
        }
    }
    (batches, states)
}

#[test]
fn a_resumed_epoch_is_the_same_on_any_number_of_ranks() {
    for options in orders(83) {
        let (whole, states) = run(&options, 2, None);
        for (done, state) in states.iter().enumerate().take(whole.len()) {
            let text = serde_json::to_string(state).unwrap();
            assert!(text.len() < 1024);
            let state = State::from_json(&text).unwrap();
            for world in [1, 3, 4] {
                let (rest, _) = run(&options, world, Some(&state));
                assert_eq!(rest, whole[done..], "{options:?}: batch {done}, then {world} ranks");
            }
        }
        let last = states.last().unwrap();
        assert_eq!((last.epoch, last.samples), (5, 0));
    }
}

#[test]
fn the_state_of_another_run_is_refused_with_the_differences() {
    let loader = |options| Loader::new(numbers(83), options).unwrap();
    let state = loader(LoaderOptions::default().with_seed(1)).epoch(0).unwrap().state();
    let other = loader(LoaderOptions::default().with_seed(2).with_shuffle(Shuffle::Full));
    let message = other.resume(&state).unwrap_err().to_string();
    assert!(message.contains("seed was 1, is 2; the order was sequential, is full shuffle"), "{message}");
    assert!(Loader::new(numbers(84), LoaderOptions::default().with_seed(1)).unwrap().resume(&state).is_err());
}

#[test]
fn a_mixture_follows_its_weights_and_they_may_change() {
    let (dataset, sampler) = feedline::loader::mix(&[(numbers(10), 1.0), (numbers(30), 3.0)], 40).unwrap();
    let loader =
        Loader::new(dataset, LoaderOptions::default().with_batch_size(40).with_sampler(sampler)).unwrap();
    let share = |epoch| {
        let batch = loader.epoch(epoch).unwrap().next_batch().unwrap().unwrap();
        indices(&batch).into_iter().filter(|i| *i < 10).count()
    };
    assert_eq!(share(0), 10);
    loader.set_weights(&[1.0, 1.0]).unwrap();
    assert_eq!(share(1), 20);
    assert!(loader.set_weights(&[1.0]).is_err());
}

#[test]
fn weights_set_within_an_epoch_do_not_change_the_rest_of_it() {
    let make = || {
        let (dataset, sampler) =
            feedline::loader::mix(&[(numbers(10), 1.0), (numbers(30), 3.0)], 40).unwrap();
        Loader::new(dataset, LoaderOptions::default().with_batch_size(8).with_sampler(sampler)).unwrap()
    };
    let loader = make();
    let mut epoch = loader.epoch(0).unwrap();
    epoch.next_batch().unwrap().unwrap();
    loader.set_weights(&[1.0, 0.0]).unwrap();
    let text = serde_json::to_string(&epoch.state()).unwrap();
    let state = State::from_json(&text).unwrap();
    assert_eq!(state.identity.weights, Some(vec![1.0, 3.0]));
    assert_eq!(state.next_weights, Some(vec![1.0, 0.0]));
    let rest: Vec<_> = epoch.map(|batch| indices(&batch.unwrap())).collect();
    let fresh = make();
    let resumed = fresh.resume(&state).unwrap();
    assert_eq!(resumed.state(), state);
    assert_eq!(resumed.map(|batch| indices(&batch.unwrap())).collect::<Vec<_>>(), rest);
    let whole = |loader: &Loader| -> Vec<_> {
        loader.epoch(1).unwrap().map(|batch| indices(&batch.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(whole(&fresh), whole(&loader));
    assert!(whole(&fresh).concat().iter().all(|index| *index < 10));
}

#[test]
fn an_order_can_be_given_for_each_epoch() {
    let sampler = Sampler::PerEpoch { name: "mine".to_owned(), num_samples: 4 };
    let loader =
        Loader::new(numbers(10), LoaderOptions::default().with_batch_size(2).with_sampler(sampler)).unwrap();
    let epoch = |list: Vec<u64>, first| -> Vec<Vec<i64>> {
        let epoch = loader.epoch_in_order(0, first, list).unwrap();
        epoch.map(|batch| indices(&batch.unwrap())).collect()
    };
    assert_eq!(loader.len(), 2);
    assert_eq!(epoch(vec![3, 1, 9, 1], 0), [[3, 1], [9, 1]]);
    assert_eq!(epoch(vec![0, 5, 6, 7], 2), [[6, 7]]);
    assert_eq!(loader.identity().order, "mine");
    let refused = |list| loader.epoch_in_order(1, 0, list).unwrap_err().to_string();
    assert!(refused(vec![1]).contains("1 samples in this epoch, 4 were announced"));
    assert!(refused(vec![0, 1, 2, 10]).contains("entry 3 is 10, but the data set has 10 samples"));
    assert!(loader.epoch(0).unwrap_err().to_string().contains("must be given"));
    let other = Loader::new(numbers(10), LoaderOptions::default()).unwrap();
    assert!(
        other.epoch_in_order(0, 0, vec![0]).unwrap_err().to_string().contains("takes no list for one epoch")
    );
}
