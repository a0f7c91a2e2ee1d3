//! Encoded video → an index of its packets → frames by number. No I/O, no threads, no random draws.
//!
//! ```text
//! bytes ──Index::read──► Index: time, place and key frames of all packets ──Decoder::frames──► planes ──► RGB
//! ```
//!
//! The index is made once from the container's tables, without decoding. A frame is decoded from the last key frame
//! before it, and its time is that of the index: decoders return frames in the order of their times, one for each packet,
//! and anything else is an error.

mod bytes;
#[cfg(feature = "av1")]
mod dav1d;
mod decoder;
mod disposable;
mod engine;
mod error;
#[cfg_attr(not(feature = "ffmpeg"), path = "no_ffmpeg.rs")]
mod ffmpeg;
mod index;
mod mkv;
mod mp4;
#[cfg(feature = "h264")]
mod openh264;
mod rgb;
#[cfg(feature = "h264")]
mod sps;
mod stored;

pub use bytes::{BlockReader, FileBytes, Packets, Pieces, WholeFile};
pub use decoder::{Decoder, Frame};
pub use engine::{DECODER_VARIABLE, DecoderKind, decoder_of};
pub use error::{Error, Result};
pub use ffmpeg::{FfmpegVersion, ffmpeg_version};
pub use index::{Codec, Index, Packet, is_video};
