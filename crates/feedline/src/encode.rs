//! HOW PICTURES ARE STORED in a pack: the bridge between the pack writer's hook and `feedline_pixels`.

use std::sync::Arc;

use feedline_pixels::turbo;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::{ImageEncoder, KeepImages, OnPackError, PackOptions};
use crate::sample::{ImageEncoding, ImageMeta};

/// What is stored of each image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StoredImage {
    /// The original bytes, of any codec, and nothing else.
    #[serde(rename = "as-is")]
    AsIs,
    /// The original bytes; JPEGs get a seek index beside them.
    #[default]
    #[serde(rename = "jpeg")]
    Jpeg,
}

/// How to write a pack, as plain data: what Python and the command line hand over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PackSettings {
    /// What is stored of each image.
    pub image: StoredImage,
    /// About how large a part is.
    pub part_bytes: Option<u64>,
    /// Threads; 0 for all usable cores.
    pub workers: usize,
    /// What to do with unreadable samples.
    pub on_error: OnPackError,
    /// Go on with an unfinished pack.
    pub resume: bool,
    /// Replace a finished pack.
    pub overwrite: bool,
}

impl Default for PackSettings {
    fn default() -> Self {
        PackSettings {
            image: StoredImage::Jpeg,
            part_bytes: None,
            workers: 0,
            on_error: OnPackError::Raise,
            resume: true,
            overwrite: false,
        }
    }
}

impl PackSettings {
    /// The settings with their encoder made.
    pub fn options(&self) -> Result<PackOptions> {
        let image: Arc<dyn ImageEncoder> = Arc::new(KeepImages::new(probe));
        Ok(PackOptions {
            image,
            part_bytes: self.part_bytes,
            workers: self.workers,
            on_error: self.on_error,
            resume: self.resume,
            overwrite: self.overwrite,
        })
    }
}

/// Size, channels and orientation of an image file from its first bytes.
fn probe(bytes: &[u8]) -> Result<ImageMeta, String> {
    let header = turbo::header(bytes).map_err(|e| e.to_string())?;
    Ok(ImageMeta {
        encoding: ImageEncoding::Jpeg,
        width: header.size.width,
        height: header.size.height,
        channels: header.components,
        orientation: 1,
    })
}

/// Whether the first bytes are those of an image format we know.
pub fn is_image(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xd8, 0xff]) || bytes.starts_with(b"\x89PNG")
}

/// One picture as pixels: height, width, and red, green, blue bytes row by row, turned as its EXIF says.
pub fn decode_image(bytes: &[u8], _index: &[u8], _meta: ImageMeta) -> Result<(u32, u32, Vec<u8>)> {
    use feedline_pixels::{ImageMut, PixelLayout, Region};
    let bad = |e: feedline_pixels::Error| Error::option("image", e.to_string());
    let size = turbo::header(bytes).map_err(bad)?.size;
    let mut pixels = vec![0; size.area() as usize * 3];
    let mut view =
        ImageMut::new(&mut pixels, size, size.width as usize * 3, PixelLayout::Rgb).map_err(bad)?;
    turbo::decode_region(bytes, Region::whole(size), 8, u64::MAX, &mut view).map_err(bad)?;
    Ok((size.height, size.width, pixels))
}
