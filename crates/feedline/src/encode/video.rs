//! How videos are stored in a pack: as they are, or encoded once more with short groups of frames.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use feedline_video::Index;

use crate::error::{Error, Result};
use crate::format::EncodedImage;

/// How videos are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoEncoding {
    /// As they are.
    #[default]
    Keep,
    /// As H.264 with a key frame every so many frames, by the `ffmpeg` program: a clip then needs few frames beside its own.
    Gop(u32),
}

/// Longest group of frames that is worth encoding for.
const LONGEST: u32 = 1000;

impl std::str::FromStr for VideoEncoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let frames = text.strip_prefix("gop=").and_then(|frames| frames.parse().ok());
        match (text, frames) {
            ("keep", _) => Ok(VideoEncoding::Keep),
            (_, Some(frames)) if (1..=LONGEST).contains(&frames) => Ok(VideoEncoding::Gop(frames)),
            _ => Err(format!("'{text}' is neither keep nor gop=N with N from 1 to {LONGEST}")),
        }
    }
}

impl std::fmt::Display for VideoEncoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VideoEncoding::Keep => f.write_str("keep"),
            VideoEncoding::Gop(frames) => write!(f, "gop={frames}"),
        }
    }
}

impl serde::Serialize for VideoEncoding {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for VideoEncoding {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Stores videos, with the index of their packets.
#[derive(Debug)]
pub(super) enum VideoEncoder {
    Keep,
    Gop { frames: u32, version: String },
}

impl VideoEncoder {
    /// The encoder for these settings. Encoding needs the `ffmpeg` program.
    pub(super) fn new(encoding: VideoEncoding) -> Result<Self> {
        match encoding {
            VideoEncoding::Keep => Ok(VideoEncoder::Keep),
            VideoEncoding::Gop(frames) => Ok(VideoEncoder::Gop { frames, version: ffmpeg_version()? }),
        }
    }

    /// What it adds to the name of the pack's encoder. Other versions of FFmpeg may write other bytes.
    pub(super) fn name(&self) -> String {
        match self {
            VideoEncoder::Keep => String::new(),
            VideoEncoder::Gop { frames, version } => format!(" video=gop={frames} ffmpeg={version}"),
        }
    }

    pub(super) fn encode(&self, bytes: &[u8], out: &mut EncodedImage) -> Result<(), String> {
        out.index.clear();
        out.bytes = match self {
            VideoEncoder::Keep => None,
            VideoEncoder::Gop { frames, version } => Some(encoded(bytes, *frames, version)?),
        };
        let stored = out.bytes.as_deref().unwrap_or(bytes);
        // A file whose index cannot be made is stored all the same; its error comes when it is loaded.
        if let Ok(index) = Index::read(stored) {
            out.index = index.with_checks(stored).to_bytes(stored.len() as u64);
        }
        Ok(())
    }
}

/// The version of the `ffmpeg` program.
fn ffmpeg_version() -> Result<String> {
    let missing = |why: String| {
        let advice = "install FFmpeg, or store videos as they are with 'keep'";
        Error::option("video", format!("'gop=N' needs the ffmpeg program, {why}; {advice}"))
    };
    let found = Command::new("ffmpeg").arg("-version").stdin(Stdio::null()).output();
    let found = found.map_err(|error| missing(format!("which cannot be started: {error}")))?;
    let text = String::from_utf8_lossy(&found.stdout);
    let version = text.split_whitespace().nth(2).filter(|_| text.starts_with("ffmpeg version"));
    version
        .map(str::to_owned)
        .ok_or_else(|| missing("and the one in PATH does not say its version".to_owned()))
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("feedline-video-{}-{count}", std::process::id()));
        // Fails if somebody else has made it.
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Encodes a video once more. The result is the same on every machine with the same FFmpeg: one thread, nothing of the
/// clock.
fn encoded(bytes: &[u8], frames: u32, version: &str) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("encoding it once more: {error}");
    let folder = Folder::new().map_err(failed)?;
    let (from, to) = (folder.0.join("in"), folder.0.join("out.mp4"));
    std::fs::write(&from, bytes).map_err(failed)?;
    let done = command(&from, &to, frames, version).output().map_err(failed)?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.lines().last().unwrap_or("nothing").replace(&*folder.0.to_string_lossy(), "");
        return Err(format!("ffmpeg cannot encode it once more: {said}"));
    }
    std::fs::read(&to).map_err(failed)
}

fn command(from: &Path, to: &Path, frames: u32, version: &str) -> Command {
    let mut command = Command::new("ffmpeg");
    command.stdin(Stdio::null()).args(["-nostdin", "-v", "error", "-xerror", "-i"]).arg(from);
    command.args(["-map", "0:v:0", "-map", "0:a?", "-c:a", "copy", "-c:v", "libx264", "-crf", "18"]);
    // Every frame keeps its time. The option has another name since version 5.1.
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(7);
    let passthrough = if major >= 6 { "-fps_mode" } else { "-vsync" };
    command.args([passthrough, "passthrough", "-enc_time_base", "-1", "-pix_fmt", "yuv420p"]);
    let group = frames.to_string();
    command.args(["-g", &group, "-keyint_min", &group, "-sc_threshold", "0", "-bf", "0"]);
    command.args(["-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1"]);
    command.args(["-movflags", "+faststart", "-f", "mp4"]).arg(to);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_shown() {
        for text in ["keep", "gop=1", "gop=8"] {
            assert_eq!(text.parse::<VideoEncoding>().unwrap().to_string(), text);
        }
        for text in ["", "gop", "gop=", "gop=0", "gop=1001", "gop=x", "best"] {
            assert!(text.parse::<VideoEncoding>().unwrap_err().contains("gop=N"));
        }
    }
}
