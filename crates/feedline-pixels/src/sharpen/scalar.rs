//! The reference; inlined into `avx2`.

use crate::colour::blend;

/// The inner pixels of the middle row of three.
#[inline(always)]
pub(super) fn blend_row([above, row, below]: [&[u8]; 3], factor: f32, out: &mut [u8]) {
    let count = out.len();
    let three = |row: &[u8], at: usize| u16::from(row[at]) + u16::from(row[at + 4]) + u16::from(row[at + 8]);
    let (above, row, below) = (&above[..count + 8], &row[..count + 8], &below[..count + 8]);
    for (at, out) in out.iter_mut().enumerate() {
        let middle = u16::from(row[at + 4]);
        let sum = three(above, at) + three(row, at) + three(below, at) + 4 * middle;
        // The mean with 13 weights, rounded: there are no ties.
        let smooth = (2 * sum + 13) / 26;
        *out = blend(i32::from(smooth), i32::from(middle), factor);
    }
}
