//! The fixed start of a `.beton`: header, field descriptors, and the layout of a sample's record.

use crate::format::npy;
use crate::sample::{DType, Kind, MAX_DIMENSIONS, MAX_FIELDS};

/// Version, number of fields, page size, number of samples, offset of the allocation table.
pub(super) const HEADER_LENGTH: usize = 24;
/// One field's type, name and arguments.
pub(super) const DESCRIPTOR_LENGTH: usize = 1041;
/// Length of the name in a descriptor.
pub(super) const NAME_LENGTH: usize = 16;
/// Offset of the arguments in the descriptor.
pub(super) const ARGUMENTS: usize = 1 + NAME_LENGTH;
/// Length of the shape in an array field's arguments.
pub(super) const SHAPE_SLOTS: usize = 32;
/// One allocation: sample, pointer, length.
pub(super) const ALLOCATION_LENGTH: usize = 24;
/// The only version that FFCV's readers know.
pub(super) const VERSION: u16 = 2;

/// The first 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BetonHeader {
    pub(super) version: u16,
    pub(super) fields: u16,
    pub(super) page_size: u32,
    pub(super) samples: u64,
    /// Zero until the writer has finished.
    pub(super) allocations: u64,
}

impl BetonHeader {
    pub(super) fn parse(bytes: &[u8; HEADER_LENGTH]) -> Self {
        BetonHeader {
            version: u16::from_le_bytes([bytes[0], bytes[1]]),
            fields: u16::from_le_bytes([bytes[2], bytes[3]]),
            page_size: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            samples: u64_at(bytes, 8),
            allocations: u64_at(bytes, 16),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..2].copy_from_slice(&self.version.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.fields.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.samples.to_le_bytes());
        bytes[16..].copy_from_slice(&self.allocations.to_le_bytes());
        bytes
    }

    /// Offset of the samples' records.
    pub(super) fn records_start(&self) -> u64 {
        (HEADER_LENGTH + usize::from(self.fields) * DESCRIPTOR_LENGTH) as u64
    }

    /// Checks the header alone against a file of `size` bytes.
    pub(super) fn check(&self, size: u64) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} of the .beton layout is unknown, only 2 is", self.version));
        }
        if self.fields == 0 || usize::from(self.fields) > MAX_FIELDS {
            return Err(format!("{} fields; 1 to {MAX_FIELDS} are possible", self.fields));
        }
        if !self.page_size.is_power_of_two() {
            return Err(format!("a page of {} bytes is not a power of two", self.page_size));
        }
        if self.records_start() > size {
            return Err(format!("the file ends at byte {size}, inside the field descriptors"));
        }
        if self.allocations == 0 {
            return Ok(());
        }
        let table = size.checked_sub(self.allocations);
        match table {
            Some(length) if length % ALLOCATION_LENGTH as u64 == 0 => Ok(()),
            Some(length) => Err(format!("the allocation table is {length} bytes, no multiple of 24")),
            None => Err(format!(
                "the allocation table begins at byte {}, but the file ends at {size}: it is truncated",
                self.allocations
            )),
        }
    }
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldType {
    Float,
    Int,
    Image,
    Bytes,
    Json,
    Array { dtype: DType, shape: [u64; MAX_DIMENSIONS], dimensions: u8, length: u64 },
}

impl FieldType {
    pub(super) fn kind(&self) -> Kind {
        match self {
            FieldType::Float => Kind::Float,
            FieldType::Int => Kind::Int,
            FieldType::Image => Kind::Image,
            FieldType::Bytes => Kind::Bytes,
            FieldType::Json => Kind::Json,
            FieldType::Array { .. } => Kind::Array,
        }
    }

    /// Size and alignment in the record: FFCV's nested structs (13 and 16 bytes) are not aligned.
    pub(super) fn entry(&self) -> (usize, usize) {
        match self {
            FieldType::Float | FieldType::Int | FieldType::Array { .. } => (8, 8),
            FieldType::Image => (13, 1),
            FieldType::Bytes | FieldType::Json => (16, 1),
        }
    }
}

/// One field, with its offset in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) is: FieldType,
    pub(super) at: usize,
}

/// All fields, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) fields: Vec<Field>,
    pub(super) record: usize,
}

impl Layout {
    /// Lays fields out like numpy's aligned structs.
    pub(super) fn of(fields: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let (mut at, mut widest, mut placed) = (0usize, 1, Vec::new());
        for (name, is) in fields {
            let (length, alignment) = is.entry();
            at = at.next_multiple_of(alignment);
            widest = widest.max(alignment);
            placed.push(Field { name, is, at });
            at += length;
        }
        Layout { fields: placed, record: at.next_multiple_of(widest) }
    }

    /// Parses the descriptors; an error names the field.
    pub(super) fn parse(descriptors: &[u8]) -> Result<Self, String> {
        let mut fields: Vec<(String, FieldType)> = Vec::new();
        for descriptor in descriptors.chunks_exact(DESCRIPTOR_LENGTH) {
            let name = name_of(&descriptor[1..ARGUMENTS])?;
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(format!("two fields are called '{name}'"));
            }
            let is = type_of(descriptor[0], &descriptor[ARGUMENTS..])
                .map_err(|reason| format!("field '{name}': {reason}"))?;
            fields.push((name, is));
        }
        Ok(Layout::of(fields))
    }
}

fn name_of(bytes: &[u8]) -> Result<String, String> {
    let length = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let name = std::str::from_utf8(&bytes[..length]).map_err(|_| "a field's name is not text".to_owned())?;
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(format!("a field's name is {name:?}"));
    }
    Ok(name.to_owned())
}

fn type_of(id: u8, arguments: &[u8]) -> Result<FieldType, String> {
    Ok(match id {
        0 => FieldType::Float,
        1 => FieldType::Int,
        2 => FieldType::Image,
        3 => FieldType::Bytes,
        4 | 6 => array_of(arguments)?,
        5 => FieldType::Json,
        255 => {
            return Err(
                "it is of a custom type, whose layout only the Python class that wrote it knows; write \
                        the data set without it"
                    .to_owned(),
            );
        }
        other => return Err(format!("type {other} is unknown")),
    })
}

/// Shape (32 words, ended by zeros) and the element type as JSON, `[["", "<f4"]]`.
fn array_of(arguments: &[u8]) -> Result<FieldType, String> {
    let sides: Vec<u64> = (0..SHAPE_SLOTS).map(|slot| u64_at(arguments, slot * 8)).collect();
    let dimensions = sides.iter().rposition(|side| *side != 0).map_or(0, |last| last + 1);
    if dimensions > MAX_DIMENSIONS {
        return Err(format!("{dimensions} dimensions; at most {MAX_DIMENSIONS} are possible"));
    }
    let text_at = SHAPE_SLOTS * 8 + 8;
    let length = usize::try_from(u64_at(arguments, SHAPE_SLOTS * 8)).unwrap_or(usize::MAX);
    let text = arguments[text_at..].get(..length).ok_or("its element type is damaged")?;
    let pairs: Vec<Vec<serde_json::Value>> =
        serde_json::from_slice(text).map_err(|_| "its element type is damaged".to_owned())?;
    let [pair] = pairs.as_slice() else { return Err("structured arrays are not supported".to_owned()) };
    let [name, descr] = pair.as_slice() else { return Err("structured arrays are not supported".to_owned()) };
    if name != "" {
        return Err("structured arrays are not supported".to_owned());
    }
    let (dtype, false) = npy::element(descr.as_str().unwrap_or_default())? else {
        return Err("big-endian arrays are not supported".to_owned());
    };
    let mut shape = [0; MAX_DIMENSIONS];
    shape[..dimensions].copy_from_slice(&sides[..dimensions]);
    let length = shape[..dimensions].iter().try_fold(dtype.size() as u64, |n, side| n.checked_mul(*side));
    let length =
        length.ok_or_else(|| format!("an array of shape {:?} is not possible", &sides[..dimensions]))?;
    Ok(FieldType::Array { dtype, shape, dimensions: dimensions as u8, length })
}

/// The word at offset `at`, which must be inside.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array() -> FieldType {
        FieldType::Array { dtype: DType::F32, shape: [0; MAX_DIMENSIONS], dimensions: 0, length: 4 }
    }

    /// Offsets and sizes that numpy gave for FFCV's own record types.
    #[test]
    fn records_are_laid_out_as_numpy_does() {
        use FieldType::{Bytes, Float, Image, Int, Json};
        let cases: &[(&[FieldType], &[usize], usize)] = &[
            (&[Image, Int], &[0, 16], 24),
            (&[Int, Image], &[0, 8], 24),
            (&[Image, Bytes], &[0, 13], 29),
            (&[Image, Bytes, Int], &[0, 13, 32], 40),
            (&[Image], &[0], 13),
            (&[Bytes], &[0], 16),
            (&[Image, array(), Json, Float], &[0, 16, 24, 40], 48),
            (&[Image, Int, Float, Bytes, array(), Json, array()], &[0, 16, 24, 32, 48, 56, 72], 80),
        ];
        for (types, offsets, record) in cases {
            let layout = Layout::of(types.iter().map(|t| (String::new(), t.clone())));
            let found: Vec<usize> = layout.fields.iter().map(|f| f.at).collect();
            assert_eq!((&found[..], layout.record), (*offsets, *record));
        }
    }

    fn descriptor(id: u8, name: &str, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; DESCRIPTOR_LENGTH];
        bytes[0] = id;
        bytes[1..=name.len()].copy_from_slice(name.as_bytes());
        bytes[ARGUMENTS..ARGUMENTS + arguments.len()].copy_from_slice(arguments);
        bytes
    }

    fn arguments(shape: &[u64], descr: &str) -> Vec<u8> {
        let mut words = [0u64; SHAPE_SLOTS + 1];
        words[..shape.len()].copy_from_slice(shape);
        words[SHAPE_SLOTS] = descr.len() as u64;
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend_from_slice(descr.as_bytes());
        bytes
    }

    #[test]
    fn unsupported_fields_are_refused_by_name() {
        for (id, name, args, word) in [
            (255, "mine", vec![], "custom"),
            (9, "odd", vec![], "type 9"),
            (4, "big", arguments(&[u64::MAX, 2], r#"[["", "<f4"]]"#), "not possible"),
            (4, "deep", arguments(&[1; 9], r#"[["", "<f4"]]"#), "9 dimensions"),
            (4, "table", arguments(&[1], r#"[["a", "<f4"], ["b", "<i4"]]"#), "structured"),
            (6, "complex", arguments(&[1], r#"[["", "<c8"]]"#), "<c8"),
            (4, "swapped", arguments(&[1], r#"[["", ">f4"]]"#), "big-endian"),
            (4, "cut", arguments(&[1], r#"[["", "#), "damaged"),
        ] {
            let message = Layout::parse(&descriptor(id, name, &args)).unwrap_err();
            assert!(message.contains(name) && message.contains(word), "{message}");
        }
        let twice = [descriptor(0, "a", &[]), descriptor(1, "a", &[])].concat();
        assert!(Layout::parse(&twice).unwrap_err().contains("two fields"));
        let full = "sixteen-letters!";
        assert_eq!(Layout::parse(&descriptor(0, full, &[])).unwrap().fields[0].name, full);
    }

    #[test]
    fn headers_round_trip() {
        let header = BetonHeader { version: 2, fields: 3, page_size: 1 << 21, samples: 9, allocations: 77 };
        assert_eq!(BetonHeader::parse(&header.to_bytes()), header);
    }
}
