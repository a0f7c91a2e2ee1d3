//! Pixels of libjpeg-turbo and of our decoder, side by side.

use feedline_pixels::jpeg::{Decoder, Path, Scale};
use feedline_pixels::{ImageMut, PixelLayout, Region, Result, Size, dct, turbo};

pub(crate) const LIMIT: u64 = 1 << 24;
pub(crate) const SCALES: [(Scale, u8); 4] =
    [(Scale::Full, 8), (Scale::Half, 4), (Scale::Quarter, 2), (Scale::Eighth, 1)];

/// An image with smooth parts, edges and noise, so that every kind of block occurs.
pub(crate) fn image(size: Size, channels: u8, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut pixels = Vec::new();
    for y in 0..size.height {
        for x in 0..size.width {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = if (x / 24 + y / 16).is_multiple_of(3) { (state >> 58) as u32 } else { 0 };
            let edge = if (x + 2 * y) % 37 < 5 { 90 } else { 0 };
            for channel in 0..u32::from(channels) {
                let value = x * (channel + 1) / 2 + y * (3 - channel % 3) + noise * 3 + edge;
                pixels.push((value % 256) as u8);
            }
        }
    }
    pixels
}

/// An image of noise, or for every third seed a smooth one.
pub(crate) fn noise(size: Size, channels: u8, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let smooth = seed.is_multiple_of(3);
    (0..size.area() * u64::from(channels)).map(|i| if smooth { (i / 40) as u8 } else { next() }).collect()
}

pub(crate) fn by_turbo(bytes: &[u8], region: Region, scale: u8, layout: PixelLayout) -> Result<Vec<u8>> {
    let stride = region.width as usize * layout.bytes();
    let mut pixels = vec![0; stride * region.height as usize];
    let mut out = ImageMut::new(&mut pixels, region.size(), stride, layout)?;
    turbo::decode_region(bytes, region, scale, LIMIT, &mut out)?;
    Ok(pixels)
}

pub(crate) fn by_us(
    decoder: &mut Decoder,
    bytes: &[u8],
    index: Option<&[u8]>,
    region: Region,
    scale: Scale,
    layout: PixelLayout,
) -> Result<(Vec<u8>, Path)> {
    let stride = region.width as usize * layout.bytes();
    let mut pixels = vec![0; stride * region.height as usize];
    let mut out = ImageMut::new(&mut pixels, region.size(), stride, layout)?;
    let path = decoder.decode_into(bytes, index, region, scale, &mut out)?;
    Ok((pixels, path))
}

/// The pixels of an image that is stored as `dct` or `compact`.
pub(crate) fn stored_pixels(
    decoder: &mut dct::Decoder,
    bytes: &[u8],
    region: Region,
    scale: Scale,
) -> Result<Vec<u8>> {
    let stride = region.width as usize * 3;
    let mut pixels = vec![0; stride * region.height as usize];
    let mut out = ImageMut::new(&mut pixels, region.size(), stride, PixelLayout::Rgb)?;
    decoder.decode_into(bytes, region, scale, &mut out)?;
    Ok(pixels)
}

pub(crate) fn region_of(size: Size, fractions: [u16; 4]) -> Region {
    let part = |n: u32, f: u16| (u64::from(n) * u64::from(f) / 65536) as u32;
    let width = 1 + part(size.width, fractions[0]);
    let height = 1 + part(size.height, fractions[1]);
    let x = part(size.width - width + 1, fractions[2]);
    let y = part(size.height - height + 1, fractions[3]);
    Region::new(x, y, width, height)
}
