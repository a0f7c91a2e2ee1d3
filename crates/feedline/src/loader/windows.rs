//! Token streams: cuts the data set into windows before anything else is planned, so that order, resume and ranks
//! count windows.

use super::workers::Destination;
use crate::dataset::{Dataset, Windows};
use crate::error::{Error, Result, Stage};
use crate::sample::{DType, Kind, SampleBuffer, Value};
use crate::spec::{FieldTransforms, LoaderOptions, Sampler};
use crate::transform::Transform;
use crate::transform::ops::{TokenWindow, WindowPolicy};

/// The windows of a field, if its list has them.
pub(super) fn of_field(options: &LoaderOptions, name: &str) -> Option<TokenWindow> {
    match options.transforms.get(name) {
        Some(FieldTransforms::Single(list)) => list.iter().find_map(|transform| match transform {
            Transform::TokenWindow(window) => Some(*window),
            _ => None,
        }),
        _ => None,
    }
}

/// Checks the list of an array field: exactly one `TokenWindow` or `ArrayWindow`.
pub(super) fn check_list(name: &str, given: &FieldTransforms) -> Result<()> {
    match given {
        FieldTransforms::Single(list) => match list.as_slice() {
            [] | [Transform::TokenWindow(_)] => Ok(()),
            [window @ Transform::ArrayWindow(_)] => {
                window.check().map_err(|reason| refuse(format!("{name}: ArrayWindow: {reason}")))
            }
            [other @ (Transform::TokenWindow(_) | Transform::ArrayWindow(_)), ..] => {
                Err(refuse(format!("{name}: {} stands alone", other.name())))
            }
            [other, ..] => Err(refuse(format!(
                "{name}: {} is for images; a field of arrays takes ArrayWindow, one of tokens TokenWindow",
                other.name()
            ))),
        },
        FieldTransforms::Views(_) => Err(refuse(format!("'{name}' is not an image field: it has no views"))),
    }
}

fn refuse(reason: String) -> Error {
    Error::option("transforms", reason)
}

/// The data set and the options with windows as samples; both as they were without `TokenWindow`.
pub(super) fn cut(dataset: Dataset, mut options: LoaderOptions) -> Result<(Dataset, LoaderOptions)> {
    let fields = &dataset.schema().fields;
    let given = |at: &usize| of_field(&options, &fields[*at].name).is_some();
    let fitting: Vec<usize> =
        (0..fields.len()).filter(|at| fields[*at].kind == Kind::Array && given(at)).collect();
    let [field] = fitting[..] else {
        return match fitting.len() {
            0 => Ok((dataset, options)),
            _ => Err(refuse("TokenWindow cuts one field; two streams cannot be cut side by side".to_owned())),
        };
    };
    let name = fields[field].name.clone();
    check_list(&name, &options.transforms[&name])?;
    let window = of_field(&options, &name).expect("it was found just now");
    transform_check(&name, window)?;
    refuse_others(&name, &options)?;
    let stride = match window.policy {
        WindowPolicy::Sequential => window.stride.unwrap_or(window.size),
        WindowPolicy::Random => 1,
    };
    let windows = Windows { length: window.length(), stride, across: window.across };
    let (cut, tokens) = dataset.windows(field, windows)?;
    if window.policy == WindowPolicy::Random {
        if options.sampler.is_some() {
            return Err(Error::option("sampler", "TokenWindow(policy='random') draws the windows itself"));
        }
        let covering = (tokens / window.size).clamp(1, cut.len());
        options.sampler = Some(Sampler::Random { replacement: false, num_samples: Some(covering) });
    }
    Ok((cut, options))
}

fn transform_check(name: &str, window: TokenWindow) -> Result<()> {
    Transform::from(window).check().map_err(|reason| refuse(format!("{name}: TokenWindow: {reason}")))
}

/// What counts documents cannot count windows.
fn refuse_others(name: &str, options: &LoaderOptions) -> Result<()> {
    if let Some(Sampler::Mix { .. }) = options.sampler {
        let reason =
            "a mix counts documents, not windows; open all files as one data set, or one loader for each";
        return Err(Error::option("sampler", reason));
    }
    if let Some(other) = options.fields.iter().flatten().find(|field| *field != name) {
        let reason = format!("a window of '{name}' may span several documents, so it has no '{other}'");
        return Err(Error::option("fields", reason));
    }
    Ok(())
}

/// Writes a window's tokens, from `skip` on, as 64-bit integers.
pub(super) fn put(
    to: &mut Destination<'_, '_>,
    buffer: &SampleBuffer,
    field: usize,
    skip: usize,
) -> Result<()> {
    let Value::Array { dtype, bytes, .. } = buffer.value(field) else {
        return Err(to.missing(field));
    };
    let bytes = &buffer.bytes(bytes)[skip * dtype.size()..];
    widen(*dtype, bytes, to.dense()).map_err(|at| {
        let reason = format!("token {} of the window does not fit in a signed 64-bit integer", at + skip);
        to.refused(field, Stage::Batch, reason)
    })
}

/// Fills `out` with 64-bit integers; the error is the place of one that does not fit.
fn widen(dtype: DType, bytes: &[u8], out: &mut [u8]) -> Result<(), usize> {
    macro_rules! each {
        ($type:ty) => {
            for (from, to) in bytes.chunks_exact(size_of::<$type>()).zip(out.chunks_exact_mut(8)) {
                let number = <$type>::from_le_bytes(from.try_into().expect("a whole element"));
                to.copy_from_slice(&i64::from(number).to_le_bytes());
            }
        };
    }
    match dtype {
        DType::U8 => each!(u8),
        DType::U16 => each!(u16),
        DType::U32 => each!(u32),
        DType::I8 => each!(i8),
        DType::I16 => each!(i16),
        DType::I32 => each!(i32),
        DType::I64 => out.copy_from_slice(&bytes[..out.len()]),
        _ => {
            out.copy_from_slice(&bytes[..out.len()]);
            let huge = out.chunks_exact(8).position(|number| number[7] & 0x80 != 0);
            return huge.map_or(Ok(()), Err);
        }
    }
    Ok(())
}

/// Whether tokens can have this element type.
pub(super) fn are_tokens(dtype: DType) -> bool {
    !matches!(dtype, DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_widened() {
        let mut out = [0; 16];
        assert_eq!(widen(DType::I16, &[0xff, 0xff, 1, 0], &mut out), Ok(()));
        assert_eq!(out, [[0xff; 8], 1i64.to_le_bytes()].concat()[..]);
        let huge = [u64::MAX.to_le_bytes(), 5u64.to_le_bytes()].concat();
        assert_eq!(widen(DType::U64, &huge, &mut out), Err(0));
        assert_eq!(widen(DType::I64, &huge, &mut out), Ok(()));
    }
}
