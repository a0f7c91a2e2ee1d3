//! Boxes: the numbers of each crop and resize, as in torchvision.

use feedline_pixels::{Region, Size};

use crate::random::Draw;
use crate::transform::CropMethod;

/// torchvision stops looking for a box after this many tries.
const TRIES: usize = 10;

/// `RandomResizedCrop`'s box.
pub(super) fn random_resized(
    image: Size,
    scale: (f64, f64),
    ratio: (f64, f64),
    method: CropMethod,
    draw: &mut Draw,
) -> Region {
    match method {
        CropMethod::Torchvision => by_tries(image, scale, ratio, draw),
        CropMethod::Direct => directly(image, scale, ratio, draw),
    }
}

/// torchvision's sampling: area and log-uniform ratio, rejected until the box fits.
fn by_tries(image: Size, scale: (f64, f64), ratio: (f64, f64), draw: &mut Draw) -> Region {
    let area = image.area() as f64;
    for _ in 0..TRIES {
        let target = area * draw.between(scale.0, scale.1);
        let aspect = draw.between(ratio.0.ln(), ratio.1.ln()).exp();
        // As Python's round(): halves to even.
        let width = (target * aspect).sqrt().round_ties_even() as u64;
        let height = (target / aspect).sqrt().round_ties_even() as u64;
        if width > 0 && width <= u64::from(image.width) && height > 0 && height <= u64::from(image.height) {
            return place(image, width as u32, height as u32, draw);
        }
    }
    middle(image, ratio)
}

/// The largest box in the centre whose ratio is allowed: torchvision's fallback.
fn middle(image: Size, ratio: (f64, f64)) -> Region {
    let aspect = f64::from(image.width) / f64::from(image.height);
    let (mut width, mut height) = (image.width, image.height);
    if aspect < ratio.0 {
        height = ((f64::from(width) / ratio.0).round_ties_even() as u32).clamp(1, image.height);
    } else if aspect > ratio.1 {
        width = ((f64::from(height) * ratio.1).round_ties_even() as u32).clamp(1, image.width);
    }
    Region::new((image.width - width) / 2, (image.height - height) / 2, width, height)
}

/// Without tries: draws the ratio, then the area among those that fit the image at this ratio, then the place.
///
/// With ratio `r` a box of area `a` is `√(a·r)` wide and `√(a/r)` high; it fits while `a ≤ min(W²/r, H²·r)`. If the
/// whole scale range fits, this is torchvision's distribution; if not, torchvision would draw again and so
/// favour ratios that fit large areas.
fn directly(image: Size, scale: (f64, f64), ratio: (f64, f64), draw: &mut Draw) -> Region {
    let (w, h) = (f64::from(image.width), f64::from(image.height));
    let aspect = draw.between(ratio.0.ln(), ratio.1.ln()).exp();
    let largest = (w * w / aspect).min(h * h * aspect);
    let high = (scale.1 * w * h).min(largest);
    let low = (scale.0 * w * h).min(high);
    let area = draw.between(low, high);
    let width = ((area * aspect).sqrt().round_ties_even() as u32).clamp(1, image.width);
    let height = ((area / aspect).sqrt().round_ties_even() as u32).clamp(1, image.height);
    place(image, width, height, draw)
}

/// A box of this size at a random place inside the image.
pub(super) fn place(image: Size, width: u32, height: u32, draw: &mut Draw) -> Region {
    let y = draw.below(u64::from(image.height - height) + 1) as u32;
    let x = draw.below(u64::from(image.width - width) + 1) as u32;
    Region::new(x, y, width, height)
}

/// The size after `Resize(shorter)`: torchvision truncates the longer side and caps it at `max_size`.
pub(super) fn shorter_side(image: Size, shorter: u32, max_size: Option<u32>) -> Size {
    let (short, long) = (image.width.min(image.height), image.width.max(image.height));
    let mut new_short = u64::from(shorter);
    let mut new_long = (f64::from(shorter) * f64::from(long) / f64::from(short)) as u64;
    if let Some(max) = max_size.map(u64::from).filter(|max| new_long > *max) {
        new_short = (max as f64 * new_short as f64 / new_long as f64) as u64;
        new_long = max;
    }
    let (short, long) =
        (new_short.clamp(1, u64::from(u32::MAX)) as u32, new_long.clamp(1, u64::from(u32::MAX)) as u32);
    if image.width <= image.height { Size::new(short, long) } else { Size::new(long, short) }
}

/// The size whose longer side is `longer`: torchvision truncates the other one.
pub(super) fn longer_side(image: Size, longer: u32) -> Size {
    let (short, long) = (image.width.min(image.height), image.width.max(image.height));
    let other = (f64::from(longer) * f64::from(short) / f64::from(long)).max(1.0) as u32;
    if image.width <= image.height { Size::new(other, longer) } else { Size::new(longer, other) }
}

/// Both sides times `factor`, truncated, at least one pixel.
pub(super) fn scaled(image: Size, factor: f64) -> Size {
    let side = |side: u32| ((f64::from(side) * factor) as u64).clamp(1, u64::from(u32::MAX)) as u32;
    Size::new(side(image.width), side(image.height))
}

/// FFCV's centre box: a square of `ratio` times the shorter side.
pub(super) fn center_square(image: Size, ratio: f64) -> Region {
    let side = ((f64::from(image.width.min(image.height)) * ratio) as u32).max(1);
    Region::new((image.width - side) / 2, (image.height - side) / 2, side, side)
}

/// Index of the size in `sizes` (height, width) with the nearest aspect ratio to an image of this height and width; the
/// first of equal ones. `sizes` must not be empty.
pub(crate) fn nearest_ratio(height: u32, width: u32, sizes: &[(u32, u32)]) -> usize {
    let ratio = |height: u32, width: u32| (f64::from(width) / f64::from(height)).ln();
    let distance = |at: &usize| (ratio(sizes[*at].0, sizes[*at].1) - ratio(height, width)).abs();
    (0..sizes.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
}

/// The largest box in the centre with the aspect ratio of `size`.
pub(super) fn center_of_ratio(image: Size, size: Size) -> Region {
    let (iw, ih) = (u64::from(image.width), u64::from(image.height));
    let (w, h) = (u64::from(size.width), u64::from(size.height));
    let (width, height) = if iw * h > ih * w { ((ih * w / h).max(1), ih) } else { (iw, (iw * h / w).max(1)) };
    let (width, height) = (width as u32, height as u32);
    Region::new((image.width - width) / 2, (image.height - height) / 2, width, height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCALE: (f64, f64) = (0.08, 1.0);
    const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);

    proptest! {
        #[test]
        fn boxes_lie_inside(w in 1u32..3000, h in 1u32..3000, seed: u64, direct: bool) {
            let method = if direct { CropMethod::Direct } else { CropMethod::Torchvision };
            let region = random_resized(Size::new(w, h), SCALE, RATIO, method, &mut Draw::new(&[seed]));
            prop_assert!(region.check_inside(Size::new(w, h)).is_ok());
        }
    }

    #[test]
    fn direct_and_tried_boxes_agree_where_everything_fits() {
        // With areas up to half the image every ratio fits, so nothing is rejected.
        let image = Size::new(500, 400);
        let mean = |method| {
            let area =
                |i| random_resized(image, (0.1, 0.5), RATIO, method, &mut Draw::new(&[9, i])).size().area();
            (0..20_000).map(area).sum::<u64>() as f64 / 20_000.0 / image.area() as f64
        };
        let (tried, direct) = (mean(CropMethod::Torchvision), mean(CropMethod::Direct));
        assert!((tried - 0.3).abs() < 0.005 && (direct - 0.3).abs() < 0.005, "{tried} {direct}");
    }

    #[test]
    fn boxes_of_a_ratio_are_as_large_as_they_can_be() {
        assert_eq!(center_of_ratio(Size::new(400, 300), Size::new(32, 32)), Region::new(50, 0, 300, 300));
        assert_eq!(center_of_ratio(Size::new(300, 400), Size::new(32, 16)), Region::new(0, 125, 300, 150));
        assert_eq!(nearest_ratio(100, 210, &[(8, 8), (8, 16), (16, 8)]), 1);
        assert_eq!(nearest_ratio(210, 100, &[(8, 8), (8, 16), (16, 8)]), 2);
    }

    #[test]
    fn shorter_side_truncates_as_torchvision() {
        assert_eq!(shorter_side(Size::new(500, 375), 256, None), Size::new(341, 256));
        assert_eq!(shorter_side(Size::new(375, 500), 256, None), Size::new(256, 341));
        assert_eq!(shorter_side(Size::new(1000, 100), 256, Some(300)), Size::new(300, 30));
        assert_eq!(shorter_side(Size::new(5000, 1), 1, None), Size::new(5000, 1));
    }
}
