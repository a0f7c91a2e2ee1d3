//! Matroska and WebM: walks through the clusters once; frames stay where they are.

use crate::error::{Error, Result, malformed};
use crate::index::{Codec, Index, Packet};

const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const CLUSTER: u32 = 0x1f43_b675;
const UNKNOWN: u64 = u64::MAX;

pub(crate) fn is_mkv(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3])
}

/// An element: its number, its content's place in the file, and where the next one begins.
struct Element {
    id: u32,
    start: usize,
    end: usize,
}

/// A number of one to eight bytes; `keep` leaves its length marker in.
fn number(file: &[u8], at: usize, keep: bool) -> Result<(u64, usize)> {
    let cut = || malformed(format!("a number at byte {at} ends early: truncated?"));
    let first = *file.get(at).ok_or_else(cut)?;
    let length = first.leading_zeros() as usize + 1;
    if length > 8 {
        return Err(malformed(format!("a wrong number at byte {at}")));
    }
    let bytes = file.get(at..at + length).ok_or_else(cut)?;
    let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mask = (1u64 << (7 * length)) - 1;
    let all_ones = value & mask == mask && !keep;
    Ok((
        if keep {
            value
        } else if all_ones {
            UNKNOWN
        } else {
            value & mask
        },
        at + length,
    ))
}

/// The element at `at`, which ends at `limit` at the latest. Live streams leave the size of clusters open.
fn element(file: &[u8], at: usize, limit: usize) -> Result<Element> {
    let (id, after) = number(file, at, true)?;
    let (size, start) = number(file, after, false)?;
    let id = u32::try_from(id).map_err(|_| malformed(format!("a wrong element at byte {at}")))?;
    if size == UNKNOWN && matches!(id, SEGMENT | CLUSTER) {
        return Ok(Element { id, start, end: limit });
    }
    let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).filter(|end| *end <= limit);
    let end =
        end.ok_or_else(|| malformed(format!("element {id:x} at byte {at} does not fit: truncated?")))?;
    Ok(Element { id, start, end })
}

fn elements(file: &[u8], start: usize, end: usize) -> impl Iterator<Item = Result<Element>> + '_ {
    let mut at = start;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let found = element(file, at, end);
        at = found.as_ref().map_or(end, |found| found.end);
        Some(found)
    })
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// What is known of the track so far.
struct Track {
    number: u64,
    codec: Codec,
    width: u32,
    height: u32,
    config: Vec<u8>,
    /// Nanoseconds of a frame, if the file says it.
    each: u64,
}

pub(crate) fn read(file: &[u8]) -> Result<Index> {
    let mut at = 0;
    let segment = loop {
        let found = element(file, at, file.len())?;
        if found.id == SEGMENT {
            break found;
        }
        at = found.end;
        if at >= file.len() {
            return Err(malformed("there is no segment"));
        }
    };
    let mut scale = 1_000_000u64;
    let mut duration = 0.0;
    let mut track: Option<Track> = None;
    let mut packets = Vec::new();
    let mut at = segment.start;
    while at < segment.end {
        let found = element(file, at, segment.end)?;
        at = match found.id {
            INFO => {
                info(file, &found, &mut scale, &mut duration)?;
                found.end
            }
            TRACKS => {
                track = video_track(file, &found)?;
                found.end
            }
            CLUSTER => {
                let track = track.as_ref().ok_or_else(|| malformed("frames before the list of tracks"))?;
                cluster(file, &found, track.number, &mut packets)?
            }
            _ => found.end,
        };
    }
    let track = track.ok_or_else(|| Error::Unsupported("the file has no video track".to_owned()))?;
    let seconds = scale as f64 / 1e9;
    let last = packets.iter().map(|packet: &Packet| packet.pts).max().unwrap_or(0) as f64 * seconds;
    let index = Index {
        codec: track.codec,
        width: track.width,
        height: track.height,
        rotation: 0,
        config: track.config,
        ticks_per_second: 1.0 / seconds,
        packets,
        shown: Vec::new(),
        checks: Vec::new(),
        duration: if duration > 0.0 { duration * seconds } else { last + track.each as f64 / 1e9 },
    };
    index.finish(file.len() as u64, 0)
}

fn info(file: &[u8], info: &Element, scale: &mut u64, duration: &mut f64) -> Result<()> {
    for part in elements(file, info.start, info.end) {
        let part = part?;
        let bytes = &file[part.start..part.end];
        match (part.id, bytes) {
            (0x2ad7b1, _) => *scale = unsigned(bytes).max(1),
            (0x4489, [a, b, c, d]) => *duration = f64::from(f32::from_be_bytes([*a, *b, *c, *d])),
            (0x4489, [a, b, c, d, e, f, g, h]) => {
                *duration = f64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The first video track.
fn video_track(file: &[u8], tracks: &Element) -> Result<Option<Track>> {
    for entry in elements(file, tracks.start, tracks.end) {
        let entry = entry?;
        if entry.id == 0xae
            && let Some(track) = track_entry(file, &entry)?
        {
            return Ok(Some(track));
        }
    }
    Ok(None)
}

fn track_entry(file: &[u8], entry: &Element) -> Result<Option<Track>> {
    let (mut kind, mut name, mut encoded) = (0, &[][..], false);
    let mut track = Track { number: 0, codec: Codec::H264, width: 0, height: 0, config: Vec::new(), each: 0 };
    for part in elements(file, entry.start, entry.end) {
        let part = part?;
        let bytes = &file[part.start..part.end];
        match part.id {
            0xd7 => track.number = unsigned(bytes),
            0x83 => kind = unsigned(bytes),
            0x86 => name = bytes,
            0x63a2 => track.config = bytes.to_vec(),
            0x23e383 => track.each = unsigned(bytes),
            0x6d80 => encoded = true,
            0xe0 => {
                for side in elements(file, part.start, part.end) {
                    let side = side?;
                    let value = unsigned(&file[side.start..side.end]) as u32;
                    match side.id {
                        0xb0 => track.width = value,
                        0xba => track.height = value,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if kind != 1 {
        return Ok(None);
    }
    let unknown =
        || Error::Unsupported(format!("codec '{}' in an mkv is not read", String::from_utf8_lossy(name)));
    track.codec = match name {
        b"V_MPEG4/ISO/AVC" => Codec::H264,
        b"V_MPEGH/ISO/HEVC" => Codec::Hevc,
        b"V_VP8" => Codec::Vp8,
        b"V_VP9" => Codec::Vp9,
        b"V_AV1" => Codec::Av1,
        b"V_MPEG4/ISO/ASP" => Codec::Mpeg4,
        _ => return Err(unknown()),
    };
    if matches!(track.codec, Codec::Vp8 | Codec::Vp9) {
        track.config.clear();
    }
    if encoded {
        return Err(Error::Unsupported(
            "the track's frames are compressed or encrypted once more".to_owned(),
        ));
    }
    Ok(Some(track))
}

/// Adds the track's frames in a cluster. Returns where the cluster ends: one of unknown size ends where the next begins.
fn cluster(file: &[u8], cluster: &Element, track: u64, packets: &mut Vec<Packet>) -> Result<usize> {
    let mut time = 0;
    let mut at = cluster.start;
    while at < cluster.end {
        let part = element(file, at, cluster.end)?;
        match part.id {
            0xe7 => time = unsigned(&file[part.start..part.end]).min(1 << 62).cast_signed(),
            0xa3 => packets.extend(block(file, &part, time, track, None)?),
            0xa0 => packets.extend(group(file, &part, time, track)?),
            CLUSTER | INFO | TRACKS | 0x1c53_bb6b | 0x1254_c367 => return Ok(at),
            _ => {}
        }
        at = part.end;
    }
    Ok(cluster.end)
}

/// A block with its references: without any it is a key frame.
fn group(file: &[u8], group: &Element, time: i64, track: u64) -> Result<Option<Packet>> {
    let mut inner = None;
    let mut key = true;
    for part in elements(file, group.start, group.end) {
        let part = part?;
        match part.id {
            0xa1 => inner = Some(part),
            0xfb => key = false,
            _ => {}
        }
    }
    inner.map_or(Ok(None), |part| block(file, &part, time, track, Some(key)))
}

fn block(file: &[u8], part: &Element, time: i64, track: u64, key: Option<bool>) -> Result<Option<Packet>> {
    let (number, at) = number(file, part.start, false)?;
    if number != track {
        return Ok(None);
    }
    let Some([high, low, flags]) = file.get(at..at + 3).filter(|_| at + 3 <= part.end) else {
        return Err(malformed(format!("a block at byte {} ends early", part.start)));
    };
    if flags & 0x06 != 0 {
        return Err(Error::Unsupported("several video frames in one block".to_owned()));
    }
    let pts = time.saturating_add(i64::from(i16::from_be_bytes([*high, *low])));
    let size =
        u32::try_from(part.end - at - 3).map_err(|_| malformed("a frame of more than four gigabytes"))?;
    Ok(Some(Packet { offset: at as u64 + 3, size, pts, key: key.unwrap_or(flags & 0x80 != 0) }))
}
