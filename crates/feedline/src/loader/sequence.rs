//! Turns the user's sampler and the data set into a sequence of `order`. Labels and image sizes are looked up here, so
//! that `order` does not depend on data.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dataset::Dataset;
use crate::error::{Error, Location, Result, Stage};
use crate::order::{Alias, Balanced, Buckets, Packing, Recipe, Sequence, digest};
use crate::render::StoredImage;
use crate::sample::{FieldSet, ImageMeta, Kind, SampleBuffer, Value};
use crate::source::check_wanted;
use crate::spec::{LoaderOptions, OnError, Sampler, Shuffle};

/// A block should be large enough for a request to a disk or an object store, and two windows of blocks must fit in
/// memory: the current one and the next, which is being fetched. From a loopback S3 server, blocks of half a MiB reach
/// 0.6, of 1 MiB 0.75 and of 4 MiB 0.95 of the speed of 8 MiB.
const BLOCK_BYTES: u64 = 1 << 20;

/// Number of blocks that are shuffled together: 256 MiB of data. On data sorted by class, a batch of 256 then
/// contains two thirds of the classes that a full shuffle gives; with 32 blocks it was a seventh (`docs/order.md`).
const WINDOW: u64 = 256;

/// Largest number of positions in an epoch: a 64-bit float counts it exactly, and it is far from any overflow.
const MOST_POSITIONS: u64 = 1 << 53;

/// Joins several data sets, and returns the sampler that draws from them by weight: pass both to a
/// [`Loader`](crate::Loader). An epoch has `epoch_samples` samples; shares are exact.
pub fn mix(parts: &[(Dataset, f64)], epoch_samples: u64) -> Result<(Dataset, Sampler)> {
    let datasets: Vec<Dataset> = parts.iter().map(|(dataset, _)| dataset.clone()).collect();
    let sampler = Sampler::Mix {
        lengths: datasets.iter().map(Dataset::len).collect(),
        weights: parts.iter().map(|(_, weight)| *weight).collect(),
        num_samples: epoch_samples,
    };
    Ok((Dataset::concat(&datasets)?, sampler))
}

/// The sequence requested by `options`.
pub(super) fn of(dataset: &Dataset, options: &LoaderOptions) -> Result<Sequence> {
    let length = dataset.len();
    let Some(sampler) = &options.sampler else {
        return Ok(match options.shuffle {
            Shuffle::Off => Sequence::Sequential,
            Shuffle::Full => Sequence::Shuffled { count: length },
            Shuffle::Block => blocks(dataset, None, None)?,
        });
    };
    let sequence = match sampler {
        Sampler::Sequential => Sequence::Sequential,
        Sampler::Random { replacement, num_samples } => random(length, *replacement, *num_samples)?,
        Sampler::Block { block, window } => blocks(dataset, *block, *window)?,
        Sampler::Weighted { weights, num_samples, replacement } => {
            weighted(length, weights, *num_samples, *replacement)?
        }
        Sampler::Balanced { field, num_samples } => Sequence::Balanced {
            classes: Arc::new(Balanced::new(&labels(dataset, field)?)),
            count: samples_per_epoch(length, *num_samples)?,
        },
        Sampler::Mix { lengths, weights, num_samples } => {
            mixed(length, lengths.clone(), weights, *num_samples)?
        }
        Sampler::Buckets { field, sizes, shuffle } => {
            let bucket_of = bucket_numbers(dataset, field.as_deref(), sizes, options.on_error)?;
            Sequence::Bucketed(Arc::new(Buckets::new(&bucket_of, *shuffle)))
        }
        Sampler::Packed { .. } => Sequence::Packed(Arc::new(packing(dataset, sampler)?)),
        Sampler::Indices { indices } => Sequence::Listed(indices.clone().into()),
        Sampler::PerEpoch { name, num_samples } => {
            Sequence::PerEpoch { name: name.as_str().into(), count: *num_samples }
        }
    };
    sequence.check(length)?;
    let positions = sequence.positions(length);
    if positions > MOST_POSITIONS {
        return Err(refuse(format!("{positions} samples per epoch are more than {MOST_POSITIONS}")));
    }
    Ok(sequence)
}

/// The same mixture with other weights.
pub(super) fn with_weights(sequence: &Sequence, weights: &[f64]) -> Result<Sequence> {
    let Sequence::Mixed(recipe) = sequence else {
        return Err(refuse("weights can only be changed for a mixture of data sets (fl.mix)"));
    };
    mixed(recipe.lengths.iter().sum(), recipe.lengths.clone(), weights, recipe.count)
}

/// The order as text for a saved state: short, and different for different orders.
pub(super) fn in_words(sequence: &Sequence, exact: &str) -> String {
    match sequence {
        Sequence::Sequential => "sequential".to_owned(),
        Sequence::Shuffled { .. } => "full shuffle".to_owned(),
        Sequence::Blocks { block, window } => format!("blocks of {block} samples, {window} to a window"),
        Sequence::Repeating { .. } => "random with replacement".to_owned(),
        Sequence::Weighted { .. } => format!("weighted with replacement #{exact}"),
        Sequence::WeightedOnce { .. } => format!("weighted without replacement #{exact}"),
        Sequence::Balanced { classes, .. } => format!("balanced over {} classes", classes.classes()),
        Sequence::Mixed(recipe) => format!("mix of {} data sets", recipe.lengths.len()),
        Sequence::Bucketed(buckets) => format!("buckets ({}) #{exact}", buckets.count()),
        Sequence::Packed(_) => format!("packed rows #{exact}"),
        Sequence::Listed(_) => format!("list of indices #{exact}"),
        Sequence::PerEpoch { name, .. } => name.to_string(),
    }
}

/// Differs if samplers differ. Long lists are hashed as they are in memory: this runs once per loader.
pub(super) fn sampler_digest(options: &LoaderOptions) -> String {
    match &options.sampler {
        Some(Sampler::Weighted { weights, num_samples, .. }) => {
            let mut bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.extend(num_samples.unwrap_or(u64::MAX).to_le_bytes());
            digest(&bytes)
        }
        Some(Sampler::Indices { indices }) => {
            digest(&indices.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<u8>>())
        }
        Some(Sampler::Packed { lengths, .. }) => {
            let mut rest = options.sampler.clone();
            if let Some(Sampler::Packed { lengths, .. }) = &mut rest {
                lengths.clear();
            }
            let mut bytes = serde_json::to_vec(&rest).expect("samplers are plain data");
            bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
            digest(&bytes)
        }
        other => digest(&serde_json::to_vec(other).expect("samplers are plain data")),
    }
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::option("sampler", reason)
}

fn samples_per_epoch(length: u64, asked: Option<u64>) -> Result<u64> {
    let count = asked.unwrap_or(length);
    if length == 0 && count > 0 {
        return Err(refuse("the data set is empty"));
    }
    Ok(count)
}

fn random(length: u64, replacement: bool, num_samples: Option<u64>) -> Result<Sequence> {
    let count = samples_per_epoch(length, num_samples)?;
    if replacement {
        return Ok(Sequence::Repeating { count });
    }
    if count > length {
        let reason = format!("{count} samples of {length} need replacement=True");
        return Err(refuse(reason));
    }
    Ok(Sequence::Shuffled { count })
}

fn blocks(dataset: &Dataset, block: Option<u64>, window: Option<u64>) -> Result<Sequence> {
    if block == Some(0) || window == Some(0) {
        return Err(refuse("block and window must be at least 1"));
    }
    let block = block.unwrap_or_else(|| usual_block(dataset));
    Ok(Sequence::Blocks { block, window: window.unwrap_or(WINDOW) })
}

/// The number of samples that make up [`BLOCK_BYTES`], from the lengths of a few.
fn usual_block(dataset: &Dataset) -> u64 {
    let probes = dataset.len().min(32);
    let fields = dataset.schema().fields.len();
    let sample = |n: u64| n * dataset.len() / probes;
    if dataset.format().is_remote() {
        dataset.format().prepare(&(0..probes).map(sample).collect::<Vec<_>>());
    }
    let size = |sample: u64| (0..fields).filter_map(|f| dataset.format().byte_length(sample, f)).sum::<u64>();
    let bytes: u64 = (0..probes).map(|n| size(sample(n))).sum();
    match bytes {
        0 => 64,
        bytes => (BLOCK_BYTES * probes / bytes).clamp(1, 4096),
    }
}

fn weighted(length: u64, weights: &[f64], num_samples: Option<u64>, replacement: bool) -> Result<Sequence> {
    if weights.len() as u64 != length {
        return Err(refuse(format!("{} weights for {length} samples", weights.len())));
    }
    check_weights(weights)?;
    let count = samples_per_epoch(length, num_samples)?;
    if replacement {
        return Ok(Sequence::Weighted { table: Arc::new(Alias::new(weights)), count });
    }
    let positive = weights.iter().filter(|w| **w > 0.0).count() as u64;
    if count > positive {
        let reason =
            format!("{count} samples without replacement, but only {positive} have a weight above 0");
        return Err(refuse(reason));
    }
    Ok(Sequence::WeightedOnce { weights: weights.into(), count })
}

fn check_weights(weights: &[f64]) -> Result<()> {
    if let Some((at, weight)) = weights.iter().enumerate().find(|(_, w)| !w.is_finite() || **w < 0.0) {
        return Err(refuse(format!("weight {at} is {weight}; weights are finite and not negative")));
    }
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 || !sum.is_finite() {
        return Err(refuse("the weights' sum must be positive and finite"));
    }
    Ok(())
}

fn mixed(length: u64, lengths: Vec<u64>, weights: &[f64], count: u64) -> Result<Sequence> {
    if lengths.iter().sum::<u64>() != length {
        return Err(refuse(format!("the mixture's data sets have {lengths:?} samples, this one {length}")));
    }
    if weights.len() != lengths.len() {
        return Err(refuse(format!("{} weights for {} data sets", weights.len(), lengths.len())));
    }
    check_weights(weights)?;
    if let Some(at) = (0..lengths.len()).find(|at| lengths[*at] == 0 && weights[*at] > 0.0) {
        return Err(refuse(format!("data set {at} of the mixture is empty")));
    }
    Ok(Sequence::Mixed(Arc::new(Recipe { lengths, weights: weights.to_vec(), count })))
}

/// Samples with their lengths in tokens.
fn packing(dataset: &Dataset, sampler: &Sampler) -> Result<Packing> {
    let Sampler::Packed { max_tokens, lengths, field, patches, window, drop_long, shuffle } = sampler else {
        unreachable!("asked for packing only")
    };
    if *max_tokens == 0 || *window == 0 {
        return Err(refuse("Packed: max_tokens and window are at least 1"));
    }
    let mut found = match field {
        Some(field) => field_lengths(dataset, field)?,
        None if lengths.len() as u64 == dataset.len() => lengths.clone(),
        None => return Err(refuse(format!("{} lengths for {} samples", lengths.len(), dataset.len()))),
    };
    for (field, side) in patches {
        add_patches(dataset, field, *side, &mut found)?;
    }
    let long = found.iter().position(|length| length > max_tokens);
    if let Some(long) = long.filter(|_| !drop_long) {
        let length = found[long];
        let reason = format!(
            "sample {long} has {length} tokens, a row takes {max_tokens}; drop_long=True leaves such out"
        );
        return Err(refuse(reason));
    }
    let packing = Packing::new(found, *max_tokens, *window, *shuffle);
    if packing.len() == 0 {
        return Err(refuse(format!("no sample fits in a row of {max_tokens} tokens")));
    }
    Ok(packing)
}

/// Lengths that a field says: its own value, or the length of its array.
fn field_lengths(dataset: &Dataset, field: &str) -> Result<Vec<u64>> {
    let schema = dataset.schema();
    let kind = schema.position(field).map(|at| (at, schema.fields[at].kind));
    let at = match kind {
        Some((_, Kind::Int)) => {
            let bad = |at: usize| refuse(format!("sample {at}: a length in '{field}' is negative"));
            let found = labels(dataset, field)?.into_iter().enumerate();
            return found.map(|(at, length)| u64::try_from(length).map_err(|_| bad(at))).collect();
        }
        Some((at, Kind::Array)) => at,
        _ => return Err(refuse(format!("there is no integer or array field '{field}' that says lengths"))),
    };
    let wanted = FieldSet::only(schema.fields.len(), [at]);
    let mut buffer = SampleBuffer::new();
    let mut length = |sample: u64| {
        check_wanted()?;
        if let Some((_, length)) = dataset.format().array_length(sample, at) {
            return Ok(length);
        }
        dataset.read(sample, &wanted, &mut buffer).map_err(|e| e.seen_as(sample))?;
        match buffer.value(at) {
            Value::Array { shape, dimensions: 1.., .. } => Ok(shape[0]),
            _ => Err(Error::sample(locate(dataset, sample), Stage::Read, format!("no '{field}'"))),
        }
    };
    (0..dataset.len()).map(&mut length).collect()
}

/// Adds the patches of an image field: sizes come from the index if it has them, or from every image's header.
fn add_patches(dataset: &Dataset, field: &str, side: u64, lengths: &mut [u64]) -> Result<()> {
    if side == 0 {
        return Err(refuse("Packed: a patch has a side of at least 1"));
    }
    let at = image_field(dataset, Some(field))?;
    let wanted = FieldSet::only(dataset.schema().fields.len(), [at]);
    let mut buffer = SampleBuffer::new();
    for (sample, length) in lengths.iter_mut().enumerate() {
        check_wanted()?;
        let (height, width) = image_size(dataset, sample as u64, at, &wanted, &mut buffer)?;
        let along = |pixels: u32| u64::from(pixels).div_ceil(side);
        *length = length.saturating_add(along(height).saturating_mul(along(width)));
    }
    Ok(())
}

fn labels(dataset: &Dataset, field: &str) -> Result<Vec<i64>> {
    let schema = dataset.schema();
    let known = schema.position(field).filter(|at| schema.fields[*at].kind == Kind::Int);
    let Some(at) = known else {
        return Err(refuse(format!("there is no integer field '{field}' to balance by")));
    };
    if dataset.is_empty() {
        return Err(refuse("the data set is empty"));
    }
    let wanted = FieldSet::only(schema.fields.len(), [at]);
    let mut buffer = SampleBuffer::new();
    let mut label = |sample: u64| {
        check_wanted()?;
        if let Some(known) = dataset.format().int_value(sample, at) {
            return Ok(known);
        }
        dataset.read(sample, &wanted, &mut buffer).map_err(|e| e.seen_as(sample))?;
        match buffer.value(at) {
            Value::Int(value) => Ok(*value),
            _ => Err(Error::sample(locate(dataset, sample), Stage::Read, format!("no '{field}'"))),
        }
    };
    (0..dataset.len()).map(&mut label).collect()
}

/// The bucket of every sample. Sizes come from the index if it has them; otherwise every image's header is read. A
/// sample whose size cannot be read is bad: it raises an error, or it is counted when it is reached, in the bucket with
/// the most samples, which can replace it.
fn bucket_numbers(
    dataset: &Dataset,
    field: Option<&str>,
    sizes: &[(u32, u32)],
    on_error: OnError,
) -> Result<Vec<u64>> {
    if sizes.iter().any(|(height, width)| *height == 0 || *width == 0) {
        return Err(refuse("heights and widths of buckets must be at least 1"));
    }
    let field = image_field(dataset, field)?;
    let wanted = FieldSet::only(dataset.schema().fields.len(), [field]);
    let mut buffer = SampleBuffer::new();
    let mut shapes: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut bucket = |sample: u64| -> Result<Option<u64>> {
        check_wanted()?;
        let (height, width) = match image_size(dataset, sample, field, &wanted, &mut buffer) {
            Err(Error::Sample { .. } | Error::Data { .. }) if on_error != OnError::Raise => return Ok(None),
            known => known?,
        };
        if sizes.is_empty() {
            let next = shapes.len() as u64;
            return Ok(Some(*shapes.entry((height, width)).or_insert(next)));
        }
        Ok(Some(crate::transform::nearest_ratio(height, width, sizes) as u64))
    };
    let found = (0..dataset.len()).map(&mut bucket).collect::<Result<Vec<Option<u64>>>>()?;
    let fullest = fullest(&found);
    Ok(found.into_iter().map(|bucket| bucket.unwrap_or(fullest)).collect())
}

/// The bucket with the most samples; the first of several.
fn fullest(buckets: &[Option<u64>]) -> u64 {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    buckets.iter().flatten().for_each(|bucket| *counts.entry(*bucket).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(bucket, count)| (*count, std::cmp::Reverse(*bucket)));
    most.map_or(0, |(bucket, _)| bucket)
}

fn image_field(dataset: &Dataset, name: Option<&str>) -> Result<usize> {
    let fields = &dataset.schema().fields;
    let fits = |at: &usize| fields[*at].kind == Kind::Image && name.is_none_or(|n| n == fields[*at].name);
    let fitting: Vec<usize> = (0..fields.len()).filter(fits).collect();
    match (fitting[..].as_ref(), name) {
        ([only], _) => Ok(*only),
        (_, Some(name)) => Err(refuse(format!("there is no image field '{name}' to group by"))),
        ([], None) => Err(refuse("there is no image field to group by")),
        (_, None) => Err(refuse("there are several image fields; set field=")),
    }
}

fn image_size(
    dataset: &Dataset,
    sample: u64,
    field: usize,
    wanted: &FieldSet,
    buffer: &mut SampleBuffer,
) -> Result<(u32, u32)> {
    let known = dataset.format().image_meta(sample, field).and_then(|meta| meta.oriented_size());
    if let Some(size) = known {
        return Ok(size);
    }
    dataset.read(sample, wanted, buffer).map_err(|e| e.seen_as(sample))?;
    let bad = |reason: String| Error::sample(locate(dataset, sample), Stage::Decode, reason);
    let (bytes, index, meta) = match buffer.value(field) {
        Value::Image { bytes, index, meta } => (buffer.bytes(bytes), buffer.bytes(index), *meta),
        Value::Bytes(bytes) => (buffer.bytes(bytes), &[][..], ImageMeta::UNKNOWN),
        _ => return Err(bad("the sample has no image".to_owned())),
    };
    let opened = StoredImage { bytes, index, meta }.open().map_err(|e| bad(e.to_string()))?;
    let size = opened.upright_size();
    Ok((size.height, size.width))
}

/// Location of a sample, with its number in the data set.
fn locate(dataset: &Dataset, sample: u64) -> Location {
    dataset.format().locate(sample).seen_as(sample)
}
