//! Samples as images that a browser shows.

use feedline::apply::{self, DrawFrom};
use feedline::owned::OwnedValue;
use feedline::transform::Transform;
use feedline::transform::ops::Resize;
use feedline::{Dataset, DecodeMode, Error, Result};
use feedline_pixels::{Size, turbo};

use crate::recording;

/// Longest side of a thumbnail.
pub(crate) const MOST_SIDE: u32 = 2048;

/// Colours of classes in a mask; class 0 is not drawn.
const COLOURS: [[u8; 3]; 12] = [
    [230, 25, 75],
    [60, 180, 75],
    [255, 225, 25],
    [0, 130, 200],
    [245, 130, 48],
    [145, 30, 180],
    [70, 240, 240],
    [240, 50, 230],
    [210, 245, 60],
    [250, 190, 212],
    [0, 128, 128],
    [170, 110, 40],
];

/// Red, green and blue bytes, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) height: u32,
    pub(crate) width: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The image in `field` of `sample`, as a JPEG whose longer side is at most `side`. Only as many pixels are decoded as are
/// needed. Of a video it is the first frame, of a sound its wave.
pub fn thumbnail(dataset: &Dataset, sample: u64, field: usize, side: u32) -> Result<Vec<u8>> {
    let pixels = scaled(dataset, sample, field, side)?;
    jpeg(&pixels.bytes, pixels.height, pixels.width)
}

/// The same as pixels.
pub(crate) fn scaled(dataset: &Dataset, sample: u64, field: usize, side: u32) -> Result<Pixels> {
    let value = dataset.get_field(sample, field)?;
    let place = || {
        let name = &dataset.schema().fields[field].name;
        dataset.format().locate(sample).seen_as(sample).with_field(name)
    };
    let (bytes, index, meta) = match value {
        OwnedValue::Image { bytes, index, meta } => (bytes, index, meta),
        OwnedValue::Missing => return Err(Error::data(place(), "the sample lacks this field")),
        OwnedValue::Bytes(bytes) => {
            return recording::image(&bytes, side).map_err(|reason| Error::data(place(), reason));
        }
        _ => return Err(Error::data(place(), "no image")),
    };
    let fit = |size: (u32, u32)| fitted(size, side);
    let made = apply::render_stored((&bytes, &index, meta), fit, DrawFrom::default(), DecodeMode::Fast);
    let made = made.map_err(|e| Error::sample(place(), feedline::error::Stage::Decode, e))?;
    Ok(Pixels { height: made.shape[0] as u32, width: made.shape[1] as u32, bytes: made.bytes })
}

/// A mask field as a PNG, its longer side at most `side`.
pub(crate) fn mask_png(
    dataset: &Dataset,
    sample: u64,
    field: usize,
    side: u32,
) -> std::result::Result<Vec<u8>, String> {
    let made = class_indices(dataset, sample, field, |size| fitted(size, side))?;
    Ok(mask(&class_bytes(&made.bytes), made.shape[0] as u32, made.shape[1] as u32))
}

/// The classes of a mask field, after transforms for its height and width.
pub(crate) fn class_indices(
    dataset: &Dataset,
    sample: u64,
    field: usize,
    transforms: impl FnOnce((u32, u32)) -> Vec<Transform>,
) -> std::result::Result<apply::Applied, String> {
    let value = dataset.get_field(sample, field).map_err(|e| e.to_string())?;
    let OwnedValue::Image { bytes, meta, .. } = value else { return Err("no mask".to_owned()) };
    apply::class_indices((&bytes, meta), transforms)
}

/// Classes of eight bytes as classes of one. Palettes have 256 colours; class 256 looks like class 1.
pub(crate) fn class_bytes(classes: &[u8]) -> Vec<u8> {
    let class = |eight: &[u8]| match i64::from_le_bytes(eight.try_into().unwrap_or_default()) {
        class @ 0..=255 => class as u8,
        class => (class.rem_euclid(254) + 1) as u8,
    };
    classes.chunks_exact(8).map(class).collect()
}

/// What makes an image of this height and width fit.
pub(crate) fn fitted((height, width): (u32, u32), side: u32) -> Vec<Transform> {
    let (longer, side) = (height.max(width).max(1), side.clamp(8, MOST_SIDE));
    if longer <= side {
        return Vec::new();
    }
    let scale = |length: u32| ((u64::from(length) * u64::from(side) / u64::from(longer)) as u32).max(1);
    vec![Resize { size: Some((scale(height), scale(width))), ..Resize::default() }.into()]
}

/// Pixels as a JPEG.
pub fn jpeg(pixels: &[u8], height: u32, width: u32) -> Result<Vec<u8>> {
    let encoding = turbo::Encoding {
        size: Size::new(width, height),
        channels: 3,
        quality: 85,
        sampling: (2, 2),
        restart_interval: 0,
        optimize: false,
        progressive: false,
        arithmetic: false,
        rgb_colors: false,
    };
    turbo::encode(pixels, &encoding).map_err(|e| Error::option("image", e.to_string()))
}

/// Class indices as a PNG with a colour for each class, to be laid over an image. `ignored` is drawn grey.
pub(crate) fn mask(classes: &[u8], height: u32, width: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    let colour = |class: usize| match class {
        0 => [0; 3],
        255 => [128; 3],
        class => COLOURS[(class - 1) % COLOURS.len()],
    };
    encoder.set_palette((0..256).flat_map(colour).collect::<Vec<u8>>());
    let opacity = |class: usize| if class == 0 { 0 } else { 150 };
    encoder.set_trns((0..256).map(opacity).collect::<Vec<u8>>());
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(classes));
    // Into memory nothing can fail but a wrong size, and then there is no image.
    written.map_or_else(|_| Vec::new(), |()| out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_indexed_images() {
        let file = mask(&[0, 1, 2, 255, 1, 0], 2, 3);
        let (height, width, pixels) =
            feedline::encode::decode_image(&file, &[], feedline::field::ImageMeta::UNKNOWN).unwrap();
        assert_eq!((height, width), (2, 3));
        assert_eq!(pixels[3..6], COLOURS[0]);
        assert_eq!(pixels[9..12], [128; 3]);
        assert!(mask(&[0; 5], 2, 3).is_empty());
    }
}
