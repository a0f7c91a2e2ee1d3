//! Writes a `.beton` in two steps: parts contain samples in order, and are then joined into the file, when the number
//! of samples and the largest of them (which decides the page size) are known.
//!
//! A part is: all payloads end to end; then all records, with pointers relative to the sample's own start; then the
//! length of each allocation. It is a temporary file of the export.

use std::io::{self, Read, Write};

use super::header::{
    ARGUMENTS, BetonHeader, DESCRIPTOR_LENGTH, FieldType, Layout, NAME_LENGTH, SHAPE_SLOTS, VERSION, u64_at,
};

/// FFCV refuses smaller pages.
pub(super) const LEAST_PAGE: u64 = 2 << 20;
/// The page size is a 32-bit number and a power of two.
pub(super) const LARGEST_PAGE: u64 = 1 << 31;

/// One field's value in its stored form.
pub(super) enum Cell<'a> {
    Int(i64),
    Float(f64),
    Image {
        mode: u8,
        width: u16,
        height: u16,
        bytes: &'a [u8],
    },
    Bytes(&'a [u8]),
    /// Without the NUL.
    Json(&'a [u8]),
    Array(&'a [u8]),
}

/// Writes a part.
pub(super) struct PartWriter<'a> {
    pub(super) layout: Layout,
    out: &'a mut dyn Write,
    records: Vec<u8>,
    lengths: Vec<u8>,
    summary: Summary,
}

/// What joining must know about a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Summary {
    pub(super) samples: u64,
    /// Payload bytes of all samples.
    pub(super) payload: u64,
    /// Payload bytes of the largest sample.
    pub(super) largest: u64,
}

impl<'a> PartWriter<'a> {
    pub(super) fn new(layout: Layout, out: &'a mut dyn Write) -> Self {
        let summary = Summary { samples: 0, payload: 0, largest: 0 };
        PartWriter { layout, out, records: Vec::new(), lengths: Vec::new(), summary }
    }

    /// Adds a sample: one cell per field.
    pub(super) fn add(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let record = self.records.len();
        self.records.resize(record + self.layout.record, 0);
        let mut length = 0u64;
        for (field, cell) in self.layout.fields.iter().zip(cells) {
            let (entry, _) = field.is.entry();
            let entry = &mut self.records[record + field.at..][..entry];
            let Some((bytes, ending)) = fill(entry, cell, length) else { continue };
            self.out.write_all(bytes)?;
            self.out.write_all(ending)?;
            let written = (bytes.len() + ending.len()) as u64;
            self.lengths.extend_from_slice(&written.to_le_bytes());
            length += written;
        }
        self.summary.samples += 1;
        self.summary.payload += length;
        self.summary.largest = self.summary.largest.max(length);
        Ok(())
    }

    /// Writes records and lengths after the payloads.
    pub(super) fn finish(self) -> io::Result<Summary> {
        self.out.write_all(&self.records)?;
        self.out.write_all(&self.lengths)?;
        Ok(self.summary)
    }
}

/// Fills a field's entry and returns the bytes that belong to the payload, which begins at `pointer`.
fn fill<'c>(entry: &mut [u8], cell: &Cell<'c>, pointer: u64) -> Option<(&'c [u8], &'static [u8])> {
    let mut sized = |bytes: &'c [u8], ending: &'static [u8]| {
        entry[..8].copy_from_slice(&pointer.to_le_bytes());
        entry[8..].copy_from_slice(&((bytes.len() + ending.len()) as u64).to_le_bytes());
        Some((bytes, ending))
    };
    match cell {
        Cell::Bytes(bytes) => sized(bytes, b""),
        Cell::Json(text) => sized(text, b"\0"),
        Cell::Int(value) => {
            entry.copy_from_slice(&value.to_le_bytes());
            None
        }
        Cell::Float(value) => {
            entry.copy_from_slice(&value.to_le_bytes());
            None
        }
        Cell::Array(bytes) => {
            entry.copy_from_slice(&pointer.to_le_bytes());
            Some((bytes, b""))
        }
        Cell::Image { mode, width, height, bytes } => {
            entry[0] = *mode;
            entry[1..3].copy_from_slice(&width.to_le_bytes());
            entry[3..5].copy_from_slice(&height.to_le_bytes());
            entry[5..].copy_from_slice(&pointer.to_le_bytes());
            Some((bytes, b""))
        }
    }
}

/// A part that can be read more than once.
pub(super) trait Part {
    fn summary(&self) -> Summary;
    /// Its bytes from `offset` on.
    fn read_from(&self, offset: u64) -> io::Result<Box<dyn Read + '_>>;
}

/// Writes the whole file from its parts, front to back. No page is smaller than `least_page`.
pub(super) fn join(
    layout: &Layout,
    parts: &[&dyn Part],
    least_page: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let samples = parts.iter().map(|p| p.summary().samples).sum();
    let largest = parts.iter().map(|p| p.summary().largest).max().unwrap_or(0);
    let page = largest.next_power_of_two().max(least_page).min(LARGEST_PAGE);
    let fields = layout.fields.len() as u16;
    let mut header =
        BetonHeader { version: VERSION, fields, page_size: page as u32, samples, allocations: 0 };
    let records_end = header.records_start() + samples * layout.record as u64;
    let data = records_end.next_multiple_of(page);
    let mut pages = Pages { page, at: data };
    each_sample(layout, parts, &mut |sample| {
        pages.place(sample.length);
        Ok(())
    })?;
    header.allocations = pages.end();
    out.write_all(&header.to_bytes())?;
    for field in &layout.fields {
        out.write_all(&descriptor(&field.name, &field.is))?;
    }
    let mut pages = Pages { page, at: data };
    each_sample(layout, parts, &mut |sample| {
        let start = pages.place(sample.length);
        shift_pointers(layout, sample.record, start);
        out.write_all(sample.record)
    })?;
    zeros(out, data - records_end)?;
    copy_payloads(layout, parts, Pages { page, at: data }, out)?;
    let (mut pages, mut number) = (Pages { page, at: data }, 0u64);
    each_sample(layout, parts, &mut |sample| {
        let mut pointer = pages.place(sample.length);
        for length in sample.lengths.chunks_exact(8).map(|word| u64_at(word, 0)) {
            for word in [number, pointer, length] {
                out.write_all(&word.to_le_bytes())?;
            }
            pointer += length;
        }
        number += 1;
        Ok(())
    })
}

/// Assigns an offset to each sample, all of it in one page.
struct Pages {
    page: u64,
    at: u64,
}

impl Pages {
    fn place(&mut self, length: u64) -> u64 {
        let left = self.end() - self.at;
        if length > left {
            self.at = self.end();
        }
        let start = self.at;
        self.at += length;
        start
    }

    /// The end of the last page begun.
    fn end(&self) -> u64 {
        self.at.next_multiple_of(self.page)
    }
}

/// One sample of a part, without its payload.
struct PlacedSample<'a> {
    record: &'a mut [u8],
    lengths: &'a [u8],
    /// Length of the payload.
    length: u64,
}

fn each_sample(
    layout: &Layout,
    parts: &[&dyn Part],
    take: &mut dyn FnMut(PlacedSample<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let pointers = layout.fields.iter().filter(|f| has_pointer(&f.is)).count();
    let (mut record, mut lengths) = (vec![0; layout.record], vec![0; pointers * 8]);
    for part in parts {
        let summary = part.summary();
        let mut records = part.read_from(summary.payload)?;
        let behind = summary.payload + summary.samples * layout.record as u64;
        let mut words = part.read_from(behind)?;
        for _ in 0..summary.samples {
            records.read_exact(&mut record)?;
            words.read_exact(&mut lengths)?;
            let length = lengths.chunks_exact(8).map(|word| u64_at(word, 0)).sum();
            take(PlacedSample { record: &mut record, lengths: &lengths, length })?;
        }
    }
    Ok(())
}

fn copy_payloads(
    layout: &Layout,
    parts: &[&dyn Part],
    mut pages: Pages,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut written = pages.at;
    for part in parts {
        let mut payload = part.read_from(0)?;
        each_sample(layout, &[*part], &mut |sample| {
            let start = pages.place(sample.length);
            zeros(out, start - written)?;
            let copied = io::copy(&mut payload.by_ref().take(sample.length), out)?;
            if copied != sample.length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            written = start + sample.length;
            Ok(())
        })?;
    }
    zeros(out, pages.end() - written)
}

fn zeros(out: &mut dyn Write, count: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(count), out).map(|_| ())
}

fn has_pointer(is: &FieldType) -> bool {
    !matches!(is, FieldType::Int | FieldType::Float)
}

/// Changes pointers from relative to the sample's start to relative to the file's.
fn shift_pointers(layout: &Layout, record: &mut [u8], start: u64) {
    for field in layout.fields.iter().filter(|f| has_pointer(&f.is)) {
        let at = field.at + if field.is == FieldType::Image { 5 } else { 0 };
        let pointer = u64_at(record, at) + start;
        record[at..at + 8].copy_from_slice(&pointer.to_le_bytes());
    }
}

/// The descriptor of a field: type, name and arguments.
fn descriptor(name: &str, is: &FieldType) -> [u8; DESCRIPTOR_LENGTH] {
    let mut bytes = [0; DESCRIPTOR_LENGTH];
    bytes[0] = match is {
        FieldType::Float => 0,
        FieldType::Int => 1,
        FieldType::Image => 2,
        FieldType::Bytes => 3,
        FieldType::Array { .. } => 4,
        FieldType::Json => 5,
    };
    debug_assert!(name.len() <= NAME_LENGTH, "checked before anything is written");
    bytes[1..=name.len()].copy_from_slice(name.as_bytes());
    if let FieldType::Array { dtype, shape, .. } = is {
        let arguments = &mut bytes[ARGUMENTS..];
        for (slot, side) in shape.iter().enumerate() {
            arguments[slot * 8..][..8].copy_from_slice(&side.to_le_bytes());
        }
        let text = format!(r#"[["", "{}"]]"#, dtype.numpy().expect("checked before anything is written"));
        arguments[SHAPE_SLOTS * 8..][..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
        arguments[SHAPE_SLOTS * 8 + 8..][..text.len()].copy_from_slice(text.as_bytes());
    }
    bytes
}
