//! Samples by weight. With replacement: one lookup in an alias table per position. Without: every sample gets a random
//! key, and sorting by key equals drawing by weight one after the other; the table is made once per epoch.

use crate::random::Draw;

/// Separates draws by weight from all other uses of the seed.
const PURPOSE: u64 = 0x7765_6967_6874; // "weight"

/// Draws from a discrete distribution in constant time (Walker's alias method, table built as by Vose).
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// Probability to stay in the column, and the alternative.
    columns: Box<[(f64, u64)]>,
}

impl Alias {
    /// `weights` must be finite and not negative, and at least one must be positive.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let scale = weights.len() as f64 / weights.iter().sum::<f64>();
        let mut columns: Box<[(f64, u64)]> =
            weights.iter().zip(0..).map(|(weight, at)| (weight * scale, at)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..columns.len()).partition(|at| columns[*at].0 < 1.0);
        while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
            columns[poor].1 = rich as u64;
            columns[rich].0 -= 1.0 - columns[poor].0;
            if columns[rich].0 < 1.0 {
                small.extend(large.pop());
            }
        }
        // What is left in either list is 1 up to rounding, except a weight of 0, which must never be drawn.
        let heaviest = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b])).unwrap_or(0);
        for at in small.into_iter().chain(large) {
            columns[at] = if weights[at] > 0.0 { (1.0, at as u64) } else { (0.0, heaviest as u64) };
        }
        Alias { columns }
    }

    /// The sample at `position` of an epoch.
    pub(super) fn at(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        let mut draw = Draw::new(&[PURPOSE, seed, epoch, position]);
        let at = draw.below(self.columns.len() as u64);
        let (stay, other) = self.columns[at as usize];
        if draw.unit() < stay { at } else { other }
    }
}

/// Draws `count` different samples by weight, one after the other (Efraimidis and Spirakis: the smallest of
/// exponentially distributed keys with the weight as rate). At least `count` weights must be positive.
pub(super) fn without_replacement(weights: &[f64], count: u64, seed: u64, epoch: u64) -> Box<[u64]> {
    let key = |sample: u64| {
        let unit = Draw::new(&[PURPOSE, seed, epoch, sample, 1]).unit();
        -(1.0 - unit).ln() / weights[sample as usize]
    };
    let positive = (0..weights.len() as u64).filter(|s| weights[*s as usize] > 0.0);
    let mut keyed: Vec<(f64, u64)> = positive.map(|sample| (key(sample), sample)).collect();
    keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().take(count as usize).map(|(_, sample)| sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_follow_weights() {
        let weights = [1.0, 0.0, 3.0, 6.0];
        let alias = Alias::new(&weights);
        let mut counts = [0u32; 4];
        for position in 0..100_000 {
            counts[alias.at(5, 1, position) as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) - weight * 10_000.0).abs() < 1_000.0, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn samples_of_weight_zero_are_never_drawn(weights in proptest::collection::vec(0.0f64..5.0, 1..60), seed: u64) {
            let weights: Vec<f64> = weights.iter().map(|w| if *w < 2.0 { 0.0 } else { *w }).collect();
            prop_assume!(weights.iter().any(|w| *w > 0.0));
            let alias = Alias::new(&weights);
            for position in 0..300 {
                prop_assert!(weights[alias.at(seed, 0, position) as usize] > 0.0);
            }
        }

        #[test]
        fn without_replacement_no_sample_occurs_twice(length in 1usize..200, seed: u64) {
            let weights: Vec<f64> = (1..=length).map(|w| w as f64).collect();
            let mut drawn = without_replacement(&weights, length as u64, seed, 0).to_vec();
            drawn.sort_unstable();
            prop_assert!(drawn.into_iter().eq(0..length as u64));
        }
    }

    #[test]
    fn heavy_samples_come_early() {
        let mut weights = vec![1.0; 100];
        weights[7] = 1000.0;
        let early = (0..200).filter(|epoch| without_replacement(&weights, 3, 0, *epoch).contains(&7)).count();
        assert!(early > 190, "{early}");
    }
}
