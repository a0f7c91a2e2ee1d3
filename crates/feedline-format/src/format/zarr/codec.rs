//! Decodes a chunk's bytes: undoes its codecs in reverse order. Names and settings are those of Zarr 3's `codecs` and
//! of numcodecs (Zarr 2).

use feedline_pixels::checksum;
use serde_json::Value as Json;

use super::super::bounds::{self, unpacked};
use super::blosc;

/// One step from bytes to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Zlib,
    Zstd,
    Lz4,
    Bz2,
    Blosc,
    Crc32c,
}

impl Codec {
    /// The codec with this name in either version of Zarr.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        match name {
            "gzip" | "numcodecs.gzip" => Ok(Codec::Gzip),
            "zlib" | "numcodecs.zlib" => Ok(Codec::Zlib),
            "zstd" | "numcodecs.zstd" => Ok(Codec::Zstd),
            "lz4" | "numcodecs.lz4" => Ok(Codec::Lz4),
            "bz2" | "numcodecs.bz2" => Ok(Codec::Bz2),
            "blosc" | "numcodecs.blosc" => Ok(Codec::Blosc),
            "crc32c" => Ok(Codec::Crc32c),
            other => Err(format!(
                "codec '{other}' is not supported; gzip, zlib, zstd, lz4, bz2, blosc, crc32c, transpose and sharding are"
            )),
        }
    }

    /// The name in a codec's description, `{"name": ...}` (Zarr 3) or `{"id": ...}` (Zarr 2).
    pub(super) fn name_of(description: &Json) -> Result<&str, String> {
        let name = description.get("name").or_else(|| description.get("id")).and_then(Json::as_str);
        name.or_else(|| description.as_str()).ok_or_else(|| "a codec without a name".to_owned())
    }

    fn undo(self, bytes: &[u8], most: u64) -> Result<Vec<u8>, String> {
        let text = |error: std::io::Error| error.to_string();
        match self {
            Codec::Gzip => unpacked(flate2::read::MultiGzDecoder::new(bytes), most),
            Codec::Zlib => unpacked(flate2::read::ZlibDecoder::new(bytes), most),
            Codec::Bz2 => unpacked(bzip2::read::MultiBzDecoder::new(bytes), most),
            Codec::Zstd => unpacked(zstd::stream::read::Decoder::with_buffer(bytes).map_err(text)?, most),
            Codec::Lz4 => {
                let (length, rest) = bytes.split_first_chunk::<4>().ok_or("too short for LZ4")?;
                let length = u32::from_le_bytes(*length);
                if u64::from(length) > most {
                    return Err(format!("{length} bytes are announced, at most {most} expected"));
                }
                lz4_flex::block::decompress(rest, length as usize).map_err(|error| error.to_string())
            }
            Codec::Blosc => blosc::inflate(bytes, most),
            Codec::Crc32c => {
                let (content, sum) = bytes.split_last_chunk::<4>().ok_or("too short for a checksum")?;
                if checksum::crc32c(content) != u32::from_le_bytes(*sum) {
                    return Err("the checksum does not fit".to_owned());
                }
                Ok(content.to_vec())
            }
        }
    }
}

/// Undoes all of `codecs`. `expected` is the length of the result, where it is known.
pub(super) fn undo(codecs: &[Codec], stored: Vec<u8>, expected: Option<u64>) -> Result<Vec<u8>, String> {
    // Intermediate results may be longer than the content by a header or a checksum.
    let most = match expected {
        Some(length) => length.saturating_add(length / 2).saturating_add(1 << 16),
        None => bounds::most_unpacked(stored.len() as u64),
    };
    let bytes = codecs.iter().rev().try_fold(stored, |bytes, codec| codec.undo(&bytes, most))?;
    match expected {
        Some(length) if bytes.len() as u64 != length => {
            Err(format!("a chunk of {} bytes, {length} expected", bytes.len()))
        }
        _ => Ok(bytes),
    }
}
