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

mod arrow;
mod beton;
mod columns;
#[cfg(test)]
mod conformance;
mod convert;
mod export;
mod folder;
mod litdata;
mod mds;
mod npy;
mod pack;
mod parallel;
mod parquet;
mod parts;
mod recent;
mod saved_index;
mod shelf;
mod slipcache;
mod sniff;
mod splits;
mod stream;
mod tbl;
mod tfrecord;
mod view;
mod webdataset;
mod whole_file;

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, Fingerprint, ImageMeta, SampleBuffer, Schema};
use crate::source::{Destination, Seen, Source, Target, open_sink, staging_folder};

pub use convert::{ConvertOptions, ConvertReport, convert, convert_targets};
pub use pack::{
    Damage, EncodedImage, ImageEncoder, ImageInput, KeepImages, OnPackError, PackOptions, PackPlan,
    PackReport, PackWriter, ProbeImage, Skipped, VerifyReport, commit_pack, pack, plan_pack, verify,
    write_part,
};
pub use parts::Progress;
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

    /// Whether [`byte_length`](Self::byte_length) tells lengths of this field; of one that has samples.
    fn knows_byte_lengths(&self, field: usize) -> bool {
        self.byte_length(0, field).is_some()
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

    /// How many objects [`extents`](Self::extents) counts in; 0 if it plans nothing.
    fn object_count(&self) -> u32 {
        0
    }

    /// Where object `number` (below [`object_count`](Self::object_count)) is: its source and its name there.
    fn object(&self, _number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        None
    }

    /// What object `number` was when the data set was opened, if the format knows (a listing told).
    fn seen(&self, _number: u32) -> Option<Seen> {
        None
    }

    /// Whether some of its objects are far away, so that it pays to ask for bytes before they are needed.
    fn is_remote(&self) -> bool {
        (0..self.object_count())
            .any(|number| self.object(number).is_some_and(|(source, _)| source.is_remote()))
    }

    /// Readies whatever [`extents`](Self::extents) of these samples needs (indexes that are read on first use), many at a
    /// time. Only called for data that are far away, where one at a time would take a round trip each.
    fn prepare(&self, _samples: &[u64]) {}

    /// The bytes that `read` will ask for, for planning reads ahead. May be empty: no plan, read when needed.
    fn extents(&self, _sample: u64, _fields: &FieldSet, _out: &mut Vec<Extent>) {}
}

/// Writes `source` as a pack at `destination`, wherever that is. Behind a network each part is sent as soon as it is
/// whole, the manifest last.
pub fn pack_into(
    source: &dyn Format,
    destination: &Destination,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackReport> {
    match destination {
        Destination::Local(path) => pack(source, path, options, progress),
        Destination::Remote { uri, storage } => {
            let sink = open_sink(uri, storage)?;
            pack::pack_and_send(source, &*sink, &staging_folder(uri)?, options, progress)
        }
    }
}

/// The same for other systems' files.
pub fn convert_into(
    source: &dyn Format,
    destination: &Destination,
    options: &ConvertOptions,
    progress: &dyn Progress,
) -> Result<ConvertReport> {
    match destination {
        Destination::Local(path) => convert(source, path, options, progress),
        Destination::Remote { uri, storage } => {
            let (folder, name) = convert::object_at(uri, &options.to)?;
            let sink = open_sink(folder, storage)?;
            convert::convert_and_send(source, &*sink, name, &staging_folder(uri)?, options, progress)
        }
    }
}

/// What only some formats ask when they are opened. Plain data.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadingOptions {
    /// Hand out fields that are Python pickles, as the bytes they are.
    pub allow_pickle: bool,
    /// For encrypted data.
    pub password: Option<String>,
    /// Compare files with the hashes their index has, where it has any.
    pub verify_hashes: bool,
    /// Which part of a data set that has several (`train`, `test`).
    pub split: Option<String>,
    /// Where indexes that are costly to make are kept; `None` is the user's cache folder.
    pub index_dir: Option<PathBuf>,
}

/// Never shows the password.
impl Debug for ReadingOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadingOptions")
            .field("allow_pickle", &self.allow_pickle)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("verify_hashes", &self.verify_hashes)
            .field("split", &self.split)
            .field("index_dir", &self.index_dir)
            .finish()
    }
}

/// How to recognise and open one format.
pub(crate) struct Probe {
    /// The name users write in `format=`.
    pub(crate) name: &'static str,
    /// Looks at content (magic bytes, index files), not at names alone; cheap. Tells what it saw, in the words of an
    /// error message ("3 .tar files", "index.json of MDS shards"), or `None`.
    pub(crate) recognises: fn(&Target) -> Result<Option<String>>,
    /// Opens.
    pub(crate) open: fn(&Target, &ReadingOptions) -> Result<Arc<dyn Format>>,
}

/// Every format. Exactly one must recognise a target. `folder` comes last: it looks for image files wherever they are.
#[rustfmt::skip] // one line each
pub(crate) static FORMATS: &[Probe] = &[
    pack::PROBE,
    beton::PROBE,
    mds::PROBE,
    litdata::PROBE,
    arrow::PROBE,
    parquet::PROBE,
    slipcache::PROBE,
    tbl::PROBE,
    tfrecord::PROBE,
    webdataset::PROBE,
    folder::PROBE,
];

/// The names users may write in `format=`, in the order in which formats are asked.
pub fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// Opens `target` as the named format, or as whatever recognises it.
pub(crate) fn open(target: &Target, name: &str, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let opened = open_as(target, name, options);
    target.source().settle();
    opened
}

fn open_as(target: &Target, name: &str, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    if let Target::Folder(source) = target {
        convert::refuse_unfinished(&**source)?;
    }
    if name != "auto" {
        let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let probe = FORMATS.iter().find(|f| f.name == name);
        let probe =
            probe.ok_or_else(|| Error::option("format", format!("'{name}' is none of auto, {}", names())))?;
        return (probe.open)(target, options);
    }
    (detect(target)?.open)(target, options)
}

/// The one format that recognises `target`.
fn detect(target: &Target) -> Result<&'static Probe> {
    let (folder, others) = FORMATS.split_last().expect("there are formats");
    let mut found: Vec<(&Probe, String)> = Vec::new();
    for probe in others {
        if let Some(sight) = (probe.recognises)(target)? {
            found.push((probe, sight));
        }
    }
    if let Some(sight) = (folder.recognises)(target)? {
        found.push((folder, sight));
    }
    match found.as_slice() {
        [] => Err(unrecognised(target)),
        [(probe, _)] => Ok(probe),
        several => {
            let seen: Vec<String> =
                several.iter().map(|(p, sight)| format!("{} ({sight})", p.name)).collect();
            let reason = format!("more than one format is here: {}", seen.join(", "));
            let hint = "say which with format=\"...\", or give a pattern such as \"*.tar\"";
            Err(Error::data(Location::new(target.uri()), reason).with_hint(hint))
        }
    }
}

fn unrecognised(target: &Target) -> Error {
    let seen = match target {
        Target::Folder(source) => sights(source.as_ref()),
        Target::Objects(_, names) => names.iter().take(5).cloned().collect(),
    };
    let known = FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    Error::data(Location::new(target.uri()), format!("no known format is recognised; seen: {seen}"))
        .with_hint(format!("say format=... if you know what it is: one of {known}"))
}

fn sights(source: &dyn Source) -> Vec<String> {
    let mut names = source.children("").unwrap_or_default();
    names.sort();
    names.truncate(5);
    names
}
