//! The reference. It is inlined into `avx2`, where the compiler vectorises the same arithmetic.

pub(super) use super::hue::hue;
use super::{Table, blend, grey};

#[inline(always)]
pub(super) fn table(pixels: &mut [u8], table: &[u8; 256]) {
    for byte in pixels {
        *byte = table[*byte as usize];
    }
}

#[inline(always)]
pub(super) fn saturation(pixels: &mut [u8], factor: f32) {
    for pixel in pixels.chunks_exact_mut(4) {
        let four = u32::from_le_bytes([pixel[0], pixel[1], pixel[2], pixel[3]]);
        let (red, green, blue) = (four & 255, four >> 8 & 255, four >> 16 & 255);
        let grey = grey(red, green, blue) as i32;
        let blended = |channel: u32| u32::from(blend(grey, channel as i32, factor));
        let result = blended(red) | blended(green) << 8 | blended(blue) << 16 | 255 << 24;
        pixel.copy_from_slice(&result.to_le_bytes());
    }
}

#[inline(always)]
pub(super) fn greys(pixels: &mut [u8]) {
    for pixel in pixels.chunks_exact_mut(4) {
        let four = u32::from_le_bytes([pixel[0], pixel[1], pixel[2], pixel[3]]);
        let grey = grey(four & 255, four >> 8 & 255, four >> 16 & 255);
        pixel.copy_from_slice(&((grey * 0x0001_0101) | (255 << 24)).to_le_bytes());
    }
}

pub(super) fn permute(pixels: &mut [u8], order: [u8; 3]) {
    for pixel in pixels.chunks_exact_mut(4) {
        let [red, green, blue] = order.map(|channel| pixel[channel as usize]);
        pixel.copy_from_slice(&[red, green, blue, 255]);
    }
}

#[inline(always)]
pub(super) fn bits(bytes: &mut [u8], keep: u8, flip: u8) {
    for byte in bytes {
        *byte = (*byte & keep) ^ flip;
    }
}

#[inline(always)]
pub(super) fn bits_into(source: &[u8], keep: u8, flip: u8, out: &mut [u8]) {
    for (out, byte) in out.iter_mut().zip(source) {
        *out = (*byte & keep) ^ flip;
    }
}

pub(super) fn greys_packed(source: &[u8], out: &mut [u8]) {
    for (out, pixel) in out.chunks_exact_mut(3).zip(source.chunks_exact(3)) {
        out.fill(grey(pixel[0].into(), pixel[1].into(), pixel[2].into()) as u8);
    }
}

pub(super) fn saturation_packed(source: &[u8], factor: f32, out: &mut [u8]) {
    for (out, pixel) in out.chunks_exact_mut(3).zip(source.chunks_exact(3)) {
        let grey = grey(pixel[0].into(), pixel[1].into(), pixel[2].into()) as i32;
        for (out, channel) in out.iter_mut().zip(pixel) {
            *out = blend(grey, i32::from(*channel), factor);
        }
    }
}

#[inline(always)]
pub(super) fn solarise(bytes: &mut [u8], from: u8) {
    for byte in bytes {
        *byte = if *byte >= from { !*byte } else { *byte };
    }
}

#[inline(always)]
pub(super) fn tables(pixels: &mut [u8], [red, green, blue]: &[Table; 3]) {
    for pixel in pixels.chunks_exact_mut(4) {
        pixel[0] = red.0[pixel[0] as usize];
        pixel[1] = green.0[pixel[1] as usize];
        pixel[2] = blue.0[pixel[2] as usize];
    }
}

#[inline(always)]
pub(super) fn grey_sum(pixels: &[u8]) -> u64 {
    // 32 bits are enough for the greys of 16 million pixels; longer rows are split.
    let part = |pixels: &[u8]| {
        let grey = |pixel: &[u8]| grey(pixel[0].into(), pixel[1].into(), pixel[2].into());
        u64::from(pixels.chunks_exact(4).map(grey).sum::<u32>())
    };
    pixels.chunks(1 << 16).map(part).sum()
}

/// Minimum and maximum of every 32nd byte.
#[inline(always)]
pub(super) fn extremes(pixels: &[u8]) -> [[u8; 32]; 2] {
    let (mut least, mut most) = ([255; 32], [0; 32]);
    let (blocks, rest) = pixels.as_chunks::<32>();
    for block in blocks {
        for at in 0..32 {
            least[at] = least[at].min(block[at]);
            most[at] = most[at].max(block[at]);
        }
    }
    for (at, byte) in rest.iter().enumerate() {
        least[at] = least[at].min(*byte);
        most[at] = most[at].max(*byte);
    }
    [least, most]
}
