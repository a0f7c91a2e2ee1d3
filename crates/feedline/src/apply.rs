//! TRANSFORMS ON DECODED PIXELS: applies a loader's transforms, draws and kernels to an image that did not come from a
//! data set, such as one that a user's function returned.

use std::sync::{Arc, Mutex};

use feedline_pixels::{Finish, ImageRef, PixelLayout, Size, elastic_offsets};

use crate::error::{Error, Location, Result, Stage};
use crate::field::{DType, MemoryFormat};
use crate::render::{
    ImageDecoder, LabelRunner, Labels, Runner, StoredImage, array_numbers, label_type, plane,
};
use crate::sample::ImageMeta;
use crate::spec::{DecodeMode, LoaderOptions};
use crate::transform::{
    BatchTransform, Boxes, ImagePlan, MixAction, MixKey, Mover, Params, Program, SampleKey, Transform,
    finish, read_boxes, write_box,
};

/// A checked list of transforms, to be applied to one image at a time. Scratch memory is reused.
#[derive(Clone, Debug)]
pub struct ImageOps {
    name: String,
    plan: ImagePlan,
    idle: Arc<Mutex<Vec<Scratch>>>,
}

/// Scratch memory for one image.
#[derive(Debug, Default)]
struct Scratch {
    params: Params,
    program: Program,
    runner: Runner,
}

/// The draws for one image. The shape of the result is known; its pixels are not computed yet.
#[derive(Debug)]
pub struct Drawn<'a> {
    ops: &'a ImageOps,
    scratch: Scratch,
    image: Size,
    from: DrawFrom,
}

impl Drawn<'_> {
    /// Dimensions of the result.
    pub fn shape(&self) -> Vec<u64> {
        self.ops.plan.shape(self.scratch.program.output)
    }

    /// Size of the result in bytes.
    pub fn bytes(&self) -> usize {
        let each = self.ops.plan.finish().output_bytes(self.scratch.program.output);
        each * self.ops.plan.copies() as usize
    }

    /// Computes the pixels. `out` must have exactly [`bytes`](Self::bytes).
    pub fn write(mut self, pixels: &[u8], out: &mut [u8]) -> Result<()> {
        let bad = |reason| self.ops.bad(self.from.sample, reason);
        check(pixels, self.image).map_err(bad)?;
        let (plan, image) = (&self.ops.plan, self.image);
        let Scratch { params, program, runner } = &mut self.scratch;
        let each = out.len() / plan.copies() as usize;
        for (copy, out) in (0..).zip(out.chunks_exact_mut(each.max(1))) {
            if copy > 0 {
                plan.draw_copy(image, self.from.key(), copy, params).map_err(bad)?;
                params.plan(image, program);
            }
            run_into(runner, program, pixels, image, plan.finish(), out).map_err(bad)?;
        }
        if let Ok(mut idle) = self.ops.idle.lock() {
            idle.push(self.scratch);
        }
        Ok(())
    }
}

/// Result of [`ImageOps::apply`]: elements of the list's dtype, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Channels, rows, columns, or rows, columns, channels, as the list's memory format says. Several crops add a first
    /// dimension.
    pub shape: Vec<u64>,
    /// The elements' bytes.
    pub bytes: Vec<u8>,
}

/// Key of the random parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawFrom {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// The sample's index.
    pub sample: u64,
}

impl DrawFrom {
    fn key(self) -> SampleKey {
        SampleKey { seed: self.seed, epoch: self.epoch, sample: self.sample }
    }
}

impl ImageOps {
    /// Checks `transforms`. `name` is used in errors. `view` and `place` (the number of transforms before the first of
    /// these) separate the draws from those of other lists for the same sample.
    pub fn new(
        name: &str,
        transforms: &[Transform],
        (view, place): (u64, u64),
        dtype: DType,
        format: MemoryFormat,
    ) -> Result<Self> {
        let plan = ImagePlan::new(name, view, transforms, dtype, format)?.starting_at(place);
        Ok(ImageOps { name: name.to_owned(), plan, idle: Arc::default() })
    }

    /// Draws what is to be done to an image of this size.
    pub fn draw(&self, height: u32, width: u32, from: DrawFrom) -> Result<Drawn<'_>> {
        self.draw_among(height, width, from, None)
    }

    /// The same, for an image with these boxes (left, top, right, bottom in pixels).
    fn draw_among(
        &self,
        height: u32,
        width: u32,
        from: DrawFrom,
        boxes: Option<Vec<[f64; 4]>>,
    ) -> Result<Drawn<'_>> {
        let (image, sample) = (Size::new(width, height), from.sample);
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let mut scratch = idle.unwrap_or_default();
        scratch.params.know_boxes(boxes);
        self.plan.draw(image, from.key(), &mut scratch.params).map_err(|reason| self.bad(sample, reason))?;
        scratch.params.plan(image, &mut scratch.program);
        Ok(Drawn { ops: self, scratch, image, from })
    }

    /// Applies the list to `height` rows of `width` red, green and blue bytes.
    pub fn apply(&self, pixels: &[u8], height: u32, width: u32, from: DrawFrom) -> Result<Applied> {
        check(pixels, Size::new(width, height)).map_err(|reason| self.bad(from.sample, reason))?;
        let drawn = self.draw(height, width, from)?;
        let shape = drawn.shape();
        let mut bytes = zeroed(drawn.bytes()).map_err(|reason| self.bad(from.sample, reason))?;
        drawn.write(pixels, &mut bytes)?;
        Ok(Applied { shape, bytes })
    }

    /// The same, with what was drawn, as JSON for [`replay`].
    pub fn apply_recorded(
        &self,
        pixels: &[u8],
        height: u32,
        width: u32,
        from: DrawFrom,
    ) -> Result<(Applied, String)> {
        self.apply_among(pixels, (height, width), from, None)
    }

    /// The same, for an image with these boxes, written as the rules say. Some draws look at them.
    pub fn apply_among(
        &self,
        pixels: &[u8],
        (height, width): (u32, u32),
        from: DrawFrom,
        boxes: Option<(&Boxes, &[[f64; 4]])>,
    ) -> Result<(Applied, String)> {
        let size = Size::new(width, height);
        check(pixels, size).map_err(|reason| self.bad(from.sample, reason))?;
        let corners = |(rules, boxes): (&Boxes, &[[f64; 4]])| {
            boxes.iter().map(|four| read_boxes(rules, *four, size)).collect()
        };
        let drawn = self.draw_among(height, width, from, boxes.map(corners))?;
        let (shape, params) = (drawn.shape(), drawn.scratch.params.to_json());
        let mut bytes = zeroed(drawn.bytes()).map_err(|reason| self.bad(from.sample, reason))?;
        drawn.write(pixels, &mut bytes)?;
        Ok((Applied { shape, bytes }, params))
    }

    /// Returns what is drawn for an image of this height and width, as JSON for [`replay`].
    pub fn drawn_params(&self, (height, width): (u32, u32), from: DrawFrom) -> Result<String> {
        Ok(self.draw(height, width, from)?.scratch.params.to_json())
    }

    fn bad(&self, sample: u64, reason: String) -> Error {
        Error::sample(
            Location::default().with_sample(sample).with_field(&self.name),
            Stage::Transform,
            reason,
        )
    }
}

/// Repeats what [`ImageOps::apply_recorded`] drew, on an image of the same size. Nothing is random.
pub fn replay(
    params: &str,
    pixels: &[u8],
    (height, width): (u32, u32),
    dtype: DType,
    format: MemoryFormat,
) -> Result<Applied> {
    let bad = |reason: String| Error::option("params", reason);
    let size = Size::new(width, height);
    check(pixels, size).map_err(bad)?;
    let params = Params::from_json(params, size).map_err(bad)?;
    let (normalize, channels) = params.finish();
    let finish = finish(dtype, format, normalize, channels).map_err(bad)?;
    run(&params, pixels, size, &finish).map_err(bad)
}

/// A stored image (its bytes, its seek index and what is known of it), decoded to what the transforms for its height and
/// width make of it: bytes of red, green and blue, row by row. Only what they need is decoded.
pub fn render_stored(
    (bytes, index, meta): (&[u8], &[u8], ImageMeta),
    transforms: impl FnOnce((u32, u32)) -> Vec<Transform>,
    from: DrawFrom,
    mode: DecodeMode,
) -> std::result::Result<Applied, String> {
    let words = |error: feedline_pixels::Error| error.to_string();
    let opened = StoredImage { bytes, index, meta }.open().map_err(words)?;
    let limit = LoaderOptions::default().max_pixels;
    opened.check(limit).map_err(words)?;
    let size = opened.upright_size();
    let list = transforms((size.height, size.width));
    let plan = ImagePlan::new("image", 0, &list, DType::U8, MemoryFormat::ChannelsLast);
    let plan = plan.map_err(|e| e.to_string())?;
    let (mut params, mut program) = (Params::default(), Program::default());
    plan.draw(size, from.key(), &mut params)?;
    params.plan(size, &mut program);
    if let Some(size) = program.results().find(|size| size.area() > limit) {
        return Err(format!(
            "the result of {}x{} is over the limit of {limit} pixels",
            size.height, size.width
        ));
    }
    let mut out = zeroed(plan.finish().output_bytes(program.output))?;
    let mut decoder = ImageDecoder::new(limit);
    decoder.render(&opened, &program, plan.finish(), mode, &mut out).map_err(words)?;
    Ok(Applied { shape: plan.finish().shape(program.output).to_vec(), bytes: out })
}

/// A stored mask (a file of class indices), moved as the transforms for its height and width move it, never blended:
/// `int64`, row by row.
pub fn class_indices(
    (bytes, meta): (&[u8], ImageMeta),
    transforms: impl FnOnce((u32, u32)) -> Vec<Transform>,
) -> std::result::Result<Applied, String> {
    let words = |error: feedline_pixels::Error| error.to_string();
    let opened = StoredImage { bytes, index: &[], meta }.open().map_err(words)?;
    let (limit, size) = (LoaderOptions::default().max_pixels, opened.upright_size());
    opened.check(limit).map_err(words)?;
    let file = opened.file().ok_or("its pack keeps colours alone, no class indices")?;
    let list = transforms((size.height, size.width));
    let plan = ImagePlan::new("mask", 0, &list, DType::U8, MemoryFormat::ChannelsLast);
    let (mut params, mut program) = (Params::default(), Program::default());
    plan.map_err(|e| e.to_string())?.draw(size, DrawFrom::default().key(), &mut params)?;
    params.plan(size, &mut program);
    let (output, kind) = (program.output, label_type(DType::I64));
    let mut out = zeroed(output.area() as usize * kind.bytes())?;
    let mut runner = LabelRunner::new(limit);
    runner.run(Labels::File(file), size, &program, (0, kind), &mut out).map_err(words)?;
    Ok(Applied { shape: vec![u64::from(output.height), u64::from(output.width)], bytes: out })
}

/// The elements of an array as numbers.
pub fn numbers(dtype: DType, bytes: &[u8]) -> std::result::Result<Vec<f64>, String> {
    array_numbers(dtype, bytes)
}

/// Recorded draws for an image of a known size, to be applied to its masks, boxes and keypoints.
#[derive(Debug)]
pub struct Moved {
    program: Program,
    image: Size,
}

impl Moved {
    /// Parses the JSON of [`ImageOps::apply_recorded`] for an image of this height and width.
    pub fn new(params: &str, (height, width): (u32, u32)) -> Result<Self> {
        let (image, mut program) = (Size::new(width, height), Program::default());
        let params = Params::from_json(params, image).map_err(|reason| Error::option("params", reason))?;
        params.plan(image, &mut program);
        Ok(Moved { program, image })
    }

    /// Transforms a dense row-major mask of `dtype`; the result has type `to`.
    pub fn mask(&self, bytes: &[u8], dtype: DType, fill: i64, to: DType) -> Result<Applied> {
        let bad = |reason: String| Error::option("mask", reason);
        let Size { width, height } = self.image;
        let (mut scratch, kind) = (Vec::new(), label_type(to));
        let found = plane(dtype, bytes, (u64::from(height), u64::from(width)), &mut scratch).map_err(bad)?;
        let output = self.program.output;
        let mut out = zeroed(output.area() as usize * kind.bytes()).map_err(bad)?;
        let mut runner = LabelRunner::new(u64::MAX);
        let done = runner.run(found, self.image, &self.program, (fill, kind), &mut out);
        done.map_err(|e| bad(e.to_string()))?;
        Ok(Applied { shape: vec![u64::from(output.height), u64::from(output.width)], bytes: out })
    }

    /// Transforms boxes in the format of `rules`; returns the boxes that remain and their original indices.
    pub fn boxes(&self, rules: &Boxes, boxes: &[[f64; 4]]) -> Result<(Vec<[f64; 4]>, Vec<usize>)> {
        let given: Vec<[f64; 4]> = boxes.iter().map(|four| read_boxes(rules, *four, self.image)).collect();
        let kept = Mover::default().boxes(&self.program, self.image, rules, &given);
        let kept = kept.map_err(|e| Error::option("boxes", e.to_string()))?;
        let written = kept.iter().map(|kept| write_box(rules, kept.corners, self.program.output));
        Ok((written.collect(), kept.iter().map(|kept| kept.number).collect()))
    }

    /// Transforms points of `each` numbers, in place.
    pub fn keypoints(&self, each: usize, values: &mut [f64]) -> Result<()> {
        let moved = Mover::default().keypoints(&self.program, self.image, each, values);
        moved.map_err(|e| Error::option("keypoints", e.to_string()))
    }
}

fn check(pixels: &[u8], Size { width, height }: Size) -> std::result::Result<(), String> {
    let wanted = u64::from(height) * u64::from(width) * 3;
    if wanted == 0 || pixels.len() as u64 != wanted {
        return Err(format!("{} bytes are not an image of {height}x{width}x3", pixels.len()));
    }
    Ok(())
}

fn run(params: &Params, pixels: &[u8], size: Size, finish: &Finish) -> std::result::Result<Applied, String> {
    let mut program = Program::default();
    params.plan(size, &mut program);
    let mut bytes = zeroed(finish.output_bytes(program.output))?;
    run_into(&mut Runner::default(), &program, pixels, size, finish, &mut bytes)?;
    Ok(Applied { shape: finish.shape(program.output).to_vec(), bytes })
}

fn run_into(
    runner: &mut Runner,
    program: &Program,
    pixels: &[u8],
    size: Size,
    finish: &Finish,
    out: &mut [u8],
) -> std::result::Result<(), String> {
    let stride = size.width as usize * PixelLayout::Rgb.bytes();
    let image = ImageRef::new(pixels, size, stride, PixelLayout::Rgb).map_err(|e| e.to_string())?;
    let (geometry, _) = program.first().ok_or("a program without a first pass")?;
    runner.run(program, geometry, image, (0, 0), finish, out).map_err(|e| e.to_string())
}

/// Allocates a result whose size depends on the list and the image.
fn zeroed(length: usize) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| format!("no memory for a result of {length} bytes"))?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// The field of an `ElasticTransform` for an image of this height and width: how far to the right, and below, of each
/// pixel its value comes from, in pixels.
pub fn elastic_field(
    (height, width): (u32, u32),
    alpha: (f32, f32),
    sigma: (f32, f32),
    seed: u64,
) -> Result<(Vec<f32>, Vec<f32>)> {
    elastic_offsets(Size::new(width, height), alpha, sigma, seed)
        .map_err(|error| Error::option("ElasticTransform", error.to_string()))
}

/// What an operation on batches does to one sample with its partner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixed {
    /// The share of the sample itself; the rest is its partner's.
    pub own: f64,
    /// Left, top, width and height of the box that is copied from the partner; the two are blended if `None`.
    pub cut: Option<[u32; 4]>,
}

/// Position of samples in an epoch, as a loader counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixFrom {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Number of samples in a batch of all ranks together.
    pub global_batch: u64,
    /// Positions of the samples in the epoch's global order.
    pub positions: Vec<u64>,
}

/// Draws what the operation at `place` of a list does to samples whose images have this height and width: what a loader
/// draws for them.
pub fn draw_mixed(
    op: &BatchTransform,
    place: u64,
    from: &MixFrom,
    (height, width): (u32, u32),
) -> Result<Vec<Mixed>> {
    let named = |reason: &str| Error::option("batch_transforms", format!("{}: {reason}", op.name()));
    op.check().map_err(|reason| named(&reason))?;
    let size = Size::new(width, height);
    let mixed = |position: &u64| {
        let &MixFrom { seed, epoch, global_batch, .. } = from;
        match op.action(MixKey { seed, epoch, position: *position, global_batch, place }) {
            MixAction::Nothing => Ok(Mixed { own: 1.0, cut: None }),
            MixAction::Blend { own } => Ok(Mixed { own, cut: None }),
            MixAction::Cut(cut) => {
                let region = cut.region(size);
                let at = [region.x, region.y, region.width, region.height];
                Ok(Mixed { own: cut.own(size), cut: Some(at) })
            }
            MixAction::Mosaic { .. } | MixAction::Paste { .. } => Err(named("only available in the engine")),
        }
    };
    from.positions.iter().map(mixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::ops::*;

    const FROM: DrawFrom = DrawFrom { seed: 1, epoch: 2, sample: 3 };

    fn ramp(height: u32, width: u32) -> Vec<u8> {
        (0..height * width * 3).map(|i| (i % 251) as u8).collect()
    }

    fn ops(transforms: &[Transform], place: u64) -> ImageOps {
        ImageOps::new("image", transforms, (0, place), DType::U8, MemoryFormat::ChannelsLast).unwrap()
    }

    #[test]
    fn without_transforms_only_type_and_layout_change() {
        let pixels = ramp(4, 6);
        assert_eq!(
            ops(&[], 0).apply(&pixels, 4, 6, FROM).unwrap(),
            Applied { shape: vec![4, 6, 3], bytes: pixels }
        );
        let floats = ImageOps::new("image", &[], (0, 0), DType::F32, MemoryFormat::ChannelsFirst).unwrap();
        let made = floats.apply(&[255; 3 * 2], 1, 2, FROM).unwrap();
        assert_eq!((made.shape, made.bytes), (vec![3, 1, 2], 1f32.to_le_bytes().repeat(6)));
    }

    #[test]
    fn draws_depend_on_the_position_in_the_whole_list() {
        let pixels = ramp(64, 64);
        let crop = [Transform::random_resized_crop(8)];
        let made = |place, from| ops(&crop, place).apply(&pixels, 64, 64, from).unwrap().bytes;
        assert_eq!(made(0, FROM), made(0, FROM));
        assert_ne!(made(0, FROM), made(1, FROM));
        assert_ne!(made(0, FROM), made(0, DrawFrom { epoch: 3, ..FROM }));
    }

    #[test]
    fn impossible_images_are_refused() {
        let error = ops(&[], 0).apply(&[0; 5], 1, 2, FROM).unwrap_err().to_string();
        assert!(error.contains("5 bytes are not an image of 1x2x3"), "{error}");
        let crop = RandomCrop { size: (9, 9), ..RandomCrop::default() }.into();
        assert!(ops(&[crop], 0).apply(&ramp(4, 4), 4, 4, FROM).is_err());
    }

    #[test]
    fn recorded_draws_can_be_replayed() {
        let pixels = ramp(20, 30);
        let list = [
            RandomResizedCrop::square(16).into(),
            RandAugment::default().into(),
            ColorJitter { brightness: Some((0.5, 1.5)), ..ColorJitter::default() }.into(),
            Transform::normalize_imagenet(),
            RandomErasing { p: 1.0, value: EraseValue::Random, ..RandomErasing::default() }.into(),
        ];
        let (dtype, format) = (DType::F32, MemoryFormat::ChannelsFirst);
        let ops = ImageOps::new("image", &list, (0, 0), dtype, format).unwrap();
        let (first, params) = ops.apply_recorded(&pixels, 20, 30, FROM).unwrap();
        assert!(ops.apply(&pixels, 20, 30, FROM).unwrap() == first, "kept scratch memory changes nothing");
        assert_eq!(first.shape, [3, 16, 16]);
        assert!(replay(&params, &pixels, (20, 30), dtype, format).unwrap() == first);
        assert!(ops.apply(&pixels, 20, 30, DrawFrom { seed: 99, ..FROM }).unwrap() != first);
    }
}
