//! Samples pixels like torch's `grid_sample`: blends the four pixels around a place and rounds the result;
//! pixels outside are part of the blend, as fill, edge or mirror image. (Pillow's way is in `warp`.)

mod field;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::cpu::dispatch;
use crate::warp::{self, Map};
use crate::{CpuLevel, ImageMut, ImageRef, Result, Size, WarpFilter};

pub(crate) use field::Field;
pub use field::elastic_offsets;

/// Content outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Red, green, blue.
    Fill([u8; 3]),
    /// The outermost pixel.
    Edge,
    /// The image, mirrored at its edges.
    Reflect,
}

/// The source place of an output pixel's centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Places {
    /// A matrix.
    Map(Map),
    /// A lens: `r (1 + k r² + k r⁴)` from the centre, which is moved by `shift` pixels. The unit is the image's side,
    /// as in OpenCV's camera model.
    Lens {
        /// Negative bulges, positive pinches.
        distortion: f64,
        /// Shift along x and y.
        shift: (f64, f64),
    },
    /// Smoothed random offsets.
    Elastic {
        /// Strength along x and y: pixels times two.
        alpha: (f32, f32),
        /// Smoothness along x and y.
        sigma: (f32, f32),
        /// Seed of the offsets.
        seed: u64,
    },
}

/// Parameters of a sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Source places.
    pub places: Places,
    /// Size of the result.
    pub output: Size,
    /// Nearest or bilinear.
    pub filter: WarpFilter,
    /// Content beyond the edges.
    pub outside: Outside,
}

/// Writes the result; both have four bytes per pixel.
pub(crate) fn sample(
    level: CpuLevel,
    field: &mut Field,
    sample: &Sample,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    if let (Places::Map(map), Outside::Fill([red, green, blue])) = (sample.places, sample.outside)
        && warp::moved(&map, from, to, [red, green, blue, 255])
    {
        return Ok(());
    }
    field.prepare_by(level, sample)?;
    for y in 0..to.size.height {
        dispatch!(level, row(sample, field, from, y, to.row_mut(y)));
    }
    Ok(())
}

/// The source place of an output pixel's centre, in pixels from the source's upper left corner.
pub(crate) fn place(sample: &Sample, field: &Field, x: u32, y: u32) -> (f64, f64) {
    place_in_row(sample, field.row(y), x, y)
}

/// The same, with the offsets of the pixel's row.
#[inline(always)]
fn place_in_row(sample: &Sample, offsets: [&[f32]; 2], x: u32, y: u32) -> (f64, f64) {
    let (mx, my) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
    match sample.places {
        Places::Map(map) => map.at((mx, my)),
        Places::Lens { distortion, shift } => bent(sample.output, distortion, shift, (mx, my)),
        Places::Elastic { .. } => {
            let [dx, dy] = offsets.map(|row| row[x as usize]);
            (mx + f64::from(dx), my + f64::from(dy))
        }
    }
}

/// Where a lens shows a pixel from.
#[inline(always)]
fn bent(size: Size, distortion: f64, shift: (f64, f64), (mx, my): (f64, f64)) -> (f64, f64) {
    let (width, height) = (f64::from(size.width), f64::from(size.height));
    let (middle_x, middle_y) = (width / 2.0 + shift.0, height / 2.0 + shift.1);
    let (u, v) = ((mx - middle_x) / width, (my - middle_y) / height);
    let squared = u * u + v * v;
    let stretch = 1.0 + distortion * squared + distortion * squared * squared;
    (u * stretch * width + middle_x, v * stretch * height + middle_y)
}

/// The source's column and row at a place; `None` outside.
pub(crate) fn nearest_place(size: Size, place: (f64, f64), outside: Outside) -> Option<(u32, u32)> {
    scalar::nearest_place(size, place, outside)
}

/// The place of a source point in the result: the inverse of [`place`]. Maps are inverted; lenses and fields are
/// solved iteratively, to within a hundredth of a pixel where they are smooth.
pub(crate) fn shown_at(sample: &Sample, field: &Field, (x, y): (f64, f64)) -> (f64, f64) {
    match sample.places {
        Places::Map(map) => map.inverse().map_or((f64::NAN, f64::NAN), |inverse| inverse.at((x, y))),
        Places::Lens { distortion, shift } => {
            let (width, height) = (f64::from(sample.output.width), f64::from(sample.output.height));
            let (middle_x, middle_y) = (width / 2.0 + shift.0, height / 2.0 + shift.1);
            let (u, v) = ((x - middle_x) / width, (y - middle_y) / height);
            let far = u.hypot(v);
            let near = undistorted_radius(far, distortion);
            let shrink = if far > 0.0 { near / far } else { 1.0 };
            (u * shrink * width + middle_x, v * shrink * height + middle_y)
        }
        Places::Elastic { .. } => {
            let (mut px, mut py) = (x, y);
            for _ in 0..50 {
                let (dx, dy) = field.between(px - 0.5, py - 0.5);
                let (nx, ny) = (x - dx, y - dy);
                let done = (nx - px).abs().max((ny - py).abs()) < 1e-3;
                (px, py) = (nx, ny);
                if done {
                    break;
                }
            }
            (px, py)
        }
    }
}

/// The radius that a lens shows at `far`: r with r (1 + k r² + k r⁴) = far, by Newton's method.
fn undistorted_radius(far: f64, k: f64) -> f64 {
    let mut r = far;
    for _ in 0..30 {
        let (value, slope) =
            (r * (1.0 + k * r.powi(2) + k * r.powi(4)), 1.0 + 3.0 * k * r.powi(2) + 5.0 * k * r.powi(4));
        if slope.abs() < 1e-6 {
            return f64::NAN;
        }
        r -= (value - far) / slope;
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    fn made(outside: Outside, map: [f64; 6]) -> Vec<u8> {
        let bytes: Vec<u8> = (0..4u8).flat_map(|x| [x * 20 + 10; 4]).collect();
        let size = Size::new(4, 1);
        let from = ImageRef::new(&bytes, size, 16, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; 16];
        let mut to = ImageMut::new(&mut out, size, 16, PixelLayout::Rgbx).unwrap();
        let op = Sample {
            places: Places::Map(Map::Affine(map)),
            output: size,
            filter: WarpFilter::Bilinear,
            outside,
        };
        sample(CpuLevel::detect(), &mut Field::default(), &op, from, &mut to).unwrap();
        out.chunks_exact(4).map(|p| p[0]).collect()
    }

    /// Compares with OpenCV's `initUndistortRectifyMap` for a camera whose focal lengths are the image's sides.
    #[test]
    fn lens_distances_are_fractions_of_the_sides() {
        let size = Size::new(200, 100);
        let places = Places::Lens { distortion: -0.5, shift: (0.0, 0.0) };
        let op = Sample { places, output: size, filter: WarpFilter::Bilinear, outside: Outside::Edge };
        let (x, y) = place(&op, &Field::default(), 199, 99);
        // The last pixel's centre: 0.4975 and 0.495 of a side from the image's centre.
        let squared = 0.4975f64.powi(2) + 0.495f64.powi(2);
        let stretch = 1.0 - 0.5 * squared - 0.5 * squared * squared;
        assert!((x - (100.0 + 99.5 * stretch)).abs() < 1e-9 && (y - (50.0 + 49.5 * stretch)).abs() < 1e-9);
        assert!(x > 150.0, "the default lens does not turn corners over");
    }

    #[test]
    fn cpu_levels_agree_bit_for_bit() {
        let size = Size::new(37, 23);
        let bytes: Vec<u8> =
            (0..size.area() as u32 * 4).map(|i| (i.wrapping_mul(2654435761) >> 21) as u8).collect();
        let from = ImageRef::new(&bytes, size, 37 * 4, PixelLayout::Rgbx).unwrap();
        let places = [
            Places::Elastic { alpha: (40.0, 30.0), sigma: (3.0, 2.0), seed: 5 },
            Places::Lens { distortion: 0.6, shift: (1.5, -2.0) },
            Places::Map(Map::Affine([0.9, 0.2, 1.3, -0.1, 1.1, -2.7])),
            Places::Map(Map::Affine([1.0, 0.0, -3.0, 0.0, 1.0, 5.0])),
            Places::Map(Map::Affine([1e9, 3.0, 1e12, -1e9, 1e300, -1e12])),
            Places::Map(Map::Perspective([1.1, 0.1, -2.0, 0.05, 0.9, 1.0, 0.001, -0.002])),
            Places::Map(Map::Perspective([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, -0.1, 0.0])),
        ];
        for places in places {
            for filter in [WarpFilter::Nearest, WarpFilter::Bilinear] {
                for outside in [Outside::Fill([9, 8, 7]), Outside::Edge, Outside::Reflect] {
                    let op = Sample { places, output: size, filter, outside };
                    let made = |level| {
                        let mut out = vec![0; bytes.len()];
                        let mut to = ImageMut::new(&mut out, size, 37 * 4, PixelLayout::Rgbx).unwrap();
                        sample(level, &mut Field::default(), &op, from, &mut to).unwrap();
                        out
                    };
                    let expected = made(CpuLevel::Scalar);
                    for level in CpuLevel::available() {
                        assert!(made(level) == expected, "{level:?} {op:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pixels_outside_take_part_in_the_interpolation() {
        let half = [1.0, 0.0, -0.5, 0.0, 1.0, 0.0];
        assert_eq!(made(Outside::Fill([0; 3]), half), [5, 20, 40, 60]);
        assert_eq!(made(Outside::Edge, half), [10, 20, 40, 60]);
        let two = [1.0, 0.0, -2.0, 0.0, 1.0, 0.0];
        assert_eq!(made(Outside::Reflect, two), [30, 10, 10, 30]);
        assert_eq!(made(Outside::Fill([9; 3]), two), [9, 9, 10, 30]);
    }
}
