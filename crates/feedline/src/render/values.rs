//! Images of numbers rather than colours: class indices, depths, floats, opacity, bands. They are moved by the same
//! geometry as photos; class indices are never blended.

use feedline_pixels::{
    Decoder, Error, Filter, ImageRef, Mode, Nearest, Number, PixelLayout, Result, Size, WholeOp, fit,
    resample_wide,
};

use crate::field::{DType, MemoryFormat};
use crate::spec::LoaderOptions;
use crate::transform::{Program, Segment, Transform};

/// Mode and element type of a field's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueForm {
    mode: Mode,
    dtype: DType,
    channels_last: bool,
}

impl ValueForm {
    /// The error is the reason. `dtype` is the field's own, if it has one, or that of all images.
    pub(crate) fn new(
        mode: Mode,
        own: Option<DType>,
        all: DType,
        format: MemoryFormat,
    ) -> std::result::Result<Self, String> {
        // Classes are integers, whatever type photos have.
        let dtype = own.unwrap_or(if mode == Mode::Index { DType::I64 } else { all });
        let (name, kind) = (mode.name(), dtype.name());
        let float = matches!(dtype, DType::F32 | DType::F64);
        let whole = matches!(dtype, DType::U8 | DType::U16 | DType::I16 | DType::I32 | DType::I64);
        let fits = match mode {
            Mode::Float => float,
            Mode::Grey16 => float || matches!(dtype, DType::U16 | DType::I32 | DType::I64),
            Mode::Rgba | Mode::GreyAlpha => float || dtype == DType::U8,
            _ => float || whole,
        };
        if !fits {
            return Err(format!("mode \"{name}\" does not come as {kind}; float32 holds it"));
        }
        Ok(ValueForm { mode, dtype, channels_last: format == MemoryFormat::ChannelsLast })
    }

    pub(crate) fn dtype(self) -> DType {
        self.dtype
    }

    /// Number of channels, if the mode determines it.
    fn channels(self) -> Option<usize> {
        match self.mode {
            Mode::Rgba => Some(4),
            Mode::GreyAlpha => Some(2),
            Mode::Unchanged => None,
            _ => Some(1),
        }
    }

    /// The shape of results of this size, if it is the same for all images. Class indices have no channel dimension.
    pub(crate) fn fixed_shape(self, size: Size) -> Option<Vec<u64>> {
        self.channels().map(|channels| self.shape(size, channels))
    }

    fn shape(self, size: Size, channels: usize) -> Vec<u64> {
        let (height, width, channels) = (u64::from(size.height), u64::from(size.width), channels as u64);
        match (self.mode, self.channels_last) {
            (Mode::Index, _) => vec![height, width],
            (_, false) => vec![channels, height, width],
            (_, true) => vec![height, width, channels],
        }
    }

    /// Whether bytes are scaled to 0 to 1, as for photos.
    fn scales(self) -> bool {
        matches!(self.mode, Mode::Rgba | Mode::GreyAlpha) && self.dtype != DType::U8
    }

    /// Writes an image's numbers as elements of a tensor.
    fn write(self, image: ImageRef<'_>, out: &mut [u8]) -> Result<()> {
        let number = image.layout.number();
        let channels = image.layout.bytes() / number.bytes();
        let area = image.size.area() as usize;
        let (plane, step) = if self.channels_last { (1, channels) } else { (area, 1) };
        let size = self.dtype.size();
        let unit = if self.scales() { 255.0 } else { 1.0 };
        let mut pixel = 0;
        for y in 0..image.size.height {
            for stored in image.row(y).chunks_exact(image.layout.bytes()) {
                for (channel, bytes) in stored.chunks_exact(number.bytes()).enumerate() {
                    let at = (channel * plane + pixel * step) * size;
                    self.put(value(bytes, number) / unit, &mut out[at..at + size])?;
                }
                pixel += 1;
            }
        }
        Ok(())
    }

    fn put(self, value: f64, out: &mut [u8]) -> Result<()> {
        let fits = |low: f64, high: f64| value >= low && value <= high && value.fract() == 0.0;
        let ok = match self.dtype {
            DType::U8 => fits(0.0, 255.0),
            DType::U16 => fits(0.0, 65_535.0),
            DType::I16 => fits(-32_768.0, 32_767.0),
            DType::I32 | DType::I64 => fits(f64::from(i32::MIN), f64::from(i32::MAX)),
            _ => true,
        };
        if !ok {
            return Err(Error::Misuse(format!("the number {value} does not fit {}", self.dtype.name())));
        }
        match self.dtype {
            DType::U8 => out[0] = value as u8,
            DType::U16 => out.copy_from_slice(&(value as u16).to_ne_bytes()),
            DType::I16 => out.copy_from_slice(&(value as i16).to_ne_bytes()),
            DType::I32 => out.copy_from_slice(&(value as i32).to_ne_bytes()),
            DType::I64 => out.copy_from_slice(&(value as i64).to_ne_bytes()),
            DType::F64 => out.copy_from_slice(&value.to_ne_bytes()),
            _ => out.copy_from_slice(&(value as f32).to_ne_bytes()),
        }
        Ok(())
    }
}

/// The first transform that is not for numbers; those that crop, resize, mirror, pad and rotate are.
pub(crate) fn not_for_numbers(transforms: &[Transform]) -> Option<&'static str> {
    const MOVE: [&str; 13] = [
        "Resize",
        "CenterCrop",
        "ResizedCenterCrop",
        "RandomCrop",
        "RandomResizedCrop",
        "RandomHorizontalFlip",
        "RandomVerticalFlip",
        "Pad",
        "BucketResize",
        "Letterbox",
        "RandomRotation",
        "RandomAffine",
        "RandomPerspective",
    ];
    transforms.iter().map(Transform::name).find(|name| !MOVE.contains(name))
}

fn value(bytes: &[u8], number: Number) -> f64 {
    match (number, bytes) {
        (Number::U16, [a, b]) => f64::from(u16::from_ne_bytes([*a, *b])),
        (Number::I32, [a, b, c, d]) => f64::from(i32::from_ne_bytes([*a, *b, *c, *d])),
        (Number::F32, [a, b, c, d]) => f64::from(f32::from_ne_bytes([*a, *b, *c, *d])),
        _ => f64::from(bytes[0]),
    }
}

/// A thread's decoder of images of numbers.
#[derive(Debug)]
pub(crate) struct ValueDecoder {
    decoder: Decoder,
    nearest: Nearest,
    moved: Vec<u8>,
    spare: Vec<u8>,
    /// Size and layout of the last moved image.
    last: Option<(Size, PixelLayout)>,
}

impl ValueDecoder {
    pub(crate) fn new(max_pixels: u64) -> Self {
        ValueDecoder {
            decoder: Decoder::with_max_pixels(max_pixels),
            nearest: Nearest::default(),
            moved: Vec::new(),
            spare: Vec::new(),
            last: None,
        }
    }

    /// Applies the options for image files.
    pub(crate) fn set_up(&mut self, options: &LoaderOptions) {
        self.decoder.set_upright(options.exif_transpose);
        self.decoder.set_allow_truncated(options.allow_truncated);
    }

    /// Decodes an image file.
    pub(crate) fn decode(&mut self, bytes: &[u8], form: ValueForm) -> Result<()> {
        self.decoder.decode_as(bytes, form.mode).map(drop)
    }

    /// Moves the last decoded image by `program`. Returns the shape of the result.
    pub(crate) fn run(&mut self, form: ValueForm, program: &Program) -> Result<Vec<u64>> {
        self.last = None;
        for segment in &program.segments {
            self.step(form, segment)?;
        }
        let image = self.current()?;
        Ok(form.shape(image.size, image.layout.bytes() / image.layout.number().bytes()))
    }

    /// Writes the result of [`run`](Self::run).
    pub(crate) fn write(&self, form: ValueForm, out: &mut [u8]) -> Result<()> {
        form.write(self.current()?, out)
    }

    fn current(&self) -> Result<ImageRef<'_>> {
        match self.last {
            Some((size, layout)) => {
                ImageRef::new(&self.moved, size, size.width as usize * layout.bytes(), layout)
            }
            None => self.decoder.last().ok_or_else(|| Error::Misuse("no image was decoded".to_owned())),
        }
    }

    fn step(&mut self, form: ValueForm, segment: &Segment) -> Result<()> {
        let mut spare = std::mem::take(&mut self.spare);
        let mut nearest = std::mem::take(&mut self.nearest);
        let image = self.current()?;
        let layout = image.layout;
        let size = match segment {
            Segment::Resample { geometry, filter } => {
                if form.mode == Mode::Index || *filter == Filter::Nearest {
                    let mut fill = Vec::new();
                    fit(&mut fill, layout.bytes(), 0)?;
                    nearest.resample(geometry, image, &fill, &mut spare)?
                } else {
                    resample_wide(geometry, *filter, image, &mut spare)?
                }
            }
            Segment::Warp(warp) => {
                let fill = vec![0; layout.bytes()];
                nearest.warp(warp, image, &fill, &mut spare)?
            }
            Segment::Whole(WholeOp::Pad(sides, border)) => nearest.pad(*sides, *border, image, &mut spare)?,
            _ => return Err(Error::Misuse("numbers are moved, nothing else is done to them".to_owned())),
        };
        self.last = Some((size, layout));
        self.spare = std::mem::replace(&mut self.moved, spare);
        self.nearest = nearest;
        Ok(())
    }
}
