//! JPEG 2000, with the `hayro-jpeg2000` crate: files and bare code streams, eight bits per sample.

use hayro_jpeg2000::{ColorSpace, DecodeSettings, Image};

use super::{Codec, ImageHeader, Scratch, expand_channels};
use crate::{Orientation, PixelLayout, Result, Size};

const CODEC: Codec = Codec::Jpeg2000;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let image = open(bytes)?;
    Ok(ImageHeader {
        codec: CODEC,
        size: Size::new(image.width(), image.height()),
        channels: channels(&image)? as u8,
        bits: image.original_bit_depth(),
        orientation: Orientation::Upright,
    })
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let image = open(bytes)?;
    let channels = channels(&image)?;
    scratch.samples = image.decode().map_err(|e| CODEC.corrupt(0, e))?;
    if scratch.samples.len() as u64 != header.size.area() * channels as u64 {
        return Err(CODEC.corrupt(0, "its size differs from the header"));
    }
    expand_channels(channels, scratch)
}

fn open(bytes: &[u8]) -> Result<Image<'_>> {
    // A file that ends early is an error, as with all codecs.
    let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
    Image::new(bytes, &settings).map_err(|e| CODEC.corrupt(0, e))
}

/// Grey or colours, with opacity or without.
fn channels(image: &Image<'_>) -> Result<usize> {
    let colours = match image.color_space() {
        ColorSpace::Gray => 1,
        ColorSpace::RGB => 3,
        ColorSpace::CMYK => return Err(CODEC.unsupported("CMYK colours")),
        other => usize::from(other.num_channels()),
    };
    if !matches!(colours, 1 | 3) {
        return Err(CODEC.unsupported(format!("{colours} channels")));
    }
    Ok(colours + usize::from(image.has_alpha()))
}
