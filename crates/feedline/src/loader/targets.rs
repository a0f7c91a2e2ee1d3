//! Fields that move with an image: their columns, and how each row is filled.

use std::collections::BTreeMap;

use feedline_pixels::{ImageRef, PixelLayout, PolygonFiller, Size, fit};

use super::plan::{Output, Plan, Views, first_dtype};
use super::workers::{EpochRun, decode_error, missing};
use crate::batch::{ColumnSpec, Layout, Room, RowMut, Shape};
use crate::dataset::Dataset;
use crate::error::{Error, Result, Stage};
use crate::field::{FieldSpec, ImageEncoding, Kind, Meaning};
use crate::render::{LabelRunner, Labels, Outline, array_numbers, label_type, plane, read_outlines};
use crate::sample::{DType, FieldSet, SampleBuffer, Value};
use crate::spec::{DecodeMode, FieldTransforms, LoaderOptions};
use crate::transform::{Boxes, Mover, Program, Role, Target, read_boxes, refusal, write_box};

/// One target of one view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetPlan {
    pub(super) field: usize,
    /// Index of the image's view.
    pub(super) view: usize,
    pub(super) column: usize,
    pub(super) kind: TargetKind,
    /// The column of the boxes that it has one value for each of: it drops those of dropped boxes.
    pub(super) follows: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TargetKind {
    Mask {
        fill: i64,
        dtype: DType,
        stack: bool,
    },
    Boxes(Boxes),
    Keypoints,
    /// A value per box that does not move.
    PerBox(DType),
}

fn refuse(field: &str, reason: impl std::fmt::Display) -> Error {
    Error::option("targets", format!("{field}: {reason}"))
}

/// Fields that are part of targets: they have no columns of their own.
pub(super) fn following(all: &[FieldSpec], wanted: &[usize], options: &LoaderOptions) -> Result<Vec<usize>> {
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
    pub(super) fn add_targets(&mut self, dataset: &Dataset) -> Result<()> {
        let targets = self.options.targets.clone();
        // Boxes first: other targets drop what belongs to dropped boxes.
        let mut ordered: Vec<_> = targets.iter().collect();
        ordered.sort_by_key(|(_, target)| !matches!(target.role, Role::Boxes(_)));
        for (name, target) in ordered {
            let picture = self.picture_of(dataset, name, target.of.as_deref())?;
            let boxes = boxes_of(&targets, name)?;
            for view in 0..self.pictures[picture].outputs.len() {
                let follows = boxes.and_then(|boxes| {
                    let column = self.view_name(dataset, picture, view, boxes);
                    self.columns.iter().position(|spec| spec.name == column)
                });
                let own = self.columns.len();
                self.add_target(dataset, picture, view, name, &target.role, follows)?;
                if let Role::Boxes(rules) = &target.role {
                    for label in rules.labels.iter().filter(|label| !targets.contains_key(*label)) {
                        boxes_of(&targets, label)?;
                        self.add_label(dataset, picture, view, label, own)?;
                    }
                }
            }
        }
        self.check_boxes_known(dataset)
    }

    /// Refuses transforms that look at boxes where there are none.
    fn check_boxes_known(&self, dataset: &Dataset) -> Result<()> {
        for views in &self.pictures {
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
    fn picture_of(&self, dataset: &Dataset, name: &str, of: Option<&str>) -> Result<usize> {
        let fields = &dataset.schema().fields;
        let names: Vec<&str> = self.pictures.iter().map(|views| fields[views.field].name.as_str()).collect();
        let found = match of {
            Some(of) => names.iter().position(|image| *image == of),
            None if names.len() == 1 => Some(0),
            None => None,
        };
        let Some(picture) = found else {
            return Err(refuse(
                name,
                format!("set of= to the image it moves with; there are: {}", names.join(", ")),
            ));
        };
        for (_, plan) in &self.pictures[picture].outputs {
            let lists =
                self.options.transforms.get(names[picture]).map_or(Vec::new(), FieldTransforms::lists);
            let refused = lists.iter().find_map(|list| refusal(list, self.images[*plan].copies()));
            refused.map_or(Ok(()), |reason| Err(refuse(name, reason)))?;
        }
        Ok(picture)
    }

    /// Adds a column with the drawn parameters for every view.
    pub(super) fn add_params(&mut self, dataset: &Dataset) -> Result<()> {
        if !self.options.return_params {
            return Ok(());
        }
        for picture in 0..self.pictures.len() {
            let field = self.pictures[picture].field;
            for view in 0..self.pictures[picture].outputs.len() {
                if self.images[self.pictures[picture].outputs[view].1].copies() > 1 {
                    let reason = "several crops of one image have no single list of parameters";
                    return Err(Error::option("return_params", reason));
                }
                let name = format!("{}.params", dataset.schema().fields[field].name);
                let name = self.view_name(dataset, picture, view, &name);
                self.pictures[picture].params.push(self.columns.len());
                self.add(ColumnSpec::ragged(name, DType::U8, false, Meaning::Json), Output::Target { field });
            }
        }
        Ok(())
    }

    /// Name of a column for a view of an image.
    fn view_name(&self, dataset: &Dataset, picture: usize, view: usize, name: &str) -> String {
        let views = &self.pictures[picture];
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
        picture: usize,
        view: usize,
        name: &str,
        role: &Role,
        follows: Option<usize>,
    ) -> Result<()> {
        let field = position(dataset, name);
        let column = self.view_name(dataset, picture, view, name);
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
                let size = self.images[self.pictures[picture].outputs[view].1].output();
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
        self.push_target(
            picture,
            spec,
            TargetPlan { field, view, column: self.columns.len(), kind, follows },
        );
        Ok(())
    }

    fn add_label(
        &mut self,
        dataset: &Dataset,
        picture: usize,
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
            ColumnSpec::ragged(self.view_name(dataset, picture, view, name), dtype, true, Meaning::Numbers);
        let (column, kind) = (self.columns.len(), TargetKind::PerBox(dtype));
        self.push_target(picture, spec, TargetPlan { field, view, column, kind, follows: Some(boxes) });
        Ok(())
    }

    fn push_target(&mut self, picture: usize, spec: ColumnSpec, target: TargetPlan) {
        let field = target.field;
        self.pictures[picture].targets.push(target);
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

/// An array's numbers, converted from any type, with their shape.
#[derive(Debug, Default)]
struct Numbers {
    shape: Vec<u64>,
    values: Vec<f64>,
}

impl Numbers {
    /// Number of values per row.
    fn width(&self) -> usize {
        self.shape.get(1..).unwrap_or(&[]).iter().product::<u64>() as usize
    }

    /// Number of rows.
    fn rows(&self) -> usize {
        if self.values.is_empty() { 0 } else { self.shape[0] as usize }
    }
}

fn numbers(buffer: &SampleBuffer, field: usize) -> Result<Numbers, String> {
    match buffer.value(field) {
        Value::Array { dtype, dimensions, shape, bytes } => {
            let values = array_numbers(*dtype, buffer.bytes(bytes))?;
            Ok(Numbers { shape: shape[..*dimensions as usize].to_vec(), values })
        }
        Value::Bytes(bytes) => {
            let json = serde_json::from_slice(buffer.bytes(bytes)).map_err(|e| format!("not JSON: {e}"))?;
            let mut found = Numbers::default();
            flatten(&json, 0, &mut found)?;
            Ok(found)
        }
        _ => Ok(Numbers::default()),
    }
}

fn flatten(json: &serde_json::Value, depth: usize, into: &mut Numbers) -> Result<(), String> {
    match json {
        serde_json::Value::Array(list) => {
            if into.shape.len() == depth {
                into.shape.push(list.len() as u64);
            }
            if into.shape[depth] != list.len() as u64 {
                return Err("lists of different lengths where one shape is needed".to_owned());
            }
            list.iter().try_for_each(|each| flatten(each, depth + 1, into))
        }
        serde_json::Value::Number(number) if depth == into.shape.len() => {
            into.values.push(number.as_f64().unwrap_or(f64::NAN));
            Ok(())
        }
        other => Err(format!("{other} where a number was expected")),
    }
}

/// Fills the rows of targets; keeps scratch memory.
#[derive(Debug)]
pub(super) struct TargetRunner {
    labels: LabelRunner,
    mover: Mover,
    /// For every column of boxes: the indices of those that remain of the sample's, and the number there was.
    kept: BTreeMap<usize, (Vec<usize>, usize)>,
    plane: Vec<u8>,
    /// A mask file with the wanted page as its first.
    paged: Vec<u8>,
    polygons: PolygonFiller,
}

impl TargetRunner {
    pub(super) fn new(max_pixels: u64) -> Self {
        TargetRunner {
            labels: LabelRunner::new(max_pixels),
            mover: Mover::default(),
            kept: BTreeMap::new(),
            plane: Vec::new(),
            paged: Vec::new(),
            polygons: PolygonFiller::default(),
        }
    }

    /// Writes one target of a sample, whose image has this size, into its row.
    pub(super) fn put(
        &mut self,
        run: &EpochRun,
        (sample, image): (u64, Size),
        buffer: &SampleBuffer,
        program: &Program,
        target: &TargetPlan,
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        if *buffer.value(target.field) == Value::Missing {
            return Err(missing(run, sample, target.field));
        }
        self.labels.set_upright(run.plan.options.exif_transpose);
        let name = &run.dataset.schema().fields[target.field].name;
        let bad =
            |reason: String| Error::sample(run.locate(sample).with_field(name), Stage::Transform, reason);
        match &target.kind {
            TargetKind::Mask { fill, dtype, stack: true } => {
                let made = self.stack(buffer, image, program, target, (*fill, *dtype)).map_err(bad)?;
                put_ragged(run, row, target.column, &made.1, &made.0)
            }
            TargetKind::Mask { fill, dtype, stack: false } => {
                self.mask(run, (sample, image), buffer, program, target, (*fill, *dtype), row)
            }
            TargetKind::Boxes(rules) => {
                let boxes = self.boxes(buffer, image, program, target, rules).map_err(bad)?;
                let count = boxes.len() as u64 / 4;
                put_floats(run, row, target.column, &[count, 4], &boxes)
            }
            TargetKind::Keypoints => {
                let (shape, values) = self.keypoints(buffer, image, program, target).map_err(bad)?;
                put_floats(run, row, target.column, &shape, &values)
            }
            TargetKind::PerBox(dtype) => {
                let (shape, bytes) = self.per_box(buffer, target, *dtype).map_err(bad)?;
                put_ragged(run, row, target.column, &shape, &bytes)
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, of everything a row is made from")]
    fn mask(
        &mut self,
        run: &EpochRun,
        (sample, image): (u64, Size),
        buffer: &SampleBuffer,
        program: &Program,
        target: &TargetPlan,
        (fill, dtype): (i64, DType),
        row: &mut RowMut<'_>,
    ) -> Result<()> {
        let bad = |error: feedline_pixels::Error| decode_error(run, sample, target.field, &error);
        let reason = |reason: String| bad(feedline_pixels::Error::Misuse(reason));
        let TargetRunner { labels, plane, paged, .. } = self;
        let found = plane_of(buffer, target.field, plane).map_err(reason)?;
        let found = found.page(run.plan.options.page as usize, paged).map_err(bad)?;
        let (output, kind) = (program.output, label_type(dtype));
        if matches!(run.plan.columns[target.column].layout, Layout::Dense { .. }) {
            return labels.run(found, image, program, (fill, kind), row.dense(target.column)).map_err(bad);
        }
        let length = output.area() as usize * kind.bytes();
        run.book(row, length);
        let (room, shape) = row.ragged(target.column);
        let Room::Free(room) = room else { unreachable!("sizes of masks are not planned") };
        fit(room, length, 0).map_err(bad)?;
        *shape = Shape::new(&[u64::from(output.height), u64::from(output.width)]);
        labels.run(found, image, program, (fill, kind), room).map_err(bad)
    }

    /// Transforms one plane per remaining box.
    fn stack(
        &mut self,
        buffer: &SampleBuffer,
        image: Size,
        program: &Program,
        target: &TargetPlan,
        (fill, dtype): (i64, DType),
    ) -> Result<(Vec<u8>, Vec<u64>), String> {
        let stack = Stack::of(buffer, target.field)?;
        let chosen = self.chosen(target, stack.count())?;
        let kind = label_type(dtype);
        let length = program.output.area() as usize * kind.bytes();
        let mut out = Vec::new();
        fit(&mut out, length.saturating_mul(chosen.len()), 0).map_err(|e| e.to_string())?;
        for (number, out) in chosen.iter().zip(out.chunks_exact_mut(length.max(1))) {
            let found = stack.plane(*number, image, &mut self.polygons, &mut self.plane)?;
            self.labels.run(found, image, program, (fill, kind), out).map_err(|e| e.to_string())?;
        }
        let Size { width, height } = program.output;
        Ok((out, vec![chosen.len() as u64, u64::from(height), u64::from(width)]))
    }

    /// Indices of the values that are kept out of `count`.
    fn chosen(&self, target: &TargetPlan, count: usize) -> Result<Vec<usize>, String> {
        let Some(boxes) = target.follows else { return Ok((0..count).collect()) };
        let (kept, boxes) = self.kept.get(&boxes).ok_or("its boxes were not read before it")?;
        if *boxes != count {
            return Err(format!("{count} values for {boxes} boxes"));
        }
        Ok(kept.clone())
    }

    /// The sample's boxes (left, top, right, bottom in pixels) before anything is done to them.
    pub(super) fn given_boxes(
        run: &EpochRun,
        (sample, image): (u64, Size),
        buffer: &SampleBuffer,
        views: &Views,
    ) -> Result<Option<Vec<[f64; 4]>>> {
        for target in &views.targets {
            if let TargetKind::Boxes(rules) = &target.kind {
                let name = &run.dataset.schema().fields[target.field].name;
                let bad = |reason: String| {
                    Error::sample(run.locate(sample).with_field(name), Stage::Transform, reason)
                };
                return read_all(buffer, target.field, rules, image).map(Some).map_err(bad);
            }
        }
        Ok(None)
    }

    fn boxes(
        &mut self,
        buffer: &SampleBuffer,
        image: Size,
        program: &Program,
        target: &TargetPlan,
        rules: &Boxes,
    ) -> Result<Vec<f32>, String> {
        let given = read_all(buffer, target.field, rules, image)?;
        let kept = self.mover.boxes(program, image, rules, &given).map_err(|e| e.to_string())?;
        self.kept.insert(target.column, (kept.iter().map(|kept| kept.number).collect(), given.len()));
        let written = kept.iter().flat_map(|kept| write_box(rules, kept.corners, program.output));
        Ok(written.map(|value| value as f32).collect())
    }

    /// Points are in pixels: (0, 0) is the centre of the first one.
    fn keypoints(
        &mut self,
        buffer: &SampleBuffer,
        image: Size,
        program: &Program,
        target: &TargetPlan,
    ) -> Result<(Vec<u64>, Vec<f32>), String> {
        let mut found = numbers(buffer, target.field)?;
        let each = found.shape.last().copied().unwrap_or(0) as usize;
        if found.values.is_empty() {
            return Ok((vec![0, if each == 3 { 3 } else { 2 }], Vec::new()));
        }
        if !matches!(each, 2 | 3) || found.shape.len() < 2 {
            return Err(format!("keypoints have shape [n, 2] or [n, 3], not {:?}", found.shape));
        }
        let chosen = self.chosen(target, found.rows())?;
        let width = found.width();
        let mut values: Vec<f64> =
            chosen.iter().flat_map(|row| &found.values[row * width..(row + 1) * width]).copied().collect();
        self.mover.keypoints(program, image, each, &mut values).map_err(|e| e.to_string())?;
        found.shape[0] = chosen.len() as u64;
        Ok((found.shape, values.into_iter().map(|value| value as f32).collect()))
    }

    fn per_box(
        &self,
        buffer: &SampleBuffer,
        target: &TargetPlan,
        dtype: DType,
    ) -> Result<(Vec<u64>, Vec<u8>), String> {
        let (mut shape, bytes): (Vec<u64>, Vec<u8>) = match buffer.value(target.field) {
            Value::Array { dtype: stored, .. } if *stored != dtype => {
                return Err(format!("array of {}, but the column is {}", stored.name(), dtype.name()));
            }
            Value::Array { dimensions, shape, bytes, .. } => {
                (shape[..*dimensions as usize].to_vec(), buffer.bytes(bytes).to_vec())
            }
            _ => {
                let found = numbers(buffer, target.field)?;
                let bytes = if dtype == DType::I64 {
                    found.values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect()
                } else {
                    found.values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect()
                };
                (found.shape, bytes)
            }
        };
        let count = shape.first().copied().unwrap_or(0) as usize;
        let chosen = self.chosen(target, count)?;
        let each = bytes.len().checked_div(count).unwrap_or(0);
        if shape.is_empty() {
            shape.push(0);
        }
        shape[0] = chosen.len() as u64;
        Ok((shape, chosen.iter().flat_map(|row| &bytes[row * each..(row + 1) * each]).copied().collect()))
    }
}

/// A sample's boxes as corners, in pixels.
fn read_all(
    buffer: &SampleBuffer,
    field: usize,
    rules: &Boxes,
    image: Size,
) -> Result<Vec<[f64; 4]>, String> {
    let found = numbers(buffer, field)?;
    if found.rows() > 0 && (found.shape.len() != 2 || found.width() != 4) {
        return Err(format!("boxes have shape [n, 4], not {:?}", found.shape));
    }
    Ok(found.values.as_chunks::<4>().0.iter().map(|four| read_boxes(rules, *four, image)).collect())
}

/// One mask per object: planes of an array, or outlines.
enum Stack<'a> {
    Planes { dtype: DType, shape: [u64; 3], bytes: &'a [u8] },
    Outlines(Vec<Outline>),
}

impl<'a> Stack<'a> {
    fn of(buffer: &'a SampleBuffer, field: usize) -> Result<Self, String> {
        match buffer.value(field) {
            Value::Array { dtype, dimensions: 3, shape, bytes } => {
                let shape = [shape[0], shape[1], shape[2]];
                Ok(Stack::Planes { dtype: *dtype, shape, bytes: buffer.bytes(bytes) })
            }
            Value::Bytes(bytes) => read_outlines(buffer.bytes(bytes)).map(Stack::Outlines),
            _ => Err("a stack of masks has three dimensions: masks, rows, columns".to_owned()),
        }
    }

    fn count(&self) -> usize {
        match self {
            Stack::Planes { shape, .. } => shape[0] as usize,
            Stack::Outlines(outlines) => outlines.len(),
        }
    }

    fn plane<'b>(
        &'b self,
        number: usize,
        image: Size,
        polygons: &mut PolygonFiller,
        scratch: &'b mut Vec<u8>,
    ) -> Result<Labels<'b>, String> {
        match self {
            Stack::Planes { dtype, shape: [_, rows, columns], bytes } => {
                let each = (rows * columns) as usize * dtype.size();
                plane(*dtype, &bytes[number * each..(number + 1) * each], (*rows, *columns), scratch)
            }
            Stack::Outlines(outlines) => {
                outlines[number].draw(polygons, image, scratch)?;
                let drawn = ImageRef::new(scratch, image, image.width as usize, PixelLayout::Grey8);
                drawn.map(Labels::Plane).map_err(|error| error.to_string())
            }
        }
    }
}

/// A mask's numbers, or its file.
fn plane_of<'a>(
    buffer: &'a SampleBuffer,
    field: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<Labels<'a>, String> {
    match buffer.value(field) {
        Value::Image { bytes, meta, .. } => match meta.encoding {
            ImageEncoding::File | ImageEncoding::Jpeg => Ok(Labels::File(buffer.bytes(bytes))),
            other => {
                Err(format!("stored as {}, which holds colours; pack masks with image='as-is'", other.name()))
            }
        },
        Value::Bytes(bytes) => Ok(Labels::File(buffer.bytes(bytes))),
        Value::Array { dtype, dimensions, shape, bytes } => {
            let shape = &shape[..*dimensions as usize];
            let &([rows, columns] | [rows, columns, 1] | [1, rows, columns]) = shape else {
                return Err(format!("a mask has shape [rows, columns], not {shape:?}"));
            };
            plane(*dtype, buffer.bytes(bytes), (rows, columns), scratch)
        }
        _ => Err("neither an image nor an array".to_owned()),
    }
}

/// Writes the drawn parameters into their row.
pub(super) fn put_params(run: &EpochRun, row: &mut RowMut<'_>, column: usize, params: &str) -> Result<()> {
    put_ragged(run, row, column, &[params.len() as u64], params.as_bytes())
}

fn put_floats(
    run: &EpochRun,
    row: &mut RowMut<'_>,
    column: usize,
    shape: &[u64],
    values: &[f32],
) -> Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    put_ragged(run, row, column, shape, &bytes)
}

fn put_ragged(
    run: &EpochRun,
    row: &mut RowMut<'_>,
    column: usize,
    shape: &[u64],
    bytes: &[u8],
) -> Result<()> {
    run.book(row, bytes.len());
    let (room, noted) = row.ragged(column);
    let Room::Free(room) = room else { unreachable!("sizes of targets are not planned") };
    room.clear();
    let starved = |_| Error::out_of_memory(bytes.len() as u64, "a value of a batch");
    room.try_reserve_exact(bytes.len()).map_err(starved)?;
    room.extend_from_slice(bytes);
    *noted = Shape::new(shape);
    Ok(())
}
