//! Stands for the decoders that this build leaves out. [`probe`](super::probe) refuses their images by name before
//! anything here is called.

// Which of these functions are used depends on which decoders are left out.
#![allow(dead_code, unused_imports)]

use super::{ImageHeader, Scratch, Stored};
use crate::{Error, PixelLayout, Region, Result, Size};

fn absent() -> Error {
    Error::Unsupported { codec: "image", reason: "this build of feedline has no decoder for it".to_owned() }
}

pub(super) fn probe(_: &[u8]) -> Result<ImageHeader> {
    Err(absent())
}

pub(super) fn stored(_: &[u8], _: &ImageHeader, _: &mut Scratch) -> Result<Stored> {
    Err(absent())
}

pub(super) fn decode(_: &[u8], _: &ImageHeader, _: &mut Scratch) -> Result<PixelLayout> {
    Err(absent())
}

pub(super) fn decode_part(
    _: &[u8],
    _: &ImageHeader,
    _: Region,
    _: &mut Scratch,
) -> Result<Option<(PixelLayout, Region)>> {
    Err(absent())
}

pub(super) fn fewest_bytes(_: &[u8], _: Size) -> u64 {
    0
}

/// The functions of TIFF that have a form of their own.
pub(super) mod tiff {
    use super::{PixelLayout, Result, Scratch, Stored, absent};
    pub(in super::super) use super::{decode, decode_part, probe};

    pub(in super::super) fn stored(_: &[u8], _: &mut Scratch) -> Result<Option<Stored>> {
        Err(absent())
    }

    pub(in super::super) fn labels(_: &[u8], _: &mut Scratch) -> Result<PixelLayout> {
        Err(absent())
    }

    pub(in super::super) fn select_page(_: &[u8], _: usize, _: &mut Vec<u8>) -> Result<()> {
        Err(absent())
    }

    pub(in super::super) fn fewest_bytes(_: &[u8]) -> Result<u64> {
        Err(absent())
    }
}
