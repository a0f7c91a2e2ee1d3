//! A digest of a sequence of samples that does not depend on how the sequence is cut into parts.
//!
//! Each sample gives 128 bits; the sequence's digest is the polynomial of those over two independent points modulo
//! the prime 2^61 - 1. Two neighbouring pieces combine without looking at their samples again.

use crate::field::{Carrier, FieldSpec, Kind};
use crate::sample::Fingerprint;

use super::layout::{Row, at, columns_of};

const PRIME: u64 = (1 << 61) - 1;
/// Arbitrary, but never to be changed: the first 61 bits of the fractions of e and pi.
const POINTS: [u64; 2] = [0x16fc_5162_8aed_2a6a % PRIME, 0x0487_ed51_10b4_611a % PRIME];

/// The digest of consecutive samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digest {
    lanes: [u64; 2],
}

impl Digest {
    /// Adds one sample at the end.
    pub(super) fn push(&mut self, fields: &[FieldSpec], rows: &[Row]) {
        let mut hasher = blake3::Hasher::new();
        for (field, row) in fields.iter().zip(rows) {
            hash_row(&mut hasher, field.kind, row);
        }
        let hash = hasher.finalize();
        for (lane, (value, point)) in self.lanes.iter_mut().zip(POINTS).enumerate() {
            let piece = hash.as_bytes()[lane * 8..lane * 8 + 8].try_into().expect("eight bytes");
            *value = add(multiply(*value, point), u64::from_le_bytes(piece) % PRIME);
        }
    }

    /// Adds the digest `after`, of `samples` samples, at the end.
    pub(super) fn append(&mut self, after: Digest, samples: u64) {
        for (lane, (value, point)) in self.lanes.iter_mut().zip(POINTS).enumerate() {
            *value = add(multiply(*value, power(point, samples)), after.lanes[lane]);
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.lanes[0].to_le_bytes());
        bytes[8..].copy_from_slice(&self.lanes[1].to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        let lane = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")) % PRIME;
        Digest { lanes: [lane(0), lane(8)] }
    }

    /// The fingerprint of a pack with this schema text and these samples.
    pub(super) fn fingerprint(self, schema: &[u8], samples: u64) -> Fingerprint {
        Fingerprint::of([&b"feedline pack 1"[..], schema, &samples.to_le_bytes(), &self.to_bytes()])
    }
}

/// A missing value hashes as its tag alone. A seek index is derived from the image or video and is not hashed.
fn hash_row(hasher: &mut blake3::Hasher, kind: Kind, row: &Row) {
    let count = match kind {
        Kind::Video => at::VIDEO_INDEX_LENGTH,
        kind if kind.carrier() == Carrier::Image => at::SEEK_LENGTH,
        kind => columns_of(kind).len(),
    };
    let count = if row[at::MISSING] == 1 { 1 } else { count };
    hasher.update(&[kind.code()]);
    for value in &row[..count] {
        hasher.update(&value.to_le_bytes());
    }
}

fn multiply(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

fn add(a: u64, b: u64) -> u64 {
    (a + b) % PRIME
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_order_but_not_on_the_parts() {
        let fields = [FieldSpec::new("a", Kind::Int)];
        let of = |values: &[u64]| {
            let mut digest = Digest::default();
            for value in values {
                let mut row = [0; 13];
                row[1] = *value;
                digest.push(&fields, &[row]);
            }
            digest
        };
        let whole = of(&[1, 2, 3, 4, 5]);
        for cut in 0..=5 {
            let (head, tail) = [1, 2, 3, 4, 5].split_at(cut);
            let mut joined = of(head);
            joined.append(of(tail), tail.len() as u64);
            assert_eq!(joined, whole);
        }
        assert_ne!(of(&[1, 2, 3, 5, 4]), whole);
        assert_eq!(Digest::from_bytes(whole.to_bytes()), whole);
    }
}
