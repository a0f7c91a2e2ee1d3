//! Arrays in webdataset's `.ten` format: chunks of `~TenBin~`, a length, the bytes, zeros up to 64. One chunk
//! describes an array, the next contains its elements.

use crate::sample::{DType, MAX_DIMENSIONS, SampleBuffer, Value};

const MAGIC: &[u8; 8] = b"~TenBin~";

/// Makes an array value from the file at `range` of the buffer, which must contain one array.
pub(super) fn parse(range: std::ops::Range<usize>, buffer: &SampleBuffer) -> Result<Value, String> {
    let file = buffer.bytes(&range);
    let (header, next) = chunk(file, 0)?;
    let (data, end) = chunk(file, next)?;
    if file.len() > end {
        return Err("several arrays in one file, which is not supported".to_owned());
    }
    let number = |at: usize| -> Result<u64, String> {
        let bytes =
            file[header.clone()].get(at * 8..at * 8 + 8).ok_or("the array's description is cut off")?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    };
    let name = number(0)?.to_le_bytes();
    let name = std::str::from_utf8(&name).unwrap_or_default().trim_end_matches('\0');
    let dtype = DType::from_numpy(name)
        .filter(|d| *d != DType::Bool)
        .ok_or_else(|| format!("arrays of type '{name}' are not supported"))?;
    let dimensions = usize::try_from(number(2)?).ok().filter(|n| *n <= MAX_DIMENSIONS);
    let dimensions = dimensions.ok_or_else(|| format!("more than {MAX_DIMENSIONS} dimensions"))?;
    let mut shape = [0; MAX_DIMENSIONS];
    let mut length = dtype.size() as u64;
    for (at, side) in shape[..dimensions].iter_mut().enumerate() {
        *side = number(3 + at)?;
        length = length.checked_mul(*side).ok_or("an array that does not fit in memory")?;
    }
    if length != data.len() as u64 {
        return Err(format!("an array of {length} bytes in {}", data.len()));
    }
    let bytes = range.start + data.start..range.start + data.end;
    Ok(Value::Array { dtype, dimensions: dimensions as u8, shape, bytes })
}

/// The content of the chunk at `at`, and the offset of the next one.
fn chunk(file: &[u8], at: usize) -> Result<(std::ops::Range<usize>, usize), String> {
    let head = file.get(at..at + 16).ok_or("the .ten file is cut off")?;
    if head[..8] != *MAGIC {
        return Err("not a .ten file: its mark is missing".to_owned());
    }
    let length = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
    let start = at + 16;
    let length = usize::try_from(length).ok().filter(|n| *n <= file.len() - start);
    let length = length.ok_or("the .ten file is cut off")?;
    Ok((start..start + length, start + length.next_multiple_of(64)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(chunks: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        for chunk in chunks {
            file.extend_from_slice(MAGIC);
            file.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
            file.extend_from_slice(chunk);
            file.resize(file.len() + chunk.len().next_multiple_of(64) - chunk.len(), 0);
        }
        file
    }

    fn read(file: &[u8]) -> Result<Value, String> {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        let range = buffer.append(file);
        parse(range, &buffer)
    }

    fn header(dtype: &str, sides: &[u64]) -> Vec<u8> {
        let mut name = dtype.as_bytes().to_vec();
        name.resize(16, 0);
        let numbers = std::iter::once(sides.len() as u64).chain(sides.iter().copied());
        name.extend(numbers.flat_map(u64::to_le_bytes));
        name
    }

    #[test]
    fn one_array_is_read() {
        let file = write(&[&header("i2", &[2, 3]), &[7; 12]]);
        let Value::Array { dtype, dimensions, shape, bytes } = read(&file).unwrap() else {
            panic!("an array")
        };
        assert_eq!((dtype, dimensions, &shape[..2], bytes.len()), (DType::I16, 2, &[2, 3][..], 12));
        let two = write(&[&header("u1", &[1]), &[7], &header("u1", &[1]), &[8]]);
        assert!(read(&two).unwrap_err().contains("several"));
        assert!(read(&write(&[&header("u1", &[u64::MAX, 9]), &[7]])).is_err());
        assert!(read(&write(&[&header("xx", &[1]), &[7]])).is_err());
    }

    proptest! {
        #[test]
        fn anything_else_is_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200), flip in any::<usize>()) {
            let _ = read(&bytes);
            let mut file = write(&[&header("i2", &[2, 3]), &[7; 12]]);
            let at = flip % file.len();
            file[at] ^= bytes.pop().unwrap_or(1);
            let _ = read(&file);
        }
    }
}
