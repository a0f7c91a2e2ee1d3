//! Decoders behind one trait, and which of them a track gets.

use std::fmt::Debug;

use crate::error::{Error, Result};
use crate::ffmpeg::{Ffmpeg, ffmpeg_version};
use crate::index::{Codec, Index};
use crate::rgb::Picture;

/// Chooses the decoders: `auto` (FFmpeg's if they are there, else those that are built in), `ffmpeg` or `built-in`.
pub const DECODER_VARIABLE: &str = "FEEDLINE_VIDEO_DECODER";

/// An open decoder of one track. It has no threads of its own.
pub(crate) trait Engine: Send + Debug {
    /// Forgets everything, for a jump to another key frame.
    fn flush(&mut self) -> Result<()>;
    /// Passes packet `number` in.
    fn send(&mut self, number: i64, bytes: &[u8]) -> Result<()>;
    /// Says that there are no more packets.
    fn finish(&mut self);
    /// The next frame and the number of its packet, if one is ready.
    fn receive(&mut self) -> Result<Option<(i64, Picture<'_>)>>;
}

/// Who decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecoderKind {
    /// FFmpeg's libraries of this major version, found at run time.
    Ffmpeg(u32),
    /// dav1d, built in.
    Dav1d,
    /// `OpenH264`, built in.
    OpenH264,
}

impl std::fmt::Display for DecoderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecoderKind::Ffmpeg(version) => write!(f, "FFmpeg {version}"),
            DecoderKind::Dav1d => f.write_str("dav1d (built in)"),
            DecoderKind::OpenH264 => f.write_str("OpenH264 (built in)"),
        }
    }
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Auto,
    Ffmpeg,
    BuiltIn,
}

fn wish() -> Result<Wish> {
    match std::env::var(DECODER_VARIABLE).unwrap_or_default().as_str() {
        "" | "auto" => Ok(Wish::Auto),
        "ffmpeg" => Ok(Wish::Ffmpeg),
        "built-in" => Ok(Wish::BuiltIn),
        other => {
            let reason = format!("{DECODER_VARIABLE}='{other}'; it is auto, ffmpeg or built-in");
            Err(Error::NoDecoder(reason))
        }
    }
}

/// The decoder for a codec that is built in.
fn built_in(codec: Codec) -> Option<DecoderKind> {
    match codec {
        Codec::Av1 if cfg!(feature = "av1") => Some(DecoderKind::Dav1d),
        Codec::H264 if cfg!(feature = "h264") => Some(DecoderKind::OpenH264),
        _ => None,
    }
}

/// The decoder that files of this codec get here, if there is one.
pub fn decoder_of(codec: Codec) -> Option<DecoderKind> {
    let wish = wish().ok()?;
    let ffmpeg = ffmpeg_version().filter(|_| wish != Wish::BuiltIn && Ffmpeg::has(codec));
    let ffmpeg = ffmpeg.map(|version| DecoderKind::Ffmpeg(version.0));
    ffmpeg.or_else(|| built_in(codec).filter(|_| wish != Wish::Ffmpeg))
}

/// Opens the decoder for a track.
pub(crate) fn open(index: &Index) -> Result<Box<dyn Engine>> {
    let wish = wish()?;
    match decoder_of(index.codec) {
        Some(DecoderKind::Ffmpeg(_)) => Ok(Box::new(Ffmpeg::open(index)?)),
        #[cfg(feature = "av1")]
        Some(DecoderKind::Dav1d) => Ok(Box::new(crate::dav1d::Dav1d::open(index)?)),
        #[cfg(feature = "h264")]
        Some(DecoderKind::OpenH264) => Ok(Box::new(crate::openh264::OpenH264::open(index)?)),
        _ => Err(Error::NoDecoder(missing(index.codec, wish))),
    }
}

fn missing(codec: Codec, wish: Wish) -> String {
    let why = match (wish, ffmpeg_version()) {
        (Wish::BuiltIn, _) => format!("{DECODER_VARIABLE} is 'built-in', and none is built in"),
        _ if !cfg!(feature = "ffmpeg") => "this feedline was built without the feature 'video'".to_owned(),
        (_, Some(version)) => format!("FFmpeg {} has none", version.0),
        (_, None) => {
            "FFmpeg's libraries (libavcodec of version 4 to 8) were not found; install FFmpeg".to_owned()
        }
    };
    format!("no decoder for {}: {why}", codec.name())
}
