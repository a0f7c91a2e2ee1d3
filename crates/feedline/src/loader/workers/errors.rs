//! Errors of a sample, with their location.

use std::any::Any;

use super::epoch_run::EpochRun;
use crate::error::{Error, Stage};

/// Turns a read error into an error of this sample.
pub(crate) fn read_error(error: Error, run: &EpochRun, sample: u64) -> Error {
    error.of_sample(run.locate(sample), Stage::Read)
}

pub(crate) fn missing(run: &EpochRun, sample: u64, field: usize) -> Error {
    Error::sample(
        run.locate_field(sample, field),
        Stage::Read,
        "the sample has no value for this field; leave it out with fields=[...]",
    )
}

pub(crate) fn decode_error(
    run: &EpochRun,
    sample: u64,
    field: usize,
    error: &feedline_pixels::Error,
) -> Error {
    let place = run.locate_field(sample, field);
    match error {
        feedline_pixels::Error::OutOfMemory { bytes } => {
            Error::out_of_memory(*bytes, format!("decoding {place}"))
        }
        error => Error::sample(place, Stage::Decode, error),
    }
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "internal error, please report it: {}",
        text.unwrap_or_else(|| "a panic without a message".to_owned())
    )
}
