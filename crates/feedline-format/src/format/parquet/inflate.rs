//! Parquet's compression, page by page. Memory grows with the real content, not with the length in a header.

use std::io::Read;

use crate::format::bounds;

/// How a column chunk is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Snappy,
    Gzip,
    Brotli,
    /// Hadoop's blocks, a frame, or one block: writers differ.
    Lz4,
    Lz4Raw,
    Zstd,
}

/// Maximum number of output bytes per input byte, except for zstd and brotli, which are read as streams.
const MAX_RATIO: usize = 255;
/// Number of bytes that snappy writers compress at a time. No reference crosses such a boundary.
pub(super) const FRAGMENT: usize = 1 << 16;

/// Inflates `bytes` to `length` bytes.
pub(super) fn inflate(codec: Codec, bytes: &[u8], length: usize) -> Result<Vec<u8>, String> {
    if codec != Codec::None {
        bounds::check_announced(bytes.len() as u64, length as u64)?;
    }
    let whole = match codec {
        Codec::None => bytes.to_vec(),
        Codec::Snappy => {
            let announced = snap::raw::decompress_len(bytes).map_err(|e| e.to_string())?;
            possible(bytes, announced.max(length))?;
            if announced != length {
                return Err(format!("{length} bytes announced, {announced} found"));
            }
            snap::raw::Decoder::new().decompress_vec(bytes).map_err(|e| e.to_string())?
        }
        Codec::Gzip => stream(flate2::read::MultiGzDecoder::new(bytes), length)?,
        Codec::Brotli => stream(brotli::Decompressor::new(bytes, 4096), length)?,
        Codec::Zstd => {
            stream(zstd::stream::read::Decoder::with_buffer(bytes).map_err(|e| e.to_string())?, length)?
        }
        Codec::Lz4Raw => block(bytes, length)?,
        Codec::Lz4 => hadoop(bytes, length)
            .or_else(|_| stream(lz4_flex::frame::FrameDecoder::new(bytes), length))
            .or_else(|_| block(bytes, length))?,
    };
    if whole.len() != length {
        return Err(format!("{length} bytes announced, {} found", whole.len()));
    }
    Ok(whole)
}

fn possible(bytes: &[u8], length: usize) -> Result<(), String> {
    let most = bytes.len().saturating_mul(MAX_RATIO);
    if length <= most { Ok(()) } else { Err(format!("{length} bytes announced in {}", bytes.len())) }
}

fn stream(reader: impl Read, length: usize) -> Result<Vec<u8>, String> {
    let mut whole = Vec::new();
    reader.take(length as u64 + 1).read_to_end(&mut whole).map_err(|e| e.to_string())?;
    Ok(whole)
}

fn block(bytes: &[u8], length: usize) -> Result<Vec<u8>, String> {
    possible(bytes, length)?;
    lz4_flex::block::decompress(bytes, length).map_err(|e| e.to_string())
}

/// Pieces of: length of the content and length of the block, both big-endian, and the block.
fn hadoop(mut bytes: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut whole = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(8) {
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let piece = rest.get(..number(4)).ok_or("a block is cut off")?;
        if whole.len() + number(0) > length {
            return Err("more content than announced".to_owned());
        }
        whole.extend_from_slice(&block(piece, number(0))?);
        bytes = &rest[number(4)..];
    }
    if bytes.is_empty() && whole.len() == length {
        Ok(whole)
    } else {
        Err("not framed as Hadoop does".to_owned())
    }
}

/// Start of each fragment of [`FRAGMENT`] bytes of content in snappy-compressed bytes, and the end of the last one.
/// Any part of the content can then be decompressed alone. `None` if references cross fragments.
pub(super) fn snappy_fragments(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut at = bytes.iter().position(|byte| byte & 128 == 0)? + 1;
    let (mut out, mut starts) = (0usize, Vec::new());
    while at < bytes.len() {
        if out.is_multiple_of(FRAGMENT) {
            starts.push(u32::try_from(at).ok()?);
        }
        let tag = bytes[at];
        let little = |from: usize, count: usize| -> Option<usize> {
            let bytes = bytes.get(from..from + count)?;
            Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
        };
        let (length, size, back) = match (tag & 3, usize::from(tag >> 2)) {
            (0, short @ 0..60) => (short + 1, 2 + short, 0),
            (0, long) => {
                let length = little(at + 1, long - 59)?.checked_add(1)?;
                (length, length.checked_add(1 + long - 59)?, 0)
            }
            (1, rest) => ((rest & 7) + 4, 2, usize::from(tag >> 5) << 8 | little(at + 1, 1)?),
            (2, rest) => (rest + 1, 3, little(at + 1, 2)?),
            (_, rest) => (rest + 1, 5, little(at + 1, 4)?),
        };
        let inside = out % FRAGMENT;
        if back > inside || inside + length > FRAGMENT {
            return None;
        }
        at = at.checked_add(size)?;
        out += length;
    }
    starts.push(u32::try_from(bytes.len()).ok()?);
    (at == bytes.len()).then_some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snappy_can_be_read_from_every_fragment() {
        let mut content: Vec<u8> =
            (0..300_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        content.resize(content.len() + 200_000, 7);
        let compressed = snap::raw::Encoder::new().compress_vec(&content).unwrap();
        let starts = snappy_fragments(&compressed).unwrap();
        assert_eq!(starts.len(), content.len().div_ceil(FRAGMENT) + 1);
        for fragment in 0..starts.len() - 1 {
            let expected = &content[fragment * FRAGMENT..content.len().min((fragment + 1) * FRAGMENT)];
            let mut alone = Vec::new();
            let mut length = expected.len();
            while length > 127 {
                alone.push(length as u8 | 128);
                length >>= 7;
            }
            alone.push(length as u8);
            alone.extend_from_slice(&compressed[starts[fragment] as usize..starts[fragment + 1] as usize]);
            assert_eq!(snap::raw::Decoder::new().decompress_vec(&alone).unwrap(), expected);
        }
        for length in 0..200 {
            let _ = snappy_fragments(&compressed[..length]);
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for codec in [Codec::Snappy, Codec::Gzip, Codec::Brotli, Codec::Lz4, Codec::Lz4Raw, Codec::Zstd] {
            for bytes in [&b""[..], b"\x01", b"hello hello", &[0xff; 40]] {
                assert!(inflate(codec, bytes, 1 << 30).is_err(), "{codec:?}");
            }
        }
    }
}
