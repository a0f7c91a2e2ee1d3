//! Chunks whose items are the rows of an Arrow table: an IPC file (or, from older writers, a stream) after the table
//! of offsets, which are then all equal.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_ipc::{Block, CompressionType, Message, RecordBatch};

use super::batch::{Batch, Codec};
use super::chunk::{Bytes, Wrong};
use super::column::{Columns, Shape};

/// Last bytes of a chunk with an Arrow body; the body's length precedes them.
const MAGIC: &[u8; 8] = b"LDARW01\0";
const TAIL: u64 = 12;
/// First and last bytes of an IPC file.
const FILE_MAGIC: &[u8; 6] = b"ARROW1";
/// Length of the footer's length and the magic.
const FILE_TAIL: u64 = 10;
/// Before each message: a marker and the length of its metadata.
const MESSAGE_HEAD: u64 = 8;
/// Maximum length of a record batch's metadata.
const MOST_METADATA: u64 = 16 << 20;

/// Where the rows of an Arrow body are stored.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) columns: Columns,
    /// Ranges of metadata and body of each record batch in the chunk.
    blocks: Vec<(Range<u64>, u64)>,
    batches: OnceLock<Batches>,
    /// The column of each field; filled at the first read.
    pub(super) fields: OnceLock<Vec<Option<usize>>>,
    count: u64,
}

/// Metadata of all record batches.
#[derive(Debug)]
pub(super) struct Batches {
    places: Vec<BatchPlace>,
    /// First row of each batch, and the number of rows.
    starts: Vec<u64>,
    /// Batches that are kept for good: only the parts that are like an index (offsets, numbers), not the values
    /// themselves.
    resident: Option<Vec<OnceLock<Batch>>>,
}

/// Where one record batch's buffers are stored in the chunk.
#[derive(Debug)]
pub(super) struct BatchPlace {
    pub(super) codec: Option<Codec>,
    pub(super) nodes: Vec<Node>,
    pub(super) buffers: Vec<Range<u64>>,
}

/// Length and number of nulls of a column in a record batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) length: u64,
    pub(super) has_nulls: bool,
}

/// Place of a row: its record batch, and its index there.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPlace {
    pub(super) batch: usize,
    pub(super) row: u64,
}

impl Rows {
    /// The Arrow body after the items, which end at `start`, if there is one.
    pub(super) fn find(bytes: &Bytes<'_>, start: u64, count: u64) -> Result<Option<Rows>, Wrong> {
        let size = bytes.size();
        let Some(end) = size.checked_sub(TAIL).filter(|end| *end > start) else { return Ok(None) };
        let tail = bytes.copy(end..size)?;
        let length = u32::from_le_bytes(tail[..4].try_into().expect("four bytes"));
        if tail[4..] != *MAGIC || u64::from(length) != end - start {
            return Ok(None);
        }
        let head = bytes.copy(start..end.min(start + 8))?;
        let (columns, blocks) = if head.starts_with(FILE_MAGIC) {
            from_footer(bytes, start..end)?
        } else {
            from_stream(bytes, start..end)?
        };
        let rows = Rows { columns, blocks, batches: OnceLock::new(), fields: OnceLock::new(), count };
        Ok(Some(rows))
    }

    /// The record batches' metadata, read at the first call.
    pub(super) fn batches(&self, bytes: &Bytes<'_>) -> Result<&Batches, Wrong> {
        if let Some(batches) = self.batches.get() {
            return Ok(batches);
        }
        let read = self.read_batches(bytes)?;
        Ok(self.batches.get_or_init(|| read))
    }

    fn read_batches(&self, bytes: &Bytes<'_>) -> Result<Batches, Wrong> {
        let (mut places, mut starts) = (Vec::new(), vec![0u64]);
        for (metadata, body_end) in &self.blocks {
            let message = bytes.copy(metadata.start + MESSAGE_HEAD..metadata.end)?;
            let at = |reason: String| Wrong::At(metadata.start, reason);
            let batch = record_batch(&message).map_err(at)?;
            let rows = u64::try_from(batch.length())
                .map_err(|_| at("a record batch has a negative length".to_owned()))?;
            places.push(place(batch, &self.columns, metadata.end..*body_end).map_err(at)?);
            let total = starts[starts.len() - 1].checked_add(rows).filter(|total| *total <= self.count);
            starts.push(
                total.ok_or_else(|| at(format!("the record batches hold more than {} rows", self.count)))?,
            );
        }
        let total = starts[starts.len() - 1];
        if total != self.count {
            let reason = format!("the record batches hold {total} rows, the chunk {} items", self.count);
            return Err(Wrong::At(self.blocks.first().map_or(0, |(m, _)| m.start), reason));
        }
        let flat = self.columns.flat.iter().all(|f| f.column.shape.kind() != Some(crate::sample::Kind::Json));
        let resident = flat && places.iter().all(|p| p.codec.is_none());
        let cells = resident.then(|| places.iter().map(|_| OnceLock::new()).collect());
        Ok(Batches { places, starts, resident: cells })
    }

    /// Loads a record batch; the bytes of uncompressed values stay in the file.
    pub(super) fn load(&self, bytes: &Bytes<'_>, place: &BatchPlace) -> Result<Batch, Wrong> {
        let mut in_file = vec![false; self.columns.buffers];
        if place.codec.is_none() {
            for flat in &self.columns.flat {
                if let Shape::Variable { .. } = flat.column.shape {
                    in_file[flat.column.buffer + 2] = true;
                }
            }
        }
        Batch::load(bytes, place, &in_file)
    }
}

impl Batches {
    /// The place of row `row`, which is below the count.
    pub(super) fn find(&self, row: u64) -> RowPlace {
        let batch = self.starts.partition_point(|start| *start <= row) - 1;
        RowPlace { batch, row: row - self.starts[batch] }
    }

    pub(super) fn place(&self, batch: usize) -> &BatchPlace {
        &self.places[batch]
    }

    /// Record batch `batch`, if batches of this chunk are kept for good.
    pub(super) fn resident(
        &self,
        batch: usize,
        load: impl FnOnce(&BatchPlace) -> Result<Batch, Wrong>,
    ) -> Option<Result<&Batch, Wrong>> {
        let cell = &self.resident.as_ref()?[batch];
        if let Some(batch) = cell.get() {
            return Some(Ok(batch));
        }
        Some(load(&self.places[batch]).map(|loaded| cell.get_or_init(|| loaded)))
    }

    pub(super) fn are_resident(&self) -> bool {
        self.resident.is_some()
    }
}

/// The columns, and the range of the metadata and the end of the body of each record batch.
type Found = (Columns, Vec<(Range<u64>, u64)>);

fn damaged(at: u64, what: impl std::fmt::Display) -> Wrong {
    Wrong::At(at, format!("the Arrow table is damaged or cut off: {what}"))
}

fn from_footer(bytes: &Bytes<'_>, ipc: Range<u64>) -> Result<Found, Wrong> {
    let wrong = |what: &str| damaged(ipc.end, what);
    let tail_start = ipc.end.checked_sub(FILE_TAIL).filter(|at| *at >= ipc.start + 8);
    let tail_start = tail_start.ok_or_else(|| wrong("no footer"))?;
    let tail = bytes.copy(tail_start..ipc.end)?;
    let length = u64::from(u32::from_le_bytes(tail[..4].try_into().expect("four bytes")));
    let start = tail_start.checked_sub(length).filter(|at| *at >= ipc.start + 8 && length <= MOST_METADATA);
    let start = start.filter(|_| tail[4..] == *FILE_MAGIC).ok_or_else(|| wrong("no footer"))?;
    let footer = bytes.copy(start..tail_start)?;
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|e| damaged(start, e))?;
    if footer.dictionaries().is_some_and(|d| !d.is_empty()) {
        return Err(damaged(start, "dictionaries are not supported"));
    }
    let schema = footer.schema().ok_or_else(|| damaged(start, "no schema"))?;
    let columns = Columns::new(schema).map_err(|reason| Wrong::At(start, reason))?;
    let blocks =
        footer.recordBatches().map(|blocks| blocks.iter().map(|b| block(b, ipc.start..start)).collect());
    let blocks: Option<Option<Vec<_>>> = blocks;
    Ok((columns, blocks.unwrap_or_default().ok_or_else(|| damaged(start, "a block outside the file"))?))
}

/// A block of the footer as ranges in the chunk.
fn block(block: &Block, inside: Range<u64>) -> Option<(Range<u64>, u64)> {
    let start = inside.start.checked_add(u64::try_from(block.offset()).ok()?)?;
    let metadata = u64::try_from(block.metaDataLength()).ok()?;
    let end = start.checked_add(metadata)?;
    let body_end = end.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
    let right = metadata > MESSAGE_HEAD && metadata <= MOST_METADATA && body_end <= inside.end;
    right.then_some((start..end, body_end))
}

/// A stream has no footer: all messages are read, and their bodies skipped.
fn from_stream(bytes: &Bytes<'_>, ipc: Range<u64>) -> Result<Found, Wrong> {
    let (mut at, mut columns, mut blocks) = (ipc.start, None, Vec::new());
    while at + MESSAGE_HEAD <= ipc.end {
        let head = bytes.copy(at..at + MESSAGE_HEAD)?;
        let length = u64::from(u32::from_le_bytes(head[4..].try_into().expect("four bytes")));
        if head[..4] != [0xff; 4] || length > MOST_METADATA || at + MESSAGE_HEAD + length > ipc.end {
            return Err(damaged(at, "no message where one should be"));
        }
        if length == 0 {
            break;
        }
        let end = at + MESSAGE_HEAD + length;
        let metadata = bytes.copy(at + MESSAGE_HEAD..end)?;
        let message = arrow_ipc::root_as_message(&metadata).map_err(|e| damaged(at, e))?;
        let body_end = body_end(message, end).filter(|body_end| *body_end <= ipc.end);
        let body_end = body_end.ok_or_else(|| damaged(at, "a body outside the file"))?;
        if let Some(schema) = message.header_as_schema() {
            columns = Some(Columns::new(schema).map_err(|reason| Wrong::At(at, reason))?);
        } else if message.header_as_record_batch().is_some() {
            blocks.push((at..end, body_end));
        } else {
            return Err(damaged(at, "dictionaries are not supported"));
        }
        at = body_end;
    }
    Ok((columns.ok_or_else(|| damaged(ipc.start, "no schema"))?, blocks))
}

fn body_end(message: Message<'_>, start: u64) -> Option<u64> {
    start.checked_add(u64::try_from(message.bodyLength()).ok()?)
}

fn record_batch(message: &[u8]) -> Result<RecordBatch<'_>, String> {
    let message =
        arrow_ipc::root_as_message(message).map_err(|e| format!("a record batch is damaged: {e}"))?;
    message.header_as_record_batch().ok_or_else(|| "no record batch where one should be".to_owned())
}

/// The batch's buffers as ranges in the chunk, all checked to be inside the body.
fn place(batch: RecordBatch<'_>, columns: &Columns, body: Range<u64>) -> Result<BatchPlace, String> {
    let codec = match batch.compression() {
        None => None,
        Some(how) if how.codec() == CompressionType::ZSTD => Some(Codec::Zstd),
        Some(how) if how.codec() == CompressionType::LZ4_FRAME => Some(Codec::Lz4),
        Some(_) => return Err("a record batch is compressed in an unknown way".to_owned()),
    };
    let mut nodes = Vec::new();
    for node in batch.nodes().into_iter().flatten() {
        let length = u64::try_from(node.length()).map_err(|_| "a column has a negative length")?;
        nodes.push(Node { length, has_nulls: node.null_count() != 0 });
    }
    let mut buffers = Vec::new();
    for buffer in batch.buffers().into_iter().flatten() {
        let range = range_in(&body, buffer.offset(), buffer.length());
        buffers.push(range.ok_or("a buffer is outside its record batch")?);
    }
    if (nodes.len(), buffers.len()) != (columns.nodes, columns.buffers) {
        return Err("a record batch does not have the columns of the schema".to_owned());
    }
    Ok(BatchPlace { codec, nodes, buffers })
}

fn range_in(body: &Range<u64>, offset: i64, length: i64) -> Option<Range<u64>> {
    let start = body.start.checked_add(u64::try_from(offset).ok()?)?;
    let end = start.checked_add(u64::try_from(length).ok()?)?;
    (end <= body.end).then_some(start..end)
}
