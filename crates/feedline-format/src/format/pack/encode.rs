//! How an image is encoded for a pack: the interface between this format and the code that knows pixels.

use std::fmt::Debug;

use crate::sample::{ImageEncoding, ImageMeta};

/// An image as the source has it.
#[derive(Debug, Clone, Copy)]
pub struct ImageInput<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its seek index, empty if the source has none.
    pub index: &'a [u8],
    /// What the source knows about it.
    pub meta: ImageMeta,
}

/// An image as it will be stored. Reused from sample to sample.
#[derive(Debug)]
pub struct EncodedImage {
    /// The bytes to store; `None` keeps the input's bytes, without a copy.
    pub bytes: Option<Vec<u8>>,
    /// The seek index to store beside them; may be empty. Opaque here: it starts with its own version.
    pub index: Vec<u8>,
    /// What readers will know without reading the bytes.
    pub meta: ImageMeta,
}

impl Default for EncodedImage {
    fn default() -> Self {
        EncodedImage { bytes: None, index: Vec::new(), meta: ImageMeta::UNKNOWN }
    }
}

/// Encodes source images for storage.
///
/// Implementers guarantee that the same input gives the same output on every machine; otherwise a pack would depend
/// on who wrote which part. Every setting that changes the output is part of `name`.
pub trait ImageEncoder: Send + Sync + Debug {
    /// The encoding with its settings, such as `rgb shorter_side=256`. Part of the plan's identity.
    fn name(&self) -> String;

    /// Encodes one image into `out`, whose fields still contain the last image. The error is a reason; the caller
    /// adds the sample.
    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String>;

    /// Encodes one video into `out`, whose fields still contain the last value: the bytes to store, and an index of its
    /// packets to store beside them.
    fn encode_video(&self, _bytes: &[u8], out: &mut EncodedImage) -> Result<(), String> {
        out.bytes = None;
        out.index.clear();
        Ok(())
    }

    /// Approximate number of stored bytes per source byte; used to size parts.
    fn growth(&self) -> f64 {
        1.0
    }

    /// What it has met so far, by name and number: for the report of a run, not part of the pack.
    fn met(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// Finds what the first bytes of an image file tell about it.
pub type ProbeImage = fn(&[u8]) -> Result<ImageMeta, String>;

/// Stores every image's bytes unchanged, of whatever codec (`as-is`).
#[derive(Debug, Clone, Copy)]
pub struct KeepImages {
    probe: ProbeImage,
}

impl KeepImages {
    /// `probe` is called for images whose size the source does not know.
    pub fn new(probe: ProbeImage) -> Self {
        KeepImages { probe }
    }
}

impl Default for KeepImages {
    /// Distinguishes JPEG from other files by the first bytes; sizes stay unknown.
    fn default() -> Self {
        KeepImages { probe: |bytes| Ok(ImageMeta { encoding: sniff(bytes), ..ImageMeta::UNKNOWN }) }
    }
}

impl ImageEncoder for KeepImages {
    fn name(&self) -> String {
        "as-is".to_owned()
    }

    fn encode(&self, input: ImageInput<'_>, out: &mut EncodedImage) -> Result<(), String> {
        out.bytes = None;
        out.index.clear();
        out.index.extend_from_slice(input.index);
        let known = input.meta.width != 0 && input.meta.orientation != 0;
        out.meta = if known { input.meta } else { (self.probe)(input.bytes)? };
        Ok(())
    }
}

/// Detects JPEG by its start-of-image marker and the next one.
fn sniff(bytes: &[u8]) -> ImageEncoding {
    if bytes.starts_with(&[0xff, 0xd8, 0xff]) { ImageEncoding::Jpeg } else { ImageEncoding::File }
}
