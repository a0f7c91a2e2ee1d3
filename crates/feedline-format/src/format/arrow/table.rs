//! One Arrow file or stream at any offset of an object: rows by number.
//!
//! Opening reads the messages' headers. Small buffers (offsets, validity, numbers) are read whole when a row of their
//! batch is first wanted, and kept in [`Pieces`]. Bytes and elements of lists are read by range, so that an image is
//! one read. Compressed buffers are decompressed whole and kept in the same place. Other columns (structs, maps,
//! lists of texts) are decoded to Arrow arrays, batch by batch.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema as ArrowSchema};

use super::super::columns::{Column, Shape, value};
use super::super::lru_cache::{ByteSize, LruCache};
use super::inflate::inflate;
use super::layout::{Layout, Node};
use super::message::{self, Batch};
use crate::error::{Error, Location, Result};
use crate::sample::{SampleBuffer, Value};
use crate::source::Object;

/// Maximum size of the buffers that are kept; the same again for arrays.
const KEPT_BYTES: usize = 256 << 20;

/// Table, batch and buffer (or column).
type Key = (u32, u32, u32);
/// In a key: a dictionary, not a batch.
const DICTIONARY: u32 = 1 << 31;

/// Cached parts of all tables of a data set.
#[derive(Debug)]
pub(in crate::format) struct Pieces {
    buffers: LruCache<Key, Vec<u8>>,
    arrays: LruCache<Key, DecodedColumn>,
}

#[derive(Debug)]
struct DecodedColumn(ArrayRef);

impl ByteSize for DecodedColumn {
    fn weight(&self) -> usize {
        self.0.get_array_memory_size()
    }
}

impl Pieces {
    pub(in crate::format) fn new() -> Self {
        Pieces { buffers: LruCache::new(KEPT_BYTES), arrays: LruCache::new(KEPT_BYTES) }
    }
}

/// An open table. Each call gets its object, so that the caller decides how many files are open.
#[derive(Debug)]
pub(in crate::format) struct IpcTable {
    schema: ArrowSchema,
    layout: Layout,
    batches: Vec<Batch>,
    /// First row of each batch, and the number of rows.
    first_rows: Vec<u64>,
    dictionaries: HashMap<i64, (u32, Batch)>,
    pieces: Arc<Pieces>,
    number: u32,
    place: Location,
    unterminated: bool,
}

/// A batch and its index.
#[derive(Clone, Copy)]
pub(super) struct NumberedBatch<'a> {
    pub(super) batch: &'a Batch,
    number: u32,
}

impl IpcTable {
    /// Reads the headers of the file or stream at `range` of `object`. `number` distinguishes the tables that share
    /// `pieces`; `place` is for messages.
    pub(in crate::format) fn open(
        object: &dyn Object,
        range: Range<u64>,
        place: Location,
        pieces: Arc<Pieces>,
        number: u32,
    ) -> Result<Self> {
        let found = message::scan(object, range, &place)?;
        let bad = |reason: String| Error::data(place.clone(), reason);
        let fields = found.schema.fields().iter().map(AsRef::as_ref);
        let layout = Layout::new(fields, &found.dictionary_ids).map_err(bad)?;
        let mut first_rows = vec![0u64];
        for batch in &found.batches {
            layout.check(batch).map_err(bad)?;
            let next = first_rows.last().and_then(|last| last.checked_add(batch.rows));
            first_rows.push(next.ok_or_else(|| bad("more rows than can be counted".to_owned()))?);
        }
        let dictionaries = found.dictionaries.into_iter().enumerate();
        let dictionaries = dictionaries.map(|(n, (id, batch))| (id, (n as u32, batch))).collect();
        let unterminated = found.unterminated;
        let (schema, batches) = (found.schema, found.batches);
        Ok(IpcTable {
            schema,
            layout,
            batches,
            first_rows,
            dictionaries,
            pieces,
            number,
            place,
            unterminated,
        })
    }

    /// Number of rows.
    pub(in crate::format) fn rows(&self) -> u64 {
        self.first_rows.last().copied().unwrap_or(0)
    }

    /// Columns and metadata.
    pub(in crate::format) fn schema(&self) -> &ArrowSchema {
        &self.schema
    }

    /// Whether a stream lacks its end mark.
    pub(super) fn is_unterminated(&self) -> bool {
        self.unterminated
    }

    /// Whether any row of the column may be missing.
    pub(super) fn has_nulls(&self, column: &Column) -> bool {
        let node = &self.layout.columns[column.root];
        let bytes = match column.shape {
            Shape::Stored { bytes, path: None } => Some(&node.children[bytes]),
            _ => None,
        };
        let null = |batch: &Batch| node.has_nulls(batch) || bytes.is_some_and(|child| child.has_nulls(batch));
        node.data_type == DataType::Null || self.batches.iter().any(null)
    }

    /// Offset of the first buffer of a row's batch, for messages.
    pub(super) fn offset(&self, row: u64) -> Option<u64> {
        let (inside, _) = self.find(row)?;
        inside.batch.buffers.first().map(|buffer| buffer.start)
    }

    /// The batch with this row, and the row's number in it.
    fn find(&self, row: u64) -> Option<(NumberedBatch<'_>, usize)> {
        if row >= self.rows() {
            return None;
        }
        let number = self.first_rows.partition_point(|first| *first <= row) - 1;
        let inside = NumberedBatch { batch: &self.batches[number], number: number as u32 };
        Some((inside, (row - self.first_rows[number]) as usize))
    }

    /// Reads one column of a row. `Missing` for nulls, and for files whose bytes are stored elsewhere: see
    /// [`read_path`](Self::read_path).
    pub(in crate::format) fn read_value(
        &self,
        object: &dyn Object,
        row: u64,
        column: &Column,
        into: &mut SampleBuffer,
    ) -> Result<Value> {
        let (inside, row) = self.find(row).ok_or_else(|| self.past_end(row))?;
        let node = &self.layout.columns[column.root];
        if let Some(value) = self.direct(object, inside, node, column, row, into)? {
            return Ok(value);
        }
        let array = self.array(object, inside, column.root as u32, node)?;
        value(column, &*array.0, row, into).map_err(|reason| self.bad(reason))
    }

    /// The path of a file whose bytes are not stored here.
    pub(in crate::format) fn read_path(
        &self,
        object: &dyn Object,
        row: u64,
        column: &Column,
    ) -> Result<Option<String>> {
        let Shape::Stored { path: Some(path), .. } = column.shape else { return Ok(None) };
        let (inside, row) = self.find(row).ok_or_else(|| self.past_end(row))?;
        let node = &self.layout.columns[column.root];
        let child = &node.children[path];
        if self.is_null(object, inside, node, row)? || self.is_null(object, inside, child, row)? {
            return Ok(None);
        }
        let range = self.byte_range(object, inside, child, row)?;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_range(object, inside, child.buffer(inside.batch, 2), range, &mut bytes)?;
        let text = String::from_utf8(bytes).map_err(|_| self.bad("a path that is not UTF-8"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn past_end(&self, row: u64) -> Error {
        self.bad(format!("row {row} of {}", self.rows()))
    }

    pub(super) fn bad(&self, reason: impl Into<String>) -> Error {
        Error::data(self.place.clone(), reason)
    }

    /// A whole buffer, decompressed.
    pub(super) fn piece(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        buffer: usize,
    ) -> Result<Arc<Vec<u8>>> {
        let range = inside.batch.buffers[buffer].clone();
        self.pieces.buffers.get((self.number, inside.number, buffer as u32), || {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            object.read_at(range.start, &mut bytes)?;
            match inside.batch.codec {
                None => Ok(bytes),
                Some(codec) => inflate(codec, &bytes)
                    .map_err(|reason| Error::data(self.place.clone().with_offset(range.start), reason)),
            }
        })
    }

    /// Fills `room` from `range` of a buffer, without reading the rest of it if possible.
    pub(super) fn read_range(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        buffer: usize,
        range: Range<u64>,
        room: &mut [u8],
    ) -> Result<()> {
        if room.is_empty() {
            return Ok(());
        }
        if inside.batch.codec.is_some() {
            let whole = self.piece(object, inside, buffer)?;
            let bytes = whole.get(range.start as usize..range.end as usize);
            room.copy_from_slice(bytes.ok_or_else(|| self.bad("a value reaches past its buffer"))?);
            return Ok(());
        }
        let place = self.absolute(inside, buffer, &range)?;
        object.read_at(place.start, room)
    }

    /// Range in the object for a range of an uncompressed buffer.
    pub(super) fn absolute(
        &self,
        inside: NumberedBatch<'_>,
        buffer: usize,
        range: &Range<u64>,
    ) -> Result<Range<u64>> {
        let whole = &inside.batch.buffers[buffer];
        if range.start > range.end || range.end > whole.end - whole.start {
            return Err(self.bad("a value reaches past its buffer"));
        }
        Ok(whole.start + range.start..whole.start + range.end)
    }

    /// The batch's column as an array.
    fn array(
        &self,
        object: &dyn Object,
        inside: NumberedBatch<'_>,
        column: u32,
        node: &Node,
    ) -> Result<Arc<DecodedColumn>> {
        self.pieces.arrays.get((self.number, inside.number, column), || {
            Ok(DecodedColumn(make_array(self.array_data(object, inside, node)?)))
        })
    }

    fn array_data(&self, object: &dyn Object, inside: NumberedBatch<'_>, node: &Node) -> Result<ArrayData> {
        let (length, nulls) = inside.batch.nodes[node.number];
        let length = usize::try_from(length).map_err(|_| self.bad("a column that does not fit in memory"))?;
        let buffer = |which: usize| {
            let bytes = self.piece(object, inside, node.buffer(inside.batch, which))?;
            let needed =
                if which == 0 { Some(length.div_ceil(8)) } else { needed_bytes(node, length, which) };
            let needed = needed.unwrap_or(bytes.len());
            let used = bytes.get(..needed).ok_or_else(|| self.bad("a column shorter than its batch"))?;
            // Copied, because Arrow needs numbers aligned.
            Ok::<_, Error>(Buffer::from_slice_ref(used))
        };
        let mut builder = ArrayData::builder(node.data_type.clone()).len(length);
        if nulls > 0 && node.data_type != DataType::Null {
            builder = builder.null_bit_buffer(Some(buffer(0)?));
        }
        let own = match node.data_type {
            DataType::Null | DataType::Struct(_) | DataType::FixedSizeList(..) => 0..0,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 1..3,
            DataType::Utf8View | DataType::BinaryView => 1..2 + node.variadic(inside.batch),
            _ => 1..2,
        };
        // An empty column may lack offsets.
        if length == 0 && node.children.is_empty() {
            return Ok(ArrayData::new_empty(&node.data_type));
        }
        for which in own {
            builder = builder.add_buffer(buffer(which)?);
        }
        for child in &node.children {
            builder = builder.add_child_data(self.array_data(object, inside, child)?);
        }
        if let Some(id) = node.dictionary {
            builder = builder.add_child_data(self.dictionary(object, id, &node.data_type)?);
        }
        builder.build().map_err(|e| self.bad(format!("a damaged column: {e}")))
    }

    fn dictionary(&self, object: &dyn Object, id: i64, data_type: &DataType) -> Result<ArrayData> {
        let DataType::Dictionary(_, values) = data_type else {
            return Err(self.bad("not a dictionary column"));
        };
        let (number, batch) =
            self.dictionaries.get(&id).ok_or_else(|| self.bad(format!("dictionary {id} is missing")))?;
        let field = Field::new("values", (**values).clone(), true);
        let layout = Layout::new([&field].into_iter(), &[]).map_err(|reason| self.bad(reason))?;
        layout.check(batch).map_err(|reason| self.bad(reason))?;
        let inside = NumberedBatch { batch, number: number | DICTIONARY };
        Ok(self.array(object, inside, 0, &layout.columns[0])?.0.to_data())
    }
}

/// Minimum length of buffer `which` of a node. Arrow's own check assumes whole elements.
fn needed_bytes(node: &Node, length: usize, which: usize) -> Option<usize> {
    use DataType as T;
    if which > 1 {
        return None;
    }
    let data_type = match &node.data_type {
        T::Dictionary(keys, _) => keys,
        other => other,
    };
    match data_type {
        T::Boolean => Some(length.div_ceil(8)),
        T::Utf8 | T::Binary | T::List(_) | T::Map(..) => length.checked_add(1)?.checked_mul(4),
        T::LargeUtf8 | T::LargeBinary | T::LargeList(_) => length.checked_add(1)?.checked_mul(8),
        T::Utf8View | T::BinaryView => length.checked_mul(16),
        T::FixedSizeBinary(each) => length.checked_mul(usize::try_from(*each).ok()?),
        other => length.checked_mul(other.primitive_width()?),
    }
}

mod direct;
