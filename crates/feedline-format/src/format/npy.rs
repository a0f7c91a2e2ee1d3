//! Arrays in numpy's `.npy` format: a small header, then the elements.

use crate::sample::{DType, MAX_DIMENSIONS, SampleBuffer, Value};

/// Content of an `.npy` header.
#[derive(Debug, PartialEq, Eq)]
struct NpyHeader {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: [u64; MAX_DIMENSIONS],
    dimensions: usize,
    data: usize,
}

/// Makes an array value from the `.npy` file at `range` of the buffer. The elements become row-major and
/// little-endian.
pub(super) fn parse(range: std::ops::Range<usize>, buffer: &mut SampleBuffer) -> Result<Value, String> {
    let file = buffer.bytes(&range);
    let header = NpyHeader::parse(file)?;
    let sides = &header.shape[..header.dimensions];
    let size = header.dtype.size();
    let count = sides.iter().try_fold(1u64, |n, side| n.checked_mul(*side));
    let length = count.and_then(|n| n.checked_mul(size as u64)).and_then(|n| usize::try_from(n).ok());
    let length = length.filter(|n| *n <= file.len() - header.data).ok_or_else(|| {
        format!("an array of shape {sides:?} of {} does not fit in {} bytes", header.dtype.name(), file.len())
    })?;
    let start = range.start + header.data;
    let mut bytes = start..start + length;
    let transpose = header.fortran && header.dimensions > 1;
    if transpose || (header.big_endian && size > 1) {
        let fixed = reorder(&header, &file[header.data..header.data + length], transpose);
        bytes = buffer.append(&fixed);
    }
    let dimensions = header.dimensions as u8;
    Ok(Value::Array { dtype: header.dtype, dimensions, shape: header.shape, bytes })
}

/// Appends the header of an array with this shape; the elements, row-major and little-endian, come after it.
pub(super) fn write_header(dtype: DType, sides: &[u64], out: &mut Vec<u8>) -> Result<(), String> {
    let code = dtype
        .numpy()
        .ok_or_else(|| format!("numpy has no {}, so it cannot be an .npy file", dtype.name()))?;
    let shape = match sides {
        [only] => format!("({only},)"),
        sides => format!("({})", sides.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}");
    // The data begin at a multiple of 64, after a line feed.
    let padded = (10 + text.len() + 1).next_multiple_of(64);
    text.extend(std::iter::repeat_n(' ', padded - 11 - text.len()));
    text.push('\n');
    out.extend_from_slice(b"\x93NUMPY\x01\x00");
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// A table in an `.npy` file: type of its rows, their number, and their offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// numpy's description of a row, without spaces: `'<i8'`, or `[('a','<u8'),('b','<u4')]`.
    pub(super) descr: String,
    /// Length of each dimension.
    pub(super) shape: Vec<u64>,
    /// Offset of the elements.
    pub(super) data: usize,
}

impl Table {
    /// Reads the header of `file`. Only row-major tables are accepted.
    pub(super) fn parse(file: &[u8]) -> Result<Self, String> {
        let (text, data) = header_text(file)?;
        if value_of(text, "fortran_order")?.starts_with("True") {
            return Err("the .npy file is column-major".to_owned());
        }
        let descr = value_of(text, "descr")?.split("'fortran_order'").next().unwrap_or_default();
        let descr = descr.chars().filter(|c| !c.is_whitespace()).collect::<String>();
        let (sides, dimensions) = shape(value_of(text, "shape")?)?;
        let descr = descr.trim_end_matches(',').to_owned();
        Ok(Table { descr, shape: sides[..dimensions].to_vec(), data })
    }
}

/// The header of a file whose rows along the first dimension are samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowHeader {
    pub(super) dtype: DType,
    big_endian: bool,
    /// Length of the first dimension.
    pub(super) rows: u64,
    pub(super) row_bytes: usize,
    /// Offset of the first row.
    pub(super) data: u64,
    shape: [u64; MAX_DIMENSIONS],
    dimensions: usize,
}

impl RowHeader {
    /// Reads the header at the beginning of a file.
    pub(super) fn parse(file: &[u8]) -> Result<Self, String> {
        let header = NpyHeader::parse(file)?;
        let Some(rows) = header.shape[..header.dimensions].first().copied() else {
            return Err("a single number has no rows".to_owned());
        };
        if header.fortran && header.dimensions > 1 {
            return Err("the array is column-major: a row is scattered over the file; write it again with \
                        np.save(path, np.ascontiguousarray(array))"
                .to_owned());
        }
        let (sides, data) = (&header.shape[1..header.dimensions], header.data as u64);
        Ok(RowHeader { data, ..RowHeader::new(header.dtype, header.big_endian, rows, sides)? })
    }

    /// A header of `rows` rows of this shape; the first begins at offset 0.
    pub(super) fn new(dtype: DType, big_endian: bool, rows: u64, sides: &[u64]) -> Result<Self, String> {
        let mut shape = [0; MAX_DIMENSIONS];
        let room = shape.get_mut(..sides.len());
        room.ok_or_else(|| format!("rows of more than {MAX_DIMENSIONS} dimensions"))?.copy_from_slice(sides);
        let row = sides.iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side));
        let row_bytes =
            row.and_then(|bytes| usize::try_from(bytes).ok()).ok_or("a row does not fit in memory")?;
        Ok(RowHeader { dtype, big_endian, rows, row_bytes, data: 0, shape, dimensions: sides.len() })
    }

    /// Shape of a row.
    pub(super) fn sides(&self) -> &[u64] {
        &self.shape[..self.dimensions]
    }

    /// Whether the most significant byte of an element comes first.
    pub(super) fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Swaps the bytes of every element if they are big-endian.
    pub(super) fn to_little_endian(self, row: &mut [u8]) {
        if self.big_endian {
            row.chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
        }
    }

    /// The integer in a row of one element; an error if it does not fit in `i64`.
    pub(super) fn int(&self, row: &[u8]) -> Result<i64, String> {
        let mut wide = [0; 8];
        wide[..row.len()].copy_from_slice(row);
        self.to_little_endian(&mut wide[..row.len()]);
        let unused = 64 - 8 * row.len() as u32;
        let number = i64::from_le_bytes(wide);
        match self.dtype {
            // Shifting up and down extends the sign.
            DType::I8 | DType::I16 | DType::I32 => Ok(number << unused >> unused),
            DType::U64 if number < 0 => {
                Err(format!("{} does not fit in a signed 64-bit integer", number.cast_unsigned()))
            }
            _ => Ok(number),
        }
    }

    /// The float in a row of one element.
    pub(super) fn float(&self, row: &mut [u8]) -> f64 {
        self.to_little_endian(row);
        match *row {
            [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => f64::NAN,
        }
    }
}

/// The header's text, and the offset of the elements.
fn header_text(file: &[u8]) -> Result<(&str, usize), String> {
    if file.len() < 10 || &file[..6] != b"\x93NUMPY" {
        return Err("not an .npy file: the first bytes are wrong".to_owned());
    }
    let (length, start) = match file[6] {
        1 => (usize::from(u16::from_le_bytes([file[8], file[9]])), 10),
        2 | 3 if file.len() >= 12 => {
            (u32::from_le_bytes([file[8], file[9], file[10], file[11]]) as usize, 12)
        }
        version => return Err(format!(".npy version {version} is unknown")),
    };
    let data = start + length;
    let text = file.get(start..data).ok_or("the .npy header is truncated")?;
    let text = std::str::from_utf8(text).map_err(|_| "the .npy header is not text")?;
    Ok((text, data))
}

impl NpyHeader {
    fn parse(file: &[u8]) -> Result<Self, String> {
        let (text, data) = header_text(file)?;
        let descr = quoted(value_of(text, "descr")?).ok_or("structured arrays are not supported")?;
        let (dtype, big_endian) = element(descr)?;
        let fortran = value_of(text, "fortran_order")?.starts_with("True");
        let (shape, dimensions) = shape(value_of(text, "shape")?)?;
        Ok(NpyHeader { dtype, big_endian, fortran, shape, dimensions, data })
    }
}

/// The text after `'key':`.
fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let missing = || format!("the .npy header lacks '{key}'");
    let at = text.find(&format!("'{key}'")).ok_or_else(missing)?;
    let rest = &text[at + key.len() + 2..];
    Ok(rest.trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.split('\'').next()
}

pub(super) fn element(descr: &str) -> Result<(DType, bool), String> {
    let unsupported = || format!("arrays of type '{descr}' are not supported");
    let (order, kind) = descr.split_at_checked(1).ok_or_else(unsupported)?;
    let dtype = DType::from_numpy(kind).ok_or_else(unsupported)?;
    match order {
        "<" | "|" | "=" => Ok((dtype, false)),
        ">" => Ok((dtype, true)),
        _ => Err(unsupported()),
    }
}

fn shape(text: &str) -> Result<([u64; MAX_DIMENSIONS], usize), String> {
    let inner = text.strip_prefix('(').and_then(|t| t.split_once(')')).map(|(inner, _)| inner);
    let inner = inner.ok_or("the .npy header's shape is damaged")?;
    let (mut sides, mut count) = ([0; MAX_DIMENSIONS], 0);
    for side in inner.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let side = side.trim_end_matches('L').parse().map_err(|_| format!("'{side}' is not a length"))?;
        *sides.get_mut(count).ok_or(format!("more than {MAX_DIMENSIONS} dimensions"))? = side;
        count += 1;
    }
    Ok((sides, count))
}

/// Copies elements to row-major order and little-endian bytes.
fn reorder(header: &NpyHeader, data: &[u8], transpose: bool) -> Vec<u8> {
    let size = header.dtype.size();
    let sides = &header.shape[..header.dimensions];
    let count = data.len() / size;
    let mut out = Vec::with_capacity(data.len());
    let mut index = [0u64; MAX_DIMENSIONS];
    for position in 0..count {
        let from = if transpose { column_major(&index, sides) } else { position };
        let element = &data[from * size..(from + 1) * size];
        if header.big_endian {
            out.extend(element.iter().rev());
        } else {
            out.extend_from_slice(element);
        }
        for (at, side) in index.iter_mut().zip(sides).rev() {
            *at += 1;
            if *at < *side {
                break;
            }
            *at = 0;
        }
    }
    out
}

fn column_major(index: &[u64], sides: &[u64]) -> usize {
    index.iter().zip(sides).rev().fold(0, |n, (at, side)| n * *side as usize + *at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(DType, Vec<u64>, Vec<u8>), String> {
        let mut buffer = SampleBuffer::new();
        buffer.reset(1);
        let range = buffer.append(bytes);
        let Value::Array { dtype, dimensions, shape, bytes } = parse(range, &mut buffer)? else {
            panic!("an array expected")
        };
        Ok((dtype, shape[..usize::from(dimensions)].to_vec(), buffer.bytes(&bytes).to_vec()))
    }

    #[test]
    fn reads_rows_columns_and_foreign_byte_order() {
        let plain =
            file("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2), }", &[1, 0, 2, 0, 3, 0, 4, 0]);
        let turned =
            file("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 2), }", &[0, 1, 0, 3, 0, 2, 0, 4]);
        assert_eq!(read(&plain), read(&turned));
        assert_eq!(read(&plain).unwrap().1, [2, 2]);
        let scalar = file("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", &[7]);
        assert_eq!(read(&scalar).unwrap(), (DType::U8, vec![], vec![7]));
    }

    #[test]
    fn written_arrays_are_read_back() {
        for sides in [&[][..], &[3], &[2, 3], &[0, 5]] {
            let count: u64 = sides.iter().product();
            let mut bytes = Vec::new();
            write_header(DType::F32, sides, &mut bytes).unwrap();
            assert_eq!(bytes.len() % 64, 0);
            bytes.extend(std::iter::repeat_n(7, count as usize * 4));
            let (dtype, shape, data) = read(&bytes).unwrap();
            assert_eq!((dtype, &shape[..], data.len() as u64), (DType::F32, sides, count * 4));
        }
        assert!(write_header(DType::BF16, &[1], &mut Vec::new()).is_err());
    }

    #[test]
    fn unsupported_arrays_are_refused() {
        for (header, data) in [
            ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", &[0u8; 8][..]),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", &[0; 8]),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551615, 9), }", &[0; 8]),
            ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", &[0; 8]),
        ] {
            assert!(read(&file(header, data)).is_err(), "{header}");
        }
    }

    #[test]
    fn truncation_never_panics() {
        let whole = file("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2), }", &[0; 8]);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err());
        }
    }
}
