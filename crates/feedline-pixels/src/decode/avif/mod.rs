//! AVIF: the boxes are read here, AV1 is decoded by dav1d, pixels have libavif's values. Still images, grids of tiles and
//! the main image of sequences; 8 to 12 bits per sample become eight.
//!
//! `boxes` reads the file's structure, `stream` decodes AV1, `colour` converts planes to pixels,
//! with the loops of `rows`.

mod boxes;
mod colour;
mod rows;
mod stream;

use super::{Codec, ImageHeader, Scratch};
use crate::{Orientation, PixelLayout, Result, Size};
use boxes::{Block, Boxes, Item};
use colour::{Plane, Planes};
use stream::{Chroma, Colours, Frame};

const CODEC: Codec = Codec::Avif;

/// What auxiliary items are called if they are opacity.
const ALPHA: [&[u8]; 2] = [b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", b"urn:mpeg:hevc:2015:auxid:1\0"];

pub(super) fn probe(bytes: &[u8]) -> Result<ImageHeader> {
    let boxes = Boxes::new(bytes)?;
    let item = boxes.item(boxes.primary)?;
    let size = size(&boxes, item)?;
    let channels = if alpha_item(&boxes, item)?.is_some() { 4 } else { 3 };
    Ok(ImageHeader {
        codec: CODEC,
        size,
        channels,
        bits: bits(&boxes, item),
        orientation: orientation(&boxes, item),
    })
}

pub(super) fn decode(bytes: &[u8], header: &ImageHeader, scratch: &mut Scratch) -> Result<PixelLayout> {
    let boxes = Boxes::new(bytes)?;
    let item = boxes.item(boxes.primary)?;
    let mut planes = Assembly::decode(&boxes, item, header.size)?;
    if let Some(colours) = declared_colours(&boxes, item)? {
        planes.colours = colours;
    }
    if let Some(alpha) = alpha_item(&boxes, item)? {
        let Planes { all: [plane, ..], bits, .. } = Assembly::decode(&boxes, alpha, header.size)?;
        planes.alpha = Some(to_bytes(plane, bits));
    }
    planes.convert(&mut scratch.pixels)?;
    if boxes.references.iter().any(|reference| reference.kind == *b"prem" && reference.from == item.id) {
        undo_premultiplication(&mut scratch.pixels);
    }
    Ok(PixelLayout::Rgbx)
}

/// Samples of the upper eight bits.
fn to_bytes(mut plane: Plane, bits: u32) -> Plane {
    plane.samples.iter_mut().for_each(|sample| *sample >>= bits - 8);
    plane
}

fn undo_premultiplication(pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<4>().0 {
        let alpha = u32::from(pixel[3]);
        for value in &mut pixel[..3] {
            let whole = (u32::from(*value) * 255 + alpha / 2).checked_div(alpha);
            *value = whole.map_or(0, |whole| whole.min(255) as u8);
        }
    }
}

fn size(boxes: &Boxes<'_>, item: &Item) -> Result<Size> {
    let block = boxes.property(item, *b"ispe").ok_or_else(|| CODEC.corrupt(0, "an image without a size"))?;
    let mut reader = block.reader();
    if reader.number(4)? != 0 {
        return Err(CODEC.corrupt(block.at, "a size of an unknown version"));
    }
    Ok(Size::new(reader.number(4)? as u32, reader.number(4)? as u32))
}

/// Bits per sample, from the description of the stream; tiles are described by the first of them.
fn bits(boxes: &Boxes<'_>, item: &Item) -> u8 {
    let first = tiles(boxes, item).first().and_then(|id| boxes.item(*id).ok());
    let block = boxes.property(item, *b"av1C").or_else(|| boxes.property(first?, *b"av1C"));
    match block.and_then(|block| block.content.get(2)) {
        Some(flags) if flags & 0x60 == 0x60 => 12,
        Some(flags) if flags & 0x40 != 0 => 10,
        _ => 8,
    }
}

/// Rotation and mirroring. As in Pillow, the orientation in EXIF is ignored.
fn orientation(boxes: &Boxes<'_>, item: &Item) -> Orientation {
    let first = |kind: [u8; 4]| boxes.property(item, kind).and_then(|block| block.content.first().copied());
    let turns = first(*b"irot").map_or(0, |angle| angle & 3);
    let mirror = first(*b"imir").map(|axis| axis & 1);
    Orientation::from_exif(match (turns, mirror) {
        (0, None) => 1,
        (1, None) => 8,
        (2, None) => 3,
        (_, None) => 6,
        (0, Some(0)) | (2, Some(1)) => 4,
        (0 | 2, Some(_)) => 2,
        (1, Some(0)) | (3, Some(1)) => 5,
        (_, Some(_)) => 7,
    })
}

/// The item with the opacity of another.
fn alpha_item<'a>(boxes: &'a Boxes<'_>, item: &Item) -> Result<Option<&'a Item>> {
    let mut found = boxes.references.iter().filter(|reference| reference.kind == *b"auxl");
    let found = found.find(|reference| reference.to.contains(&item.id) && is_alpha(boxes, reference.from));
    found.map(|reference| boxes.item(reference.from)).transpose()
}

fn is_alpha(boxes: &Boxes<'_>, id: u32) -> bool {
    let Ok(item) = boxes.item(id) else { return false };
    let kind = boxes.property(item, *b"auxC").and_then(|block| block.content.get(4..));
    kind.is_some_and(|kind| ALPHA.iter().any(|name| kind.starts_with(name)))
}

/// Colours that the file declares; they have precedence over the stream's.
fn declared_colours(boxes: &Boxes<'_>, item: &Item) -> Result<Option<Colours>> {
    let is_declared = |block: &&Block<'_>| block.kind == *b"colr" && block.content.starts_with(b"nclx");
    let Some(block) = boxes.properties(item).find(is_declared) else { return Ok(None) };
    let mut reader = block.reader();
    reader.bytes(8)?;
    let matrix = reader.number(2)? as u32;
    let range = reader.number(1)?;
    if range & 0x7F != 0 {
        return Err(CODEC.corrupt(block.at + 10, "bits that must be zero are not"));
    }
    Ok(Some(Colours { matrix, full_range: range != 0 }))
}

/// Items of which a grid is made.
fn tiles<'a>(boxes: &'a Boxes<'_>, item: &Item) -> &'a [u32] {
    let made_of = |reference: &&boxes::Reference| reference.kind == *b"dimg" && reference.from == item.id;
    boxes.references.iter().find(made_of).map_or(&[], |reference| &reference.to)
}

/// An image that is put together from one frame or from tiles.
struct Assembly {
    planes: Planes,
    size: Size,
}

impl Assembly {
    fn decode(boxes: &Boxes<'_>, item: &Item, size: Size) -> Result<Planes> {
        match &item.kind {
            b"av01" => Assembly::of_frame(boxes, item, size),
            b"grid" => Assembly::of_grid(boxes, item, size),
            kind => Err(CODEC.unsupported(format!("images of kind \"{}\"", kind.escape_ascii()))),
        }
    }

    fn of_frame(boxes: &Boxes<'_>, item: &Item, size: Size) -> Result<Planes> {
        let frame = frame(boxes, item, size)?;
        let mut assembly = Assembly::new(&frame, size)?;
        assembly.put(&frame, 0, 0)?;
        Ok(assembly.planes)
    }

    fn of_grid(boxes: &Boxes<'_>, item: &Item, size: Size) -> Result<Planes> {
        let (at, columns, rows) = grid(boxes, item, size)?;
        let tiles = tiles(boxes, item);
        if tiles.len() != columns * rows {
            return Err(CODEC.corrupt(at, format!("{} tiles instead of {columns}x{rows}", tiles.len())));
        }
        let tile = self::size(boxes, boxes.item(tiles[0])?)?;
        let covered = (u64::from(tile.width) * columns as u64, u64::from(tile.height) * rows as u64);
        let needed =
            |side: u32, tile: u32, count: usize| u64::from(tile) * (count as u64 - 1) < u64::from(side);
        let fits = covered.0 >= u64::from(size.width) && covered.1 >= u64::from(size.height);
        if !fits || !needed(size.width, tile.width, columns) || !needed(size.height, tile.height, rows) {
            return Err(
                CODEC.corrupt(at, format!("tiles of {}x{} do not make the image", tile.width, tile.height))
            );
        }
        let mut assembly: Option<Assembly> = None;
        for (number, id) in tiles.iter().enumerate() {
            let frame = frame(boxes, boxes.item(*id)?, tile)?;
            let assembly = match &mut assembly {
                Some(assembly) => assembly,
                none => none.insert(Assembly::new(&frame, size)?),
            };
            let (x, y) = (number % columns * tile.width as usize, number / columns * tile.height as usize);
            assembly.put(&frame, x, y)?;
        }
        assembly.map(|assembly| assembly.planes).ok_or_else(|| CODEC.corrupt(at, "a grid without tiles"))
    }

    /// Empty planes of an image of this size that is made of frames like this one.
    fn new(frame: &Frame, size: Size) -> Result<Self> {
        let chroma = frame.chroma();
        let halved = |size: Size| match chroma {
            Chroma::Quarter => Size::new(size.width.div_ceil(2), size.height.div_ceil(2)),
            Chroma::Half => Size::new(size.width.div_ceil(2), size.height),
            Chroma::Full => size,
            Chroma::None => Size::new(0, 0),
        };
        let shared = halved(size);
        let planes = [Plane::new(size)?, Plane::new(shared)?, Plane::new(shared)?];
        let planes =
            Planes { all: planes, alpha: None, chroma, bits: frame.bits(), colours: frame.colours() };
        Ok(Assembly { planes, size })
    }

    /// Copies a frame to its place; what reaches beyond the image is left out.
    fn put(&mut self, frame: &Frame, x: usize, y: usize) -> Result<()> {
        let planes = &mut self.planes;
        if (frame.chroma(), frame.bits()) != (planes.chroma, planes.bits) {
            return Err(CODEC.corrupt(0, "tiles of different kinds"));
        }
        for (number, plane) in planes.all.iter_mut().enumerate() {
            let from = frame.plane_size(number);
            if plane.size.area() == 0 {
                continue;
            }
            let (across, down) = if number == 0 { (1, 1) } else { subsampling(frame.chroma()) };
            let (x, y) = (x / across, y / down);
            let width = (from.width as usize).min(plane.size.width as usize - x);
            let height = (from.height as usize).min(plane.size.height as usize - y);
            let stride = plane.size.width as usize;
            for row in 0..height {
                let to = &mut plane.samples[(y + row) * stride + x..][..width];
                copy_samples(frame.row(number, row, width), frame.bits(), to);
            }
        }
        debug_assert_eq!(planes.all[0].size, self.size);
        Ok(())
    }
}

fn subsampling(chroma: Chroma) -> (usize, usize) {
    match chroma {
        Chroma::Quarter => (2, 2),
        Chroma::Half => (2, 1),
        Chroma::Full | Chroma::None => (1, 1),
    }
}

fn copy_samples(from: &[u8], bits: u32, to: &mut [u16]) {
    if bits > 8 {
        let (pairs, _) = from.as_chunks::<2>();
        to.iter_mut().zip(pairs).for_each(|(to, pair)| *to = u16::from_ne_bytes(*pair));
    } else {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = u16::from(*from));
    }
}

fn frame(boxes: &Boxes<'_>, item: &Item, size: Size) -> Result<Frame> {
    if item.kind != *b"av01" {
        return Err(CODEC.unsupported(format!("tiles of kind \"{}\"", item.kind.escape_ascii())));
    }
    let mut joined = Vec::new();
    let (at, content) = boxes.content(item, &mut joined)?;
    let frame = Frame::decode(content, at, size)?;
    if frame.size() != size {
        let Size { width, height } = frame.size();
        let reason = format!("a frame of {width}x{height} in an image of {}x{}", size.width, size.height);
        return Err(CODEC.corrupt(at, reason));
    }
    Ok(frame)
}

/// Offset, columns and rows of a grid.
fn grid(boxes: &Boxes<'_>, item: &Item, size: Size) -> Result<(usize, usize, usize)> {
    let mut joined = Vec::new();
    let (at, content) = boxes.content(item, &mut joined)?;
    let mut reader = Block { kind: item.kind, at, content }.reader();
    let head = reader.number(4)?;
    let (rows, columns) = ((head >> 8 & 255) as usize + 1, (head & 255) as usize + 1);
    let wide = if head >> 16 & 1 == 1 { 4 } else { 2 };
    let (width, height) = (reader.number(wide)?, reader.number(wide)?);
    if (width, height) != (u64::from(size.width), u64::from(size.height)) {
        let reason = format!("a grid of {width}x{height} in an image of {}x{}", size.width, size.height);
        return Err(CODEC.corrupt(at, reason));
    }
    Ok((at, columns, rows))
}
