//! What a container says of its first video track: time, place and kind of every packet.

use crate::bytes::FileBytes;
use crate::error::{Error, Result, malformed};
use crate::{mkv, mp4};

/// How frames are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// H.264 (AVC).
    H264,
    /// H.265 (HEVC).
    Hevc,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// AV1.
    Av1,
    /// MPEG-4 part 2.
    Mpeg4,
}

impl Codec {
    /// All that are known here.
    pub const ALL: [Codec; 6] = [Codec::H264, Codec::Hevc, Codec::Vp8, Codec::Vp9, Codec::Av1, Codec::Mpeg4];

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Codec::H264 => "H.264",
            Codec::Hevc => "HEVC",
            Codec::Vp8 => "VP8",
            Codec::Vp9 => "VP9",
            Codec::Av1 => "AV1",
            Codec::Mpeg4 => "MPEG-4",
        }
    }
}

/// One encoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub size: u32,
    /// When it is shown, in ticks of the track.
    pub pts: i64,
    /// Whether decoding can begin here.
    pub key: bool,
}

/// A file's video track.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// How frames are encoded.
    pub codec: Codec,
    /// Size as encoded, before rotation.
    pub width: u32,
    /// Size as encoded, before rotation.
    pub height: u32,
    /// Degrees that frames are turned clockwise to be shown: 0, 90, 180 or 270.
    pub rotation: u16,
    /// What the decoder needs before the first packet.
    pub config: Vec<u8>,
    /// Ticks per second.
    pub ticks_per_second: f64,
    /// In decoding order.
    pub packets: Vec<Packet>,
    /// The frames that are shown, in the order of their times: numbers of packets.
    pub shown: Vec<u32>,
    /// Length in seconds.
    pub duration: f64,
    /// CRC-32C of every packet, empty if not known.
    pub checks: Vec<u32>,
}

/// Whether the first bytes of a file are those of a container that is read here.
pub fn is_video(bytes: &[u8]) -> bool {
    mp4::is_mp4(bytes) || mkv::is_mkv(bytes)
}

impl Index {
    /// Reads the tables of a file that is in memory.
    pub fn read(file: &[u8]) -> Result<Self> {
        Index::read_from(&mut &*file)
    }

    /// Reads the tables of a file: of an mp4 only these, of an mkv or webm everything.
    pub fn read_from(file: &mut dyn FileBytes) -> Result<Self> {
        let size = file.size();
        let head: Vec<u8> = file.read(0..size.min(16))?.into_owned();
        if mp4::is_mp4(&head) {
            mp4::read(file)
        } else if mkv::is_mkv(&head) {
            mkv::read(&file.read(0..size)?)
        } else {
            Err(Error::Unsupported("not an mp4, mkv or webm file".to_owned()))
        }
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Time of a frame in seconds, from the first one's time base.
    pub fn time(&self, frame: usize) -> f64 {
        self.packets[self.shown[frame] as usize].pts as f64 / self.ticks_per_second
    }

    /// Frames per second, on average.
    pub fn fps(&self) -> f64 {
        match self.len() {
            0 | 1 if self.duration <= 0.0 => 0.0,
            count if self.duration > 0.0 => count as f64 / self.duration,
            count => (count - 1) as f64 / (self.time(count - 1) - self.time(0)).max(f64::MIN_POSITIVE),
        }
    }

    /// Finishes an index: checks packets against the file and finds the order in which they are shown. Frames before
    /// `first` ticks are decoded but not shown; times count from there.
    pub(crate) fn finish(mut self, size: u64, first: i64) -> Result<Self> {
        if self.packets.is_empty() {
            return Err(malformed("the video track has no frames"));
        }
        if !self.packets.iter().any(|packet| packet.key) {
            return Err(malformed("the video track has no key frame"));
        }
        if self.width == 0 || self.height == 0 || self.width > 1 << 16 || self.height > 1 << 16 {
            return Err(malformed(format!("frames of {}x{} pixels", self.width, self.height)));
        }
        for (number, packet) in self.packets.iter_mut().enumerate() {
            let end = packet.offset.checked_add(u64::from(packet.size));
            if end.is_none_or(|end| end > size) {
                let reason = format!("frame {number} is at byte {}, past the end: truncated?", packet.offset);
                return Err(malformed(reason));
            }
            packet.pts = packet.pts.saturating_sub(first);
        }
        let begun = self.packets.iter().position(|packet| packet.key).unwrap_or(0) as u32;
        let shown = (begun..self.packets.len() as u32).filter(|at| self.packets[*at as usize].pts >= 0);
        self.shown = shown.collect();
        self.shown.sort_by_key(|at| self.packets[*at as usize].pts);
        if self.shown.is_empty() {
            return Err(malformed("no frame of the video is shown"));
        }
        Ok(self)
    }

    /// The packets that are decoded to get these frames, as ranges of numbers in ascending order.
    pub fn needed(&self, frames: &[usize]) -> Vec<std::ops::Range<u32>> {
        let wanted = |frame: &usize| self.shown.get(*frame).map(|packet| (self.start_of(*packet), *packet));
        let mut spans: Vec<(u32, u32)> = frames.iter().filter_map(wanted).collect();
        if self.needs_first_packet() && spans.iter().any(|(start, _)| *start > 0) {
            spans.push((0, 0));
        }
        spans.sort_unstable();
        let mut ranges: Vec<std::ops::Range<u32>> = Vec::new();
        for (start, last) in spans {
            let end = last + 1;
            match ranges.last_mut() {
                Some(range) if start <= range.end => range.end = range.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Whether decoders must see the first packet, wherever they begin. Old versions of x264 wrote 4:4:4 video with a
    /// mistake that FFmpeg corrects, if it knows the version, and only the first packet names it. Without it, every
    /// seek would fail and decode from the beginning.
    pub(crate) fn needs_first_packet(&self) -> bool {
        const HIGH_444: u8 = 244;
        self.codec == Codec::H264 && self.config.get(1) == Some(&HIGH_444)
    }

    /// Where decoding begins for a packet: the key frame before it, or the one before that if the packet is shown earlier
    /// than its key frame, because it then builds on frames before it.
    pub(crate) fn start_of(&self, packet: u32) -> u32 {
        let mut key = self.key_before(packet);
        while key > 0 && self.packets[packet as usize].pts < self.packets[key as usize].pts {
            key = self.key_before(key - 1);
        }
        key
    }

    /// The packet where decoding of packet `number` begins.
    pub(crate) fn key_before(&self, number: u32) -> u32 {
        (0..=number).rev().find(|at| self.packets[*at as usize].key).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(profile: u8) -> Index {
        let packet = |number: u32| Packet {
            offset: u64::from(number),
            size: 1,
            pts: i64::from(number),
            key: number.is_multiple_of(10),
        };
        let index = Index {
            codec: Codec::H264,
            width: 96,
            height: 64,
            rotation: 0,
            config: vec![1, profile, 0, 31, 0xff],
            ticks_per_second: 25.0,
            packets: (0..30).map(packet).collect(),
            shown: Vec::new(),
            duration: 1.2,
            checks: Vec::new(),
        };
        index.finish(30, 0).unwrap()
    }

    #[test]
    fn frames_need_what_they_are_decoded_from() {
        assert_eq!(index(100).needed(&[12, 14]), std::slice::from_ref(&(10..15)));
        assert_eq!(index(100).needed(&[3, 25]), [0..4, 20..26]);
    }

    #[test]
    fn video_of_every_colour_needs_its_first_packet() {
        assert_eq!(index(244).needed(&[12]), [0..1, 10..13]);
        assert_eq!(index(244).needed(&[3]), std::slice::from_ref(&(0..4)));
        assert_eq!(index(244).needed(&[3, 25]), [0..4, 20..26]);
    }
}
