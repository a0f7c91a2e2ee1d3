//! Less common operations on whole images; one folder each.

use crate::box_blur::{self, BoxLines};
use crate::clahe::{self, Clahe, ClaheScratch};
use crate::filter2d::{self, Kernel, Wide};
use crate::mask::{self, Boxes, Scene, SceneScratch};
use crate::noise::{self, GaussianNoise, SaltAndPepper};
use crate::patches::{self, Patches};
use crate::recompress::{self, Recompressor};
use crate::sample::{self, Field, Sample};
use crate::{CpuLevel, ImageMut, ImageRef, Result, Size, histogram};

/// One effect.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Noise on every value.
    GaussianNoise(GaussianNoise),
    /// Black and white pixels.
    SaltAndPepper(SaltAndPepper),
    /// Convolution with a kernel.
    Filter(Kernel),
    /// Pillow's Gaussian blur of this radius.
    BoxBlur(f32),
    /// JPEG compression and decompression with this quality.
    Recompress(u8),
    /// Adaptive equalisation.
    Clahe(Clahe),
    /// Patches in another order.
    Patches(Patches),
    /// Filled boxes of one colour.
    Boxes(Boxes),
    /// Placed on a canvas and blended with a background.
    Scene(Scene),
    /// Pixels sampled at other places, as torch's `grid_sample` does.
    Sample(Sample),
    /// Contrast as torchvision changes it on tensors.
    TensorContrast(f32),
    /// Autocontrast as torchvision does it to tensors.
    TensorAutocontrast,
    /// Another image on top: red, green, blue, and the opacity of each pixel.
    Overlay(Overlay),
}

/// An image that is blended over another of the same size.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    /// Red, green, blue of every pixel, from 0 to 255.
    pub pixels: std::sync::Arc<[f32]>,
    /// Opacity of every pixel, from 0 to 1.
    pub shares: std::sync::Arc<[f32]>,
    /// Smallest and largest result.
    pub clamp: (u8, u8),
}

/// Scratch memory of all effects.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    clahe: ClaheScratch,
    boxes: BoxLines,
    wide: Wide,
    scene: SceneScratch,
    field: Field,
    recompressor: Recompressor,
}

impl Effect {
    /// Size of the result for an image of this size.
    pub fn output(&self, before: Size) -> Size {
        match self {
            Effect::Scene(scene) => scene.canvas,
            Effect::Sample(sample) => sample.output,
            _ => before,
        }
    }
}

impl Effects {
    /// The same for red, green and blue bytes, if the effect supports them.
    pub(crate) fn run_packed(
        &mut self,
        level: CpuLevel,
        effect: &Effect,
        from: ImageRef<'_>,
        to: &mut ImageMut<'_>,
    ) -> Option<Result<()>> {
        match effect {
            Effect::Recompress(quality) => {
                Some(recompress::recompress(&mut self.recompressor, *quality, from, to))
            }
            Effect::Filter(kernel) => Some(filter2d::filter(level, &mut self.wide, kernel, from, to)),
            Effect::Clahe(clahe) => {
                for y in 0..from.size.height {
                    to.row_mut(y).copy_from_slice(from.row(y));
                }
                Some(clahe::equalize(&mut self.clahe, clahe, to))
            }
            _ => None,
        }
    }

    /// Writes the result to `to`, which has the effect's output size.
    pub(crate) fn run(
        &mut self,
        level: CpuLevel,
        effect: &Effect,
        from: ImageRef<'_>,
        to: &mut ImageMut<'_>,
    ) -> Result<()> {
        match effect {
            Effect::Filter(kernel) => filter2d::filter(level, &mut self.wide, kernel, from, to),
            Effect::BoxBlur(radius) => box_blur::blur(level, &mut self.boxes, *radius, from, to),
            Effect::Recompress(quality) => recompress::recompress(&mut self.recompressor, *quality, from, to),
            Effect::Patches(patches) => patches::shuffle(patches, from, to),
            Effect::Scene(scene) => mask::compose(&mut self.scene, scene, from, to),
            Effect::Sample(op) => sample::sample(level, &mut self.field, op, from, to),
            in_place => {
                for y in 0..from.size.height {
                    to.row_mut(y).copy_from_slice(from.row(y));
                }
                self.change(level, in_place, to)
            }
        }
    }

    fn change(&mut self, level: CpuLevel, effect: &Effect, image: &mut ImageMut<'_>) -> Result<()> {
        match effect {
            Effect::GaussianNoise(noise) => noise::add_gaussian(noise, image),
            Effect::SaltAndPepper(noise) => noise::salt_and_pepper(noise, image),
            Effect::Boxes(boxes) => mask::cover(boxes, image),
            Effect::Clahe(clahe) => return clahe::equalize(&mut self.clahe, clahe, image),
            Effect::TensorContrast(factor) => histogram::tensor_contrast(level, image, *factor),
            Effect::TensorAutocontrast => histogram::tensor_autocontrast(level, image),
            Effect::Overlay(overlay) => return mask::overlay(overlay, image),
            _ => unreachable!("effects that move pixels are done by `run`"),
        }
        Ok(())
    }
}
