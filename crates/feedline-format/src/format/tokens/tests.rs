use std::fs;
use std::path::Path;

use super::super::wrap::{Windowed, Windows};
use super::*;
use crate::source::LocalSource;

fn target(folder: &Path, names: &[&str]) -> Target {
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(folder));
    Target::Objects(source, names.iter().map(|name| (*name).to_owned()).collect())
}

fn as_dtype(dtype: DType) -> ReadingOptions {
    ReadingOptions { dtype: Some(dtype), ..ReadingOptions::default() }
}

fn elements(format: &dyn Format, sample: u64) -> Vec<u64> {
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(1), &mut buffer).unwrap();
    let Value::Array { dtype, bytes, .. } = buffer.value(0) else { panic!("an array expected") };
    let wide = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    buffer.bytes(bytes).chunks(dtype.size()).map(wide).collect()
}

fn u16s(numbers: impl IntoIterator<Item = u16>) -> Vec<u8> {
    numbers.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// Megatron's index: tokens of every sequence, and the first sequence of every document with one bound more.
fn index(code: u8, each: u64, sizes: &[u32], bounds: &[u64]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend(1u64.to_le_bytes());
    file.push(code);
    file.extend((sizes.len() as u64).to_le_bytes());
    file.extend((bounds.len() as u64).to_le_bytes());
    file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
    let mut at = 0;
    for size in sizes {
        file.extend(u64::to_le_bytes(at));
        at += u64::from(*size) * each;
    }
    file.extend(bounds.iter().flat_map(|bound| bound.to_le_bytes()));
    file
}

#[test]
fn every_width_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for (dtype, most) in
        [(DType::U8, 0xff), (DType::U16, 0xffff), (DType::U32, 0xffff_ffff), (DType::U64, 1 << 60)]
    {
        let numbers = [0u64, 1, 7, most];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()[..dtype.size()].to_vec()).collect();
        fs::write(folder.path().join("x.bin"), bytes).unwrap();
        let format = open(&target(folder.path(), &["x.bin"]), &as_dtype(dtype)).unwrap();
        assert_eq!((format.len(), format.array_length(0, 0)), (1, Some((dtype, 4))));
        assert_eq!(elements(&*format, 0), numbers);
    }
}

#[test]
fn headers_are_skipped_and_give_the_type() {
    let folder = tempfile::tempdir().unwrap();
    let mut llm_c = vec![0; 1024];
    llm_c[..12].copy_from_slice(&[20_240_520u32, 1, 3].map(u32::to_le_bytes).concat());
    llm_c.extend(u16s([5, 6, 7]));
    fs::write(folder.path().join("a.bin"), &llm_c).unwrap();
    let mut npy = Vec::new();
    super::super::npy::write_header(DType::U16, &[2], &mut npy).unwrap();
    npy.extend(u16s([8, 9]));
    fs::write(folder.path().join("b.npy"), &npy).unwrap();
    let format = open(&target(folder.path(), &["a.bin", "b.npy"]), &ReadingOptions::default()).unwrap();
    assert_eq!((elements(&*format, 0), elements(&*format, 1)), (vec![5, 6, 7], vec![8, 9]));
    let message = open(&target(folder.path(), &["a.bin"]), &as_dtype(DType::U32)).unwrap_err().to_string();
    assert!(message.contains("uint32") && message.contains("uint16"), "{message}");
}

#[test]
fn megatrons_documents_are_samples() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.bin"), u16s(0..12)).unwrap();
    fs::write(folder.path().join("x.idx"), index(8, 2, &[3, 2, 0, 7], &[0, 2, 2, 4])).unwrap();
    let found = target(folder.path(), &["x.bin", "x.idx"]);
    assert!(recognises(&found).unwrap().is_some());
    let format = open(&found, &ReadingOptions::default()).unwrap();
    let expected: [Vec<u64>; 3] = [(0..5).collect(), vec![], (5..12).collect()];
    assert_eq!((0..format.len()).map(|n| elements(&*format, n)).collect::<Vec<_>>(), expected);
}

#[test]
fn wrong_indexes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.bin"), u16s(0..12)).unwrap();
    let whole = index(8, 2, &[3, 2, 7], &[0, 2, 3]);
    let open_with = |index: &[u8]| {
        fs::write(folder.path().join("x.idx"), index).unwrap();
        open(&target(folder.path(), &["x.bin"]), &ReadingOptions::default())
    };
    assert!(open_with(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(open_with(&whole[..length]).is_err(), "{length}");
    }
    // Every number of every table, made much too large.
    for at in (9..whole.len()).filter(|at| *at != 17) {
        let mut changed = whole.clone();
        changed[at] = 0xff;
        if let Ok(format) = open_with(&changed) {
            (0..format.len()).for_each(|n| assert!(elements(&*format, n).len() <= 12));
        }
    }
    for code in [0, 6, 7, 9] {
        assert!(open_with(&index(code, 2, &[3], &[0, 1])).is_err());
    }
}

#[test]
fn unclear_files_need_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.bin"), [1, 2, 3]).unwrap();
    let found = target(folder.path(), &["x.bin"]);
    assert!(open(&found, &ReadingOptions::default()).unwrap_err().to_string().contains("dtype"));
    assert!(open(&found, &as_dtype(DType::U16)).unwrap_err().to_string().contains("not a whole number"));
    assert!(open(&found, &as_dtype(DType::F32)).unwrap_err().to_string().contains("float32"));
    assert_eq!(recognises(&found).unwrap(), None);
}

#[test]
fn windows_equal_a_model() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.bin"), u16s(0..40)).unwrap();
    let sizes = [3, 0, 11, 1, 25];
    fs::write(folder.path().join("x.idx"), index(8, 2, &sizes, &[0, 1, 2, 3, 4, 5])).unwrap();
    let format = open(&target(folder.path(), &["x.bin"]), &ReadingOptions::default()).unwrap();
    for (length, stride) in [(1, 1), (4, 4), (5, 3), (12, 1), (40, 7), (3, 9)] {
        let all: Vec<u64> = (0..40).collect();
        let expected: Vec<&[u64]> = all.windows(length).step_by(stride).collect();
        let windows = Windows { length: length as u64, stride: stride as u64, across: true };
        let cut = Windowed::new(format.clone(), 0, windows).unwrap();
        assert_eq!((0..cut.len()).map(|n| elements(&cut, n)).collect::<Vec<_>>(), expected);
        let mut at = 0;
        let mut within = Vec::new();
        for size in sizes {
            within.extend(all[at..at + size as usize].windows(length).step_by(stride));
            at += size as usize;
        }
        let windows = Windows { across: false, ..windows };
        match Windowed::new(format.clone(), 0, windows) {
            Ok(cut) => assert_eq!((0..cut.len()).map(|n| elements(&cut, n)).collect::<Vec<_>>(), within),
            Err(error) => assert!(within.is_empty() && error.to_string().contains("no document"), "{error}"),
        }
    }
}

#[test]
fn a_trillion_tokens_are_opened_without_reading_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("x.bin")).unwrap();
    // Some file systems have no files of two terabytes; then a smaller one shows the same.
    let tokens =
        [1u64 << 40, 1 << 38, 1 << 34].into_iter().find(|tokens| file.set_len(tokens * 2).is_ok()).unwrap();
    let format = open(&target(folder.path(), &["x.bin"]), &as_dtype(DType::U16)).unwrap();
    let windows = Windows { length: 1025, stride: 1024, across: true };
    let cut = Windowed::new(format, 0, windows).unwrap();
    assert_eq!(cut.len(), (tokens - 1025) / 1024 + 1);
    assert_eq!(elements(&cut, cut.len() - 1), vec![0; 1025]);
    assert!(cut.read(cut.len(), &FieldSet::all(1), &mut SampleBuffer::new()).is_err());
}

#[test]
fn a_file_truncated_while_open_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.bin"), u16s(0..100)).unwrap();
    let format = open(&target(folder.path(), &["x.bin"]), &as_dtype(DType::U16)).unwrap();
    fs::write(folder.path().join("x.bin"), u16s(0..10)).unwrap();
    assert!(format.read(0, &FieldSet::all(1), &mut SampleBuffer::new()).is_err());
    assert!(format.read_elements(0, 0, 50, &mut [0; 8]).is_err());
}
