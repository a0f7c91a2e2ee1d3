//! Pictures: find the size, decode what the first step needs, render it, and so on through the steps.
//!
//! The usual way is one pass: the JPEG decoder hands over strips of the crop box while they are in the cache, and the
//! renderer turns them into the batch's row. Pictures that must be turned (EXIF), that are not JPEGs, or that take more
//! than one step go through whole pixel buffers.

use std::time::{Duration, Instant};

use feedline_pixels::jpeg::{self, Scale};
use feedline_pixels::{
    Decoder, Error, Finish, ImageMut, ImageRef, Orientation, PixelLayout, Region, Renderer, Result, Size,
    TensorLayout,
};
use feedline_pixels::{dct, yuv};

use crate::sample::{ImageEncoding, ImageMeta};
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

/// A picture whose size, orientation and encoding are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened<'a> {
    bytes: &'a [u8],
    index: Option<&'a [u8]>,
    encoding: ImageEncoding,
    stored: Size,
    orientation: Orientation,
}

impl<'a> Picture<'a> {
    /// Looks at the header if the store does not know it already.
    pub(crate) fn open(&self) -> Result<Opened<'a>> {
        let meta = self.meta;
        let index = (!self.index.is_empty()).then_some(self.index);
        let known = meta.width != 0 && meta.height != 0 && meta.orientation != 0;
        let (encoding, stored, orientation) = if known {
            let orientation = Orientation::from_exif(u32::from(meta.orientation));
            (meta.encoding, Size::new(meta.width, meta.height), orientation)
        } else {
            let header = feedline_pixels::probe(self.bytes)?;
            (ImageEncoding::File, header.size, header.orientation)
        };
        let jpeg = encoding == ImageEncoding::File && self.bytes.starts_with(&[0xff, 0xd8, 0xff]);
        let encoding = if jpeg { ImageEncoding::Jpeg } else { encoding };
        Ok(Opened { bytes: self.bytes, index, encoding, stored, orientation })
    }
}

impl Opened<'_> {
    /// Width and height as a viewer sees them.
    pub(crate) fn upright_size(&self) -> Size {
        self.orientation.turn_size(self.stored)
    }

    /// Whether the one-pass way is open.
    fn streams(&self) -> bool {
        self.encoding != ImageEncoding::File && self.orientation == Orientation::Upright
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
    jpeg: jpeg::Decoder,
    dct: dct::Decoder,
    yuv: yuv::Decoder,
    other: Decoder,
    renderer: Renderer,
    /// Decoded pixels: one box per view, in upright coordinates, or the whole picture.
    boxes: Vec<(Region, Vec<u8>)>,
    turned: Vec<u8>,
    between: [Vec<u8>; 2],
    max_pixels: u64,
}

impl ImageDecoder {
    /// A decoder that refuses pictures of more than `max_pixels`.
    pub(crate) fn new(max_pixels: u64) -> Self {
        ImageDecoder {
            jpeg: jpeg::Decoder::new().with_pixel_limit(max_pixels),
            dct: dct::Decoder::new().with_pixel_limit(max_pixels),
            yuv: yuv::Decoder::default(),
            other: Decoder::with_max_pixels(max_pixels),
            renderer: Renderer::new(),
            boxes: Vec::new(),
            turned: Vec::new(),
            between: Default::default(),
            max_pixels,
        }
    }

    /// Decodes `picture` through `steps` into `out`.
    pub(crate) fn render(
        &mut self,
        picture: &Opened<'_>,
        steps: &[Step],
        finish: &Finish,
        mode: DecodeMode,
        out: &mut [u8],
    ) -> Result<Spent> {
        if let ([step], true) = (steps, picture.streams()) {
            return self.stream(picture, step, finish, mode, out);
        }
        let begun = Instant::now();
        let first = steps.first().ok_or_else(no_steps)?;
        self.decode_views(picture, &[first.geometry.needed(first.filter)])?;
        let decode = begun.elapsed();
        let begun = Instant::now();
        self.render_view(0, steps, finish, out)?;
        Ok(Spent { decode, transform: begun.elapsed() })
    }

    /// Decodes what several views of one picture need, sharing the work on what they have in common. `needed` is each
    /// view's box in upright coordinates; `None` for a view that shows nothing of the picture.
    pub(crate) fn decode_views(&mut self, picture: &Opened<'_>, needed: &[Option<Region>]) -> Result<()> {
        self.boxes.resize_with(needed.len().max(1), || (Region::new(0, 0, 0, 0), Vec::new()));
        if picture.encoding == ImageEncoding::Jpeg {
            return self.decode_jpeg_boxes(picture, needed);
        }
        // The others are decoded whole; all views then cut from the first box.
        check_area(picture.stored, self.max_pixels)?;
        let ImageDecoder { other, dct, yuv, boxes, turned, .. } = self;
        let (region, pixels) = &mut boxes[0];
        *region = Region::whole(picture.upright_size());
        let whole = Region::whole(picture.stored);
        pixels.clear();
        match picture.encoding {
            ImageEncoding::Rgb => copy_rgbx(picture.orientation.apply(raw_rgb(picture)?, turned), pixels),
            ImageEncoding::Dct => {
                let mut take = |_: u32, strip: ImageRef<'_>| copy_rgbx(strip, pixels);
                dct.decode_region(picture.bytes, whole, Scale::Full, PixelLayout::Rgbx, &mut take)?;
                turn(picture, pixels, turned)?;
            }
            ImageEncoding::Yuv420 => {
                let mut take = |_: u32, strip: ImageRef<'_>| copy_rgbx(strip, pixels);
                yuv.decode_region(picture.bytes, picture.stored, whole, PixelLayout::Rgbx, &mut take)?;
                turn(picture, pixels, turned)?;
            }
            _ => copy_rgbx(other.decode_upright(picture.bytes)?.1, pixels),
        }
        for (region, _) in &mut boxes[1..] {
            *region = Region::new(0, 0, 0, 0);
        }
        Ok(())
    }

    fn decode_jpeg_boxes(&mut self, picture: &Opened<'_>, needed: &[Option<Region>]) -> Result<()> {
        let whole = Region::whole(picture.upright_size());
        let mut stored = Vec::with_capacity(needed.len());
        for ((region, pixels), needed) in self.boxes.iter_mut().zip(needed) {
            *region = needed.unwrap_or(Region { width: 1, height: 1, ..whole });
            pixels.resize(region.size().area() as usize * 4, 0);
            stored.push(picture.orientation.to_stored(*region, picture.stored));
        }
        let outs = self.boxes.iter_mut().zip(&stored).map(|((_, pixels), region)| {
            ImageMut::new(pixels, region.size(), region.width as usize * 4, PixelLayout::Rgbx)
        });
        let mut outs = outs.collect::<Result<Vec<_>>>()?;
        self.jpeg.decode_many(picture.bytes, picture.index, &stored, Scale::Full, &mut outs)?;
        if picture.orientation != Orientation::Upright {
            for ((_, pixels), region) in self.boxes.iter_mut().zip(&stored) {
                let image =
                    ImageRef::new(pixels, region.size(), region.width as usize * 4, PixelLayout::Rgbx)?;
                picture.orientation.apply(image, &mut self.turned);
                std::mem::swap(pixels, &mut self.turned);
            }
        }
        Ok(())
    }

    /// Renders view `number` of what [`decode_views`](Self::decode_views) decoded.
    pub(crate) fn render_view(
        &mut self,
        number: usize,
        steps: &[Step],
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        let ImageDecoder { renderer, boxes, between, .. } = self;
        let own = boxes.get(number).filter(|(region, _)| region.width > 0);
        let (region, pixels) = own.or(boxes.first()).ok_or_else(no_steps)?;
        let image = ImageRef::new(pixels, region.size(), region.width as usize * 4, PixelLayout::Rgbx)?;
        through_steps(renderer, between, image, (region.x, region.y), steps, finish, out)
    }

    /// Decode and render in one pass over strips.
    fn stream(
        &mut self,
        picture: &Opened<'_>,
        step: &Step,
        finish: &Finish,
        mode: DecodeMode,
        out: &mut [u8],
    ) -> Result<Spent> {
        let begun = Instant::now();
        let (scale, geometry) = match mode {
            DecodeMode::Fast if matches!(picture.encoding, ImageEncoding::Jpeg | ImageEncoding::Dct) => {
                Scale::reduce(&step.geometry)
            }
            _ => (Scale::Full, step.geometry),
        };
        let mut transform = Duration::ZERO;
        let mut rendering = self.renderer.begin(&geometry, step.filter, finish, out)?;
        if let Some(needed) = geometry.needed(step.filter) {
            let mut failure = Ok(());
            let mut take = |y: u32, strip: ImageRef<'_>| {
                let begun = Instant::now();
                if failure.is_ok() {
                    failure = rendering.push((needed.x, needed.y + y), strip);
                }
                transform += begun.elapsed();
            };
            let (bytes, layout) = (picture.bytes, PixelLayout::Rgbx);
            match picture.encoding {
                ImageEncoding::Dct => self.dct.decode_region(bytes, needed, scale, layout, &mut take)?,
                ImageEncoding::Yuv420 => {
                    check_area(picture.stored, self.max_pixels)?;
                    self.yuv.decode_region(bytes, picture.stored, needed, layout, &mut take)?;
                }
                ImageEncoding::Rgb => take(0, raw_rgb(picture)?.crop(needed)?),
                _ => drop(self.jpeg.decode_region(bytes, picture.index, needed, scale, layout, &mut take)?),
            }
            failure?;
        }
        rendering.finish()?;
        Ok(Spent { decode: begun.elapsed().saturating_sub(transform), transform })
    }
}

fn no_steps() -> Error {
    Error::Misuse("no steps to take".to_owned())
}

fn check_area(size: Size, limit: u64) -> Result<()> {
    if size.area() <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { width: size.width, height: size.height, limit })
}

fn raw_rgb<'a>(picture: &Opened<'a>) -> Result<ImageRef<'a>> {
    let size = picture.stored;
    ImageRef::new(picture.bytes, size, size.width as usize * 3, PixelLayout::Rgb)
}

/// Turns a whole stored picture upright, in place.
fn turn(picture: &Opened<'_>, pixels: &mut Vec<u8>, turned: &mut Vec<u8>) -> Result<()> {
    if picture.orientation != Orientation::Upright {
        let size = picture.stored;
        let image = ImageRef::new(pixels, size, size.width as usize * 4, PixelLayout::Rgbx)?;
        picture.orientation.apply(image, turned);
        std::mem::swap(pixels, turned);
    }
    Ok(())
}

/// Adds the pixels of `image` to a dense RGBX buffer.
fn copy_rgbx(image: ImageRef<'_>, into: &mut Vec<u8>) {
    for y in 0..image.size.height {
        let row = image.row(y);
        match image.layout {
            PixelLayout::Rgbx => into.extend_from_slice(row),
            PixelLayout::Rgb => into.extend(row.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255])),
        }
    }
}

/// Renders `image` (whose corner lies at `origin`) through all steps; steps after the first read 8-bit pixels that the
/// one before made.
fn through_steps(
    renderer: &mut Renderer,
    between: &mut [Vec<u8>; 2],
    image: ImageRef<'_>,
    origin: (u32, u32),
    steps: &[Step],
    finish: &Finish,
    out: &mut [u8],
) -> Result<()> {
    let plain = Finish::bytes(TensorLayout::ChannelsLast);
    let (last, before) = steps.split_last().ok_or_else(no_steps)?;
    let [mut from, mut to] = between.each_mut();
    for (number, step) in before.iter().enumerate() {
        to.resize(plain.output_bytes(step.geometry.output()), 0);
        let (source, corner) =
            if number == 0 { (image, origin) } else { (rgb(from, step.geometry.image)?, (0, 0)) };
        renderer.render_image(source, corner, &step.geometry, step.filter, &plain, to)?;
        std::mem::swap(&mut from, &mut to);
    }
    let (source, corner) =
        if before.is_empty() { (image, origin) } else { (rgb(from, last.geometry.image)?, (0, 0)) };
    renderer.render_image(source, corner, &last.geometry, last.filter, finish, out)
}

fn rgb(bytes: &[u8], size: Size) -> Result<ImageRef<'_>> {
    ImageRef::new(bytes, size, size.width as usize * 3, PixelLayout::Rgb)
}
