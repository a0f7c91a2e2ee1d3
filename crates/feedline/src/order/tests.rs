//! Properties of orders and batches over random sizes.

use proptest::prelude::*;

use super::*;

fn uniform(positions: u64, batch_size: u64, world_size: u64, drop_last: bool) -> Batches {
    Batches { positions, first: 0, batch_size, drop_last, rank: 0, world_size, cuts: None, rows: None }
}

/// Global batches without the padding: what all ranks together get, in rank order.
fn global(batches: &Batches) -> Vec<Vec<u64>> {
    let rank = |rank| Batches { rank, ..batches.clone() };
    let world = batches.world_size;
    (0..batches.count())
        .map(|number| {
            let (_, size) = batches.cut(number);
            (0..world.min(size)).flat_map(|r| rank(r).range(number)).collect()
        })
        .collect()
}

/// One sequence of every kind over `n` samples, and whether it contains every sample exactly once.
fn sequences(n: u64) -> Vec<(Sequence, bool)> {
    let labels: Vec<i64> = (0..n as i64).map(|s| s % 3).collect();
    let weights: Vec<f64> = (0..n).map(|s| 1.0 + (s % 5) as f64).collect();
    let shapes: Vec<u64> = (0..n).map(|s| s * 7 % 4).collect();
    let recipe = Recipe { lengths: vec![n / 2, n - n / 2], weights: vec![0.3, 0.7], count: n + 5 };
    vec![
        (Sequence::Sequential, true),
        (Sequence::Shuffled { count: n }, true),
        (Sequence::Blocks { block: 4, window: 3 }, true),
        (Sequence::Bucketed(Arc::new(Buckets::new(&shapes, true))), true),
        (Sequence::Bucketed(Arc::new(Buckets::new(&shapes, false))), true),
        (Sequence::WeightedOnce { weights: weights.clone().into(), count: n }, true),
        (Sequence::Listed((0..n).rev().collect()), true),
        (Sequence::Repeating { count: 2 * n }, false),
        (Sequence::Weighted { table: Arc::new(Alias::new(&weights)), count: n + 3 }, false),
        (Sequence::Balanced { classes: Arc::new(Balanced::new(&labels)), count: n }, false),
        (Sequence::Mixed(Arc::new(recipe)), false),
    ]
}

/// Every global batch of samples, for this number of ranks, from position `first`.
fn samples(
    sequence: &Sequence,
    n: u64,
    g: u64,
    world: u64,
    first: u64,
    seed: u64,
    epoch: u64,
) -> Vec<Vec<u64>> {
    let positions = sequence.positions(n);
    let batches = Batches { first, ..uniform(positions, g / world, world, false) };
    let batches = batches.with_cuts_of(sequence, seed, epoch);
    let order = Order::new(sequence, n, seed, epoch);
    global(&batches).into_iter().map(|b| b.into_iter().map(|p| order.at(p)).collect()).collect()
}

proptest! {
    #[test]
    fn all_ranks_together_cover_the_epoch(n in 1u64..300, size in 1u64..20, world in 1u64..9, drop_last: bool) {
        let one = uniform(n, size, world, drop_last);
        let all = global(&one).concat();
        prop_assert_eq!(all.len() as u64, n - one.dropped());
        prop_assert!(all.iter().copied().eq(0..all.len() as u64));
        let mut given = 0;
        for rank in 0..world {
            let here = Batches { rank, ..one.clone() };
            prop_assert_eq!(here.count(), one.count());
            for b in 0..one.count() {
                prop_assert!(here.size(b) >= 1 && here.size(b) <= size);
                given += here.size(b);
            }
        }
        prop_assert_eq!(given, n - one.dropped() + one.padded());
    }

    #[test]
    fn starting_later_gives_the_rest(n in 1u64..300, size in 1u64..20, skip in 0u64..20, drop_last: bool) {
        let whole = uniform(n, size, 1, drop_last);
        let rest = Batches { first: skip * size, ..whole.clone() };
        prop_assert_eq!(rest.count(), whole.count().saturating_sub(skip));
        for b in 0..rest.count() {
            prop_assert_eq!(rest.range(b), whole.range(b + skip));
        }
    }

    #[test]
    fn world_size_does_not_change_global_batches(n in 2u64..300, seed: u64, epoch in 0u64..4) {
        for (sequence, _) in sequences(n) {
            let reference = samples(&sequence, n, 24, 1, 0, seed, epoch);
            for world in [2, 3, 4, 8] {
                prop_assert_eq!(&samples(&sequence, n, 24, world, 0, seed, epoch), &reference);
            }
        }
    }

    #[test]
    fn every_epoch_is_complete(n in 2u64..300, seed: u64, epoch in 0u64..4) {
        for (sequence, once) in sequences(n) {
            let mut all = samples(&sequence, n, 16, 2, 0, seed, epoch).concat();
            prop_assert_eq!(all.len() as u64, sequence.positions(n));
            prop_assert!(all.iter().all(|s| *s < n));
            if once {
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..n));
            }
        }
    }

    #[test]
    fn equal_batch_counts_with_buckets(n in 2u64..200, size in 1u64..9, world in 1u64..7, drop_last: bool) {
        let (sequence, _) = sequences(n).swap_remove(3);
        let one = uniform(n, size, world, drop_last).with_cuts_of(&sequence, 1, 2);
        let mut given = 0;
        for rank in 0..world {
            let here = Batches { rank, ..one.clone() };
            prop_assert_eq!(here.count(), one.count());
            given += (0..one.count()).map(|b| here.size(b)).sum::<u64>();
            prop_assert!((0..one.count()).all(|b| here.size(b) >= 1 && here.size(b) <= size));
        }
        prop_assert_eq!(given, n - one.dropped() + one.padded());
    }
}

#[test]
fn a_hundred_random_restarts_with_other_world_sizes() {
    let worlds = [1, 2, 3, 4, 6, 8, 12, 24];
    let mut draw = Draw::new(&[2024]);
    for _ in 0..100 {
        let n = 25 + draw.below(500);
        let (seed, epoch) = (draw.bits(), draw.below(5));
        let (old, new) = (worlds[draw.below(8) as usize], worlds[draw.below(8) as usize]);
        for (sequence, _) in sequences(n) {
            let whole = samples(&sequence, n, 24, old, 0, seed, epoch);
            let stop = draw.below(whole.len() as u64 + 1);
            let rest = samples(&sequence, n, 24, new, stop * 24, seed, epoch);
            assert_eq!(rest, whole[stop as usize..], "{sequence:?} {old} ranks, batch {stop}, then {new}");
        }
    }
}

#[test]
fn epochs_and_seeds_differ() {
    for (sequence, _) in sequences(200) {
        if matches!(sequence, Sequence::Sequential | Sequence::Listed(_)) {
            continue;
        }
        let epoch = |seed, epoch| samples(&sequence, 200, 16, 1, 0, seed, epoch).concat();
        let fixed = matches!(&sequence, Sequence::Bucketed(b) if **b == Buckets::new(&(0..200).map(|s| s * 7 % 4).collect::<Vec<_>>(), false));
        assert_eq!(epoch(1, 0) == epoch(1, 1), fixed, "{sequence:?}");
        assert_eq!(epoch(1, 0) == epoch(2, 0), fixed, "{sequence:?}");
        assert_eq!(epoch(1, 3), epoch(1, 3));
    }
}

#[test]
fn a_given_order_is_checked() {
    let message = Sequence::Listed(vec![1, 5].into()).check(3).unwrap_err().to_string();
    assert!(message.contains("entry 1 is 5"), "{message}");
}
