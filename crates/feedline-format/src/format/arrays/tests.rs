use std::fs;

use super::super::npy::write_header;
use super::*;
use crate::sample::{DType, Kind, Value};
use crate::source::LocalSource;

fn array(dtype: DType, sides: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    write_header(dtype, sides, &mut file).unwrap();
    file.extend_from_slice(bytes);
    file
}

fn open_file(name: &str, bytes: &[u8], options: &ReadingOptions) -> Result<Arc<dyn Format>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), bytes).unwrap();
    let source: Arc<dyn Source> = Arc::new(LocalSource::new(folder.path()));
    let target = Target::Objects(source, vec![name.to_owned()]);
    assert_eq!(recognises(&target).unwrap().as_deref(), Some("a NumPy file"));
    open(&target, options)
}

fn values(format: &dyn Format, sample: u64) -> Vec<Value> {
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(format.schema().fields.len()), &mut buffer).unwrap();
    buffer.values().to_vec()
}

fn row(format: &dyn Format, sample: u64) -> Vec<u8> {
    let mut buffer = SampleBuffer::new();
    format.read(sample, &FieldSet::all(1), &mut buffer).unwrap();
    match buffer.value(0) {
        Value::Array { bytes, .. } | Value::Image { bytes, .. } => buffer.bytes(bytes).to_vec(),
        other => panic!("bytes expected, not {other:?}"),
    }
}

#[test]
fn rows_are_samples() {
    let plain = ReadingOptions::default();
    let format =
        open_file("x.npy", &array(DType::U16, &[3, 2], &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]), &plain);
    let format = format.unwrap();
    assert_eq!((format.len(), format.schema().fields[0].kind), (3, Kind::Array));
    assert_eq!(row(&*format, 1), [3, 0, 4, 0]);
    assert!(format.read(3, &FieldSet::all(1), &mut SampleBuffer::new()).is_err());
    let labels = open_file("y.npy", &array(DType::I8, &[2], &[255, 7]), &plain).unwrap();
    assert_eq!((values(&*labels, 0), labels.int_value(1, 0)), (vec![Value::Int(-1)], Some(7)));
    let floats = open_file("z.npy", &array(DType::F32, &[1], &1.5f32.to_le_bytes()), &plain).unwrap();
    assert_eq!(values(&*floats, 0), [Value::Float(1.5)]);
}

#[test]
fn big_endian_rows_are_converted() {
    let mut file = array(DType::U16, &[2, 1], &[0, 1, 0, 2]);
    let at = file.iter().position(|byte| *byte == b'<').unwrap();
    file[at] = b'>';
    let format = open_file("x.npy", &file, &ReadingOptions::default()).unwrap();
    assert_eq!((row(&*format, 0), row(&*format, 1)), (vec![1, 0], vec![2, 0]));
}

#[test]
fn unsigned_64_bit_numbers_do_not_become_negative() {
    let bytes = [7u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    let format = open_file("x.npy", &array(DType::U64, &[2], &bytes), &ReadingOptions::default()).unwrap();
    assert_eq!((format.int_value(0, 0), format.int_value(1, 0)), (Some(7), None));
    let message = format.read(1, &FieldSet::all(1), &mut SampleBuffer::new()).unwrap_err().to_string();
    assert!(message.contains("sample 1") && message.contains("18446744073709551615"), "{message}");
}

#[test]
fn the_schema_makes_images() {
    let schema = [("array".to_owned(), Kind::Image)].into_iter().collect();
    let options = ReadingOptions { schema, ..ReadingOptions::default() };
    let pixels: Vec<u8> = (0..24).collect();
    let format = open_file("x.npy", &array(DType::U8, &[2, 2, 2, 3], &pixels), &options).unwrap();
    assert_eq!(row(&*format, 1), pixels[12..]);
    assert_eq!(format.image_meta(0, 0).unwrap().width, 2);
    let grey = open_file("x.npy", &array(DType::U8, &[1, 1, 2], &[7, 9]), &options).unwrap();
    assert_eq!(row(&*grey, 0), [7, 7, 7, 9, 9, 9]);
    let message =
        open_file("x.npy", &array(DType::F32, &[1, 1, 2], &[0; 8]), &options).unwrap_err().to_string();
    assert!(message.contains("float32") && message.contains("uint8"), "{message}");
}

#[test]
fn damage_and_columns_are_refused() {
    let plain = ReadingOptions::default();
    let whole = array(DType::U8, &[3, 2], &[1, 2, 3, 4, 5, 6]);
    for length in 6..whole.len() {
        assert!(open_file("x.npy", &whole[..length], &plain).is_err(), "{length}");
    }
    let text = String::from_utf8_lossy(&whole).replace("False", "True ");
    let columns = [&b"\x93NUMPY"[..], &whole[6..10], &text.as_bytes()[text.find('{').unwrap()..]].concat();
    let message = open_file("x.npy", &columns, &plain).unwrap_err().to_string();
    assert!(message.contains("column-major"), "{message}");
    let huge = array(DType::U8, &[1 << 62, 1 << 62], &[]);
    assert!(open_file("x.npy", &huge, &plain).is_err());
}
