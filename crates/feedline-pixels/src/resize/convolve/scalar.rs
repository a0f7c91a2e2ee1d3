//! The reference: plain loops, one element at a time.

use super::{Columns, ROWS, Rows, Woven};

pub(super) fn blend_rows(rows: Rows<'_>, weights: &[i16], begin: bool, line: &mut [i16]) {
    let line = &mut line[..rows.width];
    if begin {
        line.fill(0);
    }
    for (index, weight) in weights.iter().enumerate() {
        let row = &rows.bytes[index * rows.stride..][..rows.width];
        for (sum, byte) in line.iter_mut().zip(row) {
            *sum = sum.saturating_add(multiply(centred(*byte), *weight));
        }
    }
}

pub(super) fn weave<const CHANNELS: usize, const HALVED: bool>(lines: [&[i16]; ROWS], woven: &mut [Woven]) {
    let fraction = if HALVED { 7 } else { 8 };
    for (x, column) in woven.iter_mut().enumerate() {
        for (line, four) in lines.iter().zip(column.0.chunks_exact_mut(4)) {
            for (number, sum) in four.iter_mut().zip(&line[x * CHANNELS..]) {
                *number = centred(to_byte(*sum, fraction));
            }
        }
    }
}

pub(super) fn blend_columns(columns: &Columns, woven: &[Woven], pixels: &mut [u8], stride: usize) {
    for (x, start) in columns.starts.iter().enumerate() {
        let weights = &columns.weights[x * columns.taps..(x + 1) * columns.taps];
        let mut sums = [0i16; 16];
        for (column, weight) in woven[*start as usize..].iter().zip(weights) {
            for (sum, value) in sums.iter_mut().zip(column.0) {
                *sum = sum.saturating_add(multiply(value, weight[0]));
            }
        }
        for (row, four) in sums.chunks_exact(4).enumerate() {
            let pixel = &mut pixels[row * stride + x * 4..][..4];
            for (byte, sum) in pixel.iter_mut().zip(four) {
                *byte = to_byte(*sum, columns.fraction);
            }
        }
    }
}

pub(super) fn round_line(line: &[i16], fraction: u32, bytes: &mut [u8]) {
    for (byte, sum) in bytes.iter_mut().zip(line) {
        *byte = to_byte(*sum, fraction);
    }
}

/// A byte as a number around zero, in the upper half of 16 bits.
fn centred(byte: u8) -> i16 {
    i16::from((byte ^ 0x80).cast_signed()) << 8
}

/// What `pmulhrsw` (x86) and `sqrdmulh` (Arm) compute; they differ only for -2^15 · -2^15, and no weight is -2^15.
fn multiply(value: i16, weight: i16) -> i16 {
    ((i32::from(value) * i32::from(weight) + (1 << 14)) >> 15) as i16
}

/// Rounds half up, clamps, and moves the centre back to 128.
fn to_byte(sum: i16, fraction: u32) -> u8 {
    let rounded = sum.saturating_add(1 << (fraction - 1)) >> fraction;
    rounded.clamp(-128, 127) as u8 ^ 0x80
}
