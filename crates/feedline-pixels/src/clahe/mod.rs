//! Contrast-limited adaptive histogram equalisation of the lightness: each tile has its own table, and pixels blend the
//! tables of the four tiles around them. OpenCV's arithmetic on L of CIE Lab, as in albumentations.

mod lab;
mod scalar;

use crate::{Error, ImageMut, Result, Size, fit};

/// Largest number of tiles across and down.
const MOST: u32 = 256;

/// Contrast limit and number of tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clahe {
    /// Largest count of a bin, as a multiple of the mean; 0 for no limit.
    pub clip_limit: f32,
    /// Tiles across and down.
    pub tiles: (u32, u32),
}

/// Scratch memory.
#[derive(Debug, Default)]
pub(crate) struct ClaheScratch {
    lightness: Vec<u8>,
    /// a and b.
    colours: Vec<[u8; 2]>,
    tables: Vec<[u8; 256]>,
    columns: Vec<Between>,
}

/// The grid of tiles; the image is mirrored to whole tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) size: Size,
    pub(crate) tiles: (u32, u32),
    pub(crate) tile: Size,
}

/// The two tiles around a column or row, and its share of the second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Between {
    first: u32,
    second: u32,
    share: f32,
}

impl Between {
    fn new(at: u32, length: u32, count: u32) -> Self {
        let place = at as f32 / length as f32 - 0.5;
        let first = place.floor();
        let clamp = |tile: f32| tile.clamp(0.0, count as f32 - 1.0) as u32;
        Between { first: clamp(first), second: clamp(first + 1.0), share: place - first }
    }
}

pub(crate) fn equalize(scratch: &mut ClaheScratch, clahe: &Clahe, image: &mut ImageMut<'_>) -> Result<()> {
    let grid = Grid::new(image.size, clahe)?;
    let ClaheScratch { lightness, colours, tables, columns } = scratch;
    let (width, area, bytes) = (image.size.width as usize, image.size.area() as usize, image.layout.bytes());
    fit(lightness, area, 0)?;
    fit(colours, area, [0; 2])?;
    fit(tables, grid.tiles.0 as usize * grid.tiles.1 as usize, [0; 256])?;
    fit(columns, width, Between::default())?;
    for (x, column) in (0..).zip(columns.iter_mut()) {
        *column = Between::new(x, grid.tile.width, grid.tiles.0);
    }
    for (y, (levels, colours)) in
        (0..).zip(lightness.chunks_exact_mut(width).zip(colours.chunks_exact_mut(width)))
    {
        scalar::split(image.row_mut(y), bytes, levels, colours);
    }
    scalar::tables(grid, clahe.clip_limit, lightness, tables);
    for (y, (levels, colours)) in
        (0..).zip(lightness.chunks_exact_mut(width).zip(colours.chunks_exact(width)))
    {
        let row = Between::new(y, grid.tile.height, grid.tiles.1);
        let line = |tile: u32| &tables[(tile * grid.tiles.0) as usize..][..grid.tiles.0 as usize];
        scalar::blend([line(row.first), line(row.second)], row.share, columns, levels);
        scalar::join(levels, colours, bytes, image.row_mut(y));
    }
    Ok(())
}

impl Grid {
    fn new(size: Size, clahe: &Clahe) -> Result<Self> {
        let (across, down) = clahe.tiles;
        if across == 0 || down == 0 || across > MOST || down > MOST {
            return Err(Error::Misuse(format!("{across}x{down} tiles; 1 to {MOST} each")));
        }
        // OpenCV pads both sides if one is not divisible.
        let exact = size.width.is_multiple_of(across) && size.height.is_multiple_of(down);
        let padded = |side: u32, tiles: u32| if exact { side } else { side + tiles - side % tiles };
        let tile = Size::new(padded(size.width, across) / across, padded(size.height, down) / down);
        Ok(Grid { size, tiles: clahe.tiles, tile })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    #[test]
    fn contrast_grows_and_grey_stays_grey() {
        let size = Size::new(64, 48);
        let mut bytes: Vec<u8> =
            (0..size.area() as u32).flat_map(|i| [100 + (i % 64 / 4) as u8; 4]).collect();
        let mut image = ImageMut::new(&mut bytes, size, 64 * 4, PixelLayout::Rgbx).unwrap();
        let clahe = Clahe { clip_limit: 4.0, tiles: (4, 4) };
        equalize(&mut ClaheScratch::default(), &clahe, &mut image).unwrap();
        let levels: Vec<u8> = bytes.chunks_exact(4).map(|p| p[0]).collect();
        let range = levels.iter().max().unwrap() - levels.iter().min().unwrap();
        // There were 15 levels before; the clip limit prevents the full range.
        assert!(range > 30, "{range}");
        assert!(bytes.chunks_exact(4).all(|p| p[0].abs_diff(p[1]) <= 1 && p[1].abs_diff(p[2]) <= 1));
    }
}
