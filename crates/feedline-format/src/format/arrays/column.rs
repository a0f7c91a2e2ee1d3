//! One array of a NumPy file, row by row.

use std::ops::Range;
use std::sync::Arc;

use super::super::npy::RowHeader;
use super::super::rows::RowValue;
use crate::error::{Error, Location, Result};
use crate::sample::{ImageMeta, Kind, SampleBuffer, Value};
use crate::source::{HeldBytes, Object};

/// Maximum size of arrays of numbers that are kept in memory: samplers need labels without reading samples.
const HELD_AT_MOST: u64 = 64 << 20;
/// Maximum length of a header.
const LONGEST_HEADER: u64 = 64 * 1024;

/// Where an array's file is stored.
#[derive(Debug)]
pub(super) enum Bytes {
    /// A range of an object.
    InFile {
        /// The object.
        object: Arc<dyn Object>,
        /// The bytes in it.
        range: Range<u64>,
    },
    /// In memory.
    Here(HeldBytes),
}

impl Bytes {
    fn len(&self) -> u64 {
        match self {
            Bytes::InFile { range, .. } => range.end - range.start,
            Bytes::Here(bytes) => bytes.len() as u64,
        }
    }

    fn hold(&self, range: Range<u64>) -> Result<HeldBytes> {
        match self {
            Bytes::InFile { object, range: whole } => {
                object.hold(whole.start + range.start..whole.start + range.end)
            }
            Bytes::Here(bytes) => {
                Ok(HeldBytes::Owned(bytes[range.start as usize..range.end as usize].to_vec().into()))
            }
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self {
            Bytes::InFile { object, range } => object.read_at(range.start + offset, into),
            Bytes::Here(bytes) => {
                let start = offset as usize;
                into.copy_from_slice(&bytes[start..start + into.len()]);
                Ok(())
            }
        }
    }
}

/// Why an array cannot be used: an error in the file, or of the system.
pub(super) enum Refusal {
    Reason(String, String),
    Error(Error),
}

impl Refusal {
    pub(super) fn into_error(self, place: &Location) -> Error {
        match self {
            Refusal::Reason(name, reason) => Error::data(place.clone().with_field(name), reason),
            Refusal::Error(error) => error,
        }
    }
}

/// One array.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) rows: u64,
    bytes: Bytes,
    header: RowHeader,
    becomes: RowValue,
}

impl Column {
    /// The array in `bytes`, as `kind` if it is given.
    pub(super) fn new(name: String, bytes: Bytes, kind: Option<Kind>) -> Result<Self, Refusal> {
        let head = bytes.hold(0..bytes.len().min(LONGEST_HEADER)).map_err(Refusal::Error)?;
        let wrong = |reason: String| Refusal::Reason(name.clone(), reason);
        let header = RowHeader::parse(&head).map_err(wrong)?;
        let needed = header.rows.checked_mul(header.row_bytes as u64);
        let fits = needed.and_then(|n| n.checked_add(header.data)).is_some_and(|end| end <= bytes.len());
        if !fits {
            let reason = format!("{} rows of {} bytes do not fit: truncated?", header.rows, header.row_bytes);
            return Err(wrong(reason));
        }
        let becomes = RowValue::new(&header, kind).map_err(wrong)?;
        let whole = header.rows * header.row_bytes as u64;
        let (mut bytes, mut header) = (bytes, header);
        if becomes == RowValue::Int && whole <= HELD_AT_MOST {
            let held = bytes.hold(header.data..header.data + whole).map_err(Refusal::Error)?;
            bytes = Bytes::Here(held);
            header.data = 0;
        }
        Ok(Column { name, rows: header.rows, bytes, header, becomes })
    }

    pub(super) fn kind(&self) -> Kind {
        self.becomes.kind()
    }

    /// Name, type and shape, for the fingerprint.
    pub(super) fn describe(&self) -> String {
        format!("{} {} {} {:?}", self.name, self.header.dtype.name(), self.rows, self.header.sides())
    }

    pub(super) fn image_meta(&self) -> Option<ImageMeta> {
        self.becomes.image_meta()
    }

    /// The number in row `row`, if the array is in memory.
    pub(super) fn int(&self, row: u64) -> Option<i64> {
        let Bytes::Here(_) = &self.bytes else { return None };
        if self.becomes != RowValue::Int {
            return None;
        }
        let mut number = [0; 8];
        let room = &mut number[..self.header.row_bytes];
        self.bytes.read_at(self.header.data + row * self.header.row_bytes as u64, room).ok()?;
        self.header.int(room).ok()
    }

    /// The bytes of row `row` in the file.
    pub(super) fn extent(&self, row: u64) -> Option<Range<u64>> {
        let Bytes::InFile { range, .. } = &self.bytes else { return None };
        let start = range.start + self.header.data + row * self.header.row_bytes as u64;
        Some(start..start + self.header.row_bytes as u64)
    }

    /// Row `row`, which is below the number of rows.
    pub(super) fn read(&self, row: u64, into: &mut SampleBuffer) -> Result<Value, Refusal> {
        let length = self.header.row_bytes;
        let (range, room) = into.reserve(length);
        self.bytes.read_at(self.header.data + row * length as u64, room).map_err(Refusal::Error)?;
        let value = self.becomes.value(&self.header, range, into);
        value.map_err(|reason| Refusal::Reason(self.name.clone(), reason))
    }
}
