//! TFRecord files that were written with `compression_type="GZIP"` or `"ZLIB"`. The whole file is one stream, so a
//! record can only be reached through all records before it. Such a file is decompressed whole when one of its
//! records is wanted, and kept for a while; it must fit in [`MAX_BYTES`].

use std::io::Read;
use std::sync::Arc;

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::super::stream::{Stream, unread};
use super::index::{FOOTER, HEADER, record_length};
use crate::error::{Error, Location, Result};
use crate::source::Object;

/// Maximum size of a decompressed file, and of all such files that are kept.
pub(super) const MAX_BYTES: u64 = 512 << 20;

/// How a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Storage {
    Plain,
    Gzip,
    Zlib,
}

impl Storage {
    /// Detects it by the first bytes; `None` if this is not a TFRecord file.
    pub(super) fn of(object: &Arc<dyn Object>) -> Result<Option<Self>> {
        let mut head = [0; HEADER as usize];
        let length = object.size().min(HEADER) as usize;
        object.read_at(0, &mut head[..length])?;
        if length == head.len() && record_length(&head).is_some() {
            return Ok(Some(Storage::Plain));
        }
        let storage = match head {
            [0x1f, 0x8b, 8, ..] => Storage::Gzip,
            [first, second, ..]
                if first & 15 == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31) =>
            {
                Storage::Zlib
            }
            _ => return Ok(None),
        };
        let mut inside = [0; HEADER as usize];
        let whole = storage.stream(object).read_exact(&mut inside).is_ok();
        Ok((whole && record_length(&inside).is_some()).then_some(storage))
    }

    fn stream(self, object: &Arc<dyn Object>) -> Box<dyn Read> {
        let bytes = Stream::new(object.clone(), 0..object.size());
        match self {
            Storage::Plain => Box::new(bytes),
            Storage::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Storage::Zlib => Box::new(ZlibDecoder::new(bytes)),
        }
    }

    /// Offsets of the records in the decompressed bytes, and the number of these bytes. Keeps none of them.
    pub(super) fn scan(self, object: &Arc<dyn Object>, place: &Location) -> Result<(Vec<u64>, u64)> {
        let mut stream = self.stream(object).take(MAX_BYTES + 1);
        let mut starts = Vec::new();
        let mut at = 0u64;
        loop {
            let mut header = [0; HEADER as usize];
            let got = fill(&mut stream, &mut header).map_err(|e| broken(place, at, &e))?;
            if at + got as u64 > MAX_BYTES {
                return Err(too_large(place));
            }
            if got == 0 {
                return Ok((starts, at));
            }
            let length = (got == header.len()).then(|| record_length(&header)).flatten();
            let reason = "the record's length does not fit its checksum, or the file is truncated";
            let length = length
                .ok_or_else(|| Error::data(place.clone(), format!("{reason} (byte {at} decompressed)")))?;
            let end = length.checked_add(at + HEADER + FOOTER).filter(|end| *end <= MAX_BYTES);
            let end = end.ok_or_else(|| too_large(place))?;
            let rest = end - at - HEADER;
            let skipped = std::io::copy(&mut stream.by_ref().take(rest), &mut std::io::sink());
            if skipped.map_err(|e| broken(place, at, &e))? != rest {
                return Err(Error::data(place.clone(), "the last record is cut off: the file is truncated"));
            }
            starts.push(at);
            at = end;
        }
    }

    /// All decompressed bytes; there must be `size` of them.
    pub(super) fn inflate(self, object: &Arc<dyn Object>, size: u64, place: &Location) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte more than expected shows that the file has grown.
        let read = self.stream(object).take(size + 1).read_to_end(&mut bytes);
        read.map_err(|e| broken(place, bytes.len() as u64, &e))?;
        if bytes.len() as u64 != size {
            let reason = format!("{size} bytes were expected when decompressed, found {}", bytes.len());
            return Err(Error::data(place.clone(), reason));
        }
        Ok(bytes)
    }
}

fn fill(stream: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match stream.read(&mut into[got..])? {
            0 => break,
            count => got += count,
        }
    }
    Ok(got)
}

fn broken(place: &Location, at: u64, error: &std::io::Error) -> Error {
    let reason = || format!("cannot be decompressed past byte {at} of its content: {error}");
    unread(error).unwrap_or_else(|| Error::data(place.clone(), reason()))
}

fn too_large(place: &Location) -> Error {
    let reason = format!("more than {} MiB when decompressed", MAX_BYTES >> 20);
    Error::data(place.clone(), format!("{reason}: a compressed TFRecord file has no random access"))
        .with_hint("decompress the file (gunzip), or write smaller ones")
}
