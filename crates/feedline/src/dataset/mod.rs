//! [`Dataset`]: what `open` gives. A format under the names users expect, cheap to clone, describable so that another
//! process can open the same.

mod copy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use copy::CopyStatus;

use crate::encode::StoredImage;
use crate::error::{Error, Location, Result};
use crate::format::{self, Concatenated, Format, ReadingOptions, Renamed, Selected};
use crate::owned::Sample;
use crate::sample::{FieldSet, FieldSpec, Fingerprint, Kind, MAX_FIELDS, SampleBuffer, Schema};
use crate::source::{Storage, Target, resolve, split_joined};

/// How to open a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// `"auto"`, or a format's name.
    pub format: String,
    /// New name → the field behind it, or several separated by `;` of which a sample has one. With it, the data set
    /// has these fields and no others; without it, the naming rules of [`Dataset`] apply.
    pub fields: Option<BTreeMap<String, String>>,
    /// What only some formats ask.
    pub reading: ReadingOptions,
    /// How to reach data that are not on this machine.
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

/// A data set: samples by number, fields by name. Cheap to clone; safe to share between threads.
///
/// Unless told otherwise, exactly one image field is called `image`, and exactly one field that holds a class number
/// (an integer field called `label`, `cls`, `class`, ...) is called `label`; all others keep their names.
///
/// The fingerprint is that of the data behind and of the selection; renaming does not change it.
#[derive(Debug, Clone)]
pub struct Dataset {
    format: Arc<dyn Format>,
    uri: Arc<str>,
    spec: Option<Arc<DatasetSpec>>,
    copy: Option<Arc<copy::Job>>,
}

/// What it takes to open a data set again, in this process or another. Plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatasetSpec {
    /// Something on disk.
    Open {
        /// Paths and patterns, absolute.
        uris: Vec<String>,
        /// The format that was found.
        format: String,
        /// The fields the user asked for.
        fields: Option<BTreeMap<String, String>>,
        /// What only some formats ask.
        #[serde(default)]
        reading: ReadingOptions,
        /// How to reach the data.
        #[serde(default)]
        storage: Storage,
        /// What the data's fingerprint was.
        fingerprint: String,
    },
    /// Some samples of another.
    Select {
        /// Of which.
        of: Box<DatasetSpec>,
        /// Which.
        indices: Vec<u64>,
    },
    /// Several in a row.
    Concat {
        /// Which.
        pieces: Vec<DatasetSpec>,
    },
    /// Another, packed locally while it is read.
    Cached {
        /// Which.
        of: Box<DatasetSpec>,
        /// Below which folder the pack lies.
        folder: PathBuf,
        /// What the pack stores of images.
        image: StoredImage,
    },
}

impl DatasetSpec {
    /// Opens what this describes; an error if the data are no longer the same.
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
                        .with_hint("open the data set anew; saved states of the old one do not fit it"));
                }
                Ok(dataset)
            }
            DatasetSpec::Select { of, indices } => of.open()?.select(indices),
            DatasetSpec::Concat { pieces } => {
                Dataset::concat(&pieces.iter().map(DatasetSpec::open).collect::<Result<Vec<_>>>()?)
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

/// The format with the fields that are wanted, under their usual names; and as it is stored.
fn open_format(
    target: &Target,
    options: &OpenOptions,
    uri: &str,
) -> Result<(Arc<dyn Format>, Arc<dyn Format>)> {
    let stored = format::open(target, &options.format, &options.reading)?;
    check_field_count(uri, stored.schema())?;
    let format = match &options.fields {
        Some(fields) => pick(stored.clone(), fields, uri)?,
        None => with_usual_names(stored.clone()),
    };
    refuse_pickles(uri, format.schema(), &options.reading)?;
    Ok((format, stored))
}

impl Dataset {
    /// Opens a path, a `file://` uri, or a brace or glob pattern.
    pub fn open(uri: impl AsRef<str>) -> Result<Self> {
        Dataset::open_all(&[uri.as_ref().to_owned()], &OpenOptions::default())
    }

    /// Opens one or several of them as one data set.
    pub fn open_all(uris: &[String], options: &OpenOptions) -> Result<Self> {
        let uris = split_joined(uris)?;
        let target = resolve(&uris, &options.storage)?;
        let uri = uris.join(", ");
        let (format, stored) = open_format(&target, options, &uri)?;
        let spec = DatasetSpec::Open {
            uris: uris.iter().map(|u| absolute(u)).collect(),
            format: stored.name().to_owned(),
            fields: options.fields.clone(),
            reading: options.reading.clone(),
            storage: options.storage.clone(),
            fingerprint: stored.fingerprint().to_hex(),
        };
        Ok(Dataset { format, uri: uri.into(), spec: Some(Arc::new(spec)), copy: None })
    }

    /// Opens what lies in a source of one's own (in memory, say). It cannot be described for other processes.
    pub fn open_target(target: &Target, options: &OpenOptions) -> Result<Self> {
        let (format, _) = open_format(target, options, target.uri())?;
        Ok(Dataset::from_format(format, target.uri()))
    }

    /// A data set over a format of one's own. It cannot be described for other processes.
    pub fn from_format(format: Arc<dyn Format>, uri: impl Into<String>) -> Self {
        Dataset { format, uri: uri.into().into(), spec: None, copy: None }
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.format.len()
    }

    /// Whether there are none.
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

    /// The name of the format.
    pub fn format_name(&self) -> &'static str {
        self.format.name()
    }

    /// As the user named it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Changes when the data or the selection change.
    pub fn fingerprint(&self) -> Fingerprint {
        self.format.fingerprint()
    }

    /// What was found but is not part of the data set, one error each.
    pub fn problems(&self) -> &[Error] {
        self.format.problems()
    }

    /// The samples as the loader and the pack writer read them.
    pub fn format(&self) -> &Arc<dyn Format> {
        &self.format
    }

    /// Reads the wanted fields of a sample, by position in [`schema`](Self::schema), into `into`.
    pub fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        self.format.read(sample, fields, into)
    }

    /// One whole sample, owned.
    pub fn get(&self, sample: u64) -> Result<Sample> {
        let mut buffer = SampleBuffer::new();
        self.read(sample, &FieldSet::all(self.schema().fields.len()), &mut buffer)?;
        Sample::from_buffer(self.schema(), &buffer, || self.format.locate(sample).with_sample(sample))
    }

    /// Only these samples, in this order.
    pub fn select(&self, indices: &[u64]) -> Result<Self> {
        let format = Arc::new(Selected::new(self.format.clone(), indices.into())?);
        let spec = self.spec.as_ref().map(|of| {
            Arc::new(DatasetSpec::Select { of: Box::new((**of).clone()), indices: indices.to_vec() })
        });
        Ok(Dataset { format, uri: self.uri.clone(), spec, copy: self.copy.clone() })
    }

    /// One after the other. The result has the fields that all of them have, in the order of the first.
    pub fn concat(pieces: &[Dataset]) -> Result<Self> {
        if pieces.is_empty() {
            return Err(Error::option("concat", "nothing to join: the list is empty"));
        }
        let schema = common_schema(pieces)?;
        let formats = pieces.iter().map(|p| reduce(&p.format, &schema)).collect();
        let uri = pieces.iter().map(Dataset::uri).collect::<Vec<_>>().join(", ");
        let specs: Option<Vec<_>> = pieces.iter().map(|p| p.spec.as_deref().cloned()).collect();
        let spec = specs.map(|pieces| Arc::new(DatasetSpec::Concat { pieces }));
        Ok(Dataset {
            format: Arc::new(Concatenated::new(formats, schema)),
            uri: uri.into(),
            spec,
            copy: None,
        })
    }

    /// What it takes to open this again elsewhere; `None` for data sets over a format of one's own.
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

/// A pickle is a program that runs when it is read; data from elsewhere do not get to run one unasked.
fn refuse_pickles(uri: &str, schema: &Schema, reading: &ReadingOptions) -> Result<()> {
    let pickled: Vec<&str> = schema.fields.iter().filter(|f| f.pickled).map(|f| f.name.as_str()).collect();
    if pickled.is_empty() || reading.allow_pickle {
        return Ok(());
    }
    let reason =
        format!("pickled and therefore refused: {}; reading a pickle can run any code", pickled.join(", "));
    let hint =
        "leave them out with fields={...}, or say allow_pickle=True if you trust whoever wrote the data";
    Err(Error::data(Location::new(uri), reason).with_hint(hint))
}

/// Local paths made absolute, so that a process with another working folder finds them.
fn absolute(uri: &str) -> String {
    if uri.contains("://") {
        return uri.to_owned();
    }
    std::path::absolute(Path::new(uri)).map_or_else(|_| uri.to_owned(), |p| p.display().to_string())
}

/// The names of integer fields that hold a class.
const CLASS_NAMES: [&str; 9] = [
    "label",
    "labels",
    "cls",
    "class",
    "class_id",
    "class_idx",
    "target",
    "category_id",
    "image/class/label",
];

fn with_usual_names(behind: Arc<dyn Format>) -> Arc<dyn Format> {
    let fields = &behind.schema().fields;
    let mut schema = behind.schema().clone();
    rename_only(&mut schema.fields, fields, "image", |f| f.kind == Kind::Image);
    rename_only(&mut schema.fields, fields, "label", |f| {
        f.kind == Kind::Int && CLASS_NAMES.contains(&f.name.as_str())
    });
    if schema == *behind.schema() {
        return behind;
    }
    let candidates = (0..fields.len()).map(|n| vec![n]).collect();
    Arc::new(Renamed::new(behind, schema, candidates))
}

/// Calls the only field that fits `name`, unless another has that name.
fn rename_only(names: &mut [FieldSpec], fields: &[FieldSpec], name: &str, fits: impl Fn(&FieldSpec) -> bool) {
    let mut fitting = fields.iter().enumerate().filter(|(_, f)| fits(f)).map(|(n, _)| n);
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
        let field = FieldSpec { name: name.clone(), kind: first.kind, optional, pickled: first.pickled };
        picked.push((candidates, field));
    }
    if picked.is_empty() {
        return Err(Error::option("fields", "picks no field at all"));
    }
    // A map has no order of its own; the source's does not depend on how the user typed it.
    picked.sort_by_key(|(candidates, _)| candidates[0]);
    let (candidates, fields) = picked.into_iter().unzip();
    let classes = behind.schema().classes.clone();
    Ok(Arc::new(Renamed::new(behind, Schema { fields, classes }, candidates)))
}

/// The fields that `sources` names, those that exist.
fn candidates(schema: &Schema, sources: &str, uri: &str) -> Result<Vec<usize>> {
    let found: Vec<usize> = sources.split(';').filter_map(|name| schema.position(name.trim())).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known = schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    Err(Error::option("fields", format!("{uri} has no field '{sources}'; it has {known}")))
}

fn common_schema(pieces: &[Dataset]) -> Result<Schema> {
    let first = pieces[0].schema();
    let mut schema = Schema { fields: Vec::new(), classes: first.classes.clone() };
    'fields: for field in &first.fields {
        let mut common = field.clone();
        for piece in &pieces[1..] {
            let Some(position) = piece.schema().position(&field.name) else { continue 'fields };
            let other = &piece.schema().fields[position];
            if other.kind != field.kind {
                let reason =
                    format!("'{}' is {:?} in one and {:?} in another", field.name, field.kind, other.kind);
                return Err(Error::option("concat", reason));
            }
            common.optional |= other.optional;
        }
        schema.fields.push(common);
    }
    if schema.fields.is_empty() {
        return Err(Error::option("concat", "the data sets have no field in common; rename with fields="));
    }
    for piece in &pieces[1..] {
        match (&schema.classes, &piece.schema().classes) {
            (Some(mine), Some(other)) if mine != other => {
                let reason =
                    "the data sets number their classes differently: the same label would mean two things";
                return Err(Error::option("concat", reason));
            }
            (None, Some(other)) => schema.classes = Some(other.clone()),
            _ => {}
        }
    }
    Ok(schema)
}

/// `format` with exactly the fields of `schema`, in its order.
fn reduce(format: &Arc<dyn Format>, schema: &Schema) -> Arc<dyn Format> {
    let position = |f: &FieldSpec| format.schema().position(&f.name).expect("the field is common to all");
    let candidates: Vec<Vec<usize>> = schema.fields.iter().map(|f| vec![position(f)]).collect();
    let same = candidates.len() == format.schema().fields.len()
        && candidates.iter().enumerate().all(|(n, c)| c[..] == [n]);
    if same {
        return format.clone();
    }
    Arc::new(Renamed::new(format.clone(), schema.clone(), candidates))
}
