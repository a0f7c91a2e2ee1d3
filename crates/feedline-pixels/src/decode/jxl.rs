//! JPEG XL, with the `jxl` crate: the first frame, eight bits per sample, in sRGB or the file's own colours. Pillow has
//! no decoder for it.

use jxl::api::{Event, JxlDataFormat, JxlDecoder, JxlDecoderOptions, JxlOutputBuffer, JxlPixelFormat};
use jxl::api::{JxlBasicInfo, JxlColorType};

use super::{Codec, ImageHeader, Scratch, expand_channels};
use crate::{Error, Orientation, PixelLayout, Result, Size, fit};

const CODEC: Codec = Codec::JpegXl;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let (decoder, _) = begin(bytes)?;
    let (info, colours) = facts(&decoder)?;
    let side = |side: usize| u32::try_from(side).map_err(|_| CODEC.unsupported("size does not fit memory"));
    Ok(ImageHeader {
        codec: CODEC,
        size: Size::new(side(info.size.0)?, side(info.size.1)?),
        channels: colours.samples_per_pixel() as u8,
        bits: info.bit_depth.bits_per_sample().min(32) as u8,
        // The decoder rotates images itself.
        orientation: Orientation::Upright,
    })
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let (mut decoder, mut rest) = begin(bytes)?;
    let (info, colours) = facts(&decoder)?;
    let is_still = info.animation.is_none();
    let format = JxlPixelFormat {
        color_type: colours,
        color_data_format: Some(JxlDataFormat::U8 { bit_depth: 8 }),
        extra_channel_format: vec![None; info.extra_channels.len()],
    };
    decoder.set_pixel_format(format).map_err(|e| damaged(bytes, rest, e))?;
    let row = header.size.width as usize * colours.samples_per_pixel();
    let height = header.size.height as usize;
    fit(&mut scratch.samples, row * height, 0)?;
    let mut buffers = [JxlOutputBuffer::new(&mut scratch.samples, height, row)];
    loop {
        match decoder.process(&mut rest, Some(&mut buffers), None).map_err(|e| damaged(bytes, rest, e))? {
            Event::FrameComplete { .. } => break,
            Event::NeedMoreInput { .. } => return Err(cut()),
            Event::Complete => return Err(CODEC.truncated("no frame")),
            Event::BasicInfo | Event::FrameHeader => {}
        }
    }
    if is_still {
        refuse_layers(&mut decoder, rest)?;
    }
    expand_channels(colours.samples_per_pixel(), scratch)
}

/// Refuses a still image of several frames: its layers would have to be put on each other.
fn refuse_layers(decoder: &mut JxlDecoder, mut rest: &[u8]) -> Result<()> {
    match decoder.process(&mut rest, None, None) {
        Ok(Event::FrameHeader | Event::FrameComplete { .. }) => {
            Err(CODEC.unsupported("an image of several layers"))
        }
        _ => Ok(()),
    }
}

/// Reads up to the first frame. Returns the remaining bytes.
fn begin(bytes: &[u8]) -> Result<(JxlDecoder, &[u8])> {
    let mut decoder = JxlDecoder::new(JxlDecoderOptions::default());
    let mut rest = bytes;
    match decoder.process(&mut rest, None, None).map_err(|e| damaged(bytes, rest, e))? {
        Event::BasicInfo => Ok((decoder, rest)),
        _ => Err(CODEC.truncated("the header is not complete")),
    }
}

/// Reads the header, and the colour type that pixels will have.
fn facts(decoder: &JxlDecoder) -> Result<(&JxlBasicInfo, JxlColorType)> {
    let unknown = || CODEC.truncated("the header is not complete");
    let info = decoder.basic_info().ok_or_else(unknown)?;
    let usual = decoder.current_pixel_format().ok_or_else(unknown)?.color_type;
    let grey = usual.is_grayscale();
    let alpha = info.extra_channels.iter().any(|extra| extra.ec_type == jxl::api::ExtraChannel::Alpha);
    Ok((
        info,
        match (grey, alpha) {
            (true, false) => JxlColorType::Grayscale,
            (true, true) => JxlColorType::GrayscaleAlpha,
            (false, false) => JxlColorType::Rgb,
            (false, true) => JxlColorType::Rgba,
        },
    ))
}

fn cut() -> Error {
    CODEC.truncated("the file ends before the image does")
}

fn damaged(bytes: &[u8], rest: &[u8], error: jxl::error::Error) -> Error {
    CODEC.corrupt(bytes.len() - rest.len(), error)
}
