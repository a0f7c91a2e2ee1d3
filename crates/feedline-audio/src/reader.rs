//! Encoded files: what they contain, and windows of them.

use std::io::Cursor;
use std::ops::Range;

use symphonia::core::audio::Channels;
use symphonia::core::codecs::CodecParameters;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error as Wrong;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, SeekMode, SeekTo, TrackType};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions};
use symphonia::core::meta::MetadataOptions;
use symphonia::core::units::{TimeBase, Timestamp};
use symphonia::default::{get_codecs, get_probe};

use crate::clip::Clip;
use crate::error::{Error, Result, zeros};

/// Frames that are decoded before a window and thrown away: lossy codecs build on what came before. MP3 takes up to ten
/// frames from its reservoir, Vorbis overlaps blocks of up to 8192.
const LEAD: u64 = 16_384;

/// More channels than any recording has.
const MOST_CHANNELS: usize = 64;

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Frames per second.
    pub rate: u32,
    /// Number of channels.
    pub channels: usize,
    /// Number of frames.
    pub frames: u64,
}

/// An open file.
pub struct Reader<'a> {
    bytes: &'a [u8],
    format: Box<dyn FormatReader + 'a>,
    track: u32,
    params: AudioCodecParameters,
    time_base: Option<TimeBase>,
    info: Info,
    /// Whether a packet can be decoded without those before it.
    lossless: bool,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Whether the first bytes of a file are those of audio that can be read here.
pub fn is_audio(bytes: &[u8]) -> bool {
    let at = |place: usize, text: &[u8]| bytes.get(place..place + text.len()) == Some(text);
    let riff = at(0, b"RIFF") && at(8, b"WAVE");
    let mp4 = at(4, b"ftyp") && (at(8, b"M4A") || at(8, b"M4B"));
    let mp3 = at(0, b"ID3") || matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2);
    let aac = matches!(bytes, [0xff, second, ..] if second & 0xf6 == 0xf0);
    riff || at(0, b"fLaC") || at(0, b"OggS") || mp4 || mp3 || aac
}

fn open_format(bytes: &[u8]) -> Result<Box<dyn FormatReader + '_>> {
    let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), MediaSourceStreamOptions::default());
    get_probe()
        .probe(&Hint::new(), stream, FormatOptions::default(), MetadataOptions::default())
        .map_err(|error| Error::Unknown(error.to_string()))
}

impl<'a> Reader<'a> {
    /// Reads the headers. Files that do not say how long they are are walked through once, without decoding.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let format = open_format(bytes)?;
        let none = || Error::Unknown("it has no audio track".to_owned());
        let track = format.default_track(TrackType::Audio).ok_or_else(none)?;
        let Some(CodecParameters::Audio(params)) = track.codec_params.clone() else { return Err(none()) };
        let (id, time_base, frames) = (track.id, track.time_base, track.num_frames);
        let mut reader = Reader {
            bytes,
            format,
            track: id,
            lossless: is_lossless(&params),
            time_base,
            info: Info { rate: params.sample_rate.unwrap_or(0), channels: 0, frames: 0 },
            params,
        };
        reader.info.channels = reader.params.channels.as_ref().map_or(0, Channels::count);
        if reader.info.channels == 0 || reader.info.rate == 0 {
            reader.look_at_first_packet()?;
        }
        reader.check()?;
        reader.info.frames = match frames {
            Some(frames) => frames,
            None => reader.count()?,
        };
        Ok(reader)
    }

    /// What the file contains.
    pub fn info(&self) -> Info {
        self.info
    }

    fn check(&self) -> Result<()> {
        let Info { rate, channels, .. } = self.info;
        if rate == 0 || rate > 10_000_000 || channels == 0 || channels > MOST_CHANNELS {
            return Err(Error::Malformed(format!("{channels} channels at {rate} Hz")));
        }
        Ok(())
    }

    fn decoder(&self) -> Result<Box<dyn AudioDecoder>> {
        get_codecs()
            .make_audio_decoder(&self.params, &AudioDecoderOptions::default())
            .map_err(|error| Error::Unknown(error.to_string()))
    }

    /// Starts again from the beginning.
    fn rewind(&mut self) -> Result<()> {
        self.format = open_format(self.bytes)?;
        Ok(())
    }

    /// Some containers leave rate and channels to the codec.
    fn look_at_first_packet(&mut self) -> Result<()> {
        let mut decoder = self.decoder()?;
        while let Some(packet) = self.format.next_packet().map_err(malformed)? {
            if packet.track_id != self.track {
                continue;
            }
            let decoded = decoder.decode(&packet).map_err(malformed)?;
            self.info.rate = decoded.spec().rate();
            self.info.channels = decoded.spec().channels().count();
            break;
        }
        self.rewind()
    }

    /// Number of frames, from the packets' durations.
    fn count(&mut self) -> Result<u64> {
        let mut end = 0;
        while let Some(packet) = self.format.next_packet().map_err(malformed)? {
            if packet.track_id == self.track {
                let start = self.frame_of(packet.pts);
                end = end.max(start + self.frames_in(packet.dur.get()) as i64);
            }
        }
        self.rewind()?;
        Ok(end.max(0) as u64)
    }

    /// The frame at a time stamp.
    fn frame_of(&self, at: Timestamp) -> i64 {
        self.scaled(i128::from(at.get())) as i64
    }

    fn frames_in(&self, duration: u64) -> u64 {
        self.scaled(i128::from(duration)) as u64
    }

    /// Ticks of the track's clock as frames, rounded to the nearest.
    fn scaled(&self, ticks: i128) -> i128 {
        let Some(base) = self.time_base else { return ticks };
        let (up, down) =
            (i128::from(base.numer.get()) * i128::from(self.info.rate), i128::from(base.denom.get()));
        if up == down { ticks } else { (2 * ticks * up + down).div_euclid(2 * down) }
    }

    fn ticks_of(&self, frame: u64) -> i64 {
        let Some(base) = self.time_base else { return frame as i64 };
        let ticks = i128::from(frame) * i128::from(base.denom.get())
            / (i128::from(base.numer.get()) * i128::from(self.info.rate));
        ticks as i64
    }

    /// Decodes `frames` frames from frame `start` on; what is past the end is silence. A file that ends before the end
    /// that its headers say is an error.
    pub fn window(&mut self, start: u64, frames: usize) -> Result<Clip> {
        let channels = self.info.channels;
        let end = start.saturating_add(frames as u64).min(self.info.frames);
        // Grows with what is decoded: a header may promise any number of frames.
        let mut found: Vec<Vec<f32>> = vec![Vec::new(); channels];
        if start < end {
            self.decode(start, end, &mut found)?;
        }
        let mut clip = Clip { rate: self.info.rate, channels, data: Vec::new() };
        for plane in found {
            let missing = frames - plane.len();
            clip.data.try_reserve(frames).map_err(|_| Error::OutOfMemory { bytes: 4 * frames as u64 })?;
            clip.data.extend_from_slice(&plane);
            zeros(&mut clip.data, missing)?;
        }
        Ok(clip)
    }

    /// Appends frames `start..end` of every channel.
    fn decode(&mut self, start: u64, end: u64, found: &mut [Vec<f32>]) -> Result<()> {
        let channels = self.info.channels;
        let lead = if self.lossless { 0 } else { LEAD };
        self.go_to(start.saturating_sub(lead))?;
        let mut decoder = self.decoder()?;
        let mut planes: Vec<Vec<f32>> = Vec::new();
        let (mut done, mut next) = (start, None);
        while done < end {
            let Some(packet) = self.format.next_packet().map_err(malformed)? else { break };
            if packet.track_id != self.track {
                continue;
            }
            let stamp = self.frame_of(packet.pts) + self.frames_in(packet.trim_start.get()) as i64;
            let decoded = match decoder.decode(&packet) {
                Ok(decoded) => decoded,
                // Before the window a packet may lack what came before it.
                Err(Wrong::DecodeError(_)) if stamp + packet.dur.get() as i64 <= start as i64 => continue,
                Err(error) => return Err(malformed(error)),
            };
            if decoded.frames() == 0 {
                continue;
            }
            if decoded.num_planes() != channels || decoded.spec().rate() != self.info.rate {
                return Err(Error::Malformed("channels or rate change within the file".to_owned()));
            }
            decoded.copy_to_vecs_planar(&mut planes);
            let first = self.follow(next, stamp);
            if first > done {
                return Err(Error::Malformed(format!("frames {done} to {first} are missing")));
            }
            next = Some(first + planes.first().map_or(0, Vec::len) as u64);
            done = append(&planes, first, done..end, found)?;
        }
        if done < end {
            let reason = format!("ends at frame {done}, its headers say {}: truncated?", self.info.frames);
            return Err(Error::Malformed(reason));
        }
        Ok(())
    }

    /// The first frame of a packet. Containers whose clocks tick in milliseconds round; packets follow each other.
    fn follow(&self, next: Option<u64>, stamp: i64) -> u64 {
        let stamp = stamp.max(0) as u64;
        match next {
            Some(next) if stamp.abs_diff(next) <= u64::from(self.info.rate) / 400 => next,
            _ => stamp,
        }
    }

    /// Places the reader at or before a frame.
    fn go_to(&mut self, frame: u64) -> Result<()> {
        self.rewind()?;
        if frame == 0 {
            return Ok(());
        }
        let to = SeekTo::Timestamp { ts: Timestamp::new(self.ticks_of(frame)), track_id: self.track };
        match self.format.seek(SeekMode::Accurate, to) {
            Ok(_) => Ok(()),
            // What cannot be sought is read from its beginning.
            Err(Wrong::SeekError(_)) => self.rewind(),
            Err(error) => Err(malformed(error)),
        }
    }
}

/// Appends what decoded planes have of the `wanted` frames; they begin at frame `first`, at or before them. Returns the next
/// frame that is wanted.
fn append(planes: &[Vec<f32>], first: u64, wanted: Range<u64>, found: &mut [Vec<f32>]) -> Result<u64> {
    let to = (first + planes.first().map_or(0, Vec::len) as u64).min(wanted.end);
    if to <= wanted.start {
        return Ok(wanted.start);
    }
    for (plane, found) in planes.iter().zip(found) {
        let new = &plane[(wanted.start - first) as usize..(to - first) as usize];
        found.try_reserve(new.len()).map_err(|_| Error::OutOfMemory { bytes: 4 * new.len() as u64 })?;
        found.extend_from_slice(new);
    }
    Ok(to)
}

fn is_lossless(params: &AudioCodecParameters) -> bool {
    use symphonia::core::codecs::audio::well_known::{CODEC_ID_ALAC, CODEC_ID_FLAC};
    let pcm = get_codecs()
        .get_audio_decoder(params.codec)
        .is_some_and(|codec| codec.codec.info.short_name.starts_with("pcm"));
    pcm || params.codec == CODEC_ID_ALAC || params.codec == CODEC_ID_FLAC
}

fn malformed(error: Wrong) -> Error {
    Error::Malformed(error.to_string())
}
