//! Columns of targets.

use std::collections::BTreeMap;

use super::numbers::numbers;
use super::{TargetKind, TargetPlan};
use crate::batch::ColumnSpec;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::field::{FieldSpec, Kind, Meaning};
use crate::loader::plan::{Output, Plan, first_dtype};
use crate::sample::{DType, FieldSet, SampleBuffer, Value};
use crate::spec::{DecodeMode, FieldTransforms, LoaderOptions};
use crate::transform::{Role, Target, refusal};

fn refuse(field: &str, reason: impl std::fmt::Display) -> Error {
    Error::option("targets", format!("{field}: {reason}"))
}

/// Fields that are part of targets: they have no columns of their own.
pub(crate) fn following(all: &[FieldSpec], wanted: &[usize], options: &LoaderOptions) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    let mut add = |name: &str, by: &str| {
        let Some(at) = wanted.iter().find(|at| all[**at].name == *name) else {
            let known: Vec<&str> = wanted.iter().map(|at| all[*at].name.as_str()).collect();
            return Err(refuse(
                by,
                format!("there is no field '{name}' here; there are: {}", known.join(", ")),
            ));
        };
        if !found.contains(at) {
            found.push(*at);
        }
        Ok(())
    };
    for (name, target) in &options.targets {
        target.role.check().map_err(|reason| refuse(name, reason))?;
        add(name, name)?;
        if let Role::Boxes(boxes) = &target.role {
            boxes.labels.iter().try_for_each(|label| add(label, name))?;
        }
        if options.transforms.contains_key(name) {
            return Err(refuse(name, "it has transforms of its own; a target follows those of its image"));
        }
    }
    if options.decode == DecodeMode::None && !options.targets.is_empty() {
        return Err(Error::option("targets", "images are not decoded (decode='none'), so nothing moves"));
    }
    Ok(found)
}

impl Plan {
    /// Adds the columns of all targets; the images are already there.
    pub(crate) fn add_targets(&mut self, dataset: &Dataset) -> Result<()> {
        let targets = self.options.targets.clone();
        // Boxes first: other targets drop what belongs to dropped boxes.
        let mut ordered: Vec<_> = targets.iter().collect();
        ordered.sort_by_key(|(_, target)| !matches!(target.role, Role::Boxes(_)));
        for (name, target) in ordered {
            let image = self.image_of(dataset, name, target.of.as_deref())?;
            let boxes = boxes_of(&targets, name)?;
            for view in 0..self.image_fields[image].outputs.len() {
                let follows = boxes.and_then(|boxes| {
                    let column = self.view_name(dataset, image, view, boxes);
                    self.columns.iter().position(|spec| spec.name == column)
                });
                let own = self.columns.len();
                self.add_target(dataset, image, view, name, &target.role, follows)?;
                if let Role::Boxes(rules) = &target.role {
                    for label in rules.labels.iter().filter(|label| !targets.contains_key(*label)) {
                        boxes_of(&targets, label)?;
                        self.add_label(dataset, image, view, label, own)?;
                    }
                }
            }
        }
        self.check_boxes_known(dataset)
    }

    /// Refuses transforms that look at boxes where there are none.
    fn check_boxes_known(&self, dataset: &Dataset) -> Result<()> {
        for views in &self.image_fields {
            let needed = views.outputs.iter().any(|(_, plan)| self.images[*plan].needs_boxes());
            if needed && !views.targets.iter().any(|target| matches!(target.kind, TargetKind::Boxes(_))) {
                let name = &dataset.schema().fields[views.field].name;
                let reason = format!(
                    "{name}: RandomIoUCrop needs the sample's boxes: targets={{\"boxes\": T.Boxes()}}"
                );
                return Err(Error::option("transforms", reason));
            }
        }
        Ok(())
    }

    /// The image that a target moves with.
    fn image_of(&self, dataset: &Dataset, name: &str, of: Option<&str>) -> Result<usize> {
        let fields = &dataset.schema().fields;
        let names: Vec<&str> =
            self.image_fields.iter().map(|views| fields[views.field].name.as_str()).collect();
        let found = match of {
            Some(of) => names.iter().position(|image| *image == of),
            None if names.len() == 1 => Some(0),
            None => None,
        };
        let Some(image) = found else {
            return Err(refuse(
                name,
                format!("set of= to the image it moves with; there are: {}", names.join(", ")),
            ));
        };
        for (_, plan) in &self.image_fields[image].outputs {
            let lists = self.options.transforms.get(names[image]).map_or(Vec::new(), FieldTransforms::lists);
            let refused = lists.iter().find_map(|list| refusal(list, self.images[*plan].copies()));
            refused.map_or(Ok(()), |reason| Err(refuse(name, reason)))?;
        }
        Ok(image)
    }

    /// Adds a column with the drawn parameters for every view.
    pub(crate) fn add_params(&mut self, dataset: &Dataset) -> Result<()> {
        if !self.options.return_params {
            return Ok(());
        }
        for image in 0..self.image_fields.len() {
            let field = self.image_fields[image].field;
            for view in 0..self.image_fields[image].outputs.len() {
                if self.images[self.image_fields[image].outputs[view].1].copies() > 1 {
                    let reason = "several crops of one image have no single list of parameters";
                    return Err(Error::option("return_params", reason));
                }
                let name = format!("{}.params", dataset.schema().fields[field].name);
                let name = self.view_name(dataset, image, view, &name);
                self.image_fields[image].params.push(self.columns.len());
                self.add(ColumnSpec::ragged(name, DType::U8, false, Meaning::Json), Output::Target { field });
            }
        }
        Ok(())
    }

    /// Name of a column for a view of an image.
    fn view_name(&self, dataset: &Dataset, image: usize, view: usize, name: &str) -> String {
        let views = &self.image_fields[image];
        let image = &dataset.schema().fields[views.field].name;
        let column = &self.columns[views.outputs[view].0].name;
        match column.strip_prefix(image.as_str()).and_then(|rest| rest.strip_prefix('.')) {
            Some(view) => format!("{name}.{view}"),
            None => name.to_owned(),
        }
    }

    fn add_target(
        &mut self,
        dataset: &Dataset,
        image: usize,
        view: usize,
        name: &str,
        role: &Role,
        follows: Option<usize>,
    ) -> Result<()> {
        let field = position(dataset, name);
        let column = self.view_name(dataset, image, view, name);
        let numbers = |column: String| ColumnSpec::ragged(column, DType::F32, true, Meaning::Numbers);
        let kind = dataset.schema().fields[field].kind;
        let (spec, kind) = match role {
            Role::Mask { fill, dtype } => {
                let stack = match kind {
                    Kind::Image => false,
                    Kind::Array => first_dimensions(dataset, field)? == 3,
                    Kind::Json => true,
                    _ => return Err(refuse(name, "a mask is an image, an array or a list of outlines")),
                };
                let size = self.images[self.image_fields[image].outputs[view].1].output();
                let spec = match size {
                    Some(size) if !stack => {
                        ColumnSpec::dense(column, *dtype, &[u64::from(size.height), u64::from(size.width)])
                    }
                    _ => ColumnSpec::ragged(column, *dtype, true, Meaning::Numbers),
                };
                (spec, TargetKind::Mask { fill: *fill, dtype: *dtype, stack })
            }
            Role::Boxes(boxes) => (numbers(column), TargetKind::Boxes(boxes.clone())),
            Role::Keypoints {} => (numbers(column), TargetKind::Keypoints),
        };
        if !matches!(kind, TargetKind::Mask { .. }) {
            check_numbers(dataset, field, name)?;
        }
        self.push_target(image, spec, TargetPlan { field, view, column: self.columns.len(), kind, follows });
        Ok(())
    }

    fn add_label(
        &mut self,
        dataset: &Dataset,
        image: usize,
        view: usize,
        name: &str,
        boxes: usize,
    ) -> Result<()> {
        let field = position(dataset, name);
        check_numbers(dataset, field, name)?;
        let dtype = match dataset.schema().fields[field].kind {
            Kind::Array => first_dtype(dataset, field)?,
            _ => first_json_dtype(dataset, field)?,
        };
        let spec =
            ColumnSpec::ragged(self.view_name(dataset, image, view, name), dtype, true, Meaning::Numbers);
        let (column, kind) = (self.columns.len(), TargetKind::PerBox(dtype));
        self.push_target(image, spec, TargetPlan { field, view, column, kind, follows: Some(boxes) });
        Ok(())
    }

    fn push_target(&mut self, image: usize, spec: ColumnSpec, target: TargetPlan) {
        let field = target.field;
        self.image_fields[image].targets.push(target);
        self.add(spec, Output::Target { field });
    }
}

/// The boxes that name this field as a value of each.
fn boxes_of<'a>(targets: &'a BTreeMap<String, Target>, field: &str) -> Result<Option<&'a str>> {
    let names =
        |target: &Target| matches!(&target.role, Role::Boxes(b) if b.labels.iter().any(|l| l == field));
    let mut found = targets.iter().filter(|(_, target)| names(target)).map(|(name, _)| name.as_str());
    let (first, second) = (found.next(), found.next());
    match second {
        None => Ok(first),
        Some(second) => {
            let first = first.unwrap_or_default();
            Err(refuse(field, format!("both {first} and {second} name it in their labels")))
        }
    }
}

fn position(dataset: &Dataset, name: &str) -> usize {
    dataset.schema().position(name).expect("the names were looked up when the fields were chosen")
}

fn check_numbers(dataset: &Dataset, field: usize, name: &str) -> Result<()> {
    match dataset.schema().fields[field].kind {
        Kind::Array | Kind::Json => Ok(()),
        Kind::Int | Kind::Float => Err(refuse(name, "it has one number per sample, not one per box")),
        _ => Err(refuse(name, "it is neither an array nor a JSON list")),
    }
}

fn first_value<T>(
    dataset: &Dataset,
    field: usize,
    look: impl Fn(&SampleBuffer) -> Option<T>,
) -> Result<Option<T>> {
    let mut buffer = SampleBuffer::new();
    let only = FieldSet::only(dataset.schema().fields.len(), [field]);
    for sample in 0..dataset.len().min(100) {
        dataset.read(sample, &only, &mut buffer)?;
        if let Some(found) = look(&buffer) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn first_dimensions(dataset: &Dataset, field: usize) -> Result<u8> {
    let found = first_value(dataset, field, |buffer| match buffer.value(field) {
        Value::Array { dimensions, shape, .. } if *dimensions == 3 && shape[2] == 1 && shape[0] > 1 => {
            Some(2)
        }
        Value::Array { dimensions, .. } => Some(*dimensions),
        _ => None,
    })?;
    Ok(found.unwrap_or(2))
}

fn first_json_dtype(dataset: &Dataset, field: usize) -> Result<DType> {
    let found = first_value(dataset, field, |buffer| {
        let numbers = numbers(buffer, field).ok()?;
        let whole = numbers.values.iter().all(|value| value.fract() == 0.0);
        (!numbers.values.is_empty()).then_some(if whole { DType::I64 } else { DType::F32 })
    })?;
    Ok(found.unwrap_or(DType::I64))
}
