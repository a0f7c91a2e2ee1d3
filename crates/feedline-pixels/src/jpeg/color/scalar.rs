//! The reference.

use crate::PixelLayout;

const HALF: i32 = 1 << 15;

pub(super) fn ycc(rows: [&[u8]; 3], layout: PixelLayout, out: &mut [u8]) {
    let [luma, blue, red] = rows;
    for (i, pixel) in out.chunks_exact_mut(layout.bytes()).enumerate() {
        let y = i32::from(luma[i]);
        let cb = i32::from(blue[i]) - 128;
        let cr = i32::from(red[i]) - 128;
        let clamp = |v: i32| v.clamp(0, 255) as u8;
        pixel[0] = clamp(y + ((91881 * cr + HALF) >> 16));
        pixel[1] = clamp(y + ((-22554 * cb - 46802 * cr + HALF) >> 16));
        pixel[2] = clamp(y + ((116_130 * cb + HALF) >> 16));
        pixel[3..].fill(255);
    }
}
