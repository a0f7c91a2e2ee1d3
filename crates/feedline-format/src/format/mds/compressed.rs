//! Compressed shards: each must be inflated whole before a sample can be read.

use std::io::{self, Read};

use crate::source::Object;

/// How a file is compressed. The level, which may follow the name, matters only to writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Brotli,
    Bzip2,
    Gzip,
    Snappy,
    Zstd,
}

impl Codec {
    /// Parses Mosaic's name, such as `zstd:7`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.split(':').next().unwrap_or(text) {
            "br" => Codec::Brotli,
            "bz2" => Codec::Bzip2,
            "gz" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "zstd" => Codec::Zstd,
            _ => return Err(format!("compression '{text}' is not one of br, bz2, gz, snappy, zstd")),
        })
    }

    /// Inflates `packed` to exactly `length` bytes. Memory grows with the bytes that come out, never with what a file
    /// says.
    pub(super) fn inflate(self, mut packed: impl Read, length: u64) -> io::Result<Vec<u8>> {
        match self {
            Codec::Brotli => exactly(brotli::Decompressor::new(packed, 1 << 16), length),
            Codec::Bzip2 => exactly(bzip2::read::MultiBzDecoder::new(packed), length),
            Codec::Gzip => exactly(flate2::read::MultiGzDecoder::new(packed), length),
            Codec::Zstd => exactly(zstd::stream::read::Decoder::new(packed)?, length),
            Codec::Snappy => {
                // One block without frames: there is no output before all input is read.
                let mut whole = Vec::new();
                packed.read_to_end(&mut whole)?;
                let said = snap::raw::decompress_len(&whole).map_err(io::Error::other)?;
                // A byte of input makes at most 64 bytes of output (a copy of two or three bytes).
                if said as u64 != length || said / 64 > whole.len() {
                    return Err(io::Error::other(format!("{said} bytes inside, {length} expected")));
                }
                snap::raw::Decoder::new().decompress_vec(&whole).map_err(io::Error::other)
            }
        }
    }
}

fn exactly(inflated: impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(length.min(64 << 20) as usize);
    inflated.take(length.saturating_add(1)).read_to_end(&mut out)?;
    if out.len() as u64 == length {
        return Ok(out);
    }
    let found = if out.len() as u64 > length { "more".to_owned() } else { out.len().to_string() };
    Err(io::Error::other(format!("{found} bytes inside, {length} expected")))
}

/// Reads an object from front to back.
pub(super) struct ObjectReader<'a> {
    object: &'a dyn Object,
    at: u64,
}

impl<'a> ObjectReader<'a> {
    pub(super) fn new(object: &'a dyn Object) -> io::BufReader<Self> {
        io::BufReader::with_capacity(1 << 20, ObjectReader { object, at: 0 })
    }
}

impl Read for ObjectReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.object.size().saturating_sub(self.at);
        let length = left.min(into.len() as u64) as usize;
        self.object.read_at(self.at, &mut into[..length]).map_err(io::Error::other)?;
        self.at += length as u64;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        match codec {
            Codec::Brotli => {
                let mut out = Vec::new();
                brotli::CompressorWriter::new(&mut out, 4096, 5, 20).write_all(bytes).unwrap();
                out
            }
            Codec::Bzip2 => {
                let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Codec::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                writer.write_all(bytes).unwrap();
                writer.finish().unwrap()
            }
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
            Codec::Zstd => zstd::stream::encode_all(bytes, 3).unwrap(),
        }
    }

    #[test]
    fn every_codec_gives_the_announced_length_or_an_error() {
        let bytes = b"some bytes, again and again. ".repeat(100);
        let length = bytes.len() as u64;
        for name in ["br:11", "bz2", "gz:0", "snappy", "zstd:22"] {
            let codec = Codec::parse(name).unwrap();
            let packed = packed(codec, &bytes);
            assert_eq!(codec.inflate(&packed[..], length).unwrap(), bytes, "{name}");
            for wrong in [0, length - 1, length + 1, u64::MAX] {
                assert!(codec.inflate(&packed[..], wrong).is_err(), "{name} {wrong}");
            }
            assert!(codec.inflate(&packed[..packed.len() / 2], length).is_err(), "{name}");
            assert!(codec.inflate(&b""[..], length).is_err(), "{name}");
            assert!(codec.inflate(&b"not packed at all"[..], length).is_err(), "{name}");
        }
        assert!(Codec::parse("lzma").is_err());
    }
}
