//! Windows of a fixed length over the arrays of one field: samples of a language model.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::field::{FieldSpec, Kind};
use crate::format::{Extents, Format, Index};
use crate::sample::{
    DType, Extent, FieldSet, Fingerprint, ImageMeta, MAX_DIMENSIONS, SampleBuffer, Schema, Value,
};
use crate::source::check_wanted;

/// Which windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Elements per window.
    pub length: u64,
    /// Elements from the start of a window to the start of the next.
    pub stride: u64,
    /// Whether windows run on from one array into the next, as if all were one.
    pub across: bool,
}

/// Windows over a field with one-dimensional arrays. A sample is a window; it has this field alone.
#[derive(Debug)]
pub struct Windowed {
    inner: Arc<dyn Format>,
    field: usize,
    dtype: DType,
    windows: Windows,
    /// Elements up to and including each array.
    ends: Box<[u64]>,
    /// Windows up to and including each array, if they stay within arrays.
    window_ends: Option<Box<[u64]>>,
    count: u64,
    schema: Schema,
}

thread_local! {
    /// An array that can only be read whole.
    static WHOLE: RefCell<SampleBuffer> = RefCell::new(SampleBuffer::new());
}

impl Windowed {
    /// Windows over the arrays in `field` of `inner`. Reads every array once if their lengths are not known.
    pub fn new(inner: Arc<dyn Format>, field: usize, windows: Windows) -> Result<Self> {
        if windows.length == 0 || windows.stride == 0 {
            return Err(Error::option("transforms", "a window and its stride have at least one token"));
        }
        let (dtype, ends) = lengths(&*inner, field)?;
        let total = ends.last().copied().unwrap_or(0);
        let fitting = |tokens: u64| match tokens.checked_sub(windows.length) {
            None => 0,
            Some(rest) => rest / windows.stride + 1,
        };
        let window_ends = (!windows.across).then(|| {
            let mut sum = 0;
            let each = |at: usize| ends[at] - if at == 0 { 0 } else { ends[at - 1] };
            (0..ends.len())
                .map(|at| {
                    sum += fitting(each(at));
                    sum
                })
                .collect::<Box<[u64]>>()
        });
        let count =
            window_ends.as_ref().map_or_else(|| fitting(total), |ends| ends.last().copied().unwrap_or(0));
        if count == 0 {
            let one = if windows.across { "" } else { "; no document is long enough" };
            let reason = format!("a window takes {} tokens, but there are {total}{one}", windows.length);
            return Err(Error::option("transforms", reason));
        }
        let name = &inner.schema().fields[field].name;
        let schema = Schema { fields: vec![FieldSpec::new(name, Kind::Array)], classes: None };
        Ok(Windowed { inner, field, dtype, windows, ends, window_ends, count, schema })
    }

    /// Number of elements in all arrays.
    pub fn elements(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The window's first element, counted over all arrays.
    fn start(&self, sample: u64) -> u64 {
        let Some(window_ends) = &self.window_ends else { return sample * self.windows.stride };
        let array = window_ends.partition_point(|end| *end <= sample);
        let before = |ends: &[u64]| if array == 0 { 0 } else { ends[array - 1] };
        before(&self.ends) + (sample - before(window_ends)) * self.windows.stride
    }

    /// The parts of arrays that make up a window: array and elements of each.
    fn parts(&self, sample: u64) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
        let start = self.start(sample);
        let end = start + self.windows.length;
        let first = self.ends.partition_point(|end| *end <= start);
        (first..self.ends.len()).map_while(move |at| {
            let from = if at == 0 { 0 } else { self.ends[at - 1] };
            let part = start.max(from)..end.min(self.ends[at]);
            (from < end).then(|| (at as u64, part.start - from..part.end.max(part.start) - from))
        })
    }

    fn check(&self, sample: u64) -> Result<()> {
        if sample < self.count {
            return Ok(());
        }
        Err(Error::option("index", format!("window {sample} is out of range: there are {}", self.count)))
    }

    /// Fills `room` with elements of an array.
    fn read_part(&self, array: u64, elements: &Range<u64>, room: &mut [u8]) -> Result<()> {
        if self.inner.array_length(array, self.field).is_some() {
            return self.inner.read_elements(array, self.field, elements.start, room);
        }
        WHOLE.with_borrow_mut(|buffer| {
            let only = FieldSet::only(self.inner.schema().fields.len(), [self.field]);
            self.inner.read(array, &only, buffer)?;
            let size = self.dtype.size() as u64;
            let bytes = match buffer.value(self.field) {
                Value::Array { dtype, bytes, .. } if *dtype == self.dtype => buffer.bytes(bytes),
                _ => return Err(Error::data(self.inner.locate(array), "the array's type has changed")),
            };
            let found = bytes.get((elements.start * size) as usize..(elements.end * size) as usize);
            let changed = || Error::data(self.inner.locate(array), "the array has become shorter");
            room.copy_from_slice(found.ok_or_else(changed)?);
            Ok(())
        })
    }
}

/// The element type of the arrays in a field, and their lengths added up.
fn lengths(inner: &dyn Format, field: usize) -> Result<(DType, Box<[u64]>)> {
    let mut buffer = SampleBuffer::new();
    let only = FieldSet::only(inner.schema().fields.len(), [field]);
    let mut found: Option<DType> = None;
    let (mut total, mut ends) = (0u64, Vec::new());
    let room = usize::try_from(inner.len()).unwrap_or(usize::MAX);
    ends.try_reserve_exact(room)
        .map_err(|_| Error::out_of_memory(8 * room as u64, "the lengths of documents"))?;
    for array in 0..inner.len() {
        check_wanted()?;
        let (dtype, length) = match inner.array_length(array, field) {
            Some(known) => known,
            None => read_length(inner, array, field, &only, &mut buffer)?,
        };
        if *found.get_or_insert(dtype) != dtype {
            let first = found.map_or("", DType::name);
            let reason = format!("tokens of {}, but the first sample's are {first}", dtype.name());
            return Err(Error::data(inner.locate(array), reason));
        }
        total = total.saturating_add(length);
        ends.push(total);
    }
    Ok((found.unwrap_or(DType::U16), ends.into()))
}

fn read_length(
    inner: &dyn Format,
    array: u64,
    field: usize,
    only: &FieldSet,
    buffer: &mut SampleBuffer,
) -> Result<(DType, u64)> {
    crate::format::read(inner, array, only, buffer)?;
    match buffer.value(field) {
        Value::Array { dtype, dimensions: 1, shape, .. } => Ok((*dtype, shape[0])),
        Value::Array { dimensions, .. } => {
            let reason = format!("tokens are one-dimensional arrays; this one has {dimensions} dimensions");
            Err(Error::data(inner.locate(array), reason))
        }
        _ => Ok((DType::U16, 0)),
    }
}

impl Format for Windowed {
    forward_description!(inner);

    fn len(&self) -> u64 {
        self.count
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        let Windows { length, stride, across } = self.windows;
        let numbers: Vec<u8> =
            [length, stride, u64::from(across)].iter().flat_map(|n| n.to_le_bytes()).collect();
        Fingerprint::of([&b"windows"[..], &self.inner.fingerprint().0, &numbers])
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(1);
        self.check(sample)?;
        if !fields.has(0) {
            return Ok(());
        }
        let (length, size) = (self.windows.length, self.dtype.size());
        let (bytes, mut room) = into.reserve(length as usize * size);
        for (array, elements) in self.parts(sample) {
            let (part, rest) = room.split_at_mut((elements.end - elements.start) as usize * size);
            self.read_part(array, &elements, part)?;
            room = rest;
        }
        let mut shape = [0; MAX_DIMENSIONS];
        shape[0] = length;
        into.set(0, Value::Array { dtype: self.dtype, dimensions: 1, shape, bytes });
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let first = self.parts(sample).next();
        first.map_or_else(Location::default, |(array, _)| self.inner.locate(array))
    }
}

impl Index for Windowed {
    fn byte_length(&self, _sample: u64, _field: usize) -> Option<u64> {
        None
    }

    fn knows_byte_lengths(&self, _field: usize) -> bool {
        false
    }

    fn read_bytes(&self, sample: u64, _field: usize, _into: &mut [u8]) -> Result<()> {
        Err(Error::data(self.locate(sample), "windows are not read in place"))
    }

    /// A window is a part of a stored value.
    fn stored_at(&self, _sample: u64, _field: usize) -> Result<Option<Extent>> {
        Ok(None)
    }

    fn stored_index(&self, _sample: u64, _field: usize) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn piece_table(&self, _sample: u64, _field: usize, _into: &mut Vec<u8>) -> Result<Option<u64>> {
        Ok(None)
    }

    fn read_part(&self, sample: u64, _field: usize, _offset: u64, _into: &mut [u8]) -> Result<()> {
        Err(Error::data(self.locate(sample), "windows are not read in parts"))
    }

    fn image_meta(&self, _sample: u64, _field: usize) -> Option<ImageMeta> {
        None
    }

    fn int_value(&self, _sample: u64, _field: usize) -> Option<i64> {
        None
    }

    fn array_length(&self, sample: u64, _field: usize) -> Option<(DType, u64)> {
        (sample < self.count).then_some((self.dtype, self.windows.length))
    }

    fn read_elements(&self, sample: u64, _field: usize, _first: u64, _into: &mut [u8]) -> Result<()> {
        Err(Error::data(self.locate(sample), "windows of windows are not read"))
    }
}

impl Extents for Windowed {
    forward_objects!(inner);

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn prepare(&self, samples: &[u64]) {
        let arrays = samples.iter().filter(|sample| **sample < self.count);
        let arrays: Vec<u64> =
            arrays.flat_map(|sample| self.parts(*sample).map(|(array, _)| array)).collect();
        self.inner.prepare(&arrays);
    }

    fn extents(&self, sample: u64, _fields: &FieldSet, out: &mut Vec<Extent>) {
        if sample < self.count {
            for (array, elements) in self.parts(sample) {
                self.inner.element_extents(array, self.field, elements, out);
            }
        }
    }

    fn element_extents(&self, _sample: u64, _field: usize, _elements: Range<u64>, _out: &mut Vec<Extent>) {}
}
