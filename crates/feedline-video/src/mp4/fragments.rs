//! Fragments of an mp4: each has a table of its own, ahead of its frames.

use super::{find, need, nodes, u32_at, u64_at};
use crate::error::{Error, Result, malformed};
use crate::index::Packet;

/// What frames are like if their table does not say it.
#[derive(Clone, Copy, Default)]
struct Defaults {
    duration: u32,
    size: u32,
    flags: u32,
}

/// The bit that says that decoding cannot begin at a frame.
const NOT_A_KEY: u32 = 0x1_0000;

/// Adds the packets of all fragments. Returns the tick at which the last one ends.
pub(super) fn packets(
    moov: &[u8],
    trak: &[u8],
    fragments: &[(u64, Vec<u8>)],
    file: u64,
    packets: &mut Vec<Packet>,
) -> Result<i64> {
    let tkhd = need(trak, &[b"tkhd"])?;
    let track = u32_at(tkhd, if tkhd.first() == Some(&1) { 20 } else { 12 })?;
    let defaults = defaults(moov, track)?;
    let mut walk = Walk { track, defaults, file, packets, time: 0, end: 0 };
    for (start, moof) in fragments {
        walk.fragment(*start, moof)?;
    }
    Ok(walk.end)
}

fn defaults(moov: &[u8], track: u32) -> Result<Defaults> {
    let Some(mvex) = find(moov, &[b"mvex"])? else { return Ok(Defaults::default()) };
    for found in nodes(mvex) {
        let found = found?;
        if found.kind == *b"trex" && u32_at(found.body, 4)? == track {
            let number = |at| u32_at(found.body, at);
            return Ok(Defaults { duration: number(12)?, size: number(16)?, flags: number(20)? });
        }
    }
    Ok(Defaults::default())
}

/// One number after the other.
struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Numbers<'_> {
    fn next(&mut self) -> Result<u32> {
        let value = u32_at(self.bytes, self.at)?;
        self.at += 4;
        Ok(value)
    }

    fn next_if(&mut self, there: bool, otherwise: u32) -> Result<u32> {
        if there { self.next() } else { Ok(otherwise) }
    }
}

struct Walk<'a> {
    track: u32,
    defaults: Defaults,
    file: u64,
    packets: &'a mut Vec<Packet>,
    /// When the next frame is decoded.
    time: i64,
    end: i64,
}

impl Walk<'_> {
    fn fragment(&mut self, start: u64, moof: &[u8]) -> Result<()> {
        for found in nodes(moof) {
            let found = found?;
            if found.kind == *b"traf" {
                self.track(start, found.body)?;
            }
        }
        Ok(())
    }

    fn track(&mut self, start: u64, traf: &[u8]) -> Result<()> {
        let tfhd = need(traf, &[b"tfhd"])?;
        let flags = u32_at(tfhd, 0)? & 0xff_ffff;
        if u32_at(tfhd, 4)? != self.track {
            return Ok(());
        }
        let mut numbers = Numbers { bytes: tfhd, at: 8 };
        let mut base = start;
        if flags & 1 != 0 {
            base = u64_at(tfhd, 8)?;
            numbers.at = 16;
        }
        numbers.next_if(flags & 2 != 0, 0)?;
        let defaults = Defaults {
            duration: numbers.next_if(flags & 8 != 0, self.defaults.duration)?,
            size: numbers.next_if(flags & 0x10 != 0, self.defaults.size)?,
            flags: numbers.next_if(flags & 0x20 != 0, self.defaults.flags)?,
        };
        if let Some(tfdt) = find(traf, &[b"tfdt"])? {
            let long = tfdt.first() == Some(&1);
            let time = if long { u64_at(tfdt, 4)? } else { u64::from(u32_at(tfdt, 4)?) };
            self.time = i64::try_from(time).map_err(|_| malformed("a fragment at an impossible time"))?;
        }
        let mut next = base;
        for found in nodes(traf) {
            let found = found?;
            if found.kind == *b"trun" {
                next = self.run(found.body, base, next, defaults)?;
            }
        }
        Ok(())
    }

    /// Adds the packets of one run. Returns where its data end.
    fn run(&mut self, trun: &[u8], base: u64, next: u64, defaults: Defaults) -> Result<u64> {
        let flags = u32_at(trun, 0)? & 0xff_ffff;
        let count = u32_at(trun, 4)?;
        // A packet has at least a byte, so the file bounds their number.
        if self.packets.len() as u64 + u64::from(count) > self.file {
            return Err(malformed(format!("{count} more packets in a file of {} bytes", self.file)));
        }
        let room = count as usize;
        self.packets.try_reserve(room).map_err(|_| Error::OutOfMemory { bytes: 32 * u64::from(count) })?;
        let mut numbers = Numbers { bytes: trun, at: 8 };
        let mut offset = next;
        if flags & 1 != 0 {
            let shift = i64::from(numbers.next()?.cast_signed());
            offset = base
                .checked_add_signed(shift)
                .ok_or_else(|| malformed("a run of frames outside the file"))?;
        }
        let first = numbers.next_if(flags & 4 != 0, defaults.flags)?;
        for number in 0..count {
            let usual = if number == 0 { first } else { defaults.flags };
            let duration = numbers.next_if(flags & 0x100 != 0, defaults.duration)?;
            let size = numbers.next_if(flags & 0x200 != 0, defaults.size)?;
            let about = numbers.next_if(flags & 0x400 != 0, usual)?;
            let shift = numbers.next_if(flags & 0x800 != 0, 0)?.cast_signed();
            let pts = self.time.saturating_add(i64::from(shift));
            self.packets.push(Packet { offset, size, pts, key: about & NOT_A_KEY == 0 });
            offset = offset.saturating_add(u64::from(size));
            self.time = self.time.saturating_add(i64::from(duration));
            self.end = self.end.max(pts.saturating_add(i64::from(duration)));
        }
        Ok(offset)
    }
}
