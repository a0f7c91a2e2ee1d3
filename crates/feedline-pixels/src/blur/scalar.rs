//! The reference: one weight after the other over a whole line, which the compiler vectorises.

use super::{HALF_LEVEL, LEVEL_BITS};

/// Bytes as numbers around zero.
#[inline(always)]
pub(super) fn widen(row: &[u8], line: &mut [i16]) {
    for (value, byte) in line.iter_mut().zip(row) {
        *value = (i16::from(*byte) - 128) << LEVEL_BITS;
    }
}

/// Blurs across rows: `pairs[d]` has the offsets of the two rows at distance `d`.
pub(super) fn down(rows: &[i16], pairs: &[[usize; 2]], weights: &[i16], line: &mut [i16]) {
    for (sum, middle) in line.iter_mut().zip(&rows[pairs[0][0]..]) {
        *sum = multiply(*middle, weights[0]);
    }
    for ([above, below], weight) in pairs.iter().zip(weights).skip(1) {
        for ((sum, above), below) in line.iter_mut().zip(&rows[*above..]).zip(&rows[*below..]) {
            *sum = sum.saturating_add(multiply(above.saturating_add(*below), *weight));
        }
    }
}

/// Blurs a line with margins along itself and rounds it. Margins are as wide as there are weights beside the centre;
/// pixels are `step` values apart.
pub(super) fn along(line: &[i16], step: usize, weights: &[i16], out: &mut [u8]) {
    let radius = weights.len() - 1;
    for (x, byte) in out.iter_mut().enumerate() {
        let at = x + radius * step;
        let mut sum = multiply(line[at], weights[0]);
        for (distance, weight) in weights.iter().enumerate().skip(1) {
            let pair = line[at - distance * step].saturating_add(line[at + distance * step]);
            sum = sum.saturating_add(multiply(pair, *weight));
        }
        // Half to even: always rounding half up would make images lighter by a 256th of a level.
        let odd = (sum >> LEVEL_BITS) & 1;
        let level = sum.saturating_add(HALF_LEVEL - 1 + odd) >> LEVEL_BITS;
        *byte = (level.clamp(-128, 127) + 128) as u8;
    }
}

/// What `pmulhrsw` (x86) and `sqrdmulh` (Arm) compute; they differ only for -2^15 · -2^15, and no weight is negative.
#[inline(always)]
fn multiply(value: i16, weight: i16) -> i16 {
    ((i32::from(value) * i32::from(weight) + (1 << 14)) >> 15) as i16
}
