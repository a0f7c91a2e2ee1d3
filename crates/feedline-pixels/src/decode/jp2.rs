//! JPEG 2000, with OpenJPEG, which Pillow uses too: files and bare code streams. Samples are scaled to eight bits as
//! Pillow does, greys of more bits also to sixteen.

use std::ffi::c_void;
use std::ptr;

use openjpeg_sys as opj;

use super::{Codec, ImageHeader, Scratch, Stored, expand_channels};
use crate::{Number, Orientation, PixelLayout, Result, Size, room};

const CODEC: Codec = Codec::Jpeg2000;

/// The fewest bytes of a tile: a header of its own, and the mark at which its data begin.
const LEAST_TILE: u64 = 14;

/// What the code stream's header says.
#[derive(Clone, Copy, Debug)]
struct Stream {
    size: Size,
    channels: usize,
    /// Bits per sample of the first channel.
    bits: u32,
}

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let stream = Stream::find(bytes)?;
    let (channels, bits) = (palette_channels(bytes).unwrap_or(stream.channels as u8), stream.bits as u8);
    Ok(ImageHeader { codec: CODEC, size: stream.size, channels, bits, orientation: Orientation::Upright })
}

impl Stream {
    fn find(bytes: &[u8]) -> Result<Self> {
        let at = if bytes.starts_with(&[0xFF, 0x4F]) { 0 } else { code_stream(bytes)? };
        let cut = || CODEC.truncated("the header is not complete");
        let header = bytes.get(at + 4..).filter(|_| bytes[at..].starts_with(&[0xFF, 0x4F, 0xFF, 0x51]));
        let header = header.ok_or_else(cut)?;
        let four = |at: usize| {
            header.get(at..at + 4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
        };
        let number = |place: usize| four(place).ok_or_else(cut);
        let (right, bottom, left, top) = (number(4)?, number(8)?, number(12)?, number(16)?);
        let side = |end: u32, start: u32| {
            end.checked_sub(start).ok_or_else(|| CODEC.corrupt(at + 8, "the image ends before it begins"))
        };
        let size = Size::new(side(right, left)?, side(bottom, top)?);
        check_tiles(bytes, at, (right, bottom), [number(20)?, number(24)?, number(28)?, number(32)?])?;
        let channels = (number(34)? & 0xFFFF) as usize;
        if !matches!(channels, 1..=4) {
            return Err(CODEC.unsupported(format!("{channels} channels")));
        }
        let parts = header.get(38..38 + 3 * channels).ok_or_else(cut)?.as_chunks::<3>().0;
        if parts.iter().any(|[_, across, down]| (*across, *down) != (1, 1)) {
            return Err(CODEC.unsupported("channels of different sizes"));
        }
        Ok(Stream { size, channels, bits: u32::from(parts[0][0] & 0x7F) + 1 })
    }
}

/// Refuses more tiles than the bytes can hold: the decoder allocates some kilobytes for each.
fn check_tiles(
    bytes: &[u8],
    at: usize,
    (right, bottom): (u32, u32),
    [width, height, left, top]: [u32; 4],
) -> Result<()> {
    let count = |end: u32, start: u32, step: u32| {
        u64::from(end.saturating_sub(start)).div_ceil(u64::from(step.max(1)))
    };
    let tiles = count(right, left, width).saturating_mul(count(bottom, top, height));
    if width == 0 || height == 0 {
        return Err(CODEC.corrupt(at + 24, "tiles without a size"));
    }
    if tiles.saturating_mul(LEAST_TILE) > bytes.len() as u64 {
        return Err(CODEC.truncated(format!("{} bytes cannot hold {tiles} tiles", bytes.len())));
    }
    Ok(())
}

/// Offset of the code stream in a file of boxes.
fn code_stream(bytes: &[u8]) -> Result<usize> {
    let mut at = 0usize;
    while let Some([a, b, c, d, kind @ ..]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let length = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
        let (head, length) = match length {
            0 => (8, u64::MAX),
            1 => {
                let long = bytes.get(at + 8..).and_then(|rest| rest.first_chunk::<8>());
                (16, long.map_or(u64::MAX, |long| u64::from_be_bytes(*long)))
            }
            length => (8, length),
        };
        if kind == b"jp2c" {
            return Ok(at + head);
        }
        let next = usize::try_from(length.max(head as u64)).ok().and_then(|length| at.checked_add(length));
        at = next.unwrap_or(usize::MAX);
    }
    Err(CODEC.truncated("no code stream"))
}

/// Number of channels of a palette, if the file has one before its code stream.
fn palette_channels(bytes: &[u8]) -> Option<u8> {
    let head = &bytes[..code_stream(bytes).ok()?];
    let at = head.windows(4).position(|name| name == b"pclr")?;
    head.get(at + 6).copied().filter(|channels| matches!(channels, 1..=4))
}

/// Greys of more than eight bits, scaled to sixteen; `None` for other images.
pub(super) fn stored(bytes: &[u8], scratch: &mut Scratch) -> Result<Option<Stored>> {
    let stream = Stream::find(bytes)?;
    if stream.channels != 1 || stream.bits <= 8 {
        return Ok(None);
    }
    let image = Image::decode(bytes, &stream)?;
    if image.channels() != 1 {
        return Ok(None);
    }
    scratch.samples.clear();
    room::reserve(&mut scratch.samples, stream.size.area() as usize * 2)?;
    let grey = Samples::new(&image, 0, &stream)?;
    scratch.samples.extend(grey.values.iter().flat_map(|value| grey.scaled(*value, 16).to_ne_bytes()));
    Ok(Some(Stored::plain(1, Number::U16)))
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let stream = Stream::find(bytes)?;
    let image = Image::decode(bytes, &stream)?;
    // A palette makes more channels than are stored.
    let channels = image.channels();
    let samples: Vec<Samples<'_>> =
        (0..channels).map(|number| Samples::new(&image, number, &stream)).collect::<Result<_>>()?;
    scratch.samples.clear();
    room::reserve(&mut scratch.samples, header.size.area() as usize * channels)?;
    for at in 0..header.size.area() as usize {
        // As with other codecs, greys of more bits keep their upper eight.
        scratch.samples.extend(samples.iter().map(|samples| samples.byte(at, channels == 1)));
    }
    match (image.colours(), channels) {
        (Colours::YCbCr, 3 | 4) => scratch.samples.chunks_exact_mut(channels).for_each(from_ycbcr),
        (Colours::Cmyk, 4) => scratch.samples.chunks_exact_mut(4).for_each(from_cmyk),
        _ => {}
    }
    expand_channels(channels, scratch)
}

fn from_ycbcr(pixel: &mut [u8]) {
    let [y, blue, red] = [i32::from(pixel[0]), i32::from(pixel[1]) - 128, i32::from(pixel[2]) - 128];
    let byte = |value: i32| ((value + (1 << 15)) >> 16).clamp(0, 255) as u8;
    pixel[0] = byte((y << 16) + 91_881 * red);
    pixel[1] = byte((y << 16) - 22_554 * blue - 46_802 * red);
    pixel[2] = byte((y << 16) + 116_130 * blue);
}

fn from_cmyk(pixel: &mut [u8]) {
    let white = 255 - u32::from(pixel[3]);
    for ink in &mut pixel[..3] {
        let product = u32::from(*ink) * white + 128;
        *ink = (white - (((product >> 8) + product) >> 8)) as u8;
    }
    pixel[3] = 255;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    Plain,
    YCbCr,
    Cmyk,
}

/// The samples of one channel.
struct Samples<'a> {
    values: &'a [i32],
    bits: u32,
    /// Added to make signed numbers positive.
    offset: i64,
}

impl<'a> Samples<'a> {
    fn new(image: &'a Image<'_>, number: usize, stream: &Stream) -> Result<Self> {
        let part = image.part(number);
        let whole = (part.w, part.h) == (stream.size.width, stream.size.height) && !part.data.is_null();
        if !whole || !matches!(part.prec, 1..=31) {
            return Err(CODEC.corrupt(0, "a channel without its pixels"));
        }
        // SAFETY: OpenJPEG allocates `w * h` numbers for each decoded channel and fills them; they live as long as the
        // image.
        let values = unsafe { std::slice::from_raw_parts(part.data, stream.size.area() as usize) };
        let offset = if part.sgnd == 0 { 0 } else { 1 << (part.prec - 1) };
        Ok(Samples { values, bits: part.prec, offset })
    }

    fn byte(&self, at: usize, is_grey: bool) -> u8 {
        if is_grey && self.bits > 8 {
            return (self.scaled(self.values[at], 16) >> 8) as u8;
        }
        self.scaled(self.values[at], 8) as u8
    }

    /// The value with this many bits, rounded if they are fewer.
    fn scaled(&self, value: i32, bits: u32) -> u16 {
        let value = i64::from(value) + self.offset;
        let value = if self.bits > bits {
            let less = self.bits - bits;
            (value + (1 << (less - 1))) >> less
        } else {
            value << (bits - self.bits)
        };
        value.clamp(0, (1 << bits) - 1) as u16
    }
}

/// A decoded image, and what made it.
struct Image<'a> {
    made: *mut opj::opj_image_t,
    codec: *mut opj::opj_codec_t,
    stream: *mut opj::opj_stream_t,
    /// The library reads from here; a box of its own, since it keeps the address.
    input: *mut Input<'a>,
}

impl<'a> Image<'a> {
    fn decode(bytes: &'a [u8], expected: &Stream) -> Result<Self> {
        let is_file = !bytes.starts_with(&[0xFF, 0x4F]);
        let format =
            if is_file { opj::CODEC_FORMAT::OPJ_CODEC_JP2 } else { opj::CODEC_FORMAT::OPJ_CODEC_J2K };
        let input = Box::into_raw(Box::new(Input { bytes, at: 0 }));
        // SAFETY: both calls only allocate.
        let (codec, stream) =
            unsafe { (opj::opj_create_decompress(format), opj::opj_stream_create(1 << 16, 1)) };
        let mut image = Image { made: ptr::null_mut(), codec, stream, input };
        if codec.is_null() || stream.is_null() {
            return Err(crate::Error::OutOfMemory { bytes: 0 });
        }
        // SAFETY: codec and stream are open; the functions fit the data, which live as long as the stream.
        unsafe {
            opj::opj_stream_set_read_function(stream, Some(read));
            opj::opj_stream_set_skip_function(stream, Some(skip));
            opj::opj_stream_set_seek_function(stream, Some(seek));
            opj::opj_stream_set_user_data(stream, input.cast(), None);
            opj::opj_stream_set_user_data_length(stream, bytes.len() as u64);
        }
        image.run(expected)?;
        Ok(image)
    }

    fn run(&mut self, expected: &Stream) -> Result<()> {
        let mut settings = std::mem::MaybeUninit::<opj::opj_dparameters_t>::zeroed();
        // SAFETY: the settings are filled by the first call, and read by the second.
        let ready = unsafe {
            opj::opj_set_default_decoder_parameters(settings.as_mut_ptr());
            opj::opj_setup_decoder(self.codec, settings.as_mut_ptr())
        };
        // SAFETY: codec and stream are open. The call sets the image, or leaves it null and fails.
        let read =
            ready != 0 && unsafe { opj::opj_read_header(self.stream, self.codec, &raw mut self.made) } != 0;
        if !read || self.made.is_null() {
            return Err(CODEC.corrupt(0, "the header is damaged"));
        }
        let size = Size::new(self.part(0).w, self.part(0).h);
        if size != expected.size || self.channels() != expected.channels {
            return Err(CODEC.corrupt(0, "the headers of file and code stream differ"));
        }
        // SAFETY: codec, stream and image belong together, and the header has been read.
        let whole = unsafe {
            opj::opj_decode(self.codec, self.stream, self.made) != 0
                && opj::opj_end_decompress(self.codec, self.stream) != 0
        };
        // SAFETY: the library does not use its input between calls.
        let at = unsafe { (*self.input).at };
        if whole { Ok(()) } else { Err(CODEC.corrupt(at, "the image data are damaged or end early")) }
    }

    fn channels(&self) -> usize {
        // SAFETY: `run` has set the image.
        unsafe { (*self.made).numcomps as usize }
    }

    fn part(&self, number: usize) -> opj::opj_image_comp_t {
        assert!(number < self.channels(), "one of the channels");
        // SAFETY: an image has as many parts as it says, and `run` has set it.
        unsafe { *(*self.made).comps.add(number) }
    }

    fn colours(&self) -> Colours {
        // SAFETY: `run` has set the image. The number may be one that the Rust enum has no name for.
        match unsafe { (&raw const (*self.made).color_space).cast::<i32>().read() } {
            3 => Colours::YCbCr,
            5 => Colours::Cmyk,
            _ => Colours::Plain,
        }
    }
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        // SAFETY: each is null or was made by its function, and is released only here; null is ignored.
        unsafe {
            opj::opj_image_destroy(self.made);
            opj::opj_destroy_codec(self.codec);
            opj::opj_stream_destroy(self.stream);
            drop(Box::from_raw(self.input));
        }
    }
}

/// The bytes that OpenJPEG reads, and how far it is.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Copies the next bytes; the maximum means the end.
unsafe extern "C" fn read(buffer: *mut c_void, length: usize, user: *mut c_void) -> usize {
    // SAFETY: `user` is the input that `Image::decode` gave, which nobody else uses meanwhile.
    let input = unsafe { &mut *user.cast::<Input<'_>>() };
    let rest = input.bytes.get(input.at..).unwrap_or_default();
    let length = length.min(rest.len());
    if length == 0 {
        return usize::MAX;
    }
    // SAFETY: the buffer has room for the length asked for, and the bytes are another memory.
    unsafe { ptr::copy_nonoverlapping(rest.as_ptr(), buffer.cast::<u8>(), length) };
    input.at += length;
    length
}

unsafe extern "C" fn skip(length: i64, user: *mut c_void) -> i64 {
    // SAFETY: as in `read`.
    let input = unsafe { &mut *user.cast::<Input<'_>>() };
    let Some(to) = (input.at as i64).checked_add(length).filter(|to| *to >= 0) else { return -1 };
    let to = (to as usize).min(input.bytes.len());
    let skipped = to as i64 - input.at as i64;
    input.at = to;
    if skipped == 0 && length != 0 { -1 } else { skipped }
}

unsafe extern "C" fn seek(to: i64, user: *mut c_void) -> i32 {
    // SAFETY: as in `read`.
    let input = unsafe { &mut *user.cast::<Input<'_>>() };
    let fits = usize::try_from(to).ok().filter(|to| *to <= input.bytes.len());
    input.at = fits.unwrap_or(input.bytes.len());
    i32::from(fits.is_some())
}
