//! Pictures: find the size, decode what the first step needs, render it, and so on through the steps.

use std::time::{Duration, Instant};

use feedline_pixels::{
    Error, Finish, ImageMut, ImageRef, PixelLayout, Renderer, Result, Size, TensorLayout, turbo,
};

use crate::sample::ImageMeta;
use crate::spec::DecodeMode;
use crate::transform::Step;

/// One encoded picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) bytes: &'a [u8],
    /// Seek index, or empty.
    pub(crate) index: &'a [u8],
    /// What the store knows; unknown parts are found in the bytes.
    pub(crate) meta: ImageMeta,
}

impl Picture<'_> {
    /// Width and height as a viewer sees them.
    pub(crate) fn oriented_size(&self) -> Result<Size> {
        if let Some((height, width)) = self.meta.oriented_size() {
            return Ok(Size::new(width, height));
        }
        let header = turbo::header(self.bytes)?;
        Ok(header.size)
    }
}

/// Time spent on one picture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) decode: Duration,
    pub(crate) transform: Duration,
}

/// A thread's decoder with all its scratch memory.
#[derive(Debug)]
pub(crate) struct ImageDecoder {
    renderer: Renderer,
    pixels: Vec<u8>,
    between: [Vec<u8>; 2],
}

impl ImageDecoder {
    pub(crate) fn new() -> Self {
        ImageDecoder { renderer: Renderer::new(), pixels: Vec::new(), between: Default::default() }
    }

    /// Decodes `picture` through `steps` into `out`.
    pub(crate) fn render(
        &mut self,
        picture: &Picture<'_>,
        steps: &[Step],
        finish: &Finish,
        _mode: DecodeMode,
        max_pixels: u64,
        out: &mut [u8],
    ) -> Result<Spent> {
        let begun = Instant::now();
        let (first, rest) = steps.split_first().ok_or_else(|| Error::Misuse("no steps".to_owned()))?;
        let Some(region) = first.geometry.needed(first.filter) else {
            // Nothing of the picture is wanted: all fill.
            let nothing = ImageRef::new(&[], Size::new(0, 0), 0, PixelLayout::Rgbx)?;
            self.renderer.render_image(nothing, (0, 0), &first.geometry, first.filter, finish, out)?;
            return Ok(Spent::default());
        };
        let stride = region.width as usize * 4;
        self.pixels.resize(stride * region.height as usize, 0);
        let mut view = ImageMut::new(&mut self.pixels, region.size(), stride, PixelLayout::Rgbx)?;
        turbo::decode_region(picture.bytes, region, 8, max_pixels, &mut view)?;
        let decoded = Instant::now();
        let origin = (region.x, region.y);
        let ImageDecoder { renderer, pixels, between } = self;
        let image = ImageRef::new(pixels, region.size(), stride, PixelLayout::Rgbx)?;
        if rest.is_empty() {
            renderer.render_image(image, origin, &first.geometry, first.filter, finish, out)?;
        } else {
            later_steps(renderer, between, image, origin, steps, finish, out)?;
        }
        Ok(Spent { decode: decoded - begun, transform: decoded.elapsed() })
    }
}

/// Steps after the first read 8-bit pixels that the one before made.
fn later_steps(
    renderer: &mut Renderer,
    between: &mut [Vec<u8>; 2],
    image: ImageRef<'_>,
    origin: (u32, u32),
    steps: &[Step],
    finish: &Finish,
    out: &mut [u8],
) -> Result<()> {
    let plain = Finish::bytes(TensorLayout::ChannelsLast);
    let (last, before) = steps.split_last().ok_or_else(|| Error::Misuse("no steps".to_owned()))?;
    let [mut from, mut to] = between.each_mut();
    for (number, step) in before.iter().enumerate() {
        let size = step.geometry.output();
        to.resize(plain.output_bytes(size), 0);
        let (source, corner) =
            if number == 0 { (image, origin) } else { (rgb(from, step.geometry.image)?, (0, 0)) };
        renderer.render_image(source, corner, &step.geometry, step.filter, &plain, to)?;
        std::mem::swap(&mut from, &mut to);
    }
    renderer.render_image(rgb(from, last.geometry.image)?, (0, 0), &last.geometry, last.filter, finish, out)
}

fn rgb(bytes: &[u8], size: Size) -> Result<ImageRef<'_>> {
    ImageRef::new(bytes, size, size.width as usize * 3, PixelLayout::Rgb)
}
