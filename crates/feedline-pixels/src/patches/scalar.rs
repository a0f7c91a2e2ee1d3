//! The reference.

use crate::{ImageMut, ImageRef};

pub(super) fn copy(
    from: ImageRef<'_>,
    (sx, sy): (u32, u32),
    to: &mut ImageMut<'_>,
    (dx, dy): (u32, u32),
    side: u32,
) {
    let each = from.layout.bytes();
    let (sx, dx, bytes) = (sx as usize * each, dx as usize * each, side as usize * each);
    for row in 0..side {
        to.row_mut(dy + row)[dx..dx + bytes].copy_from_slice(&from.row(sy + row)[sx..sx + bytes]);
    }
}
