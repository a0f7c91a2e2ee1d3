//! sRGB to CIE Lab (D65) and back; L from 0 to 255.

use std::sync::OnceLock;

const WHITE: [f32; 3] = [0.950456, 1.0, 1.088754];

fn linear() -> &'static [f32; 256] {
    static TABLE: OnceLock<[f32; 256]> = OnceLock::new();
    TABLE.get_or_init(|| {
        std::array::from_fn(|level| {
            let value = level as f32 / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    })
}

/// Number of steps in the tables below.
const STEPS: usize = 4096;

/// A function on 0 to 1 at equal distances, with one entry more than there are steps.
struct Curve(Vec<f32>);

impl Curve {
    fn of(function: impl Fn(f64) -> f64) -> Self {
        Curve((0..=STEPS + 1).map(|step| function(step as f64 / STEPS as f64) as f32).collect())
    }

    /// Interpolates linearly between two entries: the error is less than a hundredth of a level.
    #[inline(always)]
    fn at(&self, value: f32) -> f32 {
        let place = value.clamp(0.0, 1.0) * STEPS as f32;
        let step = place as usize;
        self.0[step] + (self.0[step + 1] - self.0[step]) * (place - step as f32)
    }
}

/// CIE's cube root function.
fn roots() -> &'static Curve {
    static TABLE: OnceLock<Curve> = OnceLock::new();
    TABLE.get_or_init(|| Curve::of(|t| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 }))
}

/// Linear light to sRGB, in levels.
fn levels() -> &'static Curve {
    static TABLE: OnceLock<Curve> = OnceLock::new();
    TABLE.get_or_init(|| {
        Curve::of(|v| 255.0 * if v <= 0.0031308 { v * 12.92 } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 })
    })
}

pub(super) fn from_rgb([red, green, blue]: [u8; 3]) -> [f32; 3] {
    let table = linear();
    let [r, g, b] = [red, green, blue].map(|level| table[level as usize]);
    let x = (0.412453 * r + 0.357580 * g + 0.180423 * b) / WHITE[0];
    let y = 0.212671 * r + 0.715160 * g + 0.072169 * b;
    let z = (0.019334 * r + 0.119193 * g + 0.950227 * b) / WHITE[2];
    let [fx, fy, fz] = [x, y, z].map(|t| roots().at(t));
    let lightness = if y > 0.008856 { 116.0 * fy - 16.0 } else { 903.3 * y };
    [lightness * 2.55, 500.0 * (fx - fy), 200.0 * (fy - fz)]
}

pub(super) fn to_rgb([level, a, b]: [f32; 3]) -> [u8; 3] {
    let lightness = level / 2.55;
    let fy = (lightness + 16.0) / 116.0;
    let y = if lightness > 7.9996 { fy * fy * fy } else { lightness / 903.3 };
    let fy = if lightness > 7.9996 { fy } else { 7.787 * y + 16.0 / 116.0 };
    let cube = |f: f32| if f > 0.206893 { f * f * f } else { (f - 16.0 / 116.0) / 7.787 };
    let (x, z) = (cube(fy + a / 500.0) * WHITE[0], cube(fy - b / 200.0) * WHITE[2]);
    let linear = [
        3.240479 * x - 1.53715 * y - 0.498535 * z,
        -0.969256 * x + 1.875991 * y + 0.041556 * z,
        0.055648 * x - 0.204043 * y + 1.057311 * z,
    ];
    linear.map(|value| (levels().at(value) + 0.5) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same_colour() {
        for colour in [[0, 0, 0], [255, 255, 255], [200, 30, 90], [3, 250, 7], [17, 17, 200]] {
            let back = to_rgb(from_rgb(colour));
            assert!(colour.iter().zip(back).all(|(a, b)| a.abs_diff(b) <= 1), "{colour:?} {back:?}");
        }
    }
}
