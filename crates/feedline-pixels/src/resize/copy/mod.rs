//! Rows that are only copied: three bytes per pixel become four, mirrored or not; and three bytes mirrored.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::cpu::dispatch;
use crate::{CpuLevel, ImageRef, PixelLayout, Result, reserve};

/// Appends the pixels of an image of a colour layout to dense pixels of four bytes.
pub fn append_rgbx(image: ImageRef<'_>, into: &mut Vec<u8>) -> Result<()> {
    image.layout.check_colour()?;
    let (begin, row) = (into.len(), image.size.width as usize * 4);
    let added = row * image.size.height as usize;
    reserve(into, added)?;
    into.resize(begin + added, 255);
    let level = CpuLevel::detect();
    for (y, pixels) in (0..image.size.height).zip(into[begin..].chunks_exact_mut(row.max(1))) {
        copy_pixels(level, image.row(y), image.layout, false, pixels);
    }
    Ok(())
}

/// Copies pixels of a colour layout to pixels of four bytes, backwards if `flip`. The fourth byte is undefined.
pub(crate) fn copy_pixels(
    level: CpuLevel,
    source: &[u8],
    layout: PixelLayout,
    flip: bool,
    pixels: &mut [u8],
) {
    assert_eq!(source.len() / layout.bytes(), pixels.len() / 4);
    match (layout, flip) {
        (PixelLayout::Rgb, false) => dispatch!(level, spread(source, pixels)),
        (PixelLayout::Rgb, true) => dispatch!(level, spread_mirrored(source, pixels)),
        (_, false) => pixels.copy_from_slice(source),
        (_, true) => dispatch!(level, mirror(source, pixels)),
    }
}

/// Copies pixels of three bytes backwards.
pub(crate) fn mirror_rgb(level: CpuLevel, source: &[u8], pixels: &mut [u8]) {
    assert_eq!(source.len(), pixels.len());
    dispatch!(avx512: level, mirror_rgb(source, pixels));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    #[test]
    fn pixels_are_appended_to_those_present() {
        let mut pixels = vec![7; 4];
        let rgb = [1, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, 11, 12];
        append_rgbx(ImageRef::new(&rgb, Size::new(2, 2), 7, PixelLayout::Rgb).unwrap(), &mut pixels).unwrap();
        assert_eq!(pixels, [7, 7, 7, 7, 1, 2, 3, 255, 4, 5, 6, 255, 7, 8, 9, 255, 10, 11, 12, 255]);
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        for width in [1, 2, 5, 7, 8, 9, 10, 11, 12, 15, 16, 17, 21, 22, 31, 32, 33, 42, 43, 64, 100] {
            for layout in [PixelLayout::Rgb, PixelLayout::Rgbx] {
                for flip in [false, true] {
                    let source = &bytes[..width * layout.bytes()];
                    for level in CpuLevel::available() {
                        let mut found = vec![0; width * 4];
                        copy_pixels(level, source, layout, flip, &mut found);
                        for (x, pixel) in found.chunks_exact(4).enumerate() {
                            let from = if flip { width - 1 - x } else { x } * layout.bytes();
                            assert_eq!(
                                pixel[..3],
                                source[from..from + 3],
                                "{level:?} {layout:?} {flip} {width}"
                            );
                        }
                    }
                }
            }
            let source = &bytes[..width * 3];
            for level in CpuLevel::available() {
                let mut found = vec![0; width * 3];
                mirror_rgb(level, source, &mut found);
                let expected: Vec<u8> = source.chunks_exact(3).rev().flatten().copied().collect();
                assert_eq!(found, expected, "{level:?} {width}");
            }
        }
    }
}
