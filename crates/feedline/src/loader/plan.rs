//! Options + data set → plan: everything checked, every shape and size known, before a thread starts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedline_pixels::Mode;

use super::audio::{self, AudioPlan};
use super::mix::MixPlan;
use super::targets::{self, TargetPlan};
use super::video::{self, VideoPlan};
use super::{MOST_OBJECTS, arrays, machine, sequence, views, windows};
use crate::batch::{ColumnSpec, Layout};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::field::{Carrier, Meaning, MemoryFormat};
use crate::order::{Batches, Identity, Order, Sequence, digest};
use crate::render::{ValueForm, not_for_numbers};
use crate::sample::{DType, FieldSet, FieldSpec, Kind, SampleBuffer, Value};
use crate::spec::{DecodeMode, FieldTransforms, LoaderOptions, OnError, OnMissing, ReadAhead, Sampler};
use crate::transform::ops::{Grayscale, TokenWindow};
use crate::transform::{BatchTransform, ImagePlan, Like, Transform};

/// Bytes of remote data read ahead, unless a memory budget is set: two windows of a block shuffle.
const AHEAD_BYTES: u64 = 576 << 20;

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
    /// A decoded image; see `Plan::pictures`. `whole`: its image plan, if results have the size of the image, so that
    /// their lengths are known where sizes are.
    Image { field: usize, whole: Option<usize> },
    /// A target that moves with an image, or the drawn parameters; see `Views::targets` and `Views::params`.
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
pub(crate) struct Views {
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

/// The order of new epochs, and whether a mixture's weights were changed since the loader was created.
#[derive(Debug)]
struct Current {
    sequence: Sequence,
    chosen: bool,
}

/// A loader's plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) options: LoaderOptions,
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) images: Vec<ImagePlan>,
    /// Decoded image fields; the views of a field share its decoding.
    pub(crate) pictures: Vec<Views>,
    /// Decoded audio fields, with their columns.
    pub(super) audio: Vec<(usize, AudioPlan)>,
    /// Decoded video fields.
    pub(super) video: Vec<VideoPlan>,
    /// How samples are mixed.
    pub(crate) mix: MixPlan,
    /// Fields to request from `Dataset::read`; those read straight into the batch are not included.
    pub(crate) fields: FieldSet,
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
        let schema = dataset.schema();
        let wanted = wanted_fields(&schema.fields, &options)?;
        let mut plan = Plan {
            columns: vec![ColumnSpec::dense("index", DType::I64, &[])],
            outputs: vec![Output::Index],
            images: Vec::new(),
            pictures: Vec::new(),
            audio: Vec::new(),
            video: Vec::new(),
            mix: MixPlan::new(&options)?,
            fields: FieldSet::all(0),
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

    /// The order of the next epoch.
    pub(crate) fn sequence(&self) -> Sequence {
        self.current().sequence.clone()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets new weights for a mixture, from the next epoch on.
    pub(crate) fn set_weights(&self, weights: &[f64]) -> Result<()> {
        let mut current = self.current();
        current.sequence = sequence::with_weights(&current.sequence, weights)?;
        current.chosen = true;
        Ok(())
    }

    /// A mixture's weights in new epochs.
    pub(crate) fn weights(&self) -> Option<Vec<f64>> {
        match &self.current().sequence {
            Sequence::Mixed(recipe) => Some(recipe.weights.clone()),
            _ => None,
        }
    }

    /// The weights set by the user, if a mixture no longer has its first ones.
    pub(crate) fn chosen_weights(&self) -> Option<Vec<f64>> {
        let chosen = self.current().chosen;
        self.weights().filter(|_| chosen)
    }

    /// The order of `epoch` and its division into batches, starting at position `first`. `weights` overrides the
    /// weights of a mixture.
    pub(crate) fn epoch(&self, epoch: u64, first: u64, weights: Option<&[f64]>) -> Result<(Order, Batches)> {
        let (mut sequence, seed) = (self.sequence(), self.options.seed);
        if let Some(weights) = weights {
            sequence = sequence::with_weights(&sequence, weights)?;
        }
        if let Sequence::PerEpoch { name, .. } = &sequence {
            let reason = format!("{name}: this epoch's order must be given (Loader::epoch_in_order)");
            return Err(Error::option("sampler", reason));
        }
        let order = Order::new(&sequence, self.samples, seed, epoch).repeated(self.options.repeats);
        Ok((order, self.batches(first).with_cuts_of(&sequence, seed, epoch)))
    }

    /// The same for an epoch whose order is `list`.
    pub(crate) fn epoch_in_order(&self, epoch: u64, first: u64, list: Vec<u64>) -> Result<(Order, Batches)> {
        let sequence = self.sequence().handed_over(list, self.samples)?;
        let order =
            Order::new(&sequence, self.samples, self.options.seed, epoch).repeated(self.options.repeats);
        Ok((order, self.batches(first)))
    }

    /// Division of a whole epoch: its batches, and its dropped or repeated samples. Only rows of several samples make
    /// epochs differ.
    pub(crate) fn whole_epoch(&self, epoch: u64) -> Batches {
        self.batches(0).with_cuts_of(&self.sequence(), self.options.seed, epoch)
    }

    /// Divides an epoch into batches of equal size, starting at position `first`.
    fn batches(&self, first: u64) -> Batches {
        let options = &self.options;
        Batches {
            positions: self.sequence().positions(self.samples),
            first,
            batch_size: options.batch_size,
            drop_last: options.drop_last,
            rank: options.rank,
            world_size: options.world_size,
            cuts: None,
            rows: None,
        }
    }

    /// The identity that a saved state must match.
    pub(crate) fn identity(&self, dataset: &Dataset) -> Identity {
        let sequence = self.sequence();
        Identity {
            fingerprint: dataset.fingerprint().to_hex(),
            dataset_samples: self.samples,
            seed: self.options.seed,
            order: sequence::in_words(&sequence, &self.sampler_digest),
            weights: self.weights(),
            epoch_samples: sequence.positions(self.samples),
            drop_last: self.options.drop_last,
            global_batch: self.options.batch_size * self.options.world_size,
            transforms: transforms_in_words(&self.options),
            pixels: pixels_in_words(&self.options),
        }
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

    /// Bytes allowed for reads ahead. If there is a memory budget: half of it for remote data; for local data a quarter of
    /// what batches leave.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        match self.options.memory_budget {
            None => AHEAD_BYTES,
            Some(budget) if self.remote => budget / 2,
            Some(budget) => (budget.saturating_sub(self.dense_bytes(self.depth)) / 4).min(AHEAD_BYTES),
        }
    }

    /// Refuses a number of reads ahead that would have no effect.
    pub(super) fn check_read_ahead(&self, dataset: &Dataset) -> Result<()> {
        if !matches!(self.options.read_ahead, ReadAhead::Reads(_)) {
            return Ok(());
        }
        let format = dataset.format();
        let local = (0..format.object_count().min(MOST_OBJECTS))
            .any(|number| format.object(number).is_some_and(|(source, _)| !source.is_remote()));
        let reason = if self.remote && !local {
            "a number is for local data; for remote data set storage_options={'max_inflight_parts': ...} in fl.open".to_owned()
        } else if format.object_count() == 0 {
            format!("{} cannot tell which bytes come next; leave it at 'auto'", format.name())
        } else if self.ahead_bytes() == 0 {
            "memory_budget leaves no bytes for it".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::option("read_ahead", reason))
    }

    /// Bytes allowed for values whose size is not known beforehand; `None` without a memory budget.
    pub(crate) fn ragged_budget(&self) -> Option<u64> {
        let rest = |budget: u64| budget.saturating_sub(self.dense_bytes(self.depth));
        // If dense columns take all of it, short texts beside them must not make batches wait for each other.
        let ahead =
            if self.remote || self.options.read_ahead == ReadAhead::Off { 0 } else { self.ahead_bytes() };
        self.batches_budget().map(|budget| rest(budget).saturating_sub(ahead).max(budget / 8))
    }

    /// The part of the memory budget that is left for batches.
    fn batches_budget(&self) -> Option<u64> {
        let budget = self.options.memory_budget?;
        Some(if self.remote { budget - self.ahead_bytes() } else { budget })
    }

    /// Bytes of dense columns with `depth` batches in flight. Two more batches exist besides: the user's current one
    /// and the one before.
    fn dense_bytes(&self, depth: usize) -> u64 {
        self.batch_bytes().saturating_mul(depth as u64 + 2)
    }

    fn has_ragged(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.layout, Layout::Ragged { .. }))
    }

    /// Bytes of one full batch's dense columns.
    pub(crate) fn batch_bytes(&self) -> u64 {
        self.columns.iter().map(|c| c.row_bytes() as u64).sum::<u64>().saturating_mul(self.options.batch_size)
    }

    fn add_field(&mut self, dataset: &Dataset, field: usize, spec: &FieldSpec) -> Result<()> {
        let name = &spec.name;
        let direct = self.options.on_error != OnError::Replace
            && !dataset.is_empty()
            && dataset.format().knows_byte_lengths(field);
        let bytes = Output::Bytes { field, direct };
        let soft = self.mix.soft_label(name).filter(|_| spec.kind.carrier() == Carrier::Int);
        if let Some((soft, classes)) = soft {
            self.add(ColumnSpec::dense(name, DType::F32, &[classes]), Output::Soft { field, soft });
            return Ok(());
        }
        if self.options.views && views::is_for(spec) {
            return self.add_file_view(dataset, field, spec);
        }
        if self.is_audio(spec) {
            return self.add_audio(dataset, field, name);
        }
        if self.is_video(spec)? {
            return self.add_video(dataset, field, name);
        }
        match spec.kind.carrier() {
            Carrier::Image => return self.add_image(field, name, direct),
            Carrier::Int | Carrier::Float if spec.optional && self.options.missing != OnMissing::Error => {
                self.add_optional(field, spec);
            }
            Carrier::Int => self.add(ColumnSpec::dense(name, DType::I64, &[]), Output::Int { field }),
            Carrier::Float => self.add(ColumnSpec::dense(name, DType::F64, &[]), Output::Float { field }),
            Carrier::Bytes => {
                self.add(ColumnSpec::ragged(name, DType::U8, false, spec.kind.meaning()), bytes);
            }
            Carrier::Array => self.add_array(dataset, field, name)?,
        }
        Ok(())
    }

    /// Adds the places of a field's bytes in mapped files, and the sizes of images.
    fn add_file_view(&mut self, dataset: &Dataset, field: usize, spec: &FieldSpec) -> Result<()> {
        let files = views::files(dataset, field)?;
        self.add(ColumnSpec::views(&spec.name, files), Output::View { field });
        if spec.kind == Kind::Image {
            let size = ColumnSpec::dense(format!("{}_size", spec.name), DType::I64, &[2]);
            self.add(size, Output::ImageSize { field });
        }
        Ok(())
    }

    /// Refuses views of nothing.
    fn check_views(&self) -> Result<()> {
        let none = !self.outputs.iter().any(|output| matches!(output, Output::View { .. }));
        if self.options.views && none {
            return Err(Error::option("views", "no field is loaded that can be a view: an image, or bytes"));
        }
        Ok(())
    }

    /// Number of rows that a worker takes at a time: samples that are mixed with each other; a whole batch of views, whose
    /// rows take less time than claiming them.
    pub(crate) fn rows_at_once(&self, rows_per_batch: u64) -> u64 {
        if self.options.views { rows_per_batch } else { self.mix.group }
    }

    /// Adds a number that may be missing, and a column that says which samples have it.
    fn add_optional(&mut self, field: usize, spec: &FieldSpec) {
        let masked = self.options.missing == OnMissing::Mask;
        if spec.kind.carrier() == Carrier::Int && masked {
            self.add(ColumnSpec::dense(&spec.name, DType::I64, &[]), Output::IntOrZero { field });
        } else {
            self.add(ColumnSpec::dense(&spec.name, DType::F64, &[]), Output::NumberOrNan { field });
        }
        if masked {
            let name = format!("{}.valid", spec.name);
            self.add(ColumnSpec::dense(name, DType::Bool, &[]), Output::Valid { field });
        }
    }

    fn add_array(&mut self, dataset: &Dataset, field: usize, name: &str) -> Result<()> {
        // The element type belongs to the column; it is that of the first sample. Shapes may differ between samples.
        let dtype = first_dtype(dataset, field)?;
        if let Some(window) = windows::of_field(&self.options, name) {
            return self.add_tokens(field, name, dtype, window);
        }
        if let Some(window) = arrays::of_field(&self.options, name) {
            let column = match window.shape() {
                Some(shape) => ColumnSpec::dense(name, dtype, &shape),
                None => ColumnSpec::ragged(name, dtype, true, Meaning::Numbers),
            };
            self.add(column, Output::ArrayWindow { field });
            return Ok(());
        }
        self.add(ColumnSpec::ragged(name, dtype, true, Meaning::Numbers), Output::Array { field });
        Ok(())
    }

    /// Whether a field is decoded as audio: it is audio, or bytes with a list for audio.
    fn is_audio(&self, spec: &FieldSpec) -> bool {
        let given = audio::has_audio(&self.options, &spec.name);
        match spec.kind {
            Kind::Audio => self.options.decode != DecodeMode::None || given,
            Kind::Bytes => given,
            _ => false,
        }
    }

    fn add_audio(&mut self, dataset: &Dataset, field: usize, name: &str) -> Result<()> {
        if self.options.decode == DecodeMode::None {
            let reason = format!("{name} is not decoded (decode='none'), so it cannot be transformed");
            return Err(Error::option("transforms", reason));
        }
        let plan = AudioPlan::new(dataset, &self.options, field)?;
        let column = match plan.shape() {
            Some(shape) => ColumnSpec::dense(name, DType::F32, shape),
            None => ColumnSpec::ragged(name, DType::F32, true, Meaning::Numbers),
        };
        self.audio.push((self.columns.len(), plan));
        self.add(column, Output::Media { field });
        Ok(())
    }

    /// Whether a field is decoded as video: its list begins with `Clip`. A video without one stays bytes.
    fn is_video(&self, spec: &FieldSpec) -> Result<bool> {
        let given = video::has_clip(&self.options, &spec.name);
        let undecoded = self.options.decode == DecodeMode::None;
        if given && undecoded || spec.kind == Kind::Video && !given && !undecoded {
            let reason = if undecoded {
                "is not decoded (decode='none'), so it cannot be transformed"
            } else {
                "is a video: choose frames with transforms={'video': [T.Clip(frames=16), ...]}, or leave it as bytes with decode='none'"
            };
            return Err(Error::option("transforms", format!("{} {reason}", spec.name)));
        }
        Ok(given)
    }

    fn add_video(&mut self, dataset: &Dataset, field: usize, name: &str) -> Result<()> {
        let (plan, columns) = VideoPlan::new(dataset, &self.options, (field, name), self.columns.len())?;
        self.video.push(plan);
        for column in columns {
            self.add(column, Output::Media { field });
        }
        Ok(())
    }

    /// Adds what tells the rows of packed samples apart.
    fn add_packing(&mut self) -> Result<()> {
        let Some(Sampler::Packed { .. }) = &self.options.sampler else { return Ok(()) };
        let refused = match &self.options {
            options if options.on_error == OnError::Replace => {
                Some("a substitute of another length does not fit")
            }
            options if options.repeats > 1 => Some("repeats are not packed"),
            options if !options.batch_transforms.is_empty() => Some("packed samples are not mixed"),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(Error::option("sampler", format!("Packed: {reason}")));
        }
        self.add(ColumnSpec::dense("packed.length", DType::I64, &[]), Output::PackedLength);
        self.add(ColumnSpec::dense("packed.row", DType::I64, &[]), Output::PackedRow);
        Ok(())
    }

    /// The length of a packed sample.
    pub(crate) fn packed_length(&self, sample: u64) -> u64 {
        match &self.current().sequence {
            Sequence::Packed(packing) => packing.length(sample),
            _ => 0,
        }
    }

    /// Adds windows of tokens, and the same one token later if targets are wanted.
    fn add_tokens(&mut self, field: usize, name: &str, dtype: DType, window: TokenWindow) -> Result<()> {
        if !windows::are_tokens(dtype) {
            let reason = format!("{name}: tokens are whole numbers, but these are {}", dtype.name());
            return Err(Error::option("transforms", reason));
        }
        self.add(ColumnSpec::dense(name, DType::I64, &[window.size]), Output::Tokens { field, skip: 0 });
        if window.targets {
            let column = ColumnSpec::dense("targets", DType::I64, &[window.size]);
            self.add(column, Output::Tokens { field, skip: 1 });
        }
        Ok(())
    }

    fn add_image(&mut self, field: usize, name: &str, direct: bool) -> Result<()> {
        if self.options.decode == DecodeMode::None {
            if self.options.transforms.contains_key(name) {
                let reason = format!("{name} is not decoded (decode='none'), so it cannot be transformed");
                return Err(Error::option("transforms", reason));
            }
            self.add(
                ColumnSpec::ragged(name, DType::U8, false, Meaning::Bytes),
                Output::Bytes { field, direct },
            );
            self.add(
                ColumnSpec::dense(format!("{name}_size"), DType::I64, &[2]),
                Output::ImageSize { field },
            );
            return Ok(());
        }
        let values = self.value_form(name)?;
        let views = Views { field, outputs: Vec::new(), targets: Vec::new(), params: Vec::new(), values };
        self.pictures.push(views);
        let transforms = self.options.transforms.get(name).cloned();
        match transforms.unwrap_or(FieldTransforms::Single(Vec::new())) {
            FieldTransforms::Single(list) => self.add_view(field, name.to_owned(), 0, &list),
            FieldTransforms::Views(views) => {
                for (number, (view, list)) in views.iter().enumerate() {
                    self.add_view(field, format!("{name}.{view}"), number as u64, list)?;
                }
                Ok(())
            }
        }
    }

    fn add_view(&mut self, field: usize, name: String, view: u64, list: &[Transform]) -> Result<()> {
        let values = self.pictures.last().and_then(|views| views.values);
        let own = name.split('.').next().unwrap_or(&name);
        let (dtype, format) = if self.options.pixels.contains(&name) {
            (DType::U8, MemoryFormat::ChannelsLast)
        } else {
            let own = self.options.dtypes.get(&name).or_else(|| self.options.dtypes.get(own));
            (own.copied().unwrap_or(self.options.dtype), self.options.memory_format)
        };
        let mut ops = list.to_vec();
        let mode = self.options.modes.get(&name).or_else(|| self.options.modes.get(own));
        if mode.map(String::as_str) == Some(Mode::Grey.name()) {
            ops.insert(0, Grayscale { num_output_channels: 1, like: Like::default() }.into());
        }
        // The geometry of numbers is planned as for photos; their own form decides the values.
        let image =
            ImagePlan::new(&name, view, &ops, if values.is_some() { DType::U8 } else { dtype }, format)?;
        if let Some(form) = values {
            return self.add_values(field, name, form, image, list);
        }
        let column = match image.output() {
            Some(size) => ColumnSpec::dense(name, dtype, &image.shape(size)),
            None => ColumnSpec::ragged(name, dtype, true, Meaning::Numbers),
        };
        let plan = self.images.len();
        let whole = image.keeps_size().then_some(plan);
        self.images.push(image);
        let views = self.pictures.last_mut().expect("the field's views were begun just now");
        views.outputs.push((self.columns.len(), plan));
        self.add(column, Output::Image { field, whole });
        Ok(())
    }

    /// Adds a column of numbers.
    fn add_values(
        &mut self,
        field: usize,
        name: String,
        form: ValueForm,
        image: ImagePlan,
        list: &[Transform],
    ) -> Result<()> {
        if let Some(other) = not_for_numbers(list) {
            let reason = format!("{name}: {other} is for colours; its mode is numbers, which are only moved");
            return Err(Error::option("transforms", reason));
        }
        let column = match image.output().and_then(|size| form.fixed_shape(size)) {
            Some(shape) => ColumnSpec::dense(name, form.dtype(), &shape),
            None => ColumnSpec::ragged(name, form.dtype(), true, Meaning::Numbers),
        };
        let plan = self.images.len();
        self.images.push(image);
        let views = self.pictures.last_mut().expect("the field's views were begun just now");
        views.outputs.push((self.columns.len(), plan));
        self.add(column, Output::Image { field, whole: None });
        Ok(())
    }

    /// The form of a field's numbers, if its mode says that they are not colours.
    fn value_form(&self, name: &str) -> Result<Option<ValueForm>> {
        let options = &self.options;
        let Some(mode) = options.modes.get(name) else { return Ok(None) };
        let mode = Mode::from_name(mode).ok_or_else(|| {
            let known = Mode::ALL.map(|mode| format!("\"{}\"", mode.name())).join(", ");
            Error::option("mode", format!("{name}: \"{mode}\" is not one of {known}"))
        })?;
        if matches!(mode, Mode::Rgb | Mode::Grey) {
            return Ok(None);
        }
        let own = options.dtypes.get(name).copied();
        ValueForm::new(mode, own, options.dtype, options.memory_format)
            .map(Some)
            .map_err(|reason| Error::option("dtype", format!("{name}: {reason}")))
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

    fn check_pixels(&self) -> Result<()> {
        let image = |(column, output): (&ColumnSpec, &Output)| {
            matches!(output, Output::Image { .. }).then(|| column.name.clone())
        };
        let images: Vec<String> = self.columns.iter().zip(&self.outputs).filter_map(image).collect();
        match self.options.pixels.iter().find(|name| !images.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let reason = format!("there is no image column '{name}'; there are: {}", images.join(", "));
                Err(Error::option("pixels", reason))
            }
        }
    }

    /// Refuses batches that are too large now, naming the column, instead of failing at the first batch.
    fn check_sizes(&self) -> Result<()> {
        let most = machine::memory_bytes();
        let rows = self.options.batch_size.min(self.sequence().positions(self.samples)).max(1);
        for (column, spec) in self.columns.iter().enumerate() {
            let each = spec.row_bytes() as u64;
            let bytes = each.saturating_mul(rows);
            if bytes <= most {
                continue;
            }
            let views = self.pictures.iter().flat_map(|views| &views.outputs);
            let plan = views.into_iter().find(|(at, _)| *at == column).map(|(_, plan)| &self.images[*plan]);
            let reason = format!(
                "{}: {} makes {each} bytes a sample, {bytes} a batch of {rows}; this process can have {most} at most",
                spec.name,
                plan.map_or("its shape", ImagePlan::sized_by)
            );
            return Err(Error::option("transforms", reason));
        }
        Ok(())
    }

    /// Number of batches in flight: those ready ahead and the one being filled, within the memory budget.
    fn choose_depth(&self) -> Result<usize> {
        // Small batches need more of them in flight to keep all threads busy: at least four samples per thread.
        let enough = (4 * self.threads as u64).div_ceil(self.options.batch_size) as usize;
        let wanted = self.options.prefetch.unwrap_or(enough.max(2)) + 1;
        let affordable = self.affordable_depth();
        if affordable == 0 {
            let (budget, each) = (self.options.memory_budget.unwrap_or_default(), self.batch_bytes());
            let reason = format!(
                "{budget} bytes; one batch is {each} bytes, and three are needed at least (one being filled, two held)"
            );
            return Err(Error::option("memory_budget", reason));
        }
        Ok(wanted.min(affordable))
    }

    /// Number of batches in flight that the memory budget allows.
    fn affordable_depth(&self) -> usize {
        let Some(budget) = self.batches_budget() else { return usize::MAX };
        (budget / self.batch_bytes().max(1)).saturating_sub(2) as usize
    }

    /// Largest number of batches in flight for `auto_tune`.
    pub(crate) fn most_depth(&self) -> usize {
        let limited = self.options.memory_budget.is_some() && self.has_ragged();
        if limited { self.depth } else { self.affordable_depth().min(64) }
    }
}

fn wanted_fields(all: &[FieldSpec], options: &LoaderOptions) -> Result<Vec<usize>> {
    let known = || all.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |knob: &str, name: &str| {
        let unknown =
            || Error::option(knob, format!("there is no field '{name}'; the data set has: {}", known()));
        all.iter().position(|f| f.name == name).ok_or_else(unknown)
    };
    for name in options.transforms.keys() {
        match all[find("transforms", name)?].kind {
            Kind::Image | Kind::Audio | Kind::Video => {}
            Kind::Int => check_labels(name, &options.transforms[name])?,
            Kind::Array => windows::check_list(name, &options.transforms[name])?,
            Kind::Bytes if audio::has_audio(options, name) || video::has_clip(options, name) => {}
            _ => return Err(Error::option("transforms", format!("'{name}' is not an image field"))),
        }
    }
    for (knob, name) in
        options.modes.keys().map(|n| ("mode", n)).chain(options.dtypes.keys().map(|n| ("dtype", n)))
    {
        let kind = all[find(knob, name)?].kind;
        if kind != Kind::Image && !(knob == "dtype" && video::has_clip(options, name)) {
            return Err(Error::option(knob, format!("'{name}' is not an image field")));
        }
    }
    match &options.fields {
        Some(names) => names.iter().map(|name| find("fields", name)).collect(),
        None => Ok(usual_fields(all)),
    }
}

/// Checks an integer field's list: only `ReplaceLabel` is allowed.
fn check_labels(name: &str, given: &FieldTransforms) -> Result<()> {
    let FieldTransforms::Single(list) = given else {
        return Err(Error::option("transforms", format!("'{name}' is not an image field: it has no views")));
    };
    match list.iter().find(|transform| !matches!(transform, Transform::ReplaceLabel(_))) {
        None => Ok(()),
        Some(other) => {
            let reason =
                format!("{name}: {} is for images; an integer field takes ReplaceLabel", other.name());
            Err(Error::option("transforms", reason))
        }
    }
}

/// The default fields: all except the files' paths, which are for lookups, not for training.
fn usual_fields(all: &[FieldSpec]) -> Vec<usize> {
    let is_path =
        |field: &FieldSpec| field.kind == Kind::Text && field.name.rsplit('.').next() == Some("path");
    let some: Vec<usize> = (0..all.len()).filter(|n| !is_path(&all[*n])).collect();
    if some.is_empty() { (0..all.len()).collect() } else { some }
}

pub(super) fn first_dtype(dataset: &Dataset, field: usize) -> Result<DType> {
    let mut buffer = SampleBuffer::new();
    if !dataset.is_empty() {
        dataset.read(0, &FieldSet::only(dataset.schema().fields.len(), [field]), &mut buffer)?;
        if let Value::Array { dtype, .. } = buffer.value(field) {
            return Ok(*dtype);
        }
    }
    Ok(DType::F32)
}

fn buffered_field(output: Output) -> Option<usize> {
    match output {
        Output::Index
        | Output::PackedLength
        | Output::PackedRow
        | Output::Bytes { direct: true, .. }
        | Output::View { .. }
        | Output::ImageSize { .. } => None,
        Output::Int { field }
        | Output::Soft { field, .. }
        | Output::Float { field }
        | Output::IntOrZero { field }
        | Output::NumberOrNan { field }
        | Output::Valid { field }
        | Output::Bytes { field, .. }
        | Output::Array { field }
        | Output::ArrayWindow { field }
        | Output::Tokens { field, .. }
        | Output::Media { field }
        | Output::Image { field, .. }
        | Output::Target { field } => Some(field),
    }
}

fn threads(options: &LoaderOptions) -> usize {
    if options.num_workers > 0 {
        return options.num_workers;
    }
    usable_cores()
}

/// Number of cores this process may use; respects CPU affinity and cgroup quotas.
pub fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Names of the transforms for people, and a digest of all parameters for exact comparison.
fn transforms_in_words(options: &LoaderOptions) -> String {
    let names = |list: &[Transform]| list.iter().map(Transform::name).collect::<Vec<_>>().join(", ");
    let field = |(name, transforms): (&String, &FieldTransforms)| match transforms {
        FieldTransforms::Single(list) => format!("{name}: {}", names(list)),
        FieldTransforms::Views(views) => format!("{name}: {} views", views.len()),
    };
    let mut words = options.transforms.iter().map(field).collect::<Vec<_>>().join("; ");
    let mut exact = serde_json::to_vec(&options.transforms).expect("transforms are plain data");
    if !options.targets.is_empty() {
        let names: Vec<&str> = options.targets.keys().map(String::as_str).collect();
        words = format!("{words} with {}", names.join(", "));
        exact.extend(serde_json::to_vec(&options.targets).expect("targets are plain data"));
    }
    if !options.batch_transforms.is_empty() || options.repeats > 1 {
        let names: Vec<&str> = options.batch_transforms.iter().map(BatchTransform::name).collect();
        words = format!("{words}; {} x{}", names.join(", "), options.repeats);
        let mixed = (&options.batch_transforms, options.repeats);
        exact.extend(serde_json::to_vec(&mixed).expect("transforms are plain data"));
    }
    // A long list would make the state long; the digest distinguishes it all the same.
    let words: String = words.chars().take(200).collect();
    if words.is_empty() { "none".to_owned() } else { format!("{words} #{}", digest(&exact)) }
}

fn pixels_in_words(options: &LoaderOptions) -> String {
    let mut parts = vec![format!("{}, decode {:?}", options.dtype.name(), options.decode).to_lowercase()];
    parts.extend(options.modes.iter().map(|(field, mode)| format!("{field} as {mode}")));
    parts.extend(options.dtypes.iter().map(|(field, dtype)| format!("{field} of {}", dtype.name())));
    if !options.exif_transpose {
        parts.push("not turned".to_owned());
    }
    if options.allow_truncated {
        parts.push("truncated files".to_owned());
    }
    if options.page != 0 {
        parts.push(format!("page {}", options.page));
    }
    parts.extend(options.background.map(|colour| format!("on {colour:?}")));
    parts.join(", ")
}
