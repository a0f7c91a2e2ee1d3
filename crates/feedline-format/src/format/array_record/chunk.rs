//! Riegeli's chunks, in which the records of an ArrayRecord file are stored.
//!
//! A file consists of blocks of 64 KiB. Every block begins with a header of 24 bytes, even in the middle of a chunk.
//! A chunk is a header of 40 bytes and its data, both with a HighwayHash. Simple chunks (`r`) are the lengths of
//! records and the records, each compressed; transposed ones (`t`), made for searching in protobufs, are not
//! supported.

use highway::{HighwayHash, HighwayHasher, Key};

use super::super::bounds::{self, unpacked};

/// Size of a block.
pub(super) const BLOCK: u64 = 1 << 16;
/// Bytes at the beginning of every block that are not part of a chunk.
const BLOCK_HEADER: u64 = 24;
const HEADER: usize = 40;

/// Content of a chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    data: u64,
    data_hash: u64,
    kind: u8,
    records: u64,
    inflated: u64,
}

fn hash(bytes: &[u8]) -> u64 {
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let (first, second) = (word(b"Riegeli/"), word(b"records\n"));
    HighwayHasher::new(Key([first, second, first, second])).hash64(bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

impl ChunkHeader {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let header = bytes.get(..HEADER).ok_or("a chunk's header ends early")?;
        if hash(&header[8..]) != word(header, 0) {
            return Err("a chunk's header fails its checksum".to_owned());
        }
        let (data, data_hash, counted, inflated) =
            (word(header, 8), word(header, 16), word(header, 24), word(header, 32));
        Ok(ChunkHeader { data, data_hash, kind: counted as u8, records: counted >> 8, inflated })
    }
}

/// The bytes of chunks at `offset`, without the block headers in between.
fn without_blocks(stored: &[u8], offset: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(stored.len());
    let (mut at, mut rest) = (offset, stored);
    while !rest.is_empty() {
        let inside = at % BLOCK;
        if inside < BLOCK_HEADER {
            let skipped = rest.len().min((BLOCK_HEADER - inside) as usize);
            rest = &rest[skipped..];
            at += skipped as u64;
            continue;
        }
        let (taken, after) = rest.split_at(rest.len().min((BLOCK - inside) as usize));
        bytes.extend_from_slice(taken);
        rest = after;
        at += taken.len() as u64;
    }
    bytes
}

/// The records of a simple chunk: their bytes one after the other, and the end of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Records {
    /// Parses the chunk at the beginning of `stored`, which is at `offset` of its file. Bytes after the chunk are
    /// ignored.
    pub(super) fn parse(stored: &[u8], offset: u64) -> Result<Self, String> {
        let bytes = without_blocks(stored, offset);
        let header = ChunkHeader::parse(&bytes)?;
        let end = usize::try_from(header.data).ok().and_then(|data| data.checked_add(HEADER));
        let data = end.and_then(|end| bytes.get(HEADER..end)).ok_or("a chunk ends early")?;
        if hash(data) != header.data_hash {
            return Err("a chunk's data fail their checksum".to_owned());
        }
        match header.kind {
            b'r' => Records::simple(&header, data),
            b't' => {
                Err("the records are transposed, which is not supported; write them with transpose:false"
                    .to_owned())
            }
            other => Err(format!("a chunk of type {other} where records should be")),
        }
    }

    fn simple(header: &ChunkHeader, data: &[u8]) -> Result<Self, String> {
        let (compression, rest) = data.split_first().ok_or("a chunk without data")?;
        let (length, rest) = varint(rest).ok_or("a chunk without lengths")?;
        let cut = usize::try_from(length).ok().filter(|length| *length <= rest.len());
        let (lengths, values) = rest.split_at(cut.ok_or("lengths that end early")?);
        // A length takes ten bytes at most.
        let lengths = inflate(*compression, lengths, header.records.saturating_mul(10))?;
        bounds::check_announced(values.len() as u64, header.inflated)?;
        let bytes = inflate(*compression, values, header.inflated)?;
        let ends = ends(&lengths)?;
        let whole = ends.len() as u64 == header.records
            && ends.last().copied().unwrap_or(0) == bytes.len()
            && bytes.len() as u64 == header.inflated;
        if !whole {
            return Err("a chunk's records do not add up".to_owned());
        }
        Ok(Records { bytes, ends })
    }

    /// Record `number`.
    pub(super) fn get(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        self.bytes.get(start..end)
    }
}

fn ends(lengths: &[u8]) -> Result<Vec<usize>, String> {
    let (mut rest, mut end, mut ends) = (lengths, 0usize, Vec::new());
    while !rest.is_empty() {
        let (length, after) = varint(rest).ok_or("a record's length ends early")?;
        end =
            usize::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or("a huge record")?;
        ends.push(end);
        rest = after;
    }
    Ok(ends)
}

/// A number in groups of seven bits, and the bytes after it.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 127).checked_shl(7 * place as u32)?;
        if byte & 128 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

/// Snappy's own length decides how much memory is allocated, so it must be the announced one.
fn unsnapped(packed: &[u8], length: u64) -> Result<Vec<u8>, String> {
    let found = snap::raw::decompress_len(packed).map_err(|error| error.to_string())?;
    if found as u64 != length {
        return Err(format!("{length} bytes are announced and {found} packed"));
    }
    bounds::check_announced(packed.len() as u64, length)?;
    snap::raw::Decoder::new().decompress_vec(packed).map_err(|error| error.to_string())
}

/// Inflates at most `most` bytes. Compressed pieces begin with their length.
fn inflate(compression: u8, packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    if compression == 0 {
        return Ok(packed.to_vec());
    }
    let (length, rest) = varint(packed).ok_or("a compressed piece without its length")?;
    if length > most {
        return Err(format!("{length} bytes are announced, at most {most} expected"));
    }
    match compression {
        b'z' => {
            let decoder =
                zstd::stream::read::Decoder::with_buffer(rest).map_err(|error| error.to_string())?;
            unpacked(decoder, length)
        }
        b'b' => unpacked(brotli::Decompressor::new(rest, 4096), length),
        b's' => unsnapped(rest, length),
        other => Err(format!("records compressed by method {other} are not supported")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snappy_output_is_limited_to_the_announced_length() {
        let packed = snap::raw::Encoder::new().compress_vec(&[7; 1000]).unwrap();
        let piece =
            |length: u8, packed: &[u8]| [&[0x80 | (length & 127), length >> 7 | 7][..], packed].concat();
        // 1000 is 7 * 128 + 104.
        assert_eq!(inflate(b's', &piece(104, &packed), 1000).unwrap(), [7; 1000]);
        assert!(inflate(b's', &piece(103, &packed), 1000).unwrap_err().contains("1000 packed"));
        // Four billion bytes, according to snappy's own header.
        let lie = [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &packed[2..]].concat();
        assert!(inflate(b's', &piece(104, &lie), 1000).unwrap_err().contains("4294967295 packed"));
    }
}
