//! A list of transforms → as few passes over the pixels as possible.
//!
//! Crops, resizes and flips compose into one [`Geometry`] as long as they come in the order crop, resize, window. A list
//! that does not (two resizes in a row, a window that reaches out of an earlier window) gets a further [`Step`]; all but
//! the last make 8-bit pixels in between, as torchvision on PIL images does.

use feedline_pixels::{Dtype, Filter, Finish, Geometry, Normalise, Region, Size, TensorLayout, Window};

use super::{Transform, crop};
use crate::error::{Error, Result};
use crate::random::Draw;
use crate::spec::{ImageDType, MemoryFormat};

/// Separates draws for transforms from all other uses of the seed.
const PURPOSE: u64 = 0x7472_616e_7366; // "transf"

/// What the random parameters of a sample may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleKey {
    pub(crate) seed: u64,
    pub(crate) epoch: u64,
    pub(crate) sample: u64,
}

/// One pass over the pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) geometry: Geometry,
    pub(crate) filter: Filter,
}

/// The passes for one sample. One is the rule; the buffer is reused.
pub(crate) type Steps = Vec<Step>;

/// A checked list of transforms with its result's form.
#[derive(Clone, Debug)]
pub(crate) struct ImagePlan {
    ops: Vec<Transform>,
    view: u64,
    finish: Finish,
    output: Option<Size>,
}

impl ImagePlan {
    /// Checks `transforms` and fixes what they give. `view` keeps the draws of several views apart.
    pub(crate) fn new(
        field: &str,
        view: u64,
        transforms: &[Transform],
        dtype: ImageDType,
        format: MemoryFormat,
    ) -> Result<Self> {
        for (at, op) in transforms.iter().enumerate() {
            check(op).map_err(|reason| {
                Error::option("transforms", format!("{field}, number {} ({}): {reason}", at + 1, op.name()))
            })?;
        }
        let (ops, normalise) = split_normalise(field, transforms)?;
        if normalise.is_some() && dtype == ImageDType::UInt8 {
            return Err(Error::option(
                "transforms",
                format!("{field}: Normalize needs a float dtype, not uint8"),
            ));
        }
        let output = ops.iter().fold(None, |size, op| output_after(op, size));
        let finish = Finish {
            layout: match format {
                MemoryFormat::ChannelsFirst => TensorLayout::ChannelsFirst,
                MemoryFormat::ChannelsLast => TensorLayout::ChannelsLast,
            },
            dtype: match dtype {
                ImageDType::Float32 => Dtype::F32,
                ImageDType::Float16 => Dtype::F16,
                ImageDType::BFloat16 => Dtype::BF16,
                ImageDType::UInt8 => Dtype::U8,
            },
            scale: dtype != ImageDType::UInt8,
            normalise,
        };
        Ok(ImagePlan { ops, view, finish, output })
    }

    /// The size of every result, if it does not depend on the sample.
    pub(crate) fn output(&self) -> Option<Size> {
        self.output
    }

    /// How pixels become tensor elements.
    pub(crate) fn finish(&self) -> &Finish {
        &self.finish
    }

    /// Draws this sample's parameters and writes its passes to `steps`. The error is why it cannot be.
    pub(crate) fn draw(&self, image: Size, key: SampleKey, steps: &mut Steps) -> Result<(), String> {
        steps.clear();
        let mut fusion =
            Fusion { steps, now: Geometry::identity(image), filter: Filter::Bilinear, resized: false };
        for (at, op) in self.ops.iter().enumerate() {
            let mut draw = || Draw::new(&[PURPOSE, key.seed, key.epoch, key.sample, at as u64, self.view]);
            fusion.apply(op, &mut draw)?;
        }
        fusion.push();
        Ok(())
    }
}

fn check(op: &Transform) -> Result<(), &'static str> {
    let side = |n: u32| (1..=1 << 16).contains(&n);
    let size_ok = |(h, w): (u32, u32)| side(h) && side(w);
    let range_ok = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
    let good = match op {
        Transform::RandomResizedCrop { scale, ratio, .. } if !range_ok(*scale) || !range_ok(*ratio) => {
            return Err("scale and ratio must be positive (low, high) pairs");
        }
        Transform::RandomResizedCrop { size, .. }
        | Transform::CenterCrop { size }
        | Transform::RandomCrop { size, .. }
        | Transform::Resize { size: Some(size), shorter: None, max_size: None, .. } => size_ok(*size),
        Transform::Resize { size: None, shorter: Some(shorter), max_size, .. } => {
            if max_size.is_some_and(|max| max < *shorter) {
                return Err("max_size must not be below size");
            }
            side(*shorter)
        }
        Transform::Resize { .. } => {
            return Err(
                "give either one number (the shorter side) or (height, width); max_size goes with one number",
            );
        }
        Transform::ResizedCenterCrop { size, ratio, .. } => {
            if !(*ratio > 0.0 && *ratio <= 1.0) {
                return Err("ratio must be above 0 and at most 1");
            }
            size_ok(*size)
        }
        Transform::BucketResize { sizes, .. } => {
            if sizes.is_empty() {
                return Err("give at least one size");
            }
            sizes.iter().all(|size| size_ok(*size))
        }
        Transform::Pad { padding: (l, t, r, b), .. } => [l, t, r, b].iter().all(|n| **n <= 1 << 16),
        Transform::RandomHorizontalFlip { p } | Transform::RandomVerticalFlip { p } => {
            if !(0.0..=1.0).contains(p) {
                return Err("p must be between 0 and 1");
            }
            true
        }
        Transform::Normalize { mean, std } => {
            if std.iter().any(|s| *s == 0.0 || !s.is_finite()) || mean.iter().any(|m| !m.is_finite()) {
                return Err("mean must be finite, std finite and not 0");
            }
            true
        }
    };
    if good { Ok(()) } else { Err("sizes must be between 1 and 65536") }
}

/// Takes `Normalize` off the end; an error if one stands elsewhere.
fn split_normalise(field: &str, transforms: &[Transform]) -> Result<(Vec<Transform>, Option<Normalise>)> {
    let (ops, normalise) = match transforms.split_last() {
        Some((Transform::Normalize { mean, std }, before)) => {
            (before, Some(Normalise { mean: *mean, std: *std }))
        }
        _ => (transforms, None),
    };
    if ops.iter().any(|op| matches!(op, Transform::Normalize { .. })) {
        let reason = format!("{field}: Normalize must come last, and once: what follows it would see floats");
        return Err(Error::option("transforms", reason));
    }
    Ok((ops.to_vec(), normalise))
}

/// The size after `op` of an image whose size before is fixed or not.
fn output_after(op: &Transform, before: Option<Size>) -> Option<Size> {
    match op {
        Transform::RandomResizedCrop { size: (h, w), .. }
        | Transform::CenterCrop { size: (h, w) }
        | Transform::ResizedCenterCrop { size: (h, w), .. }
        | Transform::RandomCrop { size: (h, w), .. }
        | Transform::Resize { size: Some((h, w)), .. } => Some(Size::new(*w, *h)),
        Transform::Resize { shorter, max_size, .. } => {
            before.map(|size| crop::shorter_side(size, shorter.unwrap_or(1), *max_size))
        }
        Transform::Pad { padding: (l, t, r, b), .. } => {
            before.map(|size| Size::new(size.width + l + r, size.height + t + b))
        }
        // Depends on the image's own ratio, unless there is but one size.
        Transform::BucketResize { sizes, .. } => match sizes[..] {
            [(h, w)] => Some(Size::new(w, h)),
            _ => None,
        },
        Transform::RandomHorizontalFlip { .. }
        | Transform::RandomVerticalFlip { .. }
        | Transform::Normalize { .. } => before,
    }
}

/// The steps so far and the geometry being put together.
struct Fusion<'a> {
    steps: &'a mut Steps,
    now: Geometry,
    filter: Filter,
    /// Whether `now` already resizes: a second resize needs a step of its own.
    resized: bool,
}

impl Fusion<'_> {
    fn apply(&mut self, op: &Transform, draw: &mut dyn FnMut() -> Draw) -> Result<(), String> {
        let image = self.now.output();
        match op {
            Transform::RandomResizedCrop { size, scale, ratio, method, interpolation } => {
                let region = crop::random_resized(image, *scale, *ratio, *method, &mut draw());
                self.crop(window(region), [0; 3]);
                self.resize(Size::new(size.1, size.0), interpolation.filter());
            }
            Transform::Resize { size, shorter, max_size, interpolation } => {
                let fixed = size.map(|(h, w)| Size::new(w, h));
                let size =
                    fixed.unwrap_or_else(|| crop::shorter_side(image, shorter.unwrap_or(1), *max_size));
                self.resize(size, interpolation.filter());
            }
            Transform::CenterCrop { size } => {
                self.crop(Window::center(image, Size::new(size.1, size.0)), [0; 3]);
            }
            Transform::ResizedCenterCrop { size, ratio, interpolation } => {
                self.crop(window(crop::center_square(image, *ratio)), [0; 3]);
                self.resize(Size::new(size.1, size.0), interpolation.filter());
            }
            Transform::BucketResize { sizes, interpolation } => {
                let (height, width) = sizes[crop::nearest_ratio(image.height, image.width, sizes)];
                let size = Size::new(width, height);
                self.crop(window(crop::center_of_ratio(image, size)), [0; 3]);
                self.resize(size, interpolation.filter());
            }
            Transform::RandomCrop { size, padding, pad_if_needed, fill } => {
                self.random_crop(*size, *padding, *pad_if_needed, *fill, &mut draw())?;
            }
            Transform::Pad { padding: (l, t, r, b), fill } => self.pad((*l, *t, *r, *b), *fill),
            Transform::RandomHorizontalFlip { p } => self.now.flip_horizontal ^= draw().chance(*p),
            Transform::RandomVerticalFlip { p } => self.now.flip_vertical ^= draw().chance(*p),
            Transform::Normalize { .. } => {}
        }
        Ok(())
    }

    fn random_crop(
        &mut self,
        (height, width): (u32, u32),
        (left, top, right, bottom): (u32, u32, u32, u32),
        pad_if_needed: bool,
        fill: [u8; 3],
        draw: &mut Draw,
    ) -> Result<(), String> {
        self.pad((left, top, right, bottom), fill);
        if pad_if_needed {
            // torchvision pads both sides by the whole difference, then crops at random.
            let image = self.now.output();
            let (dx, dy) = (width.saturating_sub(image.width), height.saturating_sub(image.height));
            self.pad((dx, dy, dx, dy), fill);
        }
        let image = self.now.output();
        if image.width < width || image.height < height {
            return Err(format!(
                "RandomCrop of {height}x{width} does not fit an image of {}x{} (height x width); pad_if_needed=True pads",
                image.height, image.width
            ));
        }
        self.crop(window(crop::place(image, width, height, draw)), fill);
        Ok(())
    }

    fn pad(&mut self, (left, top, right, bottom): (u32, u32, u32, u32), fill: [u8; 3]) {
        if (left, top, right, bottom) == (0, 0, 0, 0) {
            return;
        }
        let image = self.now.output();
        let (width, height) = (image.width + left + right, image.height + top + bottom);
        self.crop(Window::new(-(left as i32), -(top as i32), width, height), fill);
    }

    /// Takes `part` (in coordinates of what is there now) as the new whole.
    fn crop(&mut self, part: Window, fill: [u8; 3]) {
        let part = self.unflipped(part);
        let image = self.now.output();
        let inside = part.x >= 0
            && part.y >= 0
            && i64::from(part.x) + i64::from(part.width) <= i64::from(image.width)
            && i64::from(part.y) + i64::from(part.height) <= i64::from(image.height);
        let untouched = self.now.window == Window::whole(self.now.resized);
        if inside && untouched && !self.resized {
            let crop = &mut self.now.crop;
            *crop = Region::new(crop.x + part.x as u32, crop.y + part.y as u32, part.width, part.height);
            self.now.resized = crop.size();
            self.now.window = Window::whole(crop.size());
            return;
        }
        let covered = self.now.covered().map(Region::size) == Some(self.now.window.size());
        // Reaching out of an earlier window must show fill, not the image's pixels beyond that window; and two fills
        // of different colours do not fit one geometry.
        if (!inside && !untouched) || (!covered && fill != self.now.fill) {
            let flips = (self.now.flip_horizontal, self.now.flip_vertical);
            (self.now.flip_horizontal, self.now.flip_vertical) = (false, false);
            self.next_step();
            (self.now.flip_horizontal, self.now.flip_vertical) = flips;
            return self.crop_unflipped(part, fill);
        }
        if !inside {
            self.now.fill = fill;
        }
        let window = self.now.window;
        self.now.window = Window::new(window.x + part.x, window.y + part.y, part.width, part.height);
    }

    fn crop_unflipped(&mut self, part: Window, fill: [u8; 3]) {
        self.now.fill = fill;
        self.now.window = part;
    }

    /// Flips come last in a geometry; a box asked for after a flip lies mirrored before it.
    fn unflipped(&self, part: Window) -> Window {
        let image = self.now.output();
        let mirror = |flip: bool, start: i32, length: u32, limit: u32| {
            if flip { limit as i32 - start - length as i32 } else { start }
        };
        Window {
            x: mirror(self.now.flip_horizontal, part.x, part.width, image.width),
            y: mirror(self.now.flip_vertical, part.y, part.height, image.height),
            ..part
        }
    }

    fn resize(&mut self, size: Size, filter: Filter) {
        if size == self.now.output() {
            return;
        }
        if self.resized || self.now.window != Window::whole(self.now.resized) {
            self.next_step();
        }
        self.now.resized = size;
        self.now.window = Window::whole(size);
        self.filter = filter;
        self.resized = true;
    }

    fn next_step(&mut self) {
        self.push();
        self.now = Geometry::identity(self.now.output());
        self.filter = Filter::Bilinear;
        self.resized = false;
    }

    fn push(&mut self) {
        self.steps.push(Step { geometry: self.now, filter: self.filter });
    }
}

fn window(region: Region) -> Window {
    Window::new(region.x as i32, region.y as i32, region.width, region.height)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SampleKey = SampleKey { seed: 1, epoch: 2, sample: 3 };

    fn plan(ops: &[Transform]) -> ImagePlan {
        ImagePlan::new("image", 0, ops, ImageDType::Float32, MemoryFormat::ChannelsFirst).unwrap()
    }

    fn steps(ops: &[Transform], image: Size) -> Steps {
        let mut steps = Steps::new();
        plan(ops).draw(image, KEY, &mut steps).unwrap();
        steps
    }

    fn refusal(ops: &[Transform], dtype: ImageDType) -> String {
        ImagePlan::new("image", 0, ops, dtype, MemoryFormat::ChannelsFirst).unwrap_err().to_string()
    }

    #[test]
    fn classic_recipes_are_one_step() {
        let train = [Transform::random_resized_crop(224), Transform::random_horizontal_flip()];
        let validation = [Transform::resize_shorter(256), Transform::center_crop(224)];
        let image = Size::new(500, 375);
        assert_eq!(steps(&train, image).len(), 1);
        let [step] = steps(&validation, image)[..] else { panic!("one step") };
        assert_eq!(step.geometry.resized, Size::new(341, 256));
        assert_eq!(step.geometry.window, Window::new(58, 16, 224, 224));
        assert_eq!(plan(&train).output(), Some(Size::new(224, 224)));
        assert_eq!(plan(&[Transform::resize_shorter(256)]).output(), None);
    }

    #[test]
    fn crops_before_a_resize_move_the_source_box() {
        let ops = [Transform::center_crop(100), Transform::center_crop(50), Transform::resize_shorter(20)];
        let [step] = steps(&ops, Size::new(300, 200))[..] else { panic!("one step") };
        assert_eq!(step.geometry.crop, Region::new(125, 75, 50, 50));
        assert_eq!(step.geometry.resized, Size::new(20, 20));
    }

    #[test]
    fn a_second_resize_is_a_second_step() {
        let ops = [Transform::resize_shorter(100), Transform::center_crop(80), Transform::resize_shorter(40)];
        let all = steps(&ops, Size::new(300, 200));
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].geometry.image, Size::new(80, 80));
    }

    #[test]
    fn a_crop_after_a_flip_lies_mirrored() {
        let flip = Transform::RandomHorizontalFlip { p: 1.0 };
        let crop = Transform::RandomCrop {
            size: (10, 10),
            padding: (0, 0, 0, 0),
            pad_if_needed: false,
            fill: [0; 3],
        };
        let image = Size::new(100, 10);
        let [after] = steps(&[flip.clone(), crop.clone()], image)[..] else { panic!("one step") };
        // The same draw (same place in the list) without a flip in front.
        let never = Transform::RandomHorizontalFlip { p: 0.0 };
        let [plain] = steps(&[never, crop], image)[..] else { panic!("one step") };
        assert_eq!(after.geometry.crop.x, 90 - plain.geometry.crop.x);
        assert!(after.geometry.flip_horizontal);
    }

    #[test]
    fn reaching_out_of_a_window_shows_fill_not_image() {
        let ops = [
            Transform::resize_shorter(100),
            Transform::center_crop(50),
            Transform::Pad { padding: (5, 5, 5, 5), fill: [9; 3] },
        ];
        let all = steps(&ops, Size::new(200, 200));
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].geometry.window, Window::new(-5, -5, 60, 60));
    }

    #[test]
    fn draws_differ_by_epoch_sample_and_view_only() {
        let ops = [Transform::random_resized_crop(10)];
        let crop = |view, key| {
            let plan =
                ImagePlan::new("image", view, &ops, ImageDType::UInt8, MemoryFormat::ChannelsLast).unwrap();
            let mut steps = Steps::new();
            plan.draw(Size::new(500, 400), key, &mut steps).unwrap();
            steps[0].geometry.crop
        };
        let base = crop(0, KEY);
        assert_eq!(base, crop(0, KEY));
        assert_ne!(base, crop(1, KEY));
        assert_ne!(base, crop(0, SampleKey { epoch: 3, ..KEY }));
        assert_ne!(base, crop(0, SampleKey { sample: 4, ..KEY }));
        assert_ne!(base, crop(0, SampleKey { seed: 2, ..KEY }));
    }

    #[test]
    fn impossible_lists_are_refused_with_the_place() {
        let normalize = Transform::normalize_imagenet();
        assert!(
            refusal(&[normalize.clone(), Transform::center_crop(3)], ImageDType::Float32).contains("last")
        );
        assert!(refusal(&[normalize], ImageDType::UInt8).contains("uint8"));
        let message = refusal(&[Transform::center_crop(0)], ImageDType::Float32);
        assert!(message.contains("number 1 (CenterCrop)"), "{message}");
        assert!(
            refusal(&[Transform::RandomHorizontalFlip { p: 1.5 }], ImageDType::Float32)
                .contains("between 0 and 1")
        );
    }
}
