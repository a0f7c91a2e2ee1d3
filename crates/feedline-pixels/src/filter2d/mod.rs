//! Any small kernel over an image, edges mirrored without repeating the outermost pixel: motion blur, defocus. OpenCV's
//! `filter2D` for bytes.

mod scalar;

use crate::{Error, ImageMut, ImageRef, Result};

/// Weights of the pixels around each.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Columns: odd.
    pub width: u32,
    /// Rows: odd.
    pub height: u32,
    /// Row by row.
    pub weights: Vec<f32>,
}

/// A pixel that has a share in another: how far away, and how large a share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    dx: i32,
    dy: i32,
    weight: f32,
}

pub(crate) fn filter(kernel: &Kernel, from: ImageRef<'_>, to: &mut ImageMut<'_>) -> Result<()> {
    let Kernel { width, height, weights } = kernel;
    if width % 2 == 0 || height % 2 == 0 || weights.len() as u64 != u64::from(*width) * u64::from(*height) {
        return Err(Error::Misuse(format!("{} weights are no kernel of {width}x{height}", weights.len())));
    }
    let (rx, ry) = ((width / 2) as i32, (height / 2) as i32);
    let place = |at: usize| ((at as u32 % width) as i32 - rx, (at as u32 / width) as i32 - ry);
    let taps: Vec<Tap> = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight != 0.0)
        .map(|(at, weight)| Tap { dx: place(at).0, dy: place(at).1, weight: *weight })
        .collect();
    scalar::filter(&taps, rx, from, to);
    Ok(())
}

/// The row or column that shows at `at`, mirrored as often as it takes.
pub(crate) fn mirrored(at: i64, length: u32) -> u32 {
    let period = (2 * (i64::from(length) - 1)).max(1);
    let at = at.rem_euclid(period);
    at.min(period - at).min(i64::from(length) - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PixelLayout, Size};

    #[test]
    fn a_shifted_point_moves_the_image_and_mirrors_edges() {
        let bytes: Vec<u8> = (0..5u8).flat_map(|x| [x * 10; 4]).collect();
        let size = Size::new(5, 1);
        let from = ImageRef::new(&bytes, size, 20, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; 20];
        let mut to = ImageMut::new(&mut out, size, 20, PixelLayout::Rgbx).unwrap();
        let kernel = Kernel { width: 3, height: 1, weights: vec![0.0, 0.0, 1.0] };
        filter(&kernel, from, &mut to).unwrap();
        let reds: Vec<u8> = out.chunks_exact(4).map(|p| p[0]).collect();
        assert_eq!(reds, [10, 20, 30, 40, 30]);
    }
}
