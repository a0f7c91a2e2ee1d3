//! Compressed shards. A tar inside gzip, zstd, bzip2 or xz can only be read from its beginning, or from the beginning
//! of one of its frames if it has several (`pigz -i`, `bgzip`, `pzstd`, zstd's seekable format). Scanning records
//! those places.
//!
//! Readers share unpacked blocks of 1 MiB, up to [`CACHE_BYTES`] in total; the least recently used are dropped first.
//! A shard keeps its unpacker at its position, so samples in stored order cost one pass; a jump back restarts at the
//! last frame before. This is the only part of the reader that takes locks and allocates while reading.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feedline_pixels::checksum;
use serde::{Deserialize, Serialize};

use super::tar::TarBytes;
use crate::error::{Error, Location, Result};
use crate::format::stream::unread;
use crate::source::{Object, Source, changed};

/// Bytes of unpacked blocks kept for all shards of a data set together.
const CACHE_BYTES: usize = 256 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// Maximum number of shards that keep an unpacker; a zstd unpacker has a window of a few megabytes.
const MAX_CURSORS: usize = 16;
/// Bytes of packed data read at once.
const INPUT_BYTES: usize = 256 * 1024;
/// Minimum distance between recorded frames.
const RESTART_DISTANCE: u64 = 1 << 20;
/// Maximum ratio of a shard to its file, once the shard is larger than `BOMB_FLOOR`; deflate can reach 1032.
const BOMB_RATIO: u64 = 10_000;
const BOMB_FLOOR: u64 = 1 << 30;
/// A little more than `xz -9` needs; a header can ask for 4 GiB.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// How a shard is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
}

/// A place where unpacking can begin: offset in the file, offset in the tar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restart(pub(super) u64, pub(super) u64);

impl Packing {
    /// Detects the compression by the first bytes of a file.
    pub(super) fn of(first: &[u8]) -> Option<Self> {
        let skippable =
            first.len() >= 4 && (0x50..=0x5f).contains(&first[0]) && first[1..4] == [0x2a, 0x4d, 0x18];
        match first {
            _ if first.starts_with(&[0x1f, 0x8b]) => Some(Packing::Gzip),
            _ if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || skippable => Some(Packing::Zstd),
            _ if first.starts_with(b"BZh") => Some(Packing::Bzip2),
            _ if first.starts_with(b"\xfd7zXZ\0") => Some(Packing::Xz),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
            Packing::Bzip2 => "bzip2",
            Packing::Xz => "xz",
        }
    }
}

/// Reads an object from an offset to its end.
#[derive(Debug)]
struct Input {
    object: Arc<dyn Object>,
    /// Offset of the next read, and the rest of the last one.
    next: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl Input {
    fn position(&self) -> u64 {
        self.next - (self.buffer.len() - self.used) as u64
    }
}

impl BufRead for Input {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.buffer.len() {
            let left = self.object.size() - self.next;
            self.buffer.resize(left.min(INPUT_BYTES as u64) as usize, 0);
            self.used = 0;
            let read = self.object.read_at(self.next, &mut self.buffer);
            if let Err(error) = read {
                self.buffer.clear();
                return Err(io::Error::other(error));
            }
            self.next += self.buffer.len() as u64;
        }
        Ok(&self.buffer[self.used..])
    }

    fn consume(&mut self, amount: usize) {
        self.used += amount;
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

/// One frame being unpacked.
enum Frame {
    Gzip(Box<flate2::bufread::GzDecoder<Input>>),
    Zstd(zstd::stream::read::Decoder<'static, Input>),
    Bzip2(bzip2::bufread::BzDecoder<Input>),
    Xz(Box<lzma_rust2::XzReader<Input>>),
}

impl Frame {
    fn new(packing: Packing, input: Input) -> io::Result<Self> {
        Ok(match packing {
            Packing::Gzip => Frame::Gzip(Box::new(flate2::bufread::GzDecoder::new(input))),
            Packing::Zstd => Frame::Zstd(zstd::stream::read::Decoder::with_buffer(input)?.single_frame()),
            Packing::Bzip2 => Frame::Bzip2(bzip2::bufread::BzDecoder::new(input)),
            Packing::Xz => {
                Frame::Xz(Box::new(lzma_rust2::XzReader::new_mem_limit(input, false, XZ_MEMORY_KIB)))
            }
        })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Frame::Gzip(frame) => frame.read(into),
            Frame::Zstd(frame) => frame.read(into),
            Frame::Bzip2(frame) => frame.read(into),
            Frame::Xz(frame) => frame.read(into),
        }
    }

    fn finish(self) -> Input {
        match self {
            Frame::Gzip(frame) => frame.into_inner(),
            Frame::Zstd(frame) => frame.finish(),
            Frame::Bzip2(frame) => frame.into_inner(),
            Frame::Xz(frame) => frame.into_inner(),
        }
    }
}

/// A shard being unpacked, from a restart on.
pub(super) struct Unpacker {
    packing: Packing,
    frame: Option<Frame>,
    file_bytes: u64,
    /// Offset in the tar after the bytes returned so far.
    position: u64,
    restarts: Vec<Restart>,
    /// While a shard is scanned: the checksums of its blocks, and of the part of the next block so far.
    sums: Option<(Vec<u32>, u32)>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker")
            .field("packing", &self.packing)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Unpacker {
    pub(super) fn new(object: Arc<dyn Object>, packing: Packing, from: Restart) -> io::Result<Self> {
        let file_bytes = object.size();
        if from.0 > file_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let input = Input { object, next: from.0, buffer: Vec::new(), used: 0 };
        let frame = Some(Frame::new(packing, input)?);
        Ok(Unpacker { packing, frame, file_bytes, position: from.1, restarts: vec![from], sums: None })
    }

    /// Fills `into`, or as much of it as there are bytes.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            let Some(frame) = &mut self.frame else { break };
            match frame.read(&mut into[filled..])? {
                0 => self.next_frame()?,
                count => {
                    self.note(&into[filled..filled + count]);
                    filled += count;
                    self.position += count as u64;
                    self.check_size()?;
                }
            }
        }
        Ok(filled)
    }

    /// Adds the next bytes to the checksums.
    fn note(&mut self, mut bytes: &[u8]) {
        let Some((sums, sum)) = &mut self.sums else { return };
        let mut left = BLOCK_BYTES - (self.position % BLOCK_BYTES as u64) as usize;
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(left));
            *sum = checksum::append(*sum, part);
            left -= part.len();
            if left == 0 {
                sums.push(std::mem::take(sum));
                left = BLOCK_BYTES;
            }
            bytes = rest;
        }
    }

    fn next_frame(&mut self) -> io::Result<()> {
        let Some(frame) = self.frame.take() else { return Ok(()) };
        let mut input = frame.finish();
        // Bytes after the last frame (zeros of a tape block) are not a frame.
        if Packing::of(input.fill_buf()?) != Some(self.packing) {
            return Ok(());
        }
        let last = self.restarts.last().map_or(0, |restart| restart.1);
        if self.position >= last + RESTART_DISTANCE {
            self.restarts.push(Restart(input.position(), self.position));
        }
        self.frame = Some(Frame::new(self.packing, input)?);
        Ok(())
    }

    /// A small file that unpacks to terabytes would take days.
    fn check_size(&self) -> io::Result<()> {
        if self.position > BOMB_FLOOR && self.position / BOMB_RATIO > self.file_bytes {
            let reason = format!("{} bytes unpack to more than {}: refused", self.file_bytes, self.position);
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(())
    }

    /// Skips `count` bytes, or fewer if there are fewer.
    fn skip(&mut self, mut count: u64, scratch: &mut [u8]) -> io::Result<()> {
        while count > 0 {
            let most = scratch.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            let read = self.read(&mut scratch[..most])?;
            if read == 0 {
                return Ok(());
            }
            count -= read as u64;
        }
        Ok(())
    }
}

/// A packed tar, read once from front to back.
pub(super) struct Stream {
    unpacker: Unpacker,
    /// Unpacked bytes that are still needed; they end at the unpacker's position.
    window: Vec<u8>,
    scratch: Vec<u8>,
}

impl Stream {
    pub(super) fn new(mut unpacker: Unpacker) -> Self {
        unpacker.sums = Some((Vec::new(), 0));
        Stream { unpacker, window: Vec::new(), scratch: vec![0; 128 * 1024] }
    }

    fn start(&self) -> u64 {
        self.unpacker.position - self.window.len() as u64
    }

    fn damaged(&self, error: &io::Error) -> String {
        format!("the {} stream is damaged: {error}", self.unpacker.packing.name())
    }

    /// Forgets the bytes before `offset`.
    fn pass(&mut self, offset: u64) -> io::Result<()> {
        let gone = offset.saturating_sub(self.start());
        if gone < self.window.len() as u64 {
            self.window.drain(..gone as usize);
            return Ok(());
        }
        self.window.clear();
        let count = offset.saturating_sub(self.unpacker.position);
        self.unpacker.skip(count, &mut self.scratch)
    }

    /// Reads the rest, so that its checksums are verified. Returns the tar's length, the restarts, and the blocks'
    /// checksums.
    pub(super) fn finish(mut self) -> io::Result<(u64, Vec<Restart>, Vec<u32>)> {
        self.unpacker.skip(u64::MAX, &mut self.scratch)?;
        let (mut sums, last) = self.unpacker.sums.take().unwrap_or_default();
        if !self.unpacker.position.is_multiple_of(BLOCK_BYTES as u64) {
            sums.push(last);
        }
        Ok((self.unpacker.position, self.unpacker.restarts, sums))
    }
}

impl TarBytes for Stream {
    fn peek(&mut self, offset: u64, length: usize) -> Result<&[u8], String> {
        self.pass(offset).map_err(|e| self.damaged(&e))?;
        if self.start() != offset {
            return Ok(&[]);
        }
        while self.window.len() < length {
            let count = self.unpacker.read(&mut self.scratch);
            let count = count.map_err(|e| self.damaged(&e))?;
            if count == 0 {
                break;
            }
            self.window.extend_from_slice(&self.scratch[..count]);
        }
        Ok(&self.window[..length.min(self.window.len())])
    }

    fn reaches(&mut self, end: u64) -> Result<bool, String> {
        self.pass(end).map_err(|e| self.damaged(&e))?;
        Ok(self.unpacker.position >= end)
    }
}

/// What is needed to read samples of a packed shard.
#[derive(Debug)]
pub(super) struct PackedShard {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) version: u64,
    pub(super) packing: Packing,
    pub(super) unpacked: u64,
    pub(super) restarts: Vec<Restart>,
    pub(super) sums: Vec<u32>,
}

/// Random access to packed shards.
#[derive(Debug)]
pub(super) struct Unpacked {
    source: Arc<dyn Source>,
    shards: HashMap<u32, (PackedShard, Mutex<Option<Unpacker>>)>,
    blocks: Mutex<Blocks>,
    /// Shards with an unpacker, the least recently used first.
    busy: Mutex<Vec<u32>>,
}

#[derive(Debug, Default)]
struct Blocks {
    /// By shard and block number: the block, and when it was last used.
    found: HashMap<BlockId, (Arc<[u8]>, u64)>,
    clock: u64,
}

type BlockId = (u32, u64);

impl Blocks {
    fn get(&mut self, key: BlockId) -> Option<Arc<[u8]>> {
        self.clock += 1;
        let (block, used) = self.found.get_mut(&key)?;
        *used = self.clock;
        Some(block.clone())
    }

    fn insert(&mut self, key: BlockId, block: Arc<[u8]>) {
        self.clock += 1;
        if self.found.len() >= CACHE_BYTES / BLOCK_BYTES {
            let oldest = self.found.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.and_then(|key| self.found.remove(&key));
        }
        self.found.insert(key, (block, self.clock));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unpacked {
    pub(super) fn new(source: Arc<dyn Source>, shards: impl IntoIterator<Item = (u32, PackedShard)>) -> Self {
        let shards = shards.into_iter().map(|(number, shard)| (number, (shard, Mutex::new(None))));
        Unpacked { source, shards: shards.collect(), blocks: Mutex::default(), busy: Mutex::default() }
    }

    /// Whether shard `number` is packed.
    pub(super) fn has(&self, number: u32) -> bool {
        self.shards.contains_key(&number)
    }

    /// Fills `into` with the bytes from `offset` of the tar on.
    pub(super) fn read_at(&self, number: u32, mut offset: u64, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            let block = self.block(number, offset / BLOCK_BYTES as u64)?;
            let start = (offset % BLOCK_BYTES as u64) as usize;
            let Some(rest) = block.get(start..).filter(|rest| !rest.is_empty()) else {
                let place = Location::new(self.source.uri()).with_offset(offset);
                return Err(Error::data(place, "the unpacked shard ends before this byte"));
            };
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            into = &mut into[count..];
            offset += count as u64;
        }
        Ok(())
    }

    fn block(&self, number: u32, block: u64) -> Result<Arc<[u8]>> {
        if let Some(found) = lock(&self.blocks).get((number, block)) {
            return Ok(found);
        }
        let (shard, cursor) = &self.shards[&number];
        let mut cursor = lock(cursor);
        // The thread that had the cursor before may have unpacked the block.
        if let Some(found) = lock(&self.blocks).get((number, block)) {
            return Ok(found);
        }
        let place = || Location::new(self.source.uri()).with_shard(&shard.name);
        let wanted = block * BLOCK_BYTES as u64;
        let found = self.advance(shard, &mut cursor, (number, block), wanted);
        // An unpacker cannot continue after damage.
        if !matches!(found, Ok(Ok(_))) {
            *cursor = None;
        }
        drop(cursor);
        self.limit_cursors(number);
        found?.map_err(|error| {
            let reason = || format!("the {} stream is damaged: {error}", shard.packing.name());
            unread(&error).unwrap_or_else(|| Error::data(place().with_offset(wanted), reason()))
        })
    }

    /// Unpacks up to the end of the wanted block and keeps every whole block on the way.
    fn advance(
        &self,
        shard: &PackedShard,
        cursor: &mut Option<Unpacker>,
        key: BlockId,
        wanted: u64,
    ) -> Result<io::Result<Arc<[u8]>>> {
        let before = shard.restarts.partition_point(|restart| restart.1 <= wanted);
        let restart = shard.restarts[..before].last().copied().unwrap_or(Restart(0, 0));
        let usable = cursor.as_ref().is_some_and(|c| c.position <= wanted && c.position >= restart.1);
        if !usable {
            *cursor = None;
            let object = self.open(shard)?;
            match Unpacker::new(object, shard.packing, restart) {
                Ok(unpacker) => *cursor = Some(unpacker),
                Err(error) => return Ok(Err(error)),
            }
        }
        let unpacker = cursor.as_mut().expect("it was made just now");
        Ok(self.unpack(shard, unpacker, key, wanted))
    }

    fn unpack(
        &self,
        shard: &PackedShard,
        unpacker: &mut Unpacker,
        key: BlockId,
        wanted: u64,
    ) -> io::Result<Arc<[u8]>> {
        let size = BLOCK_BYTES as u64;
        let mut buffer = vec![0; BLOCK_BYTES];
        // A restart is rarely at the start of a block.
        let ragged = unpacker.position.next_multiple_of(size) - unpacker.position;
        unpacker.skip(ragged.min(wanted - unpacker.position), &mut buffer)?;
        loop {
            let start = unpacker.position;
            let length = size.min(shard.unpacked.saturating_sub(start)) as usize;
            if unpacker.read(&mut buffer[..length])? < length || length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let sum = checksum::crc32c(&buffer[..length]);
            if shard.sums.get((start / size) as usize).is_some_and(|noted| *noted != sum) {
                let reason = format!("the bytes from {start} on have changed since the shard was indexed");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            let block: Arc<[u8]> = buffer[..length].into();
            lock(&self.blocks).insert((key.0, start / size), block.clone());
            if start >= wanted {
                return Ok(block);
            }
        }
    }

    fn open(&self, shard: &PackedShard) -> Result<Arc<dyn Object>> {
        let object = self.source.open(&shard.name)?;
        if object.size() != shard.size || object.version() != shard.version {
            let place = Location::new(self.source.uri()).with_shard(&shard.name);
            return Err(changed(place, shard.size, object.size()));
        }
        Ok(object)
    }

    /// Drops the unpackers of the least recently used shards.
    fn limit_cursors(&self, number: u32) {
        let mut busy = lock(&self.busy);
        busy.retain(|other| *other != number);
        busy.push(number);
        while busy.len() > MAX_CURSORS {
            let oldest = busy.remove(0);
            // If the lock is taken, the shard is in use, so it is not old and will add itself again.
            if let Some((_, cursor)) = self.shards.get(&oldest)
                && let Ok(mut cursor) = cursor.try_lock()
            {
                *cursor = None;
            }
        }
    }
}
