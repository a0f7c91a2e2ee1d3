//! RENDERING.
//!
//! An adapter over `feedline_pixels`: an encoded image and a program → a finished row of the batch. It knows neither
//! batches nor order, and draws nothing. `image.rs` decodes what the program's first pass needs, `run.rs` runs the
//! rest; `labels.rs` moves masks, `outlines.rs` draws those that are given by outlines, `values.rs` moves other images of
//! numbers.

mod image;
mod labels;
mod outlines;
mod run;
mod values;

pub(crate) use image::{ImageDecoder, OpenedImage, RenderTime, StoredImage, form_of, needed_rows};
pub(crate) use labels::{LabelRunner, Labels, array_numbers, label_type, plane};
pub(crate) use outlines::{Outline, read_outlines};
pub(crate) use run::Runner;
pub(crate) use values::{ValueDecoder, ValueForm, not_for_numbers};
