//! `views`: undecoded values as places in a pack's mapped files. Nothing is read, so a worker takes a whole batch at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::plan::Output;
use super::workers::{Destination, EpochRun, refuse_compact};
use crate::batch::{Layout, MappedBytes, RowMut, ViewFiles};
use crate::dataset::Dataset;
use crate::error::{Error, Result, Stage};
use crate::field::{FieldSpec, Kind};

/// Whether a field can be a view.
pub(super) fn is_for(spec: &FieldSpec) -> bool {
    matches!(spec.kind, Kind::Image | Kind::Bytes)
}

/// The files of `dataset` for views of `field`. An error if its values are not stored as they are in local files.
pub(super) fn files(dataset: &Dataset, field: usize) -> Result<Arc<ViewFiles>> {
    let format = dataset.format();
    let refused =
        |reason: String| Err(Error::option("views", format!("only for packs on this machine: {reason}")));
    if format.is_remote() {
        return refused("these data are remote".to_owned());
    }
    if format.name() != "pack" || !dataset.is_empty() && format.stored_at(0, field)?.is_none() {
        return refused(format!("this is {}", format.name()));
    }
    Ok(Arc::new(ViewFiles::new(format.object_count() as usize)))
}

/// Puts everything that a row of views needs into it; nothing is read. False if the row has values of other kinds.
pub(super) fn put(run: &EpochRun, row: &mut RowMut<'_>) -> Result<bool> {
    let sample = row.sample();
    for (column, output) in run.plan.outputs.iter().enumerate() {
        let to = &mut Destination { run, sample, row, column };
        match *output {
            Output::Index => to.put_number((sample as i64).to_le_bytes()),
            Output::Int { field } => {
                let Some(value) = run.dataset.format().int_value(sample, field) else { return Ok(false) };
                let label = run.plan.relabelled(&run.plan.columns[column].name, sample, value);
                to.put_number(label.to_le_bytes());
            }
            Output::View { field } => put_view(to, field)?,
            Output::ImageSize { field } => {
                let meta = run.dataset.format().image_meta(sample, field);
                let Some((height, width)) = meta.and_then(|meta| meta.oriented_size()) else {
                    return Ok(false);
                };
                to.put_size(height, width);
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The same, with a panic as an error.
pub(super) fn put_safely(run: &EpochRun, row: &mut RowMut<'_>) -> bool {
    catch_unwind(AssertUnwindSafe(|| put(run, row))).is_ok_and(|put| put.is_ok_and(|done| done))
}

/// Puts the place of one value into its row.
pub(super) fn put_view(to: &mut Destination<'_, '_>, field: usize) -> Result<()> {
    let (run, sample) = (to.run, to.sample);
    refuse_compact(run, sample, field)?;
    let format = run.dataset.format();
    let Some(extent) = format.stored_at(sample, field)? else {
        let place = run.locate_field(sample, field);
        return Err(Error::sample(place, Stage::Read, "the value is not stored as it is in one file"));
    };
    let Layout::Views { files } = &run.plan.columns[to.column].layout else {
        unreachable!("the plan says which columns are views")
    };
    let file = files.file_or(extent.object as usize, || map(run, extent.object))?;
    if extent.range.end > file.len() as u64 || extent.range.start > extent.range.end {
        let place = run.locate(sample).with_offset(extent.range.start);
        return Err(Error::sample(place, Stage::Read, "the sample reaches past the end of its file"));
    }
    let numbers = [u64::from(extent.object), extent.range.start, extent.range.end - extent.range.start];
    for (room, number) in to.dense().chunks_exact_mut(8).zip(numbers) {
        room.copy_from_slice(&number.to_le_bytes());
    }
    Ok(())
}

fn map(run: &EpochRun, object: u32) -> Result<MappedBytes> {
    let format = run.dataset.format();
    let (source, name) = format.object(object).expect("a value lies in one of the format's objects");
    Ok(Arc::new(source.map(&name, format.seen(object))?))
}
