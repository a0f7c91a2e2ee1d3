//! ISO media files: mp4, mov, m4v. Tables only; frames stay where they are.

mod fragments;

use std::ops::Range;

use crate::bytes::FileBytes;
use crate::error::{Error, Result, malformed};
use crate::index::{Codec, Index, Packet};

/// Boxes may not be nested deeper than this.
const DEEPEST: usize = 8;

pub(crate) fn is_mp4(bytes: &[u8]) -> bool {
    let kind = bytes.get(4..8);
    [&b"ftyp"[..], b"moov", b"mdat", b"wide", b"free", b"skip"].iter().any(|known| kind == Some(known))
}

/// A box: its kind, content, and where the content begins in the file.
#[derive(Clone, Copy)]
struct Node<'a> {
    kind: [u8; 4],
    body: &'a [u8],
}

/// The boxes in `bytes`, one after the other. A box that does not fit ends the list with an error.
fn nodes(bytes: &[u8]) -> impl Iterator<Item = Result<Node<'_>>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.len() < 8 {
            return None;
        }
        let split = node(rest);
        rest = match &split {
            Ok((_, after)) => after,
            Err(_) => &[],
        };
        Some(split.map(|(node, _)| node))
    })
}

fn node(bytes: &[u8]) -> Result<(Node<'_>, &[u8])> {
    let kind = [bytes[4], bytes[5], bytes[6], bytes[7]];
    let (head, size) = match u32_at(bytes, 0)? {
        0 => (8, bytes.len() as u64),
        1 => (16, u64_at(bytes, 8)?),
        size => (8, u64::from(size)),
    };
    let cut = || malformed(format!("box '{}' of {size} bytes does not fit: truncated?", name(kind)));
    let size =
        usize::try_from(size).ok().filter(|size| (head..=bytes.len()).contains(size)).ok_or_else(cut)?;
    Ok((Node { kind, body: &bytes[head..size] }, &bytes[size..]))
}

fn name(kind: [u8; 4]) -> String {
    kind.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' }).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let four = bytes.get(at..at + 4).ok_or_else(|| malformed("a table ends early"))?;
    Ok(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u64::from(u32_at(bytes, at)?) << 32 | u64::from(u32_at(bytes, at + 4)?))
}

/// The first box at this path.
fn find<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Result<Option<&'a [u8]>> {
    let Some((first, rest)) = path.split_first().filter(|_| path.len() <= DEEPEST) else {
        return Ok(Some(bytes));
    };
    for found in nodes(bytes) {
        let found = found?;
        if found.kind == **first {
            return find(found.body, rest);
        }
    }
    Ok(None)
}

/// The box, which must be there.
fn need<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Result<&'a [u8]> {
    find(bytes, path)?.ok_or_else(|| {
        let path: Vec<String> = path.iter().map(|kind| name(**kind)).collect();
        malformed(format!("there is no box {}", path.join("/")))
    })
}

/// Tables of fragments may not be larger in all than this.
const MOST_TABLES: u64 = 1 << 30;

/// The tables of a file: of the whole, and of its fragments with their places.
#[derive(Default)]
struct Tables {
    moov: Option<Vec<u8>>,
    fragments: Vec<(u64, Vec<u8>)>,
}

pub(crate) fn read(file: &mut dyn FileBytes) -> Result<Index> {
    let size = file.size();
    let Tables { moov, fragments } = tables(file)?;
    let moov =
        moov.ok_or_else(|| malformed("there is no box moov: truncated, or not finished by its writer"))?;
    for found in nodes(&moov) {
        let found = found?;
        if found.kind == *b"trak" && handler(found.body)? == *b"vide" {
            return track(size, &moov, found.body, &fragments);
        }
    }
    Err(Error::Unsupported("the file has no video track".to_owned()))
}

/// Walks through the outermost boxes. Only tables are read.
fn tables(file: &mut dyn FileBytes) -> Result<Tables> {
    let (size, mut at) = (file.size(), 0);
    let (mut found, mut bytes) = (Tables::default(), 0u64);
    while size - at >= 8 {
        let (kind, body) = outer(file, at)?;
        if matches!(&kind, b"moov" | b"moof") {
            bytes = bytes.saturating_add(body.end - body.start);
            if bytes > MOST_TABLES {
                return Err(malformed("tables of more than a gigabyte"));
            }
            let content = file.read(body.clone())?;
            let mut table = Vec::new();
            let room = content.len();
            table.try_reserve_exact(room).map_err(|_| Error::OutOfMemory { bytes: room as u64 })?;
            table.extend_from_slice(&content);
            match &kind {
                b"moov" if found.moov.is_none() => found.moov = Some(table),
                b"moov" => {}
                _ => found.fragments.push((at, table)),
            }
        }
        let fragmented = || {
            found.moov.as_ref().is_some_and(|moov| find(moov, &[b"mvex"]).is_ok_and(|part| part.is_some()))
        };
        if found.moov.is_some() && !fragmented() {
            break;
        }
        at = body.end;
    }
    Ok(found)
}

/// Kind of the box at `at` and where its content lies.
fn outer(file: &mut dyn FileBytes, at: u64) -> Result<([u8; 4], Range<u64>)> {
    let left = file.size() - at;
    let head = file.read(at..at + left.min(16))?;
    let kind = [head[4], head[5], head[6], head[7]];
    let (length, size) = match u32_at(&head, 0)? {
        0 => (8, left),
        1 => (16, u64_at(&head, 8)?),
        size => (8, u64::from(size)),
    };
    if !(length..=left).contains(&size) {
        return Err(malformed(format!("box '{}' of {size} bytes does not fit: truncated?", name(kind))));
    }
    Ok((kind, at + length..at + size))
}

fn handler(trak: &[u8]) -> Result<[u8; 4]> {
    let hdlr = need(trak, &[b"mdia", b"hdlr"])?;
    Ok(u32_at(hdlr, 8)?.to_be_bytes())
}

fn track(size: u64, moov: &[u8], trak: &[u8], fragments: &[(u64, Vec<u8>)]) -> Result<Index> {
    let stbl = need(trak, &[b"mdia", b"minf", b"stbl"])?;
    let entry = SampleEntry::read(need(stbl, &[b"stsd"])?)?;
    let mdhd = need(trak, &[b"mdia", b"mdhd"])?;
    let long = mdhd.first() == Some(&1);
    let timescale = u32_at(mdhd, if long { 20 } else { 12 })?;
    if timescale == 0 {
        return Err(malformed("the track's clock does not tick"));
    }
    let sizes = Sizes::read(stbl)?;
    let (mut packets, mut end) = packets(stbl, &sizes, size)?;
    if !fragments.is_empty() {
        let last = fragments::packets(moov, trak, fragments, size, &mut packets)?;
        end = end.max(last);
    }
    let first = first_shown(trak)?;
    let index = Index {
        codec: entry.codec,
        width: entry.width,
        height: entry.height,
        rotation: rotation(need(trak, &[b"tkhd"])?)?,
        config: entry.config.to_vec(),
        ticks_per_second: f64::from(timescale),
        packets,
        shown: Vec::new(),
        checks: Vec::new(),
        duration: (end.saturating_sub(first.max(0))).max(0) as f64 / f64::from(timescale),
    };
    index.finish(size, first)
}

/// The description of the encoded frames.
struct SampleEntry<'a> {
    codec: Codec,
    width: u32,
    height: u32,
    config: &'a [u8],
}

impl<'a> SampleEntry<'a> {
    fn read(stsd: &'a [u8]) -> Result<Self> {
        let entry = nodes(stsd.get(8..).unwrap_or_default()).next();
        let entry = entry.ok_or_else(|| malformed("the track does not say its codec"))??;
        let (codec, config) = match &entry.kind {
            b"avc1" | b"avc3" => (Codec::H264, b"avcC"),
            b"hvc1" | b"hev1" => (Codec::Hevc, b"hvcC"),
            b"vp08" => (Codec::Vp8, b"vpcC"),
            b"vp09" => (Codec::Vp9, b"vpcC"),
            b"av01" => (Codec::Av1, b"av1C"),
            b"mp4v" => (Codec::Mpeg4, b"esds"),
            other => {
                return Err(Error::Unsupported(format!("codec '{}' in an mp4 is not read", name(*other))));
            }
        };
        let size = u32_at(entry.body, 24)?;
        let inner = entry.body.get(78..).unwrap_or_default();
        let found = find(inner, &[config])?.unwrap_or_default();
        let config = if codec == Codec::Mpeg4 { decoder_config(found) } else { found };
        // VP8 and VP9 need nothing before their first packet.
        let config = if matches!(codec, Codec::Vp8 | Codec::Vp9) { &[][..] } else { config };
        Ok(SampleEntry { codec, width: size >> 16, height: size & 0xffff, config })
    }
}

/// The decoder's own part (descriptor 5) of an elementary stream descriptor.
fn decoder_config(esds: &[u8]) -> &[u8] {
    let mut at = 4;
    while at < esds.len() {
        let (tag, mut length) = (esds[at], 0usize);
        at += 1;
        for _ in 0..4 {
            let Some(byte) = esds.get(at) else { return &[] };
            at += 1;
            length = length << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                break;
            }
        }
        match tag {
            3 => at += 3,
            4 => at += 13,
            5 => return esds.get(at..at + length).unwrap_or_default(),
            _ => at += length,
        }
    }
    &[]
}

/// Sizes of the packets.
struct Sizes<'a> {
    /// Of all, if not 0.
    each: u32,
    count: u32,
    table: &'a [u8],
}

impl<'a> Sizes<'a> {
    fn read(stbl: &'a [u8]) -> Result<Self> {
        let stsz = need(stbl, &[b"stsz"])?;
        let (each, count) = (u32_at(stsz, 4)?, u32_at(stsz, 8)?);
        let table = stsz.get(12..).unwrap_or_default();
        if each == 0 && table.len() / 4 < count as usize {
            return Err(malformed(format!("{count} packets, but sizes of {}", table.len() / 4)));
        }
        Ok(Sizes { each, count, table })
    }

    fn get(&self, number: usize) -> Result<u32> {
        if self.each > 0 { Ok(self.each) } else { u32_at(self.table, 4 * number) }
    }
}

/// Entries of a table of `width` numbers each.
fn entries(stbl: &[u8], kind: [u8; 4], width: usize) -> Result<Vec<&[u8]>> {
    let Some(table) = find(stbl, &[&kind])? else { return Ok(Vec::new()) };
    let count = u32_at(table, 4)? as usize;
    let rows = table.get(8..).unwrap_or_default();
    if rows.len() / (4 * width) < count {
        return Err(malformed(format!("table '{}' ends early", name(kind))));
    }
    Ok(rows.chunks_exact(4 * width).take(count).collect())
}

/// All packets in decoding order, and the tick at which the last one ends.
fn packets(stbl: &[u8], sizes: &Sizes<'_>, file: u64) -> Result<(Vec<Packet>, i64)> {
    let count = sizes.count as usize;
    // A packet has at least a byte, so the file bounds their number.
    if count as u64 > file {
        return Err(malformed(format!("{count} packets in a file of {file} bytes")));
    }
    let mut packets = Vec::new();
    packets.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes: 32 * count as u64 })?;
    place(stbl, sizes, &mut packets)?;
    let end = time(stbl, &mut packets)?;
    let keys = entries(stbl, *b"stss", 1)?;
    let all = find(stbl, &[b"stss"])?.is_none();
    for packet in &mut packets {
        packet.key = all;
    }
    for key in keys {
        let number = (u32_at(key, 0)? as usize).wrapping_sub(1);
        packets.get_mut(number).ok_or_else(|| malformed("a key frame past the last one"))?.key = true;
    }
    Ok((packets, end))
}

/// Puts packets at their places: chunks have places, and a table says how many packets each has.
fn place(stbl: &[u8], sizes: &Sizes<'_>, packets: &mut Vec<Packet>) -> Result<()> {
    let long = find(stbl, &[b"co64"])?.is_some();
    let chunks = if long { entries(stbl, *b"co64", 2)? } else { entries(stbl, *b"stco", 1)? };
    let runs = entries(stbl, *b"stsc", 3)?;
    let mut run = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        while runs
            .get(run + 1)
            .is_some_and(|next| u32_at(next, 0).is_ok_and(|first| first as usize <= number + 1))
        {
            run += 1;
        }
        let each = runs.get(run).map_or(Ok(0), |run| u32_at(run, 4))?;
        let mut offset = if long { u64_at(chunk, 0)? } else { u64::from(u32_at(chunk, 0)?) };
        for _ in 0..each {
            if packets.len() == sizes.count as usize {
                return Ok(());
            }
            let size = sizes.get(packets.len())?;
            packets.push(Packet { offset, size, pts: 0, key: false });
            offset = offset.saturating_add(u64::from(size));
        }
    }
    if packets.len() < sizes.count as usize {
        return Err(malformed(format!("{} packets, but places for {}", sizes.count, packets.len())));
    }
    Ok(())
}

/// Sets the times at which packets are shown. Returns the end of the last one.
fn time(stbl: &[u8], packets: &mut [Packet]) -> Result<i64> {
    let (mut at, mut number, mut last) = (0i64, 0, 0);
    for run in entries(stbl, *b"stts", 2)? {
        let (count, step) = (u32_at(run, 0)? as usize, i64::from(u32_at(run, 4)?));
        for packet in packets.iter_mut().skip(number).take(count) {
            packet.pts = at;
            at = at.saturating_add(step);
            last = step;
        }
        number = number.saturating_add(count);
    }
    if number < packets.len() {
        return Err(malformed(format!("{} packets, but times for {number}", packets.len())));
    }
    let mut number = 0;
    for run in entries(stbl, *b"ctts", 2)? {
        let count = u32_at(run, 0)? as usize;
        // Version 0 is unsigned, but writers put negative numbers into it all the same.
        let shift = i64::from(u32_at(run, 4)?.cast_signed());
        for packet in packets.iter_mut().skip(number).take(count) {
            packet.pts = packet.pts.saturating_add(shift);
        }
        number = number.saturating_add(count);
    }
    Ok(packets.iter().map(|packet| packet.pts).max().unwrap_or(0).saturating_add(last))
}

/// The first tick that is shown: the edit list skips what is before it.
fn first_shown(trak: &[u8]) -> Result<i64> {
    let Some(elst) = find(trak, &[b"edts", b"elst"])? else { return Ok(0) };
    let long = elst.first() == Some(&1);
    let width = if long { 20 } else { 12 };
    let count = (u32_at(elst, 4)? as usize).min(elst.len() / width);
    for entry in elst.get(8..).unwrap_or_default().chunks_exact(width).take(count) {
        let start =
            if long { u64_at(entry, 8)?.cast_signed() } else { i64::from(u32_at(entry, 4)?.cast_signed()) };
        if start >= 0 {
            return Ok(start);
        }
    }
    Ok(0)
}

/// Degrees clockwise, from the track's matrix.
fn rotation(tkhd: &[u8]) -> Result<u16> {
    let at = if tkhd.first() == Some(&1) { 52 } else { 40 };
    let part = |number: usize| Ok::<i32, Error>(u32_at(tkhd, at + 4 * number)?.cast_signed());
    Ok(match (part(0)?.signum(), part(1)?.signum(), part(3)?.signum(), part(4)?.signum()) {
        (0, 1, -1, 0) => 90,
        (-1, 0, 0, -1) => 180,
        (0, -1, 1, 0) => 270,
        _ => 0,
    })
}
