//! Several data sets by weight. An epoch has a fixed number of samples; each set's share is exact (largest remainders)
//! and spread randomly over the epoch. A set's samples come in shuffled cycles that continue from epoch to epoch: none
//! repeats before all others of its set were used, however small the share. Position → sample in constant time; no
//! table.
//!
//! The weights may change between epochs: every epoch is a function of its own weights, its number and the seed.

use std::ops::Range;
use std::sync::Arc;

use super::permutation::{Permutation, permuted};

/// Separates mixtures from all other uses of the seed.
const PURPOSE: u64 = 0x6d69_7874_7572; // "mixtur"

/// Definition of a mixture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    /// Number of samples of each set; the sets follow each other.
    pub(crate) lengths: Vec<u64>,
    /// Weight of each set.
    pub(crate) weights: Vec<f64>,
    /// Samples per epoch.
    pub(crate) count: u64,
}

impl Recipe {
    /// Number of samples of each set in an epoch; the sum is `count`.
    pub(crate) fn shares(&self) -> Vec<u64> {
        let total: f64 = self.weights.iter().sum();
        let exact: Vec<f64> = self.weights.iter().map(|w| w / total * self.count as f64).collect();
        let mut shares: Vec<u64> = exact.iter().map(|e| e.floor() as u64).collect();
        let mut by_rest: Vec<usize> = (0..shares.len()).filter(|at| self.weights[*at] > 0.0).collect();
        by_rest.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()).then(a.cmp(b)));
        let missing = self.count.saturating_sub(shares.iter().sum());
        for at in by_rest.iter().cycle().take(missing as usize) {
            shares[*at] += 1;
        }
        shares
    }
}

/// One epoch of a mixture.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    parts: Arc<[Part]>,
    places: Arc<Permutation>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    /// End of this part's places.
    end: u64,
    share: u64,
    /// The set's first sample and its length.
    first: u64,
    length: u64,
    /// Number of the set's samples used in earlier epochs.
    before: u64,
}

impl Mix {
    pub(super) fn new(recipe: &Recipe, seed: u64, epoch: u64) -> Self {
        let (mut end, mut first) = (0, 0);
        let part = |(share, length): (u64, &u64)| {
            end += share;
            let part = Part { end, share, first, length: *length, before: epoch.wrapping_mul(share) };
            first += length;
            part
        };
        let parts = recipe.shares().into_iter().zip(&recipe.lengths).map(part).collect();
        Mix { parts, places: Arc::new(Permutation::new(recipe.count, &[PURPOSE, seed, epoch])), seed }
    }

    pub(super) fn at(&self, position: u64) -> u64 {
        self.at_place(self.places.at(position))
    }

    /// Places of the set that the sample at `position` comes from.
    pub(super) fn places_of_set(&self, position: u64) -> Range<u64> {
        let part = self.parts[self.set_of(self.places.at(position))];
        part.end - part.share..part.end
    }

    /// Places of the set that contains `sample`.
    pub(super) fn places_of_member(&self, sample: u64) -> Option<Range<u64>> {
        let has = |part: &&Part| (part.first..part.first + part.length).contains(&sample);
        self.parts.iter().find(has).map(|part| part.end - part.share..part.end)
    }

    fn set_of(&self, place: u64) -> usize {
        self.parts.partition_point(|part| part.end <= place)
    }

    /// The sample at `place` of the epoch before shuffling, that is, set by set.
    pub(super) fn at_place(&self, place: u64) -> u64 {
        let number = self.set_of(place);
        let part = self.parts[number];
        let had = part.before.wrapping_add(place - (part.end - part.share));
        let key = [PURPOSE, self.seed, number as u64, had / part.length];
        part.first + permuted(part.length, &key, had % part.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_exact(weights in proptest::collection::vec(0.0f64..9.0, 1..6), count in 0u64..5000) {
            prop_assume!(weights.iter().sum::<f64>() > 0.1);
            let recipe = Recipe { lengths: vec![7; weights.len()], weights: weights.clone(), count };
            let shares = recipe.shares();
            prop_assert_eq!(shares.iter().sum::<u64>(), count);
            let total: f64 = weights.iter().sum();
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!((*share as f64 - weight / total * count as f64).abs() <= 1.0);
            }
        }

        #[test]
        fn data_sets_are_exhausted_before_they_repeat(seed: u64, length in 1u64..40) {
            let recipe = Recipe { lengths: vec![100, length], weights: vec![0.7, 0.3], count: 30 };
            let mut counts = vec![0u64; length as usize];
            for epoch in 0..20 {
                let mix = Mix::new(&recipe, seed, epoch);
                for position in 0..30 {
                    if let Some(sample) = mix.at(position).checked_sub(100) {
                        counts[sample as usize] += 1;
                    }
                }
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                prop_assert!(most - least <= 1, "{:?}", counts);
            }
        }
    }
}
