//! The reference.

use super::{BITS, Split, TOO_LARGE};
use crate::dct::compact::mask_of;
use crate::jpeg::idct::Block;

pub(super) fn split(blocks: &[Block], out: &mut [Split]) -> Option<()> {
    for (block, out) in blocks.iter().zip(out) {
        let mut magnitudes = *block;
        magnitudes[0] = 0;
        let mut any = 0;
        for value in &mut magnitudes {
            *value = value.wrapping_abs();
            any |= *value;
        }
        // The magnitude of the smallest number wraps to itself.
        if !(0..TOO_LARGE).contains(&any) {
            return None;
        }
        out.sign = mask_of(block, |value| value < 0) & !1;
        out.planes = [0; BITS];
        let used = 16 - any.leading_zeros() as usize;
        for (bit, plane) in out.planes.iter_mut().enumerate().take(used) {
            *plane = mask_of(&magnitudes, |m| m & 1 << bit != 0);
        }
    }
    Some(())
}
