//! Hue as Pillow changes it: to 8-bit HSV, a wrapping addition, and back. The round trip alone changes colours by a few
//! levels; torchvision does the same to PIL images, and published recipes were trained with it.

/// Rotates the hue of all pixels by `shift` 256ths of the circle.
pub(super) fn hue(pixels: &mut [u8], shift: u8) {
    for pixel in pixels.chunks_exact_mut(4) {
        let (angle, saturation, value) = to_hsv(pixel[0], pixel[1], pixel[2]);
        let [red, green, blue] = to_rgb(angle.wrapping_add(shift), saturation, value);
        pixel.copy_from_slice(&[red, green, blue, 255]);
    }
}

/// Computes in double precision and rounds to single where Pillow does.
#[inline]
fn to_hsv(red: u8, green: u8, blue: u8) -> (u8, u8, u8) {
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most == least {
        return (0, 0, most);
    }
    let range = f32::from(most - least);
    let distance = |channel: u8| f64::from(f32::from(most - channel) / range);
    let sixths = if red == most {
        (distance(blue) as f32 - distance(green) as f32) as f64
    } else if green == most {
        2.0 + distance(red) - distance(blue)
    } else {
        4.0 + distance(green) - distance(red)
    };
    let turns = f64::from(sixths as f32) / 6.0 + 1.0;
    let hue = (if turns >= 1.0 { turns - 1.0 } else { turns }) as f32;
    let saturation = range / f32::from(most);
    ((f64::from(hue) * 255.0) as u8, (f64::from(saturation) * 255.0) as u8, most)
}

#[inline]
fn to_rgb(hue: u8, saturation: u8, value: u8) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let sixths = f64::from(hue) * 6.0 / 255.0;
    let sector = sixths as u8;
    let fraction = (sixths - f64::from(sector)) as f32;
    let saturation = (f64::from(saturation) / 255.0) as f32;
    let scaled = |share: f64| (f64::from(value) * share).round() as u8;
    let low = scaled(1.0 - f64::from(saturation));
    let falling = scaled(1.0 - f64::from(saturation * fraction));
    let rising = scaled(1.0 - f64::from(saturation) * (1.0 - f64::from(fraction)));
    match sector % 6 {
        0 => [value, rising, low],
        1 => [falling, value, low],
        2 => [low, value, rising],
        3 => [low, falling, value],
        4 => [rising, low, value],
        _ => [value, low, falling],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_is_unchanged_and_primaries_rotate() {
        let mut pixels = [9, 9, 9, 255, 255, 0, 0, 255];
        hue(&mut pixels, 85);
        assert_eq!(pixels, [9, 9, 9, 255, 0, 255, 0, 255]);
    }
}
