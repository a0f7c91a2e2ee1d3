//! Every class equally often, whatever its size. Each round of positions contains every class once, in shuffled order.
//! The samples of a class come in shuffled cycles, so none repeats before all others of the class were used. Position →
//! sample in constant time.

use super::permutation::permuted;

/// Separates balanced orders from all other uses of the seed.
const PURPOSE: u64 = 0x6261_6c61_6e63; // "balanc"

/// Samples by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Balanced {
    /// Samples, one class after the other.
    members: Box<[u64]>,
    /// Where each class ends.
    ends: Box<[u64]>,
}

impl Balanced {
    /// Groups samples by label; `labels` must not be empty.
    pub(crate) fn new(labels: &[i64]) -> Self {
        let mut members: Box<[u64]> = (0..labels.len() as u64).collect();
        members.sort_by_key(|sample| labels[*sample as usize]);
        let label = |at: usize| labels[members[at] as usize];
        let ends = (1..=members.len())
            .filter(|end| *end == members.len() || label(*end) != label(end - 1))
            .map(|end| end as u64)
            .collect();
        Balanced { members, ends }
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn at(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        let classes = self.classes();
        let round = position / classes;
        let class = permuted(classes, &[PURPOSE, seed, epoch, 0, round], position % classes);
        let start = if class == 0 { 0 } else { self.ends[class as usize - 1] };
        let size = self.ends[class as usize] - start;
        let cycle = round / size;
        let within = permuted(size, &[PURPOSE, seed, epoch, 1 + class, cycle], round % size);
        self.members[(start + within) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn classes_are_equal_in_every_round(labels in proptest::collection::vec(-3i64..6, 1..200), seed: u64) {
            let balanced = Balanced::new(&labels);
            let classes = balanced.classes();
            for round in 0..20 {
                let mut seen: Vec<i64> = (0..classes)
                    .map(|p| labels[balanced.at(seed, 1, round * classes + p) as usize])
                    .collect();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len() as u64, classes);
            }
        }
    }

    #[test]
    fn a_class_is_exhausted_before_it_repeats() {
        let balanced = Balanced::new(&[0, 1, 0, 1, 0, 1, 1]);
        let zeros: Vec<u64> =
            (0..12).map(|p| balanced.at(3, 0, p)).filter(|s| [0, 2, 4].contains(s)).collect();
        for cycle in zeros.chunks(3) {
            let mut cycle = cycle.to_vec();
            cycle.sort_unstable();
            assert_eq!(cycle, [0, 2, 4]);
        }
    }
}
