//! The kinds of values that an image can be decoded to: colours, greys, class indices, depths. Names and arithmetic are
//! Pillow's.
//!
//! A codec returns the file's values ([`Stored`], samples in `Scratch::samples`); [`Stored::convert`] converts them to
//! the requested mode. Integers are not scaled, except black and white, which become 0 and 255 as greys. If numbers of
//! more than eight bits must become bytes, 16-bit ones keep their upper half, and others are clipped.

use super::{Codec, Scratch};
use crate::{Error, Number, PixelLayout, Result, room};

/// Kind of values of a decoded image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Red, green and blue.
    #[default]
    Rgb,
    /// Red, green, blue and opacity.
    Rgba,
    /// Grey.
    Grey,
    /// Grey and opacity.
    GreyAlpha,
    /// Grey of 16 bits.
    Grey16,
    /// Grey as floats.
    Float,
    /// The stored numbers of an image with one channel: palette indices, classes, 0 and 1.
    Index,
    /// The unconverted numbers of the file.
    Unchanged,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 8] = [
        Mode::Rgb,
        Mode::Rgba,
        Mode::Grey,
        Mode::GreyAlpha,
        Mode::Grey16,
        Mode::Float,
        Mode::Index,
        Mode::Unchanged,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Rgb => "RGB",
            Mode::Rgba => "RGBA",
            Mode::Grey => "L",
            Mode::GreyAlpha => "LA",
            Mode::Grey16 => "I;16",
            Mode::Float => "F",
            Mode::Index => "index",
            Mode::Unchanged => "unchanged",
        }
    }

    /// The mode of this name.
    pub fn from_name(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    fn wants_alpha(self) -> bool {
        matches!(self, Mode::Rgba | Mode::GreyAlpha)
    }
}

/// Values of a file; its samples are in `Scratch::samples`, pixel by pixel, in this machine's byte order.
#[derive(Debug)]
pub(super) struct Stored {
    /// Number of values per pixel.
    pub(super) channels: usize,
    pub(super) number: Number,
    /// 0 is black and 1 white.
    pub(super) black_and_white: bool,
    /// Colours and opacity by index.
    pub(super) palette: Option<Vec<[u8; 4]>>,
    /// The colour that is transparent.
    pub(super) key: Option<[u16; 3]>,
}

impl Stored {
    /// Numbers without a palette or a transparent colour.
    pub(super) fn plain(channels: usize, number: Number) -> Self {
        Stored { channels, number, black_and_white: false, palette: None, key: None }
    }

    /// Bytes of palette indices.
    pub(super) fn indexed(palette: Vec<[u8; 4]>) -> Self {
        Stored { palette: Some(palette), ..Stored::plain(1, Number::U8) }
    }

    /// Takes samples from pixels that have been decoded to `layout`, of which `channels` carry information.
    pub(super) fn of_pixels(layout: PixelLayout, channels: u8, scratch: &mut Scratch) -> Result<Self> {
        let Scratch { pixels, samples, .. } = scratch;
        let (step, kept) = (layout.bytes(), usize::from(channels).min(4));
        samples.clear();
        room::reserve(samples, pixels.len() / step * kept)?;
        for pixel in pixels.chunks_exact(step) {
            match kept {
                // Alpha is the fourth byte of greys, too.
                2 => samples.extend_from_slice(&[pixel[0], pixel[step - 1]]),
                kept => samples.extend_from_slice(&pixel[..kept.min(step)]),
            }
        }
        Ok(Stored::plain(kept.min(step), Number::U8))
    }

    /// Converts the samples to `mode`, into `Scratch::pixels`.
    pub(super) fn convert(&self, codec: Codec, mode: Mode, scratch: &mut Scratch) -> Result<PixelLayout> {
        if let Some(layout) = self.as_it_is(mode) {
            std::mem::swap(&mut scratch.pixels, &mut scratch.samples);
            return Ok(layout);
        }
        match mode {
            Mode::Index | Mode::Unchanged => Err(self.no_classes(codec)),
            _ if self.is_many() => Err(codec.unsupported(format!(
                "{} channels as {}; mode=\"unchanged\" gives all of them",
                self.channels,
                mode.name()
            ))),
            Mode::Grey16 => self.each(scratch, PixelLayout::Grey16, |pixel| pixel.light_16().to_ne_bytes()),
            Mode::Float => {
                self.each(scratch, PixelLayout::GreyF32, |pixel| pixel.light_float().to_ne_bytes())
            }
            Mode::Grey => self.each(scratch, PixelLayout::Grey8, |pixel| [pixel.light()]),
            Mode::GreyAlpha => {
                let layout = PixelLayout::Many { channels: 2, number: Number::U8 };
                self.each(scratch, layout, |pixel| [pixel.light(), pixel.alpha()])
            }
            Mode::Rgb | Mode::Rgba => self.each(scratch, PixelLayout::Rgba, Pixel::colours),
        }
    }

    /// The layout, if no conversion is needed.
    fn as_it_is(&self, mode: Mode) -> Option<PixelLayout> {
        let stored = self.layout();
        let fits = match mode {
            Mode::Unchanged => true,
            Mode::Index => self.channels == 1 && self.number != Number::F32,
            _ if self.palette.is_some() || self.black_and_white => false,
            _ if self.key.is_some() && mode.wants_alpha() => false,
            Mode::Grey => stored == PixelLayout::Grey8,
            Mode::GreyAlpha => stored == PixelLayout::Many { channels: 2, number: Number::U8 },
            Mode::Grey16 => stored == PixelLayout::Grey16,
            Mode::Float => stored == PixelLayout::GreyF32,
            Mode::Rgba => stored == PixelLayout::Rgba,
            Mode::Rgb => stored == PixelLayout::Rgb,
        };
        fits.then_some(match (mode, stored) {
            (Mode::Index, PixelLayout::Grey8) => PixelLayout::Index8,
            (_, stored) => stored,
        })
    }

    fn layout(&self) -> PixelLayout {
        match (self.channels, self.number) {
            (1, Number::U8) if self.palette.is_some() || self.black_and_white => PixelLayout::Index8,
            (1, Number::U8) => PixelLayout::Grey8,
            (1, Number::U16) => PixelLayout::Grey16,
            (1, Number::F32) => PixelLayout::GreyF32,
            (3, Number::U8) => PixelLayout::Rgb,
            (4, Number::U8) => PixelLayout::Rgba,
            (channels, number) => PixelLayout::Many { channels: channels as u8, number },
        }
    }

    fn is_many(&self) -> bool {
        self.channels > 4
    }

    fn no_classes(&self, codec: Codec) -> Error {
        let what = match self.channels {
            1 => "floats".to_owned(),
            channels => format!("{channels} channels"),
        };
        codec.unsupported(format!("{what} are not class indices: mode=\"index\" needs one integer per pixel"))
    }

    /// Converts every pixel to `BYTES` bytes.
    fn each<const BYTES: usize>(
        &self,
        scratch: &mut Scratch,
        layout: PixelLayout,
        make: impl Fn(&Pixel) -> [u8; BYTES],
    ) -> Result<PixelLayout> {
        let Scratch { pixels, samples, .. } = scratch;
        let step = self.channels * self.number.bytes();
        pixels.clear();
        room::reserve(pixels, samples.len() / step * BYTES)?;
        for stored in samples.chunks_exact(step) {
            pixels.extend_from_slice(&make(&self.pixel(stored)));
        }
        Ok(layout)
    }

    fn pixel(&self, stored: &[u8]) -> Pixel {
        if let Some(palette) = &self.palette {
            let [red, green, blue, alpha] =
                palette.get(usize::from(stored[0])).copied().unwrap_or([0, 0, 0, 255]);
            return Pixel::Bytes([red, green, blue].map(u16::from), u16::from(alpha), false);
        }
        let value = |at: usize| u16_at(stored, at, self.number);
        let top = if self.number == Number::U16 { u16::MAX } else { 255 };
        match (self.number, self.channels) {
            (Number::I32, 1) => {
                Pixel::Whole(i32::from_ne_bytes([stored[0], stored[1], stored[2], stored[3]]))
            }
            (Number::F32, 1) => {
                Pixel::Float(f32::from_ne_bytes([stored[0], stored[1], stored[2], stored[3]]))
            }
            (_, 1 | 2) => {
                let grey = if self.black_and_white { value(0) * 255 } else { value(0) };
                let alpha = if self.channels == 2 { value(1) } else { self.keyed([grey; 3], top) };
                Pixel::Bytes([grey; 3], alpha, self.number == Number::U16)
            }
            _ => {
                let colours = [value(0), value(1), value(2)];
                let alpha = if self.channels == 4 { value(3) } else { self.keyed(colours, top) };
                Pixel::Bytes(colours, alpha, self.number == Number::U16)
            }
        }
    }

    fn keyed(&self, colours: [u16; 3], top: u16) -> u16 {
        if self.key == Some(colours) { 0 } else { top }
    }
}

/// Sample `at` as 16 bits; wider ones are clipped.
fn u16_at(stored: &[u8], at: usize, number: Number) -> u16 {
    let four = |at: usize| [stored[at], stored[at + 1], stored[at + 2], stored[at + 3]];
    match number {
        Number::U8 => u16::from(stored[at]),
        Number::U16 => u16::from_ne_bytes([stored[2 * at], stored[2 * at + 1]]),
        Number::I32 => i32::from_ne_bytes(four(4 * at)).clamp(0, 255) as u16,
        Number::F32 => u16::from(f32::from_ne_bytes(four(4 * at)) as u8),
    }
}

/// Values of one pixel.
enum Pixel {
    /// Colours and opacity, and whether they have 16 bits.
    Bytes([u16; 3], u16, bool),
    Whole(i32),
    Float(f32),
}

impl Pixel {
    /// Pillow's weights, in 65536ths.
    fn light(&self) -> u8 {
        match self {
            Pixel::Whole(value) => (*value).clamp(0, 255) as u8,
            Pixel::Float(value) => *value as u8,
            Pixel::Bytes(_, _, false) => self.light_16() as u8,
            Pixel::Bytes(_, _, true) => (self.light_16() >> 8) as u8,
        }
    }

    fn light_16(&self) -> u16 {
        match self {
            Pixel::Whole(value) => (*value).clamp(0, 65_535) as u16,
            Pixel::Float(value) => *value as u16,
            Pixel::Bytes([red, green, blue], ..) => {
                let [red, green, blue] = [red, green, blue].map(|value| u64::from(*value));
                ((red * 19_595 + green * 38_470 + blue * 7_471 + 0x8000) >> 16) as u16
            }
        }
    }

    fn light_float(&self) -> f32 {
        match self {
            Pixel::Whole(value) => *value as f32,
            Pixel::Float(value) => *value,
            Pixel::Bytes([red, green, blue], ..) => {
                let [red, green, blue] = [red, green, blue].map(|value| u32::from(*value));
                (red * 299 + green * 587 + blue * 114) as f32 / 1000.0
            }
        }
    }

    fn alpha(&self) -> u8 {
        match self {
            Pixel::Bytes(_, alpha, true) => (*alpha >> 8) as u8,
            Pixel::Bytes(_, alpha, false) => *alpha as u8,
            _ => 255,
        }
    }

    fn colours(&self) -> [u8; 4] {
        let alpha = self.alpha();
        match self {
            Pixel::Bytes([red, green, blue], _, wide) => {
                let byte = |value: u16| if *wide { (value >> 8) as u8 } else { value as u8 };
                [byte(*red), byte(*green), byte(*blue), alpha]
            }
            _ => [self.light(), self.light(), self.light(), alpha],
        }
    }
}

/// Composes pixels with opacity on a colour, as Pillow's `Image.paste` with a mask does.
pub(super) fn compose(background: [u8; 3], pixels: &mut [u8]) {
    for [red, green, blue, alpha] in pixels.as_chunks_mut::<4>().0 {
        for (colour, behind) in [red, green, blue].into_iter().zip(background) {
            let (over, opacity) = (u32::from(*colour), u32::from(*alpha));
            let sum = over * opacity + u32::from(behind) * (255 - opacity) + 128;
            *colour = ((sum + (sum >> 8)) >> 8) as u8;
        }
        *alpha = 255;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(stored: &Stored, samples: &[u8], mode: Mode) -> Result<(PixelLayout, Vec<u8>)> {
        let mut scratch = Scratch { samples: samples.to_vec(), ..Scratch::default() };
        let layout = stored.convert(Codec::Png, mode, &mut scratch)?;
        Ok((layout, scratch.pixels))
    }

    #[test]
    fn names_give_their_modes() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_name(mode.name()), Some(mode));
        }
        assert_eq!(Mode::from_name("rgb"), None);
    }

    #[test]
    fn indices_are_kept_or_become_colours() {
        let stored = Stored::indexed(vec![[1, 2, 3, 255], [95, 130, 194, 7]]);
        assert_eq!(converted(&stored, &[1, 0], Mode::Index).unwrap(), (PixelLayout::Index8, vec![1, 0]));
        assert_eq!(converted(&stored, &[1], Mode::Rgba).unwrap().1, [95, 130, 194, 7]);
        assert_eq!(converted(&stored, &[1, 2], Mode::Grey).unwrap().1, [127, 0]);
        let floats = converted(&stored, &[1], Mode::Float).unwrap().1;
        assert_eq!(floats, 126.831f32.to_ne_bytes());
    }

    #[test]
    fn sixteen_bits_are_kept() {
        let stored = Stored::plain(1, Number::U16);
        let samples: Vec<u8> = [300u16, 65_535].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(
            converted(&stored, &samples, Mode::Grey16).unwrap(),
            (PixelLayout::Grey16, samples.clone())
        );
        assert_eq!(converted(&stored, &samples, Mode::Grey).unwrap().1, [1, 255]);
        let floats = converted(&stored, &samples, Mode::Float).unwrap().1;
        assert_eq!(floats[..4], 300f32.to_ne_bytes());
    }

    #[test]
    fn impossible_conversions_are_refused() {
        let colours = Stored::plain(3, Number::U8);
        let message = converted(&colours, &[1, 2, 3], Mode::Index).unwrap_err().to_string();
        assert!(message.contains("3 channels are not class indices"), "{message}");
        let many = Stored::plain(7, Number::U16);
        assert!(converted(&many, &[0; 14], Mode::Grey).is_err());
        let layout = PixelLayout::Many { channels: 7, number: Number::U16 };
        assert_eq!(converted(&many, &[0; 14], Mode::Unchanged).unwrap().0, layout);
    }

    #[test]
    fn black_and_white_are_classes_0_and_1() {
        let stored = Stored { black_and_white: true, ..Stored::plain(1, Number::U8) };
        assert_eq!(converted(&stored, &[1, 0], Mode::Index).unwrap().1, [1, 0]);
        assert_eq!(converted(&stored, &[1, 0], Mode::Grey).unwrap().1, [255, 0]);
    }
}
