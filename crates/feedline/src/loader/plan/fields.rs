//! Which fields are loaded, and what is known of them before the first batch.

use super::Output;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::loader::audio;
use crate::loader::video;
use crate::loader::windows;
use crate::sample::{DType, FieldSet, FieldSpec, Kind, SampleBuffer, Value};
use crate::spec::{FieldTransforms, LoaderOptions};
use crate::transform::Transform;

pub(super) fn wanted_fields(all: &[FieldSpec], options: &LoaderOptions) -> Result<Vec<usize>> {
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

pub(crate) fn first_dtype(dataset: &Dataset, field: usize) -> Result<DType> {
    let mut buffer = SampleBuffer::new();
    if !dataset.is_empty() {
        dataset.read(0, &FieldSet::only(dataset.schema().fields.len(), [field]), &mut buffer)?;
        if let Value::Array { dtype, .. } = buffer.value(field) {
            return Ok(*dtype);
        }
    }
    Ok(DType::F32)
}

pub(super) fn buffered_field(output: Output) -> Option<usize> {
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
