//! Columns of fields that are not images.

use super::fields::first_dtype;
use super::{Output, Plan};
use crate::batch::ColumnSpec;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::field::{Carrier, Meaning};
use crate::loader::audio::{self, AudioPlan};
use crate::loader::video::{self, VideoPlan};
use crate::loader::{arrays, views, windows};
use crate::sample::{DType, FieldSpec, Kind};
use crate::spec::{DecodeMode, OnError, OnMissing, Sampler};
use crate::transform::ops::TokenWindow;

impl Plan {
    pub(super) fn add_field(&mut self, dataset: &Dataset, field: usize, spec: &FieldSpec) -> Result<()> {
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

    /// Refuses `views` if no loaded field can be a view.
    pub(super) fn check_views(&self) -> Result<()> {
        let none = !self.outputs.iter().any(|output| matches!(output, Output::View { .. }));
        if self.options.views && none {
            return Err(Error::option("views", "no field is loaded that can be a view: an image, or bytes"));
        }
        Ok(())
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

    /// Adds the columns that say which packed samples are in which row.
    pub(super) fn add_packing(&mut self) -> Result<()> {
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
}
