//! Images whose pixels are numbers and not colours: masks of class indices, instance maps, depths. A palette's indices
//! stay indices, greys keep their 8 or 16 bits. Colours are refused: they have no class number.

use std::cell::Cell;

use png::{BitDepth, ColorType, Transformations};

use super::{Codec, Decoder, ImageHeader, Scratch, amount, png as png_file, pnm, probe, tiff, view};
use crate::{ImageRef, Orientation, PixelLayout, Result, fit};

impl Decoder {
    /// Decodes the numbers of an image, upright unless [`set_upright`](Self::set_upright) says otherwise. If the codec
    /// allows, rows from `end` on are left out; their content is unspecified then. The layout is
    /// [`Index8`](PixelLayout::Index8), [`Grey8`](PixelLayout::Grey8) or [`Grey16`](PixelLayout::Grey16).
    pub fn decode_labels(&mut self, bytes: &[u8], end: u32) -> Result<ImageRef<'_>> {
        self.last = None;
        let header = probe(bytes)?;
        self.check_size(header.size)?;
        amount::check_header(bytes, &header)?;
        if header.channels > 1 {
            let reason =
                format!("a mask has one number per pixel; this image has {} channels", header.channels);
            return Err(header.codec.unsupported(reason));
        }
        let orientation = if self.upright_wanted { header.orientation } else { Orientation::Upright };
        let whole = orientation != Orientation::Upright;
        let end = if whole { header.size.height } else { end.min(header.size.height) };
        let layout = match header.codec {
            Codec::Png => png_labels(bytes, &header, end, &mut self.scratch)?,
            Codec::Tiff => tiff::labels(bytes, &mut self.scratch)?,
            Codec::Pnm => pnm::labels(bytes, &mut self.scratch)?,
            Codec::Jpeg => {
                let (header, layout) = self.fill(bytes)?;
                first_bytes(&mut self.scratch, layout.bytes(), header.size.area() as usize);
                PixelLayout::Grey8
            }
            other => {
                let reason = "masks are read from PNG, TIFF, the portable maps and grey JPEG";
                return Err(other.unsupported(reason));
            }
        };
        let stored = view(&self.scratch.pixels, header.size, layout)?;
        orientation.apply(stored, &mut self.upright)
    }
}

/// Keeps the first byte of every pixel.
fn first_bytes(scratch: &mut Scratch, step: usize, count: usize) {
    for at in 0..count {
        scratch.pixels[at] = scratch.pixels[at * step];
    }
    scratch.pixels.truncate(count);
}

fn png_labels(bytes: &[u8], header: &ImageHeader, end: u32, scratch: &mut Scratch) -> Result<PixelLayout> {
    let (still, at) = (png_file::without_animation(bytes)?, Cell::new(0));
    let mut reader = png_file::begin(&still, &at, header, Transformations::IDENTITY)?;
    let (color, depth, interlaced) = {
        let info = reader.info();
        (info.color_type, info.bit_depth, info.interlaced)
    };
    let width = header.size.width as usize;
    let area = header.size.area() as usize;
    let pixel = if depth == BitDepth::Sixteen { 2 } else { 1 };
    fit(&mut scratch.pixels, area * pixel, 0)?;
    if interlaced {
        let length = reader.output_buffer_size().unwrap_or(usize::MAX);
        fit(&mut scratch.samples, length, 0)?;
        reader.next_frame(&mut scratch.samples).map_err(|e| png_file::convert(e, &at))?;
        let stride = reader.output_line_size(header.size.width).unwrap_or(width * pixel);
        let rows = scratch.samples.chunks_exact(stride);
        for (row, out) in rows.zip(scratch.pixels.chunks_exact_mut(width * pixel)) {
            unpack(row, color, depth, out);
        }
    } else {
        for out in scratch.pixels.chunks_exact_mut(width * pixel).take(end as usize) {
            let row = reader.next_row().map_err(|e| png_file::convert(e, &at))?;
            let row = row.ok_or_else(|| Codec::Png.truncated("fewer rows than the header says"))?;
            unpack(row.data(), color, depth, out);
        }
        if end == header.size.height {
            reader.finish().map_err(|e| png_file::convert(e, &at))?;
        }
    }
    Ok(match (color, depth) {
        (ColorType::Indexed, _) => PixelLayout::Index8,
        (_, BitDepth::Sixteen) => PixelLayout::Grey16,
        _ => PixelLayout::Grey8,
    })
}

/// One row of a PNG as numbers. Greys of 2 and 4 bits are scaled to 0…255, as in Pillow; a single bit is 0 or 1.
fn unpack(row: &[u8], color: ColorType, depth: BitDepth, out: &mut [u8]) {
    let bits = depth as usize;
    match depth {
        BitDepth::Eight => out.copy_from_slice(&row[..out.len()]),
        BitDepth::Sixteen => {
            for (to, from) in out.as_chunks_mut::<2>().0.iter_mut().zip(row.as_chunks::<2>().0) {
                *to = u16::from_be_bytes(*from).to_ne_bytes();
            }
        }
        _ => {
            let top = (1u16 << bits) - 1;
            let spread = if color == ColorType::Indexed || bits == 1 { 1 } else { (255 / top) as u8 };
            for (at, to) in out.iter_mut().enumerate() {
                let bit = at * bits;
                *to = (row[bit / 8] >> (8 - bits - bit % 8) & top as u8) * spread;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(
        color: ColorType,
        depth: BitDepth,
        palette: Option<Vec<u8>>,
        data: &[u8],
        size: (u32, u32),
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if let Some(palette) = palette {
            encoder.set_palette(palette);
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        bytes
    }

    #[test]
    fn palette_indices_stay_indices() {
        // Classes 1 and 21 have the same red.
        let palette: Vec<u8> =
            (0..22u8).flat_map(|i| if i == 1 || i == 21 { [128, 0, 0] } else { [i, i, i] }).collect();
        let bytes = png(ColorType::Indexed, BitDepth::Eight, Some(palette), &[0, 1, 21, 1], (2, 2));
        let mut decoder = Decoder::new();
        let image = decoder.decode_labels(&bytes, 2).unwrap();
        assert_eq!(
            (image.layout, image.row(0), image.row(1)),
            (PixelLayout::Index8, &[0, 1][..], &[21, 1][..])
        );
        let few = png(ColorType::Indexed, BitDepth::Two, Some(vec![0; 12]), &[0b0001_1011], (4, 1));
        assert_eq!(decoder.decode_labels(&few, 1).unwrap().row(0), [0, 1, 2, 3]);
    }

    #[test]
    fn sixteen_bits_are_preserved() {
        let values = [1u16, 2, 5, 65535];
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        let bytes = png(ColorType::Grayscale, BitDepth::Sixteen, None, &data, (4, 1));
        let mut decoder = Decoder::new();
        let image = decoder.decode_labels(&bytes, 1).unwrap();
        assert_eq!(image.layout, PixelLayout::Grey16);
        let found: Vec<u16> =
            image.row(0).as_chunks::<2>().0.iter().map(|v| u16::from_ne_bytes(*v)).collect();
        assert_eq!(found, values);
        let map = b"P5 2 1 65535\n\x00\x05\xff\xff";
        let image = decoder.decode_labels(map, 1).unwrap();
        assert_eq!((image.layout, image.row(0).len()), (PixelLayout::Grey16, 4));
    }

    #[test]
    fn rows_outside_the_region_are_skipped() {
        let data: Vec<u8> = (0..64 * 64).map(|i| (i / 64) as u8).collect();
        let bytes = png(ColorType::Grayscale, BitDepth::Eight, None, &data, (64, 64));
        let mut decoder = Decoder::new();
        let whole = decoder.decode_labels(&bytes, 64).unwrap();
        assert!((0..64).all(|y| whole.row(y) == [y as u8; 64]));
        let mut decoder = Decoder::new();
        let part = decoder.decode_labels(&bytes, 5).unwrap();
        assert!((0..5).all(|y| part.row(y) == [y as u8; 64]));
        assert_eq!(part.row(9), [0; 64]);
    }

    /// The same file with an EXIF chunk after its header: a quarter turn.
    fn turned(png: &[u8]) -> Vec<u8> {
        let chunk = b"eXIfII*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut crc = flate2::Crc::new();
        crc.update(chunk);
        let length = (chunk.len() as u32 - 4).to_be_bytes();
        [&png[..33], &length, &chunk[..], &crc.sum().to_be_bytes(), &png[33..]].concat()
    }

    #[test]
    fn masks_follow_the_orientation_only_if_images_do() {
        let bytes = turned(&png(ColorType::Grayscale, BitDepth::Eight, None, &[1, 2, 3], (3, 1)));
        let mut decoder = Decoder::new();
        let image = decoder.decode_labels(&bytes, 3).unwrap();
        assert_eq!((image.size.width, image.size.height), (1, 3));
        decoder.set_upright(false);
        assert_eq!(decoder.decode_labels(&bytes, 3).unwrap().row(0), [1, 2, 3]);
    }

    #[test]
    fn colours_are_refused() {
        let bytes = png(ColorType::Rgb, BitDepth::Eight, None, &[1, 2, 3], (1, 1));
        let error = Decoder::new().decode_labels(&bytes, 1).unwrap_err().to_string();
        assert!(error.contains("3 channels"), "{error}");
    }
}
