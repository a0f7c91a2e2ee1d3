//! Masks: a number per pixel, moved by those passes of a program that move pixels, never blended.

use feedline_pixels::{
    Decoder, Effect, Error, Geometry, ImageRef, LabelType, Nearest, PixelLayout, Result, Size, WholeOp,
    Window, fit, widen_labels,
};

use crate::field::DType;
use crate::transform::{Program, Segment, moving};

/// A plane of numbers, or an encoded image that contains one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Labels<'a> {
    /// An image file.
    File(&'a [u8]),
    /// Dense numbers of one, two or four bytes.
    Plane(ImageRef<'a>),
}

impl<'a> Labels<'a> {
    /// The same, with `page` of a file of several pages copied to `chosen` as the first; pages count from 0.
    pub(crate) fn page(self, page: usize, chosen: &'a mut Vec<u8>) -> Result<Self> {
        match self {
            Labels::File(bytes) if page > 0 => {
                feedline_pixels::select_page(bytes, page, chosen)?;
                Ok(Labels::File(chosen))
            }
            _ => Ok(self),
        }
    }
}

/// Moves masks; keeps scratch memory.
#[derive(Debug)]
pub(crate) struct LabelRunner {
    decoder: Decoder,
    nearest: Nearest,
    now: Vec<u8>,
    next: Vec<u8>,
}

impl LabelRunner {
    /// Creates a runner that refuses masks of more than `max_pixels`.
    pub(crate) fn new(max_pixels: u64) -> Self {
        LabelRunner {
            decoder: Decoder::with_max_pixels(max_pixels),
            nearest: Nearest::default(),
            now: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Sets whether mask files are rotated as their EXIF says; it must be the same for images and masks.
    pub(crate) fn set_upright(&mut self, upright: bool) {
        self.decoder.set_upright(upright);
    }

    /// Applies `program`, which was made for an image of size `image`, to its mask, into `out`.
    pub(crate) fn run(
        &mut self,
        labels: Labels<'_>,
        image: Size,
        program: &Program,
        (fill, kind): (i64, LabelType),
        out: &mut [u8],
    ) -> Result<()> {
        let LabelRunner { decoder, nearest, now, next } = self;
        let plane = match labels {
            Labels::Plane(plane) => plane,
            Labels::File(bytes) => decoder.decode_labels(bytes, last_row(program))?,
        };
        if plane.size != image {
            let (Size { width, height }, mask) = (image, plane.size);
            let reason = format!(
                "a mask of {}x{} (height x width) for an image of {height}x{width}",
                mask.height, mask.width
            );
            return Err(Error::Misuse(reason));
        }
        let mut steps = moving(program).peekable();
        let Some(first) = steps.next() else {
            return nearest.resample_labels(&Geometry::identity(image), plane, fill, kind, out);
        };
        let last = steps.peek().is_none();
        if let (Segment::Resample { geometry, .. }, true) = (first, last) {
            return nearest.resample_labels(geometry, plane, fill, kind, out);
        }
        let (mut plane, mut wide) = (plane, Vec::new());
        if !fits(fill, plane.layout) {
            fit(&mut wide, image.area() as usize * 4, 0)?;
            widen_labels(plane, LabelType::I32, &mut wide)?;
            plane = ImageRef::new(&wide, image, image.width as usize * 4, PixelLayout::GreyF32)?;
        }
        let layout = plane.layout;
        let mut size = step(nearest, first, plane, fill, now)?;
        for segment in steps {
            let from = ImageRef::new(now, size, size.width as usize * layout.bytes(), layout)?;
            size = step(nearest, segment, from, fill, next)?;
            std::mem::swap(now, next);
        }
        let done = ImageRef::new(now, size, size.width as usize * layout.bytes(), layout)?;
        widen_labels(done, kind, out)
    }
}

/// End of the rows that the program uses.
fn last_row(program: &Program) -> u32 {
    program.first().map_or(u32::MAX, |(geometry, _)| geometry.crop.bottom())
}

fn step(
    nearest: &mut Nearest,
    segment: &Segment,
    from: ImageRef<'_>,
    fill: i64,
    out: &mut Vec<u8>,
) -> Result<Size> {
    let fill = (fill as i32).to_ne_bytes();
    let fill = pixel(&fill, from.layout);
    match segment {
        Segment::Resample { geometry, .. } => nearest.resample(geometry, from, fill, out),
        Segment::Warp(warp) => nearest.warp(warp, from, fill, out),
        Segment::Whole(WholeOp::Pad(sides, border)) => nearest.pad(*sides, *border, from, out),
        Segment::Whole(WholeOp::Effect(effect)) => match &**effect {
            Effect::Sample(sample) => nearest.sample(sample, from, fill, out),
            Effect::Patches(patches) => nearest.shuffle(patches, from, out),
            Effect::Scene(scene) => {
                let mut geometry = Geometry::identity(from.size);
                let Size { width, height } = scene.canvas;
                geometry.window = Window::new(-scene.corner.0, -scene.corner.1, width, height);
                nearest.resample(&geometry, from, fill, out)
            }
            _ => Err(Error::Misuse("an effect that moves nothing".to_owned())),
        },
        _ => Err(Error::Misuse("a pass that moves nothing".to_owned())),
    }
}

/// Whether a plane of this layout can represent the fill. (Four bytes are enough for all results.)
fn fits(fill: i64, layout: PixelLayout) -> bool {
    layout.bytes() == 4 || (0..1i64 << (8 * layout.bytes())).contains(&fill)
}

/// The bytes of a number in a plane: the low ones.
fn pixel(four: &[u8; 4], layout: PixelLayout) -> &[u8] {
    if cfg!(target_endian = "big") { &four[4 - layout.bytes()..] } else { &four[..layout.bytes()] }
}

/// The kernels' type for a mask's element type.
pub(crate) fn label_type(dtype: DType) -> LabelType {
    match dtype {
        DType::U8 => LabelType::U8,
        DType::I32 => LabelType::I32,
        _ => LabelType::I64,
    }
}

/// An array as a plane of one, two or four bytes per number.
pub(crate) fn plane<'a>(
    dtype: DType,
    bytes: &'a [u8],
    (rows, columns): (u64, u64),
    scratch: &'a mut Vec<u8>,
) -> Result<Labels<'a>, String> {
    let side = |length: u64| u32::try_from(length).map_err(|_| format!("{length} rows or columns"));
    let size = Size::new(side(columns)?, side(rows)?);
    let (layout, bytes) = match dtype {
        DType::U8 | DType::Bool => (PixelLayout::Grey8, bytes),
        DType::U16 if cfg!(target_endian = "little") => (PixelLayout::Grey16, bytes),
        DType::I32 if cfg!(target_endian = "little") => (PixelLayout::GreyF32, bytes),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
            return Err(format!("a mask contains whole numbers, not {}", dtype.name()));
        }
        _ => {
            scratch.clear();
            for value in array_numbers(dtype, bytes)? {
                if value < f64::from(i32::MIN) || value > f64::from(i32::MAX) {
                    return Err(format!("{value} is too large for a mask"));
                }
                scratch.extend((value as i32).to_ne_bytes());
            }
            (PixelLayout::GreyF32, &scratch[..])
        }
    };
    let image = ImageRef::new(bytes, size, size.width as usize * layout.bytes(), layout);
    image.map(Labels::Plane).map_err(|e| e.to_string())
}

macro_rules! read_as {
    ($bytes:expr, $type:ty) => {
        $bytes
            .as_chunks::<{ size_of::<$type>() }>()
            .0
            .iter()
            .map(|each| <$type>::from_le_bytes(*each) as f64)
            .collect()
    };
}

/// An array's elements as floats.
pub(crate) fn array_numbers(dtype: DType, bytes: &[u8]) -> Result<Vec<f64>, String> {
    Ok(match dtype {
        DType::F32 => read_as!(bytes, f32),
        DType::F64 => read_as!(bytes, f64),
        DType::I64 => read_as!(bytes, i64),
        DType::I32 => read_as!(bytes, i32),
        DType::I16 => read_as!(bytes, i16),
        DType::I8 => read_as!(bytes, i8),
        DType::U64 => read_as!(bytes, u64),
        DType::U32 => read_as!(bytes, u32),
        DType::U16 => read_as!(bytes, u16),
        DType::U8 | DType::Bool => bytes.iter().map(|byte| f64::from(*byte)).collect(),
        other => return Err(format!("arrays of {} are not read here", other.name())),
    })
}
