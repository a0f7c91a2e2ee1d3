//! Blosc's own container (version 1, which Zarr's `blosc` codec writes): blocks, each split into streams, of shuffled
//! bytes or bits.

use super::super::bounds::unpacked;

const HEADER: usize = 16;
/// Blocks are split into one stream per byte of an element only if each stream has at least this many bytes, and
/// there are at most this many streams.
const LEAST_STREAM: usize = 128;
const MOST_STREAMS: usize = 16;
/// Maximum distance of a short reference of BloscLZ.
const NEAR: usize = 8191;

/// Content of the first bytes.
struct BloscHeader {
    flags: u8,
    element: usize,
    length: usize,
    block: usize,
}

/// The inflated content of `packed`, which may have at most `most` bytes.
pub(super) fn inflate(packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let header = BloscHeader::parse(packed)?;
    if header.length as u64 > most {
        return Err(format!("{} bytes are announced, at most {most} expected", header.length));
    }
    if header.flags & 2 != 0 {
        let stored = packed.get(HEADER..HEADER + header.length).ok_or("the stored bytes end early")?;
        return Ok(stored.to_vec());
    }
    let mut out = Vec::new();
    out.try_reserve_exact(header.length).map_err(|_| "no memory for its content".to_owned())?;
    let blocks = header.length.div_ceil(header.block);
    for block in 0..blocks {
        let start = int(packed, HEADER + 4 * block)?;
        let length = header.block.min(header.length - out.len());
        let whole = header.streams(packed, start, length)?;
        header.restore(&whole, &mut out);
    }
    Ok(out)
}

fn int(bytes: &[u8], at: usize) -> Result<usize, String> {
    let four = bytes.get(at..at.saturating_add(4)).and_then(|four| <[u8; 4]>::try_from(four).ok());
    four.map(|four| u32::from_le_bytes(four) as usize).ok_or_else(|| "it ends early".to_owned())
}

impl BloscHeader {
    fn parse(packed: &[u8]) -> Result<Self, String> {
        let short = || "too short for Blosc".to_owned();
        let head = packed.get(..HEADER).ok_or_else(short)?;
        if head[0] != 2 {
            return Err(format!("Blosc of format {} is not supported", head[0]));
        }
        let (length, block) = (int(packed, 4)?, int(packed, 8)?);
        if (block == 0 && length > 0) || head[3] == 0 {
            return Err("blocks or elements of no bytes".to_owned());
        }
        Ok(BloscHeader { flags: head[2], element: usize::from(head[3]), length, block: block.max(1) })
    }

    /// The streams of a block, one after the other.
    fn streams(&self, packed: &[u8], start: usize, length: usize) -> Result<Vec<u8>, String> {
        let split = self.flags & 0x10 == 0
            && self.element <= MOST_STREAMS
            && self.block / self.element >= LEAST_STREAM
            && length == self.block;
        let count = if split { self.element } else { 1 };
        let each = length / count;
        let (mut at, mut whole) = (start, Vec::with_capacity(length));
        for _ in 0..count {
            let size = int(packed, at)?;
            let stream = packed.get(at + 4..(at + 4).saturating_add(size)).ok_or("a stream ends early")?;
            at += 4 + size;
            if size == each {
                whole.extend_from_slice(stream);
                continue;
            }
            let one = self.stream(stream, each)?;
            if one.len() != each {
                return Err(format!("a stream of {} bytes, {each} expected", one.len()));
            }
            whole.extend_from_slice(&one);
        }
        Ok(whole)
    }

    fn stream(&self, stream: &[u8], length: usize) -> Result<Vec<u8>, String> {
        match self.flags >> 5 {
            0 => blosclz(stream, length),
            1 => lz4_flex::block::decompress(stream, length).map_err(|error| error.to_string()),
            2 => snap::raw::Decoder::new().decompress_vec(stream).map_err(|error| error.to_string()),
            3 => unpacked(flate2::read::ZlibDecoder::new(stream), length as u64),
            4 => {
                let decoder = zstd::stream::read::Decoder::with_buffer(stream).map_err(|e| e.to_string())?;
                unpacked(decoder, length as u64)
            }
            other => Err(format!("Blosc's compressor {other} is unknown")),
        }
    }

    /// Appends a block after undoing the shuffle of its bytes or bits.
    fn restore(&self, block: &[u8], out: &mut Vec<u8>) {
        let count = block.len() / self.element;
        if self.flags & 1 != 0 && self.element > 1 {
            let whole = count * self.element;
            out.extend((0..whole).map(|at| block[at % self.element * count + at / self.element]));
            out.extend_from_slice(&block[whole..]);
        } else if self.flags & 4 != 0 && count.is_multiple_of(8) {
            let row = count / 8;
            let bit = |element: usize, bit: usize| block[bit * row + element / 8] >> (element % 8) & 1;
            let byte = |element: usize, byte: usize| {
                (0..8).fold(0, |sum, place| sum | bit(element, byte * 8 + place) << place)
            };
            let (whole, size) = (count * self.element, self.element);
            out.extend((0..whole).map(|at| byte(at / size, at % size)));
            out.extend_from_slice(&block[whole..]);
        } else {
            out.extend_from_slice(block);
        }
    }
}

/// Blosc's own compressor: runs of literal bytes, and references back.
fn blosclz(stream: &[u8], length: usize) -> Result<Vec<u8>, String> {
    let mut out: Vec<u8> = Vec::with_capacity(length);
    let mut at = 0;
    let next = |at: &mut usize| {
        let byte = stream.get(*at).copied().ok_or("a reference ends early")?;
        *at += 1;
        Ok::<usize, String>(usize::from(byte))
    };
    while at < stream.len() {
        // The first word is a run of literals, whatever its upper bits are.
        let word = next(&mut at)? & if at == 1 { 31 } else { 255 };
        if word < 32 {
            let literals = stream.get(at..at + word + 1).ok_or("literal bytes end early")?;
            out.extend_from_slice(literals);
            at += word + 1;
        } else {
            let (mut count, mut back) = ((word >> 5) - 1, (word & 31) << 8);
            if count == 6 {
                loop {
                    let more = next(&mut at)?;
                    count += more;
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = next(&mut at)?;
            back = if low == 255 && back == 31 << 8 {
                (next(&mut at)? << 8) + next(&mut at)? + NEAR
            } else {
                back + low
            };
            refer(&mut out, back + 1, count + 3, length)?;
        }
        if out.len() > length {
            return Err("more bytes than announced".to_owned());
        }
    }
    Ok(out)
}

/// Appends `count` bytes from `back` bytes ago; the ranges may overlap.
fn refer(out: &mut Vec<u8>, back: usize, count: usize, most: usize) -> Result<(), String> {
    let from = out.len().checked_sub(back).ok_or("a reference to before the beginning")?;
    if out.len() + count > most {
        return Err("more bytes than announced".to_owned());
    }
    for at in from..from + count {
        out.push(out[at]);
    }
    Ok(())
}
