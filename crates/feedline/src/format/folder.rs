//! A folder of image files. First-level sub-folders are classes, as for torchvision's `ImageFolder`: sorted by name,
//! numbered from 0, files in the order of its `make_dataset`. Without images in sub-folders it is a flat set without
//! labels.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Format, Probe, ReadingOptions};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, SampleBuffer, Schema, Value};
use crate::source::{Entry, Seen, Source, Target, to_usize};

/// How to recognise and open an image folder.
pub(super) const PROBE: Probe = Probe { name: "folder", recognises, open };

/// torchvision's `IMG_EXTENSIONS`, and two more that are images beyond doubt.
const EXTENSIONS: [&str; 11] =
    [".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".avif", ".gif"];
/// More foreign files than this are counted, not named one by one.
const MAX_NAMED: usize = 1000;

const IMAGE: usize = 0;

/// Whether the name says image; capitals do not matter.
pub(super) fn is_image_name(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    EXTENSIONS.iter().any(|extension| {
        let start = base.len().wrapping_sub(extension.len());
        base.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(extension))
    })
}

fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Folder(source) = target else { return Ok(None) };
    let found = source.children("")?.iter().any(|name| name.ends_with('/') || is_image_name(name));
    Ok(found.then(|| "images or folders of them".to_owned()))
}

fn open(target: &Target, _: &ReadingOptions) -> Result<Arc<dyn Format>> {
    match target {
        Target::Folder(source) => Ok(Arc::new(Folder::open(source.clone())?)),
        Target::Objects(source, names) => {
            let named = names.first().map_or("nothing", String::as_str);
            let place = Location::new(source.uri()).with_shard(named);
            Err(Error::data(place, "an image folder was asked for, but this is a file"))
        }
    }
}

/// An open image folder. All names lie in one string: a million files cost about 60 bytes each.
#[derive(Debug)]
pub(crate) struct Folder {
    source: Arc<dyn Source>,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    names: String,
    files: Vec<File>,
    /// First sample of each class, and one past the last; empty for a flat set.
    class_starts: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct File {
    name_end: u64,
    size: u64,
    version: u64,
}

impl Folder {
    /// Lists the folder at the root of `source`.
    pub(crate) fn open(source: Arc<dyn Source>) -> Result<Self> {
        let listing = source.list("")?;
        let mut classes: Vec<String> =
            source.children("")?.into_iter().filter_map(|n| n.strip_suffix('/').map(str::to_owned)).collect();
        classes.sort();
        let mut problems = listing.problems;
        let (mut images, others): (Vec<Entry>, Vec<Entry>) =
            listing.entries.into_iter().partition(|e| is_image_name(&e.name));
        let nested = images.iter().any(|e| e.name.contains('/'));
        if nested {
            let (inside, loose) = images.into_iter().partition(|e| e.name.contains('/'));
            images = inside;
            note(&mut problems, &*source, &loose, "lies outside every class folder and is left out");
        } else {
            classes.clear();
        }
        note(&mut problems, &*source, &others, "is not an image by its name and is left out");
        if images.is_empty() {
            return Err(empty(&*source, &problems, others.len()));
        }
        images.sort_unstable_by(|a, b| order(&a.name).cmp(&order(&b.name)));
        let class_starts = starts(&classes, &images);
        note_empty_classes(&mut problems, &*source, &classes, &class_starts);
        Ok(Folder::index(source, classes, &images, class_starts, problems))
    }

    fn index(
        source: Arc<dyn Source>,
        classes: Vec<String>,
        images: &[Entry],
        class_starts: Vec<u64>,
        problems: Vec<Error>,
    ) -> Self {
        let mut names = String::with_capacity(images.iter().map(|e| e.name.len()).sum());
        let mut files = Vec::with_capacity(images.len());
        let mut hasher = blake3::Hasher::new();
        for entry in images {
            names.push_str(&entry.name);
            files.push(File { name_end: names.len() as u64, size: entry.size, version: entry.version });
            hasher.update(&(entry.name.len() as u64).to_le_bytes());
            hasher.update(entry.name.as_bytes());
            hasher.update(&entry.size.to_le_bytes());
            hasher.update(&entry.version.to_le_bytes());
        }
        let class_text = classes.join("\0");
        let fingerprint =
            Fingerprint::of([&b"folder"[..], class_text.as_bytes(), &hasher.finalize().as_bytes()[..]]);
        let mut fields = vec![FieldSpec::new("image", Kind::Image)];
        if !classes.is_empty() {
            fields.push(FieldSpec::new("label", Kind::Int));
        }
        fields.push(FieldSpec::new("path", Kind::Text));
        let classes = (!classes.is_empty()).then_some(classes);
        let schema = Schema { fields, classes };
        Folder { source, schema, fingerprint, problems, names, files, class_starts }
    }

    fn file(&self, sample: u64) -> Result<(&str, File)> {
        let at = usize::try_from(sample).ok().filter(|at| *at < self.files.len()).ok_or_else(|| {
            let place = Location::new(self.source.uri()).with_sample(sample);
            Error::data(place, format!("the folder has {} images", self.files.len()))
        })?;
        let start = if at == 0 { 0 } else { self.files[at - 1].name_end };
        let file = self.files[at];
        Ok((&self.names[start as usize..file.name_end as usize], file))
    }

    fn label(&self, sample: u64) -> i64 {
        self.class_starts.partition_point(|start| *start <= sample) as i64 - 1
    }

    fn label_field(&self) -> Option<usize> {
        (!self.class_starts.is_empty()).then_some(1)
    }

    fn path_field(&self) -> usize {
        self.schema.fields.len() - 1
    }
}

/// The sort key of a file: its class, its folder, its name; each compared by code points, as Python compares.
fn order(name: &str) -> (&str, &str, &str) {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    (folder.split('/').next().unwrap_or(""), folder, file)
}

/// First image of each class. Images are sorted by class, and every one has its class among `classes`.
fn starts(classes: &[String], images: &[Entry]) -> Vec<u64> {
    if classes.is_empty() {
        return Vec::new();
    }
    let start = |class: &String| images.partition_point(|e| order(&e.name).0 < class.as_str()) as u64;
    classes.iter().map(start).chain([images.len() as u64]).collect()
}

fn note(problems: &mut Vec<Error>, source: &dyn Source, files: &[Entry], reason: &str) {
    for entry in files.iter().take(MAX_NAMED) {
        problems.push(Error::data(Location::new(source.uri()).with_shard(&entry.name), reason));
    }
    if files.len() > MAX_NAMED {
        let more = format!("{} more files like these are left out", files.len() - MAX_NAMED);
        problems.push(Error::data(Location::new(source.uri()), more));
    }
}

fn note_empty_classes(problems: &mut Vec<Error>, source: &dyn Source, classes: &[String], starts: &[u64]) {
    for (class, bounds) in classes.iter().zip(starts.windows(2)) {
        if bounds[0] == bounds[1] {
            let place = Location::new(source.uri()).with_shard(class);
            problems.push(Error::data(place, "the class folder holds no image; its label stays unused"));
        }
    }
}

fn empty(source: &dyn Source, problems: &[Error], others: usize) -> Error {
    let mut reason = format!("no image found below this folder ({others} other files)");
    if let Some(problem) = problems.first() {
        reason = format!("{reason}; first problem: {problem}");
    }
    Error::data(Location::new(source.uri()), reason)
        .with_hint(format!("images end in one of {}", EXTENSIONS.join(" ")))
}

impl Format for Folder {
    fn name(&self) -> &'static str {
        "folder"
    }

    fn len(&self) -> u64 {
        self.files.len() as u64
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn problems(&self) -> &[Error] {
        &self.problems
    }

    fn read(&self, sample: u64, fields: &FieldSet, into: &mut SampleBuffer) -> Result<()> {
        into.reset(self.schema.fields.len());
        let (name, file) = self.file(sample)?;
        if fields.has(IMAGE) {
            let (range, room) = into.reserve(to_usize(file.size, self.source.uri(), name)?);
            self.source.read_unchanged(name, file.version, room)?;
            let end = range.end;
            into.set(IMAGE, Value::Image { bytes: range, index: end..end, meta: ImageMeta::UNKNOWN });
        }
        if let Some(field) = self.label_field().filter(|field| fields.has(*field)) {
            into.set(field, Value::Int(self.label(sample)));
        }
        if fields.has(self.path_field()) {
            let range = into.append(name.as_bytes());
            into.set(self.path_field(), Value::Bytes(range));
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(self.source.uri()).with_sample(sample);
        match self.file(sample) {
            Ok((name, _)) => place.with_shard(name),
            Err(_) => place,
        }
    }

    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let (name, file) = self.file(sample).ok()?;
        match field {
            IMAGE => Some(file.size),
            field if field == self.path_field() => Some(name.len() as u64),
            _ => None,
        }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let (name, file) = self.file(sample)?;
        if field == IMAGE {
            return self.source.read_unchanged(name, file.version, into);
        }
        into.copy_from_slice(name.as_bytes());
        Ok(())
    }

    fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    fn object_count(&self) -> u32 {
        u32::try_from(self.files.len()).unwrap_or(u32::MAX)
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        let (name, _) = self.file(u64::from(number)).ok()?;
        Some((&self.source, name.into()))
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        let (_, file) = self.file(u64::from(number)).ok()?;
        Some(Seen { size: file.size, version: file.version })
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if let (true, Ok(object), Ok((_, file))) =
            (fields.has(IMAGE), u32::try_from(sample), self.file(sample))
        {
            out.push(Extent { object, range: 0..file.size });
        }
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        (self.label_field() == Some(field) && sample < self.len()).then(|| self.label(sample))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::format::conformance;
    use crate::source::{LocalSource, MemorySource};

    fn folder(names: &[&str]) -> Result<Folder> {
        Folder::open(Arc::new(MemorySource::new(names.iter().map(|n| (*n, n.as_bytes().to_vec())))))
    }

    fn paths(folder: &Folder) -> Vec<&str> {
        (0..folder.len()).map(|i| folder.file(i).unwrap().0).collect()
    }

    #[test]
    fn classes_are_first_level_folders() {
        let folder = folder(&["b/x/2.png", "a/1.JPG", "b/1.webp", "top.jpg", "b/readme.txt"]).unwrap();
        assert_eq!(folder.schema.classes.as_deref().unwrap(), ["a", "b"]);
        assert_eq!(paths(&folder), ["a/1.JPG", "b/1.webp", "b/x/2.png"]);
        assert_eq!((0..3).map(|i| folder.label(i)).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(folder.problems.len(), 2);
    }

    #[test]
    fn without_sub_folders_it_is_flat() {
        let folder = folder(&["2.jpg", "10.jpg", "notes"]).unwrap();
        assert_eq!(paths(&folder), ["10.jpg", "2.jpg"]);
        assert!(folder.schema.position("label").is_none() && folder.schema.classes.is_none());
    }

    #[test]
    fn an_empty_folder_is_an_error_that_helps() {
        let message = folder(&["a/readme.txt"]).unwrap_err().to_string();
        assert!(message.contains("no image") && message.contains(".jpg"), "{message}");
    }

    struct ImageFolder;

    impl conformance::Subject for ImageFolder {
        fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
            fs::create_dir_all(folder.join("class")).unwrap();
            for (name, bytes) in images {
                fs::write(folder.join(format!("class/{name}.jpg")), bytes).unwrap();
            }
        }

        fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
            open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
        }

        fn protection(&self) -> conformance::Protection {
            conformance::Protection::None
        }
    }

    #[test]
    fn conforms() {
        conformance::check(&ImageFolder);
    }

    /// `testdata/folder/make.py` made the list with torchvision.
    #[test]
    fn order_and_labels_are_torchvisions() {
        #[derive(serde::Deserialize)]
        struct Golden {
            files: Vec<String>,
            classes: Vec<String>,
            samples: Vec<(String, i64)>,
        }
        let text = include_str!("../../../../testdata/folder/torchvision.json");
        let golden: Golden = serde_json::from_str(text).unwrap();
        let root = tempfile::tempdir().unwrap();
        for name in &golden.files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        fs::create_dir(root.path().join("empty")).unwrap();
        std::os::unix::fs::symlink("../b/sub", root.path().join("a/linked")).unwrap();
        let folder = Folder::open(Arc::new(LocalSource::new(root.path()))).unwrap();
        assert_eq!(folder.schema.classes.as_ref().unwrap(), &golden.classes);
        let samples: Vec<(String, i64)> =
            (0..folder.len()).map(|i| (folder.file(i).unwrap().0.to_owned(), folder.label(i))).collect();
        assert_eq!(samples, golden.samples);
        let problems: Vec<String> = folder.problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|p| p.contains("empty") && p.contains("no image")), "{problems:?}");
        assert!(problems.iter().any(|p| p.contains("notes.txt")), "{problems:?}");
    }

    #[test]
    fn a_changed_file_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("1.jpg");
        fs::write(&path, b"one").unwrap();
        let folder = Folder::open(Arc::new(LocalSource::new(root.path()))).unwrap();
        fs::write(&path, b"longer").unwrap();
        let error = folder.read(0, &FieldSet::all(2), &mut SampleBuffer::new()).unwrap_err().to_string();
        assert!(error.contains("1.jpg") && error.contains("had 3 bytes, now has 6"), "{error}");
    }
}
