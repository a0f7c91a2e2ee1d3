//! Images: determines the size, decodes what the program's first pass needs, and passes it on.
//!
//! The usual way is one pass: the JPEG decoder passes on strips of the crop box while they are in the cache, and the
//! renderer turns them into the batch's row. Images that must be rotated (EXIF), that are not JPEGs, or that have
//! several views are decoded into whole pixel buffers first.

use std::ops::Range;
use std::time::{Duration, Instant};

use feedline_pixels::jpeg::{self, Recording, Scale};
use feedline_pixels::pieces::Form;
use feedline_pixels::{
    Decoder, Error, Filter, Finish, Geometry, ImageMut, ImageRef, Orientation, PixelLayout, Region, Result,
    Size, append_rgbx, check_amount, fit, reserve,
};
use feedline_pixels::{dct, yuv};

use super::run::Runner;
use crate::sample::{ImageEncoding, ImageMeta};
use crate::spec::{DecodeMode, LoaderOptions};
use crate::transform::Program;

/// The form of the pieces in which a stored image can be read; `None` for files.
pub(crate) fn form_of(encoding: ImageEncoding) -> Option<Form> {
    match encoding {
        ImageEncoding::Rgb => Some(Form::Rgb),
        ImageEncoding::Yuv420 => Some(Form::Yuv420),
        ImageEncoding::Dct => Some(Form::Dct),
        ImageEncoding::Compact => Some(Form::Compact),
        _ => None,
    }
}

/// One encoded image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredImage<'a> {
    pub(crate) bytes: &'a [u8],
    /// Seek index, or empty.
    pub(crate) index: &'a [u8],
    /// What the store knows; unknown parts are read from the bytes.
    pub(crate) meta: ImageMeta,
}

/// An image whose size, orientation and encoding are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedImage<'a> {
    bytes: &'a [u8],
    index: Option<&'a [u8]>,
    encoding: ImageEncoding,
    stored: Size,
    orientation: Orientation,
}

impl<'a> StoredImage<'a> {
    /// The same, with an end marker added in `ended` if it is a JPEG without one: missing pixels become grey then, as
    /// in Pillow with `LOAD_TRUNCATED_IMAGES`.
    pub(crate) fn with_end(self, ended: &'a mut Vec<u8>) -> Result<Self> {
        if !self.bytes.starts_with(&[0xff, 0xd8, 0xff]) || jpeg::check_end(self.bytes).is_ok() {
            return Ok(self);
        }
        ended.clear();
        reserve(ended, self.bytes.len() + 2)?;
        ended.extend_from_slice(self.bytes);
        ended.extend_from_slice(&[0xff, 0xd9]);
        Ok(StoredImage { bytes: ended, index: &[], meta: self.meta })
    }

    /// The same, with `page` of a file of several pages copied to `chosen` as the first; pages count from 0.
    pub(crate) fn with_page(self, page: usize, chosen: &'a mut Vec<u8>) -> Result<Self> {
        if page == 0 {
            return Ok(self);
        }
        feedline_pixels::select_page(self.bytes, page, chosen)?;
        // What the store knows is about the first page.
        Ok(StoredImage { bytes: chosen, index: &[], meta: ImageMeta::UNKNOWN })
    }

    /// Reads the header if the store does not know it already.
    pub(crate) fn open(&self) -> Result<OpenedImage<'a>> {
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
        Ok(OpenedImage { bytes: self.bytes, index, encoding, stored, orientation })
    }
}

impl<'a> OpenedImage<'a> {
    /// The same, without rotation.
    pub(crate) fn as_stored(self) -> Self {
        OpenedImage { orientation: Orientation::Upright, ..self }
    }

    /// The bytes of an image file; `None` for pixels that a pack stores in its own form.
    pub(crate) fn file(&self) -> Option<&'a [u8]> {
        matches!(self.encoding, ImageEncoding::File | ImageEncoding::Jpeg).then_some(self.bytes)
    }

    /// Width and height before EXIF orientation.
    pub(crate) fn stored_size(&self) -> Size {
        self.stored
    }

    /// Width and height after EXIF orientation.
    pub(crate) fn upright_size(&self) -> Size {
        self.orientation.turn_size(self.stored)
    }

    /// Returns an error unless the image is within the limit and its bytes can contain it. Call it before allocating.
    pub(crate) fn check(&self, max_pixels: u64) -> Result<()> {
        self.check_length(self.bytes.len() as u64, max_pixels)
    }

    /// The same for an image of this length whose bytes are not there yet. Files need them.
    pub(crate) fn check_length(&self, length: u64, max_pixels: u64) -> Result<()> {
        check_area(self.stored, max_pixels)?;
        let area = self.stored.area();
        let (codec, needed) = match self.encoding {
            ImageEncoding::Rgb => ("rgb", area.saturating_mul(3)),
            ImageEncoding::Yuv420 => ("yuv420", yuv::encoded_bytes(self.stored)),
            // Two bytes for every block of 8 x 8, even if the rest is left out.
            ImageEncoding::Dct => ("dct", area / 32),
            // A DC coefficient takes at least four bits (the width) per group of eight.
            ImageEncoding::Compact => ("compact", area / 1024),
            _ => return check_amount(self.bytes, self.stored),
        };
        if length >= needed {
            return Ok(());
        }
        let Size { width, height } = self.stored;
        let reason = format!("{length} bytes, {needed} needed for {width}x{height}");
        Err(Error::Truncated { codec, reason })
    }

    /// Whether the decoder can write three bytes per pixel to any place.
    fn decodes_anywhere(&self) -> bool {
        matches!(self.encoding, ImageEncoding::Jpeg | ImageEncoding::Dct | ImageEncoding::Compact)
    }

    /// Whether the image can be decoded in one pass.
    pub(crate) fn streams(&self) -> bool {
        self.encoding != ImageEncoding::File && self.orientation == Orientation::Upright
    }
}

/// Time spent on one image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RenderTime {
    pub(crate) decode: Duration,
    pub(crate) transform: Duration,
}

/// The decoded part of an image for one view.
#[derive(Debug)]
struct DecodedBox {
    /// Position of the pixels, upright, at their scale. Empty if they are in the first box, with those of the others.
    region: Region,
    pixels: Vec<u8>,
    /// The view's first pass at the scale of the pixels.
    geometry: Geometry,
}

/// The smallest region around both.
fn around(a: Region, b: Region) -> Region {
    let (x, y) = (a.x.min(b.x), a.y.min(b.y));
    Region::new(x, y, a.right().max(b.right()) - x, a.bottom().max(b.bottom()) - y)
}

/// A thread's decoder with all its scratch memory.
#[derive(Debug)]
pub(crate) struct ImageDecoder {
    jpeg: jpeg::Decoder,
    dct: dct::Decoder,
    yuv: yuv::Decoder,
    other: Decoder,
    runner: Runner,
    boxes: Vec<DecodedBox>,
    turned: Vec<u8>,
    /// Set if all views are cut from the pixels in `other`: the position of their corner in the image.
    shared: Option<(u32, u32)>,
    max_pixels: u64,
}

impl ImageDecoder {
    /// Creates a decoder that refuses images of more than `max_pixels`.
    pub(crate) fn new(max_pixels: u64) -> Self {
        ImageDecoder {
            jpeg: jpeg::Decoder::new().with_pixel_limit(max_pixels),
            dct: dct::Decoder::new().with_pixel_limit(max_pixels),
            yuv: yuv::Decoder::default(),
            other: Decoder::with_max_pixels(max_pixels),
            runner: Runner::default(),
            boxes: Vec::new(),
            turned: Vec::new(),
            shared: None,
            max_pixels,
        }
    }

    /// Whether the following decodes of JPEGs record a seek index, for [`take_index`](Self::take_index).
    pub(crate) fn record(&mut self, recording: Recording) {
        self.jpeg.record(recording);
    }

    /// The seek index that the last decode recorded, if it knows more than the image's own.
    pub(crate) fn take_index(&mut self) -> Option<Vec<u8>> {
        self.jpeg.take_index()
    }

    /// Applies the options for image files.
    pub(crate) fn set_up(&mut self, options: &LoaderOptions) {
        self.other.set_upright(options.exif_transpose);
        self.other.set_background(options.background);
        self.other.set_allow_truncated(options.allow_truncated);
    }

    /// Decodes `opened` and runs `program` on it, into `out`.
    pub(crate) fn render(
        &mut self,
        opened: &OpenedImage<'_>,
        program: &Program,
        finish: &Finish,
        mode: DecodeMode,
        out: &mut [u8],
    ) -> Result<RenderTime> {
        if opened.streams() {
            return self.stream(opened, program, finish, mode, out);
        }
        let begun = Instant::now();
        if opened.encoding == ImageEncoding::File {
            opened.check(self.max_pixels)?;
            let (geometry, filter) = first(program)?;
            let whole = Region::whole(geometry.image);
            let (part, image) =
                self.other.decode_part(opened.bytes, geometry.needed(filter).unwrap_or(whole))?;
            let decode = begun.elapsed();
            self.runner.run(program, geometry, image, (part.x, part.y), finish, out)?;
            return Ok(RenderTime { decode, transform: begun.elapsed().saturating_sub(decode) });
        }
        self.decode_views(opened, &[program], mode)?;
        let decode = begun.elapsed();
        self.render_view(0, program, finish, out)?;
        Ok(RenderTime { decode, transform: begun.elapsed().saturating_sub(decode) })
    }

    /// Decodes what several programs need of one image; shared parts are decoded once.
    pub(crate) fn decode_views(
        &mut self,
        opened: &OpenedImage<'_>,
        programs: &[&Program],
        mode: DecodeMode,
    ) -> Result<()> {
        let scale = shared_scale(opened, programs, mode)?;
        self.boxes.resize_with(programs.len().max(1), DecodedBox::default);
        for (decoded, program) in self.boxes.iter_mut().zip(programs) {
            decoded.geometry = scale.reduced(first(program)?.0);
        }
        self.shared = None;
        match opened.encoding {
            ImageEncoding::Jpeg => self.decode_jpeg_boxes(opened, programs, scale),
            ImageEncoding::File => self.decode_shared_part(opened, programs),
            _ => self.decode_first_box(opened, programs, scale),
        }
    }

    /// Decodes an image file once, as far as any view needs it; all views are then cut from that part.
    fn decode_shared_part(&mut self, opened: &OpenedImage<'_>, programs: &[&Program]) -> Result<()> {
        opened.check(self.max_pixels)?;
        let needed = self.needed_by_all(programs)?;
        let needed = needed.unwrap_or(Region::whole(opened.upright_size()));
        let (part, _) = self.other.decode_part(opened.bytes, needed)?;
        self.shared = Some((part.x, part.y));
        Ok(())
    }

    /// Decodes what a pack stores in its own form once, as far as any view needs it; all views are then cut from the
    /// first box.
    fn decode_first_box(
        &mut self,
        opened: &OpenedImage<'_>,
        programs: &[&Program],
        scale: Scale,
    ) -> Result<()> {
        opened.check(self.max_pixels)?;
        let size = scale.apply(opened.stored);
        let upright = Region::whole(opened.orientation.turn_size(size));
        let hull = self.needed_by_all(programs)?.unwrap_or(Region { width: 1, height: 1, ..upright });
        for decoded in &mut self.boxes {
            decoded.region = Region::new(0, 0, 0, 0);
        }
        self.boxes[0].region = hull;
        self.fill_first_box(opened, opened.orientation.to_stored(hull, size), scale)
    }

    /// Decodes this part of the stored image and turns it upright, into the pixels of the first box.
    fn fill_first_box(&mut self, opened: &OpenedImage<'_>, part: Region, scale: Scale) -> Result<()> {
        let ImageDecoder { dct, yuv, boxes, turned, .. } = self;
        let pixels = &mut boxes[0].pixels;
        pixels.clear();
        reserve(pixels, part.size().area() as usize * 4)?;
        if opened.encoding == ImageEncoding::Rgb {
            return append_rgbx(opened.orientation.apply(raw_rgb(opened)?.crop(part)?, turned)?, pixels);
        }
        let mut take = |_: u32, strip: ImageRef<'_>| copy_rgbx(strip, pixels);
        match opened.encoding {
            ImageEncoding::Dct | ImageEncoding::Compact => {
                dct.decode_region(opened.bytes, part, scale, PixelLayout::Rgbx, &mut take)?;
            }
            ImageEncoding::Yuv420 => {
                yuv.decode_region(opened.bytes, opened.stored, part, PixelLayout::Rgbx, &mut take)?;
            }
            _ => return Err(Error::Misuse("files and JPEGs are decoded elsewhere".to_owned())),
        }
        turn(opened.orientation, part.size(), pixels, turned)
    }

    /// The smallest region that contains what each program needs; `None` if none needs anything.
    fn needed_by_all(&self, programs: &[&Program]) -> Result<Option<Region>> {
        let mut hull: Option<Region> = None;
        for (decoded, program) in self.boxes.iter().zip(programs) {
            if let Some(needed) = decoded.geometry.needed(first(program)?.1) {
                hull = Some(hull.map_or(needed, |hull| around(hull, needed)));
            }
        }
        Ok(hull)
    }

    fn decode_jpeg_boxes(
        &mut self,
        opened: &OpenedImage<'_>,
        programs: &[&Program],
        scale: Scale,
    ) -> Result<()> {
        let size = scale.apply(opened.stored);
        let whole = Region::whole(opened.orientation.turn_size(size));
        let mut stored = Vec::with_capacity(programs.len());
        for (decoded, program) in self.boxes.iter_mut().zip(programs) {
            let needed = decoded.geometry.needed(first(program)?.1);
            // A view that shows nothing of the image still needs a pixel.
            decoded.region = needed.unwrap_or(Region { width: 1, height: 1, ..whole });
            fit(&mut decoded.pixels, decoded.region.size().area() as usize * 4, 0)?;
            stored.push(opened.orientation.to_stored(decoded.region, size));
        }
        let outs = self.boxes.iter_mut().zip(&stored).map(|(decoded, region)| {
            ImageMut::new(&mut decoded.pixels, region.size(), region.width as usize * 4, PixelLayout::Rgbx)
        });
        let mut outs = outs.collect::<Result<Vec<_>>>()?;
        self.jpeg.decode_many(opened.bytes, opened.index, &stored, scale, &mut outs)?;
        for (decoded, region) in self.boxes.iter_mut().zip(&stored) {
            turn(opened.orientation, region.size(), &mut decoded.pixels, &mut self.turned)?;
        }
        Ok(())
    }

    /// Runs the program of view `number` on what [`decode_views`](Self::decode_views) decoded for it.
    pub(crate) fn render_view(
        &mut self,
        number: usize,
        program: &Program,
        finish: &Finish,
        out: &mut [u8],
    ) -> Result<()> {
        let ImageDecoder { runner, boxes, other, shared, .. } = self;
        let own = boxes.get(number).ok_or_else(no_view)?;
        if let Some(origin) = *shared {
            let image = other.last().ok_or_else(no_view)?;
            return runner.run(program, &own.geometry, image, origin, finish, out);
        }
        let DecodedBox { region, pixels, .. } = if own.region.width > 0 { own } else { &boxes[0] };
        let image = ImageRef::new(pixels, region.size(), region.width as usize * 4, PixelLayout::Rgbx)?;
        runner.run(program, &own.geometry, image, (region.x, region.y), finish, out)
    }

    /// Decode and render in one pass over strips.
    fn stream(
        &mut self,
        opened: &OpenedImage<'_>,
        program: &Program,
        finish: &Finish,
        mode: DecodeMode,
        out: &mut [u8],
    ) -> Result<RenderTime> {
        let begun = Instant::now();
        let scale = shared_scale(opened, &[program], mode)?;
        let (geometry, filter) = first(program)?;
        let geometry = scale.reduced(geometry);
        if program.only_crops() && is_crop(&geometry) && finish.is_packed_bytes() && opened.decodes_anywhere()
        {
            self.decode_in_place(opened, geometry.crop, scale, out)?;
            return Ok(RenderTime { decode: begun.elapsed(), transform: Duration::ZERO });
        }
        let mut transform = Duration::ZERO;
        let mut rendering = self.runner.begin(program, &geometry, finish, out)?;
        if let Some(needed) = geometry.needed(filter) {
            let mut failure = Ok(());
            let mut take = |y: u32, strip: ImageRef<'_>| {
                let begun = Instant::now();
                if failure.is_ok() {
                    failure = rendering.push((needed.x, needed.y + y), strip);
                }
                transform += begun.elapsed();
            };
            let (bytes, layout) = (opened.bytes, PixelLayout::Rgbx);
            match opened.encoding {
                ImageEncoding::Dct | ImageEncoding::Compact => {
                    self.dct.decode_region(bytes, needed, scale, layout, &mut take)?;
                }
                ImageEncoding::Yuv420 => {
                    check_area(opened.stored, self.max_pixels)?;
                    self.yuv.decode_region(bytes, opened.stored, needed, layout, &mut take)?;
                }
                ImageEncoding::Rgb => take(0, raw_rgb(opened)?.crop(needed)?),
                _ => drop(self.jpeg.decode_region(bytes, opened.index, needed, scale, layout, &mut take)?),
            }
            failure?;
        }
        rendering.finish()?;
        let ended = Instant::now();
        self.runner.end(program, finish, out)?;
        transform += ended.elapsed();
        Ok(RenderTime { decode: begun.elapsed().saturating_sub(transform), transform })
    }
}

impl ImageDecoder {
    /// Decodes a box straight into its result of red, green, blue bytes.
    fn decode_in_place(
        &mut self,
        opened: &OpenedImage<'_>,
        region: Region,
        scale: Scale,
        out: &mut [u8],
    ) -> Result<()> {
        let mut image = ImageMut::new(out, region.size(), region.width as usize * 3, PixelLayout::Rgb)?;
        if opened.encoding == ImageEncoding::Jpeg {
            self.jpeg.decode_into(opened.bytes, opened.index, region, scale, &mut image).map(drop)
        } else {
            self.dct.decode_into(opened.bytes, region, scale, &mut image)
        }
    }
}

/// The stored rows of an image, at the scale of its decode, that these programs need.
pub(crate) fn needed_rows(
    opened: &OpenedImage<'_>,
    programs: &[&Program],
    mode: DecodeMode,
) -> Result<(Range<u32>, Scale)> {
    let scale = shared_scale(opened, programs, mode)?;
    let size = scale.apply(opened.stored);
    let mut hull: Option<Region> = None;
    for program in programs {
        let (geometry, filter) = first(program)?;
        if let Some(needed) = scale.reduced(geometry).needed(filter) {
            hull = Some(hull.map_or(needed, |hull| around(hull, needed)));
        }
    }
    // An image that shows nothing of it is still decoded to a pixel: the upright image's first.
    let part = opened.orientation.to_stored(hull.unwrap_or(Region::new(0, 0, 1, 1)), size);
    Ok((part.y..part.bottom(), scale))
}

/// Whether a geometry only cuts a box out of the image.
fn is_crop(geometry: &Geometry) -> bool {
    *geometry
        == Geometry {
            fill: geometry.fill,
            ..Geometry::crop_resize(geometry.image, geometry.crop, geometry.crop.size())
        }
}

impl Default for DecodedBox {
    fn default() -> Self {
        let geometry = Geometry::identity(Size::new(1, 1));
        DecodedBox { region: Region::new(0, 0, 0, 0), pixels: Vec::new(), geometry }
    }
}

/// The scale at which an image is decoded for these programs: the smallest that is large enough for all.
fn shared_scale(opened: &OpenedImage<'_>, programs: &[&Program], mode: DecodeMode) -> Result<Scale> {
    let scales = [ImageEncoding::Jpeg, ImageEncoding::Dct, ImageEncoding::Compact].contains(&opened.encoding);
    if mode != DecodeMode::Fast || !scales {
        return Ok(Scale::Full);
    }
    let mut least = Scale::Eighth;
    for program in programs {
        least = least.min(Scale::fitting(first(program)?.0));
    }
    Ok(least)
}

fn first(program: &Program) -> Result<(&Geometry, Filter)> {
    program.first().ok_or_else(|| Error::Misuse("a program begins with its geometry".to_owned()))
}

fn no_view() -> Error {
    Error::Misuse("no such view was decoded".to_owned())
}

fn check_area(size: Size, limit: u64) -> Result<()> {
    if size.area() <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { width: size.width, height: size.height, limit })
}

fn raw_rgb<'a>(opened: &OpenedImage<'a>) -> Result<ImageRef<'a>> {
    let size = opened.stored;
    ImageRef::new(opened.bytes, size, size.width as usize * 3, PixelLayout::Rgb)
}

/// Rotates dense pixels of this stored size upright, in place.
fn turn(orientation: Orientation, stored: Size, pixels: &mut Vec<u8>, turned: &mut Vec<u8>) -> Result<()> {
    if orientation != Orientation::Upright {
        let image = ImageRef::new(pixels, stored, stored.width as usize * 4, PixelLayout::Rgbx)?;
        orientation.apply(image, turned)?;
        std::mem::swap(pixels, turned);
    }
    Ok(())
}

/// Appends the rows of a strip of four bytes per pixel to dense pixels; the memory is reserved.
fn copy_rgbx(strip: ImageRef<'_>, into: &mut Vec<u8>) {
    for y in 0..strip.size.height {
        into.extend_from_slice(strip.row(y));
    }
}
