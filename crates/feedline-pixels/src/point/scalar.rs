//! The reference.

use crate::colour::truncated;

fn each(pixels: &mut [u8], change: impl Fn([f32; 3]) -> [u8; 3]) {
    for pixel in pixels.chunks_exact_mut(4) {
        let [red, green, blue] = change([pixel[0], pixel[1], pixel[2]].map(f32::from));
        pixel.copy_from_slice(&[red, green, blue, 255]);
    }
}

fn rounded(value: f32) -> u8 {
    truncated(value + 0.5)
}

pub(super) fn matrix(pixels: &mut [u8], rows: &[[f32; 3]; 3], add: &[f32; 3]) {
    each(pixels, |[r, g, b]| {
        std::array::from_fn(|c| rounded(rows[c][0] * r + rows[c][1] * g + rows[c][2] * b + add[c]))
    });
}

pub(super) fn hsv(pixels: &mut [u8], turn: f32, saturation: f32, value: f32) {
    each(pixels, |colour| {
        let [h, s, v] = to_hsv(colour.map(|level| level / 255.0));
        let turned = (h + turn).rem_euclid(1.0);
        let scaled = [turned, (s * saturation).clamp(0.0, 1.0), (v * value).clamp(0.0, 1.0)];
        to_rgb(scaled).map(|share| rounded(share * 255.0))
    });
}

/// torchvision's shares of red, green and blue in a tensor's grey.
pub(super) const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// torchvision's grey of a tensor's pixel, not yet truncated.
#[inline(always)]
fn tensor_grey([red, green, blue]: [f32; 3]) -> f32 {
    red * GREY[0] + green * GREY[1] + blue * GREY[2]
}

pub(super) fn greys(pixels: &mut [u8]) {
    each(pixels, |colour| [truncated(tensor_grey(colour)); 3]);
}

pub(super) fn grey_sum(pixels: &[u8]) -> u32 {
    let grey = |pixel: &[u8; 4]| tensor_grey([pixel[0], pixel[1], pixel[2]].map(f32::from)) as u32;
    pixels.as_chunks::<4>().0.iter().map(grey).sum()
}

/// The grey's share beside a colour's.
pub(super) fn rest(factor: f32) -> f32 {
    (1.0 - f64::from(factor)) as f32
}

pub(super) fn saturation(pixels: &mut [u8], factor: f32) {
    let rest = rest(factor);
    each(pixels, |colour| {
        let grey = tensor_grey(colour).floor();
        // One rounding, as torch adds a multiple.
        colour.map(|level| truncated(grey.mul_add(rest, level * factor)))
    });
}

/// Scales back with a factor just below 256, so that every level has an equal share of the range from 0 to 1.
pub(super) fn hue(pixels: &mut [u8], turn: f32) {
    each(pixels, |colour| {
        let [h, s, v] = to_hsv(colour.map(|level| level / 255.0));
        to_rgb([(h + turn).rem_euclid(1.0), s, v]).map(|share| truncated(share * (256.0 - 1e-3)))
    });
}

fn to_hsv([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most == least {
        return [0.0, 0.0, most];
    }
    let range = most - least;
    let distance = |channel: f32| (most - channel) / range;
    let sixths = if red == most {
        distance(blue) - distance(green)
    } else if green == most {
        2.0 + distance(red) - distance(blue)
    } else {
        4.0 + distance(green) - distance(red)
    };
    [(sixths / 6.0 + 1.0) % 1.0, range / most, most]
}

fn to_rgb([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    let sixths = hue * 6.0;
    let sector = sixths.floor();
    let fraction = sixths - sector;
    let low = (value * (1.0 - saturation)).clamp(0.0, 1.0);
    let falling = (value * (1.0 - saturation * fraction)).clamp(0.0, 1.0);
    let rising = (value * (1.0 - saturation * (1.0 - fraction))).clamp(0.0, 1.0);
    match sector as i32 % 6 {
        0 => [value, rising, low],
        1 => [falling, value, low],
        2 => [low, value, rising],
        3 => [low, falling, value],
        4 => [rising, low, value],
        _ => [value, low, falling],
    }
}
