//! Files framed like those of MXNet's writer (`testdata/formats/recordio` has real ones), the conformance suite, and
//! corrupt files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::*;
use crate::format::conformance;
use crate::owned::{OwnedValue, Sample};
use crate::source::{LocalSource, MemorySource};

/// A record, split where it has the magic number at a multiple of 4, as dmlc's writer does.
fn framed(record: &[u8]) -> Vec<u8> {
    let mut pieces = vec![Vec::new()];
    for word in record.chunks(4) {
        if word == MAGIC {
            pieces.push(Vec::new());
        } else {
            pieces.last_mut().unwrap().extend_from_slice(word);
        }
    }
    let last = pieces.len() - 1;
    let mut out = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let part = match (number, last) {
            (_, 0) => 0u32,
            (0, _) => 1,
            (n, last) if n == last => 3,
            _ => 2,
        };
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(part << 29 | piece.len() as u32).to_le_bytes());
        out.extend_from_slice(piece);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn image_record(label: f32, several: &[f32], id: u64, image: &[u8]) -> Vec<u8> {
    let mut record = (several.len() as u32).to_le_bytes().to_vec();
    record.extend_from_slice(&label.to_le_bytes());
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&[0; 8]);
    for label in several {
        record.extend_from_slice(&label.to_le_bytes());
    }
    record.extend_from_slice(image);
    record
}

/// The file, and its index.
fn file(records: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let (mut file, mut index) = (Vec::new(), String::new());
    for (number, record) in records.iter().enumerate() {
        writeln!(index, "{number}\t{}", file.len()).unwrap();
        file.extend_from_slice(&framed(record));
    }
    (file, index.into_bytes())
}

struct Records(bool);

impl conformance::Subject for Records {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let record = |(n, (_, image)): (usize, &(String, Vec<u8>))| image_record(3.0, &[], n as u64, image);
        let records: Vec<Vec<u8>> = images.iter().enumerate().map(record).collect();
        let (file, index) = file(&records);
        fs::write(folder.join("a.rec"), file).unwrap();
        if self.0 {
            fs::write(folder.join("a.idx"), index).unwrap();
        }
    }

    fn open(&self, folder: &Path) -> Result<Arc<dyn Format>> {
        open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default())
    }

    fn protection(&self) -> conformance::Protection {
        conformance::Protection::Structure
    }
}

#[test]
fn conforms() {
    conformance::check(&Records(false));
}

#[test]
fn files_with_an_index_conform() {
    conformance::check(&Records(true));
}

fn open_files(files: Vec<(&str, Vec<u8>)>) -> Result<Arc<dyn Format>> {
    crate::format::open(
        &Target::Folder(Arc::new(MemorySource::new(files))),
        "auto",
        &ReadingOptions::default(),
    )
}

fn values(set: &dyn Format, sample: u64) -> Vec<OwnedValue> {
    let mut buffer = SampleBuffer::new();
    set.read(sample, &FieldSet::all(set.schema().fields.len()), &mut buffer).unwrap();
    let sample = Sample::from_buffer(set.schema(), &buffer, || set.locate(sample)).unwrap();
    sample.fields.into_iter().map(|(_, value)| value).collect()
}

#[test]
fn records_split_at_the_magic_number_are_joined() {
    let image = [&b"abcd"[..], &MAGIC, b"efgh", &MAGIC, &MAGIC, b"ij"].concat();
    let (bytes, index) = file(&[image_record(1.0, &[], 7, &image), image_record(2.0, &[], 8, b"x")]);
    for files in [vec![("a.rec", bytes.clone())], vec![("a.rec", bytes.clone()), ("a.idx", index)]] {
        let set = open_files(files).unwrap();
        assert_eq!((set.name(), set.len(), set.problems().len()), ("recordio", 2, 0));
        let expected = [OwnedValue::image(image.clone()), OwnedValue::Int(1), OwnedValue::Int(7)];
        assert_eq!(values(&*set, 0), expected);
        assert_eq!(values(&*set, 1)[0], OwnedValue::image(b"x".to_vec()));
    }
}

#[test]
fn labels_are_numbers_or_lists_and_tables_are_not_samples() {
    let set = open_files(vec![("a.rec", file(&[image_record(0.5, &[], 0, b"x")]).0)]).unwrap();
    assert_eq!(values(&*set, 0)[1], OwnedValue::Float(0.5));
    let table = image_record(0.0, &[10.0, 20.0], 0, b"");
    let boxes = image_record(0.0, &[1.0, 0.25, 0.75], 1, b"x");
    let (bytes, _) = file(&[table, boxes, image_record(4.0, &[], 2, b"y")]);
    let set = open_files(vec![("a.rec", bytes)]).unwrap();
    assert_eq!((set.len(), set.schema().fields[1].kind), (2, Kind::Array));
    assert!(set.problems()[0].to_string().contains("1 records have labels but no content"));
    let floats = |list: &[f32]| OwnedValue::Array {
        dtype: DType::F32,
        shape: vec![list.len() as u64],
        bytes: list.iter().flat_map(|f| f.to_le_bytes()).collect(),
    };
    assert_eq!(values(&*set, 0)[1], floats(&[1.0, 0.25, 0.75]));
    assert_eq!(values(&*set, 1)[1], floats(&[4.0]));
    let plain = open_files(vec![("a.rec", file(&[b"no header".to_vec()]).0)]).unwrap();
    assert_eq!(values(&*plain, 0), [OwnedValue::Bytes(b"no header".to_vec())]);
}

#[test]
fn an_index_that_does_not_match_is_reported_and_not_used() {
    let records: Vec<Vec<u8>> = (0..3).map(|n| image_record(n as f32, &[], n, b"image")).collect();
    let (bytes, index) = file(&records);
    let index = String::from_utf8(index).unwrap();
    let fewer = index.lines().take(2).collect::<Vec<_>>().join("\n");
    for wrong in
        [fewer, index.replace("\t40", "\t44"), "nonsense".to_owned(), index.replace("\t80", "\t1000000")]
    {
        let set = open_files(vec![("a.rec", bytes.clone()), ("a.idx", wrong.clone().into_bytes())]).unwrap();
        let reported = set.problems().iter().any(|p| p.to_string().contains("a.idx"));
        let refused = set.read(1, &FieldSet::all(3), &mut SampleBuffer::new()).is_err();
        assert!(set.len() == 3 && (reported || refused), "{wrong}");
    }
}

/// `testdata/formats/recordio/make.py` wrote them with MXNet; the third record is in two parts.
#[test]
fn recorded_files_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/recordio");
    let set = open(&Target::Folder(Arc::new(LocalSource::new(folder))), &ReadingOptions::default()).unwrap();
    assert_eq!(set.len(), 4);
    for sample in 0..4u8 {
        let found = values(&*set, u64::from(sample));
        let OwnedValue::Image { bytes, .. } = &found[0] else { panic!("an image") };
        assert!(bytes.starts_with(&[0xff, 0xd8]) && bytes.ends_with(&[0xff, 0xd9]));
        assert_eq!(found[1..], [OwnedValue::Int(i64::from(sample) % 3), OwnedValue::Int(i64::from(sample))]);
    }
}
