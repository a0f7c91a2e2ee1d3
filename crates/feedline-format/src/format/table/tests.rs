use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::*;
use crate::format::conformance;
use crate::source::LocalSource;

struct Csv;

impl conformance::Subject for Csv {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let mut text = "file,label\n".to_owned();
        fs::create_dir_all(folder.join("in")).unwrap();
        for (name, bytes) in images {
            fs::write(folder.join(format!("in/{name}.jpg")), bytes).unwrap();
            writeln!(text, "\"in/{name}.jpg\",cat").unwrap();
        }
        fs::write(folder.join("train.csv"), text).unwrap();
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let source: Arc<dyn Source> = Arc::new(LocalSource::new(folder));
        open(&Target::Objects(source, vec!["train.csv".to_owned()]), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::None
    }
}

#[test]
fn tables_conform() {
    conformance::check(&Csv);
}

struct List;

impl conformance::Subject for List {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        for (name, bytes) in images {
            fs::write(folder.join(format!("{name}.jpg")), bytes).unwrap();
        }
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        open_files(&Target::Objects(Arc::new(LocalSource::new(folder)), names), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::None
    }
}

#[test]
fn lists_of_files_conform() {
    conformance::check(&List);
}

/// A folder with two images and a table.
fn place(name: &str, table: &str) -> (tempfile::TempDir, Target) {
    let folder = tempfile::tempdir().unwrap();
    for image in ["a.jpg", "b.png"] {
        fs::write(folder.path().join(image), image).unwrap();
    }
    fs::write(folder.path().join(name), table).unwrap();
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(folder.path()));
    (folder, Target::Objects(source, vec![name.to_owned()]))
}

fn opened(name: &str, table: &str) -> Result<Arc<dyn Format>> {
    let (_folder, target) = place(name, table);
    open(&target, &ReadingOptions::default())
}

fn names(format: &dyn Format) -> Vec<(&str, Kind)> {
    format.schema().fields.iter().map(|field| (field.name.as_str(), field.kind)).collect()
}

#[test]
fn paths_labels_and_other_columns_are_read() {
    let format = opened("t.csv", "path,label,score\na.jpg,dog,1.5\nb.png,cat,2\n").unwrap();
    let expected =
        [("image", Kind::Image), ("label", Kind::Int), ("score", Kind::Float), ("path", Kind::Text)];
    assert_eq!(names(&*format), expected);
    assert_eq!(format.schema().classes.as_deref().unwrap(), ["cat", "dog"]);
    assert_eq!((format.int_value(0, 1), format.int_value(1, 1)), (Some(1), Some(0)));
    let mixed = opened("t.jsonl", "{\"img\": \"a.jpg\", \"mask\": \"b.png\", \"path\": \"x\"}\n").unwrap();
    let expected = [
        ("img", Kind::Image),
        ("mask", Kind::Image),
        ("path", Kind::Text),
        ("img.path", Kind::Text),
        ("mask.path", Kind::Text),
    ];
    assert_eq!(names(&*mixed), expected);
}

#[test]
fn errors_say_what_to_do() {
    for (table, words) in [
        ("a.jpg,0\nb.png,1\n", ["no column names", "'a.jpg' is a file"]),
        ("name,label\nx,1\n", ["no column holds paths", "name, label"]),
        ("path,label\n", ["no row", "path, label"]),
        ("path\nnone.jpg\nneither.jpg\n", ["none of the 2 files", "root="]),
    ] {
        let message = opened("t.csv", table).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
}

#[test]
fn a_missing_file_is_a_problem_and_a_bad_sample() {
    let (_folder, target) = place("t.csv", "path\na.jpg\ngone.jpg\n");
    let format = open(&target, &ReadingOptions::default()).unwrap();
    let problem = format.problems()[0].to_string();
    assert!(problem.contains("gone.jpg") && problem.contains("sample 1"), "{problem}");
    let mut buffer = SampleBuffer::new();
    assert!(format.read(0, &FieldSet::all(2), &mut buffer).is_ok());
    let error = format.read(1, &FieldSet::all(2), &mut buffer).unwrap_err().to_string();
    assert!(error.contains("gone.jpg"), "{error}");
    assert_eq!(format.byte_length(0, 0), None, "lengths are known of all or of none");
}

#[test]
fn paths_may_be_absolute_or_lead_to_parent_folders() {
    let (folder, _) = place("t.csv", "");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let absolute = folder.path().join("b.png").display().to_string();
    fs::write(inner.join("t.csv"), format!("path\n../a.jpg\n{absolute}\n./x/../../b.png\n")).unwrap();
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(&inner));
    let format =
        open(&Target::Objects(source, vec!["t.csv".to_owned()]), &ReadingOptions::default()).unwrap();
    let mut buffer = SampleBuffer::new();
    for (sample, expected) in ["a.jpg", "b.png", "b.png"].into_iter().enumerate() {
        format.read(sample as u64, &FieldSet::all(2), &mut buffer).unwrap();
        let Value::Image { bytes, .. } = buffer.value(0) else { panic!("an image expected") };
        assert_eq!(buffer.bytes(bytes), expected.as_bytes());
    }
}

#[test]
fn the_schema_decides_the_kinds() {
    let (_folder, target) = place("t.csv", "file,breed,label\na.jpg,x,1\nb.png,y,0\n");
    let open_with = |schema: &[(&str, Kind)]| {
        let schema: BTreeMap<String, Kind> =
            schema.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        open(&target, &ReadingOptions { schema, ..ReadingOptions::default() })
    };
    let classes = open_with(&[("breed", Kind::Int)]).unwrap();
    assert_eq!(classes.schema().classes.as_deref().unwrap(), ["x", "y"]);
    let message = open_with(&[("file", Kind::Text)]).unwrap_err().to_string();
    assert!(message.contains("no column holds paths"), "{message}");
    let message = open_with(&[("nobody", Kind::Text)]).unwrap_err().to_string();
    assert!(message.contains("no column 'nobody'"), "{message}");
    let message = open_with(&[("label", Kind::Image)]).unwrap_err().to_string();
    assert!(message.contains("none of the 2 files that column 'label' names"), "{message}");
}
