//! A checked list of transforms, with the form of its result.

use feedline_pixels::{Channels, Finish, Normalise, Size};

use super::group::needs_boxes;
use super::op::{Form, check_list, check_side, draw_checked};
use super::ops::Normalize;
use super::params::Place;
use super::{Params, SampleKey, Transform};
use crate::error::{Error, Result};
use crate::field::{DType, MemoryFormat};

/// Largest depth of nested lists: enough for any recipe, and small enough for a draw's key.
const DEEPEST: usize = 8;

/// Form of the images of a field before any transform.
const BEFORE: Form = Form { size: None, channels: Channels::Rgb, normalised: false, copies: 1 };

/// A checked list of transforms.
#[derive(Clone, Debug)]
pub(crate) struct ImagePlan {
    ops: Vec<Transform>,
    view: u64,
    /// Number of transforms before the first of `ops`, in another list.
    before: u64,
    finish: Finish,
    output: Option<Size>,
    /// Number of crops of each image side by side in the result.
    copies: u32,
    needs_boxes: bool,
}

impl ImagePlan {
    /// Checks `transforms` and determines their result. `view` separates the draws of several views.
    pub(crate) fn new(
        field: &str,
        view: u64,
        transforms: &[Transform],
        dtype: DType,
        format: MemoryFormat,
    ) -> Result<Self> {
        let refused = |reason: String| Error::option("transforms", format!("{field}{reason}"));
        if transforms.iter().map(|t| t.op().depth()).max().unwrap_or(0) > DEEPEST {
            return Err(refused(format!(": more than {DEEPEST} lists inside each other")));
        }
        let form = check_list(transforms, BEFORE).map_err(|reason| refused(format!(", {reason}")))?;
        let normalize = transforms.iter().find_map(|transform| match transform {
            Transform::Normalize(normalize) => Some(normalize),
            _ => None,
        });
        let finish = finish(dtype, format, normalize, form.channels).map_err(refused)?;
        if form.copies > 1 && form.size.is_none() {
            return Err(refused(
                ": crops that stand side by side must have one size, known beforehand".to_owned(),
            ));
        }
        let (output, copies) = (form.size, form.copies);
        let (ops, needs_boxes) = (transforms.to_vec(), needs_boxes(transforms));
        Ok(ImagePlan { ops, view, before: 0, finish, output, copies, needs_boxes })
    }

    /// Makes it the rest of a longer list, with `place` transforms before it.
    pub(crate) fn starting_at(self, place: u64) -> Self {
        ImagePlan { before: place, ..self }
    }

    /// The size of every result, if it does not depend on the sample.
    pub(crate) fn output(&self) -> Option<Size> {
        self.output
    }

    /// Whether every result has the size of its image.
    pub(crate) fn keeps_size(&self) -> bool {
        self.copies == 1 && self.ops.iter().all(|op| matches!(op, Transform::Normalize(_)))
    }

    /// Number of crops of each image side by side in the result.
    pub(crate) fn copies(&self) -> u32 {
        self.copies
    }

    /// The shape of a result of this size.
    pub(crate) fn shape(&self, size: Size) -> Vec<u64> {
        let each = self.finish.shape(size);
        if self.copies == 1 { each.to_vec() } else { [&[u64::from(self.copies)], &each[..]].concat() }
    }

    /// Whether its draws look at the sample's boxes.
    pub(crate) fn needs_boxes(&self) -> bool {
        self.needs_boxes
    }

    /// Name of the transform that determines the result's size.
    pub(crate) fn sized_by(&self) -> &'static str {
        let (mut form, mut maker) = (BEFORE, "the image");
        for transform in &self.ops {
            let after = transform.op().output(form).unwrap_or(form);
            if after.size != form.size {
                maker = transform.name();
            }
            form = after;
        }
        maker
    }

    /// Conversion of pixels to tensor elements.
    pub(crate) fn finish(&self) -> &Finish {
        &self.finish
    }

    /// Draws the parameters for one sample. The error is the reason.
    pub(crate) fn draw(&self, image: Size, key: SampleKey, params: &mut Params) -> Result<(), String> {
        self.draw_copy(image, key, 0, params)
    }

    /// The same for crop number `copy`. All crops have the same draws.
    pub(crate) fn draw_copy(
        &self,
        image: Size,
        key: SampleKey,
        copy: u32,
        params: &mut Params,
    ) -> Result<(), String> {
        params.begin(image, self.finish.channels);
        check_side(image).map_err(|why| format!("the image: {why}"))?;
        for (at, transform) in self.ops.iter().enumerate() {
            let place = Place::new(key, self.before + at as u64, self.view).of_copy(copy);
            draw_checked(transform, &place, params).map_err(|why| format!("{}: {why}", transform.name()))?;
        }
        Ok(())
    }
}

/// Determines the conversion of pixels to tensor elements; the error is the reason.
pub(crate) fn finish(
    dtype: DType,
    format: MemoryFormat,
    normalize: Option<&Normalize>,
    channels: Channels,
) -> Result<Finish, String> {
    if matches!(channels, Channels::Lgn | Channels::Magno) && dtype == DType::U8 {
        return Err(": opponent channels need a float dtype, not uint8".to_owned());
    }
    if normalize.is_some() && dtype == DType::U8 {
        return Err(": Normalize needs a float dtype, not uint8".to_owned());
    }
    let kernel = dtype.kernel().ok_or_else(|| format!(": images cannot be of {}", dtype.name()))?;
    Ok(Finish {
        layout: format.kernel(),
        dtype: kernel,
        scale: dtype != DType::U8,
        normalise: normalize.map(|by| Normalise { mean: by.mean, std: by.std }),
        channels,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Action;
    use super::super::ops::*;
    use super::*;

    const KEY: SampleKey = SampleKey { seed: 1, epoch: 2, sample: 3 };

    fn refusal(ops: &[Transform], dtype: DType) -> String {
        ImagePlan::new("image", 0, ops, dtype, MemoryFormat::ChannelsFirst).unwrap_err().to_string()
    }

    fn drawn(ops: &[Transform], view: u64, key: SampleKey) -> Params {
        let plan = ImagePlan::new("image", view, ops, DType::F32, MemoryFormat::ChannelsLast).unwrap();
        let mut params = Params::default();
        plan.draw(Size::new(500, 400), key, &mut params).unwrap();
        params
    }

    #[test]
    fn draws_differ_by_epoch_sample_and_view_only() {
        let ops = [Transform::random_resized_crop(10)];
        let base = drawn(&ops, 0, KEY);
        assert_eq!(base, drawn(&ops, 0, KEY));
        assert_ne!(base, drawn(&ops, 1, KEY));
        assert_ne!(base, drawn(&ops, 0, SampleKey { epoch: 3, ..KEY }));
        assert_ne!(base, drawn(&ops, 0, SampleKey { sample: 4, ..KEY }));
        assert_ne!(base, drawn(&ops, 0, SampleKey { seed: 2, ..KEY }));
    }

    #[test]
    fn sizes_that_overflow_are_an_error() {
        let refused = |ops: &[Transform], image| {
            let (dtype, format) = (DType::U8, MemoryFormat::ChannelsLast);
            let plan = ImagePlan::new("image", 0, ops, dtype, format).unwrap();
            plan.draw(image, KEY, &mut Params::default()).unwrap_err()
        };
        let ops = vec![Transform::resize_shorter(65536), Transform::center_crop(4)];
        let error = refused(&ops, Size::new(65535, 1));
        assert!(error.starts_with("Resize: 65536x4294901760"), "{error}");
        let error = refused(&[RandomApply { transforms: ops, p: 1.0 }.into()], Size::new(65535, 1));
        assert!(error.contains("65536x4294901760"), "{error}");
        assert!(refused(&[], Size::new(u32::MAX, 1)).contains("1x4294967295"));
    }

    #[test]
    fn the_transform_that_fixes_the_size_is_named() {
        let flip = Transform::random_horizontal_flip;
        let name = |ops: &[Transform]| {
            let (dtype, format) = (DType::F32, MemoryFormat::ChannelsLast);
            ImagePlan::new("image", 0, ops, dtype, format).unwrap().sized_by()
        };
        assert_eq!(name(&[flip()]), "the image");
        assert_eq!(name(&[Transform::resize_shorter(9), Transform::center_crop(8), flip()]), "CenterCrop");
        let pad = Pad { padding: (1, 1, 1, 1), fill: [0; 3], padding_mode: PaddingMode::Edge }.into();
        assert_eq!(name(&[Transform::center_crop(8), pad, Transform::normalize_imagenet()]), "Pad");
    }

    #[test]
    fn impossible_lists_are_refused_and_the_transform_named() {
        let normalize = Transform::normalize_imagenet();
        let crop = Transform::center_crop;
        assert!(refusal(&[normalize.clone(), crop(3)], DType::F32).contains("last"));
        assert!(refusal(std::slice::from_ref(&normalize), DType::U8).contains("uint8"));
        let padding = (u32::MAX, u32::MAX, u32::MAX, u32::MAX);
        let wraps = [RandomCrop { size: (8, 8), padding, ..RandomCrop::default() }.into()];
        assert!(refusal(&wraps, DType::U8).contains("padding must be between 0 and 65536"));
        let message = refusal(&[crop(0)], DType::F32);
        assert!(message.contains("number 1 (CenterCrop)"), "{message}");
        let flip = Transform::from(RandomHorizontalFlip { p: 1.5 });
        assert!(refusal(std::slice::from_ref(&flip), DType::F32).contains("between 0 and 1"));
        let nested = RandomApply { transforms: vec![crop(3), flip], p: 0.5 }.into();
        let message = refusal(&[crop(9), nested], DType::F32);
        let place = "number 2 (RandomApply): number 2 (RandomHorizontalFlip)";
        assert!(message.contains(place), "{message}");
        let inside = Compose { transforms: vec![normalize] }.into();
        assert!(refusal(&[inside], DType::F32).contains("Normalize"));
    }

    #[test]
    fn lists_too_deep_are_refused() {
        let mut op = Transform::center_crop(3);
        for _ in 0..9 {
            op = Compose { transforms: vec![op] }.into();
        }
        assert!(refusal(&[op], DType::F32).contains("inside each other"));
    }

    #[test]
    fn params_round_trip_through_json() {
        let ops = [
            Transform::random_resized_crop(100),
            ColorJitter { brightness: Some((0.5, 1.5)), hue: Some((-0.1, 0.1)), ..ColorJitter::default() }
                .into(),
            GaussianBlur { kernel_size: (5, 5), sigma: (0.1, 2.0) }.into(),
            Transform::normalize_imagenet(),
            RandomErasing { p: 1.0, ..RandomErasing::default() }.into(),
        ];
        let params = drawn(&ops, 0, KEY);
        let text = params.to_json();
        assert_eq!(Params::from_json(&text, Size::new(500, 400)).unwrap().actions(), params.actions());
        assert!(Params::from_json(&text, Size::new(50, 40)).unwrap_err().contains("400x500"));
        assert!(matches!(params.actions().last(), Some(Action::Erase(_))));
        assert!(Params::from_json("{}", Size::new(5, 5)).is_err());
    }
}
