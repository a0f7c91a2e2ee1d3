//! An index as bytes, so that a file is not read again to find its packets.
//!
//! ```text
//! version (1) · codec · width, height (u32) · rotation (u16) · ticks per second, duration (f64) · length of the file (u64)
//! length of the configuration (u32) · configuration · number of packets (u32) · 1 if packets have checksums
//! for each packet: size and key frame, distance from the last one's end, time since the last one: numbers of variable length
//! for each packet, if there are checksums: CRC-32C (u32) · at the end: CRC-32C of all before (u32)
//! ```

use std::cmp::Ordering;

use crate::error::{Error, Result, malformed};
use crate::index::{Codec, Index, Packet};

const VERSION: u8 = 1;
/// In the order of their numbers in stored indexes, which never changes.
const CODECS: [Codec; 6] = Codec::ALL;

impl Index {
    /// This index as bytes, for [`Index::from_bytes`]. `size` is the length of the file.
    pub fn to_bytes(&self, size: u64) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.push(CODECS.iter().position(|codec| *codec == self.codec).unwrap_or(0) as u8);
        out.extend(self.width.to_le_bytes());
        out.extend(self.height.to_le_bytes());
        out.extend(self.rotation.to_le_bytes());
        out.extend(self.ticks_per_second.to_le_bytes());
        out.extend(self.duration.to_le_bytes());
        out.extend(size.to_le_bytes());
        out.extend((self.config.len() as u32).to_le_bytes());
        out.extend(&self.config);
        out.extend((self.packets.len() as u32).to_le_bytes());
        out.push(u8::from(!self.checks.is_empty()));
        let (mut end, mut time) = (0u64, 0i64);
        for packet in &self.packets {
            put(&mut out, u64::from(packet.size) << 1 | u64::from(packet.key));
            put(&mut out, folded(packet.offset.wrapping_sub(end).cast_signed()));
            put(&mut out, folded(packet.pts.wrapping_sub(time)));
            end = packet.offset.wrapping_add(u64::from(packet.size));
            time = packet.pts;
        }
        for check in &self.checks {
            out.extend(check.to_le_bytes());
        }
        let check = crc32c::crc32c(&out);
        out.extend(check.to_le_bytes());
        out
    }

    /// The index that [`Index::to_bytes`] wrote for a file of this length.
    pub fn from_bytes(bytes: &[u8], size: u64) -> Result<Self> {
        let (content, check) =
            bytes.split_last_chunk::<4>().ok_or_else(|| malformed("a stored video index ends early"))?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*check) {
            return Err(malformed("a stored video index is damaged"));
        }
        let mut rest = Rest(content);
        if rest.array::<1>()? != [VERSION] {
            return Err(Error::Unsupported("a stored video index of another version".to_owned()));
        }
        let [codec] = rest.array()?;
        let codec = CODECS.get(usize::from(codec)).ok_or_else(|| malformed("a video index of no codec"))?;
        let width = u32::from_le_bytes(rest.array()?);
        let height = u32::from_le_bytes(rest.array()?);
        let rotation = u16::from_le_bytes(rest.array()?);
        let ticks_per_second = f64::from_le_bytes(rest.array()?);
        let duration = f64::from_le_bytes(rest.array()?);
        if u64::from_le_bytes(rest.array()?) != size
            || ticks_per_second.partial_cmp(&0.0) != Some(Ordering::Greater)
            || !duration.is_finite()
        {
            return Err(malformed("the stored index belongs to another video"));
        }
        let length = u32::from_le_bytes(rest.array()?) as usize;
        let config = rest.take(length)?.to_vec();
        let (packets, checks) = rest.packets()?;
        let index = Index {
            codec: *codec,
            width,
            height,
            rotation,
            config,
            ticks_per_second,
            packets,
            shown: Vec::new(),
            duration,
            checks,
        };
        index.finish(size, 0)
    }

    /// Notes the checksum of every packet.
    #[must_use]
    pub fn with_checks(mut self, file: &[u8]) -> Self {
        let range = |packet: &Packet| packet.offset as usize..packet.offset as usize + packet.size as usize;
        let check = |packet: &Packet| file.get(range(packet)).map_or(0, crc32c::crc32c);
        self.checks = self.packets.iter().map(check).collect();
        self
    }
}

fn folded(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unfolded(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let split = self.0.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| malformed("a stored video index ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed("a wrong number in a stored video index"))
    }

    fn packets(&mut self) -> Result<(Vec<Packet>, Vec<u32>)> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        let [checked] = self.array()?;
        // A packet has at least three bytes here, so the index bounds their number.
        if count > self.0.len() {
            return Err(malformed("a stored video index ends early"));
        }
        let (mut packets, mut checks) = (Vec::new(), Vec::new());
        packets.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes: 32 * count as u64 })?;
        let (mut end, mut time) = (0u64, 0i64);
        for _ in 0..count {
            let size = self.number()?;
            let offset = end.wrapping_add(unfolded(self.number()?).cast_unsigned());
            time = time.wrapping_add(unfolded(self.number()?));
            let key = size & 1 == 1;
            let size =
                u32::try_from(size >> 1).map_err(|_| malformed("a frame of more than four gigabytes"))?;
            packets.push(Packet { offset, size, pts: time, key });
            end = offset.wrapping_add(u64::from(size));
        }
        if checked == 1 {
            let rows = self.take(4 * count)?.chunks_exact(4);
            checks.extend(rows.map(|row| u32::from_le_bytes([row[0], row[1], row[2], row[3]])));
        }
        Ok((packets, checks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(checks: bool) -> (Index, Vec<u8>) {
        let file: Vec<u8> = (0..100).collect();
        let packet = |offset, size, pts, key| Packet { offset, size, pts, key };
        let packets = vec![packet(40, 20, 0, true), packet(60, 5, 3000, false), packet(10, 7, 1000, false)];
        let index = Index {
            codec: Codec::Vp9,
            width: 96,
            height: 64,
            rotation: 90,
            config: vec![1, 2, 3],
            ticks_per_second: 90_000.0,
            packets,
            shown: Vec::new(),
            duration: 1.5,
            checks: Vec::new(),
        };
        let index = index.finish(100, 0).unwrap();
        (if checks { index.with_checks(&file) } else { index }, file)
    }

    #[test]
    fn an_index_comes_back() {
        for checks in [false, true] {
            let (index, file) = index(checks);
            let bytes = index.to_bytes(100);
            assert_eq!(Index::from_bytes(&bytes, 100).unwrap(), index);
            assert!(Index::from_bytes(&bytes, 101).is_err(), "of another file");
            assert_eq!(index.checks.first().copied(), checks.then(|| crc32c::crc32c(&file[40..60])));
        }
    }

    #[test]
    fn damaged_and_cut_ones_are_errors() {
        let bytes = index(true).0.to_bytes(100);
        for cut in 0..bytes.len() {
            assert!(Index::from_bytes(&bytes[..cut], 100).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert!(Index::from_bytes(&damaged, 100).is_err(), "{at}");
            // The same with a right checksum: whatever it says is within the file.
            let content = damaged.len() - 4;
            let check = crc32c::crc32c(&damaged[..content]);
            damaged[content..].copy_from_slice(&check.to_le_bytes());
            if let Ok(index) = Index::from_bytes(&damaged, 100) {
                assert!(index.packets.iter().all(|packet| packet.offset + u64::from(packet.size) <= 100));
            }
        }
    }
}
