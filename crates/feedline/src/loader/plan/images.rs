//! Columns of image fields and their views.

use feedline_pixels::Mode;

use super::{ImageViews, Output, Plan};
use crate::batch::ColumnSpec;
use crate::error::{Error, Result};
use crate::field::{Meaning, MemoryFormat};
use crate::render::{ValueForm, not_for_numbers};
use crate::sample::DType;
use crate::spec::{DecodeMode, FieldTransforms};
use crate::transform::ops::Grayscale;
use crate::transform::{ImagePlan, Like, Transform};

impl Plan {
    pub(super) fn add_image(&mut self, field: usize, name: &str, direct: bool) -> Result<()> {
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
        let views =
            ImageViews { field, outputs: Vec::new(), targets: Vec::new(), params: Vec::new(), values };
        self.image_fields.push(views);
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
        let values = self.image_fields.last().and_then(|views| views.values);
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
        // Geometry is planned as for photos; how values are stored follows from their pixel layout.
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
        let views = self.image_fields.last_mut().expect("the field's views were begun just now");
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
        let views = self.image_fields.last_mut().expect("the field's views were begun just now");
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

    pub(super) fn check_pixels(&self) -> Result<()> {
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
}
