//! Colour-opponent channels, as in the early visual system: red against green, light against dark, blue against
//! yellow, each a narrow Gaussian minus a wide one.

mod scalar;

use crate::{Error, Finish, ImageRef, Region, Result, fit};

/// Selected channels, and the widths of their Gaussians: centre and surround, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opponent {
    /// Two channels: long minus middle wavelengths, and the reverse.
    pub parvo: Option<(f32, f32)>,
    /// Two channels: light on dark, and dark on light.
    pub magno: (f32, f32),
    /// One channel: short wavelengths minus the others.
    pub konio: Option<(f32, f32)>,
    /// Whether negative values become zero.
    pub rectify: bool,
    /// Subtracted from each channel at the end.
    pub mean: [f32; 5],
    /// Divisor of each channel.
    pub std: [f32; 5],
}

impl Opponent {
    /// Number of channels.
    pub fn count(&self) -> usize {
        2 + 2 * usize::from(self.parvo.is_some()) + usize::from(self.konio.is_some())
    }
}

/// Computes opponent channels; owns the scratch memory.
#[derive(Debug, Default)]
pub struct OpponentRunner {
    cones: [Vec<f32>; 3],
    centre: Vec<f32>,
    surround: Vec<f32>,
    line: Vec<f32>,
    planes: Vec<f32>,
}

impl OpponentRunner {
    /// Writes the channels of an image of four bytes per pixel in the form of `finish`, which must have as many.
    pub fn run(&mut self, op: &Opponent, image: ImageRef<'_>, finish: &Finish, out: &mut [u8]) -> Result<()> {
        if finish.channels.count() != op.count() {
            return Err(Error::Misuse("the number of channels differs from the output's".to_owned()));
        }
        let area = image.size.area() as usize;
        for plane in &mut self.cones {
            fit(plane, area, 0.0)?;
        }
        fit(&mut self.centre, area, 0.0)?;
        fit(&mut self.surround, area, 0.0)?;
        fit(&mut self.planes, area * op.count(), 0.0)?;
        fit(&mut self.line, image.size.width.max(image.size.height) as usize, 0.0)?;
        scalar::cones(image, &mut self.cones);
        self.channels(op, image, area);
        for (channel, plane) in self.planes.chunks_exact_mut(area).enumerate() {
            scalar::finish(plane, op.rectify, op.mean[channel], op.std[channel]);
        }
        let mut values = self.planes.iter();
        finish
            .overwrite(out, image.size, Region::whole(image.size), |_| values.next().copied().unwrap_or(0.0))
    }

    fn channels(&mut self, op: &Opponent, image: ImageRef<'_>, area: usize) {
        let size = image.size;
        let [long, middle, short] = &self.cones;
        let luminance = |at: usize| 0.5 * (long[at] + middle[at]);
        let mut planes = self.planes.chunks_exact_mut(area);
        let mut push = |centre: &dyn Fn(usize) -> f32, surround: &dyn Fn(usize) -> f32, sigma: (f32, f32)| {
            let Some(plane) = planes.next() else { return };
            self.centre.iter_mut().enumerate().for_each(|(at, value)| *value = centre(at));
            self.surround.iter_mut().enumerate().for_each(|(at, value)| *value = surround(at));
            scalar::smooth(&mut self.centre, size, sigma.0, &mut self.line);
            scalar::smooth(&mut self.surround, size, sigma.1, &mut self.line);
            for (value, (c, s)) in plane.iter_mut().zip(self.centre.iter().zip(&self.surround)) {
                *value = c - s;
            }
        };
        if let Some(sigma) = op.parvo {
            push(&|at| long[at], &|at| middle[at], sigma);
            push(&|at| middle[at], &|at| long[at], sigma);
        }
        push(&luminance, &luminance, op.magno);
        push(&|at| -luminance(at), &|at| -luminance(at), op.magno);
        if let Some(sigma) = op.konio {
            push(&|at| short[at], &luminance, sigma);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channels, Dtype, PixelLayout, Size, TensorLayout};

    fn made(pixel: [u8; 3]) -> Vec<f32> {
        let size = Size::new(12, 10);
        let bytes: Vec<u8> = (0..120).flat_map(|_| [pixel[0], pixel[1], pixel[2], 255]).collect();
        let image = ImageRef::new(&bytes, size, 48, PixelLayout::Rgbx).unwrap();
        let op = Opponent {
            parvo: Some((1.5, 5.0)),
            magno: (2.5, 5.0),
            konio: Some((2.5, 6.5)),
            rectify: true,
            mean: [0.0; 5],
            std: [1.0; 5],
        };
        let finish = Finish {
            layout: TensorLayout::ChannelsFirst,
            dtype: Dtype::F32,
            scale: true,
            normalise: None,
            channels: Channels::Lgn,
        };
        let mut out = vec![0; finish.output_bytes(size)];
        OpponentRunner::default().run(&op, image, &finish, &mut out).unwrap();
        let values = out.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap()));
        values.step_by(120).collect()
    }

    #[test]
    fn grey_gives_no_signal_and_colours_show_in_their_channel() {
        assert!(made([128; 3]).iter().all(|value| value.abs() < 1e-3), "{:?}", made([128; 3]));
        let (red, green, blue) = (made([255, 0, 0]), made([0, 255, 0]), made([0, 0, 255]));
        assert!(red[0] > 0.1 && red[1] == 0.0 && green[1] > 0.1 && green[0] == 0.0, "{red:?} {green:?}");
        assert!(blue[4] > 0.5 && red[4] == 0.0 && red[2] < 1e-4, "{blue:?} {red:?}");
    }
}
