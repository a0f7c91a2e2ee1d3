//! The `yuv420` encoding: raw pixels with halved colour resolution, half the size of raw RGB.
//!
//! A luma plane, then two chroma planes of half width and height (rounded up), all full-range BT.601 as in JPEG.
//! Decoding interpolates chroma as libjpeg's fancy upsampling does, so a 4:2:0 photograph looks the same; colour edges
//! of other sources are blurred by the halving.

use std::ops::Range;

use crate::jpeg::{color, upsample};
use crate::{CpuLevel, Error, ImageRef, PixelLayout, Region, Result, Size};

/// Number of rows passed to the sink at once: 16 rows of 500 pixels are 32 KB, an L1 cache.
const STRIP: u32 = 16;

/// Bytes of an image of this size.
pub fn encoded_bytes(size: Size) -> u64 {
    size.area() + 2 * chroma(size).area()
}

pub(crate) fn chroma(size: Size) -> Size {
    Size::new(size.width.div_ceil(2), size.height.div_ceil(2))
}

/// The bytes of each plane from which a decode makes these rows.
pub(crate) fn bytes_of_rows(size: Size, rows: Range<u32>) -> [Range<u64>; 3] {
    let half = chroma(size);
    let (luma, plane) = (size.area(), half.area());
    let bytes = |start: u64, width: u32, rows: Range<u32>| {
        let at = |row: u32| start + u64::from(row) * u64::from(width);
        at(rows.start)..at(rows.end)
    };
    // A row is blended from the chroma row that covers it and the nearer of that one's neighbours.
    let near = rows.start.saturating_sub(1) / 2..(rows.end / 2 + 1).min(half.height);
    [bytes(0, size.width, rows), bytes(luma, half.width, near.clone()), bytes(luma + plane, half.width, near)]
}

/// Encodes an image.
pub fn encode(image: ImageRef<'_>) -> Vec<u8> {
    let (size, half) = (image.size, chroma(image.size));
    let mut out = Vec::with_capacity(encoded_bytes(size) as usize);
    let step = image.layout.bytes();
    for y in 0..size.height {
        out.extend(image.row(y).chunks_exact(step).map(|p| luma([p[0], p[1], p[2]].map(i32::from))));
    }
    for weights in [[-11_059, -21_709, 32_768], [32_768, -27_439, -5_329]] {
        for y in 0..half.height {
            for x in 0..half.width {
                let mean = mean_color(&image, 2 * x, 2 * y);
                let sum: i32 = mean.iter().zip(weights).map(|(m, w)| m * w).sum();
                out.push(((sum + (128 << 16) + 32_767) >> 16) as u8);
            }
        }
    }
    out
}

fn luma([red, green, blue]: [i32; 3]) -> u8 {
    ((19_595 * red + 38_470 * green + 7_471 * blue + 32_768) >> 16) as u8
}

/// The mean of four pixels; those beyond the edge repeat the last one.
fn mean_color(image: &ImageRef<'_>, x: u32, y: u32) -> [i32; 3] {
    let step = image.layout.bytes();
    let mut sum = [2; 3];
    for row in [y, (y + 1).min(image.size.height - 1)] {
        let row = image.row(row);
        for column in [x, (x + 1).min(image.size.width - 1)] {
            let pixel = &row[column as usize * step..][..3];
            for (sum, value) in sum.iter_mut().zip(pixel) {
                *sum += i32::from(*value);
            }
        }
    }
    sum.map(|s| s / 4)
}

/// Decodes `yuv420` images. Owns all scratch memory: keep one per thread and reuse it.
#[derive(Debug)]
pub struct Decoder {
    level: CpuLevel,
    rows: [Vec<u8>; 2],
    doubled: [Vec<u8>; 2],
    strip: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_level(CpuLevel::detect())
    }
}

impl Decoder {
    /// Creates a decoder with the kernels of `level`.
    pub fn with_level(level: CpuLevel) -> Self {
        let level = if CpuLevel::available().contains(&level) { level } else { CpuLevel::Scalar };
        Decoder { level, rows: Default::default(), doubled: Default::default(), strip: Vec::new() }
    }

    /// Decodes the box `region` of an image of size `size` and passes its rows to `sink` in strips, top to bottom.
    pub fn decode_region(
        &mut self,
        bytes: &[u8],
        size: Size,
        region: Region,
        layout: PixelLayout,
        sink: &mut dyn FnMut(u32, ImageRef<'_>),
    ) -> Result<()> {
        region.check_inside(size)?;
        layout.check_colour()?;
        if bytes.len() as u64 != encoded_bytes(size) {
            let reason = format!(
                "{} bytes, {} needed for {}x{}",
                bytes.len(),
                encoded_bytes(size),
                size.width,
                size.height
            );
            return Err(Error::Truncated { codec: "yuv420", reason });
        }
        let stride = region.width as usize * layout.bytes();
        let mut strip = std::mem::take(&mut self.strip);
        strip.resize(stride * STRIP as usize, 0);
        let mut top = 0;
        while top < region.height {
            let rows = STRIP.min(region.height - top);
            for (y, out) in (top..top + rows).zip(strip.chunks_exact_mut(stride)) {
                self.row(bytes, size, region, region.y + y, layout, out);
            }
            sink(top, ImageRef::new(&strip, Size::new(region.width, rows), stride, layout)?);
            top += rows;
        }
        self.strip = strip;
        Ok(())
    }

    fn row(&mut self, bytes: &[u8], size: Size, region: Region, y: u32, layout: PixelLayout, out: &mut [u8]) {
        let half = chroma(size);
        let (first, last) = (region.x / 2, (region.right() - 1) / 2 + 1);
        let near = y / 2;
        // The farther chroma row is above an even row and below an odd one; beyond the edge, the near row repeats.
        let far = if y.is_multiple_of(2) { near.saturating_sub(1) } else { (near + 1).min(half.height - 1) };
        let count = (last - first) as usize;
        for plane in 0..2 {
            let start = size.area() as usize + plane * half.area() as usize;
            let plane_bytes = &bytes[start..start + half.area() as usize];
            for (row, into) in [near, far].into_iter().zip(&mut self.rows) {
                let whole = &plane_bytes[row as usize * half.width as usize..][..half.width as usize];
                with_neighbours(whole, first as usize, last as usize, into);
            }
            let doubled = &mut self.doubled[plane];
            doubled.resize(2 * upsample::padded(count), 0);
            upsample::double_blend(self.level, &self.rows[0], &self.rows[1], count, doubled);
        }
        let luma = &bytes[y as usize * size.width as usize + region.x as usize..][..region.width as usize];
        let skip = (region.x - 2 * first) as usize;
        let [blue, red] = &self.doubled;
        color::ycc(self.level, [luma, &blue[skip..], &red[skip..]], layout, out);
    }
}

/// Samples `first..last` of a row with one more on either side, repeated at the edges, padded to whole groups.
fn with_neighbours(row: &[u8], first: usize, last: usize, into: &mut Vec<u8>) {
    into.clear();
    into.push(row[first.saturating_sub(1)]);
    into.extend_from_slice(&row[first..last]);
    into.push(row[last.min(row.len() - 1)]);
    into.resize(upsample::padded(last - first) + 2, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smooth(size: Size) -> Vec<u8> {
        let pixel = |x: u32, y: u32| [(x * 3 + y) as u8 / 2, (y * 2) as u8 / 2 + 40, 200 - (x as u8) / 2];
        (0..size.height).flat_map(|y| (0..size.width).flat_map(move |x| pixel(x, y))).collect()
    }

    fn decode(level: CpuLevel, bytes: &[u8], size: Size, region: Region) -> Vec<u8> {
        let mut out = Vec::new();
        let mut decoder = Decoder::with_level(level);
        let mut take = |_: u32, strip: ImageRef<'_>| {
            for y in 0..strip.size.height {
                out.extend_from_slice(strip.row(y));
            }
        };
        decoder.decode_region(bytes, size, region, PixelLayout::Rgb, &mut take).unwrap();
        out
    }

    #[test]
    fn smooth_images_are_preserved_and_cpu_levels_agree() {
        for size in [Size::new(1, 1), Size::new(2, 3), Size::new(37, 50), Size::new(64, 33)] {
            let pixels = smooth(size);
            let image = ImageRef::new(&pixels, size, size.width as usize * 3, PixelLayout::Rgb).unwrap();
            let bytes = encode(image);
            assert_eq!(bytes.len() as u64, encoded_bytes(size));
            let expected = decode(CpuLevel::Scalar, &bytes, size, Region::whole(size));
            let worst = pixels.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
            assert!(worst <= 6, "{size:?}: {worst}");
            for level in CpuLevel::available() {
                assert_eq!(decode(level, &bytes, size, Region::whole(size)), expected);
            }
        }
    }

    #[test]
    fn regions_equal_parts_of_the_whole() {
        let size = Size::new(45, 31);
        let pixels = smooth(size);
        let bytes = encode(ImageRef::new(&pixels, size, 45 * 3, PixelLayout::Rgb).unwrap());
        let whole = decode(CpuLevel::detect(), &bytes, size, Region::whole(size));
        let whole = ImageRef::new(&whole, size, 45 * 3, PixelLayout::Rgb).unwrap();
        for region in [
            Region::new(0, 0, 1, 1),
            Region::new(7, 3, 20, 17),
            Region::new(44, 30, 1, 1),
            Region::new(1, 1, 44, 30),
        ] {
            let part = decode(CpuLevel::detect(), &bytes, size, region);
            let expected: Vec<u8> =
                (0..region.height).flat_map(|y| whole.crop(region).unwrap().row(y).to_vec()).collect();
            assert_eq!(part, expected);
        }
    }

    #[test]
    fn a_wrong_length_is_an_error() {
        let mut decoder = Decoder::default();
        let size = Size::new(4, 4);
        let done =
            decoder.decode_region(&[0; 23], size, Region::whole(size), PixelLayout::Rgb, &mut |_, _| {});
        assert!(matches!(done, Err(Error::Truncated { .. })));
    }
}
