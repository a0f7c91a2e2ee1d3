//! HOW SAMPLES ARE LAID OUT.
//!
//! A [`Format`] turns a sample's number into the sample's field values, through a source. A new format is one file
//! here, one line in `FORMATS` and one page in `docs/formats/`. Formats that wrap other formats are in `wrap/`.
//!
//! Implementers guarantee: `len`, `schema` and `fingerprint` are fixed at opening; any sample can be read at any
//! time, in any order, from any thread, without locks; `read` sets exactly the wanted fields of the buffer (absent
//! ones stay `Missing`) and usually allocates nothing; all sizes and offsets from files are checked before use;
//! errors name the file, the sample and the offset. A format does not decode images, does not know batches or order,
//! and never panics on bad input.

#[cfg(feature = "array-record")]
mod array_record;
#[cfg(feature = "npy")]
mod arrays;
#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "beton")]
mod beton;
mod bounds;
mod checkpoints;
#[cfg(feature = "arrow-columns")]
mod columns;
#[cfg(test)]
mod conformance;
mod convert;
mod export;
mod extents;
mod folder;
#[cfg(feature = "hdf5")]
mod hdf5;
mod index;
#[cfg(feature = "litdata")]
mod litdata;
#[cfg(feature = "lmdb")]
mod lmdb;
mod lru_cache;
#[cfg(feature = "mds")]
mod mds;
mod nifti;
mod npy;
mod open_objects;
mod original;
mod pack;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;
mod pieces;
mod plain;
mod quiet;
#[cfg(feature = "recordio")]
mod recordio;
mod rows;
mod saved_index;
#[cfg(feature = "slipcache")]
mod slipcache;
mod sniff;
mod splits;
mod stream;
mod table;
#[cfg(feature = "tbl")]
mod tbl;
#[cfg(feature = "tfrecord")]
mod tfrecord;
mod tokens;
#[cfg(feature = "webdataset")]
mod webdataset;
mod whole_file;
mod wrap;
#[cfg(feature = "zarr")]
mod zarr;
#[cfg(feature = "zip")]
mod zip;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{DataCause, Error, Location, Result};
use crate::sample::{DType, FieldSet, Fingerprint, Kind, SampleBuffer, Schema};
use crate::source::{Destination, Source, Storage, Target, open_sink, staging_folder};

pub use checkpoints::Checkpoints;
pub use convert::{ConvertOptions, ConvertReport, Task, convert, convert_targets};
pub use extents::Extents;
pub use index::Index;
pub use original::original_file;
pub use pack::{
    Damage, EncodedImage, ImageEncoder, ImageInput, KeepImages, OnPackError, PackOptions, PackPlan,
    PackReport, PackWriter, ProbeImage, Skipped, VerifyReport, append_pack, begin_pack, commit_pack,
    commit_pack_into, merge_packs, missing_parts, pack, plan_pack, verify, write_part, write_part_into,
    write_parts_into,
};
pub use parts::Progress;
pub use pieces::{piece_table, read_pieces};
pub use table::Rows;
pub use table::open_rows;
pub use wrap::{Concatenated, Copied, LocalCopy, Relabelled, Renamed, Selected, Windowed, Windows};

/// Samples by number. See the module's contract. [`Index`] tells what is known without reading, [`Extents`] what to
/// prefetch. Both have defaults for formats that know nothing: `impl Index for X {}`.
pub trait Format: Index + Extents + Send + Sync + Debug {
    /// The name users write in `format=`.
    fn name(&self) -> &'static str;

    /// Number of samples.
    fn len(&self) -> u64;

    /// Whether there are no samples.
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

    /// The [`problems`](Self::problems) that a user should see at once: data that are skipped, or not read as their
    /// own system reads them.
    fn warnings(&self) -> &[Error] {
        &[]
    }

    /// Reads the wanted fields of sample `sample` (below `len`) into `into`, which it resets first.
    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()>;

    /// Place of the sample for messages: file and, if cheap, offset.
    fn locate(&self, sample: u64) -> Location;
}

/// Reads a sample. Remote bytes that break the rules of their format (usually a checksum) are fetched a second time:
/// prefetched and cached copies are discarded first.
pub fn read(format: &dyn Format, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
    match format.read(sample, fields, into) {
        Err(error) if forget_damaged(format, sample, fields, &error) => format.read(sample, fields, into),
        read => read,
    }
}

/// The same for one field, with [`Index::read_bytes`].
pub fn read_bytes(format: &dyn Format, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
    let only = || FieldSet::only(format.schema().fields.len(), [field]);
    match format.read_bytes(sample, field, into) {
        Err(error) if forget_damaged(format, sample, &only(), &error) => {
            format.read_bytes(sample, field, into)
        }
        read => read,
    }
}

/// Whether the bytes may have been damaged in transfer; if so, sources forget the sample's bytes.
fn forget_damaged(format: &dyn Format, sample: u64, fields: &FieldSet, error: &Error) -> bool {
    let Error::Data { location, .. } = error else { return false };
    if !format.is_remote() {
        return false;
    }
    let mut extents = Vec::new();
    format.extents(sample, fields, &mut extents);
    for extent in &extents {
        if let Some((source, name)) = format.object(extent.object) {
            source.forget(&name, &extent.range);
        }
    }
    // If even the index cannot be read, only the file is known.
    if let (true, Some(shard)) = (extents.is_empty(), &location.shard) {
        let objects = (0..format.object_count()).filter_map(|number| format.object(number));
        for (source, name) in objects.filter(|(_, name)| name == shard) {
            source.forget(&name, &(0..u64::MAX));
        }
    }
    true
}

/// Writes `source` as a pack at a local or remote `destination`. For a remote one, each part is uploaded as soon as
/// it is complete, the manifest last.
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

/// Writes `source` as another system's files at a local or remote `destination`.
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

/// Writes one process's share of a conversion: the files of `task`. [`commit_convert_into`] writes the index when all
/// files exist.
pub fn convert_task_into(
    source: &dyn Format,
    destination: &Destination,
    options: &ConvertOptions,
    task: Task,
    progress: &dyn Progress,
) -> Result<ConvertReport> {
    convert::in_tasks(source, destination, options, Some(task), progress)
}

/// Completes a conversion whose files were written by tasks.
pub fn commit_convert_into(
    source: &dyn Format,
    destination: &Destination,
    options: &ConvertOptions,
) -> Result<ConvertReport> {
    convert::in_tasks(source, destination, options, None, &())
}

/// Options that only some formats use. Plain data.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadingOptions {
    /// Return fields that are Python pickles, as bytes.
    pub allow_pickle: bool,
    /// Password of encrypted data.
    pub password: Option<String>,
    /// Compare files with the hashes in their index, if it has any.
    pub verify_hashes: bool,
    /// Which split of a data set that has several (`train`, `test`).
    pub split: Option<String>,
    /// Folder for indexes that are slow to make; `None` is the user's cache folder.
    pub index_dir: Option<PathBuf>,
    /// Folder of a table's paths; `None` is the table's own folder.
    pub root: Option<String>,
    /// Kinds of columns of tables and arrays that cannot be detected.
    pub schema: BTreeMap<String, Kind>,
    /// How to reach files that the data name; set by the code that opens the data set.
    #[serde(skip)]
    pub storage: Storage,
    /// Read files that a table names even if a symbolic link leads out of the data set's folder.
    pub follow_links: bool,
    /// Element type of token files that do not say it.
    pub dtype: Option<DType>,
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
            .field("root", &self.root)
            .field("schema", &self.schema)
            .field("storage", &self.storage)
            .field("follow_links", &self.follow_links)
            .field("dtype", &self.dtype)
            .finish()
    }
}

/// How to detect and open one format.
pub(crate) struct Probe {
    /// The name that users write in `format=`.
    pub(crate) name: &'static str,
    /// Detects the format by content (magic bytes, index files), not by names alone; cheap. Returns what it found, as
    /// in an error message ("3 .tar files", "index.json of MDS shards"), or `None`.
    pub(crate) recognises: fn(&Target) -> Result<Option<String>>,
    /// Opens the data set.
    pub(crate) open: fn(&Target, &ReadingOptions) -> Result<Arc<dyn Format>>,
}

/// Every format. Exactly one must recognise a target. `folder` comes last: it looks for image files at any depth.
#[rustfmt::skip] // one line each
pub(crate) static FORMATS: &[Probe] = &[
    pack::PROBE,
    #[cfg(feature = "beton")] beton::PROBE,
    #[cfg(feature = "mds")] mds::PROBE,
    #[cfg(feature = "litdata")] litdata::PROBE,
    #[cfg(feature = "arrow")] arrow::PROBE,
    #[cfg(feature = "parquet")] parquet::PROBE,
    #[cfg(feature = "slipcache")] slipcache::PROBE,
    #[cfg(feature = "tbl")] tbl::PROBE,
    #[cfg(feature = "tfrecord")] tfrecord::PROBE,
    #[cfg(feature = "recordio")] recordio::PROBE,
    #[cfg(feature = "lmdb")] lmdb::PROBE,
    #[cfg(feature = "webdataset")] webdataset::PROBE,
    #[cfg(feature = "zip")] zip::PROBE,
    #[cfg(feature = "npy")] arrays::PROBE,
    #[cfg(feature = "hdf5")] hdf5::PROBE,
    #[cfg(feature = "zarr")] zarr::PROBE,
    #[cfg(feature = "array-record")] array_record::PROBE,
    tokens::PROBE,
    table::PROBE,
    table::FILES,
    folder::PROBE,
];

/// The names that users may write in `format=`, in the order in which formats are tried.
pub fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

/// Opens `target` as the named format, or as the one that recognises it.
pub fn open(target: &Target, name: &str, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let opened = open_as(target, name, options);
    target.source().opening_finished();
    opened
}

fn open_as(target: &Target, name: &str, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    if let Target::Folder(source) = target {
        convert::refuse_unfinished(&**source)?;
    }
    let probe = probe(target, name)?;
    refuse_unused(probe.name, options)?;
    (probe.open)(target, options)
}

/// Formats without splits: each split is a data set of its own.
const WITHOUT_PARTS: [&str; 9] =
    ["pack", "beton", "litdata", "slipcache", "tbl", "lmdb", "table", "tokens", "files"];

/// Refuses options that the format would ignore.
fn refuse_unused(format: &str, options: &ReadingOptions) -> Result<()> {
    if options.root.is_some() && format != "table" {
        let reason = format!("only for tables whose rows name files; this is {format}");
        return Err(Error::option("root", reason));
    }
    if !options.schema.is_empty() && !["table", "npy", "hdf5", "zarr"].contains(&format) {
        let reason = format!("only for tables and arrays; this is {format}, which has its own");
        return Err(Error::option("schema", reason));
    }
    if options.dtype.is_some() && format != "tokens" {
        return Err(Error::option("dtype", format!("only for files of tokens; this is {format}")));
    }
    if options.password.is_some() && format != "litdata" {
        return Err(Error::option("password", format!("only LitData is encrypted; this is {format}")));
    }
    if options.verify_hashes && !["mds", "webdataset"].contains(&format) {
        let reason = format!("only indexes of mds and webdataset have hashes of files; this is {format}");
        return Err(Error::option("verify_hashes", reason));
    }
    if options.split.is_some() && WITHOUT_PARTS.contains(&format) {
        let reason = format!("{format} has no splits to choose from; open the one you want");
        return Err(Error::option("split", reason));
    }
    Ok(())
}

/// The named format, or the one that recognises `target`.
fn probe(target: &Target, name: &str) -> Result<&'static Probe> {
    if name != "auto" {
        let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let probe = FORMATS.iter().find(|f| f.name == name);
        let probe = probe
            .ok_or_else(|| Error::option("format", format!("'{name}' is not one of auto, {}", names())))?;
        return Ok(probe);
    }
    detect(target)
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
            let hint = "choose one with format=\"...\", or give a pattern such as \"*.tar\"";
            Err(Error::data(Location::new(target.uri()), reason)
                .with_hint(hint)
                .with_cause(DataCause::Unrecognised))
        }
    }
}

fn unrecognised(target: &Target) -> Error {
    let seen = match target {
        Target::Folder(source) => {
            let seen = sights(source.as_ref());
            // A source that cannot list gives a better error.
            if let (true, Err(error)) = (seen.is_empty(), source.list("")) {
                return error;
            }
            seen
        }
        Target::Objects(_, names) => names.iter().take(5).cloned().collect(),
    };
    let known = FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    Error::data(Location::new(target.uri()), format!("no known format is recognised; seen: {seen}"))
        .with_hint(format!("use format=... if you know what it is: one of {known}"))
        .with_cause(DataCause::Unrecognised)
}

fn sights(source: &dyn Source) -> Vec<String> {
    let mut names = source.children("").unwrap_or_default();
    names.sort();
    names.truncate(5);
    names
}
