//! Environments by py-lmdb (`testdata/formats/lmdb`), the conformance suite, and corrupt files.

use std::fs;
use std::path::Path;

use super::*;
use crate::format::conformance;
use crate::owned::{OwnedValue, Sample};
use crate::source::{LocalSource, MemorySource};

/// Pages of the smallest size, so that the suite can change every byte.
const PAGE: usize = 512;

/// An environment of these keys and values, every value in overflow pages, leaves below one branch.
fn environment(values: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut pages: Vec<Vec<u8>> = vec![vec![0; PAGE]; 2];
    let mut leaves = Vec::new();
    for few in values.chunks(4) {
        let nodes: Vec<Vec<u8>> = few.iter().map(|(key, value)| big_node(&mut pages, key, value)).collect();
        leaves.push(tree_page(&mut pages, 2, &nodes));
    }
    let root = match leaves.as_slice() {
        [] => u64::MAX,
        [only] => *only,
        several => {
            let nodes: Vec<Vec<u8>> =
                several.iter().map(|page| [&(*page as u32).to_le_bytes()[..], &[0; 4]].concat()).collect();
            tree_page(&mut pages, 1, &nodes)
        }
    };
    let last = pages.len() as u64 - 1;
    for number in 0..2u64 {
        let meta = &mut pages[number as usize];
        meta[0] = number as u8;
        meta[10] = 8;
        meta[16..20].copy_from_slice(&0xbeef_c0de_u32.to_le_bytes());
        meta[20] = 1;
        meta[40..44].copy_from_slice(&(PAGE as u32).to_le_bytes());
        let (entries, root) = if number == 1 { (values.len() as u64, root) } else { (0, u64::MAX) };
        meta[120..128].copy_from_slice(&entries.to_le_bytes());
        meta[128..136].copy_from_slice(&root.to_le_bytes());
        meta[136..144].copy_from_slice(&last.to_le_bytes());
        meta[144..152].copy_from_slice(&number.to_le_bytes());
    }
    pages.concat()
}

fn big_node(pages: &mut Vec<Vec<u8>>, key: &[u8], value: &[u8]) -> Vec<u8> {
    let (number, count) = (pages.len(), (16 + value.len()).div_ceil(PAGE));
    let mut run =
        [&(number as u64).to_le_bytes()[..], &[0, 0, 4, 0], &(count as u32).to_le_bytes(), value].concat();
    run.resize(count * PAGE, 0);
    pages.extend(run.chunks(PAGE).map(<[u8]>::to_vec));
    let length = (value.len() as u32).to_le_bytes();
    let head = [&length[..], &[1, 0], &(key.len() as u16).to_le_bytes(), key].concat();
    [head, (number as u64).to_le_bytes().to_vec()].concat()
}

fn tree_page(pages: &mut Vec<Vec<u8>>, flags: u8, nodes: &[Vec<u8>]) -> u64 {
    let mut page = vec![0; PAGE];
    let lower = 16 + 2 * nodes.len();
    page[..8].copy_from_slice(&(pages.len() as u64).to_le_bytes());
    page[10] = flags;
    page[12..14].copy_from_slice(&(lower as u16).to_le_bytes());
    let mut at = PAGE;
    for (number, node) in nodes.iter().enumerate() {
        at = (at - node.len()) & !1;
        page[at..at + node.len()].copy_from_slice(node);
        page[16 + 2 * number..18 + 2 * number].copy_from_slice(&(at as u16).to_le_bytes());
    }
    pages.push(page);
    pages.len() as u64 - 1
}

fn datum(image: &[u8], label: u8) -> Vec<u8> {
    let mut message = vec![0x22];
    let mut length = image.len();
    while length > 127 {
        message.push(length as u8 | 128);
        length >>= 7;
    }
    message.push(length as u8);
    [&message[..], image, &[0x28, label, 0x38, 1]].concat()
}

struct Caffe;

impl conformance::Subject for Caffe {
    fn write(&self, folder: &Path, images: &[(String, Vec<u8>)]) {
        let values: Vec<_> =
            images.iter().map(|(name, image)| (name.clone().into_bytes(), datum(image, 3))).collect();
        fs::write(folder.join("data.mdb"), environment(&values)).unwrap();
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
    conformance::check(&Caffe);
}

fn recorded(name: &str) -> Arc<dyn Format> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/lmdb").join(name);
    let target = Target::Folder(Arc::new(LocalSource::new(folder)));
    crate::format::open(&target, "auto", &ReadingOptions::default()).unwrap()
}

fn values(set: &dyn Format, sample: u64) -> Vec<OwnedValue> {
    let mut buffer = SampleBuffer::new();
    set.read(sample, &FieldSet::all(set.schema().fields.len()), &mut buffer).unwrap();
    let sample = Sample::from_buffer(set.schema(), &buffer, || set.locate(sample)).unwrap();
    sample.fields.into_iter().map(|(_, value)| value).collect()
}

fn text(text: &str) -> OwnedValue {
    OwnedValue::Text(text.to_owned())
}

#[test]
fn caffe_environments_have_images_or_pixels_with_labels() {
    let jpeg =
        fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/formats/litdata/a.jpg")).unwrap();
    let set = recorded("caffe");
    assert_eq!((set.name(), set.len()), ("lmdb", 5));
    for number in 0..5 {
        let expected =
            [text(&format!("{number:08}")), OwnedValue::image(jpeg.clone()), OwnedValue::Int(number as i64)];
        assert_eq!(values(&*set, number), expected);
    }
    let set = recorded("pixels");
    let pixels = OwnedValue::Array { dtype: DType::U8, shape: vec![3, 2, 3], bytes: (2..20).collect() };
    assert_eq!(values(&*set, 2), [text("00000002"), pixels, OwnedValue::Int(2)]);
}

#[test]
fn plain_values_in_leaves_and_overflow_pages() {
    let set = recorded("files");
    assert_eq!((set.len(), set.schema().fields[CONTENT].kind), (3, Kind::Image));
    assert!(set.problems()[0].to_string().contains("__len__") && set.warnings().is_empty());
    let lengths = [0, 1, 2].map(|n| set.byte_length(n, CONTENT).unwrap());
    assert_eq!((lengths[0], lengths[1], lengths[2]), (lengths[0], lengths[0] + 5000, lengths[0]));
    let set = recorded("many");
    assert_eq!(set.len(), 1000);
    for number in [0, 999, 500, 1] {
        let expected =
            [text(&format!("{number:06}")), OwnedValue::Bytes(format!("value {number}").into_bytes())];
        assert_eq!(values(&*set, number), expected);
    }
}

#[test]
fn trees_with_cycles_are_refused() {
    let values: Vec<_> = (0..9u8).map(|n| (vec![b'a' + n], datum(b"x", n))).collect();
    let mut bytes = environment(&values);
    // The last page is the branch: its nodes point to itself.
    let branch = bytes.len() - PAGE;
    let number = (branch / PAGE) as u32;
    for node in 0..3 {
        let at = branch + 16 + 2 * node;
        let at = branch + usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    let target = Target::Folder(Arc::new(MemorySource::new([("data.mdb", bytes)])));
    let message = open(&target, &ReadingOptions::default()).unwrap_err().to_string();
    assert!(message.contains("itself"), "{message}");
}
