//! Compressed buffers of a record batch: the length of the content in 8 bytes, then the content as an LZ4 or zstd
//! frame. A length of -1 means that the content is not compressed.

use std::io::Read;

use super::message::Codec;
use crate::format::bounds;

/// Maximum length of a buffer.
const MAX_BYTES: u64 = 2 << 30;

/// The buffer's content. Memory grows with the real content, not with the announced length.
pub(super) fn inflate(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let (length, content) = bytes.split_at_checked(8).ok_or("a compressed buffer without its length")?;
    let length = i64::from_le_bytes(length.try_into().expect("eight bytes"));
    if length == -1 {
        return Ok(content.to_vec());
    }
    let length = u64::try_from(length).ok().filter(|length| *length <= MAX_BYTES);
    let length = length.ok_or("a compressed buffer of impossible length")?;
    bounds::check_announced(content.len() as u64, length)?;
    let mut whole = Vec::with_capacity(length.min(content.len() as u64 * 4) as usize);
    let read = match codec {
        Codec::Lz4 => lz4_flex::frame::FrameDecoder::new(content).take(length + 1).read_to_end(&mut whole),
        Codec::Zstd => zstd::stream::read::Decoder::with_buffer(content)
            .and_then(|decoder| decoder.take(length + 1).read_to_end(&mut whole)),
    };
    read.map_err(|e| format!("a buffer cannot be decompressed: {e}"))?;
    if whole.len() as u64 != length {
        return Err(format!("a buffer of {length} bytes has other content: {} bytes", whole.len()));
    }
    Ok(whole)
}
