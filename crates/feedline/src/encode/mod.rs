//! HOW IMAGES ARE STORED in a pack: the bridge between the pack writer's hook and `feedline_pixels`.

mod video;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_pixels::{
    Codec, Decoder, Filter, Finish, Geometry, ImageRef, Mode, Number, PixelLayout, Region, Renderer, Size,
    TensorLayout, dct, jpeg, pieces, turbo, yuv,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::field::DType;
use crate::format::{
    EncodedImage, ImageEncoder, ImageInput, KeepImages, OnPackError, PackOptions, original_file,
};
use crate::render::{ImageDecoder, StoredImage, form_of};
use crate::sample::{ImageEncoding, ImageMeta};
use crate::spec::{DecodeMode, LoaderOptions};
use crate::transform::Program;

use video::VideoEncoder;
pub use video::VideoEncoding;

/// Default quality of re-encoded JPEGs: no visible loss, about half the size of quality 95.
const DEFAULT_QUALITY: u8 = 90;

/// Largest size of `compact` relative to the file. Beyond it, the file and its index are smaller and not much slower.
const MOST_GROWTH: f64 = 1.15;

/// Larger images are not packed; the limit is the same as for loading.
const MAX_PIXELS: u64 = Decoder::DEFAULT_MAX_PIXELS;

/// How thoroughly images are checked before they are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackCheck {
    /// Not at all: any bytes are stored. An encoding that has to decode them finds errors all the same.
    None,
    /// The header: a file that is not an image, or is over the pixel limit, is a bad sample.
    Header,
    /// Every pixel: an image that cannot be decoded is a bad sample.
    Decode,
}

/// Settings for writing a pack, as plain data, used by Python and the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PackSettings {
    /// How each image is stored.
    pub image: ImageEncoding,
    /// Shrink images whose shorter side is longer than this.
    pub shorter_side: Option<u32>,
    /// Shrink images whose longer side is longer than this.
    pub longer_side: Option<u32>,
    /// With `jpeg`: re-encode every image with this quality, 1 to 100.
    pub quality: Option<u8>,
    /// With `jpeg`: rewrite progressive JPEGs as baseline ones, without loss, so that they can be indexed.
    pub baseline: bool,
    /// How each video is stored.
    pub video: VideoEncoding,
    /// Approximate size of a part in bytes.
    pub part_bytes: Option<u64>,
    /// Number of threads; 0 for all usable cores.
    pub workers: usize,
    /// What to do with unreadable samples.
    pub on_error: OnPackError,
    /// How thoroughly images are checked. `None`: images are decoded if bad samples are skipped; if a bad sample stops
    /// the packing, they are checked only as far as the encoding needs it.
    pub check: Option<PackCheck>,
    /// Resume an unfinished pack.
    pub resume: bool,
    /// Replace a finished pack.
    pub overwrite: bool,
}

impl Default for PackSettings {
    fn default() -> Self {
        PackSettings {
            image: ImageEncoding::Jpeg,
            shorter_side: None,
            longer_side: None,
            quality: None,
            baseline: false,
            video: VideoEncoding::Keep,
            part_bytes: None,
            workers: 0,
            on_error: OnPackError::Raise,
            check: None,
            resume: true,
            overwrite: false,
        }
    }
}

impl PackSettings {
    /// Checks the settings and creates the encoder.
    pub fn options(&self) -> Result<PackOptions> {
        self.check_settings()?;
        let image: Arc<dyn ImageEncoder> = match self.image {
            // Any bytes are stored; a file that cannot be recognised now is a bad sample at load time.
            ImageEncoding::File => {
                Arc::new(KeepImages::new(|bytes| Ok(probe(bytes).unwrap_or(ImageMeta::UNKNOWN))))
            }
            image => Arc::new(Encoder {
                image,
                shorter_side: self.shorter_side,
                longer_side: self.longer_side,
                quality: self.quality,
                baseline: self.baseline,
                progressive: AtomicU64::new(0),
                rewritten: AtomicU64::new(0),
            }),
        };
        Ok(PackOptions {
            image: self.checked(image)?,
            part_bytes: self.part_bytes,
            workers: self.workers,
            on_error: self.on_error,
            resume: self.resume,
            overwrite: self.overwrite,
        })
    }

    /// Wraps the encoder in the image check.
    fn checked(&self, encoder: Arc<dyn ImageEncoder>) -> Result<Arc<dyn ImageEncoder>> {
        let skips = self.on_error == OnPackError::Skip;
        let check = self.check.unwrap_or(if skips { PackCheck::Decode } else { PackCheck::None });
        // If nothing is skipped, the written bytes do not depend on the check.
        let shown = skips && check != PackCheck::Decode;
        Ok(Arc::new(Checked { encoder, check, shown, video: VideoEncoder::new(self.video)? }))
    }

    fn check_settings(&self) -> Result<()> {
        let resizes = self.shorter_side.is_some() || self.longer_side.is_some();
        if self.image == ImageEncoding::File && (resizes || self.quality.is_some()) {
            return Err(Error::option(
                "image",
                "'as-is' keeps the original bytes; resizing needs another encoding",
            ));
        }
        if self.quality.is_some() && self.image != ImageEncoding::Jpeg {
            return Err(Error::option("quality", "only for image='jpeg'"));
        }
        if self.baseline && !matches!(self.image, ImageEncoding::Jpeg | ImageEncoding::Compact) {
            return Err(Error::option("baseline", "only for image='jpeg' and image='compact'"));
        }
        if self.quality.is_some_and(|q| !(1..=100).contains(&q)) {
            return Err(Error::option("quality", "must be between 1 and 100"));
        }
        for (knob, side) in [("shorter_side", self.shorter_side), ("longer_side", self.longer_side)] {
            if side.is_some_and(|side| !(1..=65_500).contains(&side)) {
                return Err(Error::option(knob, "must be between 1 and 65500"));
            }
        }
        Ok(())
    }
}

/// Reads the size, channels and orientation of an image file from its first bytes.
fn probe(bytes: &[u8]) -> Result<ImageMeta, String> {
    let header = feedline_pixels::probe(bytes).map_err(|e| e.to_string())?;
    let Size { width, height } = header.size;
    // Packs have no room for longer sides, and no image has them.
    if width.max(height) > i32::MAX as u32 {
        return Err(format!("an image of {width}x{height} pixels"));
    }
    Ok(ImageMeta {
        encoding: if header.codec == Codec::Jpeg { ImageEncoding::Jpeg } else { ImageEncoding::File },
        width: header.size.width,
        height: header.size.height,
        channels: header.channels,
        orientation: header.orientation as u8,
    })
}

/// Whether the first bytes are those of a known image format.
pub fn is_image(bytes: &[u8]) -> bool {
    // Text files, too, may begin with the two letters of these formats.
    let is_vague = |codec: Codec| matches!(codec, Codec::Bmp | Codec::Pnm);
    feedline_pixels::sniff(bytes)
        .is_some_and(|codec| !is_vague(codec) || feedline_pixels::probe(bytes).is_ok())
}

/// Decodes one image: height, width, and red, green, blue bytes row by row, rotated as its EXIF says.
pub fn decode_image(
    bytes: &[u8],
    index: &[u8],
    meta: ImageMeta,
) -> std::result::Result<(u32, u32, Vec<u8>), feedline_pixels::Error> {
    let opened = StoredImage { bytes, index, meta }.open()?;
    let limit = LoaderOptions::default().max_pixels;
    opened.check(limit)?;
    let size = opened.upright_size();
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    let mut decoder = ImageDecoder::new(limit);
    let mut pixels = Vec::new();
    feedline_pixels::fit(&mut pixels, finish.output_bytes(size), 0)?;
    decoder.render(&opened, &Program::identity(size), &finish, DecodeMode::Exact, &mut pixels)?;
    Ok((size.height, size.width, pixels))
}

/// The numbers of one image, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Height and width, and the number of channels unless the mode is of one channel.
    pub shape: Vec<u64>,
    /// Type of the numbers.
    pub dtype: DType,
    /// The numbers, in the machine's byte order.
    pub bytes: Vec<u8>,
}

/// Decodes one image to the values of a mode, rotated as its EXIF says. `page` is the page of a file of several pages
/// (TIFF), counted from 0.
pub fn decode_values(
    bytes: &[u8],
    index: &[u8],
    meta: ImageMeta,
    mode: &str,
    page: usize,
) -> std::result::Result<Values, feedline_pixels::Error> {
    if page > 0 {
        let mut chosen = Vec::new();
        feedline_pixels::select_page(bytes, page, &mut chosen)?;
        return decode_values(&chosen, &[], ImageMeta::UNKNOWN, mode, 0);
    }
    let unsupported = |reason: String| feedline_pixels::Error::Unsupported { codec: "image", reason };
    let known = Mode::from_name(mode);
    let mode = known.ok_or_else(|| feedline_pixels::Error::Misuse(format!("there is no mode {mode:?}")))?;
    if mode == Mode::Rgb {
        let (height, width, bytes) = decode_image(bytes, index, meta)?;
        return Ok(Values { shape: vec![u64::from(height), u64::from(width), 3], dtype: DType::U8, bytes });
    }
    let original = original_file(bytes, meta).transpose().map_err(unsupported)?;
    if original.is_none() && !meta.encoding.is_file() {
        let (stored, mode) = (meta.encoding.name(), mode.name());
        return Err(unsupported(format!(
            "images stored as {stored} are decoded to \"RGB\" only, not to {mode:?}"
        )));
    }
    let mut decoder = Decoder::new();
    let (_, image) = decoder.decode_as(original.as_deref().unwrap_or(bytes), mode)?;
    let channels = image.layout.bytes() / image.layout.number().bytes();
    let mut shape = vec![u64::from(image.size.height), u64::from(image.size.width)];
    if channels > 1 {
        shape.push(channels as u64);
    }
    let mut values = Vec::new();
    feedline_pixels::fit(&mut values, image.bytes.len(), 0)?;
    values.copy_from_slice(image.bytes);
    let dtype = match image.layout.number() {
        Number::U8 => DType::U8,
        Number::U16 => DType::U16,
        Number::I32 => DType::I32,
        Number::F32 => DType::F32,
    };
    Ok(Values { shape, dtype, bytes: values })
}

/// Scratch memory of an encoding thread.
struct Scratch {
    jpeg: jpeg::Decoder,
    decoder: Decoder,
    renderer: Renderer,
    pixels: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        jpeg: jpeg::Decoder::new(),
        decoder: Decoder::new(),
        renderer: Renderer::new(),
        pixels: Vec::new(),
    });
}

/// Checks images before they are encoded.
#[derive(Debug)]
struct Checked {
    encoder: Arc<dyn ImageEncoder>,
    check: PackCheck,
    /// Whether the check is part of the plan's identity.
    shown: bool,
    video: VideoEncoder,
}

impl ImageEncoder for Checked {
    fn name(&self) -> String {
        let name = format!("{}{}", self.encoder.name(), self.video.name());
        match self.check {
            PackCheck::None if self.shown => format!("{name} check=none"),
            PackCheck::Header if self.shown => format!("{name} check=header"),
            _ => name,
        }
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        check_image(&input, self.check).map_err(|e| e.to_string())?;
        self.encoder.encode(input, out)
    }

    fn encode_video(&self, bytes: &[u8], out: &mut EncodedImage) -> Result<(), String> {
        self.video.encode(bytes, out)
    }

    fn growth(&self) -> f64 {
        self.encoder.growth()
    }

    fn met(&self) -> Vec<(&'static str, u64)> {
        self.encoder.met()
    }
}

fn check_image(input: &ImageInput<'_>, check: PackCheck) -> feedline_pixels::Result<()> {
    let is_file = matches!(input.meta.encoding, ImageEncoding::File | ImageEncoding::Jpeg);
    match check {
        PackCheck::None => Ok(()),
        PackCheck::Header => {
            let image = StoredImage { bytes: input.bytes, index: &[], meta: input.meta };
            image.open()?.check(MAX_PIXELS)
        }
        PackCheck::Decode if is_file => SCRATCH.with_borrow_mut(|s| s.decoder.decode(input.bytes).map(drop)),
        PackCheck::Decode => decode_image(input.bytes, &[], input.meta).map(drop),
    }
}

/// Encoder for every encoding except `as-is`.
#[derive(Debug)]
struct Encoder {
    image: ImageEncoding,
    shorter_side: Option<u32>,
    longer_side: Option<u32>,
    quality: Option<u8>,
    baseline: bool,
    /// Number of progressive JPEGs that were stored as they are, and that were rewritten.
    progressive: AtomicU64,
    rewritten: AtomicU64,
}

impl ImageEncoder for Encoder {
    fn name(&self) -> String {
        let image = self.image.name();
        let part = |name: &str, value: Option<u32>| value.map(|v| format!(" {name}={v}")).unwrap_or_default();
        format!(
            "{image}{}{}{}{}",
            part("shorter_side", self.shorter_side),
            part("longer_side", self.longer_side),
            part("quality", self.quality.map(u32::from)),
            if self.baseline { " baseline" } else { "" }
        )
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        out.bytes = None;
        out.index.clear();
        let known = input.meta.width != 0 && input.meta.orientation != 0;
        out.meta = if known { input.meta } else { probe(input.bytes)? };
        self.encode_stored(input, out)?;
        if let Some(form) = form_of(out.meta.encoding) {
            let size = Size::new(out.meta.width, out.meta.height);
            out.index = pieces::table(form, size, out.bytes.as_deref().unwrap_or(input.bytes));
        }
        Ok(())
    }

    fn growth(&self) -> f64 {
        self.image.growth()
    }

    fn met(&self) -> Vec<(&'static str, u64)> {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![("progressive", number(&self.progressive)), ("rewritten", number(&self.rewritten))]
    }
}

impl Encoder {
    /// Encodes an image whose meta is in `out`; without a table of pieces.
    fn encode_stored(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        let as_asked = self.image == ImageEncoding::Compact
            && self.target(upright_size(&out.meta)) == upright_size(&out.meta);
        if let Some(file) = original_file(input.bytes, out.meta).filter(|_| !as_asked) {
            out.meta.encoding = ImageEncoding::Jpeg;
            let file = file?;
            let input = ImageInput { bytes: &file, index: &[], meta: out.meta };
            SCRATCH.with_borrow_mut(|scratch| self.encode_with(scratch, input, out))?;
            out.bytes = out.bytes.take().or(Some(file));
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| self.encode_with(scratch, input, out))
    }

    fn encode_with(
        &self,
        scratch: &mut Scratch,
        input: ImageInput<'_>,
        out: &mut EncodedImage,
    ) -> Result<(), String> {
        let size = upright_size(&out.meta);
        let target = self.target(size);
        let raw = matches!(self.image, ImageEncoding::Rgb | ImageEncoding::Yuv420);
        if target != size || self.quality.is_some() || raw {
            self.write_anew(scratch, input.bytes, size, target, out)?;
        }
        if out.meta.encoding != ImageEncoding::Jpeg {
            return Ok(());
        }
        let progressive =
            out.bytes.is_none() && jpeg::probe(input.bytes).is_ok_and(|header| header.progressive);
        if self.baseline && progressive {
            // A damaged file cannot be rewritten; it is stored unchanged.
            out.bytes = turbo::to_baseline(input.bytes, MAX_PIXELS).ok();
        }
        let rewritten = progressive && out.bytes.is_some();
        let bytes = out.bytes.as_deref().unwrap_or(input.bytes);
        // JPEGs whose coefficients cannot be stored (CMYK, 12 bits) are stored unchanged.
        let coefficients = match self.image {
            ImageEncoding::Dct => dct::encode(bytes, MAX_PIXELS).ok(),
            ImageEncoding::Compact => compact(bytes),
            _ => None,
        };
        if let Some(coefficients) = coefficients {
            out.bytes = Some(coefficients);
            out.meta.encoding = self.image;
        } else {
            out.index = scratch.jpeg.build_index(bytes).unwrap_or_default();
            self.progressive.fetch_add(u64::from(progressive && !rewritten), Ordering::Relaxed);
        }
        self.rewritten.fetch_add(u64::from(rewritten), Ordering::Relaxed);
        Ok(())
    }

    /// Size at which an image of size `size` is stored: shrunk to the limits, never enlarged.
    fn target(&self, size: Size) -> Size {
        let (short, long) = (size.width.min(size.height), size.width.max(size.height));
        let ratio = |limit: Option<u32>, side: u32| limit.map_or(1.0, |l| f64::from(l) / f64::from(side));
        let scale = ratio(self.shorter_side, short).min(ratio(self.longer_side, long));
        if scale >= 1.0 {
            return size;
        }
        let side = |n: u32| ((f64::from(n) * scale).round() as u32).max(1);
        Size::new(side(size.width), side(size.height))
    }

    fn write_anew(
        &self,
        scratch: &mut Scratch,
        bytes: &[u8],
        size: Size,
        target: Size,
        out: &mut EncodedImage,
    ) -> Result<(), String> {
        let Scratch { decoder, renderer, pixels, .. } = scratch;
        let (_, image) = decoder.decode_upright(bytes).map_err(|e| e.to_string())?;
        shrink(renderer, image, size, target, pixels)?;
        let encoding = match self.image {
            ImageEncoding::Rgb => {
                out.bytes = Some(pixels.clone());
                ImageEncoding::Rgb
            }
            ImageEncoding::Yuv420 => {
                let image = ImageRef::new(pixels, target, target.width as usize * 3, PixelLayout::Rgb);
                out.bytes = Some(yuv::encode(image.map_err(|e| e.to_string())?));
                ImageEncoding::Yuv420
            }
            _ => {
                let quality = self.quality.unwrap_or(DEFAULT_QUALITY);
                let settings = turbo::Encoding::baseline(target, 3, quality, (2, 2));
                out.bytes = Some(turbo::encode(pixels, &settings).map_err(|e| e.to_string())?);
                ImageEncoding::Jpeg
            }
        };
        out.meta =
            ImageMeta { encoding, width: target.width, height: target.height, channels: 3, orientation: 1 };
        Ok(())
    }
}

/// Encodes a JPEG as `compact`, unless it would grow too much: flat images with their own Huffman tables do.
fn compact(bytes: &[u8]) -> Option<Vec<u8>> {
    let packed = dct::compact::encode(bytes, MAX_PIXELS).ok()?;
    (packed.len() as f64 <= MOST_GROWTH * bytes.len() as f64).then_some(packed)
}

fn upright_size(meta: &ImageMeta) -> Size {
    let (height, width) = meta.oriented_size().unwrap_or((meta.height, meta.width));
    Size::new(width, height)
}

fn shrink(
    renderer: &mut Renderer,
    image: ImageRef<'_>,
    size: Size,
    target: Size,
    pixels: &mut Vec<u8>,
) -> Result<(), String> {
    let finish = Finish::bytes(TensorLayout::ChannelsLast);
    let geometry = Geometry::crop_resize(size, Region::whole(size), target);
    feedline_pixels::fit(pixels, finish.output_bytes(target), 0).map_err(|e| e.to_string())?;
    renderer
        .render_image(image, (0, 0), &geometry, Filter::Bilinear, &finish, pixels)
        .map_err(|e| e.to_string())
}
