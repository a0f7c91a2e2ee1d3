//! The reference; inlined into `avx2`.

use super::{BITS, Taps};

/// Bytes whose sums stay in registers.
const BLOCK: usize = 32;

/// A row of sums over rows that lie one behind the other, in two runs.
#[inline(always)]
pub(super) fn down(runs: [(&[u8], &[i32]); 2], length: usize, out: &mut [u8]) {
    for (block, place) in out.chunks_mut(BLOCK).enumerate() {
        let at = block * BLOCK;
        let mut sums = [1 << (BITS - 1); BLOCK];
        for (rows, weights) in runs {
            for (row, weight) in weights.iter().enumerate() {
                let bytes = &rows[row * length + at..][..place.len()];
                if let Ok(bytes) = <&[u8; BLOCK]>::try_from(bytes) {
                    add(&mut sums, bytes, *weight);
                } else {
                    add(&mut sums, bytes, *weight);
                }
            }
        }
        for (byte, sum) in place.iter_mut().zip(sums) {
            *byte = clipped(sum);
        }
    }
}

#[inline(always)]
fn add(sums: &mut [i32], bytes: &[u8], weight: i32) {
    for (sum, byte) in sums.iter_mut().zip(bytes) {
        *sum = sum.wrapping_add(i32::from(*byte).wrapping_mul(weight));
    }
}

/// The pixels of a row, each a sum over its neighbours.
#[inline(always)]
pub(super) fn across(taps: &Taps, row: &[u8], out: &mut [u8]) {
    for (index, pixel) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (start, weights) = taps.of(index);
        let mut sums = [1 << (BITS - 1); 4];
        for (source, weight) in row[start * 4..].as_chunks::<4>().0.iter().zip(weights) {
            add(&mut sums, source, *weight);
        }
        *pixel = sums.map(clipped);
    }
}

#[inline(always)]
fn clipped(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}
