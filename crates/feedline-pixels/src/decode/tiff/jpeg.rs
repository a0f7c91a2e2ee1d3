//! JPEG inside TIFF: chunks are JPEGs whose tables may be in a separate tag, or there is one old-style whole file.

use super::colour::{append_rgb, ycbcr};
use super::directory::{Directory, tag};
use super::layout::{Layout, Meaning};
use super::unpack::ChunkShape;
use super::{CODEC, Scratch};
use crate::{Decoder, ImageMut, PixelLayout, Region, Result, Size, check_amount, fit, jpeg, room, turbo};

/// Decodes one chunk into rows of `shape`.
pub(super) fn samples(
    directory: &Directory<'_>,
    layout: &Layout,
    data: &[u8],
    shape: ChunkShape,
    out: &mut Vec<u8>,
) -> Result<()> {
    let file = whole_file(directory.raw(tag::JPEG_TABLES), data, layout.meaning)?;
    let header = jpeg::probe(&file)?;
    let size = header.size;
    let (width, height) = (size.width as usize, size.height as usize);
    if layout.bits != 8 || width < shape.width || height < shape.height {
        let reason = format!("JPEG of {width}x{height} in a chunk of {}x{}", shape.width, shape.height);
        return Err(CODEC.unsupported(reason));
    }
    // Progressive files are buffered until their end. For others, only the chunk's part counts: 64 pixels take at least
    // two bits, or sixteen times as many pixels where chroma is subsampled.
    if header.progressive {
        check_amount(&file, size)?;
    } else if shape.width * shape.height / 4096 > file.len() {
        let reason = format!("{} bytes of JPEG in a chunk of {}x{}", data.len(), shape.width, shape.height);
        return Err(CODEC.truncated(reason));
    }
    let mut pixels = Vec::new();
    // The JPEG may be larger than the chunk; only the chunk's size is decoded.
    decode(&file, Size::new(shape.width as u32, shape.height as u32), &mut pixels)?;
    fit(out, shape.width * shape.height * shape.samples, 0)?;
    let rows = pixels.chunks_exact(shape.width * 3);
    for (to, from) in out.chunks_exact_mut(shape.width * shape.samples).zip(rows) {
        match shape.samples {
            3 => to.copy_from_slice(from),
            1 => to.iter_mut().zip(from.as_chunks::<3>().0).for_each(|(grey, rgb)| *grey = rgb[0]),
            count => return Err(CODEC.unsupported(format!("JPEG of {count} samples per pixel"))),
        }
    }
    Ok(())
}

/// Decodes the old kind, in which a tag gives the offset of a whole JPEG file. Returns false if there is no such tag.
pub(super) fn whole_stream(
    bytes: &[u8],
    directory: &Directory<'_>,
    layout: &Layout,
    scratch: &mut Scratch,
) -> Result<bool> {
    let Some(at) = directory.first_number(tag::JPEG_STREAM) else { return Ok(false) };
    let file = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let file = file.filter(|file| file.starts_with(&[0xFF, 0xD8]));
    let file = file.ok_or_else(|| CODEC.unsupported("old JPEG whose parts are stored separately"))?;
    if jpeg::probe(file)?.size != layout.size {
        return Err(CODEC.unsupported("old JPEG whose size differs from the image"));
    }
    check_amount(file, layout.size)?;
    let stride = layout.size.width as usize * 3;
    fit(&mut scratch.samples, stride * layout.size.height as usize, 0)?;
    let mut out = ImageMut::new(&mut scratch.samples, layout.size, stride, PixelLayout::Rgb)?;
    // Converted as other YCbCr in TIFF is, which is not quite what a JPEG decoder does.
    turbo::decode_stored(file, Decoder::DEFAULT_MAX_PIXELS, &mut out)?;
    if layout.meaning == Meaning::YCbCr && jpeg::probe(file)?.components == 3 {
        scratch
            .samples
            .as_chunks_mut::<3>()
            .0
            .iter_mut()
            .for_each(|pixel| *pixel = ycbcr(pixel[0], pixel[1], pixel[2]));
    }
    append_rgb(&scratch.samples, &mut scratch.pixels)?;
    Ok(true)
}

/// Decodes the upper left `size` pixels of a JPEG.
fn decode(file: &[u8], size: Size, pixels: &mut Vec<u8>) -> Result<()> {
    let stride = size.width as usize * 3;
    fit(pixels, stride * size.height as usize, 0)?;
    let mut out = ImageMut::new(pixels, size, stride, PixelLayout::Rgb)?;
    jpeg::Decoder::new().decode_into(file, None, Region::whole(size), jpeg::Scale::Full, &mut out)?;
    Ok(())
}

/// Makes a complete JPEG file: the tables first, and a marker that says whether its colours are YCbCr. TIFF has
/// a tag for that; a JPEG decoder alone would have to guess.
fn whole_file(tables: Option<&[u8]>, data: &[u8], meaning: Meaning) -> Result<Vec<u8>> {
    let transform = u8::from(meaning == Meaning::YCbCr);
    let mut file = Vec::new();
    room::reserve(&mut file, 32 + data.len() + tables.map_or(0, <[u8]>::len))?;
    file.extend_from_slice(&[0xFF, 0xD8, 0xFF, 0xEE, 0, 14]);
    file.extend_from_slice(b"Adobe\0d\0\0\0\0");
    file.push(transform);
    if let Some(tables) = tables {
        let inner = tables.strip_prefix(&[0xFF, 0xD8]).unwrap_or(tables);
        file.extend_from_slice(inner.strip_suffix(&[0xFF, 0xD9]).unwrap_or(inner));
    }
    file.extend_from_slice(data.strip_prefix(&[0xFF, 0xD8]).unwrap_or(data));
    Ok(file)
}
