//! One dataset of a file, row by row.

use std::fmt;

use hdf5_reader::{ByteOrder, Dataset, Datatype, H5Type, SliceInfo, SliceInfoElem};

use super::super::npy::RowHeader;
use super::super::rows::RowValue;
use super::super::sniff;
use crate::sample::{DType, ImageMeta, Kind, MAX_DIMENSIONS, SampleBuffer, Value};

/// An element as raw bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<const N: usize>([u8; N]);

impl<const N: usize> H5Type for Plain<N> {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: N as u32, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], _: &Datatype) -> hdf5_reader::error::Result<Self> {
        let short = || hdf5_reader::error::Error::InvalidData("an element of another length".to_owned());
        Ok(Plain(bytes.get(..N).and_then(|bytes| bytes.try_into().ok()).ok_or_else(short)?))
    }

    fn element_size(_: &Datatype) -> usize {
        N
    }

    fn native_copy_compatible(_: &Datatype) -> bool {
        true
    }
}

/// A text of fixed length, or opaque bytes.
#[derive(Clone)]
struct OpaqueBytes(Vec<u8>);

impl H5Type for OpaqueBytes {
    fn hdf5_type() -> Datatype {
        Datatype::Opaque { size: 0, tag: String::new() }
    }

    fn from_bytes(bytes: &[u8], dtype: &Datatype) -> hdf5_reader::error::Result<Self> {
        Ok(OpaqueBytes(bytes[..Self::element_size(dtype).min(bytes.len())].to_vec()))
    }

    fn element_size(dtype: &Datatype) -> usize {
        fixed_length(dtype).unwrap_or(0)
    }
}

fn fixed_length(dtype: &Datatype) -> Option<usize> {
    use hdf5_reader::messages::datatype::StringSize;
    match dtype {
        Datatype::String { size: StringSize::Fixed(length), .. } | Datatype::Opaque { size: length, .. } => {
            Some(*length as usize)
        }
        _ => None,
    }
}

/// The stored form of a row.
#[derive(Debug, Clone)]
enum Stored {
    /// Numbers.
    Numbers(RowHeader, RowValue),
    /// A text or bytes, padded to their length with zeros.
    Fixed(Kind),
    /// Elements of one type; their number varies between rows.
    Varying { dtype: DType, big_endian: bool, kind: Kind },
}

/// One dataset.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) rows: u64,
    dataset: Dataset,
    stored: Stored,
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column")
            .field("name", &self.name)
            .field("stored", &self.stored)
            .finish_non_exhaustive()
    }
}

impl Column {
    /// The dataset as `kind`, if it is given; the error is a reason.
    pub(super) fn new(name: String, dataset: Dataset, kind: Option<Kind>) -> Result<Self, String> {
        let shape = dataset.shape().to_vec();
        let Some((rows, sides)) = shape.split_first() else {
            return Err("a single value has no rows".to_owned());
        };
        let stored = stored(&dataset, *rows, sides, kind)?;
        let column = Column { name, rows: *rows, dataset, stored };
        column.check_filters()?;
        Ok(column)
    }

    /// Checks that all filters are supported: the reader looks at them only when a chunk is read, and chunks that did
    /// not become smaller have none. Other errors in a row are found when it is read.
    fn check_filters(&self) -> Result<(), String> {
        let ends = [0, self.rows.saturating_sub(1)].into_iter().filter(|row| *row < self.rows);
        for row in ends {
            let read = self.read(row, &mut SampleBuffer::new());
            if let Err(hdf5_reader::error::Error::UnsupportedFilter(reason)) = read {
                return Err(format!("compressed by a filter that is not supported: {reason}"));
            }
        }
        Ok(())
    }

    pub(super) fn kind(&self) -> Kind {
        match &self.stored {
            Stored::Numbers(_, becomes) => becomes.kind(),
            Stored::Fixed(kind) | Stored::Varying { kind, .. } => *kind,
        }
    }

    pub(super) fn image_meta(&self) -> Option<ImageMeta> {
        let Stored::Numbers(_, becomes) = &self.stored else { return None };
        becomes.image_meta()
    }

    /// Type and shape, for the fingerprint and to compare files.
    pub(super) fn describe(&self) -> String {
        match &self.stored {
            Stored::Numbers(header, becomes) => {
                format!("{} {} {:?} {becomes:?}", self.name, header.dtype.name(), header.sides())
            }
            other => format!("{} {other:?}", self.name),
        }
    }

    /// All rows of a column of integers, if they take at most `most` bytes.
    pub(super) fn ints(&self, most: u64) -> hdf5_reader::error::Result<Option<Vec<i64>>> {
        let Stored::Numbers(header, RowValue::Int) = &self.stored else { return Ok(None) };
        if self.rows.saturating_mul(8) > most {
            return Ok(None);
        }
        let bytes = self.dataset.read_raw_bytes()?;
        // A number that does not fit is reported when its sample is read.
        Ok(bytes.chunks_exact(header.row_bytes).map(|row| header.int(row).ok()).collect())
    }

    /// Row `row`, which is below the number of rows.
    pub(super) fn read(&self, row: u64, into: &mut SampleBuffer) -> hdf5_reader::error::Result<Value> {
        match &self.stored {
            Stored::Numbers(header, becomes) => {
                let (range, room) = into.reserve(header.row_bytes);
                match header.dtype.size() {
                    1 => self.fill::<1>(row, room)?,
                    2 => self.fill::<2>(row, room)?,
                    4 => self.fill::<4>(row, room)?,
                    _ => self.fill::<8>(row, room)?,
                }
                becomes.value(header, range, into).map_err(hdf5_reader::error::Error::InvalidData)
            }
            Stored::Fixed(kind) => {
                let found = self.dataset.read_slice::<OpaqueBytes>(&self.selection(row))?;
                let bytes = found.iter().next().map_or(&[][..], |loose| &loose.0);
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                let bytes = if *kind == Kind::Text { &bytes[..end] } else { bytes };
                self.payload(bytes, *kind, into)
            }
            Stored::Varying { dtype, big_endian, kind } => {
                let bytes = self.varying(row, dtype.size())?;
                if *kind != Kind::Array {
                    return self.payload(&bytes, *kind, into);
                }
                let range = into.append(&bytes);
                if *big_endian {
                    into.bytes_mut(&range).chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
                }
                let mut shape = [0; MAX_DIMENSIONS];
                shape[0] = (bytes.len() / dtype.size()) as u64;
                Ok(Value::Array { dtype: *dtype, dimensions: 1, shape, bytes: range })
            }
        }
    }

    fn payload(
        &self,
        bytes: &[u8],
        kind: Kind,
        into: &mut SampleBuffer,
    ) -> hdf5_reader::error::Result<Value> {
        if kind == Kind::Text && std::str::from_utf8(bytes).is_err() {
            let reason = format!("'{}' is not UTF-8", self.name);
            return Err(hdf5_reader::error::Error::InvalidData(reason));
        }
        let range = into.append(bytes);
        Ok(match kind {
            Kind::Image => {
                Value::Image { index: range.end..range.end, bytes: range, meta: ImageMeta::UNKNOWN }
            }
            _ => Value::Bytes(range),
        })
    }

    fn selection(&self, row: u64) -> SliceInfo {
        let mut selection = SliceInfo::all(self.dataset.ndim());
        selection.selections[0] = SliceInfoElem::Index(row);
        selection
    }

    fn fill<const N: usize>(&self, row: u64, room: &mut [u8]) -> hdf5_reader::error::Result<()> {
        let found = self.dataset.read_slice::<Plain<N>>(&self.selection(row))?;
        if found.len() * N != room.len() {
            return Err(hdf5_reader::error::Error::InvalidData("a row of another length".to_owned()));
        }
        for (place, Plain(bytes)) in room.chunks_exact_mut(N).zip(&found) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// The bytes that a row refers to.
    fn varying(&self, row: u64, size: usize) -> hdf5_reader::error::Result<Vec<u8>> {
        let selection = self.selection(row);
        let mut reference = [0; 16];
        let length = match self.dataset.vlen_reference_size() {
            16 => first(&self.dataset.read_slice::<Plain<16>>(&selection)?, &mut reference),
            12 => first(&self.dataset.read_slice::<Plain<12>>(&selection)?, &mut reference),
            _ => 0,
        };
        self.dataset.resolve_vlen_reference_bytes(&reference[..length], size)
    }
}

/// Copies the first element and returns its length.
fn first<'a, const N: usize>(found: impl IntoIterator<Item = &'a Plain<N>>, room: &mut [u8]) -> usize {
    found.into_iter().next().map_or(0, |Plain(bytes)| {
        room[..N].copy_from_slice(bytes);
        N
    })
}

fn stored(dataset: &Dataset, rows: u64, sides: &[u64], kind: Option<Kind>) -> Result<Stored, String> {
    let (dtype, sides) = match dataset.dtype() {
        // An array in every element adds dimensions to the row.
        Datatype::Array { base, dims } => (&**base, [sides, dims].concat()),
        dtype => (dtype, sides.to_vec()),
    };
    if let Some((number, big_endian)) = number(dataset, dtype)? {
        let header = RowHeader::new(number, big_endian, rows, &sides)?;
        return Ok(Stored::Numbers(header, RowValue::new(&header, kind)?));
    }
    if !sides.is_empty() {
        return Err(format!("rows of shape {sides:?} of texts or lists are not supported"));
    }
    match dtype {
        Datatype::String { .. } if fixed_length(dtype).is_some() => {
            Ok(Stored::Fixed(text_or(kind, Kind::Text)?))
        }
        Datatype::Opaque { .. } => Ok(Stored::Fixed(text_or(kind, Kind::Bytes)?)),
        Datatype::String { .. } => varying_text(kind),
        Datatype::VarLen { kind: hdf5_reader::messages::datatype::VarLenKind::String, .. } => {
            varying_text(kind)
        }
        Datatype::VarLen { base, .. } => varying_list(dataset, base, rows, kind),
        other => Err(format!("elements of type {} are not supported", name_of(other))),
    }
}

fn text_or(kind: Option<Kind>, usual: Kind) -> Result<Kind, String> {
    match kind {
        None => Ok(usual),
        Some(kind @ (Kind::Text | Kind::Json | Kind::Bytes | Kind::Image)) => Ok(kind),
        Some(kind) => Err(format!("texts and bytes are not {kind:?}")),
    }
}

fn varying_text(kind: Option<Kind>) -> Result<Stored, String> {
    Ok(Stored::Varying { dtype: DType::U8, big_endian: false, kind: text_or(kind, Kind::Text)? })
}

/// Lists of bytes are files, and images if the first one looks like one; other lists are arrays.
fn varying_list(dataset: &Dataset, base: &Datatype, rows: u64, kind: Option<Kind>) -> Result<Stored, String> {
    let Some((dtype, big_endian)) = number(dataset, base)? else {
        return Err(format!("lists of {} are not supported", name_of(base)));
    };
    if dtype != DType::U8 {
        return match kind {
            None | Some(Kind::Array) => Ok(Stored::Varying { dtype, big_endian, kind: Kind::Array }),
            Some(kind) => Err(format!("lists of {} are not {kind:?}", dtype.name())),
        };
    }
    let stored = |kind| Stored::Varying { dtype, big_endian, kind };
    if kind == Some(Kind::Array) {
        return Ok(stored(Kind::Array));
    }
    let column = Column { name: String::new(), rows, dataset: dataset.clone(), stored: stored(Kind::Bytes) };
    let first = (kind.is_none() && rows > 0).then(|| column.varying(0, 1).unwrap_or_default());
    let image = first.is_some_and(|bytes| sniff::is_image(&bytes));
    Ok(stored(text_or(kind, if image { Kind::Image } else { Kind::Bytes })?))
}

fn name_of(dtype: &Datatype) -> &'static str {
    match dtype {
        Datatype::Compound { .. } => "compound (records)",
        Datatype::Reference { .. } => "reference",
        Datatype::Bitfield { .. } => "bit field",
        Datatype::Array { .. } => "array",
        Datatype::Enum { .. } => "enumeration",
        _ => "another kind",
    }
}

/// The element type of numbers, and whether they are big-endian. `None` for other types.
fn number(dataset: &Dataset, dtype: &Datatype) -> Result<Option<(DType, bool)>, String> {
    let turned = |order: &ByteOrder| *order == ByteOrder::BigEndian;
    Ok(match dtype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            let dtype = match (size, signed) {
                (1, false) => DType::U8,
                (2, false) => DType::U16,
                (4, false) => DType::U32,
                (8, false) => DType::U64,
                (1, true) => DType::I8,
                (2, true) => DType::I16,
                (4, true) => DType::I32,
                (8, true) => DType::I64,
                _ => return Err(format!("integers of {size} bytes are not supported")),
            };
            Some((dtype, turned(byte_order)))
        }
        Datatype::FloatingPoint { size, byte_order } => {
            Some((float(*size, dataset.dtype() == dtype, dataset)?, turned(byte_order)))
        }
        // h5py writes booleans like this.
        Datatype::Enum { base, members } => {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            let truth = names == ["FALSE", "TRUE"];
            match number(dataset, base)? {
                Some((DType::I8 | DType::U8, turned)) if truth => Some((DType::Bool, turned)),
                other => other,
            }
        }
        _ => None,
    })
}

/// The type of a float: two bytes may be a float16 or a bfloat16, which only the type's own description shows.
fn float(size: u8, outermost: bool, dataset: &Dataset) -> Result<DType, String> {
    match size {
        4 => Ok(DType::F32),
        8 => Ok(DType::F64),
        2 if outermost => {
            // Eight bytes of header, then offset u16, precision u16, position and size of the exponent u8.
            let raw = dataset.raw_datatype().map_err(|error| error.to_string())?;
            match raw.get(13) {
                Some(5) => Ok(DType::F16),
                Some(8) => Ok(DType::BF16),
                _ => Err("floats of two bytes of an unusual layout are not supported".to_owned()),
            }
        }
        _ => Err(format!("floats of {size} bytes are not supported here")),
    }
}
