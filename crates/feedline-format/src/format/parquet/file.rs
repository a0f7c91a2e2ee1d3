//! One Parquet file: its footer, and reading a column of a row.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::Schema as ArrowSchema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;

use super::super::quiet;
use super::inflate::Codec;
use super::pages::{self, ChunkPlace, PageList};
use super::strings::{Fault, Page, Row};
use crate::error::{Error, Location, Result};
use crate::format::columns::{Column, Shape, placed, value};
use crate::format::lru_cache::{ByteSize, LruCache};
use crate::format::stream::{ErrorRecorder, Stream};
use crate::sample::{Kind, SampleBuffer, Value};
use crate::source::Object;

/// Maximum size of pages, page lists and arrays kept for all files of a data set.
const KEPT_BYTES: usize = 512 << 20;
/// Columns that are decoded to arrays are cut into blocks of about this many bytes, and at most this many rows.
const BLOCK_BYTES: u64 = 32 << 20;
const BLOCK_ROWS: u64 = 1 << 16;
/// Maximum size of chunks that are fetched whole.
const WHOLE_CHUNK: u64 = 4 << 20;

/// File, row group, column and page; for arrays, the root column and the block.
type Key = (u32, u32, u32, u32);
const LIST: u32 = u32::MAX;
const DICTIONARY: u32 = u32::MAX - 1;
/// Added to a root column's number, to distinguish it from a leaf's.
const ROOT: u32 = 1 << 31;

/// Cached parts of all files.
#[derive(Debug)]
pub(super) struct Pieces(LruCache<Key, Piece>);

#[derive(Debug)]
enum Piece {
    List(PageList),
    Page(Page),
    Block(ArrayRef),
}

impl ByteSize for Piece {
    fn weight(&self) -> usize {
        match self {
            Piece::List(list) => list.pages.len() * 16 + 128,
            Piece::Page(page) => page.weight(),
            Piece::Block(array) => array.get_array_memory_size(),
        }
    }
}

impl Pieces {
    pub(super) fn new() -> Self {
        Pieces(LruCache::new(KEPT_BYTES))
    }
}

/// An object, for the parquet crate.
#[derive(Clone)]
struct Chunks(Arc<dyn Object>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

/// A stream whose end is an error. At a quiet end, the crate would skip the elements of a list one by one, and a damaged
/// header may declare two billion of them.
struct Strict(Stream);

impl Read for Strict {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 if !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

impl ChunkReader for Chunks {
    type T = Strict;

    fn get_read(&self, start: u64) -> Result<Strict, ParquetError> {
        Ok(Strict(Stream::new(self.0.clone(), start..u64::MAX)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        // Checked before memory is allocated.
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.size()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} reach past the end")));
        }
        let mut bytes = vec![0; length];
        self.0.read_at(start, &mut bytes).map_err(|e| ParquetError::External(Box::new(e)))?;
        Ok(bytes.into())
    }
}

/// Runs the parquet crate's code, which panics on some damaged pages and footers instead of returning an error. No
/// state of the crate is used after a panic.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    let caught = quiet::catch(work);
    caught.unwrap_or_else(|()| Err(ParquetError::General("the file is damaged".to_owned())))
}

/// Some writers store 0 for a dictionary that does not exist, or that begins the data pages. No page begins at byte
/// 0.
fn without_zero_offsets(footer: ParquetMetaData) -> Result<ParquetMetaData, ParquetError> {
    let is_zero = |chunk: &ColumnChunkMetaData| chunk.dictionary_page_offset() == Some(0);
    if !footer.row_groups().iter().any(|group| group.columns().iter().any(is_zero)) {
        return Ok(footer);
    }
    let mut groups = Vec::with_capacity(footer.num_row_groups());
    for group in footer.row_groups() {
        let mut chunks = Vec::with_capacity(group.num_columns());
        for chunk in group.columns() {
            let offset = chunk.dictionary_page_offset().filter(|at| *at != 0);
            chunks.push(chunk.clone().into_builder().set_dictionary_page_offset(offset).build()?);
        }
        groups.push(group.clone().into_builder().set_column_metadata(chunks).build()?);
    }
    Ok(footer.into_builder().set_row_groups(groups).build())
}

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) metadata: ArrowReaderMetadata,
    /// First row of each row group, and the number of rows.
    first_rows: Vec<u64>,
    /// The leaves of each root column: the first, and one past the last.
    leaves: Vec<Range<usize>>,
    number: u32,
    place: Location,
}

impl File {
    /// Reads the footer.
    pub(super) fn open(object: &Arc<dyn Object>, place: Location, number: u32) -> Result<Self> {
        let bad = |e: ParquetError| Error::data(place.clone(), format!("not a readable Parquet file: {e}"));
        let object = ErrorRecorder::new(object.clone());
        let metadata = guarded(|| {
            let footer = ParquetMetaDataReader::new().parse_and_finish(&Chunks(object.clone()))?;
            let footer = without_zero_offsets(footer)?;
            ArrowReaderMetadata::try_new(Arc::new(footer), ArrowReaderOptions::new())
        });
        let metadata = metadata.map_err(|e| object.unread().unwrap_or_else(|| bad(e)))?;
        let mut first_rows = vec![0u64];
        for group in metadata.metadata().row_groups() {
            let rows = u64::try_from(group.num_rows()).ok();
            let next = rows.zip(first_rows.last()).and_then(|(rows, last)| last.checked_add(rows));
            first_rows
                .push(next.ok_or_else(|| Error::data(place.clone(), "a row group of negative length"))?);
        }
        let schema = metadata.metadata().file_metadata().schema_descr_ptr();
        let mut leaves = vec![0..0; metadata.schema().fields().len()];
        for leaf in 0..schema.num_columns() {
            let Some(range) = leaves.get_mut(schema.get_column_root_idx(leaf)) else { continue };
            *range = if range.end == 0 { leaf..leaf + 1 } else { range.start..leaf + 1 };
        }
        Ok(File { metadata, first_rows, leaves, number, place })
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.first_rows.last().copied().unwrap_or(0)
    }

    /// The schema of an Arrow writer, before its types were converted to Parquet's.
    pub(super) fn written_schema(&self) -> Option<ArrowSchema> {
        use base64::Engine as _;
        let noted = self.metadata.metadata().file_metadata().key_value_metadata()?;
        let text = noted.iter().find(|entry| entry.key == "ARROW:schema")?.value.as_ref()?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        let parse = || arrow_ipc::convert::try_schema_from_ipc_buffer(&bytes).map_err(ParquetError::from);
        guarded(parse).ok()
    }

    /// Whether the footer says that the column contains nulls, at any level.
    pub(super) fn says_nulls(&self, column: &Column) -> bool {
        let groups = self.metadata.metadata().row_groups().iter();
        let mut chunks =
            groups.flat_map(|g| self.leaves[column.root].clone().filter_map(|l| g.columns().get(l)));
        chunks.any(|chunk| chunk.statistics().and_then(Statistics::null_count_opt).is_some_and(|n| n > 0))
    }

    /// The first rows of a column that is decoded to arrays; `None` for an empty file.
    pub(super) fn first_block(
        &self,
        object: &Arc<dyn Object>,
        pieces: &Pieces,
        column: &Column,
    ) -> Result<Option<ArrayRef>> {
        if self.rows() == 0 {
            return Ok(None);
        }
        let (group, inside) = self.find(0)?;
        let (block, _) = self.block(object, pieces, group, column, inside)?;
        Ok(match &*block {
            Piece::Block(array) => Some(array.clone()),
            _ => None,
        })
    }

    /// Whether any row of the column may be missing, according to the footer.
    pub(super) fn may_lack(&self, column: &Column) -> bool {
        let Some(leaf) = self.string_leaf(column, false).or_else(|| self.leaves[column.root].clone().next())
        else {
            return true;
        };
        self.metadata.metadata().row_groups().iter().any(|group| {
            let statistics = group.columns().get(leaf).and_then(ColumnChunkMetaData::statistics);
            group.num_rows() > 0 && statistics.and_then(Statistics::null_count_opt) != Some(0)
        }) && self.depth(leaf) > 0
    }

    fn depth(&self, leaf: usize) -> i16 {
        self.metadata.metadata().file_metadata().schema_descr().column(leaf).max_def_level()
    }

    /// The leaf column with a column's bytes (or its path), if its values can be read one by one.
    fn string_leaf(&self, column: &Column, path: bool) -> Option<usize> {
        let leaves = self.leaves.get(column.root)?;
        let leaf = match column.shape {
            Shape::Bytes | Shape::Stored { bytes: 0, path: None } if leaves.len() == 1 => leaves.start,
            Shape::Stored { bytes, path: Some(number) } if leaves.len() == 2 => {
                leaves.start + if path { number } else { bytes }
            }
            _ => return None,
        };
        let described = self.metadata.metadata().file_metadata().schema_descr().column(leaf);
        (described.physical_type() == Physical::BYTE_ARRAY && described.max_rep_level() == 0).then_some(leaf)
    }

    /// The row group with this row, and the row's number in it.
    fn find(&self, row: u64) -> Result<(usize, u64)> {
        if row >= self.rows() {
            return Err(Error::data(self.place.clone(), format!("row {row} of {}", self.rows())));
        }
        let group = self.first_rows.partition_point(|first| *first <= row) - 1;
        Ok((group, row - self.first_rows[group]))
    }

    fn chunk(&self, group: usize, leaf: usize) -> Option<&ColumnChunkMetaData> {
        self.metadata.metadata().row_groups().get(group)?.columns().get(leaf)
    }

    /// The range of a chunk, with all numbers of the footer checked against the file's length.
    fn chunk_place(&self, group: usize, leaf: usize, size: u64) -> Option<ChunkPlace> {
        let chunk = self.chunk(group, leaf)?;
        let data = u64::try_from(chunk.data_page_offset()).ok()?;
        let dictionary =
            chunk.dictionary_page_offset().and_then(|at| u64::try_from(at).ok()).filter(|at| *at > 0);
        let start = dictionary.map_or(data, |at| at.min(data));
        let end = start.checked_add(u64::try_from(chunk.compressed_size()).ok()?)?;
        let index = chunk.offset_index_offset().zip(chunk.offset_index_length()).and_then(|(at, length)| {
            let at = u64::try_from(at).ok()?;
            Some(at..at.checked_add(u64::try_from(length).ok()?)?)
        });
        let rows = self.first_rows[group + 1] - self.first_rows[group];
        (end <= size && chunk.file_path().is_none()).then_some(ChunkPlace {
            range: start..end,
            dictionary,
            index,
            rows,
        })
    }

    /// The range of the file that a read of this column needs: the page, if the pages of the chunk are known already,
    /// otherwise the chunk if it is not large.
    pub(super) fn extent(&self, pieces: &Pieces, row: u64, column: &Column, size: u64) -> Option<Range<u64>> {
        let (group, inside) = self.find(row).ok()?;
        let leaf = self.string_leaf(column, false).or_else(|| self.leaves[column.root].clone().next())?;
        let range = self.chunk_place(group, leaf, size)?.range;
        let known = pieces.0.peek((self.number, group as u32, leaf as u32, LIST));
        if let Some(Piece::List(list)) = known.as_deref() {
            let (number, at, _) = list.find(inside)?;
            return Some(at..list.pages.get(number + 1).map_or(range.end, |(next, _)| *next));
        }
        (range.end - range.start <= WHOLE_CHUNK).then_some(range)
    }

    /// Offset of the row's column chunk, for messages.
    pub(super) fn offset(&self, row: u64) -> Option<u64> {
        let (group, _) = self.find(row).ok()?;
        u64::try_from(self.chunk(group, 0)?.data_page_offset()).ok()
    }

    /// Reads one column of a row; `Missing` for nulls and for files whose bytes are stored elsewhere.
    pub(super) fn read_value(
        &self,
        object: &Arc<dyn Object>,
        pieces: &Pieces,
        row: u64,
        column: &Column,
        into: &mut SampleBuffer,
    ) -> Result<Value> {
        let (group, inside) = self.find(row)?;
        if let Some(leaf) = self.string_leaf(column, false)
            && let Some(codec) = self.codec(group, leaf)
        {
            let found = self.string(object, pieces, (group, leaf), codec, inside, into)?;
            let Some(range) = found else { return Ok(Value::Missing) };
            if matches!(column.spec.kind, Kind::Text | Kind::Json)
                && std::str::from_utf8(into.bytes(&range)).is_err()
            {
                return Err(self.bad("text that is not UTF-8"));
            }
            return Ok(placed(column.spec.kind, range));
        }
        let (array, inside) = self.block(object, pieces, group, column, inside)?;
        let Piece::Block(array) = &*array else { unreachable!("blocks have keys of their own") };
        value(column, &**array, inside, into).map_err(|reason| self.bad(reason))
    }

    /// The path of a file whose bytes are not stored here.
    pub(super) fn read_path(
        &self,
        object: &Arc<dyn Object>,
        pieces: &Pieces,
        row: u64,
        column: &Column,
    ) -> Result<Option<String>> {
        let Shape::Stored { path: Some(_), .. } = column.shape else { return Ok(None) };
        let (group, inside) = self.find(row)?;
        let Some(leaf) = self.string_leaf(column, true) else { return Ok(None) };
        let Some(codec) = self.codec(group, leaf) else { return Ok(None) };
        let mut buffer = SampleBuffer::new();
        buffer.reset(0);
        let found = self.string(object, pieces, (group, leaf), codec, inside, &mut buffer)?;
        let text = found.map(|range| String::from_utf8(buffer.bytes(&range).to_vec())).transpose();
        Ok(text.map_err(|_| self.bad("a path that is not UTF-8"))?.filter(|text| !text.is_empty()))
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        Error::data(self.place.clone(), reason)
    }

    /// The codec of a chunk whose values can be read one by one.
    fn codec(&self, group: usize, leaf: usize) -> Option<Codec> {
        let chunk = self.chunk(group, leaf)?;
        #[expect(
            deprecated,
            reason = "old files have bit-packed levels, which are left to the parquet crate"
        )]
        let plain = |encoding| {
            matches!(
                encoding,
                Encoding::PLAIN | Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY | Encoding::RLE
            ) && encoding != Encoding::BIT_PACKED
        };
        if !chunk.encodings().all(plain) {
            return None;
        }
        Some(match chunk.compression() {
            Compression::UNCOMPRESSED => Codec::None,
            Compression::SNAPPY => Codec::Snappy,
            Compression::GZIP(_) => Codec::Gzip,
            Compression::BROTLI(_) => Codec::Brotli,
            Compression::LZ4 => Codec::Lz4,
            Compression::LZ4_RAW => Codec::Lz4Raw,
            Compression::ZSTD(_) => Codec::Zstd,
            Compression::LZO => return None,
        })
    }

    /// Reads row `row` of a row group's leaf column of bytes.
    fn string(
        &self,
        object: &Arc<dyn Object>,
        pieces: &Pieces,
        (group, leaf): (usize, usize),
        codec: Codec,
        row: u64,
        into: &mut SampleBuffer,
    ) -> Result<Option<Range<usize>>> {
        let chunk = self.chunk_place(group, leaf, object.size());
        let chunk = chunk
            .ok_or_else(|| self.bad("a column chunk outside the file: truncated, or split over files"))?;
        let key = |page: u32| (self.number, group as u32, leaf as u32, page);
        let list =
            pieces.0.get(key(LIST), || pages::list(&**object, &chunk, &self.place).map(Piece::List))?;
        let Piece::List(list) = &*list else { unreachable!("lists have keys of their own") };
        let page_at = |number: u32, at: u64| {
            pieces.0.get(key(number), || {
                let header = pages::header(&**object, at, &chunk.range, &self.place)?;
                let page = Page::read(&**object, &header, codec, self.depth(leaf));
                page.map(Piece::Page).map_err(|fault| self.fault(fault, at))
            })
        };
        let (number, at, inside) = list.find(row).ok_or_else(|| self.bad("a row without a page"))?;
        let page = page_at(number as u32, at)?;
        let Piece::Page(page) = &*page else { unreachable!("pages have keys of their own") };
        let found = page.row(inside as usize).map_err(|reason| self.fault(reason.into(), at))?;
        let range = match found {
            Row::Null => return Ok(None),
            Row::Value(value) => page.value(&**object, value, into),
            Row::Key(key) => {
                let at = list.dictionary.ok_or_else(|| self.bad("a column without its dictionary"))?;
                let dictionary = page_at(DICTIONARY, at)?;
                let Piece::Page(dictionary) = &*dictionary else {
                    unreachable!("pages have keys of their own")
                };
                dictionary.value(&**object, key, into)
            }
        };
        range.map(Some).map_err(|fault| self.fault(fault, at))
    }

    fn fault(&self, fault: Fault, at: u64) -> Error {
        match fault {
            Fault::Damaged(reason) => Error::data(self.place.clone().with_offset(at), reason),
            Fault::Unread(error) => error,
        }
    }

    /// The array with a row of any other column, and the row's index in it.
    fn block(
        &self,
        object: &Arc<dyn Object>,
        pieces: &Pieces,
        group: usize,
        column: &Column,
        row: u64,
    ) -> Result<(Arc<Piece>, usize)> {
        let rows = self.first_rows[group + 1] - self.first_rows[group];
        let bytes = self.leaves[column.root].clone().filter_map(|leaf| self.chunk(group, leaf));
        let bytes: u64 = bytes.map(|chunk| u64::try_from(chunk.uncompressed_size()).unwrap_or(0)).sum();
        let each = if bytes <= 2 * BLOCK_BYTES {
            rows
        } else {
            (u128::from(rows) * u128::from(BLOCK_BYTES) / u128::from(bytes)) as u64
        };
        let each = each.clamp(1, BLOCK_ROWS);
        let block = row / each;
        let number = u32::try_from(block).map_err(|_| self.bad("a row group of too many blocks"))?;
        let key = (self.number, group as u32, column.root as u32 | ROOT, number);
        let length = each.min(rows - block * each);
        let made = pieces
            .0
            .get(key, || self.decode(object, group, column, block * each, length).map(Piece::Block))?;
        Ok((made, (row % each) as usize))
    }

    fn decode(
        &self,
        object: &Arc<dyn Object>,
        group: usize,
        column: &Column,
        first: u64,
        rows: u64,
    ) -> Result<ArrayRef> {
        let bad = |e: &dyn std::fmt::Display| {
            self.bad(format!("column '{}' cannot be decoded: {e}", column.spec.name))
        };
        if self.leaves[column.root].clone().any(|leaf| self.chunk_place(group, leaf, object.size()).is_none())
        {
            return Err(self.bad("a column chunk outside the file: truncated, or split over files"));
        }
        let schema = self.metadata.metadata().file_metadata().schema_descr();
        let selection = RowSelection::from(vec![
            RowSelector::skip(usize::try_from(first).map_err(|e| bad(&e))?),
            RowSelector::select(rows as usize),
        ]);
        let object = ErrorRecorder::new(object.clone());
        let batch = guarded(|| {
            let object = Chunks(object.clone());
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(object, self.metadata.clone())
                .with_projection(ProjectionMask::roots(schema, [column.root]))
                .with_row_groups(vec![group])
                .with_batch_size(rows as usize)
                .with_row_selection(selection)
                .build()?;
            let batch = reader.into_iter().next();
            batch.ok_or_else(|| ParquetError::General("no rows".to_owned()))?.map_err(ParquetError::from)
        });
        let batch = batch.map_err(|e| object.unread().unwrap_or_else(|| bad(&e)))?;
        if batch.num_columns() != 1 || batch.num_rows() as u64 != rows {
            return Err(bad(&format!("{} rows instead of {rows}", batch.num_rows())));
        }
        Ok(batch.column(0).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{MemorySource, Source};

    /// The crate skips by copying to nowhere, which only an error stops.
    #[test]
    fn nothing_is_skipped_past_the_end() {
        let source = MemorySource::new(vec![("a.parquet".to_owned(), vec![7; 20])]);
        let chunks = Chunks(source.open("a.parquet").unwrap());
        let skip = |read: &mut Strict| io::copy(&mut read.take(8), &mut io::sink());
        let mut read = chunks.get_read(12).unwrap();
        assert_eq!(skip(&mut read).unwrap(), 8);
        assert_eq!(skip(&mut read).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
