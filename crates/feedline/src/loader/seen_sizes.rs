//! Sizes of images whose store does not know them, learned when they are first decoded. From the second epoch on, their
//! batches have memory in which every image has its place, and nothing is copied.

use std::sync::atomic::{AtomicU64, Ordering};

use feedline_pixels::Size;

use super::plan::{Output, Plan};
use crate::dataset::Dataset;

/// Most samples whose sizes are kept: eight bytes each, so 32 MiB. Images of larger data sets are copied once more, as in the
/// first epoch.
const MOST_SAMPLES: u64 = 1 << 22;

/// Sizes by field and sample; zero if not known.
#[derive(Debug)]
pub(crate) struct SeenSizes {
    fields: Vec<(usize, Vec<AtomicU64>)>,
}

impl SeenSizes {
    /// For the fields whose batches have memory for whole images; `None` if there are none, or if the store knows all sizes.
    pub(crate) fn new(plan: &Plan, dataset: &Dataset) -> Option<Self> {
        let whole = |output: &Output| match output {
            Output::Image { field, whole: Some(_) } => Some(*field),
            _ => None,
        };
        let unknown = |field: &usize| dataset.format().image_meta(0, *field).is_none();
        let fields: Vec<_> = plan.outputs.iter().filter_map(whole).filter(unknown).collect();
        let samples = dataset.len();
        if fields.is_empty() || samples > MOST_SAMPLES {
            return None;
        }
        let sizes = fields.into_iter().map(|field| Some((field, zeros(samples as usize)?)));
        Some(SeenSizes { fields: sizes.collect::<Option<_>>()? })
    }

    fn place(&self, field: usize, sample: u64) -> Option<&AtomicU64> {
        let (_, sizes) = self.fields.iter().find(|(number, _)| *number == field)?;
        sizes.get(usize::try_from(sample).ok()?)
    }

    /// The size of an image that was decoded before.
    pub(crate) fn get(&self, field: usize, sample: u64) -> Option<Size> {
        let packed = self.place(field, sample)?.load(Ordering::Relaxed);
        (packed != 0).then(|| Size::new((packed >> 32) as u32, packed as u32))
    }

    /// Notes the size of a decoded image.
    pub(crate) fn note(&self, field: usize, sample: u64, size: Size) {
        if let Some(place) = self.place(field, sample) {
            place.store(u64::from(size.width) << 32 | u64::from(size.height), Ordering::Relaxed);
        }
    }
}

/// `None` if there is no memory for them.
fn zeros(count: usize) -> Option<Vec<AtomicU64>> {
    let mut all = Vec::new();
    all.try_reserve_exact(count).ok()?;
    all.resize_with(count, AtomicU64::default);
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_noted_sizes_are_known() {
        let sizes = SeenSizes { fields: vec![(2, zeros(3).unwrap())] };
        sizes.note(2, 1, Size::new(640, 480));
        sizes.note(2, 9, Size::new(1, 1));
        sizes.note(0, 1, Size::new(1, 1));
        assert_eq!(sizes.get(2, 1), Some(Size::new(640, 480)));
        for (field, sample) in [(2, 0), (2, 9), (0, 1)] {
            assert_eq!(sizes.get(field, sample), None);
        }
    }
}
