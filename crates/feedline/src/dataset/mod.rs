//! [`Dataset`], the result of `open`: a format with the usual field names. It is cheap to clone, and its spec lets
//! another process open the same data.

mod copy;
mod cut;
mod join;

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_pixels::pieces::PieceTable;
use serde::{Deserialize, Serialize};

pub use copy::CopyStatus;

use crate::error::{DataCause, Error, Location, Result, redacted};
use crate::field::{ImageEncoding, Role};
pub(crate) use crate::format::Windows;
use crate::format::{self, Format, ReadingOptions, Renamed, Rows, Selected, Windowed};
pub(crate) use crate::format::{Checkpoints, Progress};
use crate::owned::{OwnedValue, Sample};
use crate::sample::{FieldSet, FieldSpec, Fingerprint, MAX_FIELDS, NoRoom, SampleBuffer, Schema};
use crate::source::{Storage, Target, absolute, pieces, resolve, split_joined};

/// How to open a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// `"auto"`, or a format's name.
    pub format: String,
    /// New name → stored field, or several separated by `;` of which each sample has one. If set, the data set
    /// has only these fields; if not, the naming rules of [`Dataset`] apply.
    pub fields: Option<BTreeMap<String, String>>,
    /// Options of some formats only.
    pub reading: ReadingOptions,
    /// How to access remote data.
    pub storage: Storage,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            format: "auto".to_owned(),
            fields: None,
            reading: ReadingOptions::default(),
            storage: Storage::default(),
        }
    }
}

feedline_format::setters! {
    OpenOptions:
    /// Name of the format, instead of detecting it.
    with_format: format = &str;
    /// New name → stored field.
    with_fields: fields = BTreeMap<String, String>;
    /// Options of some formats only.
    with_reading: reading = ReadingOptions;
    /// How to access remote data.
    with_storage: storage = Storage;
}

impl OpenOptions {
    /// The same options with an absolute root.
    fn rooted(&self) -> Self {
        let mut options = self.clone();
        options.reading.root = options.reading.root.map(|root| absolute(&root));
        options
    }

    /// Storage settings for `uris` themselves: a local table of remote files needs none.
    fn storage_of(&self, uris: &[String]) -> Storage {
        let remote = |uri: &String| uri.contains("://") && !uri.starts_with("file://");
        if self.reading.root.as_ref().is_some_and(remote) && !uris.iter().any(remote) {
            return Storage::default();
        }
        self.storage.clone()
    }
}

/// A data set: samples by number, fields by name. Cheap to clone; safe to share between threads.
///
/// By default, if there is exactly one image field, it is called `image`; if exactly one field contains a class number
/// (an integer field called `label`, `cls`, `class`, ...), it is called `label`. All others keep their names.
///
/// The fingerprint covers the stored data and the selection; renaming does not change it.
#[derive(Debug, Clone)]
pub struct Dataset {
    format: Arc<dyn Format>,
    uri: Arc<str>,
    spec: Option<Arc<DatasetSpec>>,
    copy: Option<Arc<copy::CopyJob>>,
    problems: Arc<[Error]>,
}

/// Describes a data set as plain data, so that this or another process can open it again. It contains the secrets
/// needed for that: protect it, and a pickle of it, like the secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatasetSpec {
    /// Stored data.
    Open {
        /// Paths and patterns, absolute.
        uris: Vec<String>,
        /// The detected format.
        format: String,
        /// The fields selected by the user.
        fields: Option<BTreeMap<String, String>>,
        /// Options of some formats only.
        #[serde(default)]
        reading: ReadingOptions,
        /// How to access the data.
        #[serde(default)]
        storage: Storage,
        /// Fingerprint of the data when they were opened.
        fingerprint: String,
    },
    /// Selected samples of another data set.
    Select {
        /// The data set selected from.
        of: Box<DatasetSpec>,
        /// Sample numbers.
        indices: Vec<u64>,
    },
    /// Samples in memory.
    Rows {
        /// The samples.
        rows: Rows,
        /// The fields selected by the user.
        fields: Option<BTreeMap<String, String>>,
        /// The root of their paths, and the kinds of their columns.
        reading: ReadingOptions,
        /// How to access the files they name.
        storage: Storage,
    },
    /// Concatenated data sets.
    Concat {
        /// The data sets.
        pieces: Vec<DatasetSpec>,
        /// Whether classes of the same name are merged, whatever their numbers.
        #[serde(default)]
        matched: bool,
    },
    /// Another data set, packed locally while it is read.
    Cached {
        /// The data set that is packed.
        of: Box<DatasetSpec>,
        /// Folder that contains the pack.
        folder: PathBuf,
        /// How the pack stores images.
        image: ImageEncoding,
    },
}

/// Written by hand, because addresses and settings may contain secrets.
impl std::fmt::Debug for DatasetSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DatasetSpec::Open { uris, format, fingerprint, .. } => {
                write!(f, "Open({}, {format}, {fingerprint})", redacted(&uris.join(", ")))
            }
            DatasetSpec::Select { of, indices } => write!(f, "Select({of:?}, {} samples)", indices.len()),
            DatasetSpec::Concat { pieces, .. } => f.debug_tuple("Concat").field(pieces).finish(),
            DatasetSpec::Rows { .. } => f.write_str("Rows"),
            DatasetSpec::Cached { of, folder, image } => write!(f, "Cached({of:?}, {folder:?}, {image:?})"),
        }
    }
}

impl DatasetSpec {
    /// Folder of saved indexes, if it is not the user's cache folder.
    fn index_dir(&self) -> Option<&Path> {
        match self {
            DatasetSpec::Open { reading, .. } | DatasetSpec::Rows { reading, .. } => {
                reading.index_dir.as_deref()
            }
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => of.index_dir(),
            DatasetSpec::Concat { pieces, .. } => pieces.first()?.index_dir(),
        }
    }

    /// Describes where the data are, whatever part of them is selected. `None` for data that have no address.
    fn place(&self) -> Option<String> {
        match self {
            DatasetSpec::Open { uris, .. } => Some(uris.join("\n")),
            DatasetSpec::Rows { .. } => None,
            DatasetSpec::Select { of, .. } | DatasetSpec::Cached { of, .. } => of.place(),
            DatasetSpec::Concat { pieces, .. } => {
                pieces.iter().map(DatasetSpec::place).collect::<Option<Vec<_>>>().map(|all| all.join("\n"))
            }
        }
    }

    /// Opens the described data set; an error if the data have changed.
    pub fn open(&self) -> Result<Dataset> {
        match self {
            DatasetSpec::Open { uris, format, fields, reading, storage, fingerprint } => {
                let options = OpenOptions {
                    format: format.clone(),
                    fields: fields.clone(),
                    reading: reading.clone(),
                    storage: storage.clone(),
                };
                let dataset = Dataset::open_all(uris, &options)?;
                let found = dataset.fingerprint().to_hex();
                if found != *fingerprint {
                    let reason = format!("the data changed: fingerprint {found}, was {fingerprint}");
                    return Err(Error::data(Location::new(dataset.uri()), reason)
                        .with_hint("open the data set again; saved states of the old data do not fit it"));
                }
                Ok(dataset)
            }
            DatasetSpec::Select { of, indices } => of.open()?.select(indices),
            DatasetSpec::Rows { rows, fields, reading, storage } => {
                let (fields, reading, storage) = (fields.clone(), reading.clone(), storage.clone());
                let options = OpenOptions { fields, reading, storage, ..OpenOptions::default() };
                Dataset::open_rows(rows.clone(), &options)
            }
            DatasetSpec::Concat { pieces, matched } => {
                let pieces = pieces.iter().map(DatasetSpec::open).collect::<Result<Vec<_>>>()?;
                if *matched { Dataset::join(&pieces) } else { Dataset::concat(&pieces) }
            }
            DatasetSpec::Cached { of, folder, image } => of.open()?.cached(folder, *image),
        }
    }
}

/// Opens a path, a `file://` uri, or a brace or glob pattern; the same as [`Dataset::open`].
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # std::fs::write(folder.path().join("1.jpg"), b"...").unwrap();
/// # let path = folder.path().display().to_string();
/// let dataset = feedline::open(&path)?;
/// assert_eq!(dataset.format_name(), "folder");
/// let sample = dataset.get(0)?;
/// assert!(sample.get("image").is_some());
/// # Ok::<(), feedline::Error>(())
/// ```
pub fn open(uri: impl AsRef<str>) -> Result<Dataset> {
    Dataset::open(uri)
}

/// Returns the format with the selected fields under their usual names, and the format as stored.
fn open_format(
    target: &Target,
    options: &OpenOptions,
    uri: &str,
) -> Result<(Arc<dyn Format>, Arc<dyn Format>)> {
    let reading = ReadingOptions { storage: options.storage.clone(), ..options.reading.clone() };
    let stored = format::open(target, &options.format, &reading)?;
    Ok((named(stored.clone(), options, uri)?, stored))
}

fn named(stored: Arc<dyn Format>, options: &OpenOptions, uri: &str) -> Result<Arc<dyn Format>> {
    check_field_count(uri, stored.schema())?;
    let format = match &options.fields {
        Some(fields) => pick(stored, fields, uri)?,
        None => with_usual_names(stored),
    };
    refuse_pickles(uri, format.schema(), &options.reading)?;
    Ok(format)
}

/// What the format left out, and what the source left out before it.
fn problems(format: &dyn Format, target: &Target) -> Arc<[Error]> {
    let mut found = format.problems().to_vec();
    let known: std::collections::HashSet<String> = found.iter().map(ToString::to_string).collect();
    found.extend(target.source().left_out().into_iter().filter(|error| !known.contains(&error.to_string())));
    found.into()
}

impl Dataset {
    /// Opens a path, a `file://` uri, or a brace or glob pattern.
    pub fn open(uri: impl AsRef<str>) -> Result<Self> {
        Dataset::open_all(&[uri.as_ref().to_owned()], &OpenOptions::default())
    }

    /// Opens one or several of them as one data set. Local paths are made absolute at once, so a later change of the
    /// working directory has no effect. Several folders, packs or tables are joined, with classes matched by name.
    pub fn open_all(uris: &[String], options: &OpenOptions) -> Result<Self> {
        let uris: Vec<String> = split_joined(uris)?.iter().map(|uri| absolute(uri)).collect();
        if let Some(pieces) = pieces(&uris)? {
            let open = |uri: &String| Dataset::open_all(std::slice::from_ref(uri), options);
            return Dataset::join(&pieces.iter().map(open).collect::<Result<Vec<_>>>()?);
        }
        let options = &options.rooted();
        let uri = redacted(&uris.join(", ")).into_owned();
        let open = || {
            let target = resolve(&uris, &options.storage_of(&uris))?;
            open_format(&target, options, &uri).map(|formats| (target, formats))
        };
        let (target, (format, stored)) = match open() {
            // Remote data may have been damaged in transit, so they are read once more.
            Err(error) if error.cause() == Some(DataCause::Content) && uri.contains("://") => open()?,
            opened => opened?,
        };
        let spec = DatasetSpec::Open {
            uris,
            format: stored.name().to_owned(),
            fields: options.fields.clone(),
            reading: options.reading.clone(),
            storage: options.storage.clone(),
            fingerprint: stored.fingerprint().to_hex(),
        };
        let problems = problems(&*format, &target);
        Ok(Dataset { format, uri: uri.into(), spec: Some(Arc::new(spec)), copy: None, problems })
    }

    /// Opens samples made by a program. Relative paths in them start at the options' root, or at the working directory.
    pub fn open_rows(rows: Rows, options: &OpenOptions) -> Result<Self> {
        let mut options = options.rooted();
        options.reading.root.get_or_insert_with(|| absolute("."));
        let reading = ReadingOptions { storage: options.storage.clone(), ..options.reading.clone() };
        let stored = format::open_rows(&rows, &reading)?;
        let format = named(stored, &options, "rows")?;
        let OpenOptions { fields, reading, storage, .. } = options;
        let spec = DatasetSpec::Rows { rows, fields, reading, storage };
        let problems = format.problems().into();
        Ok(Dataset { format, uri: "rows".into(), spec: Some(Arc::new(spec)), copy: None, problems })
    }

    /// Opens data in a custom source, for example in memory. It cannot be described for other processes.
    pub fn open_target(target: &Target, options: &OpenOptions) -> Result<Self> {
        let (format, _) = open_format(target, options, target.uri())?;
        let problems = problems(&*format, target);
        Ok(Dataset { problems, ..Dataset::from_format(format, target.uri()) })
    }

    /// Creates a data set from a custom format. It cannot be described for other processes.
    pub fn from_format(format: Arc<dyn Format>, uri: impl Into<String>) -> Self {
        let problems = format.problems().into();
        Dataset { format, uri: uri.into().into(), spec: None, copy: None, problems }
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.format.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.format.is_empty()
    }

    /// Fields under their final names, and class names.
    pub fn schema(&self) -> &Schema {
        self.format.schema()
    }

    /// Class names by label, if the source has them.
    pub fn classes(&self) -> Option<&[String]> {
        self.schema().classes.as_deref()
    }

    /// Name of the format.
    pub fn format_name(&self) -> &'static str {
        self.format.name()
    }

    /// The address as the user gave it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Changes when the data or the selection changes.
    pub fn fingerprint(&self) -> Fingerprint {
        self.format.fingerprint()
    }

    /// Data that were found but are not part of the data set, one error each.
    pub fn problems(&self) -> &[Error] {
        &self.problems
    }

    /// The problems that a user should see at once: data that are left out.
    pub fn warnings(&self) -> &[Error] {
        self.format.warnings()
    }

    /// The samples as the loader and the pack writer read them.
    pub fn format(&self) -> &Arc<dyn Format> {
        &self.format
    }

    /// Reads the wanted fields of a sample, by position in [`schema`](Self::schema), into `into`.
    pub fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.with_room(sample, || format::read(&*self.format, sample, fields, into))
    }

    /// Runs `read`; a failed allocation of sample memory is its error.
    fn with_room<T>(&self, sample: u64, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let read = catch_unwind(AssertUnwindSafe(read));
        read.unwrap_or_else(|panic| match panic.downcast::<NoRoom>() {
            Ok(room) => {
                let place = self.format.locate(sample).with_sample(sample);
                Err(Error::out_of_memory(room.bytes, format!("reading {place}")))
            }
            Err(panic) => resume_unwind(panic),
        })
    }

    /// Fills `into` with one field's bytes, in place; see [`Format::read_bytes`].
    pub(crate) fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        format::read_bytes(&*self.format, sample, field, into)
    }

    /// The table of pieces of an image; see [`Index::piece_table`](format::Index::piece_table).
    pub(crate) fn piece_table(&self, sample: u64, field: usize, into: &mut Vec<u8>) -> Result<Option<u64>> {
        format::piece_table(&*self.format, sample, field, into)
    }

    /// Reserves `length` bytes for an image and reads the pieces of these runs, or all of it. Returns the bytes' place, and how
    /// many were read.
    pub(crate) fn read_pieces(
        &self,
        sample: u64,
        field: usize,
        length: usize,
        pieces: Option<(PieceTable<'_>, &[Range<usize>])>,
        into: &mut SampleBuffer,
    ) -> Result<(Range<usize>, u64)> {
        self.with_room(sample, || {
            let (place, room) = into.reserve(length);
            // What is not read is never looked at. Tests would notice if it were.
            #[cfg(debug_assertions)]
            room.fill(0xA5);
            let read = match pieces {
                Some((table, runs)) => format::read_pieces(&*self.format, sample, field, &table, runs, room)?,
                None => self.read_bytes(sample, field, room).map(|()| length as u64)?,
            };
            Ok((place, read))
        })
    }

    /// Reads one whole sample, owned.
    pub fn get(&self, sample: u64) -> Result<Sample> {
        let mut buffer = SampleBuffer::new();
        let all = FieldSet::all(self.schema().fields.len());
        self.read(sample, &all, &mut buffer).map_err(|e| e.seen_as(sample))?;
        Sample::from_buffer(self.schema(), &buffer, || self.format.locate(sample).seen_as(sample))
    }

    /// Reads one field of a sample, by position in [`schema`](Self::schema), owned.
    pub fn get_field(&self, sample: u64, field: usize) -> Result<OwnedValue> {
        let mut buffer = SampleBuffer::new();
        let count = self.schema().fields.len();
        self.read(sample, &FieldSet::only(count, [field]), &mut buffer).map_err(|e| e.seen_as(sample))?;
        let place = || self.format.locate(sample).seen_as(sample);
        let mut sample = Sample::from_buffer(self.schema(), &buffer, place)?;
        Ok(sample.fields.swap_remove(field).1)
    }

    /// The store for seek indexes of this data set's images. Its entries are found by the images' bytes; one store per
    /// place only keeps stores small.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        let place = self.spec().and_then(DatasetSpec::place);
        let key = place.unwrap_or_else(|| self.fingerprint().to_hex());
        Checkpoints::open(self.spec().and_then(DatasetSpec::index_dir), &key)
    }

    /// Selects these samples, in this order.
    pub fn select(&self, indices: &[u64]) -> Result<Self> {
        let format = Arc::new(Selected::new(self.format.clone(), indices.into())?);
        let spec = self.spec.as_ref().map(|of| {
            Arc::new(DatasetSpec::Select { of: Box::new((**of).clone()), indices: indices.to_vec() })
        });
        Ok(Dataset { format, spec, ..self.clone() })
    }

    /// Windows over the arrays of one field, by position in [`schema`](Self::schema), as samples; and the number of
    /// elements in all arrays. It cannot be described for other processes.
    pub(crate) fn windows(&self, field: usize, windows: Windows) -> Result<(Self, u64)> {
        let cut = Windowed::new(self.format.clone(), field, windows)?;
        let elements = cut.elements();
        Ok((Dataset { format: Arc::new(cut), spec: None, ..self.clone() }, elements))
    }

    /// Description for opening the data set again elsewhere; `None` with a custom format or source.
    pub fn spec(&self) -> Option<&DatasetSpec> {
        self.spec.as_deref()
    }
}

fn check_field_count(uri: &str, schema: &Schema) -> Result<()> {
    let count = schema.fields.len();
    if count <= MAX_FIELDS {
        return Ok(());
    }
    Err(Error::data(Location::new(uri), format!("{count} fields; at most {MAX_FIELDS} are supported")))
}

/// A pickle can run any code when it is read, so it is only read if the user allows it.
fn refuse_pickles(uri: &str, schema: &Schema, reading: &ReadingOptions) -> Result<()> {
    let pickled: Vec<&str> = schema.fields.iter().filter(|f| f.pickled).map(|f| f.name.as_str()).collect();
    if pickled.is_empty() || reading.allow_pickle {
        return Ok(());
    }
    let reason =
        format!("pickled and therefore refused: {}; reading a pickle can run any code", pickled.join(", "));
    let hint =
        "leave them out with fields={...}, or use allow_pickle=True if you trust whoever wrote the data";
    Err(Error::data(Location::new(uri), reason).with_hint(hint))
}

fn with_usual_names(behind: Arc<dyn Format>) -> Arc<dyn Format> {
    let fields = &behind.schema().fields;
    let mut schema = behind.schema().clone();
    rename_only(&mut schema.fields, fields, Role::Image);
    rename_only(&mut schema.fields, fields, Role::Label);
    if schema == *behind.schema() {
        return behind;
    }
    let candidates = (0..fields.len()).map(|n| vec![n]).collect();
    Arc::new(Renamed::new(behind, schema, candidates))
}

/// Gives the only field with this role its usual name, unless another field has that name.
fn rename_only(names: &mut [FieldSpec], fields: &[FieldSpec], role: Role) {
    let name = role.usual_name();
    let mut fitting = fields.iter().enumerate().filter(|(_, f)| role.fits(f)).map(|(n, _)| n);
    if let (Some(only), None) = (fitting.next(), fitting.next())
        && fields.iter().all(|f| f.name != name)
    {
        name.clone_into(&mut names[only].name);
    }
}

fn pick(behind: Arc<dyn Format>, wanted: &BTreeMap<String, String>, uri: &str) -> Result<Arc<dyn Format>> {
    let mut picked: Vec<(Vec<usize>, FieldSpec)> = Vec::new();
    for (name, sources) in wanted {
        let candidates = candidates(behind.schema(), sources, uri)?;
        let first = &behind.schema().fields[candidates[0]];
        let other = candidates.iter().map(|c| &behind.schema().fields[*c]).find(|f| f.kind != first.kind);
        if let Some(other) = other {
            let reason = format!(
                "'{sources}' mixes kinds: '{}' is {:?}, '{}' is {:?}",
                first.name, first.kind, other.name, other.kind
            );
            return Err(Error::option("fields", reason));
        }
        let optional = candidates.iter().all(|c| behind.schema().fields[*c].optional);
        let field = FieldSpec { name: name.clone(), optional, ..first.clone() };
        picked.push((candidates, field));
    }
    if picked.is_empty() {
        return Err(Error::option("fields", "picks no field at all"));
    }
    // A map has no order, so the fields are put into the order of the source.
    picked.sort_by_key(|(candidates, _)| candidates[0]);
    let (candidates, fields) = picked.into_iter().unzip();
    let classes = behind.schema().classes.clone();
    Ok(Arc::new(Renamed::new(behind, Schema { fields, classes }, candidates)))
}

/// Positions of the fields listed in `sources` that exist.
fn candidates(schema: &Schema, sources: &str, uri: &str) -> Result<Vec<usize>> {
    let found: Vec<usize> = sources.split(';').filter_map(|name| schema.position(name.trim())).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known = schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    Err(Error::option("fields", format!("{uri} has no field '{sources}'; it has {known}")))
}
