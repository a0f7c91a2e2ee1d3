//! The reference.

use super::{Conversion, Row};

/// Value `at` of a row, of one byte or two.
#[inline(always)]
fn value<const BYTES: usize>(row: &[u8], at: usize) -> i32 {
    match BYTES {
        1 => i32::from(row[at]),
        _ => i32::from(u16::from_le_bytes([row[2 * at], row[2 * at + 1]])),
    }
}

/// `ACROSS` is the number of pixels that share a value of colour, as a power of two.
pub(super) fn row<const BYTES: usize, const ACROSS: usize>(by: &Conversion, row: Row<'_>, out: &mut [u8]) {
    let half = 1 << (by.shift - 1);
    let level = |sum: i32| (sum >> by.shift).clamp(0, 255) as u8;
    for (at, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let bright = (value::<BYTES>(row.bright, at) - by.zero) * by.bright + half;
        let u = value::<BYTES>(row.u, at >> ACROSS) - by.middle;
        let v = value::<BYTES>(row.v, at >> ACROSS) - by.middle;
        let green = bright + by.green.0 * u + by.green.1 * v;
        *pixel = [level(bright + by.red * v), level(green), level(bright + by.blue * u)];
    }
}

pub(super) fn grey<const BYTES: usize>(by: &Conversion, row: Row<'_>, out: &mut [u8]) {
    let half = 1 << (by.shift - 1);
    for (at, pixel) in out.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let bright = (value::<BYTES>(row.bright, at) - by.zero) * by.bright + half;
        *pixel = [(bright >> by.shift).clamp(0, 255) as u8; 3];
    }
}
