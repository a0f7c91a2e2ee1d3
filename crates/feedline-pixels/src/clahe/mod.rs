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
    lab: Vec<[f32; 3]>,
    tables: Vec<[u8; 256]>,
}

/// The grid of tiles; the image is mirrored to whole tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) size: Size,
    pub(crate) tiles: (u32, u32),
    pub(crate) tile: Size,
}

pub(crate) fn equalize(scratch: &mut ClaheScratch, clahe: &Clahe, image: &mut ImageMut<'_>) -> Result<()> {
    let (across, down) = clahe.tiles;
    if across == 0 || down == 0 || across > MOST || down > MOST {
        return Err(Error::Misuse(format!("{across}x{down} tiles; 1 to {MOST} each")));
    }
    let size = image.size;
    // OpenCV pads both sides if one is not divisible.
    let exact = size.width.is_multiple_of(across) && size.height.is_multiple_of(down);
    let padded = |side: u32, tiles: u32| if exact { side } else { side + tiles - side % tiles };
    let tile = Size::new(padded(size.width, across) / across, padded(size.height, down) / down);
    let grid = Grid { size, tiles: clahe.tiles, tile };
    let ClaheScratch { lab, tables } = scratch;
    fit(lab, size.area() as usize, [0.0; 3])?;
    fit(tables, across as usize * down as usize, [0; 256])?;
    for y in 0..size.height {
        let row = &mut lab[y as usize * size.width as usize..][..size.width as usize];
        for (place, pixel) in row.iter_mut().zip(image.row_mut(y).chunks_exact(4)) {
            *place = lab::from_rgb([pixel[0], pixel[1], pixel[2]]);
        }
    }
    scalar::tables(grid, clahe.clip_limit, lab, tables);
    for y in 0..size.height {
        let row = &lab[y as usize * size.width as usize..][..size.width as usize];
        for (x, (place, pixel)) in row.iter().zip(image.row_mut(y).chunks_exact_mut(4)).enumerate() {
            let level = scalar::blended(grid, tables, x as u32, y, place[0].round() as u8);
            pixel[..3].copy_from_slice(&lab::to_rgb([f32::from(level), place[1], place[2]]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PixelLayout;

    #[test]
    fn contrast_grows_and_greys_stay_grey() {
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
