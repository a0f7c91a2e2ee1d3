//! Joins neighbouring extents into one request. A pure function.

use std::ops::Range;

use crate::sample::Extent;

/// Bytes that a batch needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) extent: Extent,
    pub(super) batch: u64,
}

/// One request and the batches that need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) object: u32,
    pub(super) range: Range<u64>,
    /// Every batch that needs a part of it, ascending, each once.
    pub(super) batches: Vec<u64>,
}

/// Joins needs in the same object with at most `gap` bytes between them, up to `most` bytes (a larger need is not
/// cut). Returns runs in the order in which batches need them. Every need is inside one run.
pub(super) fn coalesce(mut needs: Vec<Need>, gap: u64, most: u64) -> Vec<Run> {
    needs.retain(|need| need.extent.range.start < need.extent.range.end);
    needs.sort_unstable_by_key(|need| (need.extent.object, need.extent.range.start, need.extent.range.end));
    let mut runs: Vec<Run> = Vec::new();
    for Need { extent: Extent { object, range }, batch } in needs {
        if let Some(run) = runs.last_mut()
            && run.object == object
            && range.start <= run.range.end.saturating_add(gap)
            && (range.end <= run.range.end || range.end - run.range.start <= most)
        {
            run.range.end = run.range.end.max(range.end);
            run.batches.push(batch);
            continue;
        }
        runs.push(Run { object, range, batches: vec![batch] });
    }
    for run in &mut runs {
        run.batches.sort_unstable();
        run.batches.dedup();
    }
    runs.sort_by_key(|run| (run.batches[0], run.object, run.range.start));
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn need(object: u32, range: Range<u64>, batch: u64) -> Need {
        Need { extent: Extent { object, range }, batch }
    }

    #[test]
    fn neighbours_become_one_and_the_first_batch_comes_first() {
        let needs = vec![
            need(0, 100..200, 3),
            need(1, 0..10, 0),
            need(0, 205..300, 1),
            need(0, 900..1000, 0),
            need(0, 100..200, 3),
        ];
        let runs = coalesce(needs, 10, 10_000);
        let shown: Vec<_> = runs.iter().map(|r| (r.object, r.range.clone(), r.batches.clone())).collect();
        assert_eq!(shown, [(0, 900..1000, vec![0]), (1, 0..10, vec![0]), (0, 100..300, vec![1, 3])]);
    }

    #[test]
    fn runs_end_where_a_request_would_become_too_large() {
        let needs = (0..10).map(|n| need(0, n * 100..n * 100 + 100, 0)).collect();
        let lengths: Vec<u64> = coalesce(needs, 0, 350).iter().map(|r| r.range.end - r.range.start).collect();
        assert_eq!(lengths, [300, 300, 300, 100]);
        assert_eq!(coalesce(vec![need(0, 0..5000, 0)], 0, 350)[0].range, 0..5000);
        assert!(coalesce(vec![need(0, 5..5, 0)], 0, 350).is_empty());
    }

    proptest! {
        #[test]
        fn every_need_lies_in_one_run_of_its_batch(
            raw in prop::collection::vec((0u32..3, 0u64..5000, 1u64..400, 0u64..6), 0..60),
            gap in 0u64..300,
            most in 1u64..2000,
        ) {
            let needs: Vec<Need> = raw.iter().map(|(o, s, l, b)| need(*o, *s..s + l, *b)).collect();
            let runs = coalesce(needs.clone(), gap, most);
            for need in &needs {
                let found = runs.iter().filter(|run| {
                    run.object == need.extent.object
                        && run.range.start <= need.extent.range.start
                        && need.extent.range.end <= run.range.end
                        && run.batches.contains(&need.batch)
                });
                prop_assert!(found.count() >= 1);
            }
            let longest = needs.iter().map(|n| n.extent.range.end - n.extent.range.start).max().unwrap_or(0);
            for run in &runs {
                prop_assert!(run.range.end - run.range.start <= most.max(longest));
                prop_assert!(run.batches.is_sorted());
            }
            prop_assert!(runs.is_sorted_by_key(|run| run.batches[0]));
            // Bytes that nobody needs are at most the gaps.
            let asked: u64 = runs.iter().map(|r| r.range.end - r.range.start).sum();
            let needed: u64 = needs.iter().map(|n| n.extent.range.end - n.extent.range.start).sum();
            prop_assert!(asked <= needed + gap * needs.len() as u64);
        }
    }
}
