//! Rows of components to rows of pixels, bit for bit as libjpeg-turbo converts YCbCr (16-bit fixed point, rounded).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use crate::{CpuLevel, PixelLayout};

/// Converts one row. `out` has exactly the requested pixels; each component has at least as many samples.
pub(crate) fn ycc(level: CpuLevel, rows: [&[u8]; 3], layout: PixelLayout, out: &mut [u8]) {
    let count = out.len() / layout.bytes();
    let rows = rows.map(|row| &row[..count]);
    match level {
        #[cfg(target_arch = "x86_64")]
        CpuLevel::Avx2 | CpuLevel::Avx512 => {
            // SAFETY: the level says that this CPU has AVX2.
            unsafe { avx2::ycc(rows, layout, out) }
        }
        #[cfg(target_arch = "aarch64")]
        CpuLevel::Neon => {
            // SAFETY: the level says that this CPU has NEON.
            unsafe { neon::ycc(rows, layout, out) }
        }
        CpuLevel::Scalar => scalar::ycc(rows, layout, out),
    }
}

/// Puts three components side by side unchanged (files that store RGB).
pub(crate) fn rgb(rows: [&[u8]; 3], layout: PixelLayout, out: &mut [u8]) {
    let count = out.len() / layout.bytes();
    let [red, green, blue] = rows.map(|row| &row[..count]);
    for (i, pixel) in out.chunks_exact_mut(layout.bytes()).enumerate() {
        pixel[..3].copy_from_slice(&[red[i], green[i], blue[i]]);
        pixel[3..].fill(255);
    }
}

/// Copies one component to all three.
pub(crate) fn grey(row: &[u8], layout: PixelLayout, out: &mut [u8]) {
    match layout {
        PixelLayout::Rgb => {
            for (pixel, &value) in out.chunks_exact_mut(3).zip(row) {
                pixel.fill(value);
            }
        }
        _ => {
            for (pixel, &value) in out.chunks_exact_mut(4).zip(row) {
                let value = u32::from(value);
                pixel.copy_from_slice(&((value * 0x01_0101) | 0xFF00_0000).to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_equals_scalar_for_all_colours() {
        for y in (0..=255).step_by(5) {
            let count = 256 * 256;
            let luma = vec![y as u8; count];
            let blue: Vec<u8> = (0..count).map(|i| (i % 256) as u8).collect();
            let red: Vec<u8> = (0..count).map(|i| (i / 256) as u8).collect();
            for layout in [PixelLayout::Rgb, PixelLayout::Rgbx] {
                let outcome = |level| {
                    let mut out = vec![0; count * layout.bytes()];
                    ycc(level, [&luma, &blue, &red], layout, &mut out);
                    out
                };
                let expected = outcome(CpuLevel::Scalar);
                for level in CpuLevel::available() {
                    assert!(outcome(level) == expected, "{} {layout:?} y={y}", level.name());
                }
            }
        }
    }

    #[test]
    fn every_length_writes_exactly_its_pixels() {
        let samples: Vec<u8> = (0..200).map(|i| (i * 37 % 256) as u8).collect();
        for layout in [PixelLayout::Rgb, PixelLayout::Rgbx] {
            for level in CpuLevel::available() {
                for count in 1..150 {
                    let mut out = vec![77; count * layout.bytes() + 40];
                    let rows = [&samples[..count], &samples[20..20 + count], &samples[50..50 + count]];
                    ycc(level, rows, layout, &mut out[..count * layout.bytes()]);
                    let mut expected = vec![77; out.len()];
                    ycc(CpuLevel::Scalar, rows, layout, &mut expected[..count * layout.bytes()]);
                    assert_eq!(out, expected, "{} {layout:?} {count}", level.name());
                }
            }
        }
    }
}
