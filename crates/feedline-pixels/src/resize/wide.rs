//! Resampling of pixels that are not red, green and blue bytes: 16 bits, floats, any number of channels. Double
//! precision, one direction after the other, each result rounded to the pixels' own number type, as Pillow does for
//! such images. Colours are weighted by their opacity if there is one, as in Pillow.

use super::{Axis, Filter};
use crate::{Error, Geometry, ImageRef, Number, PixelLayout, Result, Size, fit};

/// Crops, resizes, windows and mirrors `from` into `out`, as dense pixels of the same layout.
pub fn resample_wide(
    geometry: &Geometry,
    filter: Filter,
    from: ImageRef<'_>,
    out: &mut Vec<u8>,
) -> Result<Size> {
    geometry.check()?;
    if geometry.image != from.size {
        return Err(Error::Misuse("the image does not have the size of its geometry".into()));
    }
    let output = geometry.output();
    let pixel = Pixel::new(from.layout, geometry);
    fit(out, output.area() as usize * from.layout.bytes(), 0)?;
    pixel.fill(geometry.fill, out);
    let Some(covered) = geometry.covered() else { return Ok(output) };
    let (crop, resized) = (geometry.crop, geometry.resized);
    let across = taps(Axis::new(filter, crop.width, resized.width), covered.x, covered.right());
    let down = taps(Axis::new(filter, crop.height, resized.height), covered.y, covered.bottom());
    let (top, bottom) = span(&down);
    let stride = across.len() * pixel.channels;
    let mut middle = Vec::new();
    fit(&mut middle, stride * (bottom - top), 0.0)?;
    let mut line = Vec::new();
    for (y, row) in middle.chunks_exact_mut(stride).enumerate() {
        pixel.read(from.row(crop.y + (top + y) as u32), &mut line)?;
        blend_row(&pixel, &across, &line[crop.x as usize * pixel.channels..], row);
    }
    let left = (i64::from(covered.x) - i64::from(geometry.window.x)) as usize;
    let upper = (i64::from(covered.y) - i64::from(geometry.window.y)) as usize;
    let place = Place { geometry, left, upper };
    fit(&mut line, stride, 0.0)?;
    for (y, tap) in down.iter().enumerate() {
        blend_rows(&pixel, tap, &middle[(tap.start - top) * stride..], stride, &mut line);
        for (x, values) in line.chunks_exact(pixel.channels).enumerate() {
            let at = place.of(x, y) * from.layout.bytes();
            pixel.write(values, &mut out[at..at + from.layout.bytes()]);
        }
    }
    Ok(output)
}

/// Destination of the covered pixels.
struct Place<'a> {
    geometry: &'a Geometry,
    left: usize,
    upper: usize,
}

impl Place<'_> {
    fn of(&self, x: usize, y: usize) -> usize {
        let Size { width, height } = self.geometry.output();
        let (x, y) = (self.left + x, self.upper + y);
        let x = if self.geometry.flip_horizontal { width as usize - 1 - x } else { x };
        let y = if self.geometry.flip_vertical { height as usize - 1 - y } else { y };
        y * width as usize + x
    }
}

/// The source places of one output place.
struct Tap {
    start: usize,
    weights: Vec<f64>,
}

fn taps(axis: Axis, first: u32, last: u32) -> Vec<Tap> {
    (first..last)
        .map(|position| {
            let (start, end) = axis.bounds(position);
            let mut weights = vec![0.0; (end - start) as usize];
            axis.fill(position, start, &mut weights);
            let sum: f64 = weights.iter().sum();
            for weight in &mut weights {
                *weight /= sum;
            }
            Tap { start: start as usize, weights }
        })
        .collect()
}

fn span(taps: &[Tap]) -> (usize, usize) {
    let top = taps.iter().map(|tap| tap.start).min().unwrap_or(0);
    let bottom = taps.iter().map(|tap| tap.start + tap.weights.len()).max().unwrap_or(0);
    (top, bottom)
}

fn blend_row(pixel: &Pixel, taps: &[Tap], line: &[f64], out: &mut [f64]) {
    let channels = pixel.channels;
    for (tap, place) in taps.iter().zip(out.chunks_exact_mut(channels)) {
        for (channel, value) in place.iter_mut().enumerate() {
            let sources = line[tap.start * channels + channel..].iter().step_by(channels);
            let sum: f64 = sources.zip(&tap.weights).map(|(source, weight)| source * weight).sum();
            *value = pixel.rounded(sum);
        }
    }
}

fn blend_rows(pixel: &Pixel, tap: &Tap, rows: &[f64], stride: usize, out: &mut [f64]) {
    for (at, value) in out.iter_mut().enumerate() {
        let sources = rows[at..].iter().step_by(stride);
        let sum: f64 = sources.zip(&tap.weights).map(|(source, weight)| source * weight).sum();
        *value = pixel.rounded(sum);
    }
}

/// Layout of a pixel.
struct Pixel {
    channels: usize,
    number: Number,
    /// Whether the last number is opacity.
    has_alpha: bool,
    /// Whether colours are weighted by opacity; not if they are only copied, which must not change them.
    weighted: bool,
}

impl Pixel {
    fn new(layout: PixelLayout, geometry: &Geometry) -> Self {
        let grey_alpha = layout == PixelLayout::Many { channels: 2, number: Number::U8 };
        let has_alpha = layout == PixelLayout::Rgba || grey_alpha;
        let number = layout.number();
        let weighted = has_alpha && !geometry.is_copy();
        Pixel { channels: layout.bytes() / number.bytes(), number, has_alpha, weighted }
    }

    fn rounded(&self, value: f64) -> f64 {
        match self.number {
            Number::U8 => (value + 0.5).floor().clamp(0.0, 255.0),
            Number::U16 => (value + 0.5).floor().clamp(0.0, 65_535.0),
            Number::I32 => value.round().clamp(f64::from(i32::MIN), f64::from(i32::MAX)),
            Number::F32 => f64::from(value as f32),
        }
    }

    fn read(&self, row: &[u8], line: &mut Vec<f64>) -> Result<()> {
        line.clear();
        crate::reserve(line, row.len() / self.number.bytes())?;
        match self.number {
            Number::U8 => line.extend(row.iter().map(|value| f64::from(*value))),
            Number::U16 => {
                line.extend(row.as_chunks::<2>().0.iter().map(|v| f64::from(u16::from_ne_bytes(*v))));
            }
            Number::I32 => {
                line.extend(row.as_chunks::<4>().0.iter().map(|v| f64::from(i32::from_ne_bytes(*v))));
            }
            Number::F32 => {
                line.extend(row.as_chunks::<4>().0.iter().map(|v| f64::from(f32::from_ne_bytes(*v))));
            }
        }
        if self.weighted {
            for pixel in line.chunks_exact_mut(self.channels) {
                let [colours @ .., alpha] = pixel else { continue };
                for colour in colours {
                    *colour = (*colour * *alpha / 255.0 + 0.5).floor();
                }
            }
        }
        Ok(())
    }

    fn write(&self, values: &[f64], out: &mut [u8]) {
        let alpha = if self.weighted { values[self.channels - 1] } else { 0.0 };
        for (channel, (value, place)) in
            values.iter().zip(out.chunks_exact_mut(self.number.bytes())).enumerate()
        {
            let is_colour = self.weighted && channel + 1 < self.channels;
            let divided = is_colour && alpha > 0.0 && alpha < 255.0;
            let value = if divided { (value * 255.0 / alpha).floor().min(255.0) } else { *value };
            match self.number {
                Number::U8 => place[0] = value as u8,
                Number::U16 => place.copy_from_slice(&(value as u16).to_ne_bytes()),
                Number::I32 => place.copy_from_slice(&(value as i32).to_ne_bytes()),
                Number::F32 => place.copy_from_slice(&(value as f32).to_ne_bytes()),
            }
        }
    }

    /// The colour outside the image; opacity is 0 there.
    fn fill(&self, fill: [u8; 3], out: &mut [u8]) {
        if fill == [0; 3] {
            return out.fill(0);
        }
        let colour = |channel: usize| f64::from(fill[channel.min(2)]);
        let opacity = |channel: usize| self.has_alpha && channel + 1 == self.channels;
        let values: Vec<f64> =
            (0..self.channels).map(|at| if opacity(at) { 0.0 } else { colour(at) }).collect();
        out.chunks_exact_mut(self.channels * self.number.bytes())
            .for_each(|pixel| self.write(&values, pixel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn values_equal_pillow() {
        // Image.fromarray(np.array([[0, 100, 1000, 65535], [5, 6, 7, 8]], np.uint16)).resize((2, 1), BILINEAR)
        let values: [u16; 8] = [0, 100, 1000, 65_535, 5, 6, 7, 8];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let size = Size::new(4, 2);
        let from = ImageRef::new(&bytes, size, 8, PixelLayout::Grey16).unwrap();
        let geometry = Geometry::crop_resize(size, Region::whole(size), Size::new(2, 1));
        let mut out = Vec::new();
        resample_wide(&geometry, Filter::Bilinear, from, &mut out).unwrap();
        let found: Vec<u16> = out.as_chunks::<2>().0.iter().map(|v| u16::from_ne_bytes(*v)).collect();
        assert_eq!(found, [96, 14_268]);
    }

    #[test]
    fn windows_and_flips_are_copied() {
        let bytes: Vec<u8> = (0..12u8).collect();
        let layout = PixelLayout::Many { channels: 2, number: Number::U16 };
        let size = Size::new(3, 1);
        let from = ImageRef::new(&bytes, size, 12, layout).unwrap();
        let mut geometry = Geometry::identity(size);
        geometry.flip_horizontal = true;
        let mut out = Vec::new();
        resample_wide(&geometry, Filter::Bilinear, from, &mut out).unwrap();
        assert_eq!(out, [8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]);
    }
}
