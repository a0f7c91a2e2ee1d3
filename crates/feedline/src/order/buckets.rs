//! Batches of similar samples: every global batch comes from one bucket (one image shape, one aspect ratio), so that
//! its images stack without padding. Shuffles samples inside their bucket, and the order of the batches.

use std::ops::Range;

use super::permutation::{Permutation, permuted};

/// Separates buckets from all other uses of the seed.
const PURPOSE: u64 = 0x6275_636b_6574; // "bucket"

/// Samples by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// Samples, one bucket after the other; ascending inside each.
    members: Box<[u64]>,
    /// Where each bucket ends.
    ends: Box<[u64]>,
    /// Whether samples and batches are shuffled.
    shuffle: bool,
}

impl Buckets {
    /// Groups samples by bucket number.
    pub(crate) fn new(bucket_of: &[u64], shuffle: bool) -> Self {
        let mut members: Box<[u64]> = (0..bucket_of.len() as u64).collect();
        members.sort_by_key(|sample| bucket_of[*sample as usize]);
        let bucket = |at: usize| bucket_of[members[at] as usize];
        let ends = (1..=members.len())
            .filter(|end| *end == members.len() || bucket(*end) != bucket(end - 1))
            .map(|end| end as u64)
            .collect();
        Buckets { members, ends, shuffle }
    }

    /// Number of samples.
    pub(crate) fn len(&self) -> u64 {
        self.members.len() as u64
    }

    /// Number of buckets that have samples.
    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn at(&self, seed: u64, epoch: u64, position: u64) -> u64 {
        if !self.shuffle {
            return self.members[position as usize];
        }
        let bucket = self.number_of(position);
        let Range { start, end } = self.range(bucket);
        let key = [PURPOSE, seed, epoch, bucket as u64];
        let within = permuted(end - start, &key, position - start);
        self.members[(start + within) as usize]
    }

    /// The positions of the bucket that `position` belongs to.
    pub(super) fn bucket_of(&self, position: u64) -> Range<u64> {
        self.range(self.number_of(position))
    }

    /// The positions of the bucket that has `sample`.
    pub(super) fn bucket_with(&self, sample: u64) -> Option<Range<u64>> {
        let position = self.members.iter().position(|member| *member == sample)?;
        Some(self.bucket_of(position as u64))
    }

    fn number_of(&self, position: u64) -> usize {
        self.ends.partition_point(|end| *end <= position)
    }

    fn range(&self, bucket: usize) -> Range<u64> {
        if bucket == 0 { 0..self.ends[0] } else { self.ends[bucket - 1]..self.ends[bucket] }
    }

    /// Global batches of at most `size` positions: (first position, length) each, in this epoch's order.
    pub(super) fn cuts(&self, size: u64, drop_last: bool, seed: u64, epoch: u64) -> Box<[(u64, u64)]> {
        let mut cuts = Vec::new();
        let mut start = 0;
        for end in &self.ends {
            while start < *end {
                let length = size.min(end - start);
                if length == size || !drop_last {
                    cuts.push((start, length));
                }
                start += length;
            }
        }
        if !self.shuffle {
            return cuts.into();
        }
        let order = Permutation::new(cuts.len() as u64, &[PURPOSE, seed, epoch]);
        (0..cuts.len() as u64).map(|at| cuts[order.at(at) as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batches_stay_in_one_bucket_and_are_complete(
            bucket_of in proptest::collection::vec(0u64..5, 1..200), size in 1u64..20, shuffle: bool, seed: u64
        ) {
            let buckets = Buckets::new(&bucket_of, shuffle);
            let mut seen = Vec::new();
            for (start, length) in buckets.cuts(size, false, seed, 1) {
                let batch: Vec<u64> = (start..start + length).map(|p| buckets.at(seed, 1, p)).collect();
                prop_assert!(batch.iter().all(|s| bucket_of[*s as usize] == bucket_of[batch[0] as usize]));
                seen.extend(batch);
            }
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..bucket_of.len() as u64));
            prop_assert!(buckets.cuts(size, true, seed, 1).iter().all(|(_, length)| *length == size));
        }
    }
}
