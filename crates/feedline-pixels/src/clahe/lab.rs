//! sRGB to CIE Lab (D65) in bytes and back, with OpenCV's fixed point: lightness from 0 to 255, a and b around 128.

use std::sync::OnceLock;

const WHITE: [f64; 3] = [0.950456, 1.0, 1.088754];

/// Fraction bits of a matrix, of light, of the roots of light, and of what comes back from Lab.
const MATRIX_BITS: u32 = 12;
const LIGHT_BITS: u32 = 3;
const ROOT_BITS: u32 = MATRIX_BITS + LIGHT_BITS;
const BASE_BITS: u32 = 14;
const BASE: i32 = 1 << BASE_BITS;

/// The smallest root that a and b can lead to on the way back.
const LEAST_ROOT: i32 = -8145;

/// Entries of the tables.
const LIGHTS: usize = 256 * 3 / 2 * (1 << LIGHT_BITS);
const ROOTS: usize = BASE as usize * 9 / 4;
const LEVELS: usize = 4096;

/// All tables; made once.
pub(super) struct Lab {
    light: [u16; 256],
    root: [u16; LIGHTS],
    to_xyz: [[i32; 3]; 3],
    /// Of a lightness: light, and its root.
    lightness: [[i32; 2]; 256],
    /// Of a root, counted from the smallest: light.
    cube: [i32; ROOTS],
    to_rgb: [[i32; 3]; 3],
    level: [u8; LEVELS],
}

impl Lab {
    pub(super) fn get() -> &'static Lab {
        static TABLES: OnceLock<Box<Lab>> = OnceLock::new();
        TABLES.get_or_init(|| Box::new(Lab::new()))
    }

    fn new() -> Self {
        let scaled = |bits: u32, value: f64| (f64::from(1 << bits) * value).round_ties_even() as i32;
        let light = |level: f64| {
            if level <= 0.04045 { level / 12.92 } else { ((level + 0.055) / 1.055).powf(2.4) }
        };
        let level = |light: f64| {
            if light <= 0.0031308 { light * 12.92 } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
        };
        let share = |at: usize, most: usize| at as f64 / most as f64;
        Lab {
            light: std::array::from_fn(|at| scaled(LIGHT_BITS, 255.0 * light(share(at, 255))) as u16),
            root: std::array::from_fn(|at| scaled(ROOT_BITS, root(share(at, 255 << LIGHT_BITS))) as u16),
            to_xyz: matrix(|x, y| TO_XYZ[y][x] / WHITE[y]),
            lightness: std::array::from_fn(|at| {
                let [light, root] = of_lightness(share(at, 255) * 100.0);
                [scaled(BASE_BITS, light), scaled(BASE_BITS, root)]
            }),
            cube: std::array::from_fn(|at| cube(at as i32 + LEAST_ROOT)),
            to_rgb: matrix(|x, y| TO_RGB[y][x] * WHITE[x]),
            level: std::array::from_fn(|at| (255.0 * level(share(at, LEVELS - 1))).round_ties_even() as u8),
        }
    }

    #[inline]
    pub(super) fn of_rgb(&self, colour: [u8; 3]) -> [u8; 3] {
        let light = colour.map(|level| i32::from(self.light[level as usize]));
        let [x, y, z] = self.to_xyz.map(|row| {
            let sum = row[0] * light[0] + row[1] * light[1] + row[2] * light[2];
            i32::from(self.root[descaled(sum, MATRIX_BITS) as usize])
        });
        let middle = 128 << ROOT_BITS;
        let lightness = 296 * y - ((16 * 255 * (1 << ROOT_BITS) + 50) / 100);
        [lightness, 500 * (x - y) + middle, 200 * (y - z) + middle]
            .map(|value| descaled(value, ROOT_BITS).clamp(0, 255) as u8)
    }

    #[inline]
    pub(super) fn to_rgb(&self, [lightness, a, b]: [u8; 3]) -> [u8; 3] {
        let [y, root] = self.lightness[lightness as usize];
        let (a, b) = (i32::from(a), i32::from(b));
        // a / 500 and b / 200 from the middle.
        let towards_red = ((5 * a * 53687 + (1 << 7)) >> 13) - 128 * BASE / 500;
        let towards_yellow = ((b * 41943 + (1 << 4)) >> 9) - 128 * BASE / 200 + 1;
        let cubed = |root: i32| self.cube[(root - LEAST_ROOT) as usize];
        let (x, z) = (cubed(root + towards_red), cubed(root - towards_yellow));
        self.to_rgb.map(|row| {
            let light = descaled(row[0] * x + row[1] * y + row[2] * z, BASE_BITS);
            self.level[light.clamp(0, LEVELS as i32 - 1) as usize]
        })
    }
}

const TO_XYZ: [[f64; 3]; 3] =
    [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]];
const TO_RGB: [[f64; 3]; 3] =
    [[3.240479, -1.53715, -0.498535], [-0.969256, 1.875991, 0.041556], [0.055648, -0.204043, 1.057311]];

fn matrix(of: impl Fn(usize, usize) -> f64) -> [[i32; 3]; 3] {
    let scaled = |value: f64| (f64::from(1 << MATRIX_BITS) * value).round_ties_even() as i32;
    std::array::from_fn(|y| std::array::from_fn(|x| scaled(of(x, y))))
}

fn descaled(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}

/// CIE's root of a light.
fn root(light: f64) -> f64 {
    if light < 216.0 / 24389.0 { light * 841.0 / 108.0 + 16.0 / 116.0 } else { light.cbrt() }
}

/// Light and its root, of a lightness from 0 to 100.
fn of_lightness(lightness: f64) -> [f64; 2] {
    let root = (lightness + 16.0) / 116.0;
    if lightness <= 8.0 { [lightness * 27.0 / 24389.0, root] } else { [root.powi(3), root] }
}

/// The light of a root.
fn cube(root: i32) -> i32 {
    if root <= 3390 {
        return root * 108 / 841 - BASE * 16 / 116 * 108 / 841;
    }
    root * root / BASE * root / BASE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cv2.cvtColor(colour, COLOR_RGB2LAB)`, and back.
    #[test]
    fn values_equal_opencv() {
        for (colour, lab, back) in OPENCV {
            assert_eq!(Lab::get().of_rgb(colour), lab, "{colour:?}");
            assert_eq!(Lab::get().to_rgb(lab), back, "{lab:?}");
        }
    }

    const OPENCV: [([u8; 3], [u8; 3], [u8; 3]); 10] = [
        ([0, 0, 0], [0, 128, 128], [0, 0, 0]),
        ([255, 255, 255], [255, 128, 128], [255, 255, 255]),
        ([200, 30, 90], [113, 194, 139], [201, 30, 90]),
        ([3, 250, 7], [220, 43, 209], [0, 250, 12]),
        ([17, 17, 200], [66, 191, 41], [25, 15, 200]),
        ([128, 127, 126], [136, 128, 129], [128, 127, 126]),
        ([1, 2, 3], [1, 128, 127], [0, 2, 4]),
        ([250, 240, 10], [237, 112, 219], [251, 240, 3]),
        ([90, 60, 30], [72, 138, 152], [91, 60, 30]),
        ([255, 0, 0], [136, 208, 195], [255, 2, 1]),
    ];
}
