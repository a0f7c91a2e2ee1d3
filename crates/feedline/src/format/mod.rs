//! HOW SAMPLES ARE LAID OUT.
//!
//! A [`Format`] turns a sample's number into the sample's field values, through a source. Adding one is: one file
//! here, one line in [`FORMATS`], one page in `docs/formats/`.
//!
//! Implementers uphold: `len`, `schema` and `fingerprint` are fixed at opening; any sample can be read at any time, in
//! any order, from any thread, without locks on the way; `read` sets exactly the wanted fields of the buffer (absent
//! ones stay `Missing`) and allocates nothing in steady state; all sizes and offsets that come from files are checked
//! before use; errors name the file, the sample and the offset. A format does not decode pictures, does not know
//! batches or order, and never panics on bad input.

#[cfg(test)]
mod conformance;
mod folder;
mod npy;
mod pack;
mod shelf;
mod tar;
mod view;
mod webdataset;

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Source, Target};

pub use pack::{
    Damage, EncodedImage, ImageEncoder, ImageInput, KeepImages, OnPackError, PackOptions, PackPlan,
    PackReport, PackWriter, ProbeImage, Progress, Skipped, VerifyReport, commit_pack, pack, plan_pack,
    verify, write_part,
};
pub(crate) use view::{Concatenated, Renamed, Selected};

/// Samples by number. See the module's contract.
pub trait Format: Send + Sync + Debug {
    /// The name users write in `format=`.
    fn name(&self) -> &'static str;

    /// Number of samples.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fields and class names.
    fn schema(&self) -> &Schema;

    /// Changes when the data change.
    fn fingerprint(&self) -> Fingerprint;

    /// What was found but is not part of the data set (unreadable or foreign files), one error each.
    fn problems(&self) -> &[Error] {
        &[]
    }

    /// Reads the wanted fields of sample `sample` (below `len`) into `into`, which it resets first.
    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()>;

    /// Where the sample is, for messages: file and, if cheap, offset.
    fn locate(&self, sample: u64) -> Location;

    /// The byte length of an image, text, json or bytes field, if the index knows it without reading the sample.
    /// With it, undecoded batches are laid out beforehand and filled without a copy in between.
    fn byte_length(&self, _sample: u64, _field: usize) -> Option<u64> {
        None
    }

    /// Fills `into`, exactly [`byte_length`](Self::byte_length) long, with the field's bytes. Only called where
    /// `byte_length` gave a number.
    fn read_bytes(&self, sample: u64, field: usize, _into: &mut [u8]) -> Result<()> {
        Err(Error::data(self.locate(sample), format!("field {field} cannot be read in place")))
    }

    /// What the index knows of an image field without reading the sample.
    fn image_meta(&self, _sample: u64, _field: usize) -> Option<ImageMeta> {
        None
    }

    /// One integer field's value, if the index knows it without reading the sample (labels, for samplers).
    fn int_value(&self, _sample: u64, _field: usize) -> Option<i64> {
        None
    }

    /// Names of the objects that [`extents`](Self::extents) counts in.
    fn objects(&self) -> Vec<String> {
        Vec::new()
    }

    /// The bytes that `read` will ask for, for planning reads ahead. May be empty: no plan, read when needed.
    fn extents(&self, _sample: u64, _fields: &FieldSet, _out: &mut Vec<Extent>) {}
}

/// How to recognise and open one format.
pub(crate) struct Probe {
    /// The name users write in `format=`.
    pub(crate) name: &'static str,
    /// Looks at content (magic bytes, index files), not at names alone; cheap.
    pub(crate) recognises: fn(&Target) -> Result<bool>,
    /// Opens.
    pub(crate) open: fn(&Target) -> Result<Arc<dyn Format>>,
}

/// Every format, in the order in which they are asked. The first that recognises the target opens it; `folder` is
/// last because almost any folder could be one.
pub(crate) static FORMATS: &[Probe] = &[pack::PROBE, webdataset::PROBE, folder::PROBE];

/// The names users may write in `format=`, in the order in which formats are asked.
pub fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// Opens `target` as the named format, or as whatever recognises it.
pub(crate) fn open(target: &Target, name: &str) -> Result<Arc<dyn Format>> {
    if name != "auto" {
        let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let probe = FORMATS.iter().find(|f| f.name == name);
        let probe =
            probe.ok_or_else(|| Error::option("format", format!("'{name}' is none of auto, {}", names())))?;
        return (probe.open)(target);
    }
    for probe in FORMATS {
        if (probe.recognises)(target)? {
            return (probe.open)(target);
        }
    }
    Err(unrecognised(target))
}

fn unrecognised(target: &Target) -> Error {
    let (uri, seen) = match target {
        Target::Folder(source) => (source.uri().to_owned(), sights(source.as_ref())),
        Target::Objects(source, names) => (source.uri().to_owned(), names.iter().take(5).cloned().collect()),
    };
    let known = FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    Error::data(Location::new(uri), format!("no known format is recognised; seen: {seen}"))
        .with_hint(format!("say format=... if you know what it is: one of {known}"))
}

fn sights(source: &dyn Source) -> Vec<String> {
    source.list("").map(|l| l.entries.into_iter().take(5).map(|e| e.name).collect()).unwrap_or_default()
}
