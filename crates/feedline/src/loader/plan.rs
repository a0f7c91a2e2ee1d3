//! Options + data set → plan: everything checked, every shape and size known, before a thread starts.

use std::sync::{Mutex, PoisonError};

use super::sequence;
use crate::batch::{ColumnSpec, Meaning};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::order::{Batches, Identity, Order, Sequence, digest};
use crate::sample::{DType, FieldSet, FieldSpec, Kind, SampleBuffer, Value};
use crate::spec::{DecodeMode, FieldTransforms, ImageDType, LoaderOptions, MemoryFormat, OnError};
use crate::transform::{ImagePlan, Transform};

/// Bytes read ahead of need from far away, unless a memory budget says otherwise: two windows of a block shuffle.
const AHEAD_BYTES: u64 = 576 << 20;

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The sample's own number.
    Index,
    /// An integer field.
    Int { field: usize },
    /// A float field.
    Float { field: usize },
    /// Text, JSON, bytes, or an undecoded picture. `direct`: read straight into the batch where lengths are known.
    Bytes { field: usize, direct: bool },
    /// An n-d array field.
    Array { field: usize },
    /// A decoded picture; see `Plan::pictures`.
    Image { field: usize },
    /// Height and width of an undecoded picture.
    ImageSize { field: usize },
}

/// The columns that show one image field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Views {
    pub(crate) field: usize,
    /// Column and image plan of each view.
    pub(crate) outputs: Vec<(usize, usize)>,
}

/// A loader's plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) options: LoaderOptions,
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) images: Vec<ImagePlan>,
    /// Decoded image fields; all views of one share its decoding.
    pub(crate) pictures: Vec<Views>,
    /// What `Dataset::read` is asked for; fields that are read straight into the batch are not among them.
    pub(crate) fields: FieldSet,
    pub(crate) threads: usize,
    pub(crate) depth: usize,
    /// Behind a lock because a mixture's weights may change between epochs.
    sequence: Mutex<Sequence>,
    /// Tells samplers with long lists apart.
    sampler_digest: String,
    samples: u64,
    /// Whether some of the data are far away.
    remote: bool,
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
            fields: FieldSet::all(0),
            threads: threads(&options),
            depth: 0,
            sequence: Mutex::new(sequence::of(dataset, &options)?),
            sampler_digest: sequence::sampler_digest(&options),
            samples: dataset.len(),
            remote: dataset.format().is_remote(),
            options,
        };
        for field in wanted {
            plan.add_field(dataset, field, &schema.fields[field])?;
        }
        plan.check_names()?;
        let buffered = plan.outputs.iter().filter_map(|o| buffered_field(*o));
        plan.fields = FieldSet::only(schema.fields.len(), buffered);
        plan.depth = plan.choose_depth()?;
        Ok(plan)
    }

    /// How the next epoch is ordered.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// New weights for a mixture, from the next epoch on.
    pub(crate) fn set_weights(&self, weights: &[f64]) -> Result<()> {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *sequence = sequence::with_weights(&sequence, weights)?;
        Ok(())
    }

    /// The order of `epoch` and how it is cut into batches, beginning at position `first`.
    pub(crate) fn epoch(&self, epoch: u64, first: u64) -> Result<(Order, Batches)> {
        let (sequence, seed) = (self.sequence(), self.options.seed);
        if let Sequence::PerEpoch { name, .. } = &sequence {
            let reason = format!("{name}: this epoch's order must be handed over (Loader::epoch_in_order)");
            return Err(Error::option("sampler", reason));
        }
        let order = Order::new(&sequence, self.samples, seed, epoch);
        Ok((order, self.batches(first).with_cuts_of(&sequence, seed, epoch)))
    }

    /// The same for an epoch whose order is `list`.
    pub(crate) fn epoch_in_order(&self, epoch: u64, first: u64, list: Vec<u64>) -> Result<(Order, Batches)> {
        let sequence = self.sequence().handed_over(list, self.samples)?;
        Ok((Order::new(&sequence, self.samples, self.options.seed, epoch), self.batches(first)))
    }

    /// How many batches an epoch has, and how many samples too many or too few.
    pub(crate) fn whole_epoch(&self) -> Batches {
        self.batches(0).with_cuts_of(&self.sequence(), self.options.seed, 0)
    }

    /// How an epoch is cut into batches of equal size, beginning at position `first`.
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
        }
    }

    /// What a saved state must agree with.
    pub(crate) fn identity(&self, dataset: &Dataset) -> Identity {
        let sequence = self.sequence();
        let weights = match &sequence {
            Sequence::Mixed(recipe) => Some(recipe.weights.clone()),
            _ => None,
        };
        Identity {
            fingerprint: dataset.fingerprint().to_hex(),
            dataset_samples: self.samples,
            seed: self.options.seed,
            order: sequence::in_words(&sequence, &self.sampler_digest),
            weights,
            epoch_samples: sequence.positions(self.samples),
            drop_last: self.options.drop_last,
            global_batch: self.options.batch_size * self.options.world_size,
            transforms: transforms_in_words(&self.options),
            pixels: pixels_in_words(&self.options),
        }
    }

    /// Every field of which stored bytes are read, by whichever way.
    pub(crate) fn stored_fields(&self) -> FieldSet {
        let mut fields = self.fields.clone();
        for output in &self.outputs {
            if let Output::Bytes { field, direct: true } = output {
                fields.insert(*field);
            }
        }
        fields
    }

    /// Bytes that may be held for reads ahead: half of the memory budget where there is one.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.options.memory_budget.map_or(AHEAD_BYTES, |budget| budget / 2)
    }

    /// Bytes of one full batch's dense columns.
    pub(crate) fn batch_bytes(&self) -> u64 {
        self.columns.iter().map(|c| c.row_bytes() as u64).sum::<u64>() * self.options.batch_size
    }

    fn add_field(&mut self, dataset: &Dataset, field: usize, spec: &FieldSpec) -> Result<()> {
        let name = &spec.name;
        let direct = self.options.on_error != OnError::Replace
            && !dataset.is_empty()
            && dataset.format().knows_byte_lengths(field);
        let bytes = Output::Bytes { field, direct };
        match spec.kind {
            Kind::Image => return self.add_image(field, name, direct),
            Kind::Int => self.add(ColumnSpec::dense(name, DType::I64, &[]), Output::Int { field }),
            Kind::Float => self.add(ColumnSpec::dense(name, DType::F64, &[]), Output::Float { field }),
            Kind::Text => self.add(ColumnSpec::ragged(name, DType::U8, false, Meaning::Text), bytes),
            Kind::Json => self.add(ColumnSpec::ragged(name, DType::U8, false, Meaning::Json), bytes),
            Kind::Bytes => self.add(ColumnSpec::ragged(name, DType::U8, false, Meaning::Bytes), bytes),
            Kind::Array => self.add_array(dataset, field, name)?,
        }
        Ok(())
    }

    fn add_array(&mut self, dataset: &Dataset, field: usize, name: &str) -> Result<()> {
        // Element type is a property of the column; the first sample tells it. Shapes may differ between samples.
        let dtype = first_dtype(dataset, field)?;
        self.add(ColumnSpec::ragged(name, dtype, true, Meaning::Numbers), Output::Array { field });
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
        self.pictures.push(Views { field, outputs: Vec::new() });
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
        let format = self.options.memory_format;
        let image = ImagePlan::new(&name, view, list, self.options.dtype, format)?;
        let dtype = match self.options.dtype {
            ImageDType::Float32 => DType::F32,
            ImageDType::Float16 => DType::F16,
            ImageDType::BFloat16 => DType::BF16,
            ImageDType::UInt8 => DType::U8,
        };
        let column = match image.output() {
            Some(size) => {
                let (height, width) = (u64::from(size.height), u64::from(size.width));
                let shape = match format {
                    MemoryFormat::ChannelsFirst => [3, height, width],
                    MemoryFormat::ChannelsLast => [height, width, 3],
                };
                ColumnSpec::dense(name, dtype, &shape)
            }
            None => ColumnSpec::ragged(name, dtype, true, Meaning::Numbers),
        };
        let plan = self.images.len();
        self.images.push(image);
        let views = self.pictures.last_mut().expect("the field's views were begun just now");
        views.outputs.push((self.columns.len(), plan));
        self.add(column, Output::Image { field });
        Ok(())
    }

    fn add(&mut self, column: ColumnSpec, output: Output) {
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

    /// Batches in flight: those ready ahead and the one being filled, within the memory budget.
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

    /// Batches in flight that the memory budget allows.
    fn affordable_depth(&self) -> usize {
        let Some(budget) = self.options.memory_budget else { return usize::MAX };
        let budget = if self.remote { budget - self.ahead_bytes() } else { budget };
        // Two more batches exist besides those in flight: the one the user has and the one he had before.
        (budget / self.batch_bytes().max(1)).saturating_sub(2) as usize
    }

    /// Batches in flight beyond which `auto_tune` does not go.
    pub(crate) fn most_depth(&self) -> usize {
        self.affordable_depth().min(64)
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
        if all[find("transforms", name)?].kind != Kind::Image {
            return Err(Error::option("transforms", format!("'{name}' is not an image field")));
        }
    }
    let Some(names) = &options.fields else { return Ok((0..all.len()).collect()) };
    names.iter().map(|name| find("fields", name)).collect()
}

fn first_dtype(dataset: &Dataset, field: usize) -> Result<DType> {
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
        Output::Index | Output::Bytes { direct: true, .. } | Output::ImageSize { .. } => None,
        Output::Int { field }
        | Output::Float { field }
        | Output::Bytes { field, .. }
        | Output::Array { field }
        | Output::Image { field } => Some(field),
    }
}

fn threads(options: &LoaderOptions) -> usize {
    if options.num_workers > 0 {
        return options.num_workers;
    }
    usable_cores()
}

/// Cores this process may use; honours CPU affinity and cgroup quotas.
pub(crate) fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Names for people, a digest of all parameters for certainty.
fn transforms_in_words(options: &LoaderOptions) -> String {
    let names = |list: &[Transform]| list.iter().map(Transform::name).collect::<Vec<_>>().join(", ");
    let field = |(name, transforms): (&String, &FieldTransforms)| match transforms {
        FieldTransforms::Single(list) => format!("{name}: {}", names(list)),
        FieldTransforms::Views(views) => format!("{name}: {} views", views.len()),
    };
    let words = options.transforms.iter().map(field).collect::<Vec<_>>().join("; ");
    let exact = serde_json::to_vec(&options.transforms).expect("transforms are plain data");
    // A long list would make the state long; the digest tells it apart all the same.
    let words: String = words.chars().take(200).collect();
    if options.transforms.is_empty() { "none".to_owned() } else { format!("{words} #{}", digest(&exact)) }
}

fn pixels_in_words(options: &LoaderOptions) -> String {
    format!("{:?}, decode {:?}", options.dtype, options.decode).to_lowercase()
}
