//! NIfTI volumes (`.nii`, `.nii.gz`): a header of fixed places, then the elements, first dimension fastest.

use std::ops::Range;

use crate::sample::{DType, MAX_DIMENSIONS, SampleBuffer, Value};

use super::bounds;

/// Content of a header.
#[derive(Debug, PartialEq)]
struct Header {
    big_endian: bool,
    dtype: DType,
    shape: Vec<u64>,
    data: usize,
    /// Factor and summand of stored values, if they mean others.
    scale: Option<(f64, f64)>,
}

/// Makes an array value from the file at `range` of the buffer, which may be compressed. The array is indexed as
/// nibabel's: `[x, y, z]`. Values with a scale become 32-bit floats.
pub(super) fn parse(range: Range<usize>, buffer: &mut SampleBuffer) -> Result<Value, String> {
    let plain = match buffer.bytes(&range) {
        file if file.starts_with(&[0x1f, 0x8b]) => Some(bounds::gunzip(file)?),
        _ => None,
    };
    let file = plain.as_deref().unwrap_or_else(|| buffer.bytes(&range));
    let header = Header::parse(file)?;
    let count = header.shape.iter().try_fold(1u64, |all, side| all.checked_mul(*side));
    let length = count.and_then(|all| all.checked_mul(header.dtype.size() as u64));
    let stored = length.and_then(|length| {
        let end = header.data.checked_add(usize::try_from(length).ok()?)?;
        file.get(header.data..end)
    });
    let stored = stored.ok_or_else(|| {
        let (shape, bytes) = (&header.shape, file.len());
        format!("a volume of {shape:?} of {} does not fit in {bytes} bytes: truncated?", header.dtype.name())
    })?;
    let elements = header.elements(stored)?;
    let dtype = if header.scale.is_some() { DType::F32 } else { header.dtype };
    let bytes = buffer.append(&elements);
    let mut shape = [0; MAX_DIMENSIONS];
    shape[..header.shape.len()].copy_from_slice(&header.shape);
    Ok(Value::Array { dtype, dimensions: header.shape.len() as u8, shape, bytes })
}

/// The bytes at a place, in the order of this machine.
fn take<const N: usize>(file: &[u8], at: usize, big_endian: bool) -> Result<[u8; N], String> {
    let found = file.get(at..at + N).ok_or("the header of a NIfTI volume ends early: truncated?")?;
    let mut bytes = [0; N];
    bytes.copy_from_slice(found);
    if big_endian {
        bytes.reverse();
    }
    Ok(bytes)
}

impl Header {
    fn parse(file: &[u8]) -> Result<Self, String> {
        let first = take::<4>(file, 0, false)?;
        match (i32::from_le_bytes(first), i32::from_be_bytes(first)) {
            (348, _) => Header::first(file, false),
            (_, 348) => Header::first(file, true),
            (540, _) => Header::second(file, false),
            (_, 540) => Header::second(file, true),
            _ => Err("not a NIfTI volume: its header has another length".to_owned()),
        }
    }

    /// Version 1.
    fn first(file: &[u8], big: bool) -> Result<Self, String> {
        match &take::<4>(file, 344, false)? {
            b"n+1\0" => {}
            b"ni1\0" => return Err("a NIfTI header whose elements are in another file (.img)".to_owned()),
            _ => return Err("not a NIfTI volume (perhaps Analyze 7.5)".to_owned()),
        }
        let short = |at: usize| Ok::<i64, String>(i64::from(i16::from_le_bytes(take(file, at, big)?)));
        let float = |at: usize| Ok::<f64, String>(f64::from(f32::from_le_bytes(take(file, at, big)?)));
        let sides = (0..8).map(|at| short(40 + 2 * at)).collect::<Result<Vec<i64>, String>>()?;
        let offset = float(108)?;
        let offset = if offset.fract() == 0.0 { offset as i64 } else { -1 };
        Header::new(big, &sides, short(70)?, offset, (float(112)?, float(116)?), 348)
    }

    /// Version 2.
    fn second(file: &[u8], big: bool) -> Result<Self, String> {
        if take::<4>(file, 4, false)? != *b"n+2\0" {
            return Err("not a NIfTI volume, or its elements are in another file (.img)".to_owned());
        }
        let long = |at: usize| Ok::<i64, String>(i64::from_le_bytes(take(file, at, big)?));
        let float = |at: usize| Ok::<f64, String>(f64::from_le_bytes(take(file, at, big)?));
        let sides = (0..8).map(|at| long(16 + 8 * at)).collect::<Result<Vec<i64>, String>>()?;
        let kind = i64::from(i16::from_le_bytes(take(file, 12, big)?));
        Header::new(big, &sides, kind, long(168)?, (float(176)?, float(184)?), 540)
    }

    fn new(
        big_endian: bool,
        sides: &[i64],
        kind: i64,
        offset: i64,
        (slope, summand): (f64, f64),
        least: i64,
    ) -> Result<Self, String> {
        let count = usize::try_from(sides[0]).ok().filter(|count| (1..=7).contains(count));
        let count = count.ok_or_else(|| format!("{} dimensions", sides[0]))?;
        let shape = sides[1..=count].iter().map(|side| u64::try_from(*side).ok().filter(|side| *side > 0));
        let shape = shape.collect::<Option<Vec<u64>>>();
        let shape = shape.ok_or_else(|| format!("sides of {:?}", &sides[1..=count]))?;
        let data = usize::try_from(offset).ok().filter(|_| offset >= least);
        let data = data.ok_or_else(|| format!("elements at byte {offset}"))?;
        let means =
            slope != 0.0 && slope.is_finite() && summand.is_finite() && (slope, summand) != (1.0, 0.0);
        let scale = means.then_some((slope, summand));
        Ok(Header { big_endian, dtype: element(kind)?, shape, data, scale })
    }

    /// The elements, last dimension fastest, in the order of this machine, with their scale applied.
    fn elements(&self, stored: &[u8]) -> Result<Vec<u8>, String> {
        let (from, to) = (self.dtype.size(), if self.scale.is_some() { 4 } else { self.dtype.size() });
        let count = stored.len() / from;
        let mut out = Vec::new();
        let room = count.saturating_mul(to);
        out.try_reserve_exact(room).map_err(|_| format!("no memory for {room} bytes"))?;
        let mut steps = Vec::with_capacity(self.shape.len());
        let mut step = 1usize;
        for side in &self.shape {
            steps.push(step);
            step *= *side as usize;
        }
        let (mut index, mut at) = ([0u64; MAX_DIMENSIONS], 0usize);
        for _ in 0..count {
            self.put(&stored[at * from..(at + 1) * from], &mut out);
            for side in (0..self.shape.len()).rev() {
                index[side] += 1;
                at += steps[side];
                if index[side] < self.shape[side] {
                    break;
                }
                at -= steps[side] * self.shape[side] as usize;
                index[side] = 0;
            }
        }
        Ok(out)
    }

    #[inline]
    fn put(&self, element: &[u8], out: &mut Vec<u8>) {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..element.len()];
        bytes.copy_from_slice(element);
        if self.big_endian {
            bytes.reverse();
        }
        match self.scale {
            Some((slope, summand)) => {
                out.extend_from_slice(&((number(self.dtype, bytes) * slope + summand) as f32).to_le_bytes());
            }
            None => out.extend_from_slice(bytes),
        }
    }
}

/// The element type of a datatype code.
fn element(code: i64) -> Result<DType, String> {
    Ok(match code {
        2 => DType::U8,
        4 => DType::I16,
        8 => DType::I32,
        16 => DType::F32,
        64 => DType::F64,
        256 => DType::I8,
        512 => DType::U16,
        768 => DType::U32,
        1024 => DType::I64,
        1280 => DType::U64,
        other => {
            return Err(format!("NIfTI elements of type {other} (colours, complex numbers) are not read"));
        }
    })
}

/// A stored number. `bytes` has the size of the type.
fn number(dtype: DType, bytes: &[u8]) -> f64 {
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().unwrap_or_default()) as f64
        };
    }
    match dtype {
        DType::U8 => of!(u8),
        DType::U16 => of!(u16),
        DType::U32 => of!(u32),
        DType::U64 => of!(u64),
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::F64 => of!(f64),
        _ => of!(f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume of 2 x 3 bytes.
    fn small() -> Vec<u8> {
        let mut file = vec![0; 352];
        file[..4].copy_from_slice(&348i32.to_le_bytes());
        for (at, side) in [2i16, 2, 3].into_iter().enumerate() {
            file[40 + 2 * at..42 + 2 * at].copy_from_slice(&side.to_le_bytes());
        }
        file[70..72].copy_from_slice(&2i16.to_le_bytes());
        file[108..112].copy_from_slice(&352f32.to_le_bytes());
        file[344..348].copy_from_slice(b"n+1\0");
        file.extend([0, 1, 2, 3, 4, 5]);
        file
    }

    fn parsed(file: &[u8]) -> Result<(Value, Vec<u8>), String> {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        let range = buffer.append(file);
        let value = parse(range, &mut buffer)?;
        let Value::Array { bytes, .. } = &value else { unreachable!() };
        let bytes = buffer.bytes(bytes).to_vec();
        Ok((value, bytes))
    }

    #[test]
    fn the_last_dimension_becomes_the_fastest() {
        let (value, bytes) = parsed(&small()).unwrap();
        let Value::Array { dtype, dimensions, shape, .. } = value else { unreachable!() };
        assert_eq!((dtype, dimensions, &shape[..2]), (DType::U8, 2, &[2, 3][..]));
        assert_eq!(bytes, [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn damaged_and_cut_files_are_errors() {
        let file = small();
        for cut in 0..file.len() {
            assert!(parsed(&file[..cut]).is_err(), "{cut}");
        }
        for (at, value) in [(40, 0u8), (40, 8), (42, 0xff), (70, 128), (108, 1), (344, b'x')] {
            let mut wrong = file.clone();
            wrong[at] = value;
            if at == 42 {
                wrong[43] = 0xff;
            }
            if at == 108 {
                wrong[108..112].copy_from_slice(&1f32.to_le_bytes());
            }
            assert!(parsed(&wrong).is_err(), "{at}");
        }
    }
}
