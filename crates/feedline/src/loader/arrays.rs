//! Windows of array fields: cut out of the stored array and written into their column.

use super::workers::Destination;
use crate::error::{Error, Result, Stage};
use crate::sample::{SampleBuffer, Value};
use crate::spec::{FieldTransforms, LoaderOptions};
use crate::transform::ops::ArrayWindow;
use crate::transform::{Place, SampleKey, Transform, copy_window};

/// The window of a field, if its list has one.
pub(super) fn of_field<'a>(options: &'a LoaderOptions, name: &str) -> Option<&'a ArrayWindow> {
    match options.transforms.get(name) {
        Some(FieldTransforms::Single(list)) => match list.as_slice() {
            [Transform::ArrayWindow(window)] => Some(window),
            _ => None,
        },
        _ => None,
    }
}

/// Writes a sample's windows.
pub(super) fn put(
    to: &mut Destination<'_, '_>,
    key: SampleKey,
    buffer: &SampleBuffer,
    field: usize,
) -> Result<()> {
    let run = to.run;
    let Value::Array { dtype, dimensions, shape, bytes } = buffer.value(field) else {
        return Err(to.missing(field));
    };
    let refuse =
        |reason: String| Error::sample(run.locate_field(key.sample, field), Stage::Transform, reason);
    let expected = run.plan.columns[to.column].dtype;
    if *dtype != expected {
        return Err(refuse(format!("array of {}, but the column is {}", dtype.name(), expected.name())));
    }
    let name = &run.dataset.schema().fields[field].name;
    let window = of_field(&run.plan.options, name).expect("the plan says which fields have windows");
    let shape = &shape[..usize::from(*dimensions)];
    let (size, starts) = window.place(shape, &mut Place::new(key, 0, 0).draw()).map_err(refuse)?;
    let (array, element) = (buffer.bytes(bytes), dtype.size());
    if window.shape().is_some() {
        let room = to.dense();
        room.fill(0);
        copy_window((array, shape), (&size, &starts[0]), element, room);
        return Ok(());
    }
    let each = size.iter().try_fold(element, |all, side| all.checked_mul(usize::try_from(*side).ok()?));
    let all = each.and_then(|each| each.checked_mul(starts.len()));
    let (Some(each), Some(all)) = (each, all) else {
        return Err(refuse(format!("{} windows of {size:?} do not fit in memory", starts.len())));
    };
    let mut out = Vec::new();
    feedline_pixels::fit(&mut out, all, 0)
        .map_err(|_| Error::out_of_memory(all as u64, format!("windows of {}", run.locate(key.sample))))?;
    for (start, room) in starts.iter().zip(out.chunks_exact_mut(each.max(1))) {
        copy_window((array, shape), (&size, start), element, room);
    }
    let count = starts.len() as u64;
    let full = if window.is_one() { size } else { [&[count], &size[..]].concat() };
    to.put_array(&out, &full)
}
