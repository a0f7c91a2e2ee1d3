//! Geometry for pixels that must not be blended: class indices, 16-bit labels, floats. Every output pixel is a copy of
//! one source pixel or the fill, for every [`PixelLayout`](crate::PixelLayout). The source pixel is that of Pillow's
//! nearest filter, as for images.

mod labels;
mod moves;

pub use labels::{LabelType, widen_labels};

use crate::resize::{Axis, Filter};
use crate::sample::Field;
use crate::warp::{self, Warp};
use crate::whole::{Border, padded, source_place};
use crate::{CpuLevel, Error, Geometry, ImageMut, ImageRef, Orientation, PixelLayout, Result, Size, fit};

/// Moves pixels; owns the scratch memory.
#[derive(Debug, Default)]
pub struct Nearest {
    columns: Vec<Option<u32>>,
    rows: Vec<Option<u32>>,
    positions: Vec<u32>,
    field: Field,
}

impl Nearest {
    /// Crops, resizes, windows and mirrors `from` into `out`, as dense pixels of the same layout. `fill` is
    /// one pixel's bytes.
    pub fn resample(
        &mut self,
        geometry: &Geometry,
        from: ImageRef<'_>,
        fill: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Size> {
        self.find_places(geometry, from)?;
        self.gather(from, geometry.output(), fill, out)
    }

    /// Finds the source column and row of every column and row of the result.
    fn find_places(&mut self, geometry: &Geometry, from: ImageRef<'_>) -> Result<()> {
        geometry.check()?;
        if geometry.image != from.size {
            return Err(Error::Misuse("the image does not have the size of its geometry".into()));
        }
        let Geometry { crop, resized, window, .. } = *geometry;
        let horizontal = Axis::new(Filter::Nearest, crop.width, resized.width);
        let vertical = Axis::new(Filter::Nearest, crop.height, resized.height);
        let Nearest { columns, rows, positions, .. } = self;
        let along = Along { start: window.x, length: window.width, flip: geometry.flip_horizontal };
        along.places(horizontal, (crop.x, resized.width), positions, columns)?;
        let along = Along { start: window.y, length: window.height, flip: geometry.flip_vertical };
        along.places(vertical, (crop.y, resized.height), positions, rows)
    }

    /// Adds pixels on the left, top, right and bottom.
    pub fn pad(
        &mut self,
        sides: [u32; 4],
        border: Border,
        from: ImageRef<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Size> {
        let output = padded(from.size, sides);
        let [left, top, ..] = sides.map(i64::from);
        let place = |at: u32, before: i64, length| Some(source_place(i64::from(at) - before, length, border));
        fill_with(&mut self.columns, output.width, |x| place(x, left, from.size.width))?;
        fill_with(&mut self.rows, output.height, |y| place(y, top, from.size.height))?;
        let fill = [0; MOST_BYTES];
        self.gather(from, output, &fill[..from.layout.bytes()], out)
    }

    /// Warps with nearest, whatever filter and fill the warp has for images.
    pub fn warp(&mut self, warp: &Warp, from: ImageRef<'_>, fill: &[u8], out: &mut Vec<u8>) -> Result<Size> {
        let bytes = check_fill(from, fill)?;
        make_room(out, warp.output, bytes)?;
        let mut to = ImageMut::new(out, warp.output, warp.output.width as usize * bytes, from.layout)?;
        match bytes {
            1 => warp::nearest::<1>(CpuLevel::detect(), &warp.map, from, &mut to, array(fill)),
            2 => warp::nearest::<2>(CpuLevel::detect(), &warp.map, from, &mut to, array(fill)),
            3 => warp::nearest::<3>(CpuLevel::detect(), &warp.map, from, &mut to, array(fill)),
            4 => warp::nearest::<4>(CpuLevel::detect(), &warp.map, from, &mut to, array(fill)),
            _ => warp_large(warp, from, fill, out)?,
        }
        Ok(warp.output)
    }

    /// Rotates a stored image upright.
    pub fn turn(&mut self, orientation: Orientation, from: ImageRef<'_>, out: &mut Vec<u8>) -> Result<Size> {
        let size = orientation.turn_size(from.size);
        if orientation == Orientation::Upright {
            let whole = Geometry::identity(from.size);
            let fill = [0; MOST_BYTES];
            return self.resample(&whole, from, &fill[..from.layout.bytes()], out);
        }
        orientation.apply(from, out)?;
        Ok(size)
    }

    fn gather(&self, from: ImageRef<'_>, output: Size, fill: &[u8], out: &mut Vec<u8>) -> Result<Size> {
        let bytes = check_fill(from, fill)?;
        make_room(out, output, bytes)?;
        match bytes {
            1 => self.gather_bytes::<1>(from, array(fill), out),
            2 => self.gather_bytes::<2>(from, array(fill), out),
            3 => self.gather_bytes::<3>(from, array(fill), out),
            4 => self.gather_bytes::<4>(from, array(fill), out),
            _ => self.gather_large(from, fill, out),
        }
        Ok(output)
    }

    /// For pixels of any size.
    fn gather_large(&self, from: ImageRef<'_>, fill: &[u8], out: &mut [u8]) {
        let bytes = fill.len();
        for (row, line) in self.rows.iter().zip(out.chunks_exact_mut(self.columns.len() * bytes)) {
            let source = row.map(|row| from.row(row));
            for (pixel, column) in line.chunks_exact_mut(bytes).zip(&self.columns) {
                let place = source.zip(*column);
                let copied = place.map(|(source, column)| &source[column as usize * bytes..][..bytes]);
                pixel.copy_from_slice(copied.unwrap_or(fill));
            }
        }
    }

    fn gather_bytes<const BYTES: usize>(&self, from: ImageRef<'_>, fill: [u8; BYTES], out: &mut [u8]) {
        let (out, _) = out.as_chunks_mut::<BYTES>();
        for (row, line) in self.rows.iter().zip(out.chunks_exact_mut(self.columns.len())) {
            let Some(row) = row else {
                line.fill(fill);
                continue;
            };
            let (source, _) = from.row(*row).as_chunks::<BYTES>();
            for (pixel, column) in line.iter_mut().zip(&self.columns) {
                *pixel = column.map_or(fill, |column| source[column as usize]);
            }
        }
    }
}

/// For pixels of any size: finds each source place by warping the numbers of all pixels.
fn warp_large(warp: &Warp, from: ImageRef<'_>, fill: &[u8], out: &mut [u8]) -> Result<()> {
    let (size, output) = (from.size, warp.output);
    // Places are counted from 1; 0 is outside.
    let mut places: Vec<u8> = Vec::new();
    make_room(&mut places, size, 4)?;
    let (numbers, _) = places.as_chunks_mut::<4>();
    numbers.iter_mut().enumerate().for_each(|(at, place)| *place = (at as u32 + 1).to_ne_bytes());
    let mut moved = Vec::new();
    make_room(&mut moved, output, 4)?;
    let mut to = ImageMut::new(&mut moved, output, output.width as usize * 4, PixelLayout::Rgbx)?;
    let view = ImageRef::new(&places, size, size.width as usize * 4, PixelLayout::Rgbx)?;
    warp::nearest::<4>(CpuLevel::detect(), &warp.map, view, &mut to, [0; 4]);
    let bytes = fill.len();
    for (pixel, place) in out.chunks_exact_mut(bytes).zip(moved.as_chunks::<4>().0) {
        let place = u32::from_ne_bytes(*place).checked_sub(1);
        let source =
            place.map(|at| &from.row(at / size.width)[(at % size.width) as usize * bytes..][..bytes]);
        pixel.copy_from_slice(source.unwrap_or(fill));
    }
    Ok(())
}

/// Size of the largest pixel: 255 numbers of four bytes.
const MOST_BYTES: usize = 1020;

/// One axis of a window.
struct Along {
    start: i32,
    length: u32,
    flip: bool,
}

impl Along {
    /// The source place of each output place. `origin` is the axis's start in the source, `resized` its length.
    fn places(
        &self,
        axis: Axis,
        (origin, resized): (u32, u32),
        positions: &mut Vec<u32>,
        places: &mut Vec<Option<u32>>,
    ) -> Result<()> {
        let first = self.start.clamp(0, resized as i32) as u32;
        let last = (i64::from(self.start) + i64::from(self.length)).clamp(0, i64::from(resized)) as u32;
        crate::reserve(positions, last.saturating_sub(first) as usize)?;
        axis.nearest(first, last, positions);
        fill_with(places, self.length, |at| {
            let at = if self.flip { self.length - 1 - at } else { at };
            let inside = usize::try_from(i64::from(self.start) + i64::from(at) - i64::from(first)).ok()?;
            positions.get(inside).map(|place| origin + place)
        })
    }
}

fn fill_with(places: &mut Vec<Option<u32>>, length: u32, place: impl Fn(u32) -> Option<u32>) -> Result<()> {
    places.clear();
    crate::reserve(places, length as usize)?;
    places.extend((0..length).map(place));
    Ok(())
}

fn check_fill(from: ImageRef<'_>, fill: &[u8]) -> Result<usize> {
    let bytes = from.layout.bytes();
    if fill.len() == bytes {
        return Ok(bytes);
    }
    Err(Error::Misuse(format!("a fill of {} bytes for pixels of {bytes}", fill.len())))
}

fn make_room(out: &mut Vec<u8>, size: Size, bytes: usize) -> Result<()> {
    let length = size.area().checked_mul(bytes as u64).and_then(|length| usize::try_from(length).ok());
    fit(out, length.unwrap_or(usize::MAX), 0)
}

fn array<const BYTES: usize>(fill: &[u8]) -> [u8; BYTES] {
    std::array::from_fn(|at| fill[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finish, Map, Region, Renderer, TensorLayout, WarpFilter, WholeOp, WholeRunner, Window};

    const IMAGE: Size = Size::new(23, 17);

    /// An image in which every pixel's bytes are computed from its first three.
    fn image(layout: PixelLayout) -> Vec<u8> {
        let pixel = |i: u32| (i.wrapping_mul(2654435761) >> 12).to_le_bytes();
        let whole = |i: u32| pixel(i).into_iter().cycle().take(layout.bytes());
        (0..IMAGE.area() as u32).flat_map(whole).collect()
    }

    fn view(bytes: &[u8], layout: PixelLayout) -> ImageRef<'_> {
        ImageRef::new(bytes, IMAGE, IMAGE.width as usize * layout.bytes(), layout).unwrap()
    }

    fn firsts(pixels: &[u8], bytes: usize) -> Vec<u8> {
        pixels.iter().step_by(bytes).copied().collect()
    }

    #[test]
    fn every_layout_is_moved_like_an_image() {
        let mut geometry = Geometry::crop_resize(IMAGE, Region::new(3, 2, 17, 13), Size::new(31, 9));
        geometry.window = Window::new(-4, 2, 40, 12);
        let finish = Finish::bytes(TensorLayout::ChannelsLast);
        for flips in [(false, false), (true, false), (false, true), (true, true)] {
            (geometry.flip_horizontal, geometry.flip_vertical) = flips;
            let rgb = image(PixelLayout::Rgb);
            let mut expected = vec![0; finish.output_bytes(geometry.output())];
            let from = view(&rgb, PixelLayout::Rgb);
            Renderer::new()
                .render_image(from, (0, 0), &geometry, Filter::Nearest, &finish, &mut expected)
                .unwrap();
            for layout in PixelLayout::ALL {
                let (bytes, mut out) = (image(layout), Vec::new());
                let fill = vec![0; layout.bytes()];
                let size = Nearest::default().resample(&geometry, view(&bytes, layout), &fill, &mut out);
                assert_eq!(size.unwrap(), geometry.output());
                assert!(firsts(&out, layout.bytes()) == firsts(&expected, 3), "{layout:?} {flips:?}");
            }
        }
    }

    #[test]
    fn warps_and_borders_equal_those_of_images() {
        let map = Map::Affine([0.9, 0.3, -2.0, -0.3, 0.9, 4.0]);
        let op = Warp { map, output: Size::new(29, 11), filter: WarpFilter::Nearest, fill: [7; 3] };
        let mut warped = image(PixelLayout::Rgbx);
        let mut runner = WholeRunner::default();
        runner.warp(&op, &mut warped, IMAGE).unwrap();
        let mut wide = image(PixelLayout::Rgbx);
        runner.run(&WholeOp::Pad([1, 2, 30, 4], Border::Reflect), &mut wide, IMAGE).unwrap();
        for layout in PixelLayout::ALL {
            let (bytes, mut out) = (image(layout), Vec::new());
            let mut nearest = Nearest::default();
            nearest.warp(&op, view(&bytes, layout), &vec![7; layout.bytes()], &mut out).unwrap();
            assert!(firsts(&out, layout.bytes()) == firsts(&warped, 4), "{layout:?}");
            nearest.pad([1, 2, 30, 4], Border::Reflect, view(&bytes, layout), &mut out).unwrap();
            assert!(firsts(&out, layout.bytes()) == firsts(&wide, 4), "{layout:?}");
        }
    }

    #[test]
    fn rotated_images_become_upright() {
        for layout in PixelLayout::ALL {
            let (bytes, mut out, mut back) = (image(layout), Vec::new(), Vec::new());
            let mut nearest = Nearest::default();
            let size = nearest.turn(Orientation::Turn90, view(&bytes, layout), &mut out).unwrap();
            assert_eq!(size, Size::new(17, 23));
            let turned = ImageRef::new(&out, size, size.width as usize * layout.bytes(), layout).unwrap();
            nearest.turn(Orientation::Turn270, turned, &mut back).unwrap();
            assert!(back == bytes, "{layout:?}");
        }
    }

    #[test]
    fn wrong_fills_and_sizes_are_refused() {
        let bytes = image(PixelLayout::Grey16);
        let from = view(&bytes, PixelLayout::Grey16);
        let mut out = Vec::new();
        let mut nearest = Nearest::default();
        assert!(nearest.resample(&Geometry::identity(IMAGE), from, &[0], &mut out).is_err());
        assert!(nearest.resample(&Geometry::identity(Size::new(5, 5)), from, &[0, 0], &mut out).is_err());
    }
}
