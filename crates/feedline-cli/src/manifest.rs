//! The parts of a pack's manifest that other data sets do not have: version, parts, index sizes.
//!
//! `docs/formats/pack.md` is normative; opening the pack has already checked the manifest.

use std::path::PathBuf;

use feedline::source::{Storage, Target, resolve};
use serde::Deserialize;

/// The manifest's name in the pack's folder.
const NAME: &str = "feedline.json";

/// The parts of a manifest that are shown.
#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    /// Major and minor version of the format.
    #[serde(rename = "feedline_pack")]
    pub(crate) version: [u16; 2],
    /// How images were stored, with the encoder's settings.
    pub(crate) image: String,
    /// Number of samples that were left out when packing.
    #[serde(default)]
    pub(crate) skipped_count: u64,
    /// The parts.
    pub(crate) parts: Vec<Part>,
}

/// One part.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    /// Length of the file.
    pub(crate) bytes: u64,
    /// Length of the index in it.
    pub(crate) index_length: u64,
}

impl Manifest {
    /// Reads the manifest of the pack at `uri`; `None` if it cannot be found or parsed, as it is only for display.
    pub(crate) fn read(uri: &str) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder(uri).join(NAME)).ok()?).ok()
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Bytes of all parts' indexes.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.index_length).sum()
    }
}

/// The folder of the pack at `uri`, which may also name the manifest itself or be a pattern for either.
pub(crate) fn folder(uri: &str) -> PathBuf {
    match resolve(&[uri.to_owned()], &Storage::default()) {
        Ok(Target::Folder(source) | Target::Objects(source, _)) => PathBuf::from(source.uri()),
        Err(_) => PathBuf::from(uri),
    }
}
