//! Finds the offsets of a TFRecord file's records: follows the lengths, each of which has a checksum.

use std::ops::Range;
use std::sync::Arc;

use feedline_pixels::checksum;

use crate::error::{Error, Location, Result};
use crate::source::{Object, Source};

/// A record's length and that length's checksum; the record's own checksum comes after it.
pub(super) const HEADER: u64 = 12;
pub(super) const FOOTER: u64 = 4;
/// Bytes read at a time while scanning; records shorter than this share a read.
const WINDOW: usize = 32 * 1024;
/// Maximum length of an index file.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// CRC-32C, rotated and shifted as TensorFlow stores it.
pub(super) fn masked_crc(bytes: &[u8]) -> u32 {
    checksum::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The record length in these 12 bytes, if their checksum is right.
pub(super) fn record_length(header: &[u8; HEADER as usize]) -> Option<u64> {
    let (length, crc) = header.split_at(8);
    let stored = u32::from_le_bytes(crc.try_into().expect("four bytes"));
    (masked_crc(length) == stored).then(|| u64::from_le_bytes(length.try_into().expect("eight bytes")))
}

/// Offsets of all records in `size` bytes, which `read` returns by offset.
pub(super) fn scan(
    size: u64,
    place: &dyn Fn(u64) -> Location,
    read: &dyn Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<Vec<u64>> {
    let mut starts = Vec::new();
    let mut window = vec![0; WINDOW];
    let mut held = 0..0;
    let mut at = 0;
    while at < size {
        let cut = |what: &str| Error::data(place(at), format!("{what} is cut off: the file is truncated"));
        if size - at < HEADER + FOOTER {
            return Err(cut("a record's header"));
        }
        if held.end < at + HEADER || held.start > at {
            held = at..size.min(at + WINDOW as u64);
            read(at, &mut window[..(held.end - held.start) as usize])?;
        }
        let from = (at - held.start) as usize;
        let header: &[u8; HEADER as usize] =
            window[from..from + HEADER as usize].try_into().expect("twelve bytes");
        let length = record_length(header).ok_or_else(|| {
            Error::data(
                place(at),
                "the record's length does not fit its checksum: damaged, or not a TFRecord file",
            )
        })?;
        let end = length.checked_add(at + HEADER + FOOTER).filter(|end| *end <= size);
        starts.push(at);
        at = end.ok_or_else(|| cut(&format!("a record of {length} bytes")))?;
    }
    Ok(starts)
}

/// Offsets of the records of an uncompressed file: from a DALI index beside it if one fits, otherwise by scanning.
pub(super) fn of_file(source: &dyn Source, name: &str, object: &Arc<dyn Object>) -> Result<Vec<u64>> {
    if let Some(starts) = beside(source, name, &**object) {
        return Ok(starts);
    }
    let place = |offset| Location::new(source.uri()).with_shard(name).with_offset(offset);
    scan(object.size(), &place, &|offset, into| object.read_at(offset, into))
}

/// The offsets that `tfrecord2idx` wrote, if they cover the file without gaps; a stale index is ignored.
fn beside(source: &dyn Source, name: &str, object: &dyn Object) -> Option<Vec<u64>> {
    let stem = name.strip_suffix(".tfrecord").or_else(|| name.strip_suffix(".tfrecords"));
    let candidates = [Some(format!("{name}.idx")), stem.map(|stem| format!("{stem}.idx"))];
    for candidate in candidates.into_iter().flatten() {
        let Ok(index) = source.open(&candidate) else { continue };
        if index.size() > MAX_INDEX_BYTES.min(object.size().saturating_mul(4)) {
            continue;
        }
        let mut text = vec![0; index.size() as usize];
        index.read_at(0, &mut text).ok()?;
        let starts = std::str::from_utf8(&text).ok().and_then(|text| parse(text, object.size()));
        if let Some(starts) = starts.filter(|starts| agrees(starts, object)) {
            return Some(starts);
        }
    }
    None
}

/// Parses lines of `offset length`; the length includes header and footer.
fn parse(text: &str, size: u64) -> Option<Vec<u64>> {
    let mut starts = Vec::new();
    let mut at = 0u64;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (offset, length) = line.trim().split_once(' ')?;
        let (offset, length) = (offset.parse::<u64>().ok()?, length.trim().parse::<u64>().ok()?);
        if offset != at || length < HEADER + FOOTER {
            return None;
        }
        starts.push(offset);
        at = offset.checked_add(length)?;
    }
    (at == size).then_some(starts)
}

/// Checks a few records; each is checked again when it is read.
fn agrees(starts: &[u64], object: &dyn Object) -> bool {
    let range = |n: usize| -> Range<u64> { starts[n]..starts.get(n + 1).copied().unwrap_or(object.size()) };
    let count = starts.len();
    [0, count / 3, count / 2, count.saturating_sub(1)].into_iter().filter(|n| *n < count).all(|n| {
        let mut header = [0; HEADER as usize];
        let record = range(n);
        object.read_at(record.start, &mut header).is_ok()
            && record_length(&header) == Some(record.end - record.start - HEADER - FOOTER)
    })
}

#[cfg(test)]
mod tests {
    use super::super::example::write::frame;
    use super::*;
    use crate::source::MemorySource;

    #[test]
    fn checksums_equal_tensorflows() {
        assert_eq!(checksum::crc32c(b"123456789"), 0xe306_9283);
        let expected = b"\x05\0\0\0\0\0\0\0\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19";
        assert_eq!(frame(b"hello"), expected);
    }

    fn starts(file: &[u8], index: Option<&str>) -> Result<Vec<u64>> {
        let mut objects = vec![("a.tfrecord", file.to_vec())];
        objects.extend(index.map(|text| ("a.idx", text.as_bytes().to_vec())));
        let source = MemorySource::new(objects);
        let object = source.open("a.tfrecord").unwrap();
        of_file(&source, "a.tfrecord", &object)
    }

    #[test]
    fn records_are_found_by_scanning_or_by_a_matching_index() {
        let file = [frame(b""), frame(&vec![7; 100_000]), frame(b"xyz")].concat();
        let expected = vec![0, 16, 100_032];
        assert_eq!(starts(&file, None).unwrap(), expected);
        assert_eq!(starts(&file, Some("0 16\n16 100016\n100032 19\n")).unwrap(), expected);
        // Stale, wrong or hostile indexes are ignored.
        for index in
            ["0 16\n16 100016\n", "0 20\n20 100012\n100032 19\n", "0 18446744073709551615", "x", "\u{e9}"]
        {
            assert_eq!(starts(&file, Some(index)).unwrap(), expected, "{index}");
        }
    }

    #[test]
    fn dalis_index_is_read() {
        let text = "0 171504\n171504 382183\n553687 97813\n";
        assert_eq!(parse(text, 651_500), Some(vec![0, 171_504, 553_687]));
    }

    #[test]
    fn errors_name_the_damaged_place() {
        let mut file = [frame(b"abc"), frame(b"def")].concat();
        for length in 1..file.len() {
            if length != 19 {
                assert!(
                    starts(&file[..length], None).unwrap_err().to_string().contains("truncated"),
                    "{length}"
                );
            }
        }
        file[20] ^= 1;
        let message = starts(&file, None).unwrap_err().to_string();
        assert!(message.contains("a.tfrecord") && message.contains("byte 19"), "{message}");
        let length = u64::MAX.to_le_bytes();
        let huge = [&length[..], &masked_crc(&length).to_le_bytes(), &[0; 100]].concat();
        assert!(starts(&huge, None).unwrap_err().to_string().contains("truncated"));
    }
}
