//! The messages of Arrow's IPC format, read only for the offsets of buffers. Bodies are not read.

use std::ops::Range;

use arrow_ipc::{CompressionType, MessageHeader, RecordBatch};
use arrow_schema::Schema as ArrowSchema;

use crate::error::{Error, Location, Result};
use crate::source::Object;

/// Maximum length of a message's metadata, which is a list of offsets.
const MAX_METADATA: u64 = 64 << 20;
/// Bytes read at once for a message; nearly always enough.
const WINDOW: u64 = 4096;
const MAGIC: &[u8; 6] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];

/// How the buffers of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Lz4,
    Zstd,
}

/// A record batch: number of rows, and ranges of its buffers in the object.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rows: u64,
    /// Length and number of nulls of each node.
    pub(super) nodes: Box<[(u64, u64)]>,
    pub(super) buffers: Box<[Range<u64>]>,
    pub(super) variadic: Box<[u64]>,
    pub(super) codec: Option<Codec>,
}

/// Content of all messages of a stream or file.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) schema: ArrowSchema,
    /// Ids of dictionary columns, in the order of the fields, depth first.
    pub(super) dictionary_ids: Vec<i64>,
    pub(super) batches: Vec<Batch>,
    pub(super) dictionaries: Vec<(i64, Batch)>,
    /// Whether a stream lacks its end mark.
    pub(super) unterminated: bool,
}

/// Whether these first bytes begin an Arrow file or stream.
pub(super) fn begins(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || (head.starts_with(&CONTINUATION) && head.len() >= 8 && head[7] & 0x80 == 0)
}

/// Reads all messages of the file or stream at `range`.
pub(super) fn scan(object: &dyn Object, range: Range<u64>, place: &Location) -> Result<Messages> {
    let reader = Reader { object, range, place };
    let mut head = [0; 8];
    if reader.range.end - reader.range.start < 8 {
        return Err(reader.fail(reader.range.start, "too short for an Arrow file or stream"));
    }
    object.read_at(reader.range.start, &mut head)?;
    if head.starts_with(MAGIC) { reader.file() } else { reader.stream() }
}

struct Reader<'a> {
    object: &'a dyn Object,
    range: Range<u64>,
    place: &'a Location,
}

enum Message {
    Schema(ArrowSchema, Vec<i64>),
    Dictionary(i64, Batch),
    Batch(Batch),
    Other,
}

impl Reader<'_> {
    fn fail(&self, at: u64, reason: impl Into<String>) -> Error {
        Error::data(self.place.clone().with_offset(at), reason)
    }

    fn stream(&self) -> Result<Messages> {
        let mut found: Option<Messages> = None;
        let mut at = self.range.start;
        let mut ended = false;
        while at < self.range.end {
            let Some((metadata, body)) = self.metadata(at)? else {
                ended = true;
                break;
            };
            let (message, next) = self.message(&metadata, at, body)?;
            match (message, &mut found) {
                (Message::Schema(schema, ids), None) => found = Some(Messages::new(schema, ids)),
                (Message::Schema(..), Some(_)) => return Err(self.fail(at, "a second schema in the stream")),
                (Message::Dictionary(id, batch), Some(found)) => self.add_dictionary(at, found, id, batch)?,
                (Message::Batch(batch), Some(found)) => found.batches.push(batch),
                (Message::Other, Some(_)) => {}
                (_, None) => return Err(self.fail(at, "the stream does not begin with a schema")),
            }
            at = next;
        }
        let mut found = found.ok_or_else(|| self.fail(self.range.start, "no schema: the stream is empty"))?;
        found.unterminated = !ended;
        Ok(found)
    }

    fn file(&self) -> Result<Messages> {
        let Range { start, end } = self.range;
        let truncated = || self.fail(end, "no footer at the end: the Arrow file is truncated");
        if end - start < 8 + 10 {
            return Err(truncated());
        }
        let mut tail = [0; 10];
        self.object.read_at(end - 10, &mut tail)?;
        let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        if &tail[4..] != MAGIC || length > MAX_METADATA || length > end - start - 18 {
            return Err(truncated());
        }
        let mut bytes = vec![0; length as usize];
        self.object.read_at(end - 10 - length, &mut bytes)?;
        let footer = arrow_ipc::root_as_footer(&bytes);
        let footer = footer.map_err(|e| self.fail(end - 10 - length, format!("damaged footer: {e}")))?;
        let schema = footer.schema().ok_or_else(|| self.fail(end, "the footer has no schema"))?;
        let (schema, ids) = self.schema(end, schema)?;
        let mut found = Messages::new(schema, ids);
        for block in footer.dictionaries().iter().flatten() {
            let at = self.block(block.offset())?;
            let Message::Dictionary(id, batch) = self.message_at(at)? else {
                return Err(self.fail(at, "the footer promises a dictionary here"));
            };
            self.add_dictionary(at, &mut found, id, batch)?;
        }
        for block in footer.recordBatches().iter().flatten() {
            let at = self.block(block.offset())?;
            let Message::Batch(batch) = self.message_at(at)? else {
                return Err(self.fail(at, "the footer promises a record batch here"));
            };
            found.batches.push(batch);
        }
        Ok(found)
    }

    fn block(&self, offset: i64) -> Result<u64> {
        let at = u64::try_from(offset).ok().and_then(|offset| self.range.start.checked_add(offset));
        at.filter(|at| *at < self.range.end).ok_or_else(|| {
            self.fail(self.range.end, format!("the footer points to byte {offset}, outside the file"))
        })
    }

    fn message_at(&self, at: u64) -> Result<Message> {
        let (metadata, body) =
            self.metadata(at)?.ok_or_else(|| self.fail(at, "an end mark where a message should be"))?;
        Ok(self.message(&metadata, at, body)?.0)
    }

    fn add_dictionary(&self, at: u64, found: &mut Messages, id: i64, batch: Batch) -> Result<()> {
        if found.dictionaries.iter().any(|(known, _)| *known == id) {
            let reason =
                format!("dictionary {id} occurs again: replaced and growing dictionaries are not supported");
            return Err(self.fail(at, reason).with_hint("write the data with unified dictionaries"));
        }
        found.dictionaries.push((id, batch));
        Ok(())
    }

    /// The metadata of the message at `at` and the offset of its body; `None` for the end mark.
    fn metadata(&self, at: u64) -> Result<Option<(Vec<u8>, u64)>> {
        let left = self.range.end - at;
        let mut window = vec![0; left.min(WINDOW) as usize];
        self.object.read_at(at, &mut window)?;
        let number = |from: usize| window.get(from..from + 4).map(|b| [b[0], b[1], b[2], b[3]]);
        let cut = || self.fail(at, "a message is cut off: the file is truncated");
        let first = number(0).ok_or_else(cut)?;
        // Before Arrow 0.15 the length came first, without the marker.
        let (length, prefix) =
            if first == CONTINUATION { (number(4).ok_or_else(cut)?, 8) } else { (first, 4) };
        let length = u64::from(u32::from_le_bytes(length));
        if length == 0 {
            return Ok(None);
        }
        if length > MAX_METADATA {
            return Err(
                self.fail(at, format!("a message header of {length} bytes: damaged, or not an Arrow stream"))
            );
        }
        if length > left - prefix {
            return Err(cut());
        }
        // In memory of its own, because the verifier needs it aligned.
        let mut metadata = vec![0; length as usize];
        match window.get(prefix as usize..(prefix + length) as usize) {
            Some(inside) => metadata.copy_from_slice(inside),
            None => self.object.read_at(at + prefix, &mut metadata)?,
        }
        Ok(Some((metadata, at + prefix + length)))
    }

    /// The content of the message, and the offset of the next one.
    fn message(&self, metadata: &[u8], at: u64, body: u64) -> Result<(Message, u64)> {
        let message = arrow_ipc::root_as_message(metadata);
        let message = message.map_err(|e| self.fail(at, format!("damaged message: {e}")))?;
        let length =
            u64::try_from(message.bodyLength()).ok().filter(|length| *length <= self.range.end - body);
        let length =
            length.ok_or_else(|| self.fail(at, "a message's body is cut off: the file is truncated"))?;
        let bodies = body..body + length;
        let found = match message.header_type() {
            MessageHeader::Schema => {
                let schema =
                    message.header_as_schema().ok_or_else(|| self.fail(at, "a schema without content"))?;
                let (schema, ids) = self.schema(at, schema)?;
                Message::Schema(schema, ids)
            }
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch();
                let batch = batch.ok_or_else(|| self.fail(at, "a record batch without content"))?;
                Message::Batch(self.batch(at, batch, &bodies)?)
            }
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch();
                let dictionary = dictionary.ok_or_else(|| self.fail(at, "a dictionary without content"))?;
                let data = dictionary.data().ok_or_else(|| self.fail(at, "a dictionary without content"))?;
                Message::Dictionary(dictionary.id(), self.batch(at, data, &bodies)?)
            }
            _ => Message::Other,
        };
        Ok((found, bodies.end))
    }

    fn schema(&self, at: u64, schema: arrow_ipc::Schema<'_>) -> Result<(ArrowSchema, Vec<i64>)> {
        if schema.endianness() != arrow_ipc::Endianness::Little {
            return Err(self.fail(at, "written on a big-endian machine, which is not supported"));
        }
        let mut ids = Vec::new();
        for field in schema.fields().iter().flatten() {
            dictionary_ids(&field, &mut ids);
        }
        let schema = arrow_ipc::convert::try_fb_to_schema(schema);
        Ok((schema.map_err(|e| self.fail(at, format!("damaged schema: {e}")))?, ids))
    }

    fn batch(&self, at: u64, batch: RecordBatch<'_>, body: &Range<u64>) -> Result<Batch> {
        let count = |n: i64| {
            u64::try_from(n).map_err(|_| self.fail(at, format!("a length of {n} in a record batch")))
        };
        let codec = match batch.compression().map(|c| c.codec()) {
            None => None,
            Some(CompressionType::LZ4_FRAME) => Some(Codec::Lz4),
            Some(CompressionType::ZSTD) => Some(Codec::Zstd),
            Some(other) => return Err(self.fail(at, format!("unknown compression {other:?}"))),
        };
        let mut nodes = Vec::new();
        for node in batch.nodes().iter().flatten() {
            nodes.push((count(node.length())?, count(node.null_count())?));
        }
        let mut buffers = Vec::new();
        for buffer in batch.buffers().iter().flatten() {
            let (offset, length) = (count(buffer.offset())?, count(buffer.length())?);
            let start = body.start.checked_add(offset);
            let place = start.and_then(|start| Some(start..start.checked_add(length)?));
            let place = place.filter(|place| place.end <= body.end);
            buffers.push(place.ok_or_else(|| self.fail(at, "a buffer reaches past its record batch"))?);
        }
        let variadic =
            batch.variadicBufferCounts().iter().flatten().map(count).collect::<Result<Box<[u64]>>>()?;
        let rows = count(batch.length())?;
        Ok(Batch { rows, nodes: nodes.into(), buffers: buffers.into(), variadic, codec })
    }
}

/// Depth first, like the numbers of fields. The verifier has limited the depth.
fn dictionary_ids(field: &arrow_ipc::Field<'_>, ids: &mut Vec<i64>) {
    if let Some(dictionary) = field.dictionary() {
        // Values of a dictionary are in its own batch.
        return ids.push(dictionary.id());
    }
    for child in field.children().iter().flatten() {
        dictionary_ids(&child, ids);
    }
}

impl Messages {
    fn new(schema: ArrowSchema, dictionary_ids: Vec<i64>) -> Self {
        Messages {
            schema,
            dictionary_ids,
            batches: Vec::new(),
            dictionaries: Vec::new(),
            unterminated: false,
        }
    }
}
