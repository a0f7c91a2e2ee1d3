//! A folder of image files. First-level sub-folders are classes, as in torchvision's `ImageFolder`: sorted by name,
//! numbered from 0, files in the order of its `make_dataset`. Without images in sub-folders it is a flat set without
//! labels.

mod index;
mod listing;

use std::borrow::Cow;
use std::sync::Arc;

use super::saved_index::SavedIndex;
use super::{Format, Probe, ReadingOptions, nifti, splits};
use crate::error::{Error, Location, Result};
use crate::sample::{Extent, FieldSet, FieldSpec, Fingerprint, ImageMeta, Kind, SampleBuffer, Schema, Value};
use crate::source::{Seen, Source, Target, to_usize};
use index::{File, Files};

/// How to detect and open an image folder.
pub(super) const PROBE: Probe = Probe { name: "folder", recognises, open };

/// torchvision's `IMG_EXTENSIONS`, and those of other images. HEIC is refused by name when it is decoded.
const EXTENSIONS: [&str; 20] = [
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".avif", ".gif", ".jp2",
    ".j2k", ".jxl", ".qoi", ".pbm", ".pnm", ".pam", ".pfm", ".heic",
];
/// Kind and version of saved indexes.
const SAVED: &str = "folder-2";
/// Smaller sets are listed faster than an index is found, checked and mapped.
const WORTH_SAVING: u64 = 2000;
/// Maximum number of folders to search when detecting images.
const MAX_LISTED: usize = 32;

const IMAGE: usize = 0;

/// What the files of a folder are. A folder with images is one of images, whatever else it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Image,
    Audio,
    Video,
    Volume,
}

impl Content {
    const ALL: [Content; 4] = [Content::Image, Content::Audio, Content::Video, Content::Volume];

    fn extensions(self) -> &'static [&'static str] {
        match self {
            Content::Image => &EXTENSIONS,
            Content::Audio => &[".wav", ".flac", ".mp3", ".ogg", ".oga", ".m4a", ".aac"],
            Content::Video => &[".mp4", ".mkv", ".webm", ".mov", ".m4v"],
            Content::Volume => &[".nii", ".nii.gz"],
        }
    }

    /// Whether the name has one of its extensions, in any case.
    pub(super) fn has(self, name: &str) -> bool {
        has_extension(name, self.extensions())
    }

    /// Name and kind of the field.
    fn field(self) -> (&'static str, Kind) {
        match self {
            Content::Image => ("image", Kind::Image),
            Content::Audio => ("audio", Kind::Audio),
            Content::Video => ("video", Kind::Video),
            Content::Volume => ("volume", Kind::Array),
        }
    }
}

/// Whether the name has an image extension, in any case.
pub(super) fn is_image_name(name: &str) -> bool {
    Content::Image.has(name)
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    extensions.iter().any(|extension| {
        let start = base.len().wrapping_sub(extension.len());
        base.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(extension))
    })
}

/// Detects images, audio, videos or volumes here, or in one of the first folders below.
fn recognises(target: &Target) -> Result<Option<String>> {
    let Target::Folder(source) = target else { return Ok(None) };
    Ok(detect_content(&**source, "")?.map(|(_, seen)| seen))
}

/// What the files below a folder are, and what was seen of them.
fn detect_content(source: &dyn Source, root: &str) -> Result<Option<(Content, String)>> {
    let mut todo = std::collections::VecDeque::from([root.to_owned()]);
    let mut other = None;
    for _ in 0..MAX_LISTED {
        let Some(folder) = todo.pop_front() else { break };
        let mut names = match source.children(&folder) {
            Err(error) if folder == root => return Err(error),
            names => names.unwrap_or_default(),
        };
        names.sort_unstable();
        for content in Content::ALL {
            let count = names.iter().filter(|name| content.has(name)).count();
            let place = if folder.is_empty() { "here".to_owned() } else { format!("in {folder}/") };
            match content {
                _ if count == 0 => {}
                Content::Image => return Ok(Some((content, format!("{count} images {place}")))),
                content => {
                    _ = other.get_or_insert_with(|| {
                        (content, format!("{count} {} files {place}", content.field().0))
                    });
                }
            }
        }
        let above = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        todo.extend(names.iter().filter_map(|name| Some(format!("{above}{}", name.strip_suffix('/')?))));
    }
    Ok(other)
}

fn open(target: &Target, options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    match target {
        Target::Folder(source) => Ok(Arc::new(Folder::open(source.clone(), options)?)),
        Target::Objects(source, names) => {
            let named = names.first().map_or("nothing", String::as_str);
            let place = Location::new(source.uri()).with_shard(named);
            Err(Error::data(place, "an image folder was asked for, but this is a file"))
        }
    }
}

/// An open image folder. Its index is in memory once, or mapped: about 60 bytes per file.
#[derive(Debug)]
pub(crate) struct Folder {
    source: Arc<dyn Source>,
    schema: Schema,
    fingerprint: Fingerprint,
    problems: Vec<Error>,
    files: Files,
    /// The saved index.
    saved: SavedIndex,
    /// The format's name: an archive that is read like a folder has its own.
    name: &'static str,
    content: Content,
}

impl Folder {
    /// An archive's members, read like the files of a folder.
    pub(super) fn in_archive(
        source: Arc<dyn Source>,
        options: &ReadingOptions,
        name: &'static str,
    ) -> Result<Self> {
        Ok(Folder { name, ..Folder::open(source, options)? })
    }

    /// Lists the folder at the root of `source`, or the one in it that `split` names.
    pub(crate) fn open(source: Arc<dyn Source>, options: &ReadingOptions) -> Result<Self> {
        let root = options.split.as_deref().unwrap_or("").trim_matches('/');
        if !root.is_empty() && !source.children("")?.iter().any(|n| n.strip_suffix('/') == Some(root)) {
            let reason = format!("there is no folder '{root}' in {}", source.uri());
            return Err(Error::option("split", reason));
        }
        let content = detect_content(&*source, root)?.map_or(Content::Image, |(content, _)| content);
        let mut key = format!("{}\0{root}", source.uri());
        if content != Content::Image {
            key = format!("{key}\0{}", content.field().0);
        }
        let saved = SavedIndex::new(options, SAVED, &blake3::hash(key.as_bytes()));
        let listed = listing::list(&*source, root, content, saved.load().and_then(Files::parse))?;
        let listing::Listed { files, mut problems, unchanged } = listed;
        if files.len() == 0 {
            return Err(empty(&*source, &problems, &files));
        }
        // Without versions nothing could be skipped the next time.
        let useful = files.about().folders.iter().any(|folder| folder.version.changed != 0);
        if !unchanged && useful && files.len() >= WORTH_SAVING {
            saved.save(files.bytes());
        }
        note_splits(&mut problems, &*source, &files);
        Ok(Folder::new(source, files, saved, problems, content))
    }

    fn new(
        source: Arc<dyn Source>,
        files: Files,
        saved: SavedIndex,
        problems: Vec<Error>,
        content: Content,
    ) -> Self {
        let classes = &files.about().classes;
        let class_text = classes.join("\0");
        let pieces = [&b"folder"[..], class_text.as_bytes(), files.about().hash.as_bytes()];
        let fingerprint = Fingerprint::of(pieces);
        let (name, kind) = content.field();
        let mut fields = vec![FieldSpec::new(name, kind)];
        if !classes.is_empty() {
            fields.push(FieldSpec::new("label", Kind::Int));
        }
        fields.push(FieldSpec::new("path", Kind::Text));
        let schema = Schema { fields, classes: (!classes.is_empty()).then(|| classes.clone()) };
        Folder { source, schema, fingerprint, problems, files, saved, name: "folder", content }
    }

    fn file(&self, sample: u64) -> Result<File<'_>> {
        self.files.get(sample).ok_or_else(|| {
            let place = Location::new(self.source.uri()).with_sample(sample);
            Error::data(place, format!("the folder has {} images", self.files.len()))
        })
    }

    fn read_image(&self, file: File<'_>, into: &mut [u8]) -> Result<()> {
        let read = self.source.read_unchanged(file.name, file.version, into);
        if read.is_err() {
            // A file that was rewritten in place does not change its folder, so the next opening must list it again.
            self.saved.forget();
        }
        read.map_err(Error::of_own_file)
    }

    fn label(&self, sample: u64) -> i64 {
        self.files.about().class_starts.partition_point(|start| *start <= sample) as i64 - 1
    }

    fn label_field(&self) -> Option<usize> {
        (!self.files.about().class_starts.is_empty()).then_some(1)
    }

    fn path_field(&self) -> usize {
        self.schema.fields.len() - 1
    }
}

/// Warns about folders called `train` and `test`, which are hardly classes.
fn note_splits(problems: &mut Vec<Error>, source: &dyn Source, files: &Files) {
    let classes = &files.about().classes;
    if !classes.is_empty() && classes.iter().all(|class| splits::is_well_known(class)) {
        let reason = format!("{} are taken as classes, as torchvision does", classes.join(", "));
        let hint = format!("if they are parts of the data, use split=\"{}\"", classes[0]);
        problems.push(Error::data(Location::new(source.uri()), reason).with_hint(hint));
    }
}

fn empty(source: &dyn Source, problems: &[Error], files: &Files) -> Error {
    let others: u64 = files.about().folders.iter().map(|folder| folder.others).sum();
    let mut reason = format!("no image found below this folder ({others} other files)");
    if let Some(problem) = problems.first() {
        reason = format!("{reason}; first problem: {problem}");
    }
    Error::data(Location::new(source.uri()), reason)
        .with_hint(format!("images end in one of {}", EXTENSIONS.join(" ")))
}

impl Format for Folder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn len(&self) -> u64 {
        self.files.len()
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
        let file = self.file(sample)?;
        if fields.has(IMAGE) {
            let (range, room) = into.reserve(to_usize(file.size, self.source.uri(), file.name)?);
            self.read_image(file, room)?;
            let end = range.end;
            let value = match self.content {
                Content::Image => Value::Image { bytes: range, index: end..end, meta: ImageMeta::UNKNOWN },
                Content::Audio | Content::Video => Value::Bytes(range),
                Content::Volume => {
                    nifti::parse(range, into).map_err(|reason| Error::data(self.locate(sample), reason))?
                }
            };
            into.set(IMAGE, value);
        }
        if let Some(field) = self.label_field().filter(|field| fields.has(*field)) {
            into.set(field, Value::Int(self.label(sample)));
        }
        if fields.has(self.path_field()) {
            let range = into.append(file.name.as_bytes());
            into.set(self.path_field(), Value::Bytes(range));
        }
        Ok(())
    }

    fn locate(&self, sample: u64) -> Location {
        let place = Location::new(self.source.uri()).with_sample(sample);
        match self.file(sample) {
            Ok(file) => place.with_shard(file.name),
            Err(_) => place,
        }
    }
}

impl crate::format::Index for Folder {
    fn byte_length(&self, sample: u64, field: usize) -> Option<u64> {
        let file = self.file(sample).ok()?;
        match field {
            IMAGE if self.content == Content::Volume => None,
            IMAGE => Some(file.size),
            field if field == self.path_field() => Some(file.name.len() as u64),
            _ => None,
        }
    }

    fn read_bytes(&self, sample: u64, field: usize, into: &mut [u8]) -> Result<()> {
        let file = self.file(sample)?;
        if field == IMAGE {
            return self.read_image(file, into);
        }
        into.copy_from_slice(file.name.as_bytes());
        Ok(())
    }

    fn stored_at(&self, sample: u64, field: usize) -> Result<Option<Extent>> {
        let size = self.file(sample)?.size;
        let here = field == IMAGE
            && self.content != Content::Volume
            && sample < u64::from(crate::format::Extents::object_count(self));
        Ok(here.then_some(Extent { object: sample as u32, range: 0..size }))
    }

    fn int_value(&self, sample: u64, field: usize) -> Option<i64> {
        (self.label_field() == Some(field) && sample < self.len()).then(|| self.label(sample))
    }
}

impl crate::format::Extents for Folder {
    fn is_remote(&self) -> bool {
        self.source.is_remote()
    }

    fn seen(&self, number: u32) -> Option<Seen> {
        let file = self.files.get(u64::from(number))?;
        Some(Seen { size: file.size, version: file.version })
    }

    /// Every file is an object with the sample's number.
    fn object_count(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(0)
    }

    fn object(&self, number: u32) -> Option<(&Arc<dyn Source>, Cow<'_, str>)> {
        Some((&self.source, self.files.get(u64::from(number))?.name.into()))
    }

    fn extents(&self, sample: u64, fields: &FieldSet, out: &mut Vec<Extent>) {
        if fields.has(IMAGE)
            && sample < u64::from(self.object_count())
            && let Ok(file) = self.file(sample)
        {
            out.push(Extent { object: sample as u32, range: 0..file.size });
        }
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
        let source = MemorySource::new(names.iter().map(|n| (*n, n.as_bytes().to_vec())));
        Folder::open(Arc::new(source), &ReadingOptions::default())
    }

    fn paths(folder: &Folder) -> Vec<&str> {
        (0..folder.len()).map(|i| folder.file(i).unwrap().name).collect()
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
    fn an_empty_folder_is_an_error_with_a_hint() {
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
        let text = include_str!("../../../../../testdata/folder/torchvision.json");
        let golden: Golden = serde_json::from_str(text).unwrap();
        let root = tempfile::tempdir().unwrap();
        for name in &golden.files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        fs::create_dir(root.path().join("empty")).unwrap();
        std::os::unix::fs::symlink("../b/sub", root.path().join("a/linked")).unwrap();
        let folder =
            Folder::open(Arc::new(LocalSource::new(root.path())), &ReadingOptions::default()).unwrap();
        assert_eq!(folder.schema.classes.as_ref().unwrap(), &golden.classes);
        let samples: Vec<(String, i64)> =
            (0..folder.len()).map(|i| (folder.file(i).unwrap().name.to_owned(), folder.label(i))).collect();
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
        let folder =
            Folder::open(Arc::new(LocalSource::new(root.path())), &ReadingOptions::default()).unwrap();
        fs::write(&path, b"longer").unwrap();
        let error = folder.read(0, &FieldSet::all(2), &mut SampleBuffer::new()).unwrap_err().to_string();
        assert!(error.contains("1.jpg") && error.contains("had 3 bytes, now has 6"), "{error}");
    }

    fn write_old(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        set_old(path, 100);
    }

    fn set_old(path: &Path, age: u64) {
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    /// 3 classes of 1000 images, all with old modification times.
    fn many(root: &Path) {
        for class in ["a", "b", "c"] {
            fs::create_dir_all(root.join(class)).unwrap();
            for n in 0..1000 {
                write_old(&root.join(format!("{class}/{n:04}.jpg")), class.as_bytes());
            }
            set_old(&root.join(class), 100);
        }
        set_old(root, 100);
    }

    #[test]
    fn only_changed_folders_are_listed_again() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("data");
        many(&root);
        let options =
            ReadingOptions { index_dir: Some(place.path().join("index")), ..ReadingOptions::default() };
        let open = || Folder::open(Arc::new(LocalSource::new(&root)), &options);
        let first = open().unwrap();
        assert_eq!(fs::read_dir(place.path().join("index")).unwrap().count(), 1);
        // A file added without changing its folder shows that the folder is not listed again.
        write_old(&root.join("b/new.jpg"), b"b");
        set_old(&root.join("b"), 100);
        let time = first.files.about().folders.iter().find(|f| f.name == "b").unwrap().version.changed;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(time);
        fs::File::open(root.join("b")).unwrap().set_modified(time).unwrap();
        let second = open().unwrap();
        assert_eq!((second.len(), second.fingerprint()), (3000, first.fingerprint()));
        // Another folder does change: only that one is listed, and labels move on.
        write_old(&root.join("a/0000a.jpg"), b"a");
        fs::remove_file(root.join("a/0001.jpg")).unwrap();
        fs::remove_file(root.join("a/0002.jpg")).unwrap();
        let third = open().unwrap();
        assert_eq!((third.len(), third.label(998), third.label(999)), (2999, 0, 1));
        assert_eq!(third.file(1).unwrap().name, "a/0000a.jpg");
        assert_ne!(third.fingerprint(), first.fingerprint());
        // A listing without a saved index agrees, once the hidden file is removed.
        fs::remove_file(root.join("b/new.jpg")).unwrap();
        let unsaved = Folder::open(Arc::new(LocalSource::new(&root)), &ReadingOptions::default()).unwrap();
        assert_eq!((unsaved.fingerprint(), paths(&unsaved)), (third.fingerprint(), paths(&third)));
        assert_eq!(open().unwrap().fingerprint(), third.fingerprint());
        fs::remove_dir_all(root.join("c")).unwrap();
        assert_eq!(open().unwrap().schema.classes.as_deref().unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_file_rewritten_in_place_is_an_error_once_and_then_new() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("data");
        many(&root);
        let options =
            ReadingOptions { index_dir: Some(place.path().join("index")), ..ReadingOptions::default() };
        let open = || Folder::open(Arc::new(LocalSource::new(&root)), &options).unwrap();
        let first = open();
        fs::write(root.join("b/0007.jpg"), b"other").unwrap();
        let second = open();
        assert_eq!(second.fingerprint(), first.fingerprint());
        let mut buffer = SampleBuffer::new();
        let message = second.read(1007, &FieldSet::all(3), &mut buffer).unwrap_err().to_string();
        assert!(message.contains("0007.jpg") && message.contains("changed"), "{message}");
        let third = open();
        assert_ne!(third.fingerprint(), first.fingerprint());
        third.read(1007, &FieldSet::all(3), &mut buffer).unwrap();
    }

    #[test]
    fn a_split_is_a_folder_with_classes_of_its_own() {
        let names = ["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/readme"];
        let source: Arc<dyn Source> = Arc::new(MemorySource::new(names.map(|n| (n, vec![0]))));
        let open = |split: Option<&str>| {
            let options = ReadingOptions { split: split.map(str::to_owned), ..ReadingOptions::default() };
            Folder::open(source.clone(), &options)
        };
        let whole = open(None).unwrap();
        assert_eq!(whole.schema.classes.as_deref().unwrap(), ["train", "val"]);
        assert!(
            whole.problems.iter().any(|p| p.to_string().contains("split=\"train\"")),
            "{:?}",
            whole.problems
        );
        let train = open(Some("train")).unwrap();
        assert_eq!((paths(&train), train.label(1)), (vec!["train/a/1.jpg", "train/b/2.jpg"], 1));
        assert_eq!(train.schema.classes.as_deref().unwrap(), ["a", "b"]);
        assert!(open(Some("test")).unwrap_err().to_string().contains("'test'"));
    }

    #[test]
    fn links_loops_and_unusual_names() {
        use std::os::unix::ffi::OsStrExt;
        let root = tempfile::tempdir().unwrap();
        let away = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/deep")).unwrap();
        fs::write(root.path().join("a/1.jpg"), b"1").unwrap();
        fs::write(away.path().join("x.jpg"), b"x").unwrap();
        let link = |to: &Path, from: &str| std::os::unix::fs::symlink(to, root.path().join(from)).unwrap();
        link(away.path(), "linked");
        link(&away.path().join("x.jpg"), "a/2.jpg");
        link(Path::new("nowhere"), "a/3.jpg");
        link(root.path(), "a/deep/loop");
        fs::write(root.path().join("a").join(std::ffi::OsStr::from_bytes(b"\xff.jpg")), b"?").unwrap();
        let folder =
            Folder::open(Arc::new(LocalSource::new(root.path())), &ReadingOptions::default()).unwrap();
        assert_eq!(paths(&folder), ["a/1.jpg", "a/2.jpg", "linked/x.jpg"]);
        let problems: Vec<String> = folder.problems.iter().map(ToString::to_string).collect();
        for part in ["3.jpg", "leads back", "not UTF-8"] {
            assert!(problems.iter().any(|p| p.contains(part)), "{part}: {problems:?}");
        }
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
