//! A shuffle with random access: position → sample, one to one, keyed by (seed, epoch).
//!
//! Small sets use a Fisher–Yates table (exactly uniform, made in a millisecond). Above [`TABLE_LIMIT`], a Feistel
//! network over the next power of two, with cycle walking, is evaluated per position: it needs no memory, and a billion
//! samples start at once. Eight rounds of a full 64-bit mixer; the statistical tests are below.

use crate::random::{Draw, mix};

/// Up to this length a table (256 KiB) is used: an approximate shuffle could be noticed in small sets.
const TABLE_LIMIT: u64 = 1 << 16;

const ROUNDS: usize = 8;

/// Separates this use of the seed from all others.
const PURPOSE: u64 = 0x6f72_6465_7273; // "orders"

/// A permutation of `0..length`.
#[derive(Clone, Debug)]
pub(crate) enum Permutation {
    /// Stored as a table.
    Table(Box<[u32]>),
    /// Computed for each position.
    Feistel(Feistel),
}

impl Permutation {
    /// Creates the permutation of `0..length` for this key.
    pub(crate) fn new(length: u64, key: &[u64]) -> Self {
        let mut purpose = vec![PURPOSE];
        purpose.extend_from_slice(key);
        let mut draw = Draw::new(&purpose);
        if length <= TABLE_LIMIT {
            return Permutation::Table(fisher_yates(length as u32, &mut draw));
        }
        Permutation::Feistel(Feistel::new(length, &mut draw))
    }

    /// The value at `position`, which must be below the length.
    pub(crate) fn at(&self, position: u64) -> u64 {
        match self {
            Permutation::Table(table) => u64::from(table[position as usize]),
            Permutation::Feistel(feistel) => feistel.at(position),
        }
    }
}

/// Up to this length, [`permuted`] shuffles on the stack at every call: exactly uniform, half a microsecond at most.
const STACK_LIMIT: usize = 256;

/// The value at `position` of the permutation of `0..length` for this key. Stores nothing: for the many small
/// permutations (windows, cycles, classes) of which only a few positions are needed.
pub(super) fn permuted(length: u64, key: &[u64], position: u64) -> u64 {
    debug_assert!(position < length, "{position} of {length}");
    let mut draw = Draw::new(key);
    if length > STACK_LIMIT as u64 {
        return Feistel::new(length, &mut draw).at(position);
    }
    let mut table: [u8; STACK_LIMIT] = std::array::from_fn(|i| i as u8);
    for last in (1..length as usize).rev() {
        table.swap(last, draw.below(last as u64 + 1) as usize);
    }
    u64::from(table[position as usize])
}

fn fisher_yates(length: u32, draw: &mut Draw) -> Box<[u32]> {
    let mut table: Box<[u32]> = (0..length).collect();
    for last in (1..table.len()).rev() {
        table.swap(last, draw.below(last as u64 + 1) as usize);
    }
    table
}

/// A keyed bijection of `0..length` by an (un)balanced Feistel network.
#[derive(Clone, Debug)]
pub(crate) struct Feistel {
    length: u64,
    left_bits: u32,
    right_bits: u32,
    keys: [u64; ROUNDS],
}

impl Feistel {
    fn new(length: u64, draw: &mut Draw) -> Self {
        let bits = 64 - (length - 1).leading_zeros();
        let left_bits = bits / 2;
        Feistel {
            length,
            left_bits,
            right_bits: bits - left_bits,
            keys: std::array::from_fn(|_| draw.bits()),
        }
    }

    fn at(&self, position: u64) -> u64 {
        // Values outside the set are permuted again until one is inside: fewer than two tries on average,
        // because the power of two is less than twice the length.
        let mut value = position;
        loop {
            value = self.scramble(value);
            if value < self.length {
                return value;
            }
        }
    }

    fn scramble(&self, value: u64) -> u64 {
        let (left_mask, right_mask) = ((1u64 << self.left_bits) - 1, (1u64 << self.right_bits) - 1);
        let (mut left, mut right) = (value >> self.right_bits, value & right_mask);
        for pair in self.keys.chunks_exact(2) {
            left ^= mix(right.wrapping_add(pair[0])) & left_mask;
            right ^= mix(left.wrapping_add(pair[1])) & right_mask;
        }
        left << self.right_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feistel(length: u64, seed: u64) -> Feistel {
        Feistel::new(length, &mut Draw::new(&[seed]))
    }

    proptest! {
        #[test]
        fn every_sample_once(length in 1u64..5000, seed: u64) {
            for permutation in [Permutation::new(length, &[seed]), Permutation::Feistel(feistel(length.max(2), seed))] {
                let n = if matches!(permutation, Permutation::Feistel(_)) { length.max(2) } else { length };
                let mut seen = vec![false; n as usize];
                for position in 0..n {
                    let sample = permutation.at(position) as usize;
                    prop_assert!(!std::mem::replace(&mut seen[sample], true));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn permutations_without_a_table_are_permutations(length in 1u64..1200, seed: u64) {
            let mut seen: Vec<u64> = (0..length).map(|p| permuted(length, &[seed, 1], p)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..length));
        }
    }

    #[test]
    fn feistel_order_is_uniform_and_neighbours_are_uncorrelated() {
        let (n, f) = (1u64 << 20, feistel(1 << 20, 3));
        // Distribution of the first 64k positions over 64 equal parts of the set; 1024 are expected in each.
        let mut parts = [0u32; 64];
        let mut close = 0;
        for position in 0..65_536 {
            parts[(f.at(position) * 64 / n) as usize] += 1;
            close += u32::from(f.at(position).abs_diff(f.at(position + 1)) < n / 100);
        }
        let chi2: f64 = parts.iter().map(|&c| (f64::from(c) - 1024.0).powi(2) / 1024.0).sum();
        assert!(chi2 < 120.0, "chi² with 63 degrees of freedom: {chi2}");
        // Two random places are within 1 % of each other 1.99 % of the time.
        assert!((1100..1500).contains(&close), "{close}");
    }

    #[test]
    fn a_billion_samples_need_no_table() {
        let permutation = Permutation::new(1_000_000_000, &[1, 2]);
        assert!(matches!(permutation, Permutation::Feistel(_)));
        assert!(permutation.at(999_999_999) < 1_000_000_000);
    }
}
