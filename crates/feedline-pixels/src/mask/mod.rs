//! Boxes of one colour on an image, and scenes: an image on a canvas, blended with a background.

mod scalar;

use crate::effect::Overlay;
use crate::spectrum::Spectrum;
use crate::{Error, ImageMut, ImageRef, Region, Result, Size};

/// Boxes of one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxes {
    /// Places of the boxes; parts outside the image are cut.
    pub regions: Vec<Region>,
    /// Red, green, blue.
    pub fill: [u8; 3],
}

/// Background of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Background {
    /// Red, green, blue.
    Colour([u8; 3]),
    /// Noise whose power falls as 1/f^alpha.
    PowerLaw {
        /// 0 is white noise, 2 is as in natural images.
        alpha: f32,
        /// Whether each channel has its own noise; otherwise it is grey.
        coloured: bool,
        /// Seed of the noise.
        seed: u64,
        /// Means of the channels, in levels.
        mean: [f32; 3],
        /// Distance of the lowest and highest value from the mean, in levels.
        spread: [f32; 3],
    },
}

/// How an image is blended with its background, by distance from its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fade {
    /// Not at all: the image is opaque.
    None,
    /// Opaque up to `radius`, then a Gaussian decrease.
    Gaussian {
        /// Radius in pixels.
        radius: f32,
        /// Standard deviation in pixels.
        sigma: f32,
    },
    /// Opaque up to `inner`, transparent from `outer` on, half a cosine between.
    Cosine {
        /// Inner radius in pixels.
        inner: f32,
        /// Outer radius in pixels.
        outer: f32,
    },
}

impl Fade {
    /// The image's weight at this distance.
    pub(crate) fn share(self, distance: f32) -> f32 {
        match self {
            Fade::None => 1.0,
            Fade::Gaussian { radius, sigma } => {
                let beyond = (distance - radius).max(0.0) / sigma.max(1e-6);
                (-0.5 * beyond * beyond).exp()
            }
            Fade::Cosine { inner, outer } => {
                let way = ((distance - inner) / (outer - inner).max(1e-6)).clamp(0.0, 1.0);
                0.5 + 0.5 * (way * std::f32::consts::PI).cos()
            }
        }
    }
}

/// An image on a canvas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    /// Size of the result.
    pub canvas: Size,
    /// Column and row of the image's corner; may be outside.
    pub corner: (i32, i32),
    /// Background behind the image.
    pub background: Background,
    /// Transition from image to background.
    pub fade: Fade,
    /// Opacity of the image: 1 is opaque, 0 is invisible.
    pub opacity: f32,
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct SceneScratch {
    spectrum: Spectrum,
    field: Vec<f32>,
}

pub(crate) fn cover(boxes: &Boxes, image: &mut ImageMut<'_>) {
    for region in &boxes.regions {
        scalar::cover(*region, boxes.fill, image);
    }
}

pub(crate) fn compose(
    scratch: &mut SceneScratch,
    scene: &Scene,
    from: ImageRef<'_>,
    to: &mut ImageMut<'_>,
) -> Result<()> {
    match scene.background {
        Background::Colour(colour) => scalar::cover(Region::whole(to.size), colour, to),
        Background::PowerLaw { alpha, coloured, seed, mean, spread } => {
            let SceneScratch { spectrum, field } = scratch;
            for channel in 0..3 {
                if channel == 0 || coloured {
                    spectrum.field(to.size, alpha, seed.wrapping_add(channel as u64), field)?;
                }
                scalar::write_channel(field, channel, mean[channel], spread[channel], to);
            }
        }
    }
    scalar::paste(scene, from, to);
    Ok(())
}

/// Blends an image of the same size over `image`.
pub(crate) fn overlay(overlay: &Overlay, image: &mut ImageMut<'_>) -> Result<()> {
    let area = image.size.area();
    if overlay.shares.len() as u64 != area || overlay.pixels.len() as u64 != 3 * area {
        return Err(Error::Misuse(format!(
            "an overlay of {} pixels does not fit an image of {}x{} (height x width)",
            overlay.shares.len(),
            image.size.height,
            image.size.width
        )));
    }
    scalar::overlay(overlay, image);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    #[test]
    fn images_are_blended_into_their_background() {
        let size = Size::new(40, 40);
        let bytes = vec![200u8; 40 * 40 * 4];
        let from = ImageRef::new(&bytes, size, 160, PixelLayout::Rgbx).unwrap();
        let mut out = vec![0; 60 * 50 * 4];
        let canvas = Size::new(60, 50);
        let mut to = ImageMut::new(&mut out, canvas, 240, PixelLayout::Rgbx).unwrap();
        let fade = Fade::Cosine { inner: 5.0, outer: 15.0 };
        let background = Background::Colour([10, 20, 30]);
        let scene = Scene { canvas, corner: (10, 5), background, fade, opacity: 1.0 };
        compose(&mut SceneScratch::default(), &scene, from, &mut to).unwrap();
        let at = |x: usize, y: usize| &out[(y * 60 + x) * 4..][..3];
        assert_eq!(at(30, 25), [200; 3]);
        assert_eq!(at(0, 0), [10, 20, 30]);
        assert_eq!(at(11, 6), [10, 20, 30]);
        let between = at(40, 25)[0];
        assert!(between > 60 && between < 150, "{between}");
    }
}
