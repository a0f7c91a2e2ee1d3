//! Stands in for FFmpeg where this crate is built without it.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::{Codec, Index};
use crate::rgb::Picture;

/// Which FFmpeg was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FfmpegVersion(pub u32);

/// The FFmpeg that decodes: none.
pub fn ffmpeg_version() -> Option<FfmpegVersion> {
    None
}

/// A decoder; there is none.
#[derive(Debug)]
pub(crate) struct Ffmpeg {
    never: std::convert::Infallible,
}

impl Ffmpeg {
    pub(crate) fn has(_codec: Codec) -> bool {
        false
    }

    pub(crate) fn open(index: &Index) -> Result<Self> {
        let codec = index.codec.name();
        Err(Error::NoDecoder(format!(
            "no decoder for {codec}: this feedline was built without the feature 'video'"
        )))
    }
}

impl Engine for Ffmpeg {
    fn flush(&mut self) -> Result<()> {
        match self.never {}
    }

    fn send(&mut self, _number: i64, _bytes: &[u8]) -> Result<()> {
        match self.never {}
    }

    fn finish(&mut self) {
        match self.never {}
    }

    fn receive(&mut self) -> Result<Option<(i64, Picture<'_>)>> {
        match self.never {}
    }
}
