//! More operations on single pixels: colour matrices, HSV in floats, tables per channel, and torchvision's tensor
//! version of grey, saturation and hue.

mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::colour::look_up_channels;
use crate::cpu::dispatch;
use crate::{CpuLevel, Table};

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// `rows · (red, green, blue) + add`, in levels, rounded.
    Matrix {
        /// One row per channel of the result.
        rows: [[f32; 3]; 3],
        /// Added to each channel.
        add: [f32; 3],
    },
    /// Through HSV in floats: hue rotated, saturation and value multiplied.
    Hsv {
        /// Rotation as a part of the circle.
        turn: f32,
        /// Factor of the saturation.
        saturation: f32,
        /// Factor of the value.
        value: f32,
    },
    /// A table per channel.
    Tables(Box<[Table; 3]>),
    /// Grey as torchvision computes it on tensors: truncated.
    TensorGrey,
    /// Blended with torchvision's grey, truncated.
    TensorSaturation(f32),
    /// Hue rotated in floats, as torchvision does on tensors.
    TensorHue(f32),
}

impl Point {
    /// Applies the operation to pixels of four bytes.
    pub(crate) fn apply(&self, level: CpuLevel, pixels: &mut [u8]) {
        match self {
            Point::Matrix { rows, add } => dispatch!(level, matrix(pixels, rows, add)),
            Point::Hsv { turn, saturation, value } => scalar::hsv(pixels, *turn, *saturation, *value),
            Point::Tables(tables) => look_up_channels(level, pixels, tables),
            Point::TensorGrey => dispatch!(level, greys(pixels)),
            Point::TensorSaturation(factor) => dispatch!(level, saturation(pixels, *factor)),
            Point::TensorHue(turn) => scalar::hue(pixels, *turn),
        }
    }
}

/// The sum of the truncated greys of pixels of four bytes.
pub(crate) fn grey_sum(level: CpuLevel, pixels: &[u8]) -> u64 {
    // A part's sum fits 32 bits.
    pixels.chunks(1 << 16).map(|part| u64::from(dispatch!(level, grey_sum(part)))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutral_settings_change_nothing() {
        let colours: Vec<u8> = (0..200u32).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let ops = [
            Point::Matrix { rows: identity, add: [0.0; 3] },
            Point::Hsv { turn: 0.0, saturation: 1.0, value: 1.0 },
            Point::TensorSaturation(1.0),
        ];
        for op in ops {
            let mut pixels = colours.clone();
            op.apply(CpuLevel::detect(), &mut pixels);
            let worst = pixels
                .chunks_exact(4)
                .zip(colours.chunks_exact(4))
                .flat_map(|(a, b)| a[..3].iter().zip(&b[..3]).map(|(a, b)| a.abs_diff(*b)))
                .max();
            assert!(worst <= Some(1), "{op:?} {worst:?}");
        }
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let colours: Vec<u8> = (0..4 * 77u32).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        let rows = [[0.9, 0.3, -0.2], [-0.1, 1.2, 0.4], [0.5, 0.5, 0.5]];
        let tables = Box::new([Table::of(|x| x / 2), Table::of(|x| !x), Table::of(|x| x.wrapping_mul(5))]);
        let ops = [
            Point::Matrix { rows, add: [3.0, -20.0, 0.25] },
            Point::Tables(tables),
            Point::TensorGrey,
            Point::TensorSaturation(1.7),
            Point::TensorSaturation(0.3),
        ];
        for level in CpuLevel::available() {
            assert_eq!(grey_sum(level, &colours), grey_sum(CpuLevel::Scalar, &colours));
            for op in &ops {
                let (mut expected, mut found) = (colours.clone(), colours.clone());
                op.apply(CpuLevel::Scalar, &mut expected);
                op.apply(level, &mut found);
                let same = found.chunks_exact(4).zip(expected.chunks_exact(4)).all(|(a, b)| a[..3] == b[..3]);
                assert!(same, "{op:?} {level:?}");
            }
        }
    }

    #[test]
    fn a_third_of_the_circle_takes_red_to_green() {
        for op in [Point::TensorHue(1.0 / 3.0), Point::Hsv { turn: 1.0 / 3.0, saturation: 1.0, value: 1.0 }] {
            let mut pixels = [255, 0, 0, 255];
            op.apply(CpuLevel::detect(), &mut pixels);
            assert_eq!(pixels, [0, 255, 0, 255], "{op:?}");
        }
    }
}
