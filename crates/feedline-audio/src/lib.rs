//! Encoded audio → windows of floats → resampled waves and spectrograms. No I/O, no threads, no random draws.
//!
//! ```text
//! bytes ──open──► Reader: rate, channels, frames ──window──► Clip ──resample, mono, …──► Clip ──mel──► Spectrogram
//! ```
//!
//! A frame is one sample of every channel. Clips are stored channel by channel.

mod clip;
mod error;
mod mel;
#[cfg_attr(not(feature = "codecs"), path = "no_reader.rs")]
mod reader;
mod resample;

pub use clip::Clip;
pub use error::{Error, Result};
pub use mel::{Mel, MelNorm, MelOptions, MelScale};
pub use reader::{Info, Reader, is_audio};
pub use resample::{ResampleOptions, Resampler};
