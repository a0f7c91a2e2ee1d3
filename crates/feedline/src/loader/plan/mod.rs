//! Options + data set → plan: everything checked, every shape and size known, before a thread starts.

mod columns;
mod epochs;
mod fields;
mod images;
mod memory;

use std::sync::{Arc, Mutex};

use super::affinity;
use super::audio::AudioPlan;
use super::mix::MixPlan;
use super::sequence;
use super::targets::{self, TargetPlan};
use super::video::VideoPlan;
use crate::batch::ColumnSpec;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::render::ValueForm;
use crate::sample::{DType, FieldSet};
use crate::spec::{FieldTransforms, LoaderOptions};
use crate::transform::{ImagePlan, Transform};
use epochs::Current;
use fields::{buffered_field, wanted_fields};
use memory::threads;

pub(super) use fields::first_dtype;
pub(crate) use memory::cores_for;
pub use memory::usable_cores;

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The sample's number.
    Index,
    /// An integer field.
    Int { field: usize },
    /// An integer field as shares of classes; `soft` is the index in `MixPlan::soft`.
    Soft { field: usize, soft: usize },
    /// A float field.
    Float { field: usize },
    /// An integer field that may be missing; 0 then.
    IntOrZero { field: usize },
    /// A number that may be missing; NaN then.
    NumberOrNan { field: usize },
    /// Whether the sample has a value for the number.
    Valid { field: usize },
    /// Text, JSON, bytes, or an undecoded image. `direct`: read straight into the batch if lengths are known.
    Bytes { field: usize, direct: bool },
    /// The place of undecoded bytes in a mapped file.
    View { field: usize },
    /// An n-d array field.
    Array { field: usize },
    /// Windows of an n-d array.
    ArrayWindow { field: usize },
    /// A window of tokens, or its targets: one token later.
    Tokens { field: usize, skip: usize },
    /// A decoded image; see `Plan::image_fields`. `whole`: its image plan, if results have the size of the image, so that
    /// their lengths are known where sizes are.
    Image { field: usize, whole: Option<usize> },
    /// A target that moves with an image, or the drawn parameters; see `ImageViews::targets` and `ImageViews::params`.
    Target { field: usize },
    /// Height and width of an undecoded image.
    ImageSize { field: usize },
    /// Decoded audio or video, or its times; see `Plan::audio` and `Plan::video`.
    Media { field: usize },
    /// The length of a sample that is packed into a row.
    PackedLength,
    /// The row of a packed sample, counted in its batch.
    PackedRow,
}

/// The columns made from one image field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImageViews {
    pub(crate) field: usize,
    /// Column and image plan of each view.
    pub(crate) outputs: Vec<(usize, usize)>,
    /// The targets that move with the image, boxes first.
    pub(crate) targets: Vec<TargetPlan>,
    /// The columns with the drawn parameters, one per view, if requested.
    pub(crate) params: Vec<usize>,
    /// Set if the image contains numbers rather than colours.
    pub(crate) values: Option<ValueForm>,
}

/// A loader's plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) options: LoaderOptions,
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) images: Vec<ImagePlan>,
    /// Decoded image fields; the views of a field share its decoding.
    pub(crate) image_fields: Vec<ImageViews>,
    /// Decoded audio fields, with their columns.
    pub(super) audio: Vec<(usize, AudioPlan)>,
    /// Decoded video fields.
    pub(super) video: Vec<VideoPlan>,
    /// How samples are mixed.
    pub(crate) mix: MixPlan,
    /// Fields to request from `Dataset::read`; those read straight into the batch are not included.
    pub(crate) fields: FieldSet,
    /// Those of them whose images may be read in pieces: decoded as colours, and used by nothing else.
    pub(crate) in_pieces: Vec<usize>,
    pub(crate) threads: usize,
    pub(crate) depth: usize,
    /// Behind a lock because a mixture's weights may change between epochs.
    sequence: Mutex<Current>,
    /// Distinguishes samplers with long lists.
    sampler_digest: String,
    samples: u64,
    /// Whether some of the data are remote.
    pub(crate) remote: bool,
}

impl Plan {
    /// Checks `options` against `dataset`.
    pub(crate) fn new(dataset: &Dataset, options: LoaderOptions) -> Result<Self> {
        options.check()?;
        affinity::check(&options.cpus)?;
        let schema = dataset.schema();
        let wanted = wanted_fields(&schema.fields, &options)?;
        let mut plan = Plan {
            columns: vec![ColumnSpec::dense("index", DType::I64, &[])],
            outputs: vec![Output::Index],
            images: Vec::new(),
            image_fields: Vec::new(),
            audio: Vec::new(),
            video: Vec::new(),
            mix: MixPlan::new(&options)?,
            fields: FieldSet::all(0),
            in_pieces: Vec::new(),
            threads: threads(&options),
            depth: 0,
            sequence: Mutex::new(Current { sequence: sequence::of(dataset, &options)?, chosen: false }),
            sampler_digest: sequence::sampler_digest(&options),
            samples: dataset.len(),
            remote: dataset.format().is_remote(),
            options,
        };
        let follows = targets::following(&schema.fields, &wanted, &plan.options)?;
        for field in wanted {
            if !follows.contains(&field) {
                plan.add_field(dataset, field, &schema.fields[field])?;
            }
        }
        plan.add_packing()?;
        plan.add_targets(dataset)?;
        plan.add_params(dataset)?;
        plan.plan_mix()?;
        plan.check_names()?;
        plan.check_views()?;
        plan.check_pixels()?;
        plan.check_sizes()?;
        let in_parts = |field: &usize| plan.video.iter().any(|video| video.in_parts && video.field == *field);
        let buffered =
            plan.outputs.iter().filter_map(|o| buffered_field(*o)).filter(|field| !in_parts(field));
        plan.fields = FieldSet::only(schema.fields.len(), buffered);
        plan.in_pieces = plan.fields_in_pieces();
        plan.depth = plan.choose_depth()?;
        Ok(plan)
    }

    /// The plan of this epoch. It differs only if transforms follow a schedule, because each epoch's batches may then
    /// have their own size.
    pub(crate) fn at_epoch(self: &Arc<Self>, dataset: &Dataset, epoch: u64) -> Result<Arc<Self>> {
        if self.changes().next().is_none() {
            return Ok(self.clone());
        }
        let mut options = self.options.clone();
        for list in options.transforms.values_mut().flat_map(FieldTransforms::lists_mut) {
            *list = list.iter().map(|transform| transform.at_epoch(epoch)).collect();
        }
        Ok(Arc::new(Plan::new(dataset, options)?))
    }

    /// The epochs at which transforms change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = u64> {
        let lists = self.options.transforms.values().flat_map(FieldTransforms::lists);
        lists.flatten().flat_map(Transform::changes)
    }

    /// The label of a sample after its field's transforms.
    pub(crate) fn relabelled(&self, name: &str, sample: u64, label: i64) -> i64 {
        let Some(FieldTransforms::Single(list)) = self.options.transforms.get(name) else { return label };
        list.iter().fold(label, |label, transform| match transform {
            Transform::ReplaceLabel(by) => by.label(sample, label),
            _ => label,
        })
    }

    /// All fields whose stored bytes are read, in either way.
    pub(crate) fn stored_fields(&self) -> FieldSet {
        let mut fields = self.fields.clone();
        for output in &self.outputs {
            if let Output::Bytes { field, direct: true } = output {
                fields.insert(*field);
            }
        }
        fields
    }

    /// The image fields of which only what the draws need must be read.
    fn fields_in_pieces(&self) -> Vec<usize> {
        let others = |field: usize| {
            let other = |output: &&Output| !matches!(output, Output::Image { .. });
            self.outputs.iter().filter(other).any(|output| buffered_field(*output) == Some(field))
        };
        let colours = self.image_fields.iter().filter(|views| views.values.is_none());
        let fields = colours.map(|views| views.field).filter(|field| !others(*field));
        if self.options.page == 0 { fields.collect() } else { Vec::new() }
    }

    /// Number of rows that a worker takes at a time: samples that are mixed with each other; a whole batch of views, whose
    /// rows take less time than claiming them.
    pub(crate) fn rows_at_once(&self, rows_per_batch: u64) -> u64 {
        if self.options.views { rows_per_batch } else { self.mix.group }
    }

    pub(super) fn add(&mut self, column: ColumnSpec, output: Output) {
        self.columns.push(column);
        self.outputs.push(output);
    }

    fn check_names(&self) -> Result<()> {
        let mut names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => {
                let reason =
                    format!("two columns would be called '{}'; rename the field when opening", pair[0]);
                Err(Error::option("fields", reason))
            }
        }
    }
}
