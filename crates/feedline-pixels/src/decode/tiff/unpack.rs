//! Unpacks a strip or tile to rows of whole bytes, with samples in this machine's byte order.

use std::borrow::Cow;

use super::CODEC;
use super::fax;
use super::layout::{Compression, Layout};
use crate::{Result, fit};

/// Memory limit for unpacking xz: the dictionary of its highest preset, and some extra.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// Size of a chunk: pixels across and down, and samples per pixel.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkShape {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) samples: usize,
}

impl ChunkShape {
    /// Bytes of a row.
    pub(super) fn row_bytes(self, bits: usize) -> usize {
        (self.width * self.samples * bits).div_ceil(8)
    }
}

/// Decompresses `data` into `out`: rows of `shape`, predictor undone.
pub(super) fn unpack(
    layout: &Layout,
    data: &[u8],
    offset: usize,
    shape: ChunkShape,
    out: &mut Vec<u8>,
) -> Result<()> {
    let length = shape.row_bytes(layout.bits) * shape.height;
    check_plausible(layout, data.len(), length, shape.width)?;
    fit(out, length, 0)?;
    let data = if layout.reversed_bits { Cow::Owned(reversed(data)?) } else { Cow::Borrowed(data) };
    let filled = decompress(layout, &data, offset, shape, out)?;
    if filled < length {
        let reason = format!("the chunk at byte {offset} has {filled} bytes of pixels instead of {length}");
        return Err(CODEC.truncated(reason));
    }
    let row_bytes = shape.row_bytes(layout.bits);
    match layout.predictor {
        3 => {
            let mut planes = Vec::new();
            fit(&mut planes, row_bytes, 0)?;
            out.chunks_exact_mut(row_bytes)
                .try_for_each(|row| float_predictor(row, layout, shape.samples, &mut planes))?;
        }
        predictor => {
            to_native(out, layout);
            if predictor == 2 {
                out.chunks_exact_mut(row_bytes)
                    .try_for_each(|row| differences(row, layout, shape.samples))?;
            }
        }
    }
    Ok(())
}

/// Refuses a size that the data are too short for, before memory is allocated.
fn check_plausible(layout: &Layout, present: usize, length: usize, width: usize) -> Result<()> {
    let ratio = match layout.compression {
        // A row takes one bit.
        Compression::Fax(_) => width.max(8),
        other => other.best_ratio(),
    };
    if length / ratio <= present {
        return Ok(());
    }
    Err(CODEC.truncated(format!("{present} bytes cannot hold {length} bytes of pixels")))
}

/// Decompresses into `out`; returns the number of bytes written.
fn decompress(
    layout: &Layout,
    data: &[u8],
    offset: usize,
    shape: ChunkShape,
    out: &mut [u8],
) -> Result<usize> {
    let bad = |what: &str, error: &dyn std::fmt::Display| CODEC.corrupt(offset, format!("{what}: {error}"));
    match layout.compression {
        Compression::None => {
            let length = data.len().min(out.len());
            out[..length].copy_from_slice(&data[..length]);
            Ok(length)
        }
        Compression::PackBits => Ok(pack_bits(data, out)),
        Compression::Lzw => {
            lzw_codes(data, out).map_err(|at| CODEC.corrupt(offset + at, "LZW code that does not exist"))
        }
        Compression::Deflate => {
            deflate(data, out).map_err(|at| CODEC.corrupt(offset + at, "the deflated pixels are damaged"))
        }
        Compression::Fax(_) if layout.bits != 1 || shape.samples != 1 => {
            Err(CODEC.unsupported("fax compression of more than one bit per pixel"))
        }
        Compression::Fax(kind) => {
            fax::decode(data, kind, shape.width, out)?;
            Ok(out.len())
        }
        Compression::Zstd => {
            let mut stream =
                zstd::stream::read::Decoder::with_buffer(data).map_err(|error| bad("zstd", &error))?;
            read_full(&mut stream, out).map_err(|error| bad("zstd", &error))
        }
        Compression::Lzma => {
            let mut stream = lzma_rust2::XzReader::new_mem_limit(data, false, XZ_MEMORY_KIB);
            read_full(&mut stream, out).map_err(|error| bad("xz", &error))
        }
        Compression::Jpeg => unreachable!("JPEG chunks are whole images: see jpeg.rs"),
    }
}

/// Reads until `out` is full or the stream ends. A little more is asked for, so that checksums are verified.
fn read_full(stream: &mut dyn std::io::Read, out: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match stream.read(&mut out[filled..])? {
            0 => return Ok(filled),
            count => filled += count,
        }
    }
    // How much more there is does not matter.
    let _more = stream.read(&mut [0; 64])?;
    Ok(filled)
}

/// Decompresses, and verifies the checksum that follows the last byte. An error is the place of the damage.
fn deflate(data: &[u8], out: &mut [u8]) -> Result<usize, usize> {
    let finish = flate2::FlushDecompress::Finish;
    let mut inflate = flate2::Decompress::new(true);
    let mut next = |data: &[u8], out: &mut [u8]| {
        let status = inflate.decompress(data, out, finish);
        let (read, filled) = (inflate.total_in() as usize, inflate.total_out() as usize);
        status.map(|status| (status, read, filled)).map_err(|_| read)
    };
    let (status, read, filled) = next(data, out)?;
    if filled == out.len() && status != flate2::Status::StreamEnd {
        next(&data[read..], &mut [0; 64])?;
    }
    Ok(filled)
}

/// Decodes until `out` is full or the codes end. An error is the place of the damage.
fn lzw_codes(data: &[u8], out: &mut [u8]) -> Result<usize, usize> {
    let mut decoder = lzw(data);
    let (mut read, mut filled) = (0, 0);
    loop {
        let done = decoder.decode_bytes(&data[read..], &mut out[filled..]);
        read += done.consumed_in;
        filled += done.consumed_out;
        let moved = done.consumed_in + done.consumed_out > 0;
        if filled == out.len() {
            return Ok(filled);
        }
        if !matches!(done.status.map_err(|_| read)?, weezl::LzwStatus::Ok) || !moved {
            return Ok(filled);
        }
    }
}

/// TIFF's LZW, or that of old writers, whose bits are in reverse order; libtiff distinguishes them by the first code.
fn lzw(data: &[u8]) -> weezl::decode::Decoder {
    match data {
        [0, second, ..] if second & 1 == 1 => weezl::decode::Decoder::new(weezl::BitOrder::Lsb, 8),
        _ => weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8),
    }
}

fn pack_bits(data: &[u8], out: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while let (Some(&head), true) = (data.get(from), to < out.len()) {
        from += 1;
        match head as i8 {
            count @ 0.. => {
                let length = (count as usize + 1).min(data.len() - from).min(out.len() - to);
                out[to..to + length].copy_from_slice(&data[from..from + length]);
                (from, to) = (from + count as usize + 1, to + length);
                if from > data.len() {
                    break;
                }
            }
            -128 => {}
            count => {
                let Some(&value) = data.get(from) else { break };
                let length = (1 - isize::from(count)).unsigned_abs().min(out.len() - to);
                out[to..to + length].fill(value);
                (from, to) = (from + 1, to + length);
            }
        }
    }
    to
}

fn reversed(data: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    fit(&mut copy, data.len(), 0)?;
    for (to, from) in copy.iter_mut().zip(data) {
        *to = from.reverse_bits();
    }
    Ok(copy)
}

/// Samples of several bytes in this machine's order.
fn to_native(bytes: &mut [u8], layout: &Layout) {
    let width = layout.bits / 8;
    if layout.big_endian != cfg!(target_endian = "big") && matches!(layout.bits, 16 | 32 | 64) {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

/// Undoes horizontal differencing in one row.
fn differences(row: &mut [u8], layout: &Layout, samples: usize) -> Result<()> {
    match layout.bits {
        8 => {
            for at in samples..row.len() {
                row[at] = row[at].wrapping_add(row[at - samples]);
            }
        }
        16 => accumulate::<2>(row, samples, |a, b| {
            u16::from_ne_bytes(a).wrapping_add(u16::from_ne_bytes(b)).to_ne_bytes()
        }),
        32 => accumulate::<4>(row, samples, |a, b| {
            u32::from_ne_bytes(a).wrapping_add(u32::from_ne_bytes(b)).to_ne_bytes()
        }),
        64 => accumulate::<8>(row, samples, |a, b| {
            u64::from_ne_bytes(a).wrapping_add(u64::from_ne_bytes(b)).to_ne_bytes()
        }),
        bits => return Err(CODEC.unsupported(format!("predictor 2 with {bits} bits per sample"))),
    }
    Ok(())
}

fn accumulate<const N: usize>(row: &mut [u8], samples: usize, add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (values, _) = row.as_chunks_mut::<N>();
    for at in samples..values.len() {
        values[at] = add(values[at], values[at - samples]);
    }
}

/// Undoes the floating-point predictor: bytes are differences to the pixel before, grouped by significance, highest
/// first.
fn float_predictor(row: &mut [u8], layout: &Layout, samples: usize, planes: &mut [u8]) -> Result<()> {
    let width = layout.bits / 8;
    if !matches!(layout.bits, 16 | 32 | 64) {
        return Err(CODEC.unsupported(format!("predictor 3 with {} bits per sample", layout.bits)));
    }
    for at in samples..row.len() {
        row[at] = row[at].wrapping_add(row[at - samples]);
    }
    let count = row.len() / width;
    planes.copy_from_slice(row);
    for (number, value) in row.chunks_exact_mut(width).enumerate() {
        for (byte, place) in value.iter_mut().enumerate() {
            let significance = if cfg!(target_endian = "big") { byte } else { width - 1 - byte };
            *place = planes[significance * count + number];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pack_bits_example_of_the_specification() {
        let packed =
            [0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7, 0xAA];
        let mut out = [0; 24];
        assert_eq!(pack_bits(&packed, &mut out), 24);
        assert_eq!(out[..8], [0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA]);
        for cut in 0..packed.len() {
            assert!(pack_bits(&packed[..cut], &mut out) <= 24);
        }
    }
}
