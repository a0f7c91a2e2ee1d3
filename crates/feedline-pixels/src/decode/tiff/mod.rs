//! TIFF: strips and tiles, chunky or planar, 1 to 64 bits per sample, classic and BigTIFF, either byte order.
//!
//! `directory` reads tags, `layout` turns them into a checked description, `unpack` (with `fax` and `jpeg`) decodes a
//! chunk to rows of samples, `colour` converts samples to pixels, `numbers` keeps them as numbers. The image grows band
//! by band as its data decode, so a file that ends early costs no more memory than its content.
//!
//! Orientation is applied here: Pillow, too, rotates TIFF while loading, independently of EXIF transposition. The
//! first of several pages is read; `select_page` makes another one the first.

mod colour;
mod directory;
mod fax;
mod jpeg;
mod layout;
mod numbers;
mod unpack;

use super::{Codec, ImageHeader, Scratch, Stored, view};
use crate::{Orientation, PixelLayout, Region, Result, fit};
use colour::Colours;
use directory::Directory;
use layout::{Compression, Layout, Meaning};
use unpack::ChunkShape;

const CODEC: Codec = Codec::Tiff;

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let layout = Layout::new(&Directory::first(bytes)?)?;
    Ok(ImageHeader {
        codec: CODEC,
        size: layout.orientation.turn_size(layout.size),
        channels: layout.samples.min(4) as u8,
        bits: layout.bits as u8,
        orientation: Orientation::Upright,
    })
}

/// Copies the file to `out` with `page` as its first page.
pub(super) fn select_page(bytes: &[u8], page: usize, out: &mut Vec<u8>) -> Result<()> {
    let (first, link) = Directory::link_to(bytes, page)?;
    fit(out, bytes.len(), 0)?;
    out.copy_from_slice(bytes);
    out[first..first + link.len()].copy_from_slice(link);
    Ok(())
}

/// The fewest bytes that the samples of an image can take.
pub(super) fn fewest_bytes(bytes: &[u8]) -> Result<u64> {
    Ok(Layout::new(&Directory::first(bytes)?)?.fewest_bytes())
}

/// Refuses a declared size that the data are too short for, before memory is allocated.
fn check_amount(bytes: &[u8], layout: &Layout) -> Result<()> {
    let needed = layout.fewest_bytes();
    if needed <= bytes.len() as u64 {
        return Ok(());
    }
    let crate::Size { width, height } = layout.size;
    let reason = format!("{} bytes cannot hold {width}x{height} pixels, which take {needed}", bytes.len());
    Err(CODEC.truncated(reason))
}

pub(super) fn decode(bytes: &[u8], _: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let directory = Directory::first(bytes)?;
    let layout = Layout::new(&directory)?;
    check_amount(bytes, &layout)?;
    scratch.pixels.clear();
    if layout.compression == Compression::Jpeg && jpeg::whole_stream(bytes, &directory, &layout, scratch)? {
        return turn(&layout, scratch);
    }
    decode_bands(bytes, &directory, &layout, 0..layout.bands(), scratch)?;
    turn(&layout, scratch)
}

/// Decodes the strips or rows of tiles that `part` needs; `None` if the image is turned or one whole JPEG. Returns the box
/// that was decoded.
pub(super) fn decode_part(
    bytes: &[u8],
    _: &ImageHeader,
    part: Region,
    scratch: &mut Scratch,
) -> Result<Option<(PixelLayout, Region)>> {
    let directory = Directory::first(bytes)?;
    let layout = Layout::new(&directory)?;
    check_amount(bytes, &layout)?;
    if layout.orientation != Orientation::Upright || layout.compression == Compression::Jpeg {
        return Ok(None);
    }
    let rows = layout.band_rows();
    let bands = part.y as usize / rows..((part.y + part.height) as usize).div_ceil(rows);
    let (top, bottom) = (bands.start * rows, (bands.end * rows).min(layout.size.height as usize));
    scratch.pixels.clear();
    decode_bands(bytes, &directory, &layout, bands, scratch)?;
    let part = Region::new(0, top as u32, layout.size.width, (bottom - top) as u32);
    Ok(Some((PixelLayout::Rgbx, part)))
}

/// Appends the pixels of these bands.
fn decode_bands(
    bytes: &[u8],
    directory: &Directory<'_>,
    layout: &Layout,
    numbers: std::ops::Range<usize>,
    scratch: &mut Scratch,
) -> Result<()> {
    let colours = Colours::new(directory, layout)?;
    let mut bands = Bands { bytes, directory, layout, chunk: Vec::new(), plane: Vec::new() };
    for band in numbers {
        let rows = layout.band_rows().min(layout.size.height as usize - band * layout.band_rows());
        if bands.is_rgb() {
            bands.read_rgb(band, rows, &mut scratch.samples)?;
            colour::append_rgb(&scratch.samples, &mut scratch.pixels)?;
        } else {
            bands.read(band, rows, &mut scratch.samples)?;
            colours.append(layout, rows, &scratch.samples, &mut scratch.pixels)?;
        }
    }
    Ok(())
}

/// The unconverted numbers of an image with one per pixel, upright: bytes, or two bytes in the machine's order.
pub(super) fn labels(bytes: &[u8], scratch: &mut Scratch) -> Result<PixelLayout> {
    let directory = Directory::first(bytes)?;
    let layout = Layout::new(&directory)?;
    check_amount(bytes, &layout)?;
    let whole = layout.number == layout::Number::Unsigned && layout.samples == 1;
    if !whole || !matches!(layout.bits, 1 | 2 | 4 | 8 | 16) || layout.compression == Compression::Jpeg {
        let reason = format!("masks are unsigned numbers of up to 16 bits, not {} bits", layout.bits);
        return Err(CODEC.unsupported(reason));
    }
    scratch.pixels.clear();
    let mut bands =
        Bands { bytes, directory: &directory, layout: &layout, chunk: Vec::new(), plane: Vec::new() };
    for band in 0..layout.bands() {
        let rows = layout.band_rows().min(layout.size.height as usize - band * layout.band_rows());
        bands.read(band, rows, &mut scratch.samples)?;
        colour::append_numbers(&layout, rows, &scratch.samples, &mut scratch.pixels)?;
    }
    let kind = if layout.bits == 16 { PixelLayout::Grey16 } else { PixelLayout::Grey8 };
    if layout.orientation != Orientation::Upright {
        let stored = view(&scratch.pixels, layout.size, kind)?;
        layout.orientation.apply(stored, &mut scratch.samples)?;
        std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
    }
    Ok(kind)
}

/// The stored numbers of greys, palettes and bands; `None` if they are colours of eight bits.
pub(super) fn stored(bytes: &[u8], scratch: &mut Scratch) -> Result<Option<Stored>> {
    let directory = Directory::first(bytes)?;
    let layout = Layout::new(&directory)?;
    check_amount(bytes, &layout)?;
    let mut bands =
        Bands { bytes, directory: &directory, layout: &layout, chunk: Vec::new(), plane: Vec::new() };
    let Some(stored) = numbers::stored(&directory, &layout)?.filter(|_| !bands.is_rgb()) else {
        return Ok(None);
    };
    let Scratch { pixels, samples, .. } = &mut *scratch;
    samples.clear();
    for band in 0..layout.bands() {
        let rows = layout.band_rows().min(layout.size.height as usize - band * layout.band_rows());
        bands.read(band, rows, pixels)?;
        numbers::append(&layout, &stored, rows, pixels, samples)?;
    }
    if layout.orientation != Orientation::Upright {
        let pixel = PixelLayout::Many { channels: stored.channels as u8, number: stored.number };
        let image = view(&scratch.samples, layout.size, pixel)?;
        layout.orientation.apply(image, &mut scratch.pixels)?;
        std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
    }
    Ok(Some(stored))
}

fn turn(layout: &Layout, scratch: &mut Scratch) -> Result<PixelLayout> {
    if layout.orientation != Orientation::Upright {
        let stored = view(&scratch.pixels, layout.size, PixelLayout::Rgbx)?;
        layout.orientation.apply(stored, &mut scratch.samples)?;
        std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
    }
    Ok(PixelLayout::Rgbx)
}

/// Reads bands of rows: a strip, or all tiles beside each other.
struct Bands<'a> {
    bytes: &'a [u8],
    directory: &'a Directory<'a>,
    layout: &'a Layout,
    chunk: Vec<u8>,
    plane: Vec<u8>,
}

impl Bands<'_> {
    /// Whether chunks decode directly to colours: JPEGs with three components, and YCbCr with subsampled chroma.
    fn is_rgb(&self) -> bool {
        let jpeg = self.layout.compression == Compression::Jpeg;
        let colours = jpeg && self.layout.samples == 3 && !self.layout.planes;
        colours || (self.is_subsampled() && !jpeg)
    }

    fn is_subsampled(&self) -> bool {
        let layout = self.layout;
        layout.meaning == Meaning::YCbCr
            && layout.subsampling != (1, 1)
            && !layout.planes
            && layout.samples == 3
    }

    /// Rows of all samples, one byte-aligned row after the other.
    fn read(&mut self, band: usize, rows: usize, out: &mut Vec<u8>) -> Result<()> {
        if !self.layout.planes {
            return self.read_plane(band, 0, self.layout.samples, rows, out);
        }
        let width = match self.layout.bits {
            bits @ (8 | 16 | 32 | 64) => bits / 8,
            bits => return Err(CODEC.unsupported(format!("planes of {bits} bits per sample"))),
        };
        let pixels = self.layout.size.width as usize * rows;
        fit(out, pixels * self.layout.samples * width, 0)?;
        for sample in 0..self.layout.samples {
            let mut plane = std::mem::take(&mut self.plane);
            self.read_plane(band, sample, 1, rows, &mut plane)?;
            let places = out.chunks_exact_mut(width * self.layout.samples);
            for (place, value) in places.zip(plane.chunks_exact(width)) {
                place[sample * width..(sample + 1) * width].copy_from_slice(value);
            }
            self.plane = plane;
        }
        Ok(())
    }

    fn read_plane(
        &mut self,
        band: usize,
        plane: usize,
        samples: usize,
        rows: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let across = self.layout.chunks_across();
        let first = (plane * self.layout.bands() + band) * across;
        let Some((tile_width, tile_height)) = self.layout.tile else {
            let shape = ChunkShape { width: self.layout.size.width as usize, height: rows, samples };
            return self.unpack(first, shape, out);
        };
        let shape = ChunkShape { width: tile_width, height: tile_height, samples };
        let (tile_row, width) = (shape.row_bytes(self.layout.bits), self.layout.size.width as usize);
        let stride = ChunkShape { width, ..shape }.row_bytes(self.layout.bits);
        fit(out, stride * rows, 0)?;
        for number in 0..across {
            let mut chunk = std::mem::take(&mut self.chunk);
            self.unpack(first + number, shape, &mut chunk)?;
            let start = number * tile_row;
            let length = tile_row.min(stride - start);
            for (to, from) in out.chunks_exact_mut(stride).zip(chunk.chunks_exact(tile_row)) {
                to[start..start + length].copy_from_slice(&from[..length]);
            }
            self.chunk = chunk;
        }
        Ok(())
    }

    fn unpack(&self, number: usize, shape: ChunkShape, out: &mut Vec<u8>) -> Result<()> {
        let (offset, data) = self.layout.chunk(self.bytes, number)?;
        if self.layout.compression == Compression::Jpeg {
            return jpeg::samples(self.directory, self.layout, data, shape, out);
        }
        unpack::unpack(self.layout, data, offset, shape, out)
    }

    /// Rows of red, green and blue.
    fn read_rgb(&mut self, band: usize, rows: usize, out: &mut Vec<u8>) -> Result<()> {
        let (across, width) = (self.layout.chunks_across(), self.layout.size.width as usize);
        let (chunk_width, chunk_height) = self.layout.tile.unwrap_or((width, rows));
        let shape = ChunkShape { width: chunk_width, height: chunk_height, samples: 3 };
        fit(out, width * rows * 3, 0)?;
        for number in 0..across {
            let (offset, data) = self.layout.chunk(self.bytes, band * across + number)?;
            if self.layout.compression == Compression::Jpeg {
                jpeg::samples(self.directory, self.layout, data, shape, &mut self.chunk)?;
            } else {
                self.shared_differences(data, offset, shape)?;
            }
            let start = number * chunk_width * 3;
            let length = (chunk_width * 3).min(width * 3 - start);
            for (to, from) in out.chunks_exact_mut(width * 3).zip(self.chunk.chunks_exact(chunk_width * 3)) {
                to[start..start + length].copy_from_slice(&from[..length]);
            }
        }
        Ok(())
    }

    /// YCbCr with subsampled chroma: samples are stored in groups, luma first.
    fn shared_differences(&mut self, data: &[u8], offset: usize, shape: ChunkShape) -> Result<()> {
        let (across, down) = self.layout.subsampling;
        let group = across * down + 2;
        let (columns, lines) = (shape.width.div_ceil(across), shape.height.div_ceil(down));
        let packed = ChunkShape { width: columns * group, height: lines, samples: 1 };
        let mut plane = std::mem::take(&mut self.plane);
        unpack::unpack(self.layout, data, offset, packed, &mut plane)?;
        fit(&mut self.chunk, shape.width * shape.height * 3, 0)?;
        for (y, row) in self.chunk.chunks_exact_mut(shape.width * 3).enumerate() {
            let line = &plane[(y / down) * columns * group..][..columns * group];
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let shared = &line[(x / across) * group..][..group];
                let light = shared[(y % down) * across + x % across];
                pixel.copy_from_slice(&colour::ycbcr(light, shared[group - 2], shared[group - 1]));
            }
        }
        self.plane = plane;
        Ok(())
    }
}
