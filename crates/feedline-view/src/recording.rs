//! Videos and sounds: an image of each, and the file itself for the browser's player.

use feedline::apply::{DrawFrom, ImageOps};
use feedline::field::MemoryFormat;
use feedline::owned::OwnedValue;
use feedline::video::{Decoder, Index, WholeFile, is_video};
use feedline::{DType, Dataset, Kind};
use feedline_audio::{Reader, is_audio};

use crate::images::{self, Pixels};

/// The longest part of a sound that is drawn, a minute at 48 kHz: a whole day would take minutes to decode.
const MOST_FRAMES: u64 = 60 * 48_000;

const PAPER: u8 = 245;
const INK: [u8; 3] = [28, 94, 182];

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Video,
    Sound,
}

impl Recording {
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        // Sound first: some files of sound are mp4 files too.
        if is_audio(bytes) { Some(Recording::Sound) } else { is_video(bytes).then_some(Recording::Video) }
    }

    /// The element of HTML that plays it.
    pub(crate) fn player(self) -> &'static str {
        match self {
            Recording::Video => "video",
            Recording::Sound => "audio",
        }
    }
}

/// The first field of a sample that is a video or a sound.
pub(crate) fn field(dataset: &Dataset, sample: u64) -> Option<usize> {
    if sample >= dataset.len() {
        return None;
    }
    let fields = &dataset.schema().fields;
    let of = |kind: Kind| (0..fields.len()).filter(move |field| fields[*field].kind == kind);
    let known = of(Kind::Video).chain(of(Kind::Audio)).next();
    known.or_else(|| of(Kind::Bytes).find(|field| holds_recording(dataset, sample, *field)))
}

fn holds_recording(dataset: &Dataset, sample: u64, field: usize) -> bool {
    match dataset.get_field(sample, field) {
        Ok(OwnedValue::Bytes(bytes)) => Recording::of(&bytes).is_some(),
        _ => false,
    }
}

/// The bytes of a field, and what a browser calls them.
pub(crate) fn file(dataset: &Dataset, sample: u64, field: usize) -> Result<(&'static str, Vec<u8>), String> {
    match dataset.get_field(sample, field).map_err(|e| e.to_string())? {
        OwnedValue::Bytes(bytes) => match Recording::of(&bytes) {
            Some(recording) => Ok((media_type(recording, &bytes), bytes)),
            None => Err("the field is neither video nor sound".to_owned()),
        },
        _ => Err("the field is neither video nor sound".to_owned()),
    }
}

fn media_type(recording: Recording, bytes: &[u8]) -> &'static str {
    match (recording, bytes) {
        (Recording::Video, [0x1a, 0x45, ..]) => "video/webm",
        (Recording::Video, _) => "video/mp4",
        (_, [b'R', ..]) => "audio/wav",
        (_, [b'f', ..]) => "audio/flac",
        (_, [b'O', ..]) => "audio/ogg",
        (_, [_, _, _, _, b'f', b't', b'y', b'p', ..]) => "audio/mp4",
        (_, [0xff, second, ..]) if second & 0xf6 == 0xf0 => "audio/aac",
        _ => "audio/mpeg",
    }
}

/// The first frame of a video, or the wave of a sound; its longer side is at most `side`.
pub(crate) fn image(bytes: &[u8], side: u32) -> Result<Pixels, String> {
    match Recording::of(bytes) {
        Some(Recording::Video) => first_frame(bytes, side),
        Some(Recording::Sound) => wave(bytes, side),
        None => Err("no image, video or sound".to_owned()),
    }
}

fn first_frame(bytes: &[u8], side: u32) -> Result<Pixels, String> {
    let index = Index::read(bytes).map_err(|e| e.to_string())?;
    let mut found = None;
    let mut keep = |_: usize, frame: &feedline::video::Frame| {
        found = Some(frame.clone());
        Ok(())
    };
    Decoder::new().frames(&WholeFile(bytes), &index, &[0], &mut keep).map_err(|e| e.to_string())?;
    let frame = found.ok_or("the video has no frames")?;
    let (height, width) = (frame.height as u32, frame.width as u32);
    let fitted = images::fitted((height, width), side);
    let ops = ImageOps::new("video", &fitted, (0, 0), DType::U8, MemoryFormat::ChannelsLast);
    let made = ops.and_then(|ops| ops.apply(&frame.rgb, height, width, DrawFrom::default()));
    let made = made.map_err(|e| e.to_string())?;
    Ok(Pixels { height: made.shape[0] as u32, width: made.shape[1] as u32, bytes: made.bytes })
}

/// The least and the largest value of each column's part, joined by a line; half as high as wide.
fn wave(bytes: &[u8], side: u32) -> Result<Pixels, String> {
    let (width, height) = (side.clamp(8, images::MOST_SIDE), side.clamp(8, images::MOST_SIDE) / 2);
    let mut reader = Reader::open(bytes).map_err(|e| e.to_string())?;
    let clip = reader.window(0, reader.info().frames.min(MOST_FRAMES) as usize).map_err(|e| e.to_string())?;
    let first: &[f32] = clip.planes().next().unwrap_or(&[]);
    let mut pixels = vec![PAPER; (width * height * 3) as usize];
    let part = |column: u32| (first.len() as u64 * u64::from(column) / u64::from(width)) as usize;
    for column in 0..width {
        let values = &first[part(column)..part(column + 1)];
        let (low, high) = values.iter().fold((0f32, 0f32), |(low, high), v| (low.min(*v), high.max(*v)));
        let row = |value: f32| ((1.0 - value.clamp(-1.0, 1.0)) * 0.5 * (height - 1) as f32) as u32;
        for y in row(high)..=row(low) {
            pixels[((y * width + column) * 3) as usize..][..3].copy_from_slice(&INK);
        }
    }
    Ok(Pixels { height, width, bytes: pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one channel: silence, then the loudest square wave.
    fn sound() -> Vec<u8> {
        let values = (0..800i32).map(|at| if at < 400 { 0 } else { [32767, -32768][at as usize % 2] as i16 });
        let data: Vec<u8> = values.flat_map(i16::to_le_bytes).collect();
        let mut file = b"RIFF".to_vec();
        file.extend((36 + data.len() as u32).to_le_bytes());
        file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
        file.extend(8000u32.to_le_bytes());
        file.extend(16000u32.to_le_bytes());
        file.extend(b"\x02\0\x10\0data");
        file.extend((data.len() as u32).to_le_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn a_wave_is_a_line_in_silence_and_a_block_when_loud() {
        let made = image(&sound(), 64).unwrap();
        assert_eq!((made.width, made.height), (64, 32));
        let inked =
            |column: usize| (0..32).filter(|row| made.bytes[(row * 64 + column) * 3..][..3] == INK).count();
        assert_eq!((inked(10), inked(50)), (1, 32));
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(Recording::of(b"no recording at all"), None);
        assert!(image(b"no recording at all", 64).is_err());
        assert!(image(&sound()[..30], 64).is_err());
    }
}
